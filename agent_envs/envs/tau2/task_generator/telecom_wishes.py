"""Telecom customers make wishes about their accounts (roaming, lines, data, bills), demand what is forbidden, or ask.

Each function returns a `Part` about some of a case's lines, or raises `Unfit` where the account has nothing of the sort.
"""

from collections.abc import Callable

from agent_envs.envs.tau2.task_generator.telecom_parts import (
    WORDS,
    Account,
    Case,
    Lines,
    Part,
    Row,
    accounts,
    action,
    active,
    bought,
    dollars,
    fact,
    function,
    gigabytes,
    line_facts,
    line_is,
    paid,
    payments,
    single,
    want,
)
from agent_envs.envs.tau2.task_generator.wishes import need

Wish = Callable[[Case], Part]
MOST_GIGABYTES = 2.0
_FEE = "<I> agree to the 5 dollars a month that a suspended line costs"
_PRICE = "<I> agree to the plan's price for a gigabyte"


# Roaming


def allow_roaming(case: Case) -> Part:
    """Draw a wish for roaming before a journey."""
    line, place = case.rng.choice(case.working), case.rng.choice(WORDS["places"])
    wish = case.say("allow_roaming", line=case.label(line), place=place)
    return _roaming(case.account, line, wish, "enable_roaming", "disable_roaming")


def forbid_roaming(case: Case) -> Part:
    """Draw a wish to forbid roaming, for fear of its costs."""
    line = case.rng.choice(case.working)
    wish = case.say("forbid_roaming", line=case.label(line))
    return _roaming(case.account, line, wish, "disable_roaming", "enable_roaming")


def _roaming(account: Account, line: Row, wish: str, tool: str, before: str) -> Part:
    """Return a wish for roaming on or off on a line, which an initial action has put into the other state."""
    start = function("assistant", before, **account.own(line))
    call = action("assistant", tool, **account.own(line))
    return single(account, line, wish, call, "roaming").replace(start=(start,), compared=True)


def allow_everywhere(case: Case) -> Part:
    """Draw a wish for roaming on all lines, off on some of them by chance; Unfit unless all work, two at least."""
    working, account = case.working, case.account
    need(len(working) >= max(2, len(account.lines)))
    barred = case.rng.sample(working, case.rng.randrange(1, len(working) + 1))
    start = tuple(
        function("assistant", "disable_roaming" if line in barred else "enable_roaming", **account.own(line))
        for line in working
    )
    place = case.rng.choice(WORDS["places"])
    wish = f"<my> family travels to {place}. <I> want roaming to be enabled on all of <my> lines"
    facts = [fact("line", "all of <my> lines")]
    return Part(
        (wish,), (want(wish, facts=facts, signs=WORDS["signs"]["enable_roaming"]),), start=start, compared=True,
        actions=tuple(action("assistant", "enable_roaming", **account.own(line)) for line in working if line in barred),
        topics=frozenset(f"roaming {line['line_id']}" for line in working),
    )  # fmt: skip


def allow_dearest(case: Case) -> Part:
    """Draw a wish for roaming on that of two lines whose plan is dearer; Unfit without two of different prices."""
    account, working = case.account, case.working[:2]
    prices = [account.plan(line)["price_per_month"] for line in working]
    need(len(set(prices)) == 2)
    line = working[prices.index(max(prices))]
    one, other = map(case.label, working)
    wish = f"<I> want roaming to be allowed on one of two lines, {one} or {other}: the one whose plan costs more"
    start = tuple(function("assistant", "disable_roaming", **account.own(row)) for row in working)
    call = action("assistant", "enable_roaming", **account.own(line))
    part = _either_line(wish, call, f"{one} or {other}, whichever has the dearer plan", tuple(working))
    return part.replace(start=start, compared=True)


def _either_line(wish: str, call: Row, words: str, lines: Lines) -> Part:
    """Return a wish that one call about one of two lines fulfils."""
    wants = (want(wish, facts=[fact("line", words)], signs=WORDS["signs"][call["name"]]),)
    return Part((wish,), wants, actions=(call,), topics=_all_line_topics(lines))


