"""The retail domain holds the agent's tools for orders, exchanges and returns; its user has no tools."""

import json
from typing import Any

from agent_envs.envs.tau2.compat import ORIGINAL, Compat
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.record_schema import Each, Maybe, Tagged, shaped
from agent_envs.envs.tau2.shared_tools import add_shared_tools
from agent_envs.envs.tau2.toolkit import Domain, Kit, Record, ToolFailure, World, present

_ADDRESS = {"address1": str, "address2": str, "city": str, "country": str, "state": str, "zip": str}
_METHOD = {"source": str, "id": str}
_PAYMENT = {"transaction_type": ("payment", "refund"), "amount": float, "payment_method_id": str}
_STATUSES = (
    "processed", "pending", "pending (item modified)", "delivered", "cancelled", "exchange requested",
    "return requested",
)  # fmt: skip
SHAPES: dict[str, Any] = {
    "products": {
        "name": str,
        "product_id": str,
        "variants": Each({"item_id": str, "options": Each(str), "available": bool, "price": float}),
    },
    "users": {
        "user_id": str,
        "name": {"first_name": str, "last_name": str},
        "address": _ADDRESS,
        "email": str,
        "payment_methods": Each(
            Tagged(
                "source",
                {
                    "credit_card": _METHOD | {"brand": str, "last_four": str},
                    "gift_card": _METHOD | {"balance": float},
                    "paypal": _METHOD,
                },
            )
        ),
        "orders": [str],
    },
    "orders": {
        "order_id": str,
        "user_id": str,
        "address": _ADDRESS,
        "items": [{"name": str, "product_id": str, "item_id": str, "price": float, "options": Each(str)}],
        "status": _STATUSES,
        "fulfillments": [{"tracking_id": [str], "item_ids": [str]}],
        "payment_history": [_PAYMENT],
        "cancel_reason": Maybe(("no longer needed", "ordered by mistake")),
        "exchange_items": Maybe([str]),
        "exchange_new_items": Maybe([str]),
        "exchange_payment_method_id": Maybe(str),
        "exchange_price_difference": Maybe(float),
        "return_items": Maybe([str]),
        "return_payment_method_id": Maybe(str),
    },
}
# Arguments of several tools, as their schemas describe them.
_TERMS = {
    "order_id": 'The order, such as "#W0000000"; it begins with "#".',
    "user_id": 'The user, such as "sara_doe_496".',
    "new_item_ids": "The items to get instead, in the same order.",
    "payment_method_id": "The method that pays or receives the price difference, as listed for the user or the order.",
    "address1": 'The first line of the address, such as "123 Main St".',
    "address2": 'The second line, such as "Apt 1", or an empty text.',
    "city": 'The city, such as "San Francisco".',
    "state": 'The state, such as "CA".',
    "country": 'The country, such as "USA".',
    "zip": 'The zip code, such as "12345".',
}
kit = Kit("assistant", _TERMS)


def retail(database: Database, compat: Compat = ORIGINAL, policy: str = "") -> Domain:
    """Return the retail domain over a database."""
    return Domain("retail", database, kit, compat, policy=policy)


def _find(world: World, table: str, key: str) -> dict[str, Any]:
    """Return a record of a table; a tool's failure where there is none."""
    return present(world.agent.get(table, key), f"{table[:-1].capitalize()} not found")


def _variant(world: World, product_id: str, item_id: str) -> dict[str, Any]:
    """Return a variant of a product; a tool's failure where either is not there."""
    variants: dict[str, dict[str, Any]] = _find(world, "products", product_id)["variants"]
    return present(variants.get(item_id), "Variant not found")


def _method(world: World, user_id: str, payment_method_id: str) -> dict[str, Any]:
    """Return a user's payment method; a tool's failure where either is not there."""
    methods: dict[str, dict[str, Any]] = _find(world, "users", user_id)["payment_methods"]
    return present(methods.get(payment_method_id), "Payment method not found")


