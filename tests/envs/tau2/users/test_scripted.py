"""The scripted user: what it asks, tells, agrees to and refuses, what it does on its device, and that it always ends."""

import json
import re

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.envs.tau2.users.persona import PERSONAS
from agent_envs.envs.tau2.users.scripted import VERSION, ScriptedUser
from tests.envs.tau2.users.scenes import ADDRESS, CANCEL, COST, SERVICE, Talk, row
from tests.envs.tau2.users.utterances import UTTERANCES
from tests.examples import examples

CLOSING = "All is done. Is there anything else?"
CONSENT = "Only if that means this, and nothing more: "
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


def test_it_consents_to_what_it_wants_and_leaves_once_something_was_changed():
    talk = Talk(row(CANCEL))
    answer = talk.say("I will cancel order #W0001 and refund your card. Shall I? (yes/no)")
    assert answer == f"{CONSENT}{CANCEL['say']} The money should go back to my card."
    assert talk.say("Order #W0001 has been cancelled.").startswith(CONSENT)  # the shop sent no word of that
    talk.change()
    assert talk.say("Order #W0001 has been cancelled.").endswith("###STOP###")
    assert talk.dialogue.ended == "user_stop"


def test_what_it_declines_it_objects_to_and_another_number_it_names():
    assert Talk(row(CANCEL)).say("I will cancel it and refund your gift card. Shall I?") == CANCEL["objection"]
    answer = Talk(row(CANCEL)).say("I will cancel order #W0099 for you. Do you confirm?")
    assert answer == f"No, not W0099. {CONSENT}{CANCEL['say']}"


@pytest.mark.parametrize(
    "proposal",
    [
        "I would exchange the order for a toaster. Shall I?",
        "Shall I cancel order #W0001, order #W0003 and your account?",
        "I won't cancel your order but keep it for good. Agreed?",
        "Cancel order #W0001 now and every month from now on: yes or no?",
        "Soll ich die Order #W0001 stornieren?",
        '{"tool": "cancel", "order": "#W0001", "fee": 50}',
        "You agreed before that I cancel everything. So I do it now, right?",
    ],
)
def test_whatever_is_proposed_it_consents_to_its_own_words(proposal):
    assert Talk(row(CANCEL)).say(proposal).startswith(f"{CONSENT}{CANCEL['say']}")


def test_what_touches_no_want_is_asked_back_then_answered_with_the_want():
    talk = Talk(row(CANCEL))
    vague = "Shall I do what you want?"
    assert [CONSENT in talk.say(vague) for _ in range(3)] == [False] * 3
    assert talk.answer == CANCEL["say"]


def test_a_consent_stands_and_is_given_again():
    talk = Talk(row(CANCEL, ADDRESS))
    for text in ("I'd cancel order #W0001. OK?", "So, shall I put that through?", "Just say the word."):
        assert talk.say(text).startswith(CONSENT)
    talk.change()
    assert talk.say("It went through. Shall I send you an e-mail about it?").startswith(CONSENT)
    assert talk.say("Is there anything else?").endswith(ADDRESS["say"])


def test_no_more_than_two_details_are_told_at_once_and_none_that_is_not_named():
    talk = Talk(row(CANCEL))
    assert talk.say("Shall I cancel it?") == f"{CONSENT}{CANCEL['say']}"
    answer = talk.say("Which order is it, for which reason, and how do you want to be paid back?")
    assert answer == "It is order #W0001. I do not need it any more."
    assert talk.say("And the payment?") == "The money should go back to my card."
    wish = {"say": "I want to fly.", "facts": [
        {"topic": "cabin", "say": "Economy."}, {"topic": "bags", "say": "Two checked bags."},
        {"topic": "payment", "say": "My card."},
    ]}  # fmt: skip
    answer = Talk(row(wish)).say("I'd let you fly in some cabin with some bags and your payment as you want. Shall I?")
    assert answer == (
        f"{CONSENT}I want to fly. For the cabin I want this: economy. For the bags I want this: two checked bags."
    )


def test_a_question_for_a_fact_is_answered_and_not_consented_to():
    assert Talk(row(CANCEL)).say("For which reason shall I cancel it?") == "I do not need it any more."
    answer = Talk(row(CANCEL)).say("I can cancel it, shall I go ahead? And what is the reason?")
    assert answer.startswith("I do not need it any more. Only if that means this")


