"""The text face: tags, results, the end, and the same typed calls as with expanded actions."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.protocol import MarkedAnswerProtocol, marked_answer
from tests.rows import each_row


def make(name="Sort", task=0, **arguments):
    env = gym.make(f"agent_envs/{name}-v0", **arguments).unwrapped
    env.reset(seed=0, options={"task": task, "split": "test"})
    return env


def test_calls_and_results_between_tags():
    env = make("Arithmetic")
    assert env.stop == ("</calculator>",)
    observation, reward, terminated, truncated, info = env.step("Half of it: <calculator>12/8</calculator>")
    assert (observation, reward, terminated, truncated) == ("<result> 1.500 </result>", 0.0, False, False)
    assert info["messages"] == [{"role": "user", "content": "<result> 1.500 </result>"}] and not info["events"]
    (result,) = env.episode.turns[-1].results
    assert (result.name, result.content, result.ids, result.error) == ("calculator", "1.500", ("12/8",), False)


def test_a_closing_tag_may_be_cut_and_signs_and_spaces_are_welcome_in_text():
    env = make("Arithmetic")
    assert env.step("<calculator> -3 + 0.5 =")[0] == "<result> -2.500 </result>"


def test_errors_are_results_and_events():
    env = make("Arithmetic")
    observation, *_, info = env.step("<calculator>1/0</calculator>")
    assert observation.startswith("<result> Error: ") and info["events"] == [f"calculator: {observation[9:-10]}"]
    assert env.episode.turns[-1].results[0].error
    observation, *_, info = env.step("what now?")
    assert "no action" in observation and info["events"][0].startswith("malformed")


def test_the_answer_ends_the_episode():
    env = make("Arithmetic")
    gold = env.episode.task.gold[0]
    observation, reward, terminated, _, info = env.step(f"So it must be\n#### {gold}\n")
    assert (observation, reward, terminated, info["success"]) == ("", 1.0, True, True)


def test_a_call_before_the_answer_wins_and_what_follows_is_ignored():
    env = make("Arithmetic")
    gold = env.episode.task.gold[0]
    _, reward, terminated, _, _ = env.step(f"<calculator>1+1</calculator> so #### {gold}")
    assert (reward, terminated) == (0.0, False)


def test_sort_ends_with_an_answer_tag_and_is_judged_by_the_arrangement():
    env = make(size=2, directions="ascending")
    relation = env.step("<compare>A, B</compare>")[0]
    if relation == "<result> A > B </result>":
        assert env.step("<swap>A and B</swap>")[0] == "<result> B, A </result>"
    _, reward, terminated, _, info = env.step("<answer>whatever</answer>")
    assert terminated and info["success"] and 0.5 < reward < 1


def test_a_tool_that_the_task_does_not_have():
    env = make("Order")
    observation, *_, info = env.step("<compare>A, B</compare>")
    assert observation == "<result> Error: there is no compare in this task </result>" and info["events"]


@pytest.mark.parametrize("name", ["Sort", "Order", "Arithmetic", "GSM8KScaled", "Countdown"])
def test_both_faces_count_the_same_calls_and_pay_the_same(name):
    for task in range(12):
        text, expanded = make(name, task), make(f"{name}ExpA", task)
        results = []
        for env in (text, expanded):
            for action in agent_envs.solve(env):
                env.step(action)
            assert env.episode.success
            typed = [(r.name, r.content, r.ids, r.error) for turn in env.episode.turns for r in turn.results]
            results.append((typed, env.trajectory.total_reward))
        assert results[0][1] == results[1][1]
        assert results[0][0] == results[1][0]


PROTOCOL = MarkedAnswerProtocol({"calculator": ("calculator", "text")})


@each_row(
    ("text", "answer"),
    [
        ("#### 42", "42"),
        ("#### 42.", "42."),
        ("####42 apples", "42 apples"),
        ("#### -5\nor rather\n#### (1+2)*3\nyes", "(1+2)*3"),
        ("#### ( 1 + 2 ) * 3", "( 1 + 2 ) * 3"),
        ("#### $1,200", "$1,200"),
        ("the answer goes behind the ####. #### .5", ".5"),
        ("#### none", ""),
        ("##### 7", "7"),
        ("###\n# 7", ""),
        ("#### ٣", ""),
    ],
)
def test_marked_answers(text, answer):
    assert marked_answer(text)[1] == answer


def test_an_unclosed_call_yields_to_an_answer():
    assert PROTOCOL.parse("<calculator>1+1 #### 2").text == "2"
    assert PROTOCOL.parse("#### 2 <calculator>1+1</calculator>").text == "2 <calculator>1+1</calculator>"
    assert "#### none" not in str(PROTOCOL.parse("#### none <calculator>1+1").calls)


@pytest.mark.parametrize(
    "text", ["####" * 250_000, "#### " + "(" * 1_000_000, "#### 1\n" * 150_000, "<calculator>" * 80_000]
)
def test_hostile_marks_are_read_and_stay_linear(text):
    kind = {"<": "Call", "1": "Answer"}.get("<" if text[0] == "<" else text[5], "Malformed")
    assert type(PROTOCOL.parse(text)).__name__ == kind
