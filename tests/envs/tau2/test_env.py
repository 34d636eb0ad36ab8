"""The Gym faces: privacy, observations, rewards, limits, forks, sides, and the official data through them."""

import dataclasses
import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import DataMissing, EnvFault, UsageError, fork, restore, snapshot
from agent_envs.base.serialization import canonical_json, encode_state
from agent_envs.core.episode import Reward
from agent_envs.core.snapshot import Snapshot
from agent_envs.envs.tau2 import dual_control
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.database import Changes
from agent_envs.envs.tau2.env import SOURCES
from agent_envs.envs.tau2.official import official_bytes
from agent_envs.envs.tau2.partners import PLAYERS
from agent_envs.envs.tau2.turn_taking import GREETING
from agent_envs.evaluation.runs.measures import tool_calls
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.services.chat import ScriptedChat
from tests.envs.tau2.hashes import original_hash
from tests.envs.tau2.recorded import builtin_rows
from tests.rows import each_row

IDS = {name: f"agent_envs/Tau2{name.title()}-v0" for name in ("retail", "airline", "telecom")}
FACES = [(name, side) for name in IDS for side in ("agent", "user")] + [("telecom", "solo")]
SECRET = "secret-5d1e"


def made(name, **arguments):
    """Return an environment over recorded dialogues, both sides of which say the same to everybody."""
    recorded = {"tasks": "builtin", "user": "replay", "agent": "replay"}
    return gym.make(IDS[name], **({**recorded, **arguments} if "tasks" not in arguments else arguments))


def begun(name="telecom", task="telecom-test-airplane", split="test", **arguments):
    env = made(name, **arguments)
    _, info = env.reset(seed=0, options={"task": task, "split": split})
    return env, info


def tasks_of(name):
    return [(split, row["id"]) for split, rows in builtin_rows(name).items() for row in rows]


def seen(env, split, task, *first):
    """Return all that a side is shown while the solver plays: observations, info, and the actions it took."""
    observation, info = env.reset(seed=0, options={"task": task, "split": split})
    shown, actions = [observation, json.dumps(info)], []
    for action in [*first, *agent_envs.solve(env)]:
        observation, _, terminated, truncated, info = env.step(action)
        shown += [observation, json.dumps(info)]
        actions.append(action)
        if terminated or truncated:
            break
    return "\n".join(shown), actions


@pytest.mark.parametrize(("name", "side"), [face for face in FACES if face[1] != "solo"])
def test_a_side_is_never_shown_the_others_calls_results_or_papers(name, side):
    env = made(name, side=side)
    mine, theirs = ("assistant", "user") if side == "agent" else ("user", "assistant")
    results = 0
    for split, task in tasks_of(name):
        shown, _ = seen(env, split, task)
        talk = env.unwrapped.episode.state
        told = " ".join(line.text for line in talk.lines if line.sender != "environment")
        for line in talk.lines:
            for reply in line.results:
                if reply.requestor == theirs and reply.content not in told:
                    results += 1
                    assert json.dumps(reply.content)[1:-1] not in shown and reply.content not in shown
            if line.sender == theirs:
                assert not [call for call in line.calls if f'"{call.name}"' in shown and side == "agent"]
        scenario = env.unwrapped.episode.task.data["user_scenario"]["instructions"]
        policy = env.unwrapped.rules.domain.policy
        assert (scenario["reason_for_call"] in shown) is (mine == "user")
        assert (policy[:200] in shown) is (mine == "assistant")
    assert results > 5 or (name != "telecom" and side == "agent")


@pytest.mark.parametrize("side", ["agent", "solo"])
def test_a_canary_in_the_scenario_never_reaches_the_agent(side):
    env, _ = begun(side=side)
    task = env.unwrapped.episode.task
    data = {**task.data, "user_scenario": {"persona": SECRET, "instructions": SECRET}, "description": SECRET}
    observation, info = env.reset(options={"task": dataclasses.replace(task, data=data)})
    shown = [observation, json.dumps(info)]
    for action in agent_envs.solve(env):
        shown.append(str(env.step(action)))
    assert env.unwrapped.episode.over and SECRET not in "".join(shown)
    user = made("telecom", side="user")
    assert SECRET in user.reset(options={"task": dataclasses.replace(task, data=data)})[0]


