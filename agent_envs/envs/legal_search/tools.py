"""A turn's text is parsed, in one of two styles, as a search, a read, an answer or a format error."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Answer, Call, Malformed, Parsed, TagProtocol, ToolCallProtocol
from agent_envs.base.serialization import canonical_json
from agent_envs.base.tool_schema import Toolkit, tool

PROTOCOLS = ("tags", "json")
KEYWORD, SEMANTIC, READ, ANSWER = "keyword_search", "semantic_search", "read_section", "return_final_answer"
SEARCHES = (KEYWORD, SEMANTIC)
FAULTS = ("unparsable", "unknown_tool", "bad_arguments", "no_call")
MOST_SOURCES = 20  # citations that are kept of an answer

_CALLS = ToolCallProtocol()
_SUFFIX = re.compile(r"\[(up|page) (\d{1,6})\]\Z")
_SOURCES = re.compile(r"\[sources?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Search:
    """A search with one of the two engines."""

    call: ToolCall
    query: str


@dataclass(frozen=True, slots=True)
class Read:
    """A page of a section, or of one above it."""

    call: ToolCall
    section_id: str
    up: int = 0
    page: int = 1


@dataclass(frozen=True, slots=True)
class Final:
    """The answer, and the sections that it cites."""

    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A format error: its kind (one of `FAULTS`), and the reason in words for the policy."""

    kind: str
    reason: str


Wish = Search | Read | Final | Fault


@tool
def keyword_search(query: str) -> str:
    """Find sections that hold these words; the best come back with their IDs and extracts.

    Args:
        query: the words.
    """
    return query


@tool
def semantic_search(query: str) -> str:
    """Find sections of a similar meaning; the best come back with their IDs and extracts.

    Args:
        query: a description of what is looked for.
    """
    return query


@tool
def read_section(section_id: str, up: int = 0, page: int = 1) -> str:
    """Read a section by its ID, with the IDs of what stands above and below it.

    Args:
        section_id: the ID as a search or a read showed it.
        up: how many levels above it to read.
        page: which page of a long section.
    """
    return section_id


@tool
def return_final_answer(answer: str, sources: list[str]) -> str:
    """End the work with an answer.

    Args:
        answer: the answer alone, or "I don't know".
        sources: the IDs of the sections that prove it.
    """
    return answer


_TOOLKIT = Toolkit((keyword_search, semantic_search, read_section, return_final_answer))
TAGS = TagProtocol(
    tools={"keyword": (KEYWORD, "query"), "semantic": (SEMANTIC, "query"), "read": (READ, "section_id")},
    about={name: one.description for name, one in _TOOLKIT.tools.items()},
)


def schemas() -> tuple[Mapping[str, Any], ...]:
    """Return the schemas of the four tools, for the style `json`."""
    return tuple(_TOOLKIT.schemas())


def read_turn(text: str, protocol: str) -> tuple[Parsed, Wish]:
    """Return a turn as a typed action and its wish, by protocol (`tags`, any other calls; <answer> in both); never raises.

    In both styles `<answer>text [sources: ID; ID]</answer>` is an answer, because turn-restricted evaluation forces its
    opening tag; in the style `json` it counts where it stands before any call.
    """
    if protocol == "tags":
        return _parse_tags(text)
    answer, call = text.find("<answer>"), text.find("<tool_call>")
    if answer >= 0 and (call < 0 or answer < call):
        body = text[answer + len("<answer>") :].partition("</answer>")[0]
        return _parse_answer(body)
    return _parse_calls(_CALLS.parse(text))


def _parse_tags(text: str) -> tuple[Parsed, Wish]:
    """Return a turn in tags as a typed action, and its wish, or the Fault `no_call` where it holds no action."""
    parsed = TAGS.parse(text)
    if isinstance(parsed, Answer):
        return _parse_answer(parsed.text)
    if not isinstance(parsed, Call):
        reason = "it held no action; write <keyword>, <semantic>, <read> or <answer> with its closing tag"
        return parsed, Fault("no_call", reason)
    call = parsed.calls[0]
    arguments = json.loads(call.arguments)
    if call.name == READ:
        arguments = _with_suffixes(arguments["section_id"])
        call = ToolCall(call.id, READ, canonical_json(arguments))
    return Call((call,)), _wish(call, arguments)


