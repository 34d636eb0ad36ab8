"""Generated companies, phones and tasks of the telecom domain."""

import json
import re
from collections import Counter
from hashlib import sha256
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.metrics import idle_score
from agent_envs.envs.tau2.task_generator.source import DIFFICULTIES, SIZES, GeneratedSource, generated_domain
from agent_envs.envs.tau2.task_generator.telecom_parts import accounts
from agent_envs.envs.tau2.task_generator.telecom_tasks import make_row
from agent_envs.envs.tau2.task_generator.telecom_world import CUSTOMERS, databases, situation
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.telecom import TODAY
from agent_envs.envs.tau2.telecom_device import user_kit
from agent_envs.envs.tau2.user_script import read_script
from tests.envs.tau2.gold import Conversation, gold_conversation
from tests.fresh_process import printed

LEVELS = ("starter", *DIFFICULTIES)
KINDS = tuple(product(SIZES, LEVELS))


def rows(count, start=0):
    return [make_row(split, number, hard) for split, hard in KINDS for number in range(start, start + count)]


def tables(world=0):
    return databases(world)[0].tables


def score(domain, task, talk, solo=False):
    return evaluate(domain, task, talk.lines, "user_stop", solo).reward


# The world


@pytest.mark.parametrize("world", [0, 1, 77])
def test_records_belong_together(world):
    company = tables(world)
    assert len(company["customers"]) == CUSTOMERS and len(company["plans"]) == 6
    lines = [key for customer in company["customers"].values() for key in customer["line_ids"]]
    bills = [key for customer in company["customers"].values() for key in customer["bill_ids"]]
    assert sorted(lines) == sorted(company["lines"]) and sorted(bills) == sorted(company["bills"])
    devices = [line["device_id"] for line in company["lines"].values()]
    assert sorted(devices) == sorted(company["devices"])
    assert all(line["plan_id"] in company["plans"] for line in company["lines"].values())
    numbers = [line["phone_number"] for line in company["lines"].values()]
    assert len(set(numbers)) == len(numbers)
    people = [(customer["full_name"], customer["date_of_birth"]) for customer in company["customers"].values()]
    assert len(set(people)) == CUSTOMERS
    for customer in company["customers"].values():
        first = company["lines"][customer["line_ids"][0]]
        assert customer["phone_number"] == first["phone_number"]
        assert company["devices"][first["device_id"]]["device_type"] == "phone"


@pytest.mark.parametrize("world", [0, 1])
def test_bills_add_up_and_their_status_fits_their_date(world):
    company = tables(world)
    for bill in company["bills"].values():
        assert abs(bill["total_due"] - sum(item["amount"] for item in bill["line_items"])) < 1e-6
        assert (bill["status"] == "Draft") == (bill["issue_date"] > TODAY)
        assert bill["status"] in ("Draft", "Paid") or (bill["status"] == "Overdue" and bill["due_date"] < TODAY)
        owner = company["customers"][bill["customer_id"]]
        assert bill["bill_id"] in owner["bill_ids"]
        for item in bill["line_items"]:
            line = company["lines"][item["description"].rpartition(" ")[2]]
            assert line["line_id"] in owner["line_ids"]
            price = company["plans"][line["plan_id"]]["price_per_month"]
            assert item["amount"] == (5.0 if item["item_type"] == "Fee" else price)


@pytest.mark.parametrize("world", [0, 3])
def test_an_account_is_what_its_place_says(world):
    company = tables(world)
    for place, customer in enumerate(company["customers"].values()):
        kind = situation(place)
        first, *others = (company["lines"][key] for key in customer["line_ids"])
        overdue = [key for key in customer["bill_ids"] if company["bills"][key]["status"] == "Overdue"]
        assert bool(overdue) == (kind in ("overdue", "owing"))
        assert (first["status"] == "Suspended") == (kind in ("overdue", "ended"))
        assert (first["contract_end_date"] < TODAY) == (kind == "ended")
        assert any(line["status"] == "Suspended" for line in others) == (kind == "resting")
        for line in (first, *others):
            assert (line["suspension_start_date"] is not None) == (line["status"] == "Suspended")
            assert 0 < line["data_used_gb"] < company["plans"][line["plan_id"]]["data_limit_gb"]


def test_worlds_differ_and_the_phone_is_whole_in_all():
    assert set(tables(0)["customers"]) != set(tables(1)["customers"])
    assert databases(0)[1].tables == databases(1)[1].tables
    around = databases(0)[1].tables["surroundings"][""]
    assert around["line_active"] and not around["is_abroad"] and around["payment_request"] is None


_DIGEST = """
from hashlib import sha256
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.task_generator.telecom_tasks import make_row
from agent_envs.envs.tau2.task_generator.telecom_world import databases
levels = ("starter", "easy", "medium", "hard")
rows = [make_row(s, n, d, 2) for s in ("train", "test") for d in levels for n in (0, 5, 999999)]
print(sha256(canonical_json([rows, thawed(databases(2)[0].tables)]).encode()).hexdigest())
"""


