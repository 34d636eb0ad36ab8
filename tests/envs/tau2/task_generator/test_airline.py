"""Generated airline tasks: well formed, solvable, within the policy, and failed by whoever does nothing or obeys."""

import json
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2.airline_rules import compensation, may_cancel
from agent_envs.envs.tau2.database import same, thawed
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.task_generator.airline_tasks import make_row
from agent_envs.envs.tau2.task_generator.airline_traps import REFUSED, RIDDLES
from agent_envs.envs.tau2.task_generator.airline_wants import SERVED
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain, members
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import expected_world
from agent_envs.envs.tau2.toolkit import FRESH, call
from agent_envs.envs.tau2.user_script import read_script
from agent_envs.envs.tau2.users.persona import persona_of
from tests.envs.tau2.gold import gold_conversation
from tests.examples import examples

DIFFICULTIES, SPLITS = ("easy", "medium", "hard"), ("train", "dev", "test")
WRITES = {
    "book_reservation", "cancel_reservation", "send_certificate", "update_reservation_baggages",
    "update_reservation_flights", "update_reservation_passengers",
}  # fmt: skip


def rows(count, world=0):
    return [make_row(s, n, d, world) for s in SPLITS for d in DIFFICULTIES for n in range(count)]


def task_of(row):
    return read_task(row, "airline")


def actions_of(row):
    return [(one["name"], one["arguments"]) for one in row["evaluation_criteria"]["actions"]]


@examples(60)
@given(
    st.sampled_from(SPLITS), st.integers(0, 10**6), st.sampled_from(DIFFICULTIES), st.sampled_from((0, 1, 2, 999_999_999))
)  # fmt: skip
def test_any_number_gives_a_row_that_both_readers_take(split, number, difficulty, world):
    row = make_row(split, number, difficulty, world)
    assert row == make_row(split, number, difficulty, world)
    assert json.loads(json.dumps(row)) == thawed(row)
    task, script = task_of(row), read_script(row["user_script"])
    assert task.id == row["id"] and task.criteria.basis == ("DB", "COMMUNICATE")
    assert script.wants and persona_of("task", script.persona) == persona_of(script.persona)
    assert row["difficulty"] == difficulty


def test_the_source_serves_them():
    source = GeneratedSource("airline")
    assert [source.get("test", n).id for n in range(3)] == ["easy-test-0", "medium-test-1", "hard-test-2"]
    with pytest.raises(UsageError):
        GeneratedSource("airline", difficulty="harder")


def test_tasks_of_a_split_concern_its_own_customers_only():
    users = list(generated_domain("airline").agent_database.tables["users"])
    for split in SPLITS:
        own = {users[place] for place in members(split, len(users))}
        named = {action["user_id"] for d in DIFFICULTIES for n in range(150) for _, action in actions_of(make_row(split, n, d))
                 if "user_id" in action}  # fmt: skip
        assert named <= own and len(named) > len(own) // 2


def test_tasks_are_told_in_many_ways():
    for difficulty in DIFFICULTIES:
        told = {
            make_row("train", n, difficulty)["user_scenario"]["instructions"]["reason_for_call"] for n in range(400)
        }
        assert len(told) > 380


@pytest.mark.parametrize("world", (0, 3))
def test_gold_earns_everything_and_a_polite_no_earns_nothing(world):
    domain = generated_domain("airline", world=world)
    for row in rows(25, world):
        task = task_of(row)
        talk = gold_conversation(domain, task)
        errors = [reply.content for line in talk.lines for reply in line.results if reply.error]
        assert not errors, (row["id"], errors)
        assert evaluate(domain, task, talk.lines, "user_stop").reward == 1.0, row["id"]
        idle = type(talk)(domain, task)
        idle.say("I am afraid that I cannot help you with that. Is there anything else?")
        assert evaluate(domain, task, idle.lines, "user_stop").reward == 0.0, row["id"]
        assert not same(domain.agent_database, expected_world(domain, task).agent, FRESH.agent), row["id"]


def test_no_single_gold_write_can_be_left_out():
    domain = generated_domain("airline")
    for row in rows(15):
        task = task_of(row)
        for place, (name, _) in enumerate(actions_of(row)):
            if name not in WRITES:
                continue
            talk = gold_conversation(domain, task)
            shorter = talk.lines[: 2 * place] + talk.lines[2 * place + 2 :]
            assert evaluate_or_zero(domain, task, shorter) == 0.0, (row["id"], name)


def evaluate_or_zero(domain, task, lines):
    """Score a conversation made anew of the calls of another."""
    talk = gold_conversation(domain, task)
    talk.world, talk.lines = FRESH, ()
    for line in lines:
        for one in line.calls:
            talk.call("assistant", one.name, one.arguments)
        if line.text and not line.calls:
            talk.say(line.text)
    return evaluate(domain, task, talk.lines, "user_stop").reward


def test_who_obeys_a_forbidden_cancellation_fails():
    domain, tried = generated_domain("airline"), 0
    for number in range(400):
        row = make_row("train", number, "hard")
        for want in row["user_script"]["wants"]:
            ids = [fact["value"] for fact in want["facts"] if fact["topic"] == "reservation" and fact["value"]]
            if not (want["insists"] and ids and any(fact["topic"] == "reason" for fact in want["facts"])):
                continue
            tried += 1
            talk = gold_conversation(domain, task_of(row))
            talk.call("assistant", "cancel_reservation", json.dumps({"reservation_id": ids[0]}))
            assert evaluate(domain, task_of(row), talk.lines, "user_stop").reward == 0.0, row["id"]
    assert tried >= 5


def statuses(tables, record):
    return [tables["flights"][leg["flight_number"]]["dates"][leg["date"]]["status"] for leg in record["flights"]]


