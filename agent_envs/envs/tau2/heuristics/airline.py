"""The airline's rule-based agent finds out what is wanted, checks it against the policy, asks for a yes, and acts."""

import re
from collections.abc import Sequence
from typing import Any

from agent_envs.envs.tau2 import airline_rules as rules
from agent_envs.envs.tau2.heuristics.desk import Desk, Plans
from agent_envs.envs.tau2.heuristics.reading import Row, amounts, called, matches, methods_in, names

_RESERVATION = r"\b(?!HAT\d)[A-Z][A-Z0-9]{5}\b"
_NUMBERS = {word: number for number, word in enumerate("no one two three four five six seven eight nine ten".split())}
_BAGS = re.compile(rf"(?i)\b(\d{{1,2}}|{'|'.join(_NUMBERS)}|an?)\b(?: \w+){{0,2}} (?:bag|suitcase|piece)s?\b")
_ILL = r"(?i)\b(ill|sick\w*|hospital|doctor|broken|surgery|injur\w+|medical|health|disease|fever|accident|ankle)\b"
_STORM = r"(?i)\b(weather|storm\w*|hurricane|snow\w*|flood\w*|tornado|typhoon|blizzard)\b"
_CHOICES = r"(?i)\b(?:(cheap|lowest|least|best price)|(earl|first flight|morning)|(latest|last flight|evening|late\b))"


def serve(desk: Desk) -> None:
    """Take the next step for the passenger."""
    if desk.changed():
        desk.close()
    _user(desk)
    desk.serve(desk.kind)


def _user(desk: Desk) -> Row:
    """Return the user's record."""
    ids = matches(r"\b[a-z]+(?:_[a-z]+)+_\d{2,6}\b", "\n".join(desk.user))
    known = desk.look("get_user_details", *({"user_id": one} for one in ids))
    if not known:
        lost = f"I could not find a user {ids[-1]}. " if ids else ""
        desk.ask(
            f"{lost}May I have your user id, please{'' if desk.kind else ', and may I ask what I can do for you'}?"
        )
    return dict(known[-1])


def _days(text: str) -> list[str]:
    """Return the days that a text names, each once, in order."""
    days = re.findall(r"\b2024-05-(\d\d)\b|\bMay (\d{1,2})\b|\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? May\b", text)
    return list(dict.fromkeys(f"2024-05-{int(''.join(day)):02d}" for day in days))


def _places(desk: Desk) -> list[str]:
    """Return the airports that the wish names, by city or code, in order."""
    airports = {
        name: row["iata"] for row in desk.look("list_all_airports", {})[0] for name in (row["city"], row["iata"])
    }
    return [airports[name] for name in matches(rf"\b(?:{'|'.join(map(re.escape, airports))})\b", desk.text)]


def _reservations(desk: Desk) -> list[Row]:
    """Return the reservations that the wish names, else those that fit best what it tells of a trip."""
    own = list(_user(desk)["reservations"])
    named = [key for key in matches(_RESERVATION, desk.text) if key in own]
    rows = desk.look("get_reservation_details", *({"reservation_id": key} for key in named or own))
    if named:
        return rows
    days, places, flights = _days(desk.text), _places(desk), matches(r"\bHAT\d{3}\b", desk.text)
    trips = list(zip(places, places[1:], strict=False))
    scores = []
    for row in rows:
        legs = [(leg["origin"], leg["destination"]) in trips for leg in row["flights"]]
        told = [2 * (leg["flight_number"] in flights) + (leg["date"] in days) for leg in row["flights"]]
        scores.append(3 * ((row["origin"], row["destination"]) in trips) + sum(legs) + sum(told))
    if max(scores, default=0) < 2:
        desk.ask(
            "Which reservation is it about? Please tell me its number, or from where to where and on which date you fly."
        )
    return [row for row, score in zip(rows, scores, strict=True) if score == max(scores)]


def _statuses(desk: Desk, row: Row) -> list[str]:
    return [str(status) for status in desk.look("get_flight_status", *map(_flight, row["flights"]))]


def _flight(leg: Row) -> dict[str, Any]:
    return {"flight_number": leg["flight_number"], "date": leg["date"]}


def _payer(desk: Desk, cost: int) -> Row:
    """Return the method that pays for a change."""
    own = [method for method in _user(desk)["payment_methods"].values() if method["source"] != "certificate"]
    named = own if len(own) == 1 or not cost else methods_in(desk.text, own)
    able = [method for method in named if method["source"] == "credit_card" or method["amount"] >= cost]
    if not able:
        desk.ask(f"Which payment method shall I use? You have {', '.join(map(called, own))}.")
    return able[0]


