"""Simulations with known truths test our intervals' coverage and our paired test, against two common formulas.

    python -m benchmarks.coverage --out benchmarks/results/coverage.json

Peers in the same run, on the same draws: Wilson's interval on pooled trials (for means the plain z interval), which takes
trials of one task for independent, and the cluster z interval, value +- 1.96 clustered standard errors. For the paired test:
two proportions' z test on pooled trials, and Welch's t on task means, both of which forget that the tasks are the same.
Exits with 1 where a rate over 50 tasks x 4 trials leaves 94 to 99 %, or power at the printed minimum detectable difference
leaves 70 to 90 %.
"""

import argparse
import json
import math
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.evaluation.statistics.paired import compare_paired, minimum_detectable
from agent_envs.evaluation.statistics.student import t_tail
from benchmarks.coverage_cases import CoverageCase, Design, Table, Z, cases, generator_for

BAND = (0.94, 0.99)
POWER_BAND = (0.70, 0.90)
PLANS = 200  # simulations whose first run is planned from: their median is all that is shown


def cover(case: CoverageCase, simulations: int, seed: str) -> dict[str, Any]:
    """Simulate a case, and return coverage and mean width of our interval and two common ones."""
    generator = generator_for(case.name, seed)
    hits, widths = np.zeros(3), np.zeros(3)
    for _ in range(simulations):
        truth, *intervals = case.draw(generator)
        hits += [low <= truth <= high for low, high in intervals]
        widths += [high - low for low, high in intervals]
    shares = hits / simulations
    errors = np.sqrt(shares * (1 - shares) / simulations)
    names = ("ours", "naive", "cluster_z")
    row = {
        name: {"coverage": round(s, 4), "standard_error": round(e, 4), "mean_width": round(w / simulations, 4)}
        for name, s, e, w in zip(names, shares.tolist(), errors.tolist(), widths.tolist(), strict=True)
    }
    return {"setting": case.name, "gated": case.gated, **row}


@dataclass(frozen=True)
class Duel:
    """Two agents on the same tasks; on a share of the tasks their chances have nothing to do with each other."""

    name: str
    design: Design
    unrelated: float = 0.0

    def draw(self, generator: np.random.Generator, difference: float) -> tuple[Table, Table]:
        """Play both; the second is better by `difference` on every task, whatever the task's chance."""
        base = self.design.chances(generator)
        other = np.where(generator.random(len(base)) < self.unrelated, self.design.chances(generator), base)
        chances = (base * (1 - difference), other * (1 - difference) + difference)
        return self.design.play(generator, chances[0]), self.design.play(generator, chances[1])


DUELS = (
    Duel("50 x 4, Beta(.8, .8)", Design(50, 4, 0.8, 0.8)),
    Duel("50 x 4, a third of the tasks unrelated", Design(50, 4, 0.8, 0.8), 1 / 3),
    Duel("50 x 4, all tasks unrelated", Design(50, 4, 0.8, 0.8), 1.0),
    Duel("20 x 4, Beta(.8, .8)", Design(20, 4, 0.8, 0.8)),
    Duel("24 clusters of 5, x 2, a third unrelated", Design(120, 2, 0.8, 0.8, cluster_size=5), 1 / 3),
)


def unpaired(first: Table, second: Table) -> tuple[bool, bool]:
    """Return whether the z test on pooled trials and Welch's t test on task means reject equality at 5 %."""
    gap = abs(float(second.mean() - first.mean()))
    pooled = float(first.mean() + second.mean()) / 2
    error = math.sqrt(pooled * (1 - pooled) * 2 / first.size)
    parts = [float(table.mean(1).var(ddof=1)) / len(table) for table in (first, second)]
    df = sum(parts) ** 2 * (len(first) - 1) / sum(part**2 for part in parts)
    return gap > Z * error, 2 * t_tail(gap / math.sqrt(sum(parts)), df) < 0.05


