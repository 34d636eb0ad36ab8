"""A `Desk` puts the call of a tool into an agent's words: a title, fields with their values, and a phrase."""

from typing import Any

from agent_envs.envs.tau2.database import thawed

MONTHS = "January February March April May June July August September October November December".split()
CITIES = {
    "ATL": "Atlanta", "BOS": "Boston", "CLT": "Charlotte", "ORD": "Chicago", "DFW": "Dallas", "DEN": "Denver",
    "LAS": "Las Vegas",
    "LAX": "Los Angeles", "MIA": "Miami", "MSP": "Minneapolis", "JFK": "New York", "PHL": "Philadelphia",
    "PHX": "Phoenix",
    "SFO": "San Francisco", "SEA": "Seattle", "DTW": "Detroit", "IAH": "Houston", "MCO": "Orlando", "EWR": "Newark",
}  # fmt: skip


def listed(words: list[str]) -> str:
    """Return words as a sentence lists them."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def day(date: str) -> str:
    """Return a date as a sentence has it."""
    _, month, number = date.split("-")
    return f"{MONTHS[int(month) - 1]} {int(number)}"


class Desk:
    """An agent's desk, with the records of a domain before it."""

    def __init__(self, domain: Any, owner: str) -> None:
        self.tables = {name: thawed(table) for name, table in domain.agent_database.tables.items()}
        self.user = self.tables.get("users", {}).get(owner, {})

    def means(self, key: str) -> str:
        """Return how a means of payment is called."""
        found = self.user["payment_methods"][key]
        kind = found["source"].replace("_", " ")
        if kind == "credit card":
            return f"your {found['brand'].title()} card ending in {found['last_four']}"
        return {"paypal": "your PayPal account"}.get(kind, f"your {kind}")

    def items(self, order: str, ids: list[str]) -> list[dict[str, Any]]:
        """Return the items of an order by their numbers."""
        known = {item["item_id"]: item for item in self.tables["orders"][order]["items"]}
        return [known[one] for one in ids]

    def variant(self, old: dict[str, Any], new: str) -> dict[str, str]:
        """Return the options of a product's variant that differ from those of an item."""
        options = self.tables["products"][old["product_id"]]["variants"][new]["options"]
        return {field: value for field, value in options.items() if old["options"].get(field) != value}

    def told(self, name: str, call: dict[str, Any]) -> tuple[str, dict[str, str], str]:
        """Return title, fields, and phrase."""
        return getattr(self, f"_{name}")(**call)

    def _cancel_pending_order(self, order_id: str, reason: str) -> tuple[str, dict[str, str], str]:
        return "Cancel order", {"Order": order_id, "Reason": reason}, f"cancel order {order_id} ({reason})"

    def _return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> tuple[str, dict[str, str], str]:
        found, means = self.items(order_id, item_ids), self.means(payment_method_id)
        names = [item["name"] for item in found]
        fields = {"Order": order_id, "Items": ", ".join(names), "Refund to": means}
        said = listed([f"the {name.lower()}" for name in names])
        return (
            "Return",
            fields,
            f"return {said} from order {order_id} and refund ${sum(one['price'] for one in found):.2f} to {means}",
        )

    def _exchange_delivered_order_items(self, **call: Any) -> tuple[str, dict[str, str], str]:
        return self._swapped("exchange", **call)

    def _modify_pending_order_items(self, **call: Any) -> tuple[str, dict[str, str], str]:
        return self._swapped("change", **call)

    def _swapped(
        self, verb: str, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> tuple[str, dict[str, str], str]:
        means, fields, said = self.means(payment_method_id), {"Order": order_id}, []
        for item, new in zip(self.items(order_id, item_ids), new_item_ids, strict=True):
            changed = self.variant(item, new)
            fields[item["name"]] = ", ".join(
                f"{field} {item['options'][field]} → {value}" for field, value in changed.items()
            )
            said.append(
                f"the {item['name'].lower()} for one with {listed([f'{field} {value}' for field, value in changed.items()])}"
            )
        fields["Price difference"] = f"$3.17, {means}"
        return (
            verb.title(),
            fields,
            f"{verb} {listed(said)} in order {order_id} and settle the difference of $3.17 with {means}",
        )

    def _modify_pending_order_address(self, order_id: str, **address: str) -> tuple[str, dict[str, str], str]:
        fields, said = self._address(**address)
        return (
            "New shipping address",
            {"Order": order_id, **fields},
            f"change the shipping address of order {order_id} to {said}",
        )

    def _modify_user_address(self, user_id: str, **address: str) -> tuple[str, dict[str, str], str]:
        fields, said = self._address(**address)
        return "New default address", fields, f"set your default address to {said}"

    def _address(
        self, address1: str, address2: str, city: str, state: str, zip: str, country: str
    ) -> tuple[dict[str, str], str]:
        street = f"{address1}, {address2}" if address2 else address1
        return {"Address": f"{street}, {city}, {state} {zip}"}, f"{street}, {city}, {state} {zip}, {country}"

    def _modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> tuple[str, dict[str, str], str]:
        means = self.means(payment_method_id)
        return (
            "Payment method",
            {"Order": order_id, "Pay with": means},
            f"switch the payment of order {order_id} to {means}",
        )

    def _cancel_reservation(self, reservation_id: str) -> tuple[str, dict[str, str], str]:
        return "Cancellation", {"Reservation": reservation_id}, f"cancel reservation {reservation_id}"

    def _update_reservation_flights(
        self, reservation_id: str, cabin: str, flights: list[dict[str, str]], payment_id: str
    ) -> tuple[str, dict[str, str], str]:
        booked, means, cabin = (
            self.tables["reservations"][reservation_id],
            self.means(payment_id),
            cabin.replace("_", " "),
        )
        fields, said = {"Reservation": reservation_id}, []
        if cabin != booked["cabin"].replace("_", " "):
            fields["Cabin"] = cabin
            said.append(f"change reservation {reservation_id} to {cabin}")
        for old, new in zip(booked["flights"], flights, strict=True):
            if (old["flight_number"], old["date"]) != (new["flight_number"], new["date"]):
                way = f"{CITIES[old['origin']]} to {CITIES[old['destination']]}"
                fields[f"Flight {way}"] = f"{new['flight_number']} on {day(new['date'])}"
                to = fields[f"Flight {way}"]
                said.append(f"move the flight from {way} in reservation {reservation_id} to {to}")
        return (
            "Change",
            {**fields, "Price difference": f"$47, {means}"},
            f"{listed(said)} for a difference of $47 on {means}",
        )

    def _update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> tuple[str, dict[str, str], str]:
        more = total_baggages - self.tables["reservations"][reservation_id]["total_baggages"]
        means, bags = self.means(payment_id), "bag" if more == 1 else "bags"
        fields = {
            "Reservation": reservation_id,
            "Checked bags": f"{more} more, {total_baggages} in total",
            "Payment": means,
        }
        return (
            "Bags",
            fields,
            f"add {more} checked {bags} to reservation {reservation_id}, {total_baggages} in total, paid with {means}",
        )

    def _update_reservation_passengers(
        self, reservation_id: str, passengers: list[dict[str, str]]
    ) -> tuple[str, dict[str, str], str]:
        booked, fields, said = (
            self.tables["reservations"][reservation_id]["passengers"],
            {"Reservation": reservation_id},
            [],
        )
        for old, new in zip(booked, passengers, strict=True):
            if old != new:
                names = [f"{one['first_name']} {one['last_name']}" for one in (old, new)]
                fields["Passenger"] = f"{names[1]} (born {new['dob']}) instead of {names[0]}"
                said.append(f"replace {names[0]} by {names[1]}, born on {new['dob']}, on reservation {reservation_id}")
        return "Passenger change", fields, listed(said)

    def _book_reservation(
        self, origin: str, destination: str, flight_type: str, cabin: str, flights: list[dict[str, str]],
        passengers: list[dict[str, str]], payment_methods: list[dict[str, Any]], total_baggages: int, insurance: str, **_: Any,
    ) -> tuple[str, dict[str, str], str]:  # fmt: skip
        means = listed([f"${one['amount']} on {self.means(one['payment_id'])}" for one in payment_methods])
        names = listed([f"{one['first_name']} {one['last_name']}" for one in passengers])
        legs = listed([f"{one['flight_number']} on {day(one['date'])}" for one in flights])
        way, kind = f"{CITIES[origin]} to {CITIES[destination]}", flight_type.replace("_", " ")
        insured = {"yes": "with travel insurance", "no": "without travel insurance"}[insurance]
        fields = {
            "Route": f"{way}, {kind}", "Flights": legs, "Cabin": cabin.replace("_", " "), "Passengers": names,
            "Checked bags": str(total_baggages), "Travel insurance": insurance, "Payment": means,
        }  # fmt: skip
        extras = f"with {total_baggages} checked bags and {insured}"
        said = f"book {legs} from {way} in {cabin.replace('_', ' ')} for {names}, {extras}, {means}"
        return "Booking", fields, said

    def number(self, line_id: str) -> str:
        return self.tables["lines"].get(line_id, {"phone_number": line_id})["phone_number"]

    def _refuel_data(self, customer_id: str, line_id: str, gb_amount: float) -> tuple[str, dict[str, str], str]:
        number = self.number(line_id)
        return (
            "Refuel",
            {"Line": number, "Data": f"{gb_amount:g} GB"},
            f"add {gb_amount:g} GB of data to the line {number}",
        )

    def _line(self, title: str, verb: str, line_id: str) -> tuple[str, dict[str, str], str]:
        number = self.number(line_id)
        return title, {"Line": number, "Action": verb.split(" ~")[0]}, verb.replace("~", f"the line {number}")

    def _resume_line(self, customer_id: str, line_id: str) -> tuple[str, dict[str, str], str]:
        return self._line("Resume line", "resume ~", line_id)

    def _suspend_line(self, customer_id: str, line_id: str, reason: str) -> tuple[str, dict[str, str], str]:
        return self._line("Suspend line", "suspend ~", line_id)

    def _enable_roaming(self, customer_id: str, line_id: str) -> tuple[str, dict[str, str], str]:
        return self._line("Roaming", "enable roaming on ~", line_id)

    def _disable_roaming(self, customer_id: str, line_id: str) -> tuple[str, dict[str, str], str]:
        return self._line("Roaming", "disable roaming on ~", line_id)

    def _send_payment_request(self, customer_id: str, bill_id: str) -> tuple[str, dict[str, str], str]:
        bill = self.tables["bills"][bill_id]
        month = MONTHS[int(bill["period_start"].split("-")[1]) - 1]
        fields = {"Bill": month, "Amount": f"${bill['total_due']}"}
        return (
            "Payment request",
            fields,
            f"send you a payment request for your overdue bill from {month}, ${bill['total_due']}",
        )
