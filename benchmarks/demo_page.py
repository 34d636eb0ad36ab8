"""The tables, charts and texts of the demo's page."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent_envs.core.registry import TABLE
from agent_envs.evaluation.html.page import Bar, Cell, Curve, Page, Picture, RenderedTranscript, Table, Transcript, draw
from agent_envs.evaluation.report.compare import compare_entries
from agent_envs.evaluation.runs.evaluate import Result
from agent_envs.evaluation.runs.run_folder import open_run
from agent_envs.evaluation.statistics.rates import Rate
from benchmarks.demo_log import Log, by_share
from benchmarks.tree_drawing import draw_tree_file
from trainers.training.metrics import read_metrics

Results = dict[str, Result]
Row = tuple[str | Cell | Bar | Rate, ...]
ENVIRONMENTS = [row.name.lower() for row in TABLE]
TEST = "tasks of the test split, answers sampled at temperature 1"
SUCCESS_HEADS = ("environment, split", "agent", "success (95 % interval)", "turns an episode")
SUCCESS_NOTE = (
    "Each row opens. Random is the floor. The solver is the ceiling: it may read the gold answer, and acts through the same "
    "actions. Heuristics are plain rules that do not read it. Multihop searches until every fact of a question is there; it "
    "knows the wordings of the generated worlds, which no model is given."
)
LEFT_OUT = (
    "Real questions were left out: AGENT_ENVS_DATA names no data folder (agent-envs data list names the data sets)"
)


def success_tables(results: Results) -> list[Table]:
    """Return a table a family, in the order of the registry."""
    families = defaultdict[str, list[str]](list)
    for name in sorted(results, key=lambda name: ENVIRONMENTS.index(name.split("-")[0])):
        families[TABLE[ENVIRONMENTS.index(name.split("-")[0])].entry.rpartition(".")[0]].append(name)
    tables = [family_table({name: results[name] for name in names}) for names in families.values()]
    return [replace(tables[0], caption="Success by family", note=SUCCESS_NOTE), *tables[1:]]


def family_table(results: Results) -> Table:
    """Return one line a run, which links to its pages, folded behind the ids and the range of each agent's success."""
    cells: list[Row] = []
    shares = defaultdict[str, list[float]](list)
    ids = dict[str, None]()
    for name, result in results.items():
        item, (_, source, agent) = result.summaries[0], name.split("-")
        env_id = item.env_id.split("/")[-1]
        ids[env_id.removesuffix("-v0")] = None
        shares[agent].append(100 * item.success.value)
        link = Cell(f"{agent}: its episodes", f"{name}/index.html")
        cells.append((f"{env_id} {source}, {item.split}", link, item.success, f"{item.mean_turns:.1f}"))
    ranges = (
        f"{agent} {' to '.join(dict.fromkeys((f'{min(some):.0f}', f'{max(some):.0f}')))} %"
        for agent, some in shares.items()
    )
    names = ", ".join(name for name in ids if name.removesuffix("ExpA") == name)
    twins = " and their ExpA twins" if any(name.endswith("ExpA") for name in ids) else ""
    return Table("", SUCCESS_HEADS, tuple(cells), summary=(names + twins, *ranges))


def example(folder: Path) -> RenderedTranscript:
    """Return the transcript of the longest solved episode of a run."""
    plays = [row.result.trajectory for row in open_run(folder).rows() if row.result.trajectory.success]
    play = max(plays, key=lambda trajectory: len(trajectory.turns))
    title = "An episode of the trained model: of those that it solved, the first with the most turns"
    return draw(Transcript("example", title, (), play, listed=False))


def board_table(site: Path) -> Table:
    """Return the rows of the verified board whose pages are in `site`."""
    (board,) = json.loads((site / "boards.json").read_text(encoding="utf-8"))
    cells: list[Row] = []
    for row in sorted(board["rows"], key=lambda row: row["score"]["success"]):
        value, (low, high) = row["score"]["success"], row["score"]["interval"]
        proved = ", ".join(badge["name"] for badge in row["badges"])
        agent, score = Cell(row["agent"], "site/index.html"), format_rate(value, (low, high))
        cells.append((agent, row["kind"], score, Bar(value, low, high), proved))
    heads = ("agent (leads to the board)", "kind", "score (95 % interval)", "0 to 100 %", "badges")
    note = (
        "Each run was packed as a submission, and every action of it stepped again before it was put on the board. A replay "
        "does not prove who acted. References read the gold or are handed the environment. The suite is small: no ranks."
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
    heads = ("retriever (leads to its run)", "success (95 % interval)", "minus bm25, points", "than bm25")
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


def turn_curve(results: Results) -> Curve:
    """Return success over free turns before a forced answer, a line an agent."""
    limits = {agent: results[f"limits-{agent}"].summaries for agent in ("multihop", "heuristic")}
    lines = tuple(
        (agent, tuple((float(item.turn_limit or 0), *item.success.percent) for item in items))
        for agent, items in limits.items()
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
    return Table("The small model's test", ("model", "success (95 % interval)", "0 to 100 %"), tuple(cells), note)


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
    return Curve("A small model learns by GRPO on Search QA", "steps of GRPO", "success, %", lines)


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


def facts(results: Results, log: Log) -> tuple[tuple[str, str], ...]:
    """Return the facts of the whole demo: its day, its time, and the episodes that an error outside of the agent ended."""
    cpu, wall = log.so_far()
    faults = sum(item.faults for result in results.values() for item in result.summaries)
    times = f"{wall:.0f} seconds, {cpu:.0f} CPU-seconds"
    return ("day", time.strftime("%Y-%m-%d")), ("whole demo", times), ("infrastructure errors", f"{faults} episodes")


def page_of(results: Results, log: Log, out: Path, pictures: tuple[Picture, ...]) -> Page:
    """Return the page of a demo."""
    success = {name: result for name, result in results.items() if name.count("-") == 2}
    runs = out / "runs"
    parts = (
        training_curve(runs / "training"), example(runs / "trained"), *success_tables(success), board_table(out / "site"),
        ablation_table(results["retrievers"], runs / "retrievers"), turn_curve(results),
        training_table(runs / "training", is_full=bool(pictures)), trials_curve(results["trained"]), cost_table(log),
    )  # fmt: skip
    result = json.loads((runs / "training" / "result.json").read_text(encoding="utf-8"))
    before, after = (f"{100 * result[side]['success']:.1f} %" for side in ("before", "after"))
    intro = (
        f"A small model answers {before} of {result['after']['tasks']} test questions with a search engine, and {after} after "
        f"{result['steps']} steps of GRPO on one CPU core (one seed). Below it, built-in agents play every environment."
    )
    notes = () if os.environ.get("AGENT_ENVS_DATA") else (f"{LEFT_OUT}.",)
    return Page("agent-envs demo", intro, parts, facts=facts(results, log), notes=notes, pictures=pictures)
