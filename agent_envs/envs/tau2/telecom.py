"""The telecom domain holds the agent's tools, and keeps the user's phone in step with the company's records."""

from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

from agent_envs.envs.tau2.compat import ORIGINAL, Compat
from agent_envs.envs.tau2.database import Database, frozen
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.shared_tools import transfer_to_human_agents
from agent_envs.envs.tau2.telecom_faults import user_kit
from agent_envs.envs.tau2.telecom_phone import edit_surroundings, surroundings
from agent_envs.envs.tau2.telecom_tables import BILL, ITEM
from agent_envs.envs.tau2.toolkit import Domain, Kit, Record, ToolFailure, World, left_apart, present

NOW = "2025-02-25 12:08:00"
TODAY = "2025-02-25"
CYCLE_END = "2025-02-28"
NEXT_BILL = {
    "period_start": "2025-03-01",
    "period_end": "2025-03-31",
    "issue_date": "2025-03-01",
    "due_date": "2025-03-15",
}
OVERDUE_BILL = {
    "period_start": "2025-01-01", "period_end": "2025-01-31", "issue_date": "2025-01-01", "due_date": "2025-01-15"
}  # fmt: skip

# Arguments of several tools, as their schemas describe them.
_TERMS = {"customer_id": "The customer's identifier.", "line_id": "The line's identifier."}
agent_kit = Kit("assistant", _TERMS)

# Table -> what messages call its records; first letter of an identifier -> table.
_NAMES = {"customers": "Customer", "lines": "Line", "plans": "Plan", "devices": "Device", "bills": "Bill"}
_KINDS = {"L": "lines", "D": "devices", "B": "bills", "C": "customers", "P": "plans"}


def _find(world: World, table: str, key: str) -> Any:
    """Return a record of a table; a tool's failure where there is none or the id is no text."""
    record = world.agent.get(table, key) if isinstance(key, str) else None
    return present(record, f"{_NAMES[table]} with ID {key} not found")


def _line_of(world: World, customer_id: str, line_id: str) -> Any:
    """Return a customer's line; ToolFailure where it is another's, or customer or line is unknown."""
    if line_id not in _find(world, "customers", customer_id)["line_ids"]:
        raise ToolFailure(f"Line {line_id} not found for customer {customer_id}")
    return _find(world, "lines", line_id)


@lru_cache(maxsize=32)
def _directory(database: Database) -> dict[str, tuple[str, str]]:
    """Map each pristine number to the keys of its first customer and line, cached; {} where a line is missing."""
    lines, customers = database.tables["lines"], database.tables["customers"]
    entries: dict[str, tuple[str, str]] = {}
    for key, customer in customers.items():
        if not all(line_id in lines for line_id in customer["line_ids"]):
            return {}  # a search may end in an error
        for number in (customer["phone_number"], *(lines[one]["phone_number"] for one in customer["line_ids"])):
            entries.setdefault(number, (key, ""))
    for key, line in lines.items():
        owner, line_key = entries.get(line["phone_number"], ("", ""))
        entries[line["phone_number"]] = (owner, line_key or key)
    return entries


def _look_up_number(world: World, phone_number: Any) -> tuple[str, str]:
    """Return a number's pristine (customer, line) keys; empty ones where it is none, or numbers or lines were changed."""
    for table in ("customers", "lines"):
        pristine = world.agent.database.tables[table]
        for key, record in world.agent.changed(table):
            old = pristine.get(key)
            if old is None or any(frozen(record.get(one)) != old.get(one) for one in ("phone_number", "line_ids")):
                return "", ""
    return _directory(world.agent.database).get(phone_number, ("", "")) if isinstance(phone_number, str) else ("", "")


def _line_by_phone(world: World, phone_number: str) -> Any:
    """Return the first line of a phone number; ToolFailure where no line has it."""
    key = _look_up_number(world, phone_number)[1]
    if key:
        return world.agent.get("lines", key)
    for line in world.agent.rows("lines"):
        if line["phone_number"] == phone_number:
            return line
    raise ToolFailure(f"Line with phone number {phone_number} not found")


def _customer_by_phone(world: World, phone_number: str) -> Any:
    """Return the first customer with the number as main or any line's; ToolFailure for none, or a missing line met before."""
    key = _look_up_number(world, phone_number)[0]
    if key:
        return world.agent.get("customers", key)
    lines = world.agent.records("lines")
    for customer in world.agent.rows("customers"):
        if customer["phone_number"] == phone_number:
            return customer
        for line_id in customer["line_ids"]:
            line = lines.get(line_id) or _find(world, "lines", line_id)
            if line["phone_number"] == phone_number:
                return customer
    raise ToolFailure(f"Customer with phone number {phone_number} not found")


