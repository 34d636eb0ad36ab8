"""The generated shop's database is drawn here, and everything else follows from it.

Prices add up, payments match what was bought, and what is said of an order fits its status.
"""

import json
from functools import lru_cache
from importlib.resources import files
from itertools import product
from random import Random
from typing import Any

from agent_envs.envs.tau2.builtin import databases_of
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.task_generator.names import (
    CARD_BRANDS,
    Person,
    address,
    codes,
    digits,
    email,
    people,
    user_id,
)

USERS = 300
_STATUSES = (
    ("pending", 44), ("delivered", 36), ("processed", 7), ("cancelled", 4), ("pending (item modified)", 4),
    ("return requested", 3), ("exchange requested", 2),
)  # fmt: skip
_SHIPPED = ("processed", "delivered", "return requested", "exchange requested")
_MOST_ORDERS, _MOST_VARIANTS = 5, 12
_AVAILABLE = 0.78  # the share of variants that can be had

Record = dict[str, Any]


@lru_cache(maxsize=16)
def database(world: int) -> Database:
    """Generate a world's database, cached: 50 products, 300 customers, about 950 orders."""
    rng = Random(f"tau2/retail/{world}")
    goods = products(rng)
    order_ids = iter(codes(rng, USERS * _MOST_ORDERS, 7))
    tracking = iter(codes(rng, USERS * _MOST_ORDERS, 12))
    users: dict[str, Record] = {}
    orders: dict[str, Record] = {}
    for person, code in zip(people(rng, USERS), codes(rng, USERS, 4), strict=True):
        user = _user(rng, person, code)
        for _ in range(rng.randrange(2, _MOST_ORDERS)):
            order = _order(rng, f"#W{next(order_ids)}", user, goods)
            _ship(order, next(tracking))
            _finish(rng, order, user, goods)
            orders[order["order_id"]] = order
            user["orders"].append(order["order_id"])
        users[user["user_id"]] = user
    tables = {"products": goods, "users": users, "orders": orders}
    return databases_of("retail", tables)[0]


def products(rng: Random) -> dict[str, Record]:
    """Return the goods of retail_goods.json by id, each with 6 to 12 variants whose prices all differ."""
    goods = json.loads(files(__package__).joinpath("retail_goods.json").read_text(encoding="utf-8"))
    items = iter(codes(rng, _MOST_VARIANTS * len(goods), 10))
    records = {}
    for row, product_id in zip(goods, codes(rng, len(goods), 10), strict=True):
        variants = _variants(rng, row, [next(items) for _ in range(_MOST_VARIANTS)])
        records[product_id] = {"name": row["name"], "product_id": product_id, "variants": variants}
    return records


