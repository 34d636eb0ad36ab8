"""Customers of a generated airline make wishes that the policy allows, each drawn from a customer's own situation.

A kind of wish is a function that returns its pieces; it raises `Unfit` where the customer has nothing of the sort.
"""

from collections.abc import Iterable
from typing import Any

from agent_envs.envs.tau2.airline_rules import BAG, CABINS, INSURANCE, compensation, paid_bags, price_of, refund
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator import names
from agent_envs.envs.tau2.task_generator.airline_case import (
    CABIN_WORDS,
    NUMBERS,
    Case,
    Row,
    Trip,
    day_of,
    flights_of,
    later_days,
    route_of,
    search,
    searches,
)
from agent_envs.envs.tau2.task_generator.airline_world import CITIES, DAYS, TODAY, date
from agent_envs.envs.tau2.task_generator.wishes import Action, Piece, Unfit, listed, need
from agent_envs.envs.tau2.user_script import Fact

Pieces = tuple[Piece, ...]
CANCELLED = ("cancelled", "canceled")
BOOKED = ("booked", "HATHAT")


def cancel(case: Case) -> Pieces:
    """Draw a cancellation that the policy allows, of a trip with no cancelled flight; Unfit without one."""
    trip = case.find(lambda trip: "cancelled" not in trip.statuses and trip.grounds(True))
    return (cancelling(case, trip, case.reason(case.pick(*trip.grounds(True)))),)


def cancelling(case: Case, trip: Trip, reason: Fact) -> Piece:
    """Return the piece of a cancellation."""
    say = case.say("cancel", trip=case.label(trip))
    actions = (*case.reads(trip), ("cancel_reservation", {"reservation_id": trip.id}))
    return Piece(say, (*case.about(trip), reason), actions, (str(refund(trip.record)),), CANCELLED)


def struck(case: Case) -> Pieces:
    """Draw two wishes on a flight that the airline cancelled: cancel the trip, then a certificate; Unfit if none is due."""
    trip = case.find(lambda trip: "cancelled" in trip.statuses and trip.ahead)
    worth = compensation(case.membership, trip.record, trip.statuses)
    first = cancelling(case, trip, Fact("reason", "the reason is that the airline cancelled one of its flights."))
    # Without a certificate the flight would be no more than another cancellation.
    return (first, compensating(case, trip, need(worth), "cancelled"))


def late(case: Case) -> Pieces:
    """Draw a complaint about a delayed flight: it is moved, and then a certificate is due; Unfit if no trip allows it."""
    for trip in case.free():
        worth = compensation(case.membership, trip.record, trip.statuses)
        if "delayed" not in trip.statuses or not trip.open or not worth or trip.record["cabin"] == "basic_economy":
            continue
        moved = moving(case, trip, trip.statuses.index("delayed"))
        if moved is not None:
            case.take(trip)
            return moved, compensating(case, trip, worth, "delayed")
    raise Unfit


def compensating(case: Case, trip: Trip, worth: int, what: str) -> Piece:
    """Return the wish for a certificate of a given worth, for the trip's first flight that is `what` (cancelled or delayed)."""
    leg = trip.legs[trip.statuses.index(what)]
    flight = case.pick(f"flight {leg['flight_number']}", f"the flight {route_of(leg)} on {day_of(leg['date'])}")
    verb = "was cancelled by the airline" if what == "cancelled" else "is delayed"
    say = case.say("compensate", flight=flight, verb=verb)
    facts = (*case.about(trip), Fact("flight", f"it is {flight}, and it {verb}."))
    actions: tuple[Action, ...] = (
        ("get_flight_status", flights_of([leg])[0]),
        ("send_certificate", {"user_id": case.user["user_id"], "amount": worth}),
    )
    return Piece(say, facts, actions, signs=("certificate", str(worth)))


def cabin(case: Case) -> Pieces:
    """Draw a wish for another cabin, at another price, for everybody on a trip; Unfit where no trip allows it."""

    def targets(trip: Trip) -> list[str]:
        """Return the other cabins in which the trip can be priced."""
        return [one for one in CABINS if one != trip.record["cabin"] and priced(case, trip, one) is not None]

    trip = case.find(targets)
    return (recabining(case, trip, case.rng.choice(targets(trip))),)


