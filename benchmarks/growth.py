"""Cost is measured over turns, passages, episodes, concurrency, group size and depth of trees, with a fitted exponent each.

    python -m benchmarks.growth --out benchmarks/results/growth.json

CPU time, the least of a few repeats. The exponent is the slope of a straight line through the logarithms: 0 is flat, 1 linear.
The chart goes beside the file, as .svg (matplotlib, extra `train`). Passages are synthetic and searched by the index in memory;
`benchmarks.scaling` has engines, builds, memory and disk. `--small` leaves out the largest sizes of passages and episodes.
"""

import argparse
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import agent_envs
from agent_envs.core.trajectory import TrajectoryTree
from agent_envs.tools.retrieval.bm25 import BM25Index, BM25Settings
from agent_envs.tools.retrieval.index_files import IndexFiles
from benchmarks.agents import Instant
from benchmarks.turn_cost import cost

Points = dict[int, float]
WORDS_A_PASSAGE, WORDS_A_QUERY, VOCABULARY = 60, 8, 50_000


def exponent(points: Points) -> float:
    """Return the slope of the least-squares line through the logarithms of sizes and costs."""
    slope = np.polyfit([math.log(size) for size in points], [math.log(value) for value in points.values()], 1)[0]
    return round(float(slope), 2)


def least(work: Callable[[], int], repeats: int = 3) -> float:
    """Return the least CPU-seconds a unit of some repeats of a work, which returns its number of units."""
    best = math.inf
    for _ in range(repeats):
        started = time.process_time()
        units = work()
        best = min(best, (time.process_time() - started) / units)
    return best


def index_of(passages: int) -> tuple[BM25Index, list[str]]:
    """Return an index of made up scores, as many postings a passage as real text has, and queries by Zipf's law."""
    rng = np.random.default_rng(passages)
    ranks = np.arange(1, VOCABULARY + 1)
    share = 1 / (ranks + 20.0)
    frequencies = np.minimum(passages // 3, np.maximum(1, passages * WORDS_A_PASSAGE * share / share.sum())).astype(int)
    starts = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64)
    rows = [np.sort(rng.choice(passages, count, replace=False)) for count in frequencies.tolist()]
    scores = rng.random(int(starts[-1]), dtype=np.float32) + np.float32(0.1)
    terms = [f"w{number}" for number in range(VOCABULARY)]
    index = BM25Index(
        BM25Settings(), IndexFiles(passages, scores, np.concatenate(rows).astype(np.int32), starts, terms)
    )
    draw = random.Random(passages)
    return index, [" ".join(draw.choices(terms, share.tolist(), k=WORDS_A_QUERY)) for _ in range(100)]


def corpus(sizes: Sequence[int]) -> Points:
    """Return CPU-microseconds of a query by the number of passages."""
    costs = {}
    for size in sizes:
        index, queries = index_of(size)

        def ask(index: BM25Index = index, queries: list[str] = queries) -> int:
            """Search for each of the queries, and return their number."""
            for query in queries:
                index.top(query, 3)
            return len(queries)

        costs[size] = least(ask) * 1e6
    return costs


