"""`python -m baselines.table NAME --agent MODEL` plays every inference row of a published table with one chat model.

    python -m baselines.table veg-1 --agent openai:MODEL@http://localhost:8000 --out runs/veg-1
    python -m baselines.table legal-1 --agent anthropic:MODEL --dry-run

Tables: veg-1, veg-2, arpo-1, arpo-2, earl-1, earl-2, legal-1, verlog-1. The plan with an estimate of tokens and dollars
comes first; `--dry-run` ends there. Ours stand with 95 % intervals, the published numbers below them (from
`published/published.json` in the folder that AGENT_ENVS_DATA names). A cell in brackets does not recompute from its
table; the reasons stand at the end, and in docs/papers.md. A stopped command goes on when it is given again with the same
`--out`. Exit code 3: a cell is missing.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.base.errors import AgentEnvsError, DataMissing, UsageError
from agent_envs.base.terminal import print_table, progress_bar, show, stop_on_sigterm
from agent_envs.core.env import core_of
from agent_envs.evaluation.runs.evaluate import Result, evaluate
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.statistics.rates import weighted_rate
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, allowed_limits, choose_split
from agent_envs.services.chat.prices import cost_of, load_prices
from baselines.best_of_n import named_options
from baselines.table_rows import TABLES, Column, PublishedTable, TableRow

OUTPUT_TOKENS, RESULT_TOKENS = 250, 500  # assumed: a call's output, and what a turn brings back
ONE_CALL = ("direct", "cot", "rag", "program_of_thought")
TWO_CALLS_A_TURN = ("search_o1",)
Cells = dict[tuple[str, str], Result]


@dataclass(frozen=True)
class PlannedCell:
    """A cell to play, with an upper estimate of its tokens; `missing` says why it cannot be played."""

    row: TableRow
    column: Column
    episodes: int = 0
    usage: tuple[int, int] = (0, 0)
    missing: str = ""


def choice_of(row: TableRow, column: Column, args: argparse.Namespace) -> Choice:
    """Return the environment, the arguments and the tasks of a cell."""
    arguments = {**column.arguments, **row.arguments, **named_options(args.env_arg, "--env-arg")}
    return Choice(column.env, arguments, args.split, args.limit, args.trials, None, column.turn_limits)


def planned(table: PublishedTable, args: argparse.Namespace, agents: Collection[str]) -> Iterator[PlannedCell]:
    """Yield the inference rows' cells, or those of `agents` alone if any; one without data tells what is missing."""
    for row in table.rows:
        for column in table.columns if row.agent and (not agents or row.agent in agents) else ():
            try:
                episodes, tokens = size_of(row, column, choice_of(row, column, args))
            except DataMissing as error:
                yield PlannedCell(row, column, missing=str(error).partition(".")[0])
                continue
            yield PlannedCell(row, column, episodes, (tokens[0] * episodes, tokens[1] * episodes))


def size_of(row: TableRow, column: Column, choice: Choice) -> tuple[int, tuple[int, int]]:
    """Return upper estimates: a cell's episodes, and (input, output) tokens of one episode; (0, 0) for a row without a model.

    Both are upper estimates: a split may repeat tasks, which are played once. A token is four characters of the prompt, and
    results are assumed.
    """
    env = gym.make(f"agent_envs/{choice.env_id}-v0", **choice.arguments)
    core = core_of(env)
    split = choose_split(choice, core.source.splits)
    size = core.source.size(split)
    limits = len(allowed_limits(core, column.turn_limits)) or 1
    episodes = (size if choice.limit is None else min(choice.limit, size)) * choice.trials * limits
    if row.model_free:
        return episodes, (0, 0)
    _, info = env.reset(seed=0, options={"split": split})
    prompt = sum(len(str(message["content"])) for message in info["messages"]) // 4 + 200
    turns = 1 if row.agent in ONE_CALL else int(info["turns_left"])
    calls = turns * (2 if row.agent in TWO_CALLS_A_TURN else 1)
    window = min(turns, int(row.options.get("history", 16))) if row.agent == "games" else turns
    grown = sum(min(turn, window) for turn in range(calls)) * (RESULT_TOKENS + OUTPUT_TOKENS)
    brought = RESULT_TOKENS if row.agent == "rag" else 0
    return episodes, (calls * prompt + grown + brought, calls * OUTPUT_TOKENS)


def settings_of(row: TableRow, args: argparse.Namespace) -> Settings:
    """Return a row's run settings; a row that asks a model has `--agent` and `--agent-arg` over its own options."""
    options = (
        dict(row.options) if row.model_free else {**row.options, "model": args.agent, **named_options(args.agent_arg)}
    )
    prices = str(args.prices) if args.prices else ""
    return Settings(f"baseline:{row.agent}", options, args.concurrency, None, prices, args.limit is not None, "")


