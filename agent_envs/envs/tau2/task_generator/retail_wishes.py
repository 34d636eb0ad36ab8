"""The generated shop's customers want orders changed, cancelled, returned or sent elsewhere, or ask questions.

A kind of wish is a function of a `Case`, the customer, that returns its pieces; it raises `Unfit` where the customer has
nothing of the sort.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from agent_envs.envs.tau2.database import Table
from agent_envs.envs.tau2.task_generator.names import address, on_one_line
from agent_envs.envs.tau2.task_generator.retail_world import Record, total
from agent_envs.envs.tau2.task_generator.wishes import Action, Piece, Unfit, listed, need, wordings
from agent_envs.envs.tau2.user_script import Fact

WORDS = wordings("retail")
NO_LONGER_NEEDED = Fact("reason", "<I> no longer need it.")
ORIGINAL = "the payment method that <I> used for it"
Pieces = tuple[Piece, ...]


@dataclass(frozen=True)
class Case:
    """A customer for whom wishes are drawn.

    Attributes:
        rng: what everything is drawn from.
        tables: the shop's database.
        user: the customer.
        others: ids of customers of the same split.
        used: what the wishes so far touch.
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
    def gift_cards(self) -> list[Record]:
        """The customer's gift cards: at most one."""
        return [method for method in self.methods if method["source"] == "gift_card"]

    @property
    def payers(self) -> list[Record]:
        """The payment methods that keep no balance."""
        return [method for method in self.methods if method["source"] != "gift_card"]

    @property
    def all_orders(self) -> list[Record]:
        """The customer's orders."""
        return [self.tables["orders"][order_id] for order_id in self.user["orders"]]

    def choose(self, status: str, least: int = 1) -> tuple[Record, Record]:
        """Return a free order of a status with `least` items, and an item of it that no other order has; or Unfit."""
        names = [item["name"] for order in self.all_orders for item in order["items"]]
        pairs = [
            (order, item)
            for order in self.all_orders if order["status"] == status and order["order_id"] not in self.used
            for item in order["items"] if names.count(item["name"]) == 1 and len(order["items"]) >= least
        ]  # fmt: skip
        return self.rng.choice(need(pairs))

    def say(self, name: str, /, **slots: str) -> str:
        """Return one of the wordings of a name."""
        return str(self.rng.choice(WORDS[name]).format(**slots))

    def paid_with(self, order: Record) -> Record:
        """Return the payment method with which the customer paid an order."""
        method: Record = self.user["payment_methods"][order["payment_history"][0]["payment_method_id"]]
        return method

    def label(self, order: Record, item: Record) -> tuple[str, Fact]:
        """Return the customer's words for an order, its number or (vague) an item, and the fact that answers for its number."""
        name, order_id = plain(item["name"]), order["order_id"]
        if not self.vague:
            return f"order {order_id}", Fact("order", f"the order number is {order_id}.", order_id)
        return f"the order with the {name}", Fact("order", self.say("unknown", item=name))

    def touching(self, order: Record, *methods: Record) -> frozenset[str]:
        """Return the keys that a wish touches; Unfit is raised where another wish touches one already."""
        uses = touched(order, *methods)
        need(not uses & self.used)
        return uses


Kind = Callable[[Case], Pieces]


def plain(name: str) -> str:
    """Return a product's name as written in a sentence: "desk lamp", but "USB hub" and "T-shirt"."""
    if name == "T-Shirt":
        return "T-shirt"
    return " ".join(
        word if sum(map(str.isupper, word)) > 1 and "-" not in word else word.lower() for word in name.split()
    )


def tellable(amount: float) -> bool:
    """Return whether an amount has cents, so that everybody writes it alike."""
    return not figure(amount).endswith(".0")


def figure(amount: float) -> str:
    """Return an amount as the tools write it, without a sign."""
    return str(round(abs(amount), 2))


def method_words(method: Record) -> str:
    """Return the customer's words for a method: a card by brand and digits, else "gift card" or "PayPal account"."""
    if method["source"] == "credit_card":
        return f"<my> {method['brand'].capitalize()} card ending in {method['last_four']}"
    return "<my> gift card" if method["source"] == "gift_card" else "<my> PayPal account"


