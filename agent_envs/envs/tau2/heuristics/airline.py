"""The airline's rule-based agent finds out what is wanted, checks it against the policy, asks for a yes, and acts."""

import re
from collections.abc import Sequence
from typing import Any

from agent_envs.envs.tau2 import airline_rules as rules
from agent_envs.envs.tau2.heuristics.desk import Desk, plans
from agent_envs.envs.tau2.heuristics.reading import Row, called, matches, methods_in, names

_NUMBERS = {word: number for number, word in enumerate("no one two three four five six seven eight nine ten".split())}
_BAGS = rf"(?i)\b(\d{{1,2}}|{'|'.join(_NUMBERS)}|an?)\b(?: \w+){{0,2}} (?:bag|suitcase|piece)s?\b"
_REASONS = {
    "health": r"(?i)\b(ill|sick\w*|hospital|doctor|broken|surgery|injur\w+|medical|health|disease|fever|accident|ankle)\b",
    "weather": r"(?i)\b(weather|storm\w*|hurricane|snow\w*|flood\w*|tornado|typhoon|blizzard)\b",
}
_CHOICES = r"(?i)\b(?:(cheap|lowest|least|best price)|(earl|first flight|morning)|(latest|last flight|evening|late\b))"
_DAY = r"\b2024-05-(\d\d)\b|\bMay (\d{1,2})\b|\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? May\b"
_DATE = r"\b(?:19|20)\d\d-\d\d-\d\d\b"
serve = Desk.serve_once


def _user(desk: Desk) -> Row:
    """Return the user's record by the last id found of those it wrote; raises Act to look it up, or DeskTurn to ask for one."""
    ids = matches(r"\b[a-z]+(?:_[a-z]+)+_\d{2,6}\b", "\n".join(desk.user))
    records = desk.look("get_user_details", *({"user_id": one} for one in ids))
    if not records:
        desk.ask(f"{'I could not find that user. ' if ids else ''}May I have your user id, please?")
    return dict(records[-1])


def _days(text: str) -> list[str]:
    """Return each day of May in a text as a date of 2024."""
    return [f"2024-05-{int(''.join(day)):02d}" for day in re.findall(_DAY, text)]


def _reservations(desk: Desk) -> list[Row]:
    """Return the reservations named, else those that match the description best; raises Act to look up, DeskTurn to ask."""
    own = list(_user(desk)["reservations"])
    keys = [key for key in matches(r"\b[A-Z0-9]{6}\b", desk.text) if key in own]
    # As they were at first: an apology is for the flights of then.
    rows = desk.look("get_reservation_details", *({"reservation_id": key} for key in keys or own), fresh=False)
    if keys:
        return rows
    cities = {row["iata"]: row["city"] for row in desk.look("list_all_airports", {})[0]}
    days = _days(desk.text)
    signs = [
        [f"from {cities[row['origin']]}" in desk.text, f"to {cities[row['destination']]}" in desk.text]
        + [leg["date"] in days or leg["flight_number"] in desk.text for leg in row["flights"]]
        for row in rows
    ]
    best = max(map(sum, signs), default=0)
    if best < 2:
        desk.ask("Which reservation is it about? Please tell me its number, or from where to where and when you fly.")
    return [row for row, marks in zip(rows, signs, strict=True) if sum(marks) == best]


def _statuses(desk: Desk, row: Row) -> list[str]:
    """Look up the status of each flight of a reservation, as text."""
    return [str(status) for status in desk.look("get_flight_status", *map(_flight, row["flights"]))]


def _flight(leg: Row) -> dict[str, Any]:
    """Return number and date of a leg, the arguments by which tools take a flight."""
    return {"flight_number": leg["flight_number"], "date": leg["date"]}


def _payer(desk: Desk, cost: int) -> Row:
    """Return the first method that can pay, by the user's words (any if free, or the only one); DeskTurn asks for it."""
    own = [method for method in _user(desk)["payment_methods"].values() if method["source"] != "certificate"]
    candidates = own if len(own) == 1 else methods_in(desk.text, own) or ([] if cost else own)
    able = [method for method in candidates if method["source"] == "credit_card" or method["amount"] >= cost]
    if not able:
        desk.ask(f"Which payment method shall I use? You have {', '.join(map(called, own))}.")
    return able[0]


