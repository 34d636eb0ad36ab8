"""Customers of a generated airline make wishes that have to be worked out: conditions, comparisons, several trips."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_envs.envs.tau2.airline_rules import BAG, CABINS, may_cancel, paid_bags, price_of, refund
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator.airline_booking import paying
from agent_envs.envs.tau2.task_generator.airline_case import (
    CABIN_WORDS,
    NUMBERS,
    Action,
    Case,
    Piece,
    Trip,
    later_days,
    listed,
)
from agent_envs.envs.tau2.task_generator.airline_wants import CANCELLED, REASONS, Pieces, priced, recabining, searches
from agent_envs.envs.tau2.task_generator.airline_world import CITIES, DAYS, TODAY, date

Row = Mapping[str, Any]


def budgeted(case: Case) -> Pieces:
    """Business within a limit, and else the next cabin up or down."""
    for trip in case.free():
        other = "economy" if trip.record["cabin"] == "basic_economy" else "basic_economy"
        rise = priced(case, trip, "business") if trip.record["cabin"] != "business" else None
        if rise is None or rise < 100 or priced(case, trip, other) is None:
            continue
        case.take(trip)
        enough = case.rng.random() < 0.5
        limit = rise // 10 * 10 + 10 * (case.rng.randrange(1, 9) if enough else -case.rng.randrange(1, 9))
        target = "business" if enough else other
        piece = recabining(_plain(case), trip, target, priced(case, trip, target) or 0)
        say = case.pick(
            f"everybody on <my> {case.named(trip)} should fly in business if that is at most {limit} dollars more in all. If "
            f"it is more than that, <I> want {CABIN_WORDS[other]} instead. <I> want to hear the difference in price, too.",
            f"<I> want the best cabin on <my> {case.named(trip)} that <my> budget of {limit} dollars more in all allows: "
            f"business, or else {CABIN_WORDS[other]}. <I> also want to know the difference in price.",
        )
        words = f"business for at most {limit} dollars more in all, and else {CABIN_WORDS[other]}."
        kept = [fact for fact in piece.facts if fact[0] != "cabin"]
        facts = (*kept, ("cabin", words, ""), ("amount", f"at most {limit} dollars more in all.", str(limit)))
        return (replace(piece, say=say, facts=facts),)
    return ()


def _plain(case: Case) -> Case:
    """Return the case for a piece that has its own conditions."""
    plain = Case(case.rng, case.database, case.user, "medium", case.vague)
    plain.balances = case.balances
    case.spent = True
    return plain


def cheapest_day(case: Case) -> Pieces:
    """A flight moved to the cheapest of three days."""
    for trip in case.free():
        place = case.rng.randrange(len(trip.record["flights"]))
        days = sorted(later_days(case, trip, place)[:3])
        leg = trip.record["flights"][place]
        if trip.record["cabin"] == "basic_economy" or set(trip.statuses) != {"available"} or len(days) < 3:
            continue
        way = leg["origin"], leg["destination"]
        offers = [one for day in days for one in case.seated(*way, date(day), trip.record["cabin"], trip.size)]
        prices = sorted(one["price"] for one in offers)
        if len(prices) < 2 or prices[0] == prices[1] or prices[0] == leg["price"]:
            continue
        case.take(trip)
        best = next(one for one in offers if one["price"] == prices[0])
        return (_moved(case, trip, place, best, [f"May {day}" for day in days]),)
    return ()


def _moved(case: Case, trip: Trip, place: int, best: Row, days: list[str]) -> Piece:
    legs, record = trip.record["flights"], trip.record
    rise = (best["price"] - legs[place]["price"]) * trip.size
    method, payment = case.pay(rise)
    part = "flight" if len(legs) == 1 else ("flight out", "flight back")[place]
    said = ", ".join(days[:-1]) + " or " + days[-1]
    say = case.pick(
        f"<I> want to change the {part} of <my> {case.named(trip)} to {said}, whichever day has the cheapest flight. "
        f"<I> need to know which one that is, and the difference in price.",
        f"<my> dates for the {part} of <my> {case.named(trip)} are open: {said} would all do. <I> want to switch to the "
        f"flight that costs least, and to hear the difference in price.",
    )
    facts = (
        *case.about(trip, dated=False),
        ("date", f"{said}.", ""),
        ("flight", f"the cheapest of {said}.", ""),
        payment,
    )
    new = [{"flight_number": one["flight_number"], "date": one["date"]} for one in legs]
    new[place] = {"flight_number": best["flight_number"], "date": best["date"]}
    arguments = {"reservation_id": trip.id, "cabin": record["cabin"], "flights": new, "payment_id": method}
    way = {"origin": legs[place]["origin"], "destination": legs[place]["destination"]}
    looks = [("search_direct_flight", {**way, "date": date(int(day[4:]))}) for day in days]
    actions = (*case.reads(trip), *looks, ("update_reservation_flights", arguments))
    return Piece(say, facts, actions, (str(abs(rise)),), signs=("changed", best["flight_number"]))


def whichever(case: Case) -> Pieces:
    """Two trips cancelled as far as that is allowed, which it is for one of them."""
    trips = [trip for trip in case.free() if trip.ahead]
    good = [trip for trip in trips if may_cancel(trip.record, trip.statuses)]
    bad = [trip for trip in trips if not may_cancel(trip.record, trip.statuses)]
    if not good or not bad:
        return ()
    both = [good[0], bad[0]]
    case.rng.shuffle(both)
    for trip in both:
        case.take(trip)
    named = listed([f"<my> {case.named(trip)}" for trip in both])
    say = case.pick(
        f"<I> have to cancel {named}. If only one of them can be cancelled, <I> want just that, and to hear the refund.",
        f"<I> want to cancel {named}, as far as <I> get the money back, and to know how much that is.",
    )
    reason = ("reason", f"the reason is that {case.pick(*REASONS['plans'])}.", "")
    actions = (*case.reads(both[0]), *case.reads(both[1]), ("cancel_reservation", {"reservation_id": good[0].id}))
    return (Piece(say, (_which(case, both), reason), actions, (str(refund(good[0].record)),), signs=CANCELLED),)


def _which(case: Case, trips: list[Trip]) -> tuple[str, str, str]:
    """Return the fact that tells which reservations are meant."""
    known = "<I> do not have the numbers at hand." if case.vague else f"numbers {listed([trip.id for trip in trips])}."
    return "reservation", f"{known} {listed([trip.words for trip in trips])}.", ""


def upgrades(case: Case) -> Pieces:
    """Two trips at once into one cabin, and what both together cost."""
    target = case.rng.choice(("business", "business", "economy"))
    rises = {trip.id: priced(case, trip, target) for trip in case.free() if trip.record["cabin"] != target}
    trips = [trip for trip in case.free() if rises.get(trip.id)][:2]
    if len(trips) < 2:
        return ()
    total = sum(rises[trip.id] or 0 for trip in trips)
    method, payment = _plain(case).pay(max(total, *(rises[trip.id] or 0 for trip in trips), 10_000))
    actions = list[Action]()
    for trip in trips:
        case.take(trip)
        kept = [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in trip.record["flights"]]
        arguments = {"reservation_id": trip.id, "cabin": target, "flights": kept, "payment_id": method}
        actions += [*case.reads(trip), *searches(trip), ("update_reservation_flights", arguments)]
    named = listed([f"<my> {case.named(trip)}" for trip in trips])
    question = "what both together cost more" if total > 0 else "what comes back for both together"
    say = f"<I> want to change both {named} to {CABIN_WORDS[target]}, and to hear {question}, as one number."
    facts = (_which(case, trips), ("cabin", f"{CABIN_WORDS[target]} on both.", ""), payment)
    return (Piece(say, facts, tuple(actions), (str(abs(total)),), signs=("changed", CABIN_WORDS[target])),)


def again(case: Case) -> Pieces:
    """A booking like one that there is: its route, its cabin and its passengers, on another day."""
    for trip in case.free():
        record, rng = trip.record, case.rng
        day = rng.randrange(TODAY + 2, DAYS + 1)
        found = case.chosen(case.seated(record["origin"], record["destination"], date(day), record["cabin"], trip.size))
        if case.booked or found is None:
            continue
        case.take(trip)
        case.booked = True
        flight, words = found
        bags = rng.randrange(3)
        paid = paid_bags(case.membership, record["cabin"], trip.size, bags)
        total = price_of([flight], trip.size) + BAG * paid
        payments, how = paying(case, total)
        say = case.pick(
            f"<I> want to book the same as <my> {case.named(trip)} once more, one way on May {day}: the same route, the same "
            f"cabin and the same passengers. <I> want {words}, and to hear the total price.",
            f"<I> need a new booking for the people of <my> {case.named(trip)}: {words} on May {day}, one way, to the same "
            "place and in the same cabin as there. <I> want to hear the total price.",
        )
        facts = (
            *case.about(trip, dated=False), ("trip", "one way.", ""), ("date", f"on May {day}.", ""),
            ("flight", f"{words}.", ""), ("cabin", "the same as on that trip.", ""), how,
            ("passengers", "the same as on that trip; their dates of birth are in the reservation.", ""),
            ("bags", f"{NUMBERS[bags]} checked bag{'s' if bags != 1 else ''}.", ""), ("insurance", "no insurance.", ""),
        )  # fmt: skip
        search = {"origin": record["origin"], "destination": record["destination"], "date": date(day)}
        arguments = _booking(case, [flight], thawed(record["passengers"]), record["cabin"], payments)
        arguments |= {"total_baggages": bags, "nonfree_baggages": paid}
        actions = (*case.reads(trip), ("search_direct_flight", search), ("book_reservation", arguments))
        return (Piece(say, facts, actions, (str(total),), signs=("booked", "HATHAT")),)
    return ()


def with_a_stop(case: Case) -> Pieces:
    """A booking between two cities without direct flights: the cheapest with one stop."""
    links = {(flight["origin"], flight["destination"]) for flight in case.flights.values()}
    apart = [(one, two) for one in CITIES for two in CITIES if one != two and (one, two) not in links]
    origin, destination = case.rng.choice(apart)
    day, cabin = case.rng.randrange(TODAY + 2, DAYS + 1), case.rng.choice(CABINS)
    pairs = [
        (first, second)
        for middle in CITIES if {(origin, middle), (middle, destination)} <= links
        for first in case.seated(origin, middle, date(day), cabin, 1)
        for second in case.seated(middle, destination, date(day), cabin, 1)
        if second["scheduled_departure_time_est"] >= first["scheduled_arrival_time_est"]
    ]  # fmt: skip
    prices = sorted(first["price"] + second["price"] for first, second in pairs)
    if case.booked or len(prices) < 2 or prices[0] == prices[1]:
        return ()
    case.booked = True
    best = next(pair for pair in pairs if pair[0]["price"] + pair[1]["price"] == prices[0])
    payments, how = paying(case, prices[0])
    route = f"from {CITIES[origin]} to {CITIES[destination]}"
    say = case.pick(
        f"<I> want to book a trip {route} on May {day} in {CABIN_WORDS[cabin]}. It should be the cheapest one, and one stop "
        "does not matter. <I> want to hear the total price.",
        f"<I> need to get {route} on May {day}, in {CABIN_WORDS[cabin]} and as cheaply as can be, with one stop if it must be. "
        "<I> want to book that and to hear the total price.",
    )
    own = f"only <me>, nobody else. <my> date of birth is {case.user['dob']}."
    facts = (
        ("trip", "one way, with one stop.", ""), ("route", f"{route}.", ""), ("date", f"on May {day}.", ""),
        ("flight", "the cheapest with one stop.", ""), ("cabin", f"{CABIN_WORDS[cabin]}.", ""), ("passengers", own, ""), how,
        ("bags", "no checked bags.", ""), ("insurance", "no insurance.", ""),
    )  # fmt: skip
    me = [{**case.user["name"], "dob": case.user["dob"]}]
    search = {"origin": origin, "destination": destination, "date": date(day)}
    actions = (
        ("search_onestop_flight", search), ("book_reservation", _booking(case, list(best), me, cabin, payments))
    )  # fmt: skip
    return (Piece(say, facts, actions, (str(prices[0]),), signs=("booked", "HATHAT")),)


def _booking(case: Case, legs: list[Row], people: Any, cabin: str, payments: Any) -> dict[str, Any]:
    """Return the arguments of a booking one way, without bags and insurance."""
    return {
        "user_id": case.user["user_id"], "origin": legs[0]["origin"], "destination": legs[-1]["destination"],
        "flight_type": "one_way", "cabin": cabin,
        "flights": [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in legs],
        "passengers": people, "payment_methods": payments, "total_baggages": 0, "nonfree_baggages": 0, "insurance": "no",
    }  # fmt: skip


RIDDLES = {
    "budgeted": budgeted, "cheapest_day": cheapest_day, "whichever": whichever, "upgrades": upgrades, "again": again,
    "with_a_stop": with_a_stop,
}  # fmt: skip
