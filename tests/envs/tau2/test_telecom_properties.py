"""The telecom domain: what never happens, whatever both sides call."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.envs.tau2.database import same
from agent_envs.envs.tau2.toolkit import call
from tests.envs.tau2.hashes import lenient_hash, original_hash
from tests.envs.tau2.telecom_world import FIXED, ada, domain
from tests.examples import examples

# Likely values come first and often; the rest is what a careless agent sends.
ODD = ["", "X", 7, None, ["C1"], {}]
NUMBERS = st.sampled_from([1, 0.5, 3.333, 10.0, 0, -1, "2", None, True])
ARGUMENTS = {
    "customer_id": st.sampled_from(["C1"] * 8 + ["C2", *ODD]),
    "line_id": st.sampled_from(["L1"] * 8 + ["L2", "L3", *ODD]),
    "bill_id": st.sampled_from(["B1", "B00000001"] * 3 + ["B9", *ODD]),
    "id": st.sampled_from(["C1", "L1", "B1", "P1", "D1", *ODD]),
    "phone_number": st.sampled_from(["555-0001", "555-1003", *ODD]),
    "mode": st.sampled_from(["4g_5g_preferred", "4g_only", "3g_only", "2g_only", "5g", *ODD]),
    "app_name": st.sampled_from(["messaging", "Browser", "maps", *ODD]),
    "permission": st.sampled_from(["sms", "Storage", "camera", *ODD]),
    "apn_settings": st.sampled_from([{}, {"apn_name": "broken"}, {"mmsc_url": None, "reset_at_reboot": True}, *ODD]),
    "gb_amount": NUMBERS,
    "limit": NUMBERS,
}


def calls_of(side, kit):
    for name, tool in kit.tools.items():
        names = tool.parameters["properties"]
        given_arguments = {argument: ARGUMENTS.get(argument, st.sampled_from(ODD)) for argument in names}
        yield st.tuples(st.just(side), st.just(name), st.fixed_dictionaries(given_arguments))


CALLS = st.one_of(*calls_of("user", FIXED.user), *calls_of("assistant", FIXED.assistant))
FAULTS = st.sampled_from([
    ("break_vpn", {}), ("break_apn_settings", {}), ("break_apn_mms_setting", {}), ("unseat_sim_card", {}),
    ("lock_sim_card", {"mode": "pin"}), ("turn_airplane_mode_on", {}), ("turn_data_off", {}),
    ("set_user_location", {"abroad": True}), ("set_wifi_calling", {"enabled": True, "mms_over_wifi": True}),
    ("remove_app_permission", {"app_name": "messaging", "permission": "sms"}), ("turn_roaming_off", {}),
])  # fmt: skip


def check_phone(line):
    phone, around = line.phone, line.surroundings
    silent = phone["network_connection_status"] == "no_service"
    assert silent == (phone["network_technology_connected"] == "none") == (phone["network_signal_strength"] == "none")
    assert silent or not (phone["airplane_mode"] or phone["sim_card_missing"])
    assert phone["vpn_connected"] == (phone["vpn_details"] is not None)
    assert not phone["wifi_connected"]
    fast = line.run("assert_internet_speed", expected_speed=0.001)
    assert fast == line.run("assert_mobile_data_status", expected_status=True)
    assert not line.run("assert_internet_speed", expected_speed=275.01)
    assert fast or line.run("assert_can_send_mms", expected_status=False)
    mine = json.loads(line.agent("get_details_by_id", id="L1"))
    assert (
        around["line_active"] == (mine["status"] == "Active") and around["roaming_allowed"] == mine["roaming_enabled"]
    )
    bills = json.loads(line.agent("get_bills_for_customer", customer_id="C1"))
    waiting = [bill["bill_id"] for bill in bills if bill["status"] == "Awaiting Payment"]
    request = around["payment_request"]
    assert waiting == ([] if request is None else [request["bill_id"]])


@examples(150)
@given(st.lists(FAULTS, max_size=4), st.lists(CALLS, max_size=12), st.booleans())
def test_random_calls_keep_the_phone_consistent_and_old_states_whole(faults, calls, fixed):
    line = ada(FIXED if fixed else domain())
    for name, arguments in faults:
        line.run(name, **arguments)
    for side, name, arguments in calls:
        before = line.state
        kept = json.dumps(encode_state(before))
        outcome = line.play(side, name, arguments)
        assert json.dumps(encode_state(before)) == kept
        assert outcome.content.startswith("Error: ") == outcome.error
        assert decode_state(json.loads(json.dumps(encode_state(line.state)))) == line.state
        twin = call(line.domain, before, side, name, arguments)
        assert twin == (outcome, line.state)
        tool = line.domain.find_tool(side, name)
        if not tool.writes:
            assert line.state is before
        check_phone(line)


@examples(60)
@given(st.lists(CALLS, max_size=8), st.lists(CALLS, max_size=8))
def test_states_are_the_same_exactly_when_their_hashes_are(ones, others):
    lines = [ada(), ada()]
    for line, calls in zip(lines, (ones, others), strict=True):
        for side, name, arguments in calls:
            line.play(side, name, arguments)
    for database, side in ((FIXED.agent_database, "agent"), (FIXED.user_database, "user")):
        one, other = (getattr(line.state, side) for line in lines)
        equal = original_hash(database, one) == original_hash(database, other)
        assert same(database, one, other) == equal
        assert not equal or lenient_hash(database, one) == lenient_hash(database, other)


@examples(40)
@given(st.lists(CALLS, max_size=8), st.sampled_from(["toggle_data", "toggle_roaming", "toggle_data_saver_mode"]))
def test_a_search_twice_is_a_search_and_a_switch_twice_is_none(calls, switch):
    line = ada()
    for side, name, arguments in calls:
        line.play(side, name, arguments)
    line.run("simulate_network_search")
    once = line.state
    line.run("simulate_network_search")
    assert line.state is once
    line.user(switch)
    assert line.state != once
    line.user(switch)
    assert same(FIXED.user_database, line.state.user, once.user)