def priced(case: Case, trip: Trip, cabin_wanted: str) -> int | None:
    """Return the rise in price of another cabin (a fall is below 0); None where it cannot be had, or costs the same."""
    if not trip.bookable or cabin_wanted == trip.record["cabin"]:
        return None
    total = 0
    for leg in trip.legs:
        instance = case.instance(leg["flight_number"], leg["date"])
        if instance["available_seats"][cabin_wanted] < trip.size:
            return None
        total += instance["prices"][cabin_wanted] * trip.size
    return total - price_of(trip.legs, trip.size) or None


def recabining(case: Case, trip: Trip, target: str) -> Piece:
    """Return the wish for a change to a cabin, asking for the price; of a tricky customer within a limit that holds."""
    words, difference = CABIN_WORDS[target], priced(case, trip, target) or 0
    question, verb = ("how much more that costs", "upgrade") if difference > 0 else ("how much comes back", "switch")
    say = case.say("cabin", trip=case.label(trip), cabin=words, question=question, verb=verb)
    facts = [*case.about(trip), Fact("cabin", f"to {words}, the same flights.")]
    if case.tricky and difference > 0:
        limit = difference // 10 * 10 + 10 * case.rng.randrange(2, 12)
        say += f" <I> accept it only if it costs at most {limit} dollars more in all."
        facts.append(at_most(limit))
    method, payment = case.pay(difference)
    actions = (*case.reads(trip), *searches(trip.legs), case.rebooked(trip, target, trip.legs, method))
    return Piece(say, (*facts, payment), actions, (str(abs(difference)),), (words, "upgraded", "changed"))


def at_most(limit: int) -> Fact:
    """Return the fact that tells a limit in price."""
    return Fact("amount", f"at most {limit} dollars more in all.", str(limit))


def move(case: Case) -> Pieces:
    """Draw a wish for another day for one flight of a trip; Unfit if no trip allows it."""
    for trip in case.free():
        if trip.open and "delayed" not in trip.statuses and trip.record["cabin"] != "basic_economy":
            piece = moving(case, trip, case.rng.randrange(len(trip.legs)))
            if piece is not None:
                case.take(trip)
                return (piece,)
    raise Unfit


def moving(case: Case, trip: Trip, place: int) -> Piece | None:
    """Return the wish to move a trip's flight to one of the next few days; None where no flight fits, or costs the same."""
    leg, cabin = trip.legs[place], trip.record["cabin"]
    for day in later_days(case, trip, place)[:4]:
        offer = case.select(case.seated(leg["origin"], leg["destination"], date(day), cabin, trip.size))
        if offer is None or offer[0]["price"] == leg["price"]:
            continue
        flight, words = offer
        difference, payment, call = rerouted(case, trip, place, flight)
        before = day_of(leg["date"])
        question = "how much more that costs" if difference > 0 else "how much comes back"
        say = case.say(
            "move", part=part_of(trip, place), trip=case.label(trip), day=day, flight=words, before=before
        )  # fmt: skip
        facts = (
            *case.about(trip, dated=False), Fact("flight", f"{words} on May {day}."), payment,
            Fact("date", f"from {before} to May {day}."), Fact("cabin", "the same cabin as now."),
        )  # fmt: skip
        actions = (*case.reads(trip), search(leg, date(day)), call)
        signs = ("changed", "moved", flight["flight_number"])
        return Piece(f"{say} <I> also want to know {question}.", facts, actions, (str(abs(difference)),), signs)
    return None


def rerouted(case: Case, trip: Trip, place: int, flight: Row) -> tuple[int, Fact, Action]:
    """Return another flight's difference in price for all at a place of a trip, how it is paid (charged), and the call."""
    difference = (flight["price"] - trip.legs[place]["price"]) * trip.size
    method, payment = case.pay(difference)
    legs = [flight if one == place else leg for one, leg in enumerate(trip.legs)]
    return difference, payment, case.rebooked(trip, trip.record["cabin"], legs, method)


def part_of(trip: Trip, place: int) -> str:
    """Return "flight" for a trip's only flight, else "flight out" or "flight back" by place."""
    return "flight" if len(trip.legs) == 1 else ("flight out", "flight back")[place]