@each_row(
    "change",
    [
        {"recording": ({"text": "x"},)}, {"recording": "words"}, {"recording": None},
        {"recording": ({"sender": "user", "text": " "},)}, {"recording": ({"sender": "user", "calls": ({"x": 1},)},)},
        {"recording": ({"sender": "user", "calls": ({"name": "x", "arguments": "y"},)},)},
        {"initial_state": {"initialization_data": {"agent_data": {"orders": 5}}}},
        {"initial_state": {"initialization_data": {"agent_data": {"orders": {"#W1": 5}}}}},
    ],
)  # fmt: skip
def test_a_task_that_is_none_is_refused_by_its_place(change):
    env, _ = begun("retail", "retail-test-cancel")
    task = env.unwrapped.episode.task
    with pytest.raises(UsageError, match=r"recording|orders"):
        env.reset(options={"task": dataclasses.replace(task, data={**task.data, **change})})


def test_the_ticket_is_for_solo_mode_alone():
    ticket = "Solved once the phone is connected."
    assert ticket in begun(side="solo")[1]["messages"][1]["content"]
    for side in ("agent", "user"):
        assert ticket not in json.dumps(begun(side=side)[1])


def test_the_first_messages_are_the_instructions_and_the_other_sides_words():
    env, info = begun()
    assert [message["role"] for message in info["messages"]] == ["system", "user"]
    assert info["messages"][1]["content"].startswith("Hello, my phone has no service.")
    assert GREETING in info["messages"][0]["content"]
    assert "get_customer_by_phone" in [tool["function"]["name"] for tool in info["tools"]]
    _, info = begun(side="user")
    assert info["messages"][1]["content"] == GREETING
    assert "toggle_airplane_mode" in [tool["function"]["name"] for tool in info["tools"]]
    assert begun("retail", "retail-test-cancel", side="user")[1]["tools"] == []


def test_results_come_back_as_messages_of_their_calls_and_as_typed_results():
    env, _ = begun()
    action = (
        '<tool_call>\n{"name": "get_customer_by_phone", "arguments": {"phone_number": "555-700-1003"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_details_by_id", "arguments": {"id": "nothing"}}\n</tool_call>'
    )
    observation, reward, terminated, truncated, info = env.step(action)
    rows = info["messages"]
    assert [(row["role"], row["tool_call_id"]) for row in rows] == [("tool", "call_0"), ("tool", "call_1")]
    assert "Yuki Tanaka" in observation and rows[1]["content"].startswith("Error: ")
    assert info["events"] == [f"get_details_by_id: {rows[1]['content']}"]
    results = env.unwrapped.episode.turns[-1].results
    assert [(result.name, result.error) for result in results] == [
        ("get_customer_by_phone", False), ("get_details_by_id", True)
    ]  # fmt: skip
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert "Yuki Tanaka" in env.step("get_customer_by_phone(phone_number='555-700-1003')")[0]


@pytest.mark.parametrize("action", ["", "<think>h", "<tool_call>{", "get_customer_by_phone(5)", '{"name": 3, "a": {}}'])
def test_a_turn_that_cannot_be_read_is_explained_and_changes_nothing(action):
    env, _ = begun()
    before = env.unwrapped.episode.state
    observation, _, _, _, info = env.step(action)
    assert observation.startswith("This turn could not be read: ") and info["events"][0].startswith("malformed: ")
    after = env.unwrapped.episode.state
    assert after.lines == before.lines and after.steps == before.steps and after.agent_turns == 1


