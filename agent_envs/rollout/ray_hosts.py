"""The classes of actors of Ray: one steps environments for a policy of the driver, another one plays whole episodes.

A file that one actor holds for all is a `RemoteFile`. A reply that was paid for is in the log of the run before the actor steps
it: an actor that takes the place of a lost one plays the episode again with the replies that it had.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent_envs.base.errors import BudgetSpent, UsageError
from agent_envs.core.authors_code import authors_errors
from agent_envs.core.snapshot import Snapshot
from agent_envs.rollout.episode_pool import EpisodePool, PoolTurn
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from agent_envs.rollout.policy import Policy, Reply, Request, traits_of
from agent_envs.rollout.reply_log import RememberingPolicy, ReplyLog, place_of
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

CODE = ("utf-8", "surrogatepass")
Action = tuple[str | int, bool]  # with whether a limit cut the reply
# Of a turn: the answer; the moment with that turn alone and, but at a reset, no header, task and prompt, None after a fault;
# bytes where asked. None of an episode that is not there, or a key that came before in the call.
Moment = tuple[PoolTurn, Snapshot | None, str] | None
Files = tuple["RemoteFile", Recording | None]  # a run's log of replies, and its recording


@dataclass(frozen=True)
class StepTurn:
    """What an actor is to do with an episode that has had `place` turns: perhaps begin or put it, then take an action.

    An episode that is put stands where its parts do. It takes the actions since, and then has the header, of a fork its own.
    """

    key: str
    spec: str
    place: int = 0
    parts: Sequence[str] = ()
    since: Sequence[Action] = ()
    action: Action | None = None
    header: Any = None
    row: Mapping[str, Any] | None = None
    saved: int | None = None  # the turns that were saved before, where it is to be saved now


class PoolHost:
    """The class of an actor: a pool for each environment of the run."""

    def __init__(self) -> None:
        """Hold no episode yet. What refers to another actor comes with calls: Ray warns of it where an actor begins."""
        self._pools: dict[str, EpisodePool] = {}
        self._lock = threading.Lock()

    def play(self, turns: list[StepTurn], ended: Sequence[str] = (), record: Recording | None = None) -> list[Moment]:
        """Drop the episodes that have ended, and return the moment of each turn, in order; the recording is the run's."""
        for pool in list(self._pools.values()):
            for key in filter(pool.__contains__, ended):  # some were in the actor before this one
                with suppress(UsageError):  # a call that the driver gave up still steps it: it stays
                    pool.drop(key)
        first, moments = dict[str, StepTurn](), dict[str, Moment]()
        for turn in turns:
            first.setdefault(turn.key, turn)
        with authors_errors():  # whose traceback stays in this process
            for spec in dict.fromkeys(turn.spec for turn in turns):
                moments |= _play(self._pool(spec, record), [turn for turn in first.values() if turn.spec == spec])
        return [moments.get(turn.key) if turn is first[turn.key] else None for turn in turns]

    def _pool(self, spec: str, recording: Recording | None) -> EpisodePool:
        """Return the pool of a spec; the first call makes it, and with it the indexes that its episodes share."""
        with self._lock:
            if spec not in self._pools:
                self._pools[spec] = EpisodePool(spec, services=Services(recording=recording))
            return self._pools[spec]


def _play(pool: EpisodePool, turns: Sequence[StepTurn]) -> dict[str, Moment]:
    """Begin or put what is new, take the actions in one call, and return moments by key, of what is where its turn says."""
    answers = {turn.key: answer for turn in turns if (answer := _begin(pool, turn)) is not None}
    to_act = [turn for turn in turns if turn.key in answers and not answers[turn.key].fault]
    actions = [(turn.key, turn.action[0]) for turn in to_act if turn.action is not None]
    cut = {turn.key for turn in to_act if turn.action is not None and turn.action[1]}
    answers |= {answer.key: answer for answer in pool.act_many(actions, cut)}
    return {turn.key: _moment(pool, turn, answers[turn.key]) for turn in turns if turn.key in answers}


def _begin(pool: EpisodePool, turn: StepTurn) -> PoolTurn | None:
    """Begin or put an episode that is new, and return its last answer; None where the episode has not had `place` turns."""
    key = turn.key
    if not (turn.row or turn.parts):
        is_there = key in pool and turn.place == len(pool.moment(key).episode.turns)  # type: ignore[union-attr]
        return PoolTurn(key) if is_there else None
    if key in pool:
        pool.drop(key)
    if turn.row:
        return pool.begin_many([{**turn.row, "key": key}])[0]
    pool.put(key, *(part.encode(*CODE) for part in turn.parts))
    answer = PoolTurn(key)
    for action, is_cut in turn.since:
        if not answer.fault:
            (answer,) = pool.act_many([(key, action)], [key] * is_cut)
    moment: Any = pool.moment(key)
    pool.drop(key)
    pool.resume(key, replace(moment, episode=replace(moment.episode, header=turn.header)))
    return answer


