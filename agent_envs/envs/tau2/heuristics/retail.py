"""The shop's rule-based agent identifies the customer, looks everything up, checks one wish, asks for a yes, and acts."""

import re
from collections.abc import Sequence

from agent_envs.envs.tau2.heuristics.desk import Desk, plans
from agent_envs.envs.tau2.heuristics.reading import Row, called, matches, mentions, methods_in, names

_ZIP = r"(?<![\w#@.-])\d{5}(?![\w@-])"
_PLACE = re.compile(
    r"(?<!\d)(\d{1,9} [A-Z][\w.]{0,30}(?: [A-Z][\w.]{0,30}){0,6}),? (?:((?:Apt|Suite|Unit|Apartment|Floor)\.? ?\w+),? )?"
    r"([A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,4}),? ([A-Z]{2}),? (\d{5})"
)
_REASONS = {
    "ordered by mistake": r"(?i)\b(mistaken?|accident\w*|wrongly)\b",
    "no longer needed": r"(?i)\b(no longer|not|n't)\b[^.]{0,20}\bneed|\bneed it (no more|any ?more)|\bno (more )?need\b",
    "": r"(?i)\b(because|since|as i|reason|due to)\b",
}
_USED = re.compile(r"(?i)\boriginal\b|\bpaid [^.]{0,20}\bwith\b|\bsame (way|method|card)|\bthat i (used|paid)")


serve = Desk.serve_once


def _user(desk: Desk) -> Row:
    """Return the customer's record by names and zip codes it wrote; raises Act to look up, or DeskTurn to ask for them."""
    for call in desk.calls:
        if call.name == "find_user_id_by_name_zip" and not call.failed:
            return dict(desk.look("get_user_details", {"user_id": call.content})[0])
    text = "\n".join(desk.user)
    for code in matches(_ZIP, text)[-3:]:
        for first, last in names(text)[:3]:
            desk.look("find_user_id_by_name_zip", {"first_name": first, "last_name": last, "zip": code})
    desk.ask("Please tell me your first and last name and your zip code.")


def _order(desk: Desk, *statuses: str) -> Row:
    """Return the wish's order, by number, else by its items; ends the turn to look up or ask, or refuses a wrong status."""
    orders = desk.look("get_order_details", *({"order_id": key} for key in _user(desk)["orders"]))
    ids = [f"#{number.lstrip('#')}" for number in matches(r"#?\bW\d{3,10}\b", desk.text)]
    by_number = [order for order in orders if order["order_id"] in ids]
    if ids and not by_number:
        desk.refuse(f"order {ids[-1]} is none of yours")
    fitting = [order for order in orders if not statuses or order["status"] in statuses]
    order = by_number[0] if len(by_number) == 1 else _fullest(desk, by_number or fitting) or _fullest(desk, orders)
    if order is None:
        desk.ask("Which order is it about? Please tell me the order number, or what was in it.")
    if statuses and order["status"] not in statuses:
        desk.refuse(f"order {order['order_id']} is {order['status']}, so that cannot be done with it")
    return order


def _fullest(desk: Desk, orders: Sequence[Row]) -> Row | None:
    """Return the order with most items named in the wish; None if none is named, or two have as many."""
    counts = [sum(mentions(desk.text, item["name"]) for item in order["items"]) for order in orders]
    most = max(counts, default=0)
    return orders[counts.index(most)] if most and counts.count(most) == 1 else None


def _items(desk: Desk, order: Row) -> list[Row]:
    """Return an order's items that the wish names, or its only one; asks, ending the turn, where none of several is named."""
    items = order["items"]
    wish_items = [item for item in items if mentions(desk.text, item["name"])]
    if not wish_items and len(items) > 1:
        desk.ask(f"Which items of order {order['order_id']} is it about, or of which other order?")
    return wish_items or list(items)


def _method(desk: Desk, cost: float = 0, original: str = "") -> Row:
    """Return the first method named, the only one, or the original if said, that can pay; else ask or refuse."""
    methods = list(_user(desk)["payment_methods"].values())
    candidates = methods_in(desk.text, methods) or (methods if len(methods) == 1 else [])
    if not candidates and _USED.search(desk.text):
        candidates = [method for method in methods if method["id"] == original]
    if not candidates:
        desk.ask("Which payment method do you want to use for that?")
    able = [method for method in candidates if method["source"] != "gift_card" or method["balance"] >= cost]
    if not able:
        desk.refuse("the gift card does not cover the amount")
    return able[0]


def _cancel(desk: Desk) -> None:
    """Ask for the reason, then propose to cancel the pending order; refuse other reasons than the policy's; always raises."""
    order = _order(desk, "pending")
    key, amount = order["order_id"], order["payment_history"][0]["amount"]
    reasons = [reason for reason, words in _REASONS.items() if re.search(words, desk.text)]
    if not reasons:
        desk.ask("What is the reason for the cancellation?")
    if not reasons[0]:
        desk.refuse("an order is cancelled only if it is no longer needed or was ordered by mistake")
    offer = f"I would cancel order {key} ({reasons[0]}); {amount} dollars go back to the method that paid for it."
    desk.propose(offer, "cancel_pending_order", order_id=key, reason=reasons[0])


