"""The bytes of an HTTP answer become a page: its content type and character set are found, and its text is decoded."""

import re

from agent_envs.tools.web.html_text import page_of_html
from agent_envs.tools.web.lines import bounded
from agent_envs.tools.web.page import WebPage
from agent_envs.tools.web.text import one_line
from agent_envs.tools.web.url_policy import Unopenable

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(r"text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml)|application/(?:x-ndjson|rss\+xml|atom\+xml)")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"<\?xml[^>]{0,100}?encoding\s{0,9}=\s{0,9}[\"']([A-Za-z0-9_:.-]{1,40})")
_HEAD_BYTES = 2_048
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le"))
_MOST_UNREADABLE = 0.1  # of the characters, beyond a few; with more the bytes are no text
_FEW = 3
# Names on the web -> Python's codecs, because not every codec of Python's is a character set, and because the web's Latin-1
# is windows-1252 (WHATWG, Encoding).
_CODECS = {
    "utf-8": "utf-8", "utf8": "utf-8", "us-ascii": "cp1252", "ascii": "cp1252", "iso-8859-1": "cp1252", "latin1": "cp1252",
    "latin-1": "cp1252", "iso8859-1": "cp1252", "iso_8859-1": "cp1252", "windows-1252": "cp1252", "cp1252": "cp1252",
    "utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "iso-8859-9": "cp1254", "tis-620": "cp874",
    "windows-874": "cp874", "gb2312": "gb18030", "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs",
    "big5-hkscs": "big5hkscs", "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "windows-31j": "cp932",
    "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp", "euc-kr": "cp949", "ks_c_5601-1987": "cp949", "koi8-r": "koi8_r",
    "koi8-u": "koi8_u", "macintosh": "mac_roman", "ibm866": "cp866", "cp866": "cp866",
    **{f"windows-125{number}": f"cp125{number}" for number in (0, 1, 3, 4, 5, 6, 7, 8)},
    **{f"iso-8859-{number}": f"iso8859_{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}  # fmt: skip


def page_of(body: bytes, content_type: str, url: str) -> WebPage:
    """Return the page that an answer holds; raises Unopenable where it is of no kind of text."""
    kind = content_type.partition(";")[0].strip().lower()
    if not kind:
        kind = "text/html" if body.lstrip()[:1] == b"<" else "text/plain"
    if kind not in _HTML and not _TEXT.fullmatch(kind):
        raise Unopenable(f"The page is of the type {one_line(kind, 100)}; only text, HTML, JSON and XML are read.")
    text = decoded(body, content_type, kind)
    return page_of_html(text, url) if kind in _HTML else WebPage(url, text=bounded(text))


def decoded(body: bytes, content_type: str, kind: str) -> str:
    """Return a body as text: by its byte order mark, its header, what it says itself, else UTF-8 or windows-1252.

    Raises Unopenable: its bytes are no text.
    """
    codec = _codec(body, content_type, kind)
    text = body.decode(codec, "replace")
    unreadable = text.count("\ufffd") + text.count("\0")
    if unreadable > max(_FEW, _MOST_UNREADABLE * len(text)):
        raise Unopenable("The page's bytes are no text.")
    return text


def _codec(body: bytes, content_type: str, kind: str) -> str:
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return codec
    named = _CHARSET.search(content_type[:500])
    if named is not None and named.group(1).lower() in _CODECS:
        return _CODECS[named.group(1).lower()]
    head = body[:_HEAD_BYTES]
    inside = _XML_ENCODING.match(head) or (_META.search(head) if kind in _HTML else None)
    if inside is not None:
        codec = _CODECS.get(inside.group(1).decode("ascii").lower(), "")
        # What could be read as ASCII so far is not UTF-16.
        if codec and not codec.startswith("utf-16"):
            return codec
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the end of the body cuts is no sign of another character set.
        return "utf-8" if error.start >= len(body) - 3 else "cp1252"
    return "utf-8"
