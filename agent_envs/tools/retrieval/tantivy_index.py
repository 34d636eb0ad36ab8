"""BM25 by tantivy keeps its index on disk, where it grows to tens of millions of passages.

tantivy scores with k1=1.2, b=0.75 and the length of a passage in one byte, so that its rankings are close to those of
bm25 and not equal to them. Passages are cut into words as bm25 cuts them; queries are built of words and never parsed.
"""

import re
from collections import OrderedDict
from functools import partial
from pathlib import Path
from typing import Any

from agent_envs.base.caches import SharedCache, shared
from agent_envs.base.documents import Corpus, IndexRetriever
from agent_envs.base.errors import MissingExtra
from agent_envs.base.serialization import digest
from agent_envs.tools.retrieval.bm25 import SHARED_SMALL, SMALL_CORPUS, STOP_WORDS, TOKENIZER, query_terms, tokenize
from agent_envs.tools.retrieval.index_files import Progress, install_folder, opened_or_built, read_manifest

FORMAT = 1  # raise it whenever the same corpus and stop words would give another index
DECIMALS = 4  # scores that agree to here are ties; tantivy adds them in float32, in no fixed order of the terms
# What the writer may hold before it cuts a segment; it takes what it needs, about 0.3 kB a passage of 100 words, so
# that there is one segment up to some 12 million of them.
WRITER_BYTES = 4_000_000_000
SMALL_WRITER_BYTES = 15_000_000  # tantivy's least
SPARE = 16  # hits that are fetched beyond top_k, to see a tie at the cut,
MOST_TIED = 4_096  # and how many of them at most

_WORDS, _ROW = "words", "row"
_STOP = frozenset(STOP_WORDS)
_SMALL: SharedCache["TantivyIndex"] = OrderedDict()
_LARGE: SharedCache["TantivyIndex"] = OrderedDict()


class TantivyIndex:
    """An index that is open for searching. Read-only, so threads may share it."""

    def __init__(self, index: Any) -> None:
        """Open a searcher that does not watch the index for changes."""
        self._tantivy = _package()
        self._schema = index.schema
        index.config_reader("manual")  # the default starts a thread that waits for changes
        index.reload()
        self._searcher = index.searcher()
        self.documents: int = self._searcher.num_docs

    def top(self, query: str, top_k: int) -> tuple[list[int], list[float]]:
        """Return rows and rounded scores of the `top_k` best documents, ties by rising row; [], [] without words."""
        counts = query_terms(query, _STOP)
        most = min(top_k + MOST_TIED, self.documents)
        if not counts or top_k < 1 or most < 1:
            return [], []
        terms = self._query(counts)
        limit = min(top_k + SPARE, most)
        while True:
            hits = self._searcher.search(terms, limit, count=False).hits
            ranks = [round(score * 10**DECIMALS) for score, _ in hits]
            if len(hits) < limit or limit == most or ranks[-1] < ranks[top_k - 1]:
                break
            limit = min(4 * limit, most)
        rows = self._searcher.fast_field_values(_ROW, [address for _, address in hits]) if hits else []
        best = sorted(zip([-rank for rank in ranks], rows, strict=True))[:top_k]
        return [row for _, row in best], [-rank / 10**DECIMALS for rank, _ in best]

    def _query(self, counts: dict[str, int]) -> Any:
        """Build a boolean query of terms, each boosted by its count."""
        query, should = self._tantivy.Query, self._tantivy.Occur.Should
        parts = []
        for term, count in counts.items():
            part = query.term_query(self._schema, _WORDS, term, index_option="freq")
            parts.append((should, part if count == 1 else query.boost_query(part, float(count))))
        return query.boolean_query(parts)


