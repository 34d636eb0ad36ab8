"""Verbal feedback: where its message stands, chance, forks and replays, and other wrappers around it or within."""

import statistics

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs import (
    Reply,
    Snapshot,
    UsageError,
    fork,
    make_vec,
    replay,
    restore,
    run_episode,
    snapshot,
    solve,
    spec_json,
)  # fmt: skip
from agent_envs.messages import FEEDBACK_MARK
from agent_envs.policies import CompanionPolicy
from agent_envs.rollout import record_turn, shown
from agent_envs.run_journal import Planned
from agent_envs.runner import run_many
from agent_envs.trajectory import Header, Trajectory, TrajectoryTree, transcript
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit, VerbalFeedback
from agent_envs.wrappers.feedback import drawn
from tests import toy
from tests.wrappers.advised import COMPARE, ID, Spy

OPENING = ["system: Guess the number.", "user: I think of a whole number from 1 to 100. Which?"]


def advised(epsilon=0.5, feedback="scripted:good", **arguments):
    return VerbalFeedback(gym.make(ID, **arguments), feedback=feedback, epsilon=epsilon)


def context(info):
    return [f"{row['role']}: {row['content']}" for row in info["messages"]]


def modes(env, steps=4, **options):
    _, info = env.reset(seed=0, **options)
    found = [info["feedback"]]
    for _ in range(steps):
        found.append(env.step(COMPARE)[4]["feedback"])
    return found


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
    assert env.said == (found.prompt[-1], *(turn.observation[-1] for turn in found.turns[:-1]))


def test_the_environment_itself_never_hears_of_it():
    env, bare = advised(turns=3), gym.make(ID, turns=3)
    for one in (env, bare):
        one.reset(seed=0, options={"task": 1})
    for action in (COMPARE, "nonsense", "<answer>7</answer>"):
        told, plain = env.step(action), bare.step(action)
        assert told[1:4] == plain[1:4] and told[4]["reward_terms"] == plain[4]["reward_terms"]
    assert env.unwrapped.trajectory == bare.unwrapped.trajectory


def test_epsilon_0_and_1_are_exact_and_epsilon_is_a_share():
    keys = [f"key {number}" for number in range(400)]
    header = Header("e", "s", "t", "train", "d", 0, "")
    numbers = [drawn(Header("e", "s", "t", "train", "d", 0, key), turn) for key in keys for turn in range(5)]
    assert all(0 <= number < 1 for number in numbers) and len(set(numbers)) == 2000
    assert abs(statistics.fmean(numbers) - 0.5) < 0.03 and drawn(header, 0) == drawn(header, 0)
    for key in keys[:20]:
        assert set(modes(advised(1.0), options={"episode_key": key})) == {"explore"}
        assert set(modes(advised(0.0), options={"episode_key": key})) == {"exploit"}
    tenth = [mode for key in keys[:60] for mode in modes(advised(0.1), options={"episode_key": key})]
    assert 0.05 < tenth.count("explore") / len(tenth) < 0.16


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.text(min_size=1, max_size=8))
def test_a_larger_epsilon_explores_wherever_a_smaller_one_does(one, other, key):
    low, high = sorted((one, other))
    options = {"episode_key": key.encode("utf-8", "replace").decode()}
    pairs = zip(modes(advised(low), options=options), modes(advised(high), options=options), strict=True)
    assert all((few, many) != ("explore", "exploit") for few, many in pairs)


def test_every_part_of_the_key_draws_anew():
    base = {
        "env_id": "e",
        "spec_digest": "s",
        "task_id": "t",
        "split": "train",
        "task_digest": "d",
        "seed": 0,
        "episode_key": "k",
    }
    first = drawn(Header(**base), 0)
    for other in ({"task_digest": "x"}, {"seed": 1}, {"episode_key": "x"}, {"branch": "b"}):
        assert drawn(Header(**{**base, **other}), 0) != first
    assert drawn(Header(**base), 1) != first


def test_rollouts_of_a_group_are_independent_and_form_one_tree():
    spec = spec_json(advised(turns=3))
    plan = [Planned(f"group/{rollout}", spec, 2, "train", 7, rollout) for rollout in range(8)]
    found = [result.trajectory for _, result in run_many(plan, Says(), concurrency=2)]
    assert len({trajectory.prompt[-1].content for trajectory in found}) == 8
    tree = TrajectoryTree(found[0].header, found[0].prompt)
    for trajectory in found:
        tree.add(trajectory)
    assert [message.author for message in tree.prompt] == ["environment", "environment"]
    assert len(tree.nodes) == 24 and [path.prompt for path in tree.paths()] == [one.prompt for one in found]
    again = [result.trajectory for _, result in run_many(plan, Says(), concurrency=4)]
    assert sorted(again, key=str) == sorted(found, key=str)


def test_a_fork_has_the_same_future_and_a_branch_another_one():
    env = advised()
    env.reset(seed=3)
    env.step(COMPARE)
    twin, *branches = fork(env), *(fork(env, branch=f"b{number}") for number in range(6))
    told = [env.step(COMPARE)[0] for env in (env, twin, *branches)]
    assert told[0] == told[1] and len(set(told)) == 7
    assert env.said == twin.said and env.said[:2] == branches[0].said[:2]
    later = [env.step(COMPARE)[0] for env in (env, twin)]
    assert later[0] == later[1]


