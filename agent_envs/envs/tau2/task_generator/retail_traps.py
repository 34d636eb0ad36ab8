"""The generated shop's customers make wishes that an obedient agent gets wrong: forbidden, or resting on a condition."""

from dataclasses import replace

from agent_envs.envs.tau2.task_generator.names import address, on_one_line
from agent_envs.envs.tau2.task_generator.retail_wishes import (
    NO_LONGER_NEEDED,
    ORIGINAL,
    Case,
    Kind,
    Pieces,
    cancelled,
    cancelling,
    figure,
    lookups,
    method_words,
    other_variant,
    paying,
    plain,
    returned,
    returning,
    sent_anywhere,
    sent_to,
    swapped,
    tellable,
    touched,
)
from agent_envs.envs.tau2.task_generator.wishes import Piece, listed, need
from agent_envs.envs.tau2.user_script import Fact


def refused(case: Case, say: str, facts: tuple[Fact, ...], uses: frozenset[str]) -> Piece:
    """Return a wish that nothing grants; the customer insists once or twice."""
    return Piece(say, facts, uses=uses, insists=case.rng.randrange(1, 3))


def instead(piece: Piece, touched_before: frozenset[str]) -> Piece:
    """Return a wish as the one that follows a refusal."""
    return replace(piece, only_if_refused=True, uses=piece.uses | touched_before)


def cancel_delivered(case: Case) -> Pieces:
    """Draw a wish to cancel a delivered order, which is refused; then to return the item. Unfit without one."""
    order, item = case.choose("delivered")
    words, number = case.label(order, item)
    say = f"<I> want to cancel {words} and get <my> money back, because <I> no longer need it."
    first = refused(case, say, (number, NO_LONGER_NEEDED), touched(order))
    return first, instead(returning(case, order, [item], case.paid_with(order), ORIGINAL), first.uses)


def cancel_processed(case: Case) -> Pieces:
    """Draw a wish to cancel a processed order, which is refused; Unfit without one."""
    order, item = case.choose("processed")
    words, number = case.label(order, item)
    say = f"<I> want to cancel {words}, because <I> ordered it by mistake."
    return (refused(case, say, (number, Fact("reason", "<I> ordered it by mistake.")), touched(order)),)


def bad_reason(case: Case) -> Pieces:
    """Draw a cancellation for a reason that does not count, refused; then, in 6 of 10, to have the order sent elsewhere."""
    order, item = case.choose("pending")
    words, number = case.label(order, item)
    why = case.say("other_reasons")
    facts = (number, Fact("reason", f"{why}. That is <my> only reason."))
    first = refused(case, f"<I> want to cancel {words}, because {why}.", facts, touched(order))
    if case.rng.random() < 0.4:
        return (first,)
    return first, instead(sent_anywhere(case, order, item, first.uses), first.uses)


def foreign_order(case: Case) -> Pieces:
    """Draw a wish to cancel somebody else's pending order, which must be refused though the tools would do it."""
    orders = case.tables["orders"]
    candidates = [
        orders[order_id]
        for user_id in case.others if user_id != case.user["user_id"]
        for order_id in case.tables["users"][user_id]["orders"] if orders[order_id]["status"] == "pending"
    ]  # fmt: skip
    order = case.rng.choice(need(candidates))
    order_id = order["order_id"]
    say = case.say("foreign", who="{who}", id=order_id)
    why = "it is no longer needed." if "needed" in say else "it was ordered by mistake."
    facts = (Fact("order", f"the order number is {order_id}.", order_id), Fact("reason", why))
    return (refused(case, say.format(who=case.say("relatives")), facts, touched(order)),)


def take_out(case: Case) -> Pieces:
    """Draw a wish to take an item out of a pending order, refused; then to cancel all of it. Unfit without one."""
    order, item = case.choose("pending", 2)
    amount, uses = order["payment_history"][0]["amount"], case.touching(order, case.paid_with(order))
    words, number = case.label(order, item)
    name, of = plain(item["name"]), "<my> pending order" if case.vague else words
    say = f"<I> want to remove the {name} from {of} and keep the rest of the order as it is."
    first = refused(case, say, (number, Fact("items", f"only the {name}.")), uses)
    asks = tellable(amount)
    tail = " <I> also want to know the refund." if asks else ""
    second = Piece(
        f"then <I> want to cancel the whole order, because <I> no longer need it.{tail}", (number, NO_LONGER_NEEDED),
        cancelled(order), (figure(amount),) if asks else (), ("cancel",), uses=uses,
    )  # fmt: skip
    return first, instead(second, uses)


def wrong_refund(case: Case) -> Pieces:
    """Draw a wish for a refund to a method that may not get it, refused; then to the one that paid. Unfit without one."""
    order, item = case.choose("delivered")
    paid = order["payment_history"][0]["payment_method_id"]
    wrong = need([method for method in case.payers if method["id"] != paid])[0]
    first = returning(case, order, [item], wrong, method_words(wrong))
    first = replace(first, actions=(), signs=(), answers=(), refund=0.0, insists=case.rng.randrange(1, 3))
    second = Piece(
        f"then <I> want the refund for the {plain(item['name'])} on the method that <I> paid with.",
        (*first.facts[:2], Fact("payment", "the payment method that <I> used for the order.")),
        (*lookups(order), returned(order, [item], paid)), (), ("return", "refund"), uses=touched(order), refund=item["price"],
    )  # fmt: skip
    return first, instead(second, first.uses)


