"""The numbers of a finished large run are kept, so that its journal is decoded once; another journal is read itself."""

import pytest

from agent_envs.base.cache_dir import cache_dir
from agent_envs.evaluation.runs import measures, run_folder
from agent_envs.evaluation.runs.evaluate import Settings, evaluate, result_of_run, resume
from agent_envs.evaluation.runs.run_folder import open_run
from tests.evaluation.runs.test_evaluate import small


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measures, "LEAST", 1)
    return tmp_path / "run"


def unread(*_):
    raise AssertionError("the journal is decoded")


def test_a_finished_run_is_reported_and_resumed_without_its_rows(folder, monkeypatch):
    whole = evaluate(small(limit=4), Settings("random"), folder=folder)
    numbers = open_run(folder).numbers()
    monkeypatch.setattr(run_folder, "read_rows", unread)
    assert resume(folder).to_json() == result_of_run(open_run(folder))[0].to_json() == whole.to_json()
    assert open_run(folder).numbers() == numbers
    monkeypatch.setattr(measures.KeptNumbers, "load", lambda self: None)
    monkeypatch.undo()
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(folder.parent / "empty"))
    assert open_run(folder).numbers() == numbers


def test_another_journal_or_a_small_run_is_read_itself(folder, monkeypatch):
    evaluate(small(limit=4), Settings("random"), folder=folder)
    assert len(list((cache_dir() / "numbers").iterdir())) == 1
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:-2])
    assert sum(item.played for item in open_run(folder).numbers()) == 3
    resume(folder)
    assert len(list((cache_dir() / "numbers").iterdir())) == 1  # its first rows were not checked as numbers are
    assert all(item.played for item in open_run(folder).numbers())
    assert len(list((cache_dir() / "numbers").iterdir())) == 2
    monkeypatch.setattr(measures, "LEAST", 1_000)
    monkeypatch.setattr(run_folder, "read_rows", unread)
    with pytest.raises(AssertionError, match="decoded"):
        open_run(folder).numbers()
