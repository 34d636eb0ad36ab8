"""A generated telecom company has customers, lines, plans, devices and bills that agree with each other.

What a customer's account is like goes by its place among the customers, ten kinds in turn, so that every split has all of them
(`situation`). The phone is one and the same in all worlds, and whole: tasks break it.
"""

from functools import cache
from random import Random
from typing import Any

from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.task_generator.names import Person, address, birthday, codes, digits, email, people, phone
from agent_envs.envs.tau2.telecom import CYCLE_END, NEXT_BILL
from agent_envs.envs.tau2.telecom_tables import agent_records, user_records

CUSTOMERS = 200
HOLDING_FEE = 5.0
# "overdue": the phone's line is suspended for unpaid bills; "ended": for the end of its contract; "owing": a bill is overdue,
# the lines work; "resting": a second line is suspended at the customer's wish; "plain": nothing of this.
_SITUATIONS = ("overdue", "plain", "ended", "plain", "owing", "plain", "overdue", "resting", "plain", "plain")
_MONTHS = (("2024-12", 31), ("2025-01", 31), ("2025-02", 28))
_PLANS = (
    ("Pocket", 3.0), ("Start", 5.0), ("Daily", 8.0), ("Commuter", 12.0), ("Family", 20.0), ("Studio", 30.0), ("Horizon", 60.0),
)  # fmt: skip
_REFUEL_PRICES = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
_MODELS = {
    "phone": ("Pebble 4", "Pebble 5 Max", "Lumen S", "Lumen S Mini", "Corvid 12", "Corvid 13 Pro", "Halo Fold"),
    "tablet": ("Slate 8", "Slate 11", "Canvas Tab"),
    "watch": ("Orbit Watch", "Tempo Band"),
    "router": ("Beacon Hub", "Harbor Router"),
}
_SECOND_LINES = ("tablet", "watch", "router", "phone")
_METHODS = ("Credit Card", "Debit Card", "PayPal")
_APPS = {
    "messaging": {"sms": True, "storage": True, "phone": True, "network": False},
    "browser": {"sms": False, "storage": True, "phone": False, "network": True},
    "camera": {"sms": False, "storage": True, "phone": False, "network": False},
}


def situation(place: int) -> str:
    """Return the kind of a customer's account: overdue, ended, owing, resting or plain."""
    return _SITUATIONS[place % len(_SITUATIONS)]


@cache
def databases(world: int) -> tuple[Database, Database]:
    """Return the company's database and the phone's of a world; made once per process, never written."""
    return agent_records(_Company(Random(f"tau2/telecom/{world}")).rows()), _phone()


def _phone() -> Database:
    """Return the database of a phone in order, with its apps."""
    apps = {name: {"app_name": name, "permissions": rights} for name, rights in _APPS.items()}
    device = {"app_statuses": apps, "network_signal_strength": "excellent"}
    return user_records({"device": device, "surroundings": {}})


