"""Batches of a fixed number of turns are played in lanes, which go on from batch to batch, wherever their episodes are.

A turn is a data point: what the policy was shown, and what it said. Where an episode ends its lane begins the next one at
once; where a batch or a limit cuts it, the state behind the cut is kept, for a critic to judge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from agent_envs.base.errors import AgentEnvsError
from agent_envs.core.trajectory import Turn
from agent_envs.evaluation.runs.episode_numbers import valid_turn
from agent_envs.rollout.run_log import Planned
from trainers.contracts import TokenSequence
from trainers.engine_policy import EnginePolicy
from trainers.environments import tasks_at
from trainers.lanes import Lane, Lanes, Step
from trainers.training.optimise import Ratio


@dataclass(frozen=True, slots=True)
class Point:
    """A turn as a data point.

    Attributes:
        turn: as it was recorded.
        sequence: the context and the turn; its trained tokens are the turn's. In an empty turn that is one that nobody said.
        empty: the policy had no room to say anything.
        ahead: the tokens of the state behind a cut, of a batch or a limit; () where the next turn goes on or all is over.
    """

    turn: Turn
    sequence: TokenSequence
    empty: bool
    ahead: tuple[int, ...] = ()


@dataclass(frozen=True)
class Course:
    """What lanes play.

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


class FixedTurns:
    """The lanes of one process. Use it as a context manager: it has threads."""

    def __init__(
        self,
        course: Course,
        policy: EnginePolicy,
        max_context: int,
        end_id: int,
        moments: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        """Take what is played and by whom.

        Args:
            course: what is played.
            policy: who plays.
            max_context: tokens of a state at most; of a longer one the last.
            end_id: a token that stands for what nobody has said.
            moments: where the lanes stood, by their number, as `moments` gave it.
        """
        self._course, self._policy, self._lanes = course, policy, Lanes(policy)
        self._max_context, self._end = max_context, end_id
        self._before = moments
        self._row: dict[int, Lane] = {}

    def __enter__(self) -> "FixedTurns":
        self._lanes.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._lanes.__exit__(*error)

    def open(self, numbers: Sequence[int]) -> None:
        """Begin the lanes of these numbers, or go on where they stood."""
        if self._before:
            lanes = self._lanes.restored([self._before[number] for number in numbers])
        else:
            lanes = self._lanes.open([self._course.episode(number, 0) for number in numbers])
        self._row = dict(zip(numbers, lanes, strict=True))

    def moments(self) -> list[tuple[int, Any]]:
        """Return where the lanes stand, with their numbers, as plain JSON."""
        return list(zip(self._row, self._lanes.moments(list(self._row.values())), strict=True))

    def stagger(self, limit: int) -> int:
        """Play each lane on, by its number, for a part of `limit` turns that nobody learns from; return how many there were.

        Lanes that all begin at their first turn make the first batches all openings.
        """
        for turn in range(limit):
            self._go_on()
            self._lanes.turn([lane for at, lane in self._row.items() if turn < at * limit // self._course.lanes])
        taken = sum(map(len, self._lanes.cut(list(self._row.values()))))
        self._forget_contexts()
        return taken

    def play(self, turns: int) -> tuple[list[list[Point]], dict[str, float]]:
        """Let every lane take so many turns, and return those of each lane, and what the batch was like.

        Raises:
            AgentEnvsError: faults left no turn at all.
        """
        row, faults, ahead = list(self._row.values()), 0, dict[str, tuple[int, ...]]()
        for _ in range(turns):
            self._go_on()
            self._lanes.turn(row)
            faults += sum(bool(lane.fault) for lane in row)
            ahead |= {lane.origin: self._state(lane) for lane in row if self._at_a_limit(lane)}
        ahead |= {lane.origin: self._state(lane) for lane in row if not lane.over}
        lost, ages = sum(lane.lost for lane in row), [len(lane.walk.turns) for lane in row if lane.walk is not None]
        found = [self._points(steps, ahead) for steps in self._lanes.cut(row)]
        self._forget_contexts()
        points = [point for lane in found for point in lane]
        if not points:
            why = next((lane.fault for lane in row if lane.fault), "")
            raise AgentEnvsError(f"all turns of {len(row)} lanes were lost to faults, the last: {why}")
        return found, _told(points) | {"faults": faults, "lost_turns": lost, "lane_age": sum(ages) / max(1, len(ages))}

    def _forget_contexts(self) -> None:
        for lane in self._row.values():  # those of earlier turns have served: an episode may have thousands
            self._policy.restore(lane.origin, self._policy.moment(lane.origin))

    def _go_on(self) -> None:
        over = {number: lane for number, lane in self._row.items() if lane.over}
        plan = [self._course.episode(number, lane.item.trial + 1) for number, lane in over.items()]
        self._lanes.again(list(over.values()), plan)

    def _at_a_limit(self, lane: Lane) -> bool:
        last = lane.walk.turns[-1] if lane.walk is not None and lane.steps and lane.over and not lane.fault else None
        return last is not None and last.truncated and not last.terminated

    def _state(self, lane: Lane) -> tuple[int, ...]:
        return self._lanes.ahead(lane)[-self._max_context :]

    def _points(self, steps: Sequence[Step], ahead: dict[str, tuple[int, ...]]) -> list[Point]:
        found = []
        for place, step in enumerate(steps):
            last = place + 1 == len(steps) or steps[place + 1].origin != step.origin
            whole = step.sequence()
            if step.sampled:
                own = tuple(kept and at == step.turn.index for kept, at in zip(whole.trained, whole.turns, strict=True))
                sequence = replace(whole, trained=own)
            else:
                sequence = state_before(whole.ids[-self._max_context :], self._end)
            shown = ahead.get(step.origin, ()) if last and not step.turn.terminated else ()
            found.append(Point(step.turn, sequence, not step.sampled, shown))
        return found


def state_before(ids: Sequence[int], end: int) -> TokenSequence:
    """Return a sequence whose one trained token, which nobody said, stands behind `ids`: its value is that of the state."""
    length = len(ids)
    return TokenSequence((*ids, end), (False,) * length + (True,), (0.0,) * (length + 1), (0,) * length + (1,))


def _told(points: Sequence[Point]) -> dict[str, float]:
    turns = [point.turn for point in points]
    over = sum(turn.terminated or turn.truncated for turn in turns)
    lengths = [sum(point.sequence.trained) for point in points if not point.empty]
    return {
        "reward/turn": sum(turn.reward for turn in turns) / len(turns),
        "valid_actions": Ratio(sum(map(valid_turn, turns)), len(turns)),
        "episodes_ended": over,
        "empty_turns": sum(point.empty for point in points),
        "tokens/turn": sum(lengths) / max(1, len(lengths)),
        "tokens": sum(len(point.sequence.ids) for point in points),
        "turns": len(turns),
    }