def _cancel(desk: Desk) -> None:
    row = _reservations(desk)[-1]
    key, statuses = row["reservation_id"], _statuses(desk, row)
    if rules.flown(statuses):
        desk.hand_over("The passenger wants to cancel a trip of which a part has been flown.")
    reason = "health" if re.search(_ILL, desk.text) else "weather" if re.search(_STORM, desk.text) else ""
    question = "May I ask for the reason why you want to cancel?"
    if not reason and not desk.asked(question):
        desk.say(question)
    if not rules.may_cancel(row, statuses, reason):
        desk.refuse(f"reservation {key} cannot be cancelled under our policy")
    back = f"{rules.refund(row)} dollars come back to where they were paid from, within 5 to 7 business days"
    desk.propose(f"I can cancel reservation {key}; {back}.", "cancel_reservation", reservation_id=key)


def _bags(desk: Desk) -> None:
    row, number = _reservations(desk)[-1], _number(desk.text)
    if number is None:
        desk.ask("How many bags would you like to add?")
    total = number + (0 if re.search(r"\bin (?:all|total)\b", desk.text) else row["total_baggages"])
    paid = rules.paid_bags(_user(desk)["membership"], row["cabin"], len(row["passengers"]), total)
    cost = rules.BAG * max(0, paid - row["nonfree_baggages"])
    method, key = _payer(desk, cost), row["reservation_id"]
    given = {
        "total_baggages": total,
        "nonfree_baggages": max(paid, row["nonfree_baggages"]),
        "payment_id": method["id"],
    }
    told = f"I can enter {total} bags in all on reservation {key}, for {cost} dollars, on {called(method)}."
    desk.propose(told, "update_reservation_baggages", reservation_id=key, **given)


def _number(text: str) -> int | None:
    """Return how many bags a text speaks of."""
    count = _BAGS.search(text)
    return None if count is None else int(count[1]) if count[1].isdigit() else _NUMBERS.get(count[1].lower(), 1)


def _passenger(desk: Desk) -> None:
    row, own = _reservations(desk)[-1], _user(desk)
    people = [dict(one) for one in row["passengers"]]
    booked = [f"{one['first_name']} {one['last_name']}" for one in people]
    said = desk.text.replace("My name is {first_name} {last_name}".format(**own["name"]), "")
    places = [place for place, name in enumerate(booked) if name in said] or [0][: len(people) == 1]
    if not places:
        desk.ask("Which passenger is it about? Please tell me the full name as it is booked, and the new one.")
    old, cities = people[places[0]], " ".join(one["city"] for one in desk.look("list_all_airports", {})[0])
    new = [pair for pair in names(said) if " ".join(pair) not in booked and pair[0] not in f"On The My Please {cities}"]
    new += [
        (old["first_name"], last)
        for last in re.findall(r"\b(?:to|into|be) ([A-Z][a-z'-]+)\b", said)
        if last not in cities
    ]
    if not new:
        desk.ask("What should the passenger's full name be?")
    first, last = new[0]
    born = (
        [old["dob"]]
        if first == old["first_name"]
        else matches(r"\b(?:19|20)\d\d-\d\d-\d\d\b", said.replace(own["dob"], ""))
    )
    if not born:
        desk.ask(f"What is the date of birth of {first} {last}?")
    people[places[0]] = {"first_name": first, "last_name": last, "dob": born[-1]}
    told = f"I can enter {first} {last}, born on {born[-1]}, for {booked[places[0]]} on reservation {row['reservation_id']}."
    desk.propose(told, "update_reservation_passengers", reservation_id=row["reservation_id"], passengers=people)


def _compensation(desk: Desk) -> None:
    row, own = _reservations(desk)[-1], _user(desk)
    statuses, key = _statuses(desk, row), row["reservation_id"]
    settled = any(desk.last(name, reservation_id=key) for name in ("cancel_reservation", "update_reservation_flights"))
    worth = rules.compensation(own["membership"], row, statuses)
    if not worth or not (settled or "cancelled" in statuses):
        desk.refuse("our policy allows no compensation for this")
    told = f"I can send you a certificate of {worth} dollars for reservation {key}."
    desk.propose(told, "send_certificate", user_id=own["user_id"], amount=worth)


def _spent(desk: Desk) -> None:
    desk.close(f"For these trips you paid {sum(map(rules.refund, _reservations(desk)))} dollars in total.")