def _all_line_topics(lines: Lines) -> frozenset[str]:
    """Return the topics of all wishes about lines that no other wish may touch."""
    return frozenset(f"{topic} {line['line_id']}" for line in lines for topic in ("status", "data", "roaming"))


# Lines


def suspend(case: Case) -> Part:
    """Draw a wish to suspend a working line, not the phone's; Unfit without one."""
    line, why = case.rng.choice(need(case.others)), case.say("why")
    wish = case.say("suspend", line=case.label(line), why=why)
    own = case.account.own(line)
    call = action("assistant", "suspend_line", tuple(own), **own, reason=why)
    part = single(case.account, line, wish, call, "status")
    wants = tuple({**row, "facts": [*row["facts"], fact("reason", why, why)]} for row in part.wants)
    return part.replace(
        rules=(_FEE,), ticket=(_FEE,), wants=wants, holds=(line_is(case.account, line, "Suspended"),),
        topics=_all_line_topics((line,)),
    )  # fmt: skip


def suspend_idler(case: Case) -> Part:
    """Draw a wish to suspend that of two working lines, not the phone's, that used less data; Unfit without two."""
    pair = case.others[:2]
    need(len(pair) == 2)
    one, other = map(case.label, pair)
    line, spared = sorted(pair, key=lambda line: float(line["data_used_gb"]))
    wish = f"<I> want one of two lines to be suspended, {one} or {other}: whichever has used less data this month"
    own = case.account.own(line)
    call = action("assistant", "suspend_line", tuple(own), **own, reason="it is hardly used")
    part = _either_line(wish, call, f"{one} or {other}, whichever used less data this month", tuple(pair))
    holds = (line_is(case.account, line, "Suspended"), line_is(case.account, spared, "Active"))
    return part.replace(rules=(_FEE,), ticket=(_FEE,), holds=holds)


def resume(case: Case) -> Part:
    """Draw a wish to resume the suspended line of a resting account; Unfit for other accounts."""
    need(case.account.kind == "resting")
    line = need([line for line in case.lines if line["status"] == "Suspended"])[0]
    wish = case.say("resume", line=case.label(line))
    call = action("assistant", "resume_line", **case.account.own(line))
    return single(case.account, line, wish, call, "status").replace(holds=(line_is(case.account, line, "Active"),))


# Bills


def pay(case: Case) -> Part:
    """Draw a wish to pay an owing account's overdue bills, all or the older of two; Unfit for other accounts."""
    account = case.account
    need(account.kind == "owing")
    due, more = account.unpaid, len(account.unpaid) > 1
    wishes, holds = [case.say("pay")], paid(due)
    if more and case.rng.random() < 0.5:
        wishes = ["<I> want to pay the older one of <my> two overdue bills now, and the other one another day"]
        left = {"customer_id": account.id, "overdue_bill_id": due[1]["bill_id"]}
        due, holds = due[:1], (*paid(due[:1]), function("assistant", "assert_overdue_bill_exists", **left))
    elif more:
        wishes = [f"{wishes[0]}, the oldest bill first", "<I> want to pay the rest of what is overdue, too"]
    agreed = "<I> pay when a payment request for such a bill comes"
    return Part(
        tuple(wishes), tuple(want(wish, signs=WORDS["signs"]["send_payment_request"]) for wish in wishes), rules=(agreed,),
        ticket=(agreed,), actions=payments(account, due), holds=holds, topics=frozenset({"bills"}),
    )  # fmt: skip


# Data


def _refuel(case: Case, line: Row, wish: str, amount: float, words: str = "") -> Part:
    """Return the wish for extra data on a line, told by `words` or as the amount."""
    account = case.account
    call = action("assistant", "refuel_data", **account.own(line), gb_amount=amount)
    words = words or f"<I> want {gigabytes(amount)}"
    facts = [*line_facts(account, line, wish), fact("amount", words, f"{amount:g} GB")]
    return single(account, line, wish, call, "data").replace(
        wants=(want(wish, facts=facts, signs=WORDS["signs"][call["name"]]),), holds=(bought(account, line, amount),),
        rules=(_PRICE,), ticket=(_PRICE,),
    )  # fmt: skip


