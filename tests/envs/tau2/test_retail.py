"""Retail on a small shop of its own: each compat switch both ways, and rules that need no official data."""

import json
from dataclasses import replace

import pytest

from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.database import Database, same
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.retail import SHAPES, retail
from agent_envs.envs.tau2.toolkit import FRESH, call
from tests.envs.tau2.hashes import original_hash

ADDRESS = {"address1": "1 Loop", "address2": "", "city": "Byte", "country": "USA", "state": "CA", "zip": "90210"}


def variant(item_id, colour, price, available=True):
    return {"item_id": item_id, "options": {"colour": colour}, "available": available, "price": price}


def piece(item_id, product_id, colour, price):
    return {
        "name": product_id,
        "product_id": product_id,
        "item_id": item_id,
        "price": price,
        "options": {"colour": colour},
    }


def order(order_id, status, items):
    paid = {"transaction_type": "payment", "amount": sum(i["price"] for i in items), "payment_method_id": "card"}
    return {
        "order_id": order_id, "user_id": "ada", "address": ADDRESS, "items": items, "status": status,
        "payment_history": [paid], "fulfillments": [],
    }  # fmt: skip


CUP, POT = piece("11", "cup", "red", 10), piece("21", "pot", "red", 30)
METHODS = {
    "card": {"source": "credit_card", "id": "card", "brand": "visa", "last_four": "1111"},
    "gift": {"source": "gift_card", "id": "gift", "balance": 6},
    "pal": {"source": "paypal", "id": "pal"},
}
TABLES = {
    "products": {
        "cup": {
            "name": "Cup", "product_id": "cup",
            "variants": {
                "11": variant("11", "red", 10), "12": variant("12", "blue", 15.5), "13": variant("13", "x", 1, False),
            },
        },
        "pot": {
            "name": "Pot", "product_id": "pot",
            "variants": {"21": variant("21", "red", 30), "22": variant("22", "tin", 20.25)},
        },
    },
    "users": {
        "ada": {
            "user_id": "ada", "name": {"first_name": "Ada", "last_name": "Byron"}, "address": ADDRESS,
            "email": "Ada@example.org", "payment_methods": METHODS, "orders": ["#P", "#D"],
        },
    },
    "orders": {"#P": order("#P", "pending", [CUP, POT, CUP]), "#D": order("#D", "delivered", [CUP, POT])},
}  # fmt: skip
DATABASE = Database(
    "shop", {t: {k: shaped(row, SHAPES[t]) for k, row in rows.items()} for t, rows in TABLES.items()}
)  # fmt: skip
SHOP = retail(DATABASE)


def do(name, /, domain=SHOP, state=FRESH, **arguments):
    outcome, after = call(domain, state, "assistant", name, arguments)
    return (outcome.content if outcome.error else json.loads(outcome.content)), after


def modify(domain, pairs):
    old, new = zip(*pairs, strict=True)
    return do(
        "modify_pending_order_items",
        domain,
        order_id="#P",
        item_ids=[*old],
        new_item_ids=[*new],
        payment_method_id="card",
    )


@pytest.mark.parametrize("name", ["tau2-1.0.1", "fixed"])
def test_last_variant_for_all(name):
    domain = retail(DATABASE, Compat.from_name(name))
    result, state = modify(domain, [("11", "12"), ("21", "22")])
    items = [(item["item_id"], item["name"], item["price"], item["options"]["colour"]) for item in result["items"]]
    first = ("12", "cup", 20.25, "tin") if name == "tau2-1.0.1" else ("12", "cup", 15.5, "blue")
    assert items == [first, ("22", "pot", 20.25, "tin"), ("11", "cup", 10.0, "red")]
    assert result["status"] == "pending (item modified)"
    assert result["payment_history"][-1] == {"transaction_type": "refund", "amount": 4.25, "payment_method_id": "card"}
    _, turned = modify(domain, [("21", "22"), ("11", "12")])
    assert same(DATABASE, state.agent, turned.agent) == (name == "fixed")


