"""Generated telecom tasks combine troubles of the phone and wishes about the account, by difficulty.

- starter: a phone with one fault that its owner mends as the agent says; nothing of the company's data changes.
- easy: one thing, the number is known: a phone with one fault (now and then one that only staff can mend), or a plain wish.
- medium: a phone with two or three faults, or two things; the number may not be known, an amount may have to be worked out.
- hard: three things, or two with up to four faults; wishes that the policy forbids, customers who insist, are mistaken, or
  tell things piece by piece.

An agent that hands everybody over passes only tasks that end so, a small part; one that does nothing passes none.
"""

from collections.abc import Iterator, Sequence
from random import Random

from agent_envs.envs.tau2.task_generator.source import task_id
from agent_envs.envs.tau2.task_generator.telecom_parts import (
    WORDS,
    Account,
    Case,
    Part,
    Row,
    accounts,
    fact,
    function,
    spoken,
)
from agent_envs.envs.tau2.task_generator.telecom_troubles import hopeless, trouble
from agent_envs.envs.tau2.task_generator.telecom_wishes import COMPUTED, FORBIDDEN, PLAIN, QUESTIONS, REASONED, Wish
from agent_envs.envs.tau2.task_generator.wishes import Unfit, task_row
from agent_envs.envs.tau2.task_schema import Instructions

_SITUATIONS = {"plain": 56, "overdue": 18, "owing": 12, "resting": 9, "ended": 5}
_SIMPLE = ("starter", "easy")
_KINDS = ("service", "data", "pictures")
_PERSONAS = {
    "starter": ("plain",),
    "easy": ("plain", "plain", "plain", "terse", "talkative"),
    "medium": ("plain", "plain", "terse", "talkative", "piecemeal", "forgetful"),
    "hard": ("insistent", "mistaken", "piecemeal", "forgetful", "talkative", "terse", "impatient"),
}


def make_row(split: str, number: int, difficulty: str, world: int = 0) -> Row:
    """Return a task as a published row with `user_script` and `difficulty`, redrawn until it is enough; alike each time."""
    rng = Random(f"tau2/telecom/{world}/{split}/{difficulty}/{number}")
    by_kind = accounts(split, world)
    kind = "plain" if difficulty == "starter" else rng.choices(list(_SITUATIONS), list(_SITUATIONS.values()))[0]
    account = rng.choice(_fitting_accounts(by_kind[kind], kind, difficulty))
    parts: list[Part] = []
    while not _is_enough(parts):
        # What is asked is asked before anything changes.
        parts = sorted(_draw_parts(rng, account, difficulty), key=lambda part: not part.tells)
    persona = rng.choice(_PERSONAS[difficulty])
    knows_number = difficulty in _SIMPLE or _knows_number(rng, parts)
    return _published_row(task_id(split, number, difficulty, world), account, parts, persona, knows_number)


def _fitting_accounts(of_kind: Sequence[Account], kind: str, difficulty: str) -> Sequence[Account]:
    """Return the accounts with few unpaid bills (simple levels) or lines enough for the difficulty; all where none fits."""
    if difficulty in _SIMPLE:
        return [account for account in of_kind if len(account.unpaid) < 2] or of_kind
    least = 2 if difficulty == "hard" else 1 if kind == "ended" else 0
    return [account for account in of_kind if len(account.others) >= least] or of_kind


def _is_enough(parts: Sequence[Part]) -> bool:
    """Return whether any part of a task expects a call or a fact to be told."""
    return bool(parts) and any(part.actions or part.tells for part in parts)


def _knows_number(rng: Random, parts: Sequence[Part]) -> bool:
    """Draw whether the user knows the phone's number; always where a wish names it."""
    numbered = any("-555-" in wish for part in parts for wish in part.wishes)
    return numbered or rng.random() < 0.6


# Which parts


def _draw_parts(rng: Random, account: Account, difficulty: str) -> list[Part]:
    """Draw the parts of a task by the level's own rule."""
    return {"starter": _starter, "easy": _easy, "medium": _medium, "hard": _hard}[difficulty](rng, account)


def _starter(rng: Random, account: Account) -> list[Part]:
    """Draw one trouble with one fault that the customer alone can mend, redrawn until it is such; as a list."""
    while True:
        part = trouble(rng, account, rng.choice(_KINDS), 1)
        if all(row["requestor"] == "user" for row in part.actions):
            return [part]


