"""Snapshots are moments that the server keeps: a client has handles, restores sessions to them, or plays from one to the next.

Bytes of a snapshot hold the task's answer and leave only with the token's right `export`.
"""

import asyncio
import base64
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agent_envs.base.serialization import encode_state
from agent_envs.core.snapshot import Snapshot
from agent_envs.rollout.episode_pool import PoolTurn
from agent_envs.serving.seats import Caller, Seat, Stand
from agent_envs.serving.sessions import GOES_ON, THROWN_AWAY, ServerLimits, Sessions
from agent_envs.serving.wire import Data, Served, WireError, number_field, observation, reset_row, text_field

BRANCH = re.compile(r"[A-Za-z0-9_.-]*")
ASK_AGAIN = "the turn goes on, and its answer is there for who asks for the same again"


@dataclass(frozen=True, eq=False, slots=True)
class KeptMoment:
    """A snapshot, how far its episode is, and its turns that were too late for who asked, by action and branch."""

    served: Served
    snapshot: Any
    stand: Stand = Stand()
    late: dict[tuple[Any, Any], "asyncio.Future[Any]"] = field(default_factory=dict)

    def on(self, branch: str) -> "KeptMoment":
        """Return the moment on a branch, whose samples from outside services are its own; WireError for a malformed name."""
        if not BRANCH.fullmatch(branch):
            raise WireError("VALIDATION_ERROR", f"branch={branch!r}; name it with letters, digits, - and _")
        episode = self.snapshot.episode
        if episode is None or episode.header.branch == branch:
            return self
        episode = replace(episode, header=replace(episode.header, branch=branch))
        return replace(self, snapshot=replace(self.snapshot, episode=episode))


class Moments(OrderedDict[str, tuple[KeptMoment, float]]):
    """The snapshots of one token with the time when each was named last, those of late at the end; `size` is their bytes."""

    size = 0

    def keep(self, moment: KeptMoment) -> str:
        """Keep a snapshot, and return its handle."""
        handle = secrets.token_urlsafe(16)
        self[handle] = moment, time.monotonic()
        self.size += moment.stand.size
        return handle

    def forget(self) -> None:
        """Forget the snapshot that was named longest ago."""
        _, (moment, _) = self.popitem(last=False)
        self.size -= moment.stand.size


