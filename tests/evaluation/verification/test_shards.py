"""Shards: bounded when they are written, and when they are read whatever they hold."""

import gzip

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.submission.episode_rows import MOST_RATIO, MOST_ROWS, ShardWriter, row_of, row_text
from agent_envs.evaluation.verification.shards import read_episode_rows, read_lines
from tests.evaluation.submission.packing import gzipped, synthetic
from tests.rows import check_each


def test_shards_are_bounded_and_denser_ones_are_stored_plain(tmp_path):
    writer = ShardWriter(tmp_path / "rows", most_rows=3)
    places = [writer.write(str(number)) for number in range(7)]
    writer.close()
    assert [(path.name, line) for path, line in places[2:5]] == [
        ("0000.jsonl.gz", 3), ("0001.jsonl.gz", 1), ("0001.jsonl.gz", 2),
    ]  # fmt: skip
    writer = ShardWriter(tmp_path / "bytes", most_bytes=10)
    places = [writer.write("x" * size)[0].name[:4] for size in (4, 4, 4, 9)]
    assert places == ["0000", "0000", "0001", "0002"]
    with pytest.raises(UsageError, match="11 bytes"):
        writer.write("x" * 10)
    writer.close()
    writer = ShardWriter(tmp_path / "dense")
    path, _ = writer.write("x" * 5_000_000)
    writer.close()
    assert list(read_lines(path)) == [b"x" * 5_000_000] and path.stat().st_size > 5_000_000 / MOST_RATIO
    assert [item.name for item in (tmp_path / "dense").iterdir()] == ["0000.jsonl.gz"]


def test_hostile_shards_are_refused_while_they_are_read(tmp_path):
    path = tmp_path / "0000.jsonl.gz"
    good = gzipped(b"{}\n")

    def check(data, message):
        path.write_bytes(data)
        with pytest.raises(UsageError, match=message):
            list(read_lines(path))

    rows = [  # made here, not wherever tests are collected: some are large
        (gzipped(b"x" * 5_000_000 + b"\n"), "more rows or bytes"),
        (gzipped(b"\n" * (MOST_ROWS + 1), level=0), "more rows or bytes"),
        (gzipped(b"x" * 16_000_001 + b"\n", level=0), "more rows or bytes"),
        (gzipped((b"x" * 8_000_000 + b"\n") * 4, level=0), "more rows or bytes"),
        (gzipped(b"{}"), "has no end"),
        (good[:-5], "no sound gzip"),
        (good[:-8] + b"\0" * 8, "no sound gzip"),
        (b"{}\n", "no sound gzip"),
        (gzip.compress(b"{}\n", mtime=99), "no time and no name"),
        (good[:3] + b"\x08" + good[4:10] + b"name\0" + good[10:], "no time and no name"),
        (good + good, "one member"),
        (good + b"\0" * 512, "one member"),
        (b"\0" * 40_000_000, "more than a shard"),
    ]
    check_each(check, rows)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda text: text, ""),
        (lambda text: text.replace('"seed":', '"seed": '), "canonical"),
        (lambda text: text.replace('"trial":0', '"trial":0,"trial":0'), "canonical"),
        (lambda text: text.replace('"seconds":0.0,"', '"seconds":0,"'), "canonical"),
        (lambda text: text.replace('"trial":0', '"trial":1'), "chain"),
        (lambda text: text.replace("</answer>1", "</answer>2"), "chain"),
        (lambda text: text.replace('"trial":0', '"trial":-1'), "trial"),
        (lambda text: "", "the row"),
    ],
)
def test_lines_that_are_no_rows_are_refused(change, message, tmp_path):
    text = row_text(row_of(synthetic()))
    changed = change(text)
    assert (changed == text) == (not message)
    path = tmp_path / "0000.jsonl.gz"
    path.write_bytes(gzipped(f"{text}\n{changed}\n".encode()))
    if not message:
        assert len(list(read_episode_rows(path))) == 2
        return
    with pytest.raises(UsageError, match=f"line 2.*{message}"):
        list(read_episode_rows(path))
