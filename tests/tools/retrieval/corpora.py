"""Small corpora of few words, and what every ranking of them promises: ties in the corpus's order."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from agent_envs.base.documents import MemoryCorpus, Passage

WORDS = [f"w{number}" for number in range(12)]
texts_strategy = st.lists(st.lists(st.sampled_from(WORDS), max_size=15).map(" ".join), min_size=1, max_size=40)
query_strategy = st.lists(st.sampled_from([*WORDS, "absent", "the"]), max_size=8).map(" ".join)


def corpus_of(texts: list[str]) -> MemoryCorpus:
    return MemoryCorpus(Passage(f"p{row}", "", text) for row, text in enumerate(texts))


def large_corpus(seed: str) -> MemoryCorpus:
    """Return a corpus of 2,500 passages, whose index is one of the large ones."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(300)]
    return MemoryCorpus(Passage(f"p{row}", "", " ".join(rng.choices(words, k=8))) for row in range(2_500))


class Stages(list[str]):
    """What the progress callback heard."""

    def __call__(self, stage: str, fraction: float) -> None:
        assert 0 <= fraction <= 1
        if stage not in self:
            self.append(stage)


def check_ties(index_of: Callable[[list[str]], Any], size: int) -> None:
    """Assert that ties come in corpus order, and that a smaller k gives a prefix."""
    rng = random.Random(f"ties {size}")
    texts = [rng.choice(["red fox", "fox red", "blue fox", "grey owl"]) for _ in range(size)]
    index = index_of(texts)
    rows, scores = index.top("red fox", size)
    red = [row for row, text in enumerate(texts) if "red" in text]
    blue = [row for row, text in enumerate(texts) if "blue" in text]
    assert rows == red + blue
    assert len(set(scores)) == 2
    for top_k in (1, 2, 3, 10, size // 2, size - 1):
        assert index.top("red fox", top_k) == (rows[:top_k], scores[:top_k])
