"""The rule-based agent of the telecom domain: what it reads, what it says, and how far it gets."""

import json

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_envs  # noqa: F401
from agent_envs.envs.tau2.heuristics.reading import talk_of
from agent_envs.envs.tau2.heuristics.telecom import _PAY, act
from agent_envs.envs.tau2.heuristics.telecom_phone import STEPS, Phone, Stuck, abroad, key_of, shown
from agent_envs.envs.tau2.heuristics.telecom_words import gigabytes, phone_numbers, wishes
from agent_envs.envs.tau2.task_generator.source import generated_domain
from agent_envs.envs.tau2.task_generator.telecom_tasks import make_row
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.toolkit import call
from agent_envs.envs.tau2.turn_taking import DONE
from agent_envs.envs.tau2.users import device
from agent_envs.rollout.policy import Request


def play(number, difficulty, side="agent", split="dev"):
    env = gym.make("agent_envs/Tau2Telecom-v0", tasks="generated", side=side, user="scripted")
    env.unwrapped.source.difficulty = difficulty
    _, info = env.reset(seed=0, options={"task": number, "split": split})
    messages, tools, ended, turns = list(info["messages"]), info["tools"], False, []
    while not ended:
        turns.append(act(Request("key", len(turns), messages, tools)))
        _, _, terminated, truncated, info = env.step(turns[-1])
        messages += [{"role": "assistant", "content": turns[-1]}, *info["messages"]]
        ended = terminated or truncated
    return bool(info["success"]), turns


# What it says, a customer understands


@pytest.mark.parametrize("step", STEPS, ids=key_of)
def test_a_customer_understands_what_is_to_be_done_with_the_phone(step):
    asked = device.requests(step.say)
    assert [one.tool for one in asked] == [step.tool]
    assert json.loads(asked[0].arguments) == step.given


def test_a_customer_understands_what_is_to_be_paid():
    assert [one.tool for one in device.requests(_PAY)] == ["check_payment_request", "make_payment"]


# What it reads


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("My phone shows No Service, and I can't call anyone.", ["service"]),
        ("I lost all signal an hour ago.", ["service"]),
        ("The internet on my phone is painfully slow.", ["data"]),
        ("Mobile data stopped working yesterday. I need it for work.", ["data"]),
        ("I'm unable to send MMS messages.", ["pictures"]),
        ("Sending photos fails all the time!", ["pictures"]),
        ("Please enable roaming for 555-123-4567.", ["roaming"]),
        ("Could you turn off roaming? I want no surprises.", ["roaming"]),
        ("I would like to suspend the line of my tablet for a few months.", ["suspend"]),
        ("I want you to reactivate my suspended line.", ["resume"]),
        ("I need 2 GB more data, please.", ["refuel"]),
        ("Can you top up my line?", ["refuel"]),
        ("I want to pay my overdue bill.", ["pay"]),
        ("How much data do I have left?", ["left"]),
        ("What does my plan cost?", ["price"]),
        ("How much do I owe in overdue bills?", ["owed"]),
        ("Please waive the late bill as a gesture of goodwill.", ["waiver"]),
        ("I'd like to upgrade to a bigger plan. Can you do that?", ["plan"]),
        ("I want roaming allowed. I also want 1 gigabyte more.", ["roaming", "refuel"]),
        ("My name is Ada Holm. I was born on 1980-01-02.", []),
        ("I agree to pay every bill that is overdue.", []),
        ("If my data is used up, I want 2 gigabytes more.", []),
        ("I do not know my phone number.", []),
        ("Yes, please.", []),
    ],
)
def test_what_is_wanted(text, kinds):
    assert [wish.kind for wish in wishes(text, 0, False)] == kinds


def test_a_report_of_the_phone_is_no_wish():
    text = "My phone shows: Airplane Mode: OFF, Cellular Connection: no_service, Data Roaming Enabled: No. No Signal."
    assert wishes(text, 3, True) == []
    assert [wish.kind for wish in wishes(text + " I want roaming, too.", 3, True)] == ["roaming"]


def test_wishes_know_their_direction_and_their_place():
    (off,) = wishes("I want roaming disabled on my watch.", 4, False)
    assert off.off and off.turn == 4 and not off.otherwise
    (otherwise,) = wishes("If that is refused, I want 2 gigabytes.", 0, False)
    assert otherwise.otherwise and not otherwise.off


