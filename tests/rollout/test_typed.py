"""A person's typed lines are the actions that they mean, in every id: forms for tools, numbers, names, and plain text."""

import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import solve, tool_view
from agent_envs.rollout.typed import TEXT_PROMPT, TypedActions
from agent_envs.tools.forms import filled
from tests.needs import needs


def reader(*lines):
    """A function that gives lines one by one, and what it was asked."""
    left, prompts = list(lines), []

    def read(prompt):
        prompts.append(prompt)
        if not left:
            raise EOFError
        return left.pop(0)

    return read, prompts


def typed(env_id, *lines):
    """The actions of lines of which the first names something, and the prompts; all lines are used."""
    env = gym.make(f"agent_envs/{env_id}-v0")
    env.reset(seed=0)
    read, prompts = reader(*lines[1:])
    actions = TypedActions(env, tool_view).actions(lines[0], read)
    assert len(prompts) == len(lines) - 1
    return actions, prompts


@pytest.mark.parametrize("env_id", agent_envs.env_ids())
def test_a_turn_of_the_solver_can_be_typed_as_it_is(env_id):
    env = gym.make(env_id)
    env.reset(seed=0)
    for action in solve(env)[:3]:
        known = TypedActions(env, tool_view)
        if isinstance(action, int):
            name = next(name for name, number in known.expanded.items() if number == action)
            line = f"/{name}" if " " not in name else f"/{action}"
            assert known.actions(line, reader()[0]) == [action]
            assert str(action) in known.expanded or known.actions(f"/{action}", reader()[0]) == [action]
        else:
            text = action.strip("\n")  # a turn cannot begin with an empty line here
            first, *others = [*text.split("\n"), "", "", ""]
            assert known.actions(first, reader(*others)[0]) == [text]
        env.step(action)


@pytest.mark.parametrize("env_id", agent_envs.env_ids())
def test_numbers_and_names_mean_the_same_as_the_tools_of_the_id(env_id):
    env = gym.make(env_id)
    env.reset(seed=0)
    known = TypedActions(env, tool_view)
    if known.expanded:
        assert known.names == [] and len(known.about) == len(known.expanded)
        return
    views = {view.name: view for view in tool_view(env)}
    for number, name in enumerate(known.names, 1):
        properties = views[name].schema["function"]["parameters"]["properties"] if name in views else {}
        if any("items" in schema and "properties" in schema["items"] for schema in properties.values()):
            continue  # the list goes on until an object is left out, and is another test's
        by_number, by_name = (known.actions(line, reader(*["7"] * 20)[0]) for line in (str(number), name))
        assert by_number == by_name
        if len(properties) == 1:
            called = views[name].render(dict.fromkeys(properties, "two words"))
            assert known.actions(f"/{name} two words", reader()[0]) == [called]
        elif name not in views:  # a move of a game
            assert by_name == [views["act"].render(name)]
    assert known.actions("/no_such_thing at all", reader()[0]) == known.actions("  ", reader()[0]) == []


def test_a_form_asks_for_each_argument_and_writes_the_call():
    actions, prompts = typed("Tau2Retail", "find_user_id_by_name_zip", "Ada", "Low", "02139")
    (call,) = actions
    assert call == tool_view(gym.make("agent_envs/Tau2Retail-v0"))[1].render(
        {"first_name": "Ada", "last_name": "Low", "zip": "02139"}
    )
    assert prompts[0].startswith("find_user_id_by_name_zip(first_name, last_name, zip): ") and "zip" in prompts[2]
    assert typed("Tau2Retail", "find_user_id_by_name_zip", "Ada", "")[0] == []  # one that is needed was left out


def test_lists_of_objects_are_asked_for_object_by_object():
    lines = ("update_reservation_flights", "AB12", "economy", "HAT1", "2024-05-02", "HAT2", "2024-05-03", "", "card_1")
    ((call,), _) = typed("Tau2Airline", *lines)
    arguments = json.loads(call.partition("\n")[2].partition("\n</tool_call>")[0])["arguments"]
    flights = [{"flight_number": "HAT1", "date": "2024-05-02"}, {"flight_number": "HAT2", "date": "2024-05-03"}]
    assert arguments == {"reservation_id": "AB12", "cabin": "economy", "flights": flights, "payment_id": "card_1"}


@needs("[envs]")
def test_a_program_goes_on_to_its_end_over_empty_lines():
    assert typed("ToolReasoning", "python", "a = 1", "", "print(a)", "</python>")[0] == [
        "<python>\na = 1\n\nprint(a)\n</python>"
    ]
    assert typed("ToolReasoning", "3", "print(1)", "", "", "")[0] == ["<python>\nprint(1)"]


