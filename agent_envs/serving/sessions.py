"""`Sessions` are open episodes that step in place, each bound to the token that opened it; a full server lets clients wait."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from agent_envs.rollout.episode_pool import PoolTurn
from agent_envs.serving.scheduling import Room, StepThreads
from agent_envs.serving.wire import (
    Data,
    Served,
    WireError,
    list_field,
    number_field,
    observation,
    refusal_of,
    reset_row,
    text_field,
)

MOST_TURNS = 2**31
WAITING_THREADS = 64  # of an environment whose steps wait for something outside


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server.

    Attributes:
        sessions: open at once; who asks for more waits in a queue.
        snapshots: of one token; the one that was named longest ago is forgotten for a new one.
        idle_seconds: after which a session, a snapshot or a connection that nobody names ends.
        step_seconds: for an answer to a step; it goes on, and its answer is there for who asks again with its index.
        queue_seconds: of waiting for a session.
        batch: the most steps, rows or forks of one message.
    """

    sessions: int = 1024
    snapshots: int = 100_000
    idle_seconds: float = 1800.0
    step_seconds: float = 120.0
    queue_seconds: float = 30.0
    batch: int = 1024


@dataclass(eq=False)
class Caller:
    """One connection: whose token it has, the environment of its address, and the session that ends with it, "" for none."""

    owner: str
    served: Served
    session: str = ""
    lasting: bool = False  # of HTTP: the next request may come on another connection


@dataclass(eq=False, slots=True)
class Seat:
    """An open episode and its last turn, which is told again to who repeats its index."""

    id: str
    owner: str
    served: Served
    key: str  # in the pool
    turns: int = 0
    action: Any = None
    turn: PoolTurn | None = None
    last_call: float = 0.0
    episode_id: str = ""
    pending: tuple[int, Any, "asyncio.Future[Any]"] | None = None
    ended: bool = False


@dataclass
class _Counts:
    """Counts since the start."""

    turns: int = 0
    faults: int = 0
    refusals: int = 0
    idle: int = 0


Ask = Data | WireError | tuple[Seat, "asyncio.Future[Any]"]  # of a step: its answer, or the call to wait for


