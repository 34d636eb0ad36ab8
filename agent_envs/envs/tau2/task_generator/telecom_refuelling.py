"""Telecom customers wish for more data: a stated amount, or as much as a condition makes it."""

from random import Random

from agent_envs.envs.tau2.task_generator.telecom_parts import (
    SIGNS,
    Account,
    Lines,
    Part,
    Row,
    action,
    active,
    bought,
    dollars,
    fact,
    gigabytes,
    line_facts,
    named,
    single,
    want,
)

MOST_GIGABYTES = 2.0
_PRICE = "{I} agree to the plan's price for a gigabyte"


def refuelled(account: Account, line: Row, wish: str, amount: float, told: str = "") -> Part:
    """Return a wish for data that ends with so many gigabytes."""
    call = action("assistant", "refuel_data", **account.own(line), gb_amount=amount)
    facts = [
        *line_facts(account, line, wish),
        fact("amount", told or f"{{I}} want {gigabytes(amount)}", f"{amount:g} GB"),
    ]
    return single(account, line, wish, call, "data").but(
        wants=(want(wish, facts=facts, signs=SIGNS[call["name"]]),),
        holds=(bought(account, line, amount),),
        rules=(_PRICE,),
        ticket=(_PRICE,),
    )


def refuel(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """More data, so and so much."""
    if not active(lines):
        return None
    line, amount = rng.choice(active(lines)), rng.choice((0.5, 1.0, 1.5, 2.0))
    name = named(rng, account, line, by_number)
    wish = rng.choice((
        f"{{I}} want to buy {gigabytes(amount)} more data for {name}",
        f"{{I}} need {gigabytes(amount)} of extra data this month on {name}",
        f"{{I}} want {gigabytes(amount)} on top for {name}, which will run dry before the month is over",
        f"{{I}} want {name} to be refuelled with {gigabytes(amount)}",
    ))  # fmt: skip
    return refuelled(account, line, wish, amount)


def refuel_for_budget(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """As much data as so much money buys."""
    if not active(lines):
        return None
    line, halves = rng.choice(active(lines)), rng.choice((1, 2, 3, 4, 6))
    price = account.plan(line)["data_refueling_price_per_gb"]
    budget = halves * price / 2 + rng.choice((0.1, 0.15, 0.2))
    told = f"in steps of half a gigabyte, as much as {{I}} can get for at most {dollars(budget)}, and no more than is allowed"
    wish = f"{{I}} want more data for {named(rng, account, line, by_number)}: {told}"
    return refuelled(account, line, wish, min(halves / 2, MOST_GIGABYTES), told)


def refuel_by_price(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """More data if it is cheap, less if it is not."""
    if not active(lines):
        return None
    line = rng.choice(active(lines))
    price = account.plan(line)["data_refueling_price_per_gb"]
    cheap = rng.random() < 0.4
    bound = price + 0.25 if cheap else price - 0.25
    told = f"2 gigabytes if one costs {dollars(bound)} or less, otherwise only 1 gigabyte"
    wish = f"{{I}} want more data for {named(rng, account, line, by_number)}: {told}"
    return refuelled(account, line, wish, 2.0 if cheap else 1.0, told)


def refuel_up_to(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """So much data that enough is left."""
    if not active(lines):
        return None
    line, halves = rng.choice(active(lines)), rng.choice((1, 2, 3, 4))
    left = account.plan(line)["data_limit_gb"] - line["data_used_gb"]
    enough = round(left + halves / 2 - rng.choice((0.05, 0.1, 0.2)), 1)
    told = (
        f"in steps of half a gigabyte, just enough that at least {gigabytes(enough)} are left for the rest of the month"
    )
    wish = f"{{I}} want more data for {named(rng, account, line, by_number)}: {told}"
    if not left + halves / 2 - 0.5 < enough <= left + halves / 2:
        return None
    return refuelled(account, line, wish, halves / 2, told)


def refuel_if_short(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """More data if little is left."""
    if not active(lines):
        return None
    line, amount = rng.choice(active(lines)), rng.choice((1.0, 1.5, 2.0))
    left, short = account.plan(line)["data_limit_gb"] - line["data_used_gb"], rng.random() < 0.6
    bound = max(0.5, round(left * 2) / 2) + (0.5 if short else -0.5)
    if not short and (bound < 0.5 or bound >= left):
        return None
    told = f"{gigabytes(amount)} if less than {gigabytes(bound)} are left this month, and nothing otherwise"
    wish = f"{{I}} want more data for {named(rng, account, line, by_number)}: {told}"
    part = refuelled(account, line, wish, amount, told)
    return part if short else part.but(actions=(), holds=(bought(account, line, 0.0),))
