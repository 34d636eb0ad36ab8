"""The turn contract, on a third party's environment."""

import copy

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from agent_envs import EnvFault, Task, UsageError
from agent_envs.core.env import INFO_KEYS, TurnEnv
from agent_envs.core.episode import MAX_ACTION_CHARACTERS
from tests.toy import ID, Guess

COMPARE = "<compare>50</compare>"


def started(**arguments):
    env = gym.make(ID, **arguments)
    env.reset(seed=0)
    return env


def refusal(call) -> str:
    with pytest.raises(UsageError) as caught:
        call()
    return str(caught.value)


def test_check_env_passes_without_a_warning(recwarn):
    check_env(gym.make(ID, render_mode="ansi").unwrapped)
    assert [str(item.message) for item in recwarn] == []


def test_refusals_name_the_id_and_the_fix():
    env = gym.make(ID).unwrapped
    for call, fix in (
        (lambda: env.step("x"), "call reset() first"),
        (lambda: env.trajectory, "call reset() first"),
        (lambda: env.reset(options={"tusk": 1}), "task, split, episode_key"),
        (lambda: env.reset(options=["task"]), "task, split, episode_key"),
        (lambda: env.reset(seed=-1), "seed=-1; give a whole number >= 0"),
        (lambda: env.reset(seed="1"), "seed='1'; give a whole number >= 0"),
        (lambda: env.reset(seed=1.5), "seed=1.5; give a whole number >= 0"),
        (lambda: env.reset(options={"split": "validation"}), "train, dev, test"),
        (lambda: env.reset(options={"split": None}), "train, dev, test"),
        (lambda: env.reset(options={"task": 10}), "10 tasks"),
        (lambda: env.reset(options={"task": -1}), "10 tasks"),
        (lambda: env.reset(options={"task": "train-0", "split": "test"}), "10 tasks"),
    ):
        text = refusal(call)
        assert text.startswith(f"{ID}: ") and fix in text, text


def test_refusals_name_the_argument():
    env = gym.make(ID).unwrapped
    assert "'tusk'" in refusal(lambda: env.reset(options={"tusk": 1}))
    assert "'validation'" in refusal(lambda: env.reset(options={"split": "validation"}))
    text = refusal(lambda: env.reset(options={"task": "nowhere", "split": "dev"}))
    assert "'nowhere'" in text and "'dev'" in text
    with pytest.raises(UsageError, match=r"Guess.*torns.*turns, offer_tools"):
        gym.make(ID, torns=3)


@pytest.mark.parametrize("action", [None, 3, b"bytes", ["a"], 1.5])
def test_an_action_that_is_no_text_is_refused_and_changes_nothing(action):
    env = started().unwrapped
    before = env.episode
    text = refusal(lambda: env.step(action))
    assert text.startswith(ID) and type(action).__name__ in text and "str" in text
    assert env.episode is before


def test_step_after_the_end_is_refused():
    env = started().unwrapped
    env.step("<answer>0</answer>")
    ended = env.episode
    assert "call reset() before the next step" in refusal(lambda: env.step(COMPARE))
    assert env.episode is ended
    env.reset(seed=1)
    assert env.step(COMPARE)[4]["turn"] == 1


def test_a_bare_environment_is_named_by_its_class():
    assert refusal(lambda: Guess().step("x")).startswith("tests.toy:Guess: ")


def test_an_over_long_action_is_cut_and_noted():
    env = started().unwrapped
    kept = "x" * (MAX_ACTION_CHARACTERS - 1) + "y"
    _, _, terminated, _, info = env.step(kept + "<answer>1</answer>")
    assert not terminated and env.episode.turns[-1].action == kept
    assert any("cut to 1000000 of 1000018" in event for event in info["events"])


def test_an_action_of_exactly_the_cap_is_not_cut():
    env = started().unwrapped
    tail = "<answer>1</answer>"
    _, _, terminated, _, info = env.step("x" * (MAX_ACTION_CHARACTERS - len(tail)) + tail)
    assert terminated and info["events"] == []


def test_lone_surrogates_are_replaced_and_noted():
    env = started().unwrapped
    _, _, _, _, info = env.step("é\ud800<compare>\udfff5</compare>")
    assert env.episode.turns[-1].action == "é?<compare>?5</compare>"
    assert "lone surrogates replaced by ?" in info["events"]
    assert env.step("é𝔘")[4]["events"] == ["it has no <compare> or <luck> or <answer> tag"]


def test_the_recorded_action_is_a_plain_str():
    env = started().unwrapped
    env.step(np.str_(COMPARE))
    assert type(env.episode.turns[-1].action) is str


def check_keys(info, moment):
    wanted = {name for name, key in INFO_KEYS.items() if key.when in ("always", *moment)}
    assert set(info) == wanted
    for name, value in info.items():
        assert type(value) is INFO_KEYS[name].type, name