class Sessions:
    """The sessions of all clients. Everything but steps runs in the event loop; nothing here knows of sockets."""

    def __init__(self, served: Mapping[str, Served], limits: ServerLimits, note: Callable[[Exception], None]) -> None:
        """Take the environments by name, and who notes an error that no client caused."""
        self.served, self.limits, self._note = served, limits, note
        self._sessions: dict[str, Seat] = {}
        self._room = Room(limits.sessions, limits.queue_seconds)
        self._threads = {name: StepThreads(WAITING_THREADS if one.pool.waits else 1) for name, one in served.items()}
        self.totals = _Counts()
        self.kinds: dict[str, Callable[[Caller, Data], Awaitable[Data]]] = {
            "reset": self._reset, "reset_many": self._reset_many, "step": self._step, "step_many": self._step_many,
            "state": self._state, "close": self._close, "about": self._about, "task": self._task,
            "num_tasks": self._num_tasks,
        }  # fmt: skip

    async def answer(self, caller: Caller, kind: str, data: Data) -> Data:
        """Return the answer to a message; WireError for anything wrong with it, or with what it asks for."""
        method = self.kinds.get(kind)
        try:
            if method is None:
                raise WireError("UNKNOWN_TYPE", f"no message {kind[:80]!r}; there are {', '.join(self.kinds)}")
            return await method(caller, data)
        except Exception as error:  # noqa: BLE001 - what a client may know of it is told, and the log has the rest
            raise self._refusal(error) from None

    def leave(self, caller: Caller) -> None:
        """End the session that belongs to a connection which is closed."""
        if session := self._sessions.get(caller.session):
            self._end(session)

    def end_idle(self) -> None:
        """End what nobody has named for too long."""
        before = time.monotonic() - self.limits.idle_seconds
        for session in [one for one in self._sessions.values() if one.last_call < before and one.pending is None]:
            self._end(session)
            self.totals.idle += 1

    def counts(self) -> dict[str, int]:
        """Return the numbers of sessions that are open, that may be, and that clients wait for, and counts since the start."""
        return {
            "sessions": len(self._sessions), "max_sessions": self.limits.sessions, "queue": len(self._room),
            "under_way": sum(one.pending is not None for one in self._sessions.values()),
            **asdict(self.totals),
        }  # fmt: skip

    # Sessions: they step in place.

    async def _reset(self, caller: Caller, data: Data) -> Data:
        """Begin an episode, in the caller's session or one that the message names, else in a new one."""
        row, episode_id, name = reset_row(data), text_field(data, "episode_id"), text_field(data, "session")
        served, session = self._served(caller, data), self._sessions.get(caller.session)
        if name:
            session = self._find(caller, name)
            self._check_free(session)
        elif session is not None and (session.pending is not None or session.served is not served):
            self._end(session)  # its client gave up on it, or wants another environment
            session = None
        if session is not None:
            session.served.pool.drop(session.key)
        else:
            (session,) = await self._open(caller, served, 1)
            caller.session = "" if caller.lasting else session.id
        session.episode_id = episode_id
        return _sound(await self._answer_reset(session, self._submit_reset(session, row)))

    async def _reset_many(self, caller: Caller, data: Data) -> Data:
        """Begin an episode in a new session for each row; what fails is told in its place, and leaves no session."""
        rows = [reset_row(row) for row in list_field(data, "rows", self.limits.batch)]
        sessions = await self._open(caller, self._served(caller, data), len(rows))
        futures = [self._submit_reset(session, row) for session, row in zip(sessions, rows, strict=True)]
        answers = [await self._answer_reset(*pair) for pair in zip(sessions, futures, strict=True)]
        return self._rows(answers)

    def _submit_reset(self, session: Seat, row: Data) -> "asyncio.Future[Any]":
        """Submit the reset of a session that has no episode in the pool."""
        session.turns, session.action, session.turn = 0, None, None
        return self._submit(session, 0, None, partial(session.served.pool.begin_many, [{**row, "key": session.key}]))

    async def _answer_reset(self, session: Seat, future: "asyncio.Future[Any]") -> Data | WireError:
        """Return the answer to a reset; a session that could not begin ends."""
        answer = await self._settled(session, future)
        if isinstance(answer, WireError):
            self._end(session)
        return answer

    async def _step(self, caller: Caller, data: Data) -> Data:
        """Take a turn: of the caller's session, or of one that the message names, with `index` at most once."""
        return _sound(await self._answer_step(self._ask(caller, data)))

    async def _step_many(self, caller: Caller, data: Data) -> Data:
        """Take a turn in each of many sessions; what fails is told in its place."""
        asks = list[Ask]()
        for row in list_field(data, "steps", self.limits.batch):
            try:
                asks.append(self._ask(caller, row))
            except WireError as refusal:
                asks.append(refusal)
        return self._rows([await self._answer_step(ask) for ask in asks])

    def _rows(self, answers: list[Data | WireError]) -> Data:
        """Return the answers of many; what is refused stands in its place."""
        self.totals.refusals += sum(isinstance(answer, WireError) for answer in answers)
        rows = [{"error": answer.data()} if isinstance(answer, WireError) else answer for answer in answers]
        return {"turns": rows}

    def _ask(self, caller: Caller, data: Data) -> "Ask":
        """Submit a step; return its session and future, or the answer where that is known: an index that was taken before.

        The action is the message itself, as OpenEnv's sockets send it, or its `action`, beside `session` and `index`.
        """
        value = data["action"] if "action" in data else data
        more = value.get("metadata") if isinstance(value, dict) else None
        names = {**(more if isinstance(more, dict) else {}), **(data if "action" in data else {})}
        session = self._find(caller, text_field(names, "session"))
        action = session.served.action(value)
        index = None if names.get("index") is None else number_field(names, "index", 0, 0, MOST_TURNS)
        if session.pending is not None:
            if index is None or session.pending[:2] != (index + 1, action):
                self._check_free(session)
            return session, session.pending[2]
        if index is not None and index == session.turns - 1 and action == session.action and session.turn is not None:
            return observation(session.turn, session.id)
        if index not in (None, session.turns):
            words = f"index={index}: this session has taken {session.turns} turns, and takes none of them otherwise"
            raise WireError("CONFLICT", f"{words}; fork, or restore a snapshot")
        call = partial(session.served.pool.act_many, [(session.key, action)])
        return session, self._submit(session, session.turns + 1, action, call)

    def _submit(self, session: Seat, turns: int, action: Any, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Let a thread call the pool for a session, which has so many turns when that is done."""
        future = self._threads[session.served.name].submit(call)
        session.pending, session.last_call = (turns, action, future), time.monotonic()
        future.add_done_callback(partial(self._done, session))
        return future

    def _done(self, session: Seat, future: "asyncio.Future[Any]") -> None:
        """Keep what a session's call came to, whether or not anybody still waits for it."""
        turns, action, _ = session.pending or (0, None, None)
        session.pending, pool = None, session.served.pool
        if not future.cancelled() and future.exception() is None and future.result() and not future.result()[0].fault:
            session.turns, session.action, session.turn = turns, action, future.result()[0]
            self.totals.turns += turns > 0
        if session.ended and session.key in pool:
            pool.drop(session.key)

    async def _answer_step(self, ask: "Ask") -> Data | WireError:
        """Return the answer to a step, when it is there."""
        return await self._settled(*ask) if isinstance(ask, tuple) else ask

    async def _settled(self, session: Seat, future: "asyncio.Future[Any]") -> Data | WireError:
        """Return the answer of a session's call when it is there, or the refusal: an error, a fault, the deadline."""
        try:
            (turn,) = await self._within(session.served, future)
        except Exception as error:  # noqa: BLE001 - each of many steps has its own answer
            return self._refusal(error)
        return self._fault(turn) if turn.fault else observation(turn, session.id)

    async def _within(self, served: Served, future: "asyncio.Future[Any]") -> Any:
        """Return a call's result within the deadline; WireError behind it, and the call goes on."""
        if not future.done():
            await asyncio.wait((future,), timeout=self.limits.step_seconds)
        if not future.done():
            self._threads[served.name].abandon(future)
            words = f"no answer within {self.limits.step_seconds:g} s; the call goes on, ask again with the same index"
            raise WireError("DEADLINE", words, retryable=True)
        return future.result()

    async def _state(self, caller: Caller, data: Data) -> Data:
        """Return the episode's id and its number of turns, as OpenEnv has it."""
        session = self._find(caller, text_field(data, "session"))
        return {"episode_id": session.episode_id or None, "step_count": session.turns, "session": session.id}

    async def _close(self, caller: Caller, data: Data) -> Data:
        """End a session."""
        session = self._find(caller, text_field(data, "session"))
        self._end(session)
        return {"session": session.id}

    def _refusal(self, error: Exception) -> WireError:
        """Return the refusal of an error, which is noted where no client caused it."""
        refusal = refusal_of(error)
        if refusal is not error and refusal.code == "INTERNAL":
            self._note(error)
        return refusal

    def _fault(self, turn: PoolTurn) -> WireError:
        """Return the refusal of an outside fault."""
        self.totals.faults += 1
        words = f"an outside service failed, and no turn was taken: {turn.fault}"
        return WireError("EXECUTION_ERROR", words, retryable=True)

    # What is served.

    async def _about(self, caller: Caller, data: Data) -> Data:
        """Return the description of the environment."""
        return self._served(caller, data).about()

    async def _task(self, caller: Caller, data: Data) -> Data:
        """Return id and place of a task; not the task itself, whose answer stays hidden."""
        served, split, key = self._served(caller, data), self._split(caller, data), data.get("index")
        if not (type(key) is int or isinstance(key, str)) or (type(key) is int and abs(key) >= 2**63):
            raise WireError("VALIDATION_ERROR", "index: give the index of a task, or its id")
        try:
            task = await self._within(
                served, self._threads[served.name].submit(lambda: served.core.source.get(split, key))
            )
        except (KeyError, IndexError) as error:
            raise WireError("VALIDATION_ERROR", f"no task {key!r:.100} in split {split}") from error
        return {"task": {"id": task.id, "split": split, "index": key}}

    async def _num_tasks(self, caller: Caller, data: Data) -> Data:
        """Return the number of a split's tasks."""
        return {"num_tasks": self._served(caller, data).core.source.size(self._split(caller, data))}

    def _split(self, caller: Caller, data: Data) -> str:
        """Return the split that a message names."""
        splits, split = self._served(caller, data).core.source.splits, text_field(data, "split")
        if split not in splits:
            raise WireError("VALIDATION_ERROR", f"split={split!r}; give one of {', '.join(splits)}")
        return split

    def _served(self, caller: Caller, data: Data) -> Served:
        """Return the environment that a message names, else that of the caller's address."""
        name = text_field(data, "env")
        if name and name not in self.served:
            raise WireError("VALIDATION_ERROR", f"env={name!r}; give one of {', '.join(self.served)}")
        return self.served[name] if name else caller.served

    # Room for sessions, and who may name what.

    async def _open(self, caller: Caller, served: Served, n: int) -> list[Seat]:
        """Open sessions without an episode, once there is room for all of them."""
        await self._room.take(n)
        now = time.monotonic()
        sessions = [
            Seat(secrets.token_urlsafe(16), caller.owner, served, secrets.token_urlsafe(12), last_call=now)
            for _ in range(n)
        ]
        self._sessions.update((session.id, session) for session in sessions)
        return sessions

    def _end(self, session: Seat) -> None:
        """Forget a session; its episode goes once no call has it."""
        if self._sessions.pop(session.id, None) is None:
            return
        session.ended = True
        if session.pending is None and session.key in session.served.pool:
            session.served.pool.drop(session.key)
        self._room.give_back(1)

    def _find(self, caller: Caller, name: str) -> Seat:
        """Return a session of the caller's token; WireError where there is none, or it has ended, or is another's."""
        session = self._sessions.get(name or caller.session)
        if session is None or session.owner != caller.owner:
            words = "no such session; it may have been idle too long" if name else "no episode yet; send reset first"
            raise WireError("SESSION_ERROR", words)
        session.last_call = time.monotonic()
        return session

    def _check_free(self, session: Seat) -> None:
        """Raise WireError while a call of the session is under way."""
        if session.pending is not None:
            raise WireError("BUSY", "a call of this session is under way; ask again", retryable=True)


def _sound(answer: Data | WireError) -> Data:
    """Return an answer; raise it where it is a WireError."""
    if isinstance(answer, WireError):
        raise answer
    return answer
