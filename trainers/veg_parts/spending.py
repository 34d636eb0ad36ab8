"""A run's spending on feedback is counted over all its resumes, and no answer is paid for twice.

What outside services answer is kept in the run's folder, a file for each step, until a checkpoint has what it led to. A run
that goes on plays the steps behind its checkpoint again, and finds the answers there. So what was spent is what a checkpoint
says and what is answered since.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_envs.services.recording import Recording, read_answers
from agent_envs.services.run_services import Services
from agent_envs.wrappers.feedback_costs import meter_of
from agent_envs.wrappers.feedback_models import PORT
from trainers.costs import Costs, Paid

if TYPE_CHECKING:
    from agent_envs.services.chat.prices import Price

Counts = dict[str, Counter[str]]  # calls and tokens by the name of a model


class Spending(Costs):
    """What one process of a run asked the models that give feedback."""

    def __init__(self, prices: Mapping[str, "Price | None"]) -> None:
        """Take the names of the models and what they cost; None where that is not known."""
        self.prices = dict(prices)
        self._folder = Path()
        self._recording: Recording | None = None

    def begin(self, folder: Path, step: int, before: Sequence[Mapping[str, Mapping[str, int]]]) -> None:
        """Count what was spent before.

        Args:
            folder: for the answers, this process's alone.
            step: that the run's checkpoint is of.
            before: what that says, of one process or several.
        """
        self._folder = folder
        known = summed([*before, self._kept(step)])
        for name in self.prices:
            meter, counts = meter_of(name), known.get(name, Counter())
            meter.calls, meter.usage = counts["calls"], counts

    def services(self, step: int) -> Services:
        """Return what stands before outside services from here on: a recording of a step, where anybody is paid."""
        self.close()
        if not self.prices:
            return Services()
        self._recording = Recording(self._folder / f"{step:08d}.jsonl", "record")
        return Services(self._recording)

    @property
    def counts(self) -> Counts:
        """All that was spent."""
        return {name: Counter({**meter_of(name).usage, "calls": meter_of(name).calls}) for name in self.prices}

    def before(self, step: int) -> dict[str, dict[str, int]]:
        """Return what was spent but for what the files of a step and of later ones hold: what its checkpoint says."""
        kept, found = self._kept(step), self.counts
        for name, counts in found.items():
            counts.subtract(kept.get(name, {}))
        return {name: dict(counts) for name, counts in found.items()}

    def forget(self, step: int) -> None:
        """Delete the answers of the steps before a checkpoint's."""
        for path in self._files():
            if int(path.stem) < step:
                path.unlink()

    def close(self) -> None:
        """Put the answers on disk."""
        if self._recording is not None:
            self._recording.close()

    def paid(self, parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Paid:
        """Return what several processes counted together, with US dollars."""
        return with_dollars(summed(parts), self.prices)

    def in_words(self, paid: Paid) -> str:
        """Return what `paid` gave as the end of a sentence; "" for nothing."""
        return in_words(paid)

    def points(self, paid: Paid) -> dict[str, float]:
        """Return what the curves of training show of it."""
        return curve_points(paid)

    def _files(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.jsonl") if path.stem.isdecimal())

    def _kept(self, step: int) -> Counts:
        """Return what the files of a step and of later ones hold."""
        rows = (row for path in self._files() if int(path.stem) >= step for row in read_answers(path))
        return summed(self._counted(rows))

    def _counted(self, rows: Iterable[Any]) -> Iterator[Mapping[str, Mapping[str, int]]]:
        for row in rows:
            port = row["port"].removeprefix(PORT)
            for name in self.prices:
                if row["port"] != port and (port == name or port.startswith(f"{name}#")):  # a digest of its options
                    yield {name: {**row["response"].get("usage", {}), "calls": 1}}


def summed(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Counts:
    """Return counts of several parts of a run, or of several processes, together."""
    found: Counts = {}
    for part in parts:
        for name, counts in part.items():
            found.setdefault(name, Counter()).update(counts)
    return found


def with_dollars(counts: Counts, prices: Mapping[str, "Price | None"]) -> dict[str, dict[str, float | None]]:
    """Return counts by model with US dollars as `usd`; None where a model has no price."""
    from agent_envs.services.chat.prices import cost_of

    told: dict[str, dict[str, float | None]] = {}
    for name, found in counts.items():
        price = prices[name]
        told[name] = {**found, "usd": None if price is None else round(cost_of(price, found), 6)}
    return told


def in_words(rows: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return what `with_dollars` gave as the end of a sentence; "" for nothing."""
    parts = []
    for name, row in rows.items():
        usd = "no price known" if row["usd"] is None else f"{row['usd']:.4f} USD"
        tokens = f"{row.get('input', 0):,} tokens in and {row.get('output', 0):,} out"
        parts.append(f"{row['calls']:,} calls to {name}, {tokens}, {usd}")
    return f"; in all {', and '.join(parts)}" if parts else ""


def curve_points(rows: Mapping[str, Mapping[str, float | None]]) -> dict[str, float]:
    """Return what the curves of training show of what was spent so far; dollars where every model has a price."""
    if not rows:
        return {}
    usd = [row["usd"] for row in rows.values()]
    told: dict[str, float] = {"feedback_calls": sum(row["calls"] or 0 for row in rows.values())}
    return told if None in usd else told | {"feedback_usd": sum(value or 0.0 for value in usd)}