def test_words_beside_a_call_are_delivered_to_nobody():
    env, _ = begun()
    env.step('I tell you: 42.\n<tool_call>\n{"name": "get_details_by_id", "arguments": {"id": "L702"}}\n</tool_call>')
    talk = env.unwrapped.episode.state
    assert talk.turn == "assistant" and [line.sender for line in talk.lines[-2:]] == ["assistant", "environment"]


def test_thoughts_are_delivered_to_nobody():
    env, _ = begun()
    env.step("<think>secret plan</think>Please wait.")
    assert "Please wait." in [line.text for line in env.unwrapped.episode.state.lines]
    assert "secret plan" not in canonical_json(encode_state(env.unwrapped.episode.state))


def play_until_over(env, action):
    while True:
        observation, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return observation, reward, terminated, truncated, info


CALL = "get_details_by_id(id='L702')"


@pytest.mark.parametrize(
    ("limits", "action", "ended", "turns"),
    [
        ({"max_agent_turns": 3}, CALL, "max_agent_turns", 3),
        ({"max_agent_turns": 3}, "", "max_agent_turns", 3),
        ({"max_steps": 6}, CALL, "max_steps", 3),
        ({"max_errors": 2}, "get_details_by_id(id='x')", "too_many_errors", 2),
    ],
)
def test_limits_truncate_and_say_so(limits, action, ended, turns):
    env, _ = begun(**limits)
    observation, reward, terminated, truncated, info = play_until_over(env, action)
    assert (terminated, truncated, reward, info["success"]) == (False, True, 0.0, False)
    assert env.unwrapped.episode.state.ended == ended and info["turn"] == turns
    assert "The conversation was cut off: " in observation
    assert "cut short" in env.unwrapped.episode.turns[-1].results[-1].content


def test_components_are_told_of_a_conversation_that_was_cut_short():
    env, _ = begun("retail", "retail-test-cancel", max_agent_turns=4)
    *_, last = agent_envs.solve(made_again := begun("retail", "retail-test-cancel")[0])
    actions = agent_envs.solve(made_again)
    for action in actions[:3]:
        env.step(action)
    _, reward, _, truncated, info = env.step(actions[3])
    assert truncated and reward == 0.0
    assert info["reward_terms"] == {
        "db": 0.5, "env_assertion": 0.0, "action": 0.0, "communicate": 0.5, "nl_assertion": 0.0, "all_or_nothing": -1.0
    }  # fmt: skip
    assert last.startswith("Your order")


def test_the_reward_is_the_product_and_no_tool_can_forge_it():
    env, _ = begun("retail", "retail-test-cancel")
    env.step('evaluation(official="1")')
    assert [result.name for result in env.unwrapped.episode.turns[-1].results] == ["evaluation"]
    for action in ("Hello.", "Order it is.", "###STOP###", "Bye.", "Bye."):
        _, reward, terminated, _, info = env.step(action)
        assert reward == 0.0
        if terminated:
            break
    assert terminated and not info["success"] and info["reward_terms"]["db"] == 0.0
    spec, trajectory = env.unwrapped.reward_spec, env.unwrapped.trajectory
    assert spec(trajectory) == Reward(0.0, tuple(info["reward_terms"].items()))
    found = agent_envs.core.registry.companion(env, "metrics")(trajectory)
    assert (found["db"], found["communicate"], found["without_nl"], found["action"]) == (0.0, 0.0, 0.0, None)


def test_criteria_that_cannot_be_read_are_met_by_none():
    env, _ = begun()
    task = dataclasses.replace(env.unwrapped.episode.task, hidden={"reward_basis": ("LUCK",)})
    env.reset(options={"task": task})
    _, reward, _, _, info = play_until_over(env, "Hello.")
    assert reward == 0.0 and "cannot be read" in env.unwrapped.episode.turns[-1].results[-1].content


