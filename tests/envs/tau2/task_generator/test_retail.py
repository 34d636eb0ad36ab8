"""The generated shop: a consistent world, and tasks that can be solved, that nobody passes idly, and that stay apart."""

import json
from random import Random

import pytest

from agent_envs.base.serialization import digest
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.metrics import idle_score
from agent_envs.envs.tau2.task_generator.retail_tasks import make_row
from agent_envs.envs.tau2.task_generator.retail_world import USERS, database, total
from agent_envs.envs.tau2.task_generator.source import DIFFICULTIES, SIZES, generated_domain, members
from agent_envs.envs.tau2.task_schema import core_task, read_task
from agent_envs.envs.tau2.user_script import read_script
from tests.envs.tau2.gold import Conversation, gold_conversation
from tests.fresh_process import printed

DOMAIN = generated_domain("retail")
WRITES = {name for name, tool in DOMAIN.assistant.tools.items() if tool.writes}
_DRAW = Random("retail sample")
SAMPLE = [(split, _DRAW.randrange(SIZES[split]), DIFFICULTIES[n % 3]) for n in range(50) for split in SIZES]


def rows():
    return [make_row(*key) for key in SAMPLE]


def typed(row):
    return read_task(row, "retail")


def writes(row):
    return [action for action in row["evaluation_criteria"]["actions"] if action["name"] in WRITES]


@pytest.mark.parametrize("world", [0, 1, 977])
def test_the_world_adds_up(world):
    tables = database(world).tables
    assert len(tables["products"]) == 50 and len(tables["users"]) == USERS and len(tables["orders"]) > 800
    assert len({user["email"] for user in tables["users"].values()}) == USERS
    for user in tables["users"].values():
        assert user["orders"] and user["payment_methods"]
        assert all(tables["orders"][order_id]["user_id"] == user["user_id"] for order_id in user["orders"])
    for product in tables["products"].values():
        variants = product["variants"].values()
        assert sum(variant["available"] for variant in variants) >= 3
        assert len({digest(variant["options"]) for variant in variants}) == len(variants)
        assert len({variant["price"] for variant in variants}) == len(variants)
    for order in tables["orders"].values():
        _check_order(order, tables)


def _check_order(order, tables):
    methods = tables["users"][order["user_id"]]["payment_methods"]
    for item in order["items"]:
        product = tables["products"][item["product_id"]]
        variant = product["variants"][item["item_id"]]
        assert (item["name"], item["price"], item["options"]) == (product["name"], variant["price"], variant["options"])
    signs = {"payment": 1, "refund": -1}
    history = order["payment_history"]
    assert {paid["payment_method_id"] for paid in history} <= set(methods)
    paid = round(sum(signs[paid["transaction_type"]] * paid["amount"] for paid in history), 2)
    assert paid == (0 if order["status"] == "cancelled" else total(order["items"]))
    assert (order["cancel_reason"] is not None) == (order["status"] == "cancelled")
    assert (order["return_items"] is not None) == (order["status"] == "return requested")
    assert (order["exchange_items"] is not None) == (order["status"] == "exchange requested")
    unsent = order["status"] in ("pending", "pending (item modified)", "cancelled")
    assert bool(order["fulfillments"]) != unsent


def test_gold_earns_everything_in_either_order_of_changes():
    for row in rows():
        task = typed(row)
        gold = gold_conversation(DOMAIN, task)
        assert not [reply for line in gold.lines for reply in line.results if reply.error], row["id"]
        assert evaluate(DOMAIN, task, gold.lines, "user_stop").reward == 1.0, row["id"]
        # Wants do not touch each other, so that an agent may serve them as it likes.
        backwards = Conversation(DOMAIN, task)
        for action in reversed(writes(row)):
            backwards.call("assistant", action["name"], json.dumps(action["arguments"]))
        backwards.say(" ".join(row["evaluation_criteria"]["communicate_info"]))
        assert evaluate(DOMAIN, task, backwards.lines, "user_stop").reward == 1.0, row["id"]


def test_gold_earns_everything_without_the_originals_bugs():
    domain = generated_domain("retail", "fixed")
    for row in rows()[::5]:
        gold = gold_conversation(domain, typed(row))
        assert evaluate(domain, typed(row), gold.lines, "user_stop").reward == 1.0


