"""Rows of a journal store each text that was shown once, come back as they were, and rows of before are still read."""

import json
import math
from dataclasses import MISSING, fields, replace

import pytest

from agent_envs import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal, read_places
from agent_envs.base.messages import Message, ToolCall, ToolResult
from agent_envs.base.protocol import Answer, Call, Malformed, Say
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.rollout import run_many
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.run_many import OLD_SCHEMA, RunJournal, RunLog, read_rows, result_of
from tests import ROOT

STORED = ROOT / "tests" / "stored" / "run" / "journal.jsonl"
DEFAULTS = {
    "Header": {"branch": ""}, "Message": {"tool_calls": (), "tool_call_id": ""}, "ToolResult": {"error": False, "ids": ()},
    "Trajectory": {"task": None, "success": False},
    "Turn": {"results": (), "reward": 0.0, "terms": (), "terminated": False, "truncated": False, "events": (),
             "context": "append", "token_ids": (), "logprobs": (), "entropies": (), "sampled": (),
             "finish_reason": "", "outcome": "acted", "opaque": ""},
}  # fmt: skip
TEXT = "a passage that is longer than forty characters, shown and returned"


def episode(**changes):
    shown, result = Message("user", TEXT, "tool"), ToolResult("call_0", "search", TEXT)
    turns = (Turn(1, "k/", "x", Answer("x"), (shown,), (result,)), Turn(2, "k/", 3, None, (), reward=-0.0))
    return replace(Trajectory(Header("e", "s", "t", "test", "d", 1, "k"), (shown,), turns), **changes)


def test_a_text_is_stored_once_and_comes_back_to_the_sign_of_zero():
    row = json.loads(json.dumps(episode().to_lean_json()))
    assert json.dumps(row).count(TEXT) == 1 and '"logprobs"' not in json.dumps(row)
    again = Trajectory.from_json(row)
    assert again == episode() and math.copysign(1, again.turns[1].reward) == -1
    assert again.to_json() == episode().to_json()


def test_rows_of_before_are_read_as_the_rows_of_now(tmp_path):
    head, *rows = read_journal(STORED)
    assert rows and all(row["trajectory"]["schema"] == "agent-envs/trajectory@1" for row in rows)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(STORED.read_bytes())
    old = [result_of(row, path) for row in rows]
    with Journal(path) as journal:  # an old run goes on with new rows
        for row, (_, result) in zip(rows, old, strict=True):
            journal.append({**row, "trajectory": result.trajectory.to_lean_json()})
    _, *both = read_journal(path)
    assert [result_of(row, path) for row in both] == [*old, *old]


@pytest.mark.parametrize("place", [1, "0", None, 0.0, {}])
def test_a_reference_to_nothing_is_refused(place):
    row = json.loads(json.dumps(episode().to_lean_json()).replace('{"$text": 0}', json.dumps({"$text": place})))
    with pytest.raises(UsageError, match="cannot be read"):
        Trajectory.from_json(row)


def test_a_small_row_cannot_stand_for_a_huge_episode():
    many = episode(prompt=(Message("user", TEXT * 1000, "tool"),) * 1000)
    assert many.to_lean_json()["texts"] == []  # what no reader would take is stored as it is
    assert Trajectory.from_json(many.to_lean_json()) == many
    row = episode().to_lean_json()
    row["texts"][0] = "x" * 8_000_000
    with pytest.raises(UsageError, match="come to more than"):
        Trajectory.from_json(row)
    for texts in ([1], [], None, 3):
        with pytest.raises(UsageError, match="cannot be read"):
            Trajectory.from_json({**row, "texts": texts})


def test_the_defaults_of_stored_types_are_those_of_the_layout():
    """A row leaves them out, so that another default would change what old rows mean."""
    stored = (Answer, Call, Header, Malformed, Message, Say, ToolCall, ToolResult, Trajectory, Turn)
    defaults = {
        kind: {field.name: field.default for field in fields(kind) if field.default is not MISSING} for kind in stored
    }
    assert {kind.__name__: found for kind, found in defaults.items() if found} == DEFAULTS
    assert not any(field.default_factory is not MISSING for kind in stored for field in fields(kind))


def kept(path, count, **head):
    journal = RunJournal(RunLog(path), head)
    list(journal.finished())
    for number in range(count):
        journal.keep(Planned(f"k{number}", "", "t", "test", 1), EpisodeResult(episode(), "terminated"))
    journal.close()