@pytest.mark.parametrize(("name", "side"), FACES)
def test_forks_and_stored_snapshots_in_mid_dialogue_go_the_same_way(name, side):
    env = made(name, side=side)
    for split, task in tasks_of(name)[-4:]:
        env.reset(seed=1, options={"task": task, "split": split})
        actions = agent_envs.solve(env)
        half = len(actions) // 2
        for action in actions[:half]:
            env.step(action)
        kept = snapshot(env).to_bytes()
        twin, other = fork(env), made(name, side=side)
        ends = [twin.step(action) for action in actions[half:]]
        assert ends[-1][4]["success"] and snapshot(env).to_bytes() == kept
        restore(other, Snapshot.from_bytes(kept))
        assert [other.step(action) for action in actions[half:]] == ends
        assert [env.step(action) for action in actions[half:]] == ends


def test_episodes_leave_the_shared_databases_alone():
    before = {name: original_hash(builtin_domain(name).agent_database, Changes()) for name in IDS}
    pristine = {name: canonical_json(encode_state(builtin_domain(name).agent_database.tables)) for name in IDS}
    for name in IDS:
        env = made(name)
        for split, task in tasks_of(name):
            seen(env, split, task)
    assert before == {name: original_hash(builtin_domain(name).agent_database, Changes()) for name in IDS}
    assert pristine == {name: canonical_json(encode_state(builtin_domain(name).agent_database.tables)) for name in IDS}
    assert made("retail").unwrapped.rules.domain is made("retail", side="user").unwrapped.rules.domain


@each_row(
    ("name", "arguments", "why"),
    [
        ("retail", {"side": "solo"}, "retail has no solo mode"),
        ("airline", {"side": "solo"}, "airline has no solo mode"),
        ("retail", {"side": "both"}, "agent, user, solo"),
        ("retail", {"tasks": "mine"}, "give one of generated, official"),
        ("retail", {"user": "you"}, "user='you'; choose scripted, "),
        ("retail", {"agent": "me", "side": "user"}, "agent='me'; choose scripted, heuristic, "),
        ("retail", {"persona": "odd"}, "odd"),
        ("retail", {"persona": "terse", "side": "user"}, "persona='terse' has no meaning"),
        ("retail", {"difficulty": "mad"}, "difficulty='mad'"),
        ("retail", {"world": -1}, "world=-1"),
        ("retail", {"world": 2, "tasks": "builtin"}, "choose among generated tasks"),
        ("retail", {"compat": "tau2-0"}, "compat='tau2-0'"),
        ("retail", {"reward": "most"}, "official, without_nl"),
        ("retail", {"max_steps": 0}, "max_steps=0"),
        ("retail", {"max_agent_turns": True}, "max_agent_turns=True"),
        ("retail", {"max_errors": 1.5}, "max_errors=1.5"),
    ],
)
def test_what_cannot_be_is_refused_by_name(name, arguments, why):
    with pytest.raises(UsageError, match=why):
        gym.make(IDS[name], **arguments)


def test_what_only_tests_know_is_no_value_of_an_argument(monkeypatch):
    monkeypatch.delitem(SOURCES, "builtin")
    monkeypatch.delitem(PLAYERS, ("user", "replay"))
    with pytest.raises(UsageError, match="tasks='builtin'; give one of generated, official$"):
        gym.make(IDS["retail"], tasks="builtin")
    with pytest.raises(UsageError, match="user='replay'; choose scripted, openai:MODEL@URL or anthropic:MODEL"):
        gym.make(IDS["retail"], user="replay")


def test_solo_mode_ends_by_done_and_words_are_an_error():
    env, _ = begun(side="solo")
    env.step("get_customer_by_phone(phone_number='555-700-1003')")
    env.step("toggle_airplane_mode()")
    _, reward, terminated, _, info = env.step("done()")
    assert terminated and reward == 1.0 and info["success"]
    env.reset(seed=0)
    observation, reward, terminated, truncated, _ = env.step("I think about it.")
    assert (terminated, truncated, reward) == (True, False, 0.0) and "call a tool in every turn" in observation


