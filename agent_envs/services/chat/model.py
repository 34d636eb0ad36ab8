"""A chat model, set up with `ChatOptions`, takes a `ChatRequest` and returns a `ChatReply`; `ScriptedChat` has a script."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from agent_envs.base.arguments import number, whole_number
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import ToolCallProtocol

MAX_TOKENS = 1024  # of a reply, where nobody says how many
TOKENS = ("input", "output", "cached", "cache_write", "reasoning")
# Why a reply ended, in the words of the services, in lower case; any other word is a fault.
ENDINGS = {
    "acted": (
        "", "stop", "stop_sequence", "end_turn", "pause_turn", "eos", "eos_token", "end_of_text", "complete", "completed",
        "tool_call", "tool_calls", "tool_use", "function_call", "malformed_function_call", "malformed_tool_call",
    ),
    "cut": ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"),
    "refused": (
        "content_filter", "content_filtered", "refusal", "refused", "safety", "recitation", "blocklist", "prohibited_content",
        "spii", "language", "image_safety", "guardrail_intervened", "error_toxic", "sensitive",
    ),
}  # fmt: skip
_OUTCOMES = {word: outcome for outcome, words in ENDINGS.items() for word in words}
UNCOUNTED = "uncounted"  # in a usage: replies whose tokens are not all counted in whole numbers


@dataclass(frozen=True)
class ChatOptions:
    """Settings of a model.

    Attributes:
        temperature: where a request has none.
        max_tokens: in place of every request's.
        reasoning_effort: `low`, `medium`, `high`, ... as the service has it.
        tools: `native` sends schemas as a service's own tools, `text` writes them into the system message; left out, `native`
            until a local server turns out to leave them out of the prompt.
        prefill: `native` begins a reply with its prefill, as local servers do; left out, an instruction asks for it.
        extra: merged into the body of every request; a field that is None here is not sent at all.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    reasoning_effort: str | None = None
    tools: str | None = None
    prefill: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the values; raises UsageError where one is of the wrong type or out of its range."""
        for name, value, high in (("temperature", self.temperature, 2), ("top_p", self.top_p, 1)):
            if value is not None:
                number("chat model", name, value, 0, high)
        if self.max_tokens is not None:
            whole_number("chat model", "max_tokens", self.max_tokens, 1, 10_000_000)
        if self.reasoning_effort is not None and not isinstance(self.reasoning_effort, str):
            raise UsageError(f"chat model: reasoning_effort={self.reasoning_effort!r}; give a word, such as low")
        choices = {"tools": ("native", "text"), "prefill": ("native",)}
        for name, words in choices.items():
            if (choice := getattr(self, name)) not in (None, *words):
                raise UsageError(f"chat model: {name}={choice!r}; give {' or '.join(words)}, or leave it out")
        if not isinstance(self.extra, dict) or not all(isinstance(name, str) for name in self.extra):
            raise UsageError(f"chat model: extra={self.extra!r}; give a JSON object of request fields")

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the defaults, as JSON."""
        return {name: value for name, value in asdict(self).items() if value not in (None, {})}


@dataclass(frozen=True)
class ChatRequest:
    """A request to a model: plain chat messages, tool schemas, and how to sample.

    Attributes:
        messages: dicts with `role` and `content`; an assistant's tool calls stand in its content, in the canonical text. With
            `cached` true, all up to the end of this message comes again in other requests, and is worth a service's cache.
            `opaque` of an assistant's is that of its reply.
        tools: schemas in the shape of OpenAI's function tools.
        stop: stop strings; they stay in the reply where the service tells which one it met.
        prefill: what the reply must begin with, an instruction to models without `prefill=native`.
        temperature: None leaves it to the service. New models of several providers refuse any.
        max_tokens: of the reply.
        seed: 0 is none; for services that take one.
    """

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    stop: Sequence[str] = ()
    prefill: str = ""
    temperature: float | None = None
    max_tokens: int = MAX_TOKENS
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: what a port's keys and recordings are made of."""
        return {
            "messages": [dict(message) for message in self.messages], "tools": [dict(tool) for tool in self.tools],
            "stop": list(self.stop), "prefill": self.prefill, "temperature": self.temperature,
            "max_tokens": self.max_tokens, "seed": self.seed,
        }  # fmt: skip

    @staticmethod
    def from_json(value: dict[str, Any]) -> "ChatRequest":
        """Return the request of its JSON form."""
        return ChatRequest(**value)