def _cancel(desk: Desk) -> None:
    """Take a cancellation's next step: hand a flown trip over, ask for the reason once, refuse by policy, or propose."""
    row = _reservations(desk)[-1]
    key, statuses = row["reservation_id"], _statuses(desk, row)
    if rules.flown(statuses):
        desk.hand_over("The passenger wants to cancel a trip of which a part has been flown.")
    reasons = [reason for reason, words in _REASONS.items() if re.search(words, desk.text)]
    question = "May I ask for the reason why you want to cancel?"
    if not reasons and not desk.repetitions(question):
        desk.say(question)
    if not rules.may_cancel(row, statuses, *reasons[:1]):
        desk.refuse(f"reservation {key} cannot be cancelled under our policy")
    back = f"{rules.refund(row)} dollars come back to where they were paid from, within 5 to 7 business days"
    desk.propose(f"I can cancel reservation {key}; {back}.", "cancel_reservation", reservation_id=key)


def _bags(desk: Desk) -> None:
    """Ask how many bags to add, then propose to enter them, with the price of those that are not free; always raises."""
    row, match = _reservations(desk)[-1], re.search(_BAGS, desk.text)
    if match is None:
        desk.ask("How many bags would you like to add?")
    total = int(match[1]) if match[1].isdigit() else _NUMBERS.get(match[1].lower(), 1)
    total += 0 if " more " not in match[0] and re.search(r"\bin (?:all|total)\b", desk.text) else row["total_baggages"]
    paid = rules.paid_bags(_user(desk)["membership"], row["cabin"], len(row["passengers"]), total)
    new = max(0, paid - row["nonfree_baggages"])
    method, key = _payer(desk, rules.BAG * new), row["reservation_id"]
    act = f"I can enter {total} bags in all on reservation {key}, for {rules.BAG * new} dollars, on {called(method)}."
    arguments = {"total_baggages": total, "nonfree_baggages": row["nonfree_baggages"] + new, "payment_id": method["id"]}
    desk.propose(act, "update_reservation_baggages", reservation_id=key, **arguments)


def _passenger(desk: Desk) -> None:
    """Ask for old name, new name and, unless only the last name changes, birth; then propose the new passenger."""
    row, pairs = _reservations(desk)[-1], names(desk.text)
    people = [dict(one) for one in row["passengers"]]
    booked = [(one["first_name"], one["last_name"]) for one in people]
    old, new = [pair for pair in pairs if pair in booked], [pair for pair in pairs if pair not in booked]
    if not old or not new:
        desk.ask("Please tell me the full name of the passenger as it is booked, and the full new name.")
    place, (first, last) = booked.index(old[-1]), new[-1]
    born = [people[place]["dob"]] if first == old[-1][0] else matches(_DATE, desk.text.replace(_user(desk)["dob"], ""))
    if not born:
        desk.ask(f"What is the date of birth of {first} {last}?")
    people[place] = {"first_name": first, "last_name": last, "dob": born[-1]}
    key, old_name = row["reservation_id"], " ".join(old[-1])
    act = f"I can enter {first} {last}, born on {born[-1]}, for {old_name} on reservation {key}."
    desk.propose(act, "update_reservation_passengers", reservation_id=key, passengers=people)


def _compensation(desk: Desk) -> None:
    """Propose the certificate that the policy allows, for a delay once the flight was changed or cancelled; else refuse."""
    row, own = _reservations(desk)[-1], _user(desk)
    statuses, key = _statuses(desk, row), row["reservation_id"]
    settled = any(desk.last(name, reservation_id=key) for name in ("cancel_reservation", "update_reservation_flights"))
    worth = rules.compensation(own["membership"], row, statuses)
    if not worth or not (settled or "cancelled" in statuses):
        desk.refuse("our policy allows no compensation for this")
    offer = f"I can send you a certificate of {worth} dollars for reservation {key}."
    desk.propose(offer, "send_certificate", user_id=own["user_id"], amount=worth)


