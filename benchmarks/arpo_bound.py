"""Branching saves tool calls within a bound: of M leaves from N roots at most 1 - N/M, and that only behind the last call.

    python -m benchmarks.arpo_bound --out benchmarks/results/arpo_bound.json

Episodes are scripted: each has the same number of calls and an answer after them, and nobody is asked for a token. The trees
are those of `trainers.arpo_parts`, with the rule `random` at a chance for every node. Told are the share of calls that
are saved against whole rollouts, and how turns grow where leaves and calls grow together: the paper says that branching brings
the cost of n rollouts of n tokens from O(n^2) to between O(n log n) and O(n^2).
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_envs.base.messages import ToolResult
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.policy import origin_of
from benchmarks.training_runs import about
from trainers.arpo_parts import BranchingSettings, TaskTree, grow

CALLS, CHANCES = (1, 2, 3, 4, 6), (0.5, 1.0)
HEADER = Header("agent_envs/Scripted-v0", "", "0", "train", "", 0, "")

Script = Callable[[str, int], Turn]


@dataclass
class ScriptedWalk:
    """A walk without an environment: `script` gives each turn from its origin and number."""

    header: Header
    script: Script
    turns: list[Turn] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether the newest turn was the last."""
        return bool(self.turns) and self.turns[-1].terminated

    def result(self) -> EpisodeResult:
        """Return the record."""
        return EpisodeResult(Trajectory(self.header, (), tuple(self.turns)), "terminated")


@dataclass
class ScriptedLane:
    """A lane of a scripted walk."""

    walk: ScriptedWalk
    fault: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing follows."""
        return bool(self.fault) or self.walk.over

    @property
    def origin(self) -> str:
        """The name of its conversation."""
        return origin_of(self.walk.header.episode_key, self.walk.header.branch)


class ScriptedLockstep:
    """A lockstep of scripted walks, with the methods that `grow` calls.

    Attributes:
        turns: that were taken.
    """

    def __init__(self, script: Script, fails: Callable[[str, int], bool] = lambda origin, turn: False) -> None:
        """Take the turns, and where an outside service fails."""
        self.turns, self._script, self._fails = 0, script, fails

    def begin(self, plan: Sequence[Planned]) -> list[ScriptedLane]:
        """Return a lane for each episode."""
        return [ScriptedLane(ScriptedWalk(replace(HEADER, episode_key=item.key), self._script)) for item in plan]

    def fork(self, lane: ScriptedLane, branch: str) -> ScriptedLane:
        """Return a lane that goes on by itself."""
        above = lane.walk.header.branch
        header = replace(lane.walk.header, branch=f"{above}.{branch}" if above else branch)
        return ScriptedLane(ScriptedWalk(header, self._script, list(lane.walk.turns)))

    def drop(self, lanes: Sequence[ScriptedLane]) -> None:
        """Drop lanes; nothing of them is stored here."""

    def step(self, lanes: Sequence[ScriptedLane]) -> None:
        """Step every lane by one turn."""
        for lane in lanes:
            number = len(lane.walk.turns) + 1
            if self._fails(lane.origin, number):
                lane.fault = "scripted"
                continue
            lane.walk.turns.append(replace(self._script(lane.origin, number), index=number, origin=lane.origin))
            self.turns += 1


def script_of_calls(calls: int) -> Script:
    """Return the script of an episode with so many calls and an answer after them."""
    call = Turn(0, "", "", None, (), (ToolResult("1", "search", ""),), entropies=(1.0,))
    answer = replace(call, results=(), terminated=True)
    return lambda origin, turn: answer if turn > calls else call


def plan_of(tasks: int, leaves: int, key: str = "s") -> list[Planned]:
    """Return the plan of so many tasks with so many episodes each."""
    return [Planned(f"{key}/{task}/{leaf}", "", 0, "train", 0) for task in range(tasks) for leaf in range(leaves)]


def grow_scripted(calls: int, leaves: int, settings: BranchingSettings, tasks: int) -> tuple[list[TaskTree], int]:
    """Return scripted trees and how many turns they took."""
    lockstep = ScriptedLockstep(script_of_calls(calls))
    return grow(plan_of(tasks, leaves), lockstep, settings, 10), lockstep.turns  # type: ignore[arg-type]


def call_savings(calls: int, chance: float, *, leaves: int = 16, roots: int = 8, tasks: int = 2000) -> float:
    """Return the share of calls that trees save against whole rollouts."""
    settings = BranchingSettings("random", roots=roots, chance=chance)
    _, turns = grow_scripted(calls, leaves, settings, tasks)
    return 1 - (turns - leaves * tasks) / (calls * leaves * tasks)  # every leaf has one answer of its own


def exponent(chance: float, sizes: Sequence[int] = (4, 8, 16, 32), tasks: int = 200) -> float:
    """Return the slope of log turns over log n, where n is leaves and turns of an episode, and half of them are roots."""
    points = []
    for size in sizes:
        _, turns = grow_scripted(size - 1, size, BranchingSettings("random", roots=size // 2, chance=chance), tasks)
        points.append((math.log(size), math.log(turns / tasks)))
    middle = [sum(values) / len(points) for values in zip(*points, strict=True)]
    across = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
    return across / sum((x - middle[0]) ** 2 for x, _ in points)


def main() -> None:
    """Print the tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the figures here")
    args = parser.parse_args()
    tables: dict[str, Any] = {"bound": 0.5, "saved": {}, "exponent": {}}
    for chance in CHANCES:
        shares = {str(calls): round(call_savings(calls, chance), 4) for calls in CALLS}
        tables["saved"][str(chance)] = shares
        tables["exponent"][str(chance)] = round(exponent(chance), 3)
        row = ", ".join(f"{calls} calls {-100 * share:+.0f} %" for calls, share in shares.items())
        print(f"chance {chance}: {row}; exponent {tables['exponent'][str(chance)]}")
    if args.out:
        provenance = about("python -m benchmarks.arpo_bound --out benchmarks/results/arpo_bound.json")
        args.out.write_text(json.dumps({"about": provenance, **tables}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
