"""Naive RAG answers a question of LegalSearch from one search with it, by the searcher's reader: a control."""

from collections.abc import Sequence

from agent_envs.envs.legal_search.heuristic import final_answer
from agent_envs.envs.legal_search.tools import KEYWORD, SEMANTIC, rendered
from agent_envs.envs.legal_search.transcript import SearchHistory
from agent_envs.rollout.policy import Reply, Request


class NaiveRAG:
    """One search with the question, then an answer from what came back, or "I don't know" where nothing fits."""

    batch = 1

    def __init__(self, engine: str = "semantic") -> None:
        self.name = "naive_rag"
        self._search = SEMANTIC if engine == "semantic" else KEYWORD

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return a search in the first turn, and the answer in the second; the answer at once where it is forced."""
        return [Reply(self._action(request)) for request in requests]

    def _action(self, request: Request) -> str:
        """Search once with the question, unless something was searched or shown already; then answer."""
        history = SearchHistory.of(request)
        if not history.wishes and not request.prefill and not history.all_hits:
            return rendered(self._search, history.style, query=history.question)
        return final_answer(request, history, history.all_hits)
