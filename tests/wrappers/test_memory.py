"""A bounded memory: what stands in the context after each turn."""

import gymnasium as gym
import pytest

from agent_envs import Message, Snapshot, UsageError, fork, replay, restore, run_episode, snapshot, spec_json
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Answer, Call, LabelProtocol, Malformed, Say
from agent_envs.core.env import Outcome
from agent_envs.core.trajectory import Trajectory, Turn, segments
from agent_envs.rollout.policy import Reply
from agent_envs.wrappers import Memory
from agent_envs.wrappers.memory import acting_text
from tests.rows import each_row
from tests.toy import ID, Guess

OPENING = ["system: Guess the number.", "user: I think of a whole number from 1 to 100. Which?"]


def context(info):
    return [f"{row['role']}: {row['content']}" for row in info["messages"]]


def contexts(turns, steps=4):
    env = Memory(gym.make(ID), turns=turns)
    _, info = env.reset(seed=0)
    shown = [context(info)]
    for step in range(1, steps + 1):
        observation, *_, info = env.step(f"thought {step} <compare>{step}xx</compare>")
        assert observation == "no number" and info["context"] == "replace"
        shown.append(context(info))
    return shown


def said(*steps):
    return [f"assistant: thought {step} <compare>{step}xx</compare>" for step in steps]


NEWS = "user: no number"


def test_without_past_turns_only_the_news_is_added():
    assert contexts(0) == [OPENING] + [[*OPENING, NEWS]] * 4


def test_one_past_turn():
    expected = [OPENING, [*OPENING, *said(1), NEWS]]
    expected += [[*OPENING, NEWS, *said(step), NEWS] for step in (2, 3, 4)]
    assert contexts(1) == expected


def test_two_past_turns():
    expected = [OPENING, [*OPENING, *said(1), NEWS], [*OPENING, *said(1), NEWS, *said(2), NEWS]]
    expected += [[*OPENING, NEWS, *said(step - 1), NEWS, *said(step), NEWS] for step in (3, 4)]
    assert contexts(2) == expected


def test_a_memory_longer_than_the_episode_is_the_whole_conversation():
    shown = contexts(99)[-1]
    assert shown == [*OPENING, *said(1), NEWS, *said(2), NEWS, *said(3), NEWS, *said(4), NEWS]


def test_the_turn_as_parsed_is_remembered():
    env = Memory(gym.make(ID), turns=1)
    env.reset(seed=0)
    *_, info = env.step("\ud800")
    assert context(info)[2] == "assistant: ?"


def test_a_reset_forgets():
    env = Memory(gym.make(ID), turns=3)
    env.reset(seed=0)
    env.step("first")
    _, info = env.reset(seed=0)
    assert context(info) == OPENING and info["context"] == "replace"
    assert context(env.step("second")[4])[2] == "assistant: second"


def test_messages_may_be_spoiled_by_their_reader():
    env = Memory(gym.make(ID), turns=1)
    _, info = env.reset(seed=0)
    info["messages"][0]["content"] = "spoiled"
    *_, info = env.step("x")
    assert context(info)[:2] == OPENING


@pytest.mark.parametrize("turns", [-1, True, 1.0, "1", None])
def test_other_lengths_are_refused(turns):
    with pytest.raises(UsageError, match="Memory: turns="):
        Memory(gym.make(ID), turns=turns)


class Chatty:
    """Thinks, compares twice, answers."""

    name, batch = "chatty", 1

    def __init__(self):
        self.seen = []

    def act(self, requests):
        self.seen.append([f"{row['role']}: {row['content']}" for row in requests[0].messages])
        turn = requests[0].turn
        return [Reply("<answer>1</answer>" if turn == 3 else f"thought {turn} <compare>{turn}xx</compare>")]


def test_a_policy_sees_the_replaced_context_and_the_record_replays():
    policy = Chatty()
    env = Memory(gym.make(ID), turns=1)
    result = run_episode(env, policy, seed=0)
    assert policy.seen == contexts(1)[:3]
    assert [turn.context for turn in result.trajectory.turns] == ["replace"] * 3
    authors = [message.author for message in result.trajectory.turns[1].observation]
    assert authors[3] == "policy" and authors[4] == "tool"
    stored = Trajectory.from_json(result.trajectory.to_json())
    assert replay(Memory(gym.make(ID), turns=1), stored).turns == stored.turns
    assert len(list(segments(stored))) == 3


def test_older_tool_text_keeps_its_author_in_the_record():
    result = run_episode(Memory(gym.make(ID), turns=2), Chatty(), seed=0)
    shown = result.trajectory.turns[1].observation
    assert [(message.role, message.author) for message in shown if message.author == "tool"] == [("user", "tool")] * 2


class Walk(Guess):
    """Guess whose second message of the reset is an observation, and whose turns are labelled."""

    standing = 1

    def _advance(self, episode, action):
        parsed = LabelProtocol().parse(action)
        return Outcome(episode.state, parsed, (Message("user", f"step {len(episode.turns) + 1}", "environment"),))


def walked(turns, keep="turns", steps=3):
    env = Memory(Walk(), turns, keep)
    shown = [context(env.reset(seed=0)[1])]
    for step in range(1, steps + 1):
        shown.append(context(env.step(f"THINK: {step}\nACTION: go {step}\nand so on")[4]))
    return [[line.replace("\n", "|") for line in rows] for rows in shown]


