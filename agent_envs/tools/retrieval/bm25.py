"""BM25 scores passages with bm25s, exactly and the same in every process, and breaks ties by passage order.

bm25s builds a sparse matrix of scores, one column a term; a query adds up the columns of its terms with numpy. They
are computed in float64, kept in float32 and added in float64. Such a sum is exact for practically every query, so that
neither the order of its terms nor the version of numpy shows, and documents that tie on paper tie here. The method okapi
gives rank-bm25's scores, which are kept in float64, as theirs are.
"""

import math
import re
import unicodedata
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.caches import SharedCache, shared
from agent_envs.base.documents import Corpus, IndexRetriever
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.tools.retrieval.index_files import IndexFiles, Progress, load_index, save_index

EPSILON = 0.25  # rank-bm25's default: a negative idf becomes this much of the mean idf


def okapi_idf(frequencies: Sequence[int], documents: int) -> list[float]:
    """Return Robertson's idf of each term from its document count; negative ones become a quarter of the mean.

    The floor is itself negative where the mean is, as in corpora of one or two documents.
    """
    idf = [math.log(documents - frequency + 0.5) - math.log(frequency + 0.5) for frequency in frequencies]
    floor = EPSILON * math.fsum(idf) / len(idf)
    return [floor if value < 0 else value for value in idf]


def reweigh(matrix: dict[str, Any], documents: int) -> None:
    """Replace Lucene's idf by rank-bm25's Okapi idf in an atire matrix's data, in place."""
    frequencies = np.diff(matrix["indptr"])
    counted = frequencies.tolist()
    present = [math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5)) for frequency in counted]
    okapi = okapi_idf(counted, documents)
    matrix["data"] *= np.repeat(np.array(okapi) / np.array(present), frequencies)


Scores: TypeAlias = NDArray[np.float64]

TOKENIZER = "word-fold-1"
STOP_WORDS = tuple(
    "a an and are as at be been by did do does for from had has have in is it its of on or that the to was were what "
    "which who with".split()
)
METHODS = ("lucene", "robertson", "atire", "bm25+", "okapi")
FORMAT = 1  # raise it whenever the same corpus and settings would give other arrays
DECIMALS = 6  # scores that agree to here are ties; results carry the rounded score
MAX_QUERY_CHARACTERS = 16_384  # what of a query is read: the first characters,
MAX_QUERY_TERMS = 512  # and of their words (stop words apart) the first ones
MOST_PASSAGES = 3_000_000
SMALL_CORPUS = 2_000  # passages; up to here building costs less than reading a file
FEW = 256  # scores up to here are added and sorted without calls that let another thread go on
QUICK_POSTINGS = 4_000_000  # up to here in the types that add up most quickly, 16 bytes a posting in place of 8
SHARED_SMALL = 64  # indexes of small corpora that a process keeps

_WORD = re.compile(r"\w+")
_WIDE = {0xFF01 + place: 0x21 + place for place in range(94)} | {0x3000: 0x20}  # full-width forms of ASCII
_SCALE = 10.0**DECIMALS


@dataclass(frozen=True)
class BM25Settings:
    """The settings that decide a ranking beside the corpus and the query."""

    method: str = "lucene"
    k1: float = 1.5
    b: float = 0.75
    stop_words: tuple[str, ...] = STOP_WORDS
    tokenizer: str = TOKENIZER

    def __post_init__(self) -> None:
        """Refuse what the index cannot honour."""
        if self.method not in METHODS:
            raise UsageError(f"unknown BM25 method {self.method!r}; there are {', '.join(METHODS)}")
        if not (0 <= self.k1 < float("inf") and 0 <= self.b <= 1):
            raise UsageError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, not k1={self.k1}, b={self.b}")
        if self.tokenizer != TOKENIZER:
            raise UsageError(f"unknown tokenizer {self.tokenizer!r}; this version has {TOKENIZER!r}")


def tokenize(text: str, stop_words: Sequence[str] | frozenset[str] = STOP_WORDS) -> list[str]:
    """Return the case-folded words of a text in their order, without the stop words; nothing is stemmed."""
    stop = frozenset(stop_words)
    return [word for word in _WORD.findall(_folded(text)) if word not in stop]


def _folded(text: str) -> str:
    """Return a text case-folded; if not ASCII also with accents composed, full-width letters narrow, `İ` as `i`."""
    if text.isascii():
        return text.lower()
    composed = unicodedata.normalize("NFC", text.translate(_WIDE)).casefold()
    return unicodedata.normalize("NFC", composed.replace("i\u0307", "i"))


def query_terms(query: str, stop_words: Sequence[str] | frozenset[str] = STOP_WORDS) -> dict[str, int]:
    """Return {term: count} of a query's first 16,384 characters and 512 words, stop words dropped, in order of appearance."""
    counts: dict[str, int] = {}
    for term in tokenize(query[:MAX_QUERY_CHARACTERS], stop_words)[:MAX_QUERY_TERMS]:
        counts[term] = counts.get(term, 0) + 1
    return counts


