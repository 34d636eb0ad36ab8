"""Protocols parse a policy's text into Say, Call, Answer or Malformed; they never raise and are linear in the text's length.

Four protocols serve every environment: tags (`<search>...</search>`), tags with a marked answer (`#### 42`), JSON tool calls
inside `<tool_call>` tags, and a label (`ACTION: ...`). An unclosed last action tag counts as closed (servers cut the stop
string); the first complete action tag wins, and what follows it stays in the record and is ignored.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json, state_type

MAX_CALL_CHARACTERS = 100_000
_CALL_KEYS = frozenset(("name", "arguments", "id", "type"))
MAX_CALL_DEPTH = 64  # of objects and lists within one another
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{\]}]', re.DOTALL)  # and strings, whose brackets do not count
_Tag = tuple[str, str, str]  # a name, and how its tag opens and closes


@state_type
@dataclass(frozen=True, slots=True)
class Say:
    """Plain text, addressed to whoever listens."""

    text: str


@state_type
@dataclass(frozen=True, slots=True)
class Call:
    """One or more tool calls."""

    calls: tuple[ToolCall, ...]


@state_type
@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer."""

    text: str


@state_type
@dataclass(frozen=True, slots=True)
class Malformed:
    """Text with no action in it; `reason` is fit to be shown to the policy."""

    reason: str


Parsed = Say | Call | Answer | Malformed


