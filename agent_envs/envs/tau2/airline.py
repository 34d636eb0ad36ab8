"""The airline domain holds the agent's tools for bookings, changes and cancellations; its user has no tools."""

from collections.abc import Container
from typing import Any, Literal, TypedDict, get_type_hints

from agent_envs.envs.tau2.compat import ORIGINAL, Compat
from agent_envs.envs.tau2.database import Database, thawed
from agent_envs.envs.tau2.record_schema import Each, Maybe, Tagged, shaped
from agent_envs.envs.tau2.shared_tools import add_shared_tools
from agent_envs.envs.tau2.toolkit import Domain, Kit, Record, ToolFailure, World, present

NOW = "2024-05-15T15:00:00"
_MOST_PAYMENTS = 1_000  # of a reservation that can still be cancelled
_NEW_RESERVATIONS = ("HATHAT", "HATHAU", "HATHAV")
_NEW_CERTIFICATES = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
_AIRPORTS = (
    ("SFO", "San Francisco"), ("JFK", "New York"), ("LAX", "Los Angeles"), ("ORD", "Chicago"), ("DFW", "Dallas"),
    ("DEN", "Denver"), ("SEA", "Seattle"), ("ATL", "Atlanta"), ("MIA", "Miami"), ("BOS", "Boston"), ("PHX", "Phoenix"),
    ("IAH", "Houston"), ("LAS", "Las Vegas"), ("MCO", "Orlando"), ("EWR", "Newark"), ("CLT", "Charlotte"),
    ("MSP", "Minneapolis"), ("DTW", "Detroit"), ("PHL", "Philadelphia"), ("LGA", "LaGuardia"),
)  # fmt: skip


class ChosenFlight(TypedDict):
    """A flight by number and date."""

    flight_number: str
    date: str


class Passenger(TypedDict):
    """A person who flies."""

    first_name: str
    last_name: str
    dob: str


class Payment(TypedDict):
    """A whole amount of dollars on one payment method."""

    payment_id: str
    amount: int


_CHOSEN_FLIGHT, _PERSON, _PAYMENT = map(get_type_hints, (ChosenFlight, Passenger, Payment))
_CABINS = ("business", "economy", "basic_economy")
_WAY = ("flight_number", "origin", "destination")
_BY_CABIN = {"basic_economy": int, "economy": int, "business": int}
_METHOD = {"source": str, "id": str}
_SEGMENT = {"flight_number": str, "origin": str, "destination": str, "date": str, "price": int}
_STATUSES: dict[str, dict[str, Any]] = {
    "available": {"available_seats": _BY_CABIN, "prices": _BY_CABIN},
    "landed": {"actual_departure_time_est": str, "actual_arrival_time_est": str},
    "cancelled": {},
    "on time": {"estimated_departure_time_est": str, "estimated_arrival_time_est": str},
    "flying": {"actual_departure_time_est": str, "estimated_arrival_time_est": str},
    "delayed": {"estimated_departure_time_est": str, "estimated_arrival_time_est": str},
}
SHAPES: dict[str, Any] = {
    "flights": {
        "flight_number": str,
        "origin": str,
        "destination": str,
        "scheduled_departure_time_est": str,
        "scheduled_arrival_time_est": str,
        "dates": Each(Tagged("status", {status: {"status": str} | more for status, more in _STATUSES.items()})),
    },
    "users": {
        "user_id": str,
        "name": {"first_name": str, "last_name": str},
        "address": {"address1": str, "address2": Maybe(str), "city": str, "country": str, "state": str, "zip": str},
        "email": str,
        "dob": str,
        "payment_methods": Each(
            Tagged(
                "source",
                {
                    "credit_card": _METHOD | {"brand": str, "last_four": str},
                    "gift_card": _METHOD | {"amount": float},
                    "certificate": _METHOD | {"amount": float},
                },
            )
        ),
        "saved_passengers": [_PERSON],
        "membership": ("gold", "silver", "regular"),
        "reservations": [str],
    },
    "reservations": {
        "reservation_id": str,
        "user_id": str,
        "origin": str,
        "destination": str,
        "flight_type": ("round_trip", "one_way"),
        "cabin": _CABINS,
        "flights": [_SEGMENT],
        "passengers": [_PERSON],
        "payment_history": [_PAYMENT],
        "created_at": str,
        "total_baggages": int,
        "nonfree_baggages": int,
        "insurance": ("yes", "no"),
        "status": Maybe(("cancelled",)),
    },
}
# Arguments of several tools, as their schemas describe them.
_TERMS = {
    "user_id": 'The user, such as "sara_doe_496".',
    "date": 'The date, such as "2024-05-01".',
    "origin": 'The airport to leave from, such as "JFK".',
    "destination": 'The airport to arrive at, such as "LAX".',
    "cabin": "The cabin of all flights.",
    "nonfree_baggages": "How many of them cost money.",
    "reservation_id": 'The reservation, such as "ZFA04Y".',
}
kit = Kit("assistant", _TERMS)


