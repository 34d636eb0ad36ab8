"""The rules of calling: who reaches which tool, what results look like, what failures leave behind."""

from dataclasses import fields
from typing import Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.toolkit import FRESH, Domain, Kit, Record, ToolFailure, World, call, run_function, serialised

AGENT = Kit("assistant")
USER = Kit("user")


class Spot(TypedDict):
    """A place."""

    x: int
    name: str


@AGENT.tool()
def look(world: World, key: str) -> Record:
    """Look at a thing.

    It stays as it is.

    Args:
        key: Which one.
    """
    found = world.agent.get("things", key)
    if found is None:
        raise ToolFailure("Thing not found")
    return Record(found)


@AGENT.tool("write")
def put(
    world: World, key: str, value: float, spots: list[Spot] = None, mood: Literal["calm", "angry"] = "calm"
) -> dict[str, object]:
    """Put a value.

    Args:
        key: Where.
        value: What.
        spots: Some places.
        mood: How.
    """
    thing = world.agent.edit("things", key)
    thing["value"] = value
    if mood == "angry":
        raise ToolFailure("No.")
    world.extras["puts"] = world.extras.get("puts", 0) + 1
    return {"value": value + 0, "thing": Record(thing)}


@AGENT.helper
def broken(world: World, key: str) -> list[object]:
    world.agent.edit("things", key)["value"] = "broken"
    return [True, "done"]


@USER.tool("write")
def tap(world: World) -> str:
    """Tap the phone."""
    world.phone.edit("device", "")["taps"] += 1
    return "Tapped."


def count(world: World) -> None:
    if world.phone.get("device", "")["taps"] > 1:
        raise ToolFailure("Tapped too often")
    world.extras["syncs"] = world.extras.get("syncs", 0) + 1


THINGS = Database("things", {"things": {"a": {"value": 1, "list": ["é", None, 0.5, True]}}})
PHONE = Database("phone", {"device": {"": {"taps": 0}}}, single=("device",))
ALONE = Domain("alone", THINGS, AGENT)
DUAL = Domain("dual", THINGS, AGENT, user_database=PHONE, user=USER, sync=count)


def test_each_side_reaches_its_own_tools():
    outcome, state = call(DUAL, FRESH, "user", "tap", {})
    assert (outcome.content, outcome.error, outcome.kind) == ("Tapped.", False, "")
    assert state.user.tables == {"device": {"": {"taps": 1}}} and state.agent is FRESH.agent
    for requestor, name in (("assistant", "tap"), ("user", "look"), ("assistant", "broken"), ("assistant", "no such")):
        outcome, after = call(DUAL, FRESH, requestor, name, {})
        assert (outcome.content, outcome.kind) == (f"Error: Tool '{name}' not found.", "domain") and after is FRESH
    outcome, _ = call(ALONE, FRESH, "user", "look", {"key": "a"})
    assert outcome.content == "Error: User tools not available" and outcome.error


def test_solo_mode_has_both_sides_tools_for_the_agent():
    assert call(DUAL, FRESH, "assistant", "tap", {}, solo=True)[0].content == "Tapped."
    assert not call(DUAL, FRESH, "assistant", "look", {"key": "a"}, solo=True)[0].error
    outcome, _ = call(DUAL, FRESH, "user", "tap", {}, solo=True)
    assert outcome.content == "Error: User tool calls are not allowed in solo mode"


def test_results_keep_numbers_in_records_and_spell_them_out_elsewhere():
    assert call(ALONE, FRESH, "assistant", "look", {"key": "a"})[0].content == (
        '{"value": 1, "list": ["\\u00e9", null, 0.5, true]}'
    )
    outcome, _ = call(ALONE, FRESH, "assistant", "put", {"key": "a", "value": 2.5})
    assert outcome.content == '{"value": "2.5", "thing": {"value": 2.5, "list": ["\\u00e9", null, 0.5, true]}}'
    assert serialised(True) == '"True"' and serialised(None) == "null" and serialised("é") == "é"
    assert serialised([1, (2.0, Record(n=1))]) == '["1", ["2.0", {"n": 1}]]'


def test_failures_keep_what_was_changed_before_them():
    outcome, state = call(ALONE, FRESH, "assistant", "put", {"key": "a", "value": 7, "mood": "angry"})
    assert (outcome.content, outcome.error, outcome.kind) == ("Error: No.", True, "domain")
    assert state.agent.tables["things"]["a"]["value"] == 7
    outcome, state = call(ALONE, FRESH, "assistant", "put", {"key": "a", "value": "text"})
    assert (outcome.error, outcome.kind) == (True, "other")
    assert state.agent.tables["things"]["a"]["value"] == "text" and state.extras == {"puts": 1}
    assert call(ALONE, FRESH, "assistant", "look", {"key": "gone"})[0].content == "Error: Thing not found"


