"""A pool decides which sessions hold a live interpreter; saved memories and the cleaning thread outlive a session."""

import queue
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol

from agent_envs.tools.sandbox.port import ExecResult, Limits, SandboxSpec

MAX_SAVED_BYTES = 64 * 2**20


class Interpreter(Protocol):
    """A live interpreter of a backend."""

    def alive(self) -> bool:
        """Return whether its process still runs."""

    def run(self, code: str, limits: Limits) -> ExecResult:
        """Run a cell; raises EnvFault where the interpreter is lost, and not by what the code did."""

    def save(self) -> bytes | None:
        """Return its memory, if the backend can; such bytes never leave this process."""

    def close(self) -> None:
        """End its process."""

    def forget(self) -> None:
        """Drop the process in a forked child, where it belongs to the parent."""


class Backend(Protocol):
    """A factory of interpreters.

    Attributes:
        most: how many sessions may hold a live one.
    """

    most: int

    def renew(self) -> None:
        """Begin again in a forked child."""

    def close(self) -> None:
        """End all processes."""

    def open(self, spec: SandboxSpec, saved: bytes | None) -> Interpreter:
        """Return a fresh interpreter, or one with the memory that `save` gave; raises EnvFault where none can be had."""


class PooledInterpreter(Protocol):
    """A session, as the pool knows it."""

    def rest(self) -> bool:
        """Release the interpreter if no cell is running; return whether that was so."""


class InterpreterPool:
    """The sessions of a backend that hold a live interpreter, in the order of their last use.

    A place is held under a key that belongs to one session for good (its `Live`; numbers of objects are used again).
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._interpreters: OrderedDict[Hashable, weakref.ref[PooledInterpreter]] = OrderedDict()

    def take(self, key: Hashable, session: PooledInterpreter, most: int) -> None:
        """Reserve a place for a session; if all are in use, the longest idle one is freed, or the caller waits for one."""
        with self._changed:
            while key not in self._interpreters and len(self._interpreters) >= most:
                if not any(self._free_place(other) for other in list(self._interpreters)):
                    self._changed.wait(0.05)
            self._interpreters[key] = weakref.ref(session)
            self._interpreters.move_to_end(key)

    def give(self, key: Hashable) -> None:
        """Take a session's place back, after its interpreter has ended."""
        with self._changed:
            self._interpreters.pop(key, None)
            self._changed.notify()

    def renew(self) -> None:
        """Begin again in a forked child, where none of the interpreters is ours."""
        self.__init__()  # type: ignore[misc]

    def wake(self) -> None:
        """Notify waiting callers that a session has become idle."""
        with self._changed:
            self._changed.notify()

    def _free_place(self, key: Hashable) -> bool:
        """Return whether a place could be freed; that of a forgotten session is freed when the cleaner has ended it."""
        session = self._interpreters[key]() if key in self._interpreters else None
        return session is not None and session.rest()


class Saves:
    """Memories of interpreters by the digest of the snapshot that they belong to, the newest within a cap of bytes."""

    def __init__(self, most: int = MAX_SAVED_BYTES) -> None:
        self._lock, self._most, self._size = threading.Lock(), most, 0
        self._saved: OrderedDict[str, bytes] = OrderedDict()

    def keep(self, sha256: str, saved: bytes) -> None:
        """Keep a memory, unless there is one of that digest; the oldest are dropped beyond the cap."""
        with self._lock:
            if sha256 in self._saved:
                return
            self._saved[sha256] = saved
            self._size += len(saved)
            while self._size > self._most:
                self._size -= len(self._saved.popitem(last=False)[1])

    def find(self, sha256: str) -> bytes | None:
        """Return the memory of a digest, or None once it is dropped."""
        with self._lock:
            return self._saved.get(sha256)

    def renew(self) -> None:
        """Make the lock anew in a forked child, where the thread that held it is not."""
        self._lock = threading.Lock()


class Cleaner:
    """One thread for work that must not run where it arises, such as within garbage collection."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Make the thread, if there is none."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="sandbox-cleaner", daemon=True)
                    self._thread.start()

    def later(self, work: Callable[[], None]) -> None:
        """Queue some work for the cleaning thread; safe to call from a finalizer."""
        self._orders.put(work)

    def renew(self) -> None:
        """Begin again in a forked child, without the thread and without the work that waits for it."""
        self.__init__()  # type: ignore[misc]

    def _serve(self) -> None:
        """Run the orders one after the other, for ever."""
        while True:
            self._orders.get()()
