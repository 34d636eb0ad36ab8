"""The client gives an exchange one deadline and its body one cap, and its failures are `EnvFault`s.

Environments of a process share their connections to a service, which is named by a URL that may be recorded.
"""

import json as json_texts
import os
import threading
import time
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.services.http.connections import Connections, basic_authorization
from agent_envs.services.http.faults import (
    Admit,
    Kind,
    TransportFault,
    parse_json,
    place_of,
    refusal,
    secrets_of,
    sign_of,
    transport_fault,
)

if TYPE_CHECKING:
    import httpcore

DEFAULT_HEADERS = {"User-Agent": "agent-envs", "Accept": "application/json", "Accept-Encoding": "identity"}
_PORTS = {"http": 80, "https": 443}
_LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole answer; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpClient(Uncopied):
    """Requests to one service over connections that are kept; safe from many threads, and across a fork."""

    def __init__(
        self, name: str, *, max_bytes: int = 4_000_000, connections: int = 256, admit: Admit | None = None
    ) -> None:
        """Name the service.

        Args:
            name: the first word of every fault.
            max_bytes: cap on a body, counted after decompression.
            connections: the most that are used at once; further requests wait, within their own deadline.
            admit: is called with a host, its port and its addresses before a connection to them is made, and raises to
                refuse it. Where a proxy connects, it gets the addresses that the name has on this machine, perhaps none.
        """
        self.name, self.max_bytes, self.connections, self.admit = name, max_bytes, connections, admit
        self._open: dict[int, Connections] = {}  # by process
        weakref.finalize(self, _close_all, self._open).atexit = False

    def send(
        self, method: str, url: str, *, seconds: float, headers: Mapping[str, str] | None = None, json: Any = None
    ) -> HttpReply:
        """Return the answer, whatever its status, redirects not followed; TransportFault without a whole one in time.

        Args:
            method: GET, POST, ...
            url: http or https; no message shows its query.
            seconds: for the whole exchange.
            headers: sent as they are; no message shows them.
            json: the body, None for no body; lone surrogates are sent as question marks.

        Raises:
            TransportFault: there was no whole answer in time, or it was too large.
            UsageError: the URL or a header is not legal.
        """
        import httpcore

        place = place_of(self.name, method, url)
        request = _request(place, method, url, dict(headers or {}), json)
        ends = time.monotonic() + seconds
        exchange = _Exchange(place, ends, self.max_bytes)
        scheme, host = request.url.scheme.decode(), request.url.host.decode()
        try:
            with self._connections().lend(scheme, host, seconds) as pool:
                if self.admit is not None and isinstance(pool, httpcore.HTTPProxy):
                    self.admit(host, request.url.port or _PORTS[scheme], _resolve_host(host, ends))
                return exchange.run(pool, request)
        except TimeoutError:
            raise TransportFault(f"{place}: no whole answer within {seconds:.3g} s", "busy") from None
        except httpcore.TimeoutException as error:
            raise TransportFault(f"{place}: no whole answer within {seconds:.3g} s", exchange.kind(error)) from None

    def json(
        self, method: str, url: str, *, seconds: float, headers: Mapping[str, str] | None = None, json: Any = None
    ) -> Any:
        """Return the JSON value of a 2xx answer to `send`; EnvFault for another status, unsound JSON or no whole answer.

        Raises:
            EnvFault: as in `send`, or another status, or a body that is not sound JSON.
            UsageError: as in `send`.
        """
        reply = self.send(method, url, seconds=seconds, headers=headers, json=json)
        place = place_of(self.name, method, url)
        if not 200 <= reply.status < 300:
            raise refusal(reply.status, reply.headers, reply.body, place, url, secrets_of(url, headers or {}))
        try:
            return parse_json(reply.body)
        except ValueError as error:
            why = f"answered {reply.status} with a body that is not sound JSON ({type(error).__name__})"
            raise EnvFault(f"{place}: {why}") from None

    def close(self) -> None:
        """Drop the connections, those in use when they are free; a later request opens new ones."""
        _close_all(self._open)

    def _connections(self) -> Connections:
        """Return this process's connections, which are made at its first call: a fork gets its own."""
        # setdefault is atomic: two threads that come first at once get the same one, and the other was never opened.
        connections = self._open.get(os.getpid())
        return connections or self._open.setdefault(os.getpid(), Connections(self.name, self.connections, self.admit))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the client without its connections."""
        limits: dict[str, Any] = {"max_bytes": self.max_bytes, "connections": self.connections, "admit": self.admit}
        return partial(HttpClient, self.name, **limits), ()


class _Exchange:
    """One request and its answer."""

    def __init__(self, place: str, ends: float, max_bytes: int) -> None:
        """Set the deadline for all phases of the exchange, and the cap on its body."""
        self._place, self._max_bytes = place, max_bytes
        # In place of durations: see `deadline`.
        self._extensions = {
            "timeout": {"connect": ends, "read": ends, "write": ends, "pool": None},
            "trace": self._note,
        }
        self._connected = self._answered = self._proxied = False

    def run(self, pool: "httpcore.ConnectionPool", request: "httpcore.Request") -> HttpReply:
        """Send a request, again if a kept connection was stale, and return the reply; TransportFault or UsageError if not."""
        import httpcore

        errors = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError)
        self._proxied = isinstance(pool, httpcore.HTTPProxy)
        try:
            return self._send_once(pool, request)
        except errors as error:
            if not self._stale(error):
                raise transport_fault(error, self._place, self._answered, self._proxied) from None
        try:
            return self._send_once(pool, request)
        except errors as error:
            raise transport_fault(error, self._place, self._answered, self._proxied) from None

    def kind(self, error: Exception) -> Kind:
        """Return a timeout's kind: `proxy` while connecting through one, `resolver` for a name, `time` for all others."""
        import httpcore

        from agent_envs.services.http.deadline import NameTimeout

        if self._proxied and isinstance(error, httpcore.ConnectTimeout):
            return "proxy"
        return "resolver" if isinstance(error, NameTimeout) else "time"

    def _stale(self, error: Exception) -> bool:
        """Return whether the server had closed the kept connection, so that it has not read the request."""
        import httpcore

        lost = isinstance(error, httpcore.NetworkError | httpcore.RemoteProtocolError) and sign_of(error) is None
        return lost and not self._connected and not self._answered

    def _note(self, event: str, info: dict[str, Any]) -> None:
        """Note from an event of httpcore that a new connection is begun, or that the answer's headers are there."""
        if event.endswith("connect_tcp.started"):
            self._connected = True
        elif event == "http11.receive_response_headers.complete":
            self._answered = True

    def _send_once(self, pool: "httpcore.ConnectionPool", request: "httpcore.Request") -> HttpReply:
        """Send the request and read the reply; headers of one name are joined by commas."""
        # The content of a request is a stream of bytes that may be read again.
        request.extensions = self._extensions
        response = pool.handle_request(request)
        try:
            headers: dict[str, str] = {}
            for raw_name, raw_value in response.headers:
                name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
            return HttpReply(response.status, headers, self._body(response, headers.get("content-encoding", "")))
        finally:
            response.close()

    def _body(self, response: "httpcore.Response", encoding: str) -> bytes:
        """Read and inflate a body; TransportFault where it exceeds the cap, is damaged or is cut short."""
        body = _Body(encoding, self._max_bytes)
        for chunk in response.iter_stream():
            try:
                body.add(chunk)
            except zlib.error:
                raise TransportFault(f"{self._place}: the body is not {body.encoding} as its header says") from None
            if max(body.received, body.size) > self._max_bytes:
                why = f"{self._place}: the answer is larger than {self._max_bytes} bytes"
                raise TransportFault(why, "size", retryable=False)
        if not body.whole:
            raise TransportFault(f"{self._place}: the body is cut short")
        return b"".join(body.parts)


