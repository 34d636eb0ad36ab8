"""Answers are read and rewarded alike in the text and the ExpA environments, by every named reward function."""

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task
from agent_envs.envs.expa.generated import CalcData, Derivation
from agent_envs.envs.expa.sorting.tasks import SortData
from tests.rows import each_row


def number_task(gold, kind="arithmetic"):
    return Task("t", "test", "What is it?", (gold,), "t", CalcData(kind, ("6", "7")), Derivation((), gold))


def countdown_task(target="24"):
    return Task(
        "t", "test", "Make it.", ("(8-2)*(1+3)",), "t", CalcData("countdown", ("1", "2", "3", "8"), target),
        Derivation(("(8-2)*(1+3)",), "(8-2)*(1+3)"),
    )  # fmt: skip


def paid(task, text, env="Arithmetic", **arguments):
    """Return what a text earns on both faces; they must agree."""
    earned = []
    for name in (env, f"{env}ExpA"):
        core = gym.make(f"agent_envs/{name}-v0", **arguments).unwrapped
        core.reset(seed=0, options={"task": task})
        core.step(text)
        if name.endswith("ExpA"):
            core.step(0)
        earned.append((core.trajectory.total_reward, core.episode.success))
        if not core.episode.over:
            assert name == env and earned[-1] == (0.0, False)
    assert earned[0] == earned[1]
    return earned[0]


@each_row(
    ("text", "gold", "em", "exact", "numeric", "released"),
    [
        ("#### 42", "42", 1, 1, 1, 1),
        ("####42", "42", 1, 1, 1, 1),
        ("So 6*7.\n#### 42.", "42", 1, 1, 1, 1),
        ("#### 1,234", "1234", 1, 1, 1, 1),
        ("#### 42.0", "42", 1, 0, 1, 1),
        ("#### $42", "42", 1, 0, 1, 0),
        ("#### 84/2", "42", 0, 0, 1, 0),
        ("#### 42 apples", "42", 1, 0, 1, 1),
        ("#### 2.5", "2.500", 1, 1, 1, 1),
        ("#### 2.500", "2.500", 1, 1, 1, 1),
        ("#### 41\nNo:\n#### 42", "42", 1, 1, 1, 1),
        ("#### 42\nNo:\n#### 41", "42", 0, 0, 0, 0),
        ("#### -42", "42", 0, 0, 0, 0),
        ("#### 1.2.3", "42", 0, 0, 0, 0),
        ("42", "42", 0, 0, 0, 0),
        ("####  42", "42", 1, 1, 1, 0),
        ("####\n42", "42", 1, 0, 1, 0),
        ("#### ,42", "42", 0, 0, 0, 0),
        ("#### 9,5", "95", 0, 0, 0, 1),  # the release drops every comma
        ("#### 0,5", "5", 0, 0, 0, 1),
        ("#### 12,34", "1234", 0, 0, 0, 1),
        ("#### 1234,567", "1234567", 0, 0, 0, 1),
        ("#### 1,23,456", "123456", 0, 0, 0, 1),
        ("#### 1,234,567", "1234567", 1, 1, 1, 1),
        ("#### -1,234.500", "-1234.500", 1, 1, 1, 1),
        ("#### 0,125", "125", 0, 0, 0, 1),
    ],
)
def test_number_answers(text, gold, em, exact, numeric, released):
    for reward, wanted in (("em", em), ("exact", exact), ("numeric", numeric), ("released", released)):
        total, success = paid(number_task(gold), text, reward=reward)
        assert total == wanted, reward
        assert success == bool(em), "success is exact match, whatever is paid"


@each_row(
    ("text", "em", "numeric"),
    [
        ("#### (8-2)*(1+3)", 1, 1),
        ("#### (3+1)*(8-2)", 1, 1),
        ("#### (8-2)*(1+3) = 24", 0, 1),
        ("#### (8-2)*(1+3) = 999", 0, 0),
        ("#### (8-2)*(1+3)*1", 0, 0),
        ("#### 24", 0, 0),
        ("#### 8*3*1", 0, 0),
        ("#### 8*3*(2-1)", 1, 1),
        ("#### __import__('os')", 0, 0),
        ("#### 8*3**2", 0, 0),
    ],
)
def test_countdown_answers(text, em, numeric):
    assert paid(countdown_task(), text, "Countdown")[0] == em
    assert paid(countdown_task(), text, "Countdown", reward="numeric")[0] == numeric
    assert paid(countdown_task(), text, "Countdown", reward="released")[0] == em


def test_released_countdown_reads_the_first_mark_and_forgives_a_hundred_thousandth():
    two = "#### (8-2)*(1+3)\n#### 8"
    assert paid(countdown_task(), two, "Countdown", reward="released")[0] == 1
    assert paid(countdown_task(), two, "Countdown")[0] == 0
    close = countdown_task("24.000005")
    assert paid(countdown_task("24.00005"), "#### (8-2)*(1+3)", "Countdown", reward="released")[0] == 0
    assert paid(close, "#### (8-2)*(1+3)", "Countdown", reward="released")[0] == 1
    assert paid(close, "#### (8-2)*(1+3)", "Countdown")[0] == 0


def test_the_format_reward_pays_little_for_a_sound_wrong_answer():
    for text, wanted in (
        ("#### 42", 1),
        ("#### $42", 1),  # no pay for the form of a wrong answer beside it
        ("Hm.\n#### 41", 0.1),
        ("#### 41\n#### 40", 0),
        ("#### 41\nor so", 0),
        ("41", 0),
    ):
        assert paid(number_task("42"), text, reward="em_format")[0] == pytest.approx(wanted)