def _offers(desk: Desk, route: Sequence[str], day: str, cabin: str, size: int) -> list[Row]:
    """Return the flights of a day with seats for everybody, with their price."""
    given = {"origin": route[0], "destination": route[1], "date": day}
    rows = [
        row
        for rows in desk.look("search_direct_flight", given)
        for row in rows
        if row["available_seats"][cabin] >= size
    ]
    return [{**row, "date": day, "price": row["prices"][cabin]} for row in rows]


def _change(desk: Desk, row: Row, cabin: str, legs: Sequence[Row], what: str) -> None:
    """Propose other flights or another cabin, unless it costs more than the user allows."""
    people, key = len(row["passengers"]), row["reservation_id"]
    rise = rules.price_of(legs, people) - rules.price_of(row["flights"], people)
    limit = re.search(r"(?i)\b(?:at most|no more than|less than|under|up to|budget of)\b.*", desk.text)
    if limit and rise > min(amounts(limit[0])[:1], default=rise):
        return
    money = f"which costs {rise} dollars more" if rise >= 0 else f"which gives {-rise} dollars back"
    method, flights = _payer(desk, rise), list(map(_flight, legs))
    given = {"reservation_id": key, "cabin": cabin, "flights": flights, "payment_id": method["id"]}
    desk.propose(
        f"I can change reservation {key} to {what}, {money}, on {called(method)}.",
        "update_reservation_flights",
        **given,
    )


def _cabins(text: str) -> list[str]:
    return [name.lower().replace(" ", "_") for name in matches(r"(?i)\b(?:basic economy|economy|business)\b", text)]


def _cabin(desk: Desk) -> None:
    row, cabins = _reservations(desk)[-1], _cabins(desk.text)
    if not cabins:
        desk.ask("Which cabin would you like: basic economy, economy or business?")
    if rules.flown(_statuses(desk, row)):
        desk.refuse("the cabin cannot be changed once a part of the trip has been flown")
    for cabin in cabins:
        legs = []
        for leg in row["flights"]:
            offers = _offers(desk, (leg["origin"], leg["destination"]), leg["date"], cabin, len(row["passengers"]))
            legs += [one for one in offers if one["flight_number"] == leg["flight_number"]]
        if len(legs) == len(row["flights"]):
            _change(desk, row, cabin, legs, f"{cabin.replace('_', ' ')} for everybody")
    desk.refuse("that cabin has not enough seats left, or costs more than you allow")


def _move(desk: Desk) -> None:
    row = _reservations(desk)[-1]
    legs = list(row["flights"])
    if row["cabin"] == "basic_economy" or rules.flown(_statuses(desk, row)):
        desk.refuse("flights in basic economy, and trips of which a part has been flown, cannot be changed")
    days = [day for day in _days(desk.text) if day not in [leg["date"] for leg in legs]]
    if not days:
        desk.ask("To which date would you like to move the flight?")
    place = len(legs) - 1 if re.search(r"(?i)flight back|return flight|way back|inbound", desk.text) else 0
    route = legs[place]["origin"], legs[place]["destination"]
    new = _chosen(
        desk, [one for day in days for one in _offers(desk, route, day, row["cabin"], len(row["passengers"]))]
    )
    _change(
        desk,
        row,
        row["cabin"],
        [*legs[:place], new, *legs[place + 1 :]],
        f"flight {new['flight_number']} on {new['date']}",
    )
    desk.refuse("that costs more than you allow")


def _chosen(desk: Desk, offers: Sequence[Row], place: int = 0) -> Row:
    """Return the flight that the user would take; `place` counts the flights of a booking."""
    choices = re.findall(_CHOICES, desk.text)
    if not offers:
        desk.refuse("there is no direct flight with enough seats then")
    if not choices and len(offers) > 1:
        shown = "; ".join(f"{one['flight_number']} at {one['scheduled_departure_time_est']}" for one in offers)
        desk.ask(f"There are {shown}. Which flight would you like, the cheapest perhaps?")
    cheapest, earliest, _ = choices[min(place, len(choices) - 1)] if choices else ("", "earliest", "")
    if cheapest:
        return min(offers, key=lambda one: int(one["price"]))
    return sorted(offers, key=lambda one: str(one["scheduled_departure_time_est"]))[0 if earliest else -1]


