"""Packing refuses incomplete, smoke and inconsistent runs and occupied targets, and leaves no partial output."""

import hashlib
import json
import shutil
import subprocess
import sys

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.evaluation.submission.pack import pack_run
from tests.evaluation.submission.packing import assert_nothing_left, play, rows_of


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packing") / "run"
    play(folder)
    return folder


def test_incomplete_runs_are_refused_unless_asked_for(tmp_path):
    run = play(tmp_path / "run", stop_after=2)
    with pytest.raises(UsageError, match=r"[1-4] of 6 planned .*[1-4] missing.*eval --resume .*run.*--incomplete"):
        pack_run(tmp_path / "run", tmp_path / "out")
    assert_nothing_left(tmp_path / "out", tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "out", incomplete=True)
    rows = rows_of(tmp_path / "out")
    assert [row.key for row in rows] == [key for key, *_ in run.suite.episodes()]
    lacking = [row.status == "missing" for row in rows]
    assert not any(lacking[:2]) and all(lacking[-2:])  # what was being played when the reader left is kept too
    missing = [row for row in rows if row.status == "missing"]
    assert all(not row.turns and not row.result.success and row.prompt_sha256 == "" for row in missing)
    assert all(row.task_digest == next(d for t, d, _ in run.suite.entries[0].tasks if t == row.task) for row in rows)
    shutil.rmtree(tmp_path / "out")
    (tmp_path / "run" / "journal.jsonl").unlink()
    pack_run(tmp_path / "run", tmp_path / "out", incomplete=True)
    assert {row.status for row in rows_of(tmp_path / "out")} == {"missing"}


def test_smoke_runs_and_taken_targets_are_refused(run_folder, tmp_path):
    play(tmp_path / "smoke", smoke=True)
    with pytest.raises(UsageError, match="smoke run"):
        pack_run(tmp_path / "smoke", tmp_path / "out")
    (tmp_path / "file").write_text("kept")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept").write_text("kept")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty", target_is_directory=True)
    for target in ("file", "full", "link"):
        with pytest.raises(UsageError, match="no empty directory"):
            pack_run(run_folder, tmp_path / target)
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "kept").read_text() == "kept"
    with pytest.raises(UsageError, match="cannot be made"):
        pack_run(run_folder, tmp_path / "file" / "out")
    with pytest.raises(UsageError, match="no folder of a run"):
        pack_run(tmp_path, tmp_path / "out")
    pack_run(run_folder, tmp_path / "empty")
    assert len(rows_of(tmp_path / "empty")) == 6
    assert {path.name for path in tmp_path.iterdir()} == {"smoke", "file", "full", "empty", "link"}


def test_a_killed_packing_leaves_no_target(run_folder, tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from agent_envs.evaluation.submission import pack\n"
        "pack._publish = lambda *_: os._exit(9)\n"
        "pack.pack_run(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(run_folder), str(tmp_path / "out")], check=False)
    assert ran.returncode == 9 and not (tmp_path / "out").exists()
    pack_run(run_folder, tmp_path / "out")
    assert len(rows_of(tmp_path / "out")) == 6


@pytest.mark.parametrize(
    "text", ['{"schema": 1}', "{}", "[]", "no", '{"schema": "agent-envs/about@1", "x": 1}', "\xff" * 70_000]
)
def test_files_of_about_that_are_refused(run_folder, text, tmp_path):
    (tmp_path / "about.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="--about"):
        pack_run(run_folder, tmp_path / "out", tmp_path / "about.json")
    with pytest.raises(UsageError, match="cannot be read"):
        pack_run(run_folder, tmp_path / "out", tmp_path / "none.json")
    assert_nothing_left(tmp_path / "out", tmp_path / "about.json")


def test_a_run_that_was_played_otherwise_than_planned_is_refused(run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "run")
    path = tmp_path / "run" / "journal.jsonl"
    head, first, *rest = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(first)["row"]

    def write(row, *more):
        text = canonical_json(row)
        line = f'{{"row":{text},"sha":"{hashlib.sha256(text.encode()).hexdigest()[:16]}"}}'
        path.write_text("\n".join([head, line, *more]) + "\n", encoding="utf-8")

    header = row["trajectory"]["header"]
    for name, value in (("seed", 5), ("task_digest", "0" * 64), ("spec_digest", "0" * 64), ("branch", "b")):
        write({**row, "trajectory": {**row["trajectory"], "header": {**header, name: value}}}, *rest)
        with pytest.raises(UsageError, match=f"another {name} than planned"):
            pack_run(tmp_path / "run", tmp_path / "out")
    write(row, first, *rest)
    with pytest.raises(UsageError, match="there twice"):
        pack_run(tmp_path / "run", tmp_path / "out")
    write({**row, "usage": {"input": -1}}, *rest)
    with pytest.raises(UsageError, match="usage.input"):
        pack_run(tmp_path / "run", tmp_path / "out")
    assert_nothing_left(tmp_path / "out", tmp_path / "run")
    write(row, *rest)
    pack_run(tmp_path / "run", tmp_path / "out")