def _bills_of(world: World, customer: Any) -> list[Any]:
    """Return a customer's bills; a tool's failure where one is not there."""
    return [_find(world, "bills", bill_id) for bill_id in customer["bill_ids"]]


def _first_bill(world: World, customer: Any, status: str) -> Any:
    """Return a customer's first bill of a status; None where there is none."""
    return next((bill for bill in _bills_of(world, customer) if bill["status"] == status), None)


def _add_bill(world: World, customer_id: str, bill: dict[str, Any]) -> None:
    """Add a bill to its table and to the customer's list."""
    world.agent.add("bills", bill["bill_id"], bill)
    world.agent.edit("customers", customer_id)["bill_ids"].append(bill["bill_id"])


# The agent's tools: reading


@agent_kit.tool()
def get_customer_by_phone(world: World, phone_number: str) -> Record:
    """Find a customer by the main phone number or the number of any line.

    Args:
        phone_number: The number, written as the company writes it.
    """
    return Record(_customer_by_phone(world, phone_number))


@agent_kit.tool()
def get_customer_by_id(world: World, customer_id: str) -> Record:
    """Find a customer by identifier."""
    return Record(_find(world, "customers", customer_id))


@agent_kit.tool()
def get_customer_by_name(world: World, full_name: str, dob: str) -> list[Record]:
    """Find the customers of a name who were born on a day.

    Args:
        full_name: First and last name; capitals do not matter.
        dob: Day of birth, YYYY-MM-DD.
    """
    return [
        Record(customer)
        for customer in world.agent.rows("customers")
        if customer["full_name"].lower() == full_name.lower() and customer["date_of_birth"] == dob
    ]


@agent_kit.tool()
def get_details_by_id(world: World, id: str) -> Record:
    """Read the record of a customer, line, device, bill or plan.

    Args:
        id: The identifier; its first letter (C, L, D, B, P) tells the kind.
    """
    table = present(_KINDS.get(id[:1]), f"Unknown ID format or type: {id}")
    return Record(_find(world, table, id))


@agent_kit.tool()
def get_bills_for_customer(world: World, customer_id: str, limit: int = 12) -> list[Record]:
    """List a customer's bills, the newest first.

    Args:
        limit: How many bills at most.
    """
    bills = _bills_of(world, _find(world, "customers", customer_id))
    return [Record(bill) for bill in sorted(bills, key=lambda bill: str(bill["issue_date"]), reverse=True)[:limit]]


@agent_kit.tool()
def get_data_usage(world: World, customer_id: str, line_id: str) -> dict[str, Any]:
    """Read how much data a line has used in this cycle, and its limits."""
    line = _line_of(world, customer_id, line_id)
    return {
        "line_id": line_id,
        "data_used_gb": line["data_used_gb"],
        "data_limit_gb": _find(world, "plans", line["plan_id"])["data_limit_gb"],
        "data_refueling_gb": line["data_refueling_gb"],
        "cycle_end_date": CYCLE_END,
    }


# The agent's tools: writing


@agent_kit.tool("write")
def suspend_line(world: World, customer_id: str, line_id: str, reason: str) -> dict[str, Any]:
    """Suspend an active line.

    Args:
        reason: Why.
    """
    if _line_of(world, customer_id, line_id)["status"] != "Active":
        raise ToolFailure("Line must be active to suspend")
    line = world.agent.edit("lines", line_id)
    line.update(status="Suspended", suspension_start_date=TODAY)
    return {"message": "Line suspended successfully. $5/month holding fee will apply.", "line": Record(line)}


@agent_kit.tool("write")
def resume_line(world: World, customer_id: str, line_id: str) -> dict[str, Any]:
    """Make a suspended or pending line active."""
    if _line_of(world, customer_id, line_id)["status"] not in ("Suspended", "Pending Activation"):
        raise ToolFailure("Line must be suspended to resume")
    line = world.agent.edit("lines", line_id)
    line.update(status="Active", suspension_start_date=None)
    return {"message": "Line resumed successfully", "line": Record(line)}


