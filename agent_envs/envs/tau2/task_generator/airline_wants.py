"""Customers of a generated airline make wishes that the policy allows, each drawn from a customer's own situation.

A kind of wish is a function that returns its pieces (a piece is one wish with its gold calls), or none where the customer
has nothing of the sort.
"""

from agent_envs.envs.tau2.airline_rules import BAG, CABINS, compensation, may_cancel, paid_bags, price_of, refund
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator import names
from agent_envs.envs.tau2.task_generator.airline_case import (
    CABIN_WORDS,
    NUMBERS,
    Action,
    Case,
    Piece,
    Trip,
    day_of,
    later_days,
    route_of,
)
from agent_envs.envs.tau2.task_generator.airline_world import date

Pieces = tuple[Piece, ...]
REASONS = {
    "plans": (
        "<my> plans have changed", "a meeting there was called off", "<I> cannot get those days off work",
        "the friend that <I> wanted to visit is away",
    ),
    "health": (
        "<I> have broken <my> ankle and cannot fly", "<I> <am> ill, and the doctor says that <I> must not fly",
        "one of us has to go into hospital for surgery",
    ),
    "weather": (
        "a heavy storm is forecast for that day", "there is a hurricane warning for where <I> want to go",
        "snow and bad weather are expected there",
    ),
}  # fmt: skip
CANCELLED = ("cancelled", "canceled")


def cancel(case: Case) -> Pieces:
    """A cancellation that the policy allows."""
    for trip in case.free():
        kinds = [kind for kind in REASONS if may_cancel(trip.record, trip.statuses, kind)]
        if "cancelled" in trip.statuses or not kinds:
            continue
        case.take(trip)
        return (cancelling(case, trip, case.pick(*REASONS[case.pick(*kinds)])),)
    return ()


def cancelling(case: Case, trip: Trip, reason: str) -> Piece:
    """Return the piece of a cancellation."""
    amount, named = str(refund(trip.record)), case.named(trip)
    say = case.say(
        (
            f"<I> want to cancel <my> {named}, and to hear how much money <I> get back in all.",
            f"<I> would like to have <my> {named} cancelled and to be told the total refund.",
            f"<my> {named} has to be cancelled. <I> would like to know the amount of the refund, too.",
            f"<I> cannot make it, so <I> need a cancellation of <my> {named}. What <I> get back in all matters to <me>.",
        ),
        f"<I> will not be able to go on <my> {named}, and want the money for it returned. <I> need to know how much that is.",
    )
    facts = (*case.about(trip), ("reason", f"the reason is that {reason}.", ""))
    actions = (*case.reads(trip), ("cancel_reservation", {"reservation_id": trip.id}))
    return Piece(say, facts, actions, told=(amount,), signs=CANCELLED)


def struck(case: Case) -> Pieces:
    """A flight that the airline cancelled: the reservation goes, and there may be a certificate."""
    for trip in case.free():
        worth = compensation(case.membership, trip.record, trip.statuses)
        if "cancelled" not in trip.statuses or not trip.ahead:
            continue
        case.take(trip)
        first = cancelling(case, trip, "the airline cancelled one of its flights")
        return (first, compensating(case, trip, worth, "cancelled")) if worth else (first,)
    return ()


def late(case: Case) -> Pieces:
    """A delayed flight: it is exchanged for one of another day, and then there is a certificate."""
    for trip in case.free():
        worth = compensation(case.membership, trip.record, trip.statuses)
        hopeless = "delayed" not in trip.statuses or "cancelled" in trip.statuses or not trip.ahead
        if hopeless or not worth or trip.record["cabin"] == "basic_economy":
            continue
        moved = moving(case, trip, trip.statuses.index("delayed"))
        if moved is not None:
            case.take(trip)
            return moved, compensating(case, trip, worth, "delayed")
    return ()


def compensating(case: Case, trip: Trip, worth: int, what: str) -> Piece:
    """Return the piece of a certificate."""
    leg = trip.record["flights"][trip.statuses.index(what)]
    flight = case.pick(f"flight {leg['flight_number']}", f"the flight {route_of(leg)} on {day_of(leg['date'])}")
    verb = "was cancelled by the airline" if what == "cancelled" else "is delayed"
    say = case.say(
        (
            f"<I> ask for compensation, because {flight} {verb}.",
            f"{flight} {verb}, which upset all of <my> plans. <I> want to be compensated for that.",
            f"since {flight} {verb}, <I> think that <I> should get a voucher for the trouble.",
        ),
        f"{flight} {verb}. <I> think that <I> deserve something for the trouble.",
    )
    facts = (*case.about(trip), ("flight", f"it is {flight}, and it {verb}.", ""))
    actions: tuple[Action, ...] = (
        ("get_flight_status", {"flight_number": leg["flight_number"], "date": leg["date"]}),
        ("send_certificate", {"user_id": case.user["user_id"], "amount": worth}),
    )
    return Piece(say, facts, actions, signs=("certificate", str(worth)))


