"""Dialects in which language models write a turn are rewritten to the form of a protocol, so that one parser serves all.

Text inside `<think>...</think>` is no action in any protocol. Tool calls may be written as other vendors write them, and the
name of a game's action may be followed by more words. Every rewriting but that of thoughts is an event of the turn. All of it
is linear in the text's length and never raises.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any

from agent_envs.base.protocol import MAX_CALL_CHARACTERS, no_constant
from agent_envs.base.serialization import canonical_json

THOUGHTS = ("skip", "count")  # whether text inside a thought may act
TOLERATED = "tolerated:"  # how the event of a rewriting begins
NOT_CLOSED = "the thought was not closed"
MAX_CALLS = 64  # in one text
# Of the models' templates: <think>, <thinking>, <thought>, <reasoning>, <seed:think>, and Mistral's [THINK]; and JSON calls.
_THOUGHT = re.compile(
    r"<(/?)(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)[ \t\n]{0,9}>|"
    r"(?-i:\[(/?)THINK\]|(<tool_call>(?=\s*+[{\[]))|(</tool_call>))",
    re.IGNORECASE,
)

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_FENCE = re.compile(r"```[a-z_]*\n(.*)\n```", re.DOTALL)
_PLACEHOLDER = re.compile(
    r"<(\w+)>\s*(?:\.{2,}|…|and|or|[\[({]\s*your [^<>\n]{0,60}|"
    r"your (?:final |search )?(?:query|answer|question|code|program)(?: here)?)\s*</\1>",
    re.IGNORECASE,
)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)  # outside of texts
_JOINED = re.compile(r"[,;/&|+>→]|\b(?:or|nor|vs|and|then|before|after)\b")
# Words behind a name that make it part of a sentence about it (`do not move`, `left is blocked`, `up to you`).
_SENTENCE = re.compile(
    r"\W*(?:not|no|nothing|never|is|are|was|were|would|could|should|will|can|cannot|may|might|has|had|does|did|i|you|we|it is|"
    r"to you|now (?:i|we|you)|away|\w+n['’]t|won['’]t)\b",
)
_EDGE = re.compile(r"[\s*_`\"'“”‘’.!,;:()\[\]<>]+")


def thoughts_of(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the spans of the thoughts in a text, and whether the last of them was left open.

    A closing tag without an opening one ends a thought that the prompt began, as some chat templates do. Tags inside a tool
    call are text of its arguments.
    """
    spans: list[tuple[int, int]] = []
    start: int | None = None
    if "<" not in text and "THINK]" not in text:
        return spans, False
    in_call, last_call_end = False, text.rfind(_CLOSING)
    for tag in _THOUGHT.finditer(text):
        if tag[3] or tag[4]:
            in_call = bool(tag[3]) and start is None and tag.start() < last_call_end
        elif in_call:
            continue
        elif not (tag[1] or tag[2]):
            start = tag.start() if start is None else start
        elif start is None:
            spans = [(0, tag.end())]
        else:
            spans.append((start, tag.end()))
            start = None
    return (spans, False) if start is None else ([*spans, (start, len(text))], True)


def outside_thoughts(text: str) -> tuple[str, bool]:
    """Return a text without its thoughts, a blank between what they kept apart, and whether the last of them was left open."""
    spans, is_open = thoughts_of(text)
    if not spans:
        return text, False
    starts, ends = zip(*spans, strict=True)
    parts = [text[end:start] for end, start in zip((0, *ends), (*starts, len(text)), strict=True)]
    parts = list(filter(None, parts))
    joints = ["" if one[-1].isspace() or other[0].isspace() else " " for one, other in pairwise(parts)]
    return "".join(chain.from_iterable(zip(parts, [*joints, ""], strict=False))), is_open


def masked_thoughts(text: str) -> str:
    """Return a text with a blank for each character of its thoughts, so that places in the rest stay."""
    parts, last = list[str](), 0
    for start, end in thoughts_of(text)[0]:
        parts += [text[last:start], " " * (end - start)]
        last = end
    return "".join((*parts, text[last:]))


def action_name(line: str, names: Iterable[str]) -> str | None:
    """Return the longest name with which a line begins; None for none, in a sentence about it, or where another joins it."""
    names = list(names)
    plain = _EDGE.sub(" ", f" {line[:400].lower().replace('_', ' ')} ")
    starting = [name for name in names if plain.startswith(f" {name.lower()} ")]
    if not starting:
        return None
    name = max(starting, key=len)
    behind = line[:400].lower().replace("_", " ").partition(name.lower().split()[-1])[2]
    rest = plain[len(name) + 1 :]
    if _SENTENCE.match(behind) or any(rest.startswith(f" {other.lower()} ") for other in names):
        return None
    joined = _JOINED.search(behind)
    others = f" {_EDGE.sub(' ', behind[joined.start() :])} " if joined else ""
    return None if any(f" {other.lower()} " in others for other in names) else name


