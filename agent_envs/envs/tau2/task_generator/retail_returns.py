"""The generated shop's customers want their money back, by cancellations and returns."""

from agent_envs.envs.tau2.task_generator.retail_wants import (
    Case,
    Detail,
    Effect,
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
from agent_envs.envs.tau2.task_generator.retail_world import Record, total

_REASONS = {
    "no longer needed": (
        "{I} no longer need it", "{I} do not need it any more", "{my} plans have changed and {I} no longer need it",
        "it is no longer needed",
    ),
    "ordered by mistake": (
        "{I} ordered it by mistake", "that order was a mistake", "it was ordered by mistake",
        "{I} placed it by mistake",
    ),
}  # fmt: skip


def cancel(case: Case) -> tuple[Effect, ...]:
    """A pending order is to be cancelled."""
    chosen = case.choose("pending")
    if chosen is None:
        return ()
    order, item = chosen
    uses = touched(order, case.paid_with(order))
    if uses & case.used:
        return ()
    return (cancelling(case, order, item, uses),)


def cancelling(case: Case, order: Record, item: Record, uses: frozenset[str]) -> Effect:
    """Return the want to cancel an order."""
    reason = case.rng.choice(list(_REASONS))
    why = case.rng.choice(_REASONS[reason])
    words, number = case.named(order, item)
    templates = (
        "{I} want to cancel {order}, because {why}.", "{I} would like {order} to be cancelled: {why}.",
        "please cancel {order}; {why}.", "{I} need to call off {order}, since {why}.",
        "please stop {order} before it is sent: {why}.",
    )  # fmt: skip
    amount = order["payment_history"][0]["amount"]
    asks = case.rng.random() < 0.5 and tellable(amount)
    tail = " {I} also want to know how much money comes back to {me}." if asks else ""
    return Effect(
        said(case.rng.choice(templates) + tail, order=words, why=why),
        (number, Detail("reason", said("{why}.", why=why))),
        (*seen(order), ("cancel_pending_order", {"order_id": order["order_id"], "reason": reason})),
        uses, (figure(amount),) if asks else (), ("cancel",), amount,
    )  # fmt: skip


def give_back(case: Case) -> tuple[Effect, ...]:
    """Items of a delivered order are to be returned: named ones, all but one, or the dearest."""
    chosen = case.choose("delivered")
    if chosen is None:
        return ()
    order, item = chosen
    items = [item, *(other for other in order["items"] if other is not item and case.rng.random() < 0.35)]
    original = case.paid_with(order)
    allowed = [original, *(card for card in case.methods if card["source"] == "gift_card" and card is not original)]
    method = case.rng.choice(allowed)
    where = "the payment method that {I} used for it" if case.vague and method is original else method_words(method)
    if case.vague and len(order["items"]) > 1 and case.rng.random() < 0.5:
        return (_worked_out(case, order, item, method, where),)
    return (returning(case, order, items, method, where),)


def _worked_out(case: Case, order: Record, item: Record, method: Record, where: str) -> Effect:
    """Return the want to give back items that are not named."""
    rest = [other for other in order["items"] if other is not item]
    dearest = max(order["items"], key=lambda other: float(other["price"]))
    form, items = case.rng.choice((
        ("all of it but the {item}", rest), ("everything except the {item}", rest),
        ("whatever was the most expensive thing in it", [dearest]),
    ))  # fmt: skip
    names = form.format(item=plain(item["name"]))
    words, _ = case.named(order, item)
    text = case.rng.choice((
        "from {order} {I} want to return {items}, with the refund on {where}.",
        "{I} want to send something back from {order}: {items}. The refund should go to {where}.",
    ))  # fmt: skip
    return _returned(
        case, (order, items, method), (said(text, order=words, items=names, where=where), names, where), item
    )


def returning(case: Case, order: Record, items: list[Record], method: Record, where: str) -> Effect:
    """Return the want to give back items of a delivered order, with the refund to a method that `where` names."""
    words, _ = case.named(order, items[0])
    names = listed("the " + plain(item["name"]) for item in items)
    templates: tuple[str, ...] = (
        "{I} want to return {items} from {order}, and have the refund on {where}.",
        "{I} would like to send back {items} from {order}; please refund it to {where}.",
        "{I} {am} not happy with {items} from {order} and want to return that. The money should go to {where}.",
        "{I} have no use for {items} from {order} and would like {my} money back on {where}.",
    )  # fmt: skip
    if case.vague:
        templates = (
            "{I} want to return {items} that {I} received, with the refund on {where}.",
            "{items} that {I} got delivered should go back to the shop. {I} want the refund on {where}.",
            "{I} do not like {items} that arrived here, and would rather have {my} money back on {where}.",
        )
    say = said(case.rng.choice(templates), items=names, order=words, where=where)
    return _returned(case, (order, items, method), (say, names, where), items[0])


def _returned(
    case: Case, what: tuple[Record, list[Record], Record], worded: tuple[Words, str, str], item: Record
) -> Effect:  # fmt: skip
    """Return the want to have items of an order back with a method, worded: as a whole, the items, and the method."""
    (order, items, method), (say, names, where) = what, worded
    asks = case.rng.random() < 0.5 and tellable(total(items))
    if asks:
        more = said("{I} also want to know how much {I} get back.")
        say = Words(f"{say.own} {more.own}", f"{say.told} {more.told}")
    arguments = {
        "order_id": order["order_id"], "item_ids": [one["item_id"] for one in items], "payment_method_id": method["id"]
    }  # fmt: skip
    return Effect(
        say,
        (
            case.named(order, item)[1], Detail("items", said("it is about {items}.", items=names)),
            Detail("payment", said("the refund should go to {where}.", where=where)),
        ),
        (*seen(order), ("return_delivered_order_items", arguments)),
        touched(order), (figure(total(items)),) if asks else (), ("return",), total(items),
    )  # fmt: skip