def lookups(order: Record, *products: str) -> tuple[Action, ...]:
    """Return the calls that show an order and some products."""
    calls = [("get_product_details", {"product_id": product_id}) for product_id in dict.fromkeys(products)]
    return (("get_order_details", {"order_id": order["order_id"]}), *calls)


def touched(order: Record, *methods: Record) -> frozenset[str]:
    """Return the keys that a wish touches: an order, and the gift card where one pays or is paid."""
    return frozenset([order["order_id"], *("gift" for method in methods if method["source"] == "gift_card")])


# Addresses


def order_address(case: Case) -> Pieces:
    """Draw a wish to send a pending order to a new address or, if vague and it differs, the profile's; Unfit without one."""
    order, item = case.choose("pending")
    home = case.user["address"]
    if case.vague and order["address"] != home and "home" not in case.used:
        where = "<my> default address, the one in <my> profile"
        return (sent_to(case, order, item, home, where, touched(order) | {"home"}),)
    return (sent_anywhere(case, order, item, touched(order)),)


def sent_anywhere(case: Case, order: Record, item: Record, uses: frozenset[str]) -> Piece:
    """Return the wish to have an order sent to some new address."""
    place = address(case.rng)
    return sent_to(case, order, item, place, on_one_line(place), uses)


def sent_to(case: Case, order: Record, item: Record, place: Record, where: str, uses: frozenset[str]) -> Piece:
    """Return the wish to have an order sent to `place`, which `where` names."""
    words, number = case.label(order, item)
    say = case.say("address", order=words, where=where)
    facts = (number, Fact("address", f"the new address is {where}."))
    return Piece(say, facts, _send_to(order, place), signs=("address",), uses=uses)


def _send_to(order: Record, place: Record) -> tuple[Action, ...]:
    """Return the actions that change an order's address, with the look-ups before them."""
    return (*lookups(order), ("modify_pending_order_address", {"order_id": order["order_id"], **place}))


def home_address(case: Case) -> Pieces:
    """Draw a wish to change the profile's address, if vague with pending orders'; Unfit if it is touched already."""
    need("home" not in case.used)
    place = address(case.rng)
    where = on_one_line(place)
    piece = Piece(
        case.say("home", where=where), (Fact("address", f"the new address is {where}."),),
        (("modify_user_address", {"user_id": case.user["user_id"], **place}),), signs=("address",), uses=frozenset(["home"]),
    )  # fmt: skip
    return (_with_order_moves(case, piece, place) if case.vague else piece,)


def _with_order_moves(case: Case, piece: Piece, place: Record) -> Piece:
    """Return the wish for the profile's address with a pending order, or all if free, added; unchanged where none is free."""
    try:
        order, item = case.choose("pending")
    except Unfit:
        return piece
    pending = [order for order in case.all_orders if order["status"] == "pending"]
    free = all(order["order_id"] not in case.used for order in pending)
    orders, more = [order], f"<my> pending order with the {plain(item['name'])} should go there, too."
    if free and len(pending) > 1:
        orders, more = pending, "all of <my> pending orders should go there, too."
    sent = [call for order in orders for call in _send_to(order, place)]
    uses = piece.uses.union(*map(touched, orders))
    return replace(piece, say=f"{piece.say} {more}", actions=(*piece.actions, *sent), uses=uses)


# Other variants, other payment methods


def other_variant(case: Case, item: Record, cheapest: bool) -> tuple[Record, str] | None:
    """Return an available variant, the cheapest or one with at most two changes, and words for it; None without one."""
    variants = case.tables["products"][item["product_id"]]["variants"].values()
    others = [variant for variant in variants if variant["available"] and variant["item_id"] != item["item_id"]]
    if cheapest:
        return _cheapest_variant(case, item, others)
    near = [variant for variant in others if len(_changes(item, variant)) <= 2]
    if not near:
        return None
    new = case.rng.choice(near)
    form = case.rng.choice(("{axis} {value} instead of {old}", "{axis} {value}"))
    changes = _changes(item, new)
    words = [form.format(axis=axis, value=new["options"][axis], old=item["options"][axis]) for axis in changes]
    # Left unsaid only where nothing else fits the words.
    alike = [variant for variant in others if all(variant["options"][axis] == new["options"][axis] for axis in changes)]
    endings = (" and everything else as it is", " but otherwise the same", "")
    same = case.rng.choice(endings[: 3 if len(alike) == 1 else 2])
    return new, f"the one with {listed(words)}{same}"


