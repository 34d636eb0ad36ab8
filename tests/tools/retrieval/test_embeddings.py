"""Vectors of a corpus: computed once, resumed after a kill, checked, and taken from elsewhere."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import UsageError
from agent_envs.datasets.corpora import FileCorpus
from agent_envs.tools.retrieval.embeddings import VECTORS, corpus_vectors, vectors_folder, write_rows
from agent_envs.tools.retrieval.index_files import install_folder
from benchmarks.given_vectors import import_vectors

ROWS, WIDTH = 50, 8


class Lengths:
    """An encoder of our own: a unit vector by the length of a text; it counts what it encodes."""

    name, width, block = "lengths", WIDTH, 4

    def __init__(self, digest: str = "lengths-1", dtype: str = "float32", most: int = 10**9) -> None:
        self.digest, self.dtype, self.most, self.encoded = digest, dtype, most, 0

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self.encoded >= self.most:
            raise KeyboardInterrupt
        self.encoded += len(texts)
        found = np.zeros((len(texts), WIDTH), dtype=self.dtype)
        for row, text in enumerate(texts):
            found[row, len(text) % WIDTH] = 1
        return found


def corpus_of(rows: int) -> MemoryCorpus:
    return MemoryCorpus(Passage(f"§ {row}:{row}", "t" * (row % 3), "x" * row) for row in range(rows))


CORPUS = corpus_of(ROWS)


def computed(encoder: Lengths | None = None) -> NDArray[np.float32]:
    return np.asarray(corpus_vectors(CORPUS, encoder or Lengths(), None))


def folders(cache: Path) -> list[Path]:
    return [path for path in (cache / "vectors").iterdir() if path.is_dir()]


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_vectors_are_computed_once_and_then_mapped(dtype: str, tmp_path: Path) -> None:
    first, second, stages = Lengths(dtype=dtype), Lengths(dtype=dtype), []
    vectors = corpus_vectors(CORPUS, first, tmp_path, lambda stage, fraction: stages.append((stage, fraction)))
    again = corpus_vectors(CORPUS, second, tmp_path)
    assert (first.encoded, second.encoded) == (ROWS, 0)
    assert vectors.tolist() == again.tolist() == computed(Lengths(dtype=dtype)).tolist()
    assert again.dtype == np.dtype(dtype)
    assert isinstance(again.base, np.memmap)
    assert [stage for stage, _ in stages] == ["embed"] * 13
    assert [fraction for _, fraction in stages] == sorted({min(row + 4, ROWS) / ROWS for row in range(0, ROWS, 4)})
    assert list((tmp_path / "vectors").glob("*.blocks")) == []


def test_other_corpora_and_models_have_their_own(tmp_path: Path) -> None:
    for corpus, encoder in ((CORPUS, Lengths()), (CORPUS, Lengths("lengths-2")), (corpus_of(ROWS - 1), Lengths())):
        corpus_vectors(corpus, encoder, tmp_path)
        assert encoder.encoded == len(corpus)
    assert len(folders(tmp_path)) == 3


@pytest.mark.parametrize("rows", [0, 1, 4, 5])
def test_corpora_of_any_size(rows: int, tmp_path: Path) -> None:
    for cache in (tmp_path, tmp_path, None):
        assert corpus_vectors(corpus_of(rows), Lengths(), cache).shape == (rows, WIDTH)


def partial_of(cache: Path) -> Path:
    (found,) = (cache / "vectors").glob(".*.blocks")
    return found


def stopped_after(rows: int, cache: Path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        corpus_vectors(CORPUS, Lengths(most=rows), cache)
    return partial_of(cache)


BLOCK_BYTES = 4 * WIDTH * 4 + 32
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "none": (lambda data: data, 20),
    "torn": (lambda data: data[:-7], 16),
    "a torn block more": (lambda data: data + data[:40], 20),
    "a flipped bit in the third block": (lambda data: _flipped(data, 2 * BLOCK_BYTES + 5), 8),
    "a flipped bit in a seal": (lambda data: _flipped(data, BLOCK_BYTES - 1), 0),
    "empty": (lambda data: b"", 0),
}


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_stopped_build_goes_on_after_its_last_sound_block(damage: str, tmp_path: Path) -> None:
    change, kept = DAMAGES[damage]
    partial = stopped_after(20, tmp_path)
    assert len(partial.read_bytes()) == 5 * BLOCK_BYTES
    partial.write_bytes(change(partial.read_bytes()))
    encoder = Lengths()
    assert corpus_vectors(CORPUS, encoder, tmp_path).tolist() == computed().tolist()
    assert encoder.encoded == ROWS - kept
    assert not partial.exists()


KILLED = """
import sys, time
from pathlib import Path
from agent_envs.tools.retrieval.embeddings import corpus_vectors
from tests.tools.retrieval.test_embeddings import CORPUS, Lengths
class Slow(Lengths):
    def encode(self, texts):
        if self.encoded >= 12:
            print("there", flush=True)
            time.sleep(60)
        return super().encode(texts)
