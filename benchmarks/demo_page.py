"""The tables, charts and texts of the demo's page."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from agent_envs.core.registry import TABLE
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes
from agent_envs.envs.expa.sorting.scoring import fixed, released
from agent_envs.evaluation.html.page import Bar, Cell, Curve, Page, Picture, Table
from agent_envs.evaluation.report.compare import compare_entries
from agent_envs.evaluation.runs.evaluate import Result
from agent_envs.evaluation.runs.run_folder import open_run
from agent_envs.evaluation.statistics.rates import Rate
from benchmarks.demo_log import Log, by_share
from benchmarks.sorting_plays import exact, mean_reward
from benchmarks.tree_drawing import draw_tree_file
from trainers.training.metrics import read_metrics

Results = dict[str, Result]
Row = tuple[str | Cell | Bar | Rate, ...]
ENVIRONMENTS = [row.name.lower() for row in TABLE]
TEST = "tasks of the test split, answers sampled at temperature 1"
LEFT_OUT = (
    "AGENT_ENVS_DATA names no data folder: real questions were left out (agent-envs data list tells what there is)"
)


def success_table(results: Results) -> Table:
    """Return one line a run, which links to its pages."""
    cells: list[Row] = []
    for name, result in sorted(results.items(), key=lambda row: ENVIRONMENTS.index(row[0].split("-")[0])):
        item = result.summaries[0]
        _, source, agent = name.split("-")
        rate = item.success
        cells.append((
            f"{item.env_id.split('/')[-1]} {source}, {item.split}", Cell(agent, f"{name}/index.html"), rate,
            f"{item.mean_turns:.1f}",
        ))  # fmt: skip
    heads = ("environment, split", "agent", "success (95 % interval)", "turns")
    return Table("Success", heads, tuple(cells))


def board_table(site: Path) -> Table:
    """Return the rows of the verified board whose pages are in `site`."""
    (board,) = json.loads((site / "boards.json").read_text(encoding="utf-8"))
    cells: list[Row] = []
    for row in sorted(board["rows"], key=lambda row: row["score"]["success"]):
        value, (low, high) = row["score"]["success"], row["score"]["interval"]
        proved = ", ".join(badge["name"] for badge in row["badges"])
        agent, score = Cell(row["agent"], "site/index.html"), format_rate(value, (low, high))
        cells.append((agent, row["kind"], score, Bar(value, low, high), proved))
    heads = ("agent", "kind", "score (95 % interval)", "", "badges")
    note = (
        "Each run was packed as a submission, and every action of it stepped again before it was put on the board, to which an "
        "agent's name leads. A replay does not prove who acted. References read the gold or are handed the environment; this "
        "suite is small, and never ranked."
    )
    return Table(f"Board, {board['suite']}", heads, tuple(cells), note)


def ablation_table(result: Result, folder: Path) -> Table:
    """Return the success of an agent that searches by retriever, the best first, each compared with bm25."""
    contrasts, _ = compare_entries(open_run(folder))
    cells: list[Row] = []
    rates = {item.entry.split()[0].removeprefix("retriever="): item.success for item in result.summaries}
    rows = sorted(zip(rates.items(), [None, *contrasts], strict=True), key=lambda row: -row[0][1].value)
    for (name, rate), contrast in rows:
        difference, verdict = "", ""
        if contrast is not None:
            pair = contrast.paired
            difference = f"{100 * pair.difference:+.1f} [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"
            better = "better" if pair.difference > 0 else "worse"
            verdict = better if "better" in contrast.verdict("first", "second") else contrast.verdict()
        retriever = Cell(name, f"{folder.name}/index.html")
        cells.append((retriever, rate, difference, verdict))
    heads = ("retriever", "success (95 % interval)", "minus bm25, points", "than bm25")
    return Table("Retrievers: multihop with two free turns, world", heads, tuple(cells), ablation_note(rates))


def ablation_note(rates: dict[str, Rate]) -> str:
    """Return in words whether the retrievers are told apart at the demo's number of tasks."""
    oracle, bm25 = rates["oracle"], rates["bm25"]
    none = max(rates["random"].high, rates["empty"].high)
    apart = oracle.low > bm25.high and bm25.low > none
    order = (
        "The intervals of oracle, bm25 and the two that bring nothing (random, empty) do not overlap."
        if apart
        else "The tasks are too few to tell oracle, bm25 and the two that bring nothing (random, empty) apart: intervals meet."
    )
    return f"{order} The same questions for each, four passages a search; differences are paired by question, Holm-corrected."


def sorting_table() -> Table:
    """Return the exact comparisons and swaps of the reference algorithms on Sort-4, and their mean rewards."""
    cells: list[Row] = []
    for name in ALGORITHMS:
        if 4 in able_sizes(name):
            row = exact(name, 4)
            paid = (mean_reward(name, 4, formula) for formula in (fixed, released))
            cells.append((
                name, f"{float(row.mean_compares):.4f}", str(row.max_compares), f"{float(row.mean_swaps):.4f}",
                str(row.max_swaps), *(f"{value:.4f}" for value in paid),
            ))  # fmt: skip
    heads = ("algorithm", "comparisons", "at worst", "swaps", "at worst", "reward: fixed", "reward: released")
    note = "Means over all 24 permutations, ascending. The released reward pays padded play more than optimal play."
    return Table("Sort-4, exactly", heads, tuple(cells), note)


def turn_curve(results: Results) -> Curve:
    """Return success over free turns before a forced answer, a line an agent."""
    lines = tuple(
        (
            agent,
            tuple(
                (float(item.turn_limit or 0), *item.success.percent) for item in results[f"limits-{agent}"].summaries
            ),
        )
        for agent in ("multihop", "heuristic")
    )
    title = "Success over turn limits, world: the heuristic searches once, multihop again with what it found"
    return Curve(title, "free turns before the forced answer; 0: naive RAG", "success, %", lines)


