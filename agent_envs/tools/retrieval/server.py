"""The server puts a retriever behind HTTP for clients of Search-R1 and SkyRL: `POST /retrieve` (see `wire`), `GET /health`.

It stands on starlette and uvicorn (extra `serve`). Whoever reaches the socket may send anything, so each request is bounded in
bytes, queries, passages and seconds, what is wrong with it is answered in words, and beyond this machine nothing is served
without a token.
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from agent_envs.base.documents import Corpus, Retriever
from agent_envs.base.errors import EnvFault, MissingExtra
from agent_envs.tools.listening import (
    LOG_SECONDS,
    REQUEST_SECONDS,
    Connection,
    Gate,
    check_access,
    listening_socket,
    read_body,
    url_of,
)
from agent_envs.tools.retrieval.wire import BadRequest, read_request, wire_document, wire_hit

try:
    import uvicorn
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
except ImportError as error:
    raise MissingExtra("starlette and uvicorn", "serve", "a retriever server") from error

MAX_BODY = 16 * 1024 * 1024
METHODS = {"/retrieve": "POST", "/health": "GET"}


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
        self.retriever, self.max_body = retriever, max_body
        self._gate = Gate(host, {} if token is None else {"clients": token})
        self.health: dict[str, Any] = {"status": "ok", "retriever": retriever.name}
        if corpus is not None:
            self.health |= {"passages": len(corpus), "corpus": corpus.digest}
        self._tell, self._verbose = tell, verbose
        self._lock, self._counts = threading.Lock(), (0, 0, 0)
        self._socket = listening_socket(host, port)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.answer, http=Connection, ws="none", loop="asyncio", lifespan="off", interface="asgi3",
                log_config=None, log_level="critical", access_log=False, server_header=False, date_header=False,
                timeout_keep_alive=int(REQUEST_SECONDS), timeout_graceful_shutdown=1,
                callback_notify=self.log_counts, timeout_notify=int(LOG_SECONDS),
            )
        )  # fmt: skip

    @property
    def url(self) -> str:
        """The endpoint: what stands behind the @ of a retriever's name."""
        return f"{url_of(self._socket)}/retrieve"

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
        self._gate.admit(request.headers)
        path = request.url.path
        if path not in METHODS:
            raise HTTPException(404, f"no such path; there are {', '.join(METHODS)}")
        if request.method != METHODS[path]:
            raise HTTPException(405, f"{path} takes {METHODS[path]}", {"Allow": METHODS[path]})
        if path == "/health":
            return self.health, 0
        search = read_request(await read_body(request, self.max_body))
        results = await run_in_threadpool(
            lambda: [self.retriever.search(query, search.top_k) for query in search.queries]
        )
        if search.scores:
            return {"result": [[wire_hit(hit) for hit in hits] for hits in results]}, len(results)
        return {"result": [[wire_document(hit.passage) for hit in hits] for hits in results]}, len(results)

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
