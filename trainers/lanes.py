"""Lanes are environments that play on in step: a policy is asked once for the next turn of all, then all of them step.

They are for algorithms that look between the turns: fork an episode where it stands (ARPO), or cut a batch after so many
turns, wherever the episodes are (Verlog). What a lane plays depends on no other lane, on no batch size and on no thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.core.wrapper_stack import core_of
from agent_envs.rollout.episode_runner import EpisodeResult, EpisodeWalk
from agent_envs.rollout.policy import Reply, check_actions
from agent_envs.rollout.run_log import Planned
from trainers.contracts import TokenSequence
from trainers.engine_policy import EnginePolicy
from trainers.tokens import Conversation


@dataclass(frozen=True, slots=True)
class Step:
    """A recorded turn of the conversation `origin`. `sampled` tokens are the policy's: with none it is no data point."""

    origin: str
    turn: Turn
    sampled: int
    _conversation: Conversation
    _length: int

    def sequence(self) -> TokenSequence:
        """Return the context up to the end of this turn. Of its trained tokens those of `turn.index` are this turn's."""
        whole = self._conversation.sequence()
        return TokenSequence(
            *(part[: self._length] for part in (whole.ids, whole.trained, whole.logprobs, whole.turns))
        )


@dataclass
class Lane:
    """An environment and the episode that it plays.

    Attributes:
        item: the episode, as planned.
        walk: of the episode; None where its reset failed.
        fault: the outside fault that ended it; such an episode has no reward.
        steps: taken since `Lanes.cut`.
        lost: turns of the lane that a fault took from the data since `Lanes.cut`.
    """

    item: Planned
    env: gym.Env[Any, Any]
    walk: EpisodeWalk | None = None
    fault: str = ""
    steps: list[Step] = field(default_factory=list)
    lost: int = 0
    whole: int = 0  # of `steps`: those of episodes that have ended

    @property
    def over(self) -> bool:
        """Whether the episode has ended, or failed."""
        return self.walk is None or bool(self.fault) or self.walk.over

    @property
    def origin(self) -> str:
        """The name of its conversation."""
        return self.item.key if self.walk is None else self.walk.origin

    def result(self) -> EpisodeResult:
        """Return the record of an episode that is over; one that a fault ended has no turns in it."""
        if self.walk is not None and not self.fault:
            return self.walk.result()
        core, item = core_of(self.env), self.item
        head = Header(core.env_id, core.spec_digest, str(item.task), item.split, "", item.seed, item.key)
        return EpisodeResult(Trajectory(head, (), ()), "fault", self.fault)

    def failed(self, cause: str) -> None:
        """End by an outside fault: turns since the last whole episode or cut leave the data."""
        self.fault = cause
        self.lost += len(self.steps) - self.whole
        del self.steps[self.whole :]


