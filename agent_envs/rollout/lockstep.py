"""Environments that step together: a policy is asked once for the next turn of all, then all of them step, in threads.

`run_many` plays so. Algorithms that look between the turns do, too: they fork an episode where it stands (ARPO), or cut a
batch after so many turns, wherever the episodes are (Verlog). What a lane plays depends on no other lane and on no thread.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.core.env import core_of, wrapper_usage
from agent_envs.core.trajectory import Header, Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult, EpisodeWalk, Planned
from agent_envs.rollout.policy import Policy, Reply, check_actions, replies_of, traits_of
from agent_envs.services.chat.model import known_counts
from agent_envs.services.run_services import Services


@dataclass(eq=False)
class Lane:
    """An environment and the episode that it plays.

    Attributes:
        item: the episode, as planned.
        walk: of the episode; None where its reset failed, and while it waits for another attempt.
        actor: the policy of this one episode, where the policy `needs_env`.
        fault: the outside fault that ended it; such an episode has no reward.
        error: what else ended it: a spent budget, or a bug.
        attempts: the faults of earlier attempts at it.
        not_before: when the next attempt begins, on the clock of `time.monotonic`.
        usage: tokens by name, over all attempts.
        agent_seconds: the policy's part of its time.
    """

    item: Planned
    env: gym.Env[Any, Any]
    walk: EpisodeWalk | None = None
    actor: Policy | None = None
    fault: str = ""
    error: Exception | None = None
    attempts: list[str] = field(default_factory=list)
    not_before: float = 0.0
    usage: Counter[str] = field(default_factory=Counter)
    agent_seconds: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def over(self) -> bool:
        """Whether the episode has ended, or failed."""
        return bool(self.fault) or self.error is not None or (self.walk is not None and self.walk.over)

    @property
    def origin(self) -> str:
        """The name of its conversation."""
        return self.item.key if self.walk is None else self.walk.origin

    def result(self) -> EpisodeResult:
        """Return an ended episode's record; without turns after a fault (status `fault`) or any error (status `budget`)."""
        if self.walk is not None and not self.fault and self.error is None:
            result = self.walk.result()
        else:
            core, item = core_of(self.env), self.item
            head = Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key)
            status, cause = ("budget", str(self.error)) if self.error else ("fault", self.fault)
            result = EpisodeResult(Trajectory(head, (), ()), status, cause)
        seconds, agent_seconds = round(time.perf_counter() - self.started, 6), round(self.agent_seconds, 6)
        usage = known_counts({**self.usage, **wrapper_usage(self.env)})
        return replace(result, usage=usage, attempts=tuple(self.attempts), seconds=seconds, agent_seconds=agent_seconds)


