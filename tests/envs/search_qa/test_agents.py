"""The built-in agents of Search QA: the solver's ceiling, the honest baseline below it, chance at the bottom."""

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agent_envs
from agent_envs.envs.search_qa.heuristic import guess, search_once_and_guess
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy, Request
from agent_envs.wrappers import ForcedAnswer, TurnLimit
from tests.examples import examples, part

TASKS = part(64, 16)
SETTINGS = [
    {},
    {"reward": "em_format"},
    {"reward": "em_format", "retrieval_score": 0.8},
    {"reward": "f1"},
    {"observation_format": "skyrl_json"},
    {"max_generations": 2, "max_searches": 1},
    {"max_generations": 1, "max_searches": 0, "reward": "em_format"},
    {"max_searches": 0},
    {"top_k": 1, "max_observation_chars": 1},
    {"retriever": "random"},
    {"retriever": "empty"},
    {"retriever": "oracle"},
    {"world": {"vocabulary": "closed", "short": True, "passages": 100}},
    {"world": {"unanswerable": 0.5, "passages": 150, "questions_per_world": 32}},
    {"world": {"hops": [4], "questions_per_world": 16}},
]


def returns(kind, tasks=TASKS, wrap=lambda env: env, **arguments):
    env = wrap(gym.make("agent_envs/SearchQA-v0", **arguments))
    return [run_episode(env, CompanionPolicy(kind), seed=i, task=i, split="test") for i in range(tasks)]


def mean(results):
    return sum(result.trajectory.total_reward for result in results) / len(results)


@pytest.mark.parametrize("arguments", SETTINGS, ids=str)
def test_the_solver_earns_the_maximum_on_every_task(arguments):
    best = gym.make("agent_envs/SearchQA-v0", **arguments).unwrapped.reward_spec.episode[1]
    results = returns("solver", **arguments)
    assert all(result.success and result.status == "terminated" for result in results)
    assert [result.trajectory.total_reward for result in results] == [best] * TASKS
    assert not any(turn.events for result in results for turn in result.trajectory.turns)


@pytest.mark.parametrize("arguments", SETTINGS[:4], ids=str)
def test_the_others_stay_strictly_below(arguments):
    heuristic, chance = returns("heuristic", **arguments), returns("random", **arguments)
    assert 0 < sum(result.success for result in heuristic) < TASKS / 2
    assert sum(result.success for result in chance) < TASKS / 8
    assert mean(chance) < mean(heuristic) < 1.0


def test_the_solver_finds_its_passages():
    """Each query of the chain brings the passage of its hop, which is what makes the questions solvable by searching."""
    for result in returns("solver", TASKS, top_k=1):
        found = [i for turn in result.trajectory.turns for r in turn.results for i in r.ids]
        support = result.trajectory.task.hidden.support
        assert tuple(found) == support[: len(found)]
        assert len(found) == min(len(support), 5)


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("wrapper", [lambda env, turns: ForcedAnswer(env, turns - 1), TurnLimit])
def test_agents_know_the_limits_of_wrappers(wrapper, turns):
    solved = returns("solver", 16, lambda env: wrapper(env, turns=turns))
    assert all(result.success and len(result.trajectory.turns) <= turns for result in solved)
    env = wrapper(gym.make("agent_envs/SearchQA-v0"), turns=turns)
    env.reset(seed=0, options={"task": 3, "split": "test"})
    actions = agent_envs.solve(env)
    assert len(actions) <= turns and env.unwrapped.episode.turns == ()


def test_a_forced_heuristic_gives_its_guess_and_nothing_else():
    for result in returns("heuristic", 16, lambda env: ForcedAnswer(env, free_turns=1)):
        last = result.trajectory.turns[-1]
        assert last.action.startswith("<answer>") and "<think>" not in last.action
        assert last.parsed.text and "<" not in last.parsed.text


