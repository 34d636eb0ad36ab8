"""`LegalSearch` is the environment in which a policy searches and reads a library of sections and answers with citations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from string import Template
from typing import Any

from agent_envs.base.arguments import whole_numbers
from agent_envs.base.documents import Hit, Retriever
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.protocol import Call, Parsed
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Episode, Outcome, Task, TurnEnv
from agent_envs.envs.legal_search import tools
from agent_envs.envs.legal_search.generated import StatutesSource
from agent_envs.envs.legal_search.library import as_terms
from agent_envs.envs.legal_search.observations import page_of, results
from agent_envs.envs.legal_search.outcomes import Ended, answered, failed, result_of, scenario_of, succeeded
from agent_envs.envs.legal_search.scoring import EpisodeLimits, make_reward
from agent_envs.envs.legal_search.statutes import StatutesConfig, get_statutes
from agent_envs.envs.legal_search.tasks import LegalSource
from agent_envs.grading.dressed_numbers import undressed
from agent_envs.services.chat import ChatModel
from agent_envs.services.chat.named import judge_model
from agent_envs.services.judges import Judge, ModelJudge
from agent_envs.services.recording import CallSite, Recording
from agent_envs.tools.retrieval.build import MODEL_FORMS, REMOTE_FORMS, RETRIEVERS, Built, built_over, is_retriever
from agent_envs.tools.retrieval.remote import split_name
from agent_envs.tools.retrieval.static import static_encoder

_OUT_OF_TURNS = "That was the last turn: the work ends without an answer."
_PROMPTS = {
    "tags": Template(files(__package__).joinpath("prompt.md").read_text(encoding="utf-8").strip()),
    "json": Template(files(__package__).joinpath("prompt_json.md").read_text(encoding="utf-8").strip()),
}


@state_type
@dataclass(frozen=True, slots=True)
class LegalState:
    """The count of searches that were carried out."""

    searches: int = 0


class LegalSearch(TurnEnv):
    """Answer a question of law by searching and reading a hierarchy of sections, with citations.

    Description:
        The setting of "Reinforcement Learning for Long-Horizon Multi-Turn Search Agents" (arXiv 2510.24126), whose corpus and
        questions are not published: three tools, twelve turns before the answer, and a reward in bands. One turn is one
        generation of the policy. Questions need one to six sections, that cite each other or are to be found; a search shows
        extracts only, and some questions have no answer.

    Task sources:
        `tasks="statutes"` (default): generated law of more than 2,000 sections a library, most longer than 500 characters;
        unlimited, and disjoint between splits; the standard set is 1,700 train, 300 dev and 300 test questions. `dc_code`:
        the D.C. Code below AGENT_ENVS_DATA. A path: a file of questions, CUAD's or LegalBench-RAG's (.json), or what
        `python -m benchmarks.make_qa` wrote (.jsonl). The sha256 of its library is part of every task's identity.

    Action:
        Text. `protocol="tags"`: `<keyword>words</keyword>`, `<semantic>description</semantic>`, `<read>ID</read>` (behind the
        ID: `[up 1]` for the section above it, `[page 2]`), or `<answer>text [sources: ID; ID]</answer>`. The first complete
        tag counts, an unclosed last tag counts as closed. IDs are opaque: they may hold all that reads as nothing else here,
        so no ";" (it separates citations), no closing tag, and no `[up 1]` at the end. The last "]" of an answer closes its
        citation, so that an ID may hold one, too.

        `protocol="json"`: one tool call a turn, in `<tool_call>` tags; further calls are not carried out and told so. There
        an `<answer>` before any call is an answer too, as turn-restricted evaluation forces one.

        An answer that begins with "I don't know" or "I do not know" abstains. Of its sources the first 21 are kept.

    Observation:
        A search shows the ID, the place and an extract of each section, at most `snippet_chars` long and centred on where
        most of the query's words stand together. Keyword search takes a section's number ("34-604") for one word. A read
        shows the section's place, the ID above it, and its text with all that is below it and the IDs of that; where this is
        more than `page_chars`, its own text in pages, and the IDs below. What holds sections (a chapter, a title) only lists
        their IDs and headings. A number that one section alone has is read like its ID.
        An unknown ID or page, or a search beyond `max_searches`, is explained and costs the turn. Where an answer is forced
        without a free turn, what a semantic search with the question finds stands behind it, in extracts that fill a page.

    Tools:
        `keyword_search(query)`, `semantic_search(query)`, `read_section(section_id, up, page)` and
        `return_final_answer(answer, sources)`. The IDs of what was found and read are typed results of the turn.

    Reward:
        Only in the last turn. `segmented` (default) has the paper's bands, with ART-E's inner weights (the paper's are not
        published; `weights` changes them). How the episode ended gives the floor, and what lies above it never reaches the
        next floor, whatever the weights: each part but the first ends 0.01 below what is above it.

        | the episode ended with | from | to | inner terms |
        |---|---|---|---|
        | right answer, rightly cited | 1 | 2 | citation, concise; fewer_turns, fewer_searches 0.3 x rest |
        | right answer, citation wrong or missing | 0.5 | 0.99 | found, read, valid_reads |
        | abstaining where there is no answer | 0.5 | 0.99 | found, read, valid_reads |
        | abstaining where there is one | 0 | 0.49 | found, read, valid_reads |
        | no turn left | -0.5 | -0.5 | |
        | a wrong answer, or any where there is none | -1 | -0.51 | found |
        | a format error | -2 | -1.01 | found, read, valid_reads, near_format 0.1 or 0.2 |

        found and read are 0.1 times the share of the gold sections that came up, or were read; valid_reads is 0.1 if
        something was read and no read failed. So abstaining without a search pays the floor, 0 or 0.5. The endpoints that
        the paper's bands share belong to the band above: -1 is a wrong answer with nothing found, 0 abstaining with nothing
        found, 1 a right and cited answer when its inner weights are 0. A citation is right if a cited section is one of those
        that prove the answer, and at most 8 are cited (or as many as prove it). citation is 0.3 times the share of the
        proving sections that are cited, concise 0.1 times the share of the cited ones that prove: citing all of them pays
        0.4, and turns and searches that were not taken fill the rest of the paper's band.

        `art_e`: that published formula exactly, for comparison: with p = 0.1 each for the right section found, read, no
        invalid read, right sources: -2 + p for a call that cannot be parsed, -1.9 + p for an unknown tool, -1.8 + p for bad
        arguments or no call, -1 + p wrong, p abstained or out of turns, and right 1 + 0.3 (sources right) + 0.1 / sources +
        0.1 (1 - turns / max_generations). There a right answer without citation is still above 1, and stalling pays as much
        as abstaining. The right section is any that proves the answer.

    Episode end:
        Terminated by an answer, or by a format error, under both rewards: no action, a call that cannot be parsed, an unknown
        tool, wrong or empty arguments; the last observation says why. Truncated after `max_generations` turns. Success is a
        right answer, cited or not, or abstaining where there is no answer.

    Info:
        The common keys; no others.

    Arguments:
        tasks: `statutes`, `dc_code`, or a file.
        semantic: engine of the semantic search: `static` (default; embeddings without torch, the same on every machine),
            `minilm-faiss` (the paper's), `hybrid`, or any retriever's name; it is part of the tasks' identity.
        keyword: engine of the keyword search, `bm25`.
        protocol: `tags` or `json`.
        reward: `segmented` or `art_e`.
        judge: who decides whether an answer is right: "" for the task's own metric (exact match, a number, or F1 >= 0.5), or a
            chat model's name. The metric `judge_agrees` compares the two on the same answers.
        max_generations: turns in an episode, 1 to 1,000; by default twelve and the answer.
        max_searches: searches that are carried out, 0 to 1,000.
        top_k: sections a search, 1 to 100.
        snippet_chars: of an extract, 40 to 10,000.
        page_chars: of a page, 200 to 1,000,000.
        weights: inner weights of `segmented`, by name, 0 to 10.
        world: knobs of generated law (`StatutesConfig`), such as `wording`: `first`, `second`, `third` or `fourth`.
        examples: worked turns before the task, 0 to 2, by the solver on a task that is in no split.
        thoughts: `skip` (default): text inside `<think>...</think>` is no action; `count`: it is read like any other.
        strict: refuse what models write in another form than the prompt's and which is read otherwise, an event each.

    Version history:
        v0: first version.
    """

    answer_tags = ("<answer>", "</answer>")
    source: LegalSource

    def __init__(
        self,
        *,
        tasks: str = "statutes",
        semantic: str = "static",
        keyword: str = "bm25",
        protocol: str = "tags",
        reward: str = "segmented",
        judge: str | ChatModel = "",
        max_generations: int = 13,
        max_searches: int = 12,
        top_k: int = 5,
        snippet_chars: int = 200,
        page_chars: int = 4000,
        weights: dict[str, float] | None = None,
        world: dict[str, Any] | None = None,
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up source, engines, reward and limits; UsageError for an argument out of its range. The class describes them."""
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        check_engines(semantic=semantic, keyword=keyword)
        if protocol not in tools.PROTOCOLS:
            raise UsageError(f"LegalSearch: protocol={protocol!r}; the protocols are {' and '.join(tools.PROTOCOLS)}")
        whole_numbers(
            "LegalSearch",
            max_generations=(max_generations, 1, 1000),
            max_searches=(max_searches, 0, 1000),
            top_k=(top_k, 1, 100),
            snippet_chars=(snippet_chars, 40, 10_000),
            page_chars=(page_chars, 200, 1_000_000),
        )
        self.source = make_source(tasks, world)
        self.max_turns, self.max_searches, self.top_k = max_generations, max_searches, top_k
        self.snippet_chars, self.page_chars, self.protocol = snippet_chars, page_chars, protocol
        if protocol == "json":
            self.tools = tools.schemas()
        else:
            self.stop, self.written = tools.TAGS.stop, tools.TAGS
        filled = _PROMPTS[protocol].safe_substitute(max_searches=max_searches, max_generations=max_generations)
        self._before, _, self._after = filled.partition("$question")
        self.reward_spec = make_reward(reward, EpisodeLimits(max_generations, max_searches), weights)
        self._names = {"keyword": keyword, "semantic": semantic}
        self._engines: dict[str, Built] = {}
        self._model = judge_model("LegalSearch", judge)
        self._remote_judge = isinstance(judge, str) and bool(judge)
        self._judge: tuple[Recording | None, Judge] | None = None

    def _begin(self, task: Task, key: str) -> tuple[LegalState, tuple[Message, ...]]:
        """Build the engines over the task's library where they are not yet, and return the first state and the prompt."""
        for engine in self._names:
            self._engine(engine, task)
        return LegalState(), (Message("user", f"{self._before}{task.question}{self._after}", "environment"),)

    def restate(self, episode: Episode) -> str:
        """Return the question."""
        return f"Question: {episode.task.question}"

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Play a turn: a search or read is carried out, an answer is judged and ends the episode, as a format error does."""
        parsed, wish = tools.read_turn(action, self.protocol)
        if isinstance(wish, tools.Fault):
            text = f"The work ends here, because this turn could not be carried out: {wish.reason}."
            messages, events = (Message("user", text, "environment"),), (f"{wish.kind}: {wish.reason}",)
            ended = (result_of(failed(wish)),)
            return Outcome(episode.state, parsed, messages, ended, events, terminated=True)
        if isinstance(wish, tools.Final):
            judge = self._answer_judge(episode)
            golds = () if self.strict or judge is not None else episode.task.gold
            text, notes = undressed(wish.text, golds)
            end = answered(episode.task, replace(wish, text=text), judge)
            success = succeeded(episode.task, end)
            return Outcome(episode.state, parsed, (), (result_of(end),), notes, terminated=True, success=success)
        result, searches = self._carry_out(episode, wish)
        return self._reply(episode, parsed, result, LegalState(searches))

    def _carry_out(self, episode: Episode, wish: tools.Search | tools.Read) -> tuple[ToolResult, int]:
        """Carry out a search or a read: result, and searches so far; a search beyond the limit is an error, not counted."""
        searches: int = episode.state.searches
        if isinstance(wish, tools.Read):
            return self._read_section(episode.task, wish), searches
        if searches >= self.max_searches:
            text = f"No search was carried out: all {self.max_searches} are used. Read sections, or answer."
            return ToolResult(wish.call.id, wish.call.name, text, error=True), searches
        engine = "keyword" if wish.call.name == tools.KEYWORD else "semantic"
        hits = self.hits(episode.task, wish.query, episode.key, engine)
        text = results(hits, wish.query, self.snippet_chars)
        ids = tuple(hit.passage.id for hit in hits)
        return ToolResult(wish.call.id, wish.call.name, text, ids=ids), searches + 1

    def hits(self, task: Task, query: str, key: str, engine: str = "semantic") -> tuple[Hit, ...]:
        """Return an engine's top hits (`keyword` or `semantic`) for a query in a task's library, as the library's passages."""
        support = scenario_of(task).gold_sections
        terms = as_terms(query) if engine == "keyword" else query
        hits = self._engine(engine, task).search(terms, self.top_k, support=support, seed=key)
        corpus = self.source.library(task).corpus  # an engine's own passages may be prepared for it
        return tuple(Hit(corpus[corpus.row(hit.passage.id)], hit.score) for hit in hits)

    def _read_section(self, task: Task, wish: tools.Read) -> ToolResult:
        """Return the page of a section, or of one above it, as a result; an error result where there is no section or page."""
        library = self.source.library(task)
        try:
            section = library.ancestor(library.find(wish.section_id), wish.up)
        except KeyError:
            text = "There is no section of that ID. Copy an ID as a search or another section shows it."
            return ToolResult(wish.call.id, tools.READ, text, error=True)
        page = page_of(library, section, wish.page, self.page_chars)
        if page is None:
            text = f"Section {section.id} has no page {wish.page}."
            return ToolResult(wish.call.id, tools.READ, text, error=True)
        return ToolResult(wish.call.id, tools.READ, page.text, ids=page.ids)

    def _reply(self, episode: Episode, parsed: Parsed, result: ToolResult, state: LegalState) -> Outcome:
        """Return a result's outcome; more calls of the turn become errors, and the last turn gets the end without an answer."""
        events: tuple[str, ...] = (f"{result.name}: {result.content}",) if result.error else ()
        results = [result]
        if isinstance(parsed, Call):
            why = "Not carried out: one call a turn."
            results += [ToolResult(call.id, "none", why, error=True) for call in parsed.calls[1:20]]
            events += (f"{len(parsed.calls) - 1} more calls were not carried out",) if parsed.calls[1:] else ()
        if self.protocol == "json":
            messages = [Message("tool", one.content, "tool", (), one.call_id) for one in results]
        else:
            messages = [Message("user", result.content, "tool")]
        if len(episode.turns) + 1 >= self.max_turns:
            messages.append(Message("user", _OUT_OF_TURNS, "environment"))
            results.append(result_of(Ended("out_of_turns")))
        return Outcome(state, parsed, tuple(messages), tuple(results), events)

    @property
    def live_service(self) -> str:
        """The outside service that a turn may call, the judge before an engine; "" where all is in process, or replayed."""
        if self.services.replayed:
            return ""
        if self._model is not None and self._remote_judge:
            return self._model.name
        return next((name for name in self._names.values() if split_name(name) is not None), "")

    def _answer_judge(self, episode: Episode) -> Callable[[str], bool] | None:
        """Return the model judge of an answer to the episode's question, rebuilt for a new recording; None without a model."""
        if self._model is None:
            return None
        cache_entry, recording = self._judge, self.services.recording
        if cache_entry is None or cache_entry[0] is not recording:
            # Rebound as a whole, so that a fork, which shares it until then, is never touched.
            cache_entry = self._judge = (recording, ModelJudge(self._model, recording=recording))
        judge, task, site = cache_entry[1], episode.task, CallSite(episode.key, episode.header.branch)
        return lambda answer: judge(task.question, answer, task.gold, site).correct

    def _engine(self, engine: str, task: Task) -> Retriever:
        """Return an engine over a task's library, kept by role and built anew only where library or recording changed."""
        library, recording = self.source.library(task), self.services.recording
        corpus = library.numbered_corpus if engine == "keyword" else library.corpus
        built = built_over(self._engines.get(engine), self._names[engine], corpus, recording)
        if built is not self._engines.get(engine):
            self._engines = {**self._engines, engine: built}
        return built.retriever


def make_source(tasks: str, world: Mapping[str, Any] | None) -> LegalSource:
    """Return the source of generated statutes, dc_code or a file; UsageError for bad knobs, DataMissing for absent data.

    Args:
        tasks: `statutes`, `dc_code`, or a file of questions.
        world: knobs of generated law.

    Raises:
        UsageError: a knob is unknown or out of its range, or stands beside tasks that are not generated.
        DataMissing: the tasks are not on this machine.
    """
    if not isinstance(tasks, str) or not tasks:
        raise UsageError(f"LegalSearch: tasks={tasks!r}; give statutes, dc_code or a file")
    if world is not None and not isinstance(world, Mapping):
        raise UsageError(f"LegalSearch: world={world!r}; give a mapping of knobs, or leave it out")
    if tasks == "statutes":
        try:
            return StatutesSource(tasks, StatutesConfig(**dict(world or {})), get_statutes)
        except TypeError as error:
            raise UsageError(f"LegalSearch: world={world!r}: {error}") from error
    if world is not None:
        raise UsageError(f"LegalSearch: world={world!r} has no meaning with tasks={tasks!r}; leave it out")
    from agent_envs.envs.legal_search.published import legal_source

    return legal_source(tasks)


def check_engines(**engines: str) -> None:
    """Raise UsageError for what is no retriever, and load static embeddings at once for `static` and hybrids (MissingExtra).

    Raises:
        UsageError: there is no retriever of that name.
        MissingExtra: the package of the static embeddings is not installed.
    """
    for argument, name in engines.items():
        if not isinstance(name, str) or not (is_retriever(name) or split_name(name) is not None):
            names = ", ".join((*RETRIEVERS, *MODEL_FORMS, *REMOTE_FORMS))
            raise UsageError(f"LegalSearch: {argument}={name!r}; the engines are {names}")
        if name == "static" or name.partition("=")[0] == "hybrid":
            static_encoder()  # at once, and not at the first reset; dense engines wait, as a replay needs none
