"""The act that a customer reads of its own generated wish is the one that the task expects to be done."""

import pytest

from agent_envs.envs.tau2.task_generator import airline_tasks, retail_tasks, telecom_tasks
from agent_envs.envs.tau2.user_script import read_script
from agent_envs.envs.tau2.users.aims import aim_of

# Of each expected call: one of these acts must be read of the wish, and none of those.
ACTS = {
    "cancel_pending_order": ("cancel", "return exchange change"),
    "return_delivered_order_items": ("return refund", "cancel exchange"),
    "exchange_delivered_order_items": ("exchange", "return cancel"),
    "modify_pending_order_items": ("exchange change", "return cancel"),
    "modify_pending_order_address": ("change ship", "cancel return"),
    "modify_pending_order_payment": ("change charge pay", "cancel return"),
    "modify_user_address": ("change", "cancel return"),
    "cancel_reservation": ("cancel", "book change move"),
    "book_reservation": ("book", "cancel move"),
    "update_reservation_baggages": ("add", "remove book"),
    "update_reservation_flights": ("move change upgrade downgrade", "cancel"),
    "update_reservation_passengers": ("change exchange", "cancel"),
    "enable_roaming": ("enable", "disable"),
    "disable_roaming": ("disable", "enable"),
    "suspend_line": ("suspend", "resume"),
    "resume_line": ("resume", "suspend"),
    "refuel_data": ("add", "suspend"),
}


@pytest.mark.parametrize("maker", [retail_tasks, airline_tasks, telecom_tasks])
def test_a_wish_is_read_as_what_is_expected(maker):
    wrong, read = [], 0
    for number in range(150):
        row = maker.make_row("dev", number, "easy", number % 4)
        script = read_script(row["user_script"])
        calls = [one["name"] for one in row["evaluation_criteria"]["actions"] if one["name"] in ACTS]
        if len(script.wants) != 1 or not calls or script.wants[0].check:
            continue
        right, other = (set(words.split()) for words in ACTS[calls[0]])
        verbs, read = aim_of(script, script.wants[0]).verbs, read + 1
        if not verbs & right or verbs & other:
            wrong.append((calls[0], sorted(verbs), script.wants[0].say))
    assert read > 40 and not wrong
