"""Per-episode metrics of the calculator tasks, over trajectories made by hand."""

import pytest

from agent_envs.base.messages import Message, ToolResult
from agent_envs.core.trajectory import Header, Task, Trajectory, Turn
from agent_envs.envs.expa.actions import Latent, Refusal
from agent_envs.envs.expa.calculator.calculator import Calculator
from agent_envs.envs.expa.calculator.metrics import (
    calculator_metrics,
    count_planning_phrases,
    planning_phrases,
    planning_version,
)
from agent_envs.envs.expa.generated import CalcData
from tests.rows import each_row

INTERACTIONS, UNKNOWN, STRICT = "interactions", "hallucinated operands", "hallucinated operands, strict"
PLANNING = "planning phrases (list 1)"


def call(expression, name="calculator"):
    observation, _, ids = Calculator().call(Latent(), expression)
    return ToolResult("call_0", name, observation, isinstance(observation, Refusal), ids)


def episode(*turns, given=("12", "6", "3"), target="", kind="countdown"):
    """Each turn is (action, expressions called), or an action alone."""
    made = []
    for index, turn in enumerate(turns, start=1):
        action, *expressions = turn if isinstance(turn, tuple) else (turn,)
        results = tuple(item if isinstance(item, ToolResult) else call(item) for item in expressions)
        shown = tuple(Message("user", result.content, "tool") for result in results)
        made.append(Turn(index, "key/", action, None, shown, results))
    task = Task("t-0", "test", "?", ("1",), data=CalcData(kind, given, target))
    header = Header("Countdown-v0", "", task.id, "test", "", 0, "key")
    return Trajectory(header, (), tuple(made), task)


def counts(*turns, **data):
    return calculator_metrics(episode(*turns, **data))


def operands(*expressions, **data):
    found = counts(*((1, expression) for expression in expressions), **data)
    return found[UNKNOWN], found[STRICT]


def test_both_faces_of_one_episode_have_the_same_counts():
    text = counts(
        ("Too small. <calculator>12+6</calculator>", "12+6"),
        ("<calculator>18*7</calculator>", "18*7"),
        ("<calculator>1/0</calculator>", "1/0"),
        "So far so good.\n#### 18",
    )
    expanded = counts(
        "Too small.", " ", 1, 3, 2, (4, "12+6"), 1, 5, (4, "18*7"), 1, (4, "1/0"), "So far so ", "good.\n#### 18", 0
    )  # fmt: skip
    assert all(isinstance(value, float) for value in text.values())
    assert text == {INTERACTIONS: 3, UNKNOWN: 3, STRICT: 4, PLANNING: 2}
    assert expanded == text


@each_row(
    ("expressions", "unknown", "strict"),
    [
        ([], 0, 0),
        (["12+6*3"], 0, 0),
        (["12+6", "18/3"], 0, 1),
        (["18/3", "12+6"], 1, 1),
        (["12+18", "12+6", "18+18"], 1, 3),
        (["7+7+7"], 3, 3),
        (["12.0+6.000"], 0, 0),
        (["3-12", "-9+12"], 0, 1),
        (["3-12", "9+12"], 0, 1),
        (["-12*-3"], 0, 0),
        (["3/12*3", "0.75+0.750"], 0, 2),
        (["12/6/6/6", "0.056*3"], 0, 1),
        (["12/6/6/6", "0.0556*3"], 1, 1),
        (["3/12/12/12", "0.002+3"], 0, 1),
        (["3/12/12", "0.0208333+3"], 1, 1),
        (["3/(12+12+12+12)", "0.0625+0.062"], 0, 2),
        (["12/3", "2*4", "8+8"], 1, 4),
        (["1*12"], 1, 1),
        (["5/0", "5+12"], 3, 3),
        (["12+6 apples", "18+3"], 1, 1),
        (["1,000+3"], 0, 0),
        (["12+"], 0, 0),
        (["5+"], 1, 1),
        (["9" * 41 + "+3", "1+" * 300], 0, 0),
    ],
)
def test_which_operands_are_hallucinated(expressions, unknown, strict):
    assert operands(*expressions) == (unknown, strict)


def test_the_target_and_signed_or_decimal_numbers_of_the_question_are_given():
    assert operands("100-12", given=("12",), target="100") == (0, 0)
    assert operands("100-12", given=("12",)) == (1, 1)
    assert operands("12.5+4.5-45", given=("-12.500", "4.5"), target="-45") == (0, 0)
    assert operands("98765432109876543210+1", given=("98765432109876543210",)) == (1, 1)


def test_only_the_calculator_counts():
    other = ToolResult("call_0", "compare", "A < B", False, ("A", "B"))
    assert counts((1, other), (2, call("5+5")))[INTERACTIONS] == 1
    refused = ToolResult("call_0", "calculator", "Error: there is no calculator in this task", True, ())
    assert counts((1, refused)) == {INTERACTIONS: 1, UNKNOWN: 0, STRICT: 0, PLANNING: 0}


def test_phrases_run_across_turns_of_text_but_not_across_results():
    assert counts("this is too", " sma", "ll, let", "\nme try")[PLANNING] == 2
    assert counts("this is too", 1, (2, "12+6"), " small")[PLANNING] == 0
    assert counts(("this is too", "12+6"), " small")[PLANNING] == 0
    assert counts("too", "\n\n", "small")[PLANNING] == 1


def test_only_what_the_policy_wrote_is_searched():
    made = counts(("a", ToolResult("call_0", "calculator", "too small", True, ("too small",))))
    assert made[PLANNING] == 0


@each_row(
    ("text", "count"),
    [
        ("", 0),
        ("Too small! TOO SMALL; too  small", 2),
        ("too smaller, tootoo small, not_too small", 0),
        ("That didn’t work. That didn't work.", 2),
        ("instead, instead-instead (instead)", 4),
        ("let me try another", 1),
        ("let me try, try another", 2),
        ("too small too big", 2),
    ],
)
def test_counting_phrases(text, count):
    assert count_planning_phrases(text) == count


def test_the_list_is_versioned_plain_and_without_repeats():
    phrases = planning_phrases()
    assert planning_version() == 1
    assert 55 <= len(phrases) == len(set(phrases)) <= 75
    for phrase in phrases:
        assert phrase == " ".join(phrase.lower().split())
        assert phrase.replace(" ", "").replace("'", "").isalpha()
        assert count_planning_phrases(f"So, {phrase.upper()}. ") == 1
        assert not any(other.startswith(f"{phrase} ") for other in phrases)


@pytest.mark.parametrize("part", ["too ", "let me ", "t", "too small", "\n", "’", "so far so ", "İ"])
def test_megabytes_are_counted(part):
    text = (part * 1_000_000)[:1_000_000]
    found = counts(text, text)
    assert found[PLANNING] == {"so far so ": 200_000}.get(part, 0)
