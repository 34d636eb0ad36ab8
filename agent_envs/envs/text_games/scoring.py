"""Typed facts of each turn of a game feed the four rewards by name and the metrics of reports."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_envs.base.messages import ToolResult
from agent_envs.core.episode import RewardSpec, Share, Term
from agent_envs.core.trajectory import Trajectory, Turn

MOVE = "move"  # the name of the typed result that every turn of a game carries
PENALTY = 0.1  # of an invalid turn (Verlog's released configuration)


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """The facts of a turn for rewards: the action, whether the turn named none, and what the game says."""

    action: str
    invalid: bool
    reward: float
    progress: float
    won: bool


def typed(facts: TurnFacts) -> ToolResult:
    """Return the facts as the typed result of their turn. Floats travel as their shortest text, which is exact."""
    ids = (facts.action, repr(float(facts.reward)), repr(float(facts.progress)), "won" if facts.won else "")
    return ToolResult("", MOVE, facts.action, facts.invalid, ids)


def facts_of(turn: Turn) -> TurnFacts:
    """Return the facts of a turn."""
    result = turn.results[0]
    action, reward, progress, won = result.ids
    return TurnFacts(action, result.error, float(reward), float(progress), bool(won))


def metrics_of(trajectory: Trajectory) -> dict[str, float]:
    """Return the share of valid turns, the newest turn's progression and the sum of native rewards; needs a turn at least."""
    facts = [facts_of(turn) for turn in trajectory.turns]
    return {
        "valid_actions": Share(sum(not fact.invalid for fact in facts) / len(facts)),
        "progression": Share(facts[-1].progress),
        "native_return": round(sum(fact.reward for fact in facts), 9),
    }


def _value_of_turn(value: Callable[[TurnFacts], Any]) -> Callable[[Trajectory], Any]:
    """Return a term's value, or whether it applies, by the facts of the newest turn."""
    return lambda trajectory: value(facts_of(trajectory.last))


REWARDS = ("binary", "native", "format_penalty", "format_penalty_released")


def reward_of(
    name: str, native: tuple[float, float], native_episode: tuple[float, float], max_turns: int
) -> RewardSpec:
    """Return a reward: the game's own for `native`, else 1 for success, less 0.1 an invalid turn in `format_penalty...`.

    `binary` pays 1 for success. `native` is the game's own. `format_penalty` adds -0.1 for each invalid turn to `binary`;
    `format_penalty_released` is Verlog's release, where the penalty takes the place of the step's reward.
    """
    won = Term("success", 0.0, 1.0, "1 when the goal is reached", _value_of_turn(lambda facts: float(facts.won)))
    doc = f"-{PENALTY} for a turn without a valid action"
    penalty = Term("invalid", -PENALTY, 0.0, doc, _value_of_turn(lambda facts: -PENALTY if facts.invalid else 0.0))
    if name == "native":
        paid = Term("native", *native, "the game's own reward", _value_of_turn(lambda facts: facts.reward))
        return RewardSpec(name, (paid,), native_episode)
    if name == "binary":
        return RewardSpec(name, (won,), (0.0, 1.0))
    if name == "format_penalty_released":
        valid, doc = _value_of_turn(lambda facts: not facts.invalid), "1 when a valid turn reaches the goal"
        won = Term("success", 0.0, 1.0, doc, _value_of_turn(lambda facts: facts.won and not facts.invalid), valid)
    return RewardSpec(name, (won, penalty), (-PENALTY * max_turns, 1.0))
