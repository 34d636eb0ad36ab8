r"""Search clients and search servers speak Search-R1's format, both ends of which are here, and SkyRL's way to ask.

    {"queries": [text, ...], "topk": 3, "return_scores": true}   is answered by one list of hits a query     (Search-R1)
    {"query": text, "topk": 3, "return_scores": true}            is answered by a list that holds one list   (SkyRL)
    {"result": [[{"document": {"id": "7", "contents": "\"Title\"\ntext"}, "score": 1.5}, ...], ...]}

The published servers differ in small ways (bare documents without scores, no ids, `title` and `text` in place of `contents`,
one list in place of a list of lists); all of these are read, and nothing else is.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from agent_envs.base.documents import Hit, Passage
from agent_envs.base.errors import EnvFault
from agent_envs.base.protocol import sound_json
from agent_envs.base.serialization import sha256_text

MAX_QUERIES = 4_096  # Search-R1's trainer sends a rollout batch at once: 512 prompts x 5
MAX_QUERY_CHARACTERS = 16_384
MAX_TOP_K = 100
DEFAULT_TOP_K = 3
MAX_PASSAGE_CHARACTERS = 100_000
MAX_ID_CHARACTERS = 1_000


class BadRequest(Exception):
    """A request of another form; the message says what is wrong with it."""


@dataclass(frozen=True)
class SearchRequest:
    """The queries of a request."""

    queries: tuple[str, ...]
    top_k: int
    scores: bool


def read_request(body: bytes) -> SearchRequest:
    """Parse a request's body, by default 3 passages and no scores; BadRequest for another form or beyond the limits."""
    try:
        value = sound_json(body.decode(json.detect_encoding(body), "surrogatepass"))
    except ValueError as error:
        raise BadRequest(f"the body is no JSON text: {str(error)[:200]}") from None
    if not isinstance(value, dict) or ("query" in value) == ("queries" in value):
        raise BadRequest('the body must be an object with either "queries", a list of texts, or "query", a text')
    queries = value["queries"] if "queries" in value else [value["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise BadRequest('"queries" must be a list of texts, "query" a text')
    if len(queries) > MAX_QUERIES or any(len(query) > MAX_QUERY_CHARACTERS for query in queries):
        raise BadRequest(f"at most {MAX_QUERIES} queries a request, of at most {MAX_QUERY_CHARACTERS} characters each")
    top_k, scores = value.get("topk"), value.get("return_scores")
    if top_k is None:
        top_k = DEFAULT_TOP_K
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= MAX_TOP_K:
        raise BadRequest(f'"topk" must be a whole number from 1 to {MAX_TOP_K}')
    if scores is not None and not isinstance(scores, bool):
        raise BadRequest('"return_scores" must be true or false')
    return SearchRequest(tuple(whole(query) for query in queries), top_k, bool(scores))


def wire_hit(hit: Hit) -> dict[str, Any]:
    """Return a hit as Search-R1's server sends it; a score that is not finite becomes 0.0."""
    score = float(hit.score)
    return {"document": wire_document(hit.passage), "score": score if math.isfinite(score) else 0.0}


def wire_document(passage: Passage) -> dict[str, str]:
    """Return a passage as in Search-R1's corpus; a title of several lines, which has no such form, travels beside it."""
    document = {"id": passage.id, "contents": f'"{passage.title}"\n{passage.text}'}
    return document | ({"title": passage.title, "text": passage.text} if "\n" in passage.title else {})


def read_hits(answer: Any, top_k: int, name: str) -> tuple[Hit, ...]:
    """Return the first `top_k` hits of a server's answer to one query; EnvFault where the answer has another form.

    Raises EnvFault: the answer has another form; the message names the server and what was wrong.
    """
    rows = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        error = answer.get("error") if isinstance(answer, dict) else None
        reason = f"; it says {whole(error[:200])!r}" if isinstance(error, str) else ""
        raise _malformed(name, f'it must be an object with a list under "result"{reason}')
    if any(isinstance(row, list) for row in rows):
        if len(rows) != 1:
            raise _malformed(name, f"there are {len(rows)} lists of results for one query")
        rows = rows[0]
    return tuple(_hit(row, f"hit {place}", name) for place, row in enumerate(rows[:top_k]))


def _hit(row: Any, where: str, name: str) -> Hit:
    """Read a hit with `title` and `text` or with `contents`, its score 0.0 if none; EnvFault if malformed or too long."""
    if not isinstance(row, dict):
        raise _malformed(name, f"{where} is no object")
    document = row.get("document", row)
    if not isinstance(document, dict):
        raise _malformed(name, f"{where} has a document that is no object")
    title, text = document.get("title"), document.get("text")
    if not (isinstance(title, str) and isinstance(text, str)):
        contents = document.get("contents")
        if not isinstance(contents, str):
            raise _malformed(name, f'{where} has neither "contents" nor "title" and "text"')
        head, _, text = contents.partition("\n")
        title = head[1:-1] if len(head) > 1 and head[0] == head[-1] == '"' else head
    if len(title) + len(text) > MAX_PASSAGE_CHARACTERS:
        raise _malformed(name, f"{where} is a passage of more than {MAX_PASSAGE_CHARACTERS:,} characters")
    title, text = whole(title), whole(text)
    return Hit(Passage(_identity(document, title, text, where, name), title, text), _score(row.get("score")))


def _identity(document: dict[str, Any], title: str, text: str, where: str, name: str) -> str:
    """Return a document's id as text, or a digest of title and text where it has none; EnvFault for a malformed id."""
    identity = document.get("id")
    if identity is None:
        return sha256_text(f'"{title}"\n{text}')[:16]
    if isinstance(identity, int) and not isinstance(identity, bool) and -(10**18) < identity < 10**18:
        return str(identity)
    if not isinstance(identity, str) or len(identity) > MAX_ID_CHARACTERS:
        raise _malformed(
            name, f"{where} has an id that is neither a whole number nor a text of at most 1,000 characters"
        )
    return whole(identity)


def _score(value: Any) -> float:
    """Return a score as a float; 0.0 for what is no finite number, or an integer that a float cannot hold."""
    is_number = isinstance(value, float) or (
        isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    )
    return float(value) if is_number and math.isfinite(value) else 0.0


def whole(text: str) -> str:
    """Return a text without lone surrogates, which UTF-8 cannot carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _malformed(name: str, what: str) -> EnvFault:
    """Return the fault of an answer in a wrong form; no retry follows it."""
    return EnvFault(f"{name}: the answer has another form than Search-R1's: {what}", retryable=False)
