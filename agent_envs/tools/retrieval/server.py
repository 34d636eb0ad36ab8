"""The server puts a retriever behind HTTP for clients of Search-R1 and SkyRL: `POST /retrieve` (see `wire`), `GET /health`.

Whoever reaches the socket may send anything, so each request is bounded in bytes, queries, passages and seconds, what is
wrong with it is answered in words, and beyond this machine nothing is served without a token.
"""

import contextlib
import hmac
import io
import ipaddress
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from agent_envs.base.documents import Corpus, Retriever
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.tools.retrieval.wire import BadRequest, read_request, wire_document, wire_hit

MAX_BODY = 16 * 1024 * 1024
MAX_CONNECTIONS = 512
LEAST_TOKEN = 32  # characters
LOG_SECONDS = 60.0
REQUEST_SECONDS = 10.0  # for the whole of a request, and for a connection without one
LINGER_SECONDS = 1.0
METHODS = {"/retrieve": "POST", "/health": "GET"}
_MAX_LINE = 65_536
_GONE = (ConnectionError, TimeoutError)  # everyday events, with nobody left to tell


def check_access(host: str, token: str | None) -> None:
    """Raise where a server may not be started.

    Raises UsageError: others reach the host and there is no token, or the token is too short.
    """
    if token is None and not _is_loopback(host):
        raise UsageError(f"host={host!r} can be reached from other machines: give a token, or serve at 127.0.0.1")
    if token is not None and (len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable())):
        raise UsageError(f"the token must have at least {LEAST_TOKEN} characters, all printable ASCII")


