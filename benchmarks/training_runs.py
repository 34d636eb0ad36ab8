"""Trainers are run as a user would type them, each in a process of its own: begun, resumed, or taken as they are.

Settings are chosen on the seeds 0, 1 and 2; figures are reported on seeds drawn afterwards, by a rule that leaves no choice
(`report_seeds`). What several seeds say is a mean with Student's interval over seeds, and which seed came out worst: a seed is
one draw, however many tasks it is measured on.
"""

import contextlib
import hashlib
import json
import math
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.statistics.student import t_quantile

_RUNNING: set[subprocess.Popen[bytes]] = set()
_STARTING: set[object] = set()
_STOPPED_BY: list[int] = []
CHOSEN_ON = (0, 1, 2)
REPORTED = 5


def report_seeds(preset: str, count: int = REPORTED) -> tuple[int, ...]:
    """Return the seeds on which a preset's figures are reported: the first numbers of four hex digits of its name's sha256.

    A number under 10 or one that came before is passed over: settings were tried on such seeds.

    Args:
        preset: its name, `tiny-searchqa`.
        count: how many; at most the digest's.

    Raises:
        UsageError: the digest has not so many.
    """
    seeds = _seeds_of(preset)[:count]
    if len(seeds) < count:
        raise UsageError(f"report_seeds: the sha256 of {preset!r} gives {len(seeds)} seeds, not {count}")
    return seeds


def _seeds_of(preset: str) -> tuple[int, ...]:
    """Return all seeds that follow from a preset's name, in their order."""
    digits = hashlib.sha256(preset.encode()).hexdigest()
    numbers = dict.fromkeys(int(digits[place : place + 4], 16) for place in range(0, len(digits), 4))
    return tuple(number for number in numbers if number >= 10)


def describe_seeds(preset: str, seeds: Sequence[int]) -> str:
    """Describe the origin of the seeds of figures: whether settings were chosen on them."""
    if tuple(seeds) == report_seeds(preset, len(seeds)):
        return f"drawn after the settings were fixed, from the sha256 of {preset!r}"
    if set(seeds) <= set(rule := _seeds_of(preset)):
        places = ", ".join(str(rule.index(seed) + 1) for seed in seeds)
        return f"numbers {places} of the seeds that follow from the sha256 of {preset!r}"
    return "settings were chosen on some of them" if set(seeds) & set(CHOSEN_ON) else "given on the command line"


def run_training(program: str, options: Sequence[str], seed: int, folder: Path) -> dict[str, Any]:
    """Run `python -m trainers.PROGRAM` to its end on one torch thread, or on to it, and return its result.

    Args:
        program: the trainer.
        options: of the command line, but the seed and the folder.
        seed: of the run.
        folder: of the run; what it prints is kept in log.txt.
    """
    result = folder / "result.json"
    if not result.exists():
        resumable = (folder / "settings.json").exists() and (folder / "checkpoints").exists()
        words = ["--resume", str(folder)] if resumable else [*options, "--seed", str(seed), "--out", str(folder)]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            command = [sys.executable, "-m", f"trainers.{program}", *words]
            quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
            run_trainer(command, quiet, log)
    summary: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return summary


def run_trainer(command: Sequence[str], env: Mapping[str, str], log: IO[str], timeout: float | None = None) -> None:
    """Run a trainer to its end, in seconds at most if a timeout is given; `end_trainers_with_us` knows it meanwhile.

    Raises:
        subprocess.CalledProcessError: it failed.
        subprocess.TimeoutExpired: it took too long, and was ended.
    """
    start = object()
    _STARTING.add(start)
    try:
        if _STOPPED_BY:
            raise KeyboardInterrupt
        trainer = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        _RUNNING.add(trainer)
    finally:
        _STARTING.discard(start)
        if _STOPPED_BY and not _STARTING:  # while it started, or failed to: the signal waited for us
            os.kill(os.getpid(), _STOPPED_BY[0])
    try:
        code = trainer.wait(timeout)
    finally:
        _signal(trainer, signal.SIGKILL)
        trainer.wait()
        _RUNNING.discard(trainer)
    if code:
        raise subprocess.CalledProcessError(code, list(command))