class _Company:
    """Draws one company, customer by customer."""

    def __init__(self, rng: Random) -> None:
        """Begin with empty tables, and draw the codes of customers, lines, devices and bills."""
        self.rng = rng
        self.tables: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("plans", "customers", "lines", "bills", "devices")
        }
        self.codes = {
            "customers": iter(codes(rng, CUSTOMERS, 4)),
            "lines": iter(codes(rng, 4 * CUSTOMERS, 5)),
            "devices": iter(codes(rng, 4 * CUSTOMERS, 5)),
            "bills": iter(codes(rng, 5 * CUSTOMERS, 6)),
        }
        self.numbers: set[str] = set()

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Add the plans and all customers, and return all records by table; meant to be called once."""
        self._add_plans()
        for place, person in enumerate(people(self.rng, CUSTOMERS)):
            self._add_customer(person, situation(place))
        return self.tables

    def _new_id(self, table: str) -> str:
        """Return the next id of a table: its letter and a number."""
        return f"{table[0].upper()}{next(self.codes[table])}"

    def _new_number(self) -> str:
        """Draw a phone number that no line has yet, and note it."""
        number = phone(self.rng)
        while number in self.numbers:
            number = phone(self.rng)
        self.numbers.add(number)
        return number

    def _add_plans(self) -> None:
        """Add six plans, in place: the more data, the dearer a month, and the cheaper to refuel."""
        plans = sorted(self.rng.sample(_PLANS, 6), key=lambda plan: plan[1])
        refuel = sorted(self.rng.sample(_REFUEL_PRICES, 6), reverse=True)
        price = 14
        for (name, limit), per_gb, code in zip(plans, refuel, codes(self.rng, 6, 2), strict=True):
            price += self.rng.randrange(6, 14)
            self.tables["plans"].append({
                "plan_id": f"P{code}", "name": name, "data_limit_gb": limit,
                "price_per_month": round(price + self.rng.choice((0.29, 0.49, 0.79, 0.95)), 2),
                "data_refueling_price_per_gb": per_gb,
            })  # fmt: skip

    def _add_customer(self, person: Person, kind: str) -> None:
        """Add a customer of a kind of account with its lines, devices and bills; the phone's line is first."""
        rng, customer_id = self.rng, self._new_id("customers")
        barred = kind in ("overdue", "ended")
        first = self._add_line("phone", "Suspended" if barred else "Active", kind if barred else "plain")
        others = rng.sample(_SECOND_LINES, rng.choice((0, 1, 2, 2, 3)) if kind != "resting" else rng.choice((1, 2, 3)))
        lines = [first]
        model = self.tables["devices"][-1]["model"]
        for nth, device in enumerate(others):
            rests = kind == "resting" and nth == 0
            lines.append(
                self._add_line(device, "Suspended" if rests else "Active", "resting" if rests else "plain", model)
            )
        place = address(rng)
        street = ", ".join(part for part in (place["address1"], place["address2"]) if part)
        self.tables["customers"].append({
            "customer_id": customer_id,
            "full_name": person.full,
            "date_of_birth": birthday(rng),
            "email": email(rng, person, digits(rng, 2)),
            "phone_number": first["phone_number"],
            "address": {"street": street, "city": place["city"], "state": place["state"], "zip_code": place["zip"]},
            "account_status": "Active",
            "payment_methods": [
                {"method_type": method, "account_number_last_4": digits(rng, 4),
                 "expiration_date": f"{rng.randrange(1, 13):02d}/{rng.randrange(2026, 2031)}"}
                for method in rng.sample(_METHODS, rng.choice((1, 1, 2)))
            ],
            "line_ids": [line["line_id"] for line in lines],
            "bill_ids": self._add_bills(customer_id, lines, kind),
            "created_at": f"{rng.randrange(2017, 2024)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d} 10:00:00",
        })  # fmt: skip

    def _add_line(self, device: str, status: str, kind: str, other_model: str = "") -> dict[str, Any]:
        """Add a line with a device, and return it; `kind` fixes its contract's end and its suspension's start."""
        rng, plan = self.rng, self.rng.choice(self.tables["plans"])
        ended = kind == "ended"
        line = {
            "line_id": self._new_id("lines"),
            "phone_number": self._new_number(),
            "status": status,
            "plan_id": plan["plan_id"],
            "device_id": self._add_device(device, other_model),
            "data_used_gb": _odd_hundredths(rng, 0.2, 0.85 * plan["data_limit_gb"]),
            "data_refueling_gb": 0.0,
            "roaming_enabled": rng.random() < 0.3,
            "contract_end_date": "2025-01-31"
            if ended
            else f"{rng.randrange(2026, 2028)}-{rng.randrange(1, 13):02d}-28",
            "suspension_start_date": {"overdue": "2025-02-20", "ended": "2025-02-01", "resting": "2025-01-31"}.get(
                kind
            ),
        }
        self.tables["lines"].append(line)
        return line

    def _add_device(self, kind: str, other_model: str) -> str:
        """Add a device of another model than `other_model` (so that the two can be told apart); return its id."""
        rng, device_id = self.rng, self._new_id("devices")
        model = rng.choice([model for model in _MODELS[kind] if model != other_model])
        since = f"{rng.randrange(2021, 2025)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T09:30:00"
        self.tables["devices"].append({
            "device_id": device_id, "device_type": kind, "model": model, "imei": digits(rng, 15),
            "is_esim_capable": rng.random() < 0.6, "activated": True, "activation_date": since,
        })  # fmt: skip
        return device_id

    def _add_bills(self, customer_id: str, lines: list[dict[str, Any]], kind: str) -> list[str]:
        """Add a customer's monthly bills, the last ones unpaid by its kind, perhaps a draft; return their ids."""
        unpaid = {"overdue": self.rng.choice((1, 1, 2)), "owing": self.rng.choice((1, 2))}.get(kind, 0)
        bills = []
        for left, (month, last_day) in zip(range(len(_MONTHS), 0, -1), _MONTHS, strict=True):
            items = [self._item(line, month) for line in lines if not _is_over(line, month)]
            if not items:
                continue
            bills.append({
                "period_start": f"{month}-01", "period_end": f"{month}-{last_day}", "issue_date": f"{month}-01",
                "total_due": round(sum(item["amount"] for item in items), 2), "due_date": f"{month}-15",
                "line_items": items, "status": "Overdue" if left <= unpaid else "Paid",
            })  # fmt: skip
        if self.rng.random() < 0.5:
            bills.append({**NEXT_BILL, "total_due": 0.0, "line_items": [], "status": "Draft"})
        for bill in bills:
            self.tables["bills"].append({"bill_id": self._new_id("bills"), "customer_id": customer_id, **bill})
        return [bill["bill_id"] for bill in self.tables["bills"][-len(bills) :]]

    def _item(self, line: dict[str, Any], month: str) -> dict[str, Any]:
        """Return a line's entry on a month's bill: the plan's price, or the holding fee of a line that rests."""
        on_hold = line["suspension_start_date"] == "2025-01-31" and month == CYCLE_END[:7]
        plan = next(plan for plan in self.tables["plans"] if plan["plan_id"] == line["plan_id"])
        return {
            "description": f"{'Holding fee' if on_hold else 'Charge'} for line {line['line_id']}",
            "amount": HOLDING_FEE if on_hold else plan["price_per_month"], "date": f"{month}-01",
            "item_type": "Fee" if on_hold else "Charge",
        }  # fmt: skip


def _is_over(line: dict[str, Any], month: str) -> bool:
    """Return whether a line's contract had ended before a month."""
    return bool(line["contract_end_date"] < f"{month}-01")


def _odd_hundredths(rng: Random, low: float, high: float) -> float:
    """Return a number of two decimals of which the last is odd, so that it is spelt in one way alone."""
    return (rng.randrange(round(low * 50), round(high * 50)) * 2 + 1) / 100
