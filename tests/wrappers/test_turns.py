"""Limits on turns and forced answers."""

from dataclasses import replace

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs import Reply, UsageError, fork, restore, run_episode, snapshot, spec_json
from agent_envs.base.protocol import Answer
from agent_envs.core.snapshot import Snapshot
from agent_envs.rollout.policy import NullPolicy
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit
from agent_envs.wrappers.turns import allowance
from tests.rows import each_row
from tests.toy import ID, Guess

COMPARE = "<compare>50</compare>"


def wrapped(kind, env, turns):
    """Limit an environment to so many turns, the last of them a forced answer where the kind forces one."""
    return kind(env, free_turns=turns - 1) if kind is ForcedAnswer else kind(env, turns=turns)


def limited(limit, kind=TurnLimit, **arguments):
    env = wrapped(kind, gym.make(ID, **arguments), limit)
    return env, env.reset(seed=0)[1]


def gold(env):
    return env.unwrapped.episode.task.gold[0]


def test_the_last_turn_allowed_truncates_without_success():
    env, info = limited(3)
    assert info["turns_left"] == 3 and "success" not in info
    for left in (2, 1):
        _, _, terminated, truncated, info = env.step(COMPARE)
        assert (terminated, truncated, info["turns_left"]) == (False, False, left) and "success" not in info
    _, reward, terminated, truncated, info = env.step(COMPARE)
    assert (terminated, truncated, info["turns_left"], info["success"]) == (False, True, 0, False)
    assert reward == -0.0625


def test_an_answer_in_the_last_turn_terminates_with_its_success():
    env, _ = limited(1)
    _, reward, terminated, truncated, info = env.step(f"<answer>{gold(env)}</answer>")
    assert (reward, terminated, truncated, info["success"], info["turns_left"]) == (1.0, True, False, True, 0)


@pytest.mark.parametrize("kind", [TurnLimit, ForcedAnswer])
def test_a_step_after_the_end_is_refused_and_a_reset_starts_afresh(kind):
    env, _ = limited(2, kind)
    env.step("x"), env.step("x")
    turns = env.unwrapped.episode.turns
    with pytest.raises(UsageError, match=r"toy/Guess-v0: the episode is over; call reset\(\)"):
        env.step(COMPARE)
    assert env.unwrapped.episode.turns == turns
    assert env.reset(seed=1)[1]["turns_left"] == 2
    assert env.step(COMPARE)[4]["turns_left"] == 1


@pytest.mark.parametrize("kind", [TurnLimit, ForcedAnswer])
def test_a_step_before_the_first_reset_is_refused(kind):
    with pytest.raises(UsageError, match=r"reset\(\)"):
        wrapped(kind, gym.make(ID), 2).step("x")


def test_a_limit_beyond_the_environments_own_changes_nothing():
    env, info = limited(50, turns=2)
    assert info["turns_left"] == 2
    env.step("x")
    _, _, terminated, truncated, info = env.step("x")
    assert (terminated, truncated, info["success"], info["turns_left"]) == (False, True, False, 0)
    with pytest.raises(UsageError, match="over"):
        env.step("x")


def test_a_refused_action_costs_no_turn():
    env, _ = limited(2)
    with pytest.raises(UsageError):
        env.step(None)
    assert env.step("x")[3] is False and env.step("x")[3] is True


@pytest.mark.parametrize("turns", [-1, True, 1.0, "3", None])
def test_other_limits_are_refused(turns):
    with pytest.raises(UsageError, match=r"TurnLimit: turns=.*>= 1"):
        TurnLimit(gym.make(ID), turns=turns)
    with pytest.raises(UsageError, match=r"ForcedAnswer: free_turns=.*>= 0"):
        ForcedAnswer(gym.make(ID), free_turns=turns)
    with pytest.raises(UsageError, match="TurnLimit: turns=0"):
        TurnLimit(gym.make(ID), turns=0)


def test_other_environments_are_refused():
    with pytest.raises(UsageError, match="TurnLimit wraps a TurnEnv"):
        TurnLimit(gym.make("CartPole-v1"), turns=2)
    bare = gym.make(ID)
    bare.unwrapped.answer_tags = ("", "")
    with pytest.raises(UsageError, match="no answer tag"):
        ForcedAnswer(bare, free_turns=1)


