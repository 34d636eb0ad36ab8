"""Snapshots are moments that the server keeps: a client has handles, restores sessions to them, or plays from one to the next.

Bytes of a snapshot hold the task's answer and leave only with the token's right `export`.
"""

import base64
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent_envs.base.serialization import encode_state
from agent_envs.core.snapshot import Snapshot
from agent_envs.rollout.episode_pool import PoolTurn
from agent_envs.serving.sessions import Caller, Seat, ServerLimits, Sessions
from agent_envs.serving.wire import Data, Served, WireError, number_field, observation, reset_row, text_field

BRANCH = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True, eq=False, slots=True)
class KeptMoment:
    """A snapshot with what a session needs to go on from it."""

    served: Served
    snapshot: Any
    turns: int = 0
    action: Any = None
    turn: PoolTurn | None = None

    def on(self, branch: str) -> "KeptMoment":
        """Return the moment on a branch, whose samples from outside services are its own; WireError for a malformed name."""
        if not BRANCH.fullmatch(branch):
            raise WireError("VALIDATION_ERROR", f"branch={branch!r}; name it with letters, digits, - and _")
        episode = self.snapshot.episode
        if episode is None or episode.header.branch == branch:
            return self
        episode = replace(episode, header=replace(episode.header, branch=branch))
        return replace(self, snapshot=replace(self.snapshot, episode=episode))


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
        # By owner; those that were named last stand at the end, each with the time.
        self._moments: dict[str, OrderedDict[str, tuple[KeptMoment, float]]] = {}
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
                moments.popitem(last=False)
                self.totals.idle += 1

    def counts(self) -> dict[str, int]:
        """Return the counts of `Sessions`, and how many snapshots are kept."""
        return {**super().counts(), "snapshots": sum(map(len, self._moments.values()))}

    async def _fork(self, caller: Caller, data: Data) -> Data:
        """Open sessions that go on from where one stands; with a branch they draw samples of their own from services."""
        session, branch = self._find(caller, text_field(data, "session")), text_field(data, "branch")
        n = number_field(data, "n", 1, 1, self.limits.batch)
        twins = await self._open(caller, session.served, n)
        try:
            moment = self._moment_of(session)
            before = moment.snapshot.episode.header.branch if moment.snapshot.episode else ""
            stem = f"{before}.{branch}" if before else branch
            moments = [moment.on(f"{stem}{place}") if branch else moment for place in range(n)]
            await self._resume(twins, moments)
        except BaseException:
            for twin in twins:
                self._end(twin)
            raise
        return {"sessions": [twin.id for twin in twins]}

    async def _resume(self, sessions: list[Seat], moments: list[KeptMoment]) -> None:
        """Open the episode of each session, which has none in the pool, at a moment."""
        calls = []
        for session, moment in zip(sessions, moments, strict=True):
            session.turn = moment.turn
            call = partial(session.served.pool.resume, session.key, moment.snapshot)
            calls.append((session, self._submit(session, moment.turns, moment.action, call)))
        for (session, future), moment in zip(calls, moments, strict=True):
            await self._within(session.served, future)
            session.turns, session.action = moment.turns, moment.action

    def _moment_of(self, session: Seat) -> KeptMoment:
        """Return the moment of a session; WireError while a call of it is under way."""
        self._check_free(session)
        snapshot = session.served.pool.moment(session.key)
        return KeptMoment(session.served, snapshot, session.turns, session.action, session.turn)

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
            (session,) = await self._open(caller, moment.served, 1)
        if session.served is not moment.served:
            raise WireError("VALIDATION_ERROR", f"session: it is of {session.served.name}, the snapshot is not")
        key, pool = session.key, session.served.pool
        session.key = secrets.token_urlsafe(12)
        try:
            await self._resume([session], [moment])
        except BaseException:
            session.key = key
            if not name:
                self._end(session)
            raise
        if key in pool:
            pool.drop(key)
        return {"session": session.id, "index": session.turns}

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
        return KeptMoment(self._served(caller, data), snapshot, turns)

    async def _begin(self, caller: Caller, data: Data) -> Data:
        """Begin an episode without a session; the answer has the handle of its moment."""
        served, row, key = self._served(caller, data), reset_row(data), secrets.token_urlsafe(12)
        call = partial(served.pool.begin_many, [{**row, "key": key}])
        return await self._take_turn(caller, KeptMoment(served, None), key, call)

    async def _act(self, caller: Caller, data: Data) -> Data:
        """Take a turn from a snapshot, which stays as it is; the answer has the handle of the moment after it."""
        moment = self._find_moment(caller, data)
        if data.get("branch") is not None:
            moment = moment.on(text_field(data, "branch"))
        pool, action, key = moment.served.pool, moment.served.action(data.get("action")), secrets.token_urlsafe(12)

        def act() -> list[PoolTurn]:
            """Open the moment, and take the turn there."""
            pool.resume(key, moment.snapshot)
            return pool.act_many([(key, action)])

        after = replace(moment, turns=moment.turns + 1, action=action)
        return await self._take_turn(caller, after, key, act)

    async def _take_turn(
        self, caller: Caller, moment: KeptMoment, key: str, call: Callable[[], list[PoolTurn]]
    ) -> Data:
        """Return the turn of a call that opens an episode under a key, and keep its moment in place of the episode."""
        served = moment.served

        def take() -> tuple[PoolTurn, Any]:
            """Call, and take the moment out of the pool."""
            try:
                (turn,) = call()
                return turn, None if turn.fault else served.pool.moment(key)
            finally:
                if key in served.pool:
                    served.pool.drop(key)

        turn, snapshot = await self._within(served, self._threads[served.name].submit(take))
        if turn.fault:
            raise self._fault(turn)
        self.totals.turns += moment.turns > 0
        parsed = encode_state(snapshot.episode.turns[-1].parsed) if moment.turns else None
        handle = self._keep(caller, replace(moment, snapshot=snapshot, turn=turn))
        return {**observation(turn, ""), "snapshot": handle, "parsed": parsed}

    def _find_moment(self, caller: Caller, data: Data) -> KeptMoment:
        """Return a snapshot of the caller's token; WireError where there is none."""
        name, moments = text_field(data, "snapshot"), self._moments.get(caller.owner, OrderedDict())
        if name not in moments:
            raise WireError(
                "SESSION_ERROR", "no such snapshot; it may have been idle too long, or others took its place"
            )
        moment, _ = moments.pop(name)
        moments[name] = moment, time.monotonic()
        return moment

    def _keep(self, caller: Caller, moment: KeptMoment) -> str:
        """Keep a snapshot and return its handle; the one that was named longest ago of the same token makes room."""
        moments = self._moments.setdefault(caller.owner, OrderedDict())
        handle = secrets.token_urlsafe(16)
        moments[handle] = moment, time.monotonic()
        if len(moments) > self.limits.snapshots:
            moments.popitem(last=False)
        return handle

    def _check_export(self, caller: Caller) -> None:
        """Raise WireError unless the caller's token has the right to bytes."""
        if caller.owner not in self._exporters:
            raise WireError("FORBIDDEN", "bytes hold the task's answer: this takes a token with the right `export`")