def airline(database: Database, compat: Compat = ORIGINAL, policy: str = "") -> Domain:
    """Return the airline domain over a database."""
    return Domain("airline", database, kit, compat, policy=policy, now=NOW)


def _find(world: World, table: str, key: str) -> dict[str, Any]:
    """Return a record of a table; a tool's failure that names it where there is none."""
    return present(world.agent.get(table, key), f"{table[:-1].capitalize()} {key} not found")


def _instance(world: World, flight_number: str, date: str) -> dict[str, Any]:
    """Return the record of a flight on one date."""
    dates: dict[str, dict[str, Any]] = _find(world, "flights", flight_number)["dates"]
    return present(dates.get(date), f"Flight {flight_number} not found on date {date}")


def _free_instance(world: World, choice: ChosenFlight, cabin: str, passengers: int) -> dict[str, Any]:
    """Return the record of a flight on a date; ToolFailure unless it is available with that many seats in the cabin."""
    number, date = choice["flight_number"], choice["date"]
    instance = _instance(world, number, date)
    if instance["status"] != "available":
        raise ToolFailure(f"Flight {number} not available on date {date}")
    if instance["available_seats"][cabin] < passengers:
        raise ToolFailure(f"Not enough seats on flight {number}")
    return instance


def _records(values: Any, shape: Any, where: str) -> Any:
    """Return a list of objects read by a shape (SchemaError if one is unfit); a list with anything else in it unchanged."""
    if all(isinstance(value, dict) for value in values):
        return shaped(list(values), [shape], where)
    return values


def _leg(world: World, choice: ChosenFlight, price: int) -> dict[str, Any]:
    """Return a leg of a trip: the flight's number and places, with the date chosen and the price."""
    flight = _find(world, "flights", choice["flight_number"])
    return {**{name: flight[name] for name in _WAY}, "date": choice["date"], "price": price}


@kit.tool()
def get_reservation_details(world: World, reservation_id: str) -> Record:
    """Show a reservation: flights, passengers, payments, bags and insurance.

    Args:
        reservation_id: The reservation, such as "8JX2WO".
    """
    return Record(_find(world, "reservations", reservation_id))


@kit.tool()
def get_user_details(world: World, user_id: str) -> Record:
    """Show a user: name, address, payment methods, saved passengers, membership and reservations."""
    return Record(_find(world, "users", user_id))


@kit.tool()
def list_all_airports(world: World) -> list[Record]:
    """List all airports with their cities."""
    return [Record(iata=iata, city=city) for iata, city in _AIRPORTS]


@kit.tool()
def get_flight_status(world: World, flight_number: str, date: str) -> str:
    """Tell the status of a flight on a date.

    Args:
        flight_number: The flight, such as "HAT001".
    """
    return str(_instance(world, flight_number, date)["status"])


def _offer(flight: dict[str, Any], date: str, shown_date: str | None) -> Record | None:
    """Return a flight as a search result, its date `shown_date`; None where it cannot be booked on the date."""
    instance = flight["dates"].get(date)
    if instance is None or instance["status"] != "available":
        return None
    way, times = (
        {name: flight[name] for name in names}
        for names in (_WAY, ("scheduled_departure_time_est", "scheduled_arrival_time_est"))
    )
    bookable = {name: instance[name] for name in ("available_seats", "prices")}
    return Record(**way, status="available", **times, date=shown_date, **bookable)


def _flights_between(world: World, origin: str | None, destination: str | None) -> list[dict[str, Any]]:
    """Return the flights from one airport to another, in file order; None for either stands for any."""
    flights = list(world.agent.rows("flights"))
    if origin is not None:
        flights = [flight for flight in flights if flight["origin"] == origin]
    return flights if destination is None else [flight for flight in flights if flight["destination"] == destination]


@kit.tool()
def search_direct_flight(world: World, origin: str, destination: str, date: str) -> list[Record]:
    """Search direct flights between two airports on a date."""
    flights = _flights_between(world, origin, destination)
    offers = (_offer(flight, date, None) for flight in flights)
    return [flight for flight in offers if flight is not None]


@kit.tool()
def search_onestop_flight(world: World, origin: str, destination: str, date: str) -> list[list[Record]]:
    """Search flights with one stop between two airports on a date; each result is a pair of flights.

    Args:
        date: The date of the first flight, such as "2024-05-01".
    """
    onward = _flights_between(world, None, destination)
    pairs = []
    for start in _flights_between(world, origin, None):
        first = _offer(start, date, date)
        if first is None:
            continue
        arrival = start["scheduled_arrival_time_est"]
        later = f"2024-05-{int(date[-2:]) + 1}" if "+1" in arrival else date
        for flight in onward:
            if flight["origin"] == start["destination"] and flight["scheduled_departure_time_est"] >= arrival:
                second = _offer(flight, later, later)
                if second is not None:
                    pairs.append([first, second])
    return pairs


