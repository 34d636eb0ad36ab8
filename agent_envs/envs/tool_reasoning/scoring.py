r"""Reward specs by name, and metrics, score how an episode ended; all read typed turns and the policy's own text.

`hierarchical` is Equation 8 of ARPO (arXiv 2507.19849) as it is written: -1 for a broken format; else the accuracy, and 0.1
more where it is above 0 and both tools were used. Accuracy is whether the answer is right; a tool is used when a call of it is
carried out.
`hierarchical_released` is what the release computes (deep_research.py): accuracy is the word overlap of the box with the gold,
also for mathematics; the bonus asks whether `</search>` and `</python>` stand in the text, and is paid for partial overlap too.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from agent_envs.base.arguments import choice
from agent_envs.base.messages import ToolResult
from agent_envs.base.protocol import Answer, Call
from agent_envs.core.episode import RewardSpec, Share, Term, terms_from
from agent_envs.core.trajectory import Trajectory
from agent_envs.envs.tool_reasoning.actions import PYTHON, SEARCH, TOOLS
from agent_envs.grading.math import boxed
from agent_envs.grading.text_answers import exact_match, says_unknown, token_f1

REWARDS = ("hierarchical", "hierarchical_released", "accuracy", "em", "f1")
BOTH_TOOLS = 0.1  # r_M of Equation 8
OUTCOMES = ("right", "wrong", "out of turns")
LONGEST = 10_000  # characters; a longer answer is none
_NAME = "outcome"
_RATIONAL = re.compile(r"-?\d+(?:/\d+)?", re.ASCII)
# Words right behind a box: `is wrong, it is 7`, `. No, wait`.
_TAKEN_BACK = re.compile(
    r"\W*+(?:(?:is|was|would be) (?:wrong|incorrect|false|not)\b|cannot be\b|isn['’]t\b|wasn['’]t\b|"
    r"(?:no|nope|wait|actually|sorry|oops|wrong|incorrect)\b)",
    re.IGNORECASE,
)
_NUMERAL = re.compile(r"\d+\.?\d*|\.\d+")
_SEPARATOR = re.compile(r"(?<=\d)(?:,|\{,\}|\\[,!])(?=\d{3})")


def final_answer(text: str) -> str:
    r"""Return the judged part of an answer: its last `\boxed{...}`, else all; "" if too long or taken back behind it."""
    inside = boxed(text)
    if inside is not None and _TAKEN_BACK.match(text.rpartition(f"{{{inside}}}")[2]):
        return ""
    return _within_length(text if inside is None else inside)


def _within_length(text: str) -> str:
    """Return a text without space around it; empty if it is too long to be compared."""
    return text.strip() if len(text) <= LONGEST else ""


def worked_out(answer: str, golds: Sequence[str]) -> bool:
    """Return whether a right answer is a number worked out (954, 0.75, 3/4, 1 1/2), no formula; True without rational golds.

    Where no gold is a rational number, any is.
    """
    numbers = [abs(Fraction(gold)) for gold in golds if _RATIONAL.fullmatch(gold)]
    numerals = _NUMERAL.findall(_SEPARATOR.sub("", answer.rpartition("=")[2]))
    if not numbers or not numerals:
        return True
    if len(numerals) > 3:
        return False
    # One numeral, two of a fraction, or three of a mixed number.
    whole, above, below = [[0, *numerals, 1], [0, *numerals], numerals][len(numerals) - 1]
    value = Fraction(whole) + (Fraction(above) / Fraction(below) if Fraction(below) else 0)
    return any(abs(value - number) * 10_000 <= number for number in numbers)  # math-verify takes rounded numbers


def ended(outcome: str) -> ToolResult:
    """Return an outcome as a typed result of the last turn."""
    return ToolResult("", _NAME, "", ids=(outcome,))


def outcome_of(trajectory: Trajectory) -> str:
    """Return one of `OUTCOMES`, "" while the episode lasts."""
    results = trajectory.last.results if trajectory.turns else ()
    return next((result.ids[0] for result in results if not result.call_id and result.name == _NAME), "")


def used(trajectory: Trajectory, name: str) -> int:
    """Count the calls of a tool that were carried out; a program that raised was run, too."""
    results = (result for turn in trajectory.turns for result in turn.results)
    return sum(result.name == name and bool(result.call_id) and not result.error for result in results)


def sound_format(trajectory: Trajectory) -> bool:
    r"""Return whether the last turn is an answer in `\boxed{...}`, all before called tools, and think tags pair up."""
    *before, last = trajectory.turns
    if not isinstance(last.parsed, Answer) or boxed(last.parsed.text) is None:
        return False
    texts = [str(turn.action) for turn in trajectory.turns]
    paired = all(text.count("<think>") == text.count("</think>") for text in texts)
    return paired and all(isinstance(turn.parsed, Call) for turn in before)


def make_reward(name: str) -> RewardSpec:
    """Return a reward: `hierarchical`, `hierarchical_released`, `accuracy`, `em` or `f1`; UsageError for others."""
    if name in ("hierarchical", "hierarchical_released"):
        released = name != "hierarchical"
        measure = "word overlap of the box with a gold answer" if released else "1 for a right answer"
        both = "`</search>` and `</python>` were written" if released else "a search and a program were carried out"
        bounds = {
            "format": (-1.0, 0.0, "-1 for a broken format, or no answer"),
            "accuracy": (0.0, 1.0, f"in a sound format: {measure}"),
            "both_tools": (0.0, BOTH_TOOLS, f"0.1 where that is above 0 and {both}"),
        }
        values = partial(_layers, released=released)
        return RewardSpec(name, terms_from(values, bounds), (-1.0, 1.0 + BOTH_TOOLS))
    simple = {
        "accuracy": ("1 for a right answer", _right),
        "em": ("1 if the answer equals a gold answer after normalisation", _exact_score),
        "f1": ("best F1 of the answer's words against a gold answer", _overlap),
    }
    doc, value = simple[choice("ToolReasoning", "reward", name, REWARDS)]
    return RewardSpec(name, (Term(name, 0.0, 1.0, doc, value, lambda run: bool(outcome_of(run))),), (0.0, 1.0))


def _layers(trajectory: Trajectory, released: bool) -> dict[str, float]:
    """Return the terms that apply once an episode ended, by Equation 8 or `released`: each asks for the one before it."""
    if not outcome_of(trajectory):
        return {}
    if not (_released_format(trajectory) if released else sound_format(trajectory)):
        return {"format": -1.0}
    if released:
        text = _policy_text(trajectory)
        parsed, both = trajectory.last.parsed, "</search>" in text and "</python>" in text
        inside = boxed(parsed.text) if isinstance(parsed, Answer) else None
        accuracy = 0.0 if inside is None else token_f1(_within_length(inside), _gold(trajectory))
    else:
        accuracy, both = _right(trajectory), bool(used(trajectory, SEARCH) and used(trajectory, PYTHON))
    bonus = {"both_tools": BOTH_TOOLS * both} if accuracy > 0 else {}
    return {"format": 0.0, "accuracy": accuracy, **bonus}


def _released_format(trajectory: Trajectory) -> bool:
    r"""Return whether the released format holds: paired think tags, one answer with `\boxed{` in it, all turns answered."""
    text = _policy_text(trajectory)
    pairs = text.count("<think>")
    if not pairs or pairs != text.count("</think>"):
        return False
    if text.count("<answer>") != 1 or text.count("</answer>") != 1:
        return False
    answer = text.partition("<answer>")[2].partition("</answer>")[0]
    return "\\boxed{" in answer and all(turn.results for turn in trajectory.turns)


def _policy_text(trajectory: Trajectory) -> str:
    """Return the policy's texts of all turns, one below the other."""
    return "\n".join(str(turn.action) for turn in trajectory.turns)