def _return(desk: Desk) -> None:
    """Propose to return items of a delivered order; refuse a refund to a card that did not pay. Always ends the turn."""
    order = _order(desk, "delivered")
    key, items, original = order["order_id"], _items(desk, order), order["payment_history"][0]["payment_method_id"]
    method = _method(desk, original=original)
    if method["source"] != "gift_card" and method["id"] != original:
        desk.refuse("a refund goes to the method that paid for the order, or to a gift card")
    ids, amount = [item["item_id"] for item in items], round(sum(item["price"] for item in items), 2)
    goods = " and ".join(f"the {item['name']}" for item in items)
    offer = f"I would return {goods} of order {key}; {amount} dollars go to {called(method)}."
    desk.propose(offer, "return_delivered_order_items", order_id=key, item_ids=ids, payment_method_id=method["id"])


def _swap(desk: Desk) -> None:
    """Propose other variants of a pending or delivered order's items, with the price difference; always ends the turn."""
    order = _order(desk, "pending", "delivered")
    key, items = order["order_id"], _items(desk, order)
    products = desk.look("get_product_details", *({"product_id": item["product_id"]} for item in items))
    news = [_variant(desk, item, product["variants"]) for item, product in zip(items, products, strict=True)]
    difference = round(sum(new["price"] for new in news) - sum(item["price"] for item in items), 2)
    method = _method(desk, difference)
    verb, tool = ("change", "modify_pending") if order["status"] == "pending" else ("exchange", "exchange_delivered")
    options = [", ".join(map(" ".join, new["options"].items())) for new in news]
    swaps = [f"the {item['name']} for the one with {new}" for item, new in zip(items, options, strict=True)]
    offer = f"In order {key} I would {verb} {' and '.join(swaps)}, for {difference} dollars more on {called(method)}."
    ids = {"item_ids": [item["item_id"] for item in items], "new_item_ids": [new["item_id"] for new in news]}
    desk.propose(offer, f"{tool}_order_items", order_id=key, **ids, payment_method_id=method["id"])


def _variant(desk: Desk, item: Row, variants: Row) -> Row:
    """Return the variant available with the options asked for, the cheapest if said, else the nearest; ask if there is none."""
    able = [one for one in variants.values() if one["available"] and one["item_id"] != item["item_id"]]
    options = dict[str, str]()
    for axis, current in item["options"].items():
        values = {one["options"][axis] for one in variants.values()} - {current}
        hits = [value for value in sorted(values) if mentions(desk.text, value)]
        options |= {axis: max(hits, key=len)} if hits else {}
    fitting = [one for one in able if options.items() <= one["options"].items()]
    if fitting and "cheapest" in desk.text:
        return dict(min(fitting, key=lambda one: float(one["price"])))
    if fitting and options:
        return dict(max(fitting, key=lambda one: len(one["options"].items() & item["options"].items())))
    desk.ask(f"I found no such {item['name']} that is available. Which options do you want instead?")


def _address(desk: Desk) -> None:
    """Ask for the address, then propose it for the profile, or (unless profile, home or a move is said) a pending order."""
    user, places = _user(desk), _PLACE.findall(desk.text)
    home = re.search(r"(?i)\b(default|profile|home) address\b|\bmy (profile|account)\b|\bmoved\b", desk.text)
    order = None if home and not re.search(r"(?i)\border\b", desk.text) else _order(desk, "pending")
    if not places:
        desk.ask("What is the new address, with street, city, state and zip code?")
    place = dict(zip(("address1", "address2", "city", "state", "zip"), places[-1], strict=True))
    line, place = ", ".join(filter(None, place.values())), place | {"country": "USA"}
    if order is None:
        offer = f"I would change the address in your profile to {line}."
        desk.propose(offer, "modify_user_address", user_id=user["user_id"], **place)
    offer = f"I would send order {order['order_id']} to {line}."
    desk.propose(offer, "modify_pending_order_address", order_id=order["order_id"], **place)


def _payment(desk: Desk) -> None:
    """Propose to pay a pending order by the method named; may first ask for it, or refuse. Always ends the turn."""
    order = _order(desk, "pending")
    key, amount = order["order_id"], order["payment_history"][0]["amount"]
    method = _method(desk, amount)
    offer = f"I would have order {key} paid with {called(method)}: {amount} dollars."
    desk.propose(offer, "modify_pending_order_payment", order_id=key, payment_method_id=method["id"])


PLANS = plans("retail", cancel=_cancel, address=_address, payment=_payment, swap=_swap, **{"return": _return})
