"""The generated shop's customers make wishes that an obedient agent gets wrong: forbidden, or resting on a condition."""

from dataclasses import replace

from agent_envs.envs.tau2.task_generator.names import address, on_one_line
from agent_envs.envs.tau2.task_generator.retail_addresses import sent_to
from agent_envs.envs.tau2.task_generator.retail_changes import other_variant, paying, swapped
from agent_envs.envs.tau2.task_generator.retail_returns import cancelling, returning
from agent_envs.envs.tau2.task_generator.retail_wants import (
    Case,
    Detail,
    Effect,
    Kind,
    Words,
    figure,
    listed,
    method_words,
    plain,
    said,
    seen,
    tellable,
    touched,
)
from agent_envs.envs.tau2.task_generator.retail_world import Record

_OTHER_REASONS = (
    "{I} found it cheaper somewhere else", "the delivery takes too long", "a friend gave {me} the same thing",
    "{I} read bad reviews about it", "another shop has a sale this week",
)  # fmt: skip
_RELATIVES = ("sister", "brother", "neighbor", "colleague", "mother", "roommate")


def refused(case: Case, text: str, details: tuple[Detail, ...], uses: frozenset[str], **values: str) -> Effect:
    """Return a want that nothing grants; the customer insists once or twice."""
    return Effect(said(text, **values), details, (), uses, insists=case.rng.randrange(1, 3))


def instead(effect: Effect, touched_before: frozenset[str]) -> Effect:
    """Return a want as what is asked for once the one before it was refused."""
    return replace(effect, only_if_refused=True, uses=effect.uses | touched_before)


def cancel_delivered(case: Case) -> tuple[Effect, ...]:
    """A delivered order cannot be cancelled; then it is to be returned."""
    chosen = case.choose("delivered")
    if chosen is None:
        return ()
    order, item = chosen
    words, number = case.named(order, item)
    text = "{I} want to cancel {order} and get {my} money back, because {I} no longer need it."
    first = refused(case, text, (number, Detail("reason", said("{I} no longer need it."))), touched(order), order=words)
    method = case.paid_with(order)
    second = returning(case, order, [item], method, "the payment method that {I} used for it")
    return first, instead(second, first.uses)


def cancel_processed(case: Case) -> tuple[Effect, ...]:
    """A processed order cannot be cancelled, and that is that."""
    chosen = case.choose("processed")
    if chosen is None:
        return ()
    words, number = case.named(*chosen)
    text = "{I} want to cancel {order}, because {I} ordered it by mistake."
    reason = Detail("reason", said("{I} ordered it by mistake."))
    return (refused(case, text, (number, reason), touched(chosen[0]), order=words),)


def bad_reason(case: Case) -> tuple[Effect, ...]:
    """A pending order is to be cancelled for a reason that does not count; then it is to be sent elsewhere."""
    chosen = case.choose("pending")
    if chosen is None:
        return ()
    order, item = chosen
    words, number = case.named(order, item)
    why = case.rng.choice(_OTHER_REASONS)
    details = (number, Detail("reason", said("{why}. That is {my} only reason.", why=why)))
    first = refused(case, "{I} want to cancel {order}, because {why}.", details, touched(order), order=words, why=why)
    if case.rng.random() < 0.4:
        return (first,)
    place = address(case.rng)
    return first, instead(sent_to(case, order, item, place, on_one_line(place), first.uses), first.uses)


def foreign_order(case: Case) -> tuple[Effect, ...]:
    """Somebody else's order is to be cancelled; the tools would do it."""
    orders = case.tables["orders"]
    found = [
        orders[order_id]
        for user_id in case.others if user_id != case.user["user_id"]
        for order_id in case.tables["users"][user_id]["orders"] if orders[order_id]["status"] == "pending"
    ]  # fmt: skip
    if not found:
        return ()
    order = case.rng.choice(found)
    text = case.rng.choice((
        "{I} also take care of the things of {my} {who}: please cancel order {id}, which is no longer needed.",
        "{my} {who} asked {me} to have order {id} cancelled; it was ordered by mistake.",
    ))  # fmt: skip
    number = Detail("order", said("the order number is {id}.", id=order["order_id"]), order["order_id"])
    why = Detail("reason", said("it is no longer needed." if "needed" in text else "it was ordered by mistake."))
    who = case.rng.choice(_RELATIVES)
    return (refused(case, text, (number, why), touched(order), id=order["order_id"], who=who),)


