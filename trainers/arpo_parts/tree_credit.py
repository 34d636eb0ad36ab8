"""Credit in a tree: the leaves' rewards become advantages, and tokens that leaves share are trained by each of them or once.

Soft (ARPO, arXiv 2507.19849, section 3.2): each leaf is a row of GRPO, so a token below which d leaves lie is trained d times.
Hard: such a token is trained once, with the mean of their advantages. While every ratio is 1 the soft gradient of it is d times
the hard one; once the clip acts it is another one, because the minimum in PPO's loss is not linear in the sign of A.

Leaves are no equal sample of the policy: what forked counts once for each leaf. Weights that share out 1 a root give the
policy's own mean if what decides on a fork is known before the turn that is varied, and no fresh roots make up for missing
leaves; with entropies of the trunk's own turn, or fresh roots, they come near it.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from agent_envs.core.trajectory import Trajectory
from trainers import advantages as adv
from trainers.batching import Row
from trainers.contracts import common_beginning


def leaf_advantages(
    rewards: torch.Tensor,
    groups: Sequence[int],
    weights: Sequence[float],
    scale: adv.Scale = "group_std",
    eps: float = 1e-4,
) -> torch.Tensor:
    """Return each leaf's reward against the weighted mean of its tree, times its weight (of mean 1 in a tree).

    With equal weights these are the advantages of GRPO.

    Args:
        rewards: of leaves (leaves,).
        groups: the tree of each.
        weights: of each; a tree's have any sum.
        scale: `group_std` divides by the weighted std + eps of the tree, `batch_std` by that of all leaves together.
        eps: added to the std.

    Returns:
        Advantages (leaves,).
    """
    values, shares = rewards.double(), torch.tensor(weights, dtype=torch.float64)  # (leaves,)
    index = torch.tensor(list(groups))
    sizes = torch.bincount(index).double()[index]  # (leaves,)

    def total(column: torch.Tensor) -> torch.Tensor:
        return torch.zeros(int(index.max()) + 1, dtype=torch.float64).index_add_(0, index, column)[index]

    shares = shares * sizes / total(shares)
    centred = values - total(shares * values) / sizes
    if scale == "group_std":
        std = (total(shares * centred**2) / (sizes - 1).clamp(min=1)).sqrt()
    elif scale == "batch_std":
        everyone = values - (shares * values).sum() / len(values)
        std = ((shares * everyone**2).sum() / max(1, len(values) - 1)).sqrt()
    else:
        std = torch.tensor(1.0 - eps)
    return torch.where(adv.groups_with_signal(values, list(groups)), shares * centred / (std + eps), 0.0).to(
        rewards.dtype
    )


def shared_once(rows: Sequence[Row], episodes: Sequence[Trajectory]) -> list[Row]:
    """Return rows in which each shared turn is trained in the first of them alone, with the mean of their advantages (hard).

    Args:
        rows: of leaves, with the advantages of each.
        episodes: of each row.
    """
    owners: dict[tuple[str, int], list[tuple[int, int]]] = {}  # by token of a turn: where rows have it
    for number, (row, episode) in enumerate(zip(rows, episodes, strict=True)):
        counts: dict[int, int] = {}
        for place, turn in enumerate(row.sequence.turns):
            if row.sequence.trained[place]:
                counts[turn] = counts.get(turn, 0) + 1
                owners.setdefault((episode.turns[turn - 1].node, counts[turn]), []).append((number, place))
    advantages = [list(row.advantages) for row in rows]
    kept = [[False] * len(row.advantages) for row in rows]
    for places in owners.values():
        mean = sum(advantages[number][place] for number, place in places) / len(places)
        for number, place in places:
            advantages[number][place] = 0.0
        number, place = places[0]
        advantages[number][place], kept[number][place] = mean, True
    return [_only(row, mine, values) for row, mine, values in zip(rows, kept, advantages, strict=True) if any(mine)]


def _only(row: Row, kept: Sequence[bool], advantages: Sequence[float]) -> Row:
    sequence = row.sequence
    logprobs = tuple(value if mine else 0.0 for value, mine in zip(sequence.logprobs, kept, strict=True))
    turns = tuple(turn if mine else 0 for turn, mine in zip(sequence.turns, kept, strict=True))
    thinned = replace(sequence, trained=tuple(kept), logprobs=logprobs, turns=turns)
    return replace(row, sequence=thinned, advantages=tuple(advantages))


def distinct_share(rows: Sequence[Row]) -> float:
    """Return how many of the rows' tokens are distinct: rows that begin alike share their beginning."""
    ordered = sorted(row.sequence.ids for row in rows)
    total = sum(map(len, ordered))
    return (total - sum(common_beginning(*pair) for pair in pairwise(ordered))) / max(1, total)