def _refuelled_by(case: Case, line: Row, amount: float, words: str) -> Part:
    """Return a wish for extra data whose amount follows from a condition."""
    return _refuel(case, line, f"<I> want more data for {case.label(line)}: {words}", amount, words)


def refuel(case: Case) -> Part:
    """Draw a wish for a stated amount of extra data."""
    line, amount = case.rng.choice(case.working), case.rng.choice((0.5, 1.0, 1.5, 2.0))
    wish = case.say("refuel", line=case.label(line), amount=gigabytes(amount))
    return _refuel(case, line, wish, amount)


def refuel_for_budget(case: Case) -> Part:
    """Draw a wish for as much data as a budget buys, 2 gigabytes at most; Unfit without a working line."""
    line, halves = case.rng.choice(case.working), case.rng.choice((1, 2, 3, 4, 6))
    price = case.account.plan(line)["data_refueling_price_per_gb"]
    budget = halves * price / 2 + case.rng.choice((0.1, 0.15, 0.2))
    words = f"in steps of half a gigabyte, as much as <I> can get for at most {dollars(budget)}, and no more than is allowed"
    return _refuelled_by(case, line, min(halves / 2, MOST_GIGABYTES), words)


def refuel_by_price(case: Case) -> Part:
    """Draw a wish for 2 gigabytes if they are cheap, for 1 if not; the plan's price decides."""
    line, cheap = case.rng.choice(case.working), case.rng.random() < 0.4
    price = case.account.plan(line)["data_refueling_price_per_gb"]
    bound = price + 0.25 if cheap else price - 0.25
    words = f"2 gigabytes if one costs {dollars(bound)} or less, otherwise only 1 gigabyte"
    return _refuelled_by(case, line, 2.0 if cheap else 1.0, words)


def refuel_up_to(case: Case) -> Part:
    """Draw a wish for just enough data that a stated amount is left; Unfit where another amount would do."""
    line, halves = case.rng.choice(case.working), case.rng.choice((1, 2, 3, 4))
    left = case.account.plan(line)["data_limit_gb"] - line["data_used_gb"]
    enough = round(left + halves / 2 - case.rng.choice((0.05, 0.1, 0.2)), 1)
    words = (
        f"in steps of half a gigabyte, just enough that at least {gigabytes(enough)} are left for the rest of the month"
    )
    part = _refuelled_by(case, line, halves / 2, words)
    need(left + halves / 2 - 0.5 < enough <= left + halves / 2)
    return part


def refuel_if_short(case: Case) -> Part:
    """Draw a wish for more data if less than a bound is left; where it is not, no call is gold. Unfit without a bound."""
    line, amount = case.rng.choice(case.working), case.rng.choice((1.0, 1.5, 2.0))
    left, short = case.account.plan(line)["data_limit_gb"] - line["data_used_gb"], case.rng.random() < 0.6
    bound = max(0.5, round(left * 2) / 2) + (0.5 if short else -0.5)
    need(short or 0.5 <= bound < left)
    words = f"{gigabytes(amount)} if less than {gigabytes(bound)} are left this month, and nothing otherwise"
    part = _refuelled_by(case, line, amount, words)
    return part if short else part.replace(actions=(), holds=(bought(case.account, line, 0.0),))


# What the policy forbids


def _after_refusal(refused: str, part: Part, insists: int) -> Part:
    """Return a part whose wish comes only after the refusal of another, on which the customer insists `insists` times."""
    first, *rest = part.wants
    words = first["say"] if first["say"].startswith("I ") else first["say"][:1].lower() + first["say"][1:]
    alternative = {**first, "say": f"Then {words}", "only_if_refused": True}
    return part.replace(
        wishes=(refused, f"if that is refused, {part.wishes[0]}", *part.wishes[1:]),
        wants=(want(refused, insists=insists), alternative, *rest),
        rules=(*part.rules, "<I> ask for it again before <I> give in" if insists else "<I> accept a refusal"),
    )


