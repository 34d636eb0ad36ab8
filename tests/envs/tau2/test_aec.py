"""Both sides through PettingZoo: its own tests, the same conversation as through Gym, and nobody sees the other's papers."""

import json

import gymnasium as gym
import pytest
from pettingzoo.test import api_test, seed_test

import agent_envs
from agent_envs import UsageError
from agent_envs.base.protocol import ToolCallProtocol
from agent_envs.envs.tau2 import dual_control
from agent_envs.envs.tau2.dialogue import recording_of
from tests.envs.tau2.recorded import builtin_rows
from tests.fresh_process import printed
from tests.rows import each_row

DOMAINS = ("retail", "airline", "telecom")
TASKS = [(name, split, row) for name in DOMAINS for split, rows in builtin_rows(name).items() for row in rows]


@pytest.mark.filterwarnings("ignore:Observation", "ignore:Action space")
@pytest.mark.parametrize("name", DOMAINS)
def test_pettingzoos_own_tests_pass(name):
    env = dual_control(name, tasks="builtin")
    api_test(env, num_cycles=400, verbose_progress=False)
    assert env.possible_agents == ["agent_0", "user_0"]
    seed_test(lambda: dual_control(name, tasks="builtin"), num_cycles=40)


def texts(row, sender):
    lines = [line for line in recording_of(row["recording"]) if line.sender == sender]
    return iter([ToolCallProtocol.render(line.calls) if line.calls else line.text for line in lines])


def played(name, split, row):
    """Play a recording through both sides; return the environment and what each side was shown at its turns."""
    env = dual_control(name, tasks="builtin")
    env.reset(seed=0, options={"task": row["id"], "split": split})
    said = {"agent_0": texts(row, "assistant"), "user_0": texts(row, "user")}
    shown = {player: [] for player in said}
    rewards = {player: 0.0 for player in said}
    for player in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        assert env.observation_space(player).contains(observation)
        rewards[player] += reward
        shown[player].append(observation["text"])
        env.step(None if terminated or truncated else next(said[player]))
    return env, shown, rewards


@each_row(("name", "split", "row"), TASKS)
def test_the_same_episode_through_gym_and_aec_is_the_same_conversation(name, split, row):
    env, shown, rewards = played(name, split, row)
    assert rewards == {"agent_0": 1.0, "user_0": 1.0} and env.agents == []
    for side, player in (("agent", "agent_0"), ("user", "user_0")):
        face = gym.make(f"agent_envs/Tau2{name.title()}-v0", side=side, tasks="builtin", user="replay", agent="replay")
        observation, _ = face.reset(seed=0, options={"task": row["id"], "split": split})
        seen = [observation]
        for action in agent_envs.solve(face):
            observation, reward, terminated, _, _ = face.step(action)
            seen.append(observation)
        assert terminated and reward == 1.0
        assert face.unwrapped.episode.state.lines == env.dialogue.lines
        assert seen == shown[player]


def test_nobody_sees_the_others_calls_results_or_papers():
    row = next(row for _, _, row in TASKS if row["id"] == "telecom-test-bill")
    env, shown, _ = played("telecom", "test", row)
    replies = [reply for line in env.dialogue.lines for reply in line.results]
    assert {reply.requestor for reply in replies} == {"assistant", "user"}
    for player, other in (("agent_0", "user"), ("user_0", "assistant")):
        text = "\n".join(shown[player])
        assert not [reply for reply in replies if reply.requestor == other and reply.content in text]
    assert row["user_scenario"]["instructions"]["reason_for_call"] not in "".join(shown["agent_0"])
    assert env.core.rules.domain.policy[:100] not in "".join(shown["user_0"])


def test_a_turn_that_cannot_be_read_is_explained_to_its_writer_and_comes_again():
    env = dual_control("retail", tasks="builtin")
    env.reset(seed=1)
    opening = env.observe("agent_0")
    env.step("")
    assert env.agent_selection == "user_0" and "could not be read" in env.observe("user_0")["text"]
    assert env.infos["user_0"]["events"] == ["malformed: the turn is empty: write to the other side, or call a tool"]
    assert env.observe("agent_0") == opening
    env.step("Hello \ud800 there")
    assert env.agent_selection == "agent_0" and "Hello ? there" in env.observe("agent_0")["text"]
    assert "Hello" not in env.observe("user_0")["text"]
    env.infos["agent_0"]["messages"].clear()
    assert "Hello ? there" in env.observe("agent_0")["text"]