def _total_paid(desk: Desk) -> None:
    """Tell the customer what was paid for the trips in all, and close the wish."""
    desk.close(f"For these trips you paid {sum(map(rules.refund, _reservations(desk)))} dollars in total.")


def _offers(desk: Desk, leg: Row, day: str, cabin: str, size: int) -> list[Row]:
    """Return the direct flights on a leg's route on another day, with seats for everybody, and with their price."""
    query = {"origin": leg["origin"], "destination": leg["destination"], "date": day}
    rows = [row for flights in desk.look("search_direct_flight", query) for row in flights]
    return [row | {"date": day, "price": row["prices"][cabin]} for row in rows if row["available_seats"][cabin] >= size]


def _change(desk: Desk, row: Row, cabin: str, legs: Sequence[Row], what: str) -> None:
    """Propose other flights or another cabin, with the rise in price or the money back; may first ask for the method."""
    people, key = len(row["passengers"]), row["reservation_id"]
    rise = rules.price_of(legs, people) - rules.price_of(row["flights"], people)
    money = f"which costs {rise} dollars more" if rise >= 0 else f"which gives {-rise} dollars back"
    method = _payer(desk, rise)
    offer = f"I can change reservation {key} to {what}, {money}, on {called(method)}."
    arguments = {"cabin": cabin, "flights": list(map(_flight, legs)), "payment_id": method["id"]}
    desk.propose(offer, "update_reservation_flights", reservation_id=key, **arguments)


def _cabin(desk: Desk) -> None:
    """Ask for the cabin, then propose the same flights in it; refuse if a part was flown or seats are missing there."""
    row, cabins = _reservations(desk)[-1], matches(r"(?i)\b(?:basic economy|economy|business)\b", desk.text)
    if not cabins:
        desk.ask("Which cabin would you like: basic economy, economy or business?")
    if rules.flown(_statuses(desk, row)):
        desk.refuse("the cabin cannot be changed once a part of the trip has been flown")
    cabin, legs = cabins[0].lower().replace(" ", "_"), []
    for leg in row["flights"]:
        offers = _offers(desk, leg, leg["date"], cabin, len(row["passengers"]))
        legs += [one for one in offers if one["flight_number"] == leg["flight_number"]]
    if len(legs) < len(row["flights"]):
        desk.refuse("that cabin has not enough seats left")
    _change(desk, row, cabin, legs, f"{cabins[0]} for everybody")


def _move(desk: Desk) -> None:
    """Ask for the date, then propose a flight then (the way back's if said); refuse if flown or in basic economy."""
    row = _reservations(desk)[-1]
    legs, cabin = list(row["flights"]), row["cabin"]
    if cabin == "basic_economy" or rules.flown(_statuses(desk, row)):
        desk.refuse("flights in basic economy, and trips of which a part has been flown, cannot be changed")
    days = [day for day in _days(desk.text) if day not in [leg["date"] for leg in legs]]
    if not days:
        desk.ask("To which date would you like to move the flight?")
    place = -1 if re.search(r"(?i)flight back|return flight|way back|inbound", desk.text) else 0
    offers = [one for day in days for one in _offers(desk, legs[place], day, cabin, len(row["passengers"]))]
    legs[place] = new = _pick_flight(desk, offers)
    _change(desk, row, cabin, legs, f"flight {new['flight_number']} on {new['date']}")


def _pick_flight(desk: Desk, offers: Sequence[Row]) -> Row:
    """Return the cheapest or latest offer if the user chose so, else the earliest; end the turn with a refusal for none."""
    choice = re.search(_CHOICES, desk.text)
    if not offers:
        desk.refuse("there is no direct flight with enough seats then")
    if choice and choice[1]:
        return min(offers, key=lambda one: int(one["price"]))
    return sorted(offers, key=lambda one: str(one["scheduled_departure_time_est"]))[-1 if choice and choice[3] else 0]


PLANS = plans(
    "airline", cancel=_cancel, bags=_bags, passenger=_passenger, compensation=_compensation, spent=_total_paid,
    cabin=_cabin, move=_move,
)  # fmt: skip
