"""Work on items that strangers made is done in processes of its own, bounded in time and memory and without a network."""

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

MOST_MEMORY = 2_000_000_000
START_SECONDS = 120.0  # that a process may take to come up
_ITEMS, _BYTES = 16, 1_000_000  # of a batch
Item = tuple[str, bytes]
Batch = list[tuple[int, Item]]


@dataclass(frozen=True)
class Lost:
    """An item that no process could finish, and why."""

    why: str


@dataclass
class _Worker:
    process: Any
    connection: Connection
    ready: bool = False
    started: float = 0.0
    batch: Batch = field(default_factory=list)  # what it still has to answer


class BoundedProcesses:
    """Processes that each hold one batch at a time; one that dies or takes too long is replaced, and loses one item."""

    def __init__(self, jobs: int, seconds: float, make: Callable[..., Any], *arguments: Any) -> None:
        """Set them up; they start with the first items.

        Args:
            jobs: how many.
            seconds: that an item may take.
            make: called in each with the arguments; a context manager of the function from an item to its result.
            arguments: anything that can be pickled, as `make`.
        """
        self._jobs, self._seconds, self._work = jobs, seconds, (make, arguments)
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []

    def run(self, items: Iterable[Item]) -> Iterator[tuple[int, Any]]:
        """Yield (number of the item from 0, its result or `Lost`) as they come, until all are done; processes stay."""
        waiting, again = _batches(items), deque[Batch]()
        while True:
            for worker in [item for item in self._workers if not item.batch]:
                if (batch := again.popleft() if again else next(waiting, None)) is not None:
                    self._send(worker, batch)
            while len(self._workers) < self._jobs:
                if (batch := again.popleft() if again else next(waiting, None)) is None:
                    break
                ours, theirs = self._context.Pipe()
                process = self._context.Process(target=_serve, args=(theirs, *self._work), daemon=True)
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours))
                self._send(self._workers[-1], batch)
            busy = [worker for worker in self._workers if worker.batch]
            if not busy:
                return
            wait([worker.connection for worker in busy], timeout=1.0)
            for worker in busy:
                yield from self._receive(worker, again)

    def close(self) -> None:
        """Kill all workers; idle ones get two seconds to end by themselves."""
        for worker in self._workers:
            worker.connection.close()  # an idle one ends by itself
        for worker in self._workers:
            worker.process.join(0.0 if worker.batch else 2.0)
            self._end(worker)
        self._workers.clear()

    def _send(self, worker: _Worker, batch: Batch) -> None:
        """Send a batch to a worker and start its clock; a dead worker is noticed later, when its answer is awaited."""
        worker.batch, worker.started = list(batch), time.monotonic()
        with contextlib.suppress(OSError):  # a dead one is found when it is heard
            worker.connection.send(batch)

    def _receive(self, worker: _Worker, again: deque[Batch]) -> Iterator[tuple[int, Any]]:
        """Yield a process's ready results; a late or dead one is killed: its item is `Lost`, what follows goes to `again`."""
        alive = True
        try:
            while worker.batch and worker.connection.poll():
                result = worker.connection.recv()
                worker.started = time.monotonic()
                if worker.ready:
                    yield worker.batch.pop(0)[0], result
                worker.ready = True
        except (EOFError, OSError):
            alive = False
        late = time.monotonic() - worker.started > (self._seconds if worker.ready else START_SECONDS)
        if worker.batch and (late or not alive):
            number, _ = worker.batch.pop(0)
            if worker.batch:
                again.append(worker.batch)
            self._end(worker)
            self._workers.remove(worker)
            yield number, Lost(f"it took more than {self._seconds:g} s" if alive else "its process died (memory?)")

    def _end(self, worker: _Worker) -> None:
        """Close a worker's connection, kill its process and wait for its end."""
        worker.connection.close()
        worker.process.kill()
        worker.process.join()


def _batches(items: Iterable[Item]) -> Iterator[Batch]:
    """Group numbered items into batches, bounded in items and bytes; an item over the bound is a batch by itself."""
    batch: Batch = []
    size = 0
    for number, item in enumerate(items):
        if batch and (len(batch) >= _ITEMS or size + len(item[1]) > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append((number, item))
        size += len(item[1])
    if batch:
        yield batch


def _serve(connection: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Answer items from the pipe, one result each after a first None, memory bounded and no network, until it closes."""
    bound()
    with make(*arguments) as work, contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        connection.send(None)
        while True:
            for _, item in connection.recv():
                connection.send(work(item))


def bound() -> None:
    """Bound this process's data memory to 2 GB where it can, and raise PermissionError for network calls from now on."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        """Raise PermissionError for name look-ups, connects and sends beyond this machine (a hook for sys.addaudithook)."""
        outward = event in ("socket.getaddrinfo", "socket.gethostbyname")
        if event in ("socket.connect", "socket.sendto"):
            outward = isinstance(arguments[1], tuple)  # addresses of this machine's own sockets are texts
        if outward:
            raise PermissionError("nothing outside is asked here")

    sys.addaudithook(look)
