"""Airline on a few flights of its own: rules at the edges that recorded calls hardly reach."""

import json

import pytest

from agent_envs.envs.tau2.airline import SHAPES, airline
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.toolkit import FRESH, call
from tests.rows import each_row


def flight(number, origin, destination, departs, arrives, dates):
    return {
        "flight_number": number, "origin": origin, "destination": destination, "dates": dates,
        "scheduled_departure_time_est": f"{departs}:00:00", "scheduled_arrival_time_est": arrives,
    }  # fmt: skip


def free(seats, price):
    cabins = ("basic_economy", "economy", "business")
    return {
        "status": "available",
        "available_seats": dict.fromkeys(cabins, seats),
        "prices": dict.fromkeys(cabins, price),
    }


DELAYED = {
    "status": "delayed", "estimated_departure_time_est": "2024-05-16T16:30:00",
    "estimated_arrival_time_est": "2024-05-16T19:05:00",
}  # fmt: skip
PERSON = {"first_name": "Ada", "last_name": "Byron", "dob": "1990-12-10"}
ADDRESS = {"address1": "1 Loop", "address2": "", "city": "Byte", "country": "USA", "state": "CA", "zip": "90210"}
LEG = {"flight_number": "F1", "origin": "SFO", "destination": "DEN", "date": "2024-05-16", "price": 80}
TABLES = {
    "flights": {
        "F1": flight("F1", "SFO", "DEN", "22", "01:30:00+1", {"2024-05-16": free(2, 100), "2024-05-19": free(1, 90)}),
        "F2": flight("F2", "DEN", "JFK", "05", "09:00:00", {"2024-05-17": free(2, 50), "2024-05-20": free(2, 60)}),
        "F3": flight("F3", "SFO", "JFK", "08", "16:00:00", {"2024-05-16": DELAYED, "2024-05-17": free(2, 300)}),
    },
    "users": {
        "ada": {
            "user_id": "ada", "name": {"first_name": "Ada", "last_name": "Byron"}, "address": ADDRESS,
            "email": "ada@example.org", "dob": "1990-12-10", "saved_passengers": [], "membership": "gold",
            "reservations": ["R1"],
            "payment_methods": {
                "card": {"source": "credit_card", "id": "card", "brand": "visa", "last_four": "1111"},
                "gift": {"source": "gift_card", "id": "gift", "amount": 200},
                "voucher": {"source": "certificate", "id": "voucher", "amount": 100},
            },
        },
    },
    "reservations": {
        "R1": {
            "reservation_id": "R1", "user_id": "ada", "origin": "SFO", "destination": "DEN", "flight_type": "one_way",
            "cabin": "economy", "passengers": [PERSON], "payment_history": [{"payment_id": "card", "amount": 80}],
            "flights": [LEG],
            "created_at": "2024-05-01T00:00:00", "total_baggages": 1, "nonfree_baggages": 1, "insurance": "no",
        },
    },
}  # fmt: skip
DATABASE = Database("air", {t: {k: shaped(row, SHAPES[t]) for k, row in rows.items()} for t, rows in TABLES.items()})
AIR = airline(DATABASE)


def do(tool, /, at=FRESH, **arguments):
    outcome, after = call(AIR, at, "assistant", tool, arguments)
    return (outcome.content if outcome.error else json.loads(outcome.content)), after


BOOKING = {
    "user_id": "ada", "origin": "SFO", "destination": "JFK", "flight_type": "one_way", "cabin": "economy",
    "flights": [{"flight_number": "F1", "date": "2024-05-16"}, {"flight_number": "F2", "date": "2024-05-17"}],
    "passengers": [PERSON], "total_baggages": 2, "nonfree_baggages": 1, "insurance": "yes",
    "payment_methods": [{"payment_id": "gift", "amount": 130}, {"payment_id": "voucher", "amount": 100}],
}  # fmt: skip


def test_booking_pays_takes_seats_and_spends_the_certificate():
    result, state = do("book_reservation", **BOOKING)
    assert [leg["price"] for leg in result["flights"]] == [100, 50] and result["created_at"] == "2024-05-15T15:00:00"
    assert (result["reservation_id"], result["status"]) == ("HATHAT", None)
    user = state.agent.tables["users"]["ada"]
    assert user["reservations"] == ("R1", "HATHAT") and set(user["payment_methods"]) == {"card", "gift"}
    assert repr(user["payment_methods"]["gift"]["amount"]) == "70.0"
    assert state.agent.tables["flights"]["F1"]["dates"]["2024-05-16"]["available_seats"]["economy"] == 1
    again = BOOKING | {"payment_methods": [{"payment_id": "voucher", "amount": 100}]}
    assert do("book_reservation", state, **again)[0] == "Error: Payment method voucher not found"


