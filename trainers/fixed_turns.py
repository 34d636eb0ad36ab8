"""Batches of a fixed number of turns are played in lockstep: lanes go on from batch to batch, wherever their episodes are.

A turn is a data point: what the policy was shown, and what it said. Where an episode ends its lane begins the next one at
once; where a batch or a limit cuts it, the state behind the cut is kept, for a critic to judge.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from agent_envs.base.errors import AgentEnvsError
from agent_envs.core.trajectory import Turn
from agent_envs.rollout.episode_runner import EpisodeWalk, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from trainers.contracts import TokenSequence
from trainers.engine_policy import EnginePolicy
from trainers.environments import tasks_at
from trainers.sampling import turn_means
from trainers.tokens import Conversation


@dataclass(frozen=True, slots=True)
class DataPoint:
    """A turn as a data point of training.

    Attributes:
        turn: as it was recorded.
        sequence: the context and the turn; its trained tokens are the turn's. In an empty turn that is one that nobody said.
        empty: the policy had no room to say anything.
        next_state: the tokens of the state behind a cut, of a batch or a limit; () where the next turn goes on or all is over.
    """

    turn: Turn
    sequence: TokenSequence
    empty: bool
    next_state: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """A recorded turn of the conversation `origin`. `sampled` tokens are the policy's: with none it is no data point."""

    origin: str
    turn: Turn
    sampled: int
    _conversation: Conversation
    _length: int

    def sequence(self) -> TokenSequence:
        """Return the context up to the end of this turn. Of its trained tokens those of `turn.index` are this turn's."""
        return self._conversation.sequence().upto(self._length)


@dataclass
class LaneTurns:
    """A lane, and its turns since the last cut.

    Attributes:
        lane: that plays; another one for each episode.
        steps: its turns.
        whole: of `steps`, those of episodes that have ended.
        lost: turns that a fault took from the data: those since the last whole episode or cut.
    """

    lane: Lane
    steps: list[RecordedTurn] = field(default_factory=list)
    whole: int = 0
    lost: int = 0

    def take(self, policy: EnginePolicy) -> None:
        """Take the lane's newest turn; after a fault, drop the turns of its unfinished episode and count them as lost."""
        lane = self.lane
        if lane.fault or lane.walk is None:
            self.lost += len(self.steps) - self.whole
            del self.steps[self.whole :]
            return
        turn, conversation = lane.walk.turns[-1], policy.newest(lane.origin)
        sampled = sum(turn.sampled) if turn.sampled else len(turn.token_ids)
        self.steps.append(RecordedTurn(lane.origin, turn, sampled, conversation, len(conversation.ids)))
        if lane.over:
            self.whole = len(self.steps)

    def cut(self) -> list[RecordedTurn]:
        """Return the turns since the last cut, and begin anew."""
        steps, self.steps, self.whole, self.lost = self.steps, [], 0, 0
        return steps


@dataclass(frozen=True)
class LanePlan:
    """The episodes that lanes play.

    Attributes:
        spec: of the environment, as JSON.
        split: of its tasks.
        size: how many tasks that has.
        lanes: over all processes.
        seed: of the order of tasks and of all draws.
    """

    spec: str
    split: str
    size: int
    lanes: int
    seed: int

    def episode(self, lane: int, number: int) -> Planned:
        """Return a lane's episode: lanes take the tasks by turns, so that each comes once before any comes again."""
        place = number * self.lanes + lane
        (task,) = tasks_at(range(place, place + 1), self.size, self.seed)
        return Planned(f"{self.seed}/lane/{lane}.{task}/{number}", self.spec, task, self.split, seed=task, trial=number)