def _parse_calls(parsed: Parsed) -> tuple[Parsed, Wish]:
    """Return native calls as a typed action, and the first call's wish, or its Fault; later calls stay in the action."""
    if isinstance(parsed, Malformed):
        return parsed, Fault("unparsable", parsed.reason)
    if not isinstance(parsed, Call):
        reason = f"it held no tool call; the tools are {', '.join(_TOOLKIT.tools)}"
        return Malformed(reason), Fault("no_call", reason)
    call = parsed.calls[0]
    if call.name not in _TOOLKIT.tools:
        reason = f"there is no tool {call.name[:100]!r}; the tools are {', '.join(_TOOLKIT.tools)}"
        return parsed, Fault("unknown_tool", reason)
    checked = _TOOLKIT.execute(call)
    if checked.error:
        return parsed, Fault("bad_arguments", checked.content.removeprefix("Error: ")[:300])
    arguments = json.loads(call.arguments)
    if call.name == ANSWER:
        answer = arguments["answer"].strip()
        return Answer(answer), Final(answer, _without_doubles(arguments["sources"]))
    return parsed, _wish(call, arguments)


def _wish(call: ToolCall, arguments: dict[str, Any]) -> Wish:
    """Return the search or read of a call whose arguments have the right types; a Fault for an empty or negative one."""
    if call.name in SEARCHES:
        query = arguments["query"].strip()
        return Search(call, query) if query else Fault("bad_arguments", "the query was empty")
    section_id, up, page = arguments["section_id"].strip(), arguments.get("up", 0), arguments.get("page", 1)
    if not section_id:
        return Fault("bad_arguments", "the section ID was empty")
    if up < 0 or page < 1:
        return Fault("bad_arguments", "up is 0 or more, and page 1 or more")
    return Read(call, section_id, up, page)


def _with_suffixes(body: str) -> dict[str, Any]:
    """Return the arguments of `ID [up 1] [page 2]`; suffixes that are not there, or come twice, are left out."""
    suffixes: dict[str, Any] = {}
    body = body.strip()
    while (match := _SUFFIX.search(body[-20:])) and match[1] not in suffixes:
        suffixes[match[1]] = int(match[2])
        body = body[: len(body) - len(match[0])].rstrip()
    return {"section_id": body, **suffixes}


def _parse_answer(body: str) -> tuple[Answer, Final]:
    """Return an answer tag's answer, and its sources: those of the last `[sources: ID; ID]`, () without one."""
    starts = [match.span() for match in _SOURCES.finditer(body)][-1:]
    if not starts:
        answer = body.strip()
        return Answer(answer), Final(answer)
    start, inside = starts[0]
    end = body.rfind("]", inside)
    behind = body[end + 1 :].strip(" \t\r\n.,;") if end >= 0 else ""
    answer = f"{body[:start].strip()} {behind}".strip()
    listed = body[inside : end if end >= 0 else len(body)]
    return Answer(answer), Final(answer, _without_doubles(listed.split(";")))


def _without_doubles(sources: list[str]) -> tuple[str, ...]:
    """Return the first sources, each once; one more than are kept shows that there were too many."""
    distinct = dict.fromkeys(text for source in sources if (text := source.strip()))
    return tuple(distinct)[: MOST_SOURCES + 1]


def citable(section_id: str) -> bool:
    """Return whether an ID, read and cited, is read back as it was written, in the style `tags`."""
    if not any(
        mark in section_id for mark in ";<["
    ):  # without these nothing in it ends a tag or a citation, or is a suffix
        return True
    _, read = read_turn(rendered(READ, "tags", section_id=section_id), "tags")
    _, cited = read_turn(rendered(ANSWER, "tags", answer="yes", sources=[section_id]), "tags")
    return isinstance(read, Read) and read.section_id == section_id and cited == Final("yes", (section_id,))


def rendered(name: str, protocol: str, **arguments: Any) -> str:
    """Return the text of a call or an answer as the style `json`, or else tags, has it; an answer without sources omits them.

    Args:
        name: one of the four tools.
        protocol: `tags` or `json`.
        arguments: of the tool; `up` and `page` may be left out.
    """
    if protocol == "json":
        return _CALLS.render([ToolCall("call_0", name, json.dumps(arguments, ensure_ascii=False))])
    if name == ANSWER:
        sources = f" [sources: {'; '.join(arguments['sources'])}]" if arguments["sources"] else ""
        return f"<answer>{arguments['answer']}{sources}</answer>"
    tag = next(tag for tag, (tool_name, _) in TAGS.tools.items() if tool_name == name)
    body = arguments.get("query", arguments.get("section_id"))
    suffixes = "".join(f" [{key} {arguments[key]}]" for key in ("up", "page") if key in arguments)
    return f"<{tag}>{body}{suffixes}</{tag}>"
