"""The telecom domain: the phone's rules, both sides in step, and the original's bugs both ways."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from agent_envs.envs.tau2 import telecom as agent_side
from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.database import same
from agent_envs.envs.tau2.task_generator.source import generated_domain
from agent_envs.envs.tau2.telecom import for_expected_actions, telecom
from agent_envs.envs.tau2.telecom_tables import agent_records, user_records
from agent_envs.envs.tau2.toolkit import FRESH, DomainState, ToolFailure, World, call, run_function
from tests.envs.tau2.telecom_world import AGENT, FIXED, USER, Line, ada, domain

# Wire formats and rules


def test_a_fresh_phone_is_fast_and_faster_after_a_search():
    line = ada()
    assert line.user("run_speed_test") == "Speed Test Result: 220.00 Mbps (Excellent). Connection is very fast."
    line.run("simulate_network_search")
    assert line.user("run_speed_test").startswith("Speed Test Result: 275.00 Mbps (Excellent).")


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("4g_only", "44.00 Mbps (Good). Connection is good for most activities, including HD streaming."),
        ("3g_only", "1.50 Mbps (Poor). Connection is slow. Web browsing may be sluggish, streaming difficult."),
        ("2g_only", "0.05 Mbps (Very Poor). Connection is very slow. Basic web browsing might be difficult."),
    ],
)
def test_speed_follows_the_network_mode(mode, text):
    line = ada()
    line.user("set_network_mode_preference", mode=mode)
    assert line.user("run_speed_test") == f"Speed Test Result: {text}"


def test_a_slow_vpn_and_data_saver_multiply():
    line = ada()
    line.run("simulate_network_search")
    line.run("break_vpn")
    assert line.user("run_speed_test").startswith("Speed Test Result: 27.50 Mbps (Good)")
    line.user("toggle_data_saver_mode")
    assert line.user("run_speed_test").startswith("Speed Test Result: 5.50 Mbps (Fair)")


@pytest.mark.parametrize(
    "breaking",
    [
        ("turn_airplane_mode_on", {}),
        ("unseat_sim_card", {}),
        ("lock_sim_card", {"mode": "puk"}),
        ("break_apn_settings", {}),
        ("turn_data_off", {}),
    ],
)
def test_each_fault_stops_data_and_messages(breaking):
    line = ada()
    assert line.run("assert_can_send_mms", expected_status=True) is True
    line.run(breaking[0], **breaking[1])
    assert line.run("assert_mobile_data_status", expected_status=False) is True
    assert line.run("assert_can_send_mms", expected_status=False) is True
    assert line.user("run_speed_test") == "Speed test failed: No Connection."


@pytest.mark.parametrize(
    "breaking",
    [
        ("break_apn_mms_setting", {}),
        ("set_wifi_calling", {"enabled": True, "mms_over_wifi": True}),
        ("remove_app_permission", {"app_name": "messaging", "permission": "SMS"}),
        ("set_network_mode_preference", {"mode": "2g_only"}),
    ],
)
def test_some_faults_stop_messages_alone(breaking):
    line = ada()
    line.run(breaking[0], **breaking[1])
    assert line.run("assert_mobile_data_status", expected_status=True) is True
    assert line.run("assert_can_send_mms", expected_status=False) is True


def test_roaming_needs_the_phone_and_the_line():
    line = ada()
    line.run("set_user_location", abroad=True)
    line.user("toggle_roaming")
    assert line.run("assert_mobile_data_status", expected_status=False) is True
    assert line.agent("enable_roaming", customer_id="C1", line_id="L1") == "Roaming enabled successfully"
    assert line.run("assert_mobile_data_status", expected_status=True) is True
    line.user("toggle_roaming")
    assert line.run("assert_mobile_data_status", expected_status=False) is True


def test_used_up_data_stops_the_phone_until_it_is_refuelled():
    line = ada()
    line.run("set_data_usage", "assistant", customer_id="C1", line_id="L1", data_used_gb=5)
    assert line.run("assert_mobile_data_usage_exceeded", expected_status=True) is True
    assert line.user("run_speed_test") == "Speed test failed: No Connection."
    assert json.loads(line.agent("refuel_data", customer_id="C1", line_id="L1", gb_amount=2)) == {
        "message": "Successfully added 2 GB of data for line L1 for $5.00",
        "new_data_refueling_gb": "2.0",
        "charge": "5.0",
    }
    assert line.run("assert_mobile_data_usage_exceeded", expected_status=True) is False


def test_a_resumed_line_reaches_the_phone_only_with_a_search():
    line = ada()
    line.agent("suspend_line", customer_id="C1", line_id="L1", reason="lost")
    line.user("reboot_device")
    assert line.run("assert_service_status", expected_status="no_service") is True
    line.agent("resume_line", customer_id="C1", line_id="L1")
    assert line.run("assert_service_status", expected_status="no_service") is True
    line.user("reboot_device")
    assert line.run("assert_service_status", expected_status="connected") is True


def test_a_payment_goes_round_both_databases():
    line = ada()
    assert line.agent("send_payment_request", customer_id="C1", bill_id="B1").endswith("for bill B1")
    again = line.play("assistant", "send_payment_request", {"customer_id": "C1", "bill_id": "B9"})
    assert again.error and again.content == "Error: A bill is already awaiting payment for this customer"
    assert line.user("check_payment_request") == "You have a payment request for bill B1 of 40.0 USD."
    assert line.user("make_payment") == "Payment of 40.0 USD has been made for bill B1."
    assert json.loads(line.agent("get_details_by_id", id="B1"))["status"] == "Paid"
    assert line.user("check_payment_request") == "No payment request has been made."


def test_one_payment_request_follows_the_other():
    line = Line(FIXED)
    line.run("set_user_info", name="Alan Mathison", phone_number="555-1003")
    assert line.user("make_payment") == "Payment of 12.5 USD has been made for bill B2."
    assert line.surroundings["payment_request"] == {"bill_id": "B3", "amount_due": 20.0, "paid": False}
    line.user("make_payment")
    assert line.surroundings["payment_request"] is None


def test_a_pending_line_can_be_resumed_and_an_active_one_not():
    line = ada()
    assert json.loads(line.agent("resume_line", customer_id="C1", line_id="L2"))["line"]["status"] == "Active"
    assert line.agent("resume_line", customer_id="C1", line_id="L2") == "Error: Line must be suspended to resume"


def test_an_identifier_of_any_kind_is_looked_for():
    assert ada().agent("get_customer_by_id", customer_id=["C1"]) == "Error: Customer with ID ['C1'] not found"


def test_a_broken_access_point_is_reset_at_the_next_reboot():
    line = ada()
    line.run("break_apn_settings")
    line.user("reset_apn_settings")
    assert line.phone["network_connection_status"] == "no_service"
    later = "Restarting network services...\nStatus Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔋 80%"
    assert line.user("reboot_device") == f"Resetting APN settings...\n{later}"
    assert line.user("reboot_device") == later


def test_an_unknown_phone_number_fails_after_the_tool_has_done_its_work():
    line = Line(FIXED)
    assert line.run("set_user_info", name="X", phone_number="1") == "Line with phone number 1 not found"
    outcome = line.play("user", "toggle_data", {})
    assert outcome.content == "Error: Line with phone number 1 not found" and not line.phone["data_enabled"]


def test_an_overdue_bill_suspends_a_line_once():
    line = ada()
    arguments = {"customer_id": "C1", "line_id": "L1", "new_bill_id": "B7", "contract_ended": True}
    text = line.run("suspend_line_for_overdue_bill", "assistant", **arguments)
    assert text == "Line L1 suspended for unpaid bill B7. Contract ended: True"
    assert line.run("assert_overdue_bill_exists", "assistant", customer_id="C1", overdue_bill_id="B7") is True
    assert line.run("assert_no_overdue_bill", "assistant", overdue_bill_id="B7") is False
    again = line.run("suspend_line_for_overdue_bill", "assistant", **arguments)
    assert again == "Line must be active to suspend for unpaid bill"
    line.agent("resume_line", customer_id="C1", line_id="L1")
    assert line.run("suspend_line_for_overdue_bill", "assistant", **arguments) == "Customer already has an overdue bill"


def test_airplane_mode_drops_the_vpn_and_a_switch_that_is_right_already_is_flipped_twice():
    line = ada()
    line.user("connect_vpn")
    assert line.run("turn_airplane_mode_off") == "Airplane Mode is now OFF."
    assert line.phone["vpn_connected"] is False and line.phone["vpn_details"] is None


def test_apn_settings_take_defaults_and_refuse_what_they_do_not_know():
    line = ada()
    before = line.state
    for bad in ({"bad": 1}, {"apn_name": "foo"}, "internet", {"mms_port": "x"}):
        outcome = line.play("user", "set_apn_settings", {"apn_settings": bad})
        assert outcome.error and outcome.kind == "other" and line.state is before
    assert line.user("set_apn_settings", apn_settings={"mms_port": "80"}).startswith("APN settings set to: internet\n")
    assert line.phone["active_apn_settings"]["mms_port"] == 80
    assert line.phone["active_apn_settings"]["mmsc_url"] == "http://mms.carrier.com/mms/wapenc"


@pytest.mark.parametrize(
    ("app", "text"),
    [
        ("messaging", "Success. Permission 'sms' granted to app 'messaging'."),
        ("Messaging", "Error. App 'Messaging' not found. Cannot grant permission."),
        (2.0, "Error. App '2.0' not found. Cannot grant permission."),
    ],
)
def test_an_app_is_looked_up_as_it_is_written(app, text):
    line = ada()
    assert line.user("grant_app_permission", app_name=app, permission="SMS").startswith(text)


def test_helpers_are_out_of_reach_of_tool_calls():
    for side in ("user", "assistant"):
        for name in ("break_vpn", "set_data_usage", "assert_can_send_mms"):
            outcome, after = call(FIXED, FRESH, side, name, {})
            assert outcome.content == f"Error: Tool '{name}' not found." and after is FRESH


def test_solo_mode_gives_the_agent_the_phone():
    outcome, _ = call(FIXED, FRESH, "assistant", "check_sim_status", {}, solo=True)
    assert outcome.content == "Your SIM card is active and working."
    assert call(FIXED, FRESH, "assistant", "check_sim_status", {})[0].error
    assert call(FIXED, FRESH, "user", "check_sim_status", {}, solo=True)[0].error


# The original's bugs, each both ways


@pytest.mark.parametrize(("leak", "level"), [(True, "poor"), (False, "excellent")])
def test_vpn_leak(leak, level):
    line = ada(domain(vpn_leak=leak))
    line.run("break_vpn")
    assert line.phone["vpn_details"]["server_performance"] == "poor"
    line.user("disconnect_vpn")
    line.user("connect_vpn")
    assert line.phone["vpn_details"]["server_performance"] == level
    shown = f"'server_performance': <PerformanceLevel.{level.upper()}: '{level}'>}}"
    assert line.user("check_vpn_status").endswith(shown)
    assert ada(domain(vpn_leak=leak)).state.extras == {}


def new_bill(of, seed):
    line = Line(of, DomainState(extras={"bill_seed": seed} if seed else {}))
    line.agent("refuel_data", customer_id="C1", line_id="L1", gb_amount=1.0)
    return json.loads(line.agent("get_customer_by_id", customer_id="C1"))["bill_ids"][-1]


def test_random_bill_id():
    drawn = domain(random_bill_id=True)
    assert new_bill(drawn, "one") == new_bill(drawn, "one") != new_bill(drawn, "two")
    assert new_bill(FIXED, "one") == new_bill(FIXED, "two") == new_bill(FIXED, "") == "B00000001"


def test_a_second_new_bill_gets_the_next_number():
    line = ada()
    for _ in range(2):
        line.agent("refuel_data", customer_id="C1", line_id="L1", gb_amount=1.0)
    line.agent("send_payment_request", customer_id="C1", bill_id="B00000001")
    line.agent("refuel_data", customer_id="C1", line_id="L1", gb_amount=1.0)
    bills = json.loads(line.agent("get_bills_for_customer", customer_id="C1"))
    assert [(bill["bill_id"], bill["total_due"]) for bill in bills] == [
        ("B00000001", 5.0), ("B00000002", 2.5), ("B1", 40.0)
    ]  # fmt: skip


@pytest.mark.parametrize("apart", [True, False])
def test_gold_without_sync(apart):
    gold = Line(for_expected_actions(domain(gold_without_sync=apart)), ada().state)
    gold.agent("enable_roaming", customer_id="C1", line_id="L1")
    assert gold.surroundings["roaming_allowed"] is not apart


def official(compat):
    root = os.environ["AGENT_ENVS_DATA"]
    folder = Path(root, "tau2", "official", "data", "tau2", "domains", "telecom")
    return Path(root), telecom(
        agent_records(tomllib.loads((folder / "db.toml").read_text())),
        user_records(tomllib.loads((folder / "user_db.toml").read_text())),
        compat,
    )


def after(of, state, actions):
    for action in actions:
        _, state = call(of, state, action["requestor"], action["name"], action["arguments"])
    return state


@pytest.mark.data
def test_gold_without_sync_explains_every_recorded_db_match():
    root, live = official(Compat(random_bill_id=False))
    seen = {True: 0, False: 0}
    for text in (root / "tau2" / "vectors" / "gold-telecom.jsonl").read_text().splitlines():
        vector, start = json.loads(text), FRESH
        for action in vector["init"]:
            _, start = run_function(live, start, action["env_type"], action["func_name"], action["arguments"])
        played = after(live, start, vector["steps"])
        gold = after(for_expected_actions(live), start, vector["steps"])
        match = same(live.agent_database, played.agent, gold.agent) and same(live.user_database, played.user, gold.user)
        assert match == vector["evaluations"]["gold"]["db_match"], vector["task_id"]
        seen[match] += 1
    assert min(seen.values()) > 0


def test_databases_read_dates_numbers_and_defaults_as_the_original_does():
    customer = agent_records(tomllib.loads(AGENT)).tables["customers"]["C1"]
    assert customer["created_at"] == "2025-01-15 10:30:00" and customer["date_of_birth"] == "1990-12-10"
    assert repr(agent_records(tomllib.loads(AGENT)).tables["bills"]["B1"]["total_due"]) == "40.0"
    phone = user_records(tomllib.loads(USER)).tables["device"][""]
    assert phone["app_statuses"]["browser"]["permissions"] == dict.fromkeys(
        ("sms", "storage", "phone", "network"), False
    )
    assert phone["active_apn_settings"]["apn_name"] == "internet"


def test_a_number_is_found_where_the_tables_were_changed_as_where_they_were_not() -> None:
    made = generated_domain("telecom")
    tables = made.agent_database.tables
    key, line = next(iter(tables["lines"].items()))
    owner = next(one for one, row in tables["customers"].items() if key in row["line_ids"])
    world = World(made, FRESH)
    assert agent_side._line_by_phone(world, line["phone_number"]) is line
    assert agent_side._customer_by_phone(world, line["phone_number"]) is tables["customers"][owner]
    world.agent.edit("lines", key)["data_used_gb"] = 1.5
    assert agent_side._line_by_phone(world, line["phone_number"])["data_used_gb"] == 1.5  # as it is now
    world.agent.edit("lines", key)["phone_number"] = "555-000-0000"
    with pytest.raises(ToolFailure):
        agent_side._line_by_phone(world, line["phone_number"])
    assert agent_side._line_by_phone(world, "555-000-0000")["line_id"] == key
    assert agent_side._customer_by_phone(world, "555-000-0000")["customer_id"] == owner
