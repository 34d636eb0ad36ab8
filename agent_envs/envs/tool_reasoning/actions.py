"""`Actions` parses a turn's text into tool calls, the answer, or nothing; the styles `tags` and `json` have one meaning."""

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.base.dialects import NOT_CLOSED, thoughts_of
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Answer, Call, Malformed, Parsed, TagProtocol, ToolCallProtocol
from agent_envs.base.serialization import canonical_json
from agent_envs.base.tool_schema import Toolkit, tool
from agent_envs.grading.math import boxed

PROTOCOLS = ("tags", "json")
SEARCH, BROWSE, PYTHON = TOOLS = ("search", "browse", "python")
MOST_CALLS = 8  # in one turn of the style `json`
_MOST_READ = 20  # calls of a turn that are answered at all
_ARGUMENT = {SEARCH: "query", BROWSE: "document", PYTHON: "code"}
_CALLS = ToolCallProtocol()
_PAGE = re.compile(r"\[page (\d{1,6})\]\Z")
_FENCE = re.compile(r"[ \t]*```[ \t]*[\w+-]*[ \t]*")


@dataclass(frozen=True, slots=True)
class Wish:
    """One call: its tool, the query, document or program, and why it cannot be carried out ("" where it can)."""

    call: ToolCall
    text: str = ""
    page: int = 1
    problem: str = ""


@tool
def search(query: str) -> str:
    """Look something up: the best pages come back with their IDs and extracts.

    Args:
        query: what to look for.
    """
    return query


@tool
def browse(document: str, page: int = 1) -> str:
    """Open a page that a search or another page showed.

    Args:
        document: its ID.
        page: which part of a long one.
    """
    return document


@tool
def python(code: str) -> str:
    """Run a program; what it prints and the value of its last expression come back.

    Args:
        code: the program.
    """
    return code


class Actions:
    """The parser of turns, for a style and the tools that are offered."""

    def __init__(self, protocol: str, offered: Sequence[str]) -> None:
        """Take the style and the tools that are offered; `json` has their schemas, `tags` their stop strings."""
        self.protocol, self.offered = protocol, tuple(offered)
        self._toolkit = Toolkit([one for one in (search, browse, python) if one.name in offered])
        self.tags = TagProtocol(
            {name: (name, _ARGUMENT[name]) for name in offered},
            verbatim=frozenset((PYTHON,)),
            about={name: one.description for name, one in self._toolkit.tools.items()},
        )
        self.schemas: tuple[Mapping[str, Any], ...] = ()
        self.stop: tuple[str, ...] = ()
        if protocol == "json":
            self.schemas = tuple(self._toolkit.schemas())
        else:
            self.stop = self.tags.stop

    def read(self, text: str) -> tuple[Parsed, tuple[Wish, ...]]:
        r"""Return a turn as a typed action, and its calls, () for none; in any protocol <answer> answers. Never raises.

        `<answer>...</answer>` is an answer in both styles; in `json` it counts where it stands before any call, and so does
        a `\boxed{...}` in a turn without a call.
        """
        if self.protocol == "tags":
            parsed = self.tags.parse(text)
            if not isinstance(parsed, Call):
                return parsed, ()
            wish = _parse_tag(parsed.calls[0])
            return Call((wish.call,)), (wish,)
        answer, call = text.find("<answer>"), text.find("<tool_call>")
        if answer >= 0 and (call < 0 or answer < call):
            return Answer(text[answer + len("<answer>") :].partition("</answer>")[0].strip()), ()
        if call < 0:
            if thoughts_of(text)[1]:
                return Malformed(NOT_CLOSED), ()
            if boxed(text) is not None:
                return Answer(text.strip()), ()
            names = ", ".join(self.offered)
            return Malformed(f"it calls no tool ({names}) and has no <answer> tag"), ()
        parsed = _CALLS.parse(text)
        if not isinstance(parsed, Call):
            return parsed, ()
        return parsed, tuple(self._parse_call(one, place) for place, one in enumerate(parsed.calls[:_MOST_READ]))

    def _parse_call(self, call: ToolCall, place: int) -> Wish:
        """Return a native call as a wish, with a problem for an unknown tool, wrong arguments or one call too many."""
        if place >= MOST_CALLS:
            return Wish(call, problem=f"a turn has at most {MOST_CALLS} calls")
        checked = self._toolkit.execute(call)
        if checked.error:
            return Wish(call, problem=checked.content.removeprefix("Error: ")[:300])
        arguments = json.loads(call.arguments)
        text = arguments[_ARGUMENT[call.name]]
        if call.name == PYTHON:
            return Wish(call, program(text))
        return Wish(call, text.strip(), arguments.get("page", 1))

    def rendered(self, name: str, text: str) -> str:
        """Return the text that makes a call of a tool with one argument, in this parser's protocol."""
        if self.protocol == "json":
            arguments = json.dumps({_ARGUMENT[name]: text}, ensure_ascii=False)
            return _CALLS.render([ToolCall("call_0", name, arguments)])
        return f"<{name}>\n{text}\n</{name}>" if name == PYTHON else f"<{name}>{text}</{name}>"


def _parse_tag(call: ToolCall) -> Wish:
    """Return a tag's call as a wish: python's text as a program, a `[page N]` at browse's end as its page number."""
    text = json.loads(call.arguments)[_ARGUMENT[call.name]]
    if call.name == PYTHON:
        return Wish(call, program(text))
    if call.name != BROWSE or (suffix := _PAGE.search(text[-20:])) is None:
        return Wish(call, text)
    document = text[: len(text) - len(suffix[0])].rstrip()
    arguments = canonical_json({"document": document, "page": int(suffix[1])})
    return Wish(ToolCall(call.id, call.name, arguments), document, int(suffix[1]))


def program(text: str) -> str:
    """Return the program in a call's text: without a fence around it, and without an indent that all of it shares."""
    lines = text.strip("\r\n").rstrip().split("\n")
    if len(lines) > 1 and _FENCE.fullmatch(lines[0].rstrip()) and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return textwrap.dedent("\n".join(lines)).strip("\n")