def test_the_user_ends_the_conversation_from_the_users_side():
    env, _ = begun(side="user")
    env.step("My phone does not work.")
    env.step("toggle_airplane_mode()")
    _, reward, terminated, _, info = env.step("It works. ###STOP###")
    assert terminated and reward == 1.0 and info["success"]


def test_an_agent_without_lines_left_ends_it():
    env, _ = begun(side="user")
    play_until_over(env, "Hm.")
    assert env.unwrapped.episode.state.ended == "agent_stop"


def with_words(answer=None):
    """Return an episode whose reward rests on a judge's word, too."""
    env, _ = begun("retail", "retail-test-cancel", **({} if answer is None else {"judge": ScriptedChat(answer)}))
    task = env.unwrapped.episode.task
    hidden = {**task.hidden, "nl_assertions": ("The agent is kind.",), "reward_basis": ("DB", "NL_ASSERTION")}
    env.reset(options={"task": dataclasses.replace(task, hidden=hidden)})
    return env


@pytest.mark.parametrize(
    ("judge", "reward", "nl"), [(lambda _: "YES", 1.0, 0.5), (lambda _: "NO", 0.0, 0.0), (None, 0.0, 0.0)]
)
def test_a_judge_decides_what_is_told_in_words(judge, reward, nl):
    env = with_words(judge)
    for action in agent_envs.solve(begun("retail", "retail-test-cancel")[0]):
        _, given, terminated, _, info = env.step(action)
    assert terminated and given == reward and info["success"] is (reward == 1.0)
    assert (info["reward_terms"]["db"], info["reward_terms"]["nl_assertion"]) == (0.5, nl)
    assert ("not judged" in env.unwrapped.episode.turns[-1].results[-1].content) is (judge is None)
    assert info["events"] == [] and tool_calls(env.unwrapped.trajectory.turns).total() == 3


def test_a_judge_that_fails_is_a_fault_and_the_turn_may_be_taken_again():
    env = with_words([])
    actions = agent_envs.solve(begun("retail", "retail-test-cancel")[0])
    for action in actions[:-1]:
        env.step(action)
    for _ in range(2):
        with pytest.raises(EnvFault):
            env.step(actions[-1])
    assert not env.unwrapped.episode.over


def test_the_solver_asks_no_live_service():
    env, _ = begun(judge="openai:some-model@http://127.0.0.1:9/v1")
    with pytest.raises(UsageError, match="asks no live service"):
        agent_envs.solve(env)
    with pytest.raises(UsageError, match="no meaning with reward"):
        made("retail", judge="openai:x", reward="without_nl")


def test_switches_reach_the_tools():
    for compat, leaks in (("tau2-1.0.1", True), ("fixed", False)):
        assert made("telecom", compat=compat).unwrapped.rules.domain.compat.vpn_leak is leaks


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("retail", 114), ("airline", 50)])
def test_official_gold_earns_all_through_gym(name, count):
    env = made(name, tasks="official", reward="without_nl", max_errors=20)
    assert env.unwrapped.source.size("base") == count
    for place in range(count):
        result = agent_envs.run_episode(env, CompanionPolicy("solver"), seed=0, task=place, split="base")
        assert result.success, (place, result.trajectory.turns[-1].results[-1])


@pytest.mark.data
def test_official_telecom_is_solved_alone():
    env = made("telecom", tasks="official", side="solo")
    failed = []
    for place in range(env.unwrapped.source.size("base")):
        result = agent_envs.run_episode(env, CompanionPolicy("solver"), seed=0, task=place, split="base")
        failed += [] if result.success else [result.trajectory.header.task_id]
    assert failed == []


@pytest.mark.parametrize("seed", ["seven", 1.5, -1])
def test_a_seed_that_is_none_is_refused_as_everywhere(seed):
    with pytest.raises(UsageError, match="seed="):
        made("retail").reset(seed=seed)
    with pytest.raises(UsageError, match="seed="):
        dual_control("retail").reset(seed=seed)


