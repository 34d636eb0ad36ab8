"""The state machine: routing, what each side sees, several calls, stops, limits, solo mode; nothing is ever mutated."""

import json

import pytest

from agent_envs import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Line, ToolReply, calls_of, recording_of
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.turn_taking import GREETING, Rules, answered, opened, seen_by, spoke, stopped, stumbled
from tests.envs.tau2.hashes import original_hash
from tests.envs.tau2.recorded import builtin_rows

TELECOM = builtin_domain("telecom")
RETAIL = builtin_domain("retail")
FIXED = builtin_domain("telecom", "fixed")


def calls(*names, **arguments):
    return calls_of([{"name": name, "arguments": arguments} for name in names])


def begun(rules=None, row="telecom-test-airplane"):
    rules = rules or Rules(TELECOM)
    rows = {one["id"]: one for part in builtin_rows(rules.domain.name).values() for one in part}
    return rules, opened(rules, initial_world(rules.domain, read_task(rows[row], rules.domain.name)))


def test_the_agent_greets_and_the_user_speaks_first():
    rules, talk = begun()
    assert (talk.turn, talk.steps, talk.agent_turns, talk.ended) == ("user", 0, 0, "")
    assert [(line.sender, line.text) for line in talk.lines] == [("assistant", GREETING)]
    talk = spoke(rules, talk, "Help!")
    assert (talk.turn, talk.steps, talk.lines[-1]) == ("assistant", 1, Line("user", "Help!"))
    talk = spoke(rules, talk, "Sure.")
    assert (talk.turn, talk.steps, talk.agent_turns) == ("user", 2, 1)


def test_calls_go_to_the_environment_in_order_and_back_to_the_caller():
    rules, talk = begun()
    talk = spoke(rules, talk, "", calls("check_status_bar", "toggle_airplane_mode", "check_status_bar"))
    replies = talk.lines[-1].results
    assert talk.turn == "user" and talk.steps == 2 and talk.lines[-1].sender == "environment"
    assert [reply.call_id for reply in replies] == ["call_0", "call_1", "call_2"]
    assert "Airplane Mode" in replies[0].content and "Airplane Mode" not in replies[2].content
    assert all(reply.requestor == "user" and not reply.error for reply in replies)


def test_each_side_sees_its_own_calls_and_results_and_the_others_words_alone():
    rules, talk = begun()
    talk = spoke(rules, talk, "", calls("check_status_bar"))
    talk = spoke(rules, talk, "It is dark.")
    talk = spoke(rules, talk, "Let me see.", calls("get_customer_by_phone", phone_number="555-700-1003"))
    talk = spoke(rules, talk, "Switch it on.")
    agent, user = seen_by(talk, "assistant"), seen_by(talk, "user")
    assert [line.sender for line in agent] == ["assistant", "user", "assistant", "environment", "assistant"]
    assert [line.sender for line in user] == ["assistant", "user", "environment", "user", "assistant"]
    assert "status" not in canonical_json([encode_state(line) for line in agent if line.sender != "environment"])
    assert "C702" not in canonical_json([encode_state(line) for line in user])
    assert "Let me see." not in [line.text for line in user]
    assert seen_by(talk, "user", len(talk.lines) - 1) == (Line("assistant", "Switch it on."),)


def test_a_side_cannot_use_the_other_sides_tools():
    rules, talk = begun()
    talk = spoke(rules, talk, "", calls("get_customer_by_phone", phone_number="555-700-1003"))
    assert talk.lines[-1].results[0].content == "Error: Tool 'get_customer_by_phone' not found." and talk.errors == 1
    talk = spoke(rules, spoke(rules, talk, "Hi"), "", calls("check_status_bar"))
    assert talk.lines[-1].results[0].error and talk.errors == 2
    shop, chat = begun(Rules(RETAIL), "retail-test-cancel")
    assert spoke(shop, chat, "", calls("list_all_product_types")).lines[-1].results[0].error


@pytest.mark.parametrize("stop", ["###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"])
def test_the_users_stop_tokens_end_it_anywhere_in_a_text_but_never_beside_calls(stop):
    rules, talk = begun()
    assert spoke(rules, talk, f"Bye {stop} now").ended == "user_stop"
    beside = spoke(rules, talk, stop, calls("check_status_bar"))
    assert beside.ended == "" and beside.turn == "user"
    agent = spoke(rules, spoke(rules, talk, "Hi"), f"I say {stop}")
    assert agent.ended == "" and agent.turn == "user"


def test_what_is_over_or_empty_is_refused():
    rules, talk = begun()
    with pytest.raises(UsageError, match="empty"):
        spoke(rules, talk, " \n ")
    with pytest.raises(UsageError, match="over"):
        spoke(rules, spoke(rules, talk, "###STOP###"), "Hello?")


def test_steps_are_counted_as_they_are_routed_and_checked_between_the_sides_alone():
    rules = Rules(FIXED, max_steps=3)
    _, talk = begun(rules)
    talk = spoke(rules, talk, "one")
    called = spoke(rules, talk, "", calls("get_customer_by_phone", phone_number="x"))
    assert (called.steps, called.ended) == (3, "max_steps")
    talk = spoke(rules, talk, "two")
    assert talk.ended == ""
    # The call is step 3, and the environment still answers it, in step 4.
    last = spoke(rules, talk, "", calls("check_status_bar"))
    assert (last.steps, last.ended) == (4, "max_steps") and last.lines[-1].results


@pytest.mark.parametrize(("domain", "ended"), [(TELECOM, "max_steps"), (FIXED, "user_stop")])
def test_a_stop_on_the_last_step_is_overwritten_by_the_original_alone(domain, ended):
    rules = Rules(domain, max_steps=1)
    _, talk = begun(rules)
    assert spoke(rules, talk, "###STOP###").ended == ended
    assert spoke(Rules(domain, max_steps=2), talk, "###STOP###").ended == "user_stop"


