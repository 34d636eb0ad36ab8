"""Handlers that speak the three real wire formats, and refuse what the real services refuse.

A script is a function from the request's body to what the model says; the format around it is made here. test_sdks.py runs
the official SDKs against them: what those parse is the real format.
"""

import json
import re
from dataclasses import dataclass

OPENAI_FIELDS = {"model", "messages", "max_completion_tokens", "max_tokens", "temperature", "top_p", "reasoning_effort",
                 "stop", "tools", "seed", "stream", "n"}  # fmt: skip
TEXT_FIELDS = {"model", "prompt", "max_tokens", "temperature", "top_p", "stop", "seed", "stream", "n"}
ANTHROPIC_FIELDS = {"model", "messages", "max_tokens", "system", "temperature", "top_p", "stop_sequences", "tools",
                    "output_config", "stream"}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What the model says: text, and calls as (name, arguments as the model wrote them)."""

    text: str = ""
    calls: tuple = ()


class Refused(Exception):
    """A request that the real service answers with 400."""


class Wire:
    """A handler for a server: it keeps the bodies that it was sent."""

    def __init__(self, script, key=""):
        self.script, self.key = script, key
        self.bodies, self.headers = [], []

    def __call__(self, path, headers, body):
        headers = {name.lower(): value for name, value in dict(headers).items()}
        given = self.key_of(headers)
        if self.key and given != self.key:
            return self.reply(401, self.error("authentication_error", f"invalid key: {given}"))
        if not path.endswith(self.path):
            return self.reply(404, self.error("not_found_error", path))
        value = json.loads(body)
        self.bodies.append(value)
        self.headers.append(headers)
        try:
            self.check(value, headers)
        except Refused as refused:
            return self.reply(400, self.error("invalid_request_error", str(refused)))
        return self.reply(200, self.answer(value, self.script(value)))

    @staticmethod
    def reply(status, value):
        return status, {"content-type": "application/json"}, json.dumps(value).encode()


class OpenAIWire(Wire):
    """Chat completions."""

    path = "/v1/chat/completions"

    @staticmethod
    def key_of(headers):
        return headers.get("authorization", "").removeprefix("Bearer ")

    @staticmethod
    def error(kind, text):
        return {"error": {"message": text, "type": kind, "param": None, "code": None}}

    def check(self, value, headers):
        refuse(set(value) - OPENAI_FIELDS, "Unrecognized request argument supplied")
        refuse(len(value.get("stop", ())) > 4, "stop: too many")
        waiting = []
        for message in value["messages"]:
            if message["role"] == "tool":
                refuse(message["tool_call_id"] not in waiting, "a tool message must follow its tool_calls")
                waiting.remove(message["tool_call_id"])
                continue
            refuse(waiting, "tool_calls must be followed by tool messages")
            refuse(message["role"] not in ("system", "user", "assistant"), "role")
            waiting = [call["id"] for call in message.get("tool_calls", ())]
            refuse(message["content"] is None and not waiting, "content may be null with tool_calls only")
        refuse(waiting, "tool_calls must be followed by tool messages")

    @staticmethod
    def answer(value, said):
        text = said.text
        for stop in value.get("stop", ()):
            text = text.partition(stop)[0]
        calls = [
            {"id": f"call_x{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(said.calls)
        ]
        message = {"role": "assistant", "content": text or None, "refusal": None, "annotations": []}
        if calls:
            message["tool_calls"] = calls
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": value["model"],
            "choices": [
                {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 7, "audio_tokens": 0},
            },
            "system_fingerprint": None,
        }


class OpenAITextWire(OpenAIWire):
    """Completions."""

    path = "/v1/completions"

    def check(self, value, headers):
        refuse(set(value) - TEXT_FIELDS, "Unrecognized request argument supplied")
        refuse(not isinstance(value["prompt"], str) or not value["prompt"], "prompt: a text")
        refuse(len(value.get("stop", ())) > 4, "stop: too many")

    @staticmethod
    def answer(value, said):
        answer = OpenAIWire.answer(value, said)
        text = answer["choices"][0]["message"]["content"] or ""
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
        return {**answer, "id": "cmpl-1", "object": "text_completion", "choices": [choice]}


class AnthropicWire(Wire):
    """Messages."""

    path = "/v1/messages"

    @staticmethod
    def key_of(headers):
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    @staticmethod
    def error(kind, text):
        return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}

    def check(self, value, headers):
        version = headers.get("anthropic-version")
        refuse(version not in ("2023-06-01", "2026-10-21"), "anthropic-version: header is required")
        sampling = set(value) & {"temperature", "top_p"} if version == "2026-10-21" else ()
        refuse(sampling, "temperature: Extra inputs are not permitted")
        refuse(set(value) - ANTHROPIC_FIELDS, "extra inputs are not permitted")
        refuse({"model", "messages", "max_tokens"} - set(value), "field required")
        refuse(not all(stop.strip() for stop in value.get("stop_sequences", ())), "stop sequences: non-whitespace")
        messages = value["messages"]
        told = value.get("system", "")
        marked = [block for block in told if isinstance(told, list) and "cache_control" in block]
        refuse(any(not block["text"].strip() for block in marked), "cache_control cannot be set for empty text blocks")
        refuse(any(block["cache_control"] != {"type": "ephemeral"} for block in marked), "cache_control: type")
        refuse(len(marked) > 4, "a maximum of 4 blocks with cache_control")
        refuse(not messages or messages[0]["role"] != "user", "first message must use the user role")
        refuse(messages[-1]["role"] == "assistant", "this model does not support prefill")
        waiting, seen = [], set()
        for message in messages:
            blocks = message["content"]
            refuse(not blocks, "messages must have non-empty content")
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            refuse(
                sorted(results) != sorted(waiting), "tool_use ids need tool_result blocks right behind, and only those"
            )
            refuse(
                any(block["type"] != "tool_result" for block in blocks[: len(results)]), "tool_result blocks come first"
            )
            for block in blocks:
                refuse(block["type"] == "text" and not block["text"].strip(), "text must hold non-whitespace")
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            refuse(seen & set(waiting) or len(set(waiting)) < len(waiting), "tool_use ids must be unique")
            refuse(not all(re.fullmatch("[a-zA-Z0-9_-]+", name) for name in waiting), "tool_use.id: pattern")
            seen |= set(waiting)
        refuse(waiting, "tool_use ids need tool_result blocks")
        refuse(seen and "tools" not in value, "tool_use blocks need tools")

    @staticmethod
    def answer(value, said):
        text, met = said.text, None
        for stop in value.get("stop_sequences", ()):
            before, found, _ = text.partition(stop)
            text, met = (before, stop) if found else (text, met)
        content = [{"type": "text", "text": text, "citations": None}] if text else []
        for number, (name, arguments) in enumerate(said.calls):
            call = {"type": "tool_use", "id": f"toolu_x{number}", "name": name, "input": json.loads(arguments)}
            content.append(call)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": value["model"],
            "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, *content],
            "stop_reason": "tool_use" if said.calls else "stop_sequence" if met else "end_turn",
            "stop_sequence": met,
            "usage": {
                "input_tokens": 30,
                "output_tokens": 20,
                "cache_read_input_tokens": 64,
                "cache_creation_input_tokens": 6,
                "output_tokens_details": {"thinking_tokens": 7},
            },
        }


def refuse(condition, text):
    if condition:
        raise Refused(text)