def _cheapest_variant(case: Case, item: Record, others: list[Record]) -> tuple[Record, str] | None:
    """Return the cheapest variant, of all or with one drawn option, and its words; None where none of all is cheaper."""
    values = {axis: one["options"][axis] for one in others for axis in _changes(item, one)}
    axis = case.rng.choice([*sorted(values), "", ""])
    able = [one for one in others if not axis or one["options"][axis] == values[axis]]
    new = min(able, key=lambda one: float(one["price"]))
    if axis:
        return new, f"the cheapest available one with {axis} {values[axis]}, whatever its other options are"
    return (new, "the cheapest one that is available") if new["price"] < item["price"] else None


def _changes(item: Record, variant: Record) -> list[str]:
    """Return the options in which a variant differs from an item."""
    return [axis for axis, value in variant["options"].items() if item["options"][axis] != value]


def swap(case: Case) -> Pieces:
    """Draw a wish to exchange an item of a delivered order, of a vague customer one or two; Unfit without one."""
    return _swap_wish(case, "delivered", 2 if case.vague else 1)


def change_item(case: Case) -> Pieces:
    """Draw a wish for another variant of an item of a pending order; one alone, because the original mixes up several."""
    return _swap_wish(case, "pending", 1)


def _swap_wish(case: Case, status: str, most: int) -> Pieces:
    """Return the wish for other variants of 1 to `most` items of an order; Unfit without one, a payer or cents to tell."""
    order, item = case.choose(status)
    items = [item, *(other for other in order["items"] if other is not item)][: case.rng.randrange(1, most + 1)]
    variants = [other_variant(case, one, case.vague and case.rng.random() < 0.4) for one in items]
    pairs = [(one, new[0], new[1]) for one, new in zip(items, variants, strict=True) if new is not None]
    need(pairs and pairs[0][0] is item)
    difference = sum(new["price"] - one["price"] for one, new, _ in pairs)
    able = [card for card in case.gift_cards if "gift" not in case.used and card["balance"] >= difference]
    method = case.rng.choice(need(case.payers + able))
    need(tellable(difference))
    return (swapped(case, order, pairs, method, status == "pending"),)


def swapped(case: Case, order: Record, pairs: list[tuple[Record, Record, str]], method: Record, pending: bool) -> Piece:
    """Return the wish for other variants (item, variant, words) of an order's items, in half the cases with the difference."""
    words, number = case.label(order, pairs[0][0])
    names = [plain(item["name"]) for item, _, _ in pairs]
    new_words = listed(f"the {name} for {text}" for name, (_, _, text) in zip(names, pairs, strict=True))
    verb = case.rng.choice(("change", "switch", "modify") if pending else ("exchange", "swap", "exchange"))
    place = f"In {words}"
    if case.vague:
        place = f"In <my> pending order with the {names[0]}" if pending else "In <my> delivered order"
    asks, payer = case.rng.random() < 0.5, method_words(method)
    say = case.say("items", place=place, verb=verb, items=new_words, payer=payer)
    facts = (
        number, Fact("items", f"only {listed(f'the {name}' for name in names)}."),
        Fact("options", f"<I> want to {verb} {new_words}."), Fact("payment", f"please use {payer}."),
    )  # fmt: skip
    arguments = {
        "order_id": order["order_id"], "item_ids": [item["item_id"] for item, _, _ in pairs],
        "new_item_ids": [new["item_id"] for _, new, _ in pairs], "payment_method_id": method["id"],
    }  # fmt: skip
    tool = "modify_pending_order_items" if pending else "exchange_delivered_order_items"
    piece = Piece(
        say, facts, (*lookups(order, *(item["product_id"] for item, _, _ in pairs)), (tool, arguments)),
        signs=("exchange", "change", "modif", "swap", "switch"), uses=touched(order, *([method] if pending else [])),
    )  # fmt: skip
    difference = sum(new["price"] - item["price"] for item, new, _ in pairs)
    return _with_question(piece, difference, "<I> also want to know the difference in price.") if asks else piece


