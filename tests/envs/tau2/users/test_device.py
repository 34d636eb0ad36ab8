"""The simulated customer maps requests to phone tools, brings each switch to its goal and reports the tool's result."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.telecom_device import user_kit
from agent_envs.envs.tau2.toolkit import FRESH, call, run_function
from agent_envs.envs.tau2.users.device import Request, due, plan, report, requests
from agent_envs.envs.tau2.users.device_words import LONGEST, MOST_REQUESTS
from tests.examples import examples
from tests.rows import each_row

BAR, NETWORK, SPEED, MMS = "check_status_bar", "check_network_status", "run_speed_test", "can_send_mms"
NO_CARD = "No SIM card detected"
AIRPLANE, DATA, ROAMING, SAVER = "toggle_airplane_mode", "toggle_data", "toggle_roaming", "toggle_data_saver_mode"
CALLING, REBOOT, RESEAT, RESET = "toggle_wifi_calling", "reboot_device", "reseat_sim_card", "reset_apn_settings"
PAY, ASKED_TO_PAY, MODE = "make_payment", "check_payment_request", "set_network_mode_preference"
GRANT = "grant_app_permission"
# Each line: what the agent says, and the tools with their goals (or values) that it asks for.
TABLE = [
    ("Please turn off airplane mode.", f"{AIRPLANE}:off"),
    ("Could you turn airplane mode off and tell me what the status bar shows?", f"{AIRPLANE}:off {BAR}"),
    ("What does the status bar show?", BAR),
    ("**What** do you see at the top of your screen?", BAR),
    ("Could you confirm whether your device currently shows any signal bars?", BAR),
    ("Great! Now please check whether you have signal.", BAR),
    ("I can't see your phone from here, so please check the status bar for me.", BAR),
    ("If airplane mode is on, turn it off.", f"{AIRPLANE}:off"),
    ("Make sure your phone is not in airplane mode.", f"{AIRPLANE}:off"),
    ("Your airplane mode is on, which cuts the radio. Turn it off please.", f"{AIRPLANE}:off"),
    ("Turn Airplane mode on, wait 10 seconds, and then turn it off again.", f"{AIRPLANE}:on {AIRPLANE}:off"),
    ("Please toggle airplane mode.", AIRPLANE),
    ("Could you please toggle your airplane mode off?", f"{AIRPLANE}:off"),
    ("Your APN settings might be incorrect. Please reset them to default and then reboot your phone.", f"{RESET} {REBOOT}"),
    ("Can you tell me what network mode your phone is set to?", "check_network_mode_preference"),
    ("Since the VPN is connected, please turn it off and test the speed again.", f"disconnect_vpn {SPEED}"),
    ("Now go to the messaging app's permissions and make sure both \"Storage\" and \"SMS\" are allowed.",
     f"{GRANT}:messaging/sms {GRANT}:messaging/storage"),
    ("It looks like your data saver mode is ON. Please disable it and run another speed test.", f"{SAVER}:off {SPEED}"),
    ("Do you currently have roaming turned on? If not, please turn it on.", f"{NETWORK} {ROAMING}:on"),
    ("I'd recommend turning off the VPN, as it may slow you down.", "disconnect_vpn"),
    ("Please don't change your APN settings yet; first check the network status.", NETWORK),
    ("Would you mind restarting the phone?", REBOOT),
    ("Please let me know once you've done that.", ""),
    ("Is flight mode on?", NETWORK),
    ("Please check whether airplane mode is on. If it is, please turn it off, then check your status bar again.",
     f"{NETWORK} {AIRPLANE}:off {BAR}"),
    ("Is your phone in airplane mode or is the SIM locked?", f"{NETWORK} check_sim_status"),
    ("What network type are you connected to: 2G, 3G, 4G or 5G?", NETWORK),
    ("Please restart your phone.", REBOOT),
    ("Have you tried restarting your phone?", REBOOT),
    ("I'll need you to reboot the device now.", REBOOT),
    ("Turn your phone off and back on again.", REBOOT),
    ("Please turn off your phone, wait 30 seconds, and turn it back on.", REBOOT),
    ("After restarting, check the network status.", f"{REBOOT} {NETWORK}"),
    ("Do not reboot yet.", ""),
    ("If that doesn't help, restart your phone.", ""),
    ("Once the payment is made, I will resume your line and then ask you to restart your phone.", ""),
    ("Reseat the SIM card, please.", RESEAT),
    ("Please remove the SIM card and put it back in.", RESEAT),
    ("Could you take out your SIM card and re-insert it?", RESEAT),
    ("Before restarting, check the SIM card.", "check_sim_status"),
    ("Could you check if your SIM card is inserted? If the SIM is missing, please reseat it.",
     f"check_sim_status {RESEAT}:missing"),
    ("Please switch your network mode to 4G/5G preferred.", f"{MODE}:4g_5g_preferred"),
    ('Please go to Settings > Network and set your preferred network type to "4G/5G (preferred)".',
     f"{MODE}:4g_5g_preferred"),
    ("Can you check your network mode preference and change it from 2G only to 4G/5G preferred?",
     f"check_network_mode_preference {MODE}:4g_5g_preferred"),
    ("Change the network mode to 4G only, please.", f"{MODE}:4g_only"),
    ("Run a speed test and tell me the result.", SPEED),
    ("I'd like you to perform a quick speed test.", SPEED),
    ("Airplane mode has been turned off. Is your mobile data working now?", SPEED),
    ("Thank you for turning off airplane mode. Please run a speed test.", SPEED),
    ("Perfect, mobile data is on. What does the speed test say now?", SPEED),
    ("Reset your APN settings, then reboot your device.", f"{RESET} {REBOOT}"),
    ("Please also set the APN settings back to default and restart.", f"{RESET} {REBOOT}"),
    ("Please check the APN settings on your phone.", "check_apn_settings"),
    ("Please disconnect the VPN.", "disconnect_vpn"),
    ("Do you have a VPN turned on? If so, please disconnect it.", "check_vpn_status disconnect_vpn"),
    ("Are you connected to a VPN?", "check_vpn_status"),
    ("Please turn off data saver mode.", f"{SAVER}:off"),
    ("Please check your data saver and turn it off if it's on.", f"check_data_restriction_status {SAVER}:off"),
    ("Please enable mobile data on your device, and disable data saver mode.", f"{DATA}:on {SAVER}:off"),
    ("Please make sure that mobile data is turned on.", f"{DATA}:on"),
    ("To fix it, your phone's data roaming needs to be turned on.", f"{ROAMING}:on"),
    ("I have enabled roaming on your line, so please turn on data roaming on your phone.", f"{ROAMING}:on"),
    ("I need you to enable data roaming in your settings.", f"{ROAMING}:on"),
    ("Is roaming on?", NETWORK),
    ("Grant the storage permission to the messaging app.", f"{GRANT}:messaging/storage"),
    ("Please grant both storage and SMS permissions to your messaging app and then try sending an MMS.",
     f"{GRANT}:messaging/sms {GRANT}:messaging/storage {MMS}"),
    ("Could you check whether the messaging app has the storage and SMS permissions? If either is missing, please grant "
     "them.", f"check_app_permissions:messaging {GRANT}:messaging/sms {GRANT}:messaging/storage"),
    ("Allow the messaging app to access your storage, please.", f"{GRANT}:messaging/storage"),
    ("Turn off Wi-Fi calling and try to send an MMS.", f"{CALLING}:off {MMS}"),
    ("Let's try turning off Wi-Fi calling. Then let's check if you can send an MMS.", f"{CALLING}:off {MMS}"),
    ("Please verify that Wi-Fi calling is off. If it's on, switch it off.", f"check_wifi_calling_status {CALLING}:off"),
    ("Turn off Wi‑Fi calling and the VPN.", f"{CALLING}:off disconnect_vpn"),
    ("Turning off Wi-Fi calling can help with MMS.", ""),
    ("Please turn Wi-Fi off.", "toggle_wifi:off"),
    ("Don't turn off Wi-Fi or mobile data.", ""),
    ("Can you tell me if you're able to send MMS messages?", MMS),
    ("Can you send a picture message now?", MMS),
    ("Which apps are installed on your phone?", "check_installed_apps"),
    ("I've sent you a payment request. Please check it and, if everything looks right, make the payment.",
     f"{ASKED_TO_PAY} {PAY}"),
    ("You will receive a payment request; please accept it.", PAY),
    ("Please pay the bill.", PAY),
    ("Could you make the payment now?", PAY),
    ("Your bill B1234321 of $60 is overdue. I can send you a payment request. Would you like me to send it?", ""),
    ("Are you willing to pay the overdue bill?", ""),
    ("Would you like to refuel 2 GB of data for $4?", ""),
    ("I will enable roaming on your line. Is that okay?", ""),
    ("Would you like me to enable roaming on your line?", ""),
    ("Roaming is not allowed on your line yet. Shall I allow it?", ""),
    ("I'm going to transfer you to a human agent.", ""),
    ("Let me check your data usage. One moment.", ""),
    ("Could you please provide your phone number?", ""),
    ("Is there anything else I can help you with?", ""),
    ("1. Open Settings.\n2. Turn off **Airplane mode**.\n3. Tell me what you see on your status bar.",
     f"{AIRPLANE}:off {BAR}"),
    ("Here's what to do: turn off Wi-Fi calling, then send an MMS.", f"{CALLING}:off {MMS}"),
    ('set_network_mode_preference(mode="3g_only")', f"{MODE}:3g_only"),
    ("Please run `toggle_airplane_mode()` now.", AIRPLANE),
    ('Please call grant_app_permission(app_name="messaging", permission="sms").', f"{GRANT}:messaging/sms"),
    ('Please use set_network_mode_preference({"mode": "4g_only"}).', f"{MODE}:4g_only"),
    ("Please do not use toggle_data().", ""),
    ("grant_app_permission()", ""),
    ("Do you accept that I turn off the roaming of your line?", ""),
    ("Is it right that we now disable data roaming?", ""),
    ("Wi-Fi calling gets in the way. Be so kind as to switch it off.", f"{CALLING}:off"),
    ("can u turn data saver off plz, cos it slows u down", f"{SAVER}:off"),
]  # fmt: skip


def spelt(request):
    values = "/".join(str(value) for value in json.loads(request.arguments).values())
    return ":".join(
        part for part in (request.tool, values, request.goal, "missing" * (request.shows == NO_CARD)) if part
    )


@each_row(("said", "asked"), TABLE)
def test_words_ask_for_tools(said, asked):
    assert " ".join(map(spelt, requests(said))) == asked


@each_row(("reason", "carried_out"), [
    ("Since you are in Peru", True), ("Because your Aster is in Peru", True), ("Since you are in Spain", False),
    ("As you are not in Peru", False), ("If you are in Peru", False),
])  # fmt: skip
def test_a_reason_is_understood_where_the_customer_knows_its_names(reason, carried_out):
    asked = requests(f"{reason}, please turn on data roaming.", frozenset(("Peru", "Aster")))
    assert (ROAMING in [one.tool for one in asked]) == carried_out


def test_every_tool_of_the_user_can_be_asked_for():
    literal = {name: f"Please do this: {name}()." for name, tool in user_kit.tools.items()}
    named = {
        "check_app_status": {"app_name": "browser"},
        "set_apn_settings": {"apn_settings": {"apn_name": "internet"}},
    }
    for name, arguments in named.items():
        literal[name] = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    literal["check_app_permissions"] = 'check_app_permissions(app_name="messaging")'
    literal[GRANT] = 'grant_app_permission(app_name="messaging", permission="sms")'
    literal[MODE] = 'set_network_mode_preference(mode="2g_only")'
    for name, said in literal.items():
        assert [request.tool for request in requests(said)] == [name]
    assert requests(literal["set_apn_settings"])[0].arguments == '{"apn_settings":{"apn_name":"internet"}}'


WORDS = (
    " turn switch off on Wi-Fi calling airplane mode roaming if not please the your check reset ( ) , . ? : 4G to APN"
)
HARD = [
    "turn," * 20_000, "make sure " * 9_000, "toggle_data(" * 9_000, "pay   " * 9_000, "set allow give grant " * 9_000,
    " " * 300_000, "turn off wifi\n" * 9_000, "on, wait and " * 9_000, "\ud800🔥\x00" * 1000,
    "set_apn_settings(" + "[" * 590 + ")", 'toggle_data(x="' + "\\" * 99 + '")', "reset_apn_settings(*a, **b)",
]  # fmt: skip


@examples(150)
@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS.split(" "))).map(" ".join), st.sampled_from(HARD)))
def test_any_words_are_read(said):
    asked = requests(said)
    assert len(asked) <= MOST_REQUESTS and len(set(asked)) == len(asked)
    assert all(request.tool in user_kit.tools and isinstance(json.loads(request.arguments), dict) for request in asked)


def test_words_beyond_the_longest_are_not_read():
    assert requests("x " * LONGEST + " Please restart your phone.") == ()


def carried_out(domain, state, request):
    """The state after a request, and what was told on the way."""
    steps, said = plan(request), []
    while steps:
        outcome, state = call(domain, state, "user", steps[0].tool, json.loads(steps[0].arguments))
        assert not outcome.error
        said.append(report(steps[0].tool, outcome.content))
        steps = due(steps[1:], outcome.content)
    return state, said


@pytest.mark.parametrize("switch", [AIRPLANE, DATA, ROAMING, SAVER, "toggle_wifi", CALLING])
@pytest.mark.parametrize("goal", ["on", "off"])
@pytest.mark.parametrize("flips", [0, 1])
def test_a_switch_is_brought_to_its_goal_and_stays_there(switch, goal, flips):
    domain, state = builtin_domain("telecom"), FRESH
    for _ in range(flips):
        _, state = call(domain, state, "user", switch, {})
    request = Request(switch, goal=goal)
    once, said = carried_out(domain, state, request)
    twice, _ = carried_out(domain, once, request)
    outcome, _ = call(domain, once, "user", plan(request)[0].tool, {})
    assert due((plan(request)[1],), outcome.content) == () and twice == once
    assert len(said) in (1, 2)


def test_a_card_is_reseated_only_where_it_is_missing():
    domain = builtin_domain("telecom")
    request = requests("If your SIM card is missing, please reseat it.")[0]
    state, said = carried_out(domain, FRESH, request)
    assert (state, said) == (FRESH, ["My SIM card is active and working."])
    _, out = run_function(domain, FRESH, "user", "unseat_sim_card", {})
    state, said = carried_out(domain, out, request)
    assert said[0] == "No SIM card detected in the phone." and said[1].startswith(
        "SIM card re-seated successfully. The"
    )


TOLD = [
    ("check_status_bar", "Status Bar: ✈️ Airplane Mode | 🔋 80%", "The status bar shows: Airplane Mode, battery 80%."),
    ("toggle_data", "Mobile Data is now ON.\nStatus Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔋 80%",
     "Mobile Data is now ON. The status bar shows: signal Excellent, 5G, Data Enabled, battery 80%."),
    ("check_network_status", "Airplane Mode: OFF\nSIM Card Status: active",
     "My phone shows: Airplane Mode: OFF, SIM Card Status: active."),
    ("can_send_mms", "Your messaging app cannot send MMS messages.", "My messaging app cannot send MMS messages."),
    ("check_payment_request", "You have a payment request for bill B1 of 60.0 USD.",
     "I have a payment request for bill B1 of 60.0 USD."),
    ("make_payment", "You do not have a payment request.", "I do not have a payment request."),
    ("run_speed_test", "", "It shows nothing."),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "content", "said"), TOLD)
def test_results_are_told(tool, content, said):
    assert report(tool, content) == said


@each_row("tool", [name for name, tool in user_kit.tools.items() if not tool.parameters["required"]])
def test_what_is_told_stands_in_the_result(tool):
    outcome, _ = call(builtin_domain("telecom"), FRESH, "user", tool, {})
    shown = set(re.findall(r"\w+", outcome.content.lower())) | set(
        "the status bar shows my phone signal battery i".split()
    )
    assert set(re.findall(r"\w+", report(tool, outcome.content).lower())) <= shown | {"wi", "fi", "connected", "to"}
