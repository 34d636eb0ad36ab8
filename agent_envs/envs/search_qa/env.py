"""`SearchQA` is the environment in which a policy answers a question by searching a corpus of passages."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from string import Template
from typing import Any

from agent_envs.base.arguments import choice, whole_numbers
from agent_envs.base.documents import Hit, Retriever
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Answer, Call, Malformed, TagProtocol
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Episode, Outcome, Task, TurnEnv
from agent_envs.datasets.world import WorldConfig
from agent_envs.envs.search_qa.scoring import make_reward
from agent_envs.envs.search_qa.tasks import QuestionSource, Scenario, WorldSource, published
from agent_envs.grading.dressed_numbers import undressed
from agent_envs.grading.text_answers import exact_match, same_answer
from agent_envs.tools.native_tags import PROTOCOLS, NativeTags, replied
from agent_envs.tools.retrieval import build
from agent_envs.tools.web import WEB_FORMS

_OPENING, _CLOSING = "<information>", "</information>"
FORMATS = ("search_r1", "skyrl_json")
_PROMPTS = {
    protocol: Template(files(__package__).joinpath(file).read_text(encoding="utf-8").strip())
    for protocol, file in (("tags", "prompt.md"), ("json", "prompt_json.md"))
}
_PROTOCOL = TagProtocol(
    tools={"search": ("search", "query")},
    about={"search": "Look a query up in a collection of short documents; the best come back."},
)
NATIVE = NativeTags(_PROTOCOL)
_CANONICAL = json.JSONDecoder()  # reads canonical text three times as fast as `json.loads`, which looks for white space
_UNANSWERABLE = " Where the documents do not hold the answer, answer "
# How to answer when no search is left, what to do about an empty query, and how to abstain.
_WORDS = {
    "tags": (
        "answer with <answer>your answer</answer>",
        "write what to look for between <search> and </search>",
        "<answer> unknown </answer>.",
    ),
    "json": ("call answer", "say what to look for", "unknown."),
}


@state_type
@dataclass(frozen=True, slots=True)
class SearchState:
    """The count of searches that were carried out."""

    searches: int = 0


class SearchQA(TurnEnv):
    """Answer a question by searching a corpus of passages.

    Description:
        The agentic search setting of Search-R1 (arXiv 2503.09516), on which VEG (verbal epsilon-greedy) is trained and
        tested. The policy thinks, searches, reads what came back, and answers. One turn is one generation of the policy.

    Task sources:
        `tasks="world"` (default) asks about generated worlds of people, places, works and organisations: nothing to
        download, unlimited, and unseen by any model; train, dev and test worlds are disjoint. `nq`, `triviaqa`, `popqa`,
        `hotpotqa`, `2wiki`, `musique`, `bamboogle` and the papers' training mixture `nq+hotpotqa` are read from the folder
        that `AGENT_ENVS_DATA` names, or from what `agent-envs data get` fetched. A path to a file of questions works too.
        Scores hold for one corpus only: its sha256 is part of every task's identity; where a server searches a corpus of its
        own, the identity says that it is outside, and no passage is read on this machine.

    Action:
        Text. `<search>query</search>` or `<answer>text</answer>`; the first complete tag counts, an unclosed last tag counts
        as closed, everything else is free. `info["stop"]` holds the stop strings. `protocol="json"`: native calls of the tools
        in `info["tools"]`, `search(query)` and `answer(text)`, one a turn; its prompt speaks of no tags.

    Observation:
        After a search, the passages between `<information>` tags, as `search_r1` (raw text, default) or `skyrl_json` (a
        JSON text); natively, in a tool message without tags. A turn without an action gets a text that says what to write.
        Bodies are cut at `max_observation_chars` characters, and say so. Under `ForcedAnswer(env, free_turns=0)` what a search
        for the question brings stands behind it.

        Deviations from the releases: the prompt and the explaining texts are in our own words; a turn without an action is
        explained in both formats (SkyRL sends an empty block); an empty query is explained and not searched; a search that
        finds nothing says so; bodies are cut by characters, not tokens.

    Tools:
        `search(query)`, through the tag. The results' passage ids are typed results of the turn.

    Reward:
        `em` (default): 1 for an exact match after normalisation, a number by its value (`€20`, `**20**`, `20 USD`).
        `exact`: by its text, as in the papers. `em_format`: every outcome of Search-R1 v0.3 (correct 1, or
        0.8 in a broken format; wrong 0.2 in a sound format, else 0.1; none 0), with the released rule `retrieval_score`
        switched off by default; it reads tags, and is refused without. `f1`: word overlap. Only text that the policy wrote
        counts: a gold answer in a retrieved passage earns nothing.

    Episode end:
        Terminated by an answer. Truncated, with reward 0, after `max_generations` turns without one. A search beyond
        `max_searches`, or in the last turn, is not carried out and explained. Papers count differently: SkyRL's and VEG's
        "n turns" are max_generations=n, max_searches=n-1; Search-R1's max_turns=B is max_generations=B+1, max_searches=B.

    Info:
        The common keys; no others.

    Arguments:
        tasks: `world`, a data set's name, or a file.
        retriever: `bm25` (default); `bm25_okapi`, `rank_bm25` or `tantivy`; `static`, `minilm-faiss`, `dense:MODEL` or
            `hybrid` (see docs/retrieval.md); an ablation: `random`, `empty`, `oracle` (the
            supporting passages first); or a server: `search_r1@URL` or `skyrl@URL`, asked as Search-R1's and SkyRL's clients
            ask (a URL without a path gets `/retrieve`, AGENT_ENVS_RETRIEVER_TOKEN holds its token, if it has one). A server
            that fails is an EnvFault and no reward. `agent-envs serve-retriever` is such a server. Or the web: `serper`,
            `brave`, `searxng@URL` (see docs/web.md).
        reward: `em`, `exact`, `em_format` or `f1`.
        observation_format: `search_r1` or `skyrl_json`.
        protocol: `tags` or `json`.
        max_generations: turns in an episode, >= 1.
        max_searches: searches that are carried out, >= 0.
        top_k: passages a search, 1 to 100.
        max_observation_chars: cut of an observation's body, >= 1.
        retrieval_score: bonus of the released rule in `em_format`, 0 to 0.8.
        world: knobs of the generated worlds, see `agent_envs.datasets.world.WorldConfig`.
        corpus: of published questions: `auto`, a name, or a file. A server has its own: then `auto`.
        examples: worked turns before the task, 0 to 2, by the solver on a task that is in no split.
        thoughts: `skip` (default): text inside `<think>...</think>` is no action; `count`: it is read like any other.
        strict: refuse what models write in another form than the prompt's and which is read otherwise, an event each.

    Version history:
        v0: first version.
    """

    answer_tags = ("<answer>", "</answer>")
    outside_arguments = ("tasks", "corpus", "retriever")
    source: QuestionSource

    def __init__(
        self,
        *,
        tasks: str = "world",
        retriever: str = "bm25",
        reward: str = "em",
        observation_format: str = "search_r1",
        protocol: str = "tags",
        max_generations: int = 6,
        max_searches: int = 5,
        top_k: int = 3,
        max_observation_chars: int = 2000,
        retrieval_score: float = 0.0,
        world: dict[str, Any] | None = None,
        corpus: str = "auto",
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up source, reward and limits; UsageError for an argument out of its range or without meaning."""
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        choice("SearchQA", "observation_format", observation_format, FORMATS)
        self._native = choice("SearchQA", "protocol", protocol, PROTOCOLS) == "json"
        if self._native and reward == "em_format":
            raise UsageError('SearchQA: reward="em_format" reads tags, of which protocol="json" has none; take another')
        remote = build.is_outside(retriever)
        if not remote and not (isinstance(retriever, str) and build.is_retriever(retriever)):
            names = ", ".join((*build.RETRIEVERS, *build.MODEL_FORMS, *build.REMOTE_FORMS, *WEB_FORMS))
            raise UsageError(f"SearchQA: retriever={retriever!r}; the retrievers are {names}")
        whole_numbers(
            "SearchQA",
            max_generations=(max_generations, 1, None),
            max_searches=(max_searches, 0, None),
            top_k=(top_k, 1, 100),
            max_observation_chars=(max_observation_chars, 1, None),
        )
        self.source = _source(tasks, world, corpus, remote)
        self.max_turns, self.max_searches, self.top_k = max_generations, max_searches, top_k
        if self._native:
            self.tools = NATIVE.schemas
        else:
            self.stop, self.written = _PROTOCOL.stop, _PROTOCOL
        self._words = _WORDS[protocol]
        self.example_turn = self.spoken("<search>who painted the ceiling of the old town hall</search>")
        before, _, after = (
            _PROMPTS[protocol]
            .safe_substitute(
                max_searches=max_searches,
                max_generations=max_generations,
                unanswerable="" if self.source.answerable else _UNANSWERABLE + self._words[2],
            )
            .partition("$question")
        )
        self._prompt = (before, after)
        self._format, self._cut = observation_format, max_observation_chars
        self._retriever_name = retriever
        self._remote = remote
        self._built: build.Built | None = None
        self._equal = exact_match if strict or reward == "exact" else same_answer
        self.reward_spec = make_reward(reward, retrieval_score, self._equal)

    def _begin(self, task: Task, key: str) -> tuple[SearchState, tuple[Message, ...]]:
        """Build the retriever over the task's corpus where it is not yet, and return the first state and the prompt."""
        self._retriever_of(task)
        before, after = self._prompt
        return SearchState(), (Message("user", f"{before}{task.question}{after}", "environment"),)

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Play a turn: an answer is judged and ends the episode, a search is carried out, a malformed turn gets the reason."""
        parsed = (NATIVE if self._native else _PROTOCOL).parse(action)
        if isinstance(parsed, Answer):
            success = self._equal(parsed.text, episode.task.gold)
            read_as = () if self._equal is exact_match else undressed(parsed.text, episode.task.gold)[1]
            return Outcome(episode.state, parsed, events=read_as, terminated=True, success=success)
        if isinstance(parsed, Call):
            return self._search(episode, parsed)
        reason = parsed.reason if isinstance(parsed, Malformed) else "no action found"
        return Outcome(
            episode.state, parsed, (_explain(self.teach(episode, reason)),), events=(f"malformed: {reason}",)
        )

    def restate(self, episode: Episode) -> str:
        """Return the question."""
        return f"Question: {episode.task.question}"

    def _search(self, episode: Episode, call: Call) -> Outcome:
        """Answer a search with passages; empty, beyond the limit or in the last turn it is refused, without counting."""
        query = _CANONICAL.raw_decode(call.calls[0].arguments)[0]["query"]
        state: SearchState = episode.state
        if len(episode.turns) + 1 >= self.max_turns:
            return self._refusal(episode, call, "no turn is left to use a search: the episode ends without an answer")
        if state.searches >= self.max_searches:
            why = f"all {self.max_searches} searches are used: {self._words[0]}"
            return self._refusal(episode, call, why)
        if not query:
            return self._refusal(episode, call, f"the query is empty: {self._words[1]}")
        hits, message = self.search_passages(episode, query)
        messages: tuple[Message, ...] = (message,)
        if self._native:
            messages = replied(call, message.content.strip().removeprefix(_OPENING).removesuffix(_CLOSING))
        result = ToolResult("call_0", "search", messages[0].content, ids=tuple([hit.passage.id for hit in hits]))
        return Outcome(SearchState(state.searches + 1), call, messages, (result,))

    def _refusal(self, episode: Episode, call: Call, why: str) -> Outcome:
        """Return the outcome of a refused search: state kept, the reason as its result, an error, and as an event."""
        result = ToolResult("call_0", "search", why, error=True)
        text = f"No search was carried out: {why}."
        messages = replied(call, text) if self._native else (_explain(text),)
        return Outcome(episode.state, call, messages, (result,), events=(f"search refused: {why}",))

    def search_passages(self, episode: Episode, query: str) -> tuple[tuple[Hit, ...], Message]:
        """Return the hits of a query over the task's corpus, and the message that shows them; no search is counted."""
        scenario = episode.task.hidden
        support = scenario.support if isinstance(scenario, Scenario) else ()
        hits = self._retriever_of(episode.task).search(query, self.top_k, support=support, seed=episode.key)
        return hits, Message("user", information(hits, self._format, self._cut), "tool")

    def spoken(self, text: str, prefill: str = "") -> str:
        """Return a turn written in tags, as native calls if the protocol has them and no prefill is given; else unchanged."""
        return NATIVE.write(text) if self._native and not prefill else text

    @property
    def live_service(self) -> str:
        """The outside service that a search would call now; "" where it is in process, or replayed."""
        replayed = self.services.replayed
        return self._retriever_name if self._remote and not replayed else ""

    def _retriever_of(self, task: Task) -> Retriever:
        """Return the retriever over a task's corpus, built anew only where corpus or recording changed."""
        corpus, recording = self.source.corpus(task), self.services.recording
        self._built = build.built_over(self._built, self._retriever_name, corpus, recording)
        return self._built.retriever