@pytest.mark.parametrize("player", ["user_0", "agent_0"])
def test_silence_is_cut_off(player):
    env = dual_control("retail", tasks="builtin", max_steps=6, max_agent_turns=3)
    env.reset(seed=1)
    if player == "agent_0":
        env.step("Hello")
    for _ in range(3):
        assert not any(env.truncations.values())
        env.step("")
    assert env.truncations == {"agent_0": True, "user_0": True} and not any(env.terminations.values())
    assert env.rewards == {"agent_0": 0.0, "user_0": 0.0} and env.evaluation.reward == 0.0


def test_seeds_pick_tasks_and_options_name_them():
    def task(**options):
        env = dual_control("airline", tasks="builtin")
        env.reset(**options)
        return env.task.id

    assert len({task(seed=seed) for seed in range(20)}) == 4
    assert task(seed=3) == task(seed=3)
    assert task(options={"task": 1, "split": "test"}) == "airline-test-bags"
    with pytest.raises(UsageError, match="no task 99"):
        task(options={"task": 99})


def test_tools_are_told_at_reset_and_are_the_callers_own():
    env = dual_control("telecom", tasks="builtin", render_mode="ansi")
    for _ in range(2):
        env.reset(seed=0)
        names = {player: [tool["function"]["name"] for tool in env.infos[player]["tools"]] for player in env.agents}
        assert "toggle_data" in names["user_0"] and "toggle_data" not in names["agent_0"]
        env.infos["user_0"]["tools"][0]["function"].clear()
    env.step("run_speed_test()")
    assert "user calls run_speed_test({})" in env.render()


@pytest.mark.data
def test_the_agent_is_told_the_support_workflow_where_it_is_the_policy():
    told = []
    for policy in ("standard", "workflow"):
        env = dual_control("telecom", tasks="official", policy=policy)
        env.reset(seed=0)
        told.append(env.observe("agent_0")["text"])
    assert told[0] != told[1]
    assert env.core.rules.domain.policy.strip() in told[1]


def test_what_cannot_be_is_refused():
    with pytest.raises(UsageError, match="retail, airline, telecom"):
        dual_control("banking")
    with pytest.raises(UsageError, match=r"no domain \[\]; the domains are retail"):
        dual_control([])
    with pytest.raises(UsageError, match="judge=5; give openai:MODEL"):
        dual_control("retail", judge=5)
    with pytest.raises(UsageError, match="render_mode='zz'; give 'ansi'"):
        dual_control("retail", render_mode="zz")
    with pytest.raises(UsageError, match="policy='workflow' is a text of the official data"):
        dual_control("telecom", policy="workflow")
    env = dual_control("retail", tasks="builtin")
    with pytest.raises(UsageError, match=r"call reset\(\) first"):
        env.step("hello")
    with pytest.raises(UsageError, match=r"observe\('agent_0'\); call reset\(\) first"):
        env.observe("agent_0")
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"observe\('me'\); the sides are agent_0 and user_0"):
        env.observe("me")
    with pytest.raises(UsageError, match="an action is a str"):
        env.step(3)


def test_pettingzoo_is_imported_at_use_alone():
    code = (
        "import sys, json, gymnasium, agent_envs.envs.tau2, agent_envs.envs.tau2.env\n"
        "env = gymnasium.make('agent_envs:agent_envs/Tau2Telecom-v0'); env.reset(seed=0)\n"
        "before = 'pettingzoo' in sys.modules; agent_envs.envs.tau2.dual_control('retail')\n"
        "print(json.dumps([before, 'pettingzoo' in sys.modules]))"
    )
    assert json.loads(printed(code)) == [False, True]


def test_a_thought_is_not_heard_and_ends_no_talk():
    """Of either side, wherever it stands."""
    env = dual_control("retail")
    env.reset(seed=0)
    for _ in range(2):
        env.step("Hello. <think>Or do I say ###STOP###?</think>")
        assert (env.dialogue.lines[-1].text, env.dialogue.ended) == ("Hello.", "")