PARAMETERS = {
    "properties": {
        "count": {"type": "integer"}, "share": {"type": "number"}, "sure": {"type": "boolean"}, "items": {"type": "array"},
        "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "any": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["count", "share", "sure", "items", "place"],
}  # fmt: skip


def form(*lines):
    read, prompts = reader(*lines)
    return filled(PARAMETERS, lambda name, hint: read(f"{name}: {hint}")), prompts


def test_what_does_not_read_as_its_type_is_asked_for_again():
    values, prompts = form("many", "3", "nan", "1e999", "0.5", "perhaps", "Yes", "a, b", "Rome", "[1]")
    assert values == {
        "count": 3,
        "share": 0.5,
        "sure": True,
        "items": ["a", "b"],
        "place": {"city": "Rome"},
        "any": [1],
    }
    assert prompts[1] == "count: it has to be a whole number" and prompts[-2] == "place.city: "
    assert form("3", "2", "n", '["x, y"]', "Rome", "")[0] == {
        "count": 3, "share": 2, "sure": False, "items": ["x, y"], "place": {"city": "Rome"},
    }  # fmt: skip


@pytest.mark.parametrize("text", ["9" * 5000, "[" * 100_000, "\x00\x1b[31m", "\ud800", "x" * 200_000, '{"a":' * 9000])
def test_no_text_breaks_a_form(text):
    assert form(text, "1", "1", "yes", text, text, text)[0]["place"] == {"city": text.strip()}
    env = gym.make("agent_envs/Tau2Retail-v0")
    env.reset(seed=0)
    for line in (f"/calculate {text}", f"/{text}", f"/get_order_details {{{text}", text):
        for action in TypedActions(env, tool_view).actions(line, reader(text, "")[0]):
            env.step(action)


def test_a_line_may_mix_text_and_expanded_actions():
    env = gym.make("agent_envs/SortExpA-v0")
    env.reset(seed=0)
    known = TypedActions(env, tool_view)
    ids = known.expanded
    assert known.actions("/compare /A /B", reader()[0]) == [ids["compare"], ids["A"], ids["B"]]
    assert known.actions("first", reader("second", "/end")[0]) == ["first\nsecond", ids["end"]]
    for line in ("/compare A B", "/compare A, B", "/compare A and B"):
        assert known.actions(line, reader()[0]) == [ids["compare"], ids["A"], ids["B"]]


def test_a_word_behind_an_expanded_action_spells_those_of_one_letter():
    known = TypedActions(gym.make("agent_envs/ArithmeticExpA-v0"), tool_view)
    ids = known.expanded
    assert known.actions("/calculator 1+23=", reader()[0]) == [ids[name] for name in ("calculator", *"1+23=")]


@pytest.mark.parametrize(
    "line", ["/nothing", "/nosuch x", "/7777 3", "/compare A X", "/compare /nothing", "/99999999999", "/99"]
)
def test_an_unknown_name_of_an_expanded_action_is_no_turn(line):
    assert TypedActions(gym.make("agent_envs/SortExpA-v0"), tool_view).actions(line, reader()[0]) == []


@pytest.mark.parametrize(
    ("env_id", "line"), [("BabyAI", "9"), ("BabyAI", "0"), ("SearchQA", "7"), ("Tau2Retail", "99")]
)
def test_a_number_that_nothing_has_is_no_turn(env_id, line):
    assert TypedActions(gym.make(f"agent_envs/{env_id}-v0"), tool_view).actions(line, reader()[0]) == []


@needs("[envs]")
def test_a_turn_of_text_says_so_once():
    read, prompts = reader("more words", "")
    assert TypedActions(gym.make("agent_envs/BabyAI-v0"), tool_view).actions("go forwrd", read) == [
        "go forwrd\nmore words"
    ]
    assert prompts == [TEXT_PROMPT, "... "]


def test_a_list_of_objects_that_need_nothing_ends_at_an_empty_one_and_a_schema_may_be_a_flag():
    row = {"type": "object", "properties": {"a": {"type": "string"}}}
    parameters = {"properties": {"rows": {"type": "array", "items": row}, "any": True}}
    given = iter(["x", "", "7"])
    assert filled(parameters, lambda name, hint: next(given)) == {"rows": [{"a": "x"}], "any": 7}


def test_somebody_who_leaves_in_a_turn_plays_none():
    def leave(prompt):
        raise EOFError("bye")

    env = gym.make("agent_envs/SearchQA-v0")
    with pytest.raises(EOFError, match="bye"):
        TypedActions(env, tool_view).actions("some words", leave)