class FixedTurns(AbstractContextManager["FixedTurns"]):
    """The lanes of one process. Use it as a context manager: it has threads."""

    def __init__(
        self,
        lane_plan: LanePlan,
        policy: EnginePolicy,
        max_context: int,
        end_id: int,
        states: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        """Set the plan, the policy and the states of the lanes.

        Args:
            lane_plan: what is played.
            policy: who plays.
            max_context: tokens of a state at most; of a longer one the last.
            end_id: a token that stands for what nobody has said.
            states: where the lanes stood, by their number, as `state_dict` gave it.
        """
        self._plan, self._policy = lane_plan, policy
        self._lockstep = Lockstep(policy, services=policy.services)
        self._max_context, self._end = max_context, end_id
        self._before = states
        self._rows: dict[int, LaneTurns] = {}

    def __exit__(self, *error: object) -> None:
        self._lockstep.__exit__(*error)

    def open(self, numbers: Sequence[int]) -> None:
        """Begin the lanes of these numbers with their first episodes, or go on where saved states say that they stood."""
        if self._before:
            lanes = [self._resume(self._before[number]) for number in numbers]
        else:
            lanes = self._lockstep.begin([self._plan.episode(number, 0) for number in numbers])
        self._rows = {number: LaneTurns(lane) for number, lane in zip(numbers, lanes, strict=True)}

    def _resume(self, state: Mapping[str, Any]) -> Lane:
        """Restore a lane from its saved state: its episode is stepped again and its conversation is put back."""
        item = Planned(**state["item"])
        lane = Lane(item, self._lockstep.environment(item.spec), fault=state["fault"])
        if state["walk"] is not None:
            lane.walk = EpisodeWalk.from_json(lane.env, state["walk"])
            self._policy.restore(lane.origin, state["conversation"])
        return lane

    def state_dict(self) -> list[tuple[int, Any]]:
        """Return the state of the lanes, with their numbers, as plain JSON."""
        return [(number, self._state_of(row.lane)) for number, row in self._rows.items()]

    def _state_of(self, lane: Lane) -> dict[str, Any]:
        """Return a lane's state for a checkpoint: its item, fault, walk and conversation."""
        walk, conversation = lane.walk and lane.walk.to_json(), self._policy.conversation_state(lane.origin)
        return {"item": asdict(lane.item), "fault": lane.fault, "walk": walk, "conversation": conversation}

    def stagger(self, limit: int) -> int:
        """Play lane n on for n / lanes of `limit` turns, which are not trained on; return how many turns were played.

        Lanes that all begin at their first turn make the first batches all openings.
        """
        for turn in range(limit):
            self._begin_next()
            self._step([row for at, row in self._rows.items() if turn < at * limit // self._plan.lanes])
        self._forget_contexts()
        return sum(len(row.cut()) for row in self._rows.values())

    def play(self, turns: int) -> tuple[list[list[DataPoint]], dict[str, float]]:
        """Let every lane take so many turns; return data points by lane, and metrics; AgentEnvsError if faults left none.

        Raises:
            AgentEnvsError: faults left no turn at all.
        """
        rows, faults, bootstraps, won = list(self._rows.values()), 0, dict[str, tuple[int, ...]](), set[str]()
        for _ in range(turns):
            self._begin_next()
            self._step(rows)
            faults += sum(bool(row.lane.fault) for row in rows)
            bootstraps |= {row.lane.origin: self._state(row.lane) for row in rows if self._at_a_limit(row)}
            won |= {row.lane.origin for row in rows if row.lane.over and row.lane.result().success}
        lanes = [row.lane for row in rows]
        bootstraps |= {lane.origin: self._state(lane) for lane in lanes if not lane.over}
        lost, ages = sum(row.lost for row in rows), [len(lane.walk.turns) for lane in lanes if lane.walk is not None]
        cuts = [row.cut() for row in rows]
        batch = [self._data_points(steps, bootstraps) for steps in cuts]
        self._forget_contexts()
        points = [point for lane_points in batch for point in lane_points]
        if not points:
            why = next((lane.fault for lane in lanes if lane.fault), "")
            raise AgentEnvsError(f"all turns of {len(lanes)} lanes were lost to faults, the last: {why}")
        successes = [
            step.turn for steps in cuts for step in steps if step.origin in won
        ]  # as far as they lie in this batch
        stats = _stats(points) | turn_means([point.turn for point in points], successes)
        return batch, stats | {"faults": faults, "lost_turns": lost, "lane_age": sum(ages) / max(1, len(ages))}

    def _forget_contexts(self) -> None:
        """Drop the contexts of earlier turns; the conversations stay as they are."""
        for row in self._rows.values():  # those of earlier turns have served: an episode may have thousands
            self._policy.restore(row.lane.origin, self._policy.conversation_state(row.lane.origin))

    def _begin_next(self) -> None:
        """Begin the next trial of each lane whose episode is over, and release the old one."""
        over = [(number, row) for number, row in self._rows.items() if row.lane.over]
        for _, row in over:
            self._lockstep.drop([row.lane])
            self._lockstep.release(row.lane)
        plan = [self._plan.episode(number, row.lane.item.trial + 1) for number, row in over]
        for (_, row), lane in zip(over, self._lockstep.begin(plan), strict=True):
            row.lane, row.whole = lane, len(row.steps)

    def _step(self, rows: Sequence[LaneTurns]) -> None:
        """Step the lanes that are not over, and take in the turns that came."""
        running = [row for row in rows if not row.lane.over]
        self._lockstep.step([row.lane for row in running])
        for row in running:
            row.take(self._policy)

    def _at_a_limit(self, row: LaneTurns) -> bool:
        """Return whether a lane's last turn was truncated, not terminated, and its episode had no fault."""
        lane = row.lane
        last = lane.walk.turns[-1] if lane.walk is not None and row.steps and lane.over and not lane.fault else None
        return last is not None and last.truncated and not last.terminated

    def _state(self, lane: Lane) -> tuple[int, ...]:
        """Return the tokens of a lane's state before the next action; also of one that a limit ended."""
        assert lane.walk is not None
        return self._policy.bootstrap_tokens(lane.walk.state_request())[-self._max_context :]

    def _data_points(self, steps: Sequence[RecordedTurn], bootstraps: dict[str, tuple[int, ...]]) -> list[DataPoint]:
        """Build data points of recorded turns; only an origin's last one, if not terminated, has the tokens of a next state."""
        points = []
        for place, step in enumerate(steps):
            last = place + 1 == len(steps) or steps[place + 1].origin != step.origin
            whole = step.sequence()
            if step.sampled:
                own = tuple(mark and at == step.turn.index for mark, at in zip(whole.trained, whole.turns, strict=True))
                sequence = replace(whole, trained=own)
            else:
                sequence = state_before(whole.ids[-self._max_context :], self._end)
            bootstrap = bootstraps.get(step.origin, ()) if last and not step.turn.terminated else ()
            points.append(DataPoint(step.turn, sequence, not step.sampled, bootstrap))
        return points


def state_before(ids: Sequence[int], end: int) -> TokenSequence:
    """Return `ids` with `end` as the one trained token: the critic's value there is the value of the state."""
    length = len(ids)
    return TokenSequence((*ids, end), (False,) * length + (True,), (0.0,) * (length + 1), (0,) * length + (1,))


def _stats(points: Sequence[DataPoint]) -> dict[str, float]:
    """Compute the metrics of a batch: mean reward, ended episodes, empty turns and token counts."""
    turns = [point.turn for point in points]
    over = sum(turn.terminated or turn.truncated for turn in turns)
    lengths = [sum(point.sequence.trained) for point in points if not point.empty]
    return {
        "reward/turn": sum(turn.reward for turn in turns) / len(turns),
        "episodes_ended": over,
        "empty_turns": sum(point.empty for point in points),
        "tokens/turn": sum(lengths) / max(1, len(lengths)),
        "tokens": sum(len(point.sequence.ids) for point in points),
        "turns": len(turns),
    }
