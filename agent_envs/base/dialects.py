"""Dialects in which language models write a turn are rewritten to the form of a protocol, so that one parser serves all.

Text inside `<think>...</think>` is no action in any protocol. Tool calls may be written as other vendors write them, and the
name of a game's action may be followed by more words. Every rewriting but that of thoughts is an event of the turn. All of it
is linear in the text's length and never raises.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import MAX_CALL_CHARACTERS, read_call, sound_json
from agent_envs.base.serialization import canonical_json

THOUGHTS = ("skip", "count")  # whether text inside a thought may act
TOLERATED = "tolerated:"  # how the event of a rewriting begins
NOT_CLOSED = "the thought was not closed"
CUT_SHORT = "the reply was cut at its limit before the action was closed"
MAX_CALLS = 64  # in one text
# Of the models' templates: <think>, <thinking>, <thought>, <reasoning>, <seed:think>, Kimi's marks, gpt-oss's channel, which
# the end of its message closes, and Mistral's [THINK]; and JSON calls.
_TAG = r"[<◁](?:(/?)(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)[ \t\n]{,9}[>▷]|\|(?:channel\|>analysis<\|message|(end))\|>)"
_THOUGHT = re.compile(f"{_TAG}()()()", re.IGNORECASE)
# It takes longer to look for.
_THOUGHT_OR_CALL = re.compile(rf"{_TAG}|(?-i:\[(/?)THINK\]|(<tool_call>(?=\s*+[{{\[]))|(</tool_call>))", re.IGNORECASE)

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_FENCE = re.compile(r"```[a-z_]*\n(.*)\n```", re.DOTALL)
_PLACEHOLDER = re.compile(
    r"<(\w+)>\s*(?:\.{2,}|…|and|or|[\[({]\s*your [^<>\n]{0,60}|"
    r"your (?:final |search )?(?:query|answer|question|code|program)(?: here)?)\s*</\1>",
    re.IGNORECASE,
)
# A turn in which no dialect can be: a thought or none, one closed tag, and no sign of any of the above in it.
plain_turn = re.compile(
    r"((?:<think>[^<\[◁]*+</think>)?)[^<>#\\\[◁]*+<(?!think|thought|reason|tool_call|function_call)([a-z_]++)>"
    r"(?!\s*(?:\.|…|[({]?\s*(?i:your)|(?i:and|or)\b))[^<>#\\\[◁]++</\2>"
).fullmatch
_DRESSED = re.compile(r"[<\[◁\n]").search  # a sign of a dialect, of a thought, or of a reply that runs on
# Qwen3-Coder's calls. Each part ends at the text's end at the latest, so that no start is looked at twice.
_XML = re.compile(
    r"(<tool_call>\s*+)?<function=([^<>\s]{1,100})>(.*?)(?:</function>|(?=</tool_call>)|\Z)(?(1)(?:\s*+</tool_call>)?)",
    re.DOTALL,
)
# What stands before and behind JSON calls of Mistral's, Llama's and other templates.
_BEFORE_CALLS = re.compile(r"[\[<](?:TOOL_CALLS\]|\|python_tag\|>|function_call>)(?=\s*+[\[{])")
_BEHIND_CALLS = re.compile(r"</function_call>|<\|eo[mt]_id\|>|</s>")
_PARAMETER = re.compile(r"<parameter=([^<>\s]{1,100})>(.*?)(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_NAME = re.compile(r'"name"\s*+:\s*+"((?:[^"\\]|\\.)*+)"', re.DOTALL)
# The prompt's own form, which a reply that runs on begins again, or the end of a turn in a chat template.
_AGAIN_LINE = (
    r"\n[ \t]*+[#*]*+ ?(?:question|problem|user|human|customer|passenger|observation)(?: ?[0-9]{1,3})? ?\**:"
    r"|\n[ \t]*+give your final answer as"
)
_AGAIN = re.compile(
    rf"{_AGAIN_LINE}|<\|(?:im_end|im_start|eot_id|eom_id|end|endoftext|end_of_text)\|>|</s>|<end_of_turn>",
    re.IGNORECASE,
)
# A sign without which a text has no thought and does not run on.
dressed = re.compile(rf"[<\[◁]|{_AGAIN_LINE}", re.IGNORECASE).search
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)  # outside of texts
_JOINED = re.compile(r"[,;/&|+>→]|\b(?:or|nor|vs|and|then|before|after)\b")
# Words behind a name that make it part of a sentence about it (`do not move`, `left is blocked`, `up to you`).
_SENTENCE = re.compile(
    r"\W*(?:not|no|nothing|never|is|are|was|were|would|could|should|will|can|cannot|may|might|has|had|does|did|i|you|we|it is|"
    r"to you|now (?:i|we|you)|away|\w+n['’]t|won['’]t)\b",
)
_OPEN_NUMBER = re.compile(r"\W*+\d[\d.,/]*+\w*+\Z")
_LAST_WORD = re.compile(r"(?<!\w)\w++\Z")
_EDGE = re.compile(r"[\s*_`\"'“”‘’.!,;:()\[\]<>]+")


def is_plain(text: str) -> bool:
    """Return whether no dialect can be in a text: one line of speech, or one canonical call."""
    if _DRESSED(text) is None:
        return text.lstrip()[:1] not in ("{", "`")
    start, end = len(_OPENING), len(text) - len(_CLOSING)
    body = text[start:end]
    if not (text.startswith(_OPENING) and text.endswith(_CLOSING)) or "<" in body or "◁" in body or "\n" in body[1:-1]:
        return False
    return "THINK]" not in body and "_CALLS]" not in body and isinstance(read_call(body, "call_0"), ToolCall)


def thoughts_of(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return (start, end) of each thought, tags included, and whether the last is open, which runs to the text's end.

    A closing tag without an opening one ends a thought that the prompt began, as some chat templates do. Tags inside a tool
    call are text of its arguments.
    """
    spans: list[tuple[int, int]] = []
    start: int | None = None
    if "THINK]" not in text and _THOUGHT.search(text) is None:
        return spans, False
    in_call, last_call_end = False, text.rfind(_CLOSING)
    for tag in (_THOUGHT_OR_CALL if "THINK]" in text or last_call_end >= 0 else _THOUGHT).finditer(text):
        if tag[4] or tag[5]:
            in_call = bool(tag[4]) and start is None and tag.start() < last_call_end
        elif in_call or (tag[2] and start is None):
            continue
        elif not (tag[1] or tag[2] or tag[3]):
            start = tag.start() if start is None else start
        elif start is None:
            spans = [(0, tag.end())]
        else:
            spans.append((start, tag.end()))
            start = None
    return (spans, False) if start is None else ([*spans, (start, len(text))], True)


