"""The reader opens pages: a public host, a deadline, a cap on bytes, checked redirects; live, recorded or replayed.

What the page or the choice of its URL causes is a page with an error, recorded like any other. What fails on our side (no
network, a resolver or proxy that does not answer, a site that limits our rate) is an EnvFault.
"""

import re
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urljoin, urlsplit

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.services.http import RETRYABLE_STATUSES, HttpReply, TransportFault, shared_client, wait_seconds_of
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.web.html_text import page_of_html
from agent_envs.tools.web.page import WebPage, bounded
from agent_envs.tools.web.text import one_line
from agent_envs.tools.web.url_policy import MAX_URL_CHARACTERS, Unopenable, UrlPolicy, url_policy_for

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
MAX_REDIRECTS = 5
PORT_NAME = "web_page"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOO_MANY_REQUESTS = 429
_ATTEMPTS_IN_FULL = 3  # the deadline of all attempts, in deadlines of one
_MAX_JSON_BYTES = 16_000_000
_HEADERS = {
    "Accept": "text/html, application/xhtml+xml, text/plain, application/json, application/xml;q=0.9, text/*;q=0.8"
}
_SURE_FAILURES = {
    "name": "The name {host} does not exist.",
    "connect": "No connection to {host} can be made.",
    "tunnel": "No connection to {host} can be made.",
    "tls": "The TLS certificate of {host} is not trusted.",
    "size": "The page is larger than {max_bytes:,} bytes.",
}
_PASSING_FAILURES = {
    "time": "{host} did not answer in full within {seconds:g} s.",
    "broken": "The answer of {host} is not sound HTTP.",
}


def page_of(body: bytes, content_type: str, url: str) -> WebPage:
    """Return the page of an answer: HTML read, other text bounded; Unopenable for other types and bytes that are no text."""
    kind = content_type.partition(";")[0].strip().lower()
    if not kind:
        kind = "text/html" if body.lstrip()[:1] == b"<" else "text/plain"
    if kind not in _HTML and not _TEXT.fullmatch(kind):
        raise Unopenable(f"The page is of the type {one_line(kind, 100)}; only text, HTML, JSON and XML are read.")
    text = decoded(body, content_type, kind)
    return page_of_html(text, url) if kind in _HTML else WebPage(url, text=bounded(text))


def decoded(body: bytes, content_type: str, kind: str) -> str:
    """Return a body as text by byte order mark, header or its own word, else UTF-8 or windows-1252; Unopenable if no text.

    Raises Unopenable: its bytes are no text.
    """
    codec = _codec(body, content_type, kind)
    text = body.decode(codec, "replace")
    unreadable = text.count("\ufffd") + text.count("\0")
    if unreadable > max(_FEW, _MOST_UNREADABLE * len(text)):
        raise Unopenable("The page's bytes are no text.")
    return text


def _codec(body: bytes, content_type: str, kind: str) -> str:
    """Choose the character set: byte order mark, header, the document's own statement, else UTF-8 or cp1252."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return codec
    match = _CHARSET.search(content_type[:500])
    if match is not None and match.group(1).lower() in _CODECS:
        return _CODECS[match.group(1).lower()]
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


class PageFault(EnvFault):
    """A page that cannot be had now; `reason` is what the policy reads where no attempt gets it."""

    def __init__(self, reason: str, wait_seconds: float = 0.0) -> None:
        super().__init__(reason, True, wait_seconds)
        self.reason = reason


class PageReader(Uncopied):
    """Opens pages of the web. The same URL gives the same page: with a recording each is opened once.

    Redirects are followed, from https to http too, because nothing secret is sent: no cookie, no password, no token.
    Behind a proxy of the environment the proxy resolves names, so that it has to refuse private ones itself; what is private
    by its name, by its address or by what the name resolves to here is refused all the same.
    """

    def __init__(
        self,
        *,
        recording: Recording | None = None,
        private_hosts: Iterable[str] = (),
        max_bytes: int = 2_000_000,
        seconds: float = 20.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Set the limits; nothing is sent before the first page.

        Args:
            recording: where pages are recorded, or replayed from.
            private_hosts: `host` or `host:port` that may be opened though they are not public, on any port.
            max_bytes: the most of one body, counted after decompression.
            seconds: for one attempt, its redirects included; all attempts and the waits between them get three times that.
            wait: how to sleep between attempts.

        Raises:
            UsageError: a limit or a private host is none.
        """
        if max_bytes < 1 or not seconds > 0.0:
            raise UsageError(f"PageReader: max_bytes={max_bytes!r}, seconds={seconds!r}; both are above 0")
        if isinstance(private_hosts, str):
            raise UsageError(f"PageReader: private_hosts={private_hosts!r}; give a list of hosts")
        self._port = _PagePort(
            PORT_NAME,
            _Web(url_policy_for(private_hosts), max_bytes, seconds),
            recording=recording,
            deterministic=True,
            deadline_seconds=_ATTEMPTS_IN_FULL * seconds,
            attempt_seconds=seconds,
            max_bytes=_MAX_JSON_BYTES,
            wait=wait,
        )

    def read(self, url: str) -> WebPage:
        """Return a page, or one whose `error` says why it cannot be opened; EnvFault if our own way or recording fails.

        Raises EnvFault: our own way into the web failed, or a recording holds no page here.
        """
        sent = url[: MAX_URL_CHARACTERS + 1].encode("utf-8", "replace").decode("utf-8").strip()
        answer = self._port.call({"url": sent}, CallSite(""))
        try:
            # Read again, because a recording may come from anywhere.
            return WebPage.from_json(answer)
        except ValueError as error:
            raise EnvFault(f"{PORT_NAME}: the recorded page is malformed: {error}", retryable=False) from None