@pytest.mark.parametrize(
    ("text", "amount"),
    [("1.5 GB", 1.5), ("2 gigabytes", 2.0), ("half a gigabyte", 0.5), ("one gig", 1.0), ("some more", None)],
)
def test_amounts_of_data(text, amount):
    assert gigabytes(text) == amount


def test_numbers_are_written_as_the_company_writes_them():
    assert phone_numbers("(555) 123-4567, 555.987.6543 or 5551112222") == [
        "555-123-4567",
        "555-987-6543",
        "555-111-2222",
    ]


@pytest.mark.parametrize(
    ("text", "answer"), [("I am abroad, in Norway.", True), ("I am at home, not abroad.", False), ("Well.", None)]
)
def test_where_somebody_is(text, answer):
    assert abroad(text) is answer


_BROKEN = {
    "airplane": ("turn_airplane_mode_on", {}, "check_network_status", "on", "off"),
    "sim": ("unseat_sim_card", {}, "check_network_status", "missing", "active"),
    "service": ("unseat_sim_card", {}, "check_network_status", "no", "yes"),
    "data": ("turn_data_off", {}, "check_network_status", "off", "on"),
    "roaming": ("turn_roaming_on", {}, "check_network_status", "on", "off"),
    "speed": ("turn_data_saver_mode_on", {}, "run_speed_test", "slow", "excellent"),
    "saver": ("turn_data_saver_mode_on", {}, "check_data_restriction_status", "on", "off"),
    "mode": ("set_network_mode_preference", {"mode": "3g_only"}, "check_network_mode_preference", "3g", "best"),
    "vpn": ("break_vpn", {}, "check_vpn_status", "on", "off"),
    "mmsc": ("break_apn_mms_setting", {}, "check_apn_settings", "missing", "set"),
    "calls": ("set_wifi_calling", {"enabled": True, "mms_over_wifi": True}, "check_wifi_calling_status", "on", "off"),
    "mms": ("turn_data_off", {}, "can_send_mms", "no", "yes"),
    "sms right": (
        "remove_app_permission", {"app_name": "messaging", "permission": "sms"}, "check_app_permissions", "lacking", "granted"
    ),
    "storage right": (
        "remove_app_permission", {"app_name": "messaging", "permission": "storage"}, "check_app_permissions", "lacking",
        "granted",
    ),
}  # fmt: skip


@pytest.mark.parametrize("thing", _BROKEN)
def test_what_a_phone_shows_is_read_from_the_tool_and_from_its_owner(thing):
    function, arguments, tool, broken, whole = _BROKEN[thing]
    domain = generated_domain("telecom")
    row = make_row("train", 0, "easy")
    for start, expected in (
        ([], whole),
        ([{"env_type": "user", "func_name": function, "arguments": arguments}], broken),
    ):
        row["initial_state"] = {"initialization_actions": start}
        given = {"app_name": "messaging"} if tool == "check_app_permissions" else {}
        outcome, _ = call(domain, initial_world(domain, read_task(row, "telecom")), "user", tool, given)
        assert shown(outcome.content)[thing] == expected
        assert shown(device.told(tool, outcome.content))[thing] == expected


def test_the_last_word_of_a_report_counts():
    assert shown("Airplane Mode: ON, Mobile Data Enabled: No. Airplane Mode is now OFF.")["airplane"] == "off"


def test_a_locked_card_and_a_step_that_never_helps_are_given_up():
    with pytest.raises(Stuck):
        Phone(["No service. SIM Card Status: locked_pin."], {}).service()
    asked = {key_of(step): [0, 1, 2] for step in STEPS}
    with pytest.raises(Stuck):
        Phone(["Airplane Mode: ON, Connection: no_service"] * 3, asked).service()


# How far it gets


@pytest.mark.parametrize(
    ("difficulty", "low", "high"), [("easy", 0.5, 0.97), ("medium", 0.35, 0.9), ("hard", 0.1, 0.7)]
)
@pytest.mark.parametrize("side", ["agent", "solo"])
def test_it_stands_between_nothing_and_the_solver(difficulty, low, high, side):
    won = [play(number, difficulty, side)[0] for number in range(30)]
    assert low <= sum(won) / len(won) <= high