def too_much_data(case: Case) -> Part:
    """Draw a wish for more data than may be sold, refused; then for 2 gigabytes. Unfit without a working line."""
    line, amount = case.rng.choice(case.working), case.rng.choice((3, 4, 5, 10))
    name = case.label(line)
    alternative = _refuel(case, line, f"<I> want 2 gigabytes for {name}", 2.0)
    return _after_refusal(case.say("too_much_data", line=name, amount=amount), alternative, case.rng.choice((0, 1, 2)))


def other_plan(case: Case) -> Part:
    """Draw a wish for another plan."""
    alternative = refuel(case)
    return _after_refusal(case.say("other_plan"), alternative, case.rng.choice((0, 1)))


def waiver(case: Case) -> Part:
    """Draw a wish to be let off a bill."""
    alternative = pay(case)
    return _after_refusal(case.say("waiver"), alternative, case.rng.choice((1, 2)))


def others_line(case: Case) -> Part:
    """Draw a wish to suspend somebody else's line, refused; then one about an own line: suspend it, or forbid roaming."""
    alternative = suspend(case) if case.others else forbid_roaming(case)
    account = case.account
    everybody = [one for of_kind in accounts(account.split, account.world).values() for one in of_kind]
    stranger = case.rng.choice([one for one in everybody if one.id != account.id and active(one.lines)])
    line = active(stranger.lines)[0]
    ask = f"<I> want {case.say('whose')} line {line['phone_number']} to be suspended"
    part = _after_refusal(ask, alternative, case.rng.choice((0, 1)))
    return part.replace(holds=(*part.holds, line_is(stranger, line, "Active")))


# Questions


def _question(ask: str, answer: float, *signs: str) -> Part:
    """Return the question with its answer of two decimals; Unfit where that ends in 0, as it could be written otherwise."""
    text = f"{answer:.2f}"
    need(not text.endswith("0"))
    wants = (want(ask, question=True, signs=list(signs)),)
    return Part((ask,), wants, tells=(text,), topics=frozenset({"question"}))


def data_left(case: Case) -> Part:
    """Draw the question of how much data is left on a working line; Unfit without one, or for an answer ending in 0."""
    line = case.rng.choice(case.working)
    ask = f"<I> want to know how many gigabytes are left this month on {case.label(line)}"
    left = case.account.plan(line)["data_limit_gb"] - line["data_used_gb"]
    part = _question(ask, left, "left", "remain", "gigabyte", " gb")
    return part.replace(topics=part.topics | {f"data {line['line_id']}"})


def overdue(case: Case) -> Part:
    """Draw the question of how much is overdue in all."""
    total = sum(bill["total_due"] for bill in case.account.unpaid)
    ask = "<I> want to know how much is overdue on <my> account, all bills together"
    return _question(ask, need(total), "overdue", "owe", "total")


def price(case: Case) -> Part:
    """Draw the question of the price of a line a month."""
    line = case.rng.choice(case.lines)
    ask = f"<I> want to know what the plan of {case.label(line)} costs a month"
    return _question(ask, case.account.plan(line)["price_per_month"], "cost", "month", "price")


PLAIN: tuple[Wish, ...] = (allow_roaming, forbid_roaming, suspend, refuel, pay, resume)
REASONED: tuple[Wish, ...] = (
    allow_everywhere, allow_dearest, suspend_idler, refuel_for_budget, refuel_by_price, refuel_up_to, refuel_if_short,
)  # fmt: skip
COMPUTED: tuple[Wish, ...] = (*REASONED, pay, resume)
FORBIDDEN: tuple[Wish, ...] = (too_much_data, other_plan, waiver, others_line)
QUESTIONS: tuple[Wish, ...] = (data_left, overdue, price)
