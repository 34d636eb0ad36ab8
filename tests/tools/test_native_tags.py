"""Second prompts: a native call is read as the tag that it stands for, and nothing that a policy is shown speaks of tags."""

import random
import re

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import UsageError
from agent_envs.base.messages import Message, ToolCall
from agent_envs.base.protocol import Answer, Call, Malformed, MarkedAnswerProtocol, TagProtocol
from agent_envs.core.registry import TABLE, companion
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.tools.native_tags import NativeTags, in_tags, replied
from agent_envs.wrappers import ForcedAnswer
from baselines.multi_hop import MultiHop

NATIVE = NativeTags(TagProtocol({"find": ("search", "query")}, about={"search": "Look something up."}))
IDS = [row.name for row in TABLE if row.family in ("search_qa", "expa") and not row.twin]
TAG = re.compile(r"</?[a-z_]+>|####")


def call(name, arguments):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (call("search", '{"query": " a ", "top": 3}'), Call((ToolCall("call_0", "search", '{"query":"a"}'),))),
        ("So. " + call("answer", '{"text": " red "}'), Answer("red")),
        ("<answer>red</answer>" + call("search", '{"query": "a"}'), Answer("red")),
        ("<find>a</find>", Malformed("it calls no tool: call search or answer")),
        ("red", Malformed("it calls no tool: call search or answer")),
        (call("find", '{"query": "a"}'), Malformed("there is no tool 'find': call search or answer")),
        (call("search", '{"text": "a"}'), Malformed("search takes query, a text")),
        (call("answer", '{"text": 3}'), Malformed("answer takes text, a text")),
        ("<tool_call>{", Malformed("the tool call is not valid JSON at character 2")),
    ],
)
def test_the_first_call_of_a_turn_counts(text, parsed):
    assert NATIVE.parse(text) == parsed


def test_further_calls_are_answered_and_not_carried_out():
    parsed = NATIVE.parse("\n".join([call("search", '{"query": "a"}')] * 30))
    first, *rest = replied(parsed, "found")
    assert (first.content, first.tool_call_id) == ("found", "call_0") and len(rest) == 19
    assert {message.content for message in rest} == {"Not carried out: one call a turn."}
    assert [message.tool_call_id for message in rest] == [f"call_{number}" for number in range(1, 20)]


def test_what_is_written_in_tags_is_said_natively_and_back():
    marked = NativeTags(MarkedAnswerProtocol({"calculator": ("calculator", "text")}))
    assert NATIVE.parse(NATIVE.write("I look. <find>a</find>")) == Call(
        (ToolCall("call_0", "search", '{"query":"a"}'),)
    )
    assert marked.parse(marked.write("So:\n#### 1,234")) == Answer("1,234") and NATIVE.write("nothing") == "nothing"
    rows = [("user", "?"), ("assistant", NATIVE.write("<find>a</find>")), ("tool", "b"), ("assistant", "<tool_call>{")]
    assert in_tags(rows, "information") == ["?", "<search>a</search>", "<information> b </information>", "<tool_call>{"]
    alone = [("user", "?"), ("assistant", call("search", '{"query": "a"}'))]
    assert in_tags(alone, "information") == [text for _, text in alone]  # nobody answered it: it was no call


@pytest.mark.parametrize("name", IDS)
def test_a_second_prompt_speaks_of_no_tags_and_pays_the_same(name):
    native, tags = (gym.make(f"agent_envs/{name}-v0", protocol=protocol) for protocol in ("json", "tags"))
    for seed in range(6):
        _, info = native.reset(seed=seed)
        tags.reset(seed=seed)
        shown = [message["content"] for message in info["messages"]]
        assert [tool["function"]["name"] for tool in info["tools"]][-1] == "answer" and info["stop"] == []
        ends = [tags.step(action)[1:4] for action in agent_envs.solve(tags)]
        for action, end in zip(agent_envs.solve(native), ends, strict=True):
            _, *others, info = native.step(action)
            assert tuple(others) == end
            shown += [message["content"] for message in info["messages"]]
        assert info["success"]
        native.reset(seed=seed)
        for action in ("nothing", call("browse", "{}"), call("answer", "{}")):
            shown += [message["content"] for message in native.step(action)[4]["messages"]]
        assert not [text for text in shown if TAG.search(text)]


@pytest.mark.parametrize("name", ["SearchQA", "Sort", "Arithmetic"])
def test_feedback_reads_native_calls_as_it_reads_tags(name):
    told = []
    for protocol in ("tags", "json"):
        env = gym.make(f"agent_envs/{name}-v0", protocol=protocol)
        advise, said = companion(env, "feedback"), []
        for seed in range(6):
            env.reset(seed=seed)
            for action in agent_envs.solve(env)[:-1]:
                messages = [Message(row["role"], row["content"], "environment") for row in conversation(env)]
                said += [advise(messages, mode, "good", random.Random(seed)) for mode in ("exploit", "explore")]
                env.step(action)
        told.append(said)
    assert told[0] == told[1] and len(set(told[0])) > 5


def conversation(env):
    episode = env.unwrapped.episode
    rows = [message.as_dict() for message in episode.prompt]
    for turn in episode.turns:
        rows += [{"role": "assistant", "content": turn.action}, *(message.as_dict() for message in turn.observation)]
    return rows


def test_an_answer_can_be_forced_and_a_reward_of_tags_is_refused():
    for name, text in (("SearchQA", "red"), ("Arithmetic", "7")):
        env = ForcedAnswer(gym.make(f"agent_envs/{name}-v0", protocol="json"), free_turns=0)
        _, info = env.reset(seed=0)
        assert info["prefill"] and not info["tools"]
        env.step(text)
        assert env.unwrapped.episode.turns[-1].parsed == Answer(text)
    with pytest.raises(UsageError, match='reward="em_format" reads tags, of which protocol="json" has none'):
        gym.make("agent_envs/SearchQA-v0", protocol="json", reward="em_format")
    with pytest.raises(UsageError, match="protocol='xml'; give one of tags, json"):
        gym.make("agent_envs/Sort-v0", protocol="xml")


def test_agents_without_a_model_call_natively():
    won = []
    for protocol in ("tags", "json"):
        env = gym.make("agent_envs/SearchQA-v0", protocol=protocol)
        for policy in (CompanionPolicy("heuristic"), MultiHop()):
            records = [agent_envs.run_episode(env, policy, seed=seed).trajectory for seed in range(12)]
            won.append(sum(record.turns[-1].reward for record in records))
    assert won[:2] == won[2:] and won[1] == 12


@pytest.mark.parametrize("name", ["Arithmetic", "Countdown", "Count", "GSM8KScaled", "CalcBench", "Sort", "Order"])
def test_heuristics_earn_natively_what_they_earn_in_tags(name):
    earned = []
    for protocol in ("tags", "json"):
        env = gym.make(f"agent_envs/{name}-v0", protocol=protocol)
        records = [agent_envs.run_episode(env, CompanionPolicy("heuristic"), seed=seed).trajectory for seed in range(8)]
        assert all(not isinstance(turn.parsed, Malformed) for record in records for turn in record.turns)
        earned.append([(record.success, len(record.turns)) for record in records])
    assert earned[0] == earned[1] and (name == "GSM8KScaled" or any(success for success, _ in earned[0]))