def _source(tasks: str, world: dict[str, Any] | None, corpus: str, remote: bool) -> QuestionSource:
    """Return the arguments' source, `remote` without passages; UsageError for combinations without meaning, or DataMissing."""
    for name, value in (("tasks", tasks), ("corpus", corpus)):
        if not isinstance(value, str):
            raise UsageError(f"SearchQA: {name}={value!r}; give a name or a path as text")
    if remote and corpus != "auto":
        raise UsageError(f"SearchQA: corpus={corpus!r} has no meaning with a server, which has its own; leave it out")
    if tasks != "world":
        if world is not None:
            raise UsageError(f"SearchQA: world={world!r} has no meaning with tasks={tasks!r}; leave it out")
        return published(tasks, None if remote else corpus)
    if corpus != "auto":
        raise UsageError(f"SearchQA: corpus={corpus!r} has no meaning with tasks='world'; leave it out")
    try:
        return WorldSource(WorldConfig(**(world or {})), remote)
    except TypeError as error:
        raise UsageError(f"SearchQA: world={world!r}: {error}") from error


def first_look(env: TurnEnv) -> tuple[Message, ...]:
    """Return the passages for the question itself, as a search shows them, for a policy without a free turn."""
    core = env.unwrapped
    assert isinstance(core, SearchQA)
    return (core.search_passages(core.episode, core.episode.task.question)[1],)