def _is_gift_card(method: dict[str, Any]) -> bool:
    """Return whether a payment method is a gift card."""
    return bool(method["source"] == "gift_card")


def _credit(world: World, user_id: str, payment_method_id: str, amount: float) -> None:
    """Add to the balance of a gift card (less than nothing takes away); other methods keep no balance."""
    if _is_gift_card(_method(world, user_id, payment_method_id)):
        card = world.agent.edit("users", user_id)["payment_methods"][payment_method_id]
        card["balance"] = round(card["balance"] + amount, 2)


def _missing_item(order: dict[str, Any], item_ids: list[str]) -> str | None:
    """Return the first id that is requested more often than the order has it."""
    had = [item["item_id"] for item in order["items"]]
    return next((item_id for item_id in item_ids if item_ids.count(item_id) > had.count(item_id)), None)


def _first_item(order: dict[str, Any], item_id: str) -> dict[str, Any]:
    """Return the first item of an order with an id; StopIteration where there is none."""
    return next(item for item in order["items"] if item["item_id"] == item_id)


def _replacement(world: World, order: dict[str, Any], item_id: str, new_item_id: str) -> tuple[dict[str, Any], float]:
    """Return an item's new variant and how much more it costs; ToolFailure if not available, StopIteration without the item."""
    item = _first_item(order, item_id)
    variant = _variant(world, item["product_id"], new_item_id)
    if not variant["available"]:
        raise ToolFailure(f"New item {new_item_id} not found or available")
    return variant, variant["price"] - item["price"]


def _address(*values: str) -> dict[str, str]:
    """Return an address from its values in the order of its fields; SchemaError for one that is no text."""
    names = ("address1", "address2", "city", "state", "country", "zip")
    return dict(shaped(dict(zip(names, values, strict=True)), _ADDRESS, "address"))


@kit.tool()
def find_user_id_by_email(world: World, email: str) -> str:
    """Find a user's id by e-mail address.

    Args:
        email: The address, in any case.
    """
    for user in world.agent.rows("users"):
        if user["email"].lower() == email.lower():
            return str(user["user_id"])
    raise ToolFailure("User not found")


@kit.tool()
def find_user_id_by_name_zip(world: World, first_name: str, last_name: str, zip: str) -> str:
    """Find a user's id by name and zip code; try the e-mail address first.

    Args:
        first_name: The first name, in any case.
        last_name: The last name, in any case.
        zip: The zip code.
    """
    for user in world.agent.rows("users"):
        name = user["name"]
        if (
            name["first_name"].lower() == first_name.lower()
            and name["last_name"].lower() == last_name.lower()
            and user["address"]["zip"] == zip
        ):
            return str(user["user_id"])
    raise ToolFailure("User not found")


@kit.tool()
def get_order_details(world: World, order_id: str) -> Record:
    """Show an order: its status, items, address and payments."""
    return Record(_find(world, "orders", order_id))


@kit.tool()
def get_product_details(world: World, product_id: str) -> Record:
    """Show a product with all its variants.

    Args:
        product_id: The product, such as "6086499569"; a product id is no item id.
    """
    return Record(_find(world, "products", product_id))


@kit.tool()
def get_item_details(world: World, item_id: str) -> Record:
    """Show one variant of a product: its options, price and availability.

    Args:
        item_id: The item, such as "6086499569"; an item id is no product id.
    """
    for product in world.agent.rows("products"):
        if item_id in product["variants"]:
            return Record(product["variants"][item_id])
    raise ToolFailure("Item not found")


@kit.tool()
def get_user_details(world: World, user_id: str) -> Record:
    """Show a user: name, address, payment methods and orders."""
    return Record(_find(world, "users", user_id))


@kit.tool()
def list_all_product_types(world: World) -> str:
    """List the names and ids of all products; each has several items with ids of their own. There are 50 of them."""
    ids = {product["name"]: product["product_id"] for product in world.agent.rows("products")}
    return json.dumps(ids, sort_keys=True)