def run(episodes: int, concurrency: int) -> int:
    """Play a plan with an instant agent and a journal, and return its turns."""
    from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, plan_of
    from agent_envs.rollout.run_many import run_many

    plan = plan_of(adhoc_suite(Choice("SearchQA", limit=min(episodes, 1_000), trials=-(-episodes // 1_000))))
    with tempfile.TemporaryDirectory() as folder:
        results = run_many(plan, Instant(), concurrency=concurrency, journal=Path(folder) / "journal.jsonl")
        return sum(len(result.trajectory.turns) for _, result in results)


def episodes(sizes: Sequence[int]) -> Points:
    """Return CPU-milliseconds a turn by the number of episodes of a run, 8 at a time."""
    run(10, 8)
    return {size: least(lambda size=size: run(size, 8), 1 if size > 1_000 else 2) * 1e3 for size in sizes}


def concurrency(sizes: Sequence[int]) -> Points:
    """Return CPU-milliseconds a turn by how many of 1,024 episodes are played at a time."""
    return {size: least(lambda size=size: run(1_024, size), 2) * 1e3 for size in sizes}


def group(sizes: Sequence[int]) -> Points:
    """Return CPU-microseconds a rollout by the size of a group: a fork of one start, three steps, an answer."""
    env = gym.make("agent_envs/SearchQA-v0")
    env.reset(options={"task": 0, "split": "train"})

    def play(size: int) -> int:
        """Fork an environment so many times and play each fork."""
        for number in range(size):
            twin = agent_envs.fork(env, branch=f"b{number}")
            for _ in range(3):
                twin.step("<search>a city</search>")
            twin.step("<answer>none</answer>")
        return size

    return {size: least(lambda size=size: play(size), 7) * 1e6 for size in sizes}


def depth(sizes: Sequence[int]) -> Points:
    """Return CPU-microseconds a node by the depth of a tree: a fork at each turn of a path, one step, all merged."""
    env = gym.make("agent_envs/Sort-v0")
    costs = {}
    for size in sizes:

        def grow(size: int = size) -> int:
            """Fork an environment at every turn, and return the size of the tree of all forks."""
            env.reset(options={"task": 0})
            env.unwrapped.max_turns = 10**9
            tree = None
            for turn in range(size):
                twin = agent_envs.fork(env, branch=f"b{turn}")
                twin.step("hm")
                env.step("well")
                tree = tree or TrajectoryTree(env.unwrapped.trajectory.header, env.unwrapped.trajectory.prompt)
                tree.add(twin.unwrapped.trajectory)
            tree.add(env.unwrapped.trajectory)
            return len(tree.nodes)

        costs[size] = least(grow, 3) * 1e6
    return costs


def measure_rows(small: bool) -> dict[str, dict[str, Any]]:
    """Return every row: its unit, its points and its exponent."""
    big = 10_000 if small else 100_000
    rows = {
        "turns": ("us of CPU a turn", {size: cost(size, 5) for size in (10, 100, 1_000, 3_000)}),
        "passages": ("us of CPU a query", corpus((10_000, 30_000, 100_000, 300_000) + (() if small else (1_000_000,)))),
        "episodes": ("ms of CPU a turn", episodes([size for size in (100, 1_000, 10_000, 100_000) if size <= big])),
        "concurrency": ("ms of CPU a turn", concurrency((1, 4, 16, 64, 256, 1_024))),
        "group size": ("us of CPU a rollout", group((1, 4, 16, 64, 256))),
        "tree depth": ("us of CPU a node", depth((4, 16, 64, 256))),
    }
    return {name: row_of(unit, points) for name, (unit, points) in rows.items()}


def row_of(unit: str, points: Points) -> dict[str, Any]:
    """Return a row of the file: unit, exponent, and the points in four digits."""
    rounded_points = {str(size): float(f"{value:.4g}") for size, value in points.items()}
    return {"unit": unit, "exponent": exponent(points), "points": rounded_points}


def chart(rows: dict[str, dict[str, Any]], path: Path) -> None:
    """Draw one small chart a row, logarithmic both ways."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "growth"
    figure, places = pyplot.subplots(2, 3, figsize=(11, 6), layout="constrained")
    for place, (name, row) in zip(places.flat, rows.items(), strict=True):
        sizes, values = zip(*((int(size), value) for size, value in row["points"].items()), strict=True)
        place.loglog(sizes, values, marker="o", color="#2a5d84")
        place.set_ylim(min(values) / 3, max(values) * 3)
        place.set_title(f"{name}: exponent {row['exponent']:g}", fontsize=10)
        place.set_xlabel(name)
        place.set_ylabel(row["unit"])
        place.grid(alpha=0.3, which="both")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measure, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--small", action="store_true", help="no million passages, no 100,000 episodes")
    options = parser.parse_args()
    rows = measure_rows(options.small)
    for name, row in rows.items():
        print(f"{name:<12} exponent {row['exponent']:>5g}  {row['unit']}: {row['points']}")
    if options.out:
        small = " --small" if options.small else ""
        record = {
            "command": f"python -m benchmarks.growth{small} --out {options.out}",
            "load": os.getloadavg(),
            "rows": rows,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        chart(rows, options.out.with_suffix(".svg"))


if __name__ == "__main__":
    main()
