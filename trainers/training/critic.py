"""A critic tells the value of the moment before each trained token, and of a state in which nobody has acted yet.

It reads the decoder's states that predict those tokens. Its head is linear and begins at 0, so that a new critic says 0.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from agent_envs.base.errors import UsageError
from trainers.batching import MicroBatch, TrainRow
from trainers.contracts import TokenSequence
from trainers.settings import OptimSettings, at_least_one
from trainers.training.forward import bare_model, head_of, trained_states
from trainers.training.optimise import Optimiser, gradient_step, micro_batches_of


@dataclass(frozen=True)
class CriticSettings:
    """The value model.

    Attributes:
        kind: "copy": a decoder of its own that begins with the policy's weights; under LoRA it shares those that are frozen,
            and has an adapter of its own. "head": a head alone, on the policy's states, through which no gradient flows.
        clip: how far a value may move from the one that advantages were made with; 0 for no bound.
        first_weight: of a turn's first token in the loss: its value is what the turn before is judged by.
        optim: of the critic.
    """

    kind: Literal["copy", "head"] = "copy"
    clip: float = 0.5
    first_weight: float = 3.0
    optim: OptimSettings = field(default_factory=lambda: OptimSettings(learning_rate=1e-5))

    def __post_init__(self) -> None:
        """Refuse negative numbers, with a UsageError."""
        if self.clip < 0 or self.first_weight <= 0:
            raise UsageError(f"critic.clip={self.clip} is >= 0, and critic.first_weight={self.first_weight} is > 0")


@dataclass(frozen=True)
class WarmupSettings:
    """The warm-up, in which the critic learns alone on turns of the policy as it starts.

    Attributes:
        batches: collected for it, each of n_env x e_len turns; 0 for no warm-up.
        rounds: over them, each with advantages of the critic as it stands.
        most_rounds: with `check`, go on for `rounds` more, and again, where the loss has not settled, up to so many in all.
        share: of the turns that a round trains on, drawn anew.
        check: ours: stop unless the value loss has settled (`verlog_parts.has_settled`), values explain a part of the returns,
            which hold the critic's own, and rise with what was earned in the episodes that ended, if any did, which holds none.
    """

    batches: int = 40
    rounds: int = 5
    most_rounds: int = 0
    share: float = 0.25
    check: bool = True

    def __post_init__(self) -> None:
        """Refuse numbers out of their range, with a UsageError."""
        at_least_one(self, "warmup.", "rounds")
        if self.check and self.batches and self.rounds < 3:
            raise UsageError(f"warmup.rounds={self.rounds}: two rounds are held against two: give >= 3, or no-check")
        if self.batches < 0 or not 0 < self.share <= 1:
            raise UsageError("warmup.batches is >= 0, warmup.share above 0 and at most 1")


class Critic(torch.nn.Module):
    """A value model beside a policy.

    Attributes:
        head: from states to values.
        decoder: the model whose states it reads, where it is its own; None on the policy's states.
    """

    def __init__(self, policy: Any, settings: CriticSettings) -> None:
        """Copy the policy as it stands, but for weights that do not train: these stay one.

        Args:
            policy: the model, without what accelerate may have put around it.
            settings: of the critic.

        Raises:
            UsageError: the policy has expanded actions.
        """
        super().__init__()
        if head_of(policy) is not None:
            raise UsageError(
                "a critic reads tokens of text: ids that end in ExpA have expanded actions; use their text face"
            )
        bare = bare_model(policy)
        width = bare.get_output_embeddings().weight.shape[1]
        self.head = torch.nn.Linear(width, 1, device=bare.device)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.decoder: Any = _copy(policy) if settings.kind == "copy" else None
        self._policy = [policy]  # in a list: its weights are no part of the critic

    def forward(self, micro: MicroBatch) -> torch.Tensor:
        """Return the values of trained tokens, each of the moment before it, 0 elsewhere (batch, tokens)."""
        if self.decoder is not None:
            states = trained_states(self.decoder, micro)
        else:
            with torch.no_grad():
                states = trained_states(self._policy[0], micro)
        with torch.autocast(states.device.type, enabled=False):  # half precision has 3 digits, and returns are near 1
            values = self.head(states.float()).squeeze(-1)  # (trained,)
        return torch.zeros(micro.trained.shape, device=values.device).masked_scatter(micro.trained, values)


def _copy(policy: Any) -> Any:
    """Return a copy of the policy that shares weights that do not train, and the head of tokens, which no value needs."""
    bare = bare_model(policy)
    shared = {id(weight): weight for weight in policy.parameters() if not weight.requires_grad}
    head = bare.get_output_embeddings().weight
    if head is not bare.get_input_embeddings().weight:
        shared[id(head)] = torch.nn.Parameter(head.detach(), requires_grad=False)
    return copy.deepcopy(policy, shared)


@torch.no_grad()
def values_of(critic: Critic, sequences: Sequence[TokenSequence], parts: Any, token_budget: int) -> list[list[float]]:
    """Return the values of each sequence's trained tokens, in their order."""
    rows, lists = ([TrainRow(one, (0.0,) * len(one.ids)) for one in sequences], [list[float]() for _ in sequences])
    for micro in micro_batches_of(rows, parts, token_budget):
        with parts.accelerator.autocast():
            values = critic(micro)
        for place, row, trained in zip(micro.rows, values, micro.trained, strict=True):
            lists[place] = row[trained].tolist()
    return lists


