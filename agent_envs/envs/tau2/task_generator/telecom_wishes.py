"""Telecom customers make wishes about their accounts: roaming, lines, data and bills, plain or to be worked out.

Each function returns a `Part` about one of the lines that it is given, or None where the account has no case for it.
"""

from collections.abc import Callable
from random import Random

from agent_envs.envs.tau2.task_generator.telecom_parts import (
    SIGNS,
    Account,
    Lines,
    Part,
    Row,
    action,
    active,
    fact,
    function,
    line_is,
    named,
    paid,
    payments,
    single,
    want,
)
from agent_envs.envs.tau2.task_generator.telecom_refuelling import (
    refuel,
    refuel_by_price,
    refuel_for_budget,
    refuel_if_short,
    refuel_up_to,
)
from agent_envs.envs.tau2.task_generator.telecom_troubles import PLACES

Wish = Callable[[Random, Account, Lines, bool], Part | None]
_FEE = "{I} agree to the 5 dollars a month that a suspended line costs"


def allow_roaming(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """Somebody will travel."""
    if not active(lines):
        return None
    line, place = rng.choice(active(lines)), rng.choice(PLACES)
    name = named(rng, account, line, by_number)
    wishes = (
        f"{{I}} {{am}} going to {place} next week. {{I}} want roaming to be allowed on {name}",
        f"for a trip to {place}, {{I}} want {name} to be able to use networks abroad",
        f"{{I}} want to use data in {place} soon, so roaming should be enabled for {name}",
        f"{{I}} fly to {place} on Sunday, and {{I}} want {name} to get online there, too",
    )
    return _roaming(account, line, rng.choice(wishes), "enable_roaming", "disable_roaming")


def forbid_roaming(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """Somebody fears costs abroad."""
    if not active(lines):
        return None
    line = rng.choice(active(lines))
    name = named(rng, account, line, by_number)
    wishes = (
        f"{{I}} want roaming to be turned off on the account for {name}",
        f"nobody travels any more, so {{I}} want roaming disabled for {name}",
        f"{{I}} never again want to pay for what {name} does on a foreign network: please shut that door",
        f"{{I}} want to make sure that {name} cannot use networks abroad any longer: roaming should be forbidden on it",
    )
    return _roaming(account, line, rng.choice(wishes), "disable_roaming", "enable_roaming")


def _roaming(account: Account, line: Row, wish: str, wanted: str, before: str) -> Part:
    """Return a wish for a call on a line that another call has made meaningful."""
    start = function("assistant", before, **account.own(line))
    call = action("assistant", wanted, **account.own(line))
    return single(account, line, wish, call, "roaming").but(start=(start,), compared=True)


def allow_everywhere(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """Roaming on all lines; some have it already."""
    working = active(lines)
    if len(working) < 2 or len(working) < len(account.lines):
        return None
    barred = rng.sample(working, rng.randrange(1, len(working) + 1))
    start = tuple(
        function("assistant", "disable_roaming" if line in barred else "enable_roaming", **account.own(line))
        for line in working
    )
    wish = f"{{my}} family travels to {rng.choice(PLACES)}. {{I}} want roaming to be enabled on all of {{my}} lines"
    return Part(
        (wish,), (want(wish, facts=[fact("line", "all of {my} lines")], signs=SIGNS["enable_roaming"]),),
        start=start, compared=True,
        actions=tuple(action("assistant", "enable_roaming", **account.own(line)) for line in working if line in barred),
        topics=frozenset(f"roaming {line['line_id']}" for line in working),
    )  # fmt: skip


def suspend(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """A line is not needed for a while."""
    others = active(tuple(line for line in lines if line in account.others))
    return _suspended(rng, account, rng.choice(others), by_number) if others else None


def _suspended(rng: Random, account: Account, line: Row, by_number: bool) -> Part:
    why = rng.choice(("it is not needed for a while", "the device is lost", "nobody uses it at the moment"))
    name = named(rng, account, line, by_number)
    wish = rng.choice((
        f"{{I}} want {name} to be suspended, because {why}",
        f"{{I}} want to put {name} on hold, because {why}",
        f"{{I}} want {name} to be taken out of service for the time being, because {why}",
    ))  # fmt: skip
    own = account.own(line)
    call = action("assistant", "suspend_line", tuple(own), **own, reason=why)
    part = single(account, line, wish, call, "status").but(rules=(_FEE,), ticket=(_FEE,))
    wants = tuple({**row, "facts": [*row["facts"], fact("reason", why, why)]} for row in part.wants)
    return part.but(wants=wants, holds=(line_is(account, line, "Suspended"),), topics=_everything((line,)))


def _everything(lines: Lines) -> frozenset[str]:
    """Return all that a wish may be about, of lines that are wanted for nothing else."""
    return frozenset(f"{topic} {line['line_id']}" for line in lines for topic in ("status", "data", "roaming"))


def suspend_idler(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """Of two lines, the one that used less data is to be suspended."""
    others = active(tuple(line for line in lines if line in account.others))
    if len(others) < 2:
        return None
    one, other = (named(rng, account, line, by_number) for line in others[:2])
    line = min(others[:2], key=lambda line: line["data_used_gb"])
    wish = f"{{I}} want one of two lines to be suspended, {one} or {other}: whichever has used less data this month"
    own = account.own(line)
    call = action("assistant", "suspend_line", tuple(own), **own, reason="it is hardly used")
    spared = next(row for row in others[:2] if row is not line)
    facts = [fact("line", f"{one} or {other}, whichever used less data this month")]
    return Part(
        (wish,), (want(wish, facts=facts, signs=SIGNS[call["name"]]),),
        rules=(_FEE,), ticket=(_FEE,), actions=(call,),
        holds=(line_is(account, line, "Suspended"), line_is(account, spared, "Active")),
        topics=_everything(tuple(others[:2])),
    )  # fmt: skip


def resume(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """A line that rests is needed again."""
    resting = [line for line in lines if line["status"] == "Suspended" and account.kind == "resting"]
    if not resting:
        return None
    name = named(rng, account, resting[0], by_number)
    wish = rng.choice((
        f"{{I}} had {name} suspended in January, and {{I}} want it to be active again",
        f"{{I}} want to use {name} again, which {{I}} had put on hold at the end of January",
        f"since the end of January, {name} has been resting at {{my}} wish. {{I}} want it to work from now on",
    ))  # fmt: skip
    call = action("assistant", "resume_line", **account.own(resting[0]))
    return single(account, resting[0], wish, call, "status").but(holds=(line_is(account, resting[0], "Active"),))


def allow_dearest(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """Roaming on one of two lines: that of the dearer plan."""
    working = active(lines)[:2]
    prices = [account.plan(line)["price_per_month"] for line in working]
    if len(set(prices)) < 2:
        return None
    line = working[prices.index(max(prices))]
    one, other = (named(rng, account, row, by_number) for row in working)
    wish = f"{{I}} want roaming to be allowed on one of two lines, {one} or {other}: the one whose plan costs more"
    start = tuple(function("assistant", "disable_roaming", **account.own(row)) for row in working)
    call = action("assistant", "enable_roaming", **account.own(line))
    facts = [fact("line", f"{one} or {other}, whichever has the dearer plan")]
    part = Part((wish,), (want(wish, facts=facts, signs=SIGNS[call["name"]]),))
    return part.but(start=start, actions=(call,), compared=True, topics=_everything(tuple(working)))


def pay(rng: Random, account: Account, lines: Lines, by_number: bool) -> Part | None:
    """Overdue bills, all of them or one."""
    if account.kind != "owing":
        return None
    due, more = account.unpaid, len(account.unpaid) > 1
    wishes = [rng.choice((
        "{I} want to pay whatever is overdue on {my} account", "{I} want to settle what {I} owe on overdue bills",
        "{I} got a reminder, and {I} want to pay all that is late",
    ))]  # fmt: skip
    holds = paid(due)
    if more and rng.random() < 0.5:
        wishes = ["{I} want to pay the older one of {my} two overdue bills now, and the other one another day"]
        rest = function(
            "assistant", "assert_overdue_bill_exists", customer_id=account.id, overdue_bill_id=due[1]["bill_id"]
        )  # fmt: skip
        due, holds = due[:1], (*paid(due[:1]), rest)
    elif more:
        wishes = [f"{wishes[0]}, the oldest bill first", "{I} want to pay the rest of what is overdue, too"]
    agreed = "{I} pay when a payment request for such a bill comes"
    return Part(
        tuple(wishes), tuple(want(wish, signs=SIGNS["send_payment_request"]) for wish in wishes), rules=(agreed,),
        ticket=(agreed,), actions=payments(account, due), holds=holds, topics=frozenset({"bills"}),
    )  # fmt: skip


PLAIN: tuple[Wish, ...] = (allow_roaming, forbid_roaming, suspend, refuel, pay, resume)
REASONED: tuple[Wish, ...] = (
    allow_everywhere, allow_dearest, suspend_idler, refuel_for_budget, refuel_by_price, refuel_up_to, refuel_if_short,
)  # fmt: skip
COMPUTED: tuple[Wish, ...] = (*REASONED, pay, resume)
