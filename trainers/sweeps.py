"""Sweeps: a table of a paper as one command. Each cell is a run of a trainer, in a folder and a process of its own.

    python -m trainers.earl --sweep table5 --out runs/table5

A sweep is a file under trainers/presets/PROGRAM/sweeps: what its cells have in common, and a cell for every entry of the
table, with its row, its column and its own settings as options. Options beside `--sweep` hold for all cells (`--seed`,
`--steps`, another `--preset`). A finished cell is not run again, a killed one goes on: the same command resumes all.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_envs.errors import AgentEnvsError, UsageError
from trainers.command_line import PRESETS, RESULT_FILE, SETTINGS_FILE, option


@dataclass(frozen=True)
class Cell:
    """One entry of a table.

    Attributes:
        row: of the table.
        column: of the table.
        options: words of the command line that are its own.
    """

    row: str
    column: str
    options: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Return a name for its run's folder."""
        words = f"{self.row} {self.column}".lower().replace("+", " ").split()
        return "-".join("".join(sign for sign in word if sign.isalnum()) for word in words)


def sweep_names(program: str) -> list[str]:
    """Return the names of a trainer's sweeps."""
    return sorted(path.stem for path in (PRESETS / program / "sweeps").glob("*.toml"))


def read_sweep(program: str, name: str) -> tuple[list[str], list[Cell]]:
    """Return the common options of a sweep and its cells.

    Raises:
        UsageError: there is no such sweep.
    """
    path = PRESETS / program / "sweeps" / f"{name}.toml"
    if not path.is_file():
        raise UsageError(f"no sweep {name!r}; there are {', '.join(sweep_names(program))}")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    cells = [Cell(row["row"], row["column"], tuple(row["options"])) for row in table["cell"]]
    return list(table["options"]), cells


def run_sweep(program: str, name: str, words: Sequence[str]) -> str:
    """Run what is not finished of a sweep and return its table, which is also written to OUT/table.md and table.json.

    Args:
        program: the trainer.
        name: of the sweep.
        words: the other words of the command line; `--out` is the folder of all runs.

    Raises:
        UsageError: no such sweep.
        AgentEnvsError: a cell's run failed; the others' results stand.
    """
    common, cells = read_sweep(program, name)
    others = list(words)
    out = Path(option(others, "--out") or f"runs/{program}-{name}")
    for cell in cells:
        folder = out / cell.folder
        if (folder / RESULT_FILE).exists():
            continue
        begun = (folder / SETTINGS_FILE).exists() and (folder / "checkpoints").exists()
        options = ["--resume", str(folder)] if begun else [*common, *others, *cell.options, "--out", str(folder)]
        print(f"{name}: {cell.row}, {cell.column}: python -m trainers.{program} {' '.join(options)}", file=sys.stderr)
        code = subprocess.run([sys.executable, "-m", f"trainers.{program}", *options], check=False).returncode
        if code:
            raise AgentEnvsError(
                f"{cell.row}, {cell.column} ended with exit code {code}; run the same command to go on"
            )
    results = {cell: json.loads((out / cell.folder / RESULT_FILE).read_text(encoding="utf-8")) for cell in cells}
    text = table_of(results)
    rows = [{"row": cell.row, "column": cell.column, "result": results[cell]} for cell in cells]
    (out / "table.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    return text


def table_of(results: dict[Cell, dict[str, Any]]) -> str:
    """Return success on the test split as a table in Markdown; kinds of tasks are columns where a run tells them apart."""
    entries: dict[str, dict[str, str]] = {}
    for cell, result in results.items():
        row, after = entries.setdefault(cell.row, {}), result["after"]
        for kind, found in after.get("kinds", {}).items():
            row[f"{cell.column} {kind}".strip()] = _entry(found)
        row[f"{cell.column} overall".strip() if after.get("kinds") else cell.column] = _entry(after)
    columns = list(dict.fromkeys(name for row in entries.values() for name in row))
    lines = ["| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [
        f"| {name} | " + " | ".join(row.get(column, "") for column in columns) + " |" for name, row in entries.items()
    ]
    return "\n".join(lines)


def _entry(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['success']:.1%} [{low:.1%}, {high:.1%}]"
