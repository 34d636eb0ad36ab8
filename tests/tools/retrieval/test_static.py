"""Static word vectors: the arithmetic against plain integers, the tokenizer against its package, and the promises."""

import copy
import json
import math
import random
import threading
from collections import OrderedDict
from fractions import Fraction
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.tools.retrieval import static
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.static import (
    BEGINNING,
    LONGEST_PIECE,
    SHA256,
    TOKENIZER,
    StaticEncoder,
    StaticIndex,
    StaticRetriever,
    Subwords,
    static_encoder,
)
from tests.examples import examples
from tests.fresh_process import printed
from tests.needs import needs

pytestmark = needs("[legal]")
LAW = {
    "7:2-116": "The landlord must return the security deposit within thirty days after the tenant moves out.",
    "7:2-117": "A tenant may end the lease early by giving written notice two months ahead.",
    "12:1-4": "Every dog older than four months must be vaccinated against rabies.",
    "12:1-5": "Fishing without a licence is punished by a fine of fifty dollars.",
    "31:9": "Taxes on wine and spirits are due on the first day of each quarter.",
}


def law() -> MemoryCorpus:
    return MemoryCorpus(Passage(name, "", text) for name, text in LAW.items())


@pytest.mark.parametrize(
    ("question", "section"),
    [
        ("When do renters get their money back?", "7:2-116"),
        ("Must I get my puppy a vaccine?", "12:1-4"),
        ("alcohol duty payment date", "31:9"),
    ],
)
def test_a_section_is_found_that_shares_no_word_with_the_question(question: str, section: str) -> None:
    corpus = law()
    words = {word.strip("?.,").lower() for word in question.split()} - {"the", "a", "my", "must", "get"}
    assert not words & {word.strip(".").lower() for word in LAW[section].split()}
    hits = StaticRetriever(corpus).search(question, 5)
    assert hits[0].passage.id == section
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def exact_vector(text: str) -> list[int]:
    """The documented rule in whole numbers: sums of 2**-24, then 127 x / largest, to the nearest, halves to even."""
    encoder = static_encoder()
    pieces = encoder._subwords.encode(text)
    sums = [sum(int(Fraction(float(value)) * 2**24) for value in column) for column in encoder._table[pieces].T]
    largest = max(map(abs, sums), default=0)
    return [round(Fraction(127 * value, largest)) if largest else 0 for value in sums]


def test_vectors_and_scores_are_those_of_exact_arithmetic() -> None:
    encoder = static_encoder()
    texts = [*LAW.values(), "x", "ﬁne — 12:§4", "word " * 500]
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.int8
    assert [row.tolist() for row in vectors] == [exact_vector(text) for text in texts]
    asked = exact_vector("a tenant's notice")
    wanted = []
    for vector in vectors.tolist():
        dot = sum(a * b for a, b in zip(asked, vector, strict=True))
        wanted.append(dot / math.sqrt(sum(a * a for a in asked) * sum(b * b for b in vector)))
    rows, scores = StaticIndex(encoder, vectors).top("a tenant's notice", len(texts))
    assert scores == pytest.approx([wanted[row] for row in rows], abs=6e-7)
    assert rows == sorted(range(len(texts)), key=lambda row: -round(wanted[row], 6))


def test_the_largest_dot_product_fits_int32() -> None:
    vectors = np.full((2, 256), -127, dtype=np.int8)
    index = StaticIndex(static_encoder(), vectors)
    assert index._lengths.tolist() == [127 * 16.0] * 2
    assert np.einsum("ij,j->i", vectors, vectors[0].astype(np.int32), dtype=np.int32).tolist() == [256 * 127**2] * 2


@needs("[train]")
def test_tokens_are_those_of_the_published_tokenizer() -> None:
    import tokenizers

    published = tokenizers.Tokenizer.from_file(str(distribution("wordllama").locate_file(TOKENIZER)))
    ours = static_encoder()._subwords
    rng = random.Random("tokens")
    letters = "aaeeiioubcdfghklmnprstvwxyzABCDEXYZ0123456789.,;:§()-'\"/$%éüßłж中日☃😀"
    texts = [" ".join("".join(rng.choices(letters, k=rng.randint(1, 14))) for _ in range(30)) for _ in range(200)]
    for text in [*LAW.values(), *texts]:
        assert ours.encode(text) == published.encode(text, add_special_tokens=False).ids, text


def test_merges_take_the_first_learned_pair_and_bytes_spell_the_rest() -> None:
    bytes_ = {f"<0x{value:02X}>": 100 + value for value in range(256)}
    pieces = [BEGINNING, "a", "b", "ab", "ba", BEGINNING + "ab"]
    words = Subwords(
        {**{piece: number for number, piece in enumerate(pieces)}, **bytes_}, ["b a", "a b", f"{BEGINNING} ab"]
    )
    assert words.encode("ab") == [5]
    assert words.encode("aba") == [0, 1, 4]
    assert words.encode("a é") == [0, 1, 0, 100 + 0xC3, 100 + 0xA9]
    assert words.encode("\ud800") == [0, 100 + ord("?")]
    assert words.encode(" \n\t ") == []
    assert words.encode("b" * (LONGEST_PIECE + 1)) == [0, *[2] * LONGEST_PIECE, 0, 2]