def test_errors_of_both_sides_add_up():
    rules = Rules(TELECOM, max_errors=3)
    _, talk = begun(rules)
    talk = spoke(rules, talk, "", calls("nothing", "check_status_bar", "nothing"))
    assert (talk.errors, talk.ended) == (2, "")
    talk = spoke(rules, spoke(rules, talk, "Hi"), "", calls("nothing"))
    assert (talk.errors, talk.ended) == (3, "too_many_errors")


def test_the_agents_turns_are_limited_apart_from_the_steps():
    rules = Rules(TELECOM, max_agent_turns=2)
    _, talk = begun(rules)
    talk = spoke(rules, spoke(rules, talk, "Hi"), "Hello")
    talk = spoke(rules, spoke(rules, talk, "And?"), "Well")
    assert talk.ended == "" and talk.turn == "user"
    assert spoke(rules, talk, "###STOP###").ended == "user_stop"
    assert spoke(rules, talk, "Go on").ended == "max_agent_turns"
    _, talk = begun(rules)
    talk = stumbled(rules, spoke(rules, talk, "Hi"))
    assert (talk.agent_turns, talk.steps, len(talk.lines)) == (1, 1, 2)
    assert stumbled(rules, talk).ended == "max_agent_turns"
    assert stumbled(rules, begun(rules)[1]).agent_turns == 0


def test_solo_mode_has_all_tools_and_ends_by_done_stop_or_words():
    rules = Rules(TELECOM, solo=True)
    _, talk = begun(rules)
    assert (talk.turn, talk.lines) == ("assistant", ())
    names = [tool["function"]["name"] for tool in rules.tools_of("assistant")]
    assert {"check_status_bar", "get_customer_by_phone", "done"} <= set(names) and len(names) == len(set(names))
    talk = spoke(rules, talk, "", calls("toggle_airplane_mode"))
    assert talk.turn == "assistant" and talk.lines[-1].results[0].requestor == "assistant" and not talk.errors
    assert spoke(rules, talk, "Fine. ###STOP###").ended == "agent_stop"
    assert spoke(rules, talk, "Fine.").ended == "agent_error"
    done = spoke(rules, talk, "", calls("toggle_airplane_mode", "done"))
    assert done.ended == "agent_stop" and done.world is talk.world and done.lines[-1].calls == ()
    assert "done" not in [tool["function"]["name"] for tool in Rules(TELECOM).tools_of("assistant")]


@pytest.mark.parametrize("name", ["retail", "airline"])
def test_solo_mode_is_refused_where_the_user_has_no_tools(name):
    with pytest.raises(UsageError, match=f"{name} has no solo mode"):
        Rules(builtin_domain(name), solo=True)


def test_a_simulated_side_speaks_until_the_other_is_awaited_and_stops_at_its_end():
    rules, talk = begun()
    script = recording_of([
        {"sender": "user", "text": "One"}, {"sender": "user", "calls": [{"name": "check_status_bar"}]},
        {"sender": "user", "text": "Two"},
    ])  # fmt: skip

    def speak(talk):
        place = talk.memory or 0
        return (script[place], place + 1) if place < len(script) else (None, place)

    talk = answered(rules, talk, "user", speak)
    assert (talk.turn, talk.memory, talk.lines[-1].text) == ("assistant", 1, "One")
    talk = answered(rules, spoke(rules, talk, "whatever"), "user", speak)
    assert (talk.memory, talk.lines[-1].text, talk.lines[-2].sender) == (3, "Two", "environment")
    assert answered(rules, talk, "user", speak) is talk
    assert answered(rules, spoke(rules, talk, "again"), "user", speak).ended == "user_stop"
    assert stopped(rules, talk).ended == "agent_stop"


def test_a_history_is_gone_on_with_where_it_waits():
    asked = Line("user", calls=calls("check_status_bar"))
    reply = Line("environment", results=(ToolReply("call_0", "check_status_bar", "dark", False, "user"),))
    rules = Rules(TELECOM)
    assert opened(rules, history=(Line("assistant", "Hi"), asked, reply)).turn == "user"
    assert opened(rules, history=(Line("assistant", "Hi"), Line("user", "Hello"))).turn == "assistant"
    assert opened(rules, history=(Line("assistant", "Hi"),)).turn == "user"


def test_states_are_values_and_databases_stay_as_they_are():
    before = original_hash(TELECOM.agent_database, begun()[1].world.agent.__class__())
    rules, talk = begun(row="telecom-test-bill")
    kept = canonical_json(encode_state(talk))
    after = spoke(
        rules, spoke(rules, talk, "Hi"), "", calls("send_payment_request", customer_id="C702", bill_id="B792")
    )
    assert after.world != talk.world and canonical_json(encode_state(talk)) == kept
    assert original_hash(TELECOM.agent_database, begun()[1].world.agent.__class__()) == before
    stored = json.loads(canonical_json(encode_state(after)))
    assert decode_state(stored) == after
    again = spoke(rules, decode_state(stored).replace(turn="user"), "", calls("make_payment"))
    assert again == spoke(rules, after.replace(turn="user"), "", calls("make_payment")) and not again.errors


def test_arguments_that_no_state_can_hold_are_an_error_of_the_call():
    rules, talk = begun()
    talk = spoke(rules, talk, "", (ToolCall("call_0", "check_app_status", '{"app_name":{"$tuple":[]}}'),))
    assert talk.lines[-1].results[0].error
    decode_state(json.loads(canonical_json(encode_state(talk))))
