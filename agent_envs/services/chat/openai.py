"""`OpenAIChat` speaks the chat-completions format, as OpenAI and many servers do (vLLM, SGLang, llama.cpp, Ollama, ...).

`OpenAIText` speaks the older completions format of the same servers, for base models, which know no chat template.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.services.chat.conversation import (
    ChatTurn,
    clean,
    conversation,
    pack_opaque,
    read_native_call,
    tools_text,
)
from agent_envs.services.chat.http import HttpChat, member
from agent_envs.services.chat.model import ChatReply, ChatRequest

OPENAI_STOPS = 4
# Fields of a message that hold what a model thought, as text, signed or encrypted: reasoning_content, extra_content, ...
_THOUGHT = re.compile(r"reason|think|thought|signature|encrypted|opaque|extra_content|provider_specific")
NEXT_TURN = "\n\nUser:"  # a base model would go on and write the user's part too


class OpenAIChat(HttpChat):
    """A model behind the chat-completions format.

    Where a server is not OpenAI's, a key is optional unless `key_variable` names where it is, and `max_tokens` is the field's
    old name. `extra` chooses otherwise, as in `extra={"max_tokens": None, "max_completion_tokens": 2048}`; `extra={"stop":
    None}` leaves the stop strings out for models that refuse them.
    """

    default_variable = "OPENAI_API_KEY"
    provider, path, default_url = "openai", "chat/completions", "https://api.openai.com/v1"
    endings, others = ("/chat/completions",), ("/completions", "base models: openai-text")
    token_places: ClassVar = {
        "input": ("prompt_tokens",),
        "output": ("completion_tokens",),
        "cached": ("prompt_tokens_details", "cached_tokens"),
        "cache_write": ("prompt_tokens_details", "cache_write_tokens"),
        "reasoning": ("completion_tokens_details", "reasoning_tokens"),
    }

    def base(self, url: str, name: str) -> str:
        """Return the URL up to `/v1`, added where there is no path; UsageError for no URL, or that of another format.

        Raises UsageError: it is none, or that of another format.
        """
        base = super().base(url, name)
        ending, kind = self.others
        if base.endswith(ending):
            raise UsageError(f"{name} is asked at /{self.path}: give the URL up to /v1; {kind}:{self.model}")
        return base if urlsplit(base).path not in ("", "/") else f"{base}/v1"

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the JSON body of a request, None for unset fields; OpenAI's own gets 4 stops and `max_completion_tokens`."""
        limit = "max_completion_tokens" if self._official else "max_tokens"
        stop = [text for text in request.stop if text]
        prefill = self.native_prefill and bool(request.prefill)
        # vLLM and SGLang go on from the last message where they are told to, llama.cpp and others in any case.
        goes_on = {"continue_final_message": True, "add_generation_prompt": False} if prefill else {}
        return {
            "model": self.model,
            "messages": [_message(turn) for turn in conversation(request, prefill=prefill, model=self.gets_back)],
            **goes_on,
            limit: self.options.max_tokens or request.max_tokens,
            "temperature": self.options.temperature if request.temperature is None else request.temperature,
            "top_p": self.options.top_p,
            "reasoning_effort": self.options.reasoning_effort,
            "stop": (stop[:OPENAI_STOPS] if self._official else stop) or None,
            "tools": [dict(tool) for tool in request.tools] or None,
            "seed": request.seed or None,
        }

    def read(self, answer: Any, request: ChatRequest) -> ChatReply:
        """Return the first choice's reply, unreadable calls as text, a cut stop put back; EnvFault without message."""
        choices = member(answer, "choices", list)
        message = member(choices[0], "message", dict) if choices else None
        if not choices or message is None:
            raise self.malformed("has no choices with a message", answer)
        if not {"content", "refusal", "tool_calls"} & message.keys() and not any(map(_THOUGHT.search, message)):
            raise self.malformed("has a message without content", answer)
        native = member(choices[0], "native_finish_reason", str) or ""
        if "error" in native.lower():
            raise self.malformed(f"ended with {native[:40]!r}", answer)
        text, refusal = self._text(message, answer)
        text += _met_stop(choices[0], message.get("content"), request)
        calls: list[ToolCall] = []
        extras: list[dict[str, Any]] = []  # of each call
        for row in member(message, "tool_calls", list) or ():
            function = member(row, "function", dict) or {}
            call = read_native_call(
                member(row, "id", str) or "", member(function, "name", str), function.get("arguments")
            )
            if isinstance(call, ToolCall):
                calls.append(call)
                extras.append(_others(row, ("id", "type", "index", "function")))
                if more := _others(function, ("name", "arguments")):
                    extras[-1]["function"] = more
            else:
                text = f"{text}\n{call}" if text else call
        fields = {name: value for name, value in message.items() if _THOUGHT.search(name) and value is not None}
        if isinstance(content := message.get("content"), list) and any(map(_is_other_part, content)):
            fields["content"] = content
        return ChatReply(
            clean(text), tuple(calls), self.usage(answer), member(choices[0], "finish_reason", str) or "",
            clean(refusal), pack_opaque(self.name, message=fields, calls=extras if any(extras) else []),
        )  # fmt: skip

    def _text(self, message: dict[str, Any], answer: Any) -> tuple[str, str]:
        """Return a message's text, its parts joined, and its refusal, "" for none; EnvFault for content of another type."""
        content, refusal = message.get("content"), member(message, "refusal", str) or ""
        if isinstance(content, list):
            refusals = [member(part, "refusal", str) or "" for part in content]
            return "".join(member(part, "text", str) or "" for part in content), refusal or "".join(refusals)
        if content is not None and not isinstance(content, str):
            raise self.malformed("has content that is no text", answer)
        return content or "", refusal


