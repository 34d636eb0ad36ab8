"""BM25 on the real sample of passages and questions."""

import json
import os
import re
import string
from pathlib import Path

import pytest

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.build import make_retriever

pytestmark = pytest.mark.data


def normalise(text: str) -> str:
    kept = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


@pytest.fixture(scope="module")
def corpus() -> MemoryCorpus:
    with (Path(os.environ["AGENT_ENVS_DATA"]) / "searchqa" / "corpus.jsonl").open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return MemoryCorpus(Passage(row["id"], row["title"], row["text"]) for row in rows)


@pytest.mark.parametrize("name", ["bm25", "tantivy"])
def test_hotpotqa_questions_find_their_answers(name: str, corpus: MemoryCorpus, tmp_path: Path) -> None:
    """The sample's notes give .588 for answer-recall@3 with stemming; without it bm25 and tantivy have .613 and more."""
    folder = Path(os.environ["AGENT_ENVS_DATA"]) / "searchqa"
    retriever = make_retriever(name, corpus, cache_dir=tmp_path)
    questions = [json.loads(line) for line in (folder / "dev" / "hotpotqa.jsonl").read_text("utf-8").splitlines()]
    found = 0
    for question in questions:
        hits = retriever.search(question["question"], 3)
        texts = [f" {normalise(hit.passage.title + ' ' + hit.passage.text)} " for hit in hits]
        found += any(f" {normalise(answer)} " in text for answer in question["golden_answers"] for text in texts)
    assert found / len(questions) >= 0.5