def test_cancelling_over_and_over_comes_to_an_end():
    """Each time doubles the payments, as in the original: 30 calls would have made 10^9 of them."""
    state, results = FRESH, []
    for _ in range(30):
        result, state = do("cancel_reservation", state, reservation_id="R1")
        results.append(result)
    assert [len(result["payment_history"]) for result in results[:10]] == [2**n for n in range(1, 11)]
    assert set(results[10:]) == {"Error: Too many payments"}
    assert state.agent.tables["reservations"]["R1"]["status"] == "cancelled"


def test_ids_run_out_after_three():
    state, booking = FRESH, BOOKING | {"flights": [], "nonfree_baggages": 0, "insurance": "no", "payment_methods": []}
    for number in ("HATHAT", "HATHAU", "HATHAV"):
        result, state = do("book_reservation", state, **booking)
        assert result["reservation_id"] == number
    assert do("book_reservation", state, **booking)[0] == "Error: Too many reservations"
    for number in ("3221322", "3221323", "3221324"):
        outcome, state = call(AIR, state, "assistant", "send_certificate", {"user_id": "ada", "amount": 50})
        assert outcome.content == f"Certificate certificate_{number} added to user ada with amount 50."
    assert do("send_certificate", state, user_id="ada", amount=50)[0] == "Error: Too many certificates"
    assert repr(state.agent.tables["users"]["ada"]["payment_methods"]["certificate_3221322"]["amount"]) == "50.0"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"user_id": "eva"}, "User eva not found"),
        ({"flights": [{"flight_number": "F9", "date": "2024-05-16"}]}, "Flight F9 not found"),
        ({"flights": [{"flight_number": "F1", "date": "2024-05-17"}]}, "Flight F1 not found on date 2024-05-17"),
        ({"flights": [{"flight_number": "F3", "date": "2024-05-16"}]}, "Flight F3 not available on date 2024-05-16"),
        ({"passengers": [PERSON] * 3}, "Not enough seats on flight F1"),
        ({"payment_methods": [{"payment_id": "gift", "amount": 201}]}, "Not enough balance in payment method gift"),
        (
            {"payment_methods": [{"payment_id": "card", "amount": 5}]},
            "Payment amount does not add up, total price is 230, but paid 5",
        ),
    ],
)
def test_bookings_are_checked_before_anything_changes(change, text):
    result, state = do("book_reservation", **BOOKING | change)
    assert result == f"Error: {text}" and state is FRESH


@each_row(
    "change",
    [
        {"cabin": "first"}, {"flight_type": "multi"}, {"insurance": True}, {"passengers": ["Ada"]}, {"flights": ["F1"]},
        {"passengers": [{"first_name": "Ada"}]}, {"payment_methods": [{"payment_id": "card", "amount": 229.5}]},
        {"total_baggages": "two"}, {"flights": 5}, {"payment_methods": ["card"]},
    ],
)  # fmt: skip
def test_values_that_no_reservation_holds_are_errors_of_their_own_kind(change):
    outcome, state = call(AIR, FRESH, "assistant", "book_reservation", BOOKING | change)
    assert outcome.error and outcome.kind == "other" and state is FRESH


def test_a_fractional_price_takes_the_money_and_fails():
    outcome, state = call(
        AIR, FRESH, "assistant", "update_reservation_baggages",
        {"reservation_id": "R1", "total_baggages": 2, "nonfree_baggages": 1.25, "payment_id": "gift"},
    )  # fmt: skip
    assert outcome.error and outcome.kind == "other"
    assert state.agent.tables["users"]["ada"]["payment_methods"]["gift"]["amount"] == 187.5
    assert "reservations" not in state.agent.tables


def test_bags_can_be_taken_off_for_nothing_and_keep_their_spelling():
    bags = {"reservation_id": "R1", "total_baggages": 2.0, "nonfree_baggages": 0}
    result, _ = do("update_reservation_baggages", **bags, payment_id="card")
    assert repr(result["total_baggages"]) == "2.0" and result["payment_history"] == [
        {"payment_id": "card", "amount": 80}
    ]
    assert do("update_reservation_baggages", **bags, payment_id="voucher")[0] == (
        "Error: Certificate cannot be used to update reservation"
    )
    assert do("update_reservation_baggages", **bags, payment_id="none")[0] == "Error: Payment method not found"