def modified_order(case: Case) -> Pieces:
    """Draw a wish to send an order elsewhere whose items were changed; the tools would do it."""
    order, item = case.choose("pending (item modified)")
    piece = sent_anywhere(case, order, item, touched(order))
    return (replace(piece, actions=(), signs=(), insists=case.rng.randrange(1, 3)),)


def price_cap(case: Case) -> Pieces:
    """Draw a wish to exchange an item within a limit, else to return it; the price decides which is gold. Unfit without one."""
    order, item = case.choose("delivered")
    new, text = need(other_variant(case, item, False))
    difference, name = round(new["price"] - item["price"], 2), plain(item["name"])
    method = case.rng.choice(case.payers)
    cap = int(max(5, round(abs(difference) * case.rng.choice((0.5, 0.8, 1.3, 1.6)) / 5) * 5))
    need(difference > 3 and abs(cap - difference) >= 1)
    exchange = swapped(case, order, [(item, new, text)], method, False)
    back = returning(case, order, [item], case.paid_with(order), ORIGINAL)
    say = (
        f"{exchange.say} <I> accept at most {cap} dollars more for it; if it is more, <I> want to return the {name} instead "
        "and have the refund on the method that <I> paid with."
    )
    facts = (*exchange.facts, Fact("amount", f"<I> accept at most {cap} dollars more."))
    if difference < cap:
        return (replace(exchange, say=say, facts=facts),)
    refund = Fact("payment", "the refund goes to the payment method that <I> used for the order.")
    return (replace(
        back, say=say, facts=(*(fact for fact in facts if fact.topic != "payment"), refund), answers=(), signs=("return",),
        declines=(figure(difference),),
        objection=f"No, that is more than {cap} dollars. Then I want to return the {name} instead.",
    ),)  # fmt: skip


def short_card(case: Case) -> Pieces:
    """Draw a wish to pay with a gift card if it covers an order, else another method, which is gold; Unfit if it covers."""
    order, item = case.choose("pending")
    paid = order["payment_history"][0]
    need("gift" not in case.used)
    card = need(case.gift_cards)[0]
    others = [method for method in case.payers if method["id"] != paid["payment_method_id"]]
    need(others and card["balance"] < paid["amount"] and card["id"] != paid["payment_method_id"])
    other = case.rng.choice(others)
    wish = f"<my> gift card if its balance covers the whole amount, and otherwise {method_words(other)}"
    return (paying(case, order, item, other, wish, touched(order, card)),)


def by_total(case: Case) -> Pieces:
    """Draw a wish to cancel an order if it came to more than a limit, else to send it elsewhere; the amount decides."""
    order, item = case.choose("pending")
    amount = order["payment_history"][0]["amount"]
    limit = int(amount * case.rng.choice((0.6, 0.8, 1.2, 1.5))) // 10 * 10
    uses = case.touching(order, case.paid_with(order))
    need(limit and abs(limit - amount) >= 1)
    place = address(case.rng)
    where = on_one_line(place)
    first = cancelling(case, order, item, uses)
    second = sent_to(case, order, item, place, where, uses)
    words, _ = case.label(order, item)
    say = (
        f"<I> do not remember what {words} came to. If it was more than {limit} dollars in total, <I> want to cancel it, "
        f"because <I> no longer need it; if not, <I> want to keep it, but have it sent to {where}."
    )
    facts = (first.facts[0], NO_LONGER_NEEDED, second.facts[1])
    if amount > limit:
        return (replace(first, say=say, facts=facts, answers=(), actions=cancelled(order)),)
    return (replace(second, say=say, facts=facts),)


def second_choice(case: Case) -> Pieces:
    """Draw a wish to exchange an item for a variant not available, else for another, which is gold; Unfit without either."""
    order, item = case.choose("delivered")
    variants = list(case.tables["products"][item["product_id"]]["variants"].values())
    missing = [one for one in variants if not one["available"] and one["item_id"] != item["item_id"]]
    new, words = need(other_variant(case, item, False))
    variant = case.rng.choice(need(missing))
    first = listed(f"{axis} {value}" for axis, value in variant["options"].items())
    text = f"the one with {first}, or, if that is not available, for {words}"
    return (swapped(case, order, [(item, new, text)], case.rng.choice(case.payers), False),)


def wrong_number(case: Case) -> Pieces:
    """Draw a wish to return an item from a wrong order number, put right when asked; Unfit without another order."""
    order, item = case.choose("delivered")
    wrong = case.rng.choice(need([other for other in case.all_orders if other is not order]))["order_id"]
    name = plain(item["name"])
    piece = returning(case, order, [item], case.paid_with(order), ORIGINAL)
    say = f"<I> want to return the {name} from order {wrong}, with the refund on {ORIGINAL}."
    mixed = f"<I> mixed up two orders. If the {name} is not in {wrong}, it is in {order['order_id']}."
    return (replace(piece, say=say, facts=(Fact("order", mixed), *piece.facts[1:]), answers=()),)


FORBIDDEN: tuple[Kind, ...] = (
    cancel_delivered, cancel_processed, bad_reason, foreign_order, take_out, wrong_refund, modified_order,
)  # fmt: skip
CONDITIONAL: tuple[Kind, ...] = (price_cap, short_card, by_total, second_choice, wrong_number)
