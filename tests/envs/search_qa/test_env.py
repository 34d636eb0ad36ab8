"""Search QA as a policy meets it: limits, refusals, and a score that only its own words move."""

import copy

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import UsageError

REWARDS = ({"reward": "em"}, {"reward": "f1"}, {"reward": "em_format"}, {"reward": "em_format", "retrieval_score": 0.1})


def test_the_prompt_asks_the_question_and_states_the_limits(ask):
    env = ask("h0", max_searches=3, max_generations=4)
    text = env.unwrapped.episode.prompt[0].content
    assert text.endswith("\n\nQuestion: Where was the engineer of the bridge of Mor born?")
    assert "3 searches and 4 turns" in text
    assert "unknown" not in text and "$" not in text
    assert ask("h1").unwrapped.episode.prompt[0].content.endswith("What is the colour of the flag?")


@pytest.mark.parametrize(
    "text", ["", "The answer is teal.", "<Answer>teal</Answer>", "</answer>", "<search", "teal</search>"]
)
def test_a_turn_without_an_action_costs_a_turn_and_is_an_event(ask, text):
    env = ask("h1", max_generations=3)
    observation, reward, terminated, truncated, info = env.step(text)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["events"] and info["events"][0].startswith("malformed")
    assert (info["turn"], info["turns_left"]) == (1, 2)
    question = env.unwrapped.episode.task.question
    assert "no <search> or <answer> tag" in observation and observation.strip().endswith(f"Question: {question}")
    assert "<information>" not in observation
    assert env.unwrapped.episode.turns[-1].observation[0].author == "environment"
    assert env.step("<answer>teal</answer>")[1] == 1.0


@pytest.mark.parametrize(
    ("text", "searched", "success"),
    [
        ("<answer>teal</answer><search>flag</search>", False, True),
        ("<search>flag</search><answer>teal</answer>", True, None),
        ("<answer>teal", False, True),
        ("<answer> teal \n", False, True),
        ("<search>flag", True, None),
        ("<answer>red</answer><answer>teal</answer>", False, False),
        ("<answer>red <search>flag</search>", True, None),
        ("<search>flag</search> <search>Zagreb</search>", True, None),
        ("</answer><answer>teal</answer>", False, True),
    ],
)
def test_the_first_complete_action_counts(ask, text, searched, success):
    env = ask("h1")
    _, _, terminated, _, info = env.step(text)
    assert bool(env.unwrapped.episode.turns[-1].results) is searched
    assert terminated is (not searched)
    assert info.get("success") is success
    if searched:
        assert env.unwrapped.episode.turns[-1].results[0].ids[0] == "p2"


def test_without_an_answer_the_episode_is_truncated_and_earns_nothing(ask):
    for arguments in REWARDS:
        env = ask("h1", max_generations=3, **arguments)
        for turn in (1, 2, 3):
            _, reward, terminated, truncated, info = env.step("<think>t</think><search>flag colour</search>")
            assert (reward, terminated, truncated) == (0.0, False, turn == 3)
        assert info["success"] is False and info["turns_left"] == 0
        with pytest.raises(UsageError, match="the episode is over"):
            env.step("<answer>teal</answer>")


def test_beyond_max_searches_there_is_a_text_and_nothing_else(ask):
    env = ask("h1", max_searches=1)
    assert "<information>" in env.step("<search>flag</search>")[0]
    for _ in range(2):
        observation, reward, terminated, truncated, info = env.step("<search>Zagreb</search>")
        assert (reward, terminated, truncated) == (0.0, False, False)
        assert "all 1 searches are used" in observation and "<answer>" in observation
        assert "Zagreb" not in observation and "<information>" not in observation
        result = env.unwrapped.episode.turns[-1].results[0]
        assert result.ids == () and result.error
        assert info["events"] == ["search refused: all 1 searches are used: answer with <answer>your answer</answer>"]
    assert env.unwrapped.episode.state.searches == 1
    assert env.step("<answer>teal</answer>")[1] == 1.0


