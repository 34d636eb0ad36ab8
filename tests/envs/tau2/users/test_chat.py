"""Chat models as partners: what they are shown and what their words do, over real HTTP, recorded, replayed and resumed."""

import json
import threading

import pytest

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.partners import take_turn
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_schema import core_task, read_task, tau2_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.turn_taking import GREETING, Rules, opened, spoke
from agent_envs.envs.tau2.users.chat import ChatPartner, scenario_of
from agent_envs.envs.tau2.users.persona import MANNERS, PERSONAS
from agent_envs.services.chat import AnthropicChat, ChatReply, OpenAIChat, ScriptedChat
from agent_envs.services.recording import Recording
from tests.envs.tau2.recorded import builtin_rows
from tests.needs import needs
from tests.rows import each_row
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import AnthropicWire, OpenAIWire, Said

CLIENTS = {
    "openai": (OpenAIWire, lambda url: OpenAIChat("m", url, api_key="sk-secret")),
    "anthropic": (AnthropicWire, lambda url: AnthropicChat("m", url=url, api_key="sk-secret")),
}
ROW = {"telecom": "telecom-test-airplane", "retail": "retail-test-cancel"}
USER_WORDS = {  # what the agent said last -> what the customer's model says
    GREETING: Said("Hello, my phone has no service. I am Ivo Maas, 555-700-1003."),
    "What does the status bar show?": Said("", (("check_status_bar", "{}"),)),
    "Switch airplane mode off.": Said('<tool_call>\n{"name": "toggle_airplane_mode", "arguments": {}}\n</tool_call>'),
    "Does it work?": Said("<think>It does.</think>Yes, thank you! ###STOP###"),
}
AGENT_WORDS = {
    "Hello, my phone has no service. I am Ivo Maas, 555-700-1003.": Said(
        "Let me see.", (("get_customer_by_phone", '{"phone_number": "555-700-1003"}'),)
    ),
    "It shows an aeroplane.": Said("Switch airplane mode off."),
    "It is off.": Said("Does it work?"),
}

MESSAGES = 10  # that the models say; the greeting is nobody's


def begun(domain="telecom", **limits):
    rows = {row["id"]: row for part in builtin_rows(domain).values() for row in part}
    task = core_task(rows[ROW[domain]], "test")
    rules = Rules(builtin_domain(domain), **limits)
    public = read_task(task.data, domain)
    return task, public, rules, opened(rules, initial_world(rules.domain, tau2_task(task, domain)))


def scenes(task, public, rules, side, recording=None, key="k", branch=""):
    return lambda dialogue: Scene(task, public, rules, side, dialogue, key, branch, recording)


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def system_of(body):
    return body.get("system") or body["messages"][0]["content"]


def is_user(body):
    return system_of(body).startswith("You play a customer")


def model(body):
    """A model that plays whichever side it is asked to: by the last words or tool results."""
    last = body["messages"][-1]
    content = last["content"]
    blocks = content if isinstance(content, list) else ()
    if last["role"] == "tool" or (blocks and blocks[-1]["type"] == "tool_result"):
        result = content if isinstance(content, str) else blocks[-1]["content"]
        if not is_user(body):
            return Said("What does the status bar show?")
        return Said("It is off." if "now OFF" in result else "It shows an aeroplane.")
    return (USER_WORDS if is_user(body) else AGENT_WORDS)[text_of(content)]


def conversation(user, agent, recording=None, dialogue=None, until=40, **place):
    """Both sides' partners speak in turn until it is over, or so many messages stand."""
    task, public, rules, start = begun()
    dialogue = dialogue or start
    while not dialogue.ended and len(dialogue.lines) < until:
        side, partner = ("user", user) if dialogue.turn == "user" else ("assistant", agent)
        dialogue = take_turn(partner, scenes(task, public, rules, side, recording, **place)(dialogue))
    return dialogue


def shown(dialogue):
    return canonical_json(encode_state(dialogue))


@pytest.mark.parametrize("client", CLIENTS)
@needs("[anthropic]")
def test_both_sides_at_once_recorded_and_replayed(client, tmp_path):
    wire_type, make = CLIENTS[client]
    wire, path = wire_type(model, key="sk-secret"), tmp_path / "r.jsonl"
    with FaultyServer(wire) as server:
        url, partner = server.url, ChatPartner(make(server.url))
        live = conversation(partner, partner)
        with Recording(path, "record") as recording:
            recorded = conversation(partner, partner, recording)
        asked = server.count
    assert live.ended == "user_stop" and live.memory is None and live.errors == 0
    assert [line.sender for line in live.lines].count("environment") == 3
    assert live.lines[-1].text == "Yes, thank you! ###STOP###"
    assert "Let me see." not in shown(live)  # words beside a call reach nobody
    assert shown(recorded) == shown(live) and "sk-secret" not in path.read_text()
    offline = ChatPartner(make(url))
    assert shown(conversation(offline, offline, Recording(path, "replay"))) == shown(live)
    assert asked == len(wire.bodies) == 2 * MESSAGES
    with pytest.raises(EnvFault, match="no recording"):
        conversation(offline, offline, Recording(path, "replay"), key="another")
    with pytest.raises(EnvFault, match="no recording"):
        conversation(offline, offline, Recording(path, "replay"), branch="b1")