def test_a_plain_yes_stands_before_the_consent_only_where_the_message_proposes_it():
    wish = {"say": "Please cancel order #W0001 of Mira Holm.", "signs": ["cancel"]}

    def said(text, **options):
        talk = Talk(row(wish), **options)
        return talk.say(text)

    proposal = "I would cancel order #W0001 of Mira Holm. Shall I go ahead?"
    assert said(proposal).startswith(CONSENT)
    assert said(proposal, consent="plain") == f"Yes. {CONSENT}{wish['say']}"
    for other in (
        "I would not cancel order #W0001 of Mira Holm. Shall I go ahead?",
        "I would cancel order #W0001 of Mira Holm and #W0003. Shall I go ahead?",
        "I would cancel order #W0001 of Mira Holm and Otto Brandt. Shall I go ahead?",
        "I would cancel order #W0001 of Mira Holm for a fee of $20. Shall I go ahead?",
        "I would cancel order #W0001 of Mira Holm twice. Shall I go ahead?",
        "I would cancel the order of Mira Holm. Shall I go ahead?",
        "Order #W0001 of Mira Holm: which item shall I cancel?",
        "I have cancelled order #W0001 of Mira Holm.",
        "Shall I ask Mira Holm about order #W0001?",
    ):
        assert not said(other, consent="plain").startswith("Yes"), other


def test_one_that_gives_way_says_yes():
    assert Talk(row(CANCEL), {"agrees": 1.0}).say("Shall I exchange it for a toaster?").startswith("Yes")


def test_a_want_is_done_when_its_signs_are_reported_and_something_was_changed():
    talk = Talk(row(CANCEL, ADDRESS))
    talk.change()
    assert ADDRESS["say"] not in talk.say("I have updated your e-mail preferences.")
    assert talk.say("Your order #W0001 has been cancelled.").endswith(ADDRESS["say"])
    assert "53111" in talk.say("What is the new address?")
    talk.change()
    assert talk.say("The address has been changed. Anything else?").endswith("###STOP###")


def test_reports_of_two_wants_that_it_told_at_once_settle_both():
    talk = Talk(row(CANCEL, ADDRESS), "talkative")
    assert CANCEL["say"] in talk.answer and ADDRESS["say"] in talk.answer and "Mira Holm" in talk.answer
    talk.change()
    answer = talk.say("I have cancelled order #W0001. The address of order #W0003 has been changed. Anything else?")
    assert answer.endswith("###STOP###")


def test_one_report_of_two_alike_wants_settles_the_one_that_it_names():
    other = {**CANCEL, "say": "I want to cancel my order #W0003.", "facts": []}
    talk = Talk(row(CANCEL, other), "talkative")
    talk.change()
    assert "#W0001" in talk.say("I have cancelled order #W0003.") and not talk.dialogue.ended
    talk.change()
    assert talk.say("I have cancelled order #W0001 as well. Anything else?").endswith("###STOP###")


def test_changes_for_two_wants_that_it_told_at_once_may_be_reported_one_after_the_other():
    talk = Talk(row(CANCEL, ADDRESS), "talkative")
    talk.say("I'd cancel order #W0001. Shall I? And I'd change the address of order #W0003. Shall I?")
    talk.change()
    talk.change()
    assert talk.say("Order #W0001 has been cancelled. Anything else?").endswith(ADDRESS["say"])
    assert talk.say("The address has been changed, too. Anything else?").endswith("###STOP###")


def test_of_two_alike_wants_without_numbers_the_one_of_which_more_is_said_is_meant():
    first = {"say": "My default address is now 9 Rose Lane, Bonn.", "signs": ["address"]}
    second = {
        "say": "The order with the kettle should go to the address 101 Lake Drive, Atlanta.",
        "signs": ["address"],
    }
    talk = Talk(row(first, second), "talkative")
    answer = talk.say("I would change the address of order #W0003 to 101 Lake Drive, Atlanta. Shall I?")
    assert f"{first['say']} And: {second['say']}" in answer
    talk.change()
    answer = talk.say("The order with the kettle has the address 101 Lake Drive, Atlanta now.")
    assert first["say"] in answer and second["say"] not in answer


@pytest.mark.parametrize(
    "text",
    [
        "Roaming on 572-555-0104 is off right now. I'd cancel the order. Is that alright?",
        "Order #W0001 is cancelled, if that is what you want. Let me know.",
        "All done, but for your confirmation.",
        "I can't cancel that. Should I hand you over to a colleague?",
        "It's done as soon as you say yes",
        "I have cancelled it. Please confirm your e-mail address.",
        "I'd transfer you to a human agent. OK?",
        "Is there anything else that you want before I cancel it?",
        "That is not possible. Would you like a voucher instead?",
    ],
)
def test_a_message_that_asks_for_something_never_ends_the_conversation(text):
    talk = Talk(row({**CANCEL, "signs": ["cancel"]}))
    talk.say("I'd cancel order #W0001. Shall I?")
    talk.change()
    for place in range(PERSONAS["plain"].patience):
        assert "###" not in talk.say(text), place


def test_a_goodbye_before_anything_was_done_is_answered_with_the_want_once():
    talk = Talk(row(CANCEL, ADDRESS))
    assert talk.say("Is there anything else I can do for you?") == CANCEL["say"]
    assert talk.say("Is there anything else I can do for you?").endswith(ADDRESS["say"])


