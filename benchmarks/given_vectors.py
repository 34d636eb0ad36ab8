"""Vectors of a corpus that were computed elsewhere are checked, and kept where dense retrievers look for their own."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.documents import Corpus
from agent_envs.base.errors import UsageError
from agent_envs.tools.retrieval.embeddings import VECTORS, Encoder, Vectors, about, opened, vectors_folder, write_rows
from agent_envs.tools.retrieval.index_files import install_folder

CHECKED_ROWS = 65_536  # rows that are looked at together


def import_vectors(corpus: Corpus, encoder: Encoder, vectors: Path, ids: Path, cache_dir: Path) -> None:
    """Check vectors that were computed elsewhere and keep them where `corpus_vectors` looks; sound ones there stay.

    Args:
        corpus: the passages that they belong to.
        encoder: the model that made them, which will encode the queries.
        vectors: a .npy file of numbers, one row a passage, each of length 1.
        ids: the passages' ids in the order of the rows: a JSON list (a whole number counts as its text), or a text file
            with one a line.
        cache_dir: the cache.

    Raises:
        UsageError: they do not belong to this corpus or model; the message says what differs.
    """
    try:
        matrix = np.load(vectors, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{vectors} is no .npy file of numbers: {error}") from None
    if not isinstance(matrix, np.ndarray):
        raise UsageError(f"{vectors} is no .npy file of numbers but an archive of several: take the one out")
    order = _order(corpus, ids)
    if matrix.shape != (len(corpus), encoder.width) or matrix.dtype.kind not in "fi":
        raise UsageError(
            f"{vectors} holds {matrix.shape} {matrix.dtype}; the corpus under {encoder.name} needs numbers of shape "
            f"({len(corpus)}, {encoder.width})"
        )
    folder = vectors_folder(corpus, encoder, cache_dir)

    def checked() -> Iterator[bytes]:
        """Yield the vectors in the corpus's order as bytes, once each block is checked."""
        for start in range(0, len(corpus), CHECKED_ROWS):
            rows = matrix[order[start : start + CHECKED_ROWS]]
            _check_rows(rows, encoder, vectors)
            yield rows.astype(encoder.dtype).tobytes()

    def write(temporary: Path) -> dict[str, Any]:
        """Write the imported vectors into a folder, and return the description to be stored."""
        write_rows(temporary / VECTORS, encoder.dtype, matrix.shape, checked())
        return {**about(corpus, encoder), "imported": True}

    install_folder(folder, write, lambda place: opened(place, corpus, encoder) is not None)


def _order(corpus: Corpus, ids: Path) -> NDArray[np.intp]:
    """Return the row of the imported vectors for each passage; UsageError unless the ids name each passage once."""
    try:
        text = ids.read_text("utf-8")
        names = json.loads(text) if text.lstrip().startswith("[") else text.splitlines()
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{ids} is no list of ids: {error}") from None
    order = np.full(len(corpus), -1, dtype=np.intp)
    for place, name in enumerate(names):
        try:
            order[corpus.row(str(name) if type(name) is int else name)] = place
        except (KeyError, TypeError, AttributeError):
            raise UsageError(f"{ids}: line {place + 1} names {name!r}, which the corpus does not hold") from None
    if len(names) != len(corpus) or (order < 0).any():
        raise UsageError(f"{ids} names {len(names)} passages; it must name each of the corpus' {len(corpus)} once")
    return order


def _check_rows(rows: Vectors, encoder: Encoder, path: Path) -> None:
    """Check that given vectors are what the encoder writes: whole numbers up to 127, or length 1."""
    numbers = np.asarray(rows, dtype=np.float64)
    if encoder.dtype == "int8":
        if not ((numbers == np.rint(numbers)) & (np.abs(numbers) <= 127)).all():
            raise UsageError(f"{path}: {encoder.name} needs whole numbers from -127 to 127")
        return
    lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    if not np.isfinite(lengths).all() or (np.abs(lengths - 1) > 1e-2).any():
        raise UsageError(f"{path}: each vector must have length 1, as {encoder.name}'s have")
