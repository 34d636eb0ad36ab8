"""A generated airline has 22 pairs of airports with three flights a day each way, customers, and what they have booked.

Every customer has reservations of different kinds, so that tasks of every kind find somebody: fresh ones, insured ones, ones
with a flight that the airline cancelled or that is late, half-flown and flown ones.
"""

from functools import lru_cache
from random import Random
from typing import Any

from agent_envs.envs.tau2.airline_rules import BAG, CABINS, INSURANCE, free_bags, paid_bags, price_of
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.task_generator import names

CITIES = {
    "SEA": "Seattle", "SFO": "San Francisco", "LAX": "Los Angeles", "DEN": "Denver", "DFW": "Dallas", "ORD": "Chicago",
    "ATL": "Atlanta", "MIA": "Miami", "BOS": "Boston", "PHX": "Phoenix", "MSP": "Minneapolis", "PHL": "Philadelphia",
}  # fmt: skip
CUSTOMERS, PAIRS, DAYS, TODAY = 250, 22, 30, 15
KINDS = ("fresh", "business", "insured", "plain", "basic", "struck", "late", "begun", "past")
_STARTS = ((6, 10), (11, 14), (16, 19))  # hours between which the three flights of a day leave
_ECONOMY = ("economy", "economy", "basic_economy")
Leg = dict[str, Any]


@lru_cache(maxsize=4)
def database(world: int) -> Database:
    """Return the database of a world, cached, the same at each call."""
    rng = Random(f"tau2/airline/{world}")
    flights = _flights(rng)
    users = _users(rng)
    reservations = _Desk(rng, flights).reservations(users)
    return Database("airline", {"flights": flights, "users": users, "reservations": reservations})


def date(day: int) -> str:
    """Return a day of the month in which everything takes place."""
    return f"2024-05-{day:02d}"


def _clock(minutes: int) -> str:
    """Return minutes of the day as HH:MM:SS."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def _pairs(rng: Random) -> list[tuple[str, str]]:
    """Return PAIRS pairs of airports: a ring through all, so that every city is reached, and chords drawn at random."""
    ring = rng.sample(sorted(CITIES), len(CITIES))
    pairs = [(here, ring[place - 1]) for place, here in enumerate(ring)]
    edges = {frozenset(pair) for pair in pairs}
    chords = [
        (one, two) for one in ring for two in ring if one < two and frozenset((one, two)) not in edges
    ]  # fmt: skip
    return pairs + rng.sample(chords, PAIRS - len(pairs))


def _flights(rng: Random) -> dict[str, Any]:
    """Draw the flights by number: both ways between drawn pairs, some times a day, with a record for each day."""
    flights: dict[str, Any] = {}
    for one, two in _pairs(rng):
        minutes, fare = 5 * rng.randrange(15, 54), rng.randrange(90, 190)
        for origin, destination in ((one, two), (two, one)):
            for first, last in _STARTS:
                number = f"HAT{len(flights) + 1:03d}"
                start = 5 * rng.randrange(first * 12, last * 12 + 1)
                flights[number] = {
                    "flight_number": number, "origin": origin, "destination": destination,
                    "scheduled_departure_time_est": _clock(start),
                    "scheduled_arrival_time_est": _clock(start + minutes),
                    "dates": {date(day): _instance(rng, day, start, minutes, fare) for day in range(1, DAYS + 1)},
                }  # fmt: skip
    return flights


def _instance(rng: Random, day: int, start: int, minutes: int, fare: int) -> dict[str, Any]:
    """Draw a flight's record on a day: cancelled (1 in 20), landed or flying (by 3 pm today), delayed, on time or available."""
    chance = rng.random()
    if chance < 0.05 and day != TODAY:
        return {"status": "cancelled"}
    late = 5 * int(chance * 3)
    if day < TODAY or (day == TODAY and start + minutes + late < 15 * 60):
        return {"status": "landed", **_times(day, start + late, minutes, "actual", "actual")}
    if day == TODAY and start + late < 15 * 60:
        return {"status": "flying", **_times(day, start + late, minutes, "actual", "estimated")}
    if day == TODAY:
        status, late = ("delayed", 5 * rng.randrange(12, 30)) if chance < 0.5 else ("on time", 0)
        return {"status": status, **_times(day, start + late, minutes, "estimated", "estimated")}
    economy = round(fare * (0.8 + 0.5 * rng.random()))
    prices = (economy - rng.randrange(25, 45), economy, round(economy * (2 + rng.random())))
    seats = (rng.randrange(20), rng.randrange(20), rng.randrange(16))
    return {
        "status": "available",
        "available_seats": dict(zip(CABINS, seats, strict=True)),
        "prices": dict(zip(CABINS, prices, strict=True)),
    }


