"""Every outcome of every reward, by hand-made episodes of the real environment."""

import gymnasium as gym
import pytest

from agent_envs.core.trajectory import Task
from agent_envs.envs.tool_reasoning.scoring import worked_out
from tests.rows import each_row

PAIRED = "<think>so</think>\n"


def played(*actions, reward="hierarchical", gold=("1/2", "one half"), **arguments):
    """Play the actions on a task with this gold; return the env and what the last step gave."""
    env = gym.make("agent_envs/ToolReasoning-v0", reward=reward, **arguments)
    task = env.unwrapped.source.get("test", 1)
    asked = Task("t", "test", "How much?", gold, data=task.data, hidden=())
    env.reset(seed=0, options={"task": asked})
    for action in actions:
        last = env.step(action)
    return env, last


SEARCH, RUN = f"{PAIRED}<search>streets</search>", f"{PAIRED}<python>print(1)</python>"
RIGHT, WRONG = f"{PAIRED}<answer>\\boxed{{0.5}}</answer>", f"{PAIRED}<answer>\\boxed{{3}}</answer>"


@each_row(
    ("actions", "reward", "success"),
    [
        ((RIGHT,), 1.0, True),
        ((SEARCH, RIGHT), 1.0, True),
        ((SEARCH, RUN, RIGHT), 1.1, True),
        ((RUN, SEARCH, RIGHT), 1.1, True),
        ((SEARCH, RUN, WRONG), 0.0, False),
        ((WRONG,), 0.0, False),
        # the format: a box, an action in every turn, paired thoughts
        ((f"{PAIRED}<answer>0.5</answer>",), -1.0, True),
        (("hm", RIGHT), -1.0, True),
        (("<think>so <search>a</search>", RIGHT), -1.0, True),
        (("<answer>\\boxed{0.5}</answer>",), 1.0, True),
        ((f"{PAIRED}<answer>\\boxed{{0.5",), -1.0, False),
        ((f"{PAIRED}<answer>\\boxed{{3}} or \\boxed{{0.5}}",), 1.0, True),
        # a program that raised was run; a call that was refused was not
        ((SEARCH, f"{PAIRED}<python>1/0</python>", RIGHT), 1.1, True),
        ((f"{PAIRED}<search> </search>", RUN, RIGHT), 1.0, True),
        ((f"{PAIRED}<browse>w-0001</browse>", RUN, RIGHT), 1.0, True),
    ],
)
def test_equation_8_as_written(actions, reward, success):
    _, (_, total, terminated, _, info) = played(*actions)
    assert (total, terminated, info["success"]) == (pytest.approx(reward), True, success)
    assert sum(info["reward_terms"].values()) == pytest.approx(total)


@each_row(
    ("actions", "reward"),
    [
        ((RIGHT,), 0.0),  # 0.5 and 1/2 share no word: the release compares words
        ((f"{PAIRED}<answer>\\boxed{{one half}}</answer>",), 1.0),
        ((f"{PAIRED}<answer>\\boxed{{half}}</answer>",), 2 / 3),
        ((SEARCH, RUN, f"{PAIRED}<answer>\\boxed{{half}}</answer>"), 2 / 3 + 0.1),
        # the bonus is for the words, wherever they stand and whatever came of them
        (("<think></search></python></think><answer>\\boxed{one half}</answer>",), 1.1),
        ((SEARCH, RUN, WRONG), 0.0),
        (("<answer>\\boxed{one half}</answer>",), -1.0),  # no thought
        ((f"{PAIRED}<answer>\\boxed{{no half}}</answer>",), 1 / 2),
        ((f"{PAIRED}<answer>\\boxed{{one half}}",), -1.0),  # no closing tag
        ((f"{PAIRED}<answer>one half</answer>",), -1.0),
        (("hm", f"{PAIRED}<answer>\\boxed{{one half}}</answer>"), -1.0),
    ],
)
def test_the_release(actions, reward):
    assert played(*actions, reward="hierarchical_released")[1][1] == pytest.approx(reward)


@each_row(
    ("reward", "answer", "earned"),
    [
        ("accuracy", "\\boxed{0.50}", 1.0),
        ("accuracy", "0.5", 1.0),
        ("accuracy", "\\boxed{0.51}", 0.0),
        ("accuracy", "\\boxed{3-2.5}", 0.0),
        ("accuracy", "\\boxed{-0.5}", 0.0),
        ("accuracy", "\\boxed{12}", 0.0),
        ("accuracy", "\\boxed{0.5" + " " * 10_000 + "}", 0.0),
        ("f1", "\\boxed{half" + " one" * 3_000 + "}", 0.0),
        ("em", "\\boxed{One half.}", 1.0),
        ("em", "\\boxed{0.5}", 0.0),
        ("f1", "\\boxed{half}", 2 / 3),
        ("f1", "\\boxed{}", 0.0),
    ],
)
def test_the_simple_rewards(reward, answer, earned):
    assert played(f"<answer>{answer}</answer>", reward=reward)[1][1] == pytest.approx(earned)


