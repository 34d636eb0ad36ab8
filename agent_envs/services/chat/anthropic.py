"""`AnthropicChat` asks models of Anthropic through the official SDK, which is imported at use."""

import json
from types import ModuleType
from typing import Any, ClassVar

from agent_envs.base.errors import MissingExtra
from agent_envs.base.messages import ToolCall
from agent_envs.services.chat.conversation import ChatTurn, clean, conversation, pack_opaque, read_native_call
from agent_envs.services.chat.http import HttpChat, member
from agent_envs.services.chat.model import ChatReply, ChatRequest

SAMPLING_VERSION = "2023-06-01"  # the last version of the format that has a temperature
_TYPED = ("max_tokens", "messages", "model", "output_config", "stop_sequences", "system", "tools")
_OF_THE_CONNECTION = ("accept-encoding", "connection", "content-length", "host")


class AnthropicChat(HttpChat):
    """A model behind Anthropic's Messages format.

    The SDK builds each request and our client carries it: one deadline over everything, a cap on bytes, no redirects, and no
    retries but the port's. The format dropped `temperature` and `top_p` on 2026-10-21, and newer models refuse them: where one
    is given, the request is sent in the version before, for models that still take it. `reasoning_effort` becomes
    `output_config.effort`. A message with `"cached": True` ends a prefix that the service caches (`cache_control`); OpenAI
    caches prefixes unasked.
    """

    default_variable = "ANTHROPIC_API_KEY"
    provider, path, default_url = "anthropic", "v1/messages", "https://api.anthropic.com"
    endings, takes_temperature = ("/messages", "/v1"), False
    token_places: ClassVar = {
        "input": ("input_tokens",),
        "output": ("output_tokens",),
        "cached": ("cache_read_input_tokens",),
        "cache_write": ("cache_creation_input_tokens",),
        "reasoning": ("output_tokens_details", "thinking_tokens"),
    }

    def require_key(self) -> None:
        """Raise UsageError without a key that the service needs, MissingExtra without the SDK; a replay needs neither.

        Raises:
            UsageError: names the environment variable.
            MissingExtra: names the extra that brings the SDK.
        """
        super().require_key()
        _sdk(self.name)

    def headers(self) -> dict[str, str]:
        """Return the key as X-Api-Key for servers other than Anthropic's; {} for its own, as the SDK sends it, or no key."""
        return {} if self._official or not self._key else {"X-Api-Key": self._key}

    def greeting_headers(self) -> dict[str, str]:
        """Return the key, where there is one, and the version: without the SDK."""
        bearer = {} if self._official else super().headers()
        return {"anthropic-version": SAMPLING_VERSION, **({"X-Api-Key": self._key} if self._key else {}), **bearer}

    def post(self, body: dict[str, Any], seconds: float) -> Any:
        """Return the service's JSON answer to one attempt: the SDK builds the request, our client sends it and raises."""
        sdk, httpx2 = _sdk(self.name)
        client = sdk.Anthropic(
            api_key=self._key,
            base_url=self._base,
            # Without a key none is sent: the SDK must not look for one, or for a profile, in the environment.
            default_headers=self.headers() if self._key else {"Authorization": sdk.omit},
            max_retries=0,
            # "Mock" is its name for a transport over a function.
            http_client=httpx2.Client(transport=httpx2.MockTransport(self._carry), trust_env=False),
        )
        more = {name: value for name, value in body.items() if name not in _TYPED}
        version = {"anthropic-version": SAMPLING_VERSION} if more.keys() & {"temperature", "top_p", "top_k"} else {}
        try:
            answer = client.messages.with_raw_response.create(
                **{name: body.get(name, sdk.omit) for name in _TYPED},
                extra_body=more,
                extra_headers=version,
                timeout=seconds,
            )
        except sdk.APIConnectionError as error:  # all that our client raises comes wrapped
            raise error.__cause__ or error from None
        return answer.http_response.json()

    def _carry(self, request: Any) -> Any:
        """Return the answer to a request of the SDK as status 200; a fault is raised as by `HttpClient.json`."""
        headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_CONNECTION}
        seconds = request.extensions["timeout"]["read"]
        sent = json.loads(request.content)
        answer = self._client.json(request.method, str(request.url), seconds=seconds, headers=headers, json=sent)
        return _sdk(self.name)[1].Response(200, content=json.dumps(answer).encode())

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the JSON body of a request, None for unset fields; system messages alone go as the user's."""
        turns = conversation(request, prefill=self.native_prefill, model=self.gets_back)
        system_turns = [turn for turn in turns if turn.role == "system" and turn.text]
        system, messages = _system(system_turns), _messages(turns)
        if not messages:  # the format demands a message of the user
            system, messages = "", _messages([ChatTurn("user", "\n\n".join(turn.text for turn in system_turns))])
        temperature, effort = request.temperature, self.options.reasoning_effort
        return {
            "model": self.model, "max_tokens": self.options.max_tokens or request.max_tokens, "messages": messages,
            "system": system or None, "temperature": self.options.temperature if temperature is None else temperature,
            "top_p": self.options.top_p, "output_config": {"effort": effort} if effort else None,
            "stop_sequences": [text for text in request.stop if text.strip()] or None,
            "tools": [_tool(tool["function"]) for tool in request.tools] or None,
        }  # fmt: skip

    def read(self, answer: Any, request: ChatRequest) -> ChatReply:
        """Return the reply of text and call blocks, thoughts as its opaque part; calls of no form and a met stop are text.

        Raises EnvFault: there is no list of blocks.
        """
        blocks = member(answer, "content", list)
        if blocks is None or not all(isinstance(member(block, "type", str), str) for block in blocks):
            raise self.malformed("has no content blocks", answer)
        text = ""
        calls: list[ToolCall] = []
        thoughts: list[tuple[int, Any]] = []  # and behind how many other blocks, as `_blocks` has them, each stands
        for block in blocks:
            if block["type"] in ("thinking", "redacted_thinking"):
                thoughts.append((bool(text) + len(calls), block))
            elif block["type"] == "text":
                if (words := member(block, "text", str)) is None:
                    raise self.malformed("has a text block without text", answer)
                text += words
            elif block["type"] == "tool_use":
                call = read_native_call(member(block, "id", str) or "", member(block, "name", str), block.get("input"))
                if isinstance(call, ToolCall):
                    calls.append(call)
                else:
                    text = f"{text}\n{call}" if text else call
        met = member(answer, "stop_sequence", str)
        reason = member(answer, "stop_reason", str) or ""
        if reason == "stop_sequence" and met in request.stop:
            text += met or ""  # our environments keep stop strings
        opaque = pack_opaque(self.name, blocks=thoughts)
        return ChatReply(clean(text), tuple(calls), self.usage(answer), reason, opaque=opaque)

    def usage(self, answer: Any) -> dict[str, int]:
        """Return an answer's tokens by name; its own count of input leaves cached ones out, so these are added."""
        usage = super().usage(answer)
        names = ("input", "cached", "cache_write")
        return usage | {"input": sum(usage[name] for name in names)} if "input" in usage else usage