def take_out(case: Case) -> tuple[Effect, ...]:
    """One item is to be taken out of a pending order; as that cannot be, all of it is to be cancelled."""
    chosen = case.choose("pending", 2)
    if chosen is None:
        return ()
    order, item = chosen
    paid = order["payment_history"][0]
    uses = touched(order, case.paid_with(order))
    if uses & case.used:
        return ()
    words, number = case.named(order, item)
    name = plain(item["name"])
    text = "{I} want to remove the {item} from {order} and keep the rest of the order as it is."
    details = (number, Detail("items", said("only the {item}.", item=name)))
    first = refused(case, text, details, uses, item=name, order=words if not case.vague else "{my} pending order")
    asks = tellable(paid["amount"])
    tail = " {I} also want to know the refund." if asks else ""
    second = Effect(
        said("then {I} want to cancel the whole order, because {I} no longer need it." + tail),
        (number, Detail("reason", said("{I} no longer need it."))),
        (*seen(order), ("cancel_pending_order", {"order_id": order["order_id"], "reason": "no longer needed"})),
        uses, (figure(paid["amount"]),) if asks else (), ("cancel",),
    )  # fmt: skip
    return first, instead(second, uses)


def wrong_refund(case: Case) -> tuple[Effect, ...]:
    """A refund is to go to a method that may not get it; then to the one that paid."""
    chosen = case.choose("delivered")
    if chosen is None:
        return ()
    order, item = chosen
    paid = order["payment_history"][0]["payment_method_id"]
    wrong = [method for method in case.methods if method["source"] != "gift_card" and method["id"] != paid]
    if not wrong:
        return ()
    first = returning(case, order, [item], wrong[0], method_words(wrong[0]))
    first = replace(first, actions=(), signs=(), tells=(), refund=0.0, insists=case.rng.randrange(1, 3))
    second = Effect(
        said("then {I} want the refund for the {item} on the method that {I} paid with.", item=plain(item["name"])),
        (*first.details[:2], Detail("payment", said("the payment method that {I} used for the order."))),
        (
            ("get_order_details", {"order_id": order["order_id"]}),
            ("return_delivered_order_items", {
                "order_id": order["order_id"], "item_ids": [item["item_id"]], "payment_method_id": paid
            }),
        ),
        touched(order), (), ("return", "refund"), item["price"],
    )  # fmt: skip
    return first, instead(second, first.uses)


def modified_order(case: Case) -> tuple[Effect, ...]:
    """An order whose items were changed is to be sent elsewhere; the tools would do it."""
    chosen = case.choose("pending (item modified)")
    if chosen is None:
        return ()
    order, item = chosen
    place = address(case.rng)
    effect = sent_to(case, order, item, place, on_one_line(place), touched(order))
    return (replace(effect, actions=(), signs=(), insists=case.rng.randrange(1, 3)),)


def price_cap(case: Case) -> tuple[Effect, ...]:
    """A delivered item is to be exchanged if that costs little enough, and else returned."""
    chosen = case.choose("delivered")
    found = other_variant(case, chosen[1], False) if chosen is not None else None
    if chosen is None or found is None:
        return ()
    (order, item), (new, text) = chosen, found
    difference = round(new["price"] - item["price"], 2)
    payers = [method for method in case.methods if method["source"] != "gift_card"]
    method = case.rng.choice(payers)
    cap = int(max(5, round(abs(difference) * case.rng.choice((0.5, 0.8, 1.3, 1.6)) / 5) * 5))
    if difference <= 3 or abs(cap - difference) < 1:
        return ()
    exchange = swapped(case, order, [(item, new, text)], method, False)
    original = case.paid_with(order)
    back = returning(case, order, [item], original, "the payment method that {I} used for it")
    limit = (
        "{I} accept at most " + f"{cap} dollars more"
        " for it; if it is more, {I} want to return the {item} instead and have the refund on the method that {I} paid with."
    )
    more = said(limit, item=plain(item["name"]))
    say = Words(f"{exchange.say.own} {more.own}", f"{exchange.say.told} {more.told}")
    details = (*exchange.details, Detail("amount", said("{I} accept " + f"at most {cap} dollars more.")))
    if difference < cap:
        return (replace(exchange, say=say, details=details),)
    refund = Detail("payment", said("the refund goes to the payment method that {I} used for the order."))
    details = (*(detail for detail in details if detail.topic != "payment"), refund)
    objection = f"No, that is more than {cap} dollars. Then I want to return the {plain(item['name'])} instead."
    return (replace(
        back, say=say, details=details, tells=(), signs=("return",), declines=(figure(difference),), objection=objection
    ),)  # fmt: skip