@pytest.mark.parametrize("last", ["<answer>0</answer>", "nothing"])
def test_info_has_exactly_the_documented_keys_and_types(last):
    env = gym.make(ID, turns=3, offer_tools=True)
    _, info = env.reset(seed=3)
    check_keys(info, ("reset",))
    assert info["turn"] == 0 and info["turns_left"] == 3
    for turn in (1, 2):
        *_, info = env.step(COMPARE)
        check_keys(info, ("step",))
        assert (info["turn"], info["turns_left"]) == (turn, 3 - turn)
    *_, info = env.step(last)
    check_keys(info, ("step", "end"))
    assert (info["turn"], info["turns_left"], info["success"]) == (3, 0, False)


def test_what_info_holds_may_be_spoiled_by_its_reader():
    env = gym.make(ID, offer_tools=True)
    first = copy.deepcopy(env.reset(seed=0)[1])
    spoiled = env.reset(seed=0)[1]
    spoiled["messages"][0]["content"] = "spoiled"
    spoiled["stop"].clear()
    spoiled["tools"][0]["function"]["name"] = "spoiled"
    spoiled["tools"][0]["function"]["parameters"]["properties"].clear()
    assert env.reset(seed=0)[1] == first
    one = env.step(COMPARE)[4]
    one["messages"][0]["content"] = "spoiled"
    one["reward_terms"].clear()
    assert "spoiled" not in env.unwrapped.episode.turns[-1].observation[0].content
    assert env.unwrapped.episode.turns[-1].terms


def test_gold_is_hidden_until_the_end():
    env = gym.make(ID, render_mode="ansi")
    for task in range(10):
        observation, info = env.reset(options={"task": task})
        gold = env.unwrapped.episode.task.gold[0]
        shown = [observation, env.render(), str(info)]
        observation, *_, info = env.step("<compare>0</compare>")
        shown += [observation, env.render(), str({**info, "task_id": ""})]
        assert not any(f" {gold}" in text or f"'{gold}" in text for text in shown)
    assert "gold" not in repr(env.unwrapped.episode.task) and "hidden" not in repr(env.unwrapped.episode.task)


def test_a_task_object_may_be_given():
    env = gym.make(ID).unwrapped
    own = Task("own", "mine", "Which?", ("7",), hidden=7)
    assert env.reset(options={"task": own})[1]["task_id"] == "own"
    assert env.step("<answer>7</answer>")[4]["success"] is True


def test_reward_terms_sum_to_the_reward_and_the_turn_keeps_them():
    env = started().unwrapped
    for action in (COMPARE, "nonsense", "<answer>1</answer>"):
        _, reward, *_, info = env.step(action)
        assert reward == sum(info["reward_terms"].values())
        turn = env.episode.turns[-1]
        assert (turn.reward, dict(turn.terms)) == (reward, info["reward_terms"])


def test_the_last_turn_truncates_and_an_answer_in_it_terminates():
    env = started(turns=1)
    assert env.step("nothing")[2:4] == (False, True)
    env.reset(seed=0)
    gold = env.unwrapped.episode.task.gold[0]
    _, reward, terminated, truncated, info = env.step(f"<answer>{gold}</answer>")
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)


def test_render_is_the_transcript_with_authors():
    env = gym.make(ID, render_mode="ansi")
    env.reset(seed=0)
    assert "[environment] Guess the number." in env.render()
    env.step(COMPARE)
    text = env.render()
    assert f"[policy, turn 1] {COMPARE}" in text and "[tool] 50: " in text
    silent = started()
    assert silent.unwrapped.render() is None
    with pytest.raises(UsageError, match=r"toy/Guess-v0: .*picture.*ansi"):
        Guess.render(_svg())


def _svg():
    env = gym.make(ID).unwrapped
    env.reset(seed=0)
    env.render_mode = "svg"
    return env


class Failing(Guess):
    """Its service is down in turn 2."""

    down = True

    def _advance(self, episode, action):
        if len(episode.turns) == 1 and self.down:
            raise EnvFault("down")
        return super()._advance(episode, action)


def test_a_fault_leaves_the_episode_as_it_was_and_the_turn_can_be_tried_again():
    env = Failing()
    env.reset(seed=0)
    env.step(COMPARE)
    before = env.episode
    with pytest.raises(EnvFault):
        env.step(COMPARE)
    assert env.episode is before
    env.down = False
    assert env.step(COMPARE)[4]["turn"] == 2


def test_an_unfinished_class_says_what_to_override():
    class Bare(TurnEnv):
        def __init__(self) -> None:
            made = Guess()
            self.source, self.reward_spec, self.max_turns = made.source, made.reward_spec, 2

    with pytest.raises(NotImplementedError, match=r"Bare must override _begin"):
        Bare().reset(seed=0)


@pytest.mark.parametrize("task", [1.5, [1], (1,), {}, object()])
def test_a_task_that_is_neither_index_nor_id_is_refused(task):
    text = refusal(lambda: gym.make(ID).unwrapped.reset(options={"task": task}))
    assert text.startswith(ID) and "index or id" in text


def test_a_numpy_index_is_an_index():
    assert gym.make(ID).unwrapped.reset(options={"task": np.int64(4)})[1]["task_id"] == "train-4"


@pytest.mark.parametrize("key", ["", 0, None, b"k"])
def test_an_episode_key_is_a_text(key):
    with pytest.raises(UsageError, match="episode_key"):
        gym.make(ID).reset(options={"episode_key": key})
