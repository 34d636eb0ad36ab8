"""Sweeps: a table of a paper as one command. Each cell is a run of a trainer, in a folder and a process of its own.

    python -m trainers.earl --sweep table5 --out runs/table5
    python -m trainers.earl --sweep tiny-methods --seeds 0,1,2 --out runs/methods

A sweep is a file under trainers/presets/PROGRAM/sweeps: what its cells have in common, and a cell for every entry of the
table, with its row, its column and its own settings as options. Options beside `--sweep` hold for all cells (`--seed`,
`--steps`, another `--preset`). `--seeds` runs every cell once with each seed: the table has a column for every seed, and one
for their mean. A finished run is not made again, a killed one goes on: the same command resumes all.
"""

import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
        seed: of its run; "" where all cells have the same one.
    """

    row: str
    column: str
    options: tuple[str, ...]
    seed: str = ""

    @property
    def folder(self) -> str:
        """Return a name for its run's folder."""
        words = f"{self.row} {self.column} {self.seed}".lower().replace("+", " ").split()
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


def with_seeds(cells: Sequence[Cell], text: str) -> list[Cell]:
    """Return the cells once with each seed of a text such as "0,1,2", all of them with the first one first.

    Raises:
        UsageError: these are no seeds, or one comes twice.
    """
    seeds = text.replace(",", " ").split()
    if not seeds or not all(seed.isdecimal() for seed in seeds) or len(set(map(int, seeds))) < len(seeds):
        raise UsageError(f"--seeds {text!r}: give different whole numbers >= 0 with commas between them")
    return [
        replace(cell, seed=str(int(seed)), options=(*cell.options, "--seed", str(int(seed))))
        for seed in seeds
        for cell in cells
    ]


def run_sweep(program: str, name: str, words: Sequence[str]) -> str:
    """Run what is not finished of a sweep and return its table, which is also written to OUT/table.md and table.json.

    Args:
        program: the trainer.
        name: of the sweep.
        words: the other words of the command line; `--out` is the folder of all runs, `--seeds` what each cell is run with.
            With `--help` nothing is run, and the text is what would be.

    Raises:
        UsageError: no such sweep, or wrong seeds.
        AgentEnvsError: a cell's run failed; the others' results stand.
    """
    common, cells = read_sweep(program, name)
    if {"-h", "--help"} & set(words):
        return _help(program, name, common, cells)
    others = list(words)
    out = Path(option(others, "--out") or f"runs/{program}-{name}")
    if seeds := option(others, "--seeds"):
        cells = with_seeds(cells, seeds)
    for cell in cells:
        folder = out / cell.folder
        if (folder / RESULT_FILE).exists():
            continue
        begun = (folder / SETTINGS_FILE).exists() and (folder / "checkpoints").exists()
        options = ["--resume", str(folder)] if begun else [*common, *others, *cell.options, "--out", str(folder)]
        print(f"{name}: {_told(cell)}: python -m trainers.{program} {shlex.join(options)}", file=sys.stderr)
        code = subprocess.run([sys.executable, "-m", f"trainers.{program}", *options], check=False).returncode
        if code:
            raise AgentEnvsError(f"{_told(cell)} ended with exit code {code}; run the same command to go on")
    results = {cell: json.loads((out / cell.folder / RESULT_FILE).read_text(encoding="utf-8")) for cell in cells}
    text = table_of(results)
    rows = [{"row": cell.row, "column": cell.column, "result": results[cell]} for cell in cells]  # it tells its seed
    (out / "table.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    return text


def _help(program: str, name: str, common: Sequence[str], cells: Sequence[Cell]) -> str:
    """Return which runs a sweep consists of."""
    lines = [f"{name}: {len(cells)} runs of trainers.{program}, all with {shlex.join(common)}"]
    lines += [f"  {_told(cell)}: {shlex.join(cell.options)}" for cell in cells]
    lines.append(
        "--out FOLDER holds all runs, --seeds 0,1,2 runs each with every seed; any other option holds for all of them:"
    )
    return "\n".join([*lines, f"python -m trainers.{program} --help tells which there are"])


def table_of(results: dict[Cell, dict[str, Any]]) -> str:
    """Return success on the test split as a table in Markdown.

    Kinds of tasks are columns where a run tells them apart, and so are several ways to measure, every `after_...` of a result.
    Of several seeds each has its columns, with intervals over tasks; the mean of them stands behind, with the lowest and the
    highest.
    """
    entries: dict[str, dict[str, str]] = {}
    seeds: dict[tuple[str, str], list[float]] = {}
    for cell, result in results.items():
        row = entries.setdefault(cell.row, {})
        for name, found in _parts(cell, result):
            row[f"{name} seed {cell.seed}".strip() if cell.seed else name] = _entry(found)
            if cell.seed:
                seeds.setdefault((cell.row, name), []).append(found["success"])
    for (label, name), values in seeds.items():
        told = f"{sum(values) / len(values):.1%} ({min(values):.1%} to {max(values):.1%})"
        entries[label][f"{name} mean of {len(values)} seeds".strip()] = told
    columns = list(dict.fromkeys(name for row in entries.values() for name in row))
    lines = ["| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [
        f"| {name} | " + " | ".join(row.get(column, "") for column in columns) + " |" for name, row in entries.items()
    ]
    return "\n".join(lines)


def _parts(cell: Cell, result: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the columns that a run fills, and its figures there: one for each way in which it was measured and kind of task."""
    ways = {
        name.removeprefix("after_").replace("_", " "): row for name, row in result.items() if name.startswith("after_")
    }
    for way, after in (ways or {"": result["after"]}).items():
        column, kinds = f"{cell.column} {way}".strip(), after.get("kinds", {})
        for kind, found in kinds.items():
            yield f"{column} {kind}".strip(), found
        yield f"{column} overall".strip() if kinds else column, after


def _told(cell: Cell) -> str:
    """Return which run a line on the screen is about."""
    return ", ".join(part for part in (cell.row, cell.column, cell.seed and f"seed {cell.seed}") if part)


def _entry(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['success']:.1%} [{low:.1%}, {high:.1%}]"