def _answer(trajectory: Trajectory) -> str | None:
    """Return the final answer in the last turn; None if that was no answer."""
    parsed = trajectory.last.parsed
    return final_answer(parsed.text) if isinstance(parsed, Answer) else None


def _gold(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the gold answers of a trajectory's task."""
    assert trajectory.task is not None
    return trajectory.task.gold


def _right(trajectory: Trajectory) -> float:
    """Return 1.0 if the episode's outcome is right; else 0.0."""
    return float(outcome_of(trajectory) == "right")


def _exact_score(trajectory: Trajectory) -> float:
    """Return 1.0 if the answer matches a gold one word for word once both are normalised; else 0.0."""
    answer = _answer(trajectory)
    return float(answer is not None and exact_match(answer, _gold(trajectory)))


def _overlap(trajectory: Trajectory) -> float:
    """Return the best token F1 of the answer with a gold one; 0.0 without an answer."""
    answer = _answer(trajectory)
    return 0.0 if answer is None else token_f1(answer, _gold(trajectory))


def metrics(trajectory: Trajectory) -> dict[str, float]:
    """Return the outcome's flags, format, use of both tools, calls of each, and programs that failed."""
    answer, outcome = _answer(trajectory), outcome_of(trajectory)
    abstained = answer is not None and says_unknown(answer)
    counts = {f"{name}_calls": float(used(trajectory, name)) for name in TOOLS}
    programs = [result for turn in trajectory.turns for result in turn.results if result.name == PYTHON and result.ids]
    return {
        "abstained": Share(abstained),
        "wrong": Share(outcome == "wrong" and not abstained),
        "out_of_turns": Share(outcome in ("", "out of turns")),
        "sound_format": Share(sound_format(trajectory)),
        "both_tools": Share(bool(counts[f"{SEARCH}_calls"]) and bool(programs)),
        "failed_programs": float(sum(result.ids[0] != "ok" for result in programs)),
        **counts,
    }