def test_without_a_free_turn_the_heuristic_is_naive_rag():
    naive = returns("heuristic", 64, lambda env: ForcedAnswer(env, free_turns=0))
    searched = returns("heuristic", 64)
    assert [len(result.trajectory.turns) for result in naive] == [1] * 64
    for one, two in zip(naive, searched, strict=True):
        assert one.trajectory.turns[0].parsed == two.trajectory.turns[-1].parsed
    assert any(result.success for result in naive)


def test_retrievers_are_ordered():
    wins = {
        name: sum(result.success for result in returns("heuristic", TASKS, retriever=name))
        for name in ("oracle", "bm25", "random", "empty")
    }
    assert wins["oracle"] >= wins["bm25"] >= wins["random"] >= wins["empty"]
    assert wins["oracle"] > wins["empty"]


def asked(*contents, **more):
    roles = ("user", "assistant", "user")
    messages = [{"role": roles[i % 3], "content": content} for i, content in enumerate(contents)]
    return Request("key", (len(contents) + 1) // 2, messages, **more)


def test_the_heuristic_acts_on_a_request_alone():
    prompt = "Some instructions. Question: this is not it\n\nQuestion: Who built the bridge of Mor?"
    first = search_once_and_guess(asked(prompt))
    assert first.endswith("<search>Who built the bridge of Mor?</search>")
    shown = '\n\n<information>Doc 1(Title: "Mor") The bridge of Mor was built by Ana Vilks.\n</information>\n\n'
    assert search_once_and_guess(asked(prompt, first, shown)).endswith("<answer>Ana Vilks</answer>")
    assert search_once_and_guess(asked(prompt, prefill="<answer>")) == "<answer>unknown</answer>"


R1 = (
    '\n\n<information>Doc 1(Title: "Mor") Mor is a harbour town. Its bridge was built by Ana Vilks in 1931. The harbour has '
    '412 berths.\nDoc 2(Title: "Zagreb") Zagreb grew in 1850. Zagreb is old.\n</information>\n\n'
)
SKY = (
    '\n<information>{"result": "Doc 1: \\"Mor\\"\\nMor is a harbour town. Its bridge was built by Ana Vilks in 1931. The '
    'harbour has 412 berths.\\nDoc 2: \\"Zagreb\\"\\nZagreb grew in 1850. Zagreb is old.\\n"}</information>\n'
)


@pytest.mark.parametrize("shown", [R1, SKY], ids=["search_r1", "skyrl_json"])
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who built the bridge of Mor?", "Ana Vilks"),
        ("When was the bridge built?", "1931"),
        ("What year was the bridge of Mor built?", "1931"),
        ("How many berths has the harbour?", "412"),
        ("Was the bridge of Mor built by Ana Vilks?", "yes"),
        ("Which is older, Mor or Zagreb?", "Zagreb"),
    ],
)
def test_guesses_on_passages_by_hand(question, answer, shown):
    assert guess(question, shown) == answer


@pytest.mark.parametrize("shown", ["", "\n\n<information>No document matches this query.</information>\n\n", "Doc 1"])
def test_guesses_without_a_passage(shown):
    assert guess("Who built the bridge?", shown) == "unknown"
    assert guess("When was it built?", shown) == "unknown"
    assert guess("", shown) == "unknown"
    assert guess("a or b", shown) == "unknown"


PIECES = st.sampled_from(
    ["Doc 1", '(Title: "', '") ', ': "', '"\n', "</information>", "Question: ", "Ana", " or ", "1931", "when "]
)
ODD = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=12).map("".join)


@examples(300)
@given(
    st.lists(st.one_of(ODD, st.none(), st.lists(ODD, max_size=2)), min_size=1, max_size=5),
    st.sampled_from(["", "<answer>"]),
)
def test_the_heuristic_never_fails_on_odd_messages(contents, prefill):
    action = search_once_and_guess(asked(*contents, prefill=prefill))
    assert action.endswith(("</search>", "</answer>"))
    assert ("<answer>" in action) is (len(contents) > 1 or bool(prefill))
