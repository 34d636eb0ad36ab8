"""`Budget` counts and limits what the calls of chat models cost; `Metered` is a model that pays from one.

A budget is asked before each attempt at a call, and paid after it, whether the attempt succeeded or not. With a file of its own
it goes on from what a killed run had spent.
"""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.services.chat.model import UNCOUNTED, ChatModel, ChatReply, ChatRequest

if TYPE_CHECKING:
    from agent_envs.services.chat.prices import Price

SPENT_SCHEMA = "agent-envs/spent@1"
Counts = dict[str, Counter[str]]  # calls and tokens by the name of a model
Charged = Callable[[ChatModel, "Budget"], ChatModel]  # puts a model behind a budget of its environment's, or of a run's


@dataclass(frozen=True)
class SpendingLimits:
    """The most that may be spent: calls, each attempt being one, and US dollars; 0 for no limit."""

    calls: int = 0
    usd: float = 0.0


class Budget(Uncopied):
    """Usage and limits of calls of chat models. Shared by threads, and by models that have one limit together."""

    def __init__(
        self,
        limits: SpendingLimits = SpendingLimits(),  # noqa: B008 - it is frozen
        prices: "Mapping[str, Price] | None" = None,
        *,
        ledger: Path | None = None,
        before: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        """Begin with nothing spent, or go on.

        Args:
            limits: the most that may be spent.
            prices: of models, by their names; one without a price costs no dollars.
            ledger: the file that holds what is spent, one writer's at a time; a UsageError where it holds something else.
            before: what is known to be spent from elsewhere: of each count the larger one holds.
        """
        self.limits, self.prices = limits, dict(prices or {})
        self._ledger, self._lock = ledger, threading.Lock()
        self._counts = read_spent(ledger) if ledger is not None and ledger.exists() else {}
        for name, counts in (before or {}).items():
            self._counts[name] = self._counts.get(name, Counter()) | Counter(counts)
        self._keep()

    @property
    def counts(self) -> Counts:
        """Calls and tokens so far, by model."""
        with self._lock:
            return {name: Counter(counts) for name, counts in self._counts.items()}

    def begin(self, name: str) -> None:
        """Count an attempt that begins; BudgetSpent once calls or dollars are at their limit, which ones under way may pass.

        Raises BudgetSpent: a limit is reached.
        """
        with self._lock:
            most, calls = self.limits, sum(counts["calls"] for counts in self._counts.values())
            if most.calls and calls >= most.calls:
                raise BudgetSpent(f"{name}: all {most.calls} calls of max_calls are made")
            if most.usd and (dollars := self._dollars(self._counts)) >= most.usd:
                raise BudgetSpent(f"{name}: {dollars:.4f} of {most.usd:.4f} USD are spent")
            self._counts.setdefault(name, Counter())["calls"] += 1
            self._keep()

    def pay(self, name: str, usage: Mapping[str, int], *, failed: bool = False) -> None:
        """Count an attempt's tokens; UsageError if a limit in dollars cannot hold as they are not counted, failed ones apart.

        Raises UsageError: a limit in dollars cannot hold, as the tokens are not counted, or not as whole numbers.
        """
        tokens = {what: n for what, n in usage.items() if type(n) is int and n >= 0 and what != "calls"}
        with self._lock:
            self._counts.setdefault(name, Counter()).update(tokens)
            self._keep()
        sound = len(tokens) + ("calls" in usage) == len(usage) and not tokens.get(UNCOUNTED)
        if self.limits.usd and not (sound and (failed or tokens.get("input") or tokens.get("output"))):
            raise UsageError(
                f"{name}: a reply counts no tokens, or not all in whole numbers, so that no limit in US dollars can hold: "
                f"leave --max-cost or max_cost out, or limit the calls (usage: {str(dict(usage))[:200]})"
            )

    def take_back(self, name: str) -> None:
        """Take an attempt's count back: a budget further in refused it, so that it was never made."""
        with self._lock:
            self._counts[name]["calls"] -= 1
            self._keep()

    def _dollars(self, counts: Counts) -> float:
        """Return the dollars that the tokens cost; models without a price cost nothing."""
        from agent_envs.services.chat.prices import cost_of

        return sum(cost_of(self.prices[name], used) for name, used in counts.items() if name in self.prices)

    def _keep(self) -> None:
        """Write the counts to the ledger, if there is one, in one step."""
        if self._ledger is None:
            return
        self._ledger.parent.mkdir(parents=True, exist_ok=True)
        part = self._ledger.with_suffix(".part")
        part.write_text(canonical_json({"schema": SPENT_SCHEMA, "counts": self._counts}), encoding="utf-8")
        os.replace(part, self._ledger)


class Metered:
    """A chat model that pays from a budget, and is asked nothing more when that is spent."""

    def __init__(self, model: ChatModel, budget: Budget) -> None:
        self.name = model.name
        self._model, self._budget = model, budget

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the model itself (settings, `require_key`, `close`); AttributeError for a private name."""
        if name.startswith("_"):  # of a copy, which asks before it has a model
            raise AttributeError(name)
        return getattr(self._model, name)

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Return the model's reply of one attempt, paid for as faults are; BudgetSpent if nothing is left, or UsageError."""
        self._budget.begin(self.name)
        try:
            reply = self._model.complete(request, seconds)
        except BudgetSpent:
            self._budget.take_back(self.name)
            raise
        except EnvFault as fault:
            self._budget.pay(self.name, fault.usage, failed=True)
            raise
        self._budget.pay(self.name, reply.usage, failed=bool(reply.refusal))
        return reply


class RunBudgets(Uncopied):
    """The budgets of one run: environments that limit a model alike count together."""

    def __init__(self, totals: Mapping[str, Budget] | None = None) -> None:
        """Set the further budgets that all calls of a model are charged to, by model name."""
        self.totals, self._lock = {} if totals is None else totals, threading.Lock()
        self._budgets: dict[tuple[str, SpendingLimits], Budget] = {}

    def __call__(self, model: ChatModel, own: Budget) -> ChatModel:
        """Return a model behind the run's budgets; the first environment's own becomes that of those alike."""
        with self._lock:
            budget = self._budgets.setdefault((model.name, own.limits), own)
        metered, total = Metered(model, budget), self.totals.get(model.name)
        return metered if total is None else Metered(metered, total)


def read_spent(path: Path) -> Counts:
    """Read the counts in the file of a budget; raises UsageError where it is no such file."""
    try:
        row = json.loads(path.read_bytes())
        if row["schema"] != SPENT_SCHEMA:
            raise ValueError(f"its schema is {row['schema']!r}")
        return {name: Counter({what: int(n) for what, n in used.items()}) for name, used in row["counts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} does not say what was spent: {error}; begin a run anew, or delete it") from None
