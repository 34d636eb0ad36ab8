"""A session over any backend is a record of cells, and a live interpreter that can be lost and made again from it.

A live interpreter costs a process, so only `most` of a backend's sessions hold one; the longest idle one gives its own up. An
interpreter that is not there is made again from what the backend saved last, and by running the cells since then. Cells repeat,
for clocks stand still and entropy is seeded. One that prints what does not repeat all the same (addresses, in `bwrap`) does so
by its own choice, is no fault of the sandbox, and counts as drift. Nor is one that comes to no end when it runs again: the cell
that waited for the session is then `killed`, and the session begins anew, without names (`ExecResult.session_lost`).
"""

import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import TracebackType

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.tools.sandbox import port
from agent_envs.tools.sandbox.pool import Backend, Cleaner, Interpreter, InterpreterPool, Saves
from agent_envs.tools.sandbox.records import cell_limits, lasting_cell

REPLAY_FACTOR = 5.0  # a cell near its limit must not pass it when it is run again on a busier machine
SAVE_AFTER_SECONDS, SAVE_AFTER_CELLS = 0.02, 16
# Our own process holds what was saved of each idle session. A larger memory is made again from the cells.
MOST_SAVED_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class BackendPool:
    """The resources that the sessions of one backend in this process share."""

    backend: Backend
    saves: Saves
    cleaner: Cleaner
    interpreters: InterpreterPool = field(default_factory=InterpreterPool)


class LiveInterpreter:
    """A session's interpreter, apart from the session so that it is closed when the session is forgotten unclosed."""

    def __init__(self, interpreters: InterpreterPool) -> None:
        self.interpreter: Interpreter | None = None
        self._pool, self._pid = interpreters, os.getpid()

    def drop(self) -> None:
        """End the interpreter, if there is one."""
        interpreter, self.interpreter = self.interpreter, None
        if interpreter is not None:
            interpreter.close() if self._pid == os.getpid() else interpreter.forget()
        self._pool.give(self)