def reject(duel: Duel, difference: float, simulations: int, seed: str) -> dict[str, Any]:
    """Simulate a duel: the tests' rejection rates (power; at difference 0, false positives) and our interval's coverage."""
    generator = generator_for(f"{duel.name} {difference:.4f}", seed)
    names = [str(task) for task in range(duel.design.tasks)]
    homes = dict(zip(names, duel.design.clusters[:: duel.design.trials], strict=True))
    rejected, covered, detectable, planned = np.zeros(3), 0, [], []
    for number in range(simulations):
        first, second = duel.draw(generator, difference)
        tables = [dict(zip(names, table.tolist(), strict=True)) for table in (first, second)]
        pair = compare_paired(tables[0], tables[1], homes)
        rejected += [pair.p_value < 0.05, *unpaired(first, second)]
        covered += pair.low <= difference <= pair.high
        detectable.append(pair.detectable)
        if number < PLANS:
            planned.append(minimum_detectable(first.ravel().tolist(), duel.design.labels, duel.design.clusters))
    shares = (rejected / simulations).tolist()
    rates = dict(zip(("ours", "naive_z", "welch_t"), (round(share, 4) for share in shares), strict=True))
    return {
        "true_difference": round(difference, 4), "rejected": rates,
        "standard_error": round(math.sqrt(max(shares[0] * (1 - shares[0]), 1e-4) / simulations), 4),
        "interval_coverage": round(covered / simulations, 4), "detectable_median": round(float(np.median(detectable)), 4),
        "planned_median": round(float(np.median(planned)), 4),
    }  # fmt: skip


def duel_row(duel: Duel, simulations: int, seed: str) -> dict[str, Any]:
    """Play a comparison at several differences and at the one that it should detect; return the row of the table."""
    rejections = [reject(duel, difference, simulations, seed) for difference in (0.0, 0.05, 0.10)]
    at = reject(duel, rejections[-1]["detectable_median"], simulations, seed)
    right = POWER_BAND[0] <= at["rejected"]["ours"] <= POWER_BAND[1]
    return {"setting": duel.name, "differences": rejections, "at_detectable": at, "detectable_right": right}


def show_case(row: dict[str, Any]) -> None:
    """Print a case's coverage and widths as a line."""
    cells = (
        f"{100 * row[name]['coverage']:9.1f} ({row[name]['mean_width']:.3f})" for name in ("ours", "naive", "cluster_z")
    )
    error = 100 * row["ours"]["standard_error"]
    print(
        f"{row['setting']:42}{'  '.join(cells)}  {error:5.1f}{'' if row.get('held', True) else '  OUTSIDE'}", flush=True
    )


def show_duel(row: dict[str, Any]) -> None:
    """Print the rejection rates of a paired test by true difference, as lines."""
    for rejection in (*row["differences"], row["at_detectable"]):
        cells = "".join(f"{100 * share:10.1f}" for share in rejection["rejected"].values())
        print(
            f"{row['setting']:42}{rejection['true_difference']:6.3f}{cells}{100 * rejection['interval_coverage']:12.1f}"
            f"{rejection['detectable_median']:12.3f}{rejection['planned_median']:10.3f}",
            flush=True,
        )
    if not row["detectable_right"]:
        print("  OUTSIDE: power at the median detectable difference leaves 70 to 90 %")


def main() -> int:
    """Run all coverage cases and paired tests, and write the report; the exit code is 1 if a bound is not held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--simulations", type=int, default=5_000, help="a setting; the paired test runs 2 in 5 of them")
    parser.add_argument("--seed", default="coverage")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    options = parser.parse_args()
    began, rows, duels = time.process_time(), [], []
    print(f"{'coverage in %, nominal 95 (mean width)':42}{'ours':>9}{'naive':>18}{'cluster z':>18}    error of ours")
    for case in cases(options.seed):
        row = cover(case, options.simulations, options.seed)
        rows.append(row | {"held": not case.gated or BAND[0] <= row["ours"]["coverage"] <= BAND[1]})
        show_case(rows[-1])
    print(f"\n{'rejected in %, level 5':42}{'true':>6}{'ours':>10}{'naive z':>10}{'Welch t':>10}{'interval':>12}"
          f"{'detectable':>12}{'planned':>10}")  # fmt: skip
    for duel in DUELS:
        duels.append(duel_row(duel, options.simulations * 2 // 5, options.seed))
        show_duel(duels[-1])
    sound = all(row["held"] for row in rows) and all(row["detectable_right"] for row in duels)
    report = {
        "command": "python -m benchmarks.coverage --out benchmarks/results/coverage.json",
        "simulations": {"coverage": options.simulations, "paired": options.simulations * 2 // 5}, "seed": options.seed,
        "python": platform.python_version(), "numpy": version("numpy"),
        "cpu_seconds": round(time.process_time() - began, 1), "held": sound, "coverage": rows, "paired": duels,
    }  # fmt: skip
    print(f"\n{'all held' if sound else 'NOT held'}; {report['cpu_seconds']} CPU-seconds")
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