def _easy(rng: Random, account: Account) -> list[Part]:
    """Draw an easy task's one part by the kind of account: a trouble, a plain wish or a hopeless case."""
    if account.kind == "ended":
        return [hopeless(rng, account, "service")]
    if account.kind == "overdue":
        return [trouble(rng, account, "service", 0)]
    if account.kind != "plain" or rng.random() < 0.45:
        return _wishes(rng, account, 1, [PLAIN], (), True)
    if rng.random() < 0.04:
        return [hopeless(rng, account, "service")]
    return [trouble(rng, account, rng.choice(_KINDS), 1)]


def _medium(rng: Random, account: Account) -> list[Part]:
    """Draw a medium task's parts, by the account: a trouble or a hopeless case, perhaps with a wish, or two wishes."""
    by_number = rng.random() < 0.5
    if account.kind == "ended":
        return [*_wishes(rng, account, 1, [PLAIN, COMPUTED], ("phone",), by_number), hopeless(rng, account, "service")]
    if account.kind == "overdue" or (account.kind == "plain" and rng.random() < 0.55):
        owing = account.kind == "overdue"
        phone = trouble(rng, account, rng.choice(_KINDS), rng.choice((1, 2)) if owing else rng.choice((1, 2, 2, 3)))
        kind = rng.choice((PLAIN, COMPUTED, QUESTIONS))
        beside = _wishes(rng, account, 1, [kind], ("phone",), by_number) if rng.random() < 0.4 else []
        return [*beside, phone]
    return _wishes(rng, account, 2, [COMPUTED, rng.choice((PLAIN, QUESTIONS))], (), by_number)


def _hard(rng: Random, account: Account) -> list[Part]:
    """Draw a hard task's parts, by the account: three wishes, or two beside a trouble or a hopeless case."""
    by_number = rng.random() < 0.4
    kinds = [REASONED, FORBIDDEN, rng.choice((REASONED, QUESTIONS, FORBIDDEN))]
    if account.kind == "ended":
        return [*_wishes(rng, account, 2, kinds, ("phone",), by_number), hopeless(rng, account, "service")]
    if account.kind == "overdue" or rng.random() < 0.6:
        beside = _wishes(rng, account, 2, kinds, ("phone",), by_number)
        if account.kind == "plain" and rng.random() < 0.1:
            return [*beside, hopeless(rng, account, rng.choice(_KINDS))]
        return [*beside, trouble(rng, account, rng.choice(_KINDS[1:]), rng.choice((2, 3, 4, 5)))]
    return _wishes(rng, account, 3, kinds, (), by_number)


def _wishes(
    rng: Random, account: Account, count: int, kinds: Sequence[Sequence[Wish]], exclusions: tuple[str, ...], by_number: bool
) -> list[Part]:  # fmt: skip
    """Draw up to `count` wishes without conflict, [] without a line, shuffled; `exclusions` may hold "phone" (its line)."""
    lines = account.lines[1:] if "phone" in exclusions else account.lines
    if not lines:
        return []
    case = Case(rng, account, lines, by_number)
    topics = {"bills"} if account.kind == "overdue" else set[str]()
    parts: list[Part] = []
    for place in range(count):
        part = _wish(case, kinds[min(place, len(kinds) - 1)], topics)
        if part is not None:
            parts.append(part)
            topics |= part.topics
    return rng.sample(parts, len(parts))


def _wish(case: Case, kind: Sequence[Wish], topics: set[str]) -> Part | None:
    """Draw a wish of a kind on free topics, mostly one special to the account; None where none fits."""
    special = {"owing": ("pay", "waiver", "overdue"), "resting": ("resume",)}.get(case.account.kind, ())
    order = case.rng.sample(kind, len(kind))
    if case.rng.random() < 0.7:
        order.sort(key=lambda wish: wish.__name__ not in special)
    for wish in order:
        try:
            part = wish(case)
        except Unfit:
            continue
        # Nobody wants the same kind of thing twice.
        if not part.topics & topics and wish.__name__ not in topics:
            return part.replace(topics=part.topics | {wish.__name__})
    return None


# The row


