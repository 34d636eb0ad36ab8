"""Chat models as agents: whole episodes over real HTTP, with services that fail at every place."""

from tests.needs import require

require("[anthropic]")

import gc
import itertools
import json
import sys
from dataclasses import replace
from itertools import cycle, product

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.base.errors import EnvFault
from agent_envs.base.messages import Message, ToolCall, ToolResult
from agent_envs.base.protocol import Call, Malformed, Say, ToolCallProtocol
from agent_envs.base.tool_schema import Toolkit, tool
from agent_envs.core.env import Outcome, Task, TurnEnv, spec_json
from agent_envs.core.episode import RewardSpec, Term
from agent_envs.core.registry import register_companions
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.episode_runner import Planned, run_episode
from agent_envs.rollout.policy import Request
from agent_envs.rollout.run_many import run_many
from agent_envs.services.chat import AnthropicChat, ChatReply, ChatRequest, OpenAIChat, OpenAIText, ScriptedChat
from agent_envs.services.chat.named import make_chat_model
from agent_envs.services.recording import Recording
from tests.examples import part
from tests.rows import check_each
from tests.services.chat.faulty import ENDLESS, FAULTS, PERMANENT, FaultyServer
from tests.services.chat.local import LocalServer
from tests.services.chat.wire import AnthropicWire, OpenAITextWire, OpenAIWire, Said

KEY = "sk-secret-0123456789"
CLIENTS = {
    "openai": (OpenAIWire, lambda url: OpenAIChat("m", url, api_key=KEY)),
    "anthropic": (AnthropicWire, lambda url: AnthropicChat("m", url=url, api_key=KEY)),
    "openai-text": (OpenAITextWire, lambda url: OpenAIText("m", url, api_key=KEY)),
}
CALLS = 3  # of an episode


class Thinker:
    """A base model that searches in its thoughts."""

    name, continues = "thinker", True

    def __init__(self):
        self.prefills = []

    def complete(self, request, timeout):
        self.prefills.append(request.prefill)
        more = ("<think>a </search>", " b </search>", " c</think> <search>d</search>")[len(self.prefills) - 1]
        return ChatReply(request.prefill + more, (), {"input": 5, "output": 2}, "stop")


@pytest.mark.parametrize(("thoughts", "calls"), [("skip", 3), ("count", 1)])
def test_a_stop_string_inside_a_thought_ends_no_reply_of_a_model_that_goes_on(thoughts, calls):
    model = Thinker()
    (reply,) = ChatPolicy(model).act([Request("k", 1, [], stop=("</search>",), thoughts=thoughts)])
    assert len(model.prefills) == calls and reply.usage == {"input": 5 * calls, "output": 2 * calls}
    assert model.prefills[0] == "" and reply.action.startswith("<think>a </search>")
    assert reply.action.endswith("<search>d</search>") == (thoughts == "skip")


def test_a_server_that_cannot_go_on_is_asked_again_without_stop_strings():
    def say(body):
        text = "<think>I could <answer>x</answer>.</think> <search>who</search> <search>what</search>"
        for stop in body.get("stop", ()):
            text = text.partition(stop)[0]
        return text

    with FaultyServer(server := LocalServer(say)) as running:
        model = OpenAIChat("m", f"{running.url}/v1")
        ask = [Request("k", 1, [{"role": "user", "content": "go"}], stop=("</search>", "</answer>"))]
        (reply,) = ChatPolicy(model).act(ask)
        assert reply.action == "<think>I could <answer>x</answer>.</think> <search>who</search>"
        assert [body.get("stop") for body in server.bodies] == [["</search>", "</answer>"], None]
        assert reply.usage["calls"] == 2
        ChatPolicy(model).act([replace(ask[0], thoughts="count")])
        assert len(server.bodies) == 3, "there a tag in a thought acts"
        server.finish = "length"
        assert ChatPolicy(model).act(ask)[0].outcome == "cut" and len(server.bodies) == 4, "it thought until its limit"


def no_wait(seconds):
    pass


def turns_of(body):
    if "prompt" in body:
        return body["prompt"].count("\n\nAssistant: ")
    return sum(message["role"] == "assistant" for message in body["messages"])


@pytest.fixture(scope="module")
def search():
    """A plan of one episode of SearchQA, and the script that solves it in three turns."""
    env = gym.make("agent_envs/SearchQA-v0")
    env.reset(seed=0, options={"task": 0, "split": "dev"})
    gold = env.unwrapped.episode.task.gold[0]
    lines = ["<search>who</search>", "Hm. <search>what</search>", f"<answer>{gold}</answer> for sure"]
    plan = [Planned("k", spec_json(env), 0, "dev", 0)]
    return plan, lambda body: Said(lines[turns_of(body)])


