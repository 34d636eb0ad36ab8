"""A journal that was cut or damaged: recovered or refused, never wrong."""

import json
import random

import pytest

from agent_envs import UsageError, run_many
from agent_envs.base.jsonl_log import Journal, read_journal, set_aside
from agent_envs.rollout.run_many import RunLog, set_damaged_aside
from tests.rollout.test_run_many import Lines, planned, results

PLAN = planned(2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "journal"
    list(run_many(PLAN, Lines(), journal=path))
    return path.read_bytes()


@pytest.fixture(scope="module")
def truth():
    return results(run_many(PLAN, Lines()))


def test_cut_at_every_byte_only_whole_rows_are_read(whole, tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(whole)
    rows = list(read_journal(path))
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert list(read_journal(path)) == rows[: sum(end <= cut for end in ends)], cut


def test_cut_within_the_last_row_the_run_goes_on(whole, truth, tmp_path):
    path = tmp_path / "journal"
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    kept = whole[:start]
    # A sync of the disk each; that every byte reads alike the test above holds.
    for cut in (*range(start, start + 9), *range(start + 9, len(whole) - 9, 7), *range(len(whole) - 9, len(whole))):
        path.write_bytes(whole[:cut])
        again = list(run_many(PLAN, Lines(), journal=path))
        assert len(again) == len(PLAN) and results(again) == truth, cut
        assert path.read_bytes().startswith(kept) and path.read_bytes().count(b"\n") == len(PLAN) + 1, cut


def test_a_flipped_bit_of_the_last_row_is_played_again(whole, truth, tmp_path):
    path = tmp_path / "journal"
    start = whole.rstrip(b"\n").rindex(b"\n") + 1
    flips = [(at, bit) for at in range(start, len(whole)) for bit in range(8)]
    for at, bit in random.Random("flips").sample(flips, 200):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        assert results(run_many(PLAN, Lines(), journal=path)) == truth, (at, bit)


def test_a_flipped_bit_before_the_last_row_is_refused(whole, tmp_path):
    path = tmp_path / "journal"
    start = whole.rstrip(b"\n").rindex(b"\n")
    rng = random.Random("earlier flips")
    for _ in range(300):
        at, bit = rng.randrange(start), rng.randrange(8)
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match="damaged|another"):
            list(run_many(PLAN, Lines(), journal=path))
        assert path.read_bytes() == bytes(damaged), (at, bit)


def damages(whole, count):
    """Yield texts of a journal with one damage: a bit, zeros over more than a row, a byte more or less behind the head."""
    rng, head = random.Random("set aside"), whole.index(b"\n") + 1
    for number in range(count):
        at = rng.randrange(0 if number % 4 < 2 else head, len(whole) - 1)
        if number % 4 == 0:
            yield whole[:at] + bytes([whole[at] ^ (1 << rng.randrange(8))]) + whole[at + 1 :]
        elif number % 4 == 1:
            end = min(len(whole), at + rng.choice((1, 40, 4_096)))
            yield whole[:at] + bytes(end - at) + whole[end:]
        elif number % 4 == 2:
            yield whole[:at] + whole[at + 1 :]
        else:
            yield whole[:at] + rng.choice((b"x", b"\n", b" ")) + whole[at:]


def test_what_is_damaged_is_set_aside_and_played_again(tmp_path):
    path, beside, plan = tmp_path / "journal", tmp_path / "journal-damaged.jsonl", planned(12)
    truth = results(run_many(plan, Lines(), journal=path))
    whole, kept = path.read_bytes(), 0
    sound = set(whole.splitlines(keepends=True))
    for text in damages(whole, 120):
        path.write_bytes(text)
        beside.unlink(missing_ok=True)
        set_damaged_aside(RunLog(path), plan, Lines())
        kept += len(list(read_journal(path))) - 1
        assert results(run_many(plan, Lines(), journal=path)) == truth, text
        lines = (beside.read_bytes() if beside.exists() else b"") + path.read_bytes()
        assert all(line in lines for line in text.splitlines(keepends=True) if line in sound), text
    assert kept > 0.7 * 120 * len(plan), "what does not need the damaged rows stays"


def test_a_head_that_ran_into_the_next_row_or_was_split_and_a_row_that_is_there_twice_are_mended(
    whole, truth, tmp_path
):
    path = tmp_path / "journal"
    lines = whole.splitlines(keepends=True)
    for text in (
        lines[0][:-1] + b"!" + b"".join(lines[1:]), lines[0][:20] + b"\n" + lines[0][21:] + b"".join(lines[1:]),
        whole + lines[-1], whole + lines[0],
    ):  # fmt: skip
        path.write_bytes(text)
        assert set_damaged_aside(RunLog(path), PLAN, Lines())[0] >= 1
        assert results(run_many(PLAN, Lines(), journal=path)) == truth, text


def test_a_sound_journal_stays_and_one_that_is_written_is_refused(whole, tmp_path):
    path = tmp_path / "journal"
    path.write_bytes(whole)
    assert set_damaged_aside(RunLog(path), PLAN, Lines()) == (0, 0) and path.read_bytes() == whole
    with Journal(path), pytest.raises(UsageError, match="another process"):
        set_aside(path, lambda row, sound: False)
    path.write_bytes(whole[:5] + whole[6:])
    with pytest.raises(UsageError, match="first line"):
        set_damaged_aside(RunLog(path), PLAN, Lines())
    assert path.read_bytes() == whole[:5] + whole[6:]


def test_rows_that_do_not_belong_are_refused(whole, tmp_path):
    path = tmp_path / "journal"
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[-1]]))
    with pytest.raises(UsageError, match="there twice"):
        list(run_many(PLAN, Lines(), journal=path))
    path.write_bytes(lines[0].replace(b'"lines"', b'"liens"') + b"".join(lines[1:]))
    with pytest.raises(UsageError, match="damaged"):
        list(run_many(PLAN, Lines(), journal=path))


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e100, -1e308])
@pytest.mark.parametrize("where", ["seconds", "agent_seconds", "usage", "reward", "term"])
def test_numbers_that_nothing_can_be_reckoned_with_are_refused(where, number, whole, tmp_path):
    rows = [json.loads(line)["row"] for line in whole.splitlines()]
    turn = rows[2]["trajectory"]["turns"]["$tuple"][0]
    if where == "reward":
        turn["reward"] = number
    elif where == "term":
        turn["terms"] = {"$tuple": [{"$tuple": ["luck", number]}]}
    else:
        rows[2][where] = {"input": number} if where == "usage" else number
    with Journal(tmp_path / "journal") as journal:
        for row in rows:
            journal.append(row)
    with pytest.raises(UsageError, match="holds a row that is no episode|cannot be read"):
        list(run_many(PLAN, Lines(), journal=tmp_path / "journal"))