def cabin(case: Case) -> Pieces:
    """Another cabin for everybody on a trip."""
    for trip in case.free():
        targets = [one for one in CABINS if one != trip.record["cabin"] and priced(case, trip, one) is not None]
        if targets:
            target = case.rng.choice(targets)
            case.take(trip)
            return (recabining(case, trip, target, priced(case, trip, target) or 0),)
    return ()


def priced(case: Case, trip: Trip, cabin_wanted: str) -> int | None:
    """Return by how much the price rises in another cabin; None where it cannot be had, or costs the same."""
    if set(trip.statuses) != {"available"}:
        return None
    total = 0
    for leg in trip.record["flights"]:
        instance = case.instance(leg["flight_number"], leg["date"])
        if instance["available_seats"][cabin_wanted] < trip.size:
            return None
        total += instance["prices"][cabin_wanted] * trip.size
    return total - price_of(trip.record["flights"], trip.size) or None


def recabining(case: Case, trip: Trip, target: str, difference: int) -> Piece:
    """Return the piece of a change of cabin."""
    named, words = case.named(trip), CABIN_WORDS[target]
    question = "how much more that costs" if difference > 0 else "how much comes back"
    say = case.say(
        (
            f"<I> want to change the cabin of <my> {named} to {words}. <I> need to know {question}.",
            f"<I> would like everybody on <my> {named} to fly in {words}. <I> also want to know {question}.",
            f"<I> want to {'upgrade' if difference > 0 else 'switch'} <my> {named} to {words} class, and to hear {question}.",
        ),
        f"everybody on <my> {named} should sit in {words} from now on. <I> would like to know {question}.",
    )
    facts = [*case.about(trip), ("cabin", f"to {words}, the same flights.", "")]
    if case.tricky and difference > 0:
        limit = difference // 10 * 10 + 10 * case.rng.randrange(2, 12)
        say += f" <I> accept it only if it costs at most {limit} dollars more in all."
        facts.append(("amount", f"at most {limit} dollars more in all.", str(limit)))
    method, payment = case.pay(difference)
    facts.append(payment)
    kept = [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in trip.record["flights"]]
    arguments = {"reservation_id": trip.id, "cabin": target, "flights": kept, "payment_id": method}
    actions = (*case.reads(trip), *searches(trip), ("update_reservation_flights", arguments))
    signs = (words, "upgraded", "changed")
    return Piece(say, tuple(facts), actions, (str(abs(difference)),), signs=signs)


def searches(trip: Trip) -> tuple[Action, ...]:
    """Return the calls that show today's prices of a trip's flights."""
    members = ("origin", "destination", "date")
    return tuple(
        ("search_direct_flight", {member: leg[member] for member in members}) for leg in trip.record["flights"]
    )


def move(case: Case) -> Pieces:
    """Another day for one flight of a trip."""
    for trip in case.free():
        settled = trip.ahead and "cancelled" not in trip.statuses and "delayed" not in trip.statuses
        if settled and trip.record["cabin"] != "basic_economy":
            piece = moving(case, trip, case.rng.randrange(len(trip.record["flights"])))
            if piece is not None:
                case.take(trip)
                return (piece,)
    return ()


