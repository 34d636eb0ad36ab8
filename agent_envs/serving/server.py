"""The server puts pools of episodes behind HTTP and WebSockets, in OpenEnv's protocol and with more beside it.

It stands on starlette, uvicorn and websockets (extra `serve`). Whoever reaches the socket may send anything: each message is
bounded in bytes, depth and seconds, what is wrong with it is told in words and never by a traceback, and beyond this machine
nothing is served without a token.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Self

import gymnasium as gym

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.core.registry import full_id
from agent_envs.rollout.episode_pool import EpisodePool
from agent_envs.services.http.faults import parse_json
from agent_envs.serving.seats import Caller
from agent_envs.serving.sessions import ServerLimits
from agent_envs.serving.snapshots import SnapshotSessions
from agent_envs.serving.wire import MAX_MESSAGE, STATUSES, Data, Served, WireError, json_text
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

try:
    import uvicorn
    from starlette.datastructures import Headers
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
except ImportError as error:
    raise MissingExtra("starlette, uvicorn and websockets", "serve", "an environment server") from error

PING_SECONDS = 20.0  # between pings, and for the answer to one
END_SECONDS = 5  # for what is under way at the end
MAX_CONNECTIONS = 8192
OPENING = ("reset", "reset_many", "fork", "restore")  # messages that may wait for a place
VIEWS = ("health", "schema", "metadata", "list_environments", "splits", "state")  # what GET shows


class _EnvConnection(Connection):
    """A connection of this server's: many may wait."""

    most = MAX_CONNECTIONS

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether to keep a connection that its client half closed: not where it may wait for a place."""
        return super().eof_received() and self.scope["path"].rpartition("/")[2] not in OPENING


class _EnvSocket(WebSocketsSansIOProtocol):
    """A WebSocket that is dropped with what it was to send, once its client answers no ping: nobody reads that."""

    def keepalive_timeout(self) -> None:
        """Fail the connection and drop it."""
        super().keepalive_timeout()
        self.transport.abort()


class EnvServer:
    """Environments behind a socket. `serve_forever()` serves until Ctrl-C or `shutdown()`; a `with` block closes the socket."""

    def __init__(
        self, specs: Mapping[str, Mapping[str, Any]] | str, *, host: str = "127.0.0.1", port: int = 8000,
        tokens: Mapping[str, str] | None = None, exporters: frozenset[str] = frozenset(),
        limits: ServerLimits | None = None, tell: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        """Check access, make the environments and open the socket.

        Args:
            specs: an id, or ids with the arguments of each; the first is served where a client names none.
            host: an address of this machine; one that other machines reach needs a token.
            port: 0 takes a free one, see `url`.
            tokens: name -> token, 32 characters at least. What a token's clients open is theirs alone.
            exporters: names of the tokens that may take snapshots out as bytes, which hold the tasks' answers.
            limits: of sessions, snapshots and time.
            tell: gets the log: failures, and a line for a minute in which sessions are open or something was asked.

        Raises:
            UsageError: there is no such environment, a token is too short, is twice or lacks, or the address cannot be had.
        """
        tokens, self.limits = dict(tokens or {}), limits or ServerLimits()
        for token in (*tokens.values(), *(() if tokens else (None,))):
            check_access(host, token)
        if len(set(tokens.values())) < len(tokens) or not exporters <= tokens.keys():
            raise UsageError("EnvServer: give each name a token of its own, and the right `export` to names of tokens")
        self._gate, self._tell, self._acts = Gate(host, tokens), tell, 0
        self.served = _served({specs: {}} if isinstance(specs, str) else specs)
        self._first = next(iter(self.served.values()))
        self.sessions = SnapshotSessions(self.served, self.limits, exporters, self._log_failure)
        self._paths = {name.casefold(): one for name, one in self.served.items()}
        self._socket = listening_socket(host, port)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.__call__, http=_EnvConnection, ws=_EnvSocket, loop="asyncio", lifespan="on", interface="asgi3",
                log_config=None, log_level="critical", access_log=False, server_header=False, date_header=False,
                timeout_keep_alive=int(REQUEST_SECONDS), timeout_graceful_shutdown=END_SECONDS,
                callback_notify=self.log_counts, timeout_notify=int(LOG_SECONDS), ws_max_size=MAX_MESSAGE,
                ws_ping_interval=PING_SECONDS, ws_ping_timeout=PING_SECONDS, ws_per_message_deflate=False,
            )
        )  # fmt: skip

    @property
    def url(self) -> str:
        """The address that clients are given."""
        return url_of(self._socket)

    def serve_forever(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until Ctrl-C, then a KeyboardInterrupt, or until `shutdown`; `ready` is called once either ends it cleanly."""
        self._ready = ready
        self._server.run([self._socket])

    def shutdown(self) -> None:
        """Stop `serve_forever`: what is under way has five seconds left."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()
        for one in self.served.values():
            one.pool.close()
            one.env.close()

    async def log_counts(self) -> None:
        """Log how many sessions are open and what happened so far, unless nothing did; uvicorn calls it once a minute."""
        counts = self.sessions.counts()
        acts = counts["turns"] + counts["refusals"] + counts["faults"]
        if counts["sessions"] or acts != self._acts:
            self._tell(", ".join(f"{name} {count}" for name, count in counts.items()))
        self._acts = acts

    def _log_failure(self, error: BaseException) -> None:
        """Log a failure by the error's type and the first 200 characters of its text."""
        self._tell(f"failed: {type(error).__name__}: {' '.join(str(error)[:200].split())}")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, play with a socket, or end what is idle as long as the server lives, as ASGI has it."""
        await {"http": self._http, "websocket": self._websocket, "lifespan": self._life}[scope["type"]](
            scope, receive, send
        )

    async def _life(self, scope: Any, receive: Any, send: Any) -> None:
        """End idle sessions until the server ends."""
        await receive()
        self._ready()
        await send({"type": "lifespan.startup.complete"})
        end = asyncio.ensure_future(receive())
        while not end.done():
            await asyncio.wait((end,), timeout=min(self.limits.idle_seconds / 4, 15.0))
            self.sessions.end_idle()
        await send({"type": "lifespan.shutdown.complete"})

    # WebSockets: one message, one answer.

    async def _websocket(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer the messages of a socket, one after the other."""
        await receive()
        try:
            owner = self._gate.admit(Headers(scope=scope))
            served, route = self._place(scope["path"])
            if route != "ws":
                raise HTTPException(404, "a socket is at /ws")
        except HTTPException as refusal:
            headers = [(name.lower().encode(), value.encode()) for name, value in (refusal.headers or {}).items()]
            await send({"type": "websocket.http.response.start", "status": refusal.status_code, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": refusal.detail.encode()})
            return
        await send({"type": "websocket.accept"})
        caller = Caller(owner, served)
        try:
            await self._converse(caller, receive, send)
        except (OSError, ClientDisconnect):
            return
        finally:
            self.sessions.leave(caller)

    async def _converse(self, caller: Caller, receive: Any, send: Any) -> None:
        """Answer messages until the client leaves, says `close` or is silent for too long."""
        coming = asyncio.ensure_future(receive())
        try:
            while True:
                await asyncio.wait((coming,), timeout=self.limits.idle_seconds)
                if not coming.done():
                    await send({"type": "websocket.close", "code": 1001, "reason": "idle for too long"})
                    return
                if (event := coming.result())["type"] != "websocket.receive":
                    return
                coming = asyncio.ensure_future(receive())
                answer = await self._reply(caller, (event.get("text") or "").encode(), coming)
                if answer is None:
                    await send({"type": "websocket.close", "code": 1000})
                    return
                await send({"type": "websocket.send", "text": answer})
                caller.opened.clear()
        finally:
            coming.cancel()

    async def _reply(self, caller: Caller, text: bytes, coming: "asyncio.Future[Any]") -> str | None:
        """Return the answer to the text of a message; None to `close`, which closes the socket."""
        try:
            message = read_object(text)
            kind, data = message.get("type"), message.get("data", {})
            if not isinstance(kind, str) or not isinstance(data, dict):
                raise WireError("VALIDATION_ERROR", 'a message is {"type": "...", "data": {...}}')
            if kind == "close" and not data:
                return None
            if kind in OPENING:
                answer = await self._attend(caller, kind, data, coming)
            else:
                answer = self._view(caller, kind) or await self.sessions.answer(caller, kind, data)
            return json_text({"type": "observation" if kind in ("reset", "step") else kind, "data": answer})
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - the log has what a client may not know
            self.sessions.totals.refusals += 1
            return json_text({"type": "error", "data": self.sessions.refusal(error).data()})

    async def _attend(self, caller: Caller, kind: str, data: Data, coming: "asyncio.Future[Any]") -> Data:
        """Answer a message that may wait for a place; ClientDisconnect where `coming`, what comes next, is the end."""
        answer = asyncio.ensure_future(self.sessions.answer(caller, kind, data))
        try:
            await asyncio.wait((answer, coming), return_when=asyncio.FIRST_COMPLETED)
            if coming.done() and coming.result()["type"].endswith(".disconnect"):
                raise ClientDisconnect
            return await answer
        finally:
            if answer.cancel():
                await asyncio.wait((answer,))

    # HTTP: views, and each message as a route.

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request: refusals as a status with a reason; nothing if the client is gone."""
        request, headers = Request(scope, receive), dict[str, str]()
        try:
            status, text = 200, json_text(await self._answer(request))
        except ClientDisconnect:
            return
        except HTTPException as refusal:
            status, text = refusal.status_code, json_text({"message": refusal.detail})
            headers = dict(refusal.headers or {})
        except Exception as error:  # noqa: BLE001 - the log has what a client may not know
            wrong = self.sessions.refusal(error)
            status, text = STATUSES[wrong.code], json_text(wrong.data())
            headers = {"Retry-After": "1"} if wrong.retryable else {}
        self.sessions.totals.refusals += status != 200
        await Response(text, status, headers, media_type="application/json")(scope, receive, send)

    async def _answer(self, request: Request) -> Any:
        """Return the answer to a request."""
        owner = self._gate.admit(request.headers)
        served, route = self._place(request.url.path)
        caller = Caller(owner, served, lasting=True)
        if request.method == "GET":
            if route == "state":
                return await self.sessions.answer(caller, "state", dict(request.query_params))
            if (view := self._view(caller, route)) is not None:
                return view
            raise HTTPException(404, f"no such page; there are {', '.join(VIEWS)}")
        if request.method != "POST" or route not in self.sessions.kinds:
            raise HTTPException(404, f"no such route; POST goes to {', '.join(self.sessions.kinds)}")
        body = await read_body(request, MAX_MESSAGE)
        data = read_object(body) if body else {}
        if route not in OPENING:
            return await self.sessions.answer(caller, route, data)
        coming = asyncio.ensure_future(request.receive())
        try:
            return await self._attend(caller, route, data, coming)
        except ClientDisconnect:
            self.sessions.leave(caller)
            raise
        finally:
            coming.cancel()

    def _view(self, caller: Caller, name: str) -> Any:
        """Return a view by its name; None where there is none."""
        one = caller.served
        if name == "health":
            return {"status": "healthy", **self.sessions.counts()}
        if name == "schema":
            return one.schema()
        if name == "metadata":
            about = one.about()
            return {"name": one.name, "description": f"{about['env_id']} of agent-envs", "version": about["version"]}
        if name == "list_environments":
            return list(self.served)
        if name == "splits":
            return [
                {"name": split, "type": "validation" if split == "dev" else split} for split in one.core.source.splits
            ]
        return None

    def _place(self, path: str) -> tuple[Served, str]:
        """Return the environment and the route of a path: /route, or /NAME/route."""
        name, slash, route = path.strip("/").partition("/")
        if not slash:
            return self._first, name
        if name.casefold() not in self._paths:
            raise HTTPException(404, f"no environment {name[:80]!r}; there are {', '.join(self.served)}")
        return self._paths[name.casefold()], route


def _served(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Served]:
    """Make the environments that are served, by short names; UsageError where there is none."""
    served: dict[str, Served] = {}
    with contextlib.ExitStack() as undo:
        for spec, arguments in specs.items():
            env_id = full_id(spec)
            name = env_id.rpartition("/")[2].removesuffix("-v0")
            if name.casefold() in map(str.casefold, served):
                words = f"specs: {env_id} and another would both be at /{name}"
                raise UsageError(f"EnvServer: {words}; serve one of them from a server of its own")
            env = gym.make(env_id, disable_env_checker=True, **arguments)
            undo.callback(env.close)
            served[name] = Served(name, EpisodePool(env_id, **arguments), env)
        undo.pop_all()
    if not served:
        raise UsageError("EnvServer: specs name no environment; give an id, such as SearchQA")
    return served


def read_object(text: bytes) -> Data:
    """Return the JSON object of a text; WireError for anything else."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise WireError("INVALID_JSON", f"no sound JSON text ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise WireError("VALIDATION_ERROR", "a message is a JSON object")
    return value