@given(st.text(max_size=60), st.integers(1, 7))
@examples(60)
def test_any_text_is_a_query(query: str, top_k: int) -> None:
    retriever = StaticRetriever(law())
    hits = retriever.search(query, top_k)
    assert len(hits) == (min(top_k, len(LAW)) if query.split() else 0)
    assert hits == retriever.search(query, len(LAW))[:top_k]


@pytest.mark.parametrize("query", ["", " \n", "\ud800", "x" * 200_000, "x " * 100_000, "<s></s>", "\x00"])
def test_hostile_queries_are_bounded(query: str) -> None:
    assert len(StaticRetriever(law()).search(query, 3)) == (3 if query.strip() else 0)


def test_ties_come_in_the_order_of_the_corpus_and_wordless_passages_never() -> None:
    texts = ["same words", "", "other things", "same words", " \n ", "same words"]
    corpus = MemoryCorpus(Passage(f"p{row}", "", text) for row, text in enumerate(texts))
    hits = StaticRetriever(corpus).search("same words", 10)
    assert [hit.passage.id for hit in hits] == ["p0", "p3", "p5", "p2"]
    assert [hit.score for hit in hits[:3]] == [1.0] * 3
    assert [hit.passage.id for hit in StaticRetriever(corpus).search("same words", 2)] == ["p0", "p3"]
    assert StaticRetriever(MemoryCorpus([])).search("words", 3) == ()


def test_copies_threads_and_environments_share_one_index() -> None:
    corpus, found = law(), []
    threads = [threading.Thread(target=lambda: found.append(StaticRetriever(corpus).index)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    retriever = make_retriever("static", law())
    assert copy.deepcopy(retriever) is retriever
    assert len({id(index) for index in [*found, retriever.index]}) == 1  # type: ignore[attr-defined]


SEARCH = """
import sys
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.build import make_retriever
corpus = MemoryCorpus(Passage(str(row), f"title {row % 7}", f"word{row} and number {row * row}") for row in range(200))
for name in ("static", "hybrid"):
    retriever = make_retriever(name, corpus)
    print([(hit.passage.id, hit.score) for query in ("title 3", "numbers", "81") for hit in retriever.search(query, 20)])
print(sorted({"torch", "wordllama", "faiss", "sentence_transformers", "tokenizers", "safetensors"} & set(sys.modules)))
"""


def test_rankings_are_equal_in_every_process_and_load_nothing_heavy() -> None:
    outputs = {
        printed(SEARCH, hash_seed=seed, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads)
        for seed, threads in (("0", "1"), ("77", "4"))
    }
    assert len(outputs) == 1
    assert outputs.pop().splitlines()[-1] == "[]"


def test_rankings_are_those_of_the_first_release() -> None:
    """Fixed figures: what another machine or version gives must be these."""
    hits = StaticRetriever(law()).search("How long may a landlord keep the deposit?", 3)
    assert [(hit.passage.id, hit.score) for hit in hits] == [
        ("7:2-116", 0.745291),
        ("7:2-117", 0.417212),
        ("12:1-4", 0.109536),
    ]


def test_other_files_than_the_pinned_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_ENCODER", OrderedDict())
    monkeypatch.setattr(static, "SHA256", {**SHA256, TOKENIZER: "0" * 64})
    with pytest.raises(UsageError, match="wordllama==0.4.0.post1"):
        static_encoder()


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_ENCODER", OrderedDict())
    monkeypatch.setattr(static, "PACKAGE", "no-such-package-of-vectors")
    with pytest.raises(MissingExtra, match=r'pip install "agent-envs\[legal\]"$'):
        StaticRetriever(law())


def test_large_corpora_keep_their_vectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    corpus = MemoryCorpus(Passage(str(row), "", f"word{row % 50} number{row}") for row in range(2_001))
    first = StaticRetriever(corpus, cache_dir=tmp_path).search("number 7", 9)
    (folder,) = (path for path in (tmp_path / "vectors").iterdir() if path.is_dir())
    assert json.loads((folder / "manifest.json").read_text())["shape"][0] == 2_001
    monkeypatch.setattr(static, "_LARGE", OrderedDict())
    monkeypatch.setattr(StaticEncoder, "encode", _only_queries)
    assert StaticRetriever(corpus, cache_dir=tmp_path).search("number 7", 9) == first


_ENCODE = StaticEncoder.encode


def _only_queries(self: StaticEncoder, texts: list[str]) -> object:
    assert len(texts) == 1
    return _ENCODE(self, texts)
