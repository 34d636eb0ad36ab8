"""The server puts a retriever behind HTTP for clients of Search-R1 and SkyRL: `POST /retrieve` (see `wire`), `GET /health`.

It stands on starlette and uvicorn (extra `serve`). Whoever reaches the socket may send anything, so each request is bounded in
bytes, queries, passages and seconds, what is wrong with it is answered in words, and beyond this machine nothing is served
without a token.
"""

import asyncio
import hmac
import ipaddress
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from agent_envs.base.documents import Corpus, Retriever
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.tools.retrieval.wire import BadRequest, read_request, wire_document, wire_hit

try:
    import uvicorn
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise MissingExtra("starlette and uvicorn", "serve", "a retriever server") from error

MAX_BODY = 16 * 1024 * 1024
MAX_CONNECTIONS = 512
LEAST_TOKEN = 32  # characters
LOG_SECONDS = 60.0
REQUEST_SECONDS = 10.0  # for the whole of a request, and for a connection without one
LINGER_SECONDS = 1.0  # for what still comes after an answer; to close at once would reset the connection, and lose it
METHODS = {"/retrieve": "POST", "/health": "GET"}


def check_access(host: str, token: str | None) -> None:
    """Raise UsageError where others reach the host without a token, or the token is under 32 characters or not ASCII.

    Raises UsageError: others reach the host and there is no token, or the token is too short.
    """
    if token is None and not _is_loopback(host):
        raise UsageError(f"host={host!r} can be reached from other machines: give a token, or serve at 127.0.0.1")
    if token is not None and (len(token) < LEAST_TOKEN or not (token.isascii() and token.isprintable())):
        raise UsageError(f"the token must have at least {LEAST_TOKEN} characters, all printable ASCII")