def _times(day: int, start: int, minutes: int, departure: str, arrival: str) -> dict[str, str]:
    """Return the members for departure and arrival, under their prefixes; an arrival may fall on the next day."""
    end = start + minutes
    return {
        f"{departure}_departure_time_est": f"{date(day)}T{_clock(start)}",
        f"{arrival}_arrival_time_est": f"{date(day + end // 1440)}T{_clock(end % 1440)}",
    }


def _users(rng: Random) -> dict[str, Any]:
    """Draw the customers by user id, each with payment methods and saved passengers, and no reservations yet."""
    users: dict[str, Any] = {}
    codes = iter(names.codes(rng, 4 * CUSTOMERS, 7))
    for person, code in zip(names.people(rng, CUSTOMERS), names.codes(rng, CUSTOMERS, 4), strict=True):
        user_id = names.user_id(person, code)
        family = rng.sample([first for first in names.FIRST_NAMES if first != person.first], rng.randrange(1, 4))
        users[user_id] = {
            "user_id": user_id,
            "name": {"first_name": person.first, "last_name": person.last},
            "address": names.address(rng),
            "email": names.email(rng, person, code),
            "dob": names.birthday(rng),
            "payment_methods": _methods(rng, [next(codes) for _ in range(4)]),
            "saved_passengers": [
                {
                    "first_name": first,
                    "last_name": person.last if rng.random() < 0.6 else rng.choice(names.LAST_NAMES),
                    "dob": names.birthday(rng),
                }
                for first in family
            ],
            "membership": rng.choice(("regular", "regular", "silver", "gold")),
            "reservations": [],
        }
    return users


def _methods(rng: Random, codes: list[str]) -> dict[str, Any]:
    """Return methods by id: one or two cards, perhaps a gift card and a certificate, no two described alike."""
    ends = rng.sample(range(1000, 10_000), 2)
    methods: list[dict[str, Any]] = [
        {
            "source": "credit_card",
            "id": f"credit_card_{code}",
            "brand": rng.choice(names.CARD_BRANDS),
            "last_four": f"{end}",
        }
        for code, end in zip(codes[: rng.randrange(1, 3)], ends, strict=False)
    ]
    if rng.random() < 0.6:
        methods.append({"source": "gift_card", "id": f"gift_card_{codes[2]}", "amount": float(rng.randrange(60, 600))})
    if rng.random() < 0.5:
        worth = float(50 * rng.randrange(2, 9))
        methods.append({"source": "certificate", "id": f"certificate_{codes[3]}", "amount": worth})
    return {str(method["id"]): method for method in methods}