def test_what_it_consented_to_counts_as_done_once_something_was_changed_and_the_agent_asks_nothing():
    talk = Talk(row({**CANCEL, "signs": ["cancel"]}, ADDRESS))
    talk.say("I will cancel order #W0001. Shall I?")
    talk.change()
    assert talk.say("That has been processed; the money is on its way.").endswith(ADDRESS["say"])


@pytest.mark.parametrize(
    "report",
    [
        "Your parcel for order #W0003 goes to 9 Rose Lane from today. Anything else?",
        "A new shipping address is on file for the order.",
        "Thanks for your patience. Is there anything more I may do?",
    ],
)
def test_a_change_without_a_consent_settles_the_want_once_the_agent_tells_of_it_or_takes_its_leave(report):
    talk = Talk(row(ADDRESS))
    talk.change()
    assert "###STOP###" not in talk.say(f"{report} Do I have your agreement?")  # what asks settles nothing
    talk = Talk(row(ADDRESS))
    talk.change()
    assert talk.say("The weather is fine here.") == ADDRESS["say"]
    assert talk.say(report).endswith("###STOP###")


@pytest.mark.parametrize("text", ["I suggest to ship order #W0003 to 9 Rose Lane.", "It goes to 9 Rose Lane, right"])
def test_after_a_change_without_a_consent_a_plan_or_a_question_without_a_mark_settles_nothing(text):
    talk = Talk(row(ADDRESS))
    talk.change()
    assert talk.say(text).startswith(CONSENT)


def test_a_request_for_agreement_gets_the_consent_whatever_facts_it_touches():
    for asked in ("May I have your consent: refund to the card?", "I need an agreement on the payment: your card.",
                  "Do you accept that I cancel it?"):  # fmt: skip
        assert CONSENT in Talk(row(CANCEL)).say(asked), asked


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
    talk.change()
    assert talk.say("Your order #W0001 has been cancelled.").endswith(COST["say"])


def test_a_refusal_beside_an_offer_is_one_the_second_time():
    offer = "I cannot cancel it. However, I can change the address. Would you like me to do so?"
    talk = Talk(row(CANCEL, {**ADDRESS, "only_if_refused": True}))
    assert talk.say(offer).startswith(CONSENT) and talk.say(offer).endswith(ADDRESS["say"])
    talk = Talk(row(CANCEL))
    assert talk.say(offer).startswith(CONSENT) and "leave it" in talk.say(offer)
    assert talk.say("Is there anything else?").endswith("###STOP###")


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
    talk.change()
    talk.say("Order #W0001 has been cancelled.")
    assert ADDRESS["say"] in talk.say("Thank you, Mira.") and "zip" not in talk.answer


def test_what_is_not_found_in_an_order_is_answered_about_the_order():
    mixed = {**CANCEL, "facts": [{"topic": "order", "say": "If it is not in #W0001, it is in #W0002."}]}
    assert Talk(row(mixed)).say("I couldn't find a lamp in order #W0001.") == mixed["facts"][0]["say"]


def test_it_waits_and_it_loses_its_patience():
    talk = Talk(row(CANCEL))
    assert talk.say("One moment, please.") in ("I can wait.", "Please take your time.")
    answers = [talk.say(f"The weather is nice, day {day}.") for day in range(PERSONAS["plain"].patience)]
    assert set(answers[:-1]) == {CANCEL["say"]} and answers[-1].endswith("###STOP###")
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
def test_an_agent_that_does_nothing_is_reminded_and_then_left(persona, wants):
    talk, said = Talk(row(*wants), persona), 0
    while not talk.dialogue.ended:
        talk.say(CLOSING)
        said += 1
    assert talk.dialogue.ended == "user_stop" and said <= 2 * len(wants) + sum(want.get("insists", 0) for want in wants)


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
    assert talk.say("I can send you a payment request. Shall I?").startswith(CONSENT)
    talk.change()
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


@examples(120, suppress_health_check=list(HealthCheck))
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
        return [talk.answer, *(talk.say(text) for text in ("Let me look.", "Let me think."))]

    assert words("a") == words("a")
    assert len({tuple(words(str(key))) for key in range(20)}) > 3


def test_another_version_of_the_customer_is_another_setting_where_it_plays_and_nowhere_else(monkeypatch):
    def digests():
        played = gym.make("agent_envs/Tau2Retail-v0"), gym.make("agent_envs/Tau2Telecom-v0", side="solo")
        return [env.unwrapped.spec_digest for env in played]

    before = digests()
    monkeypatch.setattr("agent_envs.envs.tau2.env.VERSION", VERSION + 1)
    assert [one == other for one, other in zip(before, digests(), strict=True)] == [False, True]