class _Refusal(Exception):
    """A request that is answered with a status and a reason."""

    def __init__(self, status: int, reason: str, header: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.header = status, reason, header


class _TimedReader(io.RawIOBase):
    """What a connection sends until a moment, however slowly it trickles in."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.ends = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise TimeoutError("the client is too slow")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Connection(BaseHTTPRequestHandler):
    """Answers the requests of a connection. The standard library parses their first lines and headers, within its limits."""

    server: "RetrieverServer"
    rfile: io.BufferedReader
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        """Read through a clock, and write at once."""
        self.connection = self.request
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timed = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._timed)

    def finish(self) -> None:
        """Release the reader; the server closes the socket."""
        self.rfile.close()

    def handle_one_request(self) -> None:
        """Answer one request, or leave `close_connection` set for the loop around this."""
        # Until the headers are read, nothing is known about what follows them.
        self.close_connection, self._unread, self._queries, self.command = True, True, 0, ""
        self._began = time.monotonic()
        self._timed.ends = self._began + REQUEST_SECONDS
        sound = False
        with contextlib.suppress(*_GONE):
            sound = self._head()
        if sound:
            lengths = self.headers.get_all("Content-Length", ["0"])
            # What follows such a head could be read as another request, so that the connection ends with this one.
            odd = bool(self.headers.defects) or any(name != name.strip() or " " in name for name in self.headers)
            self._unread = odd or "Transfer-Encoding" in self.headers or lengths != ["0"]
            self._respond()

    def handle_expect_100(self) -> bool:
        """Say nothing yet: `_body` knows whether the body is wanted."""
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the standard library could not parse."""
        self.close_connection = True
        self._send(code, {"error": (message or HTTPStatus(code).phrase)[:200]})

    def _head(self) -> bool:
        if not self.rfile.peek(1):
            return False
        self._began = time.monotonic()
        self._timed.ends = self._began + REQUEST_SECONDS
        self.raw_requestline = self.rfile.readline(_MAX_LINE + 1)
        if len(self.raw_requestline) > _MAX_LINE:
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            return False
        return self.parse_request()

    def _respond(self) -> None:
        status, value, header = 500, {"error": "the server failed; its log says why"}, ""
        try:
            status, value = 200, self._result()
        except _Refusal as refusal:
            status, value, header = refusal.status, {"error": refusal.reason}, refusal.header
        except BadRequest as error:
            status, value = 400, {"error": str(error)}
        except EnvFault as fault:
            status, value = 503, {"error": f"the retriever failed: {fault.cause[:200]}"}
            self.server.log_failure(fault)
        finally:
            # Also on the way of an error that nobody foresaw to the server's handle_error.
            self._send(status, value, header)

    def _result(self) -> Any:
        self._check_access()
        path = self.path.partition("?")[0]
        if path not in METHODS:
            raise _Refusal(404, f"no such path; there are {', '.join(METHODS)}")
        if self.command != METHODS[path]:
            raise _Refusal(405, f"{path} takes {METHODS[path]}", f"Allow: {METHODS[path]}\r\n")
        if path == "/health":
            return self.server.health
        asked = read_request(self._body())
        with self.server.at_work(self.connection):
            results = [self.server.retriever.search(query, asked.top_k) for query in asked.queries]
        self._queries = len(results)
        if asked.scores:
            return {"result": [[wire_hit(hit) for hit in hits] for hits in results]}
        return {"result": [[wire_document(hit.passage) for hit in hits] for hits in results]}

    def _check_access(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1:
            raise _Refusal(400, "one Host header is needed")
        if self.server.names is not None and _host_name(hosts[0]) not in self.server.names:
            raise _Refusal(403, "this Host is not served; ask for localhost")
        origins = [_host_name(origin.partition("://")[2]) for origin in self.headers.get_all("Origin", [])]
        if self.server.names is not None and not self.server.names.issuperset(origins):
            raise _Refusal(403, "a page of another site may not ask")
        if self.server.token is not None:
            scheme, _, given = "\n".join(self.headers.get_all("Authorization", [])).partition(" ")
            known = hmac.compare_digest(given.encode("utf-8", "replace"), self.server.token.encode())
            if not known or scheme.lower() != "bearer":
                raise _Refusal(401, "a token is needed: Authorization: Bearer TOKEN", "WWW-Authenticate: Bearer\r\n")

    def _body(self) -> bytes:
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            raise _Refusal(411, "one Content-Length header is needed, and no Transfer-Encoding")
        length = lengths[0].strip()
        if not (length.isascii() and length.isdigit()):
            raise _Refusal(400, "Content-Length is no number")
        if len(length) > 18 or int(length) > self.server.max_body:
            raise _Refusal(413, f"a body has at most {self.server.max_body} bytes")
        body = b""
        with contextlib.suppress(*_GONE):
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise _Refusal(408, f"the body did not arrive within {REQUEST_SECONDS:g} s")
        self._unread = False
        return body

    def _send(self, status: int, value: Any, header: str = "") -> None:
        body = json.dumps(value, allow_nan=False).encode("ascii")
        # What was not read would be taken for the next request.
        self.close_connection = self.close_connection or self._unread or status == 500
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n"
            f"Connection: {'close' if self.close_connection else 'keep-alive'}\r\n"
            f"{header}\r\n"
        ).encode("ascii")
        try:
            self.connection.settimeout(REQUEST_SECONDS)
            self.connection.sendall(head if self.command == "HEAD" else head + body)
            if self._unread:
                self._linger()
        except _GONE:
            self.close_connection = True
        self.server.note(status, self._queries, time.monotonic() - self._began)

    def _linger(self) -> None:
        """Drop a little of what still comes: closing at once would reset the connection, and lose the answer."""
        self.connection.shutdown(socket.SHUT_WR)
        self._timed.ends = time.monotonic() + LINGER_SECONDS
        left = self.server.max_body
        while left > 0 and (dropped := self.rfile.read1(_MAX_LINE)):
            left -= len(dropped)


def _host_name(value: str) -> str:
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^\[\]:]*))(?::[0-9]*)?", value.strip().lower())
    return "" if found is None else found[1] or found[2] or ""


