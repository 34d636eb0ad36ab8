"""The tool-integrated reasoning environment asks a question and offers search, browse and Python."""

import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from agent_envs.base.arguments import whole_numbers
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Answer, Call, Malformed
from agent_envs.core.env import Episode, Outcome, Task, TurnEnv
from agent_envs.envs.tool_reasoning import arguments as check
from agent_envs.envs.tool_reasoning.actions import BROWSE, PYTHON, SEARCH, Actions
from agent_envs.envs.tool_reasoning.calls import Bounds, Calls, ToolReasoningState, as_messages, search_pages
from agent_envs.envs.tool_reasoning.content import ToolReasoningData
from agent_envs.envs.tool_reasoning.observations import framed
from agent_envs.envs.tool_reasoning.scoring import ended, final_answer, make_reward, worked_out
from agent_envs.envs.tool_reasoning.tasks import ReasoningSource, make_source
from agent_envs.envs.tool_reasoning.toolbox import Toolbox, ToolSettings
from agent_envs.grading.dressed_numbers import plain_boxes, undressed
from agent_envs.services.chat import ChatModel
from agent_envs.services.chat.named import judge_model
from agent_envs.services.recording import Recording
from agent_envs.tools.retrieval.build import is_outside
from agent_envs.tools.sandbox import LANGUAGE

_PROMPTS = {
    "tags": files(__package__).joinpath("prompt.md").read_text(encoding="utf-8"),
    "json": files(__package__).joinpath("prompt_json.md").read_text(encoding="utf-8"),
}
_EXAMPLES = {
    SEARCH: '{"name": "search", "arguments": {"query": "height of the tower of Pisa"}}',
    BROWSE: '{"name": "browse", "arguments": {"document": "w-0012"}}',
    PYTHON: '{"name": "python", "arguments": {"code": "print(2 ** 10)"}}',
}


