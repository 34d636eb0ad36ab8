"""Runs of trainers as a user would type them, each in a process of its own: begun, gone on with, or taken as they are."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any


def trained(program: str, options: Sequence[str], seed: int, folder: Path) -> dict[str, Any]:
    """Run `python -m trainers.PROGRAM` to its end on one torch thread, or on to it, and return its result.

    Args:
        program: the trainer.
        options: of the command line, but the seed and the folder.
        seed: of the run.
        folder: of the run; what it prints is kept in log.txt.
    """
    result = folder / "result.json"
    if not result.exists():
        begun = (folder / "settings.json").exists() and (folder / "checkpoints").exists()
        words = ["--resume", str(folder)] if begun else [*options, "--seed", str(seed), "--out", str(folder)]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            command = [sys.executable, "-m", f"trainers.{program}", *words]
            quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, env=quiet, stdout=log, stderr=subprocess.STDOUT)
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found


def about(command: str) -> dict[str, str]:
    """Return what a file of figures says of its machine and versions."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} shared cores, one thread a run"
    told = {"command": command, "machine": machine, "python": platform.python_version()}
    return told | {name: version(name) for name in ("torch", "transformers", "numpy")}


def percent(row: dict[str, Any]) -> str:
    """Return a success with its interval, in per cent."""
    low, high = row["interval"]
    return f"{100 * row['success']:5.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