class _Connection(H11Protocol):
    """uvicorn's connection, with a clock over the whole of each request and a bound on how many connections there are."""

    _ends: asyncio.TimerHandle | None = None
    _half_closed = False

    @property
    def _at_work(self) -> bool:
        """Tell whether a whole request is in and its answer is not out yet."""
        return self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of 11 s; beyond 512 connections close the one that has waited longest, perhaps this one."""
        super().connection_made(transport)
        self._since = time.monotonic()
        self._close_in(REQUEST_SECONDS + LINGER_SECONDS)
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [one for one in self.connections if isinstance(one, _Connection) and not one._at_work]
            min(waiting, key=lambda one: one._since).transport.close()  # this one, where all the others are at work

    def data_received(self, data: bytes) -> None:
        """Stop the clock once a request is complete, and start it for a new one."""
        super().data_received(data)
        if self._at_work:
            self._stop_clock()
        elif self._ends is None:
            self._close_in(REQUEST_SECONDS + LINGER_SECONDS)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Note that the client half closed; return True, which keeps the connection open, while its answer is due."""
        self._half_closed = True
        return self._at_work

    def on_response_complete(self) -> None:
        """Close a connection that its client half closed; else allow 1 s for the request's rest, 10 s for an unread answer."""
        super().on_response_complete()
        self._since = time.monotonic()
        if self._half_closed:
            self.transport.close()
        elif self.cycle.more_body:
            self._close_in(LINGER_SECONDS)
        if self.transport.get_write_buffer_size():
            self._close_in(REQUEST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock when the connection is lost."""
        self._stop_clock()
        super().connection_lost(exc)

    def _close_in(self, seconds: float) -> None:
        """Set the clock: abort the connection after so many seconds, whatever the client does."""
        self._stop_clock()
        self._ends = self.loop.call_later(seconds, self.transport.abort)  # close waits for a client that does not read

    def _stop_clock(self) -> None:
        """Stop the clock, if it runs."""
        if self._ends is not None:
            self._ends.cancel()
        self._ends = None


class RetrieverServer:
    """One retriever behind a socket, which searches in threads.

    `serve_forever()` serves until Ctrl-C, or until another thread calls `shutdown()`; a `with` block closes the socket.
    """

    def __init__(
        self,
        retriever: Retriever,
        corpus: Corpus | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
        max_body: int = MAX_BODY,
        tell: Callable[[str], None] = lambda line: None,
        verbose: bool = False,
    ) -> None:
        """Check access and open the socket; serving begins with `serve_forever`.

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
        self._lock, self._counts = threading.Lock(), (0, 0, 0)
        self._socket = _listening_socket(host, port)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.answer, http=_Connection, ws="none", loop="asyncio", lifespan="off", interface="asgi3",
                log_config=None, log_level="critical", access_log=False, server_header=False, date_header=False,
                timeout_keep_alive=int(REQUEST_SECONDS), timeout_graceful_shutdown=1,
                callback_notify=self.log_counts, timeout_notify=int(LOG_SECONDS),
            )
        )  # fmt: skip

    @property
    def url(self) -> str:
        """The endpoint: what stands behind the @ of a retriever's name."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/retrieve"

    def serve_forever(self) -> None:
        """Answer until Ctrl-C, which goes on as KeyboardInterrupt, or until `shutdown`."""
        self._server.run([self._socket])

    def shutdown(self) -> None:
        """Stop `serve_forever`: requests in progress have a second left."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, as ASGI has it: refusals and faults as a status with a reason; nothing if the client is gone."""
        began, queries = time.monotonic(), 0
        status, value, headers = 500, {"error": "the server failed; its log says why"}, {"Connection": "close"}
        try:
            value, queries = await self._result(Request(scope, receive))
            status, headers = 200, {}
        except HTTPException as refusal:
            status, value, headers = refusal.status_code, {"error": refusal.detail}, dict(refusal.headers or {})
        except BadRequest as error:
            status, value, headers = 400, {"error": str(error)}, {}
        except EnvFault as fault:
            status, value, headers = 503, {"error": f"the retriever failed: {fault.cause[:200]}"}, {}
            self._log_failure(fault)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - a retriever of anybody's; the log says what it was
            self._log_failure(error)
        self.note(status, queries, time.monotonic() - began)
        body = json.dumps(value, allow_nan=False)  # ASCII: passages may hold lone surrogates
        await Response(body, status, headers, media_type="application/json")(scope, receive, send)

    async def _result(self, request: Request) -> tuple[Any, int]:
        """Return the reply to a request and the number of its queries; HTTPException for a sender, path or method refused."""
        self._check_sender(request)
        path = request.url.path
        if path not in METHODS:
            raise HTTPException(404, f"no such path; there are {', '.join(METHODS)}")
        if request.method != METHODS[path]:
            raise HTTPException(405, f"{path} takes {METHODS[path]}", {"Allow": METHODS[path]})
        if path == "/health":
            return self.health, 0
        search = read_request(await self._body(request))
        results = await run_in_threadpool(
            lambda: [self.retriever.search(query, search.top_k) for query in search.queries]
        )
        if search.scores:
            return {"result": [[wire_hit(hit) for hit in hits] for hits in results]}, len(results)
        return {"result": [[wire_document(hit.passage) for hit in hits] for hits in results]}, len(results)

    def _check_sender(self, request: Request) -> None:
        """Raise HTTPException for not one or a wrong Host, another site's Origin, or a wrong token (400, 403, 403, 401)."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            raise HTTPException(400, "one Host header is needed")
        if self.names is not None and _host_name(hosts[0]) not in self.names:
            raise HTTPException(403, "this Host is not served; ask for localhost")
        origins = [_host_name(origin.partition("://")[2]) for origin in request.headers.getlist("origin")]
        if self.names is not None and not self.names.issuperset(origins):
            raise HTTPException(403, "a page of another site may not ask")
        if self.token is not None:
            scheme, _, token = "\n".join(request.headers.getlist("authorization")).partition(" ")
            if not hmac.compare_digest(token.encode(), self.token.encode()) or scheme.lower() != "bearer":
                bearer = {"WWW-Authenticate": "Bearer"}
                raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN", bearer)

    async def _body(self, request: Request) -> bytes:
        """Return the body within cap and deadline, else HTTPException; the connection's own clock runs a little longer."""
        too_large = HTTPException(413, f"a body has at most {self.max_body} bytes")
        if len(length := request.headers.get("content-length", "0")) > 18 or int(length) > self.max_body:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > self.max_body:
                        raise too_large
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {REQUEST_SECONDS:g} s") from None
        return bytes(body)

    def note(self, status: int, queries: int, seconds: float) -> None:
        """Count an answer for the log; a verbose server logs it at once."""
        with self._lock:
            requests, searched, refused = self._counts
            self._counts = requests + 1, searched + queries, refused + (status >= 400)
        if self._verbose:
            self._tell(f"{status}, {queries} queries, {1000 * seconds:.1f} ms")

    async def log_counts(self) -> None:
        """Log the counts since the last call, if there was a request, and begin anew; uvicorn calls it once a minute."""
        with self._lock:
            (requests, searched, refused), self._counts = self._counts, (0, 0, 0)
        if requests:
            self._tell(f"last minute: {requests} requests, {searched} queries, {refused} refused or failed")

    def _log_failure(self, error: BaseException) -> None:
        """Report a failed search by the error's type and the first 200 characters of its text."""
        self._tell(f"failed: {type(error).__name__}: {' '.join(str(error)[:200].split())}")


def _listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens (what connects before the server serves waits); UsageError where that fails."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
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