def _sdk(name: str) -> tuple[ModuleType, ModuleType]:
    """Import the SDK and its HTTP library; MissingExtra where one is missing, as for an SDK that stands on another one."""
    try:
        import anthropic
        import httpx2
    except ImportError as error:
        raise MissingExtra("anthropic", "anthropic", name) from error
    return anthropic, httpx2


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    """Return a function of OpenAI's form as Anthropic's tool; without parameters it gets an empty schema."""
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], "description": function.get("description", ""), "input_schema": schema}


def _system(turns: list[ChatTurn]) -> str | list[dict[str, Any]]:
    """Return the system messages as one text, or as blocks where one of them ends a prefix for the cache."""
    if not any(turn.cached for turn in turns):
        return "\n\n".join(turn.text for turn in turns)
    return [block for turn in turns for block in _blocks(turn)]


def _messages(turns: list[ChatTurn]) -> list[dict[str, Any]]:
    """Return the messages but system ones, those of one role in a row joined; turns without text or calls are left out."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role == "system":
            continue
        role = "assistant" if turn.role == "assistant" else "user"
        blocks = _blocks(turn)
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def _blocks(turn: ChatTurn) -> list[dict[str, Any]]:
    """Convert a turn to the SDK's content blocks, thoughts among them; a cached turn's text carries the cache mark."""
    if turn.role == "tool":
        return [{"type": "tool_result", "tool_use_id": turn.call_id, "content": turn.text}]
    # Five minutes, anew with every use. A prefix below the model's least length is read as if it were not marked.
    mark = {"cache_control": {"type": "ephemeral"}} if turn.cached else {}
    texts = [{"type": "text", "text": turn.text, **mark}] if turn.text.strip() else []
    uses = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)}
        for call in turn.calls
    ]
    blocks = [*texts, *uses]
    for place, thought in reversed(turn.opaque.get("blocks") or []):
        blocks.insert(place, thought)
    return blocks