def test_doing_nothing_earns_nothing_and_every_change_counts():
    for row in rows():
        task = typed(row)
        assert idle_score(DOMAIN, task).reward == 0.0, row["id"]
        for left_out in writes(row):
            talk = Conversation(DOMAIN, task)
            for action in writes(row):
                if action is not left_out:
                    talk.call("assistant", action["name"], json.dumps(action["arguments"]))
            talk.say(" ".join(row["evaluation_criteria"]["communicate_info"]))
            assert evaluate(DOMAIN, task, talk.lines, "user_stop").reward == 0.0, (row["id"], left_out)


def test_all_that_a_change_needs_is_told_or_shown():
    for row in rows():
        script = read_script(row["user_script"])
        talk = Conversation(DOMAIN, typed(row))
        shown = [talk.call("assistant", action["name"], json.dumps(action["arguments"]))
                 for action in row["evaluation_criteria"]["actions"] if action["name"] not in WRITES]  # fmt: skip
        facts = [*script.facts, *(fact for want in script.wants for fact in want.facts)]
        known = "\n".join([*shown, *(fact.say for fact in facts), *(want.say for want in script.wants)])
        for action in writes(row):
            for name, value in action["arguments"].items():
                for leaf in value if isinstance(value, list) else [value]:
                    assert leaf in known or name == "reason", (row["id"], name, leaf)


def test_figures_cannot_be_guessed_and_are_written_as_tools_write_them():
    told = [text for row in rows() for text in row["evaluation_criteria"]["communicate_info"]]
    assert len(told) > 30
    for text in told:
        assert text.isdigit() and len(text) == 12 or text == str(round(float(text), 2)) and not text.endswith(".0")


def test_a_task_of_a_split_concerns_customers_of_that_split_alone():
    tables = database(0).tables
    split_of = {user: split for split in SIZES for user in [list(tables["users"])[n] for n in members(split, USERS)]}
    for key, row in zip(SAMPLE, rows(), strict=True):
        text = json.dumps(row)
        named = {split_of[user_id] for user_id in tables["users"] if user_id in text}
        named |= {split_of[order["user_id"]] for order_id, order in tables["orders"].items() if order_id in text}
        named |= {split_of[user_id] for user_id, user in tables["users"].items() if user["email"] in text}
        assert named == {key[0]}


def test_every_tool_that_writes_and_every_kind_of_trap_occurs():
    many = [make_row("train", number, DIFFICULTIES[number % 3]) for number in range(600)]
    assert {action["name"] for row in many for action in writes(row)} == WRITES
    wants = [want for row in many for want in row["user_script"]["wants"]]
    for member in ("question", "only_if_refused", "insists", "declines", "objection"):
        assert sum(bool(want[member]) for want in wants) > 10
    told = " ".join(want["say"] for want in wants)
    for words in ("sister", "cheaper somewhere else", "remove the", "at most", "gift card if its", "not available"):
        assert words in told
    assert len({row["user_script"]["persona"] for row in many}) == 7


@pytest.mark.parametrize("difficulty", DIFFICULTIES)
def test_difficulty_is_what_it_says(difficulty):
    for number in range(40):
        row = make_row("train", number, difficulty)
        wants = [want for want in row["user_script"]["wants"] if not want["only_if_refused"]]
        least, most = {"easy": (1, 1), "medium": (2, 3), "hard": (3, 4)}[difficulty]
        assert least <= len(wants) <= most and row["difficulty"] == difficulty
        assert writes(row) or difficulty == "easy"


def test_a_row_is_small_and_its_prose_is_in_the_second_person():
    for row in rows():
        assert len(json.dumps(row)) < 12_000
        told = row["user_scenario"]["instructions"]
        prose = " ".join(text for text in told.values() if text)
        assert "{" not in prose and "}" not in prose
        assert not {"I", "my", "me", "am"} & set(prose.replace(".", " ").replace(",", " ").split())
        assert read_script(row["user_script"]).wants
        assert core_task(row, "train").question == ""


def test_rows_are_the_same_in_every_process():
    code = (
        "import hashlib,json;from agent_envs.envs.tau2.task_generator.retail_tasks import make_row;"
        "rows=[make_row(s,n,d,w) for s in ('train','test') for n in (0,999) for d in ('easy','medium','hard') for w in (0,4)];"
        "print(hashlib.sha256(json.dumps(rows).encode()).hexdigest())"
    )
    digests = {printed(code, hash_seed=seed) for seed in ("0", "1")}
    assert len(digests) == 1 and len(digests.pop()) == 65


def test_any_number_has_a_task():
    assert make_row("train", 10**6, "hard")["id"] == "hard-train-1000000"
    assert make_row("test", 10**6, "easy", 12)["id"] == "easy-test-1000000-w12"