def test_it_hands_over_only_what_cannot_be_mended():
    for number in range(40):
        wanted = any(
            action["name"] == "transfer_to_human_agents"
            for action in make_row("dev", number, "easy")["evaluation_criteria"]["actions"]
        )
        won, turns = play(number, "easy")
        handed_over = any("transfer_to_human_agents" in turn for turn in turns)
        assert wanted or not handed_over
        assert handed_over or not (wanted and won)


def test_the_line_of_somebody_else_is_left_alone():
    tried = 0
    for number in range(120):
        row = make_row("dev", number, "hard")
        first = row["user_script"]["wants"][0]["say"]
        if not any(whose in first for whose in ("neighbour's", "colleague's", "partner's")):
            continue
        tried += 1
        number_of_stranger = phone_numbers(first)[0]
        stranger = next(
            line for line in generated_domain("telecom").agent_database.tables["lines"].values()
            if line["phone_number"] == number_of_stranger
        )  # fmt: skip
        _, turns = play(number, "hard")
        assert not any("suspend_line" in turn and stranger["line_id"] in turn for turn in turns)
    assert tried >= 3


class _Customer:
    """Says whatever it is given; the agent's calls are carried out."""

    def __init__(self, texts, solo=False):
        domain = generated_domain("telecom")
        self.task = read_task(make_row("train", 1, "medium"), "telecom")
        self.domain, self.world, self.solo = domain, initial_world(domain, self.task), solo
        kits = [domain.assistant, domain.user] if solo else [domain.assistant]
        self.tools = [tool.schema() for kit in kits for tool in kit.tools.values()]
        if solo:
            self.tools.append({"type": "function", "function": {"name": DONE, "parameters": {}}})
        self.texts = list(texts)
        self.messages = [{"role": "system", "content": "policy"}, {"role": "user", "content": "The conversation so far:"},
                         {"role": "assistant", "content": "Hello!"}]  # fmt: skip

    def play(self, most):
        self.messages.append({"role": "user", "content": self.texts.pop(0)})
        for turn in range(most):
            said = act(Request("key", turn, self.messages, self.tools))
            assert said.strip() and said == act(Request("other", 0, list(self.messages), self.tools))
            self.messages.append({"role": "assistant", "content": said})
            if "<tool_call>" in said:
                calls = [json.loads(part.split("</tool_call>")[0]) for part in said.split("<tool_call>")[1:]]
                for one in calls:
                    outcome, self.world = call(
                        self.domain, self.world, "assistant", one["name"], one["arguments"], self.solo
                    )
                    self.messages.append({"role": "tool", "content": outcome.content})
            elif self.texts:
                self.messages.append({"role": "user", "content": self.texts.pop(0)})
            else:
                return talk_of(Request("key", turn, self.messages, self.tools))
        return None


_NAMED = (
    "I am {name}, {phone}.", "Yes.", "No!", "I want 5 gigabytes more.", "Please suspend my tablet.", "What?", "",
    "My phone has no service.", "It is still not working.", "I want roaming off on 999-555-0000.", "I want to pay my bills.",
    "Airplane Mode: ON. No Signal.", "Error: nothing", "The mobile data is slow; it is abroad.", "I want to resume my line.",
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(st.lists(st.one_of(st.sampled_from(_NAMED), st.text(max_size=60)), min_size=1, max_size=12), st.booleans())
def test_whatever_is_said_has_an_answer(texts, known):
    row = make_row("train", 1, "medium")
    name = row["initial_state"]["initialization_actions"][0]["arguments"]
    texts = [text.replace("{name}", name["name"]).replace("{phone}", name["phone_number"]) for text in texts]
    first = [f"I am {name['name']}, {name['phone_number']}."] if known else []
    assert _Customer([*first, *texts]).play(120) is not None


def test_what_costs_money_waits_for_a_yes():
    row = make_row("train", 1, "medium")
    who = row["initial_state"]["initialization_actions"][0]["arguments"]
    texts = [f"I am {who['name']}, {who['phone_number']}. I want 2 gigabytes more on {who['phone_number']}."]
    refused = _Customer([*texts, "No, that is too dear."]).play(20)
    assert not refused.named("refuel_data") and any("Shall I add them?" in said for said in refused.own)
    assert _Customer([*texts, "Yes, please."]).play(20).named("refuel_data")
