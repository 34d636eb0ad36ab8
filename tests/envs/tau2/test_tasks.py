"""Tasks: rows are checked and typed, sources give every split, decks are parsed task by task."""

import copy
import json
import os
from pathlib import Path

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.envs.tau2.builtin import DOMAINS
from agent_envs.envs.tau2.database import thawed
from agent_envs.envs.tau2.official import deck
from agent_envs.envs.tau2.task_schema import FunctionCall, Instructions
from agent_envs.envs.tau2.tasks import OfficialSource, RowSource, core_task, drawn_split, read_task, tau2_task
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from tests.envs.tau2.vectors import vector_task, vectors_in

TOLD = {
    "domain": "retail", "reason_for_call": "A cup.\nA red one.", "known_info": "You are Ada.", "unknown_info": None,
    "task_instructions": "Be brief.",
}  # fmt: skip
ROW = {
    "id": "a", "description": {"purpose": "none"}, "issues": [1],
    "user_scenario": {"persona": "Kind.", "instructions": TOLD},
    "ticket": "A cup is missing.",
    "initial_state": {
        "initialization_actions": [{"env_type": "user", "func_name": "f", "arguments": {"b": 2.0, "a": [1, {"c": None}]}}]
    },
    "evaluation_criteria": {
        "actions": [{"action_id": "x", "name": "g", "arguments": {"n": 2}, "info": None}],
        "communicate_info": ["5"], "nl_assertions": None,
    },
}  # fmt: skip


def test_a_row_as_typed_values():
    task = read_task(ROW, "retail")
    assert task.instructions == Instructions("retail", "A cup.\nA red one.", "You are Ada.", None, "Be brief.")
    assert task.scenario == (
        "Persona:\n\tKind.\nInstructions:\n\tDomain: retail\n\tReason for call:\n\t\tA cup.\n\t\tA red one.\n"
        "\tKnown info:\n\t\tYou are Ada.\n\tTask instructions:\n\t\tBe brief."
    )
    assert task.initial_actions == (FunctionCall("user", "f", '{"a":[1,{"c":null}],"b":2.0}'),)
    criteria = task.criteria
    assert (criteria.actions[0].requestor, criteria.actions[0].compared) == ("assistant", None)
    assert criteria.basis == ("DB", "COMMUNICATE") and criteria.env_assertions is None and not criteria.needs_judge
    assert hash(task) == hash(read_task(json.loads(json.dumps(ROW)), "retail"))
    assert read_task({**ROW, "evaluation_criteria": None}, "retail").criteria is None
    blank = read_task({**ROW, "user_scenario": {"instructions": {**TOLD, "unknown_info": ""}}}, "retail")
    assert blank.scenario.startswith("Instructions:") and "\n\tUnknown info:\n\tTask" in blank.scenario.replace(
        "\n\n", "\n"
    )
    plain = read_task({**ROW, "user_scenario": {"instructions": "Just\ncall."}}, "retail")
    assert plain.scenario == "Instructions:\n\tJust\n\tcall." and plain.instructions == "Just\ncall."


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("id", 7), ("user_scenario", None), ("user_scenario", {"instructions": {"domain": "retail"}}),
        ("evaluation_criteria", {"reward_basis": ["LUCK"]}), ("evaluation_criteria", {"actions": [{"name": "g"}]}),
        ("initial_state", {"initialization_actions": [{"env_type": "nobody", "func_name": "f", "arguments": {}}]}),
        ("initial_state", {"message_history": [{"role": "system"}]}),
    ],
)  # fmt: skip
def test_what_is_no_task_is_refused(member, value):
    with pytest.raises(UsageError, match=r"^tau2 retail task"):
        read_task({**ROW, member: value}, "retail")


def test_a_task_of_the_core_carries_the_row_and_hides_its_criteria():
    row = {**ROW, "id": "slow[PERSONA:Hard]", "recording": [{"sender": "user", "text": "Hi"}]}
    task = core_task(row, "train")
    assert (task.id, task.split, task.question, task.cluster) == (row["id"], "train", "A cup is missing.", "slow")
    assert tau2_task(task, "retail") == read_task(row, "retail")
    assert thawed(task.hidden) == row["evaluation_criteria"] and "evaluation_criteria" not in task.data
    assert decode_state(encode_state(task.data)) == task.data and task.data["recording"] == (row["recording"][0],)
    assert core_task({"id": "b"}, "test").hidden is None