def play(plan, policy, **more):
    return [result for _, result in run_many(plan, policy, pause_seconds=0.0, **more)]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_episode_is_solved(search, client):
    plan, script = search
    wire_type, make = CLIENTS[client]
    wire = wire_type(script, key=KEY)
    with FaultyServer(wire) as server:
        [result] = play(plan, ChatPolicy(make(server.url)))
    assert (result.status, result.success, len(result.trajectory.turns)) == ("terminated", True, CALLS)
    assert result.usage == {"input": 300, "output": 60, "cached": 192, "cache_write": 18 * (client == "anthropic"),
                            "reasoning": 21, "calls": 3}  # fmt: skip
    assert result.trajectory.turns[0].action.startswith("<search>who")
    assert [turns_of(body) for body in wire.bodies] == [0, 1, 2]
    assert all(wire.key_of(headers) == KEY for headers in wire.headers)


@pytest.fixture
def garbage_of_others():
    """Nothing is collected in a test: where recursion is near its limit, finalizers of what earlier tests left would fail.

    It is not collected before the test either: with all that a worker holds, that took longer than the test.
    """
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("garbage_of_others")
@pytest.mark.parametrize(
    "client, fault", part(list(product(CLIENTS, FAULTS)), list(zip(cycle(CLIENTS), FAULTS, strict=False)))
)
def test_a_fault_is_survived_where_it_can_be_and_reported_where_it_stays(search, client, fault):
    """At every place of an episode; where the rows wait for what never ends, they wait together."""
    rows = [(kind, place) for place in range(CALLS) for kind in (once, for_good)]
    check_each(
        lambda kind, place: kind(search, client, fault, place), rows, at_once=len(rows) if fault in ENDLESS else 1
    )


def once(search, client, fault, place):
    """It is survived, or reported where asking again would not help."""
    plan, script = search
    wire_type, make = CLIENTS[client]
    with FaultyServer(wire_type(script), lambda number: fault if number == place else None) as server:
        seconds = 0.5 if fault in ENDLESS else 10.0
        [result] = play(plan, ChatPolicy(make(server.url), wait=no_wait, attempt_seconds=seconds))
        calls = server.count
    if fault in PERMANENT:
        no_reward(result)
        assert calls == place + 1
    else:
        assert (result.status, result.success) == ("terminated", True)
        assert calls == CALLS + 1 or fault in ENDLESS


def for_good(search, client, fault, place):
    """It ends as a fault."""
    plan, script = search
    wire_type, make = CLIENTS[client]
    with FaultyServer(wire_type(script), lambda number: fault if number >= place else None) as server:
        seconds = 0.05 if fault in ENDLESS else 10.0
        limits = {"attempt_seconds": seconds, "deadline_seconds": 1.0 if fault == "overloaded" else 600.0}
        [result] = play(plan, ChatPolicy(make(server.url), wait=no_wait, **limits))
        assert server.count > place
    no_reward(result)


def no_reward(result):
    assert result.status == "fault" and result.fault and "\n" not in result.fault
    assert result.trajectory.turns == () and not result.success
    assert KEY not in f"{result.fault} {result.attempts} {result}"


@pytest.mark.parametrize("client", CLIENTS)
def test_an_episode_replays_without_the_service_its_client_and_a_key(search, client, tmp_path, monkeypatch):
    plan, script = search
    wire_type, make = CLIENTS[client]
    path = tmp_path / "agent.jsonl"
    with FaultyServer(wire_type(script, key=KEY)) as server, Recording(path, "record") as recording:
        [played] = play(plan, ChatPolicy(make(server.url), recording=recording))
        url = server.url
    assert KEY not in path.read_text()
    replay = Recording(path, "replay")
    monkeypatch.setitem(sys.modules, "anthropic", None)
    keyless = make_chat_model(f"{client}:m@{url}")
    assert play(plan, ChatPolicy(keyless, recording=replay)) == [played]
    [missed] = play(plan, ChatPolicy(keyless, recording=replay, temperature=0.5))
    assert missed.status == "fault" and "no recording" in missed.fault


def test_equal_starts_draw_samples_of_their_own_and_repeat(search, tmp_path):
    plan, _ = search
    plan = [Planned(f"k{number}", *list(vars(plan[0]).values())[1:]) for number in range(2)]
    drawn = itertools.count()
    model = ScriptedChat(lambda request: f"<answer>{next(drawn)}</answer>")
    with Recording(tmp_path / "r.jsonl", "record") as recording:
        policy = ChatPolicy(model, recording=recording)
        first = [result.trajectory.turns[0].action for result in play(plan, policy)]
        again = [result.trajectory.turns[0].action for result in play(plan, policy)]
    assert first == again == ["<answer>0</answer>", "<answer>1</answer>"]


