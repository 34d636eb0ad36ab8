"""Web search asks Google through Serper, Brave, or a SearXNG of one's own; live, recorded or replayed."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import Hit
from agent_envs.base.errors import UsageError
from agent_envs.services.http import endpoint_of, shared_client
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.web import providers

WEB_FORMS = ("serper", "brave", "serper@URL", "brave@URL", "searxng@URL")
_MAX_BYTES = 4_000_000


def is_web_search(name: object) -> bool:
    """Return whether a name names a search of the web; no key is asked for.

    Raises UsageError: it does, and its URL is none, or one that may not be recorded.
    """
    return isinstance(name, str) and _split(name) is not None


class WebSearch(Uncopied):
    """A search engine as a retriever: a hit's passage has the URL as its id, and a title and a snippet.

    The same query gives the same answer: with a recording each is asked once. Queries are cut to 400 characters and 50 words.
    """

    def __init__(
        self,
        name: str,
        *,
        recording: Recording | None = None,
        deadline_seconds: float = 60.0,
        attempt_seconds: float = 20.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the engine's name; nothing is sent before the first search.

        Args:
            name: one of `WEB_FORMS`; a URL without a path gets the engine's own.
            recording: where answers are recorded, or replayed from; a replay needs no key.
            deadline_seconds: over all attempts of a search and the waits between them.
            attempt_seconds: for one attempt.
            wait: how to sleep between attempts.

        Raises:
            UsageError: an unknown engine, a URL that may not be recorded, or no key in the environment.
        """
        style_and_endpoint = _split(name)
        if style_and_endpoint is None:
            raise UsageError(f"WebSearch: name={name!r}; the forms are {', '.join(WEB_FORMS)}")
        style, endpoint = style_and_endpoint
        self.name = f"{style}@{endpoint}" if endpoint != providers.PROVIDERS[style].home else style
        engine = _Engine(self.name, style, endpoint)
        if recording is None or recording.mode == "record":
            engine.key()
        self._port = ExternalPort(
            self.name, engine, recording=recording, deterministic=True,
            deadline_seconds=deadline_seconds, attempt_seconds=attempt_seconds, max_bytes=_MAX_BYTES, wait=wait,
        )  # fmt: skip

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the first `top_k` results, at most 20, () for none or an empty query; `support` and `seed` do not travel.

        Raises EnvFault: the engine failed, or its answer has another form.
        """
        sent = providers.query_as_sent(query)
        if top_k < 1 or not sent:
            return ()
        count = min(top_k, providers.MAX_TOP_K)
        # Read again, because a recording may come from anywhere.
        return _recorded_hits(self._port.call({"query": sent, "topk": count}, CallSite("")), count, self.name)


class _Engine:
    """An engine as a function from {query, topk} to an answer in the one form that is recorded."""

    def __init__(self, name: str, style: str, endpoint: str) -> None:
        self._name, self._provider, self._endpoint = name, providers.PROVIDERS[style], endpoint
        self._client = shared_client(name, _MAX_BYTES)

    def key(self) -> str:
        """Return the key, read at each call and kept nowhere; "" for an engine without one, UsageError where it is not set."""
        variable = self._provider.variable
        if not variable:
            return ""
        key = os.environ.get(variable, "").strip()
        if not key:
            raise UsageError(f"{self._name}: set {variable} to your key, or replay a recording")
        if not (key.isascii() and key.isprintable()):
            raise UsageError(f"{self._name}: the key in {variable} holds characters that an HTTP header cannot carry")
        return key

    def __call__(self, request: Any, seconds: float) -> Any:
        """Search with the engine, and return the results in the recorded form; a whole page of results is requested."""
        top_k, provider = request["topk"], self._provider
        # A whole page of results, because some of them are dropped, and engines charge by the page.
        count = providers.PAGE_OF_RESULTS if top_k <= providers.PAGE_OF_RESULTS else providers.MAX_TOP_K
        call = provider.request(self._endpoint, request["query"], count)
        headers = {provider.header: self.key()} if provider.header else None
        answer = self._client.json(call.method, call.url, seconds=seconds, headers=headers, json=call.json)
        hits = providers.read_answer(provider, answer, top_k, self._name)
        return {"results": [[hit.passage.id, hit.passage.title, hit.passage.text] for hit in hits]}


def _recorded_hits(answer: Any, top_k: int, name: str) -> tuple[Hit, ...]:
    """Return recorded results as hits; EnvFault where they are malformed or more than `top_k`."""
    rows = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) > top_k:
        raise providers.malformed(name, "the recording holds no list of results")
    results = []
    for row in rows:
        texts = isinstance(row, list) and len(row) == 3 and all(isinstance(text, str) for text in row)
        if (
            not texts
            or not providers.opens(row[0])
            or len(row[1]) > providers.MAX_TITLE_CHARACTERS
            or len(row[2]) > providers.MAX_SNIPPET_CHARACTERS
        ):
            raise providers.malformed(name, "the recording holds a result that is none")
        results.append((row[0], (row[1], row[2])))
    return providers.hits_of(results)


def _split(name: str) -> tuple[str, str] | None:
    """Split ENGINE[@URL] into engine and endpoint (its home if no URL); None for another name, UsageError for no good URL."""
    style, at, url = name.partition("@")
    if style not in providers.PROVIDERS:
        return None
    provider = providers.PROVIDERS[style]
    if not at and provider.home:
        return style, provider.home
    return style, endpoint_of(style, url, provider.path)
