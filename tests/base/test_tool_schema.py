"""Tools: schemas from functions, checked calls, errors as results."""

import json

import pytest

from agent_envs import ToolCall, ToolResult, UsageError
from agent_envs.base.tool_schema import Tool, ToolError, Toolkit, tool
from tests.rows import each_row


@tool
def order(item: str, count: int, price: float = 1.0, gift: bool = False, tags: list[str] = (), extra: dict = None):
    """Order an item.

    It is sent at once.

    Args:
        item: what to order.
        count: how many: at least one.
    """
    if count < 1:
        raise ToolError("order at least one")
    return json.dumps([item, count, price, gift, list(tags), extra])


@tool(writes=True)
def broken() -> str:
    return str(1 / 0)


@tool
def lookup(name: str) -> ToolResult:
    """Look a name up."""
    return ToolResult("", "", f"found {name}", ids=("p1", "p2"))


KIT = Toolkit([order, broken, lookup])


def call(name, arguments):
    return KIT.execute(ToolCall("call_7", name, json.dumps(arguments)))


def test_the_schema_follows_the_signature_and_the_docstring():
    assert order.schema() == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order an item.",
            "parameters": {
                "type": "object",
                "properties": {
                    "item": {"type": "string", "description": "what to order."},
                    "count": {"type": "integer", "description": "how many: at least one."},
                    "price": {"type": "number"},
                    "gift": {"type": "boolean"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "extra": {"type": "object"},
                },
                "required": ["item", "count"],
            },
        },
    }
    assert broken.writes and not order.writes and isinstance(broken, Tool)
    assert broken.schema()["function"]["parameters"] == {"type": "object", "properties": {}, "required": []}


def test_schemas_are_fresh_each_time():
    KIT.schemas()[0]["function"]["parameters"]["properties"].clear()
    assert KIT.schemas()[0] == order.schema() and order.schema()["function"]["parameters"]["properties"]


def test_a_call_is_carried_out():
    result = call("order", {"item": "pen", "count": 2, "tags": ["a"], "price": 3})
    assert result == ToolResult("call_7", "order", '["pen", 2, 3, false, ["a"], null]')


def test_a_result_of_a_tool_answers_the_call_that_was_made():
    assert call("lookup", {"name": "x"}) == ToolResult("call_7", "lookup", "found x", ids=("p1", "p2"))


@each_row(
    ("name", "arguments", "words"),
    [
        ("ordr", {}, ["'ordr'", "order, broken, lookup"]),
        ("", {}, ["order, broken, lookup"]),
        ("order", {}, ["missing", "item, count"]),
        ("order", {"item": "pen"}, ["missing", "count"]),
        ("order", {"item": "pen", "count": 1, "colour": "red"}, ["'colour'", "item, count"]),
        ("order", {"item": 3, "count": 1}, ["'item'", "string"]),
        ("order", {"item": None, "count": 1}, ["'item'", "string"]),
        ("order", {"item": "pen", "count": "1"}, ["'count'", "integer"]),
        ("order", {"item": "pen", "count": 1.0}, ["'count'", "integer"]),
        ("order", {"item": "pen", "count": True}, ["'count'", "integer"]),
        ("order", {"item": "pen", "count": 1, "price": "3"}, ["'price'", "number"]),
        ("order", {"item": "pen", "count": 1, "price": False}, ["'price'", "number"]),
        ("order", {"item": "pen", "count": 1, "gift": 1}, ["'gift'", "boolean"]),
        ("order", {"item": "pen", "count": 1, "tags": "a"}, ["'tags'", "array"]),
        ("order", {"item": "pen", "count": 1, "tags": ["a", 3]}, ["'tags'", "array"]),
        ("order", {"item": "pen", "count": 1, "extra": []}, ["'extra'", "object"]),
        ("order", {"item": "pen", "count": 0}, ["order at least one"]),
    ],
)
def test_a_wrong_call_gives_a_result_that_explains_it(name, arguments, words):
    result = call(name, arguments)
    assert result.error and (result.call_id, result.name) == ("call_7", name)
    assert result.content.startswith("Error: ") and all(word in result.content for word in words)


def test_a_bug_in_a_tool_propagates():
    with pytest.raises(ZeroDivisionError):
        call("broken", {})


def test_what_has_no_schema_is_refused():
    def untyped(x):
        return x

    def odd(x: set) -> str:
        return str(x)

    def nested(x: list[set]) -> str:
        return str(x)

    for function in (untyped, odd, nested):
        with pytest.raises(UsageError, match=rf"{function.__name__}\(x\)"):
            tool(function)
    with pytest.raises(UsageError, match="two tools"):
        Toolkit([order, order])
