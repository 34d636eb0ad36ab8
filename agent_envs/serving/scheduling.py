"""Calls on pools run in `StepThreads`, which hand results back many at a time; clients of a full server wait in a `Room`."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

from agent_envs.serving.wire import WireError

Job = tuple["asyncio.Future[Any]", Callable[[], Any]]
MOST_ABANDONED = 64
TOGETHER = 32  # results of one hand-over
HELD_SECONDS = 0.01  # that a result waits for others at most


class StepThreads:
    """The threads of one pool: one, or as many as may wait at once. They start at need and end with the process."""

    def __init__(self, most: int) -> None:
        """Set the most that run at once."""
        self._together = TOGETHER if most == 1 else 1  # where calls wait, no result waits for another
        self._most, self._count, self._idle, self._abandoned = most, 0, 0, 0
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[asyncio.Future[Any]] = set()
        self._late = WeakSet[asyncio.Future[Any]]()  # abandoned before a thread came to them
        self._results: list[tuple[asyncio.Future[Any], Any]] = []

    def submit(self, call: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Run a call in a thread; return the future of its result, which belongs to the running event loop."""
        future = asyncio.get_running_loop().create_future()
        self._jobs.put((future, call))
        with self._lock:
            if not self._idle and self._count < self._most:
                self._start()
        return future

    def abandon(self, future: "asyncio.Future[Any]") -> None:
        """Let another thread take the place of the one that this call keeps, whose result still counts if it comes."""
        with self._lock:
            if future in self._running:
                self._replace(future)
            else:
                self._late.add(future)

    def _replace(self, future: "asyncio.Future[Any]") -> None:
        """Start a thread in place of the one that runs a call, which ends with it; the caller has the lock."""
        if self._abandoned < MOST_ABANDONED:
            self._running.discard(future)
            self._abandoned += 1
            self._count -= 1
            self._start()

    def _start(self) -> None:
        """Start a thread; the caller has the lock."""
        self._count += 1
        threading.Thread(target=self._work, name="agent-envs-serve", daemon=True).start()

    def _work(self) -> None:
        """Run calls until one of them was abandoned."""
        stays = True
        while stays:
            with self._lock:
                self._idle += 1
            job: Job | None = self._jobs.get()
            with self._lock:
                self._idle -= 1
            while job is not None:
                future, result = job[0], self._run(*job)
                with self._lock:
                    stays = future in self._running
                    self._running.discard(future)
                    self._abandoned -= not stays
                    self._results.append((future, result))
                    job = self._next() if stays and len(self._results) < self._together else None
                    if job is None:
                        self._hand_over()
                    elif len(self._results) == 1 and not (loop := future.get_loop()).is_closed():
                        loop.call_soon_threadsafe(loop.call_later, HELD_SECONDS, self._collect)

    def _run(self, future: "asyncio.Future[Any]", call: Callable[[], Any]) -> Any:
        """Return a call's result, or the exception that it raised; what would end the thread and the event loop is an error."""
        with self._lock:
            self._running.add(future)
            if future in self._late:
                self._replace(future)
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - the future carries it to who awaits it
            return error
        except BaseException as error:  # noqa: BLE001 - an environment that exits takes no other session with it
            return RuntimeError(f"the environment raised {type(error).__name__}")

    def _next(self) -> Job | None:
        """Return a job that waits; None where none does."""
        try:
            return self._jobs.get_nowait()
        except Empty:
            return None

    def _collect(self) -> None:
        """Hand over what the next call would hold back."""
        with self._lock:
            self._hand_over()

    def _hand_over(self) -> None:
        """Set the results so far in their event loop, unless it has ended; the caller has the lock."""
        results, self._results = self._results, []
        if results and not (loop := results[0][0].get_loop()).is_closed():
            loop.call_soon_threadsafe(_settle, results)


def _settle(results: list[tuple["asyncio.Future[Any]", Any]]) -> None:
    """Set each result, or exception."""
    for future, result in results:
        if future.cancelled():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


class Room:
    """Places for sessions; who asks for more than are free waits, and is told so when that took too long."""

    def __init__(self, places: int, queue_seconds: float) -> None:
        """Begin with all places free."""
        self.places, self.free, self._queue_seconds = places, places, queue_seconds
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()

    def __len__(self) -> int:
        """Return the number of clients that wait."""
        return len(self._queue)

    async def take(self, n: int) -> None:
        """Take places, once that many are free and nobody waits longer; WireError when that took too long."""
        if n > self.places:
            raise WireError("VALIDATION_ERROR", f"{n} sessions at once; this server has {self.places} in all")
        if not self._queue and n <= self.free:
            self.free -= n
            return
        place = (asyncio.get_running_loop().create_future(), n)
        self._queue.append(place)
        try:
            await asyncio.wait((place[0],), timeout=self._queue_seconds)
        except asyncio.CancelledError:
            self._leave(place)
            raise
        if not place[0].done():
            self._leave(place)
            words = f"{self.places - self.free} of {self.places} sessions are open, and {len(self)} more clients wait"
            words = f"the server is full: {words}; you waited {self._queue_seconds:g} s. Ask again, or close sessions"
            raise WireError("CAPACITY_REACHED", words, retryable=True)

    def _leave(self, place: tuple["asyncio.Future[None]", int]) -> None:
        """Take a client out of the queue, or take back what it was given."""
        if place[0].done():
            self.free += place[1]
        else:
            self._queue.remove(place)
        self._admit()

    def give_back(self, n: int) -> None:
        """Give places back."""
        self.free += n
        self._admit()

    def _admit(self) -> None:
        """Let those who wait longest have what is free."""
        while self._queue and self._queue[0][1] <= self.free:
            future, n = self._queue.popleft()
            self.free -= n
            future.set_result(None)
