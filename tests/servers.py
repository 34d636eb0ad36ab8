"""A local HTTP server that answers through a function and fails as it is told, below HTTP where need be.

with FaultServer(lambda path, headers, body: (200, {}, b"{}"), faults={0: "reset"}) as server:
    ...  # request 0 is reset, request 1 is answered
"""

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache

Answer = tuple[int, Mapping[str, str], bytes]
# The twelve kinds of the project's facts; "slow drip" and "redirect loop" stand there with these names, 429 and 529 count as
# one, and so do the 50 MB body and the bomb. `slow_headers` is the drip where a body's timeout cannot see it.
FAULTS = (
    "hang", "slow_drip", "slow_headers", "reset", "short_body", "garbage", "truncated_json", "huge_header", "rate_limit",
    "overloaded", "huge_body", "gzip_bomb", "stale_connection", "redirect_loop",
)  # fmt: skip
HUGE_BYTES = 50_000_000
DRIP_SECONDS = 0.05


class FaultServer:
    """A context manager with an `url`, what it was sent as `requests`, and a schedule of faults.

    The ordinal of a request counts all that arrive whole, from 0, those that a fault meets included. `stale_connection`
    closes as the request arrives: on a kept connection a client may send it again, and that is the next ordinal.
    """

    def __init__(
        self,
        reply: Callable[[str, dict[str, str], bytes], Answer] = lambda path, headers, body: (200, {}, b'{"ok": true}'),
        faults: Mapping[int, str] | Callable[[int], str | None] | None = None,
        *,
        retry_after: str = "0",
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        """Listen on a free port of 127.0.0.1.

        Args:
            reply: the service.
            faults: ordinal of a request -> the kind of fault that it meets.
            retry_after: the header of a `rate_limit`.
            answers: further kinds of fault, as the answers that they are.
        """
        self._reply, self._retry_after, self._answers = reply, retry_after, answers or {}
        self._fault = faults if callable(faults) else (faults or {}).get
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections = 0
        self.sent_bytes = 0
        self._failures: list[Exception] = []
        self._over, self._lock = threading.Event(), threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> "FaultServer":
        self._acceptor.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._acceptor.join()
        with self._lock:
            threads = list(self._open.values())
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    @property
    def count(self) -> int:
        """How many requests have arrived."""
        return len(self.requests)

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self.connections += 1
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as stream, contextlib.suppress(OSError):
                while not self._over.is_set() and (request := _read_request(stream)) is not None:
                    with self._lock:
                        ordinal = len(self.requests)
                        self.requests.append(request)
                    kind = self._fault(ordinal)
                    if kind in self._answers:
                        self._send(connection, _http(*self._answers[kind]))
                        continue
                    if kind is not None:
                        getattr(self, f"_{kind}")(connection, request[1])
                        if kind not in ("truncated_json", "rate_limit", "overloaded", "redirect_loop"):
                            return
                        continue
                    _, path, headers, body = request
                    self._send(connection, _http(*self._reply(path, headers, body)))
        except Exception as failure:  # noqa: BLE001 - of the test's own function: raised where the server is closed
            self._failures.append(failure)
        finally:
            with self._lock:
                self._open.pop(connection, None)
            connection.close()

    def _send(self, connection: socket.socket, data: bytes) -> None:
        connection.sendall(data)
        with self._lock:
            self.sent_bytes += len(data)

    def _drip(self, connection: socket.socket, parts: Iterator[bytes]) -> None:
        while not self._over.wait(DRIP_SECONDS):
            self._send(connection, next(parts))

    def _hang(self, connection: socket.socket, path: str) -> None:
        connection.recv(1)  # until the client gives up, or the server is closed

    def _slow_drip(self, connection: socket.socket, path: str) -> None:
        self._send(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        self._drip(connection, iter(lambda: b" ", None))

    def _slow_headers(self, connection: socket.socket, path: str) -> None:
        self._send(connection, b"HTTP/1.1 200 OK\r\nX-Slow: ")
        self._drip(connection, iter(lambda: b"x", None))

    def _reset(self, connection: socket.socket, path: str) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _short_body(self, connection: socket.socket, path: str) -> None:
        self._send(connection, b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"ok": ')

    def _garbage(self, connection: socket.socket, path: str) -> None:
        self._send(connection, b"\x00\xff this is not HTTP \r\n\r\n" * 10)

    def _truncated_json(self, connection: socket.socket, path: str) -> None:
        self._send(connection, _http(200, {}, b'{"ok": tr'))

    def _huge_header(self, connection: socket.socket, path: str) -> None:
        self._send(connection, _http(200, {"X-Huge": "h" * 200_000}, b"{}"))

    def _rate_limit(self, connection: socket.socket, path: str) -> None:
        self._send(connection, _http(429, {"Retry-After": self._retry_after}, b'{"error": "slow down"}'))

    def _overloaded(self, connection: socket.socket, path: str) -> None:
        self._send(connection, _http(529, {}, b'{"error": "overloaded"}'))

    def _huge_body(self, connection: socket.socket, path: str) -> None:
        self._send(connection, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        for _ in range(HUGE_BYTES // 0x10000):
            self._send(connection, chunk)
        self._send(connection, b"0\r\n\r\n")

    def _gzip_bomb(self, connection: socket.socket, path: str) -> None:
        self._send(connection, _http(200, {"Content-Encoding": "gzip"}, gzip_bomb()))

    def _stale_connection(self, connection: socket.socket, path: str) -> None:
        """Say nothing: the caller closes the connection."""

    def _redirect_loop(self, connection: socket.socket, path: str) -> None:
        self._send(connection, _http(302, {"Location": path}, b""))


@cache
def gzip_bomb() -> bytes:
    """Return 50 MB of blanks as 50 KB of gzip."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    blanks = b" " * 1_000_000
    return b"".join([packer.compress(blanks) for _ in range(HUGE_BYTES // len(blanks))] + [packer.flush()])


def _http(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _read_request(stream) -> tuple[str, str, dict[str, str], bytes] | None:
    """Return a request, None where the client ended the connection before it was whole: it gave up, or has no more."""
    start = stream.readline().decode("latin-1").split()
    if len(start) != 3:
        return None
    headers = {}
    while (line := stream.readline().decode("latin-1")).strip():
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    body = stream.read(length)
    return (start[0], start[1], headers, body) if line and len(body) == length else None