def _published_row(name: str, account: Account, parts: Sequence[Part], persona: str, knows_number: bool) -> Row:
    """Return a published row: the script and instructions of the customer, the start of phone and account, and the criteria."""
    facts, unknown = _identity(account, knows_number)
    abroad = next((part.abroad for part in parts if part.abroad), "")
    if not abroad:
        facts.append(fact("location", "<I> <am> at home, not abroad", "home"))
    facts += [row for part in parts for row in part.facts]
    conduct = [spoken(text, False) for text in (*_rules(parts), *WORDS["conduct"])]
    instructions = Instructions(
        "telecom", " ".join(spoken(wish, False) for part in parts for wish in part.wishes),
        " ".join([*_profile(account, knows_number), *(spoken(text, False) for part in parts for text in part.context)]),
        None if knows_number else "You know neither your phone numbers by heart nor your customer id.", " ".join(conduct),
    )  # fmt: skip
    script = {
        "facts": facts, "wants": [want for part in parts for want in part.wants], "unknown": unknown, "persona": persona
    }  # fmt: skip
    start = {"initialization_actions": _start(account, parts, bool(abroad))}
    ticket = _ticket(account, parts, knows_number)
    return task_row(name, instructions, script, _criteria(parts), ticket=ticket, initial_state=start)


def _rules(parts: Sequence[Part]) -> list[str]:
    """Return the rules of all parts, each once."""
    return list(dict.fromkeys(rule for part in parts for rule in part.rules))


def _identity(account: Account, knows_number: bool) -> tuple[list[Row], list[str]]:
    """Return the facts that identify a customer, the phone number if `knows_number`, and the topics that it does not know."""
    customer, born = account.customer, account.customer["date_of_birth"]
    facts = [
        fact("name", f"<my> name is {customer['full_name']}", str(customer["full_name"])),
        fact("date_of_birth", f"<I> <was> born on {born}", str(born)),
        fact("zip", f"<my> zip code is {customer['address']['zip_code']}", str(customer["address"]["zip_code"])),
        fact("email", f"<my> e-mail address is {customer['email']}", str(customer["email"])),
    ]
    if not knows_number:
        return facts, ["phone", "customer_id", "user_id"]
    number = str(customer["phone_number"])
    return [*facts, fact("phone", f"<my> phone number is {number}", number)], ["customer_id", "user_id"]


def _profile(account: Account, knows_number: bool) -> Iterator[str]:
    """Yield the sentences that tell a player who it is; the phone number only if it knows it."""
    customer, phone = account.customer, account.device(account.lines[0])["model"]
    number = f", and your phone number is {customer['phone_number']}" if knows_number else ""
    yield f"You are {customer['full_name']}, born on {customer['date_of_birth']}{number}."
    yield f"Your phone is a {phone}."
    yield f"Your e-mail address is {customer['email']}, your zip code {customer['address']['zip_code']}."


def _ticket(account: Account, parts: Sequence[Part], knows_number: bool) -> str:
    """Write solo mode's ticket: who the customer is, what it wrote and agrees to, and whether it awaits an answer."""
    customer = account.customer
    number = f", phone number {customer['phone_number']}" if knows_number else ""
    phone = account.device(account.lines[0])["model"]
    texts = [text for part in parts for text in (*part.wishes, *part.context, *part.ticket)]
    if not any(part.abroad for part in parts):
        texts.append("<I> <am> at home")
    lines = [
        f"Customer: {customer['full_name']}, born on {customer['date_of_birth']}{number}. The phone is a {phone}.",
        "The customer wrote: " + " ".join(dict.fromkeys(map(spoken, texts))),
    ]
    if any(part.tells for part in parts):
        lines.append("The customer awaits an answer: write it as your last turn, with ###STOP### behind it.")
    return "\n".join(lines)


def _start(account: Account, parts: Sequence[Part], abroad: bool) -> list[Row]:
    """Return the initial actions: user, place (home or `abroad`), faults (the company's first), a search for the network."""
    customer = account.customer
    start = [
        function("user", "set_user_info", name=customer["full_name"], phone_number=customer["phone_number"]),
        function("user", "set_user_location", abroad=abroad),
    ]
    broken = [row for part in parts for row in part.start]
    start += sorted(broken, key=lambda row: row["env_type"] == "user")
    # Only a search shows on the phone what the line's state means for it.
    return [*start, function("user", "simulate_network_search")]


def _criteria(parts: Sequence[Part]) -> Row:
    """Return the parts' criteria, hopeless parts' actions last; ACTION and COMMUNICATE count only where a part needs them."""
    ordered = sorted(parts, key=lambda part: part.hopeless)
    tells = [text for part in parts for text in part.tells]
    basis = ["ENV_ASSERTION"]
    basis += ["ACTION"] * any(part.compared for part in parts) + ["COMMUNICATE"] * bool(tells)
    return {
        "actions": [row for part in ordered for row in part.actions],
        "env_assertions": [{**row, "assert_value": True} for part in parts for row in part.holds],
        "communicate_info": tells,
        "reward_basis": basis,
    }