@agent_kit.tool("write")
def send_payment_request(world: World, customer_id: str, bill_id: str) -> str:
    """Ask a customer to pay a bill. Only one bill at a time can await payment.

    Args:
        bill_id: The bill's identifier.
    """
    customer = _find(world, "customers", customer_id)
    if _first_bill(world, customer, "Awaiting Payment") is not None:
        raise ToolFailure("A bill is already awaiting payment for this customer")
    if bill_id not in customer["bill_ids"]:
        raise ToolFailure(f"Bill {bill_id} not found for customer {customer_id}")
    world.agent.edit("bills", bill_id)["status"] = "Awaiting Payment"
    return f"Payment request sent to the customer for bill {bill_id}"


@agent_kit.tool("write")
def enable_roaming(world: World, customer_id: str, line_id: str) -> str:
    """Allow a line to use networks abroad."""
    return _set_roaming(world, customer_id, line_id, True, "enabled")


@agent_kit.tool("write")
def disable_roaming(world: World, customer_id: str, line_id: str) -> str:
    """Forbid a line to use networks abroad."""
    return _set_roaming(world, customer_id, line_id, False, "disabled")


def _set_roaming(world: World, customer_id: str, line_id: str, allowed: bool, word: str) -> str:
    """Set a line's roaming as `allowed`, and return the reply; nothing changes if it is so; ToolFailure for another's line."""
    if _line_of(world, customer_id, line_id)["roaming_enabled"] == allowed:
        return f"Roaming was already {word}"
    world.agent.edit("lines", line_id)["roaming_enabled"] = allowed
    return f"Roaming {word} successfully"


@agent_kit.tool("write")
def refuel_data(world: World, customer_id: str, line_id: str, gb_amount: float) -> dict[str, Any]:
    """Sell a line more data for this cycle; the charge goes on the next bill.

    Args:
        gb_amount: How many gigabytes.
    """
    line = _line_of(world, customer_id, line_id)
    if gb_amount <= 0:
        raise ToolFailure("Refuel amount must be positive")
    price = _find(world, "plans", line["plan_id"])["data_refueling_price_per_gb"]
    charge = gb_amount * price
    edited = world.agent.edit("lines", line_id)
    edited["data_refueling_gb"] += gb_amount
    _charge(world, customer_id, charge, f"Data refueling: {gb_amount} GB at ${price}/GB")
    return {
        "message": f"Successfully added {gb_amount} GB of data for line {line_id} for ${charge:.2f}",
        "new_data_refueling_gb": edited["data_refueling_gb"],
        "charge": charge,
    }


def _charge(world: World, customer_id: str, amount: float, description: str) -> None:
    """Put a charge on the customer's first draft bill; one is made where there is none."""
    draft = _first_bill(world, _find(world, "customers", customer_id), "Draft")
    if draft is None:
        draft = {
            "bill_id": _new_bill_id(world), "customer_id": customer_id, **NEXT_BILL,
            "total_due": 0.0, "line_items": [], "status": "Draft",
        }  # fmt: skip
        _add_bill(world, customer_id, shaped(draft, BILL))
    bill = world.agent.edit("bills", draft["bill_id"])
    bill["line_items"].append(shaped(_item(description, amount), ITEM))
    bill["total_due"] += amount


def _item(description: str, amount: float) -> dict[str, Any]:
    """Return an item of a bill, a charge of today."""
    return {"description": description, "amount": amount, "date": TODAY, "item_type": "Charge"}


def _new_bill_id(world: World) -> str:
    """Count a bill, and return its id: the count, or (as a bug to keep) a hexadecimal drawn from seed and count."""
    count = world.extras.get("bills", 0) + 1
    world.extras["bills"] = count
    if not world.compat.random_bill_id:
        return f"B{count:08d}"
    seed = world.extras.get("bill_seed", "")
    return f"B{Random(f'tau2/telecom/bill/{seed}/{count}').getrandbits(32):08x}"


agent_kit.tool("generic")(transfer_to_human_agents)


# What only tasks call


@agent_kit.helper
def set_data_usage(world: World, customer_id: str, line_id: str, data_used_gb: float) -> str:
    """Set how much data a line has used."""
    _line_of(world, customer_id, line_id)
    world.agent.edit("lines", line_id)["data_used_gb"] = data_used_gb
    return f"Data usage set to {data_used_gb} GB for line {line_id}"