class BM25Index:
    """Scores of every term in every document, as the columns of a sparse matrix. Read-only, so threads may share it."""

    def __init__(self, settings: BM25Settings, files: IndexFiles) -> None:
        """Load the postings; a small index is converted to float64 at once, a large one at each query."""
        self.settings = settings
        self.documents = files.documents
        self._stop = frozenset(settings.stop_words)
        self._scores: NDArray[np.floating[Any]] = files.scores
        self._rows: NDArray[np.signedinteger[Any]] = files.rows
        self._quick = len(files.rows) <= QUICK_POSTINGS
        if self._quick:  # nothing to convert at each query
            self._scores, self._rows = files.scores.astype(np.float64), files.rows.astype(np.intp)
        self._starts: list[int] = files.starts.tolist()
        self._column_of = {term: column for column, term in enumerate(files.terms)}

    def terms(self, query: str) -> dict[str, int]:
        """Return the terms of a query that count, in order of appearance, and how often each occurs."""
        return query_terms(query, self._stop)

    def top(self, query: str, top_k: int) -> tuple[list[int], list[float]]:
        """Return rows and rounded scores above 0, by falling score, then rising row; fewer than `top_k` or none can be.

        Documents whose rounded score is 0 are left out, so that there may be fewer than `top_k`. Where okapi's idf
        puts none above 0, as in a corpus of one passage, all that hold a term are there, by the size of their scores.
        """
        columns = self._columns(query)
        scores = self._sum(columns)
        if scores is None or top_k < 1:
            return [], []
        # So many documents of the shortest column that has them reach the k-th best score there: none below it is asked for.
        enough = [rows for rows, _ in columns if len(rows) >= top_k]
        some = scores[min(enough, key=len)] if enough else scores[:0]
        best = best_rows(scores, top_k, _kth_best(some, top_k) if enough else 0.0)
        if best[0] or self.settings.method != "okapi":
            return best
        matched = np.unique(np.concatenate([rows for rows, _ in columns]))
        order = (-np.rint(np.abs(scores[matched]) * _SCALE)).argsort(kind="stable")[:top_k]
        return matched[order].tolist(), (np.rint(scores[matched[order]] * _SCALE) / _SCALE).tolist()

    def _columns(self, query: str) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return rows and scores of each term of the query, times its count there; terms not in the index are left out."""
        columns = []
        for term, count in self.terms(query).items():
            column = self._column_of.get(term)
            if column is not None:
                part = slice(self._starts[column], self._starts[column + 1])
                values = self._scores[part]
                columns.append((self._rows[part], values if count == 1 else values.astype(np.float64) * count))
        return columns

    def _sum(self, columns: list[tuple[NDArray[Any], NDArray[Any]]]) -> Scores | None:
        """Add up the postings' scores by document, in the order of terms whatever the size; None without postings."""
        if not columns:
            return None
        if self._quick:
            scores = np.zeros(self.documents)
            for rows, values in columns:
                if len(rows) <= FEW:
                    scores[rows] += values  # a document is in a column once
                else:
                    np.add.at(scores, rows, values)
            return scores
        # One pass over all of them, as they are converted; a document's terms add up in the same order.
        rows = np.concatenate([rows for rows, _ in columns], dtype=np.intp)
        values = np.concatenate([values for _, values in columns], dtype=np.float64)
        return np.bincount(rows, values, self.documents).astype(np.float64, copy=False)


def _kth_best(scores: Scores, k: int) -> float:
    """Return the k-th largest of at least k scores."""
    return sorted(scores.tolist())[-k] if len(scores) <= FEW else float(np.partition(scores, -k)[-k])


def best_rows(scores: Scores, top_k: int, bar: float = 0.0) -> tuple[list[int], list[float]]:
    """Return the rows and rounded scores of the best documents whose rounded score is above 0, ties by rising row.

    `bar` is a score that at least `top_k` documents reach: the others are not sorted.
    """
    rows = (scores >= max(bar - 1 / _SCALE, 0.5 / _SCALE)).nonzero()[0]
    ranks = np.rint(scores[rows] * _SCALE)
    if len(ranks) <= FEW:
        values, places = ranks.tolist(), rows.tolist()
        first = sorted(range(len(values)), key=values.__getitem__, reverse=True)[:top_k]
        first = [place for place in first if values[place]]
        return [places[place] for place in first], [values[place] / _SCALE for place in first]
    order = (-ranks).argsort(kind="stable")[:top_k]
    best = ranks[order]
    count = int(np.count_nonzero(best))
    return rows[order[:count]].tolist(), (best[:count] / _SCALE).tolist()


