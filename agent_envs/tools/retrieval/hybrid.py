"""A hybrid fuses several retrievers into one by reciprocal rank fusion (Cormack, Clarke and Buettcher, 2009)."""

import math
from collections.abc import Sequence

from agent_envs.base.documents import Corpus, Hit, Retriever
from agent_envs.base.errors import UsageError
from agent_envs.base.process_cache import Uncopied

RANK_CONSTANT = 60  # k of the paper
DEPTH = 100  # hits of each retriever that are fused, or top_k where that is more
SEMANTIC = "static"


def split_hybrid(name: str) -> tuple[str, tuple[float, float]] | None:
    """Return the semantic engine and the weights of `hybrid`, `hybrid:ENGINE` and `hybrid[:ENGINE]=KEYWORD,SEMANTIC`.

    None where a name has another form.

    Raises:
        UsageError: what stands behind the = are not two weights that make an order.
    """
    head, equals, given = name.partition("=")
    if head != "hybrid" and not head.startswith("hybrid:"):
        return None
    semantic = head.partition(":")[2] or SEMANTIC
    if not equals:
        return semantic, (1.0, 1.0)
    try:
        keyword_weight, semantic_weight = (float(part) for part in given.split(","))
    except ValueError:
        raise UsageError(
            f"retriever {name!r}: behind the = stand two weights, of bm25 and of the other: hybrid=1,0.5"
        ) from None
    _check_weights((keyword_weight, semantic_weight))
    return semantic, (keyword_weight, semantic_weight)


def _check_weights(weights: Sequence[float]) -> None:
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise UsageError(f"a hybrid's weights must be finite, >= 0 and not all 0, not {tuple(weights)}")


class HybridRetriever(Uncopied):
    """The fusion of several retrievers over one corpus: a passage scores the sum of weight / (60 + its rank) over them."""

    def __init__(
        self,
        corpus: Corpus,
        retrievers: Sequence[Retriever],
        weights: Sequence[float] = (),
        *,
        rank_constant: float = RANK_CONSTANT,
        depth: int = DEPTH,
        name: str = "",
    ) -> None:
        """Fuse what these retrievers find in this corpus.

        Args:
            corpus: what all of them search.
            retrievers: the engines.
            weights: one an engine; by default 1 each.
            rank_constant: the larger, the less the first ranks stand out.
            depth: how many hits of each are read, or `top_k` where that is more.
            name: what it is called; by default after its engines.

        Raises:
            UsageError: the weights, the constant or the depth make no order.
        """
        self.weights = tuple(weights) or (1.0,) * len(retrievers)
        if len(self.weights) != len(retrievers) or not retrievers:
            raise UsageError(f"a hybrid of {len(retrievers)} retrievers needs as many weights, not {len(self.weights)}")
        _check_weights(self.weights)
        if not (math.isfinite(rank_constant) and rank_constant >= 0) or depth < 1:
            raise UsageError(f"a hybrid needs rank_constant >= 0 and depth >= 1, not {rank_constant} and {depth}")
        self.name = name or f"hybrid({', '.join(retriever.name for retriever in retrievers)})"
        self.corpus, self.retrievers = corpus, tuple(retrievers)
        self._rank_constant, self._depth = rank_constant, depth

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the passages that the retrievers together rank highest; `support` and `seed` are handed on.

        Raises EnvFault: one of the retrievers is outside, and failed.
        """
        scores: dict[int, float] = {}
        for retriever, weight in zip(self.retrievers, self.weights, strict=True):
            if weight == 0:
                continue
            found = retriever.search(query, max(top_k, self._depth), support=support, seed=seed)
            for rank, hit in enumerate(found, start=1):
                row = self.corpus.row(hit.passage.id)
                scores[row] = scores.get(row, 0.0) + weight / (self._rank_constant + rank)
        best = sorted(scores, key=lambda row: (-scores[row], row))[: max(top_k, 0)]
        return tuple(Hit(self.corpus[row], scores[row]) for row in best)
