"""Advantages are computed from rewards within groups, per episode or per turn, or from a critic's values turn by turn.

Pure functions on tensors. A row is an episode (or one of its segments); rows of one group began in the same state. `groups`
names each row's group by any hashable; None puts all rows into one. Sums run in float64, results have the dtype of the
rewards. A group whose rewards are all equal, or that has one row only, gets advantages of exactly 0.
docs/formulas.md has every formula, its source, and what other libraries do.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from agent_envs.base.errors import UsageError

Groups = Sequence[Hashable] | torch.Tensor | None
Scale = Literal["group_std", "batch_std", "none"]
Baseline = Literal["mean", "leave_one_out"]
TurnBaseline = Literal["leave_one_out", "leave_one_out_reached", "per_index", "batch"]
Slots = Literal["tokens", "released"]


def group_advantages(
    rewards: torch.Tensor,
    groups: Groups = None,
    scale: Scale = "group_std",
    baseline: Baseline = "mean",
    eps: float = 1e-4,
    weights: Sequence[float] | None = None,
) -> torch.Tensor:
    """Return each row's reward minus its group's baseline, scaled; 0 in groups of equal rewards; UsageError for unknown names.

    `mean` over `group_std` is GRPO (arXiv 2402.03300, section 4.1.2), `mean` over `none` Dr. GRPO (arXiv 2503.20783,
    section 3), `leave_one_out` over `none` RLOO (arXiv 2402.14740, its RLOO estimator). Only the last has exactly the policy
    gradient as its expectation; with `mean` it is (G - 1) / G of it; a division by the sample's own std bends its direction.

    Args:
        rewards: of whole episodes (rows,).
        groups: the group of each row.
        scale: `group_std` divides by std + eps of the group, `batch_std` by that of all rewards together; ddof = 1.
        baseline: `mean` of the group, or the mean of the group's other rows.
        eps: added to the std; 1e-4 as in TRL (verl: 1e-6).
        weights: of rows that are no equal sample of the policy, leaves of a tree: means and stds are weighted, and each
            advantage is multiplied by its weight, of mean 1 in a group. A group's have any sum; their baseline is `mean`.

    Returns:
        Advantages (rows,).
    """
    if scale not in ("group_std", "batch_std", "none"):
        raise UsageError(f"scale={scale!r}: group_std, batch_std or none")
    values = rewards.double()  # (rows,)
    members = _members(groups, len(values), values.device)
    sizes = members.sizes()
    row_weights = torch.ones_like(values) if weights is None else torch.tensor(weights, dtype=torch.float64)
    shares = row_weights * sizes / members.total(row_weights)  # (rows,), 1 where none are given
    centred = values - members.total(shares * values) / sizes
    if baseline == "leave_one_out":
        advantages = centred * sizes / (sizes - 1).clamp(min=1)
    elif baseline == "mean":
        advantages = centred
    else:
        raise UsageError(f"baseline={baseline!r}: mean or leave_one_out")
    if scale == "group_std":
        advantages = advantages / ((members.total(shares * centred**2) / (sizes - 1).clamp(min=1)).sqrt() + eps)
    elif scale == "batch_std" and len(values) > 1:
        everyone = values - (shares * values).sum() / len(values)
        weighted = ((shares * everyone**2).sum() / (len(values) - 1)).sqrt()
        advantages = advantages / ((values.std() if weights is None else weighted) + eps)
    return torch.where(members.constant(values), 0.0, shares * advantages).to(rewards.dtype)


def pad_turns(rewards: Sequence[Sequence[float]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Lay the turns' rewards out as a table, 0 after an episode's end, with a mask of the turns that were reached.

    Returns:
        Rewards in float64 (rows, turns), 0 after an episode's end, and which turns were reached (rows, turns).
    """
    length = max((len(row) for row in rewards), default=0)
    table = [[*row, *[0.0] * (length - len(row))] for row in rewards]
    reached = [[True] * len(row) + [False] * (length - len(row)) for row in rewards]
    shape = (len(rewards), length)
    return (
        torch.tensor(table, dtype=torch.float64).reshape(shape),
        torch.tensor(reached, dtype=torch.bool).reshape(shape),
    )


def returns_to_go(rewards: torch.Tensor, gamma_turn: float = 1.0) -> torch.Tensor:
    """Return the return of each turn: G_t = r_t + gamma_turn * G_{t+1}.

    Args:
        rewards: of turns (rows, turns), 0 after an episode's end.
        gamma_turn: the discount from one turn to the next; 1 for none.

    Returns:
        Returns-to-go (rows, turns).
    """
    returns = torch.zeros_like(rewards)  # (rows, turns)
    future = rewards.new_zeros(len(rewards))  # (rows,)
    for turn in reversed(range(rewards.shape[1])):
        future = rewards[:, turn] + gamma_turn * future
        returns[:, turn] = future
    return returns


