"""FAISS' indexes against plain arithmetic: what they find, ties, recall, and the files they are kept in."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agent_envs.tools.retrieval.vectors import KINDS, VectorIndex, build_index, get_vector_index, measured_recall
from tests.needs import needs

pytestmark = needs("[dense]")


def unit_vectors(rows: int, width: int = 16, seed: int = 0) -> NDArray[np.float32]:
    found = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.mark.parametrize(("kind", "least"), [("flat", 1.0), ("sq8", 0.97), ("ivf", 0.8), ("hnsw", 0.95)])
def test_indexes_find_the_nearest(kind: str, least: float) -> None:
    vectors, queries = unit_vectors(3_000), unit_vectors(40, seed=1)
    index = VectorIndex(build_index(kind, vectors))
    recall = measured_recall(index, vectors, queries)
    assert least <= recall <= 1
    found = 0
    for query in queries:
        rows, scores = index.top(query, 10)
        truth = vectors.astype(np.float64) @ query
        assert scores == pytest.approx(truth[rows], abs=1e-5 if kind in ("flat", "hnsw") else 0.02)
        assert scores == sorted(scores, reverse=True)
        found += len(set(rows) & set(np.argsort(-truth)[:10].tolist()))
        if kind == "flat":
            assert rows == np.argsort(-truth)[:10].tolist()
    assert recall == pytest.approx(found / 400)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_indexes_of_few_vectors(kind: str, rows: int) -> None:
    index = VectorIndex(build_index(kind, unit_vectors(rows)))
    assert sorted(index.top(unit_vectors(1)[0], 9)[0]) == list(range(rows))
    assert index.top(unit_vectors(1)[0], 0) == ([], [])


@pytest.mark.parametrize("kind", ["flat", "sq8"])
def test_ties_come_in_rising_rows_however_many_they_are(kind: str) -> None:
    vectors = np.concatenate([unit_vectors(30), np.tile(unit_vectors(1, seed=5), (300, 1)), unit_vectors(30, seed=2)])
    index = VectorIndex(build_index(kind, vectors))
    rows, scores = index.top(vectors[40], 50)
    assert rows == list(range(30, 80))
    assert len(set(scores)) == 1
    assert index.top(vectors[40], 3)[0] == [30, 31, 32]


def test_scores_that_agree_when_rounded_are_ties_beyond_the_cut_too() -> None:
    vectors = np.stack([0.01 + np.arange(300) * 1e-9, np.zeros(300)], axis=1).astype(np.float32)
    index = VectorIndex(build_index("flat", vectors))
    assert index.top(np.array([1.0, 0.0]), 5) == ([0, 1, 2, 3, 4], [0.01] * 5)


def test_approximate_indexes_tell_their_recall_and_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors, queries = unit_vectors(2_000), unit_vectors(50, seed=1)
    asked = []

    def ask() -> NDArray[np.float32]:
        asked.append(1)
        return queries

    indexes = {}
    for kind in KINDS:
        for _ in range(2):
            indexes[kind] = get_vector_index(kind, vectors, "vectors", tmp_path, ask)
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in told] == ["ivf", "hnsw"]
    assert len(asked) == 2
    for kind, line in zip(("ivf", "hnsw"), told, strict=True):
        recall = measured_recall(indexes[kind], vectors, queries)
        assert indexes[kind].recall == pytest.approx(recall, abs=1e-4)
        assert f"{recall:.1%}" in line
    assert indexes["flat"].recall is None
    assert len([path for path in (tmp_path / "faiss").iterdir() if path.is_dir()]) == 3


def test_a_damaged_index_is_built_again(tmp_path: Path) -> None:
    vectors = unit_vectors(300)
    truth = get_vector_index("hnsw", vectors, "v", tmp_path, lambda: vectors[:5]).top(vectors[3], 5)
    (path,) = (tmp_path / "faiss").glob("*/index.faiss")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert get_vector_index("hnsw", vectors, "v", tmp_path, lambda: vectors[:5]).top(vectors[3], 5) == truth
    assert path.read_bytes() != bytes(data)


@pytest.mark.parametrize("other", [("sq8", 16, "v"), ("hnsw", 8, "v"), ("hnsw", 16, "w")])
def test_a_folder_of_other_vectors_is_not_taken(other: tuple[str, int, str], tmp_path: Path) -> None:
    vectors = unit_vectors(300)[:, :16]
    truth = get_vector_index("hnsw", vectors, "v", tmp_path, lambda: vectors[:5]).top(vectors[3], 5)
    (folder,) = (path.parent for path in (tmp_path / "faiss").glob("*/index.faiss"))
    kind, width, name = other
    get_vector_index(kind, -vectors[:, :width], name, tmp_path / "b", lambda: vectors[:5, :width])
    (copied,) = (path.parent for path in (tmp_path / "b" / "faiss").glob("*/index.faiss"))
    shutil.rmtree(folder)
    copied.rename(folder)
    assert get_vector_index("hnsw", vectors, "v", tmp_path, lambda: vectors[:5]).top(vectors[3], 5) == truth
