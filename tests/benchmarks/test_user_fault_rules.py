"""Faults of users: each kind is caught in constructed dialogues, honest users are left in peace, and any text is borne."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Line, recording_of
from agent_envs.envs.tau2.partners import played
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke
from agent_envs.envs.tau2.user_script import Fact, UserScript, Want
from agent_envs.envs.tau2.users.persona import PERSONAS
from agent_envs.envs.tau2.users.scripted import ScriptedUser
from benchmarks.user_faults.rules import KINDS, MOST, user_faults
from tests.benchmarks import user_fault_cases as fault_cases
from tests.benchmarks.user_fault_cases import AIRLINE, RETAIL, SHORT, TELECOM, cases
from tests.envs.tau2.recorded import builtin_rows
from tests.rows import each_row

ROWS = {
    row["id"]: row for name in ("retail", "airline", "telecom") for part in builtin_rows(name).values() for row in part
}
LAMP = UserScript(
    (Fact("zip", "My zip code is 10115.", "10115"), Fact("name", "I am Mira Holm.", "Mira Holm")),
    (
        Want("I want to cancel order #W0001 with the lamp, because I do not need it any more."),
        Want("I also want to return the backpack of order #W0003 and get the money back."),
        Want("Then please send me a voucher for the trouble.", only_if_refused=True),
    ),
)


def talk(row, *said):
    """Play lines such as "A: words" or "U: tool()" through the machine; return the task, the conversation and the domain."""
    domain = row["user_scenario"]["instructions"]["domain"]
    task = read_task(row, domain)
    rules = Rules(builtin_domain(domain))
    dialogue = opened(rules, initial_world(rules.domain, task), task.history)
    for line in said:
        side, _, text = line.partition(": ")
        assert side == {"user": "U", "assistant": "A"}[dialogue.turn], line
        names = [tool["function"]["name"] for tool in rules.tools_of(dialogue.turn)]
        parsed = read_action(text, names)
        dialogue = spoke(rules, dialogue, getattr(parsed, "text", ""), getattr(parsed, "calls", ()))
    return task, dialogue, rules.domain


def faults(row, *said, script=None, persona="task"):
    task, dialogue, domain = talk(row, *said)
    return user_faults(replace(task, script=script), dialogue.lines, dialogue.ended, domain, persona)


CAUGHT, HONEST = cases(fault_cases.CAUGHT), cases(fault_cases.HONEST)
TASKS = {"RETAIL": RETAIL, "TELECOM": TELECOM, "AIRLINE": AIRLINE}
HI, ASK, SHALL, DONE, BYE = (SHORT[name] for name in ("HI", "ASK", "SHALL", "DONE", "BYE"))


@each_row(("kind", "what", "row", "said"), CAUGHT)
def test_a_fault_is_caught_where_it_is(kind, what, row, said):
    found = faults(TASKS[row], *said)
    assert [fault.kind for fault in found] == [kind], found
    assert what.lower() in found[0].what.lower()
    _, dialogue, _ = talk(TASKS[row], *said)
    assert dialogue.lines[found[0].line].sender == "user"


def test_every_kind_is_among_the_caught():
    assert {kind for kind, *_ in CAUGHT} == set(KINDS) and len(CAUGHT) >= 30


@each_row("case", range(len(HONEST)))
def test_an_honest_user_is_left_in_peace(case):
    row, said = HONEST[case]
    assert faults(TASKS[row], *said) == ()


def test_recorded_dialogues_of_our_own_are_without_faults():
    for row in ROWS.values():
        task, dialogue, domain = talk({**row, "evaluation_criteria": None})
        rules = Rules(domain)
        for line in recording_of(row["recording"]):
            dialogue = dialogue if dialogue.ended else spoke(rules, dialogue, line.text, line.calls)
        assert dialogue.ended == "user_stop" and user_faults(task, dialogue.lines, dialogue.ended, domain) == (), row[
            "id"
        ]


class Agent:
    """Asks and tells the same things of everybody, whether they fit or not."""

    name = service = ""
    words = (
        "May I have your name and zip code, or your e-mail address?", "What is your user id or phone number?",
        "Which order or reservation is it about, and which items?", "How would you like to pay?",
        "I could not find that. Could you repeat it?", "What is the date, and your date of birth?",
        "Unfortunately, that is not possible under our policy.", "Shall I proceed (yes/no)?",
        "It has been done. Is there anything else I can help you with?", "Please check the status bar, and restart your phone.",
        "Please run a speed test. Does it work now?",
    )  # fmt: skip

    def speak(self, scene):
        said = sum(line.sender == "assistant" and not line.calls for line in scene.dialogue.lines) - 1
        text = self.words[said] if said < len(self.words) else "All is done. Is there anything else?"
        return Line("assistant", text), scene.memory


@pytest.mark.parametrize("persona", ["task", *PERSONAS])
@pytest.mark.parametrize("name", ["retail", "airline", "telecom"])
def test_scripted_users_are_left_in_peace(name, persona):
    domain, source, user = generated_domain(name), GeneratedSource(name), ScriptedUser(persona)
    for number in range(6):
        task = source.get("train", number)
        public, rules = read_task(task.data, name), Rules(domain)
        dialogue = opened(rules, initial_world(domain, public), public.history)
        while not dialogue.ended:
            speaker = user if dialogue.turn == "user" else Agent()
            dialogue = played(speaker, Scene(task, public, rules, dialogue.turn, dialogue, f"k{number}"))
        assert user_faults(public, dialogue.lines, dialogue.ended, domain, persona) == (), task.id


def test_a_changed_id_in_a_recording_is_caught_wherever_it_stands():
    caught = total = 0
    for row in ROWS.values():
        task, start, domain = talk({**row, "evaluation_criteria": None})
        lines = recording_of(row["recording"])
        for place, line in enumerate(lines):
            digits = re.search(r"\d{4,}", line.text)
            if line.sender != "user" or digits is None:
                continue
            wrong = line.text.replace(digits[0], "".join(str((int(one) + 5) % 10) for one in digits[0]))
            changed = (*start.lines, *lines[:place], replace(line, text=wrong), *lines[place + 1 :])
            found = user_faults(task, changed, "user_stop", domain)
            total += 1
            caught += any(fault.kind == "invented" and fault.line == len(start.lines) + place for fault in found)
    assert total >= 30 and caught == total


def test_with_a_script_wants_that_were_never_told_are_missed():
    said = [HI, ASK, "U: 10115", SHALL, "U: Yes.", DONE, BYE]
    (fault,) = faults(RETAIL, *said, script=LAMP)
    assert fault.kind == "stopped_early" and "backpack of order #W0003" in fault.what and fault.line == 7
    more = "U: Yes: I want to return the backpack of order #W0003, too, and the money back."
    assert faults(RETAIL, *said[:-1], more, "A: Done. Anything else?", BYE, script=LAMP) == ()
    gone = "U: Never mind, I will call back. ###STOP###"
    assert faults(RETAIL, *said[:-1], gone, script=LAMP) == ()
    helpless = [HI, "A: Hm.", "U: Hello?", "A: Hm.", "U: Bye. ###STOP###"]
    assert faults(RETAIL, *helpless, script=LAMP) == ()


def test_swapped_digits_are_no_invention_of_a_user_that_makes_mistakes():
    said = [HI, ASK, "U: It is 10151.", "A: I cannot find you.", "U: Sorry, 10115."]
    assert [fault.kind for fault in faults(RETAIL, *said)] == ["invented"]
    assert faults(RETAIL, *said, persona="mistaken") == faults(RETAIL, *said, persona={"mistakes": 0.5}) == ()
    assert faults(RETAIL, *said, script=replace(LAMP, persona="mistaken")) == ()
    born = [HI, "A: When were you born, and what is your e-mail?", "U: On 1908-05-03, and it is mira.hlom@example.org."]
    assert {fault.kind for fault in faults(RETAIL, *born)} == {"invented"} and faults(
        RETAIL, *born, persona="mistaken"
    ) == ()
    wild = [HI, ASK, "U: It is 99999."]
    assert [fault.kind for fault in faults(RETAIL, *wild, persona="mistaken")] == ["invented"]
    for unknown in ("You are a pirate.", "plain"):
        assert faults(RETAIL, *said, persona=unknown, script=replace(LAMP, persona="mistaken"))


def test_what_a_script_holds_is_covered():
    said = [HI, ASK, "U: My gift card is gift_card_7788, order #W0003."]
    assert {fault.what.split()[2] for fault in faults(RETAIL, *said)} == {"gift_card_7788", "#W0003"}
    script = replace(LAMP, facts=(*LAMP.facts, Fact("payment", "My gift card.", "gift_card_7788")))
    assert faults(RETAIL, *said, script=script) == ()


def test_what_the_agent_says_later_covers_nothing():
    found = faults(RETAIL, HI, ASK, "U: 55555", "A: Is it 55555?", "U: Yes, 55555.")
    assert [(fault.kind, fault.line) for fault in found] == [("invented", 3)]


def test_the_agents_calls_and_results_are_hidden_from_the_user():
    look = 'A: get_order_details(order_id="#W0001")'
    task, dialogue, _ = talk(RETAIL, HI, look)
    hidden = next(one for one in re.findall(r"\d{5,}", dialogue.lines[-1].results[0].content) if one != "10115")
    assert [fault.kind for fault in faults(RETAIL, HI, look, "A: Found.", f"U: Is it {hidden}?")] == ["invented"]


def test_a_history_is_no_doing_of_this_user():
    row = {**RETAIL, "initial_state": {"message_history": [
        {"role": "user", "content": "Hello, I am calling about order #W7777, zip 98765."},
        {"role": "assistant", "content": "Your zip code, please?"},
    ]}}  # fmt: skip
    assert faults(row, "U: It is 98765, or 10115, for order #W7777.") == ()
    assert [fault.kind for fault in faults(row, "U: It is 98764.")] == ["invented"]


words = st.text(max_size=200) | st.sampled_from([
    "1" * 30_000, "$1," * 9_000, "a_1" * 9_000, "no one two three hundred " * 800, "May " * 5_000, "###STOP###",
    "@" * 30_000, "do not " * 5_000, "I have " * 5_000, "\ud800 \x00 12345", "reservation " * 2_000,
    "(((((555) 555-" * 2_000, "x" * 1_000_000,
])  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), words), max_size=8),
    st.sampled_from(["user_stop", "max_steps"]),
)
@settings(max_examples=40)
def test_any_conversation_is_borne(said, ended):
    lines = tuple(Line(side, text) for side, text in said)
    for row, name in ((RETAIL, "retail"), (TELECOM, "telecom")):
        task = replace(read_task(row, name), script=LAMP)
        found = user_faults(task, lines, ended, builtin_domain(name))
        assert len(found) <= MOST and json.dumps([[fault.kind, fault.line, fault.what] for fault in found])
        assert all(fault.kind in KINDS and 0 <= fault.line < len(lines) and len(fault.what) < 400 for fault in found)
        assert found == user_faults(task, lines, ended, builtin_domain(name))
