"""Whole episodes are played in actors of Ray, with an agent of their own; a file that one holds for all is a `RemoteFile`.

A reply that was paid for is in the log of the run before the actor steps it: an actor that takes the place of a lost one plays
the episode again with the replies that it had.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.core.authors_code import authors_errors
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from agent_envs.rollout.policy import Policy, Reply, Request, traits_of
from agent_envs.rollout.reply_log import RememberingPolicy, ReplyLog, place_of
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services


class EpisodeHost:
    """The class of an actor that plays whole episodes, with an agent of its own."""

    def __init__(self, limits: Mapping[str, Any], name: str) -> None:
        """Hold the limits of a `Lockstep`, and the name of the agent that the driver knows."""
        self._limits, self._name = limits, name
        self._replies: SentReplies | None = None
        self._player: Lockstep | None = None
        self._lock = threading.Lock()

    def _lockstep(self, agent: Callable[[], Policy], log: "RemoteFile", recording: Recording | None) -> Lockstep:
        """Return the actor's player; the first call makes the agent: an error while an actor begins would read as its loss."""
        with self._lock:
            if self._player is None:
                with authors_errors():
                    policy = agent()
                if (policy.name, batch := getattr(policy, "batch", 1)) != (self._name, 1):
                    what = f"agent {policy.name} of batch {batch}, and {self._name} of batch 1 is to play"
                    raise UsageError(f"Actors(agent=...) makes {what}")
                self._replies = None if traits_of(policy).needs_env else SentReplies(log)
                player = policy if self._replies is None else RememberingPolicy(policy, self._replies)
                services = Services(recording=recording)
                self._player = Lockstep(player, services=services, threads=1, keep_errors=True, **self._limits)
            return self._player

    def play(
        self, item: Planned, agent: Callable[[], Policy], files: tuple["RemoteFile", Recording | None]
    ) -> tuple[EpisodeResult, BudgetSpent | None]:
        """Return the result of an episode, and the spent budget that ended it; any other error of it is raised.

        Args:
            item: the episode.
            agent: makes the policy.
            files: the run's log of replies, and its recording.
        """
        lockstep = self._lockstep(agent, *files)
        if self._replies is not None:
            self._replies.begin(item.key)
        with authors_errors():  # whose traceback stays in this process
            (lane,) = lockstep.begin([item])
            while not lane.over:
                lockstep.step([lane])
            if lane.error is not None and not isinstance(lane.error, BudgetSpent):
                raise lane.error
        result = lane.result()
        if lane.error is None:
            lockstep.release(lane)
        if self._replies is not None:
            self._replies.drop(item.key)
        # Without the task's content, as the journal keeps it.
        return replace(result, trajectory=replace(result.trajectory, task=None)), lane.error


class SentReplies(ReplyLog):
    """The replies of an actor's episodes, each in the run's own log before it is used."""

    def __init__(self, log: "RemoteFile") -> None:
        """Begin without any; `log` is the run's."""
        super().__init__(None)
        self._log = log

    def begin(self, key: str) -> None:
        """Take what the run's log has of an episode, with the usage that no result has counted."""
        self._rows[key] = self._log.rows(key)

    def keep(self, request: Request, reply: Reply) -> None:
        """As `ReplyLog.keep`, in both."""
        self._log.put(request.episode_key, place_of(request), reply)
        super().keep(request, reply)


class Keeper:
    """The class of an actor on the driver's machine that holds a file of the run for all others."""

    def __init__(self, make: Callable[[], Any]) -> None:
        """Open the file."""
        self._file = make()

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a method of it."""
        return getattr(self._file, name)(*arguments)


class RemoteFile(AbstractContextManager["RemoteFile"]):
    """What a keeper holds: who calls a method of it waits until it has ended there; its errors are raised here."""

    def __init__(self, keeper: Any, **attributes: Any) -> None:
        """Stand for it, with attributes of its own."""
        self._keeper = keeper
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        """Return a method; AttributeError for a private name, as of a copy that has none yet."""
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self._call, name)

    def __contains__(self, key: object) -> bool:
        return bool(self._call("__contains__", key))

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a method; UsageError where the keeper is lost, which Ray does not begin again."""
        import ray

        try:
            return answer_of(self._keeper.call.remote(name, *arguments))
        except ray.exceptions.RayActorError as error:
            raise UsageError("the process that holds a file of the run was lost: go on with --resume") from error

    def __exit__(self, *error: object) -> None:
        self.close()


def answer_of(reference: Any, seconds: float | None = None) -> Any:
    """Wait for a call to an actor, perhaps only so long; an error of ours that came up there is raised as itself."""
    import ray

    try:
        return ray.get(reference, timeout=seconds)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


@dataclass(eq=False)
class RemoteLane:
    """An episode that an actor plays, as a `Lane` to who plays a plan."""

    item: Planned
    outcome: EpisodeResult | None = None
    error: Exception | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.outcome is not None or self.error is not None

    def result(self) -> EpisodeResult | None:
        """Return its record; None where an error left none."""
        return self.outcome


class RemoteLockstep(AbstractContextManager["RemoteLockstep"]):
    """Actors as a `Lockstep`, whose step is a whole episode."""

    def __init__(self, play: Callable[[Planned], tuple[EpisodeResult, BudgetSpent | None]]) -> None:
        """Play each episode by a call of `play`, whose EnvFault is one of the episode."""
        self._play = play

    def __exit__(self, *error: object) -> None:
        pass

    def begin(self, plan: Sequence[Planned]) -> list[RemoteLane]:
        """Return lanes; nothing is begun yet."""
        return [RemoteLane(item) for item in plan]

    def step(self, lanes: Sequence[RemoteLane]) -> None:
        """Have each played to its end."""
        for lane in lanes:
            try:
                lane.outcome, lane.error = self._play(lane.item)
            except EnvFault as fault:
                env = gym.make(EnvSpec.from_json(lane.item.spec))
                lane.outcome = Lane(lane.item, env, fault=fault.cause, usage=Counter(fault.usage)).result()
            except Exception as error:  # noqa: BLE001 - its lane keeps it, and who plays the plan raises it
                lane.error = error

    def release(self, lane: RemoteLane) -> None:
        """Do nothing: the actor has the environment."""
