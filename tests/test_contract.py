"""The contract over the whole registry, and over the named values of the arguments."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.core.registry import TABLE
from tests.golden import is_default, variants

IDS = agent_envs.env_ids()
# Arguments that choose among tasks, manners and partners, and change nothing in how an environment works; goldens hold them.
# Where an agent of rules is the partner, the best user cannot save every conversation; nobody solves Crafter as a whole.
CHOOSING = ("persona", "difficulty", "agent", "kind", "goal")
# Arguments that change what is paid for a turn or said before the first one, and leave the play as it is.
WORDING = {"reward", "env_prompt", "prompt_role", "on_invalid"}


@pytest.mark.parametrize("env_id", IDS)
def test_contract(env_id):
    report = agent_envs.check_turn_env(env_id)
    assert report.ok, report.text()
    skipped = [check.name for check in report.checks if check.status == "skipped"]
    assert skipped == ([] if tells_gold(env_id) else ["hidden gold"]), report.text()


def tells_gold(env_id):
    """Return whether the tasks of an id hold gold or a scenario; a game's hold its world, which is what is played."""
    task = gym.make(env_id).unwrapped.source.get("test", 0)
    return bool(task.gold or task.hidden)


@pytest.mark.parametrize(
    ("env_id", "arguments"),
    [
        (row.id, arguments)
        for row in TABLE
        for arguments in variants(row, outside=False)
        if arguments and not set(CHOOSING) & arguments.keys()
    ],
    ids=str,
)
def test_contract_of_variants(env_id, arguments):
    if is_default(env_id, arguments):
        return  # `test_contract` checks this very environment
    episodes = 2 if WORDING & arguments.keys() else 4
    report = agent_envs.check_turn_env(env_id, episodes=episodes, hostile=200, **arguments)
    meant = {"hidden gold"} if arguments.get("plan") == "oracle" else set()  # such a plan tells it on purpose
    assert {check.name for check in report.checks if check.status == "failed"} <= meant, report.text()


@pytest.mark.parametrize("env_id", IDS)
def test_spec_travels_with_our_wrappers(env_id):
    from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit

    env = TurnLimit(gym.make(env_id), turns=4)
    if env.unwrapped.answer_tags[0]:
        env = ForcedAnswer(env, free_turns=2)
    env = Memory(env, turns=1)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(agent_envs.spec_json(env)))
    assert again.spec == env.spec
    actions = ["<search>a</search>", "nothing", "the last word"]
    for one in (env, again):
        one.reset(seed=5)
    for action in actions:
        result = one_step(env, action)
        assert result == one_step(again, action)
        if result[2]:  # a user may end a conversation at once
            break


def one_step(env, action):
    observation, reward, terminated, truncated, info = env.step(action)
    mask = info.pop("action_mask", None)
    return observation, reward, terminated, truncated, info, mask if mask is None else mask.tolist()


@pytest.mark.parametrize("env_id", IDS)
def test_ansi_rendering_tells_the_episode(env_id):
    env = gym.make(env_id, render_mode="ansi")
    env.reset(seed=0)
    env.step("a turn of mine")
    assert "a turn of mine" in env.render()


def test_a_missing_package_is_no_finding(monkeypatch):
    """It says nothing of the environment: the caller is told what to install, as if the environment could not be made."""

    def missing(backend):
        raise agent_envs.MissingExtra("pydantic-monty", "sandbox", "the sandbox monty")

    monkeypatch.setattr("agent_envs.envs.tool_reasoning.toolbox.sandbox_version", missing)
    with pytest.raises(agent_envs.MissingExtra, match="sandbox"):
        agent_envs.check_turn_env("agent_envs/ToolReasoning-v0", episodes=1, hostile=1)
