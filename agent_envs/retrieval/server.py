"""A retriever behind HTTP for clients of Search-R1 and SkyRL: `POST /retrieve` (see `wire`), and `GET /health`.

Whoever reaches the socket may send anything, so each request is bounded in bytes, queries, passages and seconds, what is
wrong with it is answered in words, and beyond this machine nothing is served without a token.
"""

import contextlib
import ipaddress
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

from agent_envs.base.documents import Corpus, Retriever
from agent_envs.base.errors import UsageError
from agent_envs.tools.retrieval.server import Connection

MAX_BODY = 16 * 1024 * 1024
MAX_CONNECTIONS = 512
LEAST_TOKEN = 32  # characters
LOG_SECONDS = 60.0


def check_access(host: str, token: str | None) -> None:
    """Raise where a server may not be started.

    Raises:
        UsageError: others reach the host and there is no token, or the token is too short.
    """
    if token is None and not _is_loopback(host):
        raise UsageError(f"host={host!r} can be reached from other machines: give a token, or serve at 127.0.0.1")
    if token is not None and (len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable())):
        raise UsageError(f"the token must have at least {LEAST_TOKEN} characters, all printable ASCII")


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
        self._open: set[socket.socket] = set()
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
        """Return whether there is room for another connection; where there is none it is closed at once."""
        with self._lock:
            room = len(self._open) < MAX_CONNECTIONS
            if room:
                self._open.add(request)
        return room

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._open.discard(request)
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


@contextlib.contextmanager
def running_server(
    retriever: Retriever,
    corpus: Corpus | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    max_body: int = MAX_BODY,
) -> Iterator[str]:
    """Serve from a thread of this process, and yield the URL; see `RetrieverServer` for the arguments."""
    with RetrieverServer(retriever, corpus, host=host, port=port, token=token, max_body=max_body) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