def test_snapshots_go_through_bytes_and_restore_the_conversation():
    env = advised()
    env.reset(seed=3)
    env.step(COMPARE)
    moment = Snapshot.from_bytes(snapshot(env).to_bytes())
    expected = [env.step(COMPARE)[0] for _ in range(3)]
    said = env.said
    other = advised()
    restore(other, moment)
    assert [other.step(COMPARE)[0] for _ in range(3)] == expected and other.said == said
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
    assert shown(env, info)[-1].author == "feedback"
    assert record_turn(env, env.step(COMPARE)).observation[-1] == env.said[-1]


def test_built_in_agents_play_as_without_it():
    class Solved(toy.Guess):
        pass

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


NEWS = "user: no number"
NOTE = "<compare>xx</compare>"


def contexts(wrap, steps=3):
    spy = Spy()
    env = wrap(gym.make(ID), spy)
    _, info = env.reset(seed=0)
    found = [context(info)]
    for _ in range(steps):
        info = env.step(NOTE)[4]
        assert info["context"] == "replace"
        found.append(context(info))
    return found, spy


def test_memory_in_either_order_keeps_feedback_as_long_as_the_observation_that_it_stands_behind():
    within, near = contexts(lambda env, spy: VerbalFeedback(Memory(env, turns=1), feedback=spy))
    around, far = contexts(lambda env, spy: Memory(VerbalFeedback(env, feedback=spy), turns=1))
    said, told = f"assistant: {NOTE}", [f"user: Feedback: Advice {number}." for number in range(1, 5)]
    assert within == around
    assert within[0] == [*OPENING, told[0]]
    assert within[1] == [*OPENING, told[0], said, NEWS, told[1]]
    assert within[2] == [*OPENING, NEWS, told[1], said, NEWS, told[2]]
    assert within[3] == [*OPENING, NEWS, told[2], said, NEWS, told[3]]
    # Outermost, it is asked on the context that the policy has; within, on all that was said.
    last = [spy.asked[-1].messages[-1]["content"] for spy in (near, far)]
    assert last[0].count("Advice") == 1 and last[1].count("Advice") == 3


def test_a_memory_without_past_turns_shows_the_newest_feedback_alone():
    found, _ = contexts(lambda env, spy: VerbalFeedback(Memory(env, turns=0), feedback=spy))
    assert found[2] == [*OPENING, NEWS, "user: Feedback: Advice 3."]


def test_episodes_with_memory_replay_from_their_record():
    wrap = [lambda env: VerbalFeedback(Memory(env, turns=1)), lambda env: Memory(VerbalFeedback(env), turns=1)]
    for one in wrap:
        found = run_episode(one(gym.make(ID, turns=4)), Says(NOTE), seed=2, task=2).trajectory
        authors = [message.author for message in found.turns[1].observation]
        assert authors.count("feedback") == 2
        assert replay(one(gym.make(ID, turns=4)), Trajectory.from_json(found.to_json())).turns == found.turns


@pytest.mark.parametrize("limit", [lambda env: TurnLimit(env, turns=2), lambda env: ForcedAnswer(env, free_turns=1)])
def test_limits_in_either_order_end_without_feedback(limit):
    spies = Spy(), Spy()
    inside = VerbalFeedback(limit(gym.make(ID)), feedback=spies[0])
    outside = limit(VerbalFeedback(gym.make(ID), feedback=spies[1]))
    for env, spy in ((inside, spies[0]), (outside, spies[1])):
        _, info = env.reset(seed=0)
        infos = [info, env.step(NOTE)[4]]
        observation, _, terminated, truncated, info = env.step(NOTE)
        assert (terminated or truncated) and len(spy.asked) == 2 and "Advice" not in observation
        assert [info["prefill"] for info in infos] == ["", "<answer>" if "ForcedAnswer" in str(env) else ""]


def test_a_forced_answer_is_told_to_the_feedback_model_where_it_stands_outside():
    spy = Spy()
    env = VerbalFeedback(ForcedAnswer(gym.make(ID), free_turns=1), feedback=spy)
    env.reset(seed=0)
    env.step(NOTE)
    assert ["begin with" in request.messages[-1]["content"] for request in spy.asked] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 1.5}, r"toy/Advised-v0: VerbalFeedback: epsilon=1.5; give a number from 0 to 1"),
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"feedback": "scripted:best"}, "the scripted ones are scripted:good, scripted:weak, scripted:misleading"),
        ({"feedback": "claude"}, r"feedback='claude'; give one of scripted:good, .*anthropic:MODEL"),
        ({"feedback": 3}, "feedback=3"),
        ({"feedback": "openai:"}, "chat model 'openai:' is unknown"),
        ({"feedback": "openai:m", "templates": "/nowhere"}, "explore.md cannot be read"),
        ({"feedback": "openai:m", "templates": {"explore": "x"}}, "give the texts of explore and exploit"),
        ({"feedback": "openai:m", "templates": {"explore": "$instructions", "exploit": "x"}}, r"no \$conversation"),
        ({"max_calls": -1}, "max_calls=-1"),
        ({"max_cost": "5"}, "max_cost='5'"),
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
