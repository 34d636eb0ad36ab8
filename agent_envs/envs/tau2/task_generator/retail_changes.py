"""The generated shop's customers want other variants or other payment methods, or ask questions."""

from agent_envs.envs.tau2.task_generator.retail_wants import (
    Calls,
    Case,
    Detail,
    Effect,
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


def other_variant(case: Case, item: Record, cheapest: bool) -> tuple[Record, str] | None:
    """Return a variant that an item can be changed to, and the words for it; None where there is none."""
    variants = case.tables["products"][item["product_id"]]["variants"].values()
    others = [variant for variant in variants if variant["available"] and variant["item_id"] != item["item_id"]]
    if cheapest:
        return _cheapest(case, item, others)
    near = [variant for variant in others if len(_changes(item, variant)) <= 2]
    if not near:
        return None
    new = case.rng.choice(near)
    forms = ("{axis} {value} instead of {old}", "{axis} {value}")
    form = case.rng.choice(forms)
    changes = _changes(item, new)
    told = [form.format(axis=axis, value=new["options"][axis], old=item["options"][axis]) for axis in changes]
    # Left unsaid only where nothing else fits the words.
    alike = [variant for variant in others if all(variant["options"][axis] == new["options"][axis] for axis in changes)]
    same = case.rng.choice(
        (" and everything else as it is", " but otherwise the same", "")[: 3 if len(alike) == 1 else 2]
    )
    return new, f"the one with {listed(told)}{same}"


def _cheapest(case: Case, item: Record, others: list[Record]) -> tuple[Record, str] | None:
    """Return the cheapest variant, sometimes of those with one option that the item does not have."""
    wanted = {axis: one["options"][axis] for one in others for axis in _changes(item, one)}
    axis = case.rng.choice([*sorted(wanted), "", ""])
    able = [one for one in others if not axis or one["options"][axis] == wanted[axis]]
    new = min(able, key=lambda one: float(one["price"]))
    if axis:
        return new, f"the cheapest available one with {axis} {wanted[axis]}, whatever its other options are"
    return (new, "the cheapest one that is available") if new["price"] < item["price"] else None


def _changes(item: Record, variant: Record) -> list[str]:
    return [axis for axis, value in variant["options"].items() if item["options"][axis] != value]


def swap(case: Case) -> tuple[Effect, ...]:
    """Items of a delivered order are to be exchanged."""
    return swapping(case, "delivered", 2 if case.vague else 1)


def change_item(case: Case) -> tuple[Effect, ...]:
    """An item of a pending order is to be another variant; one alone, because the original mixes up several."""
    return swapping(case, "pending", 1)


def swapping(case: Case, status: str, most: int) -> tuple[Effect, ...]:
    """Return the want to have other variants of up to `most` items of an order of a status."""
    chosen = case.choose(status)
    if chosen is None:
        return ()
    order, item = chosen
    wanted = [item, *(other for other in order["items"] if other is not item)][: case.rng.randrange(1, most + 1)]
    found = [other_variant(case, one, case.vague and case.rng.random() < 0.4) for one in wanted]
    pairs = [(one, new[0], new[1]) for one, new in zip(wanted, found, strict=True) if new is not None]
    if not pairs or pairs[0][0] is not item:
        return ()
    difference = sum(new["price"] - one["price"] for one, new, _ in pairs)
    method = _payer(case, difference)
    if method is None or not tellable(difference):
        return ()
    return (swapped(case, order, pairs, method, status == "pending"),)


def _payer(case: Case, difference: float) -> Record | None:
    """Return a method that can pay a difference, and whose balance no other want touches."""
    free = [method for method in case.methods if method["source"] != "gift_card"]
    free += [
        method for method in case.methods
        if method["source"] == "gift_card" and "gift" not in case.used and method["balance"] >= difference
    ]  # fmt: skip
    return case.rng.choice(free) if free else None


def swapped(
    case: Case, order: Record, pairs: list[tuple[Record, Record, str]], method: Record, pending: bool
) -> Effect:
    """Return the want to have other variants (item, new variant, words for it) of items of an order."""
    words, number = case.named(order, pairs[0][0])
    names = listed("the " + plain(item["name"]) for item, _, _ in pairs)
    new_words = listed(f"the {plain(item['name'])} for {text}" for item, _, text in pairs)
    verb = case.rng.choice(("change", "switch", "modify") if pending else ("exchange", "swap", "exchange"))
    where = "{my} pending order" if pending else "{my} delivered order"
    place = f"In {where}" if case.vague else f"In {words}"
    if case.vague and pending:
        place = f"In {where} with the {plain(pairs[0][0]['name'])}"
    asks = case.rng.random() < 0.5
    tail = " {I} also want to know the difference in price." if asks else ""
    arguments = {
        "order_id": order["order_id"], "item_ids": [item["item_id"] for item, _, _ in pairs],
        "new_item_ids": [new["item_id"] for _, new, _ in pairs], "payment_method_id": method["id"],
    }  # fmt: skip
    tool = "modify_pending_order_items" if pending else "exchange_delivered_order_items"
    payer = method_words(method)
    return Effect(
        said(
            case.rng.choice((
                "{place} {I} want to {verb} {items}. Any difference in price goes on {payer}.",
                "{place} {I} would like to {verb} {items}, with {payer} for the difference in price.",
            )) + tail,
            place=place, verb=verb, items=new_words, payer=payer,
        ),
        (
            number, Detail("items", said("only {items}.", items=names)),
            Detail("options", said("{I} want to {verb} {items}.", verb=verb, items=new_words)),
            Detail("payment", said("please use {payer}.", payer=payer)),
        ),
        (*seen(order, *(item["product_id"] for item, _, _ in pairs)), (tool, arguments)),
        touched(order, *([method] if pending else [])),
        (figure(sum(new["price"] - item["price"] for item, new, _ in pairs)),) if asks else (),
        ("exchange", "change", "modif", "swap", "switch"),
    )  # fmt: skip


def pay_otherwise(case: Case) -> tuple[Effect, ...]:
    """A pending order is to be paid by another method."""
    chosen = case.choose("pending")
    if chosen is None:
        return ()
    order, item = chosen
    amount = order["payment_history"][0]["amount"]
    former = case.paid_with(order)
    able = [
        method for method in case.methods
        if method is not former and (method["source"] != "gift_card" or method["balance"] >= amount)
    ]  # fmt: skip
    if not able:
        return ()
    method = case.rng.choice(able)
    if touched(order, former, method) & case.used:
        return ()
    return (paying(case, order, item, method, method_words(method), touched(order, former, method)),)


def paying(case: Case, order: Record, item: Record, method: Record, wish: str, uses: frozenset[str]) -> Effect:
    """Return the want to have an order paid by a method, as `wish` words it."""
    words, number = case.named(order, item)
    templates = (
        "{I} want to pay for {order} with {wish}.",
        "{I} would like to change the payment method of {order} to {wish}.",
        "please charge {order} to {wish} instead.",
        "for {order}, {I} chose the wrong payment method. It should be {wish}.",
    )
    arguments = {"order_id": order["order_id"], "payment_method_id": method["id"]}
    return Effect(
        said(case.rng.choice(templates), order=words, wish=wish),
        (number, Detail("payment", said("please use {wish}.", wish=wish))),
        (*seen(order), ("modify_pending_order_payment", arguments)),
        uses, signs=("payment",),
    )  # fmt: skip


def ask(case: Case) -> tuple[Effect, ...]:
    """Something is to be found out."""
    return case.rng.choice((_ask_paid, _ask_tracking, _ask_cheapest, _ask_balance))(case)


def _question(
    text: str, details: tuple[Detail, ...], found: tuple[Calls, frozenset[str], str], **values: str
) -> Effect:
    actions, uses, told = found
    return Effect(said(text, **values), details, actions, uses, (told,), question=True)


def _ask_paid(case: Case) -> tuple[Effect, ...]:
    chosen = case.choose(case.rng.choice(("delivered", "processed", "pending")), 2)
    if chosen is None:
        return ()
    order, item = chosen
    words, number = case.named(order, item)
    text = case.rng.choice((
        "{I} want to know how much {I} paid for {order} in total.", "please tell {me} the total amount of {order}.",
    ))  # fmt: skip
    found = (seen(order), touched(order), figure(order["payment_history"][0]["amount"]))
    return (_question(text, (number,), found, order=words),)


def _ask_tracking(case: Case) -> tuple[Effect, ...]:
    chosen = case.choose(case.rng.choice(("delivered", "processed")))
    if chosen is None:
        return ()
    order, item = chosen
    words, number = case.named(order, item)
    text = case.rng.choice(("{I} need the tracking number of {order}.", "please give {me} the tracking id of {order}."))
    found = (seen(order), touched(order), order["fulfillments"][0]["tracking_id"][0])
    return (_question(text, (number,), found, order=words),)


def _ask_cheapest(case: Case) -> tuple[Effect, ...]:
    product = case.rng.choice(list(case.tables["products"].values()))
    price = min(variant["price"] for variant in product["variants"].values() if variant["available"])
    text = case.rng.choice((
        "{I} want to know what the cheapest {item} costs that is available now.",
        "please tell {me} the price of the cheapest {item} that you have available.",
    ))  # fmt: skip
    reads: Calls = (("list_all_product_types", {}), ("get_product_details", {"product_id": product["product_id"]}))
    detail = Detail("items", said("it is about the {item}.", item=plain(product["name"])))
    found = (reads, frozenset([product["product_id"]]), figure(price))
    return (_question(text, (detail,), found, item=plain(product["name"])),)


def _ask_balance(case: Case) -> tuple[Effect, ...]:
    cards = [method for method in case.methods if method["source"] == "gift_card"]
    if not cards or "gift" in case.used:
        return ()
    text = case.rng.choice(("{I} want to know the balance of {my} gift card.", "how much is left on {my} gift card?"))
    reads: Calls = (("get_user_details", {"user_id": case.user["user_id"]}),)
    return (_question(text, (), (reads, frozenset(["gift"]), figure(cards[0]["balance"]))),)