def without_placeholders(text: str, tags: Iterable[str]) -> str:
    """Take tags away whose body is the placeholder of an instruction (`<search>...</search>`, `<search> and </search>`)."""
    if _PLACEHOLDER.search(text) is None:
        return text
    names = frozenset(tags)
    return _PLACEHOLDER.sub(lambda match: " " if match[1] in names else match[0], text)


def canonical_calls(text: str, tools: Collection[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Rewrite tool calls in the dialects of models to the canonical text; return an event for each.

    Arguments may be a JSON text, encoded once or twice, or stand under `parameters`; a call may stand under `function`, several
    in a list or one a line, or without tags where nothing else is written; a comma may trail. What is no call stays as it is,
    and without tags what names none of `tools`, if any are given: it may be data.
    """
    position = text.find(_OPENING)
    if position < 0:
        return _untagged(text, tools)
    parts, events = [text[:position]], list[str]()
    while position >= 0:
        if len(events) > MAX_CALLS:
            return text, ()
        start = position + len(_OPENING)
        end = text.find(_CLOSING, start)
        behind = end + len(_CLOSING) if end >= 0 else len(text)
        calls, notes = _calls_in(text[start : end if end >= 0 else len(text)])
        parts.append("\n".join(map(_tagged, calls)) if notes else text[position:behind])
        events += notes
        position = text.find(_OPENING, behind)
        parts.append(text[behind : position if position >= 0 else len(text)])
    return ("".join(parts), tuple(events)) if events else (text, ())


def _untagged(text: str, tools: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """Return a text that is nothing but JSON calls, of these tools if given, as tagged calls; any other as it stands."""
    body = text.strip()
    fence = _FENCE.fullmatch(body)
    body = fence[1].strip() if fence else body
    if body[:1] not in ("{", "[") or '"name"' not in body:
        return text, ()
    calls, notes = _calls_in(body)
    if not calls or (tools and not all(json.loads(call)["name"] in tools for call in calls)):
        return text, ()
    return "\n".join(map(_tagged, calls)), (*notes, f"{TOLERATED} a call without tags")


def _tagged(call: str) -> str:
    """Return the text of a tool call between the opening and closing tags of the dialect."""
    return f"{_OPENING}\n{call}\n{_CLOSING}"


def _calls_in(body: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the calls in a body as JSON texts, and an event for what was tolerated; both empty where one is no call."""
    try:
        values, notes = _json_values(body)
        rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        if rows is not values:
            notes.add("a list of calls")
        if not rows:
            raise ValueError("no call")
        calls = [canonical_json(_plain_call(row, notes)) for row in rows]
    except (ValueError, RecursionError):
        return [], ()
    return calls, (f"{TOLERATED} {', '.join(sorted(notes))}",) if notes else ()


def _json_values(body: str) -> tuple[list[Any], set[str]]:
    """Return the JSON values in a text, and how it departs from one sound value; raises ValueError where it is no JSON."""
    if len(body) > MAX_CALL_CHARACTERS:
        raise ValueError("too long")
    for text, notes in (
        (body, set[str]()),
        (_TRAILING_COMMA.sub(lambda match: match[1] or "", body), {"a comma before a closing bracket"}),
    ):
        with suppress(ValueError, RecursionError):
            return [_loads(text)], notes
    lines = [line.strip().rstrip(",") for line in body.strip().splitlines() if line.strip()]
    if not 1 < len(lines) <= MAX_CALLS:
        raise ValueError("no JSON")
    return [_loads(line) for line in lines], {"several calls in one tag"}


def _loads(text: str) -> Any:
    """Parse JSON; NaN and Infinity raise ValueError."""
    return json.loads(text, parse_constant=no_constant)


def _plain_call(value: Any, notes: set[str]) -> dict[str, Any]:
    """Return a call as its name and arguments, adding to `notes` what its dialect is; raises ValueError where it is no call."""
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
        notes.add("a call under `function`")
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ValueError("no call")
    if "arguments" not in value and "parameters" in value:
        value = {**value, "arguments": value["parameters"]}
        notes.add("`parameters` in place of `arguments`")
    arguments = value.get("arguments", {})
    for _ in range(2):
        if isinstance(arguments, str):
            arguments = _loads(arguments) if arguments.strip() else {}
            notes.add("arguments as a JSON text")
    if not isinstance(arguments, Mapping):
        raise ValueError("no arguments")
    return {"name": value["name"], "arguments": arguments}
