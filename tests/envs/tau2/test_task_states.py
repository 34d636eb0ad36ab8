"""Worlds that are rebuilt from a conversation's lines, and the fast comparison against the original's hashes."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import ReplayMismatch, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.dialogue import Line, ToolReply
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import (
    expected_world,
    initial_world,
    replayed_world,
    same_world,
)  # fmt: skip
from agent_envs.envs.tau2.toolkit import FRESH, call, run_function
from tests.envs.tau2.gold import Conversation
from tests.envs.tau2.hashes import same_hashes
from tests.envs.tau2.telecom_world import FIXED, domain
from tests.envs.tau2.test_retail import SHOP
from tests.envs.tau2.vectors import original_domain, vectors_in
from tests.examples import examples

ADA = {"env_type": "user", "func_name": "set_user_info", "arguments": {"name": "Ada Byron", "phone_number": "555-1001"}}


def task_of(criteria=None, **start):
    start = {"initialization_actions": [ADA], **start}
    row = {"id": "t", "user_scenario": {"instructions": "Call."}, "initial_state": start}
    return read_task({**row, "evaluation_criteria": criteria}, "telecom")


def asking(name, content, error=False, side="user", arguments="{}", answered="call_0"):
    asked = Line(side, calls=(ToolCall("call_0", name, arguments),))
    return asked, Line("environment", results=(ToolReply(answered, name, content, error, side),))


@pytest.mark.data
@pytest.mark.parametrize("name", ["airline", "retail", "telecom"])
def test_what_lines_rebuild_is_what_was_played(name):
    played_domain, fresh_or_not = original_domain(name), []
    vectors = list(vectors_in(Path(os.environ["AGENT_ENVS_DATA"]) / "tau2" / "vectors" / f"random-{name}.jsonl"))[::2]
    for vector in vectors:
        start, solo = FRESH, vector.get("solo_mode", False)
        for action in vector["init"]:
            _, start = run_function(
                played_domain, start, action["env_type"], action["func_name"], action["arguments"]
            )  # fmt: skip
        state, lines = start, []
        for place, step in enumerate(vector["steps"]):
            side = step["requestor"]
            outcome, state = call(played_domain, state, side, step["name"], step["arguments"], solo)
            asked = ToolCall(str(place), step["name"], canonical_json(step["arguments"]))
            reply = ToolReply(str(place), step["name"], outcome.content, outcome.error, side)
            lines += [Line(side, calls=(asked,)), Line("environment", results=(reply,))]
        rebuilt = replayed_world(played_domain, start, tuple(lines), solo)
        assert same_world(played_domain, rebuilt, state) and same_hashes(played_domain, rebuilt, state), vector["id"]
        changed = same_world(played_domain, start, state)
        assert changed is same_hashes(played_domain, start, state), vector["id"]
        fresh_or_not.append(changed)
    assert 5 < sum(fresh_or_not) < len(fresh_or_not) - 5


def test_starts_and_expectations():
    actions = [
        {"action_id": "a", "name": "enable_roaming", "arguments": {"customer_id": "C1", "line_id": "L1"}},
        {"action_id": "b", "name": "enable_roaming", "arguments": {"customer_id": "C9", "line_id": "L1"}},
        {"action_id": "c", "requestor": "user", "name": "toggle_roaming", "arguments": {}},
    ]
    task = task_of({"actions": actions, "reward_basis": ["DB"]})
    start, expected = initial_world(FIXED, task), expected_world(FIXED, task)
    assert start is initial_world(FIXED, task_of({"actions": actions, "reward_basis": ["DB"]}))
    assert start.user.tables["surroundings"][""]["name"] == "Ada Byron"
    assert expected.agent.tables["lines"]["L1"]["roaming_enabled"] is True
    assert expected.user.tables["device"][""]["roaming_enabled"] is True
    assert not same_world(FIXED, start, expected) and not same_hashes(FIXED, start, expected)
    with pytest.raises(UsageError, match="no function"):
        initial_world(FIXED, task_of(initialization_actions=[{**ADA, "func_name": "fly"}]))


def test_a_task_may_begin_with_other_records_and_with_a_conversation():
    data = {"agent_data": None, "user_data": {"device": {"battery_level": 3}, "surroundings": {"is_abroad": True}}}
    history = [
        {"role": "user", "content": "Hello"},
        {"role": "user", "content": None, "tool_calls": [
            {"id": "x", "name": "turn_data_off_by_mistake", "arguments": {}},
            {"id": "y", "name": "toggle_data", "arguments": {}},
        ]},
        {"role": "tool", "id": "x", "content": "Error: Tool 'turn_data_off_by_mistake' not found.", "requestor": "user",
         "error": True},
        {"role": "tool", "id": "y", "content": "Mobile Data is now OFF.\nStatus Bar: 📶⁴ Excellent | 5G | 📵 Data Disabled "
         "| 🔋 3%",
         "requestor": "user"},
        {"role": "assistant", "content": "I see."},
    ]  # fmt: skip
    task = task_of(initialization_data=data, message_history=history)
    phone = initial_world(FIXED, task).user.tables["device"][""]
    assert phone["battery_level"] == 3 and phone["data_enabled"] is False
    assert [(line.sender, line.text, len(line.calls), len(line.results)) for line in task.history] == [
        ("user", "Hello", 0, 0), ("user", "", 2, 0), ("environment", "", 0, 2), ("assistant", "I see.", 0, 0),
    ]  # fmt: skip
    for wrong in ({"agent_data": {"lines": {"L1": {}}}}, {"user_data": {"fridge": {}}}):
        with pytest.raises(UsageError, match="other records"):
            initial_world(FIXED, task_of(initialization_data=wrong))


def test_keyed_records_are_merged_member_by_member_and_added():
    moved = {**SHOP.agent_database.tables["users"]["ada"], "user_id": "bob", "orders": []}
    data = {
        "agent_data": {"users": {"ada": {"name": {"first_name": "Augusta"}, "orders": ["#P"]}, "bob": thawed(moved)}}
    }
    row = {"id": "t", "user_scenario": {"instructions": ""}, "initial_state": {"initialization_data": data}}
    users = initial_world(SHOP, read_task(row, "retail")).agent.tables["users"]
    assert users["ada"]["name"] == {"first_name": "Augusta", "last_name": "Byron"} and users["ada"]["orders"] == ("#P",)
    assert users["ada"]["email"] == "Ada@example.org" and users["bob"]["user_id"] == "bob"


def test_answers_must_belong_to_their_calls_and_be_what_the_calls_give():
    right = asking("toggle_airplane_mode", "Airplane Mode is now ON.\nStatus Bar: ✈️ Airplane Mode | 🔋 80%")
    start = initial_world(FIXED, task_of())
    assert replayed_world(FIXED, start, right).user.tables["device"][""]["airplane_mode"] is True
    reading = asking("check_status_bar", "whatever") + asking("no_such_tool", "Error: whatever", error=True)
    assert replayed_world(FIXED, start, reading) is start
    for wrong in (
        asking("toggle_airplane_mode", "Airplane Mode is now OFF."),
        asking("toggle_airplane_mode", right[1].results[0].content, error=True),
        asking("toggle_airplane_mode", right[1].results[0].content, answered="call_1"),
        right[:1], right[1:], (right[0], Line("user", "Well?"), right[1]),
    ):  # fmt: skip
        with pytest.raises(ReplayMismatch):
            replayed_world(FIXED, start, wrong)


def test_of_errors_that_python_words_only_the_flag_counts():
    start = initial_world(FIXED, task_of())
    talk = Conversation(FIXED, task_of())
    assert talk.call("user", "toggle_data", '{"loudly":true}').startswith("Error: ")
    reply = talk.lines[1].results[0]
    other = Line("environment", results=(replace(reply, content="Error: worded otherwise"),))
    assert replayed_world(FIXED, start, (talk.lines[0], other)) is start


def test_answers_are_compared_as_json():
    talk = Conversation(FIXED, task_of())
    talk.call("assistant", "refuel_data", '{"customer_id":"C1","gb_amount":1.0,"line_id":"L1"}')
    reply = talk.lines[1].results[0]
    spaced = Line("environment", results=(replace(reply, content=reply.content.replace(": ", " :  ")),))
    assert same_world(
        FIXED, talk.world, replayed_world(FIXED, initial_world(FIXED, task_of()), (talk.lines[0], spaced))
    )


def test_a_bill_made_by_the_expected_actions_has_an_id_of_its_own_in_the_original():
    arguments = {"customer_id": "C1", "gb_amount": 1.0, "line_id": "L1"}
    actions = [{"action_id": "a", "name": "refuel_data", "arguments": arguments}]
    task = task_of({"actions": actions, "reward_basis": ["DB"]})
    for random_id in (False, True):
        of = domain(random_bill_id=random_id, gold_without_sync=False)
        talk = Conversation(of, task)
        talk.call("assistant", "refuel_data", canonical_json(arguments))
        assert same_world(of, talk.world, expected_world(of, task)) is not random_id


WORDS = ["C1", "L1", "L3", "B3", "555-1001", "messaging", "storage", "4g_only", "not a word"]
VALUES = st.one_of(st.sampled_from(WORDS), st.booleans(), st.integers(-3, 9), st.floats(-2, 9, width=16), st.none())


@st.composite
def calls(draw):
    side = draw(st.sampled_from(["assistant", "user"]))
    kit = FIXED.assistant if side == "assistant" else FIXED.user
    tool = kit.tools[draw(st.sampled_from(sorted(kit.tools)))]
    names = [name for name in tool.parameters["properties"] if draw(st.integers(0, 9))]
    wanted = {"customer_id": "C1", "line_id": "L1", "gb_amount": 2.0, "app_name": "messaging"}
    return (
        side,
        tool.name,
        {name: wanted.get(name, draw(VALUES)) if draw(st.booleans()) else draw(VALUES) for name in names},
    )


@examples(150)
@given(st.lists(calls(), max_size=12), st.booleans(), st.booleans())
def test_whatever_is_called_can_be_scored_and_rebuilt(asked, original, solo):
    of = domain(**dict.fromkeys(("vpn_leak", "random_bill_id", "gold_without_sync"), original))
    actions = [
        {"action_id": "a", "name": "refuel_data", "arguments": {"customer_id": "C1", "line_id": "L1", "gb_amount": 2.0}}
    ]
    task = task_of({"actions": actions, "reward_basis": ["DB", "ACTION"]})
    talk = Conversation(of, task, solo)
    for side, name, arguments in asked:
        talk.call("assistant" if solo else side, name, canonical_json(arguments))
    rebuilt = replayed_world(of, initial_world(of, task), talk.lines, solo)
    assert same_world(of, rebuilt, talk.world) and same_hashes(of, rebuilt, talk.world)
    score = evaluate(of, task, talk.lines, "agent_stop", solo)
    assert score.checks["DB"] == (same_hashes(of, talk.world, expected_world(of, task)),)
    assert score.reward == float(score.checks["DB"][0] and score.checks["ACTION"][0])