def test_nothing_depends_on_the_process():
    made = [make_row(s, n, d, 2) for s in ("train", "test") for d in LEVELS for n in (0, 5, 999999)]
    here = sha256(canonical_json([made, thawed(databases(2)[0].tables)]).encode()).hexdigest()
    assert printed(_DIGEST) == here + "\n"


# The tasks


def test_customers_are_divided_among_the_splits():
    whose = {split: {account.id for of_kind in accounts(split, 0).values() for account in of_kind} for split in SIZES}
    assert [len(whose[split]) for split in ("train", "dev", "test")] == [160, 20, 20]
    assert len(set().union(*whose.values())) == CUSTOMERS
    for split in SIZES:
        assert set(accounts(split, 0)) == {"overdue", "plain", "ended", "owing", "resting"}


@pytest.mark.parametrize("split", SIZES)
def test_a_task_names_customers_of_its_split_alone(split):
    own, strange = set(), set()
    for other in SIZES:
        for of_kind in accounts(other, 0).values():
            for account in of_kind:
                ids = {account.id, str(account.customer["full_name"]), *(line["line_id"] for line in account.lines)}
                ids |= {str(line["phone_number"]) for line in account.lines} | set(account.customer["bill_ids"])
                (own if other == split else strange).update(ids)
    for hard in LEVELS:
        for number in range(40):
            text = json.dumps(make_row(split, number, hard))
            assert not [one for one in strange if one in text]
            assert any(one in text for one in own)


@pytest.mark.parametrize("compat", ["tau2-1.0.1", "fixed"])
@pytest.mark.parametrize(("split", "hard"), KINDS)
def test_what_is_expected_solves_a_task_and_doing_nothing_does_not(split, hard, compat):
    domain = generated_domain("telecom", compat)
    for number in range(25):
        task = read_task(make_row(split, number, hard), "telecom")
        for solo in (False, True):
            assert score(domain, task, gold_conversation(domain, task, solo), solo) == 1.0, task.id
        assert idle_score(domain, task).reward == 0.0, task.id


@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.integers(0, 5))
def test_any_number_gives_a_task_that_can_be_solved(kind, number, world):
    split, hard = kind
    domain = generated_domain("telecom", world=world)
    row = make_row(split, number, hard, world)
    assert row == make_row(split, number, hard, world)
    task = read_task(row, "telecom")
    assert row["difficulty"] == hard and read_script(row["user_script"]).wants
    assert score(domain, task, gold_conversation(domain, task)) == 1.0
    assert idle_score(domain, task).reward == 0.0


def test_every_call_of_the_agent_is_needed():
    domain = generated_domain("telecom")
    for row in rows(8, 100):
        task = read_task(row, "telecom")
        actions = task.criteria.actions
        for left_out in (action for action in actions if action.requestor == "assistant"):
            talk = Conversation(domain, task)
            for action in actions:
                if action is not left_out:
                    talk.call(action.requestor, action.name, action.arguments)
            talk.say(" ".join(task.criteria.communicate_info))
            assert score(domain, task, talk) == 0.0, (task.id, left_out.name)


def test_what_must_be_told_cannot_be_left_out():
    domain = generated_domain("telecom")
    asking = [row for row in rows(40) if row["evaluation_criteria"]["communicate_info"]]
    assert len(asking) > 10
    for row in asking:
        told = row["evaluation_criteria"]["communicate_info"]
        assert all(re.fullmatch(r"\d+\.\d[1-9]", text) for text in told)
        task = read_task(row, "telecom")
        silent = gold_conversation(domain, task).lines[:-1]
        assert evaluate(domain, task, silent, "user_stop").reward == 0.0
        assert "###STOP###" in row["ticket"]


def test_all_tools_and_kinds_of_tasks_occur():
    made = rows(150)
    called = Counter(action["name"] for row in made for action in row["evaluation_criteria"]["actions"])
    agent = {"suspend_line", "resume_line", "send_payment_request", "enable_roaming", "disable_roaming", "refuel_data"}
    device = {name for name, tool in user_kit.tools.items() if tool.writes}
    never = {"set_apn_settings", "toggle_wifi", "connect_vpn"}  # no fault is mended by these
    assert agent | (device - never) | {"transfer_to_human_agents"} == set(called)
    personas = {row["user_script"]["persona"] for row in made}
    assert personas >= {"plain", "terse", "talkative", "piecemeal", "forgetful", "mistaken", "insistent", "impatient"}
    assert {row["user_scenario"]["instructions"]["unknown_info"] is None for row in made} == {True, False}
    assert any(want["only_if_refused"] for row in made for want in row["user_script"]["wants"] if len(want) > 2
               and "only_if_refused" in want)  # fmt: skip
    wants = {hard: [len(row["user_script"]["wants"]) for row in made if row["difficulty"] == hard] for hard in LEVELS}
    assert max(wants["starter"]) == max(wants["easy"]) == 1
    assert sum(wants["easy"]) < sum(wants["medium"]) < sum(wants["hard"])