def test_the_forced_turn_is_announced():
    env, info = limited(3, ForcedAnswer, offer_tools=True)
    assert info["prefill"] == "" and info["tools"] and info["stop"]
    assert env.step(COMPARE)[4]["prefill"] == ""
    info = env.step(COMPARE)[4]
    assert (info["prefill"], info["turns_left"]) == ("<answer>", 1)
    assert "</answer>" in info["stop"]
    assert env.step("5")[4]["prefill"] == ""


def test_with_one_turn_no_tool_is_offered():
    _, info = limited(1, ForcedAnswer, offer_tools=True)
    assert (info["prefill"], info["tools"], info["turns_left"]) == ("<answer>", [], 1)


@each_row(
    ("said", "taken", "answer"),
    [
        ("42", "<answer>42</answer>", "42"),
        ("42</answer>", "<answer>42</answer>", "42"),
        ("<answer>42", "<answer>42</answer>", "42"),
        ("<answer>42</answer>", "<answer>42</answer>", "42"),
        (" \n<answer>42</answer> surplus", "<answer>42</answer> surplus", "42"),
        ("<think>6 x 7</think><answer>42</answer>", "<answer>42</answer>", "42"),
        ("<compare>50</compare><answer>42", "<answer>42</answer>", "42"),
        ("", "<answer></answer>", ""),
        ("<compare>50</compare>", "<answer><compare>50</compare></answer>", "<compare>50</compare>"),
        ("4</answer><compare>50</compare>", "<answer>4</answer><compare>50</compare>", "4"),
        ("</answer><compare>50</compare>", "<answer></answer><compare>50</compare>", ""),
        ("<answer><compare>50</compare>", "<answer><compare>50</compare></answer>", "<compare>50</compare>"),
    ],
)
def test_the_last_turn_is_an_answer_whatever_it_says(said, taken, answer):
    env, _ = limited(2, ForcedAnswer)
    env.step("nothing")
    _, reward, terminated, truncated, info = env.step(said)
    turn = env.unwrapped.episode.turns[-1]
    assert (turn.action, turn.parsed) == (taken, Answer(answer))
    assert (terminated, truncated) == (True, False)
    assert turn.results == () and dict(turn.terms)["cost"] == 0.0 and env.unwrapped.episode.state.hints == ()


def test_a_right_forced_answer_earns_its_reward():
    env, _ = limited(1, ForcedAnswer)
    assert env.step(gold(env))[1:4] == (1.0, True, False)


def test_earlier_turns_are_left_alone():
    env, _ = limited(3, ForcedAnswer)
    env.step(COMPARE)
    assert env.unwrapped.episode.turns[-1].action == COMPARE


def test_where_the_environment_allows_fewer_turns_its_last_is_announced_and_forced():
    env, info = limited(5, ForcedAnswer, turns=2)
    info = env.step(COMPARE)[4]
    assert (info["turns_left"], info["prefill"]) == (1, "<answer>")
    assert env.step("42")[2:4] == (True, False)
    assert env.unwrapped.episode.turns[-1].action == "<answer>42</answer>"


def test_a_policy_that_says_nothing_still_ends_in_an_answer():
    result = run_episode(ForcedAnswer(gym.make(ID), free_turns=2), NullPolicy(), seed=0)
    assert result.status == "terminated" and [turn.action for turn in result.trajectory.turns] == [
        "", "", "<answer></answer>"
    ]  # fmt: skip


def test_limits_within_limits_take_the_smaller():
    env = TurnLimit(TurnLimit(gym.make(ID), turns=4), turns=2)
    assert env.reset(seed=0)[1]["turns_left"] == 2
    env.step("x")
    assert env.step("x")[3]
    env = TurnLimit(TurnLimit(gym.make(ID), turns=1), turns=3)
    assert env.reset(seed=0)[1]["turns_left"] == 1
    *_, truncated, info = env.step("x")
    assert truncated and info["turns_left"] == 0


