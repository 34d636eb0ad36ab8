"""The index files of large corpora: built once, checked when read, safe with several processes."""

import json
import os
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from agent_envs.base.caches import cache_dir
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import UsageError
from agent_envs.tools.retrieval import bm25
from agent_envs.tools.retrieval.bm25 import BM25Index, BM25Settings, build_files, get_index
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.index_files import load_index, save_index
from tests.tools.retrieval.corpora import Stages, large_corpus

QUERIES = ["w1 w2", "w77 w3 w3", "w250", "absent"]


@pytest.fixture(scope="module")
def corpus() -> MemoryCorpus:
    return large_corpus("cache")


@pytest.fixture(scope="module")
def truth(corpus: MemoryCorpus) -> list[object]:
    index = BM25Index(BM25Settings(), build_files(corpus, BM25Settings()))
    return [index.top(query, 10) for query in QUERIES]


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "_LARGE", OrderedDict())


def answers(corpus: MemoryCorpus, folder: Path, progress: Stages) -> list[object]:
    bm25._LARGE.clear()  # as a new process would begin
    index = get_index(corpus, cache_dir=folder, progress=progress)
    return [index.top(query, 10) for query in QUERIES]


def test_second_process_reads_what_the_first_built(corpus: MemoryCorpus, truth: list[object], tmp_path: Path) -> None:
    first, second = Stages(), Stages()
    assert answers(corpus, tmp_path, first) == truth
    assert answers(corpus, tmp_path, second) == truth
    assert (first, second) == (["tokenize", "score", "save"], [])
    assert len(list((tmp_path / "bm25").iterdir())) == 1


def test_other_settings_have_their_own_files(corpus: MemoryCorpus, tmp_path: Path) -> None:
    get_index(corpus, BM25Settings(), tmp_path)
    get_index(corpus, BM25Settings(k1=0.9), tmp_path)
    get_index(MemoryCorpus(corpus.passages[:-1]), BM25Settings(), tmp_path)
    assert len(list((tmp_path / "bm25").iterdir())) == 3


def test_small_corpora_leave_no_files(corpus: MemoryCorpus, tmp_path: Path) -> None:
    get_index(MemoryCorpus(corpus.passages[: bm25.SMALL_CORPUS]), cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_arrays_are_mapped_and_cannot_be_written(corpus: MemoryCorpus, tmp_path: Path) -> None:
    loaded = save_index(build_files(corpus, BM25Settings()), tmp_path / "index")
    with pytest.raises(ValueError, match="read-only"):
        loaded.scores[0] = 1.0
    assert isinstance(loaded.scores.base, np.memmap)


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "flipped byte": lambda folder: flip_a_byte(folder / "scores.npy"),
    "truncated": lambda folder: (folder / "rows.npy").write_bytes((folder / "rows.npy").read_bytes()[:-8]),
    "missing": lambda folder: (folder / "starts.npy").unlink(),
    "vocabulary": lambda folder: (folder / "vocabulary.json").write_text("[]"),
    "manifest gone": lambda folder: (folder / "manifest.json").unlink(),
    "manifest cut": lambda folder: (folder / "manifest.json").write_text("{"),
    "manifest empty": lambda folder: (folder / "manifest.json").write_text("{}"),
    "manifest a list": lambda folder: (folder / "manifest.json").write_text("[1]"),
    "no documents": lambda folder: _without_documents(folder / "manifest.json"),
}


def _without_documents(path: Path) -> None:
    manifest = json.loads(path.read_text())
    del manifest["documents"]
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_built_again(damage: str, corpus: MemoryCorpus, truth: list[object], tmp_path: Path) -> None:
    answers(corpus, tmp_path, Stages())
    (folder,) = (tmp_path / "bm25").iterdir()
    DAMAGES[damage](folder)
    assert load_index(folder) is None
    rebuilt, read = Stages(), Stages()
    assert answers(corpus, tmp_path, rebuilt) == truth
    assert answers(corpus, tmp_path, read) == truth
    assert (rebuilt, read) == (["tokenize", "score", "save"], [])
    assert list((tmp_path / "bm25").iterdir()) == [folder]