def _explain(text: str) -> Message:
    """Return the explanation of a format error as the next message."""
    return Message("user", explain(text), "environment")


def information(hits: Sequence[Hit], observation_format: str, max_characters: int) -> str:
    """Return passages between <information> tags in a format (all but `search_r1` is JSON), a long body cut with a note.

    `search_r1`: raw text, `Doc 1(Title: "...") ...` a line. `skyrl_json`: the JSON text of {"result": "Doc 1: ..."}, line
    breaks and non-ASCII escaped, as SkyRL's search environment sends it. A body over `max_characters` is cut, and says so.
    """
    nothing = "" if hits else "No document matches this query."
    if observation_format == "search_r1":
        rows = [f'Doc {n}(Title: "{h.passage.title}") {h.passage.text}\n' for n, h in enumerate(hits, start=1)]
        return f"\n\n<information>{nothing or _cut(''.join(rows).strip(), max_characters)}</information>\n\n"
    rows = [f'Doc {n}: "{h.passage.title}"\n{h.passage.text.strip()}\n' for n, h in enumerate(hits, start=1)]
    body = json.dumps({"result": nothing or _cut("".join(rows), max_characters)})
    return f"\n<information>{body}</information>\n"


def explain(text: str) -> str:
    """Return a text that answers an action which could not be carried out."""
    return f"\n\n{text}\n\n"


def _cut(body: str, limit: int) -> str:
    """Return a body up to a limit, with a note on how much was cut; unchanged where it is no longer."""
    if len(body) <= limit:
        return body
    return f"{body[:limit]} [cut: {len(body) - limit} of {len(body)} characters are not shown]\n"
