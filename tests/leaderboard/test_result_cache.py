"""The cache folder is kept within bounds: what nobody used for longest goes, and nothing else in the folder does."""

import os
import time

import pytest

from leaderboard.command_line import main
from leaderboard.result_cache import FOLDERS, trim


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    now = time.time()
    for number in range(6):
        path = tmp_path / "cache" / FOLDERS[number % 2] / f"{number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (now - 86_400 + number, now - 86_400 + number))
    (tmp_path / "cache" / "corpus.json").write_text("mine")
    (tmp_path / "cache" / "checked" / "link.json").symlink_to(tmp_path / "cache" / "corpus.json")
    return tmp_path / "cache"


def names(cache):
    return sorted(path.stem for path in cache.glob("*/*.jsonl"))


def test_the_oldest_go_until_the_rest_fits(cache):
    assert trim(350) == (3, 300) and names(cache) == ["3", "4", "5"]
    assert trim(350) == (0, 300)


def test_what_was_used_just_now_stays(cache):
    for number in (0, 1):
        os.utime(next(cache.glob(f"*/{number}.jsonl")))
    assert trim(0) == (4, 200) and names(cache) == ["0", "1"]


def test_all_go_by_a_command_and_no_other_file(cache, capsys):
    with pytest.raises(SystemExit) as end:
        main(["clear"])
    assert end.value.code == 0 and "6 files removed, 0.0 MB stay" in capsys.readouterr().out
    assert names(cache) == [] and (cache / "corpus.json").read_text() == "mine"
    assert (cache / "checked" / "link.json").is_symlink()