class ToolReasoning(TurnEnv):
    r"""Answer a question with a search engine, a browser and a Python interpreter.

    Description:
        The setting of ARPO (arXiv 2507.19849): reasoning that calls tools between turns of thought, in tags, with the answer
        in a box. Search runs over a corpus, a server or the web; browse opens a page; python keeps its names from program to
        program, in a sandbox. One turn is one generation of the policy.

    Task sources:
        `tasks="math_world"` (default): generated problems over generated worlds, with exact answers: of five tasks two need a
        program, one a search, two both, in five levels. Published sets by name: gsm8k, math, math500, aime24, aime25,
        webwalkerqa, gaia, hle, xbench, and the question sets of SearchQA; see docs/data.md for what is fetched and what you
        bring (`path`). Where a set has no documents, `retriever` names a server or a search of the web.

    Action:
        Text. `protocol="tags"`: `<search>query</search>`, `<browse>ID</browse>` (or `ID [page 2]`),
        `<python>program</python>`, or `<answer>\boxed{text}</answer>`; the first complete tag counts, an unclosed last tag
        counts as closed. `protocol="json"`: tool calls in `<tool_call>` tags, up to 8 a turn, carried out in order;
        `<answer>` before any call, or a `\boxed{}` in a turn without a call, is the answer. What is judged is the last box of
        the answer, or the whole answer where it has none.

    Observation:
        What a tool brings, between `<result>` tags (`json`: one tool message a call). A search shows IDs, titles and extracts
        of at most 1,000 characters; a page is cut at `page_tokens`, and names its first 20 links; with a `reader`, a chat
        model's summary of it stands there. A program shows what it printed, the value of its last expression and its error,
        each cut at `output_chars`. The sandbox shows no time, path, address or process number; a program in `bwrap` that asks
        for addresses gets them (`id`). A call that cannot be carried out, one over its tool's limit, and any call in the last
        turn, are explained. So is a turn without an action.

    Tools:
        `search(query)`, `browse(document, page)` and `python(code)`; `tools` chooses among them. A document of the corpus is
        all neighbouring passages of one title. Typed results carry the IDs of what was found or opened; of programs their
        status, and the sandbox with its version.

    Reward:
        Only in the last turn. `hierarchical` (default) is Equation 8 of the paper: -1 for a broken format (no answer, no box,
        a turn without an action, think tags that do not pair up); else 1 for a right answer and 0 for a wrong one, and 0.1
        more for a right one when a search and a program were carried out. `hierarchical_released` is what the release computes:
        word overlap of the box with the gold in place of right and wrong, also for mathematics; the bonus is paid where
        `</search>` and `</python>` stand anywhere in the text, and for a partial overlap too; `<think>` is demanded, and
        closing tags; so in `json` no bonus can be had. `accuracy`: 1 for a right answer. `em`, `f1`: exact match and word
        overlap after SQuAD's normalisation. That drops punctuation: for these two and the release, -3 is 3.

        An answer is right if it equals a gold answer as mathematics (exactly: 0.5 is 1/2, 3.14 is not pi) or as words, of
        which punctuation is no part where mathematics does not read it. `equality="math_verify"` asks that package instead,
        inside the bubblewrap sandbox, and `either` asks it what is not exactly equal; both need it. Of 139 equal pairs in
        math-verify's own tests ours finds 109 (78 %), that package 121; of 29 unequal ones neither finds any equal. That ours
        finds 429 of 429 pairs of its own table says less (docs/log.md). In `math_world` a number must be worked out: 2*3 is no
        answer where 6 is one. An answer of more than 10,000 characters is none.

    Episode end:
        Terminated by an answer; success is a right one. Truncated after `max_generations` turns.

    Info:
        The common keys; no others.

    Arguments:
        tasks: `math_world`, or a published set's name.
        path: a file of that set, in place of the fetched one; gaia, hle and xbench are read from there only.
        corpus: of published sets, what is searched: a name or a file; None for nothing; `auto`.
        needs: of math_world, keep tasks that need `python`, `search` or `both`.
        levels: keep these levels.
        world: of math_world, what its worlds are like: `passages`, `distractors`, `paraphrase`, `vocabulary`, `short`, as in
            `agent_envs.datasets.world.WorldConfig`.
        tools: which of `search`, `browse`, `python` are offered; `auto` is all, and `python` alone where there is nothing to
            search.
        retriever: what searches, as in SearchQA; or the web: `serper`, `brave` (keys in SERPER_API_KEY, BRAVE_API_KEY) or
            `searxng@URL`.
        browse: `corpus`, `web` (public addresses only), or `auto`: what was searched.
        private_hosts: hosts (`HOST` or `HOST:PORT`) that may be opened although their addresses are not public.
        reader: a chat model that sums pages up, "" for none.
        sandbox: `monty` (a subset of Python, in process-separate Rust) or `bwrap` (CPython, numpy and sympy in bubblewrap, on
            Linux).
        equality: `exact`, `math_verify` or `either` of them.
        protocol: `tags` or `json`.
        reward: `hierarchical`, `hierarchical_released`, `accuracy`, `em` or `f1`.
        max_generations: turns in an episode, 1 to 1,000.
        max_searches: searches that are carried out, 0 to 1,000.
        max_browses: pages that are opened, 0 to 1,000.
        max_programs: programs that are run, 0 to 1,000.
        top_k: pages a search, 1 to 100; the web gives at most 20.
        page_tokens: cut of a page, a token counted as 4 characters, 50 to 100,000; the paper's 6,000.
        output_chars: cut of what a program prints, 100 to 100,000.
        cpu_seconds: processor time of a program, above 0 to 600.
        examples: worked turns before the task, 0 to 2, by the solver on a task that is in no split.
        thoughts: `skip` (default): text inside `<think>...</think>` is no action; `count`: it is read like any other.
        strict: refuse what models write in another form than the prompt's and which is read otherwise, an event each.

    Version history:
        v0: first version.
    """

    answer_tags = ("<answer>", "</answer>")
    example_is_long = True
    outside_arguments = ("tasks", "path", "corpus", "needs", "levels", "retriever", "browse", "reader")
    source: ReasoningSource

    def __init__(
        self,
        *,
        tasks: str = "math_world",
        path: str = "",
        corpus: str | None = "auto",
        needs: Sequence[str] = (),
        levels: Sequence[int | str] = (),
        world: dict[str, Any] | None = None,
        tools: Sequence[str] | str = "auto",
        retriever: str = "bm25",
        browse: str = "auto",
        private_hosts: Sequence[str] = (),
        reader: str | ChatModel = "",
        sandbox: str = "monty",
        equality: str = "exact",
        protocol: str = "tags",
        reward: str = "hierarchical",
        max_generations: int = 12,
        max_searches: int = 10,
        max_browses: int = 5,
        max_programs: int = 5,
        top_k: int = 3,
        page_tokens: int = 6000,
        output_chars: int = 4000,
        cpu_seconds: float = 5.0,
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the source, the tools, the reward and the limits; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range, or means nothing beside another; the message names it.
            DataMissing: the tasks or their documents are not on this machine.
            MissingExtra: a service needs a package that is not installed.

        What only a live run needs (the sandbox, keys) the first reset misses, because a replay does without it.
        """
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        check.check_names(protocol=protocol, sandbox=sandbox, equality=equality, browse=browse)
        check.check_retriever(retriever)
        whole_numbers(
            "ToolReasoning",
            max_generations=(max_generations, 1, 1000),
            max_searches=(max_searches, 0, 1000),
            max_browses=(max_browses, 0, 1000),
            max_programs=(max_programs, 0, 1000),
            top_k=(top_k, 1, 100),
            page_tokens=(page_tokens, 50, 100_000),
            output_chars=(output_chars, 100, 100_000),
        )
        limits = check.program_limits(cpu_seconds, output_chars)
        need_names = check.texts("needs", needs)
        self.source = make_source(tasks, needs=need_names, levels=levels, corpus=corpus, path=path, world=world)
        here = self.source.corpus(self.source.get(self.source.splits[0], 0)) is not None
        self.offered = check.offered_tools(tools, here or is_outside(retriever))
        place = check.where_to_browse(browse, self.offered, retriever, here)
        self.max_turns, self.top_k = max_generations, top_k
        most = {SEARCH: max_searches, BROWSE: max_browses, PYTHON: max_programs}
        self.calls = Calls(self.source, Bounds(most, top_k, page_tokens, output_chars, place))
        self.actions = Actions(protocol, self.offered)
        self.tools, self.stop = self.actions.schemas, self.actions.stop
        self.written = None if self.tools else self.actions.tags
        self._prompt = self._fill_prompt(protocol, sandbox)
        if self.offered:
            (text,) = json.loads(_EXAMPLES[self.offered[0]])["arguments"].values()
            self.example_turn = self.actions.rendered(self.offered[0], text)
        self.reward_spec = make_reward(reward)
        hosts = check.hosts(private_hosts)
        reading = judge_model("ToolReasoning", reader, "reader")
        self._settings = ToolSettings(self.offered, retriever, place, hosts, reading, sandbox, limits, equality)
        self._toolbox: tuple[str, Recording | None, Toolbox] | None = None

    def _fill_prompt(self, protocol: str, sandbox: str) -> tuple[str, str]:
        """Return the prompt before and after the question; a line marked @TOOL stays only where that tool is offered."""
        lines = []
        for line in _PROMPTS[protocol].strip().splitlines():
            tool, _, rest = line.partition(" ")
            if not line.startswith("@"):
                lines.append(line)
            elif tool[1:] in self.offered:
                lines.append(rest)
        most = self.calls.bounds.most
        filled = Template("\n".join(lines)).safe_substitute(
            max_searches=most[SEARCH],
            max_browses=most[BROWSE],
            max_programs=most[PYTHON],
            top_k=self.top_k,
            max_generations=self.max_turns,
            language=LANGUAGE[sandbox],
            example=_EXAMPLES[self.offered[0]] if self.offered else "",
        )
        before, _, after = filled.partition("$question")
        return before, after

    def _begin(self, task: Task, key: str) -> tuple[ToolReasoningState, tuple[Message, ...]]:
        """Return an empty state and the prompt, with the document where the way starts if the task names one."""
        self.toolbox(task)
        before, after = self._prompt
        start = task.data.start if isinstance(task.data, ToolReasoningData) else ""
        after = f"\nThe way to the answer starts at {start}{after}" if start else after
        return ToolReasoningState(), (Message("user", f"{before}{task.question}{after}", "environment"),)

    def restate(self, episode: Episode) -> str:
        """Return the question."""
        return f"Question: {episode.task.question}"

    def _tolerate(self, episode: Episode, text: str) -> tuple[str, tuple[str, ...]]:
        """Read boxes in other forms too, in turns that call no tool."""
        text, events = super()._tolerate(episode, text)
        if "\\" not in text or isinstance(self.actions.read(text)[0], Call):
            return text, events
        text, boxes = plain_boxes(text)
        return text, events + boxes

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Play a turn: an answer is judged and ends the episode, calls are carried out, a malformed turn gets the reason."""
        parsed, wishes = self.actions.read(action)
        if isinstance(parsed, Answer):
            task = episode.task
            answer, notes = undressed(final_answer(parsed.text), () if self.strict else task.gold)
            generated = isinstance(task.data, ToolReasoningData) and task.data.source == "math_world"
            right = self.toolbox(task).equal(answer, task.gold) and (not generated or worked_out(answer, task.gold))
            result = ended("right" if right else "wrong")
            return Outcome(episode.state, parsed, (), (result,), notes, terminated=True, success=right)
        last = len(episode.turns) + 1 >= self.max_turns
        state, results = self.calls.carried_out(episode, wishes, self.toolbox(episode.task), last)
        events = [f"{result.name} refused: {result.content}" for result in results if result.error]
        messages = as_messages(results, self.actions.protocol)
        if not wishes:
            reason = parsed.reason if isinstance(parsed, Malformed) else "no action found"
            events.append(f"malformed: {reason}")
            messages = [Message("user", f"\n{self.teach(episode, reason)}\n", "environment")]
        if last:
            results.append(ended("out of turns"))
        return Outcome(state, parsed, tuple(messages), tuple(results), tuple(events))

    @property
    def waits(self) -> bool:
        """Whether a step may wait for an outside service, or for a program in the sandbox."""
        return PYTHON in self.offered or super().waits

    @property
    def live_service(self) -> str:
        """The outside service that the next turn may call: a search first, then web or reader; "" for none, or in a replay."""
        if self.services.replayed:
            return ""
        settings = self._settings
        if SEARCH in self.offered and is_outside(settings.retriever):
            return settings.retriever
        place = self.calls.bounds.browse
        if place == "web":
            return "the web"
        return settings.reader.name if place and settings.reader is not None else ""

    def toolbox(self, task: Task) -> Toolbox:
        """Return the retriever, page reader and sandbox of a task's tools, kept until corpus or recording changes."""
        corpus, recording = self.source.corpus(task), self.services.recording
        digest = "" if corpus is None else corpus.digest
        cache_entry = self._toolbox
        if cache_entry is None or cache_entry[0] != digest or cache_entry[1] is not recording:
            # Rebound as a whole, so that a fork, which shares it until then, is never touched.
            cache_entry = self._toolbox = (digest, recording, Toolbox(self._settings, corpus, recording))
        return cache_entry[2]


def first_look(env: TurnEnv) -> tuple[Message, ...]:
    """Return a message with the hits for the question itself, for a policy without a free turn; () without search."""
    core = env.unwrapped
    assert isinstance(core, ToolReasoning)
    if SEARCH not in core.offered:
        return ()
    task = core.episode.task
    text, _ = search_pages(core.toolbox(task), task, task.question, core.top_k, core.episode.key)
    return (Message("user", framed(text), "tool"),)
