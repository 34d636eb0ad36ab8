"""Tools of every id: a rendered call is read as that call, and a solver that calls tools earns what it earns in text."""

import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import UsageError, fork, tool_view
from agent_envs.base.protocol import Answer, Call, Malformed, Say
from agent_envs.core.registry import TABLE
from agent_envs.envs.expa import DiscreteActions
from agent_envs.wrappers import Memory
from tests.toy import ID

JSON = {"protocol": "json"}
SECOND = [(f"agent_envs/{name}-v0", JSON) for name in ("SearchQA", "Arithmetic", "Countdown", "Sort", "Order")]
ENVS = [
    *((row.id, {}) for row in TABLE if not row.twin),
    ("agent_envs/LegalSearch-v0", JSON),
    ("agent_envs/ToolReasoning-v0", JSON),
    *SECOND,
    ("agent_envs/Tau2Telecom-v0", {"side": "user"}),
    ("agent_envs/Tau2Telecom-v0", {"side": "solo"}),
]
HOSTILE = [
    "",
    "no JSON",
    "[1]",
    '{"query": {"a": [1]}}',
    "{}",
    "[" * 100_000,
    '{"text": NaN}',
    {},
    {"query": 3, "more": None},
]


def made(env_id, arguments):
    env = gym.make(env_id, **arguments)
    env.reset(seed=0)
    return env


def argument(view):
    (name,) = view.schema["function"]["parameters"]["properties"]
    return name


@pytest.mark.parametrize(("env_id", "arguments"), ENVS)
def test_a_rendered_call_is_read_as_that_call(env_id, arguments):
    env = made(env_id, arguments)
    core, views = env.unwrapped, tool_view(env)
    assert len({view.name for view in views}) == len(views) > 0
    assert [view.schema for view in views if view.around is None] == list(core.tools)
    for view in views:
        function = view.schema["function"]
        assert json.loads(json.dumps(view.schema)) == view.schema and function["parameters"]["type"] == "object"
        assert function["description"], f"{view.name} is not described"
        foreign = view.around is None and (env_id, arguments) not in SECOND
        given = {"zip": "12345"} if foreign else {argument(view): "7"}
        for form in (given, json.dumps(given)):
            twin = fork(env)
            twin.step(view.render(form))
            parsed = twin.unwrapped.episode.turns[-1].parsed
            if view.name in ("answer", "say"):
                assert isinstance(parsed, (Answer, Say)) and parsed.text == "7"
            elif view.name == "act":
                assert isinstance(parsed, Malformed) and "'7' is no action" in parsed.reason
            elif view.name == "return_final_answer":  # with arguments that it does not have
                assert isinstance(parsed, Malformed | Call)
            else:
                (call,) = parsed.calls
                assert call.name == view.name and json.loads(call.arguments).items() >= given.items()


@pytest.mark.parametrize(("env_id", "arguments"), ENVS)
def test_a_solver_that_calls_tools_earns_what_it_earns_in_text(env_id, arguments):
    env = made(env_id, arguments)
    twin, views = fork(env), {view.name: view for view in tool_view(env)}
    for action in agent_envs.solve(env):
        _, reward, terminated, truncated, info = env.step(action)
        parsed = env.unwrapped.episode.turns[-1].parsed
        if isinstance(parsed, Call) and len(parsed.calls) == 1:
            (call,) = parsed.calls
            action = views[call.name].render(call.arguments)
        elif isinstance(parsed, Say):
            action = views["say" if "say" in views else "act"].render({"text": parsed.text})
        elif isinstance(parsed, Answer) and "answer" in views:
            opening, closing = env.unwrapped.answer_tags
            text = action.partition(opening)[2].partition(closing or "\0")[0]
            action = views["answer"].render({"text": text if views["answer"].around else parsed.text})
        other = twin.step(action)
        assert other[1:4] == (reward, terminated, truncated) and other[4].get("success") == info.get("success")
    assert info["success"]


@pytest.mark.parametrize("env_id", ["agent_envs/SearchQA-v0", "agent_envs/Tau2Retail-v0", "agent_envs/BabaIsAI-v0"])
def test_what_a_model_writes_never_fails(env_id):
    env = made(env_id, {})
    for view in tool_view(env):
        for given in HOSTILE:
            observation, *_ = fork(env).step(view.render(given))
            assert isinstance(observation, str)


def test_arguments_in_text_are_read_leniently():
    search, answer = tool_view(gym.make("agent_envs/SearchQA-v0"))
    assert search.schema == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Look a query up in a collection of short documents; the best come back.",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
        },
    }
    assert search.render('{"query": "Zagreb", "top_k": 3}') == search.render("Zagreb") == "<search>Zagreb</search>"
    assert search.render({"query": ["é"]}) == '<search>["é"]</search>' and search.render({}) == "<search></search>"
    assert answer.render({"text": "red"}) == "<answer>red</answer>"
    assert tool_view(gym.make("agent_envs/Count-v0"))[-1].render({"text": "4"}) == "#### 4"


def test_views_are_of_the_core_and_nobodys_to_spoil():
    env = Memory(gym.make("agent_envs/Tau2Retail-v0"), turns=1)
    views = tool_view(env)
    views[0].schema["function"]["name"] = "spoilt"
    assert tool_view(env)[0].name == "find_user_id_by_email" == env.reset(seed=0)[1]["tools"][0]["function"]["name"]
    assert [view.name for view in tool_view(gym.make(ID))] == ["answer"]  # a stranger's, who says nothing of tags


def test_what_takes_no_text_is_refused():
    for env in (gym.make("agent_envs/SortExpA-v0"), DiscreteActions(gym.make("agent_envs/SortExpA-v0"))):
        with pytest.raises(UsageError, match="agent_envs/SortExpA-v0: tool_view shows ids whose actions are text"):
            tool_view(env)