def test_a_text_is_stored_once_in_a_journal_and_again_by_the_process_that_goes_on(tmp_path):
    path = tmp_path / "j"
    kept(path, 3)
    assert path.read_text().count(TEXT) == 1
    path.write_bytes(path.read_bytes()[:-5])  # killed in mid-line
    kept(path, 2)
    assert path.read_text().count(TEXT) == 2
    assert [result_of(row, path)[1].trajectory for row in [*read_rows(path)][1:]] == [episode()] * 4


def test_a_journal_of_before_goes_on_without_references(tmp_path):
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append({"schema": OLD_SCHEMA})
    kept(path, 2)
    assert path.read_text().count(TEXT) == 2 and len([*read_rows(path)]) == 3


NOWHERE = (
    [0, 0], [10**9, 0], [10**30, 0], [-1, 0], [True, 0], [False, 0], ["0", 0], [[0], 0], [0], [0, 0, 0], {}, {"a": 1, "b": 2}
)  # fmt: skip


@pytest.mark.parametrize("reference", [*NOWHERE, 1, None, True, 0.5])
def test_a_reference_to_no_earlier_text_is_refused(tmp_path, reference):
    path = tmp_path / "j"
    kept(path, 1)
    row = [*read_journal(path)][1]
    with Journal(path) as journal:
        journal.append({**row, "trajectory": {**row["trajectory"], "texts": [reference]}})
    with pytest.raises(UsageError):
        [result_of(row, path) for row in [*read_rows(path)][1:]]


@pytest.mark.parametrize("place", [-1, True, False, 0.0, 1, 10**30, "0", None])
@pytest.mark.parametrize("moved", [0, 1, 9])
def test_only_the_first_byte_of_an_earlier_row_and_the_number_of_a_text_make_a_reference(tmp_path, place, moved):
    path = tmp_path / "j"
    kept(path, 1)
    (_, _), (row, start) = read_places(path)
    for reference, sound in (([start, 0], True), ([start + moved, place], False)):
        with Journal(tmp_path / "again") as journal:
            journal.path.write_bytes(path.read_bytes())
            journal.append(with_texts(row, [reference]))
        if sound:
            assert [*read_rows(journal.path)][2] == row
        else:
            with pytest.raises(UsageError, match=r"no episode|damaged"):
                [*read_rows(journal.path)]


def with_texts(row, texts):
    return {**row, "trajectory": {**row["trajectory"], "texts": texts}}


def test_references_lead_to_no_other_reference_to_no_later_row_and_to_no_own_text(tmp_path, monkeypatch):
    path = tmp_path / "j"
    kept(path, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    (_, _), (first, start), (second, begin) = read_places(path)
    assert second["trajectory"]["texts"] == [[start, 0]]
    chain, own, cycle = [begin, 0], [path.stat().st_size, 1], [path.stat().st_size, 0]
    for texts in ([chain], [own, TEXT], [cycle], [[path.stat().st_size + 1, 0]]):
        for known in (256, 0):  # the same whether the earlier row is at hand or read again
            monkeypatch.setattr(run_many, "KNOWN_ROWS", known)
            path.write_bytes(b"".join(lines))
            with Journal(path) as journal:
                journal.append(with_texts(first, texts))
                journal.append(first)
            with pytest.raises(UsageError, match="no episode"):
                [*read_rows(path)]
    path.write_bytes(lines[0] + lines[2] + lines[1])  # rows in another order
    with pytest.raises(UsageError, match=r"no episode|damaged"):
        [*read_rows(path)]


@pytest.mark.parametrize("texts", ["abc", {"a": 1}, 3, None, True])
def test_texts_that_are_no_list_are_refused_in_their_row_and_behind_a_reference(tmp_path, texts):
    path = tmp_path / "j"
    kept(path, 1)
    (_, _), (row, _) = read_places(path)
    with Journal(path) as journal:
        journal.append(with_texts(row, texts))
    with pytest.raises(UsageError, match="its texts are a"):
        [*read_rows(path)]


def test_few_rows_are_held_however_many_a_row_refers_to(tmp_path, monkeypatch):
    monkeypatch.setattr(run_many, "KNOWN_ROWS", 2)
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append({"schema": run_many.RUN_SCHEMA})
        row = {"trajectory": {"texts": [TEXT]}}
        starts = [journal.append(with_texts(row, [f"{TEXT} {number}"])) for number in range(6)]
        journal.append(with_texts(row, [[start, 0] for start in (*starts, *starts)]))
    last = [*read_rows(path)][-1]
    assert last["trajectory"]["texts"] == [f"{TEXT} {number}" for number in range(6)] * 2