@agent_kit.helper
def suspend_line_for_overdue_bill(
    world: World, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool
) -> str:
    """Suspend a line for a bill that was never paid; end its contract as well if asked."""
    line = _find(world, "lines", line_id)
    if line["status"] != "Active":
        raise ToolFailure("Line must be active to suspend for unpaid bill")
    amount = _find(world, "plans", line["plan_id"])["price_per_month"]
    if amount <= 0:
        raise ToolFailure("Amount must be positive")
    if _first_bill(world, _find(world, "customers", customer_id), "Overdue") is not None:
        raise ToolFailure("Customer already has an overdue bill")
    bill = {
        "bill_id": new_bill_id, "customer_id": customer_id, **OVERDUE_BILL, "total_due": amount,
        "line_items": [_item(f"Charge for line {line_id}", amount)], "status": "Overdue",
    }  # fmt: skip
    _add_bill(world, customer_id, shaped(bill, BILL))
    edited = world.agent.edit("lines", line_id)
    edited.update(status="Suspended", suspension_start_date=TODAY)
    if contract_ended:
        edited["contract_end_date"] = OVERDUE_BILL["period_end"]
    return f"Line {line_id} suspended for unpaid bill {new_bill_id}. Contract ended: {contract_ended}"


@agent_kit.helper
def get_available_plan_ids(world: World) -> list[str]:
    """List the plans."""
    return list(world.agent.records("plans"))


@agent_kit.helper
def assert_data_refueling_amount(world: World, customer_id: str, line_id: str, expected_amount: float) -> bool:
    """Return whether a line was sold this much data."""
    return bool(abs(_line_of(world, customer_id, line_id)["data_refueling_gb"] - expected_amount) < 1e-6)


@agent_kit.helper
def assert_line_status(world: World, customer_id: str, line_id: str, expected_status: str) -> bool:
    """Return whether a line has this status."""
    return bool(_line_of(world, customer_id, line_id)["status"] == expected_status)


@agent_kit.helper
def assert_overdue_bill_exists(world: World, customer_id: str, overdue_bill_id: str) -> bool:
    """Return true if the customer has this bill and it is overdue; all else is an error."""
    if overdue_bill_id not in _find(world, "customers", customer_id)["bill_ids"]:
        raise ToolFailure(f"Overdue bill {overdue_bill_id} not found")
    if _find(world, "bills", overdue_bill_id)["status"] != "Overdue":
        raise ToolFailure(f"Overdue bill {overdue_bill_id} is not overdue")
    return True


@agent_kit.helper
def assert_no_overdue_bill(world: World, overdue_bill_id: str) -> bool:
    """Return whether a bill does not exist or is paid."""
    bill = world.agent.get("bills", overdue_bill_id)
    return bill is None or bill["status"] == "Paid"


# Keeping the phone in step with the company's database


def synchronise(world: World) -> None:
    """Carry the line's state to the phone, a payment to the bill, a bill's request to the phone; nothing without a number."""
    around = surroundings(world)
    number = around["phone_number"]
    if number is None:
        return
    line = _line_by_phone(world, number)
    limit = _find(world, "plans", line["plan_id"])["data_limit_gb"] + line["data_refueling_gb"]
    _carry(world, "line_active", line["status"] == "Active")
    _carry(world, "roaming_allowed", line["roaming_enabled"])
    _carry(world, "mobile_data_usage_exceeded", line["data_used_gb"] >= limit)
    request = around["payment_request"]
    if request is not None and request["paid"]:
        world.agent.edit("bills", request["bill_id"])["status"] = "Paid"
        request = None
        _carry(world, "payment_request", None)
    if request is None:
        bill = _first_bill(world, _customer_by_phone(world, number), "Awaiting Payment")
        if bill is not None:
            fields = {"bill_id": bill["bill_id"], "amount_due": bill["total_due"], "paid": False}
            _carry(world, "payment_request", fields)


def _carry(world: World, field: str, value: Any) -> None:
    """Set a member of the phone's surroundings; nothing is edited where it has the value already."""
    if surroundings(world)[field] != value:
        edit_surroundings(world)[field] = value


def telecom(
    agent: Database, user: Database, compat: Compat = ORIGINAL, policy: str = "", solo_policy: str = ""
) -> Domain:
    """Return the telecom domain over two databases (`agent_database`, `user_database`).

    A state's `extras["bill_seed"]`, if a caller sets it, decides the ids that `random_bill_id` draws.
    """
    return Domain(
        "telecom", agent, agent_kit, compat, user, user_kit, synchronise, policy, solo_policy, NOW
    )  # fmt: skip


def for_expected_actions(domain: Domain) -> Domain:
    """Return the domain for expected actions: with `gold_without_sync` its phone is left apart, else unchanged."""
    return replace(domain, sync=left_apart) if domain.compat.gold_without_sync else domain