def moving(case: Case, trip: Trip, place: int) -> Piece | None:
    """Return the piece of a flight that is moved to another day, or None if there is no flight to move it to."""
    legs, record = trip.record["flights"], trip.record
    leg = legs[place]
    for day in later_days(case, trip, place)[:4]:
        flights = case.seated(leg["origin"], leg["destination"], date(day), record["cabin"], trip.size)
        found = case.chosen(flights)
        if found is None or found[0]["price"] == leg["price"]:
            continue
        flight, words = found
        difference = (flight["price"] - leg["price"]) * trip.size
        method, payment = case.pay(difference)
        new = [{"flight_number": one["flight_number"], "date": one["date"]} for one in legs]
        new[place] = {"flight_number": flight["flight_number"], "date": date(day)}
        part = "flight" if len(legs) == 1 else ("flight out", "flight back")[place]
        question = "how much more that costs" if difference > 0 else "how much comes back"
        say = case.say(
            (
                f"<I> want to move the {part} of <my> {case.named(trip)} to May {day} and take {words} of that day.",
                f"<I> would rather fly on May {day} than on {day_of(leg['date'])} for the {part} of <my> {case.named(trip)}. "
                f"It should be {words} then.",
                f"the {part} of <my> {case.named(trip)} does not suit <me> any more. <I> need to change it to {words} on "
                f"May {day}.",
            ),
            f"for the {part} of <my> {case.named(trip)}, May {day} suits <me> better than {day_of(leg['date'])}. "
            f"<I> would take {words}.",
        )
        facts = (
            *case.about(trip, dated=False), ("flight", f"{words} on May {day}.", ""), payment,
            ("date", f"from {day_of(leg['date'])} to May {day}.", ""),
            ("cabin", "the same cabin as now.", ""),
        )  # fmt: skip
        say += f" <I> also want to know {question}."
        search = {"origin": leg["origin"], "destination": leg["destination"], "date": date(day)}
        arguments = {"reservation_id": trip.id, "cabin": record["cabin"], "flights": new, "payment_id": method}
        actions = (
            *case.reads(trip), ("search_direct_flight", search), ("update_reservation_flights", arguments)
        )  # fmt: skip
        return Piece(say, facts, actions, (str(abs(difference)),), signs=("changed", "moved", flight["flight_number"]))
    return None


def bags(case: Case) -> Pieces:
    """More bags on a trip."""
    for trip in case.free():
        if not trip.ahead or "cancelled" in trip.statuses:
            continue
        case.take(trip)
        record, more = trip.record, case.rng.randrange(1, 4)
        total = record["total_baggages"] + more
        paid = max(record["nonfree_baggages"], paid_bags(case.membership, record["cabin"], trip.size, total))
        method, payment = case.pay(BAG * (paid - record["nonfree_baggages"]))
        amount = "one more bag" if more == 1 else f"{NUMBERS[more]} more bags"
        say = case.say(
            (
                f"<I> want to check in {amount} on <my> {case.named(trip)}.",
                f"<I> need to add {amount} to <my> {case.named(trip)}.",
                f"<I> have packed too much and want to take {amount} along on <my> {case.named(trip)}.",
            ),
            f"there is more to carry than <I> thought: it will be {amount} on <my> {case.named(trip)}.",
        )
        facts = (*case.about(trip), ("bags", f"{amount}, so that there are {total} in all.", ""), payment)
        arguments = {
            "reservation_id": trip.id, "total_baggages": total, "nonfree_baggages": paid, "payment_id": method,
        }  # fmt: skip
        actions = (*case.reads(trip), ("update_reservation_baggages", arguments))
        return (Piece(say, facts, actions, signs=("bag", "added")),)
    return ()


def passenger(case: Case) -> Pieces:
    """Somebody else flies, or somebody's last name was misspelt."""
    for trip in case.free():
        if not trip.ahead or "cancelled" in trip.statuses:
            continue
        case.take(trip)
        people = thawed(trip.record["passengers"])
        place = case.rng.randrange(len(people))
        old, new = people[place], case.someone(trip)
        if case.rng.random() < 0.4:
            wrong = case.rng.choice([last for last in names.LAST_NAMES if last != old["last_name"]])
            new = {**old, "last_name": wrong}
        before, after = (f"{one['first_name']} {one['last_name']}" for one in (old, new))
        who = "<I>" if old["dob"] == case.user["dob"] else before
        born = f"{new['first_name']}'s date of birth is {new['dob']}."
        if new["dob"] == old["dob"]:
            say = case.pick(
                f"the last name of {before} on <my> {case.named(trip)} has changed to {new['last_name']}. "
                "<I> want that put right.",
                f"<I> want to correct a passenger's name on <my> {case.named(trip)}: {before} must be {after}.",
            )
        else:
            say = case.say(
                (
                    f"on <my> {case.named(trip)}, {after} will fly instead of {before}. <I> want to change the passenger.",
                    f"<I> want to replace the passenger {before} on <my> {case.named(trip)} by {after}.",
                ),
                f"{who} cannot come on <my> {case.named(trip)} after all. {after} takes the seat.",
            )
        people[place] = new
        facts = (
            *case.about(trip), ("passengers", f"{after} in place of {before}. {born}", ""),
            ("date_of_birth", born, new["dob"]),
        )  # fmt: skip
        arguments = {"reservation_id": trip.id, "passengers": people}
        actions = (*case.reads(trip), ("update_reservation_passengers", arguments))
        return (Piece(say, facts, actions, signs=("changed", "updated", new["last_name"])),)
    return ()