def _with_question(piece: Piece, amount: float, question: str) -> Piece:
    """Return a wish with a question for an amount added."""
    return replace(piece, say=f"{piece.say} {question}", answers=(figure(amount),))


def pay_otherwise(case: Case) -> Pieces:
    """Draw a wish to pay a pending order by another method that can; Unfit without one."""
    order, item = case.choose("pending")
    amount, former = order["payment_history"][0]["amount"], case.paid_with(order)
    able = [
        method for method in case.methods
        if method is not former and (method["source"] != "gift_card" or method["balance"] >= amount)
    ]  # fmt: skip
    method = case.rng.choice(need(able))
    return (paying(case, order, item, method, method_words(method), case.touching(order, former, method)),)


def paying(case: Case, order: Record, item: Record, method: Record, wish: str, uses: frozenset[str]) -> Piece:
    """Return the wish to have an order paid by `method`, as `wish` words it."""
    words, number = case.label(order, item)
    call = ("modify_pending_order_payment", {"order_id": order["order_id"], "payment_method_id": method["id"]})
    say = case.say("payment", order=words, wish=wish)
    facts = (number, Fact("payment", f"please use {wish}."))
    return Piece(say, facts, (*lookups(order), call), signs=("payment",), uses=uses)


# Money back


def cancel(case: Case) -> Pieces:
    """Draw a wish to cancel a pending order."""
    order, item = case.choose("pending")
    return (cancelling(case, order, item, case.touching(order, case.paid_with(order))),)


def cancelling(case: Case, order: Record, item: Record, uses: frozenset[str]) -> Piece:
    """Return the wish to cancel an order for a reason that counts, in half the cases with the question for the refund."""
    reason = case.rng.choice(list(WORDS["reasons"]))
    why = case.rng.choice(WORDS["reasons"][reason])
    words, number = case.label(order, item)
    amount = order["payment_history"][0]["amount"]
    asks = case.rng.random() < 0.5 and tellable(amount)
    piece = Piece(
        case.say("cancel", order=words, why=why), (number, Fact("reason", f"{why}.")), cancelled(order, reason),
        signs=("cancel",), uses=uses, refund=amount,
    )  # fmt: skip
    return _with_question(piece, amount, "<I> also want to know how much money comes back to <me>.") if asks else piece


def cancelled(order: Record, reason: str = "no longer needed") -> tuple[Action, ...]:
    """Return the calls that cancel an order."""
    return (*lookups(order), ("cancel_pending_order", {"order_id": order["order_id"], "reason": reason}))


def give_back(case: Case) -> Pieces:
    """Draw a wish to return a delivered order's items: named ones, or (vague) all but one or the dearest; or Unfit."""
    order, item = case.choose("delivered")
    items = [item, *(other for other in order["items"] if other is not item and case.rng.random() < 0.35)]
    original = case.paid_with(order)
    method = case.rng.choice([original, *(card for card in case.gift_cards if card is not original)])
    where = ORIGINAL if case.vague and method is original else method_words(method)
    if case.vague and len(order["items"]) > 1 and case.rng.random() < 0.5:
        return (_worked_out(case, order, item, method, where),)
    return (returning(case, order, items, method, where),)


def _worked_out(case: Case, order: Record, item: Record, method: Record, where: str) -> Piece:
    """Return the wish to give back items told without names: all but one, or the most expensive."""
    rest = [other for other in order["items"] if other is not item]
    dearest = max(order["items"], key=lambda other: float(other["price"]))
    names, items = case.rng.choice((
        (f"all of it but the {plain(item['name'])}", rest), (f"everything except the {plain(item['name'])}", rest),
        ("whatever was the most expensive thing in it", [dearest]),
    ))  # fmt: skip
    words, _ = case.label(order, item)
    say = case.say("return_unnamed", order=words, items=names, where=where)
    return _return_wish(case, (order, items, method), (say, names, where), item)


