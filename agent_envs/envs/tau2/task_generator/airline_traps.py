"""Customers of a generated airline want what the policy forbids, where obeying fails the task, or what has to be worked out.

After some refusals they want something else that they may have (`only_if_refused`). What has to be worked out are conditions,
comparisons and several trips at once.
"""

from dataclasses import replace

from agent_envs.envs.tau2.airline_rules import BAG, CABINS, compensation, may_cancel, paid_bags, price_of, refund
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator.airline_case import (
    CABIN_WORDS,
    NUMBERS,
    WORDS,
    Case,
    Trip,
    day_of,
    later_days,
    route_of,
    search,
    searches,
)
from agent_envs.envs.tau2.task_generator.airline_wants import (
    BOOKED,
    CANCELLED,
    Pieces,
    at_most,
    bag_fact,
    booking,
    cancelling,
    me,
    moving,
    part_of,
    paying,
    priced,
    recabining,
    rerouted,
    several,
)
from agent_envs.envs.tau2.task_generator.airline_world import CITIES, DAYS, TODAY, date
from agent_envs.envs.tau2.task_generator.wishes import Action, Piece, Unfit, need
from agent_envs.envs.tau2.user_script import Fact

# What the policy forbids


def refused(case: Case, trip: Trip, say: str, claim: str, fact: Fact) -> Piece:
    """Return the piece of a wish that the policy forbids."""
    times = case.rng.randrange(1, 3)
    play = f"If the agent refuses {{wish}}, protest {('once', 'twice')[times - 1]}: {claim}. Then accept the refusal."
    return Piece(say, (*case.about(trip), fact), case.reads(trip), play=play, insists=times)


def instead(piece: Piece | None) -> Pieces:
    """Return a piece as the wish that follows a refusal; () for None."""
    return () if piece is None else (replace(piece, say=f"in that case, {piece.say}", only_if_refused=True),)


def no_cancelling(case: Case) -> Pieces:
    """Draw a wish to cancel without grounds, refused; in economy, most would then rather move the flight. Or Unfit."""
    trip = case.find(lambda trip: trip.ahead and trip.grounds(False))
    reason = case.reason(case.pick(*trip.grounds(False)))
    piece = refused(case, trip, case.say("no_cancelling", trip=case.label(trip)), case.pick(*WORDS["claims"]), reason)
    movable = trip.record["cabin"] == "economy" and case.rng.random() < 0.6
    return piece, *(instead(moving(case, trip, 0)) if movable else ())


def no_moving(case: Case) -> Pieces:
    """Draw a wish to move a basic economy flight, refused; then, where it costs otherwise, economy on the same flights."""
    trip = case.find(
        lambda trip: trip.record["cabin"] == "basic_economy" and trip.bookable and later_days(case, trip, 0)
    )
    day = case.rng.choice(later_days(case, trip, 0)[:4])
    say = case.say("no_moving", trip=case.label(trip), day=day)
    claim = "it is only a different day, and there are seats"
    piece = refused(case, trip, say, claim, Fact("flight", f"any flight on May {day}."))
    return piece, *(instead(recabining(case, trip, "economy")) if priced(case, trip, "economy") else ())


def no_insurance(case: Case) -> Pieces:
    """Draw a wish for insurance on a trip booked without it, which is refused; Unfit without one."""
    trip = case.find(lambda trip: trip.ahead and trip.record["insurance"] == "no")
    say = case.say("no_insurance", trip=case.label(trip))
    claim = "<I> only forgot it, and everybody else whom <I> know has it"
    return (refused(case, trip, say, claim, case.pay(0)[1]),)


def fewer_bags(case: Case) -> Pieces:
    """Draw a wish to take a bag off a trip, which is refused; Unfit without a trip that has one."""
    trip = case.find(lambda trip: trip.ahead and trip.record["total_baggages"])
    number = trip.record["total_baggages"]
    say = case.say("fewer_bags", trip=case.label(trip))
    fewer = f"{NUMBERS[number - 1]} bag{'s' if number != 2 else ''} in all, one fewer than now."
    return (refused(case, trip, say, "<I> do not need that bag any more", Fact("bags", fewer)),)


def more_people(case: Case) -> Pieces:
    """Draw a wish for one more passenger on a trip, which is refused; Unfit without a trip open to changes."""
    trip = case.find(lambda trip: trip.open)
    other = case.someone(trip)
    name = f"{other['first_name']} {other['last_name']}"
    say = case.say("more_people", trip=case.label(trip), name=name)
    born = Fact("passengers", f"{name}, born on {other['dob']}.", other["dob"])
    return (refused(case, trip, say, "<I> will pay for the seat", born),)


