"""`Sessions` are open episodes that step in place, each bound to the token that opened it; a full server lets clients wait."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from agent_envs.rollout.episode_pool import PoolTurn
from agent_envs.serving.scheduling import Room, StepThreads
from agent_envs.serving.seats import Caller, Pending, Seat, Stand
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
GOES_ON = "the call goes on, and keeps its session busy; a step's answer is there for who asks again with its index"
THROWN_AWAY = "what it would have begun is thrown away; ask again"


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server.

    Attributes:
        sessions: open at once; who asks for more waits in a queue.
        snapshots: of one token; the one that was named longest ago is forgotten for a new one.
        snapshot_bytes: of one token's snapshots, as their texts are counted; beyond them it is the same.
        idle_seconds: after which a session, a snapshot or a connection that nobody names ends.
        step_seconds: for the answer to a message; a step goes on, and its answer is there for who asks again with its index.
        queue_seconds: of waiting for a session.
        batch: the most steps, rows or forks of one message.
    """

    sessions: int = 1024
    snapshots: int = 100_000
    snapshot_bytes: int = 2**31
    idle_seconds: float = 1800.0
    step_seconds: float = 120.0
    queue_seconds: float = 30.0
    batch: int = 1024


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
        if method is None:
            raise WireError("UNKNOWN_TYPE", f"no message {kind[:80]!r}; there are {', '.join(self.kinds)}")
        try:
            return await method(caller, data)
        except BaseException:
            self._end_opened(caller)
            raise

    def leave(self, caller: Caller) -> None:
        """End the session that belongs to a connection which is closed, and those whose opening it was not told."""
        self._end_opened(caller)
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
            if data.get("env") and session.served is not served:
                raise WireError("VALIDATION_ERROR", f"env: the session is of {session.served.name}; open another one")
        elif session is not None and (session.pending is not None or session.served is not served):
            self._end(session)  # its client gave up on it, or wants another environment
            session = None
        if session is None:
            (session,) = await self._open(caller, [served])
            caller.session = "" if caller.lasting else session.id
        future = self._submit_reset(session, row)
        await self._wait([(session, future)])
        return _sound(self._reset_answer(session, future, episode_id))

    async def _reset_many(self, caller: Caller, data: Data) -> Data:
        """Begin an episode in a new session for each row; what fails is told in its place, and leaves no session."""
        rows = [{"env": data.get("env"), **row} for row in list_field(data, "rows", self.limits.batch)]
        if any(row.get("session") for row in rows):
            raise WireError("VALIDATION_ERROR", "rows: each opens a session; to begin anew in one is for `reset`")
        begins = [(reset_row(row), text_field(row, "episode_id")) for row in rows]
        sessions = await self._open(caller, [self._served(caller, row) for row in rows])
        calls = [(one, self._submit_reset(one, row)) for one, (row, _) in zip(sessions, begins, strict=True)]
        await self._wait(calls)
        return self._rows([self._reset_answer(*call, name) for call, (_, name) in zip(calls, begins, strict=True)])

    def _submit_reset(self, session: Seat, row: Data) -> "asyncio.Future[Any]":
        """Submit a reset; the episode that the session has stands until there is the new one."""
        key = secrets.token_urlsafe(12)
        return self._submit(session, partial(session.served.pool.begin_many, [{**row, "key": key}]), key)

    def _reset_answer(self, session: Seat, future: "asyncio.Future[Any]", episode_id: str) -> Data | WireError:
        """Return the answer to a reset; a session that has no episode ends."""
        answer = self._turn_of(session, future, GOES_ON if session.key else THROWN_AWAY)
        if session.ended:
            return WireError("SESSION_ERROR", "the session was closed before its episode began")
        if not isinstance(answer, WireError):
            session.episode_id = episode_id
        elif not session.key:
            self._end(session)
        return answer

    async def _step(self, caller: Caller, data: Data) -> Data:
        """Take a turn: of the caller's session, or of one that the message names, with `index` at most once."""
        ask = self._ask(caller, data)
        await self._wait([ask])
        return _sound(self._step_answer(ask))

    async def _step_many(self, caller: Caller, data: Data) -> Data:
        """Take a turn in each of many sessions; what fails is told in its place."""
        asks = list[Ask]()
        for row in list_field(data, "steps", self.limits.batch):
            try:
                asks.append(self._ask(caller, row))
            except WireError as refusal:
                asks.append(refusal)
        await self._wait(asks)
        return self._rows([self._step_answer(ask) for ask in asks])

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
        stand, pending = session.stand, session.pending
        if pending is not None:
            if index is None or (pending.index, pending.action) != (index, action):
                self._check_free(session)
            return session, pending.future
        if stand.turn is not None and index == stand.turns - 1 and action == stand.action:
            return observation(stand.turn, session.id)
        if index not in (None, stand.turns):
            words = f"index={index}: this session has taken {stand.turns} turns, and takes none of them otherwise"
            raise WireError("CONFLICT", f"{words}; fork, or restore a snapshot")
        call = partial(session.served.pool.act_many, [(session.key, action)])
        return session, self._submit(session, call, session.key, action=action, index=stand.turns)

    def _submit(self, session: Seat, call: Callable[[], Any], key: str, **after: Any) -> "asyncio.Future[Any]":
        """Let a thread call the pool for a session, which has the episode of a key when that is done; see `Pending`."""
        future = self._threads[session.served.name].submit(call)
        session.pending = Pending(future, key, **after)
        future.add_done_callback(partial(self._done, session, session.pending))
        return future

    def _done(self, session: Seat, pending: Pending, future: "asyncio.Future[Any]") -> None:
        """Keep what a session's call came to, whether or not anybody still waits for it."""
        session.pending, session.last_call, pool = None, time.monotonic(), session.served.pool
        stand = None
        if not future.cancelled() and future.exception() is None:
            stand, is_step = pending.stand, pending.index >= 0
            if stand is None and not (turn := future.result()[0]).fault:
                stand = (session.stand if is_step else Stand()).after(pending.action, turn)
                self.totals.turns += is_step
        if stand is not None:
            if session.key != pending.key and session.key in pool:
                pool.drop(session.key)
            session.key, session.stand = pending.key, stand
        if session.ended and session.key in pool:
            pool.drop(session.key)

    def _step_answer(self, ask: "Ask") -> Data | WireError:
        """Return the answer to a step after the wait for it."""
        return self._turn_of(*ask, GOES_ON) if isinstance(ask, tuple) else ask

    def _turn_of(self, session: Seat, future: "asyncio.Future[Any]", late: str) -> Data | WireError:
        """Return the answer of a session's call after the wait for it, or the refusal: an error, a fault, the deadline."""
        try:
            (turn,) = self._result(future, late)
            return self._fault(turn) if turn.fault else observation(turn, session.id)
        except Exception as error:  # noqa: BLE001 - each of many steps has its own answer
            return self.refusal(error)

    async def _wait(self, asks: Iterable[Any]) -> None:
        """Wait for the calls among asks, for one deadline at most; those that are late lose their place in the threads."""
        waiting = {ask[1]: ask[0] for ask in asks if isinstance(ask, tuple) and not ask[1].done()}
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self.limits.step_seconds)
            for future in late:
                self._threads[waiting[future].served.name].abandon(future)

    def _result(self, future: "asyncio.Future[Any]", late: str) -> Any:
        """Return a call's result after the wait for it; WireError, with words on what becomes of it, where it is late."""
        if not future.done():
            raise WireError("DEADLINE", f"no answer within {self.limits.step_seconds:g} s; {late}", retryable=True)
        return future.result()

    async def _state(self, caller: Caller, data: Data) -> Data:
        """Return the episode's id and its number of turns, as OpenEnv has it."""
        session = self._find(caller, text_field(data, "session"))
        return {"episode_id": session.episode_id or None, "step_count": session.stand.turns, "session": session.id}

    async def _close(self, caller: Caller, data: Data) -> Data:
        """End a session."""
        session = self._find(caller, text_field(data, "session"))
        self._end(session)
        return {"session": session.id}

    def refusal(self, error: Exception) -> WireError:
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
            future = self._threads[served.name].submit(lambda: served.core.source.get(split, key))
            await self._wait([(caller, future)])
            task = self._result(future, THROWN_AWAY)
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

    async def _open(self, caller: Caller, served: Sequence[Served]) -> list[Seat]:
        """Open a session without an episode for each environment, once there is room for all of them."""
        await self._room.take(len(served))
        now = time.monotonic()
        sessions = [Seat(secrets.token_urlsafe(16), caller.owner, one, now) for one in served]
        self._sessions.update((session.id, session) for session in sessions)
        caller.opened += sessions
        return sessions

    def _end_opened(self, caller: Caller) -> None:
        """End the sessions that a message opened in vain."""
        for session in caller.opened:
            self._end(session)
        caller.opened.clear()

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
