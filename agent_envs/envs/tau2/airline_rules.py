"""The airline policy's arithmetic is computed here, for generated tasks and for the rule-based agent.

Records are those of the database or of a tool's answer alike; statuses are those of a reservation's flights, in order.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

BAG, INSURANCE = 50, 30
CABINS = ("basic_economy", "economy", "business")
DAY_BEFORE = "2024-05-14T15:00:00"  # 24 hours before the domain's fixed time
COVERED = ("health", "weather")
PER_PASSENGER = {"cancelled": 100, "delayed": 50}
_FREE_BAGS = {"regular": 0, "silver": 1, "gold": 2}


def free_bags(membership: str, cabin: str, passengers: int) -> int:
    """Return the number of bags that are free on a reservation."""
    return (_FREE_BAGS[membership] + CABINS.index(cabin)) * passengers


def paid_bags(membership: str, cabin: str, passengers: int, bags: int) -> int:
    """Return the number of a reservation's bags that cost money."""
    return max(0, bags - free_bags(membership, cabin, passengers))


def flown(statuses: Collection[str]) -> bool:
    """Return whether a part of a trip has been flown."""
    return any(status in ("landed", "flying") for status in statuses)


def may_cancel(reservation: Mapping[str, Any], statuses: Collection[str], reason: str = "") -> bool:
    """Return whether a reservation may be cancelled: not once flown; else if new, insured for it, business or grounded.

    Args:
        reservation: its record.
        statuses: of its flights.
        reason: the customer's: "health", "weather" or anything else.
    """
    if flown(statuses):
        return False
    fresh = reservation["created_at"] >= DAY_BEFORE
    insured = reservation["insurance"] == "yes" and reason in COVERED
    return fresh or insured or reservation["cabin"] == "business" or "cancelled" in statuses


def compensation(membership: str, reservation: Mapping[str, Any], statuses: Collection[str]) -> int:
    """Return the dollars due for a cancelled or delayed flight, for all passengers; 0 without grounds or privileges."""
    favoured = membership != "regular" or reservation["insurance"] == "yes" or reservation["cabin"] == "business"
    grounds = [PER_PASSENGER[status] for status in statuses if status in PER_PASSENGER]
    return max(grounds, default=0) * len(reservation["passengers"]) * favoured


def price_of(legs: Sequence[Mapping[str, Any]], passengers: int) -> int:
    """Return the price of a reservation's flights for all of its passengers."""
    return sum(int(leg["price"]) for leg in legs) * passengers


def refund(reservation: Mapping[str, Any]) -> int:
    """Return the refund of a cancellation."""
    return sum(int(payment["amount"]) for payment in reservation["payment_history"])