def elsewhere(case: Case) -> Pieces:
    """Draw a wish for another destination, which is refused; where the trip may be cancelled, most do that then."""
    trip = case.find(lambda trip: trip.open and trip.record["cabin"] != "basic_economy")
    ends = (trip.record["origin"], trip.record["destination"])
    other = case.pick(*(city for code, city in CITIES.items() if code not in ends))
    say = f"<I> want to change <my> {case.label(trip)}, so that it goes to {other} instead."
    piece = refused(case, trip, say, "<I> would pay the difference", Fact("route", f"to {other}, on the same day."))
    if may_cancel(trip.record, trip.statuses) and case.rng.random() < 0.7:
        reason = Fact("reason", "the reason is that <I> need to be somewhere else.")
        return piece, *instead(cancelling(case, trip, reason))
    return (piece,)


def no_compensation(case: Case) -> Pieces:
    """Draw a wish for a certificate that is not due, for a flight cancelled or said to be late; Unfit without a trip."""
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
    """Draw a wish for business within a limit that the price exceeds, so that nothing is changed; Unfit without a trip."""
    trip = case.find(lambda trip: (priced(case, trip, "business") or 0) >= 100)
    rise = need(priced(case, trip, "business"))
    limit = rise // 10 * 10 - 10 * case.rng.randrange(1, 6)
    say = (
        f"<I> want to upgrade <my> {case.label(trip)} to {CABIN_WORDS['business']}, but only if that costs at most "
        f"{limit} dollars more in all."
    )
    facts = (*case.about(trip), Fact("cabin", "to business, the same flights."), at_most(limit), case.pay(0)[1])
    objection = f"no, that is more than {limit} dollars. Please leave the cabin as it is."
    play = f"About {{wish}}: if it would cost more than {limit} dollars, <I> do not want it."
    return (Piece(say, facts, case.reads(trip), play=play, declines=(str(rise),), objection=objection),)


def cancel_rest(case: Case) -> Pieces:
    """Draw a wish to cancel the rest of a trip of which a part has been flown, which is refused; Unfit without one."""
    trip = case.find(lambda trip: not trip.ahead and "available" in trip.statuses)
    say = f"<I> want to cancel what is left of <my> {case.label(trip)} and get <my> money back for it."
    return (refused(case, trip, say, "it is only about the flight back", case.reason("plans")),)


_KINDS = (no_cancelling, no_moving, no_insurance, fewer_bags, more_people, elsewhere, no_compensation, too_dear)
REFUSED = {kind.__name__: kind for kind in _KINDS}


# What has to be worked out


def budgeted(case: Case) -> Pieces:
    """Draw a wish for business within a limit, else for economy (basic economy if it is economy); Unfit without a trip."""
    for trip in case.free():
        other = "economy" if trip.record["cabin"] == "basic_economy" else "basic_economy"
        rise = priced(case, trip, "business")
        if rise is None or rise < 100 or priced(case, trip, other) is None:
            continue
        case.take(trip)
        enough = case.rng.random() < 0.5
        limit = rise // 10 * 10 + 10 * (case.rng.randrange(1, 9) if enough else -case.rng.randrange(1, 9))
        piece = recabining(_plain_case(case), trip, "business" if enough else other)
        say = case.say("budgeted", trip=case.label(trip), limit=limit, other=CABIN_WORDS[other])
        words = f"business for at most {limit} dollars more in all, and else {CABIN_WORDS[other]}."
        facts = [fact for fact in piece.facts if fact.topic != "cabin"]
        return (replace(piece, say=say, facts=(*facts, Fact("cabin", words), at_most(limit))),)
    raise Unfit


def _plain_case(case: Case) -> Case:
    """Return a case at the medium level that shares the balances; marks the given one's as used."""
    plain = Case(case.rng, case.database, case.user, "medium", case.vague)
    plain.balances = case.balances
    case.uses_balance = True
    return plain


def cheapest_day(case: Case) -> Pieces:
    """Draw a wish to move a flight to the cheapest of three days; Unfit if no trip allows it."""
    for trip in case.free():
        place = case.rng.randrange(len(trip.legs))
        days = sorted(later_days(case, trip, place)[:3])
        leg, cabin = trip.legs[place], trip.record["cabin"]
        if cabin == "basic_economy" or not trip.bookable or len(days) < 3:
            continue
        way = leg["origin"], leg["destination"]
        offers = [one for day in days for one in case.seated(*way, date(day), cabin, trip.size)]
        prices = sorted(one["price"] for one in offers)
        if len(prices) < 2 or prices[0] == prices[1] or prices[0] == leg["price"]:
            continue
        case.take(trip)
        best = next(one for one in offers if one["price"] == prices[0])
        rise, payment, call = rerouted(case, trip, place, best)
        choice = "May {}, May {} or May {}".format(*days)
        say = case.say("cheapest_day", part=part_of(trip, place), trip=case.label(trip), days=choice)
        facts = (Fact("date", f"{choice}."), Fact("flight", f"the cheapest of {choice}."), payment)
        actions = (*case.reads(trip), *(search(leg, date(day)) for day in days), call)
        signs = ("changed", best["flight_number"])
        return (Piece(say, (*case.about(trip, dated=False), *facts), actions, (str(abs(rise)),), signs),)
    raise Unfit


