"""`Desk` holds what the airline's rule-based agent knows; what is missing ends its turn with the call that shows it."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from agent_envs.envs.tau2.heuristics.airline_words import (
    FLIGHT,
    RESERVATION,
    USER_ID,
    days_in,
    first_wish,
    kind_of,
    places_in,
    routes_in,
)
from agent_envs.envs.tau2.heuristics.reading import Talk, agrees, calling, calling_all, matches, mentions

SORRY, PROPOSAL = "I am sorry, but", "Shall I go ahead (yes/no)?"
CLOSING = "Is there anything else that I can do for you?"
Row = Mapping[str, Any]


class Turn(Exception):
    """The agent's turn is found: its text, or its calls."""


class Desk:
    """A conversation with what its calls have shown so far.

    Attributes:
        talk: the conversation.
        start: the place in `talk.user` at which the present wish begins.
        text: what the user has said about it.
    """

    def __init__(self, talk: Talk) -> None:
        """Find where the present wish begins: behind the last message that closed one."""
        self.talk = talk
        closed = [heard for said, heard in zip(talk.own, talk.spoken, strict=True) if CLOSING in said]
        self.start = closed[-1] if closed else 0
        self.text = "\n".join(map(first_wish, talk.user[self.start :]))

    @property
    def asked(self) -> str:
        """What the agent has said about the present wish."""
        own = zip(self.talk.own, self.talk.spoken, strict=True)
        return "\n".join(said for said, heard in own if heard > self.start)

    def look(self, name: str, **arguments: Any) -> Any:
        """Return what a reading call shows; None where it failed.

        Raises:
            Turn: the call was not made yet.
        """
        called = self.talk.tried(name, **arguments)
        if called is None:
            raise Turn(calling(name, **arguments))
        return None if called.failed else called.value

    @cached_property
    def user(self) -> Row:
        """The user's record."""
        named = matches(USER_ID, "\n".join(self.talk.user))
        if not named:
            told = any(map(kind_of, self.talk.user))
            raise Turn("May I have your user id, please" + ("?" if told else ", and may I ask what I can do for you?"))
        found = self.look("get_user_details", user_id=named[-1])
        if found is None:
            known = [call.value for call in self.talk.named("get_user_details")]
            if not known:
                raise Turn(f"I could not find a user {named[-1]}. Could you check and tell me your user id again?")
            found = known[-1]
        return dict(found)

    @cached_property
    def cities(self) -> dict[str, str]:
        """The city of every airport."""
        return {row["iata"]: row["city"] for row in self.look("list_all_airports")}

    def reservation(self, key: str) -> Row:
        """Return a reservation as it was when it was first looked up."""
        found = self.look("get_reservation_details", reservation_id=key)
        first = next(call for call in self.talk.named("get_reservation_details") if call.value == found)
        return dict(first.value)

    def all_reservations(self) -> list[Row]:
        """Return all of the user's."""
        keys = [str(key) for key in self.user["reservations"]]
        missing = [key for key in keys if self.talk.tried("get_reservation_details", reservation_id=key) is None]
        if missing:
            raise Turn(calling_all([("get_reservation_details", {"reservation_id": key}) for key in missing]))
        return [self.reservation(key) for key in keys]

    def meant(self) -> Row:
        """Return the reservation that the present wish is about."""
        return self.all_meant(1)[0]

    def all_meant(self, most: int) -> list[Row]:
        """Return the reservations that the present wish is about, one at least."""
        keys = list(self.user["reservations"])
        named = [key for key in matches(RESERVATION, self.text) if not re.fullmatch(r"[A-Z]{6}", key) or key in keys]
        known = [key for key in named if key in keys]
        if known:
            return [self.reservation(key) for key in known[-most:]]
        described = self._described(self.all_reservations())
        if described and len(described) <= most:
            return described
        if named:
            text = f"I do not see a reservation {named[-1]} of yours. Could you check the reservation number"
        else:
            text = "Which reservation is it about? Please tell me its number"
        raise Turn(f"{text}, or else from where to where and on which date you fly?")

    def _described(self, rows: list[Row]) -> list[Row]:
        """Return the reservations that the words fit best; none if they fit none."""
        flights, days = set(matches(FLIGHT, self.text)), set(days_in(self.text))
        routes, places = routes_in(self.text, self.cities), places_in(self.text, self.cities)
        scores = []
        for row in rows:
            legs = row["flights"]
            exact = (row["origin"], row["destination"]) in routes
            one_leg = any((leg["origin"], leg["destination"]) in routes for leg in legs)
            score = 8 * bool(flights & {leg["flight_number"] for leg in legs}) + 4 * exact + 2 * one_leg
            score += sum(leg["date"] in days for leg in legs) + (legs[0]["date"] in days)
            scores.append(score + {row["origin"], row["destination"]}.issubset(places))
        best = max(scores, default=0)
        pairs = [row for row, score in zip(rows, scores, strict=True) if score >= 5]
        if len(routes) > 1 and len(pairs) > 1:
            return pairs
        return [row for row, score in zip(rows, scores, strict=True) if score == best] if best > 1 else []

    def statuses(self, row: Row) -> list[str]:
        """Return the statuses of a reservation's flights."""
        asked = [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in row["flights"]]
        missing = [one for one in asked if self.talk.tried("get_flight_status", **one) is None]
        if missing:
            raise Turn(calling_all([("get_flight_status", one) for one in missing]))
        return [str(self.look("get_flight_status", **one)) for one in asked]

    def offered(self, origin: str, destination: str, date: str, cabin: str, size: int) -> list[Row]:
        """Return the flights of a day with seats for everybody, with their price."""
        rows = self.look("search_direct_flight", origin=origin, destination=destination, date=date) or []
        return [
            {**row, "date": date, "price": row["prices"][cabin]}
            for row in rows
            if row["available_seats"][cabin] >= size
        ]

    def payer(self, total: int) -> Row:
        """Return the method that pays for an update."""
        found = [method for method in self.methods() if method["source"] != "certificate"]
        own = [row for row in self.user["payment_methods"].values() if row["source"] != "certificate"]
        if total == 0 or len(own) == 1:
            return dict(own[0])
        for method in found:
            if method["source"] == "credit_card" or method["amount"] >= total:
                return method
        raise Turn(f"Which payment method shall I use? {self.listed(own)}.")

    def methods(self) -> list[Row]:
        """Return the payment methods that the user named, in the order in which they were named."""
        found = []
        for method in self.user["payment_methods"].values():
            word = method["source"].replace("_", " ")
            place = self.text.find(method.get("last_four", "\0"))
            if place < 0 and mentions(self.text, word):
                alike = [one for one in self.user["payment_methods"].values() if one["source"] == method["source"]]
                place = self.text.lower().find(word.split()[0]) if len(alike) == 1 else -1
            if place >= 0:
                found.append((place, method["id"], method))
        return [method for _, _, method in sorted(found)]

    def listed(self, methods: Sequence[Row]) -> str:
        """Return payment methods in words."""
        return "You have " + ", ".join(map(self.called, methods))

    def called(self, method: Row) -> str:
        """Return a payment method in words."""
        name = str(method["source"]).replace("_", " ")
        return f"the {name} ending in {method['last_four']}" if "last_four" in method else f"the {name}"


def no(why: str) -> str:
    """Return a refusal."""
    return f"{SORRY} {why}. {CLOSING}"


def proposed(desk: Desk, text: str, told: str, name: str, **arguments: Any) -> str:
    """Return the next step of a change: propose it, carry it out after a yes, and tell that it is there."""
    talk = desk.talk
    called = talk.tried(name, **arguments)
    if called is not None and called.turn > desk.start:
        if called.failed:
            return no(f"that cannot be done: {called.content.removeprefix('Error: ')}")
        return f"{told} {CLOSING}"
    if PROPOSAL in talk.said and agrees(talk.last):
        return calling(name, **arguments)
    return f"{text} {PROPOSAL}"