@dataclass(frozen=True)
class ChatReply:
    """A model's reply.

    Attributes:
        text: without the tool calls; calls whose arguments are no JSON object stand in it as they were written.
        tool_calls: the native calls, with the service's ids.
        usage: tokens by name. `input` counts all tokens read, of them `cached` from a cache and `cache_write` into one;
            `output` all tokens written, of them `reasoning` unseen; `calls` is 1. Where the service does not say how many, or
            not in whole numbers, `uncounted` is 1 and no tokens stand there; the stored form has null for them.
        stop_reason: in the service's words.
        refusal: in the words of a model or a filter that would not reply; the text is empty then, as for any refusal.
        opaque: what the service wants back with this turn, as JSON with the name of the model, "" for nothing.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: dict[str, int] = field(default_factory=dict)
    stop_reason: str = ""
    refusal: str = ""
    opaque: str = ""

    @property
    def outcome(self) -> str:
        """`acted`, `cut` by a limit or `refused`; "" for a stop reason that nobody knows."""
        return "refused" if self.refusal else _OUTCOMES.get(self.stop_reason.lower(), "")

    @property
    def canonical(self) -> str:
        """The text with the calls behind it in the canonical form that environments parse."""
        return "\n".join(part for part in (self.text, ToolCallProtocol.render(self.tool_calls)) if part)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.tool_calls]
        usage = stored_counts(self.usage)
        more = {name: text for name, text in (("refusal", self.refusal), ("opaque", self.opaque)) if text}
        return {"text": self.text, "tool_calls": calls, "usage": usage, "stop_reason": self.stop_reason, **more}

    @staticmethod
    def from_json(value: dict[str, Any]) -> "ChatReply":
        """Return the reply of its JSON form."""
        calls = tuple(ToolCall(**call) for call in value["tool_calls"])
        more = (str(value.get(name, "")) for name in ("refusal", "opaque"))
        return ChatReply(value["text"], calls, known_counts(value["usage"]), value["stop_reason"], *more)


def known_counts(usage: Mapping[str, int | None]) -> dict[str, int]:
    """Return a usage without tokens that are not known: null, or sums over replies some of which are uncounted."""
    unknown = set(_uncounted(usage, TOKENS))
    return {name: count for name, count in usage.items() if count is not None and name not in unknown}


def stored_counts(usage: Mapping[str, int]) -> dict[str, int | None]:
    """Return a usage as it is stored: null stands for tokens in and out that are not known, and never 0."""
    return {**usage, **dict.fromkeys(_uncounted(usage, TOKENS[:2]))}


def _uncounted(usage: Mapping[str, int | None], kinds: Sequence[str]) -> list[str]:
    """Return the names of kinds of tokens, with the prefixes under which replies are uncounted."""
    ends = [name for name, count in usage.items() if name.endswith(UNCOUNTED) and count]
    return [name.removesuffix(UNCOUNTED) + kind for name in ends for kind in kinds]


class ChatModel(Protocol):
    """A model behind a name; safe to call from many threads.

    Optional: `settings` (JSON) says what else than the request shapes its replies: a port's name holds it, so
    that recordings of other settings are not mistaken for these. An optional `require_key()` raises UsageError early.
    """

    name: str

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Return the reply of one attempt, which may take `seconds`; raises EnvFault where the service failed."""
        ...


class ScriptedChat:
    """A chat model that speaks from a script: a function of the request, or a list of lines.

    A list is read by how many assistant messages the conversation holds, so that the model keeps no state, and forks and
    threads cannot disturb each other.
    """

    def __init__(
        self, script: Sequence[str | ChatReply] | Callable[[ChatRequest], str | ChatReply], name: str = "scripted"
    ) -> None:
        self.name = name
        self._script = script

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Return the line after the request's assistant messages (a function: its answer); past the list's end, EnvFault."""
        if callable(self._script):
            return _as_reply(self._script(request))
        spoken = sum(message["role"] == "assistant" for message in request.messages)
        if spoken >= len(self._script):
            raise EnvFault(f"the script of {self.name} has {len(self._script)} lines, and one more was asked", False)
        return _as_reply(self._script[spoken])


def _as_reply(line: str | ChatReply) -> ChatReply:
    """Return a line of the script as a reply; one that is a reply already comes back as it is."""
    return line if isinstance(line, ChatReply) else ChatReply(line)
