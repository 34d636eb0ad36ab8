"""Many episodes: a plan, a pool of threads, and a journal that a killed run resumes from."""

import contextlib
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.canonical import digest
from agent_envs.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.external import Recording
from agent_envs.gathering import Gatherer
from agent_envs.journal import Journal, read_journal
from agent_envs.policies import Policy, Reply, Request, core_of
from agent_envs.rollout import EpisodeResult, run_episode
from agent_envs.trajectory import Header, Trajectory

RUN_SCHEMA = "agent-envs/run@1"
FAULT_ATTEMPTS = 3
UNFINISHED = ("fault", "budget")


@dataclass(frozen=True)
class Planned:
    """One planned episode: the spec as JSON (see `spec_json`), the task, and the seed."""

    key: str
    spec: str
    task: int | str
    split: str
    seed: int
    trial: int = 0


@dataclass(frozen=True)
class RunLog:
    """Where a run is kept.

    Attributes:
        path: the journal, which a killed run goes on from.
        about: what the caller wants to be equal when it goes on, by name; plain JSON.
        recording: where the environments' outside services are recorded, or replayed from.
    """

    path: Path
    about: Mapping[str, Any] = field(default_factory=dict)
    recording: Recording | None = None


class _Worker(threading.local):
    """Environments of one thread, by spec: made once, used for many episodes."""

    def __init__(self, recording: Recording | None) -> None:
        self.envs: dict[str, gym.Env[Any, Any]] = {}
        self.recording = recording

    def env(self, spec: str) -> gym.Env[Any, Any]:
        if spec not in self.envs:
            env = gym.make(EnvSpec.from_json(spec))
            core_of(env).recording = self.recording
            self.envs[spec] = env
        return self.envs[spec]


class _Metered:
    """One episode's view of a policy: what it used and how long it took, over all attempts."""

    batch = 1

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.needs_env = getattr(policy, "needs_env", False)
        self.can_prefill = getattr(policy, "can_prefill", True)
        self.usage: dict[str, int] = {}
        self.seconds = 0.0
        self._policy = self._actor = policy

    def begin(self, env: gym.Env[Any, Any]) -> "_Metered":
        self._actor = self._policy.begin(env)  # type: ignore[attr-defined]
        return self

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        started = time.perf_counter()
        try:
            replies = self._actor.act(requests)
        finally:
            self.seconds += time.perf_counter() - started
        for reply in replies:
            for name, count in getattr(reply, "usage", {}).items():
                self.usage[name] = self.usage.get(name, 0) + count
        return replies


def run_many(
    plan: Sequence[Planned],
    policy: Policy,
    *,
    concurrency: int = 1,
    journal: Path | RunLog | None = None,
    pause_seconds: float = 1.0,
) -> Iterator[tuple[Planned, EpisodeResult]]:
    """Play a plan and yield each episode as it finishes; those already in the journal come first.

    A policy of batch 1 is called from `concurrency` threads; one of batch N by a thread that gathers what `concurrency`
    episodes ask (see `gathering`). Environments always step in the threads. Each finished episode is in the journal before
    it is yielded. A journal of another plan or policy is refused. An episode whose service fails is tried 3 times, about
    `pause_seconds` and twice that apart, then yielded with status `fault`. When the policy raises BudgetSpent, no further
    episode begins, and those that were cut short are yielded with status `budget`. Episodes of both kinds are played again
    by a later run. An interrupt lets running episodes finish, and they are kept.

    Args:
        plan: what is played, each key once.
        policy: who plays.
        concurrency: episodes at a time.
        journal: the file that a killed run goes on from, or more about it.
        pause_seconds: before the second attempt at an episode.

    Raises:
        UsageError: the journal belongs to another configuration, or keys repeat.
    """
    planned = {item.key: item for item in plan}
    if len(planned) != len(plan):
        raise UsageError("run_many: episode keys repeat in the plan")
    if concurrency < 1:
        raise UsageError(f"run_many: concurrency={concurrency}; give a number >= 1")
    head = {
        "schema": RUN_SCHEMA,
        "policy": policy.name,
        "privileged": getattr(policy, "privileged", False),
        "plan": digest([vars(item) for item in plan]),
    }
    place = RunLog(journal) if isinstance(journal, Path) else journal
    # The lock comes before the reading, so that a second process cannot play the same episodes.
    log = Journal(place.path) if place else None
    finished: set[str] = set()
    try:
        for key, result in _resumed(log, {**head, **place.about}) if log and place else ():
            if key in finished or key not in planned:
                why = "there twice" if key in finished else "not planned"
                raise UsageError(f"{log and log.path}: episode {key} is {why}")
            finished.add(key)
            yield planned[key], result
        left = [item for item in plan if item.key not in finished]
        for item, result in _played(left, policy, concurrency, pause_seconds, place.recording if place else None):
            if log is not None:
                log.append(_result_row(item, result))
            yield item, result
    finally:
        if log is not None:
            log.close()


