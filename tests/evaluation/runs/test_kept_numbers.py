"""The numbers of a finished large run are kept, so that its journal is decoded once; another journal is read itself."""

import json

import pytest

from agent_envs.base import caches
from agent_envs.base.caches import cache_dir
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
    monkeypatch.setattr(measures.NumbersCache, "load", lambda self: None)
    monkeypatch.undo()
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(folder.parent / "empty"))
    assert open_run(folder).numbers() == numbers


def test_another_journal_or_a_small_run_is_read_itself(folder, monkeypatch):
    evaluate(small(limit=4), Settings("random"), folder=folder)
    assert len(list((cache_dir() / "numbers").iterdir())) == 1
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:-2])
    assert sum(item.complete for item in open_run(folder).numbers()) == 3
    resume(folder)
    assert len(list((cache_dir() / "numbers").iterdir())) == 1  # its first rows were not checked as numbers are
    assert all(item.complete for item in open_run(folder).numbers())
    assert len(list((cache_dir() / "numbers").iterdir())) == 2
    monkeypatch.setattr(measures, "LEAST", 1_000)
    monkeypatch.setattr(run_folder, "read_rows", unread)
    with pytest.raises(AssertionError, match="decoded"):
        open_run(folder).numbers()


def spoiled(path):
    """Yield texts that are no kept numbers: damaged ones, and sound ones of other lengths, types and episodes."""
    data = path.read_bytes()
    yield from (
        b"",
        b"[]",
        b"null",
        data[:-1],
        data[:100],
        data[: len(data) // 2],
        data + b" ",
        b"[" * 100_000,
        b"\xff" * 200,
    )
    yield data.replace(b"true", b"false", 1) if b"true" in data else data.replace(b"false", b"true", 1)
    yield caches._seal(path.with_name("of-another-package.json"), data[68:-1])
    rows = json.loads(data)[1]
    others = [
        [],
        {},
        3,
        "abc",
        [3] * len(rows),
        ["x" * len(rows[0])] * len(rows),
        rows[1:],
        rows[::-1],
        [*rows, rows[0]],
    ]
    others += [[row[:-1] for row in rows], [[*row, 1] for row in rows]]
    wrong = {
        "success": 1,
        "total_reward": "x",
        "turns": 1.5,
        "usage": [],
        "labels": ["a"],
        "metrics": {"a": "b"},
        "task": "x",
    }
    others += [[[*row[:at], value, *row[at + 1 :]] for row in rows] for at, value in
               ((measures._NAMES.index(name), value) for name, value in wrong.items())]  # fmt: skip
    yield from (caches._seal(path, json.dumps(other).encode()) for other in others)


def test_a_file_of_kept_numbers_that_is_not_as_it_was_written_is_not_believed(folder):
    evaluate(small(limit=4), Settings("random"), folder=folder)
    (path,) = (cache_dir() / "numbers").iterdir()
    kept, numbers = open_run(folder).numbers_cache(), open_run(folder).numbers()
    assert kept.load() == numbers
    for text in [*spoiled(path)]:
        path.write_bytes(text)
        assert kept.load() is None, text[:200]
    assert open_run(folder).numbers() == numbers  # decoded, and kept again
    assert kept.load() == numbers
    path.unlink()
    path.mkdir()
    assert kept.load() is None and open_run(folder).numbers() == numbers


def test_a_journal_that_grew_while_it_was_read_is_not_kept_under_its_earlier_content(folder):
    evaluate(small(limit=4), Settings("random"), folder=folder)
    (path,) = (cache_dir() / "numbers").iterdir()
    journal, numbers = folder / "journal.jsonl", open_run(folder).numbers()
    whole = journal.read_bytes()
    journal.write_bytes(whole[: whole[:-1].rindex(b"\n") + 1])
    earlier = open_run(folder).numbers_cache()
    journal.write_bytes(whole)
    earlier.keep(numbers, measures.Measures())
    assert [*path.parent.iterdir()] == [path]