@pytest.mark.parametrize("name", IDS)
def test_an_oracle_plan_tells_the_expected_actions_as_steps(name):
    env = gym.make(IDS[name], plan="oracle", difficulty="easy")
    for task in range(3):
        observation, _ = env.reset(seed=0, options={"task": task, "split": "test"})
        bare, _ = gym.make(IDS[name], difficulty="easy").reset(seed=0, options={"task": task, "split": "test"})
        steps = observation.partition("<plan>\n")[2].partition("\n</plan>")[0].splitlines()
        actions = env.unwrapped.episode.task.hidden["actions"]
        assert "<plan>" not in bare and len(steps) == len(actions) > 0
        for place, (step, action) in enumerate(zip(steps, actions, strict=True), 1):
            asked = action.get("requestor") == "user"
            assert step.startswith(f"{place}. {'Ask the customer to do this:' if asked else 'Call'} {action['name']}(")
            assert all(f"{key}={value!r}" in step for key, value in action["arguments"].items() if type(value) is str)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"plan": "oracle", "side": "user"}, "plan='oracle' is an agent's"),
        ({"plan": "best"}, "plan='best'"),
        ({"policy": "workflow"}, "policy='workflow' is a text of the official data"),
        ({"policy": "workflow", "tasks": "official", "side": "user"}, "policy='workflow' is an agent's"),
        ({"policy": "mine"}, "policy='mine'"),
        ({"guidelines": "official"}, "guidelines='official' are for a model as user"),
        ({"guidelines": "theirs"}, "guidelines='theirs'"),
    ],
)
def test_what_the_original_has_besides_is_named_or_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        gym.make(IDS["telecom"], **arguments)


def test_official_guidelines_need_the_official_data(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    for arguments in ({"side": "user"}, {"user": ScriptedChat("Hello.")}):
        with pytest.raises(DataMissing, match="AGENT_ENVS_DATA"):
            gym.make(IDS["retail"], guidelines="official", **arguments)


@pytest.mark.data
@pytest.mark.parametrize("name", IDS)
def test_official_guidelines_are_what_a_model_as_user_is_told(name):
    """The policy that plays the user, and a chat model that does, are told the published text and the scenario behind it."""
    asked = []

    def said(request):
        asked.append(request.messages[0]["content"])
        return "I need help."

    tools = "_tools" if name == "telecom" else ""
    text = official_bytes(f"user_simulator/simulation_guidelines{tools}.md").decode().strip()
    observation, _ = gym.make(IDS[name], side="user", guidelines="official").reset(seed=0)
    gym.make(IDS[name], user=ScriptedChat(said), guidelines="official").reset(seed=0)
    for shown in (observation, asked[0]):
        assert shown.startswith(text) and "\n\n<scenario>\n" in shown and "</scenario>" in shown


@pytest.mark.data
def test_the_support_workflow_stands_in_place_of_the_manual():
    texts = []
    for policy in ("standard", "workflow"):
        env = gym.make(IDS["telecom"], tasks="official", policy=policy)
        texts.append(env.reset(seed=0)[0])
        assert env.unwrapped.rules.domain.policy.strip() in texts[-1]
    manual, workflow = (
        official_bytes(f"domains/telecom/tech_support_{kind}.md").decode() for kind in ("manual", "workflow")
    )
    assert manual in texts[0] and workflow not in texts[0] and workflow in texts[1] and manual not in texts[1]
    solo = gym.make(IDS["telecom"], tasks="official", policy="workflow", side="solo")
    assert official_bytes("domains/telecom/tech_support_workflow_solo.md").decode() in solo.reset(seed=0)[0]
    with pytest.raises(UsageError, match="retail has no support workflow"):
        gym.make(IDS["retail"], tasks="official", policy="workflow")
