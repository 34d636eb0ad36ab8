"""Scores of Search QA: Search-R1 v0.3 outcome by outcome, its format rules, F1, and the pitfalls of exact match."""

import pytest

from agent_envs.base.protocol import Answer
from agent_envs.core.trajectory import Header, Task, Trajectory, Turn
from agent_envs.envs.search_qa.scoring import REWARDS, make_reward, sound_format

FLAG = "<think>t</think>\n<search>flag colour</search>"  # finds the passage that holds the gold answer "teal"
OTHER = "<think>t</think>\n<search>Zagreb</search>"  # does not
RIGHT = "<think>t</think>\n<answer>teal</answer>"
WRONG = "<think>t</think>\n<answer>red</answer>"
BARE_RIGHT, BARE_WRONG = "<answer>teal</answer>", "<answer>red</answer>"

# actions, score, share of exact_match, share of format: every outcome of qa_em_format.py.
OUTCOMES = [
    ([RIGHT], 1.0, 1.0, 0.0),
    ([FLAG, RIGHT], 1.0, 1.0, 0.0),
    ([FLAG, OTHER, RIGHT], 1.0, 1.0, 0.0),
    ([BARE_RIGHT], 0.8, 1.0, -0.2),
    ([FLAG, BARE_RIGHT], 0.8, 1.0, -0.2),
    (["<search>flag</search>", RIGHT], 0.8, 1.0, -0.2),
    (["I think first.", RIGHT], 0.8, 1.0, -0.2),
    ([WRONG], 0.2, 0.0, 0.2),
    ([FLAG, WRONG], 0.2, 0.0, 0.2),
    ([OTHER, WRONG], 0.2, 0.0, 0.2),
    ([BARE_WRONG], 0.1, 0.0, 0.1),
    ([FLAG, BARE_WRONG], 0.1, 0.0, 0.1),
    ([FLAG, FLAG, FLAG], 0.0, 0.0, 0.0),
    (["", "no tags", "<think>teal</think>"], 0.0, 0.0, 0.0),
    (["<think>t</think><answer></answer>"], 0.2, 0.0, 0.2),
    (["<answer></answer>"], 0.1, 0.0, 0.1),
]


@pytest.mark.parametrize(("actions", "score", "exact", "form"), OUTCOMES, ids=str)
def test_outcomes_of_search_r1_v03(play, actions, score, exact, form):
    total, info, env = play("h1", actions, reward="em_format", max_generations=3)
    assert total == pytest.approx(score, abs=1e-12)
    assert info["reward_terms"] == {"exact_match": exact, "format": form}
    assert env.unwrapped.episode.over
    assert all(turn.reward == 0 for turn in env.unwrapped.episode.turns[:-1])
    assert info["success"] is (exact == 1)


@pytest.mark.parametrize(
    ("actions", "score"),
    [
        ([FLAG, WRONG], 0.3),
        ([OTHER, FLAG, WRONG], 0.3),
        ([OTHER, WRONG], 0.2),
        ([WRONG], 0.2),
        ([FLAG, BARE_WRONG], 0.1),
        ([FLAG, RIGHT], 1.0),
        ([FLAG, BARE_RIGHT], 0.8),
        ([FLAG, FLAG, FLAG], 0.0),
        (["<search>flag colour</search>", WRONG], 0.1),
    ],
    ids=str,
)
def test_the_released_retrieval_term_by_name(play, actions, score):
    total, info, _ = play("h1", actions, reward="em_format", retrieval_score=0.1, max_generations=3)
    assert total == pytest.approx(score, abs=1e-12)
    assert set(info["reward_terms"]) == {"exact_match", "format", "retrieval_score"}


def test_a_refused_search_is_no_retrieval(play):
    refused = [OTHER, FLAG, WRONG]
    total, _, env = play("h1", refused, reward="em_format", retrieval_score=0.1, max_searches=1)
    assert env.unwrapped.episode.turns[1].results[0].error
    assert total == pytest.approx(0.1)  # and the text that explains stands where information belongs: a broken format


def test_a_correct_answer_after_a_refused_search_is_in_a_broken_format(play):
    total, _, _ = play("h1", [OTHER, FLAG, RIGHT], reward="em_format", max_searches=1)
    assert total == pytest.approx(0.8)


def test_the_retrieval_check_is_the_released_one_on_characters(play):
    """The gold "no" is found in "north", and the gold "The", which normalises to nothing, in every passage."""
    for task, search, score in (("h2", OTHER, 0.7), ("h2", FLAG, 0.2), ("h3", OTHER, 0.7), ("h3", FLAG, 0.7)):
        total, _, _ = play(task, [search, WRONG], reward="em_format", retrieval_score=0.5)
        assert total == pytest.approx(score), (task, search)