def play(cell: PlannedCell, args: argparse.Namespace) -> Result:
    """Play a cell's unfinished episodes in its folder under `--out`, which report and view read; return the result."""
    suite = adhoc_suite(choice_of(cell.row, cell.column, args))
    folder = args.out / _slug(cell.row.method) / _slug(cell.column.name)
    with progress_bar(f"{cell.row.method}: {cell.column.name}") as progress:
        return evaluate(suite, settings_of(cell.row, args), folder=folder, progress=progress)


def published(table: PublishedTable) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Return (base model or "", values) by method; {} without AGENT_ENVS_DATA, its file or this table in it."""
    path = Path(os.environ.get("AGENT_ENVS_DATA", ""), "published", "published.json")
    if not os.environ.get("AGENT_ENVS_DATA") or not path.is_file():
        return {}
    tables = json.loads(path.read_text(encoding="utf-8"))["tables"]
    rows: list[dict[str, Any]] = next((each["rows"] for each in tables if each["id"] == table.published), [])
    values: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for row in rows:
        values.setdefault(row["method"], []).append((row["base_model"] or "", row["values"]))
    return values


def print_plan(table: PublishedTable, cells: Sequence[PlannedCell], args: argparse.Namespace) -> None:
    """Print the planned cells, an upper estimate of tokens and cost, and the trained rows, which are not played."""
    price = load_prices(args.prices).price(args.agent)
    rows: list[list[str]] = []
    total = 0.0
    for cell in cells:
        dollars = cost_of(price, {"input": cell.usage[0], "output": cell.usage[1]}) if price else math.nan
        total += dollars
        price_text = "nothing" if cell.row.model_free else "?" if price is None else f"{dollars:.2f}"
        reasons = [cell.missing] if cell.missing else []
        rows.append([cell.row.method, cell.row.agent, cell.column.name, str(cell.episodes), f"{cell.usage[0]:,}",
                     f"{cell.usage[1]:,}", price_text, *(reasons or [""])])  # fmt: skip
    heads = ["row", "baseline", "column", "episodes", "input at most", "output at most", "USD", "not playable"]
    print_table(f"Plan of {table.title}", heads, rows)
    sums = [sum(cell.usage[n] for cell in cells) for n in (0, 1)]
    money = f"{total:.2f} USD" if price else f"no price is known for {args.agent} (--prices FILE)"
    show(f"at most about {sums[0]:,} tokens read and {sums[1]:,} written: {money}")
    show(f"assumed: every turn is used, {OUTPUT_TOKENS} tokens are written a call and {RESULT_TOKENS} come back a turn")
    for row in table.rows:
        if not row.agent:
            show(f"trained, not played here: {row.method}: {row.preset}")


def print_results(table: PublishedTable, results: Cells) -> None:
    """Print our results with each method's published numbers below, then results by turn limit, marked cells and the note."""
    columns = [column for column in table.columns if not column.turn_limits]
    heads = ["row", *(column.name for column in columns), *table.measures, *(["Avg."] if table.average else [])]
    printed = published(table)
    lines = []
    for row in table.rows:
        label = row.method if row.agent else f"{row.method} (trained)"
        ours = [results.get((row.method, column.name)) for column in columns]
        if row.agent:
            lines.append(
                [label, *(_rate(each, table.scale) for each in ours), *_measures(table, ours), *_average(table, ours)]
            )
        for base, values in printed.get(row.method, []):
            cells = [_published_cell(table, row.method, base, name, values) for name in heads[1:]]
            lines.append([f"  published, {base}" if base else f"  published: {row.method}", *cells])
        if not row.agent and row.method not in printed:
            lines.append([label, *("-" for _ in heads[1:])])
    print_table(table.title, heads, lines)
    _print_limits(table, results)
    if not printed:
        show("published numbers: not on this machine (AGENT_ENVS_DATA names no folder with published/published.json)")
    for (method, base, name), why in table.marked.items():
        show(f"[{method}{f' @ {base}' if base else ''}, {name}] does not recompute: {why}")
    if table.note:
        show(f"note: {table.note}")


def _print_limits(table: PublishedTable, results: Cells) -> None:
    """Print the success at each turn limit, of columns that have several."""
    for (method, name), result in results.items():
        if any(column.name == name and column.turn_limits for column in table.columns):
            rates = ", ".join(f"{item.turn_limit}: {item.success.text()}" for item in result.summaries)
            show(f"{method}, by {name}: {rates}")


