"""`make demo`: a keyless evaluation over every family, and a page with its table, its plot and its transcripts.

Random, heuristic and solver agents play generated tasks, and real questions where AGENT_ENVS_DATA names the data.
"""

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from agent_envs.evaluation.agents import make_agent
from agent_envs.evaluation.evaluate import RunConfig, Summary, evaluate
from agent_envs.evaluation.page import Bar, Cell, Page, Table, Transcript, write_page
from agent_envs.policies import core_of
from agent_envs.progress import progress_bar
from agent_envs.registry import TABLE
from agent_envs.rollout import EpisodeResult

AGENTS = ("random", "heuristic", "solver")
REAL = {"SearchQA": ("hotpotqa", "popqa", "musique")}
TRANSCRIPTS_A_RUN = 2


@dataclass(frozen=True)
class Row:
    """One line of the demo's table, and the episodes that it shows."""

    source: str
    summary: Summary
    shown: tuple[EpisodeResult, ...]
    gold: tuple[tuple[str, ...], ...]


def runs(tasks: int) -> list[Row]:
    """Play everything and return the rows of the table."""
    with_data = bool(os.environ.get("AGENT_ENVS_DATA"))
    rows = []
    for entry in TABLE:
        for source in ("world", *(REAL.get(entry.name, ()) if with_data else ())):
            for agent in AGENTS:
                config = RunConfig(entry.id, {"tasks": source}, agent, limit=tasks)
                shown: list[EpisodeResult] = []

                def keep(result: EpisodeResult, shown: list[EpisodeResult] = shown) -> None:
                    if len(shown) < TRANSCRIPTS_A_RUN:
                        shown.append(result)

                with progress_bar(f"{entry.name} {source} {agent}") as progress:
                    summary = evaluate(config, make_agent(agent), progress=progress, keep=keep)
                rows.append(Row(source, summary, tuple(shown), tuple(_gold(config, result) for result in shown)))
    return rows


def _gold(config: RunConfig, result: EpisodeResult) -> tuple[str, ...]:
    source = core_of(gym.make(config.env_id, **config.arguments)).source
    return source.get(result.trajectory.header.split, result.trajectory.header.task_id).gold


def page_of(rows: list[Row], seconds: float) -> Page:
    """Return the page of the demo."""
    cells: list[tuple[str | Cell | Bar, ...]] = []
    transcripts: list[Transcript] = []
    for number, row in enumerate(rows):
        summary, rate = row.summary, row.summary.success
        links = []
        for place, result in enumerate(row.shown):
            anchor = f"e{number}-{place}"
            links.append(Cell("ab"[place], href=f"#{anchor}"))
            name = f"{row.source}, {summary.agent}: {result.trajectory.header.task_id}"
            meta = (("split", summary.split), ("gold answers", "; ".join(row.gold[place])))
            transcripts.append(Transcript(anchor, name, meta, result.trajectory))
        bar = Bar(rate.value, rate.low, rate.high)
        cells.append((
            f"{summary.env_id.split('/')[-1]} {row.source}", summary.split, summary.agent, rate.text(), bar,
            f"{summary.mean_turns:.2f}", f"{100 * summary.malformed_share:.1f} %", str(summary.faults), *links,
        ))  # fmt: skip
    heads = ("environment", "split", "agent", "success (95 % interval)", "", "turns", "turns with an event", "faults",
             "episodes", "")  # fmt: skip
    intro = (
        f"Built-in agents over every environment family, {time.strftime('%Y-%m-%d')}, {seconds:.0f} seconds. "
        "Random is the floor, the solver the ceiling (it reads the task's gold and acts through the same actions); "
        "the heuristic searches for the question and answers with a span of what came back. "
        "Intervals are 95 % and clustered by world."
    )
    return Page("agent-envs demo", intro, (Table("Success", heads, tuple(cells)),), (), tuple(transcripts))


def main() -> None:
    """Run the demo and print where its page is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=300, help="tasks a run (default 300)")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the page (default demo/)")
    options = parser.parse_args()
    started = time.monotonic()
    rows = runs(options.tasks)
    for row in rows:
        name = f"{row.summary.env_id} {row.source}"
        print(f"{name:36}{row.summary.split:6}{row.summary.agent:11}{row.summary.success.text()}")
    if not os.environ.get("AGENT_ENVS_DATA"):
        print(
            "AGENT_ENVS_DATA names no data folder: real questions were left out (agent-envs data list tells what there is)"
        )
    path = options.out / "index.html"
    options.out.mkdir(parents=True, exist_ok=True)
    write_page(path, page_of(rows, time.monotonic() - started))
    print(path.resolve())


if __name__ == "__main__":
    main()
