"""The chat clients over HTTP share the key, the settings, one attempt, and reading answers that may be malformed."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import ContextFull, EnvFault, UsageError
from agent_envs.services.chat.conversation import read_opaque, tools_in_text
from agent_envs.services.chat.model import UNCOUNTED, ChatOptions, ChatReply, ChatRequest
from agent_envs.services.http import HttpClient, TransportFault, http_parts
from agent_envs.services.http.faults import parse_json

CONTEXTS = ("max_model_len", "loaded_context_length", "context_length", "max_context_length", "context_window")
MOST_NAMES = 20  # of a server's models that a message lists
LEAST_SECRET = 8  # characters: a shorter one stands in ordinary words
MOST_TOKENS = 10**9  # a count beyond it is a server's mistake
# Told with 429, as limits of rate are: the account's money or allowance is spent, and no waiting helps.
_QUOTA_CODES = ("enforced_spend_limit_reached", "insufficient_quota")
# Services refuse a prompt that is longer than the context in words of their own, most of them with both numbers.
_REFUSED = re.compile(r"answered 4(?:00|13|22)\b|the answer has no")
_SUBJECT = re.compile(
    r"context[_ ](?:length|size|window|limit)|exceed_context|model'?s? (?:length|context)|prompt (?:is too long|length is)|"
    r"too large for model|input is too long|too many tokens|input token count|max_new_tokens.? must be",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"exceed|longer|maximum|too (?:long|large|many)|overflow|reduce|only|must be <=", re.IGNORECASE)
# A prompt that a filter would not let through: a refusal, as that of a reply, and no fault.
_FILTERED = re.compile(r"answered (?:400|403|422|451)\b|the answer has ")
_FILTER = re.compile(
    r"content[_ -]?(?:filter|policy|management policy)|responsible ?ai|prohibited_content|data_?inspection|"
    r"inappropriate content|content exists risk|considered high risk|requires moderation|"
    r"(?:input|prompt|content)s? (?:was|were|is|has been|have been) (?:flagged|filtered|blocked)",
    re.IGNORECASE,
)
# What a service says where a message holds a field that it does not take.
_NO_SUCH_FIELD = re.compile(
    r"unsupported|unknown|unrecogni[sz]ed|unexpected|not (?:supported|permitted|allowed)|extra (?:inputs|fields)|additional",
    re.IGNORECASE,
)
# Of each the first that is found holds.
_CONTEXT = [
    r"> (\d{2,})", r"n_ctx\D{1,5}(\d{2,})", r"too large for model with (\d{2,})", r"tokens allowed \((\d{2,})", r"<= (\d{2,})",
    r"(?:context (?:length|size|window|limit)|(?:model|prompt) length)(?: is| of)?(?: only)?\D{0,4}(\d{2,})",
]  # fmt: skip
_PROMPT = [
    r"too long: (\d+)", r"(\d+) (?:tokens )?\+ \d+ >", r"n_prompt_tokens\D{1,5}(\d+)",
    r"(\d+) (?:tokens )?(?:in the messages|in the prompt|from the input)",
    r"(?:request|input|prompt \(length|count|length) \(?(\d+)", r"has (\d+) input", r"at least (\d+) input",
    r"(?:requested|resulted in|contains|Given:|first|total of)(?: over)? (\d+)",
]  # fmt: skip
T = TypeVar("T")


class HttpChat(Uncopied):
    """A chat model behind HTTP; a subclass writes the body and reads the answer."""

    provider: str
    path: str  # behind the base of the URL
    endings: tuple[str, ...]  # that a URL may have behind its base
    default_url: str
    default_variable: str
    takes_temperature, native_tools = True, True
    token_places: ClassVar[Mapping[str, tuple[str, ...]]]  # where the counts stand in the usage of an answer

    def __init__(
        self,
        model: str,
        url: str = "",
        *,
        api_key: str | None = None,
        key_variable: str | None = None,
        options: ChatOptions | None = None,
    ) -> None:
        """Take the model, and the server's URL with or without the path of the format; "" is the provider's own.

        The key is as given, else from the environment; a variable that somebody names must be there.

        Raises:
            UsageError: the URL is none, or no header can carry the key.
        """
        self.model, self.options = model, options or ChatOptions()
        self.settings = self.options.settings
        name = f"{self.provider}:{model}"
        self._base = self.base(url or self.default_url, name)
        self.name = name if self._base == self.default_url else f"{name}@{self._base}"
        self.url = f"{self._base}/{self.path}"
        self._official = urlsplit(self._base).hostname == urlsplit(self.default_url).hostname
        self.gets_back = self.name  # whose opaque parts a request holds: "" once a service has refused one
        self.native_prefill = self.options.prefill == "native"
        self.tools_as_text = self.native_tools and self.options.tools == "text"
        if self._official and self.native_prefill:
            raise UsageError(f"{self.name}: prefill=native is for servers of your own; leave it out")
        self._variable = key_variable or self.default_variable
        self._key_needed = self._official or key_variable is not None
        self._key = (os.environ.get(self._variable, "") if api_key is None else api_key).strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise UsageError(f"{self.name}: the key in {self._variable} holds characters that no HTTP header can carry")
        self._client = HttpClient(self.name)

    def __repr__(self) -> str:
        """Return the class and the name, and never the key."""
        return f"{type(self).__name__}({self.name!r})"

    def require_key(self) -> None:
        """Raise UsageError, which names the variable, where the service needs a key and there is none.

        Raises UsageError: names the environment variable.
        """
        if self._key_needed and not self._key:
            raise UsageError(f"{self.name} needs an API key: set the environment variable {self._variable}")

    @property
    def needs_asking(self) -> bool:
        """Whether a chat template, nobody knows which, decides about tools, and nobody has chosen how to send them."""
        return self.provider == "openai" and not self._official and self.options.tools is None

    def greet(self, seconds: float = 10.0) -> "Listing":
        """Return a service's models and context, at no cost; EnvFault for no answer or a refused key, UsageError if not listed.

        Raises:
            EnvFault: there is no answer, or the key is refused; any other answer will do, as some servers have no list.
            UsageError: there is no key, or the model is not in the list; the message names those that are.
        """
        self.require_key()
        url = re.sub("/(chat/completions|completions|messages)$", "/models", self.url)
        try:
            reply = self._client.send("GET", url, seconds=seconds, headers=self.greeting_headers())
        except TransportFault as fault:
            raise EnvFault(f"{fault.cause}; does the server run, and is this its URL?", retryable=False) from None
        if reply.status in (401, 403):
            cause = f"{self.name}: answered {reply.status}; is the key in {self._variable} right?"
            raise EnvFault(cause, retryable=False)
        rows = _model_rows(reply.body) if reply.status == 200 else {}
        mine = ascii(self.model)[1:-1][:100]
        row = rows.get(mine) or rows.get(f"{mine}:latest")
        # A provider of its own takes other names, too: of snapshots, or of what is fine-tuned.
        if rows and row is None and self.model and not self._official and not any("*" in name for name in rows):
            raise UsageError(f"{self.name}: the server has no such model; it has {', '.join([*rows][:MOST_NAMES])}")
        return Listing(tuple(rows), self._context(row or {}, seconds))

    def _context(self, row: dict[str, Any], seconds: float) -> int | None:
        """Return the context of a model in tokens, from its row in the list or llama.cpp's properties; None if unknown."""
        meta, props = member(row, "meta", dict), None
        if meta is not None:  # llama.cpp's, where it is what the model was trained for, and slots have less
            url = f"{re.sub('/v1$', '', self._base)}/props"
            with suppress(EnvFault):
                props = self._client.json("GET", url, seconds=seconds, headers=self.greeting_headers())
        settings = member(props, "default_generation_settings", dict)
        places = [(settings, "n_ctx"), *((row, name) for name in CONTEXTS), (meta, "n_ctx_train")]
        sizes = [member(place, name, int) for place, name in places]
        return next((size for size in sizes if type(size) is int and 0 < size <= MOST_TOKENS), None)

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Return the reply of one attempt, prefill included; EnvFault, the key hidden, if it fails; UsageError without key.

        A prompt that a filter refuses is a reply, too. Where the service takes no opaque part back, it is asked without, and
        gets none from then on.

        Raises:
            EnvFault: the service failed, or its answer has no such form.
            UsageError: there is no key.
        """
        self.require_key()
        if self.tools_as_text and request.tools:
            request = tools_in_text(request)
        try:
            reply = self._attempt(request, seconds)
        except EnvFault as fault:
            if self.gets_back and self._takes_no_opaque(fault.cause, request):
                self.gets_back = ""
                return self.complete(request, seconds)
            explained = self._explained(fault)
            if (head := _FILTERED.search(explained.cause)) is None or not _FILTER.search(explained.cause, head.end()):
                raise explained from None
            usage = explained.usage or {"calls": 1, "input": 0, "output": 0}
            return ChatReply("", usage=usage, stop_reason="content_filter", refusal=explained.cause)
        if reply.refusal or not (self.native_prefill and request.prefill):
            return reply
        # Some servers repeat what they went on from, and others do not.
        text = reply.text.lstrip()
        return replace(reply, text=text if text.startswith(request.prefill) else f"{request.prefill}{reply.text}")

    def _attempt(self, request: ChatRequest, seconds: float) -> ChatReply:
        """Return the reply to a request, sent once, the key hidden in it."""
        body = {**self.body(request), **self.options.extra}
        sent = {name: value for name, value in body.items() if value is not None}
        return self._hide_key(self._read(self.post(sent, seconds), request))

    def _takes_no_opaque(self, cause: str, request: ChatRequest) -> bool:
        """Return whether a fault's cause says that the service knows no field that an opaque part of the request put there."""
        parts = (read_opaque(message.get("opaque"), self.name) for message in request.messages)
        names = {name for part in parts for row in (part.get("message"), *part.get("calls", ())) for name in row or ()}
        return bool(_NO_SUCH_FIELD.search(cause)) and any(name in cause for name in names)

    def _explained(self, fault: EnvFault) -> EnvFault:
        """Return a fault less the key: ContextFull for too long a prompt, lasting for a spent quota; else the same one."""
        quoted = bool(self._key) and self._key in fault.cause
        lasting = fault.retryable and any(code in fault.cause for code in _QUOTA_CODES)
        cause = fault.cause.replace(self._key, "(key)") if quoted else fault.cause
        explained: EnvFault | None = full_context(cause)
        if explained is None and not (quoted or lasting):
            return fault
        explained = explained or EnvFault(cause, fault.retryable and not lasting, fault.wait_seconds)
        explained.usage, explained.overloaded = fault.usage, fault.overloaded
        return explained

    def _hide_key(self, reply: ChatReply) -> ChatReply:
        """Return a reply with the key as "(key)" in its text and arguments; unchanged if the key has under 8 characters."""
        if len(self._key) < LEAST_SECRET:
            return reply
        calls = tuple(replace(call, arguments=call.arguments.replace(self._key, "(key)")) for call in reply.tool_calls)
        words = {name: getattr(reply, name).replace(self._key, "(key)") for name in ("text", "refusal", "opaque")}
        return replace(reply, tool_calls=calls, **words)

    def _read(self, answer: Any, request: ChatRequest) -> ChatReply:
        """Read an answer; an EnvFault, also for a failure told in it, gets the usage that it counts, or one call."""
        try:
            return self._checked(self.read(answer, request), answer)
        except EnvFault as fault:
            fault.usage = self.usage(answer)  # an answer of no use costs what a good one does
            if member(answer, "usage", object) is None:  # most of these are errors, which nobody bills
                fault.usage = {"calls": 1}
            raise

    def _checked(self, reply: ChatReply, answer: Any) -> ChatReply:
        """Return a reply, less all text where it is a refusal; EnvFault for a failure that the answer tells or hides."""
        if error_in(answer):
            raise self.malformed("has an error in it", answer)
        if not reply.outcome:
            raise self.malformed(
                f"has ended with {reply.stop_reason[:40]!r}, which is no way of a reply to end", answer
            )
        if reply.outcome == "refused":
            words = reply.refusal or reply.text or reply.stop_reason
            return replace(reply, text="", tool_calls=(), refusal=words, opaque="")
        if not (reply.text or reply.tool_calls or reply.opaque) and member(answer, "usage", dict) is None:
            raise self.malformed("has nothing in it, and counts no tokens", answer)
        return reply

    def base(self, url: str, name: str) -> str:
        """Return the part of a URL that stands before the paths of the format."""
        return base_url(url, self.endings, name)

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the JSON body of a request without fields that are None; each API's class overrides it."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """Return the key as a bearer token, where there is one."""
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    def greeting_headers(self) -> dict[str, str]:
        """Return the headers with which `greet` asks."""
        return self.headers()

    def post(self, body: dict[str, Any], seconds: float) -> Any:
        """Return the JSON value that the service answers to a body in one attempt, or raise EnvFault."""
        return self._client.json("POST", self.url, seconds=seconds, headers=self.headers(), json=body)

    def read(self, answer: Any, request: ChatRequest) -> ChatReply:
        """Return the reply that an answer holds; each API's class overrides it."""
        raise NotImplementedError

    def usage(self, answer: Any) -> dict[str, int]:
        """Return the tokens that an answer counts, by name, or that it does not."""
        return token_counts(member(answer, "usage", dict), self.token_places)

    def malformed(self, what: str, answer: Any) -> EnvFault:
        """Return the fault of an answer of another form: `what` is wrong, and its `error` less the key, 200 characters."""
        error = error_in(answer)
        # Hidden before it is cut, because a key that is cut would not be found.
        text = str(error).replace(self._key, "(key)") if self._key else str(error)
        detail = f": {text[:200]}" if error else ""
        return EnvFault(f"{self.name}: the answer {what}{detail}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


@dataclass(frozen=True)
class Listing:
    """The models that a server lists, none where it has no list, and the context of the one that is asked; None if unknown."""

    models: tuple[str, ...] = ()
    context: int | None = None


def _model_rows(body: bytes) -> dict[str, dict[str, Any]]:
    """Return the rows of a list of models by id, and by llama.cpp's aliases; none where it is no such list."""
    try:
        rows = member(parse_json(body), "data", list) or []
    except ValueError:
        return {}
    names = (
        (name, row) for row in rows[:10_000] for name in (member(row, "id", str), *(member(row, "aliases", list) or ()))
    )
    return {ascii(name)[1:-1][:100]: row for name, row in names if isinstance(name, str) and name}


def full_context(cause: str) -> ContextFull | None:
    """Return the error of a fault's cause that is a refusal of too long a prompt; None for any other cause."""
    head = _REFUSED.search(cause)
    text = cause[head.end() :] if head else ""
    if not (_SUBJECT.search(text) and _TOO_LONG.search(text)):
        return None
    return ContextFull(cause, _first_number(_PROMPT, text), _first_number(_CONTEXT, text))


def _first_number(patterns: list[str], text: str) -> int:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1][:9]) for match in matches if match), 0)