class Counted:
    """Rows that count how often they are asked for."""

    def __init__(self):
        self.asked = []

    def task(self, task_id):
        self.asked.append(task_id)
        return {**ROW, "id": task_id}


def test_sources_parse_what_is_asked_for_and_once():
    rows = Counted()
    source = RowSource("rows", rows.task, {"train": ("a", "b"), "test": ("c",)})
    assert (source.splits, source.size("train"), source.digest) == (("train", "test"), 2, "")
    assert source.get("train", 1) is source.get("train", "b") and rows.asked == ["b"]
    assert (
        source.get("test", "c").split == "test"
        and source.get("test", 0).data["source"] == "rows"
        and copy.deepcopy(source) is source
    )
    for split, key in (("train", 2), ("train", -1), ("train", "c"), ("test", "a")):
        with pytest.raises(KeyError):
            source.get(split, key)
    assert rows.asked == ["b", "c"]


@pytest.mark.data
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_split_of_the_official_tasks(domain):
    source = OfficialSource(domain)
    sizes = {split: source.size(split) for split in source.splits}
    base, test20 = sizes["base"], round(0.2 * sizes["base"])
    known = {"train": 74, "test": 40, "base": 114} if domain != "airline" else {"train": 30, "test": 20, "base": 50}
    known |= {"small": 20, "full": 2285} if domain == "telecom" else {}
    assert source.splits == (*known, "train80", "test20", "pooled_train80", "pooled_test20")
    assert {name: sizes[name] for name in known} == known
    assert (sizes["train80"], sizes["test20"]) == (base - test20, test20)
    assert source.splits[0] == "train"
    for ours, theirs in (("train80", "test20"), ("pooled_train80", "pooled_test20")):
        one, other = source.ids(ours), source.ids(theirs)
        assert sorted(one + other) == sorted(source.ids("base")) and not set(one) & set(other)
        assert list(one) == [task_id for task_id in source.ids("base") if task_id in set(one)]
    assert len(source.digest) == 64


@pytest.mark.data
def test_the_pool_is_drawn_over_the_three_domains():
    pooled = {domain: drawn_split(domain, "pooled_test20") for domain in DOMAINS}
    assert sum(map(len, pooled.values())) == 56 == round(0.2 * 278)
    assert {domain: len(ids) for domain, ids in pooled.items()} == {"retail": 26, "airline": 5, "telecom": 25}
    # The first ids of seed 0, so that a changed draw cannot pass unseen.
    assert pooled["airline"] == ("2", "11", "26", "43", "49")
    assert drawn_split("retail", "test20")[:6] == ("1", "11", "17", "23", "32", "47")
    with pytest.raises(UsageError, match="pooled_test20"):
        drawn_split("retail", "test")
    with pytest.raises(UsageError, match="no domain"):
        OfficialSource("mock")


@pytest.mark.data
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_official_task_is_read_and_is_the_recorded_one(domain):
    found = deck(domain)
    tasks = {task_id: read_task(found.task(task_id), domain) for task_id in found.ids}
    assert all(task.id == task_id and task.criteria.basis for task_id, task in tasks.items())
    assert sum(task.criteria.needs_judge for task in tasks.values()) == {"retail": 40}.get(domain, 0)
    for vector in vectors_in(Path(os.environ["AGENT_ENVS_DATA"]) / "tau2" / "vectors" / f"gold-{domain}.jsonl"):
        recorded, ours = vector_task(vector), tasks[vector["task_id"]]
        assert recorded.initial_actions == ours.initial_actions
        assert [(a.requestor, a.name, a.arguments, a.compared) for a in recorded.criteria.actions] == [
            (a.requestor, a.name, a.arguments, a.compared) for a in ours.criteria.actions
        ]
        assert recorded.criteria.env_assertions == (ours.criteria.env_assertions or ())
        assert recorded.criteria.communicate_info == ours.criteria.communicate_info
        assert recorded.criteria.basis == ours.criteria.basis
        assert len(recorded.criteria.nl_assertions) == len(ours.criteria.nl_assertions)


@pytest.mark.data
def test_the_longest_official_id_fits_into_a_suite():
    longest = max(deck("telecom").split("full"), key=len)
    assert len(longest) > 200
    suite = adhoc_suite(Choice("agent_envs/Tau2Telecom-v0", {"tasks": "official"}, "base", 114))
    assert len(suite.entries[0].tasks) == 114