def _first_free(names: tuple[str, ...], ids: Container[str], kind: str) -> str:
    """Return the first of the names that is not among the ids; ToolFailure ("Too many" of the kind) if all are."""
    for name in names:
        if name not in ids:
            return name
    raise ToolFailure(f"Too many {kind}")


def _check_payments(user: dict[str, Any], payments: list[Payment], total: int) -> None:
    """Raise ToolFailure unless the user has each method, with enough on cards and certificates, and the sum is the total."""
    for payment in payments:
        key = payment["payment_id"]
        method = present(user["payment_methods"].get(key), f"Payment method {key} not found")
        if method["source"] in ("gift_card", "certificate") and method["amount"] < payment["amount"]:
            raise ToolFailure(f"Not enough balance in payment method {payment['payment_id']}")
    paid = sum(payment["amount"] for payment in payments)
    if paid != total:
        raise ToolFailure(f"Payment amount does not add up, total price is {total}, but paid {paid}")


def _pay(user: dict[str, Any], payments: list[Payment]) -> None:
    """Take payments, in place, from gift cards; a certificate is used up whole, other methods are left alone."""
    for payment in payments:
        method = user["payment_methods"][payment["payment_id"]]
        if method["source"] == "gift_card":
            method["amount"] -= payment["amount"]
        elif method["source"] == "certificate":
            del user["payment_methods"][payment["payment_id"]]


@kit.tool("write")
def book_reservation(
    world: World,
    user_id: str,
    origin: str,
    destination: str,
    flight_type: Literal["round_trip", "one_way"],
    cabin: Literal["business", "economy", "basic_economy"],
    flights: list[ChosenFlight],
    passengers: list[Passenger],
    payment_methods: list[Payment],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: Literal["yes", "no"],
) -> Record:
    """Book a reservation.

    Args:
        user_id: The user who books, such as "sara_doe_496".
        origin: The first airport, such as "SFO".
        destination: The airport to travel to, such as "JFK".
        flight_type: Whether the trip has a way back.
        flights: The flights of the whole trip, in order.
        passengers: The people who fly.
        payment_methods: The methods that pay, with amounts that add up to the total price.
        total_baggages: How many bags are checked in.
        insurance: Whether the travel insurance is taken.
    """
    flights = _records(flights, _CHOSEN_FLIGHT, "flights")
    passengers = _records(passengers, _PERSON, "passengers")
    payment_methods = _records(payment_methods, _PAYMENT, "payment_methods")
    _find(world, "users", user_id)
    ids = [name for name in _NEW_RESERVATIONS if world.agent.get("reservations", name) is not None]
    new_id = _first_free(_NEW_RESERVATIONS, ids, "reservations")
    reservation = shaped(
        {
            "reservation_id": new_id, "user_id": user_id, "origin": origin, "destination": destination,
            "flight_type": flight_type, "cabin": cabin, "flights": [], "passengers": passengers,
            "payment_history": payment_methods, "created_at": NOW, "total_baggages": total_baggages,
            "nonfree_baggages": nonfree_baggages, "insurance": insurance,
        },
        SHAPES["reservations"], "reservation",
    )  # fmt: skip
    size = len(passengers)
    legs = [_leg(world, one, _free_instance(world, one, cabin, size)["prices"][cabin]) for one in flights]
    total = sum(leg["price"] for leg in legs) * size + (30 * size if insurance == "yes" else 0) + 50 * nonfree_baggages
    _check_payments(_find(world, "users", user_id), payment_methods, total)
    _pay(world.agent.edit("users", user_id), payment_methods)
    return Record(_book(world, {**reservation, "flights": legs}, size))


def _book(world: World, reservation: dict[str, Any], size: int) -> dict[str, Any]:
    """Take the seats of a paid reservation and keep it under its id and with its user; return the record kept."""
    for leg in reservation["flights"]:
        instance = world.agent.edit("flights", leg["flight_number"])["dates"][leg["date"]]
        instance["available_seats"][reservation["cabin"]] -= size
    new_id = reservation["reservation_id"]
    world.agent.edit("users", reservation["user_id"])["reservations"].append(new_id)
    return world.agent.add("reservations", new_id, reservation)


