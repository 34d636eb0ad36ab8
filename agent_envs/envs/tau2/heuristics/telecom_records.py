"""`Records` holds the records of a telecom customer that the agent was shown, as later calls changed them."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.envs.tau2.heuristics.reading import Called, mentions
from agent_envs.envs.tau2.heuristics.telecom_words import phone_numbers
from agent_envs.envs.tau2.telecom import TODAY

Row = Mapping[str, Any]
_KEYS = (
    ("customers", "customer_id", "full_name"), ("lines", "line_id", "plan_id"), ("devices", "device_id", "device_type"),
    ("plans", "plan_id", "price_per_month"), ("bills", "bill_id", "due_date"),
)  # fmt: skip
_KINDS = {"tablet": ("tablet",), "watch": ("watch", "wearable"), "router": ("router", "home internet", "hotspot")}


class Records:
    """The records of one customer."""

    def __init__(self, calls: Sequence[Called], told: str) -> None:
        """Read all answers; of the customers found, the one whose name the customer told is the right one."""
        self._tables: dict[str, dict[str, dict[str, Any]]] = {table: {} for table, _, _ in _KEYS}
        self.first_bills: dict[str, Row] = {}
        for call in calls:
            if not call.failed:
                self._take(call.value)
                self._change(call)
        customers = list(self._tables["customers"].values())
        self.found = bool(customers)
        self.customer = next((row for row in customers if mentions(told, row["full_name"])), None)

    def _take(self, value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                self._take(item)
        if not isinstance(value, dict):
            return
        self._take(value.get("line"))
        for table, key, mark in _KEYS:
            if key in value and mark in value:
                self._tables[table][value[key]] = dict(value)
                if table == "bills":
                    self.first_bills.setdefault(value[key], value)
                return

    def _change(self, call: Called) -> None:
        """Note what a call changed whose answer does not show the record."""
        line = self._tables["lines"].get(str(call.arguments.get("line_id")))
        bill = self._tables["bills"].get(str(call.arguments.get("bill_id")))
        if line is not None and call.name in ("enable_roaming", "disable_roaming"):
            line["roaming_enabled"] = call.name == "enable_roaming"
        elif line is not None and call.name == "refuel_data":
            line["data_refueling_gb"] += float(call.arguments.get("gb_amount") or 0)
        elif bill is not None and call.name == "send_payment_request":
            bill["status"] = "Awaiting Payment"

    @property
    def lines(self) -> list[Row]:
        """The customer's lines that were looked up, the phone's first."""
        assert self.customer is not None
        return [self._tables["lines"][key] for key in self.customer["line_ids"] if key in self._tables["lines"]]

    @property
    def missing(self) -> list[str]:
        """The ids of the customer's lines, devices and plans that were not looked up yet."""
        assert self.customer is not None
        wanted = list(self.customer["line_ids"])
        wanted += [line[key] for line in self.lines for key in ("device_id", "plan_id") if line[key]]
        known = {key for table in self._tables.values() for key in table}
        return [key for key in dict.fromkeys(wanted) if key not in known]

    @property
    def bills(self) -> list[Row]:
        """The bills that were looked up, the oldest first."""
        return sorted(self._tables["bills"].values(), key=lambda bill: str(bill["issue_date"]))

    @property
    def overdue(self) -> list[Row]:
        """Those that were overdue at first, as they are now; the oldest first."""
        return [
            bill
            for bill in self.bills
            if self.first_bills[bill["bill_id"]]["status"] in ("Overdue", "Awaiting Payment")
        ]

    @property
    def unpaid(self) -> list[Row]:
        """Those of them that are not paid yet."""
        return [bill for bill in self.overdue if bill["status"] != "Paid"]

    @property
    def phone_line(self) -> Row:
        """The line of the customer's main number."""
        assert self.customer is not None
        number = self.customer["phone_number"]
        return next((line for line in self.lines if line["phone_number"] == number), self.lines[0])

    def plan(self, line: Row) -> Row:
        """Return a line's plan."""
        return self._tables["plans"][line["plan_id"]]

    def left(self, line: Row) -> float:
        """Return how much data a line has left."""
        return float(self.plan(line)["data_limit_gb"] + line["data_refueling_gb"] - line["data_used_gb"])

    def ended(self, line: Row) -> bool:
        """Tell whether a line's contract has ended."""
        return bool(line["contract_end_date"]) and str(line["contract_end_date"]) < TODAY

    def named(self, text: str) -> list[Row]:
        """Return the lines that a text names: by number, by model, by kind of device, or all."""
        numbers = phone_numbers(text)
        found = [line for line in self.lines if line["phone_number"] in numbers]
        if found or numbers:
            return found
        devices = {line["line_id"]: self._tables["devices"].get(line["device_id"], {}) for line in self.lines}
        found = [line for line in self.lines if mentions(text, str(devices[line["line_id"]].get("model", "-")))]
        found = found or [line for line in self.lines if _of_kind(text, devices[line["line_id"]])]
        if not found and any(mentions(text, words) for words in ("all of my line", "all my line", "every line")):
            return self.lines
        return found

    def strangers(self, text: str) -> list[str]:
        """Return the numbers in a text that are none of the customer's."""
        own = {line["phone_number"] for line in self.lines}
        return [number for number in phone_numbers(text) if number not in own]


def _of_kind(text: str, device: Row) -> bool:
    return any(mentions(text, word) for word in _KINDS.get(str(device.get("device_type")), ()))