@pytest.mark.parametrize(
    "arguments", [{}, {"key": "a", "x": 1}, {"key": ["a"]}, {"world": 1}, {"key": "a", "world": 1}]
)
def test_wrong_arguments_are_errors_that_change_nothing(arguments):
    outcome, state = call(ALONE, FRESH, "assistant", "look", arguments)
    assert outcome.error and outcome.kind == "other" and outcome.content.startswith("Error: ")
    assert state is FRESH


def test_arguments_that_no_stored_state_can_hold_are_refused():
    deep: object = "bottom"
    for _ in range(200):
        deep = [deep]
    numbers: list[object] = [[float("inf")], float("nan"), 1e301, -(10**301), int("9" * 4300)]
    for value in (deep, {"$tuple": []}, [{"a": {"$type": "x"}}], *numbers):
        outcome, state = call(ALONE, FRESH, "assistant", "put", {"key": "a", "value": value})
        assert outcome.error and outcome.kind == "other" and state is FRESH


def test_sync_follows_every_call_that_succeeds_and_its_failure_is_the_calls():
    _, state = call(DUAL, FRESH, "assistant", "look", {"key": "a"})
    assert state.extras == {"syncs": 1}
    assert call(DUAL, FRESH, "assistant", "look", {"key": "gone"})[1] is FRESH
    _, state = call(DUAL, FRESH, "user", "tap", {})
    outcome, state = call(DUAL, state, "user", "tap", {})
    assert outcome.content == "Error: Tapped too often" and state.user.tables["device"][""]["taps"] == 2


def test_initial_actions_reach_helpers_and_tools_of_one_side():
    outcome, state = run_function(DUAL, FRESH, "assistant", "broken", {"key": "a"})
    assert outcome.returned == [True, "done"] and outcome.raised is None
    assert state.agent.tables["things"]["a"]["value"] == "broken" and state.extras == {"syncs": 1}
    assert run_function(DUAL, FRESH, "user", "tap", {})[0].returned == "Tapped."
    assert run_function(DUAL, FRESH, "assistant", "look", {"key": "gone"})[0].raised == "Thing not found"
    for domain, side, name in ((DUAL, "user", "broken"), (ALONE, "user", "tap"), (ALONE, "assistant", "nothing")):
        with pytest.raises(UsageError, match=name):
            run_function(domain, FRESH, side, name, {})


def test_what_a_function_returns_shares_nothing_with_the_database():
    world = Domain("deep", Database("deep", {"things": {"a": {"value": {"x": 1}}}}), AGENT)
    run_function(world, FRESH, "assistant", "look", {"key": "a"})[0].returned["value"]["x"] = 2
    assert world.agent_database.tables["things"]["a"]["value"] == {"x": 1}


def test_states_are_shared_until_something_changes():
    assert call(ALONE, FRESH, "assistant", "look", {"key": "a"})[1] is FRESH
    _, one = call(ALONE, FRESH, "assistant", "put", {"key": "a", "value": 5})
    _, two = call(ALONE, one, "assistant", "put", {"key": "a", "value": 6})
    assert one.agent.tables["things"]["a"]["value"] == 5 and one.extras == {"puts": 1}
    assert two.agent.tables["things"]["a"]["value"] == 6 and two.extras == {"puts": 2}
    assert FRESH.extras == {} and FRESH.agent.tables == {}


def test_schemas_come_from_signatures_and_docstrings():
    schema = AGENT.tools["put"].schema()["function"]
    spot = {"type": "object", "properties": {"x": {"type": "integer"}, "name": {"type": "string"}}}
    spot["required"] = ["x", "name"]
    assert schema["description"] == "Put a value." and schema["parameters"]["required"] == ["key", "value"]
    assert schema["parameters"]["properties"] == {
        "key": {"type": "string", "description": "Where."},
        "value": {"type": "number", "description": "What."},
        "spots": {"type": "array", "items": spot, "description": "Some places."},
        "mood": {"type": "string", "enum": ["calm", "angry"], "description": "How.", "default": "calm"},
    }
    assert AGENT.tools["look"].description == "Look at a thing.\n\nIt stays as it is."
    assert (AGENT.tools["put"].writes, AGENT.tools["look"].writes) == (True, False)
    with pytest.raises(UsageError, match="odd"):

        @Kit("user").tool()
        def odd(world: World, argument: bytes) -> str:
            return ""


def test_compat_by_name_and_switch_by_switch():
    assert set(vars(Compat.from_name("tau2-1.0.1")).values()) == {True}
    assert set(vars(Compat.from_name("fixed")).values()) == {False}
    assert len(fields(Compat)) == 7 and Compat() == Compat.from_name("tau2-1.0.1")
    with pytest.raises(UsageError, match="original"):
        Compat.from_name("original")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(["look", "put", "nothing"]), st.dictionaries(st.sampled_from(["key", "value", "mood"]), JSON))
def test_any_call_gives_a_text(name, arguments):
    outcome, _ = call(DUAL, FRESH, "assistant", name, arguments)
    assert isinstance(outcome.content, str) and outcome.error == outcome.content.startswith("Error: ")
