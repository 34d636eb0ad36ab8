"""The airline's rule-based agent finds out what is wanted, checks it against the policy, asks for a yes, and acts."""

from collections.abc import Callable

from agent_envs.envs.tau2.airline_rules import BAG, compensation, flown, free_bags, may_cancel, refund
from agent_envs.envs.tau2.heuristics.airline_desk import CLOSING, PROPOSAL, SORRY, Desk, Turn, no, proposed
from agent_envs.envs.tau2.heuristics.airline_flights import book, cabin, move
from agent_envs.envs.tau2.heuristics.airline_words import bags_in, first_wish, kind_of, new_name, reason_in
from agent_envs.envs.tau2.heuristics.reading import Talk, calling, dates, refuses, talk_of
from agent_envs.rollout.policy import Request

_WHAT = "What exactly would you like me to do?"
_HANDED_OVER = "You are being transferred to a human agent. Please hold on."
_TRANSFER = "transfer_to_human_agents"


def act(request: Request) -> str:
    """Return the agent's next turn."""
    talk = talk_of(request)
    if talk.calls and talk.calls[-1].name == _TRANSFER:
        return _HANDED_OVER
    desk = Desk(talk)
    try:
        return _served(desk, talk)
    except Turn as turn:
        return str(turn)


def _served(desk: Desk, talk: Talk) -> str:
    if not talk.user:
        return "What can I do for you?"
    said = desk.user and talk.user[desk.start :]
    kind = next((found for text in said if (found := kind_of(first_wish(text)))), "")
    if not kind:
        return _unclear(desk, talk)
    if PROPOSAL in talk.said and talk.awaiting and refuses(talk.last):
        return f"All right, then I leave it as it is. {CLOSING}"
    return _KINDS[kind](desk)


def _unclear(desk: Desk, talk: Talk) -> str:
    """Return what to say to words that name no wish: after a refusal they are a protest."""
    if talk.said.startswith(SORRY):
        return talk.said
    if desk.asked.count(_WHAT) > 1:
        return calling(_TRANSFER, summary="The passenger's wish is not clear.")
    return f"Thank you. {_WHAT}"


def _cancel(desk: Desk) -> str:
    row = desk.meant()
    statuses = desk.statuses(row)
    if flown(statuses):
        return calling(_TRANSFER, summary="The passenger wants to cancel a trip of which a part has been flown.")
    reason = reason_in(desk.text)
    if not reason and "reason" not in desk.asked:
        return "May I ask for the reason why you want to cancel?"
    if not may_cancel(row, statuses, reason):
        return no(f"reservation {row['reservation_id']} cannot be cancelled under our policy")
    amount = f"{refund(row)} dollars come back to where they were paid from, within 5 to 7 business days"
    key = row["reservation_id"]
    return proposed(
        desk, f"I can cancel reservation {key}: {amount}.", f"Reservation {key} has been cancelled; {amount}.",
        "cancel_reservation", reservation_id=key,
    )  # fmt: skip


def _bags(desk: Desk) -> str:
    row = desk.meant()
    number, added = bags_in(desk.text)
    if number is None:
        return "How many bags would you like to add?"
    total = row["total_baggages"] + number if added else number
    if total < row["total_baggages"]:
        return no("bags cannot be taken off a reservation")
    free = free_bags(desk.user["membership"], row["cabin"], len(row["passengers"]))
    paid = max(row["nonfree_baggages"], total - free)
    cost = BAG * (paid - row["nonfree_baggages"])
    method, key = desk.payer(cost), row["reservation_id"]
    told = f"{total} bags in all on reservation {key}, for {cost} dollars, on {desk.called(method)}"
    return proposed(
        desk, f"I can enter {told}.", f"I have added the bags: {told}.", "update_reservation_baggages",
        reservation_id=key, total_baggages=total, nonfree_baggages=paid, payment_id=method["id"],
    )  # fmt: skip


def _passenger(desk: Desk) -> str:
    row = desk.meant()
    people = [dict(one) for one in row["passengers"]]
    said = desk.text.replace("My name is {first_name} {last_name}".format(**desk.user["name"]), "")
    named = [place for place, one in enumerate(people) if f"{one['first_name']} {one['last_name']}" in said]
    if not named and len(people) > 1:
        return "Which passenger is it about? Please tell me the full name as it is booked, and the new one."
    place = named[0] if named else 0
    others = [*desk.cities.values(), *(f"{one['first_name']} {one['last_name']}" for one in people)]
    new = new_name(desk.text, people[place], others)
    if new is None:
        return "What should the passenger's full name be?"
    born = [day for day in dates(desk.text) if day != desk.user["dob"]]
    if new[0] != people[place]["first_name"] and not born:
        return f"What is the date of birth of {new[0]} {new[1]}?"
    dob = people[place]["dob"] if new[0] == people[place]["first_name"] else born[-1]
    people[place] = {"first_name": new[0], "last_name": new[1], "dob": dob}
    key = row["reservation_id"]
    told = f"{new[0]} {new[1]}, born on {dob}, on reservation {key}"
    return proposed(
        desk, f"I can enter {told}, as the new passenger.", f"The passenger has been changed: {told}.",
        "update_reservation_passengers", reservation_id=key, passengers=people,
    )  # fmt: skip


def _compensation(desk: Desk) -> str:
    row = desk.meant()
    worth = compensation(desk.user["membership"], row, desk.statuses(row))
    key, owner = row["reservation_id"], desk.user["user_id"]
    changes = desk.talk.named("cancel_reservation", "update_reservation_flights")
    if not worth or not (
        "cancelled" in desk.statuses(row) or any(c.arguments["reservation_id"] == key for c in changes)
    ):
        return no("our policy allows no compensation for this")
    told = f"a certificate of {worth} dollars"
    return proposed(
        desk, f"I can send you {told}.", f"I have sent you {told}.", "send_certificate", user_id=owner, amount=worth
    )  # fmt: skip


def _spent(desk: Desk) -> str:
    rows = desk.all_meant(4)
    keys = " and ".join(str(row["reservation_id"]) for row in rows)
    return f"For {keys} you paid {sum(map(refund, rows))} dollars in total. {CLOSING}"


def _balance(desk: Desk) -> str:
    held = [row["amount"] for row in desk.user["payment_methods"].values() if "amount" in row]
    return f"Together there are {sum(held):.2f} dollars on them. {CLOSING}"


def _refusal(why: str) -> Callable[[Desk], str]:
    return lambda desk: no(why)


_KINDS: dict[str, Callable[[Desk], str]] = {
    "compensation": _compensation, "spent": _spent, "balance": _balance, "book": book, "bags": _bags, "cancel": _cancel,
    "cabin": cabin, "move": move, "passenger": _passenger,
    "insurance": _refusal("insurance cannot be added after the booking"),
    "fewer_bags": _refusal("bags cannot be taken off a reservation"),
    "more_people": _refusal("the number of passengers cannot be changed"),
    "elsewhere": _refusal("the destination of a reservation cannot be changed"),
}  # fmt: skip
