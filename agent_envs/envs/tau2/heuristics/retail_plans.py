"""The shop's rule-based agent checks each kind of wish against the policy, and proposes what the tools can do."""

from collections.abc import Callable
from typing import Any

from agent_envs.envs.tau2.heuristics.retail_desk import Desk, Step
from agent_envs.envs.tau2.heuristics.retail_wishes import Record, about, mentioned, place_of, reason_of, variant_of


def _ask_what(desk: Desk) -> Step:
    return Step("ask", "What exactly do you want me to do?")


def _cancel(desk: Desk) -> Step:
    order = desk.order()
    desk.needs(order, "pending")
    reason = reason_of(desk.wish.text)
    if not reason:
        return Step("ask", "What is the reason for the cancellation?")
    if reason == "other":
        return Step("refuse", "an order is cancelled only if it is no longer needed or was ordered by mistake.")
    amount = order["payment_history"][0]["amount"]
    text = (
        f"I would cancel order {order['order_id']} ({reason}); {amount} dollars go back to the method that paid for it."
    )
    return _acting(text, "cancel_pending_order", order_id=order["order_id"], reason=reason)


def _acting(text: str, tool: str, **arguments: Any) -> Step:
    return Step("act", text, ((tool, arguments),))


def _remove(desk: Desk) -> Step:
    return Step("refuse", "single items cannot be taken out of an order.")


def _return(desk: Desk) -> Step:
    order = desk.order()
    desk.needs(order, "delivered")
    items, original = desk.items(order), order["payment_history"][0]["payment_method_id"]
    method = desk.method(original)
    if method["source"] != "gift_card" and method["id"] != original:
        return Step("refuse", "a refund goes to the method that paid for the order, or to a gift card.")
    amount = round(sum(item["price"] for item in items), 2)
    text = f"I would return {_named(items)} of order {order['order_id']}; {amount} dollars go to {method['id']}."
    ids = [item["item_id"] for item in items]
    return _acting(text, "return_delivered_order_items", **_about(order), item_ids=ids, payment_method_id=method["id"])


def _about(order: Record) -> dict[str, str]:
    return {"order_id": order["order_id"]}


def _named(items: list[Record]) -> str:
    return " and ".join(f"the {item['name']}" for item in items)


def _swap(desk: Desk) -> Step:
    order = desk.order()
    desk.needs(order, "pending", "delivered")
    pairs = []
    for item in desk.items(order):
        product = desk.product(item["product_id"])
        new = variant_of(about(desk.wish.text, item, order["items"]), item, product)
        if new is None:
            return Step("ask", f"I found no such {item['name']} that is available. Which options do you want instead?")
        pairs.append((item, new))
    method = desk.method()
    difference = round(sum(new["price"] - item["price"] for item, new in pairs), 2)
    if method["source"] == "gift_card" and method["balance"] < difference:
        return Step("refuse", "the gift card does not cover the difference in price.")
    told = " and ".join(f"the {item['name']} for the one with {_options(new)}" for item, new in pairs)
    pending = order["status"] == "pending"
    text = (
        f"In order {order['order_id']} I would {'change' if pending else 'exchange'} {told}. "
        f"The difference in price is {difference} dollars, on {method['id']}."
    )
    tool = "modify_pending_order_items" if pending else "exchange_delivered_order_items"
    ids = {"item_ids": [item["item_id"] for item, _ in pairs], "new_item_ids": [new["item_id"] for _, new in pairs]}
    return _acting(text, tool, **_about(order), **ids, payment_method_id=method["id"])


def _options(variant: Record) -> str:
    return ", ".join(f"{axis} {value}" for axis, value in variant["options"].items())


def _address(desk: Desk) -> Step:
    order = desk.order()
    desk.needs(order, "pending")
    place = place_of(desk.wish.text)
    if place is None and "default address" in desk.wish.text and desk.user is not None:
        place = dict(desk.user["address"])
    if place is None:
        return Step("ask", "What is the new address, with street, city, state and zip code?")
    text = f"I would send order {order['order_id']} to {_line(place)}."
    return _acting(text, "modify_pending_order_address", **_about(order), **place)


def _line(place: dict[str, str]) -> str:
    return ", ".join(place[part] for part in ("address1", "address2", "city", "state", "zip") if place[part])


def _home(desk: Desk) -> Step:
    place = place_of(desk.wish.text)
    if place is None or desk.user is None:
        return Step("ask", "What is the new address, with street, city, state and zip code?")
    text = f"I would change the address in your profile to {_line(place)}."
    return _acting(text, "modify_user_address", user_id=desk.user["user_id"], **place)


def _payment(desk: Desk) -> Step:
    order = desk.order()
    desk.needs(order, "pending")
    method, amount = desk.method(), order["payment_history"][0]["amount"]
    if method["source"] == "gift_card" and method["balance"] < amount:
        return Step("refuse", "the gift card does not cover the whole amount.")
    text = f"I would have order {order['order_id']} paid with {method['id']}: {amount} dollars."
    return _acting(text, "modify_pending_order_payment", **_about(order), payment_method_id=method["id"])


def _paid(desk: Desk) -> Step:
    order = desk.order()
    return Step("tell", f"Order {order['order_id']} was {order['payment_history'][0]['amount']} dollars in total.")


def _tracking(desk: Desk) -> Step:
    order = desk.order()
    numbers = [number for sent in order["fulfillments"] for number in sent["tracking_id"]]
    return Step("tell", f"The tracking number is {' and '.join(numbers)}." if numbers else "It has not been sent yet.")


def _balance(desk: Desk) -> Step:
    cards = [method["balance"] for method in desk.methods if method["source"] == "gift_card"]
    return Step(
        "tell", f"The balance is {' and '.join(map(str, cards))} dollars." if cards else "You have no gift card."
    )


def _cheapest(desk: Desk) -> Step:
    if not desk.names:
        return Step("look", calls=(("list_all_product_types", {}),))
    named = mentioned(desk.wish.text, [{"name": name, "id": number} for name, number in desk.names.items()])
    if not named:
        return Step("ask", "Which product is it about?")
    able = [one["price"] for one in desk.product(named[-1]["id"])["variants"].values() if one["available"]]
    return Step("tell", f"The cheapest {named[-1]['name']} is {min(able)} dollars." if able else "There is none now.")


PLANS: dict[str, Callable[[Desk], Step]] = {
    "": _ask_what, "cancel": _cancel, "remove": _remove, "return": _return, "swap": _swap, "address": _address,
    "home": _home, "payment": _payment, "paid": _paid, "tracking": _tracking, "balance": _balance, "cheapest": _cheapest,
}  # fmt: skip
