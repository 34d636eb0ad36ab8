"""FAISS indexes float vectors: exactly by default, approximately by name and then with the recall measured.

    flat    every vector as it is: exact
    sq8     every number in 8 bits: a quarter of the memory, no passage is skipped
    ivf     sq8 in cells, of which a query looks into 32
    hnsw    a graph of neighbours

FAISS is imported here and nowhere else. A single query runs on the thread that asks.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.base.errors import MissingExtra
from agent_envs.base.serialization import digest
from agent_envs.base.terminal import show
from agent_envs.tools.retrieval.embeddings import Vectors
from agent_envs.tools.retrieval.index_files import Progress, install_folder, opened_or_built, read_manifest

KINDS = ("flat", "sq8", "ivf", "hnsw")
APPROXIMATE = ("ivf", "hnsw")
FORMAT = 1  # raise it whenever the same vectors would give another index
DECIMALS = 6  # scores that agree to here are ties
SPARE = 16  # hits that are fetched beyond top_k, to see a tie at the cut,
MOST_TIED = 4_096  # and how many of them at most
PROBES = 32  # cells that a query of ivf looks into
TRAINING_A_CELL = 39  # vectors; FAISS wants so many to place a cell
LINKS, BUILD_WIDTH, SEARCH_WIDTH = 32, 40, 128  # hnsw
ROWS_AT_ONCE = 65_536
RECALL_AT = 10
INDEX = "index.faiss"

Ask = Callable[[], Vectors]


class VectorIndex:
    """Vectors that are ready to be searched. Read-only, so threads may share it.

    Attributes:
        recall: of an approximate index, the measured share of the exact ten that it finds; else None.
    """

    def __init__(self, index: Any, recall: float | None = None) -> None:
        self._index, self.recall = index, recall

    def top(self, query: Vectors, top_k: int) -> tuple[list[int], list[float]]:
        """Return the rows and rounded scores of the vectors nearest to a query, by falling score and rising row; none for 0."""
        most = min(top_k + MOST_TIED, self._index.ntotal)
        if top_k < 1 or most < 1:
            return [], []
        vector = np.ascontiguousarray(query, dtype=np.float32).reshape(1, -1)
        limit = min(top_k + SPARE, most)
        while True:
            scores, rows = self._index.search(vector, limit)
            is_hit = rows[0] >= 0  # an approximate index may find fewer
            ranks = np.rint(scores[0][is_hit].astype(np.float64) * 10**DECIMALS)
            if len(ranks) < limit or limit == most or ranks[-1] < ranks[min(top_k, len(ranks)) - 1]:
                break
            limit = min(4 * limit, most)
        order = np.lexsort((rows[0][is_hit], -ranks))[:top_k]
        return rows[0][is_hit][order].tolist(), (ranks[order] / 10**DECIMALS).tolist()


def build_index(kind: str, vectors: Vectors) -> Any:
    """Return FAISS' index of a kind over vectors of length 1, of which no more than a part is copied at once."""
    faiss = faiss_package()
    width = vectors.shape[1]
    index = _empty_index(faiss, kind, width, len(vectors))
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # threads would link a graph in another order each time
    try:
        if not index.is_trained and len(vectors):
            step = max(1, len(vectors) // (256 * max(1, getattr(index, "nlist", 256))))
            index.train(np.ascontiguousarray(vectors[::step], dtype=np.float32))
        for start in range(0, len(vectors), ROWS_AT_ONCE):
            index.add(np.ascontiguousarray(vectors[start : start + ROWS_AT_ONCE], dtype=np.float32))
    finally:
        faiss.omp_set_num_threads(before)
    return index


def _empty_index(faiss: Any, kind: str, width: int, rows: int) -> Any:
    """Make an empty FAISS index of a kind: flat, sq8, hnsw, or else IVF with cells by the number of rows."""
    product = faiss.METRIC_INNER_PRODUCT
    if kind == "flat":
        return faiss.IndexFlatIP(width)
    if kind == "sq8":
        return faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_8bit, product)
    if kind == "hnsw":
        index = faiss.IndexHNSWFlat(width, LINKS, product)
        index.hnsw.efConstruction, index.hnsw.efSearch = BUILD_WIDTH, SEARCH_WIDTH
        return index
    cells = max(1, min(int(4 * rows**0.5), rows // TRAINING_A_CELL))
    index = faiss.index_factory(width, f"IVF{cells},SQ8", product)
    index.nprobe = min(PROBES, cells)
    return index


def measured_recall(index: VectorIndex, vectors: Vectors, queries: Vectors) -> float:
    """Return the mean share of the exact ten nearest of each query that an index finds among its ten; 1.0 of none."""
    depth = min(RECALL_AT, len(vectors))
    if not depth or not len(queries):
        return 1.0
    scores = np.concatenate(
        [
            np.asarray(vectors[start : start + ROWS_AT_ONCE], dtype=np.float32) @ queries.T
            for start in range(0, len(vectors), ROWS_AT_ONCE)
        ]
    )  # (passages, queries)
    exact = np.argpartition(-scores, depth - 1, axis=0)[:depth].T
    overlaps = [
        len(set(index.top(query, depth)[0]) & set(rows.tolist())) for query, rows in zip(queries, exact, strict=True)
    ]
    return sum(overlaps) / (depth * len(queries))


def get_vector_index(
    kind: str, vectors: Vectors, name: str, cache_dir: Path | None, ask: Ask, progress: Progress | None = None
) -> VectorIndex:
    """Return the index of a corpus' vectors: flat from the vectors themselves, others from the cache folder, else built.

    Args:
        kind: one of `KINDS`.
        vectors: one a passage, of length 1.
        name: a digest that stands for the vectors.
        cache_dir: where indexes are kept; None builds in memory.
        ask: gives the queries with which an approximate index is measured.
        progress: called with a stage and a fraction while an index is built.

    Raises:
        MissingExtra: FAISS is not installed.
        UsageError: the cache cannot be written.
    """
    faiss_package()
    if kind == "flat" or cache_dir is None:
        return _build(kind, vectors, ask, progress)
    folder = cache_dir / "faiss" / digest({"vectors": name, "kind": kind, "format": FORMAT})[:32]
    about = {"vectors": name, "kind": kind, "shape": list(vectors.shape), "format": FORMAT}

    def build() -> VectorIndex:
        """Build the index, measure its recall, install its folder, and return the index."""
        index = _build(kind, vectors, ask, progress)
        install_folder(folder, lambda place: write(place, index), lambda place: _open(place, about) is not None)
        return index

    def write(temporary: Path, index: VectorIndex) -> dict[str, Any]:
        """Write FAISS's index into a folder, and return the description to be stored, with the recall."""
        faiss_package().write_index(index._index, str(temporary / INDEX))
        return {**about, "recall": index.recall}

    return opened_or_built(folder, lambda: _open(folder, about), build, progress)


def _build(kind: str, vectors: Vectors, ask: Ask, progress: Progress | None) -> VectorIndex:
    """Build an index over the vectors; an approximate kind has its recall measured and reported on stderr."""
    if progress is not None:
        progress(kind, 0.0)
    index = VectorIndex(build_index(kind, vectors))
    if kind in APPROXIMATE:
        index.recall = round(measured_recall(index, vectors, ask()), 4)
        show(
            f"{kind} over {len(vectors):,} passages finds {index.recall:.1%} of the exact ten nearest", file=sys.stderr
        )
    if progress is not None:
        progress(kind, 1.0)
    return index


def _open(folder: Path, about: Mapping[str, Any]) -> VectorIndex | None:
    """Load an index from its folder; None if manifest, file or shape do not fit."""
    manifest = read_manifest(folder, about, (INDEX,))
    if manifest is None:
        return None
    try:
        index = faiss_package().read_index(str(folder / INDEX))
    except RuntimeError:  # FAISS' word for a file that it cannot read
        return None
    sound = [index.ntotal, index.d] == about["shape"]
    return VectorIndex(index, manifest.get("recall")) if sound else None


def faiss_package() -> Any:
    """Return the module faiss; raises MissingExtra where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise MissingExtra("faiss-cpu", "dense", "a dense retriever") from None
    return faiss