STACKS = [
    lambda env: TurnLimit(env, turns=3),
    lambda env: TurnLimit(env, 3),
    lambda env: ForcedAnswer(env, free_turns=2),
    lambda env: ForcedAnswer(env, 0),
    lambda env: Memory(env, turns=2),
    lambda env: Memory(env),
    lambda env: Memory(ForcedAnswer(TurnLimit(env, turns=5), free_turns=3), turns=0),
]


def names(env):
    found = []
    while isinstance(env, gym.Wrapper):
        found.append((type(env), getattr(env, "turns", None)))
        env = env.env
    return found


@pytest.mark.parametrize("wrap", STACKS)
def test_a_stack_travels_in_its_spec(wrap):
    env = wrap(gym.make(ID, turns=4))
    for text in (spec_json(env), env.spec.to_json()):
        again = gym.make(EnvSpec.from_json(text))
        assert names(again) == names(env)
        assert again.unwrapped.spec_digest == env.unwrapped.spec_digest
        assert again.spec == env.spec
    first, second = env.reset(seed=4), again.reset(seed=4)
    assert first == second
    for action in (COMPARE, "x", "<luck>a</luck>", "9"):
        first, second = env.step(action), again.step(action)
        assert first == second
        if first[2] or first[3]:
            break


@pytest.mark.parametrize("wrap", STACKS)
def test_a_stack_forks_and_restores_at_every_turn(wrap):
    actions = [COMPARE, "x", "<luck>a</luck>", "9"]
    for turn in range(3):
        env, fresh = wrap(gym.make(ID)), wrap(gym.make(ID))
        if env.reset(seed=4)[1]["turns_left"] <= turn:
            break
        for action in actions[:turn]:
            env.step(action)
        data = snapshot(env).to_bytes()
        twin = fork(env)
        restore(fresh, Snapshot.from_bytes(data))
        seen = twin.step(actions[turn])
        assert snapshot(env).to_bytes() == data
        assert env.step(actions[turn]) == seen == fresh.step(actions[turn])


class Hurried(Guess):
    """Its third turn is the last, whatever `turns` is, and it says so."""

    def _extras(self, episode):
        return {"turns_left": 0 if episode.over else 3 - len(episode.turns)}

    def _advance(self, episode, action):
        outcome = super()._advance(episode, action)
        return outcome if len(episode.turns) < 2 else replace(outcome, truncated=not outcome.terminated)


def test_a_limit_that_the_environment_tells_itself_is_kept():
    env = ForcedAnswer(Hurried(turns=9), free_turns=5)
    info = env.reset(seed=0)[1]
    for left, prefill in ((3, ""), (2, ""), (1, "<answer>")):
        assert (info["turns_left"], info["prefill"]) == allowance(env) == (left, prefill)
        *_, terminated, truncated, info = env.step("<compare>50</compare>")
    assert terminated and not truncated and isinstance(env.unwrapped.episode.turns[-1].parsed, Answer)
    assert info["turns_left"] == 0
    env = TurnLimit(Hurried(turns=9), turns=2)
    assert env.reset(seed=0)[1]["turns_left"] == 2 == allowance(env)[0]


def test_no_tool_is_offered_where_the_answer_is_forced():
    seen = []

    class Looks:
        name, batch = "looks", 1

        def act(self, requests):
            seen.append((requests[0].prefill, len(requests[0].tools)))
            return [Reply("hm")]

    env, _ = limited(2, ForcedAnswer, offer_tools=True)
    run_episode(env, Looks(), seed=0)
    assert seen == [("", 1), ("<answer>", 0)]


def test_the_cap_on_a_turn_does_not_unforce_its_answer():
    env, _ = limited(1, ForcedAnswer)
    _, _, terminated, _, _ = env.step("<compare>5</compare>" + "a" * 1_000_000)
    assert terminated and isinstance(env.unwrapped.episode.turns[-1].parsed, Answer)


def test_the_solver_knows_gymnasiums_own_time_limit():
    env = gym.make(ID, max_episode_steps=1)
    env.reset(seed=0)
    assert allowance(env) == (1, "")
