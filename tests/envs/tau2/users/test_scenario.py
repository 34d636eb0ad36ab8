"""Scripts made of published prose."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.tasks import tau2_task
from agent_envs.envs.tau2.user_script import Check, read_script, script_row
from agent_envs.envs.tau2.users.persona import PERSONAS
from agent_envs.envs.tau2.users.prose import LONGEST, first_person, statements_in
from agent_envs.envs.tau2.users.scenario import script_of
from tests.envs.tau2.recorded import BuiltinSource
from tests.examples import examples
from tests.rows import each_row


def script(reason, known="", unknown=None, task_instructions="", domain="retail", persona=None):
    told = {
        "domain": domain, "reason_for_call": reason, "known_info": known, "unknown_info": unknown,
        "task_instructions": task_instructions,
    }  # fmt: skip
    return script_of(read_task({"id": "t", "user_scenario": {"persona": persona, "instructions": told}}, domain))


def facts(of, topic):
    return [fact.value or fact.say for fact in of.facts if fact.topic == topic]


@each_row(
    ("known", "topic", "value"),
    [
        ("You are Noor Haddad in zip code 10115.", "name", "Noor Haddad"),
        ("You are Noor Haddad in zip code 10115.", "zip", "10115"),
        ("You name is Noor Haddad and your email is noor.haddad@example.com.", "name", "Noor Haddad"),
        ("You name is Noor Haddad and your email is noor.haddad@example.com.", "email", "noor.haddad@example.com"),
        ("You are an interesting guy called Noor Haddad, living in 10108.", "name", "Noor Haddad"),
        ("You are noor_haddad_1234 living in Ghent, 28236.", "user_id", "noor_haddad_1234"),
        ("Your user id is 'noor_haddad_1234'.", "user_id", "noor_haddad_1234"),
        ("You are Noor Haddad with phone number 555-700-1001.", "phone", "555-700-1001"),
        ("Your date of birth is 1980-03-04.", "date_of_birth", "1980-03-04"),
        ("You live in 44 Mill Lane, Fort Worth, Texas, 76165.", "address", "I live in 44 Mill Lane, Fort Worth, Texas, 76165."),
    ],
)  # fmt: skip
def test_who_the_customer_is(known, topic, value):
    assert facts(script("You want to cancel an order.", known), topic) == [value]


def test_two_values_are_told_as_two():
    made = script("You want to cancel an order.", "You have two emails: a@example.com and b@example.com.")
    assert [fact.say for fact in made.facts if fact.topic == "email"] == [
        "My e-mail address is one of these: a@example.com or b@example.com."
    ]


def test_what_is_not_known_is_said():
    made = script(
        "You want to cancel an order. You don't remember the order number.", unknown="You do not remember your email."
    )
    assert {"email", "user_id", "zip", "order"} <= {*made.unknown, *(fact.topic for fact in made.facts)}
    assert "email" in made.unknown and "I don't remember" not in made.wants[0].say


@each_row(
    ("told", "said"),
    [
        ("You want to return your lamp.", "I want to return my lamp."),
        ("You are willing to pay, and you were told so.", "I am willing to pay, and I was told so."),
        ("You name is Noor.", "My name is Noor."),
        ("You want the agent to tell you the price.", "I want you to tell me the price."),
        ("Ask the agent how much you can save.", "I want to know how much I can save."),
        ("Tell the agent that you're a Gold member.", "I am a Gold member."),
        ("Ask for a refund to the card you paid with.", "I would like a refund to the card I paid with."),
        ("The flight was booked by you for yourself.", "The flight was booked by me for myself."),
        ("Ask the agent to make an exception for you.", "Please make an exception for me."),
    ],
)
def test_the_first_person(told, said):
    assert first_person(told) == said


KINDS = [
    ("You want to cancel the order.", "want"),
    ("You also want to know the price.", "want"),
    ("It arrived on Monday.", "detail"),
    ("You do not want any other flight.", "detail"),
    ("If there is no blue one, you'd prefer a green one.", "detail"),
    ("If not possible, you want to return it.", "alternative"),
    ("If the agent says that this is not possible, ask to return it.", "alternative"),
    ("If the agent asks for confirmation, only exchange the lamp.", "alternative"),
    ("If the agent asks for the reason, say that you ordered it by mistake.", "detail"),
    ("If the agent asks for confirmation, mention that you also want to return the watch.", "want"),
    ("If the agent asks, give your answer in numbers.", "hidden"),
    ("You do not want to reveal your address.", "hidden"),
    ("You are a private person.", "hidden"),
    ("You are polite but brief and firm.", "hidden"),
    ("Do not end the conversation until your changes have been made.", "hidden"),
    ("You do not remember your email address.", "unknown"),
]


@each_row(("told", "kind"), KINDS)
def test_sentences_have_kinds(told, kind):
    assert [part.kind for part in statements_in(told)] == [kind]


def test_wants_stand_in_order_with_their_details_and_alternatives():
    made = script(
        "You bought a lamp. You want to exchange the lamp for a brighter one. You prefer a blue one. If that is not possible, "
        "you want to return it to your gift card. You also want to know the total price.",
        task_instructions="You insist on it.",
    )
    lamp, instead, total = made.wants
    assert lamp.say == "I bought a lamp. I want to exchange the lamp for a brighter one." and "exchange" in lamp.signs
    assert [fact.say for fact in lamp.facts if fact.topic == "options"] == [f"{lamp.say} I prefer a blue one."]
    assert instead.only_if_refused and instead.say == "I want to return it to my gift card."
    assert total.question and not total.only_if_refused and lamp.insists == 2 and made.persona == "insistent"


def test_ids_are_facts_of_their_want():
    made = script("You want to cancel order #W2378156, because it is no longer needed.")
    assert [(fact.topic, fact.value) for fact in made.wants[0].facts] == [("order", "#W2378156"), ("reason", "")]


@pytest.mark.parametrize(
    ("reason", "checks"),
    [
        ("Your phone has been showing 'No Service'.", [Check("check_status_bar", "{}", "📶")]),
        ("Your mobile data is slow.", [Check("run_speed_test", "{}", "(Excellent)")]),
        ("You are unable to send MMS messages.", [Check("can_send_mms", "{}", "can send")]),
        ("You cannot send picture messages, and the internet is slow.",
         [Check("can_send_mms", "{}", "can send"), Check("run_speed_test", "{}", "(Excellent)")]),
        ("You do not understand your plan.", [None]),
    ],
)  # fmt: skip
def test_phone_troubles_have_checks(reason, checks):
    made = script(reason, "You are Noor Haddad with phone number 555-700-1001. You are currently abroad in France.", None,
                  "You are willing to refuel 2.0 GB of data, but you do not want to change your mobile data plan.",
                  "telecom")  # fmt: skip
    assert [want.check for want in made.wants] == checks
    assert all("change your plan" in want.declines and want.objection for want in made.wants)
    assert facts(made, "location") == ["I am currently abroad in France."] and "2.0 GB" in facts(made, "amount")[0]


@pytest.mark.parametrize("domain", ["retail", "airline", "telecom"])
def test_builtin_tasks_have_scripts(domain):
    source = BuiltinSource(domain)
    for split in source.splits:
        for place in range(source.size(split)):
            made = script_of(tau2_task(source.get(split, place), domain))
            assert (
                made.wants and made.persona in PERSONAS and any(fact.topic in ("name", "phone") for fact in made.facts)
            )
            assert all(" you " not in want.say.lower() for want in made.wants), made.wants


def test_manners_are_read():
    assert script("You want to cancel.", task_instructions="You are a private person.").persona == "piecemeal"
    assert (
        script("You want to cancel.", persona="You only share information when specifically asked.").persona
        == "piecemeal"
    )
    assert (
        script("You want to cancel.", task_instructions="You randomly insert typos into your messages.").persona
        == "typing"
    )
    assert script("You want to cancel.").persona == "plain"


def test_an_instruction_without_parts_is_one_reason():
    task = read_task(
        {"id": "t", "user_scenario": {"persona": None, "instructions": "You are Noor Haddad. Cancel it."}}, "retail"
    )
    made = script_of(task)
    assert made.wants and facts(made, "name") == ["Noor Haddad"]


PIECES = "You want to if the agent asks , cancel . return your #W123456 \n - ( ) not possible you are Noor 10115 a@b.cc".split(
    " "
)
HARD = [
    "You are a " * 9_000,
    "a" * 60_000,
    "(agent " * 9_000,
    "if not, " * 9_000,
    "from a to " * 9_000,
    "\ud800 \x00 You want",
]


@examples(120)
@given(
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join), st.sampled_from(HARD)),
    st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map(" ".join), st.sampled_from(HARD)),
    st.sampled_from(["retail", "airline", "telecom"]),
)
def test_any_prose_gives_a_script(reason, known, domain):
    made = script(reason, known, known, reason, domain)
    assert made.wants and all(want.say for want in made.wants) and made.persona in PERSONAS
    assert read_script(json.loads(json.dumps(script_row(made)))) == made
    assert len(made.wants[0].say) <= 2 * LONGEST + 100
