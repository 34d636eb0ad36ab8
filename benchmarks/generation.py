"""Generated tasks are timed in items per CPU-second, beside reasoning-gym's generators of the same kinds in the same run.

    python -m benchmarks.generation --out benchmarks/results/generation.json

Every generator runs in a process of its own; the rounds alternate between ours and the peer's, and the figure is the median of
the rounds, each the best of five windows over ever new items. An item of ours is a whole task: the question, the gold answer,
the public content, what the solver may know. Where the peer has settings that come near to our tasks it is measured with them
and as shipped; the table says what still differs. reasoning-gym is installed into `.venv-peers/reasoning-gym` where missing.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.steps import peer_python

WINDOWS, SECONDS = 5, 0.4
TARGET = 10_000
OURS: dict[
    str, tuple[str, dict[str, Any], str, bool]
] = {  # name -> id, its arguments, split, whether the target is for it
    "arithmetic train": ("Arithmetic", {}, "train", True),
    "arithmetic test": ("Arithmetic", {}, "test", True),
    "countdown": ("Countdown", {}, "train", True),
    "countdown natural": ("Countdown", {"targets": "natural"}, "train", True),
    "count digits": ("Count", {}, "train", True),
    "count symbols": ("Count", {"sequences": "symbols"}, "train", True),
    "sort": ("Sort", {}, "train", True),
    "sort 5": ("Sort", {"size": 5}, "train", True),
    "order": ("Order", {}, "train", False),
    "gsm8k_scaled": ("GSM8KScaled", {}, "train", False),
    "calc_bench train": ("CalcBench", {}, "train", False),
    "calc_bench test": ("CalcBench", {}, "test", False),
}
PEERS: dict[str, tuple[str, dict[str, Any], str, str]] = {  # name -> dataset, settings, our row, what differs
    "countdown 4x4": (
        "countdown",
        {"min_numbers": 4, "max_numbers": 4, "max_value": 9999, "min_target": 1, "max_target": 10**9},
        "countdown natural",
        "4 numbers below 10,000 and natural targets, as ours; hardly ever has to draw again for its target",
    ),
    "countdown as shipped": ("countdown", {}, "countdown natural", "4 to 6 numbers to 100, targets 100 to 999"),
    "number_sorting 5": (
        "number_sorting",
        {"min_numbers": 5, "max_numbers": 5, "max_decimals": 0},
        "sort 5",
        "5 numbers, either direction, as ours; its numbers are shown, ours are hidden behind names",
    ),
    "number_sorting as shipped": ("number_sorting", {}, "sort 5", "3 to 10 numbers with up to 2 decimals"),
}


def ours(name: str) -> float:
    """Return the best items per CPU-second of one of our generators over ever new indices."""
    import gymnasium as gym

    import agent_envs  # noqa: F401 - registers the ids

    env_name, arguments, split, _ = OURS[name]
    source: Any = gym.make(f"agent_envs/{env_name}-v0", **arguments).unwrapped.source  # type: ignore[attr-defined]
    source.get(split, 0)
    index, best = 1, 0.0
    for _ in range(WINDOWS):
        first, started = index, time.process_time()
        while time.process_time() - started < SECONDS:
            for _ in range(10):
                source.get(split, index)
                index += 1
        best = max(best, (index - first) / (time.process_time() - started))
    return best


def measure(command: list[str]) -> float:
    """Run a process and return the items per CPU-second that it printed."""
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(out.splitlines()[-1])["items_per_cpu_second"])


def commands() -> dict[str, list[str]]:
    """Return a command a row, each peer behind the row of ours that it stands beside."""
    python = peer_python("reasoning-gym")
    by_name = {}
    for name in OURS:
        by_name[name] = [sys.executable, "-m", "benchmarks.generation", "--generator", name]
        for peer, (dataset, settings, beside, _) in PEERS.items():
            if beside == name:
                script = "benchmarks/peers/reasoning_gym_items.py"
                by_name[peer] = [python, script, dataset, json.dumps(settings), str(WINDOWS), str(SECONDS)]
    return by_name


def run_rounds(rounds: int, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Return the items per CPU-second of every row in every round."""
    rates: dict[str, list[float]] = {name: [] for name in commands()}
    for number in range(rounds):
        say(f"round {number + 1}/{rounds}")
        for name, command in commands().items():
            rates[name].append(measure(command))
    return rates


def rows_of(rates: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Return the rows of the table: medians, rounds, and ratios round by round."""
    rows: dict[str, dict[str, Any]] = {}
    for name, values in rates.items():
        row: dict[str, Any] = {
            "items_per_cpu_second": float(f"{statistics.median(values):.4g}"),
            "rounds": [float(f"{value:.4g}") for value in values],
        }
        if name in PEERS:
            dataset, settings, beside, differs = PEERS[name]
            ratios = [mine / theirs for mine, theirs in zip(rates[beside], values, strict=True)]
            row |= {"peer": f"reasoning-gym {dataset}", "settings": settings, "beside": beside, "differs": differs}
            row["ours/this"] = float(f"{statistics.median(ratios):.3g}")
        elif OURS[name][3]:
            row["reaches_target"] = row["items_per_cpu_second"] >= TARGET
        rows[name] = row
    return rows


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the rows as text."""
    lines = [f"{'generator':<42}{'items per CPU-second':>22}"]
    for name, row in rows.items():
        label = f"  reasoning-gym {name}" if name in PEERS else name
        end = f"   {row['beside']} makes {row['ours/this']:g} x as many" if name in PEERS else ""
        end = f"   misses {TARGET:,}" if row.get("reaches_target") is False else end
        lines.append(f"{label:<42}{row['items_per_cpu_second']:>22,.0f}{end}")
    return "\n".join(lines)


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    parser.add_argument("--generator", choices=list(OURS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.generator:
        print(json.dumps({"items_per_cpu_second": ours(options.generator)}))
        return
    rows = rows_of(run_rounds(options.rounds, lambda text: print(text, file=sys.stderr)))
    print(table(rows))
    if options.out:
        record = {
            "command": "python -m benchmarks.generation",
            "versions": {"python": platform.python_version(), "reasoning-gym": peer_version()}
            | {package: version(package) for package in ("numpy", "gymnasium")},
            "machine": f"{platform.system()} {platform.machine()}",
            "rows": rows,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def peer_version() -> str:
    """Return the version of reasoning-gym that was measured."""
    code = "from importlib.metadata import version; print(version('reasoning-gym'))"
    return subprocess.run(
        [peer_python("reasoning-gym"), "-c", code], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
