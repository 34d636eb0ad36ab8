"""`Effect` is one wish of a generated shop's customer, with the calls that grant it, and `Case` is that customer.

A wish is worded once, with marks for the person who speaks: `{I} want {my} order` is "I want my order" of the user itself and
"you want your order" in a scenario.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from agent_envs.envs.tau2.database import Table
from agent_envs.envs.tau2.task_generator.retail_world import Record

_VOICES = (
    {"I": "I", "my": "my", "me": "me", "am": "am", "have": "have"},
    {"I": "you", "my": "your", "me": "you", "am": "are", "have": "have"},
)
_START = re.compile(r"(^|[.!?] )([a-z])")
Calls = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Words:
    """One wording in the two voices: the user's own, and the scenario's."""

    own: str
    told: str


def said(template: str, **values: str) -> Words:
    """Return a wording in both voices; values stand in braces, too, and may have marks of their own."""
    texts = [_spelled(template, values, voice) for voice in _VOICES]
    return Words(*(_START.sub(lambda found: found[1] + found[2].upper(), text) for text in texts))


def _spelled(template: str, values: dict[str, str], voice: dict[str, str]) -> str:
    text = template.format(**voice, **{name: value.format(**voice) for name, value in values.items()})
    return text if voice is _VOICES[0] else text.replace("please ", "you ask the agent to ")


@dataclass(frozen=True, slots=True)
class Detail:
    """Something that the user tells when it is asked: its topic, the words, and the value alone where it can be checked."""

    topic: str
    words: Words
    value: str = ""


@dataclass(frozen=True)
class Effect:
    """One want, and what grants it.

    Attributes:
        say: how it is asked for.
        details: what is told when it is asked for.
        actions: the calls that grant it, reads included.
        tells: figures that the agent must tell.
        signs: words by which the user sees that it was granted.
        uses: what no other want of the task may touch: orders, "gift", "home".
        refund: what the customer gets back.
        question, only_if_refused, insists, declines, objection: as in `user_script.Want`.
    """

    say: Words
    details: tuple[Detail, ...]
    actions: Calls
    uses: frozenset[str]
    tells: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    refund: float = 0.0
    question: bool = False
    only_if_refused: bool = False
    insists: int = 0
    declines: tuple[str, ...] = ()
    objection: str = ""


@dataclass(frozen=True)
class Case:
    """A customer for whom wants are sought.

    Attributes:
        rng: what everything is drawn from.
        tables: the shop's database.
        user: the customer.
        others: ids of customers of the same split.
        used: what the wants so far touch.
        vague: the customer knows no order numbers.
    """

    rng: Random
    tables: dict[str, Table]
    user: Record
    others: Sequence[str]
    used: frozenset[str] = frozenset()
    vague: bool = False

    @property
    def methods(self) -> list[Record]:
        """The customer's payment methods."""
        return list(self.user["payment_methods"].values())

    @property
    def all_orders(self) -> list[Record]:
        """The customer's orders."""
        return [self.tables["orders"][order_id] for order_id in self.user["orders"]]

    def choose(self, status: str, least: int = 1) -> tuple[Record, Record] | None:
        """Return an order of a status that is free, and an item of it that names it among all of the customer's."""
        names = [item["name"] for order in self.all_orders for item in order["items"]]
        found = [
            (order, item)
            for order in self.all_orders if order["status"] == status and order["order_id"] not in self.used
            for item in order["items"] if names.count(item["name"]) == 1 and len(order["items"]) >= least
        ]  # fmt: skip
        return self.rng.choice(found) if found else None

    def paid_with(self, order: Record) -> Record:
        """Return the payment method with which the customer paid an order."""
        method: Record = self.user["payment_methods"][order["payment_history"][0]["payment_method_id"]]
        return method

    def named(self, order: Record, item: Record) -> tuple[str, Detail]:
        """Return how the customer names an order, and what it says when it is asked for the number."""
        name, order_id = plain(item["name"]), order["order_id"]
        if not self.vague:
            return f"order {order_id}", Detail("order", said("the order number is {id}.", id=order_id), order_id)
        unknown = self.rng.choice((
            "{I} do not have the order number at hand; it is the order with the {item}.",
            "{I} do not know the number, but the {item} was in it.",
        ))  # fmt: skip
        return f"the order with the {name}", Detail("order", said(unknown, item=name))


def plain(name: str) -> str:
    """Return a product's name as people write it in a sentence: "desk lamp", but "USB hub" and "T-shirt"."""
    return " ".join(
        word if sum(map(str.isupper, word)) > 1 and "-" not in word else _lower(word) for word in name.split()
    )


def _lower(word: str) -> str:
    return "T-shirt" if word == "T-Shirt" else word.lower()


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence lists them."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def tellable(amount: float) -> bool:
    """Return whether an amount has cents, so that everybody writes it alike."""
    return not figure(amount).endswith(".0")


def figure(amount: float) -> str:
    """Return an amount as the tools write it, without a sign."""
    return str(round(abs(amount), 2))


def method_words(method: Record) -> str:
    """Return how a customer names one of its payment methods."""
    if method["source"] == "credit_card":
        return f"{{my}} {method['brand'].capitalize()} card ending in {method['last_four']}"
    return "{my} gift card" if method["source"] == "gift_card" else "{my} PayPal account"


def seen(order: Record, *products: str) -> Calls:
    """Return the calls that show an order and some products."""
    shown = [("get_product_details", {"product_id": product_id}) for product_id in dict.fromkeys(products)]
    return (("get_order_details", {"order_id": order["order_id"]}), *shown)


def touched(order: Record, *methods: Record) -> frozenset[str]:
    """Return what a want touches: an order, and the gift card where one pays or is paid."""
    return frozenset([order["order_id"], *("gift" for method in methods if method["source"] == "gift_card")])


Kind = Callable[[Case], tuple[Effect, ...]]
