"""Servers of the package share these: who may reach them, connections with a clock over each request, and the socket.

They stand on starlette and uvicorn (extra `serve`). Whoever reaches a socket may send anything, so a request is bounded in
bytes and seconds, and beyond this machine nothing is served without a token.
"""

import asyncio
import base64
import hmac
import ipaddress
import re
import socket
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agent_envs.base.errors import MissingExtra, UsageError

try:
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise MissingExtra("starlette and uvicorn", "serve", "a server") from error

MAX_CONNECTIONS = 512
LOG_SECONDS = 60.0
LEAST_TOKEN = 32  # characters
REQUEST_SECONDS = 10.0  # for the whole of a request, and for a connection without one
DRAINED = 4  # times the most that a body may have are read on, as who still sends reads no answer
LINGER_SECONDS = 1.0  # for what still comes after an answer; to close at once would reset the connection, and lose it


def check_access(host: str, token: str | None) -> None:
    """Raise UsageError where others reach the host without a token, or the token is under 32 characters or not ASCII.

    Raises UsageError: others reach the host and there is no token, or the token is too short.
    """
    if token is None and not _is_loopback(host):
        raise UsageError(f"host={host!r} can be reached from other machines: give a token, or serve at 127.0.0.1")
    if token is not None and (len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable())):
        raise UsageError(f"the token must have at least {LEAST_TOKEN} characters, all printable ASCII")


class Connection(H11Protocol):
    """uvicorn's connection, with a clock over the whole of each request and a bound on how many connections there are."""

    most = MAX_CONNECTIONS
    _ends: asyncio.TimerHandle | None = None
    _half_closed = False

    @property
    def _at_work(self) -> bool:
        """Tell whether a whole request is in and its answer is not out yet."""
        return self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of 11 s; beyond `most` connections close the one that has waited longest, perhaps this one."""
        super().connection_made(transport)
        # One order for all connections of a server, by when they began to wait: a connect need not look at all of them.
        self._waiting = vars(self.server_state).setdefault("waiting", OrderedDict[Connection, None]())
        self._waiting[self] = None
        self._close_in(REQUEST_SECONDS + LINGER_SECONDS)
        if len(self.connections) > self.most:
            oldest = next(iter(self._waiting))  # this one, where all the others are at work
            oldest._stop_waiting()
            oldest.connections.discard(oldest)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Stop the clock once a request is complete, and start it for a new one."""
        super().data_received(data)
        if self._at_work:
            self._stop_clock()
            self._stop_waiting()
        elif self._ends is None and self.transport.get_protocol() is self:  # not handed on
            self._close_in(REQUEST_SECONDS + LINGER_SECONDS)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Note that the client half closed; return True, which keeps the connection open, while its answer is due."""
        self._half_closed = True
        return self._at_work

    def on_response_complete(self) -> None:
        """Close a connection that its client half closed; else allow 1 s for the request's rest, 10 s for an unread answer."""
        self._waiting[self] = None
        super().on_response_complete()
        if self._at_work:  # on the next request, which had come already
            self._stop_waiting()
        if self._half_closed:
            self.transport.close()
        elif self.cycle.more_body:
            self._close_in(LINGER_SECONDS)
        if self.transport.get_write_buffer_size():
            self._close_in(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock when the connection is lost."""
        self._stop_clock()
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Stop the clock and hand the connection on: a socket of messages has its own."""
        self._stop_clock()
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def _close_in(self, seconds: float) -> None:
        """Set the clock: abort the connection after so many seconds, whatever the client does."""
        self._stop_clock()
        self._ends = self.loop.call_later(seconds, self.transport.abort)  # close waits for a client that does not read

    def _stop_waiting(self) -> None:
        """Leave the order of those that wait for a request."""
        self._waiting.pop(self, None)

    def _stop_clock(self) -> None:
        """Stop the clock, if it runs."""
        if self._ends is not None:
            self._ends.cancel()
        self._ends = None


class Gate:
    """The check of who sends a request: by its Host, its Origin and its token."""

    def __init__(self, host: str, tokens: Mapping[str, str]) -> None:
        """Take the address that is served and the tokens by name; none admits whoever reaches a loopback address."""
        # A stranger's page whose name was made to resolve to this machine (DNS rebinding) still sends that name.
        self._names = frozenset({"localhost", "127.0.0.1", "::1", host.lower()}) if _is_loopback(host) else None
        self._tokens = {name: token.encode() for name, token in tokens.items()}

    def admit(self, headers: Headers) -> str:
        """Return the name of the sender's token, "" where none is asked for; HTTPException where it may not ask.

        Raises HTTPException: not one Host, or a wrong one; another site's Origin; a wrong token (400, 403, 403, 401).
        """
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise HTTPException(400, "one Host header is needed")
        if self._names is not None and _host_name(hosts[0]) not in self._names:
            raise HTTPException(403, "this Host is not served; ask for localhost")
        origins = [_host_name(origin.partition("://")[2]) for origin in headers.getlist("origin")]
        if not (self._names or {_host_name(hosts[0])} - {""}).issuperset(origins):
            raise HTTPException(403, "a page of another site may not ask")
        if not self._tokens:
            return ""
        sent = _token_of("\n".join(headers.getlist("authorization")))
        # All are compared, in the same time: the time tells nothing of any.
        names = [name for name, token in self._tokens.items() if hmac.compare_digest(sent, token)]
        if not names:
            bearer = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN", bearer)
        return names[0]


def _token_of(authorization: str) -> bytes:
    """Return the token of a header: behind Bearer, or the password of a URL, which clients send as Basic; empty for none."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True).partition(b":")[2] if scheme.lower() == "basic" else b""
    except ValueError:
        return b""


async def read_body(request: Request, most: int) -> bytes:
    """Return a body of at most so many bytes within its seconds, else HTTPException; the connection's own clock runs longer."""
    too_large = HTTPException(413, f"a body has at most {most} bytes")
    if len(length := request.headers.get("content-length", "0")) > 18 or int(length) > DRAINED * most:
        raise too_large
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > DRAINED * most:
                    raise too_large
                body += part if size <= most else b""
    except TimeoutError:
        raise HTTPException(408, f"the body did not arrive within {REQUEST_SECONDS:g} s") from None
    if size > most:
        raise too_large
    return bytes(body)


def url_of(listener: socket.socket) -> str:
    """Return the URL that a listening socket is reached at."""
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens (what connects before the server serves waits); UsageError where that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once what it writes to a socket of this protocol by name; else a body waits 40 ms behind its headers.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)
    except (OSError, OverflowError) as error:
        bound.close()
        raise UsageError(f"cannot serve at {host}, port {port}: {error}") from error
    return bound


def _host_name(value: str) -> str:
    """Return the name in a Host header, without port and brackets; empty where it has another form."""
    match = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::[0-9]*)?", value.strip().lower())
    return "" if match is None else match[1] or match[2] or ""


def _is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or `localhost`; other names are none."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