def _rate(result: Result | None, scale: int) -> str:
    """Format a success rate with its interval on the table's scale; "no data" for None, "(part)" if episodes are missing."""
    if result is None:
        return "no data"
    rate = result.summaries[0].success
    digits = 1 if scale == 100 else 3
    low, high = rate.low * scale, rate.high * scale
    return (
        f"{rate.value * scale:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]{'' if result.complete else ' (part)'}"
    )


def _measures(table: PublishedTable, ours: Sequence[Result | None]) -> list[str]:
    """Format the measures of the first column's result to 3 digits; "-" for one that it lacks, for all without a result."""
    result = ours[0] if ours else None
    if result is None:
        return ["-"] * len(table.measures)
    summary = result.summaries[0]
    own = {"turns": summary.mean_turns, **{name: metric.overall.mean for name, metric in summary.metrics.items()}}
    return ["-" if (mean := own.get(name)) is None else f"{mean:.3f}" for name in table.measures.values()]


def _average(table: PublishedTable, ours: Sequence[Result | None]) -> list[str]:
    """Format the columns' plain mean and interval; "N of M columns" if some are missing; [] for a table without one."""
    if not table.average:
        return []
    rates = [each.summaries[0].success for each in ours if each is not None]
    if not rates or len(rates) < len(ours):
        return [f"{len(rates)} of {len(ours)} columns"]
    mean = weighted_rate(rates, [1.0] * len(rates))
    return [f"{mean.value * table.scale:.3f} [{mean.low * table.scale:.3f}, {mean.high * table.scale:.3f}]"]


def _published_cell(table: PublishedTable, method: str, base: str, name: str, values: dict[str, Any]) -> str:
    """Return a published value as a cell: "-" for none, in brackets where the table marks it; "Avg." may be "Overall"."""
    value = values.get(name, values.get("Overall") if name == "Avg." else None)
    marked = (method, base, name) in table.marked or (method, "", name) in table.marked
    return "-" if value is None else f"[{value}]" if marked else str(value)


def _slug(name: str) -> str:
    """Return a name as part of a file name; "column" where nothing is left."""
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower()).strip("-") or "column"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, 3 if a cell is missing or incomplete, or 2 for an error, told on standard error."""
    stop_on_sigterm()
    parser = argparse.ArgumentParser(
        prog="python -m baselines.table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("--agent", required=True, help="the chat model of every row: openai:MODEL@URL, anthropic:MODEL")
    parser.add_argument("--agent-arg", action="append", default=[], help="an option of the model: temperature=0.6")
    parser.add_argument(
        "--env-arg", action="append", default=[], help="an argument of every environment: retriever=bm25"
    )
    parser.add_argument("--rows", default="", help="only these methods, by their baselines: direct,rag")
    parser.add_argument("--split", default="", help="default: test, else dev")
    parser.add_argument("-n", dest="limit", type=int, help="only the first N tasks of each cell: a smoke run")
    parser.add_argument("--trials", type=int, default=1, help="episodes a task")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--prices", type=Path, help="a table of prices of yours")
    parser.add_argument(
        "--out", type=Path, help="folder of the runs (default: runs/table-NAME); give it again to go on"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the estimate, and play nothing")
    args = parser.parse_args(arguments)
    args.out = args.out or Path("runs") / f"table-{args.table}"
    try:
        return _run(TABLES[args.table], args)
    except AgentEnvsError as error:
        print(f"table: {error}", file=sys.stderr)
        return 2


def _run(table: PublishedTable, args: argparse.Namespace) -> int:
    """Print the plan; unless `--dry-run`, play it and print results; return 3 if a cell is missing or incomplete, else 0."""
    agents = {name for name in args.rows.split(",") if name}
    baselines = sorted({row.agent for row in table.rows} - {""})
    if unknown := agents - set(baselines):
        raise UsageError(f"--rows {','.join(sorted(unknown))}: the table's baselines are {', '.join(baselines)}")
    if (args.limit is not None and args.limit < 1) or args.trials < 1:
        raise UsageError(f"-n {args.limit}, --trials {args.trials}: give numbers >= 1")
    cells = list(planned(table, args, agents))
    print_plan(table, cells, args)
    if args.dry_run:
        return 0
    results: Cells = {}
    for cell in cells:
        if not cell.missing:
            results[cell.row.method, cell.column.name] = play(cell, args)
    print_results(table, results)
    whole = len(results) == len(cells) and all(result.complete for result in results.values())
    return 0 if whole else 3


if __name__ == "__main__":
    sys.exit(main())