def test_a_good_folder_that_came_first_stays(corpus: MemoryCorpus, tmp_path: Path) -> None:
    files = build_files(corpus, BM25Settings())
    save_index(files, tmp_path / "index")
    inode = (tmp_path / "index").stat().st_ino
    save_index(files, tmp_path / "index")
    assert (tmp_path / "index").stat().st_ino == inode
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_build_sweeps_what_killed_builds_left_a_day_ago(corpus: MemoryCorpus, tmp_path: Path) -> None:
    for name, hours in (("old", 25), ("young", 23)):
        leftover = tmp_path / "bm25" / f".building-{name}"
        leftover.mkdir(parents=True)
        (leftover / "scores.npy").write_bytes(b"half")
        then = time.time() - hours * 3600
        os.utime(leftover, (then, then))
    get_index(corpus, cache_dir=tmp_path)
    assert sorted(path.name for path in (tmp_path / "bm25").glob(".building-*")) == [".building-young"]


def test_okapi_has_files_of_its_own_in_double_precision(corpus: MemoryCorpus, tmp_path: Path) -> None:
    settings = BM25Settings(method="okapi")
    built = BM25Index(settings, build_files(corpus, settings))
    truth = [built.top(query, 10) for query in QUERIES]
    for _ in range(2):
        bm25._LARGE.clear()
        index = get_index(corpus, settings, tmp_path)
        assert [index.top(query, 10) for query in QUERIES] == truth
    (folder,) = (tmp_path / "bm25").iterdir()
    assert load_index(folder).scores.dtype == np.float64  # type: ignore[union-attr]


def test_a_cache_that_cannot_be_written_names_the_variable(corpus: MemoryCorpus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UsageError, match="AGENT_ENVS_CACHE"):
        get_index(corpus, cache_dir=tmp_path / "file")


BUILD = """
import random, sys
from pathlib import Path
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.bm25 import get_index
rng = random.Random("processes")
corpus = MemoryCorpus(Passage(str(row), "", f"w{rng.randrange(99)} w{rng.randrange(99)}") for row in range(3000))
print("ready", flush=True)
sys.stdin.readline()
stages = []
index = get_index(corpus, cache_dir=Path(sys.argv[1]), progress=lambda stage, fraction: stages.append(stage))
print(index.top("w5 w7", 5))
"""


@pytest.mark.parametrize("damaged", [False, True])
def test_processes_that_build_at_once_all_succeed(damaged: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    if damaged:
        subprocess.run(command, env=environment, input="\n", text=True, check=True, capture_output=True)
        (folder,) = (tmp_path / "bm25").iterdir()
        flip_a_byte(folder / "scores.npy")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [subprocess.Popen(command, env=environment, text=True, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert len(set(outputs)) == 1
    assert outputs[0][1] == ""
    (folder,) = (tmp_path / "bm25").iterdir()
    assert load_index(folder) is not None


def test_cache_dir_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "chosen"))
    assert cache_dir() == tmp_path / "chosen"
    monkeypatch.delenv("AGENT_ENVS_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "agent_envs"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "agent_envs"


def test_make_retriever_keeps_large_indexes_in_the_users_cache(
    corpus: MemoryCorpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path))
    make_retriever("bm25", corpus)
    assert len(list((tmp_path / "bm25").iterdir())) == 1


def test_a_corpus_that_does_not_fit_is_refused_before_it_is_read():
    class Vast:
        digest = "vast"

        def __len__(self) -> int:
            return 21_015_324

        def __getitem__(self, row: int) -> Passage:
            raise AssertionError("not reached")

        def row(self, passage_id: str) -> int:
            raise KeyError(passage_id)

    with pytest.raises(UsageError, match='21,015,324 passages needs about 105 GB.*retriever="tantivy"'):
        build_files(Vast(), BM25Settings())
