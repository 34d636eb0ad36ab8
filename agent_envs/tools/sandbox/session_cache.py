"""The session cache serves callers with immutable state: a record and a cell go in, the result and the next record come out.

An environment keeps the record in its state, so its snapshots, forks and replays need nothing of the sandbox. The session that
stands at a record is taken from the cache where one is there, and made from the record where none is: two branches of one
state are two sessions, and the second to go on costs a restore.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable

from agent_envs.tools.sandbox.port import ExecResult, Limits, SessionSnapshot
from agent_envs.tools.sandbox.sessions import Session

MOST = 128


class SessionCache:
    """Idle sessions by the sha256 of the record that they stand at; beyond `most` the longest unused are closed."""

    def __init__(self, restore: Callable[[SessionSnapshot], Session], most: int = MOST) -> None:
        """Begin empty; `restore` makes a session that is not there."""
        self._restore, self._most = restore, most
        self._lock = threading.Lock()
        self._idle: OrderedDict[str, list[Session]] = OrderedDict()
        self._count = 0

    def run(
        self, record: SessionSnapshot, code: str, limits: Limits | None = None
    ) -> tuple[ExecResult, SessionSnapshot]:
        """Run a cell in the session that ran the record's cells; return its result and the record with it.

        Raises:
            UsageError: the record is damaged, or of another version than is installed.
            EnvFault: the sandbox failed; the record stays good.
        """
        session = self._take(record.sha256) or self._restore(record)
        after = record
        try:
            result = session.run(code, limits)
            after = session.snapshot()
        finally:
            self._put(after.sha256, session)
        return result, after

    def _take(self, key: str) -> Session | None:
        with self._lock:
            sessions = self._idle.get(key)
            if not sessions:
                return None
            self._count -= 1
            session = sessions.pop()
            if not sessions:
                del self._idle[key]
            return session

    def _put(self, key: str, session: Session) -> None:
        old = []
        with self._lock:
            self._idle.setdefault(key, []).append(session)
            self._idle.move_to_end(key)
            self._count += 1
            while self._count > self._most:
                _, sessions = self._idle.popitem(last=False)
                self._count -= len(sessions)
                old += sessions
        for session in old:
            session.close()

    def close(self) -> None:
        """Close all idle sessions; records stay good."""
        with self._lock:
            sessions = [session for several in self._idle.values() for session in several]
            self._idle.clear()
            self._count = 0
        for session in sessions:
            session.close()

    def renew(self) -> None:
        """Make the lock anew in a forked child, where the thread that held it is not."""
        self._lock = threading.Lock()
