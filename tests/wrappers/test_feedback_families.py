"""Feedback on every environment: what its model may see, that rewards do not change, and that the contract still holds."""

import dataclasses
import json
import random

import gymnasium as gym
import pytest

from agent_envs import env_ids, run_episode, solve
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Say
from agent_envs.base.serialization import encode_state
from agent_envs.checker import check_turn_env
from agent_envs.checker.reward_leaks import CANARY, NUMBER, _replace_values
from agent_envs.core.env import shown_messages
from agent_envs.core.registry import companion, row_of
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.wrappers import VerbalFeedback
from agent_envs.wrappers.feedback_prompts import read_templates
from tests.examples import sample
from tests.wrappers.advised import Spy

SIDES = [("agent_envs/Tau2Retail-v0", {"side": "user"}), ("agent_envs/Tau2Telecom-v0", {"side": "solo"})]
PLAYED = [*((name, {}) for name in env_ids()), *SIDES]
NAMES = ["-".join((name.removeprefix("agent_envs/"), *arguments.values())) for name, arguments in PLAYED]
# One of each kind of face: tags, native calls and a customer, a game, expanded actions.
CONTRACTS = ("SearchQA", "Tau2Telecom", "BabaIsAI", "SortExpA")


def advised(name, arguments):
    spy = Spy()
    return VerbalFeedback(gym.make(name, **arguments), feedback=spy), spy


def played(env, spy, task, choose, most=12):
    """Play and return how often feedback was asked for, after holding each request against what the policy was shown."""
    # A key of its own: what was asked once under a key is remembered.
    _, info = env.reset(seed=0, options={"task": task, "episode_key": f"play {len(spy.asked)}"})
    tools, talk = info["tools"], shown_messages(env, info)
    checked = 0
    for _ in range(most):
        if info["feedback"]:
            request, checked = spy.asked[-1], checked + 1
            # The newest message is its own answer; all else that it was shown, the policy had been shown before.
            expected = read_templates("").messages(info["feedback"], talk[:-1], tools, info["prefill"])
            assert request.messages == expected
            text = json.dumps(request.to_json())
            assert CANARY not in text and str(NUMBER) not in text
        action = choose()
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break
        turn = env.unwrapped.episode.turns[-1]
        if "action_mask" not in info or (isinstance(action, str) and isinstance(turn.parsed, Say)):
            talk += (Message("assistant", str(turn.action), "policy"),)
        talk += shown_messages(env, info)
    return checked


@pytest.mark.parametrize(("name", "arguments"), PLAYED, ids=NAMES)
def test_a_feedback_model_sees_what_the_policy_sees_and_no_secret(name, arguments):
    env, spy = advised(name, arguments)
    env.reset(seed=0, options={"task": 0})
    real = env.unwrapped.episode.task
    path = solve(env) if companion(env, "solver") is not None else []
    baits = [
        dataclasses.replace(
            real, gold=tuple(CANARY for _ in real.gold), hidden=_replace_values(real.hidden, type(canary))
        )
        for canary in (CANARY, NUMBER)
    ]
    baits = [bait for bait in baits if any(word in json.dumps(encode_state(bait)) for word in (CANARY, str(NUMBER)))]
    checked = 0
    for bait in baits or [real]:
        sampler, rng = companion(env, "sampler"), random.Random("canary")
        checked += played(env, spy, bait, lambda: sampler(env, rng))  # noqa: B023 - called at once
        way = iter(path)
        checked += played(env, spy, bait, lambda: next(way, ""))  # noqa: B023 - called at once
    assert checked >= 2


@pytest.mark.parametrize("name", env_ids())
def test_rewards_and_episodes_are_the_same_as_without_it(name):
    for kind in ("random", "solver"):
        plain = gym.make(name)
        told, spy = advised(name, {})
        one, other = (run_episode(env, CompanionPolicy(kind), seed=3, task=3) for env in (plain, told))
        assert [turn.action for turn in one.trajectory.turns] == [turn.action for turn in other.trajectory.turns]
        assert [(t.reward, t.terms, t.terminated) for t in one.trajectory.turns] == [
            (t.reward, t.terms, t.terminated) for t in other.trajectory.turns
        ]
        assert one.success == other.success and plain.unwrapped.trajectory.turns == told.unwrapped.trajectory.turns
        assert len(spy.asked) >= 1


@pytest.mark.parametrize("name", sample(CONTRACTS, 2))
def test_the_contract_holds_with_scripted_feedback(name):
    env = VerbalFeedback(gym.make(row_of(name).id), feedback="scripted:good")
    report = check_turn_env(env, episodes=1, hostile=10)
    assert report.ok, report.text()
