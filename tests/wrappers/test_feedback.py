"""Verbal feedback: where its message stands, chance, forks and replays, and other wrappers around it or within."""

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from agent_envs import (
    Reply,
    Snapshot,
    UsageError,
    make_vec,
    register_companions,
    replay,
    restore,
    run_episode,
    snapshot,
    solve,
    spec_json,
)  # fmt: skip
from agent_envs.base.messages import FEEDBACK_MARK
from agent_envs.core.env import shown_messages
from agent_envs.core.trajectory import Trajectory, transcript
from agent_envs.rollout.episode_runner import record_turn
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.wrappers import VerbalFeedback
from tests import toy
from tests.rows import each_row
from tests.wrappers.advised import COMPARE, ID, Spy

OPENING = ["system: Guess the number.", "user: I think of a whole number from 1 to 100. Which?"]


def advised(epsilon=0.5, feedback="scripted:good", **arguments):
    return VerbalFeedback(gym.make(ID, **arguments), feedback=feedback, epsilon=epsilon)


def context(info):
    return [f"{row['role']}: {row['content']}" for row in info["messages"]]


class Says:
    """A policy that says the same in every turn, and keeps what it was shown."""

    name, batch = "says", 1

    def __init__(self, text=COMPARE):
        self.text, self.seen = text, []

    def act(self, requests):
        self.seen += requests
        return [Reply(self.text) for _ in requests]


def test_a_message_of_its_own_at_the_reset_and_after_every_turn_that_does_not_end_the_episode():
    env = advised(turns=3, feedback=Spy())
    observation, info = env.reset(seed=0)
    assert context(info) == [*OPENING, "user: Feedback: Advice 1."]
    assert observation == "Guess the number.\n\nI think of a whole number from 1 to 100. Which?\n\nFeedback: Advice 1."
    observation, _, _, _, info = env.step("<compare>xx</compare>")
    assert context(info) == ["user: no number", "user: Feedback: Advice 2."]
    assert observation == "no number\n\nFeedback: Advice 2."
    assert info["feedback"] in ("explore", "exploit")
    env.step(COMPARE)
    observation, _, terminated, truncated, info = env.step("<compare>xx</compare>")
    assert (terminated, truncated, observation, context(info)) == (False, True, "no number", ["user: no number"])
    assert info["feedback"] == ""


def test_it_stays_in_the_conversation_and_in_the_record_with_its_author():
    policy = Says()
    env = advised(turns=3, feedback=Spy())
    found = run_episode(env, policy, seed=0, task=0).trajectory
    assert [message.author for message in found.prompt] == ["environment", "environment", "feedback"]
    assert [[m.author for m in turn.observation] for turn in found.turns] == [["tool", "feedback"]] * 2 + [["tool"]]
    last = [row["content"] for row in policy.seen[-1].messages if row["content"].startswith(FEEDBACK_MARK)]
    assert last == [f"Feedback: Advice {number}." for number in (1, 2, 3)]
    assert "[feedback] Feedback: Advice 2." in transcript(found.prompt, found.turns)
    assert env.extra_messages == (found.prompt[-1], *(turn.observation[-1] for turn in found.turns[:-1]))


def test_the_environment_itself_never_hears_of_it():
    env, bare = advised(turns=3), gym.make(ID, turns=3)
    for one in (env, bare):
        one.reset(seed=0, options={"task": 1})
    for action in (COMPARE, "nonsense", "<answer>7</answer>"):
        told, plain = env.step(action), bare.step(action)
        assert told[1:4] == plain[1:4] and told[4]["reward_terms"] == plain[4]["reward_terms"]
    assert env.unwrapped.trajectory == bare.unwrapped.trajectory


def test_snapshots_go_through_bytes_and_restore_the_conversation():
    env = advised()
    env.reset(seed=3)
    env.step(COMPARE)
    moment = Snapshot.from_bytes(snapshot(env).to_bytes())
    expected = [env.step(COMPARE)[0] for _ in range(3)]
    said = env.extra_messages
    other = advised()
    restore(other, moment)
    assert [other.step(COMPARE)[0] for _ in range(3)] == expected and other.extra_messages == said
    with pytest.raises(UsageError, match="other wrappers"):
        restore(advised(epsilon=0.4), moment)
    damaged = Snapshot(moment.spec_digest, moment.episode, moment.generator, (("x", 1), *moment.layers[1:]))
    with pytest.raises(UsageError):
        restore(other, damaged)


def test_a_recorded_episode_replays_and_another_feedback_does_not():
    env = advised(turns=4)
    found = run_episode(env, Says(), seed=5, task=3).trajectory
    stored = Trajectory.from_json(found.to_json())
    assert replay(advised(turns=4), stored).turns == found.turns
    with pytest.raises(Exception, match="prompt was"):
        replay(advised(turns=4, feedback="scripted:weak"), stored)


def test_it_travels_in_a_spec_with_its_templates_and_passes_gymnasiums_checker(tmp_path):
    for mode in ("explore", "exploit"):
        (tmp_path / f"{mode}.md").write_text(f"{mode} $instructions now $conversation end")
    env = VerbalFeedback(gym.make(ID), feedback="openai:m@http://localhost:1", epsilon=0.25, templates=str(tmp_path))
    text = spec_json(env)
    (tmp_path / "explore.md").unlink()
    again = gym.make(EnvSpec.from_json(text))
    assert again.label == env.label and again.templates == env.templates and again.epsilon == 0.25
    assert str(tmp_path) not in text
    with pytest.warns(UserWarning, match="recommend using the raw environment"):
        check_env(advised(), skip_render_check=True)
    with pytest.raises(UsageError, match="cannot travel"):
        spec_json(advised(feedback=Spy()))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_vector_environments_take_it(kind):
    envs = make_vec(ID, 2, kind, wrappers=[VerbalFeedback])
    observations, infos = envs.reset(seed=[0, 1])
    assert all("Feedback: " in text for text in observations) and len(infos["feedback"]) == 2
    observations, *_ = envs.step([COMPARE, COMPARE])
    assert all("Feedback: " in text for text in observations)
    envs.close()