def test_gold_keeps_to_the_policy():
    tables = generated_domain("airline").agent_database.tables
    for row in rows(120):
        user = tables["users"][actions_of(row)[0][1]["user_id"]]
        sent = [args["amount"] for name, args in actions_of(row) if name == "send_certificate"]
        worths = [compensation(user["membership"], tables["reservations"][key], statuses(tables, tables["reservations"][key]))
                  for key in user["reservations"]]  # fmt: skip
        assert len(sent) <= 1 and set(sent) <= set(worths) - {0}
        for name, args in actions_of(row):
            record = tables["reservations"].get(args.get("reservation_id"))
            if name in WRITES and record is not None:
                assert KEPT[name](args, record, statuses(tables, record), user), (row["id"], name)


def kept_flights(args, record, now, user):
    source = user["payment_methods"][args["payment_id"]]["source"]
    new = [(leg["flight_number"], leg["date"]) for leg in args["flights"]]
    old = [(leg["flight_number"], leg["date"]) for leg in record["flights"]]
    moved = new != old
    sorts = moved != (args["cabin"] != record["cabin"])  # one of both
    return (
        source != "certificate" and sorts and "landed" not in now and not (moved and record["cabin"] == "basic_economy")
    )


KEPT = {
    "cancel_reservation": lambda args, record, now, user: may_cancel(record, now, "health") and "landed" not in now,
    "update_reservation_flights": kept_flights,
    "update_reservation_passengers": lambda args, record, now, user: (
        len(args["passengers"]) == len(record["passengers"])
    ),
    "update_reservation_baggages": lambda args, record, now, user: args["total_baggages"] > record["total_baggages"],
}


def test_a_reason_that_insurance_does_not_cover_is_never_gold():
    tables = generated_domain("airline").agent_database.tables
    for number in range(300):
        row = make_row("train", number, "easy")
        (want,) = row["user_script"]["wants"]
        for name, args in actions_of(row):
            if name == "cancel_reservation":
                record = tables["reservations"][args["reservation_id"]]
                reason = next(fact["say"] for fact in want["facts"] if fact["topic"] == "reason")
                covered = re.search("ankle|ill|hospital|storm|hurricane|snow", reason) is not None
                assert may_cancel(record, statuses(tables, record), "health" if covered else "plans")


def test_every_kind_of_write_and_of_wish_occurs():
    seen = Counter(name for row in rows(120) for name, _ in actions_of(row))
    assert all(seen[name] >= 20 for name in WRITES), seen
    assert {"search_onestop_flight", "get_flight_status"} <= set(seen)
    assert len(SERVED) + len(REFUSED) + len(RIDDLES) == 24


def test_difficulties_differ_in_what_they_ask():
    for number in range(60):
        easy, medium, hard = (make_row("dev", number, difficulty) for difficulty in DIFFICULTIES)
        assert len(easy["user_script"]["wants"]) == 1
        assert len(medium["user_script"]["wants"]) == 2
        assert len(hard["user_script"]["wants"]) >= 3
    told = [make_row("train", number, "medium")["user_scenario"]["instructions"] for number in range(100)]
    assert sum(one["unknown_info"] is not None for one in told) > 40


def test_each_text_is_in_one_person():
    for row in rows(80):
        told = row["user_scenario"]["instructions"]
        scenario = f"{told['reason_for_call']} {told['known_info']} {told['task_instructions']}"
        assert not re.search(r"[<>{}]|\b(?:I|my|me)\b", scenario.replace("Tell me", "")), scenario
        said = json.dumps(row["user_script"])
        assert not re.search(r"[<>]|\b[Yy]ou(?:r|rs)?\b", said), said
        for want in row["user_script"]["wants"]:
            for fact in (*want["facts"], *row["user_script"]["facts"]):
                assert fact["value"] in fact["say"]


def test_what_must_be_told_is_not_in_the_users_own_words():
    for row in rows(120):
        told = row["user_scenario"]["instructions"]
        numbers = set(re.findall(r"\d+", f"{told['reason_for_call']} {told['known_info']}"))
        limits = {fact["value"] for want in row["user_script"]["wants"] for fact in want["facts"]}
        assert not (set(row["evaluation_criteria"]["communicate_info"]) - limits) & {n for n in numbers if len(n) > 2}


def test_a_search_shows_the_flight_that_gold_chooses():
    domain = generated_domain("airline")
    for row in rows(20):
        shown = set()
        for name, args in actions_of(row):
            outcome, _ = call(domain, FRESH, "assistant", name, thawed(args)) if name not in WRITES else (None, None)
            shown |= set(re.findall(r"HAT\d{3}", outcome.content)) if outcome else set()
            if name in ("book_reservation", "update_reservation_flights"):
                assert {leg["flight_number"] for leg in args["flights"]} <= shown, row["id"]


def test_all_that_gold_writes_can_be_known():
    """Ids, names and dates of writes are told by the user, or shown by the tools that gold looks at."""
    domain = generated_domain("airline")
    for row in rows(25):
        known = json.dumps(row["user_script"])
        for name, args in actions_of(row):
            if name not in WRITES:
                known += call(domain, FRESH, "assistant", name, thawed(args))[0].content
        days = {f"2024-05-{int(day):02d}" for day in re.findall(r"May (\d+)", known)} | set(
            re.findall(r"20\d\d-\d\d-\d\d", known)
        )
        for name, args in actions_of(row):
            for value in leaves(args) if name in WRITES else ():
                plain = value in ("one_way", "round_trip", "basic_economy", "yes", "no")
                assert plain or value in known or value in days, (row["id"], name, value)


def leaves(value):
    if isinstance(value, dict | list | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from leaves(inner)
    elif isinstance(value, str):
        yield value