FORMAT_CASES = [
    (["<think>a</think><answer>x</answer>"], True),
    (["  <think>a</think>\n\n <answer>x</answer>\n"], True),
    (["<think></think><answer>x</answer>"], True),
    (["<think>a</think><search>q</search>", "<think>b</think><answer>x</answer>"], True),
    (["<think>a</think><search>q", "<think>b</think><answer>x"], True),  # a server cut the stop strings
    (["<think>a</think><search>q</search>\n"] * 3 + ["<think>b</think><answer>x</answer>"], True),
    (["<answer>x</answer>"], False),  # no think
    (["<search>q</search>", "<think>b</think><answer>x</answer>"], False),
    (["<think>a</think><search>q</search>", "<answer>x</answer>"], False),
    (["<think>a<answer>x</answer>"], False),  # think is not closed
    (["a</think><answer>x</answer>"], False),
    (["<think>a</think> so <answer>x</answer>"], False),  # text between tags
    (["Well <think>a</think><answer>x</answer>"], False),
    (["<think>a</think><answer>x</answer> bye"], True),  # what follows the action is cut
    (["<think>a</think><search>q</search> and", "<think>b</think><answer>x</answer>"], True),
    (["<think>I could <search> later</think><answer>x</answer>"], False),  # nested tags
    (["<think>a <think>b</think></think><answer>x</answer>"], False),
    (["<think>a</think><answer><think>x</think></answer>"], False),
    (["<think>a</think><search>q</search><search>r</search>", "<think>b</think><answer>x</answer>"], True),
    (["<think>a</think><search>q</search><think>b</think><answer>x</answer>", "<answer>x</answer>"], False),
    (["<answer>x</answer><think>a</think>"], False),  # think after the answer
    (["<think>a</think><answer>x</answer><answer>y</answer>"], True),
    (["<think>a</think><information>i</information><answer>x</answer>"], False),  # the policy writes information
    (["<think>a</think>", "<think>b</think><answer>x</answer>"], False),  # a turn without an action
    (["", "<think>b</think><answer>x</answer>"], False),
    (["<think>a</think><search>q</search>"], False),  # no answer at all
]


@pytest.mark.parametrize(("actions", "sound"), FORMAT_CASES, ids=str)
def test_format_rules(ask, actions, sound):
    env = ask("h1", max_generations=9)
    for action in actions:
        if not env.unwrapped.episode.over:
            env.step(action)
    assert sound_format(env.unwrapped.trajectory) is sound


@pytest.mark.parametrize(
    ("task", "answer", "f1", "success"),
    [
        ("h1", "teal", 1.0, True),
        ("h1", "The teal.", 1.0, True),
        ("h1", "dark teal", 2 / 3, False),
        ("h1", "teal teal", 2 / 3, False),
        ("h1", "teal or red or blue", 1 / 3, False),
        ("h1", "red", 0.0, False),
        ("h1", "", 0.0, False),
        ("h5", "12th century", 1.0, True),
        ("h5", "the twelfth century", 0.5, False),
        ("h5", "1931", 1.0, True),
        ("h5", "1931 or 12th century", 4 / 6, False),  # against the better of the two golds
        ("n0", "Sava", 1.0, True),
        ("n0", "river Sava", 2 / 3, False),
    ],
)
def test_f1(play, task, answer, f1, success):
    tasks = "nq" if task.startswith("n") else "hotpotqa"
    total, info, _ = play(task, [f"<think>t</think><answer>{answer}</answer>"], reward="f1", tasks=tasks)
    assert total == pytest.approx(f1, abs=1e-12)
    assert info["reward_terms"] == {"f1": total}
    assert info["success"] is success


@pytest.mark.parametrize(
    ("task", "answer", "score"),
    [
        ("h2", "no", 1),
        ("h2", "No.", 1),
        ("h2", "Monaco", 0),
        ("h2", "no no", 0),
        ("h2", "not", 0),
        ("h3", "The", 1),
        ("h3", " the ", 1),
        ("h3", "", 0),
        ("h3", "a", 0),
        ("h3", "---", 0),
        ("h4", "Ocean’s Eleven", 1),
        ("h4", "ocean’s  eleven!", 1),
        ("h4", "Ocean's Eleven", 0),  # the curly quote survives the normalisation, the straight one does not
        ("h5", "12", 0),
        ("h5", "12th Century", 1),
        ("h5", "1931", 1),
        ("h5", "in 1931", 0),
        ("h0", "Zagare", 1),
        ("h0", "ŽAGARĖ", 1),
        ("h0", "Zagarė", 0),
        ("h1", "", 0),
        ("h1", "<b>teal</b>", 0),
        ("h1", "teal</answer><answer>red", 1),
        ("h1", "te al", 0),
        ("h1", "teal\x00", 0),
    ],
)
def test_pitfalls_of_exact_match(play, task, answer, score):
    total, info, env = play(task, [f"<answer>{answer}</answer>"])
    assert total == score and info["success"] is (score == 1)
    assert env.unwrapped.episode.turns[-1].terminated


def test_declared_bounds_and_names(small):
    for name in REWARDS:
        spec = make_reward(name, 0.0)
        assert spec.name == name and spec.episode == (0.0, 1.0)
        assert [term.name for term in spec.terms][-1] != "retrieval_score"
    with_bonus = make_reward("em_format", 0.8)
    assert [(term.name, term.high) for term in with_bonus.terms][-1] == ("retrieval_score", 0.8)
    assert with_bonus.digest != make_reward("em_format", 0.0).digest


def test_text_that_only_the_environment_wrote_is_not_read():
    """A hand-made trajectory whose observation and results are all bait: the score of the answer alone remains."""
    from agent_envs.base.messages import Message, ToolResult

    bait = "<think>t</think><answer>teal</answer>"
    task = Task("t", "test", "q?", ("teal",))
    header = Header("x", "", "t", "test", "", 0, "k")
    result = ToolResult("call_0", "search", bait, ids=("p",))

    def last(parsed, action):
        turn = Turn(1, "o", action, parsed, (Message("user", bait, "tool"),), (result,), terminated=True)
        return Trajectory(header, (Message("user", bait, "environment"),), (turn,), task)

    for name in REWARDS:
        spec = make_reward(name, 0.0)
        silent = spec(last(None, "")).total
        wrong = spec(last(Answer("red"), "<answer>red</answer>")).total
        assert silent == 0.0
        assert wrong == pytest.approx(0.1 if name == "em_format" else 0.0)
