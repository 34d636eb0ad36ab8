"""HTML is read as a stream of tags and texts, in time linear in its length whatever it holds.

No tree is built, because a text needs none, and because no parser at hand is linear. Of 2 MB of markup, repeated `<div>` or
200,000 attributes take lexbor more than 20 s, 100,000 attributes take libxml2 88 s, and repeated `<!--` or `<a` take CPython
3.11.7's html.parser more than 8 s. The rules are those of the HTML standard's tokenizer, read leniently.
"""

import html
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

MAX_ATTRIBUTES = 100  # of a tag; the others are skipped
# Their content is text up to their own end tag, whatever it looks like.
RAW = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes", "title", "textarea"})
_TEXT = re.compile(r"[^<]+|<+(?![a-zA-Z/!?])")
_NAME = re.compile(r"</?([a-zA-Z][^\s/>]*)")
_UNQUOTED_REST = re.compile(r"[^\"'>]*>")
_ATTRIBUTE = re.compile(r"""[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s>"'][^\s>]*)?)?""")
_TAG_END = re.compile(r"[\s/]*>")
_RAW_END = {name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in RAW}
_LONG_NUMBER = re.compile(r"&#[0-9]{8,};?")  # beyond Unicode, and html.unescape fails on thousands of digits


class Tag(NamedTuple):
    """A start tag, or an end tag, which has no attributes. Names are in lower case; of equal attributes the first counts."""

    name: str
    ends: bool
    attributes: Mapping[str, str] = MappingProxyType({})


def tokens(source: str) -> Iterator[str | Tag]:
    """Yield the tags and texts of a document; comments and declarations are left out.

    A tag or comment that is never closed takes the rest of the document with it, as in a browser.
    """
    position, end = 0, len(source)
    while position < end:
        found = _TEXT.match(source, position)
        if found is not None:
            yield unescaped(found.group())
            position = found.end()
        elif (named := _NAME.match(source, position)) is not None:
            tag, position = _tag(source, named)
            if tag is None:
                return
            yield tag
            if not tag.ends and tag.name in RAW:
                closing = _RAW_END[tag.name].search(source, position)
                stop = end if closing is None else closing.start()
                raw = source[position:stop]
                yield unescaped(raw) if tag.name in ("title", "textarea") else raw
                position = stop
        else:
            position = _behind_comment(source, position)


def unescaped(text: str) -> str:
    """Return a text with its character references resolved."""
    return html.unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _tag(source: str, named: "re.Match[str]") -> tuple[Tag | None, int]:
    """Return a tag and the place behind it; None where it is not closed."""
    name, ends = named.group(1).lower(), source[named.start() + 1] == "/"
    rest = _UNQUOTED_REST.match(source, named.end())
    if rest is not None and (ends or "=" not in rest.group()):
        return Tag(name, ends), rest.end()
    attributes: dict[str, str] = {}
    position = named.end()
    while (closed := _TAG_END.match(source, position)) is None:
        found = _ATTRIBUTE.match(source, position)
        if found is None:
            return None, len(source)
        position = found.end()
        if len(attributes) < MAX_ATTRIBUTES:
            value = found.group(2) or ""
            value = value[1:-1] if value[:1] in ("'", '"') else value
            attributes.setdefault(found.group(1).lower(), unescaped(value))
    return Tag(name, ends, attributes), closed.end()


def _behind_comment(source: str, position: int) -> int:
    if not source.startswith("<!--", position):
        stop = source.find(">", position)
        return len(source) if stop < 0 else stop + 1
    if source.startswith((">", "->"), position + 4):
        return source.index(">", position) + 1
    stop = source.find("-->", position + 4)
    return len(source) if stop < 0 else stop + 3
