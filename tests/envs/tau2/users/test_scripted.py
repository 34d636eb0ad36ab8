"""The scripted user: what it asks, tells, agrees to and refuses, what it does on its device, and that it always ends."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.tau2.users.persona import PERSONAS
from agent_envs.envs.tau2.users.scripted import ScriptedUser
from tests.envs.tau2.users.scenes import ADDRESS, CANCEL, COST, SERVICE, Talk, row
from tests.envs.tau2.users.utterances import UTTERANCES

CLOSING = "All is done. Is there anything else?"
HONEST = tuple(name for name in PERSONAS if name != "mistaken")


def test_it_greets_and_asks_for_the_first_want_alone():
    talk = Talk(row(CANCEL, ADDRESS))
    assert CANCEL["say"] in talk.answer and ADDRESS["say"] not in talk.answer and "Mira" not in talk.answer
    assert talk.dialogue.turn == "assistant" and not talk.dialogue.ended


def test_it_tells_what_is_asked_and_nothing_else():
    talk = Talk(row(CANCEL))
    assert talk.say("May I have your name and zip code?") == "My name is Mira Holm. My zip code is 10115."
    assert talk.say("And which order is it?") == "It is order #W0001."
    assert talk.say("Why do you want to cancel it?") == "I do not need it any more."


def test_what_it_does_not_know_it_says():
    talk = Talk(row({"say": "I want to return my lamp."}, unknown=["order", "email"]))
    assert talk.say("What is the order number, please?") == "I do not know the order number."
    assert talk.say("Then your e-mail address?") == "I do not know my e-mail address."
    assert "I want to return my lamp." in talk.say("Which items would you like to return?")
    assert "no preference about the payment" in talk.say("Where should the refund go?")


def test_it_agrees_and_leaves_once_it_is_done():
    talk = Talk(row(CANCEL))
    assert talk.say("I will cancel order #W0001 and refund your card. Shall I? (yes/no)").startswith("Yes")
    assert talk.say("Order #W0001 has been cancelled.").endswith("###STOP###")
    assert talk.dialogue.ended == "user_stop"


@pytest.mark.parametrize(
    ("proposal", "objection"),
    [
        ("I will cancel it and refund your gift card. Shall I proceed?", CANCEL["objection"]),
        ("I will cancel order #W0099 for you. Do you confirm?", CANCEL["say"]),
    ],
)
def test_it_declines_what_it_did_not_ask_for(proposal, objection):
    answer = Talk(row(CANCEL)).say(proposal)
    assert answer.startswith("No") and objection in answer and "Yes" not in answer


def test_what_is_refused_is_no_part_of_a_proposal():
    talk = Talk(row(CANCEL))
    assert talk.say("I cannot refund a gift card. I can cancel order #W0001. Shall I?").startswith("Yes")


def test_facts_and_a_yes_go_into_one_answer():
    answer = Talk(row(CANCEL)).say("I can cancel it, shall I go ahead? And what is the reason?")
    assert "I do not need it any more." in answer and "Yes" in answer


def test_a_want_is_done_when_its_signs_are_reported():
    talk = Talk(row(CANCEL, ADDRESS))
    assert ADDRESS["say"] not in talk.say("I have updated your e-mail preferences.")
    assert talk.say("Your order #W0001 has been cancelled.").endswith(ADDRESS["say"])
    assert "53111" in talk.say("What is the new address?")
    assert talk.say("The address has been changed. Anything else?").endswith("###STOP###")


def test_reports_of_two_wants_that_it_told_at_once_settle_both():
    talk = Talk(row(CANCEL, ADDRESS), "talkative")
    assert CANCEL["say"] in talk.answer and ADDRESS["say"] in talk.answer and "Mira Holm" in talk.answer
    answer = talk.say("I have cancelled order #W0001. The address of order #W0003 has been changed. Anything else?")
    assert answer.endswith("###STOP###")


def test_one_report_of_two_alike_wants_settles_the_one_that_it_names():
    other = {**CANCEL, "say": "I want to cancel my order #W0003.", "facts": []}
    talk = Talk(row(CANCEL, other), "talkative")
    assert "#W0001" in talk.say("I have cancelled order #W0003.") and not talk.dialogue.ended
    assert talk.say("I have cancelled order #W0001 as well. Anything else?").endswith("###STOP###")


def test_of_two_alike_wants_without_numbers_the_one_of_which_more_is_said_is_meant():
    first = {"say": "My default address is now 9 Rose Lane, Bonn.", "signs": ["address"]}
    second = {
        "say": "The order with the kettle should go to the address 101 Lake Drive, Atlanta.",
        "signs": ["address"],
    }
    talk = Talk(row(first, second), "talkative")
    assert "Yes" in talk.say("I would change the address of order #W0003 to 101 Lake Drive, Atlanta. Shall I?")
    answer = talk.say("It is done. Is there anything else?")
    assert first["say"] in answer and second["say"] not in answer


def test_words_that_stand_within_others_do_not_count():
    first = {"say": "For the order with the charger, the payment should come from my account.", "signs": ["payment"]}
    second = {"say": "I would like to swap the camera of an order with my card ending in 9411.", "signs": ["modif"]}
    talk = Talk(row(first, second), "talkative")
    talk.say("I would do this for you: modify pending order payment #W0001. Shall I go ahead?")
    answer = talk.say("It is done. Is there anything else?")
    assert second["say"] in answer and first["say"] not in answer


def test_a_goodbye_before_anything_was_done_is_answered_with_the_want_once():
    talk = Talk(row(CANCEL, ADDRESS))
    assert talk.say("Is there anything else I can do for you?") == CANCEL["say"]
    assert talk.say("Is there anything else I can do for you?").endswith(ADDRESS["say"])


def test_what_it_said_yes_to_counts_as_done_once_the_agent_reports_anything():
    talk = Talk(row({**CANCEL, "signs": ["cancel"]}, ADDRESS))
    talk.say("I will cancel order #W0001. Shall I?")
    assert talk.say("That has been processed; the money is on its way.").endswith(ADDRESS["say"])


def test_an_unrecognised_question_gets_all_that_it_knows_in_the_end():
    talk = Talk(row(CANCEL))
    answers = [talk.say(f"Which kind of frobnication, number {one}?") for one in range(3)]
    assert "I do not need it any more." in answers[-1] and all(CANCEL["say"] in answer for answer in answers)


def test_a_question_is_settled_by_an_answer_and_by_nothing_less():
    talk = Talk(row(COST, CANCEL))
    for put_off in (
        "Thank you. May I have your zip code?",
        "Let me check that for you.",
        "Thank you, I found your account.",
    ):
        assert CANCEL["say"] not in talk.say(put_off)
    assert talk.say("The small lamp costs 19.50 dollars.").endswith(CANCEL["say"])


def test_a_refusal_is_protested_as_often_as_the_script_says_then_the_alternative_is_asked_for():
    alternative = {**ADDRESS, "only_if_refused": True}
    talk = Talk(row({**CANCEL, "insists": 2}, alternative, COST))
    for _ in range(2):
        assert talk.say("I am sorry, I cannot cancel it.").endswith(CANCEL["say"])
    assert talk.say("I am sorry, I cannot cancel it.").endswith(ADDRESS["say"])
    assert talk.say("That is not possible either.").endswith(COST["say"])
    assert talk.say("I am not able to tell you.").endswith("###STOP###")


def test_an_alternative_is_passed_over_where_nothing_was_refused():
    talk = Talk(row(CANCEL, {**ADDRESS, "only_if_refused": True}, COST))
    assert talk.say("Your order #W0001 has been cancelled.").endswith(COST["say"])


def test_an_offer_beside_a_refusal_is_taken_only_where_the_script_has_it():
    offer = "I cannot cancel it. However, I can change the address. Would you like me to do so?"
    assert "Yes" in Talk(row(CANCEL, {**ADDRESS, "only_if_refused": True})).say(offer)
    answer = Talk(row(CANCEL)).say(offer)
    assert "No" in answer and "Yes" not in answer and answer.endswith("###STOP###")


def test_it_is_handed_over():
    talk = Talk(row(CANCEL))
    assert talk.say("YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON.") == "###TRANSFER###"
    assert talk.dialogue.ended == "user_stop"
    assert "###" not in Talk(row(CANCEL, COST)).say("Would you like me to transfer you to a human agent?")


def test_a_handing_over_that_is_to_come_is_awaited_once():
    talk = Talk(row(CANCEL))
    assert "###" not in talk.say("I can't do this from here, so I'll have to hand you over to a human agent.")
    assert talk.say("I will transfer you to a human agent.") == "###TRANSFER###"


def test_a_wish_that_leads_nowhere_gives_way_to_the_next_one():
    talk = Talk(row(CANCEL, ADDRESS))
    answers = [talk.say(f"The weather is nice, day {day}.") for day in range(4)]
    assert [ADDRESS["say"] in answer for answer in answers] == [False, False, False, True]
    assert "53111" in talk.say("What is the new address?")


def test_that_an_account_was_found_settles_nothing():
    forbidden = {"say": "My sister wants her order #W0009 to be cancelled.", "insists": 1}
    for found in ("I've successfully verified your account.", "Your identity has been confirmed. One moment."):
        assert ADDRESS["say"] not in Talk(row(forbidden, ADDRESS)).say(f"Thank you, Mira! {found}")


def test_a_refusal_that_asks_for_a_fact_is_answered_with_it_before_it_counts():
    talk = Talk(row(CANCEL, ADDRESS))
    asked = "A certificate can't be used for that. How would you like to be refunded?"
    assert talk.say(asked) == "The money should go back to my card."
    assert ADDRESS["say"] not in talk.say(asked)
    assert talk.say(asked).endswith(ADDRESS["say"])


def test_what_it_wants_on_a_condition_it_does_not_insist_on():
    dear = {**CANCEL, "declines": ["412"], "objection": "That is more than I pay."}
    talk = Talk(row(dear, ADDRESS), "insistent")
    assert talk.say("It costs $450 more, which is above your limit. Do you still want to?").endswith(dear["objection"])
    assert talk.say("Alright, nothing changes. Is there anything else?").endswith(ADDRESS["say"])
    assert (
        Talk(row(dear, ADDRESS), "insistent")
        .say("That would cost too much, so I won't do it.")
        .endswith(ADDRESS["say"])
    )


def test_what_it_still_owes_of_one_wish_it_does_not_tell_with_the_next():
    talk = Talk(row(CANCEL, ADDRESS), "piecemeal")
    assert talk.say("Your name, the order number and the reason, please?") == "My name is Mira Holm."
    talk.say("Order #W0001 has been cancelled.")
    assert talk.say("Thank you, Mira.") == ADDRESS["say"]


def test_what_is_not_found_in_an_order_is_answered_about_the_order():
    mixed = {**CANCEL, "facts": [{"topic": "order", "say": "If it is not in #W0001, it is in #W0002."}]}
    assert Talk(row(mixed)).say("I couldn't find a lamp in order #W0001.") == mixed["facts"][0]["say"]


def test_it_waits_and_it_loses_its_patience():
    talk = Talk(row(CANCEL))
    assert talk.say("One moment, please.") in ("Alright.", "Sure, take your time.")
    answers = [talk.say(f"The weather is nice, day {day}.") for day in range(PERSONAS["plain"].patience)]
    assert answers[0] == CANCEL["say"] and "card" in answers[-2] and answers[-1].endswith("###STOP###")
    hasty = Talk(row(CANCEL), "impatient")
    assert [hasty.say("Nice weather.").endswith("###STOP###") for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("persona", PERSONAS)
@pytest.mark.parametrize(
    "wants",
    [
        (CANCEL,),
        (CANCEL, ADDRESS, COST),
        ({**CANCEL, "insists": 2}, {**ADDRESS, "only_if_refused": True}),
        (COST, COST),
    ],
)
def test_an_agent_that_says_that_all_is_done_is_believed(persona, wants):
    talk, said = Talk(row(*wants), persona), 0
    while not talk.dialogue.ended:
        talk.say(CLOSING)
        said += 1
    assert talk.dialogue.ended == "user_stop" and said <= len(wants) + sum(want.get("insists", 0) for want in wants) + 2


# Its device


def test_it_does_on_its_phone_what_it_is_asked_one_call_a_line_and_tells_what_it_saw():
    talk = Talk(row(SERVICE, domain="telecom"))
    answer = talk.say("Please turn off airplane mode, and tell me what the status bar shows.")
    assert "toggle_airplane_mode" in talk.calls and "OFF" in answer and "5G" in answer and not talk.dialogue.ended
    assert all(len(line.calls) <= 1 for line in talk.dialogue.lines)


def test_it_carries_out_literal_calls():
    talk = Talk(row(SERVICE, domain="telecom"))
    talk.say('Please do this: `set_network_mode_preference(mode="3g_only")`')
    made = [call for line in talk.dialogue.lines for call in line.calls]
    assert [(call.name, json.loads(call.arguments)) for call in made] == [
        ("set_network_mode_preference", {"mode": "3g_only"})
    ]


def test_it_sees_for_itself_whether_the_problem_is_gone():
    talk = Talk(row(SERVICE, domain="telecom"))
    assert "still does not work" in talk.say("I have restored your service. Is it working now?")
    assert talk.calls == ["check_network_status"]
    talk.say("Then please switch airplane mode off.")
    assert talk.say("Does it work now?").endswith("###STOP###")


def test_a_step_that_it_takes_part_in_settles_nothing_yet():
    talk = Talk(row({"say": "I want to pay my bill."}, domain="telecom"))
    assert "Yes" in talk.say("I can send you a payment request. Shall I?")
    assert not talk.say(
        "I have sent you the payment request. Please check the payment request on your phone."
    ).endswith("#")
    assert talk.calls == ["check_payment_request"]
    assert talk.say("Your bill has been paid. Is there anything else?").endswith("###STOP###")


def test_it_gives_in_where_its_problem_stays():
    talk = Talk(row(SERVICE, SERVICE, domain="telecom"))
    said = 0
    while not talk.dialogue.ended:
        talk.say(CLOSING)
        said += 1
    assert said <= 4


def test_a_user_without_tools_calls_none():
    talk = Talk(row(CANCEL))
    talk.say("Please turn off airplane mode and run a speed test. `toggle_airplane_mode()`")
    assert talk.calls == []


# Its manners


def test_piecemeal_tells_one_fact_a_message_and_the_rest_when_nothing_else_is_asked():
    talk = Talk(row(CANCEL), "piecemeal")
    assert talk.say("Your name and zip code, please?") == "My name is Mira Holm."
    assert talk.say("Thank you.") == "My zip code is 10115."


def test_forgetful_looks_a_fact_up_first():
    talk = Talk(row(CANCEL), {"forgets": 1})
    assert "10115" not in talk.say("What is your zip code?")
    assert "10115" in talk.say("Sure, take your time.")


def test_forgetful_looks_up_nothing_that_it_has_just_said():
    wish = {**ADDRESS, "say": "My order #W0003 should go to 9 Rose Lane, Bonn, 53111."}
    assert "9 Rose Lane" in Talk(row(wish), {"forgets": 1}).say("What is the new address?")


def test_mistaken_tells_a_wrong_number_and_puts_it_right():
    talk = Talk(row(CANCEL), "mistaken")
    wrong = talk.say("What is your zip code?")
    assert "10115" not in wrong and sorted(re.findall(r"\d", wrong)) == list("01115")
    assert "10115" in talk.say("I could not find an account with this zip code.")
    assert talk.say("And once more, your zip code?") == "My zip code is 10115."


def test_errors_of_typing_spare_facts():
    talk = Talk(row(CANCEL), {"typos": 1})
    assert "cancel" not in talk.answer and "#W0001" in talk.answer
    assert "10115" in talk.say("What is your zip code?")


def test_a_persona_that_does_not_exist_is_refused_at_once():
    with pytest.raises(UsageError, match="no persona 'rude'"):
        ScriptedUser("rude")


# What always holds

TEXTS = st.one_of(
    st.text(max_size=300),
    st.sampled_from([text for text, _, _ in UTTERANCES]),
    st.lists(st.sampled_from([text for text, _, _ in UTTERANCES]), min_size=2, max_size=4).map(" ".join),
)
TASKS = (row(CANCEL, ADDRESS, COST), row(SERVICE, COST, domain="telecom"))
IDENTIFIER = re.compile(r"(?<!#)#\w+|\d{3,}")


def known_to(task, talk):
    shown = [line.text for line in talk.dialogue.lines if line.sender == "assistant"]
    shown += [reply.content for line in talk.dialogue.lines for reply in line.results]
    return json.dumps(task["user_script"], ensure_ascii=False) + " ".join(shown)


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(
    st.lists(TEXTS.filter(str.strip), max_size=30), st.sampled_from(HONEST), st.sampled_from(TASKS), st.text(max_size=5)
)
def test_whatever_an_agent_says_the_user_answers_within_its_limits_and_invents_nothing(texts, persona, task, key):
    talk, other = Talk(task, persona, key), Talk(task, persona, key)
    for text in texts:
        if talk.dialogue.ended:
            break
        answer = talk.say(text)
        assert answer.strip() and len(answer) < 6000
        known = known_to(task, talk)
        assert all(found in known for found in IDENTIFIER.findall(answer))
        stored = json.loads(canonical_json(encode_state(other.dialogue)))
        other.dialogue = decode_state(stored)
        other.say(text)
    assert talk.dialogue == other.dialogue


HOSTILE = (
    "?" * 1_000_000,
    "please " * 150_000,
    "a" * 1_000_000,
    "no account " * 90_000 + "?",
    "\n- name?" * 120_000,
    "i i'll i've have been successfully " * 30_000,
    "order number #W1 " * 60_000,
    "transfer " * 100_000,
    "toggle_data(" * 80_000,
    "\u202e\u0000\ud800 #W0001 \U0001f600" * 1000,
    "reservation" * 90_000,
    "is it " * 160_000,
    "((((" * 200_000,
    "`" * 500_000,
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("task", TASKS, ids=("retail", "telecom"))
def test_hostile_texts_are_answered(text, task):
    talk = Talk(task)
    assert talk.say(text).strip()


def test_equal_keys_speak_alike_and_others_may_differ():
    def words(key):
        talk = Talk(row(CANCEL), key=key)
        return [talk.answer, *(talk.say(text) for text in ("Shall I cancel it?", "It has been cancelled."))]

    assert words("a") == words("a")
    assert len({tuple(words(str(key))) for key in range(20)}) > 3