def _book(desk: Desk) -> None:
    own, text, number = _user(desk), desk.text, _number(desk.text)
    pattern = matches(_RESERVATION, text) or re.search(r"\b(?:same as|people of)\b", text)
    like = _reservations(desk)[-1] if pattern else None
    route = [like["origin"], like["destination"]] if like else _places(desk)[:2]
    cabins = [like["cabin"]] if like else _cabins(text)
    people = like["passengers"] if like else _people(text, own)
    days = [day for day in _days(text) if not like or day != like["flights"][0]["date"]]
    insured = [
        not re.search(r"(?i)\b(?:no|not|without)\b", part) for part in re.split(r"[.!?\n]", text) if "insurance" in part
    ]
    methods = methods_in(text, list(own["payment_methods"].values()))
    gaps = {
        "from where to where you fly": route[1:], "the date": days, "the cabin": cabins,
        "the passengers with their dates of birth": people, "how many bags you check in": number is not None,
        "whether you want the travel insurance": insured, "the payment method": methods,
    }  # fmt: skip
    missing = [name for name, known in gaps.items() if not known]
    if missing or number is None:
        desk.ask(f"For the booking I still need to know {', '.join(missing)}. Could you tell me that, please?")
    ways = [(route, days[0]), (route[::-1], days[-1])][: 1 if like or len(days) == 1 else 2]
    legs = [
        _chosen(desk, _offers(desk, way, day, cabins[0], len(people)), place) for place, (way, day) in enumerate(ways)
    ]
    paid = rules.paid_bags(own["membership"], cabins[0], len(people), number)
    total = rules.price_of(legs, len(people)) + rules.BAG * paid + rules.INSURANCE * len(people) * insured[-1]
    payments, left = list[dict[str, Any]](), total
    for method in methods:
        payments += [{"payment_id": method["id"], "amount": min(left, method.get("amount", left))}] if left else []
        left -= min(left, method.get("amount", left))
    flights = " and ".join(f"{leg['flight_number']} on {leg['date']}" for leg in legs)
    desk.propose(
        f"I can book {flights} in {cabins[0]} for {len(people)}, {total} dollars in all.", "book_reservation",
        user_id=own["user_id"], origin=route[0], destination=route[1], flight_type="round_trip" if legs[1:] else "one_way",
        cabin=cabins[0], flights=list(map(_flight, legs)), passengers=people, payment_methods=payments,
        total_baggages=number, nonfree_baggages=paid, insurance="yes" if insured[-1] else "no",
    )  # fmt: skip


def _people(text: str, own: Row) -> list[dict[str, str]]:
    """Return the user, and the people that are told with their dates of birth; none if nobody is told."""
    others = re.findall(r"\b([A-Z][a-z'-]+) ([A-Z][a-z'-]+)[^.\n]{0,40}?(\d{4}-\d\d-\d\d)", text)
    people = [dict(zip(("first_name", "last_name", "dob"), one, strict=True)) for one in others if one[2] != own["dob"]]
    alone = re.search(r"(?i)\b(?:me|alone|myself)\b", text)
    return [{**own["name"], "dob": own["dob"]}, *people] if people or alone else []


PLANS: Plans = {
    "compensation": (r"\b(compensat|deserve|reimburs|voucher|goodwill)|\b(late|delay\w*|cancel\w*)\b.*\bcertificate",
                     _compensation),
    "spent": (r"\bhow much\b.*\b(paid|spent|pay)\b.*\b(total|together|sum)\b", _spent),
    "book": (r"\b(book|new (booking|reservation|flight|trip)|reserve)\b|\b(like|need|have) to (fly|travel|get) from\b", _book),
    "insurance": (r"\b(?<!without )(?<!no )insurance\b", "insurance cannot be added after the booking"),
    "fewer_bags": (r"\b(take|remove|drop|fewer|less|without)\b.*\b(bag|suitcase|luggage)\b.* off|\bremove\b.*\b(bag|suitcase)",
              "bags cannot be taken off a reservation"),
    "bags": (r"\b(bags?|baggage|suitcases?|luggage)\b", _bags),
    "more_people": (r"\b(add|one more|another|additional|extra)\b.{0,25}\b(passenger|person|seat)|\bcome along\b",
                    "the number of passengers cannot be changed"),
    "passenger": (r"\bpassenger|\binstead of (?-i:[A-Z])|\bname\b.*\b(must|chang|correct|wrong)|\btakes the seat\b|misspel",
                  _passenger),
    "cancel": (r"\bcancel(?!led by)|\b(refund|money back|(money|fare)\b.*\b(returned|back))", _cancel),
    "cabin": (r"\b(upgrad|downgrad|cabin)\w*|\b(in|to|into) (business|economy|basic economy)\b", _cabin),
    "elsewhere": (r"\b(goes?|fly|going) to (?-i:[A-Z]).* instead\b|\b(other|different|new) destination\b",
                  "the destination of a reservation cannot be changed"),
    "move": (r"\b(move|change|reschedule|postpone|shift|switch|push|earlier|later|rather fly|suits me)\b"
             r"|\b(another|other|different) (day|flight)\b", _move),
}  # fmt: skip
