"""Feedback from a chat model costs tokens and dollars, which are counted and limited here.

The paper's section on cost (arXiv copy of VEG, 3.3) multiplies the tokens of an episode's calls with the model's prices, and
the episode's cost with the number of episodes of a run. `FeedbackCost` does that from counted tokens.

Limits hold over a process: a trainer makes an environment for every thread, and a limit on each of them would be none. All
that a process asks one model is counted together; a wrapper stops asking where that count has reached its own limit.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.base.arguments import number, whole_number
from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.services.chat import ChatModel, ChatReply, ChatRequest

if TYPE_CHECKING:
    from agent_envs.services.chat.prices import Price

PREFIX = "feedback_"  # of the names in an episode's usage


def feedback_usage(usage: Mapping[str, int]) -> dict[str, int]:
    """Return the part of an episode's usage that its feedback took, under the plain names."""
    return {name.removeprefix(PREFIX): count for name, count in usage.items() if name.startswith(PREFIX)}


@dataclass(frozen=True)
class FeedbackCost:
    """What the feedback of some episodes took.

    Attributes:
        usage: their tokens and calls, under plain names (see `feedback_usage`).
        price: US dollars for a million tokens.
    """

    episodes: int
    usage: Mapping[str, int]
    price: "Price"

    @property
    def total_usd(self) -> float:
        """US dollars for all episodes."""
        from agent_envs.services.chat.prices import cost_of

        return cost_of(self.price, self.usage)

    @property
    def episode_usd(self) -> float:
        """US dollars for one episode, in the mean."""
        return self.total_usd / max(1, self.episodes)


@dataclass(frozen=True)
class Limits:
    """The most that may be asked of a model in a process; 0 for no limit. `price` is known where `most_usd` is set."""

    most_calls: int = 0
    most_usd: float = 0.0
    price: "Price | None" = None


@dataclass(frozen=True)
class LimitSettings:
    """Limits as a wrapper is given them: 0 for none; `prices` is the path of a table, "" for the package's."""

    max_calls: int = 0
    max_cost: float = 0.0
    prices: str = ""

    def __post_init__(self) -> None:
        """Check the values; raises UsageError where one is no such number."""
        whole_number("VerbalFeedback", "max_calls", self.max_calls, 0)
        number("VerbalFeedback", "max_cost", self.max_cost, 0)
        if not isinstance(self.prices, str):
            raise UsageError(f"VerbalFeedback: prices={self.prices!r}; give the path of a table of prices as a text")

    def of(self, model: str) -> Limits:
        """Return the limits on a model; raises UsageError where no price is known for it."""
        if not self.max_cost:
            return Limits(self.max_calls)
        from agent_envs.services.chat.prices import load_prices

        price = load_prices(Path(self.prices) if self.prices else None).price(model)
        if price is None:
            raise UsageError(
                f"VerbalFeedback: max_cost={self.max_cost}: no price is known for {model!r}; give prices=FILE, a table as "
                "docs/veg.md shows one, or limit the calls with max_calls"
            )
        return Limits(self.max_calls, float(self.max_cost), price)


class Meter:
    """What was asked of one model in this process. Shared by threads."""

    def __init__(self) -> None:
        self.calls, self.usage = 0, Counter[str]()
        self._lock = threading.Lock()

    def begin(self, name: str, limits: Limits) -> None:
        """Count a call that begins; calls that are under way may go over a limit in dollars by their own cost.

        Raises BudgetSpent: a limit is reached.
        """
        with self._lock:
            if limits.most_calls and self.calls >= limits.most_calls:
                more = f": {self.calls} were, under another limit" if self.calls > limits.most_calls else ""
                raise BudgetSpent(f"feedback by {name}: all {limits.most_calls} calls of max_calls are made{more}")
            if limits.most_usd and limits.price is not None:
                spent = FeedbackCost(1, self.usage, limits.price).total_usd
                if spent >= limits.most_usd:
                    raise BudgetSpent(
                        f"feedback by {name}: {spent:.4f} of max_cost={limits.most_usd:.4f} USD are spent"
                    )
            self.calls += 1

    def count(self, usage: Mapping[str, int]) -> None:
        """Count what a call took."""
        with self._lock:
            self.usage.update(usage)


_METERS: dict[str, Meter] = {}
_METERS_LOCK = threading.Lock()


def meter_of(name: str) -> Meter:
    """Return what this process asked the feedback model of a name."""
    with _METERS_LOCK:
        return _METERS.setdefault(name, Meter())


def forget_meters() -> None:
    """Count from nothing again: for a second run in one process that is to have limits of its own."""
    with _METERS_LOCK:
        _METERS.clear()


class MeteredChat:
    """A chat model whose calls are counted, and that is asked nothing more beyond its limits."""

    def __init__(self, model: ChatModel, limits: Limits) -> None:
        self.name = model.name
        self._model, self._limits = model, limits

    def __getattr__(self, name: str) -> Any:
        """Return what a model may have beside: settings, `require_key`, `close`."""
        return getattr(self._model, name)

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Ask the model.

        Raises:
            BudgetSpent: a limit is reached.
            UsageError: the reply counts no tokens, so that no limit in dollars can hold.
        """
        meter = meter_of(self.name)
        meter.begin(self.name, self._limits)
        try:
            reply = self._model.complete(request, seconds)
        except EnvFault as fault:
            meter.count(fault.usage)
            raise
        meter.count(reply.usage)
        if self._limits.most_usd and not (reply.usage.get("input") or reply.usage.get("output")):
            raise UsageError(
                f"feedback by {self.name}: a reply counts no tokens, so max_cost cannot hold: use max_calls"
            )
        return reply