def bags(case: Case) -> Pieces:
    """Draw a wish for one to three more bags on a trip, which may cost something; Unfit without a trip open to changes."""
    trip = case.find(lambda trip: trip.open)
    record, more = trip.record, case.rng.randrange(1, 4)
    total = record["total_baggages"] + more
    paid = max(record["nonfree_baggages"], paid_bags(case.membership, record["cabin"], trip.size, total))
    method, payment = case.pay(BAG * (paid - record["nonfree_baggages"]))
    amount = "one more bag" if more == 1 else f"{NUMBERS[more]} more bags"
    say = case.say("bags", bags=amount, trip=case.label(trip))
    facts = (*case.about(trip), Fact("bags", f"{amount}, so that there are {total} in all."), payment)
    arguments = {"reservation_id": trip.id, "total_baggages": total, "nonfree_baggages": paid, "payment_id": method}
    return (Piece(say, facts, (*case.reads(trip), ("update_reservation_baggages", arguments)), signs=("bag", "added")),)


def passenger(case: Case) -> Pieces:
    """Draw a change of a passenger, or (4 in 10) of a misspelt last name; Unfit without a trip open to changes."""
    trip = case.find(lambda trip: trip.open)
    people = thawed(trip.record["passengers"])
    place = case.rng.randrange(len(people))
    old, new = people[place], case.someone(trip)
    if case.rng.random() < 0.4:
        new = {**old, "last_name": case.rng.choice([last for last in names.LAST_NAMES if last != old["last_name"]])}
    before, after = (f"{one['first_name']} {one['last_name']}" for one in (old, new))
    say = case.say(
        "misspelt" if new["dob"] == old["dob"] else "passenger", trip=case.label(trip), before=before, after=after,
        last=new["last_name"], who="<I>" if old["dob"] == case.user["dob"] else before,
    )  # fmt: skip
    born = f"{new['first_name']}'s date of birth is {new['dob']}."
    facts = (
        *case.about(trip), Fact("passengers", f"{after} in place of {before}. {born}"),
        Fact("date_of_birth", born, new["dob"]),
    )  # fmt: skip
    people[place] = new
    call = ("update_reservation_passengers", {"reservation_id": trip.id, "passengers": people})
    return (Piece(say, facts, (*case.reads(trip), call), signs=("changed", "updated", new["last_name"])),)


# New bookings


def book(case: Case) -> Pieces:
    """Draw a wish for a new trip, with its total price; Unfit if one was booked already or no flight fits."""
    need(not case.booked)
    rng, user = case.rng, case.user
    people = [me(case), *([case.someone()] if rng.random() < 0.4 else [])]
    cabin_class = rng.choice(CABINS)
    legs, words = _new_flights(case, cabin_class, len(people))
    number, insured = rng.randrange(3), rng.random() < 0.3
    paid = paid_bags(case.membership, cabin_class, len(people), number)
    total = price_of(legs, len(people)) + BAG * paid + INSURANCE * len(people) * insured
    payments, how = paying(case, total)
    case.booked = True
    days = [day_of(leg["date"]) for leg in legs]
    when = f"on {days[0]}" + (f" and back on {days[1]}" if legs[1:] else "")
    say = case.say("book", there=CITIES[legs[0]["origin"]], back=CITIES[legs[0]["destination"]], when=when)
    say += f" <I> want {listed(words)} in {CABIN_WORDS[cabin_class]}, and to hear the total price."
    own, other = f"<my> date of birth is {user['dob']}.", people[-1]
    beside = f" and {other['first_name']} {other['last_name']}, born on {other['dob']}" if people[1:] else ""
    facts = (
        Fact("trip", "a round trip." if legs[1:] else "one way."), Fact("route", f"{route_of(legs[0])}."),
        Fact("date", f"{when}."), Fact("flight", f"{listed(words)}."), Fact("cabin", f"{CABIN_WORDS[cabin_class]}."),
        Fact("passengers", f"<me>{beside}. {own}" if beside else f"only <me>, nobody else. {own}"), how, bag_fact(number),
        Fact("insurance", "yes, with the travel insurance." if insured else "no insurance, please."),
    )  # fmt: skip
    call = booking(case, legs, people, cabin_class, payments, number, paid)
    call[1]["insurance"] = "yes" if insured else "no"
    if legs[1:]:
        call[1].update(destination=legs[0]["destination"], flight_type="round_trip")
    return (Piece(say, facts, (*searches(legs), call), (str(total),), BOOKED),)


def me(case: Case) -> dict[str, Any]:
    """Return the customer as a passenger."""
    return {**case.user["name"], "dob": case.user["dob"]}