class _Body:
    """A body as it grows, never far beyond the cap: a bomb is not inflated."""

    def __init__(self, encoding: str, cap: int) -> None:
        """Set up an empty body that inflates gzip and deflate; any other coding fails like a damaged body."""
        self.encoding = encoding.strip().lower()[:20]
        self.received = self.size = 0
        self.parts: list[bytes] = []
        self._cap = cap
        # gzip and deflate. No coding was asked for, so any other one fails as a damaged body does.
        plain = self.encoding in ("", "identity")
        self._inflater = None if plain else zlib.decompressobj(zlib.MAX_WBITS | 32)

    @property
    def whole(self) -> bool:
        """Tell whether the body is complete: not compressed, empty, or inflated to its end."""
        return self._inflater is None or self._inflater.eof or not self.received

    def add(self, chunk: bytes) -> None:
        """Add a chunk, inflated no further than one byte beyond the cap."""
        self.received += len(chunk)
        if self._inflater is not None:
            chunk = self._inflater.decompress(chunk, self._cap - self.size + 1)
        self.size += len(chunk)
        self.parts.append(chunk)


def _request(place: str, method: str, url: str, headers: dict[str, str], json: Any) -> "httpcore.Request":
    """Build the request with its JSON body and headers; UsageError for an illegal URL or header, whose text it omits."""
    import httpcore
    import httpx

    body = None
    if json is not None:
        body = json_texts.dumps(json, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json", **headers}
    parts = urlsplit(url)
    if parts.username is not None:
        headers = {"Authorization": basic_authorization(parts.username, parts.password or ""), **headers}
    try:
        sound = httpx.URL(url)
        fields = [("Host", sound.netloc.decode("ascii"))]
        names = {name.lower() for name in headers}
        fields += [(name, value) for name, value in DEFAULT_HEADERS.items() if name.lower() not in names]
        fields += headers.items()
        if body is not None or method in ("POST", "PUT", "PATCH"):
            fields.append(("Content-Length", str(len(body or b""))))
        target = httpcore.URL(scheme=sound.raw_scheme, host=sound.raw_host, port=sound.port, target=sound.raw_path)
        return httpcore.Request(method, target, headers=fields, content=body or b"")
    except (httpx.InvalidURL, ValueError, TypeError):
        # Without the error, whose text may hold the header.
        raise UsageError(f"{place}: the URL or a header of the request is not legal HTTP") from None


def _resolve_host(host: str, ends: float) -> list[str]:
    """Return the addresses of a host that a proxy will resolve; [] where this machine knows none, as is common behind one."""
    import httpcore

    from agent_envs.services.http.deadline import resolve

    try:
        return resolve(host, 0, min(_LOOK_SECONDS, max(ends - time.monotonic(), 0.0)))
    except (OSError, httpcore.ConnectTimeout):
        return []


def _close_all(open_connections: dict[int, Connections]) -> None:
    """Close each process's connections and empty the dict."""
    while open_connections:
        open_connections.popitem()[1].close()


_CLIENTS: weakref.WeakValueDictionary[tuple[str, int, Admit | None], HttpClient] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def shared_client(name: str, max_bytes: int, admit: Admit | None = None) -> HttpClient:
    """Return the client of a name, with a cap on bodies and rules for addresses; it closes after the last who has it."""
    with _LOCK:
        client = _CLIENTS.get((name, max_bytes, admit))
        if client is None:
            client = _CLIENTS[name, max_bytes, admit] = HttpClient(name, max_bytes=max_bytes, admit=admit)
        return client


def http_parts(url: str) -> SplitResult | None:
    """Return the parts of a URL, None unless it is one of http(s) with a host."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    return parts if sound else None


def endpoint_of(owner: str, url: str, path: str, secret: str = "") -> str:
    """Return a URL's normal form, with `path` if it has none; UsageError for no http(s) one, or user, query or fragment.

    Raises UsageError: it is no http(s) URL, or holds a password, a query or a fragment; `secret` says where a secret belongs.
    """
    parts = http_parts(url)
    if parts is None or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{owner}@...: after the @ stands http://HOST[:PORT][/PATH] or https://...")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise UsageError(
            f"{owner}@{parts.scheme}://{parts.hostname}: names are recorded, so a URL holds no password, query or fragment"
            f"{secret}"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/') or path}"