@dataclass(frozen=True)
class TagProtocol:
    """Actions are XML-like tags, as Search-R1 defines them (arXiv 2503.09516, section 3.2).

    Attributes:
        tools: tag name -> (tool name, the argument that receives the tag's text).
        answer: the tag that ends the episode.
        verbatim: tags whose text keeps the white space at its ends, such as a program.
        about: tool name -> a sentence on what the tool does, for `tool_view`.
    """

    tools: Mapping[str, tuple[str, str]]
    answer: str = "answer"
    verbatim: frozenset[str] = frozenset()
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings for a sampler; they stay in the text."""
        return tuple(f"</{name}>" for name in (*self.tools, self.answer))

    def parse(self, text: str) -> Parsed:
        """Return the first complete action of the text, else its last unclosed one, else Malformed."""
        tag = _first_tag(text, self._tags)
        if tag is None:
            return Malformed(f"it has no {_opening_tags(*self.tools, self.answer)} tag")
        _, name, body, _ = tag
        if name == self.answer:
            return Answer(body.strip())
        return _tag_call(self.tools[name], body if name in self.verbatim else body.strip())

    @cached_property
    def _tags(self) -> tuple[_Tag, ...]:
        """Return name, opening and closing tag of each tool and of the answer, cached."""
        return _tags(*self.tools, self.answer)


@dataclass(frozen=True)
class MarkedAnswerProtocol:
    """Tool calls are tags; the answer stands behind a mark at a line's end, as GSM8K writes it (`#### 42`).

    An answer begins with a digit, behind signs, brackets, a point or a dollar sign; "after the ####." is no answer. The last
    answer of a turn counts, unless a complete tool tag stands before the first.

    Attributes:
        tools: tag name -> (tool name, the argument that receives the tag's text).
        mark: what stands before the answer.
        about: tool name -> a sentence on what the tool does, for `tool_view`.
    """

    tools: Mapping[str, tuple[str, str]]
    mark: str = "####"
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings for a sampler: the closing tags of tools; an answer ends where the turn does."""
        return tuple(f"</{name}>" for name in self.tools)

    def parse(self, text: str) -> Parsed:
        """Return the first complete call before any answer, else the last answer, else the last open call, else Malformed."""
        tag = _first_tag(text, self._tags)
        place, answer = marked_answer(text, self.mark)
        if tag is not None and (place < 0 or (tag[3] and tag[0] < place)):
            return _tag_call(self.tools[tag[1]], tag[2].strip())
        if place >= 0:
            return Answer(answer)
        return Malformed(f"it has no {_opening_tags(*self.tools)} tag, and no answer behind {self.mark}")

    @cached_property
    def _tags(self) -> tuple[_Tag, ...]:
        """Return name, opening and closing tag of each tool, cached; the answer has none."""
        return _tags(*self.tools)


@lru_cache(maxsize=8)  # success and reward of a turn read the same text
def marked_answer(text: str, mark: str = "####") -> tuple[int, str]:
    """Return the place of the first answer behind a mark, and the text of the last one; (-1, "") without any."""
    first, last = -1, ""
    for match in _mark_pattern(mark).finditer(text):
        first, last = (match.start() if first < 0 else first), match[1]
    return first, last.strip()


@lru_cache(maxsize=8)
def _mark_pattern(mark: str) -> re.Pattern[str]:
    """Return the pattern of an answer's mark with a number and the rest of its line behind it, cached."""
    # Possessive repeats: no backtracking, so a megabyte of signs stays linear.
    return re.compile(re.escape(mark) + r"([-+($ \t]*+\.?[0-9][^\n]{0,2000})")


def _opening_tags(*tags: str) -> str:
    """Return the opening tags of these names, joined by "or", for a hint to the policy."""
    return " or ".join(f"<{tag}>" for tag in tags)


def _tags(*names: str) -> tuple[_Tag, ...]:
    """Return (name, opening tag, closing tag) of each name."""
    return tuple((name, f"<{name}>", f"</{name}>") for name in names)


def _first_tag(text: str, tags: tuple[_Tag, ...]) -> tuple[int, str, str, bool] | None:
    """Return place, name, body and completeness of the first complete tag, else of the last unclosed one; None for none."""
    best = opened = None
    for name, opening, closing in tags:
        # If the first opening tag has no closing tag after it, no later one has: one search a name is enough.
        start = text.find(opening)
        if start < 0:
            continue
        end = text.find(closing, start)
        if end >= 0:
            if best is None or start < best[0]:
                best = (start, name, text[start + len(opening) : end], True)
        else:
            last = text.rfind(opening)
            if opened is None or last > opened[0]:
                opened = (last, name, text[last + len(opening) :], False)
    return best or opened


def _tag_call(tool: tuple[str, str], body: str) -> Call:
    """Return the one tool call that a tag stands for; `tool` is its name and the one argument that takes the body."""
    # The canonical text of {argument: body}, put together: encoding a dict costs three times as much.
    return Call((ToolCall("call_0", tool[0], f"{{{canonical_json(tool[1])}:{canonical_json(body)}}}"),))


@dataclass(frozen=True)
class ToolCallProtocol:
    """Native tool calls, in the one canonical text that every id of ours uses for them.

    A call is `<tool_call>` newline JSON newline `</tool_call>`, the JSON being `{"name": ..., "arguments": {...}}`; several
    calls stand one after another, one newline apart; each result is a message of role `tool` whose `tool_call_id` is
    `call_0`, `call_1`, ... in order. Text without a call is speech.
    """

    stop: tuple[str, ...] = ()

    @staticmethod
    def render(calls: Sequence[ToolCall]) -> str:
        r"""Return the canonical text of calls; a closing tag inside a JSON string is written `<\/tool_call>`."""
        rows = (f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in calls)
        safe = (row.replace("</tool_call>", "<\\/tool_call>") for row in rows)
        return "\n".join(f"<tool_call>\n{row}\n</tool_call>" for row in safe)

    def parse(self, text: str) -> Parsed:
        """Return the calls of the text in order; Malformed if any is not a JSON call; Say if there is none."""
        calls: list[ToolCall] = []
        position = text.find("<tool_call>")
        if position < 0:
            return Say(text)
        while position >= 0:
            start = position + len("<tool_call>")
            end = text.find("</tool_call>", start)
            call = read_call(text[start : end if end >= 0 else len(text)], f"call_{len(calls)}")
            if isinstance(call, Malformed):
                return call
            calls.append(call)
            position = text.find("<tool_call>", end) if end >= 0 else -1
        return Call(tuple(calls))


@dataclass(frozen=True)
class LabelProtocol:
    """The action is the line after the last label, as Verlog and BALROG have it (`THINK: ... ACTION: go forward`).

    The label counts in any case, where no letter stands before it: `Action:`, but not `Reaction:`.
    """

    label: str = "ACTION:"
    stop: tuple[str, ...] = ()

    def parse(self, text: str) -> Parsed:
        """Return Say with the first line after the last label; Malformed without a label, or with nothing after it."""
        places = self.places(text)
        if not places:
            return Malformed(f'no line begins with "{self.label}"')
        lines = text[places[-1] + len(self.label) :].strip().splitlines()
        return Say(lines[0].strip()) if lines else Malformed(f"nothing stands after {self.label}")

    def places(self, text: str) -> list[int]:
        """Return the places of the label in a text."""
        return [match.start() for match in _label_pattern(self.label).finditer(text)]


@lru_cache(maxsize=8)
def _label_pattern(label: str) -> re.Pattern[str]:
    """Return the pattern of a label in any case, at the beginning of a word, cached."""
    return re.compile(r"(?<![A-Za-z])" + re.escape(label), re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=16)  # a call is read to be tolerated, and to be carried out
def read_call(body: str, call_id: str) -> ToolCall | Malformed:
    """Return a JSON text's call, {} for absent arguments; Malformed with the reason if too long, too deep or no such JSON."""
    if len(body) > MAX_CALL_CHARACTERS:
        return Malformed(f"the tool call is longer than {MAX_CALL_CHARACTERS} characters")
    if is_too_deep(body):
        return Malformed(f"the tool call is nested more than {MAX_CALL_DEPTH} deep")
    try:
        value = _decode(body)
        if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not _CALL_KEYS.issuperset(value):
            return Malformed('a tool call is {"name": "...", "arguments": {...}}')
        arguments = value.get("arguments", {})
        if not isinstance(arguments, dict):
            return Malformed("the arguments of a tool call are a JSON object")
        name, text = value["name"], canonical_json(arguments)
        if "\\u" in body or not body.isascii():
            # JSON escapes can make lone surrogates of plain ASCII text, behind the replacing of the whole turn.
            name, text = (part.encode("utf-8", "replace").decode("utf-8") for part in (name, text))
        return ToolCall(call_id, name, text)
    except json.JSONDecodeError as error:
        return Malformed(f"the tool call is not valid JSON at character {error.pos + 1}")
    except (ValueError, RecursionError):
        return Malformed("the tool call is not valid JSON: a number in it is none")


def _no_constant(name: str) -> None:
    """Raise ValueError for NaN and the infinities, which Python's reader of JSON takes."""
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode  # `json.loads` would make a decoder for each text


def is_too_deep(text: str, most: int = MAX_CALL_DEPTH) -> bool:
    """Tell whether a JSON text has more levels: where a reader's stack ends, garbage that is collected is not closed."""
    steps = ((match[0] in "[{") - (match[0] in "]}") for match in _BRACKETS.finditer(text))
    return text.count("{") + text.count("[") > most and any(level > most for level in accumulate(steps))


def sound_json(text: str, most: int = MAX_CALL_DEPTH) -> Any:
    """Return the value of a JSON text; ValueError for no JSON, NaN, an infinity or more than `most` levels."""
    if is_too_deep(text, most):
        raise ValueError(f"more than {most} levels")
    return _decode(text)