def outside_thoughts(text: str) -> tuple[str, bool]:
    """Return a text less its thoughts, a blank where no space parts what was around one, and whether the last is open."""
    if "<" not in text and "THINK]" not in text and "◁" not in text:
        return text, False
    end = text.find("</think>") if text.startswith("<think>") else -1
    if end > 0 and "<" not in text[7:end] and "THINK]" not in text and _THOUGHT.search(text, end + 8) is None:
        return text[end + 8 :], False  # the usual turn
    spans, is_open = thoughts_of(text)
    if not spans:
        return text, False
    if len(spans) == 1 and spans[0][0] == 0:
        return text[spans[0][1] :], is_open
    starts, ends = zip(*spans, strict=True)
    parts = [part for end, start in zip((0, *ends), (*starts, len(text)), strict=True) if (part := text[end:start])]
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
    """Return a text with a blank for each of these tags that holds a mere placeholder (`<search>...</search>`)."""
    names = frozenset(tags)
    return _PLACEHOLDER.sub(lambda match: " " if match[1] in names else match[0], text)


def before_run_on(text: str, action: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:
    """Cut a reply where it begins the prompt's own form again behind an action, a pattern of the text; return an event."""
    start = re.search(action(text), text, re.IGNORECASE) if _AGAIN.search(text) else None
    again = _AGAIN.search(text, start.end()) if start else None
    if again is None:
        return text, ()
    return text[: again.start()], (f"{TOLERATED} the reply ran on: {again[0].strip()!r}",)


def without_open_action(text: str, tags: Iterable[str], mark: str = "", line: int = -1) -> str:
    """Return a reply that its limit cut, less an action at its end that might go on; unchanged where all it has is closed.

    A call in XML leaves the opening tag of a call, so that what was said before it is no speech.

    Args:
        text: the reply, less its thoughts.
        tags: names of the tags that act.
        mark: what stands before an answer that ends where its line does.
        line: where an action begins that ends where its line does, -1 for none; its last word may be half.
    """
    for opening, closing in (*((f"<{tag}>", f"</{tag}>") for tag in tags), ("<function=", "</function>")):
        start = text.find(opening, text.rfind(closing) + 1)
        if start >= 0:
            text = text[:start] + (_OPENING if opening == "<function=" else "")
    for sign in filter(None, (mark, "\\boxed", "\\fbox")):
        start = text.rfind(sign)
        if start >= 0 and _OPEN_NUMBER.match(text, start + len(sign)):
            text = text[:start]
    return text if line < 0 or "\n" in text[line:].lstrip() else text[:line] + _LAST_WORD.sub("", text[line:])


def may_be_call(body: str, tools: Iterable[str]) -> bool:
    """Return whether a JSON text is meant as a call: it has arguments, or its name is a tool's or no text; else it is data."""
    name = _NAME.search(body)
    return name is None or name[1] in tools or '"arguments"' in body or '"parameters"' in body


def canonical_calls(text: str, tools: Sequence[Mapping[str, Any]] = ()) -> tuple[str, tuple[str, ...]]:
    """Return a text with calls in models' dialects made canonical, an event for each; unchanged with () for none or too many.

    Arguments may be a JSON text, encoded once or twice, or stand under `parameters`; a call may stand under `function`, several
    in a list or one a line, or without tags where nothing else is written; a comma may trail; a call may be written as
    `<function=NAME><parameter=KEY>value</parameter></function>`, or as JSON behind `[TOOL_CALLS]`, `<|python_tag|>` or
    `<function_call>`. What is no call stays as it is.

    Args:
        text: a turn.
        tools: schemas of the tools, by which data and parts of prose are told from calls; without any, none are.
    """
    text, events = _without_xml(text, tools) if "<function=" in text else (text, list[str]())
    if _BEFORE_CALLS.search(text):
        text = _BEHIND_CALLS.sub(_CLOSING, _BEFORE_CALLS.sub(_OPENING, text))
        events.append(f"{TOLERATED} calls in another template's form")
    position = text.find(_OPENING)
    if position < 0:
        if text.lstrip()[:1] not in ("{", "[", "`"):
            return text, ()
        names = [tool["function"]["name"] for tool in tools]
        return (text, ()) if names and not may_be_call(text, names) else _untagged(text)
    parts, number = [text[:position]], 0
    while position >= 0:
        if len(events) > MAX_CALLS:
            return text, ()
        start = position + len(_OPENING)
        end = text.find(_CLOSING, start)
        behind = end + len(_CLOSING) if end >= 0 else len(text)
        body = text[start : end if end >= 0 else len(text)]
        is_sound = isinstance(read_call(body, f"call_{number}"), ToolCall)  # the protocol's own reader, which keeps it
        calls, notes = ([], ()) if is_sound else _calls_in(body)
        number += len(calls) or 1
        parts.append("\n".join(map(_tagged, calls)) if notes else text[position:behind])
        events += notes
        position = text.find(_OPENING, behind)
        parts.append(text[behind : position if position >= 0 else len(text)])
    return ("".join(parts), tuple(events)) if events else (text, ())


def _without_xml(text: str, tools: Iterable[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """Rewrite calls in XML, outside of a `<tool_call>` those of tools alone, to tagged JSON; return an event for each."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"].get("properties", {}) for tool in tools}
    events = list[str]()

    def rewritten(match: re.Match[str]) -> str:
        """Return a call as tagged JSON, and note an event; a match that is too long, one too many or no call as it stands."""
        too_much = len(match[0]) > MAX_CALL_CHARACTERS or len(events) >= MAX_CALLS
        if too_much or not (match[1] or match[2] in schemas or not schemas):
            return match[0]
        kinds = schemas.get(match[2], {})
        try:
            arguments = {
                key: _typed(value, kinds.get(key, {}).get("type")) for key, value in _PARAMETER.findall(match[3])
            }
            call = canonical_json({"name": match[2], "arguments": arguments})
        except (ValueError, RecursionError):
            return match[0]
        events.append(f"{TOLERATED} a call in XML")
        return _tagged(call.replace(_CLOSING, "<\\/tool_call>"))

    return _XML.sub(rewritten, text), events


def _typed(value: str, kind: Any) -> Any:
    """Return the text of a parameter as its schema has it: what is no text is JSON."""
    value = value.strip("\n")
    if kind in (None, "string"):
        return value
    with suppress(ValueError):
        return sound_json(value.strip().lower() if kind == "boolean" else value.strip())
    return value


def _untagged(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the tagged calls of a text that is nothing but JSON calls, fenced or not, and events; any other as is with ()."""
    body = text.strip()
    fence = _FENCE.fullmatch(body)
    body = fence[1].strip() if fence else body
    if body[:1] not in ("{", "[") or '"name"' not in body:
        return text, ()
    calls, notes = _calls_in(body)
    return ("\n".join(map(_tagged, calls)), (*notes, f"{TOLERATED} a call without tags")) if calls else (text, ())


def _tagged(call: str) -> str:
    """Return the text of a tool call between the opening and closing tags of the dialect."""
    return f"{_OPENING}\n{call}\n{_CLOSING}"


def _calls_in(body: str) -> tuple[list[str], tuple[str, ...]]:
    """Return a body's calls as JSON texts, and one event that names all that was tolerated; both empty where one is no call."""
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
    """Return a text's one JSON value, or one a line, and departures from sound JSON; ValueError if too long or no JSON."""
    if len(body) > MAX_CALL_CHARACTERS:
        raise ValueError("too long")
    mended = _TRAILING_COMMA.sub(lambda match: match[1] or "", body)
    for text, notes in ((body, set[str]()), (mended, {"a comma before a closing bracket"})):
        with suppress(ValueError, RecursionError):
            return [sound_json(text)], notes
    lines = [line.strip().rstrip(",") for line in body.strip().splitlines() if line.strip()]
    if not 1 < len(lines) <= MAX_CALLS:
        raise ValueError("no JSON")
    return [sound_json(line) for line in lines], {"several calls in one tag"}


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
            arguments = sound_json(arguments) if arguments.strip() else {}
            notes.add("arguments as a JSON text")
    if not isinstance(arguments, Mapping):
        raise ValueError("no arguments")
    return {"name": value["name"], "arguments": arguments}
