"""A sweep makes a table of a paper by one command: each cell is a run of a trainer, in a folder and process of its own.

    python -m benchmarks.sweeps earl table5 --out runs/table5
    python -m benchmarks.sweeps earl tiny-methods --seeds 0,1,2 --out runs/methods

A sweep is a file under trainers/presets/PROGRAM/sweeps: what its cells have in common, and a cell for every entry of the
table, with its row, its column, its own settings as options and, where another trainer runs it, that `program`. Options behind
its name hold for all cells whose trainer has them (`--seed`, `--steps`, another `--preset`). `--seeds` runs every cell once
with each seed: the table has a column for every seed, and one for their mean. A finished run is not made again, a killed one
goes on: the same command resumes all. Another command does not: a folder with a run of other settings is refused.
"""

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_envs.base.errors import AgentEnvsError, UsageError
from benchmarks.episode_counts import draw_figures, read_episodes, table_4
from trainers.command_line import (
    PRESETS,
    RESULT_FILE,
    SETTINGS_FILE,
    one_line_errors,
    option,
    option_names,
    parse,
    read_settings,
)
from trainers.training.metrics import METRICS_FILE, read_metrics

BARE = " without feedback"  # what the name of a test ends with that has its set without feedback
MICRO, MACRO = "Avg. (micro)", "Avg. (macro)"
Summary = dict[str, Any]
Rows = list[dict[str, float]]
Episodes = Mapping[str, Mapping[str, float]]  # by task


@dataclass(frozen=True)
class SweepCell:
    """One entry of a table.

    Attributes:
        row: of the table.
        column: of the table.
        options: words of the command line that are its own.
        seed: of its run; "" where all cells have the same one.
        program: the trainer that runs it.
    """

    row: str
    column: str
    options: tuple[str, ...]
    seed: str = ""
    program: str = ""

    @property
    def folder(self) -> str:
        """Return a name for its run's folder."""
        words = f"{self.row} {self.column} {self.seed}".lower().replace("+", " ").split()
        return "-".join("".join(sign for sign in word if sign.isalnum()) for word in words)


@dataclass(frozen=True)
class Layout:
    """The layout of a table: its sets, averages and notes.

    Attributes:
        sets: its columns, where each run is tested on several: the name in `env.tests` -> the column and how many questions
            the whole set has. The test NAME + " without feedback" is a row of its own.
        average: over all columns, of questions (micro) and of columns (macro).
        notes: what a reader of the table must know.
    """

    sets: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    average: bool = False
    notes: tuple[str, ...] = ()


def sweep_names(program: str) -> list[str]:
    """Return the names of a trainer's sweeps."""
    return sorted(path.stem for path in (PRESETS / program / "sweeps").glob("*.toml"))


def read_sweep(program: str, name: str) -> tuple[list[str], list[SweepCell]]:
    """Return the common options of a sweep and its cells.

    Raises:
        UsageError: there is no such sweep.
    """
    table = _read(program, name)
    cells = [
        SweepCell(row["row"], row["column"], tuple(row["options"]), program=row.get("program", program))
        for row in table["cell"]
    ]
    return list(table["options"]), cells


def read_layout(program: str, name: str) -> Layout:
    """Return the layout of a sweep's table; raises as `read_sweep`."""
    table = _read(program, name)
    sets = {row["name"]: (row["column"], row["questions"]) for row in table.get("set", ())}
    return Layout(sets, table.get("average", False), tuple(table.get("notes", ())))