@pytest.mark.parametrize("cut", range(2, 13))
def test_a_killed_conversation_goes_on_where_it_was(cut, tmp_path):
    wire, path = OpenAIWire(model), tmp_path / "r.jsonl"
    with FaultyServer(wire) as server:
        partner = ChatPartner(OpenAIChat("m", server.url))
        whole = conversation(partner, partner)
        with Recording(path, "record") as recording:
            half = conversation(partner, partner, recording, until=cut)
        stored, recorded = json.dumps(encode_state(half)), sum(line.sender != "environment" for line in half.lines) - 1
        with path.open("ab") as file:
            file.write(b'{"key": "torn')
        before = len(wire.bodies)
        with Recording(path, "record") as recording:
            again = conversation(partner, partner, recording)  # from the start: the recorded part costs nothing
        resumed = conversation(partner, partner, Recording(path, "replay"), decode_state(json.loads(stored)))
    assert shown(again) == shown(resumed) == shown(whole)
    assert len(wire.bodies) == 2 * MESSAGES and before - MESSAGES == recorded


def test_many_threads_share_a_partner(tmp_path):
    done = {}
    with FaultyServer(OpenAIWire(model)) as server, Recording(tmp_path / "r.jsonl", "record") as recording:
        partner = ChatPartner(OpenAIChat("m", server.url))

        def play(key):
            done[key] = shown(conversation(partner, partner, recording if key % 2 else None, key=str(key)))

        threads = [threading.Thread(target=play, args=(key,)) for key in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(done) == list(range(6)) and len(set(done.values())) == 1


def asked_of(side, dialogue_of=lambda rules, dialogue: dialogue, domain="telecom", persona="task", said="Hm."):
    """The request that a partner's model gets, and the line that came of it."""
    task, public, rules, dialogue = begun(domain)
    requests = []
    partner = ChatPartner(ScriptedChat(lambda request: requests.append(request) or said), persona)
    line, memory = partner.speak(scenes(task, public, rules, side)(dialogue_of(rules, dialogue)))
    assert memory is None
    return requests, line


def test_the_customer_is_told_its_scenario_and_the_agent_its_policy():
    (user,), line = asked_of("user")
    guide, *said = user.messages
    assert said == [{"role": "user", "content": GREETING}] and line.sender == "user" and line.text == "Hm."
    for part in ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###", "555-700-1003", "- toggle_airplane_mode():"):
        assert part in guide["content"], part
    assert "$" not in guide["content"] and "<policy>" not in guide["content"]
    assert {tool["function"]["name"] for tool in user.tools} >= {"check_status_bar", "make_payment"}
    (agent,), line = asked_of("assistant", lambda rules, dialogue: spoke(rules, dialogue, "Hi."))
    assert [one["role"] for one in agent.messages] == ["system", "user", "assistant", "user"]
    assert "<policy>" in agent.messages[0]["content"] and "555-700-1003" not in canonical_json(list(agent.messages))
    assert "get_customer_by_phone" in {tool["function"]["name"] for tool in agent.tools} and line.sender == "assistant"


def test_each_side_sees_its_own_calls_and_the_others_words_alone():
    def talked(rules, dialogue):
        look = (ToolCall("call_0", "check_status_bar", "{}"),)
        find = (ToolCall("call_0", "get_customer_by_phone", '{"phone_number":"555-700-1003"}'),)
        dialogue = spoke(rules, spoke(rules, spoke(rules, dialogue, "", look), "It is dark."), "", find)
        return spoke(rules, dialogue, "Which one is it?")

    (user,), _ = asked_of("user", talked)
    roles = [message["role"] for message in user.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
    (call,), result = user.messages[2]["tool_calls"], user.messages[3]
    assert call["function"]["name"] == "check_status_bar" and call["id"] == result["tool_call_id"]
    assert "Airplane" in result["content"]
    assert "C702" not in canonical_json(list(user.messages))


def test_a_customer_without_tools_is_told_so_and_offered_none():
    (request,), _ = asked_of("user", domain="retail")
    assert request.tools == [] and "You have no tools" in request.messages[0]["content"]
    assert "tool_call" not in request.messages[0]["content"]


@each_row("persona", [*MANNERS, "You are a sailor, and curse."])
def test_a_persona_takes_the_place_of_the_tasks_own(persona):
    _, public, _, _ = begun()
    (request,), _ = asked_of("user", persona=persona)
    told = scenario_of(public, persona)
    assert told in request.messages[0]["content"] and MANNERS.get(persona, persona) in told
    assert "555-700-1003" in told and scenario_of(public, "task") == public.scenario != told


def test_a_chat_user_has_the_manners_that_a_scripted_one_has():
    assert set(MANNERS) == set(PERSONAS)
    with pytest.raises(UsageError, match="persona="):
        ChatPartner(ScriptedChat([]), {"typos": 0.5})


def test_what_the_other_side_keeps_in_mind_is_left_alone():
    task, public, rules, dialogue = begun()
    scene = scenes(task, public, rules, "user")(dialogue.replace(memory=("kept",)))
    assert ChatPartner(ScriptedChat(["Hi."])).speak(scene)[1] == ("kept",)


def test_names_say_the_model_and_the_manners():
    partner = ChatPartner("openai:m@http://localhost:1/v1", "terse")
    assert (partner.name, partner.service) == ("openai:m@http://localhost:1/v1/terse", "openai:m@http://localhost:1/v1")
    assert ChatPartner(ScriptedChat([], "x")).name == ChatPartner(ScriptedChat([], "x")).service == "x"
    for model_name, persona in (("nobody:m", "task"), ("openai:m@http://localhost", "gruff")):
        with pytest.raises(UsageError, match="nobody:m|gruff"):
            ChatPartner(model_name, persona)


UNREADABLE = [
    "",
    "  \n ",
    "<think>never ends",
    '<tool_call>{"name": 3}</tool_call>',
    "toggle_roaming(1)",
    "<think>a</think>",
]


@pytest.mark.parametrize("said", UNREADABLE)
def test_what_cannot_be_read_is_asked_for_once_more_and_then_a_fault(said, tmp_path):
    task, public, rules, dialogue = begun()
    requests = []

    def once(request):
        requests.append(request)
        return said if len(requests) == 1 else "Hello."

    line, _ = ChatPartner(ScriptedChat(once)).speak(scenes(task, public, rules, "user")(dialogue))
    assert line.text == "Hello." and not line.calls
    first, second = (request.messages for request in requests)
    assert second[: len(first)] == first and [one["role"] for one in second[len(first) :]] == ["assistant", "user"]
    assert "could not be read" in second[-1]["content"] and all(one["content"].strip() for one in second)
    with pytest.raises(EnvFault, match="no readable message in two replies") as caught:
        ChatPartner(ScriptedChat(lambda request: said)).speak(scenes(task, public, rules, "user")(dialogue))
    assert caught.value.retryable
    path, asked = tmp_path / "r.jsonl", []

    def heals(request):
        asked.append(request)
        return said if len(asked) <= 2 else "Hello."

    for mode, words in (("record", ""), ("replay", ""), ("record", "Hello."), ("replay", "Hello.")):
        with Recording(path, mode) as recording:
            scene = scenes(task, public, rules, "user", recording)(dialogue)
            if words:
                assert ChatPartner(ScriptedChat(heals)).speak(scene)[0].text == words
                continue
            with pytest.raises(EnvFault, match="no readable message") as caught:
                ChatPartner(ScriptedChat(heals)).speak(scene)
        assert caught.value.retryable is (mode == "record")
    assert len(asked) == 3  # the first reply is found again, the second is asked for again


def test_a_call_of_a_customer_without_tools_cannot_be_read():
    call = ChatReply("", (ToolCall("a", "get_user", "{}"),))
    task, public, rules, dialogue = begun("retail")
    with pytest.raises(EnvFault, match="you have no tools"):
        ChatPartner(ScriptedChat(lambda request: call)).speak(scenes(task, public, rules, "user")(dialogue))


@pytest.mark.parametrize("said", ["\ud800 hm", "x" * 300_000, "Say $key {name} %s"])
def test_any_text_becomes_a_line_that_can_be_stored(said):
    _, line = asked_of("user", said=said)
    assert json.dumps(encode_state(line)).encode() and 0 < len(line.text) <= 100_000
    assert line.text == said[:100_000].replace("\ud800", "?")


def test_a_dead_service_is_a_fault_and_no_line():
    task, public, rules, dialogue = begun()
    wire = OpenAIWire(model)
    with FaultyServer(wire, lambda number: "unavailable") as server:
        partner = ChatPartner(OpenAIChat("m", server.url), wait=lambda seconds: None)
        with pytest.raises(EnvFault, match="attempt 5 of 5"):
            partner.speak(scenes(task, public, rules, "user")(dialogue))


def test_equal_starts_draw_samples_of_their_own():
    task, public, rules, dialogue = begun()
    seeds = []
    partner = ChatPartner(ScriptedChat(lambda request: seeds.append(request.seed) or "Hi."))
    for key, branch in (("a", ""), ("b", ""), ("a", "b1"), ("a", "")):
        partner.speak(scenes(task, public, rules, "user", key=key, branch=branch)(dialogue))
    assert len(set(seeds)) == 3 and seeds[0] == seeds[3] and all(seeds)