def turn_advantages(
    rewards: torch.Tensor,
    reached: torch.Tensor,
    groups: Groups = None,
    gamma_turn: float = 1.0,
    baseline: TurnBaseline = "leave_one_out",
    eps: float = 1e-4,
) -> torch.Tensor:
    """Return each turn's advantage by `baseline`, from it to the episode's end; 0 if not reached; UsageError for another name.

    A baseline leaves the expected gradient alone only if it does not depend on what the episode itself does from that turn on.
    Both leave-one-out forms keep to that, so with gamma_turn = 1 their expectation is exactly the policy gradient, however
    the policy chooses its number of turns; with gamma_turn < 1 it is so once turn t is weighted by gamma_turn ** (t - 1).

    `per_index` normalises each turn's reward over the episodes that reached that turn, then adds up what follows (MT-GRPO,
    arXiv 2505.11821, carried over to any number of turns). How many means an episode pays depends on when it chooses to end:
    that is a hidden price on every further turn (verl issue 7244). It is here to be compared with.

    Args:
        rewards: of turns (rows, turns).
        reached: which turns each episode has (rows, turns).
        groups: the group of each row.
        gamma_turn: the discount from one turn to the next.
        baseline: `leave_one_out` counts an episode that ended earlier as earning 0; `leave_one_out_reached` averages only
            others that reached the turn (0 where none did); `per_index` is biased; `batch` knows no groups: it standardises
            returns over all turns of the batch (REINFORCE++, arXiv 2501.03262, there over tokens).
        eps: added to the std; `per_index` and `batch` only.

    Returns:
        Advantages (rows, turns), 0 where not reached.
    """
    earned = torch.where(reached, rewards, 0.0).double()  # (rows, turns)
    members = _members(groups, len(earned), earned.device)
    if baseline == "per_index":
        advantages = returns_to_go(_standardise(earned, reached, members, eps), gamma_turn)
    elif baseline in ("leave_one_out", "leave_one_out_reached"):
        returns = returns_to_go(earned, gamma_turn)
        counted = reached if baseline == "leave_one_out_reached" else torch.ones_like(reached)
        others = members.total(counted.double()) - counted.double()
        advantages = returns - (members.total(returns) - returns) / others.clamp(min=1)
        advantages = torch.where(members.constant(returns), 0.0, advantages)
    elif baseline == "batch":
        returns = returns_to_go(earned, gamma_turn)
        there = returns[reached]  # (turns of all rows,)
        spread = there.std() if len(there) > 1 and there.min() < there.max() else torch.inf
        advantages = (returns - there.mean()) / (spread + eps)
    else:
        raise UsageError(f"baseline={baseline!r}: leave_one_out, leave_one_out_reached, per_index or batch")
    return torch.where(reached, advantages, 0.0).to(rewards.dtype)


def groups_with_signal(rewards: torch.Tensor, groups: Groups = None) -> torch.Tensor:
    """Return a mask of the rows whose group's rewards differ: DAPO's dynamic sampling (arXiv 2503.14476, section 3.2).

    The others have advantages of 0; dropping them, and sampling more in their place, keeps the effective batch size. For
    rewards of turns pass the table (rows, turns): a difference at any turn counts.
    """
    constant = _members(groups, len(rewards), rewards.device).constant(rewards.double())
    return ~(constant if rewards.dim() == 1 else constant.all(dim=1))  # (rows,)


@dataclass(frozen=True)
class DualDiscounts:
    """The discounts of `dual_discount_gae`: gammas of rewards and values, lambdas of what is carried back.

    Verlog's (its report, Dual Discounting GAE): .99 and .95 from turn to turn, 1 and 1 from token to token.
    """

    gamma_turn: float = 0.99
    lambda_turn: float = 0.95
    gamma_token: float = 1.0
    lambda_token: float = 1.0


