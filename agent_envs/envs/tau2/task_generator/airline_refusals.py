"""Customers of a generated airline want things that the policy forbids; obeying them fails the task.

After some refusals they want something else that they may have (`only_if_refused`).
"""

from dataclasses import replace

from agent_envs.envs.tau2.airline_rules import compensation, may_cancel
from agent_envs.envs.tau2.task_generator.airline_booking import balance, book, spent
from agent_envs.envs.tau2.task_generator.airline_case import (
    CABIN_WORDS,
    NUMBERS,
    Case,
    Piece,
    Trip,
    day_of,
    later_days,
    route_of,
)
from agent_envs.envs.tau2.task_generator.airline_wants import (
    REASONS,
    Pieces,
    bags,
    cabin,
    cancel,
    cancelling,
    late,
    move,
    moving,
    passenger,
    priced,
    recabining,
    struck,
)
from agent_envs.envs.tau2.task_generator.airline_world import CITIES


def refused(case: Case, trip: Trip, say: str, claim: str, *facts: tuple[str, str, str]) -> Piece:
    """Return the piece of a wish that the policy forbids."""
    case.take(trip)
    times = case.rng.randrange(1, 3)
    play = f"If the agent refuses {{wish}}, protest {('once', 'twice')[times - 1]}: {claim}. Then accept the refusal."
    return Piece(say, (*case.about(trip), *facts), case.reads(trip), play=play, insists=times)


def instead(piece: Piece | None) -> Pieces:
    """Return a piece as what is wanted after a refusal."""
    return () if piece is None else (replace(piece, say=f"in that case, {piece.say}", only_if_refused=True),)


def no_cancelling(case: Case) -> Pieces:
    """A cancellation without grounds; some would then rather move the flight."""
    for trip in case.free():
        kinds = [kind for kind in REASONS if not may_cancel(trip.record, trip.statuses, kind)]
        if not trip.ahead or not kinds:
            continue
        reason = case.pick(*REASONS[case.pick(*kinds)])
        say = case.say(
            (
                f"<I> want to cancel <my> {case.named(trip)} and get <my> money back.",
                f"<I> would like to have <my> {case.named(trip)} cancelled for a full refund.",
                f"<I> do not need <my> {case.named(trip)} any more, so it should be cancelled and paid back.",
            ),
            f"<I> will not fly on <my> {case.named(trip)}. The fare should come back to <me>.",
        )
        claim = case.pick(
            "somebody on the phone told <me> that this would be fine", "<I> have been a customer for years",
            "other airlines do this without a word",
        )  # fmt: skip
        piece = refused(case, trip, say, claim, ("reason", f"the reason is that {reason}.", ""))
        movable = trip.record["cabin"] == "economy" and case.rng.random() < 0.6
        return piece, *(instead(moving(case, trip, 0)) if movable else ())
    return ()


def no_moving(case: Case) -> Pieces:
    """Another day for a basic economy flight; some would then take another cabin on the same day."""
    for trip in case.free():
        days = later_days(case, trip, 0)[:4]
        if trip.record["cabin"] != "basic_economy" or set(trip.statuses) != {"available"} or not days:
            continue
        day = case.rng.choice(days)
        say = case.say(
            (
                f"<I> want to move the first flight of <my> {case.named(trip)} to May {day}.",
                f"<I> need to change <my> {case.named(trip)}, so that <I> leave on May {day}.",
            ),
            f"May {day} suits <me> better for the first flight of <my> {case.named(trip)}, so <I> would like to fly then.",
        )
        claim = "it is only a different day, and there are seats"
        piece = refused(case, trip, say, claim, ("flight", f"any flight on May {day}.", ""))
        rise = priced(case, trip, "economy")
        return piece, *(instead(recabining(case, trip, "economy", rise)) if rise else ())
    return ()


def no_insurance(case: Case) -> Pieces:
    """Insurance for a trip that is already booked."""
    for trip in case.free():
        if trip.ahead and trip.record["insurance"] == "no":
            say = case.pick(
                f"<I> want to add travel insurance to <my> {case.named(trip)}.",
                f"<I> would like to buy the insurance for <my> {case.named(trip)} now.",
            )
            claim = "<I> only forgot it, and everybody else whom <I> know has it"
            return (refused(case, trip, say, claim, case.pay(0)[1]),)
    return ()


def fewer_bags(case: Case) -> Pieces:
    """Bags taken off a trip."""
    for trip in case.free():
        number = trip.record["total_baggages"]
        if trip.ahead and number:
            say = case.say(
                (
                    f"<I> want to take a checked bag off <my> {case.named(trip)}.",
                    f"<I> need one bag fewer on <my> {case.named(trip)}.",
                ),
                f"one of the bags on <my> {case.named(trip)} stays at home, and <I> do not want it on the booking any longer.",
            )
            left = NUMBERS[number - 1] if number > 1 else "no"
            claim = "<I> do not need that bag any more"
            fewer = f"{left} bag{'s' if number != 2 else ''} in all, one fewer than now."
            return (refused(case, trip, say, claim, ("bags", fewer, "")),)
    return ()