def fit(pairs: Sequence[tuple[float, float]], processes: Any) -> tuple[float, float, int]:
    """Return explained variance, correlation and number of (value, return) pairs of all processes; 0s if returns agree.

    The first is 1 - mean squared error / variance of returns: 1 for a perfect critic, 0 for one that says the mean of returns,
    below 0 for a worse one; values that are all off by a constant are wrong. Both are 0 where all returns are equal.
    """
    columns = zip(*((1, v, r, v * v, r * r, v * r) for v, r in pairs), strict=True)
    count, values, returns, squares, paid, both = processes.sums(list(map(sum, columns)) or [0] * 6)
    width, spread = squares - values**2 / max(1, count), paid - returns**2 / max(1, count)
    if spread <= 1e-9:
        return 0.0, 0.0, int(count)
    together = (both - values * returns / count) / (width * spread) ** 0.5 if width > 1e-9 else 0.0
    return 1 - (squares - 2 * both + paid) / spread, together, int(count)


def with_targets(row: TrainRow, values: Sequence[float], advantages: Sequence[float]) -> TrainRow:
    """Return a row with what its critic learns from, given for its trained tokens alone; returns are their sum."""
    places = [place for place, trained in enumerate(row.sequence.trained) if trained]

    def spread(column: Sequence[float]) -> tuple[float, ...]:
        """Return a column with the values at the trained tokens and 0 elsewhere."""
        table = dict(zip(places, column, strict=False))
        return tuple(table.get(place, 0.0) for place in range(len(row.sequence.ids)))

    returns = [value + advantage for value, advantage in zip(values, advantages, strict=True)]
    columns = {"returns": spread(returns), "values": spread(values), "first": spread([1.0])}
    return replace(row, advantages=spread(advantages), more=columns)


def value_return_pairs(rows: Sequence[TrainRow]) -> list[tuple[float, float]]:
    """Return values beside returns, which hold values themselves, of the trained tokens of rows with a critic's columns."""
    columns = ((row.more["values"], row.more["returns"], row.sequence.trained) for row in rows)
    return [(value, target) for row in columns for value, target, trained in zip(*row, strict=True) if trained]


def critic_step(
    rows: list[TrainRow], critic: Critic, optimiser: Optimiser, parts: Any, settings: CriticSettings, token_budget: int
) -> dict[str, float]:
    """Take one gradient step of the critic on rows with the columns `returns`, `values` and `first`, and return its metrics."""

    def by_token(micro: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute each token's clipped value loss and its metrics; `first_weight` weighs the first token of each turn."""
        with parts.accelerator.autocast():
            values = critic(micro)
        first, old, returns = (micro.more[name] for name in ("first", "values", "returns"))
        plain = value_loss(values, old, returns, settings.clip)
        metrics, tokens = dict[str, torch.Tensor](), micro.trained.sum().clamp(min=1)
        for name, side in (("first", first), ("others", micro.trained.float() - first)):
            metrics |= {f"{name}_loss": (plain.detach() * side).sum() / tokens, f"{name}_share": side.sum() / tokens}
        return plain * (1 + (settings.first_weight - 1) * first), metrics

    metrics = gradient_step(rows, parts, by_token, token_budget=token_budget, optimiser=optimiser)
    for name in ("first", "others"):  # means over the tokens of each side
        share = metrics.pop(f"{name}_share", 0.0)
        metrics[f"{name}_loss"] = metrics.get(f"{name}_loss", 0.0) / share if share else 0.0
    return {f"critic/{name}": value for name, value in metrics.items()}


def value_loss(values: torch.Tensor, old_values: torch.Tensor, returns: torch.Tensor, clip: float) -> torch.Tensor:
    """Return PPO's clipped value loss, half of max((v - R)^2, (v_old + clip(v - v_old, +-clip) - R)^2).

    The clip takes the gradient of a value that has moved further than `clip` towards its return (OpenAI baselines, ppo2).

    Args:
        values: of the critic, with a gradient (batch, tokens).
        old_values: that the advantages were made with (batch, tokens).
        returns: old values plus advantages that are not whitened (batch, tokens).
        clip: how far a value may move; 0 for no bound.

    Returns:
        A loss a token (batch, tokens).
    """
    squared = (values - returns) ** 2
    if clip:
        near = old_values + (values - old_values).clamp(-clip, clip)
        squared = torch.maximum(squared, (near - returns) ** 2)
    return 0.5 * squared
