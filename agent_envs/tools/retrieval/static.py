"""Semantic search works here without a neural network: static word vectors give rankings that are exact on every machine.

A passage's vector is the sum of the vectors of its word pieces, out of the matrix that the package wordllama carries
(trained by its author from a language model's input embeddings; read from its files, the package itself is not imported).
Every step is exact or rounded in one prescribed way, so that no processor, thread count or version of numpy shows:

    sum        the matrix is float16, and sums of such numbers in float64 are exact in any order
    rounding   to int8: 127 times the number, divided by the largest magnitude of the vector, to the nearest, halves to even
    score      the dot product in int32, divided by the lengths: the cosine of the int8 vectors, kept to 6 decimals
    order      by falling score, then rising row
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.caches import SharedCache, shared
from agent_envs.base.documents import Corpus, IndexRetriever
from agent_envs.base.serialization import digest
from agent_envs.tools.retrieval.bm25 import MAX_QUERY_CHARACTERS, SHARED_SMALL, SMALL_CORPUS
from agent_envs.tools.retrieval.embeddings import Vectors, corpus_vectors, pinned_files
from agent_envs.tools.retrieval.index_files import Progress

BEGINNING = "\u2581"
LONGEST_PIECE = (
    100  # characters of a word that are merged together; longer words are cut, as merging takes quadratic time
)
CACHED_WORDS = 200_000


class Subwords:
    """The tables of a published tokenizer. Read-only but for a bounded cache, so threads may share it.

    A text is cut at white space, each word gets the mark of a beginning, and the pair of neighbours that was learned first is
    merged until none is left. For texts with single spaces that is what the `tokenizers` package gives, because no piece of
    such a vocabulary reaches over a space. What the vocabulary does not have is spelled in bytes.
    """

    def __init__(self, vocabulary: Mapping[str, int], merges: Sequence[str]) -> None:
        """Take the number of each piece, and the pairs ("left right") in the order in which they were learned."""
        self._numbers = dict(vocabulary)
        self._ranks = {tuple(pair.split(" ")): rank for rank, pair in enumerate(merges)}
        self._bytes = [self._numbers[f"<0x{value:02X}>"] for value in range(256)]
        self._word = lru_cache(CACHED_WORDS)(self._encode_word)

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces in their order."""
        numbers: list[int] = []
        for word in text.split():
            if len(word) <= LONGEST_PIECE:
                numbers += self._word(word)
            else:
                for start in range(0, len(word), LONGEST_PIECE):
                    numbers += self._word(word[start : start + LONGEST_PIECE])
        return numbers

    def _encode_word(self, word: str) -> tuple[int, ...]:
        """Split a word into tokens by byte-pair merges, the best rank first; unknown pieces become bytes."""
        pieces = [BEGINNING, *word]
        while len(pieces) > 1:
            ranks = [self._ranks.get(pair) for pair in zip(pieces, pieces[1:], strict=False)]
            mergeable = [(rank, place) for place, rank in enumerate(ranks) if rank is not None]
            if not mergeable:
                break
            place = min(mergeable)[1]
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
        numbers: list[int] = []
        for piece in pieces:
            number = self._numbers.get(piece)
            if number is not None:
                numbers.append(number)
            else:  # a lone surrogate, which UTF-8 cannot carry, is spelled as a question mark
                numbers += [self._bytes[value] for value in piece.encode("utf-8", "replace")]
        return tuple(numbers)


PACKAGE = "wordllama"
VERSION = "0.4.0.post1"
WEIGHTS = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"
SHA256 = {
    WEIGHTS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}
WIDTH = 256
DECIMALS = 6  # scores that agree to here are ties; results carry the rounded score
RULE = "sum-int8-1"  # another way from text to vector needs another name