class Lanes:
    """Lanes of one policy. Use it as a context manager: it has threads."""

    def __init__(self, player: EnginePolicy, *, threads: int = 64) -> None:
        """Take who plays, and how many environments may step at a time."""
        self._player = player
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="lane")

    def __enter__(self) -> "Lanes":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown()

    def open(self, plan: Sequence[Planned]) -> list[Lane]:
        """Return a new lane for each planned episode, at its first turn."""
        self._all(self._reset, lanes := [Lane(item, self._made(item.spec)) for item in plan])
        return lanes

    def again(self, lanes: Sequence[Lane], plan: Sequence[Planned]) -> None:
        """Begin the next episodes of lanes that are over, each in its own environment (else UsageError); their steps stay."""
        if len(lanes) != len(plan):
            raise UsageError(f"lanes: {len(lanes)} lanes need as many planned episodes, not {len(plan)}")
        for lane, item in zip(lanes, plan, strict=True):
            if not lane.over or lane.item.spec != item.spec:
                why = "plays in another environment" if lane.over else "is not over"
                raise UsageError(f"lanes: {lane.origin} {why}")
        for lane, item in zip(lanes, plan, strict=True):
            self._player.drop(lane.origin)
            lane.item, lane.walk, lane.fault, lane.whole = item, None, "", len(lane.steps)
        self._all(self._reset, lanes)

    def fork(self, lane: Lane, branch: str) -> Lane:
        """Return a lane that goes on from where this one stands, with samples of its own and no steps yet.

        A fork that is to vary a turn is taken before that turn. UsageError where the episode is over.
        """
        if lane.walk is None or lane.over:
            raise UsageError(f"lanes: {lane.origin} is over: there is nothing to fork")
        walk = lane.walk.fork(branch)
        self._player.fork(lane.origin, walk.origin)
        return Lane(lane.item, walk.env, walk)

    def drop(self, lanes: Sequence[Lane]) -> None:
        """Forget forks that are not to be played on."""
        for lane in lanes:
            self._player.drop(lane.origin)

    def turn(self, lanes: Sequence[Lane]) -> None:
        """Let every lane that is not over take a turn. BudgetSpent where nothing may be paid any more."""
        going = sorted((lane for lane in lanes if not lane.over), key=lambda lane: lane.origin)
        walks = [lane.walk for lane in going if lane.walk is not None]
        replies = self._player.act([walk.request() for walk in walks])
        self._all(self._take, going, replies)

    def ahead(self, lane: Lane) -> tuple[int, ...]:
        """Return the tokens of the state that a lane is in, in which nobody has acted; also where a limit ended it."""
        if lane.walk is None or lane.fault:
            raise UsageError(f"lanes: {lane.origin} has failed: it is in no state")
        return self._player.ahead(lane.walk.ahead())

    def cut(self, lanes: Sequence[Lane]) -> list[list[Step]]:
        """Return the steps of each lane since the last cut, and begin anew."""
        found = [lane.steps for lane in lanes]
        for lane in lanes:
            lane.steps, lane.whole, lane.lost = [], 0, 0
        return found

    def moments(self, lanes: Sequence[Lane]) -> list[dict[str, Any]]:
        """Return where lanes stand, as plain JSON for a checkpoint.

        Raises:
            UsageError: a lane has steps that were not cut.
        """
        if waiting := [lane.origin for lane in lanes if lane.steps]:
            raise UsageError(f"lanes: {waiting[0]} has steps that no checkpoint keeps; cut() first")
        walks = [lane.walk and lane.walk.to_json() for lane in lanes]
        talks = [self._player.moment(lane.origin) for lane in lanes]
        return [
            {"item": asdict(lane.item), "fault": lane.fault, "walk": walk, "conversation": talk}
            for lane, walk, talk in zip(lanes, walks, talks, strict=True)
        ]

    def restored(self, moments: Sequence[dict[str, Any]]) -> list[Lane]:
        """Return lanes that stand where `moments` says. UsageError where an environment is not the one that it was."""
        lanes = []
        for moment in moments:
            item = Planned(**moment["item"])
            lane = Lane(item, self._made(item.spec), fault=moment["fault"])
            if moment["walk"] is not None:
                lane.walk = EpisodeWalk.from_json(lane.env, moment["walk"])
                self._player.restore(lane.origin, moment["conversation"])
            lanes.append(lane)
        return lanes

    def _made(self, spec: str) -> gym.Env[Any, Any]:
        env = gym.make(EnvSpec.from_json(spec))
        check_actions(self._player, core_of(env))
        core_of(env).services = self._player.services
        return env

    def _all(self, call: Callable[..., None], *columns: Sequence[Any]) -> None:
        """Call for each row in threads, wait for all, and raise the first error in the order of rows."""
        futures = [self._pool.submit(call, *row) for row in zip(*columns, strict=True)]
        for error in [future.exception() for future in futures]:
            if error is not None:
                raise error

    def _reset(self, lane: Lane) -> None:
        item = lane.item
        try:
            lane.walk = EpisodeWalk(lane.env, seed=item.seed, task=item.task, split=item.split, episode_key=item.key)
        except EnvFault as fault:
            lane.failed(fault.cause)

    def _take(self, lane: Lane, reply: Reply) -> None:
        assert lane.walk is not None
        conversation = self._player.newest(lane.origin)
        length = len(conversation.ids)
        try:
            turn = lane.walk.take(reply)
        except EnvFault as fault:
            lane.failed(fault.cause)
            return
        sampled = sum(reply.sampled) if reply.sampled else len(reply.token_ids)
        lane.steps.append(Step(lane.origin, turn, sampled, conversation, length))
        if lane.over:
            lane.whole = len(lane.steps)