def bag_fact(number: int) -> Fact:
    """Return the fact that tells how many bags a new trip has."""
    return Fact("bags", f"{NUMBERS[number]} checked bag{'s' if number != 1 else ''}.")


def booking(
    case: Case, legs: list[Row], people: Any, cabin: str, payments: list[dict[str, object]], bags: int = 0, paid: int = 0
) -> Action:  # fmt: skip
    """Return the call that books flights as one way and without insurance, from the first origin to the last destination."""
    return ("book_reservation", {
        "user_id": case.user["user_id"], "origin": legs[0]["origin"], "destination": legs[-1]["destination"],
        "flight_type": "one_way", "cabin": cabin, "flights": flights_of(legs), "passengers": people,
        "payment_methods": payments, "total_baggages": bags, "nonfree_baggages": paid, "insurance": "no",
    })  # fmt: skip


def _new_flights(case: Case, cabin: str, size: int) -> tuple[list[Row], list[str]]:
    """Return the flights of a new trip, round in 4 of 10 cases, and the words that choose them; Unfit where none fits."""
    some = case.rng.choice(list(case.flights.values()))
    days = sorted(case.rng.sample(range(TODAY + 2, DAYS + 1), 2 if case.rng.random() < 0.4 else 1))
    ways = [(some["origin"], some["destination"]), (some["destination"], some["origin"])]
    legs, words = list[Row](), list[str]()
    for (origin, destination), day in zip(ways, days, strict=False):
        flight, choice = need(case.select(case.seated(origin, destination, date(day), cabin, size)))
        legs.append(flight)
        words.append(choice if len(days) == 1 else f"{choice} {'back' if legs[1:] else 'out'}")
    return legs, words


def paying(case: Case, total: int) -> tuple[list[dict[str, object]], Fact]:
    """Draw a booking's payments (certificate and card, gift card, or card), charge a gift card; return them and their fact."""
    worth = {key: case.balances[key] for key, one in case.methods.items() if one["source"] == "certificate"}
    card = case.rng.choice([key for key, one in case.methods.items() if one["source"] == "credit_card"])
    for certificate, balance in worth.items():
        if case.rng.random() < 0.5 and balance < total:
            case.uses_balance = True
            fact = Fact("payment", f"<my> travel certificate first, and the rest on {case.words_of(card)}.")
            parts = ((certificate, balance), (card, total - balance))
            return [{"payment_id": method, "amount": amount} for method, amount in parts], fact
    method, fact = card, Fact("payment", f"all of it on {case.words_of(card)}.", str(case.methods[card]["last_four"]))
    gifts = [key for key, one in case.methods.items() if one["source"] == "gift_card" and case.balances[key] >= total]
    if gifts and case.rng.random() < 0.6:
        method, fact, case.uses_balance = gifts[0], Fact("payment", "all of it with <my> gift card."), True
        case.balances[method] -= total
    return [{"payment_id": method, "amount": total}], fact


# Sums


def costs(case: Case) -> Pieces:
    """Draw the question of what two trips cost together; Unfit without two."""
    trips = several(case, case.free())
    total = str(sum(refund(trip.record) for trip in trips))
    say = f"<I> want to know how much <I> paid in total for {case.both(trips)} together, as one number."
    facts = (case.which(trips, "the reservation numbers are {}."),)
    return (Piece(say, facts, tuple(read for trip in trips for read in case.reads(trip)), (total,), question=True),)


def several(case: Case, trips: Iterable[Trip]) -> list[Trip]:
    """Return the first two of some trips, kept for a piece; Unfit where there are fewer."""
    two = list(trips)[:2]
    need(len(two) == 2)
    for trip in two:
        case.take(trip)
    return two


def balance(case: Case) -> Pieces:
    """Draw the question of gift card and certificate together; Unfit unless both are there, unused; sets the balances to 0."""
    need(not case.uses_balance and len(case.balances) >= 2)
    total = str(sum(case.balances.values()))
    case.balances = dict.fromkeys(case.balances, 0)
    case.booked = True
    say = "<I> want to know how much money there is on <my> gift card and <my> travel certificate together."
    return (Piece(say, (), (), (total,), question=True),)


SERVED = {kind.__name__: kind for kind in (cancel, cabin, move, bags, passenger, book, struck, late, costs, balance)}
