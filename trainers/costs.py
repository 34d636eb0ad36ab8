"""A run counts and limits what it pays chat models, over all resumes, and keeps their answers between two checkpoints."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_envs.base.serialization import digest
from agent_envs.services.chat.spending import Budget, Counts, RunBudgets, SpendingLimits, read_spent
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

Paid = dict[str, dict[str, float | None]]  # calls, tokens and `usd` by the name of a model


class Costs:
    """The costs of one process of a run; nothing where no models are named."""

    def __init__(self, prices: Mapping[str, Any] | None = None, limits: SpendingLimits = SpendingLimits()) -> None:  # noqa: B008
        """Take the names of the models with what they cost, None where that is not known, and the limits on each of them."""
        self.prices, self._limits = dict(prices or {}), limits
        self._budgets: dict[str, Budget] = {}
        self._shared, self._answers = RunBudgets(self._budgets), Path()
        self._recording: Recording | None = None

    def begin(self, out: Path, process: int = 0, processes: int = 1) -> None:
        """Go on from the counts kept in a run's folder, those of processes that no longer run merged into this one's."""
        self._answers = out / "answers" / str(process)
        for name, price in self.prices.items():
            ledger = out / "spent" / f"{digest(name)[:12]}-{process}.json"
            # Also of processes that this part of the run has not.
            files = ledger.parent.glob(f"{ledger.name[:13]}*.json")
            mine = [path for path in files if int(path.stem[13:]) % processes == process]
            before, price_table = sum_counts(map(read_spent, mine)), {} if price is None else {name: price}
            self._budgets[name] = Budget(self._limits, price_table, ledger=ledger, before=before)
            for path in set(mine) - {ledger}:
                path.unlink()

    def services(self, step: int) -> Services:
        """Return the port to outside services from a step on, recording answers if models are named; close the one before."""
        self.close()
        if self.prices:
            self._recording = Recording(self._answers / f"{step:08d}.jsonl", "record")
        return Services(self._recording, charged=self._shared)

    @property
    def counts(self) -> Counts:
        """Calls and tokens that this process and those before it used, by model."""
        return {name: budget.counts.get(name, Counter(calls=0)) for name, budget in self._budgets.items()}

    def forget(self, step: int) -> None:
        """Delete the answers of the steps before a checkpoint's."""
        for path in self._answers.glob("*.jsonl"):
            if path.stem.isdecimal() and int(path.stem) < step:
                path.unlink()

    def close(self) -> None:
        """Put the answers on disk."""
        if self._recording is not None:
            self._recording.close()

    def paid(self, parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Paid:
        """Sum the counts of several processes by model, with US dollars as `usd`, None for a model without a price."""
        from agent_envs.services.chat.prices import cost_of

        total = sum_counts(parts)
        usd = {name: price and round(cost_of(price, total.get(name, {})), 6) for name, price in self.prices.items()}
        return {name: {**counts, "usd": usd[name]} for name, counts in total.items()}


def sum_counts(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Add up the counts of several processes, by model and kind."""
    total: Counts = {}
    for part in parts:
        for name, counts in part.items():
            total.setdefault(name, Counter()).update(counts)
    return total


def in_words(paid: Paid) -> str:
    """Return calls, tokens and dollars of each model as the end of a sentence; "" for no models."""
    parts = [
        f"{row['calls']:,} calls to {name}, {row.get('input', 0):,} tokens in and {row.get('output', 0):,} out, "
        + ("no price known" if row["usd"] is None else f"{row['usd']:.4f} USD")
        for name, row in paid.items()
    ]
    return f"; in all {', and '.join(parts)}" if parts else ""


def curve_points(paid: Paid) -> dict[str, float]:
    """Return the costs so far as points of the training curves; dollars where every model has a price; {} for no models."""
    usd = [row["usd"] for row in paid.values()]
    points: dict[str, float] = {"feedback_calls": sum(row["calls"] or 0 for row in paid.values())} if paid else {}
    return points if None in usd or not paid else points | {"feedback_usd": sum(value or 0.0 for value in usd)}