def test_handing_everybody_over_passes_few():
    domain, passed, made = generated_domain("telecom"), 0, rows(60)
    for row in made:
        task = read_task(row, "telecom")
        talk = Conversation(domain, task)
        talk.call("assistant", "transfer_to_human_agents", '{"summary":"x"}')
        passed += score(domain, task, talk)
    assert 0 < passed < 0.05 * len(made)


def test_who_gives_in_to_what_the_policy_forbids_fails():
    domain, tried = generated_domain("telecom"), 0
    for row in (make_row("train", number, "hard") for number in range(400)):
        said = " ".join(want["say"] for want in row["user_script"]["wants"])
        demanded = re.findall(r"I want (\d+) gigabytes more", said)
        task = read_task(row, "telecom")
        if not demanded or [action.name for action in task.criteria.actions].count("refuel_data") != 1:
            continue
        tried += 1
        talk = Conversation(domain, task)
        for action in task.criteria.actions:
            arguments = json.loads(action.arguments)
            if action.name == "refuel_data":
                arguments["gb_amount"] = float(demanded[0])
            talk.call(action.requestor, action.name, json.dumps(arguments))
        talk.say(" ".join(task.criteria.communicate_info))
        assert score(domain, task, talk) == 0.0
    assert tried > 5


def test_a_task_begins_as_its_customer_tells_it():
    domain = generated_domain("telecom")
    for row in rows(15):
        task = read_task(row, "telecom")
        talk = Conversation(domain, task)
        for want in row["user_script"]["wants"]:
            if "check" in want:
                assert want["check"]["passes"].lower() not in talk.call("user", want["check"]["tool"]).lower()
        solved = gold_conversation(domain, task)
        hopeless = "transfer_to_human_agents" in {action.name for action in task.criteria.actions}
        for want in row["user_script"]["wants"]:
            if "check" in want and not hopeless:
                assert want["check"]["passes"].lower() in solved.call("user", want["check"]["tool"]).lower()
        around = initial_world(domain, task).user.tables["surroundings"][""]
        assert around["name"] in row["user_scenario"]["instructions"]["known_info"]
        assert around["is_abroad"] == ("abroad, in" in row["user_scenario"]["instructions"]["known_info"])


def test_prose_and_script_are_in_their_persons():
    for row in rows(30):
        told = row["user_scenario"]["instructions"]
        prose = " ".join(
            told[part] or "" for part in ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        )
        said = " ".join([item["say"] for item in (*row["user_script"]["wants"], *row["user_script"]["facts"])])
        assert "{" not in prose + said + row["ticket"]
        assert not re.search(r"\b(I|me|my|mine|am)\b", prose), prose
        assert re.search(r"\b(I|my|me)\b", said)


def test_the_source_serves_the_tasks():
    source = GeneratedSource("telecom", difficulty="medium")
    task = source.get("test", 5)
    assert task.id == "medium-test-5" and task.question == task.data["ticket"]
    assert task.hidden["env_assertions"] is not None and "user_script" in task.data


def test_a_starter_is_one_fault_that_the_owner_mends():
    domain, mended = generated_domain("telecom"), set()
    for number in range(200):
        row = make_row("train", number, "starter")
        actions = row["evaluation_criteria"]["actions"]
        assert {action["requestor"] for action in actions} == {"user"}
        names = tuple(action["name"] for action in actions)
        assert names == ("reset_apn_settings", "reboot_device") or len(names) == 1
        mended.add(names[0])
        task = read_task(row, "telecom")
        talk = gold_conversation(domain, task)
        assert talk.world.agent.tables == initial_world(domain, task).agent.tables, task.id
    device = {name for name, tool in user_kit.tools.items() if tool.writes}
    never = {"set_apn_settings", "toggle_wifi", "connect_vpn", "reboot_device", "make_payment"}
    assert mended == device - never


def test_only_telecom_has_starters():
    source = GeneratedSource("telecom", difficulty="starter")
    assert (
        source.get("dev", 3).id == "starter-dev-3"
        and source.get("dev", "starter-dev-3").data["difficulty"] == "starter"
    )
    with pytest.raises(KeyError):
        GeneratedSource("telecom").get("dev", "starter-dev-3")
    for domain in ("retail", "airline"):
        with pytest.raises(
            UsageError, match=f"Tau2{domain.title()}: difficulty='starter'; give one of easy, medium, hard, mixed"
        ):
            GeneratedSource(domain, difficulty="starter")
    with pytest.raises(UsageError, match="give one of starter, easy, medium, hard, mixed"):
        GeneratedSource("telecom", difficulty="start")


def test_a_strangers_line_is_one_that_could_be_suspended():
    source, met = GeneratedSource("telecom", difficulty="hard"), 0
    for number in range(60):
        task = source.get("train", number)
        asked = task.data["user_scenario"]["instructions"]["reason_for_call"]
        if any(whose in asked for whose in ("neighbour's line", "colleague's line", "former partner's line")):
            met += 1
            held = [one["arguments"] for one in task.hidden["env_assertions"] if "status" in one["func_name"]]
            own = {action["arguments"].get("customer_id") for action in task.hidden["actions"]}
            assert "Active" in [
                one["expected_status"] for one in held if "line_id" in one and one["customer_id"] not in own
            ], task.id
    assert met > 3
