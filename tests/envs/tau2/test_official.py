"""The official files: checked against their blob ids, read once, tasks parsed only when asked for."""

import json
import os
from pathlib import Path

import pytest

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.envs.tau2 import official
from agent_envs.envs.tau2.builtin import DOMAINS
from agent_envs.envs.tau2.official import BLOBS, Deck, deck, load_domain, official_bytes

TASKS = [
    {"id": 'a "quoted" one', "nested": [{"id": "inner"}, {"text": "\n  {\n"}]},
    {"id": "b", "x": None},
    {"id": "é", "x": {}},
]
SPLITS = {"base": ["é", "b"], "train": ["b"], "test": ["é"]}


@pytest.mark.parametrize("indent", [2, 4])
def test_decks_find_and_parse_single_tasks(indent):
    found = Deck(json.dumps(TASKS, indent=indent, ensure_ascii=False).encode(), SPLITS)
    assert found.ids == ('a "quoted" one', "b", "é") == found.split(None)
    assert [found.task(task_id) for task_id in found.ids] == TASKS
    assert found.task("b") is found.task("b")
    assert found.split("base") == ("b", "é") and found.split("test") == ("é",)
    for wrong in (lambda: found.split("small"), lambda: found.task("inner")):
        with pytest.raises(UsageError):
            wrong()


def test_data_that_is_not_there_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataMissing, match="AGENT_ENVS_DATA"):
        load_domain("retail")
    (tmp_path / "cache" / "tau2" / official.COMMIT / "data" / "tau2").mkdir(parents=True)
    with pytest.raises(DataMissing, match=r"db\.json"):
        load_domain("retail")


def test_files_that_are_not_the_published_ones_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    file = tmp_path / "tau2" / "official" / "data" / "tau2" / "domains" / "retail" / "policy.md"
    file.parent.mkdir(parents=True)
    file.write_text("Be kind.")
    with pytest.raises(UsageError, match="not the file published"):
        official_bytes("domains/retail/policy.md")
    with pytest.raises(UsageError, match="no official file"):
        official_bytes("../secret")


def test_unknown_names_are_refused():
    for wrong in (lambda: load_domain("mock"), lambda: deck("mock")):
        with pytest.raises(UsageError):
            wrong()
    for name in ("retail", "airline"):
        with pytest.raises(UsageError, match=f"{name} has no support workflow"):
            load_domain(name, workflow=True)


@pytest.mark.data
def test_every_published_file_is_the_published_one():
    for path in BLOBS:
        assert official_bytes(path)


@pytest.mark.data
@pytest.mark.parametrize(
    ("domain", "splits"),
    [
        ("retail", {"base": 114, "train": 74, "test": 40}),
        ("airline", {"base": 50, "train": 30, "test": 20}),
        ("telecom", {"base": 114, "train": 74, "test": 40, "small": 20, "full": 2285}),
    ],
)
def test_official_decks(domain, splits):
    found = deck(domain)
    assert found is deck(domain)
    assert {name: len(found.split(name)) for name in found.splits} == splits
    assert set(found.split("train")) | set(found.split("test")) == set(found.split("base"))
    assert all(found.task(task_id)["id"] == task_id for task_id in found.split("base"))
    everything = json.loads(official_bytes(f"domains/{domain}/tasks.json"))
    assert [found.task(task_id) for task_id in found.ids] == everything


@pytest.mark.data
def test_domains_share_their_databases():
    for name in DOMAINS:
        original, fixed = load_domain(name), load_domain(name, "fixed")
        assert original is load_domain(name) and original is not fixed
        assert original.agent_database is fixed.agent_database and original.user_database is fixed.user_database
        assert original.compat.vpn_leak and not fixed.compat.vpn_leak and original.policy
    with pytest.raises(UsageError):
        load_domain("retail", "tau2-9")


@pytest.mark.data
def test_telecom_policies():
    manual = load_domain("telecom")
    folder = Path(os.environ["AGENT_ENVS_DATA"]) / "tau2/official/data/tau2/domains/telecom"
    parts = [(folder / f"{name}.md").read_text() for name in ("main_policy", "tech_support_manual")]
    assert manual.policy == (
        f"<main_policy>\n{parts[0]}\n</main_policy>\n<tech_support_policy>\n{parts[1]}\n</tech_support_policy>"
    )
    workflow = load_domain("telecom", workflow=True)
    texts = (manual.policy, workflow.policy, manual.solo_policy, workflow.solo_policy)
    assert all(texts) and len(set(texts)) == 4
    assert (folder / "tech_support_workflow_solo.md").read_text() in workflow.solo_policy
