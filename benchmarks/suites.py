"""Suites are measured with the built-in agents: which tasks tell no two of them apart, saturation, and headroom.

    AGENT_ENVS_DATA=... python -m benchmarks.suites --out benchmarks/results/suites.json

The first tasks of every entry (`--tasks`, 128) are played once by random play, by the heuristic where the id has one, and by
the solver, which reads the gold. `alike` is the share of tasks that all of them solve or all fail: no two are told apart.
`alike_without_gold` is the same of random play and the heuristic, over the entries that have both. `saturation` is the mean
over entries of the better of these two, `headroom` what the solver's score has beyond it. All are weighted over entries as the
suite's score is. `drop` names entries at 0 % for both agents without gold and at 100 % for the solver: they do not belong in
`core`. A suite whose data is not on the machine is left out, by name.
"""

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.base.errors import DataMissing, MissingExtra, Unsolvable
from agent_envs.base.terminal import progress_bar
from agent_envs.core.registry import companion
from agent_envs.evaluation.suites.plan import entry_env, first_tasks, plan_of
from agent_envs.evaluation.suites.suite import DEMO, Entry, Suite, load_suite, suite_names
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy

TASKS = 128
WITHOUT_GOLD = ("random", "heuristic")
AGENTS = (*WITHOUT_GOLD, "solver")
Outcomes = dict[str, tuple[bool, ...]]  # of an entry: agent -> task by task


@dataclass(frozen=True)
class Measurement:
    """The outcomes of agents on the first tasks of an entry."""

    entry: Entry
    outcomes: Outcomes

    @property
    def tasks(self) -> int:
        """The number of tasks in the measurement."""
        return len(self.entry.tasks)

    @property
    def rates(self) -> dict[str, float]:
        """The success of each agent that there is."""
        return {agent: sum(ends) / self.tasks for agent, ends in self.outcomes.items()}

    @property
    def best(self) -> float:
        """The better success without gold."""
        return max(rate for agent, rate in self.rates.items() if agent in WITHOUT_GOLD)

    def alike(self, agents: Sequence[str]) -> float:
        """Return the share of tasks that all of these agents solve or all fail."""
        rows = [self.outcomes[agent] for agent in agents if agent in self.outcomes]
        return sum(len(set(ends)) == 1 for ends in zip(*rows, strict=True)) / self.tasks

    @property
    def dropped(self) -> bool:
        """Whether the entry does not belong in `core`: random and heuristic are there, at 0 %, and the solver is at 100 %."""
        return self.rates == {"random": 0, "heuristic": 0, "solver": 1}

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        both = {"alike_without_gold": self.alike(WITHOUT_GOLD)} if "heuristic" in self.outcomes else {}
        figures = round_figures({"alike": self.alike(AGENTS), **both})
        return {"entry": self.entry.label, "tasks": self.tasks, "success": round_figures(self.rates), **figures}


def play(suite: Suite, entry: Entry, tick: Callable[[bool], None] = lambda won: None) -> Measurement:
    """Play the tasks of an entry with every agent that its environment has; a task that the solver gives up is not solved."""
    env = entry_env(entry)
    episodes = [row for row in plan_of(suite.part((entry,))) if row.trial == 0]
    outcomes: Outcomes = {}
    for name in AGENTS:
        if name == "heuristic" and companion(env, name) is None:
            continue
        ends = []
        for row in episodes:
            try:
                result = run_episode(
                    env, CompanionPolicy(name), seed=row.seed, task=row.task, split=row.split, episode_key=row.key
                )
                ends.append(bool(result.success))
            except Unsolvable:
                ends.append(False)
            tick(ends[-1])
        outcomes[name] = tuple(ends)
    return Measurement(entry, outcomes)


def table_of(suite: Suite, rows: Sequence[Measurement]) -> dict[str, Any]:
    """Return the figures of a suite."""

    def mean(value: Callable[[Measurement], float], of: Sequence[Measurement] = rows) -> float:
        """Return the mean of a value over measurements, weighted as the suite weights their entries."""
        weights = [row.entry.weight for row in of]
        return math.fsum(value(row) * row.entry.weight for row in of) / math.fsum(weights)

    both = [row for row in rows if "heuristic" in row.outcomes]
    best, solver = mean(lambda row: row.best), mean(lambda row: row.rates["solver"])
    figures = {
        "random": mean(lambda row: row.rates["random"]),
        "saturation": best,
        "solver": solver,
        "headroom": solver - best,
    }
    figures["alike"] = mean(lambda row: row.alike(AGENTS))
    if both:
        figures["alike_without_gold"] = mean(lambda row: row.alike(WITHOUT_GOLD), both)
    return {
        "suite": suite.name, "digest": suite.digest(), "tasks": sum(row.tasks for row in rows),
        "entries_with_heuristic": len(both), **round_figures(figures), "drop": [row.entry.label for row in rows if row.dropped],
        "entries": [row.to_json() for row in rows],
    }  # fmt: skip


def line_of(table: dict[str, Any]) -> str:
    """Return the figures of a suite as a row of the table in docs/leaderboard.md."""
    names = ("random", "saturation", "solver", "headroom", "alike", "alike_without_gold")
    cells = [f"{100 * table[name]:.1f}" if name in table else "-" for name in names]
    both = f"{table['entries_with_heuristic']} of {len(table['entries'])}"
    return " | ".join(["", f"`{table['suite'].partition('.')[0]}`", str(table["tasks"]), *cells, both, ""]).strip()


def round_figures(figures: dict[str, float]) -> dict[str, float]:
    """Return figures rounded to four decimals."""
    return {name: round(value, 4) for name, value in figures.items()}


def measure(suite: Suite, tasks: int) -> dict[str, Any]:
    """Return the figures of the first tasks of a suite's entries.

    Raises:
        DataMissing, MissingExtra: an entry cannot be made here.
    """
    part = first_tasks(suite, tasks)
    total = len(AGENTS) * sum(len(entry.tasks) for entry in part.entries)
    began, ended = time.process_time(), list[bool]()
    with progress_bar(suite.name) as bar:

        def tick(won: bool) -> None:
            """Count an episode that has ended, and move the bar on."""
            ended.append(won)
            bar(len(ended), total, sum(ended))

        rows = [play(part, entry, tick) for entry in part.entries]
    return {**table_of(suite, rows), "cpu_seconds": round(time.process_time() - began, 1)}


def write(path: Path, tasks: int, tables: Sequence[dict[str, Any]]) -> None:
    """Write the tables to a file, into which those of other suites were written before."""
    old = json.loads(path.read_text(encoding="utf-8"))["suites"] if path.exists() else []
    by_name = {table["suite"].partition("@")[0]: table for table in (*old, *tables)}
    body = {
        "command": f"python -m benchmarks.suites --tasks {tasks}", "python": platform.python_version(),
        "suites": [by_name[name] for name in sorted(by_name)],
    }  # fmt: skip
    path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every suite but demo, which is a part of core; exit code 3 where one is left out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suites", description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", help="names; all but demo where none is given")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"of every entry, the first ones ({TASKS})")
    parser.add_argument("--out", type=Path, help="a file, in which the tables of other suites stay")
    options = parser.parse_args(arguments)
    tables, code = [], 0
    for name in options.suites or [name for name in suite_names() if name != DEMO]:
        try:
            tables.append(measure(load_suite(name), options.tasks))
        except (DataMissing, MissingExtra) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            code = 3
            continue
        print(line_of(tables[-1]))
    if options.out is not None:
        write(options.out, options.tasks, tables)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
