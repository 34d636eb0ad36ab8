"""Telecom customers demand what the policy forbids, with what they want instead, or ask questions.

Functions like those of `telecom_wishes`.
"""

from random import Random

from agent_envs.envs.tau2.task_generator.telecom_parts import (
    Account,
    Lines,
    Part,
    accounts,
    active,
    line_is,
    named,
    want,
)
from agent_envs.envs.tau2.task_generator.telecom_refuelling import refuel, refuelled
from agent_envs.envs.tau2.task_generator.telecom_wishes import Wish, forbid_roaming, pay, suspend


def _instead(refused: str, part: Part, insists: int, *rules: str) -> Part:
    """Return a part whose wish is made only once another was refused."""
    first, *rest = part.wants
    said = first["say"] if first["say"].startswith("I ") else first["say"][:1].lower() + first["say"][1:]
    alternative = ({**first, "say": f"Then {said}", "only_if_refused": True}, *rest)
    told = f"if that is refused, {part.wishes[0]}"
    return part.but(
        wishes=(refused, told, *part.wishes[1:]),
        wants=(want(refused, insists=insists), *alternative),
        rules=(*part.rules, "{I} ask for it again before {I} give in" if insists else "{I} accept a refusal", *rules),
    )


def too_much_data(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """More data than may be sold."""
    if not active(lines):
        return None
    line, amount = rng.choice(active(lines)), rng.choice((3, 4, 5, 10))
    name = named(rng, account, line, by_number)
    alternative = refuelled(account, line, f"{{I}} want 2 gigabytes for {name}", 2.0)
    ask = rng.choice((
        f"{{I}} want {amount} gigabytes more data for {name}",
        f"{{I}} want to double what one may buy: 2 gigabytes for {name} now, and then another {amount} gigabytes for it",
    ))  # fmt: skip
    return _instead(ask, alternative, rng.choice((0, 1, 2)))


def other_plan(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """A change of plan."""
    alternative = refuel(rng, account, lines, by_number)
    if alternative is None:
        return None
    ask = rng.choice(("{I} want to change to a bigger plan", "{I} want to switch {my} plan to the cheapest one"))
    return _instead(ask, alternative, rng.choice((0, 1)))


def waiver(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """A bill that somebody would rather not pay."""
    alternative = pay(rng, account, lines, by_number)
    if alternative is None:
        return None
    ask = rng.choice((
        "{I} want {my} overdue bill to be cancelled as a gesture of goodwill",
        "{I} want half off what {I} owe, because {I} have been a customer for years",
    ))  # fmt: skip
    return _instead(ask, alternative, rng.choice((1, 2)))


def others_line(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """The line of somebody else."""
    alternative = suspend(rng, account, lines, by_number) or forbid_roaming(rng, account, lines, by_number)
    if alternative is None:
        return None
    everybody = [one for of_kind in accounts(account.split, account.world).values() for one in of_kind]
    stranger = rng.choice([one for one in everybody if one.id != account.id and active(one.lines)])
    whose = rng.choice(("{my} neighbour's", "a colleague's", "{my} former partner's"))
    line = active(stranger.lines)[0]
    ask = f"{{I}} want {whose} line {line['phone_number']} to be suspended"
    part = _instead(ask, alternative, rng.choice((0, 1)))
    return part.but(holds=(*part.holds, line_is(stranger, line, "Active")))


# Questions


def _question(ask: str, answer: float, *signs: str) -> Part | None:
    """Return a question, unless its answer could be written in two ways, or be guessed."""
    if f"{answer:.2f}".endswith("0"):
        return None
    return Part(
        (ask,), (want(ask, question=True, signs=list(signs)),), tells=(f"{answer:.2f}",), topics=frozenset({"question"})
    )


def data_left(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """How much data is left."""
    if not active(lines):
        return None
    line = rng.choice(active(lines))
    part = _question(
        f"{{I}} want to know how many gigabytes are left this month on {named(rng, account, line, by_number)}",
        account.plan(line)["data_limit_gb"] - line["data_used_gb"],
        "left", "remain", "gigabyte", " gb",
    )  # fmt: skip
    return part and part.but(topics=part.topics | {f"data {line['line_id']}"})


def owed(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """How much is overdue in all."""
    total = sum(bill["total_due"] for bill in account.unpaid)
    ask = "{I} want to know how much is overdue on {my} account, all bills together"
    return _question(ask, total, "overdue", "owe", "total") if total else None


def price(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """What a line costs a month."""
    line = rng.choice(lines)
    ask = f"{{I}} want to know what the plan of {named(rng, account, line, by_number)} costs a month"
    return _question(ask, account.plan(line)["price_per_month"], "cost", "month", "price")


FORBIDDEN: tuple[Wish, ...] = (too_much_data, other_plan, waiver, others_line)
QUESTIONS: tuple[Wish, ...] = (data_left, owed, price)
