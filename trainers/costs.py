"""A run may pay chat models that its environments ask, such as those that give feedback; `Costs` counts and limits that.

What was spent is kept in the run's folder as it is paid, so that it counts over all resumes. What the models answered is kept
there too, a file for each step, until a checkpoint has what it led to: a run that goes on plays the steps behind its checkpoint
again, finds the answers there, and pays for none of them twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agent_envs.base.serialization import digest
from agent_envs.services.chat.spending import Budget, Counts, Limits, RunBudgets, read_spent
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

if TYPE_CHECKING:
    from agent_envs.services.chat.prices import Price

Paid = dict[str, dict[str, float | None]]  # calls, tokens and `usd` by the name of a model


class Costs:
    """What one process of a run pays; nothing where no models are named."""

    def __init__(self, prices: "Mapping[str, Price | None] | None" = None, limits: Limits = Limits()) -> None:  # noqa: B008
        """Take the names of the models with what they cost, None where that is not known, and the limits on each of them."""
        self.prices, self._limits = dict(prices or {}), limits
        self._budgets: dict[str, Budget] = {}
        self._shared = RunBudgets(self._budgets)
        self._answers = Path()
        self._recording: Recording | None = None

    def begin(self, out: Path, process: int = 0, processes: int = 1) -> None:
        """Go on from what is kept in the folder of a run, as one of its processes."""
        self._answers = out / "answers" / str(process)
        for name, price in self.prices.items():
            stem = digest(name)[:12]
            kept = out / "spent" / f"{stem}-{process}.json"
            others = [
                path  # of processes that this part of the run has not
                for path in sorted(kept.parent.glob(f"{stem}-*.json"))
                if path != kept and int(path.stem.rpartition("-")[2]) % processes == process
            ]
            before = summed(read_spent(path) for path in (kept, *others)) if others else None
            prices = {name: price} if price is not None else {}
            self._budgets[name] = Budget(self._limits, prices, kept=kept, before=before)
            for path in others:
                path.unlink()

    def services(self, step: int) -> Services:
        """Return what stands before outside services from a step on: a recording of it, where anybody is paid."""
        self.close()
        if self.prices:
            self._recording = Recording(self._answers / f"{step:08d}.jsonl", "record")
        return Services(self._recording, self._shared)

    @property
    def counts(self) -> Counts:
        """All that this process and those before it spent."""
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
        """Return what several processes counted together, with US dollars as `usd`; None where a model has no price."""
        from agent_envs.services.chat.prices import cost_of

        rows: Paid = {}
        for name, counts in summed(parts).items():
            price = self.prices[name]
            rows[name] = {**counts, "usd": None if price is None else round(cost_of(price, counts), 6)}
        return rows


def summed(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Return counts of several processes together."""
    total: Counts = {}
    for part in parts:
        for name, counts in part.items():
            total.setdefault(name, Counter()).update(counts)
    return total


def in_words(paid: Paid) -> str:
    """Return what was paid as the end of a sentence; "" for nothing."""
    parts = []
    for name, row in paid.items():
        usd = "no price known" if row["usd"] is None else f"{row['usd']:.4f} USD"
        tokens = f"{row.get('input', 0):,} tokens in and {row.get('output', 0):,} out"
        parts.append(f"{row['calls']:,} calls to {name}, {tokens}, {usd}")
    return f"; in all {', and '.join(parts)}" if parts else ""


def curve_points(paid: Paid) -> dict[str, float]:
    """Return what the curves of training show of what was paid so far; dollars where every model has a price."""
    if not paid:
        return {}
    usd = [row["usd"] for row in paid.values()]
    points: dict[str, float] = {"feedback_calls": sum(row["calls"] or 0 for row in paid.values())}
    return points if None in usd else points | {"feedback_usd": sum(value or 0.0 for value in usd)}
