"""The agent that searches again with what it found: what a turn and a retriever are worth to it, and what it does not read."""

import gymnasium as gym
import pytest

from agent_envs.envs.search_qa.heuristic import search_once_and_guess
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import Request
from baselines.multi_hop import MultiHop, search_on

NAME = "baselines.multi_hop:MultiHop"
FOUR = {"top_k": 4}
TASKS = 64


def rates(**choice):
    found = evaluate(adhoc_suite(Choice("SearchQA", limit=TASKS, **choice)), Settings(NAME, smoke=True))
    return [item.success for item in found.summaries]


def test_turns_are_worth_something():
    none, one, two, three, five = rates(turn_limits=(0, 1, 2, 3, 5))
    assert none.value == one.value  # the first search is for the question, which is what naive RAG is shown
    assert one.value < two.value < three.value < five.value
    assert one.high < three.low and two.high < five.low


def test_retrievers_are_in_order_and_far_apart():
    oracle, bm25, random, empty = rates(
        arguments=FOUR, turn_limits=(2,), sweep=("retriever", ("oracle", "bm25", "random", "empty"))
    )
    assert oracle.low > bm25.high and bm25.low > random.high
    assert abs(random.value - empty.value) < 0.05


def test_it_acts_alike_under_every_limit_but_for_the_last_turn():
    few, many = (
        played(max_generations=turns, max_searches=turns - 1, world={"hops": [4], "questions_per_world": 16})
        for turns in (3, 6)
    )
    assert few != many
    for short, long in zip(few, many, strict=True):
        assert short[:-1] == long[: len(short) - 1] and "<answer>" in short[-1]


def played(**arguments):
    env = gym.make("agent_envs/SearchQA-v0", **arguments)
    results = [run_episode(env, MultiHop(), seed=i, task=i, split="test") for i in range(8)]
    return [[turn.action for turn in result.trajectory.turns] for result in results]


def request(*contents, **more):
    roles = ("user", "assistant")
    rows = [{"role": roles[place % 2], "content": content} for place, content in enumerate(contents)]
    return Request("key", (len(contents) + 1) // 2, rows, **more)


def test_a_question_of_another_set_is_the_heuristics():
    prompt = "Question: Who built the bridge of Mor?"
    shown = '\n\n<information>Doc 1(Title: "Mor") The bridge of Mor was built by Ana Vilks.\n</information>\n\n'
    for asked in (request(prompt), request(prompt, "<search>Mor</search>", shown), request(prompt, prefill="<answer>")):
        assert search_on(asked) == search_once_and_guess(asked)


BORN = (
    '\n\n<information>Doc 1(Title: "Ana Vilks") Ana Vilks was born in the year 1931.\n'
    'Doc 2(Title: "Bo Rem") {}\n</information>\n\n'
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who was born first, Ana Vilks or Bo Rem?", "Bo Rem"),
        ("Who was born last, Ana Vilks or Bo Rem?", "Ana Vilks"),
        ("By how many years do the ages of Ana Vilks and Bo Rem differ?", "3"),
        ("In which year was Ana Vilks born?", "1931"),
    ],
)
def test_it_answers_from_what_the_documents_tell(question, answer):
    told = request(f"Question: {question}", "<search>x</search>", BORN.format("Bo Rem was born in the year 1928."))
    assert search_on(told).endswith(f"<answer>{answer}</answer>")


def test_it_searches_for_what_is_missing_twice_and_then_gives_up():
    question = "Who was born first, Ana Vilks or Bo Rem?"
    talk = [f"Question: {question}"]
    for query in (question, "In which year was Bo Rem born?", "Bo Rem"):
        action = search_on(request(*talk))
        assert action.endswith(f"<search>{query}</search>")
        talk += [action, BORN.format("Bo Rem is a cook.")]
    assert "<answer>" in search_on(request(*talk)) and "<answer>" in search_on(request(*talk[:3], prefill="<answer>"))
