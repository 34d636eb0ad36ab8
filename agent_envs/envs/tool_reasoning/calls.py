"""`Calls` carries out a turn's tool calls, each within its tool's limit, in order, and gives a typed result for each."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agent_envs.base.messages import Message, ToolResult
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Episode
from agent_envs.core.trajectory import Task
from agent_envs.envs.tool_reasoning import observations
from agent_envs.envs.tool_reasoning.actions import BROWSE, PYTHON, SEARCH, Wish
from agent_envs.envs.tool_reasoning.content import ToolReasoningScenario
from agent_envs.envs.tool_reasoning.tasks import ReasoningSource
from agent_envs.envs.tool_reasoning.toolbox import Toolbox
from agent_envs.services.recording import CallSite
from agent_envs.tools.sandbox import SandboxCell

_UNKNOWN = "There is no page of that ID. Copy an ID as a search or another page shows it."
_COUNTED = {SEARCH: ("searches", "searches"), BROWSE: ("browses", "pages"), PYTHON: ("programs", "programs")}


@state_type
@dataclass(frozen=True, slots=True)
class ToolReasoningState:
    """The count of calls of each tool, and the programs whose names are still there."""

    searches: int = 0
    browses: int = 0
    programs: int = 0
    cells: tuple[SandboxCell, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of calls: how many of each tool, the cuts of texts, and what browse opens (`corpus`, `web` or "")."""

    most: Mapping[str, int]
    top_k: int
    page_tokens: int
    output_chars: int
    browse: str


class Calls:
    """Carries out calls; holds nothing of an episode."""

    def __init__(self, source: ReasoningSource, bounds: Bounds) -> None:
        self.bounds = bounds
        self._source = source

    def carried_out(
        self, episode: Episode, wishes: Sequence[Wish], toolbox: Toolbox, last: bool
    ) -> tuple[ToolReasoningState, list[ToolResult]]:
        """Return the state after a turn's calls, and each one's result; one refused, or in the last turn, is an error alone.

        Raises EnvFault: an outside service or the sandbox failed.
        """
        state: ToolReasoningState = episode.state
        results = []
        for wish in wishes:
            problem = (
                "no turn is left to use it, the work ends without an answer" if last else self._problem(state, wish)
            )
            if problem:
                text = f"The call was not carried out: {problem}."
                result = ToolResult(wish.call.id, wish.call.name[:100], text, error=True)
            elif wish.call.name == SEARCH:
                state = replace(state, searches=state.searches + 1)
                content, ids = search_pages(toolbox, episode.task, wish.text, self.bounds.top_k, episode.key)
                result = ToolResult(wish.call.id, SEARCH, content, ids=ids)
            elif wish.call.name == PYTHON:
                outcome, version, cells = toolbox.run(state.cells, wish.text)
                state = replace(state, programs=state.programs + 1, cells=cells)
                content = observations.output(outcome, self.bounds.output_chars)
                result = ToolResult(wish.call.id, PYTHON, content, ids=(outcome.status, version))
            else:
                site = CallSite(episode.key, episode.header.branch, state.browses)
                state = replace(state, browses=state.browses + 1)
                result = self._open_page(episode.task, wish, toolbox, site)
            results.append(result)
        return state, results

    def _problem(self, state: ToolReasoningState, wish: Wish) -> str:
        """Return the reason against carrying out a call: its problem, empty, or its tool used up; "" where there is none."""
        if wish.problem or not wish.text:
            return wish.problem or "it is empty"
        name = wish.call.name
        count, noun = _COUNTED[name]
        return (
            f"all {self.bounds.most[name]} {noun} are used" if getattr(state, count) >= self.bounds.most[name] else ""
        )

    def _open_page(self, task: Task, wish: Wish, toolbox: Toolbox, site: CallSite) -> ToolResult:
        """Return the page of a document of the corpus or the web, summed up by a reader if any; an error result without one."""
        web = self.bounds.browse == "web"
        document = toolbox.fetched(_without_brackets(wish.text)) if web else self._document(task, wish.text)
        if not isinstance(document, observations.Document):
            return ToolResult(wish.call.id, BROWSE, document, error=True)
        page = observations.page_of(document, wish.page, self.bounds.page_tokens)
        if page is None:
            return ToolResult(wish.call.id, BROWSE, f"There is no page {wish.page} of it.", error=True)
        return ToolResult(
            wish.call.id, BROWSE, observations.page_shown(toolbox.read(page, task.question, site)), ids=(page.id,)
        )

    def _document(self, task: Task, name: str) -> observations.Document | str:
        """Return the corpus document of an ID or title, also in brackets; a text on the error where there is none."""
        corpus = self._source.corpus(task)
        assert corpus is not None, "the arguments made sure of it"
        for title in dict.fromkeys((name, _without_brackets(name))):
            with contextlib.suppress(KeyError):
                return observations.corpus_document(
                    corpus, title, lambda at: [(link.title, link.doc_id) for link in self._source.links(task, at)]
                )
        return _UNKNOWN


def _without_brackets(name: str) -> str:
    """Return an ID without the brackets in which it is shown; unchanged without them."""
    return name[1:-1].strip() if name[:1] == "[" and name[-1:] == "]" else name


def search_pages(toolbox: Toolbox, task: Task, query: str, top_k: int, key: str) -> tuple[str, tuple[str, ...]]:
    """Return the hits of a query as text, and the IDs of the pages; no search is counted."""
    hidden = task.hidden
    support = hidden.support if isinstance(hidden, ToolReasoningScenario) else ()
    hits = toolbox.search(query, top_k, support, key)
    return observations.pages_found(hits), tuple(hit.passage.id for hit in hits)


def as_messages(results: Sequence[ToolResult], protocol: str) -> list[Message]:
    """Return results as the policy reads them: for "json" a tool message each, else a user's frame of tags each."""
    if protocol == "json":
        return [Message("tool", result.content, "tool", (), result.call_id) for result in results]
    return [Message("user", observations.framed(result.content), "tool") for result in results]
