"""The journal under kills, damage and a second writer."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import UsageError
from agent_envs.base import jsonl_log
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import digest
from tests import ROOT
from tests.examples import examples

ROWS = [
    {"n": 0, "text": "é\n\r\u2028"},
    {"n": 1, "text": 'quote " back \\ \ud800'},
    {"n": 2, "list": [1.5, None, True]},
]
TEXTS = st.text(st.characters(), max_size=20)  # lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def written(path, rows=ROWS):
    with Journal(path) as journal:
        for row in rows:
            journal.append(row)
    return path.read_bytes()


def test_rows_come_back_in_order_and_a_reopened_journal_goes_on(tmp_path):
    path = tmp_path / "new" / "folder" / "j.jsonl"
    written(path)
    written(path, [{"n": 3}])
    assert list(read_journal(path)) == [*ROWS, {"n": 3}]
    assert list(read_journal(tmp_path / "missing")) == []


@examples(150)
@given(st.lists(JSON, max_size=4))
def test_any_json_comes_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("journal") / "j"
    written(path, rows)
    assert list(read_journal(path)) == rows
    written(path, ["more"])
    assert list(read_journal(path)) == [*rows, "more"]


def test_halves_of_a_pair_that_stand_side_by_side_stay_two_characters(tmp_path):
    rows = [{"text": "\ud83d" + "\ude00"}, {"text": "\U0001f600"}, {"\ud83d\ude00": "\\\ud83d\ude00"}, "last"]
    written(tmp_path / "j", rows)
    assert list(read_journal(tmp_path / "j")) == rows


def test_a_kill_at_every_byte_keeps_all_complete_rows(tmp_path):
    whole = written(tmp_path / "whole")
    ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")]
    path = tmp_path / "j"
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        complete = ROWS[: sum(end <= length for end in ends)]
        assert list(read_journal(path)) == complete, length
        written(path, [{"after": length}])
        assert list(read_journal(path)) == [*complete, {"after": length}], length


def test_a_flipped_bit_in_the_last_row_never_gives_another_row(tmp_path):
    whole = written(tmp_path / "whole")
    start = whole[:-1].rfind(b"\n") + 1
    path = tmp_path / "j"
    for position in range(start, len(whole)):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[position] ^= 1 << bit
            path.write_bytes(bytes(spoiled))
            rows = []
            try:
                rows.extend(read_journal(path))
            except UsageError:
                continue  # the flip made a newline: two damaged lines
            assert rows == ROWS[:-1], (position, bit)


def test_a_flipped_bit_before_the_last_row_is_refused_and_the_file_is_kept(tmp_path):
    whole = written(tmp_path / "whole")
    middle = whole.index(b"\n") + 1
    path = tmp_path / "j"
    for position in range(middle - 1, whole[:-1].rfind(b"\n")):
        spoiled = bytearray(whole)
        spoiled[position] ^= 4
        path.write_bytes(bytes(spoiled))
        with pytest.raises(UsageError, match="line [12] is damaged"):
            list(read_journal(path))
        with pytest.raises(UsageError, match="line [12] is damaged"):
            Journal(path)
        assert path.read_bytes() == bytes(spoiled)


def test_a_file_of_something_else_is_not_cut(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\nnothing happened\n")
    with pytest.raises(UsageError, match="line 1"):
        Journal(path)
    assert path.read_text() == "dear diary\nnothing happened\n"


def test_a_second_writer_is_refused_here_and_in_another_process(tmp_path):
    path = tmp_path / "j"
    code = "import sys, pathlib; from agent_envs.base.jsonl_log import Journal; Journal(pathlib.Path(sys.argv[1]))"
    other = [sys.executable, "-c", code, str(path)]
    with Journal(path) as journal:
        journal.append(1)
        with pytest.raises(UsageError, match="another process"):
            Journal(path)
        ran = subprocess.run(other, cwd=ROOT, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)})
        assert ran.returncode == 1 and "another process" in ran.stderr
        journal.append(2)
        assert list(read_journal(path)) == [1, 2]
    subprocess.run(other, cwd=ROOT, check=True, env={"PYTHONPATH": str(ROOT)})


def test_a_refused_row_leaves_nothing_behind(tmp_path):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append("sound")
        for row in (float("nan"), {1, 2}, [float("inf")], {"x": object()}):
            with pytest.raises((TypeError, ValueError)):
                journal.append(row)
        journal.append("sound too")
    assert list(read_journal(path)) == ["sound", "sound too"]


def test_every_line_is_readable_by_itself_and_carries_its_digest(tmp_path):
    for line in written(tmp_path / "j").splitlines():
        assert set(json.loads(line)) == {"row", "sha"}


def test_closing_twice_is_fine(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.append({"a": 1})
    journal.close()
    journal.close()
    assert list(read_journal(tmp_path / "j")) == [{"a": 1}]


FULL = """
import resource, signal, sys
from pathlib import Path
from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.jsonl_log import Journal, read_journal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
path, written = Path(sys.argv[1]), 0
try:
    with Journal(path) as journal:
        while True:
            journal.append({"number": written, "text": "x" * 50})
            written += 1
