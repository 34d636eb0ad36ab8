"""Many episodes: a plan, a pool of threads, and a journal that a killed run resumes from."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.canonical import digest
from agent_envs.errors import EnvFault, UsageError
from agent_envs.journal import Journal, read_journal
from agent_envs.policies import Policy, core_of
from agent_envs.rollout import EpisodeResult, run_episode
from agent_envs.trajectory import Header, Trajectory

RUN_SCHEMA = "agent-envs/run@1"
FAULT_ATTEMPTS = 3


@dataclass(frozen=True)
class Planned:
    """One planned episode: the spec as JSON (see `spec_json`), the task, and the seed."""

    key: str
    spec: str
    task: int | str
    split: str
    seed: int
    trial: int = 0


class _Worker(threading.local):
    """Environments of one thread, by spec: made once, used for many episodes."""

    def __init__(self) -> None:
        self.envs: dict[str, gym.Env[Any, Any]] = {}

    def env(self, spec: str) -> gym.Env[Any, Any]:
        if spec not in self.envs:
            self.envs[spec] = gym.make(EnvSpec.from_json(spec))
        return self.envs[spec]


def run_many(
    plan: Sequence[Planned],
    policy: Policy,
    *,
    concurrency: int = 1,
    journal: Path | None = None,
    pause_seconds: float = 1.0,
) -> Iterator[tuple[Planned, EpisodeResult]]:
    """Play a plan and yield each episode as it finishes; those already in the journal come first.

    Each finished episode is in the journal before it is yielded. A journal of another plan or policy is refused. An episode
    whose service fails is tried 3 times, about `pause_seconds` and twice that apart, then yielded with status `fault`. An
    interrupt lets running episodes finish, and they are kept.

    Raises:
        UsageError: the journal belongs to another configuration, or keys repeat.
    """
    if len({item.key for item in plan}) != len(plan):
        raise UsageError("run_many: episode keys repeat in the plan")
    if getattr(policy, "batch", 1) != 1:
        raise UsageError(
            f"run_many: agent {policy.name} has batch={policy.batch}; this version calls with one request: batch=1"
        )
    privileged = getattr(policy, "privileged", False)
    head = {
        "schema": RUN_SCHEMA,
        "policy": policy.name,
        "privileged": privileged,
        "plan": digest([vars(item) for item in plan]),
    }
    # The lock comes before the reading, so that a second process cannot play the same episodes.
    log = Journal(journal) if journal else None
    try:
        finished = _resume(log, head) if log else {}
        for item in plan:
            if item.key in finished:
                yield item, finished[item.key]
        left = [item for item in plan if item.key not in finished]
        for item, result in _played(left, policy, concurrency, pause_seconds):
            if log is not None:
                log.append(_result_row(item, result))
            yield item, result
    finally:
        if log is not None:
            log.close()


def _played(
    plan: list[Planned], policy: Policy, concurrency: int, pause_seconds: float
) -> Iterator[tuple[Planned, EpisodeResult]]:
    worker = _Worker()
    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        waiting = iter(plan)
        running: dict[Future[EpisodeResult], Planned] = {}
        try:
            while True:
                # Twice the workers in flight keeps them busy and bounds what is held.
                while len(running) < 2 * concurrency and (item := next(waiting, None)) is not None:
                    running[pool.submit(_play, worker, item, policy, pause_seconds)] = item
                if not running:
                    return
                finished = wait(running, return_when=FIRST_COMPLETED).done
                # In the plan's order, because a set has none that repeats.
                for future in [future for future in running if future in finished]:
                    yield running.pop(future), future.result()
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
    env = worker.env(item.spec)
    for attempt in range(1, FAULT_ATTEMPTS + 1):
        try:
            played = run_episode(env, policy, seed=item.seed, task=item.task, split=item.split, episode_key=item.key)
            # Without the task's content, as the journal gives an episode back.
            return replace(played, trajectory=replace(played.trajectory, task=None))
        except EnvFault as fault:
            if fault.retryable and attempt < FAULT_ATTEMPTS:
                jitter = random.Random(f"{item.key}:{attempt}").random()
                time.sleep(pause_seconds * 2 ** (attempt - 1) * (0.5 + jitter))
                continue
            core = core_of(env)
            header = Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key)
            return EpisodeResult(Trajectory(header, (), ()), "fault", fault.cause)
    raise AssertionError("unreachable: the last attempt returns")


def _result_row(item: Planned, result: EpisodeResult) -> dict[str, Any]:
    row = {"key": item.key, "status": result.status, "fault": result.fault, "usage": result.usage}
    return row | {"trial": item.trial, "trajectory": result.trajectory.to_json()}


def _resume(log: Journal, head: dict[str, Any]) -> dict[str, EpisodeResult]:
    rows = read_journal(log.path)
    if log.path.stat().st_size == 0:
        log.append(head)
    first = next(rows)
    if first != head:
        old = first if isinstance(first, dict) else {}
        changed = ", ".join(name for name in head if old.get(name) != head[name])
        raise UsageError(f"{log.path} was written with another {changed}: use another folder, or the same settings")
    return {
        row["key"]: EpisodeResult(Trajectory.from_json(row["trajectory"]), row["status"], row["fault"], row["usage"])
        for row in rows
        if row["status"] != "fault"
    }
