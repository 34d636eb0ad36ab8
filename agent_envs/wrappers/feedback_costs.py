"""Feedback from a chat model costs tokens and dollars, which are counted under names of their own and limited.

A limit holds for one environment and its forks, or over all environments of a run that limit the same model alike: what plays
many hands the budgets of its run down with `Services`.
"""

from collections.abc import Mapping
from pathlib import Path

from agent_envs.base.arguments import number, whole_number
from agent_envs.base.errors import UsageError
from agent_envs.services.chat.spending import Budget, Limits

PREFIX = "feedback_"  # of the names in an episode's usage


def feedback_usage(usage: Mapping[str, int]) -> dict[str, int]:
    """Return the part of an episode's usage that its feedback took, under the plain names."""
    return {name.removeprefix(PREFIX): count for name, count in usage.items() if name.startswith(PREFIX)}


def feedback_limits(max_calls: int, max_cost: float) -> Limits:
    """Return limits as a wrapper is given them, 0 for none; raises UsageError where one is no such number."""
    whole_number("VerbalFeedback", "max_calls", max_calls, 0)
    return Limits(max_calls, number("VerbalFeedback", "max_cost", max_cost, 0))


def feedback_budget(model: str, limits: Limits, prices: str) -> Budget:
    """Return a new budget for a model; `prices` is the path of a table, "" for the package's.

    Raises UsageError: dollars are limited and no price is known for the model.
    """
    if not limits.usd:
        return Budget(limits)
    from agent_envs.services.chat.prices import load_prices

    price = load_prices(Path(prices) if prices else None).price(model)
    if price is None:
        raise UsageError(
            f"VerbalFeedback: max_cost={limits.usd}: no price is known for {model!r}; give prices=FILE, a table as "
            "docs/veg.md shows one, or limit the calls with max_calls"
        )
    return Budget(limits, {model: price})