def _moment(pool: EpisodePool, turn: StepTurn, answer: PoolTurn) -> tuple[PoolTurn, Snapshot | None, str]:
    """Return an answer with its episode's moment, less what the driver has, and bytes where they are asked for."""
    if answer.fault:
        return answer, None, ""
    moment: Any = pool.moment(turn.key)
    part = "" if turn.saved is None else pool.take(turn.key, turn.saved).decode(*CODE)
    left_out = {"state": None} if turn.row else {"state": None, "task": None, "prompt": (), "header": None}
    return answer, replace(moment, episode=replace(moment.episode, turns=moment.episode.turns[-1:], **left_out)), part


class EpisodeHost:
    """The class of an actor that plays whole episodes, with an agent of its own."""

    def __init__(self, limits: Mapping[str, Any], name: str) -> None:
        """Hold the limits of a `Lockstep`, and the name of the agent that the driver knows."""
        self._limits, self._name, self._lock = limits, name, threading.Lock()
        self._player: tuple[Lockstep, SentReplies] | None = None

    def _make(self, agent: Callable[[], Policy], files: Files) -> tuple[Lockstep, "SentReplies"]:
        """Return the actor's player; the first call makes the agent: an error while an actor begins would read as its loss."""
        with self._lock:
            if self._player is None:
                with authors_errors():
                    policy = agent()
                if (policy.name, batch := getattr(policy, "batch", 1)) != (self._name, 1):
                    what = f"agent {policy.name} of batch {batch}, and {self._name} of batch 1 is to play"
                    raise UsageError(f"Actors(agent=...) makes {what}")
                replies, services = SentReplies(files[0]), Services(recording=files[1])
                player = policy if traits_of(policy).needs_env else RememberingPolicy(policy, replies)
                self._player = Lockstep(player, services=services, threads=1, keep_errors=True, **self._limits), replies
            return self._player

    def play(
        self, item: Planned, agent: Callable[[], Policy], files: Files
    ) -> tuple[EpisodeResult, BudgetSpent | None]:
        """Return the result of an episode, and the spent budget that ended it; any other error of it is raised.

        Args:
            item: the episode.
            agent: makes the policy.
            files: of the run.
        """
        lockstep, replies = self._make(agent, files)
        with authors_errors():  # whose traceback stays in this process
            (lane,) = lockstep.begin([item])
            while not lane.over:
                lockstep.step([lane])
            if lane.error is not None and not isinstance(lane.error, BudgetSpent):
                raise lane.error
        result = lane.result()
        if lane.error is None:
            lockstep.release(lane)
        replies.drop(item.key)
        # Without the task's content, as the journal keeps it.
        return replace(result, trajectory=replace(result.trajectory, task=None)), lane.error


class SentReplies(ReplyLog):
    """The replies of an actor's episodes, each in the run's own log before it is used."""

    def __init__(self, log: "RemoteFile") -> None:
        """Begin without any; `log` is the run's."""
        super().__init__(None)
        self._log = log

    def find(self, request: Request) -> Reply | None:
        """As `ReplyLog.find`; the first time with what the run's log has of the episode, whose usage no result has counted."""
        if request.episode_key not in self._rows:
            self._rows[request.episode_key] = self._log.rows(request.episode_key)
        return super().find(request)

    def keep(self, request: Request, reply: Reply) -> None:
        """As `ReplyLog.keep`, in both."""
        self._log.put(request.episode_key, place_of(request), reply)
        super().keep(request, reply)


class RemoteFile(AbstractContextManager["RemoteFile"]):
    """A file that a keeper, an actor of its class, holds for all; a call waits for its end there, and raises its error."""

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
            return answer_of(getattr(self._keeper, name).remote(*arguments))
        except ray.exceptions.RayActorError as error:
            raise UsageError("the process that holds a file of the run was lost: go on with --resume") from error

    def __exit__(self, *error: object) -> None:
        self.close()


def answer_of(reference: Any) -> Any:
    """Wait for a call to an actor; an error of ours that came up there is raised as itself."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


@dataclass(frozen=True)
class PlayedLane:
    """An episode that an actor has played, as a `Lane` to who plays a plan; an error other than a budget's left no outcome."""

    item: Planned
    outcome: EpisodeResult | None
    error: Exception | None
    over = True

    def result(self) -> EpisodeResult | None:
        """Return its record."""
        return self.outcome


class RemoteLockstep(AbstractContextManager["RemoteLockstep"]):
    """Actors as a `Lockstep`, whose lanes are over when they begin."""

    def __init__(self, play: Callable[[Planned], PlayedLane | Lane]) -> None:
        """Play each episode by a call of `play`."""
        self._play = play

    def __exit__(self, *error: object) -> None:
        pass

    def begin(self, plan: Sequence[Planned]) -> list[PlayedLane | Lane]:
        """Have each episode played to its end."""
        return list(map(self._play, plan))

    def step(self, lanes: Sequence[PlayedLane | Lane]) -> None:
        """Do nothing: all are over."""

    def release(self, lane: PlayedLane | Lane) -> None:
        """Do nothing: the actor has the environment."""