def end_trainers_with_us() -> None:
    """Make SIGTERM, Ctrl-C and a terminal that closes end the trainers that run, and then this process by that signal."""

    def end(number: int, frame: object) -> None:
        """Pass the signal on to all running trainers and end this process by it; a trainer that is starting is awaited."""
        _STOPPED_BY.append(number)
        if _STARTING:
            return
        for trainer in list(_RUNNING):
            _signal(trainer, signal.SIGTERM)
        os.write(2, b"stopped; the same command goes on from here\n")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, end)


def _signal(trainer: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a trainer and to what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(trainer.pid, number)


def about(command: str) -> dict[str, str]:
    """Return the provenance of a file of figures: command, machine and versions."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} shared cores, one thread a run"
    provenance = {"command": command, "machine": machine, "python": platform.python_version()}
    return provenance | {name: version(name) for name in ("torch", "transformers", "numpy")}


def with_points_on_a_line(text: str) -> str:
    """Return indented JSON with each pair of numbers, a point of a curve or an interval, on one line."""
    return re.sub(r"\[\s+(-?[\d.e+-]+),\s+(-?[\d.e+-]+)\s+\]", r"[\1, \2]", text)


def write(tables: Mapping[str, Any], out: Path, name: str, provenance: Mapping[str, Any]) -> None:
    """Write tables into a file of figures under a name; those of a file that is there already stay where none is new."""
    old = json.loads(out.read_text(encoding="utf-8")).get(name, {}) if out.exists() else {}
    table = {"about": dict(provenance), name: {**old, **tables}}
    out.write_text(with_points_on_a_line(json.dumps(table, indent=1)) + "\n", encoding="utf-8")


def percent(row: dict[str, Any]) -> str:
    """Return a success with its interval, in per cent."""
    low, high = row["interval"]
    return f"{100 * row['success']:5.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def over_seeds(values: Mapping[int, float]) -> dict[str, Any]:
    """Return the values by seed, their mean, and its 95 % Student interval over seeds.

    The interval is None for one seed, and where all seeds have one value: it would have no width, and claim to be sure.

    Args:
        values: one a seed; there is at least one.
    """
    numbers = [values[seed] for seed in sorted(values)]
    mean, interval = statistics.mean(numbers), None
    if len(numbers) > 1 and max(numbers) - min(numbers) > 1e-9:
        half = t_quantile(0.975, len(numbers) - 1) * statistics.stdev(numbers) / math.sqrt(len(numbers))
        interval = [round(mean - half, 4), round(mean + half, 4)]
    by_seed = {str(seed): round(values[seed], 4) for seed in sorted(values)}
    return {"by_seed": by_seed, "mean": round(mean, 4), "interval": interval}


def summarise_shares(values: Mapping[int, float]) -> dict[str, Any]:
    """Return `over_seeds` of shares, the interval within [0, 1], and the worst seed: the first with the lowest value."""
    worst, summary = min(values, key=lambda seed: values[seed]), over_seeds(values)
    summary["interval"] = summary["interval"] and [min(1.0, max(0.0, bound)) for bound in summary["interval"]]
    return summary | {"worst": {"seed": worst, "value": round(values[worst], 4)}}


def mean_line(row: dict[str, Any]) -> str:
    """Format a result of `summarise_shares` as text, in per cent."""
    bounds = row["interval"] and " [{:.1f}, {:.1f}]".format(*(100 * min(1.0, max(0.0, x)) for x in row["interval"]))
    worst = f"worst {100 * row['worst']['value']:.1f} (seed {row['worst']['seed']})"
    count = len(row["by_seed"])
    return f"mean of {count} seed{'s' * (count > 1)} {100 * row['mean']:.1f} %{bounds or ', no interval'}, {worst}"


def lead_over_seeds(one: Mapping[int, float], other: Mapping[int, float]) -> dict[str, Any] | None:
    """Return the lead of the second over the first on the seeds that both have; None where there is none."""
    seeds = one.keys() & other.keys()
    return over_seeds({seed: other[seed] - one[seed] for seed in seeds}) if seeds else None


def points(row: dict[str, Any]) -> str:
    """Format a result of `lead_over_seeds` or `over_seeds` as text, in points of per cent."""
    seeds = ", ".join(row["by_seed"])
    bounds = row["interval"] and " [{:+.1f}, {:+.1f}]".format(*(100 * bound for bound in row["interval"]))
    return f"{100 * row['mean']:+.1f}{bounds or ', no interval'} (seed{'s' * (len(row['by_seed']) > 1)} {seeds})"
