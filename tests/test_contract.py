"""The contract over the whole registry, and over the named values of the arguments."""

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.core.registry import row_of
from tests.examples import part
from tests.golden import BESIDE, is_default

IDS = agent_envs.env_ids()
# Arguments that choose among tasks, manners and partners, and change nothing in how an environment works; goldens hold them.
# Where an agent of rules is the partner, the best user cannot save every conversation; nobody solves Crafter as a whole.
CHOOSING = ("persona", "difficulty", "agent", "kind", "goal")
# Arguments that change what is paid for a turn or said before the first one, and leave the play as it is.
WORDING = {"reward", "env_prompt", "prompt_role", "on_invalid"}
# Alone: an oracle's plan tells what is hidden, which would hide from the check what another value tells; and consent is the
# scripted user's, whom not every side meets.
ALONE = ("plan", "consent")


@pytest.mark.parametrize("env_id", IDS)
def test_contract(env_id):
    """In make test-heavy on as many tasks and hostile texts as `agent-envs check` takes."""
    report = agent_envs.check_turn_env(env_id, episodes=part(8, 2), hostile=part(10_000, 1_000))
    assert report.ok, report.text()
    skipped = [check.name for check in report.checks if check.status == "skipped"]
    assert skipped == ([] if tells_gold(env_id) else ["hidden gold"]), report.text()


def tells_gold(env_id):
    """Return whether the tasks of an id hold gold or a scenario; a game's hold its world, which is what is played."""
    task = gym.make(env_id).unwrapped.source.get("test", 0)
    return bool(task.gold or task.hidden)


def combined(row):
    """Return arguments in which each named value but the defaults stands once, beside values of other arguments.

    Goldens hold each value alone. An argument's values begin at a variant of its own, so that not all meet at the first.
    """
    alone, together = [], []
    for name, values in row.variants.items():
        chosen = [BESIDE[name](value) if name in BESIDE else {name: value} for value in values if name not in CHOOSING]
        others = [arguments for arguments in chosen if not is_default(row.id, arguments)]
        if name in ALONE:
            alone += others
        elif others:
            together.append(others)
    places = [{} for _ in range(max(map(len, together), default=0))]
    for start, others in enumerate(together):
        for offset, arguments in enumerate(others):
            places[(start + offset) % len(places)] |= arguments
    return alone + places


@pytest.mark.parametrize("env_id", IDS)
def test_contract_of_variants(env_id):
    variants = combined(row_of(env_id))
    assert variants
    for arguments in variants:
        episodes = part(4 if arguments.keys() - WORDING else 2, 1)
        report = agent_envs.check_turn_env(env_id, episodes=episodes, hostile=part(200, 50), **arguments)
        meant = {"hidden gold"} if arguments.get("plan") == "oracle" else set()  # such a plan tells it on purpose
        # A share of words is paid for some of them by its definition, also to who tells all.
        meant |= {"everything told"} if arguments.get("reward") == "f1" else set()
        assert {check.name for check in report.checks if check.status == "failed"} <= meant, (arguments, report.text())


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