class StaticEncoder:
    """Texts to int8 vectors by a matrix of word vectors. Read-only, so threads may share it."""

    name, width, dtype, block = "static", WIDTH, "int8", 2_048
    digest = digest({"files": SHA256, "rule": RULE})

    def __init__(self, table: NDArray[np.float16], subwords: Subwords) -> None:
        self._table = table.astype(np.float32)
        self._subwords = subwords

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one int8 vector a text, the sum over its pieces scaled to 127; zeros for a text without a word."""
        vectors = np.zeros((len(texts), WIDTH), dtype=np.int8)
        for row, text in enumerate(texts):
            pieces = self._subwords.encode(text)
            if not pieces:
                continue
            total = self._table[pieces].sum(axis=0, dtype=np.float64)
            largest = np.abs(total).max()
            if largest > 0:
                vectors[row] = np.rint(total * 127.0 / largest)
        return vectors


class StaticIndex:
    """The vectors of a corpus, searched whole. Read-only, so threads may share it."""

    def __init__(self, encoder: StaticEncoder, vectors: Vectors) -> None:
        self._encoder, self._vectors = encoder, vectors
        self._lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.int32))  # in float64
        self._worded = self._lengths > 0

    def top(self, query: str, top_k: int) -> tuple[list[int], list[float]]:
        """Return rows and rounded scores of the `top_k` most similar passages with words; [], [] for a query without."""
        vector = self._encoder.encode([query[:MAX_QUERY_CHARACTERS]])[0].astype(np.int32)
        length = float(np.sqrt(np.dot(vector, vector)))
        if top_k < 1 or length == 0 or not len(self._vectors):
            return [], []
        dots = np.einsum("ij,j->i", self._vectors, vector, dtype=np.int32)  # on this thread, as no library is called
        scores = np.full(len(dots), -np.inf)  # a passage without a word is no hit
        np.divide(dots, self._lengths * length, out=scores, where=self._worded)
        return best_similar(scores, top_k)


def best_similar(scores: NDArray[np.float64], top_k: int) -> tuple[list[int], list[float]]:
    """Return the rows and rounded scores of the `top_k` best, ties by rising row; a score of -inf is left out."""
    ranks = np.rint(scores * 10**DECIMALS)
    rows = np.arange(len(ranks))
    if top_k < len(ranks):
        rows = np.flatnonzero(ranks >= np.partition(ranks, -top_k)[-top_k])
    best = rows[np.argsort(-ranks[rows], kind="stable")[:top_k]]
    best = best[ranks[best] > -np.inf]
    return best.tolist(), (ranks[best] / 10**DECIMALS).tolist()


_ENCODER: SharedCache[StaticEncoder] = OrderedDict()
_SMALL: SharedCache[StaticIndex] = OrderedDict()
_LARGE: SharedCache[StaticIndex] = OrderedDict()


def static_encoder() -> StaticEncoder:
    """Return this process's encoder, out of the files of the installed package wordllama.

    Raises:
        MissingExtra: the package is not installed.
        UsageError: its files are others than those that are pinned here.
    """
    return shared(_ENCODER, "static", _read_encoder)


def _read_encoder() -> StaticEncoder:
    """Load the pinned word vectors and tokenizer of the static encoder."""
    paths = pinned_files(PACKAGE, VERSION, SHA256, "legal", "semantic search by static word vectors")
    weights = paths[WEIGHTS].read_bytes()
    start = 8 + int.from_bytes(weights[:8], "little")  # safetensors: a length, a header of that length, the numbers
    table = np.frombuffer(weights, dtype="<f2", offset=start).reshape(-1, WIDTH)
    model = json.loads(paths[TOKENIZER].read_bytes())["model"]
    return StaticEncoder(table, Subwords(model["vocab"], model["merges"]))


def get_static_index(corpus: Corpus, cache_dir: Path | None = None, progress: Progress | None = None) -> StaticIndex:
    """Return this process's one index of a corpus: from memory, else the cache folder, else computed.

    Vectors of more than 2,000 passages are kept in `cache_dir` (None: only in memory).
    """
    encoder = static_encoder()
    small = len(corpus) <= SMALL_CORPUS

    def build() -> StaticIndex:
        """Return the index over the corpus's vectors; those of a small corpus are computed, not stored."""
        return StaticIndex(encoder, corpus_vectors(corpus, encoder, None if small else cache_dir, progress))

    return shared(_SMALL if small else _LARGE, corpus.digest, build, SHARED_SMALL if small else None)


class StaticRetriever(IndexRetriever):
    """Static word vectors as a retriever; copies of an environment share it."""

    name = "static"

    def __init__(self, corpus: Corpus, *, cache_dir: Path | None = None, progress: Progress | None = None) -> None:
        self.corpus = corpus
        self.index = get_static_index(corpus, cache_dir, progress)
