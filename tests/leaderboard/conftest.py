"""Five submissions of a private suite, which all tests here copy from, with its board."""

import json

import pytest

from agent_envs.evaluation.runs import run_folder
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Suite, suite_text
from agent_envs.rollout.policy import CompanionPolicy

ABOUT = {"plain": {}, "lucky": {"agent": {"multi_attempt": True}}, "taught": {"training": {"on_suite_test": True}}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a private suite and five submissions of it; nobody may change them."""
    place = tmp_path_factory.mktemp("submissions")
    whole, short = (adhoc_suite(Choice("SearchQA", given, "test", 12, 2)).entries[0] for given in ({}, {"top_k": 1}))
    entries = (whole, short.model_copy(update={"label": "one passage", "weight": 2.0}))
    suite = Suite(id="mine", version="1.0", trials=2, entries=entries)
    for name, policy, about in (
        ("random", "random", "plain"), ("again", "random", "lucky"), ("taught", "random", "taught"),
        ("heuristic", "heuristic", "plain"), ("solver", "solver", "plain"),
    ):  # fmt: skip
        evaluate(suite, run_folder.Settings(policy), policy=CompanionPolicy(policy), folder=place / f"run-{name}")
        told = place / f"{name}.json"
        told.write_text(json.dumps({"schema": "agent-envs/about@1", **ABOUT[about]}))
        pack_run(place / f"run-{name}", place / name, told)
    return suite, place


@pytest.fixture
def board(made, tmp_path):
    suite, _ = made
    folder = tmp_path / "board"
    (folder / "boards").mkdir(parents=True)
    (folder / "suites").mkdir()
    (folder / "suites" / "mine.json").write_text(suite_text(suite))
    (folder / "boards" / "mine.toml").write_text(
        'title = "Mine"\nsuite = "suites/mine.json"\nabout = "<script>alert(1)</script>"\n'
        '[[published]]\nagent = "Paper"\nscore = 0.5\nsource = "A paper, table 2"\n'
    )
    return folder