def test_the_release_takes_no_part_of_yes_and_no():
    answers = {"no": 1.0, "No.": 1.0, "no thanks": 0.0, "no half": 1 / 2, "yes": 0.0, "half": 2 / 3}
    for answer, earned in answers.items():
        text = f"{PAIRED}<answer>\\boxed{{{answer}}}</answer>"
        assert played(text, reward="hierarchical_released", gold=("no", "one half"))[1][1] == pytest.approx(earned)


@each_row(
    ("answer", "gold", "finished"),
    [
        ("954", "954", True),
        ("f(46) = 439,558,896", "439558896", True),
        ("1{,}234\\text{ ways}", "1234", True),
        ("-7.0", "-7", True),
        ("0", "0", True),
        ("\\frac{2}{4}", "1/2", True),
        ("0.5", "1/2", True),
        ("0.33333", "1/3", True),
        ("1\\frac{1}{2}", "3/2", True),
        ("\u00bd", "1/2", True),
        ("twelve", "the Tower", True),
        ("12*3", "Tower 36", True),
        ("2*477", "954", False),
        ("2*8^3-2*8^2+8*8-6", "954", False),
        ("31^2-7", "954", False),
        ("3!", "6", False),
        ("10!/7!", "720", False),
        ("\\binom{10}{3}", "120", False),
        ("\\sqrt{910116}", "954", False),
        ("5\u00b2", "25", False),
        ("954 = 2*477", "954", False),
        ("15 + 1/(3 + 1/(15 + 1/3))", "1/2", False),
        ("1/0", "1/2", False),
    ],
)
def test_a_calculation_is_no_number(answer, gold, finished):
    assert worked_out(answer, (gold,)) is finished
    assert worked_out(answer, ("text", gold)) is finished


def test_the_judge_calculates_for_nobody():
    env = gym.make("agent_envs/ToolReasoning-v0", reward="accuracy")
    place = next(at for at in range(100) if env.unwrapped.source.get("test", at).data.kind == "polynomial value")
    earned = []
    for shown in ("{}", "{} = {}", "{}+0", "0-(-({}))", "{}^1", "{}/1"):
        env.reset(options={"task": place, "split": "test"})
        (gold,) = env.unwrapped.episode.task.gold
        earned.append(env.step(f"<answer>\\boxed{{{shown.replace('{}', gold)}}}</answer>")[1])
    assert earned == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0], "one times the number itself is no calculation"


@pytest.mark.parametrize(("reward", "floor"), [("hierarchical", -1.0), ("hierarchical_released", -1.0), ("f1", 0.0)])
def test_no_answer(reward, floor):
    env, (observation, total, terminated, truncated, info) = played(SEARCH, SEARCH, reward=reward, max_generations=2)
    assert (total, terminated, truncated, info["success"]) == (floor, False, True, False)
    assert "no turn is left" in observation
    assert env.unwrapped.episode.state.searches == 1


def test_nothing_is_paid_before_the_end():
    _, (_, total, _, _, info) = played(SEARCH)
    assert total == 0.0 and set(info["reward_terms"]) == {"format", "accuracy", "both_tools"}


def test_what_tools_show_earns_nothing():
    """Only the policy's own answer counts: not a program that prints one, nor a page that holds it."""
    text = f"{PAIRED}<python>print(r'<answer>\\boxed{{0.5}}</answer></search>')</python>"
    env, (observation, total, terminated, _, _) = played(text)
    assert "<answer>\\boxed{0.5}</answer>" in observation and not terminated and total == 0.0
    assert env.step(WRONG)[1] == 0.0


def test_metrics_count_what_was_done():
    from agent_envs.envs.tool_reasoning.scoring import metrics

    env, _ = played(SEARCH, RUN, f"{PAIRED}<python>1/0</python>", f"{PAIRED}<search> </search>", WRONG)
    found = metrics(env.unwrapped.trajectory)
    assert found == {
        "abstained": 0.0,
        "wrong": 1.0,
        "out_of_turns": 0.0,
        "sound_format": 1.0,
        "both_tools": 1.0,
        "failed_programs": 1.0,
        "search_calls": 1.0,
        "browse_calls": 0.0,
        "python_calls": 2.0,
    }
    env, _ = played("<answer>\\boxed{I don't know}</answer>")
    assert metrics(env.unwrapped.trajectory)["abstained"] == 1.0