def returning(case: Case, order: Record, items: list[Record], method: Record, where: str) -> Piece:
    """Return the wish to give back named items of a delivered order, with the refund to a method that `where` names."""
    words, _ = case.label(order, items[0])
    names = listed("the " + plain(item["name"]) for item in items)
    say = case.say("return_vaguely" if case.vague else "return", items=names, order=words, where=where)
    return _return_wish(case, (order, items, method), (say, names, where), items[0])


def _return_wish(
    case: Case, what: tuple[Record, list[Record], Record], worded: tuple[str, str, str], item: Record
) -> Piece:  # fmt: skip
    """Return the wish to give back items, its words given (whole, items, method), in half the cases with the refund asked."""
    (order, items, method), (say, names, where) = what, worded
    amount = total(items)
    asks = case.rng.random() < 0.5 and tellable(amount)
    facts = (
        case.label(order, item)[1], Fact("items", f"it is about {names}."),
        Fact("payment", f"the refund should go to {where}."),
    )  # fmt: skip
    actions = (*lookups(order), returned(order, items, method["id"]))
    piece = Piece(say, facts, actions, signs=("return",), uses=touched(order), refund=amount)
    return _with_question(piece, amount, "<I> also want to know how much <I> get back.") if asks else piece


def returned(order: Record, items: list[Record], method_id: str) -> Action:
    """Return the call that returns items of an order."""
    item_ids = [item["item_id"] for item in items]
    arguments = {"order_id": order["order_id"], "item_ids": item_ids, "payment_method_id": method_id}
    return ("return_delivered_order_items", arguments)


# Questions


def ask(case: Case) -> Pieces:
    """Draw a question."""
    return (case.rng.choice((_ask_paid, _ask_tracking, _ask_cheapest, _ask_balance))(case),)


def _ask_paid(case: Case) -> Piece:
    """Make a question for what was paid for an order."""
    order, item = case.choose(case.rng.choice(("delivered", "processed", "pending")), 2)
    return _ask_of(case, "paid", order, item, figure(order["payment_history"][0]["amount"]))


def _ask_tracking(case: Case) -> Piece:
    """Make a question for an order's tracking number."""
    order, item = case.choose(case.rng.choice(("delivered", "processed")))
    return _ask_of(case, "tracking", order, item, order["fulfillments"][0]["tracking_id"][0])


def _ask_of(case: Case, name: str, order: Record, item: Record, answer: str) -> Piece:
    """Make a question about an order of an item, with the answer that the agent must tell."""
    words, number = case.label(order, item)
    return Piece(case.say(name, order=words), (number,), lookups(order), (answer,), question=True, uses=touched(order))


def _ask_cheapest(case: Case) -> Piece:
    """Return the question for the lowest price of any product's available variants."""
    product = case.rng.choice(list(case.tables["products"].values()))
    price = min(variant["price"] for variant in product["variants"].values() if variant["available"])
    name, product_id = plain(product["name"]), product["product_id"]
    reads = (("list_all_product_types", dict[str, str]()), ("get_product_details", {"product_id": product_id}))
    return Piece(
        case.say("cheapest", item=name), (Fact("items", f"it is about the {name}."),), reads, (figure(price),),
        question=True, uses=frozenset([product_id]),
    )  # fmt: skip


def _ask_balance(case: Case) -> Piece:
    """Return the question for the gift card's balance; Unfit without one that is untouched."""
    need(case.gift_cards and "gift" not in case.used)
    read = ("get_user_details", {"user_id": case.user["user_id"]})
    balance = figure(case.gift_cards[0]["balance"])
    return Piece(case.say("balance"), (), (read,), (balance,), question=True, uses=frozenset(["gift"]))


WRITES: tuple[Kind, ...] = (cancel, give_back, swap, change_item, order_address, pay_otherwise, home_address)