def test_a_search_in_the_last_turn_is_not_carried_out(ask):
    env = ask("h1", max_generations=2, max_searches=5)
    env.step("<search>flag</search>")
    observation, reward, terminated, truncated, info = env.step("<search>flag</search>")
    assert (reward, terminated, truncated, info["success"]) == (0.0, False, True, False)
    assert "<information>" not in observation and "no turn is left" in observation
    assert env.unwrapped.episode.turns[-1].results[0].ids == ()
    assert env.unwrapped.episode.state.searches == 1


def test_two_turns_of_the_papers_are_one_search_and_one_answer(ask):
    env = ask("h0", max_generations=2, max_searches=1)
    observation, _, terminated, truncated, info = env.step("<search>engineer born</search>")
    assert "Žagarė" in observation and not terminated and not truncated and info["turns_left"] == 1
    _, reward, terminated, truncated, _ = env.step("<answer>Žagarė</answer>")
    assert (reward, terminated, truncated) == (1.0, True, False)


def test_one_generation_and_no_search(ask):
    env = ask("h1", max_generations=1, max_searches=0)
    assert "0 searches and 1 turns" in env.unwrapped.episode.prompt[0].content
    assert env.step("<answer>Teal!</answer>")[1:4] == (1.0, True, False)
    env = ask("h1", max_generations=1, max_searches=0)
    observation, *rest, info = env.step("<search>flag</search>")
    assert rest == [0.0, False, True] and "<information>" not in observation and info["success"] is False
    env = ask("h1", max_generations=2, max_searches=0)
    assert "all 0 searches are used" in env.step("<search>flag</search>")[0]


@pytest.mark.parametrize("query", ["", "  ", "\n", "\u3000"])
def test_an_empty_query_is_explained_and_costs_no_search(ask, query):
    env = ask("h1", max_searches=1)
    observation, *_, info = env.step(f"<search>{query}</search>")
    assert "the query is empty" in observation and info["events"]
    assert env.unwrapped.episode.state.searches == 0
    assert "<information>" in env.step("<search>flag</search>")[0]


def test_top_k_is_honoured(ask):
    query = "<search>Mor bridge flag engineer Zagreb</search>"
    for top_k in (1, 2, 4, 100):
        env = ask("h1", top_k=top_k)
        observation, *_ = env.step(query)
        assert observation.count("(Title: ") == min(top_k, 4)
        assert len(env.unwrapped.episode.turns[-1].results[0].ids) == min(top_k, 4)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"tasks": "hotpot"}, "'hotpot'"),
        ({"tasks": 5}, "tasks=5"),
        ({"corpus": 3, "tasks": "nq"}, "corpus=3"),
        ({"corpus": "sample"}, "corpus='sample'"),
        ({"retriever": "bm52"}, "retriever='bm52'"),
        ({"reward": "emm"}, "reward='emm'"),
        ({"observation_format": "json"}, "observation_format='json'"),
        ({"max_generations": 0}, "max_generations=0"),
        ({"max_generations": True}, "max_generations=True"),
        ({"max_searches": -1}, "max_searches=-1"),
        ({"max_searches": 1.5}, r"max_searches=1\.5"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_k": 101}, "top_k=101"),
        ({"max_observation_chars": 0}, "max_observation_chars=0"),
        ({"reward": "em_format", "retrieval_score": 0.81}, r"retrieval_score=0\.81"),
        ({"reward": "em_format", "retrieval_score": -0.1}, r"retrieval_score=-0\.1"),
        ({"reward": "em_format", "retrieval_score": float("nan")}, "retrieval_score=nan"),
        ({"reward": "em_format", "retrieval_score": "x"}, "retrieval_score='x'"),
        ({"retrieval_score": 0.1}, r"retrieval_score=0\.1 has no meaning with reward='em'"),
        ({"world": {"tusk": 1}}, "world=.*tusk"),
        ({"world": {"hops": [5]}}, "hops=.5."),
        ({"world": "easy"}, "world='easy'"),
        ({"tasks": "nq", "world": {}}, "world=.* has no meaning with tasks='nq'"),
    ],
    ids=str,
)
def test_argument_errors_name_the_argument(small, arguments, name):
    with pytest.raises(UsageError, match=name):
        gym.make("agent_envs/SearchQA-v0", **arguments)


