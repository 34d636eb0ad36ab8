"""The airline's rule-based agent changes cabins and days of what is booked, and makes new bookings."""

from typing import Any

from agent_envs.envs.tau2.airline_rules import BAG, INSURANCE, flown, paid_bags, price_of
from agent_envs.envs.tau2.heuristics.airline_desk import Desk, Row, Turn, no, proposed
from agent_envs.envs.tau2.heuristics.airline_words import (
    bags_in,
    cabin_in,
    choices_in,
    days_in,
    insured_in,
    limit_in,
    new_day,
    people_in,
    places_in,
    routes_in,
)


def _changed(desk: Desk, row: Row, target: str, legs: list[Row], what: str) -> str:
    """Return the next step of other flights or another cabin."""
    rise = price_of(legs, len(row["passengers"])) - price_of(row["flights"], len(row["passengers"]))
    money = f"which costs {rise} dollars more" if rise >= 0 else f"which gives {-rise} dollars back"
    limit = limit_in(desk.text)
    if limit is not None and rise > limit:
        return no(f"{what} would cost {rise} dollars more, which is above your limit of {limit:.0f} dollars")
    method = desk.payer(rise)
    told = f"{what}, {money}, on {desk.called(method)}"
    return proposed(
        desk, f"I can do this: {told}.", f"That has been changed: {told}.", "update_reservation_flights",
        reservation_id=row["reservation_id"], cabin=target, payment_id=method["id"],
        flights=[{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in legs],
    )  # fmt: skip


def cabin(desk: Desk) -> str:
    """Return the next step towards another cabin."""
    row = desk.meant()
    target, size = cabin_in(desk.text), len(row["passengers"])
    if not target:
        return "Which cabin would you like: basic economy, economy or business?"
    if flown(desk.statuses(row)):
        return no("the cabin cannot be changed once a part of the trip has been flown")
    legs = []
    for leg in row["flights"]:
        offers = desk.offered(leg["origin"], leg["destination"], leg["date"], target, size)
        legs += [one for one in offers if one["flight_number"] == leg["flight_number"]]
    if len(legs) < len(row["flights"]):
        return no("there are not enough seats left in that cabin")
    words = target.replace("_", " ")
    return _changed(desk, row, target, legs, f"{words} for everybody on reservation {row['reservation_id']}")


def move(desk: Desk) -> str:
    """Return the next step towards another day."""
    row = desk.meant()
    legs = row["flights"]
    if row["cabin"] == "basic_economy":
        return no("basic economy flights cannot be changed")
    if flown(desk.statuses(row)):
        return no("a trip of which a part has been flown cannot be changed here")
    place = _place(desk, row)
    day = new_day(desk.text, [leg["date"] for leg in legs])
    if not day:
        return "To which date would you like to move the flight?"
    leg = legs[place]
    offers = desk.offered(leg["origin"], leg["destination"], day, row["cabin"], len(row["passengers"]))
    new = _selected(desk, offers, day)
    what = f"flight {new['flight_number']} on {day} for reservation {row['reservation_id']}"
    return _changed(desk, row, row["cabin"], [*legs[:place], new, *legs[place + 1 :]], what)


def _place(desk: Desk, row: Row) -> int:
    """Return which flight of a reservation is meant."""
    days = days_in(desk.text)
    text = desk.text.lower()
    if len(row["flights"]) > 1 and any(
        word in text for word in ("flight back", "return flight", "way back", "inbound")
    ):
        return 1
    if any(word in text for word in ("flight out", "outbound", "first flight")):
        return 0
    named = [place for place, leg in enumerate(row["flights"]) if leg["date"] in days]
    return named[-1] if named else 0


def _selected(desk: Desk, offers: list[Row], day: str, place: int = 0) -> Row:
    """Return the flight of a day that the user would take; `place` counts the flights of a booking."""
    if not offers:
        raise Turn(no(f"there is no direct flight with enough seats on {day}"))
    named = [one for one in offers if one["flight_number"] in desk.text]
    choices = choices_in(desk.text)
    if named or len(offers) == 1:
        return (named or offers)[0]
    if not choices:
        shown = "; ".join(
            f"{one['flight_number']} at {one['scheduled_departure_time_est']} for {one['price']} dollars"
            for one in offers
        )
        raise Turn(f"On {day} there are these: {shown}. Which flight would you like, the cheapest perhaps?")
    choice = choices[min(place, len(choices) - 1)]
    if choice == "cheapest":
        return min(offers, key=lambda one: int(one["price"]))
    ends = sorted(offers, key=lambda one: str(one["scheduled_departure_time_est"]))
    return ends[0] if choice == "earliest" else ends[-1]


def book(desk: Desk) -> str:
    """Return the next step towards a new booking."""
    text, days = desk.text, days_in(desk.text)
    routes, places = routes_in(text, desk.cities), places_in(text, desk.cities)
    route = routes[0] if routes else (places[0], places[1]) if places[1:] else None
    number, insured, wanted = bags_in(text)[0], insured_in(text), cabin_in(text)
    back = len(days) > 1 and "one way" not in text.lower()
    company = any(word in text.lower().split() for word in ("me", "me,", "alone", "myself", "me.")) or people_in(text)
    gaps = {
        "from where to where you fly": route, "the date": days, "the cabin": wanted,
        "the passengers with their dates of birth": company, "how many bags you check in": number is not None,
        "whether you want the travel insurance": insured is not None, "the payment method": desk.methods(),
    }  # fmt: skip
    missing = [name for name, found in gaps.items() if not found]
    if missing or route is None or number is None:
        return f"For the booking I still need to know {', '.join(missing)}. Could you tell me that, please?"
    me = {**desk.user["name"], "dob": desk.user["dob"]}
    people = [me, *(one for one in people_in(text) if one["first_name"] != me["first_name"])]
    legs = []
    for place, day in enumerate(days[: 1 + back]):
        way = route[::-1] if place else route
        legs.append(_selected(desk, desk.offered(*way, day, wanted, len(people)), day, place))
    paid = paid_bags(desk.user["membership"], wanted, len(people), number)
    total = price_of(legs, len(people)) + BAG * paid + INSURANCE * len(people) * bool(insured)
    payments = _payments(desk, total)
    told = f"{', '.join(leg['flight_number'] + ' on ' + leg['date'] for leg in legs)} in {wanted} for {total} dollars in all"
    return proposed(
        desk, f"I can book {told}.", f"I have booked {told}.", "book_reservation", user_id=desk.user["user_id"],
        origin=route[0], destination=route[1], flight_type="round_trip" if back else "one_way", cabin=wanted,
        flights=[{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in legs], passengers=people,
        payment_methods=payments, total_baggages=number, nonfree_baggages=paid, insurance="yes" if insured else "no",
    )  # fmt: skip


def _payments(desk: Desk, total: int) -> list[dict[str, Any]]:
    """Return what pays how much of a total: the named methods one after the other."""
    payments, left = list[dict[str, Any]](), total
    for method in desk.methods():
        part = min(left, int(method.get("amount", left)))
        if part:
            payments.append({"payment_id": method["id"], "amount": part})
        left -= part
    if left:
        raise Turn(f"That is {total} dollars in all. Which payment method shall I use for the other {left} dollars?")
    return payments