def test_no_number_runs_across_what_an_environment_appended():
    core = gym.make("agent_envs/ArithmeticExpA-v0").unwrapped
    core.reset(seed=0, options={"task": number_task("42")})
    for action in ("#### 4", 1, 3, 19, "2", 0):  # the calculator, its button 1, and =
        core.step(action)
    assert core.episode.over and not core.episode.success
    assert core.history.startswith("#### 4 calculate 1=1\n2")


def test_an_answer_in_several_pieces_of_text_is_one_answer():
    core = gym.make("agent_envs/ArithmeticExpA-v0").unwrapped
    core.reset(seed=0, options={"task": number_task("42")})
    for action in ("##", "## ", "4", "2", 0):
        core.step(action)
    assert core.episode.success


def sort_task(values, descending=False, kind="sort", gold=None):
    order = sorted(range(len(values)), key=lambda place: values[place], reverse=descending)
    text = gold or ", ".join("ABCDEFGH"[place] for place in order)
    return Task("t", "test", "", (text,), "t", SortData(kind, len(values), descending, ()), tuple(values))


def play(env, task, actions, **arguments):
    core = gym.make(f"agent_envs/{env}-v0", **arguments).unwrapped
    core.reset(seed=0, options={"task": task})
    for action in actions:
        core.step(action)
    assert core.episode.over
    return core


@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_judged_by_the_arrangement(descending):
    right = ["<swap>A, B</swap>"] if not descending else ["<swap>B, C</swap>"]
    task = sort_task((1, 0, 2), descending) if not descending else sort_task((2, 0, 1), True)
    end = "<answer>finished</answer>"
    assert play("Sort", task, [*right, end]).episode.success
    assert not play("Sort", task, [end]).episode.success
    assert not play("Sort", task, [*right, *right, end]).episode.success


def test_fixed_falls_with_every_call_and_wrong_order_pays_nothing():
    task, end = sort_task((1, 0, 2)), "<answer>finished</answer>"
    few = play("Sort", task, ["<swap>A, B</swap>", end]).trajectory.total_reward
    more = play("Sort", task, ["<compare>A, B</compare>", "<swap>A, B</swap>", end]).trajectory.total_reward
    most = play("Sort", task, ["<compare>A, A</compare>"] * 2 + ["<swap>A, B</swap>", end]).trajectory.total_reward
    assert 1 >= few > more > most > 0.5
    assert play("Sort", task, ["<compare>A, B</compare>", end]).trajectory.total_reward == 0


def test_refused_calls_cost_nothing_and_earn_nothing():
    task, end = sort_task((1, 0, 2)), "<answer>finished</answer>"
    plain = play("Sort", task, ["<swap>A, B</swap>", end]).trajectory.total_reward
    refused = play("Sort", task, ["<swap>A, A</swap>", "<compare>A</compare>", "<swap>A, B</swap>", end])
    assert refused.trajectory.total_reward == plain


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("A < B", False),
        ("A > B", True),
        ("B < A", True),
        (" B<A ", True),
        ("A = B", False),
        ("B > A", False),
        ("A", False),
    ],
)
def test_compare_tasks_are_answered(answer, right):
    task = sort_task((1, 0), kind="compare", gold="A > B")
    text = play("Order", task, ["<compare>A, B</compare>", f"<answer>{answer}</answer>"])
    expanded = play("OrderExpA", task, [1, 3, 4, f"<answer>{answer}</answer>", 0])
    assert text.episode.success == expanded.episode.success == right
    assert text.trajectory.total_reward == expanded.trajectory.total_reward


def test_the_limit_judges_the_arrangement_on_the_text_face_too():
    task = sort_task((1, 0, 2))
    core = play("Sort", task, ["hm", "<swap>A, B</swap>"], max_generations=2)
    assert core.episode.turns[-1].truncated and core.episode.success and core.trajectory.total_reward > 0.5
    assert not play("Sort", task, ["<swap>A, B</swap>", "<swap>A, B</swap>"], max_generations=2).episode.success


def test_compare_answers_are_the_last_complete_ones_and_a_guess_is_paid_as_one():
    task = sort_task((1, 0), kind="compare", gold="A > B")
    said = "<answer>A < B</answer> no, <answer>A > B</answer> as I wrote in <answer>"
    assert play("OrderExpA", task, [1, 3, 4, said, 0]).episode.success
    right = "<answer>A > B</answer>"
    best = play("Order", task, ["<compare>A, B</compare>", right]).trajectory.total_reward
    guess = play("Order", task, [right]).trajectory.total_reward
    dummy = play("Order", task, ["<compare>A, A</compare>", right]).trajectory.total_reward
    assert best == 1 > guess == dummy


@pytest.mark.parametrize(("answer", "right"), [("4,2", False), ("1,234", True), ("12,34", False), ("1,2,3,4", False)])
def test_commas_stand_between_thousands(answer, right):
    assert paid(number_task("1234" if "3" in answer else "42"), f"#### {answer}")[0] == right


def test_bounds_are_those_of_the_formulas():
    for name in ("Arithmetic", "Countdown", "Sort", "Order"):
        rewards = ("fixed", "released", "success") if name in ("Sort", "Order") else ("em", "numeric", "released")
        for reward in rewards:
            spec = gym.make(f"agent_envs/{name}-v0", reward=reward).unwrapped.reward_spec
            assert spec.episode == (0.0, 1.0) and (spec.low, spec.high) == (0.0, 1.0)


def test_unknown_rewards_name_the_known_ones():
    with pytest.raises(UsageError, match=r"Arithmetic: reward='f1'; give one of em, exact, numeric"):
        gym.make("agent_envs/Arithmetic-v0", reward="f1")
    with pytest.raises(UsageError, match=r"SortExpA: reward='em'; give one of fixed, released"):
        gym.make("agent_envs/SortExpA-v0", reward="em")
