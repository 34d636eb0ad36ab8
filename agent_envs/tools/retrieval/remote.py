"""Search servers are asked over HTTP as Search-R1's and SkyRL's own clients ask them.

A server is outside: its answers are bounded and checked, and whatever is no list of passages is an EnvFault, never an
observation.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import Hit
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.services.http import endpoint_of, shared_client
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.retrieval.wire import MAX_QUERY_CHARACTERS, read_hits, whole, wire_hit

STYLES = ("search_r1", "skyrl")
TOKEN_VARIABLE = "AGENT_ENVS_RETRIEVER_TOKEN"
MAX_BYTES = 16_000_000


def split_name(name: str) -> tuple[str, str] | None:
    """Return style and endpoint of `search_r1@URL` or `skyrl@URL`; None for another name, UsageError for a wrong URL.

    A URL without a path gets `/retrieve`.

    Raises:
        UsageError: what stands behind the @ is no http(s) URL, or holds a password, a query or a fragment.
    """
    style, at, url = name.partition("@")
    if not at or style not in STYLES:
        return None
    secret = f"; a token comes from the environment variable {TOKEN_VARIABLE}"
    return style, endpoint_of(f"retriever {style}", url, "/retrieve", secret)


class RemoteRetriever(Uncopied):
    """A search server. The same query gives the same answer: with a recording each is asked once.

    Where the environment variable AGENT_ENVS_RETRIEVER_TOKEN is set, it is sent as `Authorization: Bearer`.
    """

    def __init__(
        self,
        style: str,
        url: str,
        *,
        recording: Recording | None = None,
        deadline_seconds: float = 60.0,
        attempt_seconds: float = 20.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the server's name; nothing is sent before the first search.

        Args:
            style: `search_r1` sends `queries`, a list of one; `skyrl` sends `query`.
            url: the endpoint; without a path, `/retrieve` there.
            recording: where answers are recorded, or replayed from.
            deadline_seconds: over all attempts of a search and the waits between them.
            attempt_seconds: for one attempt.
            wait: how to sleep between attempts.

        Raises:
            UsageError: an unknown style, or no URL that may be recorded.
        """
        place = split_name(f"{style}@{url}")
        if place is None:
            raise UsageError(f"RemoteRetriever: style={style!r}; the styles are {', '.join(STYLES)}")
        self.style, self.url = place
        self.name = f"{self.style}@{self.url}"
        self._port = ExternalPort(
            self.name, _SearchServer(self.style, self.url), recording=recording, deterministic=True,
            deadline_seconds=deadline_seconds, attempt_seconds=attempt_seconds, max_bytes=MAX_BYTES, wait=wait,
        )  # fmt: skip

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the server's first `top_k` passages, () for none; `support` and `seed` do not travel.

        Raises EnvFault: the server failed, or its answer is no list of passages.
        """
        if top_k < 1:
            return ()
        # A policy must not be able to break a server's limit, and so turn its failure into a fault: the rest of a long query
        # is not sent. BM25 reads no more of it in process either.
        sent = whole(query[:MAX_QUERY_CHARACTERS])
        # Read again, because a recording may come from anywhere.
        return read_hits(self._port.call({"query": sent, "topk": top_k}, CallSite("")), top_k, self.name)


class _SearchServer:
    """A server as a function from {query, topk} to an answer in the one form that is recorded."""

    def __init__(self, style: str, url: str) -> None:
        """Set up the client; UsageError if the token of the environment variable cannot stand in a header."""
        self._style, self._url, self._name = style, url, f"{style}@{url}"
        self._client = shared_client(self._name, MAX_BYTES)
        self._token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not (self._token.isascii() and self._token.isprintable()):
            raise UsageError(f"the token in {TOKEN_VARIABLE} holds characters that an HTTP header cannot carry")

    def __call__(self, request: Any, seconds: float) -> Any:
        """Send a query in the server's style, and return its hits in the recorded form; the token never appears in a fault."""
        query, top_k = request["query"], request["topk"]
        queries = {"query": query} if self._style == "skyrl" else {"queries": [query]}
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else None
        body = {**queries, "topk": top_k, "return_scores": True}
        try:
            answer = self._client.json("POST", self._url, seconds=seconds, headers=headers, json=body)
            hits = read_hits(answer, top_k, self._name)
        except EnvFault as fault:
            if not self._token or self._token not in fault.cause:
                raise
            # A server may quote the token that it refused.
            raise EnvFault(fault.cause.replace(self._token, "(token)"), fault.retryable, fault.wait_seconds) from None
        return {"result": [[wire_hit(hit) for hit in hits]]}