RULES, QUESTION = OPENING


def turn(step):
    return f"assistant: THINK: {step}|ACTION: go {step}|and so on"


def test_what_does_not_stand_ages_like_any_observation():
    assert walked(0) == [[RULES, QUESTION], [RULES, "user: step 1"], [RULES, "user: step 2"], [RULES, "user: step 3"]]
    assert walked(1) == [
        [RULES, QUESTION],
        [RULES, QUESTION, turn(1), "user: step 1"],
        [RULES, "user: step 1", turn(2), "user: step 2"],
        [RULES, "user: step 2", turn(3), "user: step 3"],
    ]
    assert walked(2)[2:] == [
        [RULES, QUESTION, turn(1), "user: step 1", turn(2), "user: step 2"],
        [RULES, "user: step 1", turn(2), "user: step 2", turn(3), "user: step 3"],
    ]


def test_a_forgotten_question_stays_forgotten_over_a_snapshot():
    env, other = Memory(Walk(), 1), Memory(Walk(), 1)
    env.reset(seed=0)
    for taken in range(3):
        restore(other, Snapshot.from_bytes(snapshot(env).to_bytes()))
        assert fork(env).step("ACTION: x") == other.step("ACTION: x") == (step := env.step("ACTION: x"))
        assert (QUESTION in context(step[4])) == (taken == 0)


def test_nothing_or_all_may_stand():
    env = Memory(Walk(), 0)
    env.standing = 0
    assert context(env.reset(seed=0)[1]) == OPENING and context(env.step("ACTION: x")[4]) == ["user: step 1"]
    env.standing = 5
    assert context(env.reset(seed=0)[1]) == OPENING
    assert context(env.step("ACTION: x")[4]) == [*OPENING, "user: step 1"]


def test_actions_are_kept_without_thoughts():
    assert walked(1, "actions")[1:] == [
        [RULES, QUESTION, "assistant: ACTION: go 1", "user: step 1"],
        [RULES, "user: step 1", "assistant: ACTION: go 2", "user: step 2"],
        [RULES, "user: step 2", "assistant: ACTION: go 3", "user: step 3"],
    ]


def test_a_turn_that_is_no_action_is_kept_as_it_was_said():
    env = Memory(Walk(), 1, "actions")
    env.reset(seed=0)
    assert context(env.step("I do not know")[4])[2] == "assistant: I do not know"


CALLED = Call((ToolCall("call_0", "compare", "{}"),))
ACTED = [
    ("I think. <compare>5</compare> More.", CALLED, "<compare>5</compare>"),
    ("<think>so</think><compare>5", CALLED, "<compare>5"),
    ("<answer>no <compare>5</compare><compare>6</compare>", CALLED, "<compare>5</compare>"),
    ("well <answer>4</answer> <compare>5</compare>", Answer("4"), "<answer>4</answer>"),
    ("<answer>3 <answer>4", Answer("4"), "<answer>4"),
    ("hm <tool_call>a</tool_call>\n<tool_call>b</tool_call> so", CALLED, "<tool_call>a</tool_call>\n<tool_call>b</tool_call>"),
    ("it is #### 42", Answer("42"), "it is #### 42"),
    ("Hello.\nACTION: wave", Say("Hello.\nACTION: wave"), "Hello.\nACTION: wave"),
    ("THINK: no ACTION: wait ACTION:\n go\nbecause", Say("go"), "ACTION: go"),
    ("no action", Malformed("none"), "no action"),
    ("", Say(""), ""),
    (7, None, "7"),
]  # fmt: skip


@each_row(("text", "parsed", "kept"), ACTED)
def test_what_acts_is_what_was_parsed(text, parsed, kept):
    assert acting_text(Turn(1, "", text, parsed, ()), ("compare", "answer", "tool_call")) == kept


def test_the_tags_of_an_environment_act_in_it():
    env = Memory(gym.make(ID), turns=1, keep="actions")
    env.reset(seed=0)
    assert context(env.step("thought <compare>1xx</compare> and")[4])[2] == "assistant: <compare>1xx</compare>"


@pytest.mark.parametrize("keep", ["thoughts", "", None, 1])
def test_other_ways_of_keeping_are_refused(keep):
    with pytest.raises(UsageError, match="Memory: keep=.*turns, actions"):
        Memory(gym.make(ID), 1, keep)


@pytest.mark.parametrize("keep", ["turns", "actions"])
def test_a_memory_of_actions_snapshots_forks_and_travels(keep):
    env = Memory(gym.make(ID), turns=1, keep=keep)
    env.reset(seed=0)
    env.step("a <compare>1</compare>")
    twin = gym.make(gym.envs.registration.EnvSpec.from_json(spec_json(env)))
    assert (twin.keep, twin.turns) == (keep, 1)
    restore(twin, Snapshot.from_bytes(snapshot(env).to_bytes()))
    wanted = fork(env).step("b <compare>2</compare>")
    assert wanted == twin.step("b <compare>2</compare>") == env.step("b <compare>2</compare>")


def test_the_label_of_a_memory_of_turns_is_what_it_ever_was():
    assert Memory(gym.make(ID), turns=1).label == 'Memory({"turns":1})'
    assert Memory(gym.make(ID), turns=1, keep="actions").label == 'Memory({"keep":"actions","turns":1})'
