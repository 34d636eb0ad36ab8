"""`Case` and `Trip` are a customer of a generated airline while a task is made up, and a reservation and how it is named."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from agent_envs.envs.tau2.airline_rules import CABINS, flown, may_cancel
from agent_envs.envs.tau2.database import Database, thawed
from agent_envs.envs.tau2.task_generator import names
from agent_envs.envs.tau2.task_generator.airline_world import CITIES, DAYS, TODAY
from agent_envs.envs.tau2.task_generator.wishes import Action, Unfit, listed, wordings
from agent_envs.envs.tau2.user_script import Fact

WORDS = wordings("airline")
CABIN_WORDS = dict(zip(CABINS, ("basic economy", "economy", "business"), strict=True))
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Row = Mapping[str, Any]


def day_of(date: str) -> str:
    """Return a date as people say it: "May 20"."""
    return f"May {int(date[-2:])}"


def route_of(leg: Row) -> str:
    """Return a leg's route in words: "from Seattle to Denver"."""
    return f"from {CITIES[leg['origin']]} to {CITIES[leg['destination']]}"


def flights_of(legs: Iterable[Row]) -> list[dict[str, Any]]:
    """Return flights as calls name them."""
    return [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in legs]


def search(way: Row, date: str) -> Action:
    """Return the call that shows the direct flights of a way on a date."""
    return ("search_direct_flight", {"origin": way["origin"], "destination": way["destination"], "date": date})


def searches(legs: Iterable[Row]) -> tuple[Action, ...]:
    """Return the calls that show today's prices of flights."""
    return tuple(search(leg, leg["date"]) for leg in legs)


@dataclass(frozen=True)
class Trip:
    """A reservation with the statuses of its flights."""

    record: Row
    statuses: tuple[str, ...]

    @property
    def id(self) -> str:
        """The reservation's number."""
        return str(self.record["reservation_id"])

    @property
    def size(self) -> int:
        """The number of passengers."""
        return len(self.record["passengers"])

    @property
    def ahead(self) -> bool:
        """Whether nothing of it has been flown."""
        return not flown(self.statuses)

    @property
    def open(self) -> bool:
        """Whether nothing of it has been flown or cancelled."""
        return self.ahead and "cancelled" not in self.statuses

    @property
    def bookable(self) -> bool:
        """Whether all of its flights can be booked now."""
        return set(self.statuses) == {"available"}

    @property
    def legs(self) -> Any:
        """Its flights, in order."""
        return self.record["flights"]

    def grounds(self, allowed: bool) -> list[str]:
        """Return the kinds of reasons for which it may be cancelled, or may not."""
        return [kind for kind in WORDS["reasons"] if may_cancel(self.record, self.statuses, kind) is allowed]

    @property
    def words(self) -> str:
        """The description by a customer who does not know its number."""
        return f"trip {route_of(self.record)} on {day_of(self.legs[0]['date'])}"