@pytest.mark.parametrize("arguments", REWARDS, ids=str)
def test_a_gold_answer_in_a_passage_earns_nothing(ask, arguments):
    """The published bug: the reward was matched over the whole text, retrieved passages included."""
    for actions in (["<think>t</think>\n<search>flag colour</search>"] * 3, ["<search>flag colour", "no tag", ""]):
        env = ask("h1", max_generations=3, **arguments)
        total, shown = 0.0, ""
        for action in actions:
            observation, reward, _, _, info = env.step(action)
            total, shown = total + reward, shown + observation
        assert "<answer>teal</answer>" in shown
        assert total == 0.0 and info["success"] is False


@pytest.mark.parametrize("arguments", REWARDS, ids=str)
def test_a_wrong_answer_after_such_a_passage_earns_what_a_wrong_answer_earns(ask, arguments):
    def of(query):
        env = ask("h1", **arguments)
        rewards = [env.step(f"<think>t</think><search>{query}</search>")[1]]
        _, reward, terminated, _, info = env.step("<think>t</think><answer>red</answer>")
        assert terminated and info["success"] is False
        return sum(rewards) + reward

    bonus = arguments.get("retrieval_score", 0.0)
    assert of("flag colour") == pytest.approx(of("Zagreb") + bonus)
    assert of("flag colour") < 1


def test_a_policy_that_writes_information_itself_gains_nothing(ask):
    env = ask("h1", reward="em_format", retrieval_score=0.1)
    _, reward, *_ = env.step("<think>t</think><information>teal</information><answer>red</answer>")
    assert reward == pytest.approx(0.1)


@pytest.mark.parametrize("arguments", [{"tasks": "hotpotqa"}, {}], ids=["published", "world"])
def test_copies_and_forks_share_corpus_and_index(small, arguments):
    one = gym.make("agent_envs/SearchQA-v0", **arguments)
    two = gym.make("agent_envs/SearchQA-v0", **arguments)
    split = one.unwrapped.source.splits[-1]
    for env in (one, two):
        env.reset(seed=0, options={"task": 0, "split": split})
    task = one.unwrapped.episode.task
    corpus, index = one.unwrapped.source.corpus(task), one.unwrapped._built.retriever.index
    for other in (two, copy.deepcopy(one), agent_envs.fork(one)):
        core = other.unwrapped
        assert core is not one.unwrapped
        assert core.source.corpus(task) is corpus
        assert core._built.retriever.index is index and core._built.retriever.corpus is corpus
        assert other.step("<search>Mor</search>") == agent_envs.fork(one).step("<search>Mor</search>")
    assert one.unwrapped.episode.turns == ()


def test_a_fork_that_moves_to_another_world_leaves_the_original_alone():
    env = gym.make("agent_envs/SearchQA-v0")
    env.reset(seed=0, options={"task": 0, "split": "test"})
    query = f"<search>{env.unwrapped.episode.task.question}</search>"
    expected = agent_envs.fork(env).step(query)
    twin = agent_envs.fork(env)
    twin.reset(seed=0, options={"task": 1, "split": "test"})
    assert twin.unwrapped._built.digest != env.unwrapped._built.digest
    assert env.step(query) == expected


def test_the_random_retriever_differs_by_episode_key_and_repeats_under_one():
    env = gym.make("agent_envs/SearchQA-v0", retriever="random")

    def ids(key):
        env.reset(seed=0, options={"task": 0, "split": "test", "episode_key": key})
        env.step("<search>anything</search>")
        return env.unwrapped.episode.turns[-1].results[0].ids

    assert ids("a") == ids("a")
    assert len({ids(key) for key in "abcd"}) == 4
