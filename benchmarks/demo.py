"""`make demo` plays a keyless evaluation over every family and writes a page with tables, plots and transcripts.

Random, heuristic and solver agents play generated tasks, and real questions where AGENT_ENVS_DATA names the data. Every row is
a run as `agent-envs eval` makes it, with its own pages as `agent-envs view` writes them. The smallest reference trainer learns
on the way.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from agent_envs.base.progress import progress_bar
from agent_envs.core.env import companion
from agent_envs.core.registry import NAMESPACE, TABLE
from agent_envs.core.wrapper_stack import core_of
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes, exact, mean_reward
from agent_envs.envs.expa.sorting.rewards import fixed, released
from agent_envs.evaluation.html.page import Bar, Cell, Curve, Page, Picture, Table, render
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.compare import compare_entries
from agent_envs.evaluation.runs.evaluate import Result, evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from benchmarks.tree_drawing import drawn
from trainers.training.metrics import read_metrics

AGENTS = ("random", "heuristic", "solver")
GENERATED = "generated"
REAL = {"SearchQA": ("hotpotqa", "popqa", "musique"), "GSM8KScaled": ("gsm8k",), "LegalSearch": ("dc_code",),
        "ToolReasoning": ("gsm8k",)}  # fmt: skip
TRANSCRIPTS_A_RUN = 12
TURN_LIMITS = (0, 1, 2, 3, 5)
ABLATIONS = ("bm25", "random", "empty", "oracle")


@dataclass(frozen=True)
class Row:
    """One run of the demo: its name, its result and its folder."""

    name: str
    result: Result
    folder: Path


def play(out: Path, name: str, choice: Choice, agent: str) -> Row:
    """Play a run, and write its pages."""
    name = name.lower()
    folder = out / "runs" / name
    with progress_bar(f"{name}") as progress:
        result = evaluate(adhoc_suite(choice), Settings(agent, smoke=True), folder=folder, progress=progress)
    write_view(folder, out / name, most=TRANSCRIPTS_A_RUN)
    return Row(name, result, folder)


def sources(name: str) -> tuple[str, ...]:
    """Return the task sources that the demo plays of an environment: its default, and real data where there is any."""
    core = core_of(gym.make(f"{NAMESPACE}/{name}-v0"))
    real = REAL.get(name.removesuffix("ExpA"), ()) if os.environ.get("AGENT_ENVS_DATA") else ()
    return (core.arguments.get("tasks", GENERATED), *real)


def choice_of(name: str, source: str, tasks: int) -> Choice:
    """Return the plan of one run of the demo."""
    return Choice(f"{NAMESPACE}/{name}-v0", {} if source == GENERATED else {"tasks": source}, limit=tasks)


def agents(name: str) -> tuple[str, ...]:
    """Return the built-in agents that an environment has."""
    env = gym.make(f"{NAMESPACE}/{name}-v0")
    kinds = {"random": "sampler", "heuristic": "heuristic", "solver": "solver"}
    return tuple(agent for agent in AGENTS if companion(env, kinds[agent]) is not None)


def success_table(rows: list[Row]) -> Table:
    """Return one line a run, which links to its pages."""
    cells: list[tuple[str | Cell | Bar, ...]] = []
    for row in rows:
        item = row.result.summaries[0]
        _, source, agent = row.name.split("-")
        rate = item.success
        cells.append((
            f"{item.env_id.split('/')[-1]} {source}, {item.split}", Cell(agent, f"{row.name}/index.html"), rate.text(),
            Bar(rate.value, rate.low, rate.high), f"{item.mean_turns:.2f}", f"{item.mean_calls:.2f}",
        ))  # fmt: skip
    heads = ("environment, split", "agent", "success (95 % interval)", "", "turns", "calls")
    return Table("Success", heads, tuple(cells))


def ablation_table(row: Row) -> Table:
    """Return what each retriever is worth to the heuristic agent."""
    contrasts, _ = compare_entries(open_run(row.folder))
    cells: list[tuple[str | Cell | Bar, ...]] = []
    for item, contrast in zip(row.result.summaries, [None, *contrasts], strict=True):
        rate, difference, verdict = item.success, "", ""
        if contrast is not None:
            pair = contrast.paired
            difference = f"{100 * pair.difference:+.1f} [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"
            verdict = "better" if "better" in contrast.verdict and pair.difference > 0 else contrast.verdict
            verdict = "worse" if "better" in contrast.verdict and pair.difference < 0 else verdict
        name = item.entry.removeprefix("retriever=")
        cells.append(
            (
                Cell(name, f"{row.name}/index.html"),
                rate.text(),
                Bar(rate.value, rate.low, rate.high),
                difference,
                verdict,
            )
        )
    heads = ("retriever", "success (95 % interval)", "", "minus bm25, points", "")
    note = "The heuristic agent on the same questions; differences are paired by question, Holm-corrected."
    return Table(f"Retriever ablations, {row.name.split('-')[1]}", heads, tuple(cells), note)


def sorting_table() -> Table:
    """Return what the reference algorithms need for Sort-4, exactly, and what each reward pays them."""
    cells: list[tuple[str | Cell | Bar, ...]] = []
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


def turn_curve(row: Row) -> Curve:
    """Return success over free turns before a forced answer."""
    points = tuple(
        (float(item.turn_limit or 0), 100 * item.success.value, 100 * item.success.low, 100 * item.success.high)
        for item in row.result.summaries
    )
    return Curve(
        "Success over turn limits, world",
        "free turns before the forced answer; 0: naive RAG",
        "success, %",
        (("heuristic", points),),
    )


def training_curve(out: Path) -> Curve:
    """Train the smallest preset, about a minute on one core, and return its success on held-out tasks over the steps."""
    folder = out / "runs" / "training"
    command = [sys.executable, "-m", "trainers.grpo", "--preset", "tiny-minute", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    before = json.loads((folder / "result.json").read_text(encoding="utf-8"))["before"]
    told = [row for row in read_metrics(folder / "metrics.jsonl") if "eval/success" in row]
    points = [(0.0, before["success"], *before["interval"])]
    points += [(row["step"], row["eval/success"], row["eval/success_low"], row["eval/success_high"]) for row in told]
    scaled = tuple((float(step), 100 * value, 100 * low, 100 * high) for step, value, low, high in points)
    title = "GRPO on small worlds of SearchQA, a model made from nothing (step 0: after imitating a solver that errs)"
    return Curve(title, "steps of reinforcement", "success on held-out tasks, %", (("tiny-minute", scaled),))


def learnt_algorithm(out: Path) -> Picture:
    """Let the smallest policy with expanded actions learn to sort four items, a minute on one core, and return its tree."""
    folder = out / "runs" / "sorting"
    command = [sys.executable, "-m", "trainers.earl", "--preset", "tiny-sort4-minute", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    words = f"{found['accuracy']:.0%} of 24 orders sorted, {found['comparisons']:.2f} comparisons, {found['swaps']:.2f} swaps"
    drawing = drawn(folder / "trees" / "sort-4-ascending.json")
    return Picture(
        f"What imitation and EARL learnt in a minute: {words}", f"A decision tree of comparisons: {words}.", drawing
    )


def main() -> None:
    """Run the demo and print where its page is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=300, help="tasks a run (default 300)")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the pages (default demo/)")
    options = parser.parse_args()
    started, out = time.monotonic(), options.out
    shutil.rmtree(out / "runs", ignore_errors=True)  # an earlier demo's, whose numbers may be another version's
    rows = [
        play(out, f"{entry.name}-{source}-{agent}", choice_of(entry.name, source, options.tasks), agent)
        for entry in TABLE
        for source in sources(entry.name)
        for agent in agents(entry.name)
    ]
    source = sources("SearchQA")[-2 if len(sources("SearchQA")) > 1 else 0]
    sweep = Choice("SearchQA", {"tasks": source}, limit=options.tasks, sweep=("retriever", ABLATIONS))
    ablations = play(out, f"SearchQA-{source}-retrievers", sweep, "heuristic")
    limits = play(
        out, "SearchQA-world-limits", Choice("SearchQA", limit=options.tasks, turn_limits=TURN_LIMITS), "heuristic"
    )
    intro = (
        f"Built-in agents over every family, {time.strftime('%Y-%m-%d')}, {time.monotonic() - started:.0f} seconds. "
        "Random is the floor, the solver the ceiling (it may read the task's gold, and acts through the same actions); "
        "heuristics are plain rules without the gold: search and answer with a span, serve a customer by policy and tools. "
        "Intervals are 95 % and clustered by world, document or equal content. "
        "An agent's name leads to its run, with transcripts. "
        f"{sum(item.faults for row in rows for item in row.result.summaries)} episodes ended in a fault."
    )
    learnt, sorting = training_curve(out), learnt_algorithm(out)
    tables = (success_table(rows), sorting_table(), ablation_table(ablations))
    page = out / "index.html"
    page.write_bytes(render(Page("agent-envs demo", intro, tables, (turn_curve(limits), learnt), pictures=(sorting,))))
    for row in rows:
        item = row.result.summaries[0]
        print(f"{row.name:36}{item.split:6}{item.success.text()}")
    if not os.environ.get("AGENT_ENVS_DATA"):
        print(
            "AGENT_ENVS_DATA names no data folder: real questions were left out (agent-envs data list tells what there is)"
        )
    print(page.resolve())


if __name__ == "__main__":
    main()
