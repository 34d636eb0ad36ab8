"""The shop's rule-based agent: what it does in words that nobody fitted it to, and against the scripted user."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.agent_view import SideView
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.partners import make_partner, take_turn
from agent_envs.envs.tau2.scene import Scene
from agent_envs.envs.tau2.task_generator.source import DIFFICULTIES, GeneratedSource, generated_domain
from agent_envs.envs.tau2.task_schema import read_task, tau2_task
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke
from agent_envs.rollout.policy import Request
from tests.examples import examples, part

SHOP = Rules(builtin_domain("retail"))
FACE = SideView(SHOP, "assistant", 100)
PUBLIC = read_task({"id": "t", "user_scenario": {"persona": None, "instructions": "none"}}, "retail")
MIRA = "I am Mira Holm and live in 10115."


def requested(dialogue):
    messages = [message.as_dict() for message in FACE.conversation(PUBLIC, dialogue)]
    return Request("key", dialogue.agent_turns, messages, FACE.tools)


def served(*said):
    """Play a customer who says these lines whatever is answered; return the dialogue and the changes that were made."""
    dialogue = opened(SHOP)
    for text in said:
        dialogue = spoke(SHOP, dialogue, text)
        while dialogue.turn == "assistant" and not dialogue.ended:
            request = requested(dialogue)
            action = act(request)
            assert act(copy.deepcopy(request)) == action
            heard = FACE.hear(dialogue, action)
            assert not heard.events
            dialogue = heard.dialogue
    calls = [call for line in dialogue.lines for call in line.calls]
    return dialogue, [
        (call.name, json.loads(call.arguments)) for call in calls if not call.name.startswith(("find", "get"))
    ]


def test_it_asks_who_the_customer_is():
    dialogue, changes = served("Please cancel order #W0001, I don't need it anymore.")
    assert "zip code" in dialogue.lines[-1].text and not changes


def test_it_proposes_before_it_changes_anything():
    dialogue, changes = served(f"{MIRA} Please cancel order #W0001, I don't need it anymore.")
    assert dialogue.lines[-1].text.endswith("(yes/no)?") and not changes


def test_a_no_is_respected():
    _, changes = served(
        f"{MIRA} Please cancel order #W0001, I don't need it anymore.", "No, wait.", "Yes, the weather is nice."
    )
    assert not changes


@pytest.mark.parametrize(
    "wish", [
        "Could you kindly cancel #W0001 for me? It was an accident.",
        "I'd like my order W0001 cancelled as I ordered it by mistake",
        "cancel my pending order #W0001 pls. Reason: ordered by mistake.",
    ],
)  # fmt: skip
def test_cancellations_in_other_words(wish):
    _, changes = served(f"{MIRA} {wish}", "yes")
    assert changes == [("cancel_pending_order", {"order_id": "#W0001", "reason": "ordered by mistake"})]


def test_an_exchange_is_worked_out_from_the_options():
    _, changes = served("Hi there.", f"{MIRA} The lamp of order #W0002 is too small. I want to swap it for the large one. "
                        "I pay with my gift card.", "Yes please")  # fmt: skip
    assert changes == [("exchange_delivered_order_items", {
        "order_id": "#W0002", "item_ids": ["12002"], "new_item_ids": ["12003"], "payment_method_id": "gift_card_002",
    })]  # fmt: skip


def test_an_address_is_taken_apart():
    _, changes = served(
        f"{MIRA} My order #W0001 should be shipped to 12 Oak Street, Apt 4, Salem, OR 97301 instead.", "Yes"
    )
    assert changes == [("modify_pending_order_address", {
        "order_id": "#W0001", "address1": "12 Oak Street", "address2": "Apt 4", "city": "Salem", "state": "OR",
        "country": "USA", "zip": "97301",
    })]  # fmt: skip


@pytest.mark.parametrize(
    "wish", [
        "Cancel order #W0011 please, it was ordered by mistake.",  # another customer's
        "Cancel order #W0002, I no longer need it.",  # delivered
        "Cancel order #W0001, because I found it cheaper elsewhere.",
        "Take the kettle out of order #W0001.",
    ],
)  # fmt: skip
def test_what_the_policy_forbids_is_refused(wish):
    dialogue, changes = served(f"{MIRA} {wish}", "Yes, do it anyway!", "I insist.")
    assert not changes
    assert any("I am sorry" in line.text for line in dialogue.lines if line.sender == "assistant")


@examples(40)
@given(st.lists(st.text(min_size=1, max_size=200).filter(str.strip), min_size=1, max_size=6))
def test_whatever_is_said_it_has_an_answer(texts):
    clean = [text.encode("utf-8", "replace").decode().replace("###", "#") for text in texts]
    dialogue, changes = served(MIRA, *clean)
    assert dialogue.turn == "user" and not changes


def _played(task, domain):
    rules, public = Rules(domain), read_task(task.data, "retail")
    dialogue, minds = opened(rules), {"user": None, "assistant": None}
    partners = {"user": make_partner("user", "scripted"), "assistant": make_partner("assistant", "heuristic")}
    while not dialogue.ended:
        side = dialogue.turn
        scene = Scene(task, public, rules, side, dialogue.replace(memory=minds[side]), f"key {task.id}")
        dialogue = take_turn(partners[side], scene)
        minds[side] = dialogue.memory
    return dialogue


def test_against_the_scripted_user_it_ends_and_is_neither_perfect_nor_idle():
    domain = generated_domain("retail")
    earned = dict.fromkeys(DIFFICULTIES, 0.0)
    for number in range(part(60, 24)):
        task = GeneratedSource("retail").get("dev", number)
        dialogue = _played(task, domain)
        assert dialogue.ended == "user_stop"
        score = evaluate(domain, tau2_task(task, "retail"), dialogue.lines, dialogue.ended)
        earned[task.data["difficulty"]] += score.reward
    assert 0 < sum(earned.values()) < part(60, 24) and earned["easy"] > earned["hard"]