def build_files(corpus: Corpus, settings: BM25Settings, progress: Progress | None = None) -> IndexFiles:
    """Return the bm25s scores of a corpus (title and text); UsageError for more than 3,000,000 passages."""
    if len(corpus) > MOST_PASSAGES:
        raise UsageError(
            f"a BM25 index of {len(corpus):,} passages needs about {len(corpus) * 5e-6:.0f} GB of memory to build; "
            f'at most {MOST_PASSAGES:,} are indexed. Use retriever="tantivy", whose index is built and kept on disk'
        )
    stop = frozenset(settings.stop_words)
    column_of: defaultdict[str, int] = defaultdict()
    column_of.default_factory = column_of.__len__  # first come, first numbered: no hash order in the files
    columns: list[list[int]] = []
    every = max(1, len(corpus) // 100)
    for row in range(len(corpus)):
        passage = corpus[row]
        words = tokenize(f"{passage.title}\n{passage.text}", stop)
        columns.append([column_of[word] for word in words])
        if progress is not None and (row + 1) % every == 0:
            progress("tokenize", (row + 1) / len(corpus))
    terms = dict(column_of)
    if not terms:
        empty = np.zeros(0, dtype=np.float32)
        return IndexFiles(len(corpus), empty, empty.astype(np.int32), np.zeros(1, dtype=np.int64), [])
    if progress is not None:
        progress("score", 0.0)
    matrix = _bm25s_matrix(columns, terms, settings)
    if progress is not None:
        progress("score", 1.0)
    return IndexFiles(
        documents=len(corpus),
        scores=matrix["data"].astype(np.float64 if settings.method == "okapi" else np.float32),
        rows=matrix["indices"].astype(np.int32),
        starts=matrix["indptr"].astype(np.int64),
        terms=list(terms),
    )


def _bm25s_matrix(columns: list[list[int]], terms: dict[str, int], settings: BM25Settings) -> dict[str, Any]:
    """Compute the score matrix with bm25s; Okapi's own idf replaces bm25s' afterwards."""
    import bm25s

    # float64: with float32, numpy 1 and numpy 2 promote bm25s' formulas differently
    okapi = settings.method == "okapi"
    method = {"method": "atire", "idf_method": "lucene"} if okapi else {"method": settings.method}
    engine = bm25s.BM25(k1=settings.k1, b=settings.b, dtype="float64", **method)
    engine.index((columns, terms), create_empty_token=False, show_progress=False)
    matrix: dict[str, Any] = engine.scores
    if okapi:
        reweigh(matrix, len(columns))
    return matrix


_SMALL: SharedCache[BM25Index] = OrderedDict()
_LARGE: SharedCache[BM25Index] = OrderedDict()


def get_index(
    corpus: Corpus,
    settings: BM25Settings | None = None,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
) -> BM25Index:
    """Return this process's shared index of a corpus: from memory, else the cache folder (over 2,000 passages), else built.

    Corpora of more than 2,000 passages are built once and kept in `cache_dir` (None: only in memory). A folder is named
    by the corpus, the settings and our format; a damaged one is built again.
    """
    settings = settings or BM25Settings()
    small = len(corpus) <= SMALL_CORPUS

    def build() -> BM25Index:
        """Load the index's files, or make them, and return the index over them."""
        return BM25Index(settings, _files(corpus, settings, cache_dir, progress))

    key = (corpus.digest, settings)
    return shared(_SMALL if small else _LARGE, key, build, SHARED_SMALL if small else None)


def _files(corpus: Corpus, settings: BM25Settings, cache_dir: Path | None, progress: Progress | None) -> IndexFiles:
    """Load the index files from the cache, or build and save them; up to 2,000 passages are built each time, not saved."""
    if cache_dir is None or len(corpus) <= SMALL_CORPUS:
        return build_files(corpus, settings, progress)
    name = digest({"corpus": corpus.digest, "settings": asdict(settings), "format": FORMAT})
    folder = cache_dir / "bm25" / name[:32]
    files = load_index(folder)
    if files is None:
        built = build_files(corpus, settings, progress)
        if progress is not None:
            progress("save", 0.0)
        files = save_index(built, folder)
        if progress is not None:
            progress("save", 1.0)
    return files


class BM25Retriever(IndexRetriever):
    """BM25 as a retriever, named `bm25_okapi` with the method okapi; copies of an environment share it."""

    def __init__(
        self,
        corpus: Corpus,
        settings: BM25Settings | None = None,
        *,
        cache_dir: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Build or load the index of a corpus; the method okapi gives the retriever another name."""
        self.name = "bm25_okapi" if settings is not None and settings.method == "okapi" else "bm25"
        self.corpus = corpus
        self.index = get_index(corpus, settings, cache_dir, progress)
