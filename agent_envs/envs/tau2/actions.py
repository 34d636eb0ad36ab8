"""`read_action` parses a turn: JSON calls in `<tool_call>` tags, one call as JSON or as `f(a=1)`, or words.

A thought at the start, between `<think>` tags, is read by nobody. The functional form is read by a small tokenizer of
literals, which turns it into JSON: nothing is ever evaluated, and every text takes time in proportion to its length.
"""

import json
import re
import sys
from collections.abc import Collection, Iterator

from agent_envs.base.dialects import may_be_call
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Call, Malformed, Parsed, Say, ToolCallProtocol, read_call

MOST_CALLS = 32
_PROTOCOL = ToolCallProtocol()
_HEAD = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,99})\(")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<text>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')
    |(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<mark>[\[\]{}:,=])""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U00([01][0-9a-fA-F]{5})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}
_CLOSING = {"[": "]", "{": "}"}


class _NotLiteral(ValueError):
    """The text is no call of literals; the message says why, in words for its writer."""


def read_action(text: str, tools: Collection[str]) -> Parsed:
    """Parse a turn into a `Call` of one or more tools, a `Say`, or a `Malformed` (empty, unreadable, too many calls).

    Args:
        text: the whole turn.
        tools: the names of the side's tools; of a text that looks like a call, only these are held to be meant as one.
    """
    body = without_thought(text)
    if not body:
        return Malformed("the turn is empty: write to the other side, or call a tool")
    parsed: Parsed = _PROTOCOL.parse(body)
    if isinstance(parsed, Say):
        parsed = _bare_call(body, tools)
    if isinstance(parsed, Call) and len(parsed.calls) > MOST_CALLS:
        return Malformed(f"{len(parsed.calls)} calls stand in one turn; at most {MOST_CALLS} are carried out together")
    return parsed


def without_thought(text: str) -> str:
    """Return a text without the thought at its start and outer white space; "" where the thought never ends."""
    text = text.strip()
    if not text.startswith("<think>"):
        return text
    return text.partition("</think>")[2].strip()


def _bare_call(body: str, tools: Collection[str]) -> Parsed:
    """Parse a turn that may be one call, as JSON or f(a=1): a broken one is Malformed if f is a tool; other text a `Say`."""
    if body.startswith("{") and body.endswith("}") and '"name"' in body and may_be_call(body, tools):
        call = read_call(body, "call_0")
        return call if isinstance(call, Malformed) else Call((call,))
    head = _HEAD.match(body)
    if head is None:
        return Say(body)
    why = "write the call alone, up to its closing parenthesis"
    if body.endswith(")"):
        try:
            call = read_call(_as_json(head[1], body[head.end() : -1]), "call_0")
            if isinstance(call, ToolCall):
                return Call((call,))
            why = "its values are no literals"
        except _NotLiteral as error:
            why = str(error)
    return Malformed(f"{head[1]}(...) cannot be read as a call: {why}") if head[1] in tools else Say(body)


def _as_json(name: str, body: str) -> str:
    """Return the JSON text of a call with keyword arguments, each a literal; _NotLiteral for others, doubles or long ones."""
    if len(body) > 100_000:
        raise _NotLiteral("it is too long")
    tokens = list(_tokens(body))
    parts, keys = list[str](), set[str]()
    place = 0
    while place < len(tokens):
        place, key, value = _argument(tokens, place)
        if key in keys:
            raise _NotLiteral(f"argument {key} stands in it twice")
        keys.add(key)
        parts.append(f"{json.dumps(key)}:{value}")
    return f'{{"name":{json.dumps(name)},"arguments":{{{",".join(parts)}}}}}'


def _tokens(body: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of the tokens of a call's arguments, white space left out; raises _NotLiteral where none fits."""
    place = 0
    while place < len(body):
        match = _TOKEN.match(body, place)
        if match is None or match.lastgroup is None:
            raise _NotLiteral("write arguments as name=value, the values being texts, numbers, lists or objects")
        place = match.end()
        if match.lastgroup != "space":
            yield match.lastgroup, match[0]


def _argument(tokens: list[tuple[str, str]], place: int) -> tuple[int, str, str]:
    """Parse one `name=value` and its comma; return the position behind it, the name, the JSON value, or raise _NotLiteral."""
    kinds = [kind for kind, _ in tokens[place : place + 2]]
    if kinds != ["word", "mark"] or tokens[place + 1][1] != "=":
        raise _NotLiteral("every argument needs its name, as in f(name=value)")
    key, open_marks, parts = tokens[place][1], list[str](), list[str]()
    place += 2
    while place < len(tokens):
        kind, text = tokens[place]
        place += 1
        if text == "," and not open_marks:
            break
        if kind == "mark":
            _balance(open_marks, text)
            if text in "]}" and parts and parts[-1] == ",":
                parts.pop()
        parts.append(_json_of(kind, text))
    if open_marks:
        raise _NotLiteral(f"a {open_marks[-1]} is missing")
    return place, key, " ".join(parts)


def _balance(open_marks: list[str], mark: str) -> None:
    """Follow an opening or closing mark on the stack of open ones; raises _NotLiteral where it closes nothing."""
    if mark in _CLOSING:
        open_marks.append(_CLOSING[mark])
    elif mark in "]}" and (not open_marks or open_marks.pop() != mark):
        raise _NotLiteral(f"a {mark} closes nothing")


def _json_of(kind: str, text: str) -> str:
    """Return the JSON text of a token (mark, text, number, or a word for true, false, null); _NotLiteral for other words."""
    if kind == "mark":
        return text
    if kind == "text":
        return json.dumps(_ESCAPE.sub(_unescape, text[1:-1]))
    if kind == "number":
        return _number(text)
    if text not in _WORDS:
        raise _NotLiteral(f"{text[:50]} is no value: texts stand in quotes")
    return _WORDS[text]


def _number(text: str) -> str:
    """Return the digits of a Python number as JSON has them, with a digit on both sides of the point."""
    sign, digits = ("-" if text.startswith("-") else ""), text.lstrip("+-")
    whole, point, rest = digits.partition(".")
    if not point:
        return f"{sign}{digits}"
    return f"{sign}{whole or '0'}.{rest if rest[:1].isdigit() else '0' + rest}"


def _unescape(match: re.Match[str]) -> str:
    """Return the character that an escape stands for; an unknown escape stays, and a code too large is the last character."""
    code = match[1] or match[2] or match[3]
    if code:
        return chr(min(int(code, 16), sys.maxunicode))
    # As in Python: an unknown escape is a backslash and the character.
    return _ESCAPED.get(match[4], match[4] if match[4] in "\\'\"/" else f"\\{match[4]}")
