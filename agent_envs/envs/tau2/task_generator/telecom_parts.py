"""A generated telecom task is put together from the customer's account and one part for each thing that is wanted."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

from agent_envs.envs.tau2.task_generator.source import members
from agent_envs.envs.tau2.task_generator.telecom_world import CUSTOMERS, databases, situation
from agent_envs.envs.tau2.task_generator.wishes import need, voiced, wordings

Row = dict[str, Any]
Lines = tuple[Row, ...]
WORDS = wordings("telecom")


@dataclass(frozen=True)
class Account:
    """A customer with all that belongs to it, as the database has it.

    Attributes:
        customer: its record.
        kind: what the account is like; see `telecom_world.situation`.
        lines: its lines; the first is that of the phone.
        split: whose tasks it is for.
        world: whose database it is in.
    """

    customer: Row
    kind: str
    lines: tuple[Row, ...]
    split: str
    world: int

    @property
    def id(self) -> str:
        """The customer's id."""
        return str(self.customer["customer_id"])

    @property
    def others(self) -> tuple[Row, ...]:
        """The lines beside the phone's."""
        return self.lines[1:]

    @property
    def unpaid(self) -> tuple[Row, ...]:
        """The overdue bills, the oldest first."""
        bills = databases(self.world)[0].tables["bills"]
        return tuple(bills[key] for key in self.customer["bill_ids"] if bills[key]["status"] == "Overdue")

    def plan(self, line: Row) -> Row:
        """Return a line's plan."""
        return databases(self.world)[0].tables["plans"][line["plan_id"]]

    def device(self, line: Row) -> Row:
        """Return a line's device."""
        return databases(self.world)[0].tables["devices"][line["device_id"]]

    def own(self, line: Row) -> dict[str, str]:
        """Return the arguments by which tools name a line."""
        return {"customer_id": self.id, "line_id": str(line["line_id"])}


@cache
def accounts(split: str, world: int) -> Mapping[str, tuple[Account, ...]]:
    """Return, by kind, the accounts that a split's tasks may concern, cached."""
    tables = databases(world)[0].tables
    customers = list(tables["customers"].values())
    by_kind: dict[str, list[Account]] = {}
    for place in members(split, CUSTOMERS):
        customer, kind = customers[place], situation(place)
        lines = tuple(tables["lines"][key] for key in customer["line_ids"])
        by_kind.setdefault(kind, []).append(Account(customer, kind, lines, split, world))
    return {kind: tuple(of_kind) for kind, of_kind in by_kind.items()}


@dataclass(frozen=True)
class Part:
    """One thing that a customer wants, in all forms in which a row tells it.

    Attributes:
        wishes: what is asked for, in order; wordings with marks for the person.
        wants: the same as members of a user script.
        facts: what the customer tells beside; members of a user script.
        context: wordings of facts that a wish does not tell.
        rules: wordings of how the customer behaves.
        ticket: what solo mode's ticket adds to the wishes.
        start: what is done to the world before, by side and function.
        actions: what is to be done, by side and tool, with the arguments that are compared.
        holds: assertions about the end.
        tells: what the customer must be told.
        compared: the actions count themselves, because no assertion sees what they do.
        abroad: where the phone is, if the part says so.
        hopeless: ends with a transfer to staff.
        topics: what it is about; parts that share one do not go together.
    """

    wishes: tuple[str, ...]
    wants: tuple[Row, ...]
    facts: tuple[Row, ...] = ()
    context: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    ticket: tuple[str, ...] = ()
    start: tuple[Row, ...] = ()
    actions: tuple[Row, ...] = ()
    holds: tuple[Row, ...] = ()
    tells: tuple[str, ...] = ()
    compared: bool = False
    abroad: str = ""
    hopeless: bool = False
    topics: frozenset[str] = field(default_factory=frozenset)

    def replace(self, **changes: Any) -> "Part":
        """Return a copy with some attributes changed."""
        return replace(self, **changes)


def spoken(wording: str, first: bool = True) -> str:
    """Return a wording as whole sentences, in the first or in the second person."""
    return voiced(wording if wording.endswith((".", "?", "!")) else f"{wording}.", first)


def want(wish: str, **members_of_it: Any) -> Row:
    """Return a want of a user script."""
    return {"say": spoken(wish), **members_of_it}