class _Desk:
    """Books what customers have booked when a world begins."""

    def __init__(self, rng: Random, flights: dict[str, Any]) -> None:
        """Index the flights by route, and their instances by status and day."""
        self.rng = rng
        self.links: dict[tuple[str, str], list[Any]] = {}
        self.by_status: dict[str, list[tuple[Any, int]]] = {}
        for flight in flights.values():
            self.links.setdefault((flight["origin"], flight["destination"]), []).append(flight)
            for day in range(TODAY, DAYS - 3):
                self.by_status.setdefault(flight["dates"][date(day)]["status"], []).append((flight, day))

    def reservations(self, users: dict[str, Any]) -> dict[str, Any]:
        """Return all reservations by id, three or four a customer, and enter the ids with their customers, in place."""
        records: dict[str, Any] = {}
        for user in users.values():
            for kind in self.rng.sample(KINDS, self.rng.choice((3, 3, 4))):
                key = self._key()
                while key in records:
                    key = self._key()
                records[key] = self._reservation(key, user, kind)
                user["reservations"].append(key)
        return records

    def _key(self) -> str:
        """Return six letters and figures, both among them, so that no word and no number looks like one."""
        letters = "".join(self.rng.choices("BCDFGJKLMNPQRSTVWXYZ", k=4))
        figures = names.digits(self.rng, 2)
        return letters[:3] + figures[0] + letters[3] + figures[1]

    def _reservation(self, key: str, user: dict[str, Any], kind: str) -> dict[str, Any]:
        """Draw a user's reservation of a kind: cabin, legs, passengers, bags, insurance, and one card payment for all of it."""
        rng = self.rng
        cabin = {"business": "business", "basic": "basic_economy"}.get(kind) or (
            "economy" if kind in ("plain", "insured") else rng.choice(_ECONOMY)
        )
        legs = self._legs(kind)
        people = rng.sample(user["saved_passengers"], rng.randrange(len(user["saved_passengers"]) + 1))[:2]
        people = [{**user["name"], "dob": user["dob"]}, *people]
        insured = kind == "insured" or (kind in ("struck", "late", "business", "past") and rng.random() < 0.4)
        free = free_bags(user["membership"], cabin, len(people))
        bags = rng.randrange(min(free, 2) + 2)
        paid = paid_bags(user["membership"], cabin, len(people), bags)
        flights = [self._priced_leg(leg, day, cabin) for leg, day in legs]
        total = price_of(flights, len(people)) + BAG * paid + INSURANCE * len(people) * insured
        there = flights[(len(flights) - 1) // 2]
        cards = [one for one, method in user["payment_methods"].items() if method["source"] == "credit_card"]
        return {
            "reservation_id": key, "user_id": user["user_id"], "origin": flights[0]["origin"],
            "destination": there["destination"],
            "flight_type": "round_trip" if there is not flights[-1] else "one_way",
            "cabin": cabin, "flights": flights, "passengers": people,
            "payment_history": [{"payment_id": rng.choice(cards), "amount": total}],
            "created_at": self._booking_time(kind), "total_baggages": bags, "nonfree_baggages": paid,
            "insurance": "yes" if insured else "no", "status": None,
        }  # fmt: skip

    def _booking_time(self, kind: str) -> str:
        """Return a booking time: within the last day (fresh), in April (begun, past), else on May 1 to 12."""
        rng = self.rng
        time = f"{rng.randrange(60):02d}:{rng.randrange(60):02d}"
        if kind == "fresh":
            return rng.choice(
                (f"2024-05-14T{rng.randrange(16, 24)}:{time}", f"2024-05-15T{rng.randrange(14):02d}:{time}")
            )
        if kind in ("begun", "past"):
            return f"2024-04-{rng.randrange(10, 30)}T{rng.randrange(8, 22):02d}:{time}"
        return f"2024-05-{rng.randrange(1, 13):02d}T{rng.randrange(8, 22):02d}:{time}"

    def _legs(self, kind: str) -> list[tuple[Any, int]]:
        """Return flights with their days, one way or there and back (begun: always), that suit the kind of reservation."""
        rng = self.rng
        if kind in ("struck", "late"):
            first, start = rng.choice(self.by_status["cancelled" if kind == "struck" else "delayed"])
        else:
            first = rng.choice(rng.choice(list(self.links.values())))
            low, high = {"begun": (11, TODAY - 1), "past": (2, TODAY - 6)}.get(kind, (TODAY + 2, DAYS - 5))
            start = self._flying_day(first, low, high)
        if kind != "begun" and rng.random() < 0.5:
            return [(first, start)]
        back = rng.choice(self.links[first["destination"], first["origin"]])
        low, high = (TODAY + 2, DAYS) if kind == "begun" else (start + 1, min(start + 5, DAYS))
        return [(first, start), (back, self._flying_day(back, low, high))]

    def _flying_day(self, flight: Any, low: int, high: int) -> int:
        """Return a day on which the airline did not cancel the flight; if it cancelled all of them, the last one."""
        days = self.rng.sample(range(low, high + 1), high + 1 - low)
        return next((day for day in days if flight["dates"][date(day)]["status"] != "cancelled"), high)

    def _priced_leg(self, flight: Any, day: int, cabin: str) -> Leg:
        """Return a flight as a reservation's leg, at 80 to 120 per cent of the first price it has in the cabin."""
        prices = next(one["prices"] for one in flight["dates"].values() if "prices" in one)
        return {
            "origin": flight["origin"], "destination": flight["destination"], "flight_number": flight["flight_number"],
            "date": date(day), "price": round(prices[cabin] * (0.8 + 0.4 * self.rng.random())),
        }  # fmt: skip