def dual_discount_gae(
    values: Sequence[Sequence[float]],
    rewards: Sequence[Sequence[float]],
    bootstraps: Sequence[float | None],
    *,
    discounts: DualDiscounts,
    slots: Slots = "tokens",
) -> list[list[float]]:
    """Return a lane's generalised advantages, one a slot, with own discounts from turn to turn (Verlog); UsageError if unfit.

    The value of slot j is that of the moment before token j. Inside a turn tokens discount; from a turn's last slot to the
    next turn's first one the turn's discounts do. `slots="released"` has one slot more, behind the reply, as the released code
    does for replies that end before their limit: the turn's discounts act there, and tokens discount from the last token to
    it. Both are equal where token discounts are 1.

    Args:
        values: of each turn's slots: one a token, and with `released` one more.
        rewards: of each turn's tokens.
        bootstraps: of each turn the value of what follows it, where nothing that follows is among these turns: 0 where the
            episode is over for good, the next state's where a limit or the end of the batch cut it; None: it goes on.
        discounts: gamma and lambda of turns and of tokens.
        slots: which moments have a value.

    Returns:
        An advantage a slot, turn by turn.

    Raises:
        UsageError: numbers of slots and tokens do not fit, or nothing follows the last turn.
    """
    if slots not in ("tokens", "released"):
        raise UsageError(f"slots={slots!r}: tokens or released")
    advantages = [[0.0] * len(own) for own in values]
    next_value = advantage = 0.0
    for turn in reversed(range(len(values))):
        slot_values, turn_rewards = values[turn], rewards[turn]
        slot_rewards = [*turn_rewards, 0.0] if slots == "released" else list(turn_rewards)
        bootstrap = bootstraps[turn]
        fits = 0 < len(slot_values) == len(slot_rewards)
        if not fits or (bootstrap is None and turn == len(values) - 1):
            needs = "a bootstrap" if fits else f"{len(slot_rewards)} values, at least 1, not {len(slot_values)}"
            raise UsageError(f"dual_discount_gae: turn {turn} with {len(turn_rewards)} rewards needs {needs}")
        if bootstrap is not None:
            next_value, advantage = bootstrap, 0.0
        gamma, decay = discounts.gamma_turn, discounts.lambda_turn
        for slot in reversed(range(len(slot_values))):
            advantage = slot_rewards[slot] + gamma * next_value - slot_values[slot] + gamma * decay * advantage
            advantages[turn][slot], next_value = advantage, slot_values[slot]
            gamma, decay = discounts.gamma_token, discounts.lambda_token
    return advantages


@dataclass(frozen=True)
class _Members:
    """The group index of each row."""

    index: torch.Tensor  # (rows,)
    count: int

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """Return for each row the sum over its group (rows, ...)."""
        sums = values.new_zeros((self.count, *values.shape[1:])).index_add_(0, self.index, values)
        return sums[self.index]

    def sizes(self) -> torch.Tensor:
        """Return for each row how many rows its group has (rows,)."""
        return torch.bincount(self.index, minlength=self.count).double()[self.index]

    def constant(self, values: torch.Tensor, counted: torch.Tensor | None = None) -> torch.Tensor:
        """Return a mask of groups in which all (counted) rows hold one value (rows, ...); exact, unlike a std of 0."""
        counted = torch.ones_like(values, dtype=torch.bool) if counted is None else counted
        return self._highest(values, counted) == -self._highest(-values, counted)

    def _highest(self, values: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
        """Return for each row the highest value of the counted rows of its group (rows, ...); -inf where none counts."""
        lowest = values.new_full((self.count, *values.shape[1:]), -torch.inf)
        index = self.index.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
        filled = torch.where(counted, values, -torch.inf)
        return lowest.scatter_reduce_(0, index, filled, "amax")[self.index]


def _members(groups: Groups, rows: int, device: torch.device) -> _Members:
    """Return the group index of each row, by names or ids of groups; None is one group, UsageError for another number."""
    if isinstance(groups, torch.Tensor):
        groups = groups.tolist()  # tensors hash by identity
    group_ids = [0] * rows if groups is None else list(groups)
    if len(group_ids) != rows:
        raise UsageError(f"groups: {len(group_ids)} for {rows} rows")
    indices: dict[Hashable, int] = {}
    index = [indices.setdefault(name, len(indices)) for name in group_ids]
    return _Members(torch.tensor(index, dtype=torch.long, device=device), len(indices))


def _standardise(rewards: torch.Tensor, reached: torch.Tensor, members: _Members, eps: float) -> torch.Tensor:
    """Return z-scores among the rows of a group that reached a turn (rows, turns); 0 for a row alone there."""
    counts = members.total(reached.double())
    centred = torch.where(reached, rewards - members.total(rewards) / counts.clamp(min=1), 0.0)
    std = (members.total(centred**2) / (counts - 1).clamp(min=1)).sqrt()
    return torch.where(members.constant(rewards, reached), 0.0, centred / (std + eps))
