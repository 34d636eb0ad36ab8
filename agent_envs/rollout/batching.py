"""The batcher gathers the requests of many episodes, so that a local engine answers many at once.

Worker threads play episodes against `Batcher`, which looks like a policy of batch 1. One thread collects what they ask and
calls the engine: as soon as a batch is full, or every episode that is being played waits for it, or the engine has been free
for a quarter of the last call's time since the first request (a call of 50 ms is worth 12 ms of waiting for more). A policy
that is `patient` is called by the first two rules alone: its batches do not depend on the machine's load.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType

from agent_envs.base.errors import UsageError
from agent_envs.rollout.policy import Policy, Reply, Request, checked_replies, traits_of

SHORTEST_WAIT_SECONDS = 0.005
WAIT_SHARE = 0.25


class Batcher:
    """A policy of batch N as one that any number of threads may ask for one reply at a time. A context manager."""

    batch = 1

    def __init__(self, policy: Policy, concurrency: int, episodes: int) -> None:
        """Start the collecting thread for `policy`, which `episodes` episodes will ask, at most `concurrency` at a time.

        Raises UsageError: the policy wants to see environments, which a batched one cannot.
        """
        self.traits = traits_of(policy)
        if self.traits.needs_env:
            raise UsageError(f"agent {policy.name} has batch={policy.batch} and needs_env: it cannot have both")
        self.name = policy.name
        self._patient = self.traits.patient
        self._policy = policy
        self._asked: list[tuple[Request, Future[Reply]]] = []
        self._since = 0.0
        self._concurrency = concurrency
        self._left = episodes
        self._closing = False
        self._wait_seconds = SHORTEST_WAIT_SECONDS
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"gather {policy.name}", daemon=True)
        self._thread.start()

    def end_episode(self) -> None:
        """Count an episode less: no batch waits for it any more."""
        with self._changed:
            self._left -= 1
            self._changed.notify()

    def hurry(self) -> None:
        """Be patient no longer: the run is ending, and not every planned episode will ask."""
        with self._changed:
            self._patient = False
            self._changed.notify()

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Wait for the batches that hold these requests and return the replies."""
        futures = [Future[Reply]() for _ in requests]
        with self._changed:
            if not self._asked:
                self._since = time.monotonic()
            self._asked += zip(requests, futures, strict=True)
            self._changed.notify()
        return [future.result() for future in futures]

    def __enter__(self) -> "Batcher":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._answer()
        except BaseException as error:  # noqa: BLE001 - whoever still waits must hear of it
            with self._changed:
                left, self._asked = self._asked, []
            for _, future in left:
                future.set_exception(error)

    def _answer(self) -> None:
        while batch := self._next():
            started = time.monotonic()
            try:
                given = self._policy.act([request for request, _ in batch])
                replies = checked_replies(self.name, given, len(batch))
            except BaseException as error:  # noqa: BLE001 - every waiting episode gets it, and raises it
                for _, future in batch:
                    future.set_exception(error)
            else:
                for (_, future), reply in zip(batch, replies, strict=True):
                    future.set_result(reply)
            self._wait_seconds = max(SHORTEST_WAIT_SECONDS, WAIT_SHARE * (time.monotonic() - started))

    def _next(self) -> list[tuple[Request, Future[Reply]]]:
        """Return the next batch; an empty one when all is over."""
        with self._changed:
            # Counted from when the engine is free: those whom the last call answered are about to ask again.
            self._since = time.monotonic()
            while not self._ready():
                if self._closing and not self._asked:
                    return []
                left = self._since + self._wait_seconds - time.monotonic() if self._asked else None
                self._changed.wait(None if self._patient else left)
            batch = self._asked[: self._policy.batch]
            del self._asked[: self._policy.batch]
            return batch

    def _ready(self) -> bool:
        count = len(self._asked)
        full = count >= min(self._policy.batch, self._concurrency, self._left)  # nobody else can ask
        waited = not self._patient and time.monotonic() >= self._since + self._wait_seconds
        return count > 0 and (full or waited)