def _read(program: str, name: str) -> dict[str, Any]:
    """Read a sweep of a program; UsageError with the names of its sweeps where there is none of that name."""
    path = PRESETS / program / "sweeps" / f"{name}.toml"
    if not path.is_file():
        raise UsageError(f"no sweep {name!r}; there are {', '.join(sweep_names(program))}")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def with_seeds(cells: Sequence[SweepCell], text: str) -> list[SweepCell]:
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

    Beside it stand OUT/lengths.png and OUT/rewards.png (EARL's Figures 5 and 6) and, where calls are counted, its Table 4.

    Args:
        program: the trainer.
        name: of the sweep.
        words: the other words of the command line; `--out` is the folder of all runs, `--seeds` what each cell is run with.
            With `--help` nothing is run, and the text is what would be.

    Raises:
        UsageError: no such sweep, wrong seeds, an option that no cell's trainer has, or a cell's folder holds a run of other
            settings.
        AgentEnvsError: a cell's run failed; the others' results stand.
    """
    common, cells = read_sweep(program, name)
    layout = read_layout(program, name)
    if {"-h", "--help"} & set(words):
        return _help(program, name, common, cells, layout.notes)
    others = list(words)
    out = Path(option(others, "--out") or default_out(program, name, common, others))
    if seeds := option(others, "--seeds"):
        cells = with_seeds(cells, seeds)
    # What does not fit is refused before anything is run.
    program_options = _split_options({cell.program for cell in cells}, others)
    plan = {
        cell: _words(cell.program, out / cell.folder, [*common, *program_options[cell.program], *cell.options])
        for cell in cells
    }
    for cell, options in plan.items():
        if (out / cell.folder / RESULT_FILE).exists():
            continue
        print(f"{name}: {_label(cell)}: python -m trainers.{cell.program} {shlex.join(options)}", file=sys.stderr)
        code = subprocess.run([sys.executable, "-m", f"trainers.{cell.program}", *options], check=False).returncode
        if code:
            raise AgentEnvsError(f"{_label(cell)} ended with exit code {code}; run the same command to go on")
    results = {cell: json.loads((out / cell.folder / RESULT_FILE).read_text(encoding="utf-8")) for cell in cells}
    episodes, curves = _by_row(out, cells)
    for path in draw_figures(episodes, curves, out):
        print(path, file=sys.stderr)
    tables = [f"\n{table}" for table in [table_4(episodes)] if table]
    notes = [f"\n{note}" for note in (*layout.notes, *_choices(results))]
    text = "\n".join([table_of(results, layout), *tables, *notes])
    rows = [{"row": cell.row, "column": cell.column, "result": results[cell]} for cell in cells]  # it tells its seed
    (out / "table.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (out / "table.md").write_text(text + "\n", encoding="utf-8")
    return text


def _by_row(out: Path, cells: Sequence[SweepCell]) -> tuple[dict[str, dict[str, Episodes]], dict[str, list[Rows]]]:
    """Return the test episodes of each row of the table by seed and column, and the metrics of its runs."""
    episodes: dict[str, dict[str, Episodes]] = {}
    curves: dict[str, list[Rows]] = {}
    for cell in cells:
        folder = out / cell.folder
        if counted := read_episodes(folder):
            episodes.setdefault(cell.row, {})[f"{cell.column}/{cell.seed}"] = counted
        if (folder / METRICS_FILE).exists():
            curves.setdefault(cell.row, []).append(read_metrics(folder / METRICS_FILE))
    return episodes, curves


def _choices(results: Mapping[SweepCell, Summary]) -> list[str]:
    """Describe the checkpoint choice of each run whose weights are not those of the last step: the split and the step."""
    rows = [(_label(cell), result["chosen"]) for cell, result in results.items() if "chosen" in result]
    return [f"{run}: the weights of step {row['step']}, the best on the split {row['split']}" for run, row in rows]


def default_out(program: str, name: str, common: Sequence[str], words: Sequence[str]) -> str:
    """Return the folder of a sweep's runs where none is named: another preset has another one."""
    preset, own = option(list(words), "--preset"), option(list(common), "--preset")
    return f"runs/{program}-{name}" + (f"-{Path(preset).name.removesuffix('.toml')}" if preset not in ("", own) else "")


def _settings(program: str) -> type:
    """Return the class of a program's settings."""
    kind: type = getattr(import_module(f"trainers.{program}"), f"{program.upper()}Settings")  # they go by their names
    return kind


def _split_options(programs: Collection[str], words: Sequence[str]) -> dict[str, list[str]]:
    """Split a command line's options by trainer: each gets those that are settings of it.

    Raises:
        UsageError: a word belongs to no option, or an option is none of any of the trainers.
    """
    names = {program: option_names(_settings(program)) for program in sorted(programs)}
    program_options: dict[str, list[str]] = {program: [] for program in names}
    takers: list[str] = []
    for word in words:
        if word.startswith("--"):
            name = word.partition("=")[0].replace("_", "-")
            takers = [program for program in names if name in names[program]]
        if not takers:
            trainers = ", ".join(f"trainers.{program}" for program in names)
            raise UsageError(f"{word} is an option of no trainer of this sweep ({trainers}); nothing was run")
        for program in takers:
            program_options[program].append(word)
    return program_options


def _words(program: str, folder: Path, options: Sequence[str]) -> list[str]:
    """Return the command line that begins the run of a cell, or goes on with it.

    Raises:
        UsageError: a setting does not fit, or its folder holds a run of other settings.
    """
    kind = _settings(program)
    with tempfile.TemporaryDirectory() as place:
        now = _flatten(asdict(parse(kind, [*options, "--out", place], program=program)[0]))
    resumable = (folder / SETTINGS_FILE).exists() and (folder / "checkpoints").exists()
    if not resumable and not (folder / RESULT_FILE).exists():
        return [*options, "--out", str(folder)]
    before = _flatten(asdict(read_settings(kind, folder)))
    odd = [name for name in {**now, **before} if now.get(name) != before.get(name) and name != "out"]
    free = [name for name in getattr(kind, "ON_RESUME", ()) if name in odd]
    rest = [name for name in odd if name not in free]
    if set(rest) - {"preset"}:  # the name of a preset alone is nothing
        notes = [f"{name} is {before.get(name)!r:.40} there and {now.get(name)!r:.40} here" for name in rest[:3]]
        more = f", and {len(rest) - 3} more" if len(rest) > 3 else ""
        raise UsageError(
            f"{folder} holds a run of other settings: {', '.join(notes)}{more}; name another folder with --out"
        )
    renewed = [word for name in free for word in (f"--{name.replace('_', '-')}", str(now[name]))]
    return ["--resume", str(folder), *renewed]


def _flatten(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return settings by their full names, those within JSON texts too: env.arguments.top_k."""
    settings: dict[str, Any] = {}
    for name, value in table.items():
        with contextlib.suppress(ValueError, TypeError):
            value = json.loads(value)
        settings |= _flatten(value, f"{above}{name}.") if isinstance(value, dict) else {f"{above}{name}": value}
    return settings


def _help(program: str, name: str, common: Sequence[str], cells: Sequence[SweepCell], notes: Sequence[str]) -> str:
    """Return the help text of a sweep, which lists its runs."""
    lines = [f"{name}: {len(cells)} runs of trainers.{program}, all with {shlex.join(common)}"]
    others = {cell: f" (trainers.{cell.program})" for cell in cells if cell.program != program}
    lines += [f"  {_label(cell)}{others.get(cell, '')}: {shlex.join(cell.options)}" for cell in cells]
    lines.append("--out FOLDER holds all runs, --seeds 0,1,2 runs each with every seed; any other option holds for all")
    lines.append("runs whose trainer has it:")
    commands = [f"python -m trainers.{each} --help" for each in sorted({cell.program for cell in cells})]
    return "\n".join([*lines, f"{', '.join(commands)} tells which there are", *notes])


def table_of(results: Mapping[SweepCell, Summary], layout: Layout | None = None) -> str:
    """Return success on the test split as a table in Markdown.

    Kinds of tasks are columns where a run tells them apart, and so are several ways to measure, every `after_...` of a result;
    where a layout has sets or an average, ways are rows. Of several seeds each has its columns, with intervals over tasks; the
    mean of them stands behind, with the lowest and the highest.
    """
    figures = _figures(results, layout or Layout())
    table: dict[str, dict[str, str]] = {row: {} for row in figures}
    for row, by_seed in figures.items():
        values: dict[str, list[float]] = {}
        for seed, cells in by_seed.items():
            for column, summary in cells.items():
                table[row][f"{column} seed {seed}".strip() if seed else column] = _entry(summary)
                if seed:
                    values.setdefault(column, []).append(summary["success"])
        for column, rates in values.items():
            if None in rates:
                continue
            text = f"{sum(rates) / len(rates):.1%} ({min(rates):.1%} to {max(rates):.1%})"
            table[row][f"{column} mean of {len(rates)} seeds".strip()] = text
    columns = list(dict.fromkeys(name for row in table.values() for name in row))
    lines = ["| method | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    lines += [
        f"| {row} | " + " | ".join(texts.get(column, "") for column in columns) + " |" for row, texts in table.items()
    ]
    return "\n".join(lines)


def _figures(results: Mapping[SweepCell, Summary], layout: Layout) -> dict[str, dict[str, dict[str, Summary]]]:
    """Return the summaries by row, seed and column, with the averages of a row that is whole, if the layout has any.

    A run that pooled its domains itself has a micro average with an interval, which stays.
    """
    figures: dict[str, dict[str, dict[str, Summary]]] = {}
    for cell, result in results.items():
        for row, column, summary in (
            _of_sets(cell, result, layout) if layout.sets else _parts(cell, result, layout.average)
        ):
            figures.setdefault(row, {}).setdefault(cell.seed, {})[column] = summary
    if not layout.average:
        return figures
    questions, every = dict(layout.sets.values()), [cells for row in figures.values() for cells in row.values()]
    whole = list(questions) or list(dict.fromkeys(column for cells in every for column in cells if column != MICRO))
    for cells in every:
        if any(column not in cells or cells[column]["success"] is None for column in whole):
            continue
        weights = {column: questions.get(column) or cells[column]["tasks"] for column in whole}
        total = sum(weight * cells[column]["success"] for column, weight in weights.items())
        if MICRO not in cells:
            cells[MICRO] = {"success": total / sum(weights.values())}
        cells[MACRO] = {"success": sum(cells[column]["success"] for column in whole) / len(whole)}
    return figures


def _of_sets(cell: SweepCell, result: Summary, layout: Layout) -> Iterator[tuple[str, str, Summary]]:
    """Yield row, column and figures of every set on which a run was tested; feedback is there where messages were counted."""
    for name, (column, _) in layout.sets.items():
        for summary in (result["tests"].get(name), result["tests"].get(name + BARE)):
            if summary:
                yield f"{cell.row}, {'with' if 'feedback/messages' in summary else 'without'} feedback", column, summary


def _parts(cell: SweepCell, result: Summary, by_row: bool) -> Iterator[tuple[str, str, Summary]]:
    """Yield row, column and figures of each way in which a run was measured, and of each kind of task."""
    ways = {
        name.removeprefix("after_").replace("_", " "): row for name, row in result.items() if name.startswith("after_")
    }
    for way, after in (ways or {"": result["after"]}).items():
        if not after:  # no test was wanted
            continue
        row = f"{cell.row}, {way}" if by_row and way else cell.row
        column, kinds = cell.column if by_row else f"{cell.column} {way}".strip(), after.get("kinds", {})
        for kind, summary in kinds.items():
            yield row, f"{column} {kind}".strip(), summary
        whole = MICRO if by_row else f"{column} overall".strip()
        yield row, whole if kinds else column, after


def _label(cell: SweepCell) -> str:
    """Return the label of a cell's run: row, column and seed."""
    return ", ".join(part for part in (cell.row, cell.column, cell.seed and f"seed {cell.seed}") if part)


def _entry(summary: Summary) -> str:
    """Return a figure as the table prints it; nothing where outside faults left none."""
    if summary["success"] is None:
        return ""
    if "interval" not in summary:
        return f"{summary['success']:.1%}"
    low, high = summary["interval"]
    return f"{summary['success']:.1%} [{low:.1%}, {high:.1%}]"


def main() -> None:
    """Run the command line."""
    with one_line_errors("sweeps"):
        program, name, *words = [*sys.argv[1:], "", ""][: max(2, len(sys.argv) - 1)]
        if program not in (have := sorted(path.parent.name for path in PRESETS.glob("*/sweeps"))) or not name:
            raise UsageError(
                f"name a trainer that has sweeps ({', '.join(have)}), one of them, and options of its runs"
            )
        print(run_sweep(program, name, words))


if __name__ == "__main__":
    main()