def test_a_plain_loop_of_somebody_elses():
    """All that a trainer needs is what gymnasium gives: text, and messages for its chat template."""
    env = advised(turns=5)
    observation, info = env.reset(seed=1)
    conversation, seen, total = list(info["messages"]), [observation], 0.0
    while True:
        action = toy.heuristic(type("Request", (), {"messages": conversation}))
        observation, reward, terminated, truncated, info = env.step(action)
        conversation += [{"role": "assistant", "content": action}, *info["messages"]]
        seen.append(observation)
        total += reward
        if terminated or truncated:
            break
    assert [row["content"].startswith("Feedback: ") for row in conversation].count(True) == len(seen) - 1
    assert all("Feedback: " in text for text in seen[:-1]) and "Feedback: " not in seen[-1]
    assert total == pytest.approx(sum(turn.reward for turn in env.unwrapped.trajectory.turns))


def test_record_turn_and_shown_serve_loops_of_ones_own():
    env = advised()
    _, info = env.reset(seed=0)
    assert shown_messages(env, info)[-1].author == "feedback"
    assert record_turn(env, env.step(COMPARE)).observation[-1] == env.extra_messages[-1]


def test_built_in_agents_play_as_without_it():
    bare, env = gym.make(ID, turns=9), advised(turns=9)
    for kind in ("random", "heuristic", "solver"):
        plain, told = (run_episode(one, CompanionPolicy(kind), seed=4, task=4).trajectory for one in (bare, env))
        assert [turn.action for turn in told.turns] == [turn.action for turn in plain.turns]


def test_a_solver_that_plays_ahead_asks_for_nothing():
    spy = Spy()
    env = advised(feedback=spy)
    env.reset(seed=0)
    assert solve(env)[-1].startswith("<answer>") and len(spy.asked) == 1
    env.step(COMPARE)
    assert len(spy.asked) == 2


@each_row(
    ("arguments", "message"),
    [
        ({"epsilon": 1.5}, r"toy/Advised-v0: VerbalFeedback: epsilon=1.5; give a number from 0 to 1"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"feedback": "scripted:best"}, "the scripted ones are scripted:good, scripted:weak, scripted:misleading"),
        (
            {"feedback": "claude"},
            r"feedback='claude'; give one of scripted:good, .*anthropic:MODEL.*, or a chat model$",
        ),
        ({"feedback": "none"}, r"or a chat model; for none, leave the wrapper out$"),
        ({"feedback": 3}, "feedback=3"),
        ({"feedback": "openai:"}, "chat model 'openai:' is unknown"),
        ({"feedback": "openai:m", "templates": "/nowhere"}, "explore.md cannot be read"),
        ({"feedback": "openai:m", "templates": {"explore": "x"}}, "give the texts of explore and exploit"),
        ({"feedback": "openai:m", "templates": {"explore": "$instructions", "exploit": "x"}}, r"no \$conversation"),
        ({"max_calls": -1}, "max_calls=-1"),
        ({"max_cost": "5"}, "max_cost='5'"),
        ({"max_cost": float("nan")}, "max_cost=nan; give a number >= 0"),
        ({"prices": 3}, "prices=3; give the path"),
        ({"templates": 5}, "templates=5; give a folder"),
        ({"feedback": "openai:m", "options": "x"}, "options='x': it is no mapping of names"),
        ({"feedback": "openai:m", "options": {1: 2}}, "it is no mapping of names"),
        ({"feedback": "openai:m", "options": {"temperature": float("nan")}}, "give names and their values as JSON"),
        ({"options": {"temperature": 1}}, "are of a chat model that is named"),
        ({"feedback": "openai:llama@http://localhost:1", "max_cost": 1.0}, "no price is known"),
        ({"feedback": "openai:m", "options": {"warmth": 1}}, "unknown option warmth"),
    ],
)
def test_arguments_that_cannot_be(arguments, message):
    with pytest.raises(UsageError, match=message):
        VerbalFeedback(gym.make(ID), **arguments)


def test_an_environment_without_a_script_says_what_to_do():
    with pytest.raises(
        UsageError, match=r"toy/Guess-v0: .*no scripted feedback; name a chat model .*register_companions"
    ):
        VerbalFeedback(gym.make(toy.ID))


class Mute(toy.Guess):
    """The toy with a script that may say nothing."""


SILENCE = []


def wordless(messages, mode, quality, rng):
    return SILENCE[0] if len(messages) > 3 else "Go on."


register_companions(Mute, feedback=wordless)
gym.register(id="toy/Mute-v0", entry_point="tests.wrappers.test_feedback:Mute")


@pytest.mark.parametrize("said", ["", None, 7, " <b> \n", b"bytes"])
def test_a_script_that_says_nothing_is_named_and_the_turn_is_undone(said):
    SILENCE[:] = [said]
    env = VerbalFeedback(gym.make("toy/Mute-v0"))
    env.reset(seed=0)
    before = snapshot(env)
    with pytest.raises(UsageError) as caught:
        env.step(COMPARE)
    assert "toy/Mute-v0: VerbalFeedback: feedback='scripted:good': tests.wrappers.test_feedback:wordless returned " + (
        f"{said!r}; a script of feedback returns words in every turn"
    ) == str(caught.value)
    assert snapshot(env) == before
    SILENCE[:] = ["Now."]
    assert env.step(COMPARE)[0].endswith("Feedback: Now.")