def trials_curve(result: Result) -> Curve:
    """Return pass@k and pass^k over four trials of a policy that samples: one success among k, and k in a row."""
    (item,) = result.summaries
    lines = tuple(
        (name, tuple((float(k), *rate.percent) for k, rate in rates.items()))
        for name, rates in (("pass@k", item.pass_at), ("pass^k", item.pass_hat))
    )
    title = "The trained model, four trials a task: at least one of k trials (pass@k), all k (pass^k)"
    return Curve(title, f"trials k, {TEST}", "tasks, %", lines)


def training_table(folder: Path, is_full: bool) -> Table:
    """Return the success of a training run on test tasks before and after, and the difference."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    rows = (("after imitation", result["before"]), (f"after {result['steps']} steps of GRPO", result["after"]))
    cells = [
        (name, format_rate(row["success"], row["interval"]), Bar(row["success"], *row["interval"]))
        for name, row in rows
    ]
    gain = result["gain"]
    low, high = (f"{100 * bound:+.1f}" for bound in gain["interval"])
    learner = "A model made from nothing imitates" if is_full else "The shipped model has imitated"
    preset = "the preset tiny-minute" if is_full else f"a shortened preset (tiny-minute at {result['steps']} steps)"
    note = (
        f"{learner} a solver that errs, and learns by GRPO on small worlds of SearchQA: {preset}, one seed, {result['seed']}. "
        f"{result['after']['tasks']} {TEST}; the difference, paired by task, is "
        f"{100 * gain['difference']:+.1f} points [{low}, {high}]."
    )
    return Table("A small model learns", ("model", "success (95 % interval)", ""), tuple(cells), note)


def format_rate(value: float, interval: Sequence[float]) -> str:
    """Return a rate and its interval in per cent."""
    low, high = interval
    return f"{100 * value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def training_curve(folder: Path) -> Curve:
    """Return the success of a training run over its steps: of the episodes that it learns from, and on test tasks."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    rows = [row for row in read_metrics(folder / "metrics.jsonl") if "success" in row]
    learnt = tuple((float(row["step"]), 100 * row["success"], None, None) for row in rows)
    ends = ((0.0, result["before"]), (float(result["steps"]), result["after"]))
    tested = tuple(
        (step, 100 * row["success"], 100 * row["interval"][0], 100 * row["interval"][1]) for step, row in ends
    )
    lines = (("test tasks, before and after", tested), ("episodes of each step, training tasks", learnt))
    return Curve("The same model over the steps of GRPO", "steps of GRPO", "success, %", lines)


def learnt_algorithm(folder: Path) -> Picture:
    """Return the decision tree of a policy that learnt to sort four items."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    means = f"{result['comparisons']:.2f} comparisons, {result['swaps']:.2f} swaps"
    words = f"{result['accuracy']:.0%} of 24 orders sorted, {means}"
    drawing = draw_tree_file(folder / "trees" / "sort-4-ascending.json")
    return Picture(
        f"What imitation and EARL learnt in a minute: {words}", f"A decision tree of comparisons: {words}.", drawing
    )


def cost_table(log: Log) -> Table:
    """Return the steps, episodes and seconds of each share of the demo's budget."""
    sums = by_share(log.rows.values())
    cells = []
    for share, cpu in sums.items():
        steps = [row for row in log.rows.values() if row["share"] == share]
        episodes = sum(row["episodes"] for row in steps)
        cells.append(
            (share, str(len(steps)), f"{episodes:,}", f"{cpu:.1f}", f"{sum(row['seconds'] for row in steps):.1f}")
        )
    note = "Child processes are counted. Writing this page, which is part of the last share, is not in its row yet."
    return Table("The demo's own cost", ("share", "steps", "episodes", "CPU-seconds", "seconds"), tuple(cells), note)


def intro(results: Results, log: Log) -> str:
    """Return the first paragraph, with the clock of the whole demo."""
    cpu, wall = log.so_far()
    faults = sum(item.faults for result in results.values() for item in result.summaries)
    return (
        f"Built-in agents over every family, {time.strftime('%Y-%m-%d')}: the whole demo, training and board included, took "
        f"{wall:.0f} seconds by the clock and {cpu:.0f} CPU-seconds. "
        "Random is the floor, the solver the ceiling (it may read the task's gold, and acts through the same actions); "
        "heuristics are plain rules without the gold, one a family: search and answer with a span, serve a customer by "
        "policy and tools, key in a question as it stands, walk straight at the goal. "
        "Multihop searches on until every fact of a question is told; it knows the wordings of the generated worlds, which no "
        "model is told. "
        "Intervals are 95 % and clustered by world, document or equal content. "
        "An agent's name leads to its run, with transcripts. "
        f"{faults} episodes ended in a fault. {'' if os.environ.get('AGENT_ENVS_DATA') else LEFT_OUT + '.'}"
    )


def page_of(results: Results, log: Log, out: Path, pictures: tuple[Picture, ...]) -> Page:
    """Return the page of a demo."""
    success = {name: result for name, result in results.items() if name.count("-") == 2}
    runs = out / "runs"
    parts = (
        success_table(success), board_table(out / "site"), ablation_table(results["retrievers"], runs / "retrievers"),
        turn_curve(results), training_table(runs / "training", is_full=bool(pictures)), training_curve(runs / "training"),
        trials_curve(results["trained"]), sorting_table(), cost_table(log),
    )  # fmt: skip
    return Page("agent-envs demo", intro(results, log), parts, pictures=pictures)
