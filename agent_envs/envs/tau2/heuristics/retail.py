"""The shop's rule-based agent identifies the customer, looks everything up, checks one wish, asks for a yes, and acts."""

import re
from collections.abc import Sequence

from agent_envs.envs.tau2.heuristics.desk import Desk, Plans
from agent_envs.envs.tau2.heuristics.reading import Row, amounts, called, matches, mentions, methods_in, names, plain

_EMAIL, _ZIP = r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", r"(?<![\w#@.-])\d{5}(?![\w@-])"
_PLACE = re.compile(
    r"(?<!\d)(\d{1,9} [A-Z][\w.]{0,30}(?: [A-Z][\w.]{0,30}){0,6}),? (?:((?:Apt|Suite|Unit|Apartment|Floor)\.? ?\w+),? )?"
    r"([A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,4}),? ([A-Z]{2}),? (\d{5})"
)
_REASONS = {
    "ordered by mistake": r"(?i)\b(mistaken?|accident\w*|wrongly)\b",
    "no longer needed": r"(?i)\b(no longer|not|n't)\b[^.]{0,20}\bneed|\bneed it (no more|any ?more)|\bno (more )?need\b",
    "": r"(?i)\b(because|since|as i|reason|due to)\b",
}
_OLD = re.compile(r"(?:instead of|rather than|in place of|not the) [^,.;]*?(?= and | but |[,.;]|$)")
_USED = re.compile(r"(?i)\boriginal\b|\bpaid [^.]{0,20}\bwith\b|\bsame (way|method|card)|\bthat i (used|paid)")


def serve(desk: Desk) -> None:
    """Take the next step for the customer."""
    if desk.changed():
        desk.close()
    _user(desk)
    desk.serve(desk.kind)


def _user(desk: Desk) -> Row:
    """Return who the customer is."""
    tried = [call for call in desk.calls if call.name.startswith("find_user_id")]
    for call in tried:
        if not call.failed:
            return dict(desk.look("get_user_details", {"user_id": call.content}, fresh=True)[0])
    said = "\n".join(desk.user)
    for email in matches(_EMAIL, said):
        desk.look("find_user_id_by_email", {"email": email.rstrip(".")})
    for code in matches(_ZIP, said)[-3:]:
        for first, last in names(said)[:3]:
            desk.look("find_user_id_by_name_zip", {"first_name": first, "last_name": last, "zip": code})
    lost = "I did not find anybody with these details." if tried else "I am glad to help."
    desk.ask(f"{lost} Please tell me your e-mail address, or your first and last name and your zip code.")


def _order(desk: Desk, *statuses: str) -> Row:
    """Return the order that the wish is about, by its number or by what was in it; it must be in one of some statuses."""
    orders = desk.look("get_order_details", *({"order_id": key} for key in _user(desk)["orders"]), fresh=True)
    ids = [f"#{number.lstrip('#')}" for number in matches(r"#?\bW\d{3,10}\b", desk.text)]
    named = [order for order in orders if order["order_id"] in ids]
    if ids and not named:
        desk.refuse(f"order {ids[-1]} is none of yours")
    fitting = [order for order in orders if not statuses or order["status"] in statuses]
    order = named[0] if len(named) == 1 else _fullest(desk, named or fitting) or _fullest(desk, orders)
    if order is None:
        desk.ask("Which order is it about? Please tell me the order number, or what was in it.")
    if statuses and order["status"] not in statuses:
        desk.refuse(f"order {order['order_id']} is {order['status']}, so that cannot be done with it")
    return order


def _fullest(desk: Desk, orders: Sequence[Row]) -> Row | None:
    """Return the one order with the most items that are named; None where there is no one."""
    counts = [sum(mentions(desk.text, item["name"]) for item in order["items"]) for order in orders]
    most = max(counts, default=0)
    return orders[counts.index(most)] if most and counts.count(most) == 1 else None


def _items(desk: Desk, order: Row) -> list[Row]:
    """Return the items of an order that the wish is about."""
    items = order["items"]
    named = [item for item in items if mentions(desk.text, item["name"])]
    if re.search(r"(?i)\bmost expensive\b", desk.text):
        return [max(items, key=lambda item: float(item["price"]))]
    if re.search(r"(?i)\b(?:everything|all)\b[\w ]* (?:except|but)\b", desk.text):
        named = [item for item in items if item not in named]
    if not named and len(items) > 1:
        desk.ask(
            f"Which items of order {order['order_id']} is it about? If they are in another order, what is its number?"
        )
    return named or list(items)


def _method(desk: Desk, cost: float = 0, original: str = "") -> Row:
    """Return the first payment method that the wish names and that can pay."""
    methods = list(_user(desk)["payment_methods"].values())
    named = methods_in(desk.text, methods) or (methods if len(methods) == 1 else [])
    if not named and _USED.search(desk.text):
        named = [method for method in methods if method["id"] == original]
    if not named:
        desk.ask("Which payment method do you want to use for that?")
    able = [method for method in named if method["source"] != "gift_card" or method["balance"] >= cost]
    if not able:
        desk.refuse("the gift card does not cover the amount")
    return able[0]


def _cancel(desk: Desk) -> None:
    order = _order(desk, "pending")
    key, amount = order["order_id"], order["payment_history"][0]["amount"]
    limit = re.search(r"(?i)\bif (?:it|that)\b[^.;]{0,40}\bmore than (\d+)", desk.text)
    if limit and amount <= float(limit[1]):
        _address(desk)
    reasons = [reason for reason, words in _REASONS.items() if re.search(words, desk.text)]
    if not reasons:
        desk.ask("What is the reason for the cancellation?")
    if not reasons[0]:
        desk.refuse("an order is cancelled only if it is no longer needed or was ordered by mistake")
    told = f"I would cancel order {key} ({reasons[0]}); {amount} dollars go back to the method that paid for it."
    desk.propose(told, "cancel_pending_order", order_id=key, reason=reasons[0])


def _return(desk: Desk) -> None:
    order = _order(desk, "delivered")
    key, items, original = order["order_id"], _items(desk, order), order["payment_history"][0]["payment_method_id"]
    method = _method(desk, original=original)
    if method["source"] != "gift_card" and method["id"] != original:
        desk.refuse("a refund goes to the method that paid for the order, or to a gift card")
    ids, amount = [item["item_id"] for item in items], round(sum(item["price"] for item in items), 2)
    goods = " and ".join(f"the {item['name']}" for item in items)
    told = f"I would return {goods} of order {key}; {amount} dollars go to {called(method)}."
    desk.propose(told, "return_delivered_order_items", order_id=key, item_ids=ids, payment_method_id=method["id"])


def _swap(desk: Desk) -> None:
    order = _order(desk, "pending", "delivered")
    key, items = order["order_id"], _items(desk, order)
    products = desk.look(
        "get_product_details", *({"product_id": one} for one in sorted({item["product_id"] for item in items}))
    )
    pairs = [(item, _variant(desk, item, product["variants"], order)) for item in items for product in products
             if product["product_id"] == item["product_id"]]  # fmt: skip
    difference = round(sum(new["price"] - item["price"] for item, new in pairs), 2)
    limit = re.search(r"(?i)\bat most\b[^.;]*", desk.text)
    if limit and difference > min(amounts(limit[0]), default=difference):
        _return(desk)
    method = _method(desk, difference)
    verb, tool = ("change", "modify_pending") if order["status"] == "pending" else ("exchange", "exchange_delivered")
    swaps = (
        f"the {item['name']} for the one with {', '.join(map(' '.join, new['options'].items()))}" for item, new in pairs
    )
    told = f"In order {key} I would {verb} {' and '.join(swaps)}. The difference in price is {difference} dollars,"
    ids, news = [item["item_id"] for item, _ in pairs], [new["item_id"] for _, new in pairs]
    given = {"item_ids": ids, "new_item_ids": news, "payment_method_id": method["id"]}
    desk.propose(f"{told} on {called(method)}.", f"{tool}_order_items", order_id=key, **given)


def _variant(desk: Desk, item: Row, variants: Row, order: Row) -> Row:
    """Return the variant of an item that is asked for, of those that can be had; the nearest one, or the cheapest."""
    able = [one for one in variants.values() if one["available"] and one["item_id"] != item["item_id"]]
    for wanted in re.split(r"(?i)\bif that is not available\b|\bor else\b", _OLD.sub(" ", desk.text)):
        text = _about(plain(wanted), item, order)
        asked = dict[str, str]()
        for axis, current in item["options"].items():
            values = {one["options"][axis] for one in variants.values()} - {current}
            named = [value for value in sorted(values) if _names(text, axis, value)]
            asked |= {axis: max(named, key=len)} if named else {}
        fitting = [one for one in able if asked.items() <= one["options"].items()]
        if fitting and "cheapest" in text:
            return dict(min(fitting, key=lambda one: float(one["price"])))
        if fitting and asked:
            return dict(max(fitting, key=lambda one: len(one["options"].items() & item["options"].items())))
    desk.ask(f"I found no such {item['name']} that is available. Which options do you want instead?")


def _about(text: str, item: Row, order: Row) -> str:
    """Return the words that concern one of several items: from its name to the next one's; all if it is not named."""
    parts = re.split(f"({'|'.join(plain(one['name']) for one in order['items'])})", text)
    own = [after for name, after in zip(parts, parts[1:], strict=False) if name == plain(item["name"])]
    return f" {' '.join(own)} " if own else text


def _names(text: str, axis: str, value: str) -> bool:
    # A bare "4", "M" or "none" says nothing without what it is about.
    bare = len(value) <= 2 or value.isdigit() or value in ("yes", "none", "one", "two")
    return any(plain(words) in text for words in ((f"{axis} {value}", f"{value} {axis}") if bare else (value,)))


def _address(desk: Desk) -> None:
    user = _user(desk)
    home = re.search(r"(?i)\b(default|profile|home) address\b|\bmy (profile|account)\b|\bmoved\b", desk.text)
    order = None if home and not re.search(r"(?i)\border\b", desk.text) else _order(desk, "pending")
    places = _PLACE.findall(desk.text)
    if not places and not (order and home):
        desk.ask("What is the new address, with street, city, state and zip code?")
    place = dict(user["address"])
    if places:
        place = dict(zip(("address1", "address2", "city", "state", "zip"), places[-1], strict=True)) | {
            "country": "USA"
        }
    line = ", ".join(place[part] for part in ("address1", "address2", "city", "state", "zip") if place[part])
    if order is None:
        told = f"I would change the address in your profile to {line}."
        desk.propose(told, "modify_user_address", user_id=user["user_id"], **place)
    told = f"I would send order {order['order_id']} to {line}."
    desk.propose(told, "modify_pending_order_address", order_id=order["order_id"], **place)


def _payment(desk: Desk) -> None:
    order = _order(desk, "pending")
    key, amount = order["order_id"], order["payment_history"][0]["amount"]
    method = _method(desk, amount)
    told = f"I would have order {key} paid with {called(method)}: {amount} dollars."
    desk.propose(told, "modify_pending_order_payment", order_id=key, payment_method_id=method["id"])


def _paid(desk: Desk) -> None:
    order = _order(desk)
    numbers = [number for sent in order["fulfillments"] for number in sent["tracking_id"]]
    sent = f"Its tracking number is {' and '.join(numbers)}." if numbers else "It has not been sent yet."
    desk.close(f"Order {order['order_id']} was {order['payment_history'][0]['amount']} dollars in total. {sent}")


def _refunds(desk: Desk) -> None:
    total = 0.0
    for call in desk.calls:
        if call.name in ("cancel_pending_order", "return_delivered_order_items") and not call.failed:
            ids = call.arguments.get("item_ids")
            total += sum(item["price"] for item in call.value["items"] if not ids or item["item_id"] in ids)
    desk.close(f"All refunds together are {total:.2f} dollars.")


def _balance(desk: Desk) -> None:
    cards = [method["balance"] for method in _user(desk)["payment_methods"].values() if method["source"] == "gift_card"]
    desk.close(f"The balance of your gift cards is {' and '.join(map(str, cards)) or 0} dollars.")


def _cheapest(desk: Desk) -> None:
    named = [key for name, key in desk.look("list_all_product_types", {})[0].items() if mentions(desk.text, name)]
    if not named:
        desk.ask("Which product is it about?")
    (product,) = desk.look("get_product_details", {"product_id": named[-1]})
    prices = [one["price"] for one in product["variants"].values() if one["available"]]
    desk.close(f"The cheapest {product['name']} is {min(prices, default='not there at all now')} dollars.")


PLANS: Plans = {
    "remove": (r"\b(remove|take out|take [\w -]{1,60} out|drop|leave out)\b", "single items cannot be taken out of an order"),
    "cancel": (r"\bcancel|\bcall(ed)? off\b", _cancel),
    "balance": (r"\bbalance\b(?! covers)|\bleft on\b", _balance),
    "cheapest": (r"^(?!.*\b(exchang|swap|switch|chang|modif|replac)).*(\bcheapest\b.*\bcost|price.*\bcheapest\b)", _cheapest),
    "refunds": (r"\b(sum|total|together)\b.*\b(refunds|back)\b|\bback\b.*\b(total|together)\b", _refunds),
    "paid": (r"\b(how much|what)\b.*\b(paid|pay|total|cost)\b|\btotal (amount|price|cost|sum)\b|\btracking\b", _paid),
    "address": (r"(?<!mail )\baddress|\b(ship|shipped|sent|deliver)\b.* (to|instead)\b|\bmoved\b|\brelocat", _address),
    "payment": (r"\bpayment method of\b|\bpay for\b|\bcharge\b|\bpay (by|with)\b|\b(change|wrong) payment", _payment),
    "swap": (r"\b(exchang|swap|switch|replac|chang|modif|trade)", _swap),
    "return": (r"\breturn|\b(send|give|go|bring|get) ([\w]+ )?back\b|\brefund\b|\bmoney back\b", _return),
}  # fmt: skip