class SnapshotSessions(Sessions):
    """Sessions with forks and snapshots, which belong to the token that made them."""

    def __init__(
        self,
        served: Mapping[str, Served],
        limits: ServerLimits,
        exporters: frozenset[str],
        note: Callable[[Exception], None],
    ) -> None:
        """Take what `Sessions` takes, and the names of the tokens that may take bytes out."""
        super().__init__(served, limits, note)
        self._exporters = exporters
        self._moments: dict[str, Moments] = {}  # by owner
        self.kinds |= {
            "fork": self._fork, "snapshot": self._snapshot, "restore": self._restore, "export": self._export,
            "begin": self._begin, "act": self._act,
        }  # fmt: skip

    def end_idle(self) -> None:
        """End the sessions and forget the snapshots that nobody has named for too long."""
        super().end_idle()
        before = time.monotonic() - self.limits.idle_seconds
        for moments in self._moments.values():
            while moments and next(iter(moments.values()))[1] < before:
                moments.forget()
                self.totals.idle += 1

    def counts(self) -> dict[str, int]:
        """Return the counts of `Sessions`, and how many snapshots are kept."""
        return {**super().counts(), "snapshots": sum(map(len, self._moments.values()))}

    async def _fork(self, caller: Caller, data: Data) -> Data:
        """Open sessions that go on from where one stands; with a branch they draw samples of their own from services."""
        session, branch = self._find(caller, text_field(data, "session")), text_field(data, "branch")
        n = number_field(data, "n", 1, 1, self.limits.batch)
        moment = self._moment_of(session)  # before the wait for room, in which it may go on
        before = moment.snapshot.episode.header.branch if moment.snapshot.episode else ""
        stem = f"{before}.{branch}" if before else branch
        moments = [moment.on(f"{stem}{place}") if branch else moment for place in range(n)]
        twins = await self._open(caller, [moment.served] * n)
        await self._resume(twins, moments)
        return {"sessions": [twin.id for twin in twins]}

    async def _resume(self, sessions: list[Seat], moments: list[KeptMoment]) -> None:
        """Let each session go on from a moment; the episode that it has stands until it does."""
        calls = []
        for session, moment in zip(sessions, moments, strict=True):
            key = secrets.token_urlsafe(12)
            call = partial(session.served.pool.resume, key, moment.snapshot)
            calls.append((session, self._submit(session, call, key, stand=moment.stand)))
        await self._wait(calls)
        for session, future in calls:
            self._result(future, GOES_ON if session.key else THROWN_AWAY)

    def _moment_of(self, session: Seat) -> KeptMoment:
        """Return the moment of a session; WireError while a call of it is under way."""
        self._check_free(session)
        return KeptMoment(session.served, session.served.pool.moment(session.key), session.stand)

    async def _snapshot(self, caller: Caller, data: Data) -> Data:
        """Keep the moment of a session."""
        return {"snapshot": self._keep(caller, self._moment_of(self._find(caller, text_field(data, "session"))))}

    async def _restore(self, caller: Caller, data: Data) -> Data:
        """Put a session back to a snapshot, or open a new one there; bytes of `export` serve as well, with its right."""
        name, is_bytes = text_field(data, "session"), data.get("bytes") is not None
        moment = self._moment_of_bytes(caller, data) if is_bytes else self._find_moment(caller, data)
        if name:
            session = self._find(caller, name)
            self._check_free(session)
        else:
            (session,) = await self._open(caller, [moment.served])
        if session.served is not moment.served:
            raise WireError("VALIDATION_ERROR", f"session: it is of {session.served.name}, the snapshot is not")
        await self._resume([session], [moment])
        return {"session": session.id, "index": session.stand.turns}

    async def _export(self, caller: Caller, data: Data) -> Data:
        """Return a snapshot as bytes, which hold the task's answer: for tokens that have the right."""
        self._check_export(caller)
        return {"bytes": base64.b64encode(self._find_moment(caller, data).snapshot.to_bytes()).decode()}

    def _moment_of_bytes(self, caller: Caller, data: Data) -> KeptMoment:
        """Return the moment that bytes of `export` hold."""
        self._check_export(caller)
        try:
            snapshot = Snapshot.from_bytes(base64.b64decode(data["bytes"], validate=True))
        except (TypeError, ValueError) as error:
            raise WireError("VALIDATION_ERROR", f"bytes: give what `export` returned ({error})") from error
        turns = len(snapshot.episode.turns) if snapshot.episode else 0
        return KeptMoment(self._served(caller, data), snapshot, Stand(turns, size=2 * len(data["bytes"])))

    async def _begin(self, caller: Caller, data: Data) -> Data:
        """Begin an episode without a session; the answer has the handle of its moment."""
        served, row, key = self._served(caller, data), reset_row(data), secrets.token_urlsafe(12)
        call = partial(served.pool.begin_many, [{**row, "key": key}])
        future = self._take_turn(served, key, call)
        await self._wait([(caller, future)])
        return self._turn_from(caller, KeptMoment(served, None), None, self._result(future, THROWN_AWAY))

    async def _act(self, caller: Caller, data: Data) -> Data:
        """Take a turn from a snapshot, which stays as it is; the answer has the handle of the moment after it."""
        source, branch, key = self._find_moment(caller, data), data.get("branch"), secrets.token_urlsafe(12)
        moment = source if branch is None else source.on(text_field(data, "branch"))
        pool, action = moment.served.pool, moment.served.action(data.get("action"))

        def act() -> list[PoolTurn]:
            """Open the moment, and take the turn there."""
            pool.resume(key, moment.snapshot)
            return pool.act_many([(key, action)])

        future = source.late.pop((action, branch), None) or self._take_turn(moment.served, key, act)
        await self._wait([(moment, future)])
        if not future.done():
            source.late[action, branch] = future
        return self._turn_from(caller, moment, action, self._result(future, ASK_AGAIN))

    def _take_turn(self, served: Served, key: str, call: Callable[[], list[PoolTurn]]) -> "asyncio.Future[Any]":
        """Let a thread take a turn that opens an episode under a key, and take its moment out of the pool."""

        def take() -> tuple[PoolTurn, Any]:
            """Call, and take the moment out."""
            try:
                (turn,) = call()
                return turn, None if turn.fault else served.pool.moment(key)
            finally:
                if key in served.pool:
                    served.pool.drop(key)

        return self._threads[served.name].submit(take)

    def _turn_from(self, caller: Caller, moment: KeptMoment, action: Any, result: tuple[PoolTurn, Any]) -> Data:
        """Return the turn that was taken from a moment, and the handle of the moment after it."""
        turn, snapshot = result
        if turn.fault:
            raise self._fault(turn)
        parsed = None if action is None else encode_state(snapshot.episode.turns[-1].parsed)
        self.totals.turns += action is not None
        handle = self._keep(caller, KeptMoment(moment.served, snapshot, moment.stand.after(action, turn)))
        return {**observation(turn, ""), "snapshot": handle, "parsed": parsed}

    def _find_moment(self, caller: Caller, data: Data) -> KeptMoment:
        """Return a snapshot of the caller's token; WireError where there is none."""
        name, moments = text_field(data, "snapshot"), self._moments.get(caller.owner, Moments())
        if name not in moments:
            raise WireError(
                "SESSION_ERROR", "no such snapshot; it may have been idle too long, or others took its place"
            )
        moment, _ = moments[name]
        moments[name] = moment, time.monotonic()
        moments.move_to_end(name)
        return moment

    def _keep(self, caller: Caller, moment: KeptMoment) -> str:
        """Keep a snapshot and return its handle; the one that was named longest ago of the same token makes room."""
        moments = self._moments.setdefault(caller.owner, Moments())
        handle = moments.keep(moment)
        while len(moments) > self.limits.snapshots or moments.size > self.limits.snapshot_bytes:
            moments.forget()
        return handle

    def _check_export(self, caller: Caller) -> None:
        """Raise WireError unless the caller's token has the right to bytes."""
        if caller.owner not in self._exporters:
            raise WireError("FORBIDDEN", "bytes hold the task's answer: this takes a token with the right `export`")