except AgentEnvsError as error:
    print(error)
assert [row["number"] for row in read_journal(path)] == list(range(written))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
with Journal(path) as journal:
    journal.append({"number": written})
print(written, [row["number"] for row in read_journal(path)] == list(range(written + 1)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the limit is one of Unix")
def test_a_full_disk_loses_nothing_that_was_written(tmp_path):
    ran = subprocess.run([sys.executable, "-c", FULL, str(tmp_path / "j")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told, counts = ran.stdout.splitlines()
    assert "cannot be written: File too large" in told and "make room" in told
    count, whole = counts.split()
    assert int(count) >= 5 and whole == "True"


@pytest.mark.parametrize("text", ['{"a": "precious"}\n', "precious", '{"rows": 1}\n', "[1]\n", "\x00" * 20])
def test_somebodys_file_is_refused_and_kept(text, tmp_path):
    path = tmp_path / "one.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is no journal"):
        Journal(path)
    assert path.read_text() == text
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(UsageError, match="is a link"):
        Journal(link)


@pytest.mark.parametrize("torn", ["", "{", '{"row":', '{"row":{"n'])
def test_a_first_row_that_was_torn_is_dropped(torn, tmp_path):
    path = tmp_path / "j"
    path.write_text(torn)
    with Journal(path) as journal:
        journal.append(1)
    assert list(read_journal(path)) == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_folder_or_a_pipe_in_its_place_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path, "is a folder"), (tmp_path / "pipe", "is no file")):
        with pytest.raises(UsageError, match=kind):
            Journal(path)
        with pytest.raises(UsageError, match=kind):
            list(read_journal(path))


def test_a_row_is_read_without_serialising_it_again_and_a_row_that_is_laid_out_otherwise_still_is(
    tmp_path, monkeypatch
):
    path = tmp_path / "j"
    written(path)
    monkeypatch.setattr(jsonl_log, "canonical_json", None)
    assert list(read_journal(path)) == ROWS
    monkeypatch.undo()
    lines = [json.dumps({"sha": digest(row)[:16], "row": row}) + "\n" for row in ROWS]
    path.write_text("".join(lines))
    assert list(read_journal(path)) == ROWS


def test_a_row_that_is_no_json_is_refused_whatever_its_digest_says(tmp_path):
    path = tmp_path / "j"
    for row in ("NaN", "[Infinity]", "{,}", "1 2", '{"reward":1e999}', "[-1e999]", f"{'9' * 400}.0"):
        line = f'{{"row":{row},"sha":"{hashlib.sha256(row.encode()).hexdigest()[:16]}"}}\n'
        path.write_text(line * 2)
        with pytest.raises(UsageError, match="line 1 is damaged"):
            list(read_journal(path))
