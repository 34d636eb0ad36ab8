"""`Desk` holds what the shop's rule-based agent knows at one moment of a conversation, and `Step` what it may do next."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agent_envs.envs.tau2.heuristics.reading import Talk, refuses
from agent_envs.envs.tau2.heuristics.retail_wishes import Record, Wish, mentioned, method_of, order_ids, wish_of

CLOSING = "Is there anything else I can do for you?"
GO_AHEAD = "Shall I go ahead (yes/no)?"
_STATUS = {
    "cancel": ("pending",), "remove": ("pending",), "address": ("pending",), "payment": ("pending",),
    "return": ("delivered",), "swap": ("delivered", "pending"), "paid": (), "tracking": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next: `ask` or `tell` the text, `refuse` with it, `look` up by calls, or `act` by one call after a yes."""

    kind: str
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


class Unclear(Exception):
    """A wish cannot be served yet, or not at all; the step says what to do about it."""

    def __init__(self, kind: str, text: str = "", *calls: tuple[str, dict[str, Any]]) -> None:
        self.step = Step(kind, text, calls)


class Desk:
    """What the agent knows of the shop and its customer: the newest of all that the tools showed."""

    def __init__(self, talk: Talk) -> None:
        """Read the results."""
        self.talk = talk
        self.user: Record | None = None
        self.orders: dict[str, Record] = {}
        self.products: dict[str, Record] = {}
        self.names: dict[str, str] = {}
        for call in talk.calls:
            if isinstance(call.value, dict):
                self._keep(call.name, call.value)

    def _keep(self, tool: str, value: Record) -> None:
        if "payment_methods" in value:
            self.user = value
        elif "order_id" in value:
            self.orders[value["order_id"]] = value
        elif "variants" in value:
            self.products[value["product_id"]] = value
        elif tool == "list_all_product_types":
            self.names = value

    @cached_property
    def methods(self) -> list[Record]:
        """The customer's payment methods."""
        return list(self.user["payment_methods"].values()) if self.user else []

    @cached_property
    def wish(self) -> Wish:
        """What the customer wants now: the first wish since the last one was settled or a proposal was declined."""
        return wish_of(self.talk.since(self.start))

    @cached_property
    def start(self) -> int:
        """Where in the user's words the wish in hand begins."""
        start, user = 0, self.talk.user
        for text, before in zip(self.talk.own, self.talk.spoken, strict=True):
            declined = GO_AHEAD in text and before < len(user) and refuses(user[before])
            if CLOSING in text or declined:
                start = before
        return start

    def order(self) -> Record:
        """Return the order that the wish is about: by its number, else by what was in it."""
        kind, text = self.wish.kind, self.wish.text
        found = [number for number in order_ids(text) if number in self.orders]
        if order_ids(text) and not found:
            raise Unclear("refuse", f"order {order_ids(text)[-1]} is none of yours.")
        if found:
            return self.orders[found[-1]]
        fitting = [order for order in self.orders.values() if order["status"] in (_STATUS[kind] or (order["status"],))]
        return self._best(text, fitting) or self._best(text, list(self.orders.values())) or self._unknown()

    def _best(self, text: str, orders: list[Record]) -> Record | None:
        """Return the one order with the most items that a text names; None where there is no one."""
        scores = [(len(mentioned(text, order["items"])), order) for order in orders]
        most = max((score for score, _ in scores), default=0)
        best = [order for score, order in scores if score == most]
        return best[0] if most and len(best) == 1 else None

    def _unknown(self) -> Record:
        raise Unclear("ask", "Which order is it about? Please tell me the order number, or what was in it.")

    def needs(self, order: Record, *statuses: str) -> None:
        """Refuse where an order is in none of some statuses."""
        if order["status"] not in statuses:
            raise Unclear("refuse", f"order {order['order_id']} is {order['status']}, so that cannot be done with it.")

    def items(self, order: Record) -> list[Record]:
        """Return the items that the wish is about."""
        found = mentioned(self.wish.text, order["items"]) or (order["items"] if len(order["items"]) == 1 else [])
        if not found:
            raise Unclear("ask", "Which items of the order is it about?")
        return list(found)

    def method(self, original: str = "") -> Record:
        """Return the payment method that the wish names."""
        found = method_of(self.wish.text, self.methods, original)
        if not found:
            raise Unclear("ask", "Which payment method do you want to use for that?")
        return next(method for method in self.methods if method["id"] == found)

    def product(self, product_id: str) -> Record:
        """Return a product, or have it looked up."""
        if product_id not in self.products:
            raise Unclear("look", "", ("get_product_details", {"product_id": product_id}))
        return self.products[product_id]
