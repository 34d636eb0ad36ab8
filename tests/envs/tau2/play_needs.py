"""This helper lists an agent's questions and the values that it lacks before it makes an expected tool call."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from agent_envs.envs.tau2.task_schema import ExpectedAction
from agent_envs.envs.tau2.toolkit import Domain

MONTHS = "January February March April May June July August September October November December".split()
# Other spellings of one value, and arguments that nobody has to tell: the agent's own words, and sums that prices give.
ALIASES = {"ny": ("new york",), "az": ("phoenix",), "usa": ("united states", "zip"), "one_way": ("one-way",)}
OWN_WORDS = ("summary", "expression", "amount")
# What the customer must have asked for before a write, in its own words.
WISHES = {
    "cancel_pending_order": r"cancel",
    "return_delivered_order_items": r"return|refund|send back|money back",
    "exchange_delivered_order_items": r"exchang|replac|swap|chang|switch|modif|same (?:item|as)|version|resend|upgrad|instead",
    "modify_pending_order_items": r"modif|chang|switch|exchang|upgrad|replac|swap|downgrad",
    "modify_pending_order_address": r"address|deliver|ship|sent to|go to",
    "modify_user_address": r"address",
    "modify_pending_order_payment": r"pay|card|paypal",
    "book_reservation": r"book|fly|reserv|make .* for|remove",
    "cancel_reservation": r"cancel|remove|fix",
    "update_reservation_flights": r"chang|upgrad|downgrad|mov|push|switch|modif|nonstop|cabin|class",
    "update_reservation_baggages": r"\bbags?\b|baggage|suitcase|luggage",
    "update_reservation_passengers": r"passenger|name",
    "send_certificate": r"compens|delay|complain|cancel|refund",
    "refuel_data": r"refuel|\bgb\b|gigabyte|data",
    "enable_roaming": r"abroad|roaming|travel|data|mms",
    "send_payment_request": r"service|bill|pay",
    "resume_line": r"service|line",
}
# First who it is, until the records are found; then what it is about, and what else may be missing.
WHO = {
    "retail": (
        "What is your full name?",
        "What is your zip code?",
        "What is your e-mail address?",
        "Do you have a user ID?",
    ),
    "airline": ("Could you please tell me your user ID?",),
    "telecom": ("Could you please tell me your phone number?",),
}
QUESTIONS = {
    "retail": (
        "Could you describe your request in detail?",
        "Which order is it about?",
        "What is the new address?",
        "Which options would you like instead?",
        "Which payment method would you like to use?",
    ),
    "airline": (
        "Could you describe your request in detail?",
        "What is your reservation number?",
        "On which date would you like to fly?",
        "Where would you like to fly from and to?",
        "Which flight would you prefer, and in which cabin?",
        "Who are the passengers?",
        "How many bags will you check in?",
        "Which payment method would you like to use?",
    ),
    "telecom": ("Could you describe the problem in detail?", "How many gigabytes would you like to add?"),
}
ASKED = {
    "toggle_airplane_mode": "Please turn off airplane mode.",
    "set_network_mode_preference": "Please set your preferred network mode to 4G/5G.",
    "toggle_roaming": "Please turn on data roaming on your phone.",
    "toggle_data": "Please turn on mobile data.",
    "reboot_device": "Please restart your phone.",
    "reseat_sim_card": "Please reseat your SIM card.",
    "reset_apn_settings": "Please reset your APN settings.",
    "toggle_wifi_calling": "Please turn off Wi-Fi calling.",
    "toggle_data_saver_mode": "Please turn off data saver mode.",
    "disconnect_vpn": "Please disconnect the VPN.",
    "make_payment": "Please check your payment request and make the payment.",
    "check_payment_request": "Could you look whether you have received a payment request?",
}
CABINS = {"basic_economy": r"basic", "economy": r"economy", "business": r"business"}
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NEAR = {1: r"next day|day after|one day|a day\b", 2: r"two days|2 days"}
EVERYTHING = r"\b(?:all\b|every\w*|both|items|anything|things)"


@dataclass(frozen=True)
class Known:
    """What an agent knows: its domain with the policy, what the customer said, and what its own tools showed."""

    domain: Domain
    said: str
    shown: str

    @property
    def heard(self) -> str:
        """The customer's words in small letters, without those that close a conversation or give in."""
        return re.sub(r"\bthat (?:is|was) (?:all|everything)\b|\ball right\b", "", self.said.lower())

    @property
    def text(self) -> str:
        return f"{self.heard}\n{self.shown.lower()}\n{self.domain.policy.lower()}"

    def lacking(self, action: ExpectedAction) -> list[str]:
        """What is missing for an action: values that nobody told, wishes and choices that the customer never made."""
        arguments = json.loads(action.arguments)
        lacking = sorted({f"tells {value}" for value in values(arguments) if not self.has(value)})
        if not re.search(WISHES.get(action.name, ""), self.heard):
            lacking.append("asks for it")
        return [*lacking, *self._things(arguments), *self._choices(arguments)]

    def has(self, value: str) -> bool:
        """Whether a value stands somewhere in what is known."""
        low = value.lower()
        spellings = {low, low.replace("_", " "), *ALIASES.get(low, ())}
        return not low or self.has_date(value) or any(stands_in(text, self.text) for text in spellings)

    def has_date(self, value: str) -> bool:
        """Whether a date was told in words ("May 24"), or follows from a date and a number of days that were told."""
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", value):
            return False
        text, day = self.text, date.fromisoformat(value)
        month = MONTHS[day.month - 1].lower()
        if re.search(rf"\b{month[:3]}(?:{month[3:]})? {day.day}(?!\d)|\b{day.day}(?:st|nd|rd|th)\b", text):
            return True
        return any(
            re.search(words, self.heard) and any((day + timedelta(sign * days)).isoformat() in text for sign in (1, -1))
            for days, words in NEAR.items()
        )

    def _things(self, arguments: dict[str, Any]) -> Iterator[str]:
        """Things of an order of which the customer named none: neither by a word of their names, nor the order."""
        orders = self.domain.agent_database.tables.get("orders", {})
        order, chosen = orders.get(arguments.get("order_id", "")), arguments.get("item_ids")
        if order is None:
            return
        items = [item["name"] for item in order["items"] if chosen is None or item["item_id"] in chosen]
        names = [word.lower().rstrip("s") for item in items for word in re.findall(r"[A-Za-z]{3,}", item)]
        words = set(re.findall(r"[a-z]{4,}", self.heard))
        whole = chosen is None and words & {"order", "orders", "address"}
        number = arguments["order_id"].lower().lstrip("#") in self.heard
        named = any(name in self.heard.replace(" ", "") or any(word in name for word in words) for name in names)
        only = len(order["items"]) == 1 and re.search(r"\bits item\b", self.heard)
        if not (whole or number or named or only or re.search(EVERYTHING, self.heard)):
            yield f"names {' or '.join(dict.fromkeys(items))}"

    def _choices(self, arguments: dict[str, Any]) -> Iterator[str]:
        """The cabin, the bags and the insurance of a trip, where they are neither chosen nor those that it had."""
        old = re.search(rf'"reservation_id": "{arguments.get("reservation_id")}".*', self.shown)
        kept = old[0] if old else ""
        cabin, bags = arguments.get("cabin"), arguments.get("total_baggages", 0)
        if cabin and not (re.search(rf"{CABINS[cabin]}|\bsame\b", self.heard) or f'"cabin": "{cabin}"' in kept):
            yield f"chooses {cabin}"
        counted = rf"\b(?:{bags}|{NUMBERS[bags]}|more|same|exact\w*)\b"
        if bags and not (re.search(counted, self.heard) or f'"total_baggages": {bags}' in kept):
            yield f"tells {bags} bags"
        if arguments.get("insurance") == "yes" and "insur" not in self.heard:
            yield "wants insurance"


def stands_in(text: str, known: str) -> bool:
    """Whether a text stands in another as words of its own."""
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", known) is not None


def values(arguments: Any, name: str = "") -> Iterator[str]:
    """The texts and numbers in a call's arguments that somebody must have told."""
    if isinstance(arguments, dict):
        for key, value in arguments.items():
            yield from values(value, key)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from values(value, name)
    elif isinstance(arguments, str) and name not in OWN_WORDS:
        yield arguments
    elif isinstance(arguments, int | float) and name not in OWN_WORDS and arguments:
        yield f"{arguments:g}"
