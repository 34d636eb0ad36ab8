"""The log of a demo holds what each of its steps cost, so that its length is known and a killed demo goes on.

A log is a file of one JSON object a line: first what is played, then a row a step that ended, with its share of the budget, its
episodes, and its CPU-seconds (child processes included) and seconds by the clock. A step that was killed is in no row.
"""

import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.terminal import stage_lines

BUDGET = {"evaluation": 55, "training": 40, "board": 15, "page": 10}  # CPU-seconds of `make demo`, by share
MEASURED = Path(__file__).parent / "results" / "demo.jsonl"  # the log of a `make demo` on one machine
TASKS = 80  # a run, in `make demo`
UNMEASURED, UNTRAINED = 0.5, 60.0  # CPU-seconds expected of a step that is not in it: 100 episodes, a training
Tell = Callable[[float], None]


@dataclass(frozen=True)
class DemoStep:
    """One step of a demo: its name, the share of the budget that it is counted to, and the episodes that it plays."""

    name: str
    share: str
    episodes: int = 0


def cpu_seconds() -> float:
    """Return the CPU-seconds of this process and of its children that ended."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def by_share(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return the CPU-seconds of each share of the budget."""
    sums = dict.fromkeys(BUDGET, 0.0)
    for row in rows:
        sums[row["share"]] += row["cpu_seconds"]
    return sums


def estimate_seconds(steps: Iterable[DemoStep]) -> dict[str, float]:
    """Estimate each step's CPU-seconds, by the measured log and in proportion to its episodes."""
    measured = {row["step"]: row for row in read_log(MEASURED)[1]}
    seconds = {}
    for step in steps:
        guess = UNTRAINED if step.share == "training" else UNMEASURED * step.episodes / TASKS
        row = measured.get(step.name, {"cpu_seconds": guess, "episodes": step.episodes})
        seconds[step.name] = row["cpu_seconds"] * step.episodes / (row["episodes"] or 1) or row["cpu_seconds"]
    return seconds


def read_log(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a log: its head, which describes the demo, and its rows; both are empty where there is none."""
    head, *rows = list(read_journal(path)) if path.is_file() else [{}]
    return head, rows


class Log:
    """The log of one demo, from its first step to its last, over any number of calls."""

    def __init__(self, path: Path, head: dict[str, Any], steps: Iterable[DemoStep]) -> None:
        """Open the log at `path`, which holds `head` or nothing."""
        self.steps = {step.name: step for step in steps}
        self._seconds = estimate_seconds(self.steps.values())
        before, rows = read_log(path)
        self.rows = {row["step"]: row for row in rows}
        self._journal = Journal(path)
        if not before:
            self._journal.append(head)
        self._tell = stage_lines("demo")
        self._last = (0.0, time.monotonic() - time.process_time())  # imports are counted to the first step

    def run(self, name: str, work: Callable[[Tell], None]) -> None:
        """Run a step, which reports its progress, and log it; a step that is in the log already is skipped."""
        if name in self.rows:
            return
        step = self.steps[name]
        self._say(name, 0.0)
        work(lambda part: self._say(name, part))
        now = (cpu_seconds(), time.monotonic())
        cpu, wall = (round(late - early, 3) for late, early in zip(now, self._last, strict=True))
        self._last = now
        self.rows[name] = {
            "step": name,
            "share": step.share,
            "episodes": step.episodes,
            "cpu_seconds": cpu,
            "seconds": wall,
        }
        self._journal.append(self.rows[name])

    @property
    def missing(self) -> list[str]:
        """The steps that are not in the log yet."""
        return [name for name in self.steps if name not in self.rows]

    def so_far(self) -> tuple[float, float]:
        """Return the CPU-seconds and the seconds by the clock of all steps, and of what came after the last."""
        cpu, wall = (sum(row[name] for row in self.rows.values()) for name in ("cpu_seconds", "seconds"))
        return cpu + cpu_seconds() - self._last[0], wall + time.monotonic() - self._last[1]

    def length(self) -> float:
        """Estimate the CPU-seconds of the missing steps."""
        return sum(self._seconds[name] for name in self.missing)

    def _say(self, name: str, part: float) -> None:
        """Tell the progress of the whole demo when a part of one step is done; never more than 99 %."""
        whole = sum(self._seconds.values())
        left = self.length() - self._seconds[name] * part
        self._tell(name, min(1 - left / whole, 0.99))

    def close(self) -> None:
        """Close the file, and end the line of progress."""
        self._tell("ready", 1.0)
        self._journal.close()
