"""A shop customer's wishes are read from free words by vocabulary, against what the customer has bought."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.envs.tau2.heuristics.reading import matches, mentions

Record = dict[str, Any]
# The first sentence that holds a wish decides; within a sentence, the first kind whose words stand in it.
_KINDS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in (
    ("remove", r"\b(remove|take out|take [\w -]{1,60} out|drop|leave out)\b"),
    ("cancel", r"\bcancel|\bcall(ed)? off\b"),
    ("tracking", r"\btracking\b"),
    ("balance", r"\bbalance\b(?! covers)|\bleft on\b"),
    ("cheapest", r"^(?!.*\b(exchang|swap|switch|chang|modif|replac)).*(\bcheapest\b.*\b(cost|price)|price.*\bcheapest\b)"),
    ("paid", r"\b(how much|what)\b.*\b(paid|pay|total|cost)\b|\btotal (amount|price|cost|sum)\b"),
    ("address", r"(?<!mail )\baddress|\b(ship|shipped|sent|deliver)\b.* (to|instead)\b|\bmoved\b|\brelocat"),
    ("payment", r"\bpayment method of\b|\bpay for\b|\bcharge\b|\bpay (by|with)\b|\b(change|wrong) payment"),
    ("swap", r"\b(exchang\w*|swap\w*|switch\w*|replac\w*|chang\w*|modif\w*|trade)\b"),
    ("return", r"\breturn|\b(send|give|go|bring|get) (it |them |that )?back\b|\bsend back\b|\brefund\b"),
))  # fmt: skip
_PROFILE = re.compile(r"\b(default|profile|home) address\b|\bmy profile\b|\bmoved\b|\bmy account\b", re.IGNORECASE)
_PLACE = re.compile(
    r"(?<!\d)(\d{1,9} [A-Z][\w.]{0,30}(?: [A-Z][\w.]{0,30}){0,6}),? (?:((?:Apt|Suite|Unit|Apartment|Floor)\.? ?\w+),? )?"
    r"([A-Z][a-z]{1,30}(?: [A-Z][a-z]{1,30}){0,4}),? ([A-Z]{2}),? (\d{5})"
)
_NOT_NEEDED = re.compile(
    r"\b(no longer|not|n't)\b[^.]{0,20}\bneed|\bneed it (no more|any ?more)|\bno (more )?need\b", re.I
)
_MISTAKE = re.compile(r"\b(mistake|mistaken|accident|accidental|accidentally|wrongly)\b", re.IGNORECASE)
_OLD = re.compile(r"(?:instead of|rather than|in place of|not the) [^,.;]*?(?= and |[,.;]|$)")
_PAID_WITH = re.compile(
    r"\boriginal\b|\b(paid|used|pay)\b[^.]{0,20}\b(with|for)\b|method that i (used|paid)|same (way|method|card)", re.IGNORECASE
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish: its kind, and the words in which it was put and detailed."""

    kind: str
    text: str


def wish_of(text: str) -> Wish:
    """Return the first wish in a text; its kind is "" where there is none."""
    for sentence in re.split(r"(?<=[.!?;])\s+|\n", text):
        for kind, pattern in _KINDS:
            if pattern.search(sentence):
                home = kind == "address" and _PROFILE.search(text) and not order_ids(text) and " order" not in text
                return Wish("home" if home else kind, text)
    return Wish("", text)


def order_ids(text: str) -> list[str]:
    """Return the numbers of orders in a text, as the tools want them."""
    found = matches(r"#?\bW\d{3,10}\b", text)
    return list(dict.fromkeys(f"#{number.lstrip('#')}" for number in found))


def mentioned(text: str, items: Sequence[Record]) -> list[Record]:
    """Return the items of an order that a text names."""
    return [item for item in items if mentions(text, item["name"])]


def reason_of(text: str) -> str:
    """Return the reason for a cancellation that the shop accepts, "other" for another one, "" where none is given."""
    if _MISTAKE.search(text):
        return "ordered by mistake"
    if _NOT_NEEDED.search(text):
        return "no longer needed"
    return "other" if re.search(r"\b(because|since|as i|reason|due to)\b", text, re.IGNORECASE) else ""


def place_of(text: str) -> dict[str, str] | None:
    """Return the last address in a text, as the tools want it."""
    found = _PLACE.findall(text)
    if not found:
        return None
    street, flat, city, state, code = found[-1]
    return {"address1": street, "address2": flat, "city": city, "state": state, "country": "USA", "zip": code}


def method_of(text: str, methods: Sequence[Record], original: str = "") -> str:
    """Return the id of the payment method that a text names, "" for none.

    Args:
        text: the customer's words.
        methods: what the customer has.
        original: the id of the method that paid for the order.
    """
    for method in methods:
        if method["source"] == "credit_card" and method["last_four"] in text:
            return str(method["id"])
    for source, pattern in (
        ("paypal", r"paypal"),
        ("gift_card", r"gift ?card"),
        ("credit_card", r"(credit|visa|master) ?card"),
    ):
        having = [method["id"] for method in methods if method["source"] == source]
        if len(having) == 1 and re.search(pattern, text, re.IGNORECASE):
            return str(having[0])
    return original if original and _PAID_WITH.search(text) else methods[0]["id"] if len(methods) == 1 else ""


def variant_of(text: str, item: Record, product: Record) -> Record | None:
    """Return the variant of an item's product that a text asks for, None where it asks for none that can be had."""
    able = [one for one in product["variants"].values() if one["available"] and one["item_id"] != item["item_id"]]
    asked = _asked_options(_OLD.sub(" ", text), item, product)
    able = [one for one in able if all(one["options"][axis] == value for axis, value in asked.items())]
    if re.search(r"\b(cheapest|least expensive|lowest price)\b", text, re.IGNORECASE):
        return min(able, key=lambda one: float(one["price"]), default=None)
    if not asked:
        return None
    return min(able, key=lambda one: len(set(one["options"].items()) - set(item["options"].items())), default=None)


def about(text: str, item: Record, items: Sequence[Record]) -> str:
    """Return the part of a text that concerns one of several items: from its name to the next one's."""
    lowered = " ".join(words_kept(text))
    name = " ".join(words_kept(item["name"]))
    parts = []
    others = [" ".join(words_kept(other["name"])) for other in items if other is not item]
    for piece in lowered.split(name)[1:]:
        ends = [place for place in (piece.find(other) for other in others) if place >= 0]
        parts.append(piece[: min(ends)] if ends else piece)
    return " . ".join(parts) or text


def words_kept(text: str) -> list[str]:
    """Return the words of a text in lower case with their marks of punctuation."""
    return re.findall(r"[\w'.-]*\w|[,.;]", text.lower())


def _asked_options(text: str, item: Record, product: Record) -> dict[str, str]:
    asked = {}
    for axis, current in item["options"].items():
        values = {one["options"][axis] for one in product["variants"].values()}
        named = [value for value in values if value != current and _names(text, axis, value)]
        if named:
            asked[axis] = min(named, key=lambda value: (-len(value), value))
    return asked


def _names(text: str, axis: str, value: str) -> bool:
    # A bare "4", "M" or "none" says nothing without what it is about.
    if len(value) <= 2 or value.isdigit() or value in ("yes", "none", "one", "two"):
        return mentions(text, f"{axis} {value}") or mentions(text, f"{value} {axis}")
    return mentions(text, value)