def _variants(rng: Random, row: Record, ids: list[str]) -> Record:
    """Draw a product's 6 or more variants by item id, at different prices; the first three are always available."""
    low, high = row["prices"]
    combinations = list(product(*row["options"].values()))
    sample = rng.sample(combinations, min(len(combinations), rng.randrange(6, _MOST_VARIANTS + 1)))
    # No price is a round number of dimes, so that every sum says its cents as plain as any tool writes them.
    cents = [place // 9 * 10 + place % 9 + 1 for place in rng.sample(range(low * 90, high * 90), len(sample))]
    absent = {place for place in range(len(sample)) if rng.random() > _AVAILABLE}
    return {
        item_id: {
            "item_id": item_id, "options": dict(zip(row["options"], values, strict=True)),
            "available": place not in absent or place < 3, "price": cents[place] / 100,
        }
        for place, (item_id, values) in enumerate(zip(ids, sample, strict=False))
    }  # fmt: skip


def _user(rng: Random, person: Person, code: str) -> Record:
    """Draw a customer with one or two cards, and perhaps a PayPal account and a gift card; no orders yet."""
    methods = [_card(rng) for _ in range(rng.choice((1, 1, 2)))]
    if rng.random() < 0.5:
        methods.append({"source": "paypal", "id": f"paypal_{digits(rng, 7)}"})
    if rng.random() < 0.65:
        balance = rng.randrange(1_000, 60_000) // 10 * 10 + rng.randrange(1, 10)
        methods.append({"source": "gift_card", "id": f"gift_card_{digits(rng, 7)}", "balance": balance / 100})
    rng.shuffle(methods)
    return {
        "user_id": user_id(person, code), "name": {"first_name": person.first, "last_name": person.last},
        "address": address(rng), "email": email(rng, person, code),
        "payment_methods": {method["id"]: method for method in methods}, "orders": [],
    }  # fmt: skip


def _card(rng: Random) -> Record:
    """Draw a credit card, without looking at others' numbers."""
    return {
        "source": "credit_card", "id": f"credit_card_{digits(rng, 7)}", "brand": rng.choice(CARD_BRANDS),
        "last_four": digits(rng, 4),
    }  # fmt: skip


def _order(rng: Random, order_id: str, user: Record, goods: dict[str, Record]) -> Record:
    """Draw an order as it is placed: one to five products, status, address (mostly the user's), and one payment for all."""
    names, weights = zip(*_STATUSES, strict=True)
    bought = [goods[product_id] for product_id in rng.sample(list(goods), rng.choice((1, 2, 2, 3, 3, 4, 5)))]
    items = [_item(product, rng.choice(list(product["variants"].values()))) for product in bought]
    method = rng.choice(list(user["payment_methods"].values()))
    return {
        "order_id": order_id, "user_id": user["user_id"],
        "address": address(rng) if rng.random() < 0.15 else dict(user["address"]), "items": items,
        "status": rng.choices(names, weights)[0], "fulfillments": [],
        "payment_history": [_paid("payment", total(items), method["id"])],
    }  # fmt: skip


def _item(product: Record, variant: Record) -> Record:
    """Return an item of an order: the product in one of its variants."""
    return {
        "name": product["name"], "product_id": product["product_id"], "item_id": variant["item_id"],
        "price": variant["price"], "options": dict(variant["options"]),
    }  # fmt: skip


def _paid(kind: str, amount: float, method_id: str) -> Record:
    """Return an entry of a payment history."""
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def total(items: list[Record] | tuple[Record, ...]) -> float:
    """Return the total price of items."""
    amount: float = round(sum(item["price"] for item in items), 2)
    return amount


def _ship(order: Record, tracking_id: str) -> None:
    """Enter an order's parcel, in place, where its status says that it was shipped; nothing otherwise."""
    if order["status"] in _SHIPPED:
        ids = [item["item_id"] for item in order["items"]]
        order["fulfillments"] = [{"tracking_id": [tracking_id], "item_ids": ids}]


def _finish(rng: Random, order: Record, user: Record, goods: dict[str, Record]) -> None:
    """Add, in place, what an order has by its status: a refund, return, exchange or changed items; nothing for others."""
    paid = order["payment_history"][0]
    if order["status"] == "cancelled":
        order["cancel_reason"] = rng.choice(("no longer needed", "ordered by mistake"))
        order["payment_history"].append({**paid, "transaction_type": "refund"})
    elif order["status"] == "return requested":
        order["return_items"] = [rng.choice(order["items"])["item_id"]]
        order["return_payment_method_id"] = paid["payment_method_id"]
    elif order["status"] in ("exchange requested", "pending (item modified)"):
        item = rng.choice(order["items"])
        others = goods[item["product_id"]]["variants"].values()
        new = rng.choice(
            [variant for variant in others if variant["item_id"] != item["item_id"] and variant["available"]]
        )
        difference, method_id = round(new["price"] - item["price"], 2), rng.choice(list(user["payment_methods"]))
        if order["status"] == "exchange requested":
            order["exchange_items"], order["exchange_new_items"] = [item["item_id"]], [new["item_id"]]
            order["exchange_payment_method_id"], order["exchange_price_difference"] = method_id, difference
            return
        kind = "payment" if difference > 0 else "refund"
        order["payment_history"].append(_paid(kind, abs(difference), method_id))
        item.update(item_id=new["item_id"], price=new["price"], options=dict(new["options"]))