corpus_vectors(CORPUS, Slow(), Path(sys.argv[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_process_leaves_its_blocks(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path, os.getcwd()]))}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    encoder = Lengths()
    assert corpus_vectors(CORPUS, encoder, tmp_path).tolist() == computed().tolist()
    assert encoder.encoded == ROWS - 12


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "manifest"])
def test_damaged_files_are_computed_again(damage: str, tmp_path: Path) -> None:
    corpus_vectors(CORPUS, Lengths(), tmp_path)
    (folder,) = folders(tmp_path)
    data = (folder / VECTORS).read_bytes()
    if damage == "gone":
        (folder / VECTORS).unlink()
    elif damage == "manifest":
        (folder / "manifest.json").write_text("{}")
    else:
        (folder / VECTORS).write_bytes(_flipped(data, len(data) - 3) if damage == "flip" else data[:-8])
    encoder = Lengths()
    assert corpus_vectors(CORPUS, encoder, tmp_path).tolist() == computed().tolist()
    assert encoder.encoded == ROWS
    assert folders(tmp_path) == [folder]


class Mirrored(Lengths):
    """Another model of the same width."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return -super().encode(texts)


@pytest.mark.parametrize("whose", ["corpus", "model"])
def test_a_folder_of_another_corpus_or_model_is_not_taken(whose: str, tmp_path: Path) -> None:
    corpus = CORPUS if whose == "model" else MemoryCorpus(list(CORPUS)[::-1])
    other = Mirrored("mirrored") if whose == "model" else Lengths()
    corpus_vectors(corpus, other, tmp_path)
    vectors_folder(corpus, other, tmp_path).rename(vectors_folder(CORPUS, Lengths(), tmp_path))
    encoder = Lengths()
    assert corpus_vectors(CORPUS, encoder, tmp_path).tolist() == computed().tolist()
    assert encoder.encoded == ROWS


@pytest.mark.parametrize("manifest", ['{"files":{}}', '{"files":' + "[" * 100_000, "[]"])
def test_a_manifest_that_names_no_files_passes_nothing(manifest: str, tmp_path: Path) -> None:
    corpus_vectors(CORPUS, Lengths(), tmp_path)
    (folder,) = folders(tmp_path)
    (folder / "manifest.json").write_text(manifest)
    (folder / VECTORS).write_bytes(b"")
    assert corpus_vectors(CORPUS, Lengths(), tmp_path).tolist() == computed().tolist()


def test_a_cache_that_cannot_be_written_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UsageError, match="AGENT_ENVS_CACHE"):
        corpus_vectors(CORPUS, Lengths(), tmp_path / "file")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_an_error_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    def write(folder: Path) -> dict[str, object]:
        (folder / VECTORS).symlink_to("/dev/full")
        write_rows(folder / VECTORS, "float32", (ROWS, WIDTH), [computed().tobytes()])
        return {}

    with pytest.raises(UsageError, match="No space left.*the disk is full: make room"):
        install_folder(tmp_path / "vectors" / "x", write, lambda place: True)
    assert list((tmp_path / "vectors").iterdir()) == []


def test_rows_are_written_as_numpy_does(tmp_path: Path) -> None:
    write_rows(tmp_path / "ours.npy", "float32", (ROWS, WIDTH), [computed()[:7].tobytes(), computed()[7:].tobytes()])
    np.save(tmp_path / "theirs.npy", computed())
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()


def given_files(folder: Path, vectors: NDArray[np.floating], ids: object) -> tuple[Path, Path]:
    np.save(folder / "given.npy", vectors)
    text = ids if isinstance(ids, str) else json.dumps(ids)
    (folder / "ids").write_text(text, "utf-8")
    return folder / "given.npy", folder / "ids"


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_given_vectors_are_put_in_the_order_of_the_corpus(lines: bool, dtype: str, tmp_path: Path) -> None:
    rows = list(reversed(range(ROWS)))
    ids = [CORPUS[row].id for row in rows]
    files = given_files(tmp_path, computed()[rows].astype(dtype), "\n".join(ids) if lines else ids)
    encoder = Lengths()
    import_vectors(CORPUS, encoder, *files, tmp_path)
    assert corpus_vectors(CORPUS, encoder, tmp_path).tolist() == computed().tolist()
    assert encoder.encoded == 0
    assert vectors_folder(CORPUS, encoder, tmp_path) in folders(tmp_path)


IDS = [CORPUS[row].id for row in range(ROWS)]
WRONG = {
    "too few rows": (computed()[:-1], IDS, "needs numbers of shape"),
    "another width": (computed()[:, :-1], IDS, "needs numbers of shape"),
    "not of length 1": (computed() * 2, IDS, "must have length 1"),
    "not a number": (np.where(np.arange(ROWS)[:, None] == 9, np.nan, computed()), IDS, "must have length 1"),
    "an id too few": (computed(), IDS[:-1], "must name each"),
    "an id twice": (computed(), [*IDS[:-1], IDS[0]], "must name each"),
    "a foreign id": (computed(), [*IDS[:-1], "7:7"], "line 50 names '7:7'"),
    "no text": (computed(), [*IDS[:-1], [7]], "line 50 names"),
    "complex numbers": (computed().astype(np.complex64), IDS, "needs numbers"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_given_vectors_of_something_else_are_refused(wrong: str, tmp_path: Path) -> None:
    vectors, ids, words = WRONG[wrong]
    with pytest.raises(UsageError, match=words):
        import_vectors(CORPUS, Lengths(), *given_files(tmp_path, vectors, ids), tmp_path)
    assert list(tmp_path.glob("vectors/*/" + VECTORS)) == []


def test_given_files_that_are_none(tmp_path: Path) -> None:
    vectors, ids = given_files(tmp_path, computed(), IDS)
    for path in (vectors, ids):
        with pytest.raises(UsageError, match="missing"):
            import_vectors(
                CORPUS, Lengths(), *(tmp_path / "missing" if path == p else p for p in (vectors, ids)), tmp_path
            )
    vectors.write_bytes(b"pickled")
    with pytest.raises(UsageError, match=r"no \.npy file"):
        import_vectors(CORPUS, Lengths(), vectors, ids, tmp_path)


def test_given_files_of_another_kind(tmp_path: Path) -> None:
    vectors, ids = given_files(tmp_path, computed(), IDS)
    np.savez(tmp_path / "several.npz", computed(), computed())
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("several.npz", "empty.npy"):
        with pytest.raises(UsageError, match=rf"{name} is no \.npy file"):
            import_vectors(CORPUS, Lengths(), tmp_path / name, ids, tmp_path)
    for text, words in (("[" * 100_000, "is no list of ids"), ("[null]", "line 1 names None")):
        ids.write_text(text)
        with pytest.raises(UsageError, match=words):
            import_vectors(CORPUS, Lengths(), vectors, ids, tmp_path)


def test_ids_may_be_whole_numbers(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": str(row), "title": "T", "text": "x" * row}) + "\n" for row in range(5))
    (tmp_path / "corpus.jsonl").write_text(rows)
    corpus = FileCorpus(tmp_path / "corpus.jsonl")
    truth = np.asarray(corpus_vectors(corpus, Lengths(), None))
    encoder = Lengths()
    import_vectors(corpus, encoder, *given_files(tmp_path, truth[::-1], [4, 3, 2, 1, 0]), tmp_path)
    assert corpus_vectors(corpus, encoder, tmp_path).tolist() == truth.tolist() and encoder.encoded == 0
    with pytest.raises(UsageError, match="line 1 names True"):
        import_vectors(corpus, encoder, *given_files(tmp_path, truth, [True, 1, 2, 3, 4]), tmp_path)


def test_given_int8_vectors_must_be_whole_numbers(tmp_path: Path) -> None:
    encoder = Lengths(dtype="int8")
    with pytest.raises(UsageError, match="whole numbers"):
        import_vectors(CORPUS, encoder, *given_files(tmp_path, computed() / 2, IDS), tmp_path)
    import_vectors(CORPUS, encoder, *given_files(tmp_path, computed() * 127, IDS), tmp_path)
    assert corpus_vectors(CORPUS, encoder, tmp_path).max() == 127