class RetrieverServer(ThreadingMixIn, TCPServer):
    """One retriever behind a socket, with a thread a connection.

    `serve_forever()` serves until `shutdown()` is called from another thread; a `with` block closes the socket.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        retriever: Retriever,
        corpus: Corpus | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        max_body: int = MAX_BODY,
        tell: Callable[[str], None] | None = None,
        verbose: bool = False,
    ) -> None:
        """Open the socket.

        Args:
            retriever: answers, called from many threads at once.
            corpus: what `/health` names.
            host: an address of this machine; one that other machines reach needs a token.
            port: 0 takes a free one, see `url`.
            token: what `Authorization: Bearer` must say, 32 characters at least.
            max_body: bytes of a request's body.
            tell: gets the log: failures, and a line for a minute in which something was asked.
            verbose: a line for each request, too.

        Raises:
            UsageError: the host needs a token, the token is too short, or the address cannot be had.
        """
        check_access(host, token)
        self.retriever, self.max_body, self.token = retriever, max_body, token
        # A stranger's page whose name was made to resolve to this machine (DNS rebinding) still sends that name.
        self.names = frozenset({"localhost", "127.0.0.1", "::1", host.lower()}) if _is_loopback(host) else None
        self.health: dict[str, Any] = {"status": "ok", "retriever": retriever.name}
        if corpus is not None:
            self.health |= {"passages": len(corpus), "corpus": corpus.digest}
        self._tell, self._verbose = tell, verbose
        self._lock = threading.Lock()
        self._open: dict[socket.socket, bool] = {}  # whether it is at work; those that were used last stand last
        self._counts, self._told = (0, 0, 0), time.monotonic()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            TCPServer.__init__(self, (host, port), Connection)
        except (OSError, OverflowError) as error:
            raise UsageError(f"cannot serve at {host}, port {port}: {error}") from error

    @property
    def url(self) -> str:
        """The endpoint: what stands behind the @ of a retriever's name."""
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/retrieve"

    def note(self, status: int, queries: int, seconds: float) -> None:
        """Count an answer."""
        with self._lock:
            requests, searched, refused = self._counts
            self._counts = requests + 1, searched + queries, refused + (status >= 400)
        if self._verbose and self._tell is not None:
            self._tell(f"{status}, {queries} queries, {1000 * seconds:.1f} ms")

    def log_failure(self, error: BaseException) -> None:
        """Log in one line what failed here."""
        if self._tell is not None:
            self._tell(f"failed: {type(error).__name__}: {' '.join(str(error)[:200].split())}")

    def service_actions(self) -> None:
        """Log the last minute's counts; the loop calls it all the time."""
        if self._tell is None or time.monotonic() - self._told < LOG_SECONDS:
            return
        with self._lock:
            (requests, searched, refused), self._counts = self._counts, (0, 0, 0)
        self._told = time.monotonic()
        if requests:
            self._tell(f"last minute: {requests} requests, {searched} queries, {refused} refused or failed")

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether there is room for another connection: the one that waits longest makes it, where none is left."""
        with self._lock:
            waiting = next((one for one, busy in self._open.items() if not busy), None)
            if len(self._open) >= MAX_CONNECTIONS and waiting is not None:
                del self._open[waiting]
                with contextlib.suppress(OSError):
                    waiting.shutdown(socket.SHUT_RDWR)  # its thread ends, and closes it
            room = len(self._open) < MAX_CONNECTIONS
            if room:
                self._open[request] = False
        return room

    @contextlib.contextmanager
    def at_work(self, request: socket.socket) -> Iterator[None]:
        """Keep a connection whose request is being answered from making room for another."""
        with self._lock:
            self._open[request] = True
        try:
            yield
        finally:
            with self._lock:
                self._open.pop(request, None)
                self._open[request] = False

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what nobody foresaw; the client was told that the server failed."""
        error = sys.exc_info()[1]
        if error is not None:
            self.log_failure(error)

    def server_close(self) -> None:
        """Close the socket and end all connections, and so their threads."""
        super().server_close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