def test_what_a_model_is_asked():
    asked = []

    def script(request):
        asked.append(request)
        return ChatReply("x", (ToolCall("id", "find", '{"q":1}'),), {"input": 2})

    policy = ChatPolicy(ScriptedChat(script, "model"), name="agent", temperature=0.5, max_tokens=7)
    request = Request("k", 2, [{"role": "user", "content": "Go"}], [{"type": "function"}], "", ("</a>",), 9)
    [reply] = policy.act([request])
    assert asked == [ChatRequest(request.messages, request.tools, ["</a>"], "", 0.5, 7, 9)]
    assert reply.action == 'x\n<tool_call>\n{"name": "find", "arguments": {"q":1}}\n</tool_call>'
    assert (policy.name, reply.usage) == ("agent", {"input": 2})


@tool
def add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    return str(a + b)


class Sums:
    """One task."""

    name, splits, digest = "sums", ("dev",), ""

    def size(self, split):
        return 1

    def get(self, split, key):
        return Task("sum-0", split, "What are 2 + 3 and 4 + 5?", ("5 and 9",))


class Adder(TurnEnv):
    """Native tools: results travel as tool messages, speech ends the episode."""

    kit = Toolkit([add])
    reward_spec = RewardSpec(
        "sums",
        (Term("correct", 0.0, 1.0, "said", lambda trajectory: float(trajectory.last.parsed == Say("5 and 9"))),),
        episode=(0.0, 1.0),
    )

    def __init__(self, render_mode=None):
        self.render_mode, self.source, self.max_turns = render_mode, Sums(), 6
        self.tools = tuple(self.kit.schemas())

    def _begin(self, task, key):
        return (), (Message("system", "Add.", "environment"), Message("user", task.question, "environment"))

    def _advance(self, episode, action):
        parsed = ToolCallProtocol().parse(action)
        if isinstance(parsed, Call):
            results = tuple(self.kit.execute(call) for call in parsed.calls)
            said = tuple(Message("tool", row.content, "tool", tool_call_id=row.call_id) for row in results)
            return Outcome(episode.state, parsed, said, results)
        if isinstance(parsed, Malformed):
            told = Message("user", f"Not a call: {parsed.reason}", "environment")
            return Outcome(episode.state, parsed, (told,), events=(parsed.reason,))
        return Outcome(episode.state, parsed, terminated=True, success=parsed == Say("5 and 9"))


register_companions(Adder, solver=lambda env: "5 and 9")
gym.register(id="toy/Adder-v0", entry_point="tests.rollout.test_chat_policy:Adder")


@pytest.mark.parametrize("client", ["openai", "anthropic"])
def test_native_tools_over_several_turns(client):
    wire_type, make = CLIENTS[client]
    broken = "{broken" if client == "openai" else "[1]"
    script = [
        Said("I add.", (("add", '{"a": 2, "b": 3}'), ("add", '{"a": 4, "b": 5}'))),
        Said("", (("add", broken),)),
        Said("", (("add", '{"a": "x"}'),)),
        Said("5 and 9"),
    ]
    wire = wire_type(lambda body: script[turns_of(body)])
    with FaultyServer(wire) as server:
        result = run_episode(gym.make("toy/Adder-v0"), ChatPolicy(make(server.url)), seed=0)
    turns = result.trajectory.turns
    assert result.success and [type(turn.parsed) for turn in turns] == [Call, Malformed, Call, Say]
    assert [row.content for row in turns[0].results] == ["5", "9"]
    assert turns[1].events and "JSON object" in turns[1].events[-1]
    assert turns[2].results == (ToolResult("call_0", "add", "Error: add: missing argument b", error=True),)
    sent = json.dumps(wire.bodies[-1]["messages"])
    assert all(sent.count(name) == 2 for name in ("call00000", "call00001", "call00002")) and "call00003" not in sent


def test_a_base_model_calls_tools_in_its_text():
    call = '<tool_call>\n{"name": "add", "arguments": {"a": %d, "b": %d}}\n</tool_call>'
    script = [Said(f"I add.\n{call % (2, 3)}\n{call % (4, 5)}"), Said("5 and 9")]
    wire = OpenAITextWire(lambda body: script[turns_of(body)])
    with FaultyServer(wire) as server:
        result = run_episode(gym.make("toy/Adder-v0"), ChatPolicy(OpenAIText("m", server.url)), seed=0)
    first = result.trajectory.turns[0]
    assert result.success and isinstance(first.parsed, Call) and [row.content for row in first.results] == ["5", "9"]
    prompt = wire.bodies[-1]["prompt"]
    assert prompt.startswith('Tools, each called as <tool_call>{"name"') and '"name":"add"' in prompt.splitlines()[1]
    assert prompt.endswith("\n\nUser: 5\n\nUser: 9\n\nAssistant:")


def test_a_script_that_ends_is_a_fault():
    with pytest.raises(EnvFault, match="one more was asked"):
        run_episode(gym.make("toy/Adder-v0"), ChatPolicy(ScriptedChat([])), seed=0)
