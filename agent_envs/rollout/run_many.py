"""Threads play the many episodes of a plan, with a journal that a killed run resumes from."""

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import BudgetSpent, UsageError
from agent_envs.base.serialization import digest
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.lockstep import Lane, Lockstep
from agent_envs.rollout.policy import CompanionPolicy, Policy, traits_of
from agent_envs.rollout.run_log import Planned, RunJournal, RunLog
from agent_envs.services.run_services import Services

FAULT_ATTEMPTS = 3


def run_many(
    plan: Sequence[Planned],
    policy: Policy,
    *,
    concurrency: int = 1,
    journal: Path | RunLog | None = None,
    pause_seconds: float = 1.0,
    services: Services | None = None,
) -> Generator[tuple[Planned, EpisodeResult], None, None]:
    """Play a plan and yield each episode as it finishes; those already in the journal come first.

    A policy of batch 1 is called from `concurrency` threads, each for an episode. One of batch N plays up to N episodes in
    `lockstep`; with more than that at a time there are several such sets, which step while another is with the policy. Each
    finished episode is in the journal before it is yielded, and also when nobody reads on: what is being played when the
    reader leaves, or is interrupted, is finished and kept. A journal of another plan or policy is refused. An episode whose
    service fails is tried 3 times, about `pause_seconds` and twice that apart, then yielded with status `fault`. When the
    policy or a model that gives feedback raises BudgetSpent, no further episode begins, and those that were cut short are
    yielded with status `budget`. Episodes of both kinds are played again by a later run.

    Args:
        plan: what is played, each key once.
        policy: who plays.
        concurrency: episodes at a time.
        journal: the file that a killed run goes on from, or more about it.
        pause_seconds: before the second attempt at an episode.
        services: what stands before the outside services of environments.

    Raises:
        UsageError: the journal belongs to another configuration, or keys repeat.
    """
    planned = {item.key: item for item in plan}
    if len(planned) != len(plan):
        raise UsageError("run_many: episode keys repeat in the plan")
    batch = getattr(policy, "batch", 1)
    whole_number(f"run_many: agent {policy.name}", "batch", batch)
    whole_number("run_many", "concurrency", concurrency)
    traits = traits_of(policy)
    if traits.needs_env and batch != 1:
        raise UsageError(f"agent {policy.name} has batch={batch} and needs_env: it cannot have both")
    # Who is handed the environment can read the gold in it; of the built-in agents only the solver does.
    head = {
        "policy": policy.name,
        "privileged": traits.privileged or (traits.needs_env and type(policy) is not CompanionPolicy),
        "plan": digest([vars(item) for item in plan]),
    }
    place = RunLog(journal) if isinstance(journal, Path) else journal
    log = RunJournal(place, head) if place else None
    finished: set[str] = set()
    try:
        for key, result in log.finished() if log else ():
            if key in finished or key not in planned:
                why = "there twice" if key in finished else "not planned"
                raise UsageError(f"{log and log.path}: episode {key} is {why}")
            if result.trajectory.header.episode_key != key:
                raise UsageError(f"{log and log.path}: the row of episode {key} holds another episode")
            finished.add(key)
            yield planned[key], result
        left = [item for item in plan if item.key not in finished]
        if place is not None and place.recording is not None:
            services = replace(services or Services(), recording=place.recording)
        lockstep = Lockstep(
            policy, services=services, threads=concurrency, attempts=FAULT_ATTEMPTS, pause_seconds=pause_seconds,
            keep_errors=True,
        )  # fmt: skip
        with lockstep:
            yield from _Players(lockstep, left, log, concurrency, batch).results()
    finally:
        if log is not None:
            log.close()


class _Players:
    """Threads that play a plan, each a few lanes in lockstep, and the episodes that have ended but are not read yet."""

    def __init__(
        self, lockstep: Lockstep, plan: Sequence[Planned], log: RunJournal | None, concurrency: int, batch: int
    ) -> None:
        self._lockstep, self._log = lockstep, log
        self._waiting, self._next = iter(plan), threading.Lock()
        concurrency = min(concurrency, max(1, len(plan)))
        threads = -(-concurrency // batch)
        self._sizes = [(concurrency + place) // threads for place in range(threads)]
        self._ended: SimpleQueue[tuple[Planned, EpisodeResult] | BaseException | None] = SimpleQueue()
        self._room = threading.Semaphore(concurrency)  # a slow reader is waited for, and little is held for it

    def results(self) -> Generator[tuple[Planned, EpisodeResult], None, None]:
        """Yield episodes as they end. Leaving it waits for what is being played."""
        with ThreadPoolExecutor(len(self._sizes), thread_name_prefix="episode") as pool:
            try:
                playing = len([pool.submit(self._play, size) for size in self._sizes])
                while playing:
                    ended = self._ended.get()
                    if isinstance(ended, BaseException):
                        raise ended
                    playing -= ended is None
                    if ended is not None:
                        self._room.release()
                        yield ended
            finally:
                self._stop()

    def _stop(self) -> None:
        """Let no further episode begin, and wait for the reader no more."""
        with self._next:
            self._waiting = iter(())
        self._room.release(sum(self._sizes))

    def _play(self, size: int) -> None:
        """Play up to so many episodes at a time until none is left."""
        lanes: list[Lane] = []
        try:
            while True:
                with self._next:
                    items = list(islice(self._waiting, size - len(lanes)))
                lanes += self._begin(items)
                if not lanes:
                    break
                self._lockstep.step(lanes)
                for lane in lanes:
                    if lane.over:
                        self._end(lane)
                lanes = [lane for lane in lanes if not lane.over]
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            self._ended.put(error)
        self._ended.put(None)

    def _begin(self, items: Sequence[Planned]) -> list[Lane]:
        try:
            return self._lockstep.begin(items)
        except Exception as error:  # noqa: BLE001 - the reader raises it, and what is being played is played to its end
            self._stop()
            self._ended.put(error)
            return []

    def _end(self, lane: Lane) -> None:
        if lane.error is not None:
            self._stop()
            if not isinstance(lane.error, BudgetSpent):
                self._ended.put(lane.error)
                return
        result = lane.result()
        # Without the task's content, as the journal gives an episode back.
        result = replace(result, trajectory=replace(result.trajectory, task=None))
        self._lockstep.release(lane)
        if result.status == "budget" and not result.usage:
            return  # it had not begun to ask
        # Here and not where results are read: what was played is kept, whatever becomes of the reader.
        if self._log is not None:
            self._log.keep(lane.item, result)
        self._room.acquire()
        self._ended.put((lane.item, result))
