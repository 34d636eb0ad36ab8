"""Search engines are asked, and their answers read, in the format of each: Serper (Google), Brave, SearXNG.

Serper: POST {"q", "num"} with the header X-API-KEY, answered by {"organic": [{"link", "title", "snippet"}, ...]}.
Brave: GET ?q=&count= with X-Subscription-Token, at most 400 characters and 50 words a query and 20 results, answered by
{"web": {"results": [{"url", "title", "description"}, ...]}} with marks of HTML in the texts.
SearXNG: GET ?q=&format=json (a server has to allow `json` under search.formats), answered by
{"results": [{"url", "title", "content"}, ...]}.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from agent_envs.base.documents import Hit, Passage
from agent_envs.base.errors import EnvFault
from agent_envs.tools.web.html_text import plain_text
from agent_envs.tools.web.text import one_line
from agent_envs.tools.web.url_policy import MAX_URL_CHARACTERS

MAX_QUERY_CHARACTERS = 400
MAX_QUERY_WORDS = 50
MAX_TOP_K = 20
PAGE_OF_RESULTS = 10  # what all of them sell as one search
MAX_TITLE_CHARACTERS = 300
MAX_SNIPPET_CHARACTERS = 2_000
_MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """An HTTP request without its key."""

    method: str
    url: str
    json: Any = None


@dataclass(frozen=True, slots=True)
class Provider:
    """A search engine.

    Attributes:
        home: its endpoint; "" where there is no one place.
        path: of the endpoint, where a URL names a host alone.
        variable: the environment variable with the key; "" where there is none.
        header: that carries the key.
        request: from an endpoint, a query and a number of results.
        rows: from an answer to its rows; None where the answer has another form.
        fields: of a row: URL, title, snippet.
        text: how a title or snippet becomes one plain line.
    """

    home: str
    path: str
    variable: str
    header: str
    request: Callable[[str, str, int], EngineRequest]
    rows: Callable[[Mapping[str, Any]], Any]
    fields: tuple[str, str, str]
    text: Callable[[str, int], str] = field(default=one_line)


def _serper_rows(answer: Mapping[str, Any]) -> Any:
    """Return Serper's results; [] of an answer that has none, None if it is no answer of a search."""
    return answer.get("organic", [] if "searchParameters" in answer else None)


def _brave_request(endpoint: str, query: str, count: int) -> EngineRequest:
    """Return the GET request to Brave's search for web results."""
    parameters = urlencode({"q": query, "count": count, "result_filter": "web", "text_decorations": "false"})
    return EngineRequest("GET", f"{endpoint}?{parameters}")


def _brave_rows(answer: Mapping[str, Any]) -> Any:
    """Return Brave's web results; [] of an answer that has none, None if it is no answer of a search."""
    web = answer.get("web", {"results": []} if answer.get("type") == "search" else None)
    return web.get("results") if isinstance(web, dict) else None


def _searxng_rows(answer: Mapping[str, Any]) -> Any:
    """Return SearXNG's results as its answer has them; EnvFault where they are [] and an engine did not answer."""
    rows = answer.get("results")
    if rows == [] and answer.get("unresponsive_engines"):
        raise EnvFault("none of its engines answered")
    return rows


PROVIDERS = {
    "serper": Provider(
        "https://google.serper.dev/search", "/search", "SERPER_API_KEY", "X-API-KEY",
        lambda endpoint, query, count: EngineRequest("POST", endpoint, {"q": query, "num": count}), _serper_rows,
        ("link", "title", "snippet")),
    "brave": Provider(
        "https://api.search.brave.com/res/v1/web/search", "/res/v1/web/search", "BRAVE_API_KEY", "X-Subscription-Token",
        _brave_request, _brave_rows, ("url", "title", "description"), plain_text),
    "searxng": Provider(
        "", "/search", "", "",
        lambda endpoint, query, count: EngineRequest("GET", f"{endpoint}?{urlencode({'q': query, 'format': 'json'})}"),
        _searxng_rows, ("url", "title", "content")),
}  # fmt: skip


def query_as_sent(query: str) -> str:
    """Return a query as every engine takes it: one line, within the narrowest of their limits."""
    return one_line(" ".join(one_line(query, MAX_QUERY_CHARACTERS).split()[:MAX_QUERY_WORDS]), MAX_QUERY_CHARACTERS)


def read_answer(provider: Provider, answer: Any, top_k: int, name: str) -> tuple[Hit, ...]:
    """Return the first `top_k` results with an http(s) URL, each URL once; EnvFault where the answer has another form.

    Raises EnvFault: the answer has another form; the message says where.
    """
    rows = provider.rows(answer) if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise malformed(name, "it holds no list of results")
    results: dict[str, tuple[str, str]] = {}
    for place, row in enumerate(rows[:_MAX_ROWS]):
        values = [row.get(key) for key in provider.fields] if isinstance(row, dict) else [None]
        url, *texts = values
        if not isinstance(url, str) or not all(text is None or isinstance(text, str) for text in texts):
            raise malformed(name, f"result {place} is no object of texts with a URL")
        title, snippet = (text or "" for text in texts)
        if opens(url):
            results.setdefault(
                url, (provider.text(title, MAX_TITLE_CHARACTERS), provider.text(snippet, MAX_SNIPPET_CHARACTERS))
            )
    return hits_of(list(results.items())[:top_k])


def hits_of(results: list[tuple[str, tuple[str, str]]]) -> tuple[Hit, ...]:
    """Return hits in the order of their rank; the score of rank r is 1/r."""
    return tuple(
        Hit(Passage(url, title, text), 1.0 / rank) for rank, (url, (title, text)) in enumerate(results, start=1)
    )


def opens(url: str) -> bool:
    """Return whether a result is a page that a reader could open: http or https, not too long, printable."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return sound and len(url) <= MAX_URL_CHARACTERS and url.isprintable() and " " not in url


def malformed(name: str, what: str) -> EnvFault:
    """Return the fault of an answer of another form."""
    return EnvFault(f"{name}: the answer has another form than the engine's: {what}", retryable=False)