@kit.tool("write")
def cancel_pending_order(world: World, order_id: str, reason: str) -> Record:
    """Cancel a pending order and refund it.

    Tell the customer what will happen and get a clear yes first. Gift cards are refunded at once, other methods in 5 to 7
    business days.

    Args:
        reason: Either "no longer needed" or "ordered by mistake".
    """
    order = _find(world, "orders", order_id)
    if order["status"] != "pending":
        raise ToolFailure("Non-pending order cannot be cancelled")
    if reason not in {"no longer needed", "ordered by mistake"}:
        raise ToolFailure("Invalid reason")
    refunds = []
    for payment in order["payment_history"]:
        refunds.append({**payment, "transaction_type": "refund"})
        _credit(world, order["user_id"], payment["payment_method_id"], payment["amount"])
    order = world.agent.edit("orders", order_id)
    order["status"], order["cancel_reason"] = "cancelled", reason
    order["payment_history"] += refunds
    return Record(order)


@kit.tool("write")
def exchange_delivered_order_items(
    world: World, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Record:
    """Exchange items of a delivered order for other variants of the same products.

    A delivered order can be exchanged or returned only once. Tell the customer what will happen and get a clear yes first.

    Args:
        item_ids: The items to give back, one entry for each piece.
    """
    order = _find(world, "orders", order_id)
    if order["status"] != "delivered":
        raise ToolFailure("Non-delivered order cannot be exchanged")
    missing = _missing_item(order, item_ids)
    if missing is not None:
        raise ToolFailure(f"Number of {missing} not found.")
    if len(item_ids) != len(new_item_ids):
        raise ToolFailure("The number of items to be exchanged should match.")
    difference: float = 0
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        difference += _replacement(world, order, item_id, new_item_id)[1]
    difference = round(difference, 2)
    method = _method(world, order["user_id"], payment_method_id)
    if _is_gift_card(method) and method["balance"] < difference:
        raise ToolFailure("Insufficient gift card balance to pay for the price difference")
    order = world.agent.edit("orders", order_id)
    order["status"] = "exchange requested"
    order["exchange_items"], order["exchange_new_items"] = sorted(item_ids), sorted(new_item_ids)
    order["exchange_payment_method_id"], order["exchange_price_difference"] = payment_method_id, difference
    return Record(order)


def _pending_order(world: World, order_id: str) -> dict[str, Any]:
    """Return an order with "pending" in its status; ToolFailure for any other, or where there is none."""
    order = _find(world, "orders", order_id)
    if "pending" not in order["status"]:
        raise ToolFailure("Non-pending order cannot be modified")
    return order


@kit.tool("write")
def modify_pending_order_address(
    world: World, order_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
) -> Record:
    """Change the shipping address of a pending order. Tell the customer what will happen and get a clear yes first."""
    _pending_order(world, order_id)
    address = _address(address1, address2, city, state, country, zip)
    order = world.agent.edit("orders", order_id)
    order["address"] = address
    return Record(order)


def _replacements(
    world: World, order: dict[str, Any], item_ids: list[str], new_item_ids: list[str]
) -> tuple[list[dict[str, Any]], float]:
    """Return the variants that replace a pending order's items, and how much more they cost in all; or raise ToolFailure."""
    missing = _missing_item(order, item_ids)
    if missing is not None:
        raise ToolFailure(f"{missing} not found")
    if len(item_ids) != len(new_item_ids):
        raise ToolFailure("The number of items to be exchanged should match")
    variants, difference = [], 0.0
    for item_id, new_item_id in zip(item_ids, new_item_ids, strict=True):
        if item_id == new_item_id:
            raise ToolFailure("The new item id should be different from the old item id")
        variant, more = _replacement(world, order, item_id, new_item_id)
        variants.append(variant)
        difference += more
    return variants, difference


@kit.tool("write")
def modify_pending_order_items(
    world: World, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
) -> Record:
    """Change items of a pending order to other variants of the same products. This can be done only once for an order.

    Tell the customer what will happen and get a clear yes first.

    Args:
        item_ids: The items to change, one entry for each piece.
    """
    order = _find(world, "orders", order_id)
    if order["status"] != "pending":
        raise ToolFailure("Non-pending order cannot be modified")
    variants, difference = _replacements(world, order, item_ids, new_item_ids)
    method = _method(world, order["user_id"], payment_method_id)
    if _is_gift_card(method) and method["balance"] < difference:
        raise ToolFailure("Insufficient gift card balance to pay for the new item")
    _credit(world, order["user_id"], payment_method_id, -difference)
    order = world.agent.edit("orders", order_id)
    order["payment_history"].append(_payment("payment" if difference > 0 else "refund", abs(difference), method["id"]))
    for item_id, new_item_id, variant in zip(item_ids, new_item_ids, variants, strict=True):
        item = _first_item(order, item_id)
        paid = variants[-1] if world.compat.last_variant_for_all else variant
        item["item_id"], item["price"], item["options"] = new_item_id, paid["price"], dict(paid["options"])
    order["status"] = "pending (item modified)"
    return Record(order)


def _payment(transaction_type: str, amount: float, payment_method_id: str) -> dict[str, Any]:
    """Return an entry of a payment history."""
    return {"transaction_type": transaction_type, "amount": float(amount), "payment_method_id": payment_method_id}


@kit.tool("write")
def modify_pending_order_payment(world: World, order_id: str, payment_method_id: str) -> Record:
    """Change the payment method of a pending order. Tell the customer what will happen and get a clear yes first.

    Args:
        payment_method_id: The method to pay with instead, as listed for the user.
    """
    order = _pending_order(world, order_id)
    user_id = order["user_id"]
    method = _method(world, user_id, payment_method_id)
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        raise ToolFailure("There should be exactly one payment for a pending order")
    former, amount = history[0]["payment_method_id"], history[0]["amount"]
    if former == payment_method_id:
        raise ToolFailure("The new payment method should be different from the current one")
    if _is_gift_card(method) and method["balance"] < amount:
        raise ToolFailure("Insufficient gift card balance to pay for the order")
    order = world.agent.edit("orders", order_id)
    order["payment_history"] += [_payment("payment", amount, payment_method_id), _payment("refund", amount, former)]
    _credit(world, user_id, payment_method_id, -amount)
    _credit(world, user_id, former, amount)
    return Record(order)


@kit.tool("write")
def modify_user_address(
    world: World, user_id: str, address1: str, address2: str, city: str, state: str, country: str, zip: str
) -> Record:
    """Change a user's default address. Tell the customer what will happen and get a clear yes first."""
    _find(world, "users", user_id)
    address = _address(address1, address2, city, state, country, zip)
    user = world.agent.edit("users", user_id)
    user["address"] = address
    return Record(user)


@kit.tool("write")
def return_delivered_order_items(world: World, order_id: str, item_ids: list[str], payment_method_id: str) -> Record:
    """Return items of a delivered order; an e-mail then tells the customer how.

    A delivered order can be exchanged or returned only once. Tell the customer what will happen and get a clear yes first.

    Args:
        item_ids: The items to return, one entry for each piece.
        payment_method_id: The method that gets the refund: a gift card of the user, or the one that paid.
    """
    order = _find(world, "orders", order_id)
    if order["status"] != "delivered":
        raise ToolFailure("Non-delivered order cannot be returned")
    method = _method(world, order["user_id"], payment_method_id)
    if not _is_gift_card(method) and payment_method_id != order["payment_history"][0]["payment_method_id"]:
        raise ToolFailure("Payment method should be the original payment method")
    if _missing_item(order, item_ids) is not None:
        raise ToolFailure("Some item not found")
    order = world.agent.edit("orders", order_id)
    order["status"] = "return requested"
    order["return_items"], order["return_payment_method_id"] = sorted(item_ids), payment_method_id
    return Record(order)


add_shared_tools(kit)