class Case:
    """One customer, while a task is made up: what is already used in it must not be used again."""

    def __init__(self, rng: Random, database: Database, user: Row, difficulty: str, vague: bool) -> None:
        """Look the customer up; `vague` reservations are described, as their numbers are not known."""
        self.rng, self.database, self.user, self.vague = rng, database, user, vague
        self.tricky, self.loose = difficulty == "hard", 0.25 if difficulty == "easy" else 0.4
        self.flights, self._table = database.tables["flights"], database.tables["reservations"]
        self.balances = {key: int(one["amount"]) for key, one in self.methods.items() if "amount" in one}
        self.uses_balance = self.booked = False
        self._used: set[str] = set()

    @property
    def methods(self) -> Mapping[str, Row]:
        """The customer's payment methods."""
        methods: Mapping[str, Row] = self.user["payment_methods"]
        return methods

    @property
    def membership(self) -> str:
        """The customer's."""
        return str(self.user["membership"])

    @cached_property
    def trips(self) -> tuple[Trip, ...]:
        """All reservations as trips with their flights' statuses, shuffled once and cached."""
        records = [self._table[key] for key in self.user["reservations"]]
        trips = [
            Trip(record, tuple(self.instance(leg["flight_number"], leg["date"])["status"] for leg in record["flights"]))
            for record in records
        ]
        self.rng.shuffle(trips)
        return tuple(trips)

    def instance(self, number: str, date: str) -> Row:
        """Return the record of a flight on a date."""
        instance: Row = self.flights[number]["dates"][date]
        return instance

    def free(self) -> Iterator[Trip]:
        """Yield the trips that no piece is about yet."""
        return (trip for trip in self.trips if trip.id not in self._used)

    def take(self, trip: Trip) -> None:
        """Keep a trip for a piece."""
        self._used.add(trip.id)

    def find(self, fits: Callable[[Trip], object]) -> Trip:
        """Return the first free trip that fits, and keep it for a piece; Unfit where there is none."""
        for trip in self.free():
            if fits(trip):
                self.take(trip)
                return trip
        raise Unfit

    def pick(self, *choices: str) -> str:
        """Return one of some texts."""
        return self.rng.choice(choices)

    def say(self, name: str, /, **slots: object) -> str:
        """Return a wording of a name, filled; where it has loose ones, with chance `loose` that which names nothing by name."""
        texts = WORDS[name]
        if isinstance(texts, dict):
            text = texts["loose"] if self.rng.random() < self.loose else self.rng.choice(texts["plain"])
        else:
            text = self.rng.choice(texts)
        return str(text.format(**slots))

    def reason(self, kind: str) -> Fact:
        """Return the fact that tells a reason of a kind."""
        return Fact("reason", f"the reason is that {self.pick(*WORDS['reasons'][kind])}.")

    def label(self, trip: Trip) -> str:
        """Return the customer's words for a trip: its number, or, of a vague customer, a description."""
        return trip.words if self.vague else f"reservation {trip.id}"

    def about(self, trip: Trip, dated: bool = True) -> tuple[Fact, ...]:
        """Return the facts that identify a reservation: number or words, route, and, if `dated`, the days."""
        legs = trip.record["flights"]
        number = f"the reservation number is {trip.id}."
        if self.vague:
            number = f"<I> do not have the number at hand. It is <my> {trip.words}."
        days = " and ".join(day_of(leg["date"]) for leg in legs)
        facts = (
            Fact("reservation", number, "" if self.vague else trip.id),
            Fact("route", f"it is the trip {route_of(trip.record)}."),
        )
        return (*facts, Fact("date", f"the flight{'s are' if len(legs) > 1 else ' is'} on {days}.")) if dated else facts

    def which(self, trips: list[Trip], numbers: str) -> Fact:
        """Return the fact that identifies reservations by their words, and by `numbers` where the customer knows them."""
        text = "<I> do not have the numbers at hand." if self.vague else numbers
        return Fact(
            "reservation", f"{text.format(listed(trip.id for trip in trips))} {listed(trip.words for trip in trips)}."
        )

    def both(self, trips: list[Trip]) -> str:
        """Return the customer's words for several trips."""
        return listed(f"<my> {self.label(trip)}" for trip in trips)

    def rebooked(self, trip: Trip, cabin: str, legs: Iterable[Row], method: str) -> Action:
        """Return the call that changes the flights or the cabin of a trip."""
        return ("update_reservation_flights", {
            "reservation_id": trip.id, "cabin": cabin, "flights": flights_of(legs), "payment_id": method
        })  # fmt: skip

    def reads(self, trip: Trip) -> tuple[Action, ...]:
        """Return the calls with which an agent looks a reservation up."""
        return (("get_reservation_details", {"reservation_id": trip.id}),)

    def words_of(self, method: str) -> str:
        """Return the customer's words for a payment method: a card by its last digits, else gift card or certificate."""
        record = self.methods[method]
        if record["source"] == "credit_card":
            return f"<my> credit card ending in {record['last_four']}"
        return "<my> gift card" if record["source"] == "gift_card" else "<my> travel certificate"

    def pay(self, total: int) -> tuple[str, Fact]:
        """Draw a card or gift card that can pay `total` (or gets it, below 0), charge its balance; return it and its fact."""
        usable = [
            key for key, one in self.methods.items()
            if one["source"] == "credit_card" or (one["source"] == "gift_card" and self.balances[key] >= max(total, 1))
        ]  # fmt: skip
        method = self.rng.choice(usable)
        if method in self.balances and total > 0:
            self.balances[method] -= total
        self.uses_balance |= method in self.balances
        words = self.words_of(method)
        certificates = [key for key, one in self.methods.items() if one["source"] == "certificate"]
        if self.tricky and certificates and total > 0:
            return method, Fact("payment", f"with <my> travel certificate, please. If that cannot be, with {words}.")
        value = str(self.methods[method].get("last_four", ""))
        return method, Fact("payment", self.pick(f"please use {words}.", f"that goes on {words}.", f"{words}."), value)

    def seated(self, origin: str, destination: str, date: str, cabin: str, size: int) -> list[Row]:
        """Return the direct flights on a date with that many free seats in a cabin, with `price` and `date` of that day."""
        offers = list[Row]()
        for flight in self.flights.values():
            if (flight["origin"], flight["destination"]) == (origin, destination):
                instance = flight["dates"][date]
                if instance["status"] == "available" and instance["available_seats"][cabin] >= size:
                    offers.append({**flight, "price": instance["prices"][cabin], "date": date})
        return offers

    def select(self, flights: list[Row]) -> tuple[Row, str] | None:
        """Return a flight that is alone the cheapest, earliest or latest, drawn, with words for it; None if none is."""
        ways = [
            ("price", 1, "the cheapest flight"),
            ("scheduled_departure_time_est", 1, "the earliest flight with free seats"),
        ]
        ways.append(("scheduled_departure_time_est", -1, "the latest flight with free seats"))
        self.rng.shuffle(ways)
        for member, sign, words in ways:
            values = sorted((flight[member] for flight in flights), reverse=sign < 0)
            if values and values.count(values[0]) == 1:
                return next(flight for flight in flights if flight[member] == values[0]), words
        return None

    def someone(self, trip: Trip | None = None) -> dict[str, str]:
        """Return a fellow traveller not on a trip (without one: not the customer), saved or new by chance."""
        there = {row["first_name"] for row in trip.record["passengers"]} if trip else {self.user["name"]["first_name"]}
        companions = [row for row in self.user["saved_passengers"] if row["first_name"] not in there]
        if companions and self.rng.random() < 0.5:
            return dict(thawed(self.rng.choice(companions)))
        first = self.rng.choice([name for name in names.FIRST_NAMES if name not in there])
        return {
            "first_name": first, "last_name": self.rng.choice(names.LAST_NAMES), "dob": names.birthday(self.rng)
        }  # fmt: skip


def later_days(case: Case, trip: Trip, place: int) -> list[int]:
    """Return the other days to which a trip's flight can be moved, its flights' order kept, the nearest to the old first."""
    days = [int(leg["date"][-2:]) for leg in trip.record["flights"]]
    low = days[place - 1] + 1 if place else TODAY + 1
    high = days[place + 1] - 1 if place + 1 < len(days) else DAYS
    return sorted((day for day in range(low, high + 1) if day != days[place]), key=lambda day: abs(day - days[place]))