class OpenAIText(OpenAIChat):
    """A base model behind the completions format.

    Its prompt is plain text, in paragraphs: the tools, if any, a schema a line; each message behind `System:`, `User:` or
    `Assistant:`, with tool calls in their canonical text and results as the user's; and at the end `Assistant:` with the
    prefill, which the reply begins with. A reply ends where the model would write the next `User:`.
    """

    provider, path, native_tools = "openai-text", "completions", False
    continues = True  # from any prefill
    endings, others = ("/completions",), ("/chat", "chat models: openai")

    def body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the JSON body of a request, whose conversation is one prompt; UsageError for a reasoning effort."""
        if self.options.reasoning_effort:
            raise UsageError(f"{self.name}: a base model takes no reasoning_effort; leave it out")
        turns = conversation(replace(request, tools=(), prefill=""))
        rows = [f"{turn.role.capitalize()}: {turn.text}" for turn in turns]
        last = f"Assistant: {clean(request.prefill)}" if request.prefill else "Assistant:"
        stop = [NEXT_TURN, *(text for text in request.stop if text)]
        return {
            "model": self.model,
            "prompt": "\n\n".join([*([tools_text(request.tools)] if request.tools else []), *rows, last]),
            "max_tokens": self.options.max_tokens or request.max_tokens,
            "temperature": self.options.temperature if request.temperature is None else request.temperature,
            "top_p": self.options.top_p,
            "stop": stop[:OPENAI_STOPS] if self._official else stop,
            "seed": request.seed or None,
        }

    def read(self, answer: Any, request: ChatRequest) -> ChatReply:
        """Return the reply in the first choice, the prefill before it. Raises EnvFault: there is no choice or no text in it."""
        choices = member(answer, "choices", list)
        content = member(choices[0], "text", str) if choices else None
        if not choices or content is None:
            raise self.malformed("has no choices with a text", answer)
        text = content + _met_stop(choices[0], content, request)
        text = f"{request.prefill}{text}" if request.prefill else text.lstrip()
        return ChatReply(clean(text), (), self.usage(answer), member(choices[0], "finish_reason", str) or "")


def _message(turn: ChatTurn) -> dict[str, Any]:
    """Convert a turn to a message of the chat-completions format: a tool's result, a text, or a text with calls.

    Opaque parts stand where they stood, those of calls only where the message has as many.
    """
    if turn.role == "tool":
        return {"role": "tool", "tool_call_id": turn.call_id, "content": turn.text}
    fields, extras = turn.opaque.get("message") or {}, turn.opaque.get("calls") or []
    message = {"role": turn.role, "content": turn.text, **fields}
    if not turn.calls:
        return message
    extras = extras if len(extras) == len(turn.calls) else [{}] * len(turn.calls)
    message["tool_calls"] = [
        {"id": call.id, "type": "function", **more,
         "function": {"name": call.name, "arguments": call.arguments, **more.get("function", {})}}
        for call, more in zip(turn.calls, extras, strict=True)
    ]  # fmt: skip
    return message


def _others(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a JSON object but these, and those that are null; {} for what is no object."""
    fields = row.items() if isinstance(row, dict) else ()
    return {name: value for name, value in fields if name not in names and value is not None}


def _is_other_part(part: Any) -> bool:
    """Return whether a part of a content is neither a text nor a refusal."""
    return member(part, "type", str) not in ("text", "output_text", "refusal")


def _met_stop(choice: dict[str, Any], text: Any, request: ChatRequest) -> str:
    """Return the stop string that a server cut and names (vLLM: `stop_reason`, SGLang: `matched_stop`); "" if none."""
    for name in ("stop_reason", "matched_stop"):
        met = member(choice, name, str)
        if met and met in request.stop and isinstance(text, str) and not text.endswith(met):
            return met
    return ""
