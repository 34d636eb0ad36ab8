"""HTML becomes what a reader sees of a page: its text in lines, its title and its links, in time linear in its length.

No tree is built, because a text needs none, and because no parser at hand is linear. Of 2 MB of markup, repeated `<div>` or
200,000 attributes take lexbor more than 20 s, 100,000 attributes take libxml2 88 s, and repeated `<!--` or `<a` take CPython
3.11.7's html.parser more than 8 s. The rules are those of the HTML standard's tokenizer, read leniently.
"""

import html
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from agent_envs.tools.web.page import (
    LINE,
    MAX_LINK_CHARACTERS,
    MAX_LINKS,
    MAX_TITLE_CHARACTERS,
    PARAGRAPH,
    SPACE,
    Lines,
    WebPage,
)
from agent_envs.tools.web.text import one_line
from agent_envs.tools.web.url_policy import MAX_URL_CHARACTERS

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
_HIDDEN = frozenset({"script", "style", "iframe", "noembed", "noframes", "textarea"})  # their content is no markup
# Left out with all that they hold: what serves to get about, to type into, or to look at.
_NOISE = frozenset(
    {"nav", "footer", "button", "select", "datalist", "template", "svg", "canvas", "audio", "video", "object", "dialog"}
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BREAKS = (
    dict.fromkeys(
        ("p", "ul", "ol", "dl", "table", "blockquote", "pre", "figure", "article", "section", "main", "header", "aside",
         "form", "fieldset", "hr", "address", "details", "nav", "footer", *_HEADINGS), PARAGRAPH)
    | dict.fromkeys(
        ("div", "li", "dt", "dd", "tr", "caption", "figcaption", "thead", "tbody", "tfoot", "summary", "legend", "body",
         "option", "center"), LINE)
)  # fmt: skip
_LISTS = frozenset({"ul", "ol"})
_MARKED = frozenset({"li", "sup", "sub", *_HEADINGS})
_MOST_INDENTS = 6


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
        match = _TEXT.match(source, position)
        if match is not None:
            yield unescaped(match.group())
            position = match.end()
        elif (name_match := _NAME.match(source, position)) is not None:
            tag, position = _tag(source, name_match)
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


def _tag(source: str, name_match: "re.Match[str]") -> tuple[Tag | None, int]:
    """Return a tag and the place behind it; None where it is not closed."""
    name, ends = name_match.group(1).lower(), source[name_match.start() + 1] == "/"
    rest = _UNQUOTED_REST.match(source, name_match.end())
    if rest is not None and (ends or "=" not in rest.group()):
        return Tag(name, ends), rest.end()
    attributes: dict[str, str] = {}
    position = name_match.end()
    while (closed := _TAG_END.match(source, position)) is None:
        match = _ATTRIBUTE.match(source, position)
        if match is None:
            return None, len(source)
        position = match.end()
        if len(attributes) < MAX_ATTRIBUTES:
            value = match.group(2) or ""
            value = value[1:-1] if value[:1] in ("'", '"') else value
            attributes.setdefault(match.group(1).lower(), unescaped(value))
    return Tag(name, ends, attributes), closed.end()


def _behind_comment(source: str, position: int) -> int:
    """Return the position behind a comment or declaration as a browser sees it; an unclosed one ends the document."""
    if not source.startswith("<!--", position):
        stop = source.find(">", position)
        return len(source) if stop < 0 else stop + 1
    if source.startswith((">", "->"), position + 4):
        return source.index(">", position) + 1
    stop = source.find("-->", position + 4)
    return len(source) if stop < 0 else stop + 3


def page_of_html(source: str, url: str) -> WebPage:
    """Return the page of an HTML document; links are joined to `url`, or to the document's own base."""
    reading = _PageReading(url)
    reading.read(source)
    for noise in (_NOISE - {reading.within}, frozenset[str]()):
        if reading.within:
            # A menu that is never closed would take the page with it.
            reading = _PageReading(url, noise)
            reading.read(source)
    return reading.page()


def plain_text(fragment: str, most: int) -> str:
    """Return the words in the first characters (8 times `most`) of a piece of HTML, one line of `most` at most."""
    reading = _PageReading("")
    reading.read(fragment[: 8 * most])
    return one_line(reading.page().text, most)


class _PageReading:
    """The state while a document is read."""

    def __init__(self, url: str, noise: frozenset[str] = _NOISE) -> None:
        """Set up an empty page; `noise` names the elements whose text is left out."""
        self._url, self._base, self._noise = url, "", noise
        self._title = ""
        self._text = Lines()
        self._links: tuple[dict[str, str], dict[str, str]] = ({}, {})  # of the text, of what is left out
        self._target: str | None = None
        self._targets: set[tuple[str, bool]] = set()  # those that were looked at, so that each is joined once
        self._words = ""
        self.within = ""  # the element that is left out, and how many of that name are open
        self._depth = 0
        self._lists: list[int] = []  # the next number in each, 0 for bullets

    def read(self, source: str) -> None:
        """Read the tokens of a document into text, links and title, until the text is full."""
        raw = ""
        for token in tokens(source):
            if isinstance(token, str):
                self._take(token, raw)
                raw = ""
                if self._text.full:
                    break
                continue
            raw = "" if token.ends else token.name
            if token.name == "a":
                self._begin_link(token)
            if self._depth or token.name in self._noise:
                self._skip(token)
            else:
                self._lay_out(token)
        self._end_link()

    def page(self) -> WebPage:
        """Return the page: links of the text come first, those of left-out elements behind them."""
        main, other = self._links
        links = {**main, **{url: words for url, words in other.items() if url not in main}}
        page_links = tuple((words, url) for url, words in links.items())[:MAX_LINKS]
        text = self._text.whole()
        return WebPage(self._url, self._title, text, page_links)

    def _take(self, text: str, element: str) -> None:
        """Take a text for the title, for an open link's words, and for the page unless its element is left out."""
        if element == "title":
            self._title = self._title or one_line(text, MAX_TITLE_CHARACTERS)
        elif element not in _HIDDEN:
            if self._target is not None and len(self._words) < 2 * MAX_LINK_CHARACTERS:
                self._words += text[: 2 * MAX_LINK_CHARACTERS]
            if not self._depth:
                self._text.add(text)

    def _skip(self, tag: Tag) -> None:
        """Enter or leave an element that is left out, with a count of elements of its name inside."""
        if not self._depth and not tag.ends:
            self.within, self._depth = tag.name, 1
            self._text.gap(SPACE)
        elif self._depth and tag.name == self.within:
            self._depth += -1 if tag.ends else 1
            self.within = self.within if self._depth else ""

    def _begin_link(self, tag: Tag) -> None:
        """End the open link, and begin another at a tag that has an address and is no closing one."""
        self._end_link()
        if not tag.ends and "href" in tag.attributes:
            self._target = tag.attributes["href"]

    def _end_link(self) -> None:
        """Close the open link; a URL keeps the words of its first link, and links without words are dropped."""
        target, self._target = self._target, None
        words, self._words = one_line(self._words, MAX_LINK_CHARACTERS), ""
        links = self._links[1 if self._depth else 0]
        if target is None or not words or len(links) == MAX_LINKS or (target, self._depth > 0) in self._targets:
            return
        self._targets.add((target, self._depth > 0))
        url = absolute(self._base or self._url, target)
        if url:
            links.setdefault(url, words)

    def _lay_out(self, tag: Tag) -> None:
        """Translate a tag to the text's layout: rows, gaps, lists, preformatted text, marks."""
        name = tag.name
        if name in ("tr", "table"):
            self._text.row()
        if name in _BREAKS:
            nested = name in _LISTS and len(self._lists) > tag.ends
            self._text.gap(LINE if nested else _BREAKS[name])
        if name in _LISTS:
            self._open_list(tag)
        elif name == "pre":
            self._text.as_it_is = not tag.ends
        elif not tag.ends:
            self._start(name, tag)
        elif name in _MARKED:
            self._text.mark("")

    def _start(self, name: str, tag: Tag) -> None:
        """Mark a heading, list item, cell, break or raised text, or take the page's base URL."""
        if name in _HEADINGS:
            self._text.mark("#" * _HEADINGS[name] + " ")
        elif name == "li":
            self._text.mark(self._item())
        elif name in ("td", "th"):
            self._text.cell()
        elif name == "br":
            self._text.gap(LINE)
        elif name in ("sup", "sub"):
            self._text.mark("^" if name == "sup" else "_")
        elif name == "base" and not self._base:
            self._base = absolute(self._url, tag.attributes.get("href", ""))

    def _open_list(self, tag: Tag) -> None:
        """Open a list, numbered or with bullets, or close the innermost."""
        if not tag.ends:
            self._lists.append(1 if tag.name == "ol" else 0)
        elif self._lists:
            self._lists.pop()
            self._text.mark("")

    def _item(self) -> str:
        """Return the indented mark of a list item; a numbered one counts up."""
        indent = "  " * min(max(len(self._lists) - 1, 0), _MOST_INDENTS)
        if not self._lists or not self._lists[-1]:
            return f"{indent}- "
        self._lists[-1] += 1
        return f"{indent}{self._lists[-1] - 1}. "


def absolute(base: str, target: str) -> str:
    """Return the URL that a page at `base` leads to, without its fragment; "" where it is no http(s) URL elsewhere."""
    target = one_line(target.partition("#")[0], MAX_URL_CHARACTERS + 1)
    if not target or len(target) > MAX_URL_CHARACTERS:
        return ""
    try:
        parts = urlsplit(urljoin(base, target).replace(" ", "%20"))
        sound_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return ""
    url = parts.geturl()
    return url if sound_url and len(url) <= MAX_URL_CHARACTERS else ""