def fact(topic: str, wording: str, value: str = "") -> Row:
    """Return a fact of a user script."""
    return {"topic": topic, "say": spoken(wording), "value": value}


def function(side: str, name: str, /, **arguments: Any) -> Row:
    """Return a function that sets up the world at the start, or an assertion about its end."""
    return {"env_type": side, "func_name": name, "arguments": arguments}


def action(side: str, name: str, compared: tuple[str, ...] | None = None, /, **arguments: Any) -> Row:
    """Return an expected call; all of its arguments are compared, or those that `compared` names."""
    names = list(arguments) if compared is None else list(compared)
    return {"requestor": side, "name": name, "arguments": arguments, "compare_args": names}


def payments(account: Account, bills: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the calls that pay bills one after the other: the agent's request, then the user's payment."""
    pays = action("user", "make_payment")
    requests = [
        action("assistant", "send_payment_request", customer_id=account.id, bill_id=one["bill_id"]) for one in bills
    ]
    return tuple(call for request in requests for call in (request, pays))


def paid(bills: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the assertions that bills are paid."""
    return tuple(
        function("assistant", "assert_no_overdue_bill", overdue_bill_id=bill["bill_id"]) for bill in bills
    )  # fmt: skip


def line_is(account: Account, line: Row, status: str) -> Row:
    """Return the assertion that a line has a status."""
    return function("assistant", "assert_line_status", **account.own(line), expected_status=status)


def bought(account: Account, line: Row, gigabytes: float) -> Row:
    """Return the assertion that a line was sold so much data."""
    return function(
        "assistant", "assert_data_refueling_amount", **account.own(line), expected_amount=gigabytes
    )  # fmt: skip


def gigabytes(amount: float) -> str:
    """Return an amount of data as people say it."""
    return f"{amount:g} gigabyte{'' if amount == 1 else 's'}"


def dollars(amount: float) -> str:
    """Return an amount of money as people write it."""
    return f"${amount:.2f}"


def active(lines: Lines) -> list[Row]:
    """Return those of some lines that work."""
    return [line for line in lines if line["status"] == "Active"]


@dataclass(frozen=True)
class Case:
    """A customer for whom wishes are drawn.

    Attributes:
        rng: what everything is drawn from.
        account: the customer's.
        lines: the lines that a wish may be about.
        by_number: lines are named by their numbers.
    """

    rng: Random
    account: Account
    lines: Lines
    by_number: bool

    def say(self, name: str, /, **slots: object) -> str:
        """Return one of the wordings of a name."""
        return str(self.rng.choice(WORDS[name]).format(**slots))

    @property
    def working(self) -> list[Row]:
        """The lines that work; Unfit is raised where there is none."""
        return need(active(self.lines))

    @property
    def others(self) -> list[Row]:
        """The lines that work and that are not the phone's."""
        return [line for line in active(self.lines) if line in self.account.others]

    def label(self, line: Row) -> str:
        """Return the customer's words for a line: its number if `by_number`, else the device that it is in."""
        if self.by_number:
            return self.say("by_number", number=line["phone_number"])
        device = self.account.device(line)
        kind = {"phone": "second phone", "router": "internet router"}.get(device["device_type"], device["device_type"])
        kind = "phone" if line is self.account.lines[0] else kind
        return self.say("by_device", kind=kind, model=device["model"])


def line_facts(account: Account, line: Row, wish: str) -> list[Row]:
    """Return the two facts that identify a line: its number if the wish names that, else its device."""
    device, number = account.device(line), str(line["phone_number"])
    model, kind = str(device["model"]), device["device_type"]
    if number in wish:
        return [fact("line", f"it is the line {number}", number), fact("phone", f"the number is {number}", number)]
    return [fact("line", f"it is the one in <my> {kind}, a {model}", model), fact("device", f"it is a {model}", model)]


def single(account: Account, line: Row, wish: str, call: Row, topic: str) -> Part:
    """Return a wish that one call about one line fulfils."""
    wants = (want(wish, facts=line_facts(account, line, wish), signs=WORDS["signs"][call["name"]]),)
    return Part((wish,), wants, actions=(call,), topics=frozenset({f"{topic} {line['line_id']}"}))