class _PagePort(ExternalPort):
    """A port that answers in words where the attempts at a page are used up."""

    def _attempt(self, request: Any, key: str) -> Any:
        """Attempt a request; a page that keeps failing is answered with a reason in words, other faults raise."""
        try:
            return super()._attempt(request, key)
        except EnvFault as fault:
            if isinstance(fault.__cause__, PageFault):
                return _not_opened(request["url"], fault.__cause__.reason)
            raise


class _Web:
    """The web as a function from a URL to a page."""

    def __init__(self, url_policy: UrlPolicy, max_bytes: int, seconds: float) -> None:
        self._url_policy, self._max_bytes, self._seconds = url_policy, max_bytes, seconds
        self._client = shared_client(PORT_NAME, max_bytes, url_policy)

    def __call__(self, request: Any, seconds: float) -> Any:
        """Open a page, or return the reason why it cannot be opened; passing failures raise."""
        try:
            url, reply = self._follow_redirects(request["url"], time.monotonic() + seconds)
            return page_of(reply.body, reply.headers.get("content-type", ""), url).to_json()
        except Unopenable as reason:
            return _not_opened(request["url"], str(reason))

    def _follow_redirects(self, url: str, ends: float) -> tuple[str, HttpReply]:
        """Follow redirects, each checked by the URL policy; return the last URL and its reply. Unopenable after too many."""
        place = self._url_policy.place(url)
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._request(place, ends)
            if reply.status not in _REDIRECTS:
                return place, reply
            try:
                target = urljoin(place, reply.headers.get("location", "").strip())
            except ValueError:
                target = ""
            place = self._url_policy.place(target)
        raise Unopenable(f"The page leads on more than {MAX_REDIRECTS} times.")

    def _request(self, url: str, ends: float) -> HttpReply:
        """Request a URL once: Unopenable for lasting failures, PageFault and EnvFault for those worth another attempt."""
        host = urlsplit(url).hostname
        try:
            reply = self._client.send("GET", url, seconds=ends - time.monotonic(), headers=_HEADERS)
        except TransportFault as fault:
            slots = {"host": host, "max_bytes": self._max_bytes, "seconds": self._seconds}
            if fault.kind in _SURE_FAILURES:
                raise Unopenable(_SURE_FAILURES[fault.kind].format(**slots)) from None
            if fault.kind in _PASSING_FAILURES:
                raise PageFault(_PASSING_FAILURES[fault.kind].format(**slots)) from None
            raise
        if reply.status == _TOO_MANY_REQUESTS:
            raise EnvFault(f"{host} answered 429: too many requests", True, wait_seconds_of(reply.headers))
        if reply.status in RETRYABLE_STATUSES or reply.status >= 500:
            raise PageFault(f"{host} answered {reply.status}.", wait_seconds_of(reply.headers))
        if not 200 <= reply.status < 300 and reply.status not in _REDIRECTS:
            raise Unopenable(f"{host} answered {reply.status}.")
        return reply


def _not_opened(url: str, why: str) -> dict[str, Any]:
    """Return the JSON of a page that was not opened, with the reason."""
    return WebPage(url[:MAX_URL_CHARACTERS], error=why).to_json()
