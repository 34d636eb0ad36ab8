"""Customers of a generated airline make new bookings, and ask for sums that have to be added up."""

from collections.abc import Mapping
from typing import Any

from agent_envs.envs.tau2.airline_rules import BAG, CABINS, INSURANCE, paid_bags, price_of, refund
from agent_envs.envs.tau2.task_generator.airline_case import CABIN_WORDS, NUMBERS, Action, Case, Piece, listed
from agent_envs.envs.tau2.task_generator.airline_world import CITIES, DAYS, TODAY, date

Pieces = tuple[Piece, ...]


def book(case: Case) -> Pieces:
    """A new trip."""
    if case.booked:
        return ()
    rng, user = case.rng, case.user
    people = [{**user["name"], "dob": user["dob"]}, *([case.someone()] if rng.random() < 0.4 else [])]
    wanted = rng.choice(CABINS)
    legs, words = _flights(case, wanted, len(people))
    if not legs:
        return ()
    number, insured = rng.randrange(3), rng.random() < 0.3
    paid = paid_bags(case.membership, wanted, len(people), number)
    total = price_of(legs, len(people)) + BAG * paid + INSURANCE * len(people) * insured
    payments, how = paying(case, total)
    case.booked = True
    say, facts = _wish(case, legs, words, wanted)
    facts += (
        _travellers(people), how, ("bags", f"{NUMBERS[number]} checked bag{'s' if number != 1 else ''}.", ""),
        ("insurance", "yes, with the travel insurance." if insured else "no insurance, please.", ""),
    )  # fmt: skip
    arguments = {
        "user_id": user["user_id"], "origin": legs[0]["origin"], "destination": legs[0]["destination"],
        "flight_type": "round_trip" if legs[1:] else "one_way", "cabin": wanted,
        "flights": [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in legs],
        "passengers": people, "payment_methods": payments, "total_baggages": number, "nonfree_baggages": paid,
        "insurance": "yes" if insured else "no",
    }  # fmt: skip
    looks: list[Action] = [
        ("search_direct_flight", {name: leg[name] for name in ("origin", "destination", "date")}) for leg in legs
    ]
    return (Piece(say, facts, (*looks, ("book_reservation", arguments)), (str(total),), signs=("booked", "HATHAT")),)


def _flights(case: Case, cabin: str, size: int) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Return the flights of a new trip and the words that choose them; none if there are no such flights."""
    some = case.rng.choice(list(case.flights.values()))
    days = sorted(case.rng.sample(range(TODAY + 2, DAYS + 1), 2 if case.rng.random() < 0.4 else 1))
    ways = [(some["origin"], some["destination"]), (some["destination"], some["origin"])]
    legs, words = list[Mapping[str, Any]](), list[str]()
    for (origin, destination), day in zip(ways, days, strict=False):
        found = case.chosen(case.seated(origin, destination, date(day), cabin, size))
        if found is None:
            return [], []
        legs.append(found[0])
        words.append(found[1] if len(days) == 1 else f"{found[1]} {'back' if legs[1:] else 'out'}")
    return legs, words


def _wish(
    case: Case, legs: list[Mapping[str, Any]], words: list[str], cabin: str
) -> tuple[str, tuple[tuple[str, str, str], ...]]:
    """Return how a trip is asked for, and the facts about it."""
    there, back = CITIES[legs[0]["origin"]], CITIES[legs[0]["destination"]]
    days = [f"May {int(leg['date'][-2:])}" for leg in legs]
    when = f"on {days[0]}" + (f" and back on {days[1]}" if legs[1:] else "")
    say = case.say(
        (
            f"<I> want to book a flight from {there} to {back} {when}.",
            f"<I> need a new booking: from {there} to {back} {when}.",
        ),
        f"<I> have to get from {there} to {back} {when} and have no ticket yet.",
    )
    say += f" <I> want {listed(words)} in {CABIN_WORDS[cabin]}, and to hear the total price."
    return say, (
        ("trip", "a round trip." if legs[1:] else "one way.", ""), ("route", f"from {there} to {back}.", ""),
        ("date", f"{when}.", ""), ("flight", f"{listed(words)}.", ""), ("cabin", f"{CABIN_WORDS[cabin]}.", ""),
    )  # fmt: skip


def _travellers(people: list[dict[str, str]]) -> tuple[str, str, str]:
    """Return the fact of who flies on a new trip, the customer first."""
    own = f"<my> date of birth is {people[0]['dob']}"
    if not people[1:]:
        return "passengers", f"only <me>, nobody else. {own}.", ""
    other = people[1]
    return "passengers", f"<me> and {other['first_name']} {other['last_name']}, born on {other['dob']}. {own}.", ""


def paying(case: Case, total: int) -> tuple[list[dict[str, object]], tuple[str, str, str]]:
    """Return the payments of a booking, and the fact that tells how it is paid."""
    worth = {key: case.balances[key] for key, one in case.methods.items() if one["source"] == "certificate"}
    card = case.rng.choice([key for key, one in case.methods.items() if one["source"] == "credit_card"])
    for certificate, balance in worth.items():
        if case.rng.random() < 0.5 and balance < total:
            case.spent = True
            payments: list[dict[str, object]] = [
                {"payment_id": certificate, "amount": balance}, {"payment_id": card, "amount": total - balance}
            ]  # fmt: skip
            return payments, (
                "payment", f"<my> travel certificate first, and the rest on {case.words_of(card)}.", ""
            )  # fmt: skip
    method, fact = card, ("payment", f"all of it on {case.words_of(card)}.", str(case.methods[card]["last_four"]))
    gifts = [key for key, one in case.methods.items() if one["source"] == "gift_card" and case.balances[key] >= total]
    if gifts and case.rng.random() < 0.6:
        method, fact, case.spent = gifts[0], ("payment", "all of it with <my> gift card.", ""), True
        case.balances[method] -= total
    return [{"payment_id": method, "amount": total}], fact


def spent(case: Case) -> Pieces:
    """A question that needs adding up: what two trips cost."""
    trips = list(case.free())[:2]
    if len(trips) < 2:
        return ()
    for trip in trips:
        case.take(trip)
    total = str(sum(refund(trip.record) for trip in trips))
    named = listed([f"<my> {case.named(trip)}" for trip in trips])
    say = f"<I> want to know how much <I> paid in total for {named} together, as one number."
    numbers = listed([trip.id for trip in trips])
    known = "<I> do not have the numbers at hand." if case.vague else f"the reservation numbers are {numbers}."
    facts = (("reservation", f"{known} {listed([trip.words for trip in trips])}.", ""),)
    return (Piece(say, facts, tuple(read for trip in trips for read in case.reads(trip)), (total,), question=True),)


def balance(case: Case) -> Pieces:
    """A question that needs adding up: what there is on a gift card and a certificate."""
    if case.spent or len(case.balances) < 2:
        return ()
    total = str(sum(case.balances.values()))
    case.balances = dict.fromkeys(case.balances, 0)
    case.booked = True
    say = "<I> want to know how much money there is on <my> gift card and <my> travel certificate together."
    return (Piece(say, (), (), (total,), question=True),)