def test_flights_in_the_same_cabin_keep_their_price():
    legs = [{"flight_number": "F1", "date": "2024-05-16"}, {"flight_number": "F2", "date": "2024-05-17"}]
    update = {"reservation_id": "R1", "flights": legs, "payment_id": "gift"}
    result, state = do("update_reservation_flights", **update, cabin="economy")
    assert [leg["price"] for leg in result["flights"]] == [80, 50] and result["payment_history"][-1]["amount"] == 50
    result, state = do("update_reservation_flights", **update, cabin="business")
    assert [leg["price"] for leg in result["flights"]] == [100, 50] and result["payment_history"][-1]["amount"] == 70
    assert state.agent.tables["users"]["ada"]["payment_methods"]["gift"]["amount"] == 130.0
    assert "flights" not in state.agent.tables
    result, state = do("update_reservation_flights", **update | {"flights": []}, cabin="cloud")
    assert (result["cabin"], result["payment_history"][-1]["amount"]) == ("cloud", -80)
    assert state.agent.tables["users"]["ada"]["payment_methods"]["gift"]["amount"] == 280.0


def test_every_cancellation_doubles_the_history():
    result, state = do("cancel_reservation", reservation_id="R1")
    assert [entry["amount"] for entry in result["payment_history"]] == [80, -80] and result["status"] == "cancelled"
    result, _ = do("cancel_reservation", state, reservation_id="R1")
    assert [entry["amount"] for entry in result["payment_history"]] == [80, -80, -80, 80]


def test_passengers_are_replaced_one_for_one():
    eva = {**PERSON, "first_name": "Eva", "seat": "1A"}
    result, _ = do("update_reservation_passengers", reservation_id="R1", passengers=[eva])
    assert result["passengers"] == [{**PERSON, "first_name": "Eva"}]
    result, _ = do("update_reservation_passengers", reservation_id="R1", passengers=[])
    assert result == "Error: Number of passengers does not match"


def test_searches():
    (found,) = do("search_direct_flight", origin="SFO", destination="JFK", date="2024-05-17")[0]
    assert (found["flight_number"], found["date"], found["prices"]["business"]) == ("F3", None, 300)
    assert do("search_direct_flight", origin="SFO", destination="JFK", date="2024-05-16")[0] == []
    (pair,) = do("search_onestop_flight", origin="SFO", destination="JFK", date="2024-05-16")[0]
    assert [(leg["flight_number"], leg["date"]) for leg in pair] == [("F1", "2024-05-16"), ("F2", "2024-05-17")]
    (pair,) = do("search_onestop_flight", origin="SFO", destination="JFK", date="2024-05-19")[0]
    assert pair[1]["date"] == "2024-05-20"
    assert call(AIR, FRESH, "assistant", "get_flight_status", {"flight_number": "F3", "date": "2024-05-16"})[
        0
    ].content == ("delayed")
    assert len(do("list_all_airports")[0]) == 20


def test_a_search_with_null_for_an_airport_finds_all_of_them():
    everything = do("search_direct_flight", origin=None, destination=None, date="2024-05-17")[0]
    onward = do("search_direct_flight", origin=None, destination="JFK", date="2024-05-17")[0]
    away = do("search_direct_flight", origin="SFO", destination=None, date="2024-05-17")[0]
    assert {flight["destination"] for flight in onward} == {"JFK"} and {flight["origin"] for flight in away} == {"SFO"}
    assert [flight for flight in everything if flight["destination"] == "JFK"] == onward
    pairs = do("search_onestop_flight", origin=None, destination=None, date="2024-05-16")[0]
    assert do("search_onestop_flight", origin="SFO", destination="JFK", date="2024-05-16")[0][0] in pairs


@pytest.mark.parametrize("amount", ["nan", "inf", "1e999"])
def test_a_certificate_is_worth_a_finite_amount(amount):
    outcome, state = call(AIR, FRESH, "assistant", "send_certificate", {"user_id": "ada", "amount": amount})
    assert outcome.error and state is FRESH


def test_bags_beyond_counting_never_reach_the_database():
    bags = {"reservation_id": "R1", "total_baggages": 1, "nonfree_baggages": int("9" * 4300), "payment_id": "card"}
    outcome, state = call(AIR, FRESH, "assistant", "update_reservation_baggages", bags)
    assert outcome.error and state is FRESH


def test_nested_arguments_have_schemas():
    schema = AIR.assistant.tools["book_reservation"].parameters["properties"]
    assert schema["payment_methods"]["items"]["properties"]["amount"] == {"type": "integer"}
    assert schema["cabin"]["enum"] == ["business", "economy", "basic_economy"]
    assert len(AIR.assistant.tools) == 14 and sum(tool.writes for tool in AIR.assistant.tools.values()) == 6
    for tool in AIR.assistant.tools.values():
        assert all("description" in argument for argument in tool.parameters["properties"].values()), tool.name