def whichever(case: Case) -> Pieces:
    """Draw a wish to cancel two trips as far as that is allowed, which it is for one of them; Unfit without both."""
    trips = [trip for trip in case.free() if trip.ahead]
    good = need([trip for trip in trips if may_cancel(trip.record, trip.statuses)])[0]
    both = [good, need([trip for trip in trips if not may_cancel(trip.record, trip.statuses)])[0]]
    case.rng.shuffle(both)
    several(case, both)
    say = case.say("whichever", trips=case.both(both))
    facts = (case.which(both, "numbers {}."), case.reason("plans"))
    actions = (*case.reads(both[0]), *case.reads(both[1]), ("cancel_reservation", {"reservation_id": good.id}))
    return (Piece(say, facts, actions, (str(refund(good.record)),), CANCELLED),)


def upgrades(case: Case) -> Pieces:
    """Draw a wish for one cabin, business or economy, on two trips at once, and for the total price; Unfit without two."""
    target = case.rng.choice(("business", "business", "economy"))
    rises = {trip.id: priced(case, trip, target) or 0 for trip in case.free()}
    trips = several(case, (trip for trip in case.free() if rises[trip.id]))
    each = [rises[trip.id] for trip in trips]
    total = sum(each)
    method, payment = _plain_case(case).pay(max(total, *each, 10_000))
    actions = list[Action]()
    for trip in trips:
        actions += [*case.reads(trip), *searches(trip.legs), case.rebooked(trip, target, trip.legs, method)]
    question = "what both together cost more" if total > 0 else "what comes back for both together"
    say = f"<I> want to change both {case.both(trips)} to {CABIN_WORDS[target]}, and to hear {question}, as one number."
    facts = (case.which(trips, "numbers {}."), Fact("cabin", f"{CABIN_WORDS[target]} on both."), payment)
    return (Piece(say, facts, tuple(actions), (str(abs(total)),), ("changed", CABIN_WORDS[target])),)


def again(case: Case) -> Pieces:
    """Draw a wish for a booking like an earlier one (route, cabin, passengers) on another day; Unfit if none allows it."""
    for trip in case.free():
        record, rng = trip.record, case.rng
        day = rng.randrange(TODAY + 2, DAYS + 1)
        offer = case.select(case.seated(record["origin"], record["destination"], date(day), record["cabin"], trip.size))
        if case.booked or offer is None:
            continue
        case.take(trip)
        case.booked = True
        flight, words = offer
        bags = rng.randrange(3)
        paid = paid_bags(case.membership, record["cabin"], trip.size, bags)
        total = price_of([flight], trip.size) + BAG * paid
        payments, how = paying(case, total)
        say = case.say("again", trip=case.label(trip), day=day, flight=words)
        facts = (
            *case.about(trip, dated=False), Fact("trip", "one way."), Fact("date", f"on May {day}."),
            Fact("flight", f"{words}."), Fact("cabin", "the same as on that trip."), how,
            Fact("passengers", "the same as on that trip; their dates of birth are in the reservation."), bag_fact(bags),
            Fact("insurance", "no insurance."),
        )  # fmt: skip
        call = booking(case, [flight], thawed(record["passengers"]), record["cabin"], payments, bags, paid)
        return (Piece(say, facts, (*case.reads(trip), search(record, date(day)), call), (str(total),), BOOKED),)
    raise Unfit


def with_a_stop(case: Case) -> Pieces:
    """Draw a wish for a booking between cities without direct flights, the cheapest with one stop; Unfit without one alone."""
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
    pairs.sort(key=lambda pair: pair[0]["price"] + pair[1]["price"])
    prices = [first["price"] + second["price"] for first, second in pairs]
    need(not case.booked and len(prices) >= 2 and prices[0] != prices[1])
    case.booked = True
    payments, how = paying(case, prices[0])
    route = f"from {CITIES[origin]} to {CITIES[destination]}"
    say = case.say("with_a_stop", route=route, day=day, cabin=CABIN_WORDS[cabin])
    own = f"only <me>, nobody else. <my> date of birth is {case.user['dob']}."
    facts = (
        Fact("trip", "one way, with one stop."), Fact("route", f"{route}."), Fact("date", f"on May {day}."),
        Fact("flight", "the cheapest with one stop."), Fact("cabin", f"{CABIN_WORDS[cabin]}."), Fact("passengers", own), how,
        bag_fact(0), Fact("insurance", "no insurance."),
    )  # fmt: skip
    look = ("search_onestop_flight", {"origin": origin, "destination": destination, "date": date(day)})
    call = booking(case, list(pairs[0]), [me(case)], cabin, payments)
    return (Piece(say, facts, (look, call), (str(prices[0]),), BOOKED),)


RIDDLES = {kind.__name__: kind for kind in (budgeted, cheapest_day, whichever, upgrades, again, with_a_stop)}