def _played(
    plan: list[Planned], policy: Policy, concurrency: int, pause_seconds: float, recording: Recording | None
) -> Iterator[tuple[Planned, EpisodeResult]]:
    worker = _Worker(recording)
    with contextlib.ExitStack() as stack:
        batched = getattr(policy, "batch", 1) != 1
        gatherer = stack.enter_context(Gatherer(policy, concurrency, len(plan))) if batched else None
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="episode"))
        waiting = iter(plan)
        running: dict[Future[EpisodeResult], Planned] = {}
        ended: SimpleQueue[Future[EpisodeResult]] = SimpleQueue()
        try:
            while True:
                # Twice the workers in flight keeps them busy and bounds what is held.
                while len(running) < 2 * concurrency and (item := next(waiting, None)) is not None:
                    future = pool.submit(_play, worker, item, gatherer or policy, pause_seconds)
                    running[future] = item
                    future.add_done_callback(ended.put)
                if not running:
                    return
                future = ended.get()
                item, result = running.pop(future), future.result()
                if result.status == "budget":
                    waiting = iter(())
                    if not result.usage:
                        continue  # it had not begun to ask
                yield item, result
        except KeyboardInterrupt:
            # What is being played is finished and kept; what has not begun is left for a later run.
            begun = [future for future in running if not future.cancel()]
            for future in begun:
                yield running[future], future.result()
            raise
        finally:
            for future in running:
                future.cancel()


def _play(worker: _Worker, item: Planned, policy: Policy, pause_seconds: float) -> EpisodeResult:
    try:
        return _attempts(worker.env(item.spec), item, policy, pause_seconds)
    finally:
        if isinstance(policy, Gatherer):
            policy.end_episode()


def _attempts(env: gym.Env[Any, Any], item: Planned, policy: Policy, pause_seconds: float) -> EpisodeResult:
    started = time.perf_counter()
    metered = _Metered(policy)
    causes: list[str] = []
    while True:
        try:
            played = run_episode(env, metered, seed=item.seed, task=item.task, split=item.split, episode_key=item.key)
            # Without the task's content, as the journal gives an episode back.
            played = replace(played, trajectory=replace(played.trajectory, task=None))
            break
        except EnvFault as fault:
            causes.append(fault.cause)
            if fault.retryable and len(causes) < FAULT_ATTEMPTS:
                jitter = random.Random(f"{item.key}:{len(causes)}").random()
                time.sleep(pause_seconds * 2 ** (len(causes) - 1) * (0.5 + jitter))
                continue
            played = EpisodeResult(_unplayed(env, item), "fault", causes.pop())
            break
        except BudgetSpent as end:
            played = EpisodeResult(_unplayed(env, item), "budget", str(end))
            break
    return replace(
        played,
        usage=metered.usage,
        attempts=tuple(causes),
        seconds=round(time.perf_counter() - started, 6),
        agent_seconds=round(metered.seconds, 6),
    )


def _unplayed(env: gym.Env[Any, Any], item: Planned) -> Trajectory:
    core = core_of(env)
    return Trajectory(
        Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key), (), ()
    )


def _result_row(item: Planned, result: EpisodeResult) -> dict[str, Any]:
    return {
        "key": item.key,
        "status": result.status,
        "fault": result.fault,
        "attempts": list(result.attempts),
        "usage": result.usage,
        "seconds": result.seconds,
        "agent_seconds": result.agent_seconds,
        "trial": item.trial,
        "trajectory": result.trajectory.to_json(),
    }


def result_of(row: dict[str, Any]) -> EpisodeResult:
    """Return the result that a row of a run's journal holds."""
    return EpisodeResult(
        Trajectory.from_json(row["trajectory"]),
        row["status"],
        row["fault"],
        row["usage"],
        tuple(row["attempts"]),
        row["seconds"],
        row["agent_seconds"],
    )


def _resumed(log: Journal, head: dict[str, Any]) -> Iterator[tuple[str, EpisodeResult]]:
    """Yield what is finished, read as it is needed: a long run's transcripts are not held."""
    rows = read_journal(log.path)
    if log.path.stat().st_size == 0:
        log.append(head)
    first = next(rows)
    if first != head:
        old = first if isinstance(first, dict) else {}
        changed = ", ".join(_differing(old, head))
        raise UsageError(f"{log.path} was written with another {changed}: use another folder, or the same settings")
    for row in rows:
        if row["status"] not in UNFINISHED:
            yield row["key"], result_of(row)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            yield from (f"{name}.{more}" for more in _differing(before, value))
        elif before != value:
            yield f"{name} ({before!r} -> {value!r})"