@kit.tool("write")
def cancel_reservation(world: World, reservation_id: str) -> Record:
    """Cancel a whole reservation; what was paid is refunded to where it came from."""
    # As in the original, who cancels again doubles the history. Ours ends that, before a few turns fill the memory.
    if len(_find(world, "reservations", reservation_id)["payment_history"]) > _MOST_PAYMENTS:
        raise ToolFailure("Too many payments")
    reservation = world.agent.edit("reservations", reservation_id)
    refunds = [{**payment, "amount": -payment["amount"]} for payment in reservation["payment_history"]]
    reservation["payment_history"] += refunds
    reservation["status"] = "cancelled"
    return Record(reservation)


@kit.tool("write")
def send_certificate(world: World, user_id: str, amount: int) -> str:
    """Send a user a certificate. Be careful: it is money.

    Args:
        amount: The amount in dollars.
    """
    methods = _find(world, "users", user_id)["payment_methods"]
    new_id = _first_free(_NEW_CERTIFICATES, methods, "certificates")
    certificate = {"source": "certificate", "id": new_id, "amount": shaped(amount, float, "amount")}
    world.agent.edit("users", user_id)["payment_methods"][new_id] = certificate
    return f"Certificate {new_id} added to user {user_id} with amount {amount}."


def _settle(world: World, reservation: dict[str, Any], payment_id: str, total: int) -> list[dict[str, Any]]:
    """Pay an update's price (below 0: a refund) and return the payments to book, [] for 0; ToolFailure if impossible."""
    user_id = reservation["user_id"]
    method = present(_find(world, "users", user_id)["payment_methods"].get(payment_id), "Payment method not found")
    if method["source"] == "certificate":
        raise ToolFailure("Certificate cannot be used to update reservation")
    if method["source"] == "gift_card":
        if method["amount"] < total:
            raise ToolFailure("Gift card balance is not enough")
        world.agent.edit("users", user_id)["payment_methods"][payment_id]["amount"] -= total
    return [dict(shaped({"payment_id": payment_id, "amount": total}, _PAYMENT, "payment"))] if total else []


@kit.tool("write")
def update_reservation_baggages(
    world: World, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> Record:
    """Change how many bags a reservation has.

    Args:
        total_baggages: How many bags it then has.
        payment_id: The method that pays for added ones, as listed for the user.
    """
    reservation = _find(world, "reservations", reservation_id)
    total = 50 * max(0, nonfree_baggages - reservation["nonfree_baggages"])
    payments = _settle(world, reservation, payment_id, total)
    reservation = world.agent.edit("reservations", reservation_id)
    reservation["payment_history"] += payments
    reservation["total_baggages"], reservation["nonfree_baggages"] = total_baggages, nonfree_baggages
    return Record(reservation)


@kit.tool("write")
def update_reservation_flights(
    world: World,
    reservation_id: str,
    cabin: Literal["business", "economy", "basic_economy"],
    flights: list[ChosenFlight],
    payment_id: str,
) -> Record:
    """Change the flights or the cabin of a reservation.

    Args:
        flights: All flights of the new trip in order, also those that stay as they are.
        payment_id: The method that pays or receives the price difference, as listed for the user.
    """
    flights = _records(flights, _CHOSEN_FLIGHT, "flights")
    reservation = _find(world, "reservations", reservation_id)
    size, legs = len(reservation["passengers"]), []
    for choice in flights:
        leg = _kept_leg(reservation, cabin, choice)
        if leg is None:
            instance = _free_instance(world, choice, cabin, size)
            leg = _leg(world, choice, instance["prices"][cabin])
        legs.append(leg)
    before = sum(leg["price"] for leg in reservation["flights"]) * size
    payments = _settle(world, reservation, payment_id, sum(leg["price"] for leg in legs) * size - before)
    reservation = world.agent.edit("reservations", reservation_id)
    reservation["payment_history"] += payments
    reservation["flights"], reservation["cabin"] = thawed(legs), cabin
    return Record(reservation)


def _kept_leg(reservation: dict[str, Any], cabin: str, choice: ChosenFlight) -> dict[str, Any] | None:
    """Return a reservation's leg with the choice's number and date; None for a new one, or in another cabin."""
    if cabin != reservation["cabin"]:
        return None
    key = (choice["flight_number"], choice["date"])
    return next((leg for leg in reservation["flights"] if (leg["flight_number"], leg["date"]) == key), None)


@kit.tool("write")
def update_reservation_passengers(world: World, reservation_id: str, passengers: list[Passenger]) -> Record:
    """Change who flies on a reservation; the number of passengers stays.

    Args:
        passengers: All passengers.
    """
    passengers = _records(passengers, _PERSON, "passengers")
    reservation = _find(world, "reservations", reservation_id)
    if len(passengers) != len(reservation["passengers"]):
        raise ToolFailure("Number of passengers does not match")
    reservation = world.agent.edit("reservations", reservation_id)
    reservation["passengers"] = thawed(passengers)
    return Record(reservation)


add_shared_tools(kit)