def test_gift_cards_pay_and_are_paid():
    result, state = do(
        "modify_pending_order_items", order_id="#P", item_ids=["11"], new_item_ids=["12"], payment_method_id="gift"
    )
    assert result["payment_history"][-1] == {"transaction_type": "payment", "amount": 5.5, "payment_method_id": "gift"}
    assert state.agent.tables["users"]["ada"]["payment_methods"]["gift"]["balance"] == 0.5
    text, same_state = do(
        "modify_pending_order_items",
        order_id="#P",
        item_ids=["11", "11"],
        new_item_ids=["12", "12"],
        payment_method_id="gift",
    )
    assert text == "Error: Insufficient gift card balance to pay for the new item" and same_state is FRESH
    assert do("modify_pending_order_payment", order_id="#P", payment_method_id="gift")[0] == (
        "Error: Insufficient gift card balance to pay for the order"
    )


def test_cancelling_refunds_every_entry_of_the_history():
    _, state = do("modify_pending_order_payment", order_id="#P", payment_method_id="pal")
    result, state = do("cancel_pending_order", state=state, order_id="#P", reason="no longer needed")
    kinds = [(entry["transaction_type"], entry["payment_method_id"]) for entry in result["payment_history"]]
    paid = [("payment", "card"), ("payment", "pal"), ("refund", "card")]
    assert kinds == [*paid, *(("refund", method) for _, method in paid)]
    assert do("cancel_pending_order", state=state, order_id="#P", reason="no longer needed")[0] == (
        "Error: Non-pending order cannot be cancelled"
    )


EXCHANGE, RETURN = "exchange_delivered_order_items", "return_delivered_order_items"


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        (EXCHANGE, {"item_ids": ["11", "11"], "new_item_ids": ["12"]}, "Number of 11 not found."),
        (EXCHANGE, {"item_ids": ["11"], "new_item_ids": []}, "The number of items to be exchanged should match."),
        (EXCHANGE, {"item_ids": ["11"], "new_item_ids": ["22"]}, "Variant not found"),
        (EXCHANGE, {"item_ids": ["11"], "new_item_ids": ["13"]}, "New item 13 not found or available"),
        (RETURN, {"item_ids": ["11", "12"]}, "Some item not found"),
        (RETURN, {"item_ids": [], "payment_method_id": "pal"}, "Payment method should be the original payment method"),
        (RETURN, {"item_ids": [], "payment_method_id": "none"}, "Payment method not found"),
    ],
)
def test_delivered_orders_are_checked(name, arguments, text):
    result, state = do(name, order_id="#D", **{"payment_method_id": "card"} | arguments)
    assert result == f"Error: {text}" and state is FRESH


def test_empty_exchanges_keep_whole_number_and_lists_are_sorted():
    result, state = do(
        "exchange_delivered_order_items", order_id="#D", item_ids=[], new_item_ids=[], payment_method_id="card"
    )
    assert repr(result["exchange_price_difference"]) == "0" and result["exchange_items"] == []
    result, _ = do("return_delivered_order_items", order_id="#D", item_ids=["21", "11"], payment_method_id="gift")
    assert result["return_items"] == ["11", "21"] and result["status"] == "return requested"
    assert original_hash(DATABASE, state.agent) != original_hash(DATABASE, FRESH.agent)


def test_look_ups():
    assert call(SHOP, FRESH, "assistant", "find_user_id_by_email", {"email": "ADA@EXAMPLE.ORG"})[0].content == "ada"
    found = {"first_name": "ada", "last_name": "BYRON", "zip": "90210"}
    assert call(SHOP, FRESH, "assistant", "find_user_id_by_name_zip", found)[0].content == "ada"
    assert do("find_user_id_by_name_zip", first_name="Eva", last_name=5, zip="1")[0] == "Error: User not found"
    assert do("get_item_details", item_id="22")[0]["price"] == 20.25
    assert do("list_all_product_types")[0] == {"Cup": "cup", "Pot": "pot"}
    assert do("get_order_details", order_id="#X")[0] == "Error: Order not found"
    outcome, state = call(SHOP, FRESH, "assistant", "modify_user_address", {"user_id": "ada", **ADDRESS, "zip": 5})
    assert outcome.error and outcome.kind == "other" and state is FRESH


def test_fixed_and_original_share_one_database_and_one_kit():
    fixed = replace(SHOP, compat=Compat.from_name("fixed"))
    assert fixed.agent_database is DATABASE and fixed.assistant is SHOP.assistant
    assert len(SHOP.assistant.tools) == 16
    writes = {name for name, tool in SHOP.assistant.tools.items() if tool.writes}
    assert len(writes) == 7 and all(name.split("_")[0] in ("cancel", "exchange", "modify", "return") for name in writes)