def short_card(case: Case) -> tuple[Effect, ...]:
    """An order is to be paid with a gift card that does not cover it, and else with another method."""
    chosen = case.choose("pending")
    cards = [method for method in case.methods if method["source"] == "gift_card"]
    if chosen is None or not cards or "gift" in case.used:
        return ()
    order, item = chosen
    paid = order["payment_history"][0]
    others = [method for method in case.methods if method["source"] != "gift_card" and _other(method, paid)]
    if not others or cards[0]["balance"] >= paid["amount"] or not _other(cards[0], paid):
        return ()
    other = case.rng.choice(others)
    wish = f"{{my}} gift card if its balance covers the whole amount, and otherwise {method_words(other)}"
    return (paying(case, order, item, other, wish, touched(order, cards[0])),)


def _other(method: Record, paid: Record) -> bool:
    return bool(method["id"] != paid["payment_method_id"])


def by_total(case: Case) -> tuple[Effect, ...]:
    """An order is to be cancelled if it was dear enough, and else sent elsewhere."""
    chosen = case.choose("pending")
    if chosen is None:
        return ()
    order, item = chosen
    paid = order["payment_history"][0]
    uses = touched(order, case.paid_with(order))
    limit = int(paid["amount"] * case.rng.choice((0.6, 0.8, 1.2, 1.5))) // 10 * 10
    if uses & case.used or abs(limit - paid["amount"]) < 1 or not limit:
        return ()
    place = address(case.rng)
    first = cancelling(case, order, item, uses)
    second = sent_to(case, order, item, place, on_one_line(place), uses)
    words, _ = case.named(order, item)
    text = (
        "{I} do not remember what {order} came to. If it was more than {limit} dollars in total, {I} want to cancel it, "
        "because {I} no longer need it; if not, {I} want to keep it, but have it sent to {where}."
    )
    say = said(text, order=words, limit=str(limit), where=on_one_line(place))
    number, there = first.details[0], second.details[1]
    why = Detail("reason", said("{I} no longer need it."))
    if paid["amount"] > limit:
        call = ("cancel_pending_order", {"order_id": order["order_id"], "reason": "no longer needed"})
        return (replace(first, say=say, details=(number, why, there), tells=(), actions=(*seen(order), call)),)
    return (replace(second, say=say, details=(number, why, there)),)


def second_choice(case: Case) -> tuple[Effect, ...]:
    """A delivered item is to be exchanged for a variant that is not to be had, and else for another one."""
    chosen = case.choose("delivered")
    if chosen is None:
        return ()
    order, item = chosen
    variants = list(case.tables["products"][item["product_id"]]["variants"].values())
    missing = [one for one in variants if not one["available"] and one["item_id"] != item["item_id"]]
    payers = [method for method in case.methods if method["source"] != "gift_card"]
    found = other_variant(case, item, False)
    if not missing or found is None:
        return ()
    first = listed(f"{axis} {value}" for axis, value in case.rng.choice(missing)["options"].items())
    text = f"the one with {first}, or, if that is not available, for {found[1]}"
    return (swapped(case, order, [(item, found[0], text)], case.rng.choice(payers), False),)


def wrong_number(case: Case) -> tuple[Effect, ...]:
    """A delivered item is to be returned, and the customer names the number of another order at first."""
    chosen = case.choose("delivered")
    others = [order for order in case.all_orders if chosen is not None and order is not chosen[0]]
    if chosen is None or not others:
        return ()
    order, item = chosen
    wrong = case.rng.choice(others)["order_id"]
    method = case.paid_with(order)
    effect = returning(case, order, [item], method, "the payment method that {I} used for it")
    text = (
        "{I} want to return the {item} from order {wrong}, with the refund on the payment method that {I} used for it."
    )
    mixed = said(
        "{I} mixed up two orders. If the {item} is not in {wrong}, it is in {id}.",
        item=plain(item["name"]), wrong=wrong, id=order["order_id"],
    )  # fmt: skip
    say = said(text, item=plain(item["name"]), wrong=wrong)
    return (replace(effect, say=say, details=(Detail("order", mixed), *effect.details[1:]), tells=()),)


FORBIDDEN: tuple[Kind, ...] = (
    cancel_delivered, cancel_processed, bad_reason, foreign_order, take_out, wrong_refund, modified_order,
)  # fmt: skip
CONDITIONAL: tuple[Kind, ...] = (price_cap, short_card, by_total, second_choice, wrong_number)
