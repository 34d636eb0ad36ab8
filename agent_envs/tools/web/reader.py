"""The reader opens pages: a public host, a deadline, a cap on bytes, checked redirects; live, recorded or replayed.

What the page or the choice of its URL causes is a page with an error, recorded like any other. What fails on our side (no
network, a resolver or proxy that does not answer, a site that limits our rate) is an EnvFault.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urljoin, urlsplit

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.process_cache import Uncopied
from agent_envs.services.http import RETRYABLE_STATUSES, HttpReply, TransportFault, shared_client, wait_seconds_of
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.web.decoding import page_of
from agent_envs.tools.web.page import WebPage
from agent_envs.tools.web.url_policy import MAX_URL_CHARACTERS, Unopenable, UrlPolicy, url_policy_for

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


class PageFault(EnvFault):
    """A page that cannot be had now; `told` is what the policy reads where no attempt gets it."""

    def __init__(self, told: str, wait_seconds: float = 0.0) -> None:
        super().__init__(told, True, wait_seconds)
        self.told = told


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
        """Return a page, or why it could not be opened.

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
        try:
            return super()._attempt(request, key)
        except EnvFault as fault:
            if isinstance(fault.__cause__, PageFault):
                return _not_opened(request["url"], fault.__cause__.told)
            raise


class _Web:
    """The web as a function from a URL to a page."""

    def __init__(self, url_policy: UrlPolicy, max_bytes: int, seconds: float) -> None:
        self._url_policy, self._max_bytes, self._seconds = url_policy, max_bytes, seconds
        self._client = shared_client(PORT_NAME, max_bytes, url_policy)

    def __call__(self, request: Any, seconds: float) -> Any:
        try:
            url, reply = self._followed(request["url"], time.monotonic() + seconds)
            return page_of(reply.body, reply.headers.get("content-type", ""), url).to_json()
        except Unopenable as reason:
            return _not_opened(request["url"], str(reason))

    def _followed(self, url: str, ends: float) -> tuple[str, HttpReply]:
        place = self._url_policy.place(url)
        for _ in range(MAX_REDIRECTS + 1):
            reply = self._asked(place, ends)
            if reply.status not in _REDIRECTS:
                return place, reply
            try:
                target = urljoin(place, reply.headers.get("location", "").strip())
            except ValueError:
                target = ""
            place = self._url_policy.place(target)
        raise Unopenable(f"The page leads on more than {MAX_REDIRECTS} times.")

    def _asked(self, url: str, ends: float) -> HttpReply:
        host = urlsplit(url).hostname
        try:
            reply = self._client.send("GET", url, seconds=ends - time.monotonic(), headers=_HEADERS)
        except TransportFault as fault:
            said = {"host": host, "max_bytes": self._max_bytes, "seconds": self._seconds}
            if fault.kind in _SURE_FAILURES:
                raise Unopenable(_SURE_FAILURES[fault.kind].format(**said)) from None
            if fault.kind in _PASSING_FAILURES:
                raise PageFault(_PASSING_FAILURES[fault.kind].format(**said)) from None
            raise
        if reply.status == _TOO_MANY_REQUESTS:
            raise EnvFault(f"{host} answered 429: too many requests", True, wait_seconds_of(reply.headers))
        if reply.status in RETRYABLE_STATUSES or reply.status >= 500:
            raise PageFault(f"{host} answered {reply.status}.", wait_seconds_of(reply.headers))
        if not 200 <= reply.status < 300 and reply.status not in _REDIRECTS:
            raise Unopenable(f"{host} answered {reply.status}.")
        return reply


def _not_opened(url: str, why: str) -> dict[str, Any]:
    return WebPage(url[:MAX_URL_CHARACTERS], error=why).to_json()