def error_in(answer: Any) -> Any:
    """Return the error that an answer holds: at its top, in its first choice, or in that one's message; None for none."""
    choice = next(iter(member(answer, "choices", list) or ()), None)
    places = (answer, choice, member(choice, "message", dict))
    return next((error for place in places if (error := member(place, "error", object))), None)


def member(value: Any, name: str, kind: type[T]) -> T | None:
    """Return a field of a JSON object if it is there and of the kind; None otherwise, as for what is no object."""
    field = value.get(name) if isinstance(value, dict) else None
    return field if isinstance(field, kind) else None


def token_counts(usage: Any, places: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return counts by name, absent ones 0, and calls 1; without input, output or a sound count only calls and `uncounted`."""
    counts, sound = {}, True
    for name, path in places.items():
        value = usage
        for part in path:
            value = member(value, part, object)
        whole = type(value) is int and value >= 0
        counts[name] = min(value, MOST_TOKENS) if whole else 0
        sound &= whole or (value is None and name not in ("input", "output"))
    return {**counts, "calls": 1} if sound else {"calls": 1, UNCOUNTED: 1}


def base_url(url: str, endings: tuple[str, ...], model: str) -> str:
    """Return an http(s) URL less these endings and a final slash; UsageError for another, a password, query or fragment.

    Raises UsageError: it is no such URL, or it holds a password or a query, which names and recordings would show.
    """
    parts = http_parts(url)
    if parts is None:
        raise UsageError(f"{model}: a URL is http://HOST[:PORT][/PATH] or https://...")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(f"{model}: a URL holds no password, query or fragment; keys come from environment variables")
    url = url.rstrip("/")
    for ending in endings:
        url = url.removesuffix(ending).rstrip("/")
    return url
