"""A pool of threads plays the many episodes of a plan, with a journal that a killed run resumes from."""

import contextlib
import random
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Header, Trajectory
from agent_envs.core.wrapper_stack import core_of, wrapper_usage
from agent_envs.rollout.batching import Batcher
from agent_envs.rollout.episode_runner import EpisodeResult, run_episode
from agent_envs.rollout.policy import CompanionPolicy, Policy, Reply, Request, checked_replies, traits_of
from agent_envs.rollout.run_log import Planned, RunJournal, RunLog
from agent_envs.services.run_services import Services

FAULT_ATTEMPTS = 3


class _Worker(threading.local):
    """Environments of one thread, by spec: made once, used for many episodes."""

    def __init__(self, log: RunJournal | None, services: Services, pause_seconds: float, made: set[str]) -> None:
        self.envs: dict[str, gym.Env[Any, Any]] = {}
        self.log, self.services, self.pause_seconds, self.made = log, services, pause_seconds, made

    def env(self, spec: str) -> gym.Env[Any, Any]:
        if spec not in self.envs:
            # Gymnasium's checker takes longer than the making: it sees the first environment of a spec, whose others are alike.
            env = gym.make(EnvSpec.from_json(spec), disable_env_checker=True if spec in self.made else None)
            self.made.add(spec)
            core_of(env).services = self.services
            self.envs[spec] = env
        return self.envs[spec]


class _Metered:
    """One episode's view of a policy: what it used and how long it took, over all attempts."""

    batch = 1

    def __init__(self, policy: Policy) -> None:
        self.name = policy.name
        self.traits = traits_of(policy)
        self.usage: dict[str, int] = {}
        self.seconds = 0.0
        self._policy = self._actor = policy

    def begin(self, env: gym.Env[Any, Any]) -> "_Metered":
        self._actor = self._policy.begin(env)  # type: ignore[attr-defined]
        return self

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        started = time.perf_counter()
        try:
            replies = checked_replies(self.name, self._actor.act(requests), len(requests))
        except (EnvFault, BudgetSpent) as end:
            self._count(end.usage)
            raise
        finally:
            self.seconds += time.perf_counter() - started
        for reply in replies:
            self._count(reply.usage)
        return replies

    def _count(self, usage: Mapping[str, int]) -> None:
        for name, count in usage.items():
            self.usage[name] = self.usage.get(name, 0) + count


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

    A policy of batch 1 is called from `concurrency` threads; one of batch N by a thread that gathers what `concurrency`
    episodes ask (see `batching`). Environments always step in the threads. Each finished episode is in the journal before
    it is yielded, and also when nobody reads on: what is being played when the reader leaves, or is interrupted, is finished
    and kept. A journal of another plan or policy is refused. An episode whose service fails is tried 3 times, about
    `pause_seconds` and twice that apart, then yielded with status `fault`. When the policy or a model that
    gives feedback raises BudgetSpent, no further episode begins, and those that were cut short are yielded with status
    `budget`. Episodes of both kinds are played again by a later run.

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
    if concurrency < 1:
        raise UsageError(f"run_many: concurrency={concurrency}; give a number >= 1")
    traits = traits_of(policy)
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
        given = services or Services()
        if place is not None and place.recording is not None:
            given = replace(given, recording=place.recording)
        worker = _Worker(log, given, pause_seconds, set())
        with contextlib.closing(_played(left, policy, concurrency, worker)) as played:
            yield from played
    finally:
        if log is not None:
            log.close()


def _played(
    plan: list[Planned], policy: Policy, concurrency: int, worker: "_Worker"
) -> Generator[tuple[Planned, EpisodeResult], None, None]:
    with contextlib.ExitStack() as stack:
        batched = getattr(policy, "batch", 1) != 1
        batcher = stack.enter_context(Batcher(policy, concurrency, len(plan))) if batched else None
        # Leaving it waits for what is being played: interrupted or not, that is finished and kept.
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="episode"))
        waiting = iter(plan)
        running: dict[Future[EpisodeResult], Planned] = {}
        ended: SimpleQueue[Future[EpisodeResult]] = SimpleQueue()
        try:
            while True:
                # Twice the workers in flight keeps them busy and bounds what is held.
                while len(running) < 2 * concurrency and (item := next(waiting, None)) is not None:
                    future = pool.submit(_play, worker, item, batcher or policy)
                    running[future] = item
                    future.add_done_callback(ended.put)
                if not running:
                    return
                future = ended.get()
                item, result = running.pop(future), future.result()
                if result.status == "budget":
                    waiting = iter(())
                    if batcher is not None:
                        batcher.hurry()
                    if not result.usage:
                        continue  # it had not begun to ask
                yield item, result
        finally:
            for future in running:
                future.cancel()
            if batcher is not None:
                batcher.hurry()


def _play(worker: "_Worker", item: Planned, policy: Policy) -> EpisodeResult:
    try:
        result = _attempts(worker.env(item.spec), item, policy, worker.pause_seconds)
    finally:
        if isinstance(policy, Batcher):
            policy.end_episode()
    # Here and not where results are read: what was played is kept, whatever becomes of the reader.
    if worker.log is not None and (result.status != "budget" or result.usage):
        worker.log.keep(item, result)
    return result


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
        usage=metered.usage | wrapper_usage(env),
        attempts=tuple(causes),
        seconds=round(time.perf_counter() - started, 6),
        agent_seconds=round(metered.seconds, 6),
    )


def _unplayed(env: gym.Env[Any, Any], item: Planned) -> Trajectory:
    core = core_of(env)
    return Trajectory(
        Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key), (), ()
    )
