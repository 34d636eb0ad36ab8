"""The generated airline is consistent by the airline's own rules."""

from collections import Counter

import pytest

from agent_envs.envs.tau2.airline import NOW, SHAPES, airline
from agent_envs.envs.tau2.airline_rules import BAG, INSURANCE, paid_bags, price_of
from agent_envs.envs.tau2.database import frozen, thawed
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.task_generator.airline_world import CITIES, CUSTOMERS, database
from agent_envs.envs.tau2.toolkit import FRESH, call
from tests.envs.tau2.hashes import original_hash
from tests.fresh_process import printed

WORLDS = (0, 1, 7)


@pytest.fixture(params=WORLDS)
def tables(request):
    return database(request.param).tables


@pytest.mark.parametrize("world", WORLDS)
def test_records_have_the_published_shapes(world):
    for table, rows in database(world).tables.items():
        for key, row in rows.items():
            assert frozen(shaped(thawed(row), SHAPES[table], f"{table} {key}")) == row
            assert key == row[{"flights": "flight_number", "users": "user_id", "reservations": "reservation_id"}[table]]


def test_worlds_differ_and_are_shared():
    assert database(0) is database(0)
    assert original_hash(database(0), FRESH.agent) != original_hash(database(1), FRESH.agent)


def test_another_process_with_another_hash_seed_makes_the_same_world_and_rows():
    code = (
        "from agent_envs.envs.tau2.task_generator.airline_world import database\n"
        "from agent_envs.envs.tau2.task_generator.airline_tasks import make_row\n"
        "from agent_envs.envs.tau2.database import NO_CHANGES\n"
        "from tests.envs.tau2.hashes import original_hash\n"
        "from agent_envs.base.serialization import digest\n"
        "rows = [make_row('dev', n, d) for n in range(12) for d in ('easy', 'medium', 'hard')]\n"
        "print(original_hash(database(0), NO_CHANGES), digest(rows))"
    )
    assert printed(code, hash_seed="1") == printed(code, hash_seed="2")


def test_what_was_paid_is_what_the_trip_costs(tables):
    for row in tables["reservations"].values():
        user, size = tables["users"][row["user_id"]], len(row["passengers"])
        total = (
            price_of(row["flights"], size)
            + BAG * row["nonfree_baggages"]
            + INSURANCE * size * (row["insurance"] == "yes")
        )
        assert sum(payment["amount"] for payment in row["payment_history"]) == total
        assert {payment["payment_id"] for payment in row["payment_history"]} <= set(user["payment_methods"])
        assert row["nonfree_baggages"] == paid_bags(user["membership"], row["cabin"], size, row["total_baggages"])
        assert 1 <= size <= 5


def test_users_and_reservations_name_each_other(tables):
    listed = [(key, user["user_id"]) for user in tables["users"].values() for key in user["reservations"]]
    assert sorted(listed) == sorted((key, row["user_id"]) for key, row in tables["reservations"].items())
    assert len(tables["users"]) == CUSTOMERS


def test_legs_are_flights_in_order_that_lead_there_and_back(tables):
    for row in tables["reservations"].values():
        legs = row["flights"]
        for leg in legs:
            flight = tables["flights"][leg["flight_number"]]
            assert (leg["origin"], leg["destination"]) == (flight["origin"], flight["destination"])
            assert leg["date"] in flight["dates"]
        assert [leg["date"] for leg in legs] == sorted({leg["date"] for leg in legs})
        back = row["flight_type"] == "round_trip"
        assert (row["origin"], row["destination"]) == (legs[0]["origin"], legs[0]["destination"])
        assert legs[-1]["destination"] == (row["origin"] if back else row["destination"])
        assert row["created_at"] <= min(NOW, f"{legs[0]['date']}T00:00:00")


def test_statuses_fit_their_dates(tables):
    for flight in tables["flights"].values():
        for date, instance in flight["dates"].items():
            leaves = instance.get("actual_departure_time_est", instance.get("estimated_departure_time_est", ""))
            lands = instance.get("actual_arrival_time_est", instance.get("estimated_arrival_time_est", ""))
            fitting = {
                "cancelled": date != NOW[:10],
                "available": date > NOW[:10],
                "landed": lands <= NOW,
                "flying": leaves < NOW <= lands,
                "on time": leaves >= NOW,
                "delayed": leaves >= NOW and leaves[11:] > flight["scheduled_departure_time_est"],
            }
            assert fitting[instance["status"]], (flight["flight_number"], date, instance)


def test_every_situation_that_tasks_need_occurs(tables):
    seen = Counter()
    for row in tables["reservations"].values():
        statuses = {tables["flights"][leg["flight_number"]]["dates"][leg["date"]]["status"] for leg in row["flights"]}
        seen.update(statuses)
        seen.update([row["cabin"], row["insurance"], row["flight_type"], row["created_at"] >= "2024-05-14T15:00:00"])
        seen.update(["begun"] if {"landed", "available"} <= statuses else [])
    needed = "available landed cancelled delayed basic_economy economy business yes no round_trip one_way begun".split()
    assert all(seen[name] >= 10 for name in (*needed, True)), seen


def test_words_tell_payment_methods_of_a_user_apart(tables):
    for user in tables["users"].values():
        words = [(row["source"], row.get("last_four")) for row in user["payment_methods"].values()]
        assert len(set(words)) == len(words)
        assert "credit_card" in dict(words)


def test_every_city_can_be_reached_and_is_known_to_the_tools():
    domain = airline(database(0))
    shown, _ = call(domain, FRESH, "assistant", "list_all_airports", {})
    assert all(f'"{code}"' in shown.content and city in shown.content for code, city in CITIES.items())
    reached, edge = set(), {"SEA"}
    while edge:
        reached |= edge
        flights = domain.agent_database.tables["flights"].values()
        edge = {flight["destination"] for flight in flights if flight["origin"] in reached} - reached
    assert reached == set(CITIES)