class Session:
    """One interpreter with its names, of any backend. Threads may share it: its cells run one after the other.

    Attributes:
        spec: what was opened, with the backend's version and its memory limit filled in.
        drift: how often a cell gave another result when it was run again to bring the session back; 0 for code that repeats.
    """

    def __init__(
        self,
        pool: BackendPool,
        spec: port.SandboxSpec,
        *,
        cells: tuple[port.SandboxCell, ...] = (),
        saved: bytes | None = None,
        saved_cells: int = 0,
    ) -> None:
        """Begin with what ran before: `saved` is the memory after the first `saved_cells` of the cells."""
        self.spec, self.drift = spec, 0
        self._pool = pool
        self._cells, self._saved, self._saved_cells = cells, saved, saved_cells
        self._tried_cells = saved_cells  # how many had run when the memory was last to be saved
        self._unsaved_seconds, self._closed = 0.0, False
        self._begin()

    def _begin(self) -> None:
        """Create the lock and the live interpreter of this process, which another thread ends when the session is forgotten."""
        self._pid, self._lock = os.getpid(), threading.RLock()
        self._live = LiveInterpreter(self._pool.interpreters)
        # A session may be forgotten anywhere, in the middle of our own work too: so another thread ends its interpreter.
        self._pool.cleaner.start()
        self._finalizer = weakref.finalize(self, self._pool.cleaner.later, self._live.drop)
        self._finalizer.atexit = False

    def _adopt(self) -> None:
        """Drop what belongs to the parent: a forked child has neither its interpreters nor the threads that held its locks."""
        if self._pid != os.getpid():
            self._finalizer.detach()
            self._live.drop()
            self._begin()

    def start(self) -> None:
        """Make the interpreter now instead of with the first cell."""
        with self._turn():
            self._interpreter()

    def run(self, code: str, limits: port.Limits | None = None) -> port.ExecResult:
        """Run a cell; a refused one, and one that finds the session lost, is answered without being run.

        Args:
            code: the program's text.
            limits: of time, memory and output (units: `Limits`); None for the session's own.

        Raises:
            EnvFault: the sandbox itself failed; the session is as it was before the cell, and may be asked again.
        """
        limits = cell_limits(self.spec, limits)
        with self._turn():
            late = port.refused(code, limits)
            if late is not None:
                return late
            interpreter = self._interpreter()
            if interpreter is None:
                return port.ExecResult("killed", error=port.SESSION_LOST)
            try:
                result = port.clean_result(interpreter.run(code, limits), limits)
            except BaseException:
                self._live.drop()
                raise
            cell = lasting_cell(self.spec, code, limits, result)
            if cell is None:
                self._live.drop()
                return result
            self._cells += (cell,)
            self._unsaved_seconds += result.cpu_ms / 1_000
            if self._unsaved_seconds > SAVE_AFTER_SECONDS or len(self._cells) - self._saved_cells >= SAVE_AFTER_CELLS:
                self._save()
            return result

    def fork(self) -> "Session":
        """Return an independent session with the same names and future; its interpreter is made when it first runs a cell."""
        with self._turn():
            self._save()
            return Session(self._pool, self.spec, cells=self._cells, saved=self._saved, saved_cells=self._saved_cells)

    def snapshot(self) -> port.SessionSnapshot:
        """Return the cells so far; what the interpreter holds stays in this process, to restore from without running them."""
        with self._turn():
            self._save()
            snapshot = port.SessionSnapshot.of(self.spec, self._cells)
            if self._saved is not None and self._saved_cells == len(self._cells):
                self._pool.saves.keep(snapshot.sha256, self._saved)
            return snapshot

    def rest(self) -> bool:
        """Release the interpreter if no cell is running; return whether that was so."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._save()
            self._live.drop()
            return True
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the session; a second call does nothing."""
        self._adopt()
        with self._lock:
            self._closed = True
            self._live.drop()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the session for one cell; UsageError if it is closed."""
        self._adopt()
        with self._lock:
            if self._closed:
                raise UsageError(f"the sandbox session ({self.spec.backend}) is closed; open another")
            yield
        self._pool.interpreters.wake()

    def _save(self) -> None:
        """Save the interpreter once for each state; a save that is too large is dropped, a dead interpreter forgotten."""
        interpreter = self._live.interpreter
        if interpreter is None or self._tried_cells == len(self._cells):
            return
        self._tried_cells = len(self._cells)
        try:
            saved = interpreter.save()
        except EnvFault:  # it died while it was idle: the record is enough
            self._live.drop()
            return
        if saved is not None and len(saved) <= MOST_SAVED_BYTES:
            self._saved, self._saved_cells, self._unsaved_seconds = saved, len(self._cells), 0.0

    def _interpreter(self) -> Interpreter | None:
        """Return the live interpreter, made again if need be; None where that lost the session (see `_begin_anew`).

        Raises EnvFault: the backend gives none.
        """
        live = self._live.interpreter
        if live is not None and live.alive():
            self._pool.interpreters.take(self._live, self, self._pool.backend.most)
            return live
        self._live.drop()
        self._pool.interpreters.take(self._live, self, self._pool.backend.most)
        try:
            self._live.interpreter = live = self._open_interpreter()
            for cell in self._cells[self._saved_cells :]:
                if not self._repeats(live, cell):
                    self._begin_anew()
                    return None
        except BaseException:
            self._live.drop()
            raise
        return live

    def _open_interpreter(self) -> Interpreter:
        """Open an interpreter with the saved memory, or a fresh one if the backend refuses that memory."""
        if self._saved is not None:
            with contextlib.suppress(EnvFault):
                return self._pool.backend.open(self.spec, self._saved)
            self._saved, self._saved_cells = None, 0
        return self._pool.backend.open(self.spec, None)

    def _begin_anew(self) -> None:
        """Forget all cells: that they failed when they ran again is the code's doing, no fault of the sandbox."""
        self._live.drop()
        self._cells, self._saved = (), None
        self._saved_cells = self._tried_cells = 0
        self._unsaved_seconds = 0.0

    def _repeats(self, live: Interpreter, cell: port.SandboxCell) -> bool:
        """Run a recorded cell again, with more time; return whether it ended well, and count another result as drift."""
        limits = cell.limits or self.spec.limits
        wall = min(limits.wall_seconds * REPLAY_FACTOR, port.MAX_SECONDS)
        limits = replace(limits, cpu_seconds=min(limits.cpu_seconds * REPLAY_FACTOR, wall - 1.0), wall_seconds=wall)
        result = port.clean_result(live.run(cell.code, limits), limits)
        self.drift += result.digest != cell.result
        return result.status in port.LASTING


MOST = 128


class SessionCache:
    """Idle sessions by the sha256 of the record that they stand at; beyond `most` the longest unused are closed.

    It serves callers with immutable state: a record and a cell go in, the result and the next record come out. An environment
    keeps the record in its state, so its snapshots, forks and replays need nothing of the sandbox. The session that stands at a
    record is taken from the cache where one is there, and made from the record where none is: two branches of one state are two
    sessions, and the second to go on costs a restore.
    """

    def __init__(self, restore: Callable[[port.SessionSnapshot], Session], most: int = MOST) -> None:
        """Begin empty; `restore` makes a session that is not there."""
        self._restore, self._most = restore, most
        self._lock = threading.Lock()
        self._idle: OrderedDict[str, list[Session]] = OrderedDict()
        self._count = 0

    def run(
        self, record: port.SessionSnapshot, code: str, limits: port.Limits | None = None
    ) -> tuple[port.ExecResult, port.SessionSnapshot]:
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
        """Return an idle session with this record, or None; it leaves the cache."""
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
        """Add an idle session, and close those unused for longest beyond the bound."""
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