class Lockstep(AbstractContextManager["Lockstep"]):
    """Lanes of one policy that step together. Use it as a context manager: it has threads, and any thread may use it.

    A policy of batch N stands for a local engine: one call of it is under way at a time.
    """

    def __init__(
        self, policy: Policy, *, services: Services | None = None, threads: int = 64, attempts: int = 1,
        pause_seconds: float = 1.0, keep_errors: bool = False,
    ) -> None:  # fmt: skip
        """Set the policy, its services, and how often and how wide lanes are played.

        Args:
            policy: who plays; with one that `needs_env` lanes step one at a time.
            services: what stands before the outside services of environments.
            threads: how many environments may step at a time.
            attempts: at an episode that outside faults end.
            pause_seconds: before a second attempt, and twice that before a third.
            keep_errors: leave an error that is no outside fault to its lanes, and raise nothing.
        """
        self._policy, self._traits, self._services = policy, traits_of(policy), services or Services()
        if self._services.elsewhere is not None and self._traits.needs_env:
            raise UsageError(f"agent {policy.name} needs_env: the state is elsewhere; play whole episodes there")
        self._attempts, self._pause_seconds, self._keep_errors = attempts, pause_seconds, keep_errors
        alone: AbstractContextManager[Any] = nullcontext() if getattr(policy, "batch", 1) == 1 else threading.Lock()
        self._asking, self._idle = alone, dict[str, list[gym.Env[Any, Any]]]()
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lane")

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def begin(self, plan: Sequence[Planned]) -> list[Lane]:
        """Reset an environment for each planned episode and return its lane; a fault stays in its lane, an error is raised."""
        lanes = [Lane(item, self.environment(item.spec)) for item in plan]
        self._call_each(lanes, self._reset)
        return lanes

    def fork(self, lane: Lane, branch: str) -> Lane:
        """Return a lane that goes on from before the next turn, with samples of its own; UsageError where there is none."""
        if lane.walk is None or lane.over:
            raise UsageError(f"lanes: {lane.origin} is over: there is nothing to fork")
        walk = lane.walk.fork(branch)
        if (fork := getattr(self._policy, "fork", None)) is not None:
            fork(lane.origin, walk.origin)
        return replace(lane, env=walk.env, walk=walk, usage=Counter(lane.usage), attempts=[])

    def drop(self, lanes: Sequence[Lane]) -> None:
        """Let the policy forget the conversations of lanes that are not to be played on."""
        if (drop := getattr(self._policy, "drop", None)) is not None:
            for lane in lanes:
                drop(lane.origin)

    def step(self, lanes: Sequence[Lane]) -> None:
        """Let each lane that is not over take a turn, due retries reset; sleep if all wait. Errors are raised, faults kept."""
        going = sorted((lane for lane in lanes if not lane.over), key=lambda lane: lane.origin)
        if self._traits.needs_env and len(going) > 1:
            raise UsageError(f"agent {self._policy.name} needs_env: its lanes step one at a time, not {len(going)}")
        waiting = [lane for lane in going if lane.walk is None]
        if waiting and len(waiting) == len(going):
            time.sleep(max(0.0, min(lane.not_before for lane in waiting) - time.monotonic()))
        self._call_each([lane for lane in waiting if lane.not_before <= time.monotonic()], self._reset)
        going = [lane for lane in going if lane.walk is not None and not lane.over]
        try:
            replies = self._replies(going) if going else []
        except Exception as error:  # noqa: BLE001 - it ends each of them, as an error of its own would
            self._call_each(going, self._end, [error] * len(going))
        else:
            self._call_each(going, lambda lane, reply: lane.walk.take(reply), replies)

    def release(self, lane: Lane) -> None:
        """Leave a lane's environment to lanes that begin later."""
        self._idle.setdefault(lane.item.spec, []).append(lane.env)

    def environment(self, spec: str) -> gym.Env[Any, Any]:
        """Return an environment that no lane plays in: an idle one of the spec, else a new one with the services."""
        with suppress(KeyError, IndexError):
            return self._idle[spec].pop(0)
        env = gym.make(EnvSpec.from_json(spec))
        check_actions(self._policy, core_of(env))
        core_of(env).services = self._services
        return env if self._services.elsewhere is None else self._services.elsewhere(env, spec)

    def _replies(self, lanes: Sequence[Lane]) -> list[Reply]:
        """Ask the policy for all lanes at once; each is charged the whole time and its usage, a failed call to the first."""
        requests = [lane.walk.request() for lane in lanes if lane.walk is not None]
        actor = lanes[0].actor or self._policy
        with self._asking:
            started = time.perf_counter()
            try:
                replies = replies_of(actor, requests)
            except (EnvFault, BudgetSpent) as end:
                lanes[0].usage.update(end.usage)  # once, though the call was for all of them
                raise
            finally:
                for lane in lanes:
                    lane.agent_seconds += time.perf_counter() - started
        for lane, reply in zip(lanes, replies, strict=True):
            lane.usage.update(reply.usage)
        return replies

    def _call_each(self, lanes: Sequence[Lane], call: Callable[..., object], *columns: Sequence[Any]) -> None:
        """Call for each lane, several in threads, and wait for all; raise the first lane's error unless errors are kept."""
        each = map if len(lanes) < 2 else self._pool.map
        list(each(self._attempt, repeat(call), lanes, *columns))
        for lane in lanes if not self._keep_errors else ():
            if lane.error is not None:
                raise lane.error

    def _attempt(self, call: Callable[..., object], lane: Lane, *arguments: Any) -> None:
        """Call with a lane; an exception goes to `_end`, which ends the lane or has it begin again; nothing is raised."""
        try:
            call(lane, *arguments)
        except Exception as error:  # noqa: BLE001 - its lane keeps it, and it is raised once all lanes are there
            self._end(lane, error)

    def _reset(self, lane: Lane) -> None:
        """Reset a lane's environment to its planned episode, and begin the policy's actor if it needs the environment."""
        place: dict[str, Any] = {"seed": lane.item.seed, "task": lane.item.task, "split": lane.item.split}
        lane.walk = EpisodeWalk(lane.env, **place, episode_key=lane.item.key, can_prefill=self._traits.can_prefill)
        if self._traits.needs_env:
            lane.actor = self._policy.begin(lane.env)  # type: ignore[attr-defined]

    def _end(self, lane: Lane, error: Exception) -> None:
        """Keep an error or fault in its lane; a retryable fault with attempts left, not of a fork, has it reset later."""
        count = len(lane.attempts) + 1
        if not isinstance(error, EnvFault):
            lane.error = error
        elif error.retryable and count < self._attempts and lane.origin == lane.item.key:
            lane.attempts.append(error.cause)
            jitter = random.Random(f"{lane.item.key}:{count}").random()
            lane.not_before = time.monotonic() + self._pause_seconds * 2 ** (count - 1) * (0.5 + jitter)
            lane.walk = None  # the next attempt begins in a later step, and the others of its set go on meanwhile
        else:
            lane.fault = error.cause