def write_index(corpus: Corpus, folder: Path | None, progress: Progress | None = None) -> Any:
    """Index a corpus (title and text of each passage) in an empty folder, or in memory; return tantivy's index."""
    tantivy = _package()
    schema = tantivy.SchemaBuilder()
    schema.add_text_field(_WORDS, tokenizer_name="whitespace", index_option="freq")
    schema.add_unsigned_field(_ROW, fast=True)
    index = tantivy.Index(schema.build(), path=None if folder is None else str(folder))
    # one thread: rows then stand in a segment in their order
    writer = index.writer(SMALL_WRITER_BYTES if len(corpus) <= SMALL_CORPUS else WRITER_BYTES, 1)
    every = max(1, len(corpus) // 100)
    for row in range(len(corpus)):
        passage = corpus[row]
        document = tantivy.Document()
        document.add_unsigned(_ROW, row)
        document.add_text(_WORDS, " ".join(tokenize(f"{passage.title}\n{passage.text}", _STOP)))
        writer.add_document(document)
        if progress is not None and (row + 1) % every == 0:
            progress("index", (row + 1) / len(corpus))
    if progress is not None:
        progress("save", 0.0)
    writer.commit()
    writer.wait_merging_threads()
    if progress is not None:
        progress("save", 1.0)
    return index


def get_tantivy_index(corpus: Corpus, cache_dir: Path | None = None, progress: Progress | None = None) -> TantivyIndex:
    """Return this process's one index of a corpus: as opened before, else from the cache folder, else built.

    Corpora of more than 2,000 passages are built once, by one process, and kept in `cache_dir` (None: only in memory).
    A folder is named by the corpus, the stop words and the formats; a damaged one is built again.

    Raises:
        UsageError: the cache cannot be written.
        MissingExtra: tantivy is not installed.
    """
    _package()
    small = len(corpus) <= SMALL_CORPUS

    def build() -> TantivyIndex:
        """Build the index of a small corpus, or without a folder, in memory; open or build any other in its folder."""
        if small or cache_dir is None:
            return TantivyIndex(write_index(corpus, None, progress))
        return _from_folder(corpus, cache_dir / "tantivy", progress)

    return shared(_SMALL if small else _LARGE, corpus.digest, build, SHARED_SMALL if small else None)


def _from_folder(corpus: Corpus, parent: Path, progress: Progress | None) -> TantivyIndex:
    """Open the corpus's index in its folder, which names corpus, settings and format; build it where missing or damaged."""
    version = str(_package().__version__)
    kind = re.search(r"index_format v\d+", version)  # releases that share it read each other's files
    tantivy = kind[0] if kind else version
    settings = {"tokenizer": TOKENIZER, "stop_words": STOP_WORDS, "format": FORMAT, "tantivy": tantivy}
    folder = parent / digest({"corpus": corpus.digest, "settings": settings})[:32]
    opened = partial(open_folder, folder)

    def write(temporary: Path) -> dict[str, Any]:
        """Write the index into a temporary folder with files that every user may read; OSError for a full disk."""
        try:
            write_index(corpus, temporary, progress)
        except ValueError as error:  # tantivy's name for a full disk
            raise OSError(str(error)) from error
        for path in temporary.iterdir():  # tantivy hides some from other users, who take its lock even to read
            path.chmod(0o666 if path.suffix == ".lock" else 0o644)
        return {"documents": len(corpus)}

    def build() -> TantivyIndex | None:
        """Install the index's folder, unless a whole one is there, and open it; None if it is damaged."""
        install_folder(folder, write, lambda place: open_folder(place) is not None)
        return opened()

    return opened_or_built(folder, opened, build, progress)


def open_folder(folder: Path) -> TantivyIndex | None:
    """Return the index of a folder, mapped into memory; None where it is missing or damaged."""
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    try:
        index = TantivyIndex(_package().Index.open(str(folder)))
    except ValueError:
        return None
    return index if index.documents == manifest.get("documents") else None


def _package() -> Any:
    """Import tantivy, or raise MissingExtra."""
    try:
        import tantivy
    except ImportError:
        raise MissingExtra("tantivy", "tantivy", 'retriever="tantivy"') from None
    return tantivy


class TantivyRetriever(IndexRetriever):
    """tantivy as a retriever; copies of an environment share it."""

    name = "tantivy"

    def __init__(self, corpus: Corpus, *, cache_dir: Path | None = None, progress: Progress | None = None) -> None:
        self.corpus = corpus
        self.index = get_tantivy_index(corpus, cache_dir=cache_dir, progress=progress)
