"""Customers of a generated airline want things that the policy forbids; obeying them fails the task.

After some refusals they want something else that they may have (`only_if_refused`).
"""

from dataclasses import replace

from agent_envs.envs.tau2.airline_rules import compensation, may_cancel
from agent_envs.envs.tau2.task_generator.airline_case import (
    CABIN_WORDS,
    NUMBERS,
    WORDS,
    Case,
    Trip,
    day_of,
    later_days,
    route_of,
)
from agent_envs.envs.tau2.task_generator.airline_wants import Pieces, at_most, cancelling, moving, priced, recabining
from agent_envs.envs.tau2.task_generator.airline_world import CITIES
from agent_envs.envs.tau2.task_generator.wishes import Piece, need
from agent_envs.envs.tau2.user_script import Fact


def refused(case: Case, trip: Trip, say: str, claim: str, fact: Fact) -> Piece:
    """Return the piece of a wish that the policy forbids."""
    times = case.rng.randrange(1, 3)
    play = f"If the agent refuses {{wish}}, protest {('once', 'twice')[times - 1]}: {claim}. Then accept the refusal."
    return Piece(say, (*case.about(trip), fact), case.reads(trip), play=play, insists=times)


def instead(piece: Piece | None) -> Pieces:
    """Return a piece as what is wanted after a refusal."""
    return () if piece is None else (replace(piece, say=f"in that case, {piece.say}", only_if_refused=True),)


def no_cancelling(case: Case) -> Pieces:
    """A cancellation without grounds; some would then rather move the flight."""
    trip = case.find(lambda trip: trip.ahead and trip.grounds(False))
    reason = case.reason(case.pick(*trip.grounds(False)))
    piece = refused(case, trip, case.say("no_cancelling", trip=case.named(trip)), case.pick(*WORDS["claims"]), reason)
    movable = trip.record["cabin"] == "economy" and case.rng.random() < 0.6
    return piece, *(instead(moving(case, trip, 0)) if movable else ())


def no_moving(case: Case) -> Pieces:
    """Another day for a basic economy flight; some would then take another cabin on the same day."""
    trip = case.find(
        lambda trip: trip.record["cabin"] == "basic_economy" and trip.bookable and later_days(case, trip, 0)
    )
    day = case.rng.choice(later_days(case, trip, 0)[:4])
    say = case.say("no_moving", trip=case.named(trip), day=day)
    claim = "it is only a different day, and there are seats"
    piece = refused(case, trip, say, claim, Fact("flight", f"any flight on May {day}."))
    return piece, *(instead(recabining(case, trip, "economy")) if priced(case, trip, "economy") else ())


def no_insurance(case: Case) -> Pieces:
    """Insurance for a trip that is already booked."""
    trip = case.find(lambda trip: trip.ahead and trip.record["insurance"] == "no")
    say = case.say("no_insurance", trip=case.named(trip))
    claim = "<I> only forgot it, and everybody else whom <I> know has it"
    return (refused(case, trip, say, claim, case.pay(0)[1]),)


def fewer_bags(case: Case) -> Pieces:
    """Bags taken off a trip."""
    trip = case.find(lambda trip: trip.ahead and trip.record["total_baggages"])
    number = trip.record["total_baggages"]
    say = case.say("fewer_bags", trip=case.named(trip))
    fewer = f"{NUMBERS[number - 1]} bag{'s' if number != 2 else ''} in all, one fewer than now."
    return (refused(case, trip, say, "<I> do not need that bag any more", Fact("bags", fewer)),)


def more_people(case: Case) -> Pieces:
    """One more passenger on a trip."""
    trip = case.find(lambda trip: trip.open)
    other = case.someone(trip)
    name = f"{other['first_name']} {other['last_name']}"
    say = case.say("more_people", trip=case.named(trip), name=name)
    born = Fact("passengers", f"{name}, born on {other['dob']}.", other["dob"])
    return (refused(case, trip, say, "<I> will pay for the seat", born),)


def elsewhere(case: Case) -> Pieces:
    """Another destination; where the reservation may be cancelled, some do that then."""
    trip = case.find(lambda trip: trip.open and trip.record["cabin"] != "basic_economy")
    ends = (trip.record["origin"], trip.record["destination"])
    other = case.pick(*(city for code, city in CITIES.items() if code not in ends))
    say = f"<I> want to change <my> {case.named(trip)}, so that it goes to {other} instead."
    piece = refused(case, trip, say, "<I> would pay the difference", Fact("route", f"to {other}, on the same day."))
    if may_cancel(trip.record, trip.statuses) and case.rng.random() < 0.7:
        reason = Fact("reason", "the reason is that <I> need to be somewhere else.")
        return piece, *instead(cancelling(case, trip, reason))
    return (piece,)


def no_compensation(case: Case) -> Pieces:
    """A certificate that nobody may send: nothing was late, or the customer is not among those who get one."""
    trip = case.find(
        lambda trip: trip.statuses[0] != "available" and not compensation(case.membership, trip.record, trip.statuses)
    )
    leg, status = trip.legs[0], trip.statuses[0]
    verb = "was cancelled" if status == "cancelled" else case.pick("was delayed for hours", "was very late")
    flight = f"the flight {route_of(leg)} on {day_of(leg['date'])}"
    say = case.say("no_compensation", flight=flight, verb=verb)
    claim = "<I> missed something important because of it"
    return (refused(case, trip, say, claim, Fact("flight", f"it is {flight}.")),)


def too_dear(case: Case) -> Pieces:
    """A better cabin at a limit that the price is above."""
    trip = case.find(lambda trip: (priced(case, trip, "business") or 0) >= 100)
    rise = need(priced(case, trip, "business"))
    limit = rise // 10 * 10 - 10 * case.rng.randrange(1, 6)
    say = (
        f"<I> want to upgrade <my> {case.named(trip)} to {CABIN_WORDS['business']}, but only if that costs at most "
        f"{limit} dollars more in all."
    )
    facts = (*case.about(trip), Fact("cabin", "to business, the same flights."), at_most(limit), case.pay(0)[1])
    objection = f"no, that is more than {limit} dollars. Please leave the cabin as it is."
    play = f"About {{wish}}: if it would cost more than {limit} dollars, <I> do not want it."
    return (Piece(say, facts, case.reads(trip), play=play, declines=(str(rise),), objection=objection),)


def begun(case: Case) -> Pieces:
    """The cancellation of a trip of which a part has been flown."""
    trip = case.find(lambda trip: not trip.ahead and "available" in trip.statuses)
    say = f"<I> want to cancel what is left of <my> {case.named(trip)} and get <my> money back for it."
    return (refused(case, trip, say, "it is only about the flight back", case.reason("plans")),)


_KINDS = (no_cancelling, no_moving, no_insurance, fewer_bags, more_people, elsewhere, no_compensation, too_dear)
REFUSED = {kind.__name__: kind for kind in _KINDS}