def more_people(case: Case) -> Pieces:
    """One more passenger on a trip."""
    for trip in case.free():
        if trip.ahead and "cancelled" not in trip.statuses:
            other = case.someone(trip)
            name = f"{other['first_name']} {other['last_name']}"
            say = case.pick(
                f"<I> want to add one more passenger, {name}, to <my> {case.named(trip)}.",
                f"{name} wants to come along on <my> {case.named(trip)}, so <I> need one more passenger on it.",
            )
            born = f"{name}, born on {other['dob']}."
            return (refused(case, trip, say, "<I> will pay for the seat", ("passengers", born, other["dob"])),)
    return ()


def elsewhere(case: Case) -> Pieces:
    """Another destination; where the reservation may be cancelled, some do that then."""
    for trip in case.free():
        if not trip.ahead or trip.record["cabin"] == "basic_economy" or "cancelled" in trip.statuses:
            continue
        other = case.pick(*(city for code, city in CITIES.items() if code not in _ends(trip)))
        say = f"<I> want to change <my> {case.named(trip)}, so that it goes to {other} instead."
        piece = refused(case, trip, say, "<I> would pay the difference", ("route", f"to {other}, on the same day.", ""))
        if may_cancel(trip.record, trip.statuses) and case.rng.random() < 0.7:
            return piece, *instead(cancelling(case, trip, "<I> need to be somewhere else"))
        return (piece,)
    return ()


def _ends(trip: Trip) -> tuple[str, str]:
    return trip.record["origin"], trip.record["destination"]


def no_compensation(case: Case) -> Pieces:
    """A certificate that nobody may send: nothing was late, or the customer is not among those who get one."""
    for trip in case.free():
        if compensation(case.membership, trip.record, trip.statuses):
            continue
        leg, status = trip.record["flights"][0], trip.statuses[0]
        if status == "available":
            continue
        verb = "was cancelled" if status == "cancelled" else case.pick("was delayed for hours", "was very late")
        flight = f"the flight {route_of(leg)} on {day_of(leg['date'])}"
        say = case.pick(
            f"<I> want compensation, because {flight} {verb}.",
            f"{flight} {verb}, and <I> want a certificate for that.",
        )
        known = ("flight", f"it is {flight}.", "")
        return (refused(case, trip, say, "<I> missed something important because of it", known),)
    return ()


def too_dear(case: Case) -> Pieces:
    """A better cabin at a limit that the price is above."""
    for trip in case.free():
        rise = priced(case, trip, "business") if trip.record["cabin"] != "business" else None
        if rise is None or rise < 100:
            continue
        case.take(trip)
        limit = rise // 10 * 10 - 10 * case.rng.randrange(1, 6)
        say = (
            f"<I> want to upgrade <my> {case.named(trip)} to {CABIN_WORDS['business']}, but only if that costs at most "
            f"{limit} dollars more in all."
        )
        facts = (
            *case.about(trip), ("cabin", "to business, the same flights.", ""),
            ("amount", f"at most {limit} dollars more in all.", str(limit)), case.pay(0)[1],
        )  # fmt: skip
        objection = f"no, that is more than {limit} dollars. Please leave the cabin as it is."
        play = f"About {{wish}}: if it would cost more than {limit} dollars, <I> do not want it."
        return (Piece(say, facts, case.reads(trip), play=play, declines=(str(rise),), objection=objection),)
    return ()


def begun(case: Case) -> Pieces:
    """The cancellation of a trip of which a part has been flown."""
    for trip in case.free():
        if not trip.ahead and "available" in trip.statuses:
            say = f"<I> want to cancel what is left of <my> {case.named(trip)} and get <my> money back for it."
            reason = ("reason", f"the reason is that {case.pick(*REASONS['plans'])}.", "")
            return (refused(case, trip, say, "it is only about the flight back", reason),)
    return ()


SERVED = {
    "cancel": cancel, "cabin": cabin, "move": move, "bags": bags, "passenger": passenger, "book": book,
    "struck": struck, "late": late, "spent": spent, "balance": balance,
}  # fmt: skip
REFUSED = {
    "no_cancelling": no_cancelling, "no_moving": no_moving, "no_insurance": no_insurance, "fewer_bags": fewer_bags,
    "more_people": more_people, "elsewhere": elsewhere, "no_compensation": no_compensation, "too_dear": too_dear,
}  # fmt: skip
