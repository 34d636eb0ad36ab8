"""Retriever ablations play the same questions with real, random, empty and oracle retrieval, as one table.

    python -m benchmarks.ablations --out benchmarks/results/ablations.json

The table shows what a retriever is worth to an agent, and what of its score needs no retrieval. Generated worlds are always
played; HotpotQA, PopQA and MuSiQue where AGENT_ENVS_DATA names the data. For one agent of yours:
`agent-envs eval SearchQA --agent NAME --sweep retriever=bm25,random,empty,oracle`, then `agent-envs compare RUN`.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from agent_envs.base.progress import progress_bar
from agent_envs.base.terminal import print_table
from agent_envs.evaluation.report.compare import compare_entries
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.statistics.paired import Paired, p_text
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite

RETRIEVERS = ("bm25", "random", "empty", "oracle")
REAL = ("hotpotqa", "popqa", "musique")


def points(pair: Paired) -> str:
    """Return a difference and its interval in per cent points."""
    return f"{100 * pair.difference:+.1f} [{100 * pair.low:+.1f}, {100 * pair.high:+.1f}]"


def rows(agents: list[str], tasks: int) -> list[dict[str, Any]]:
    """Return one row a source, agent and retriever, each with its difference to bm25."""
    found = []
    for source in ("world", *(REAL if os.environ.get("AGENT_ENVS_DATA") else ())):
        for agent in agents:
            suite = adhoc_suite(Choice("SearchQA", {"tasks": source}, limit=tasks, sweep=("retriever", RETRIEVERS)))
            with tempfile.TemporaryDirectory() as folder, progress_bar(f"{source} {agent}") as progress:
                result = evaluate(suite, Settings(agent), folder=Path(folder) / "run", progress=progress)
                contrasts, _ = compare_entries(open_run(Path(folder) / "run"))
            for retriever, item, contrast in zip(RETRIEVERS, result.summaries, [None, *contrasts], strict=True):
                pair = contrast.paired if contrast else None
                found.append({
                    "source": source, "split": item.split, "agent": agent, "retriever": retriever,
                    "success": item.success.text(), "value": item.success.value, "searches": item.mean_calls,
                    "difference": points(pair) if pair else "",
                    "p_holm": contrast.adjusted if contrast else None,
                })  # fmt: skip
    return found


def main() -> None:
    """Play, print, and keep with --out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", nargs="*", default=["heuristic"], help="agents by name")
    parser.add_argument("--tasks", type=int, default=300, help="tasks a source (default 300)")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    table = rows(options.agents, options.tasks)
    heads = [
        "source",
        "split",
        "agent",
        "retriever",
        "success (95 % interval)",
        "searches",
        "minus bm25, points",
        "p, Holm",
    ]
    cells = [
        [row["source"], row["split"], row["agent"], row["retriever"], row["success"], f"{row['searches']:.2f}",
         row["difference"], "" if row["p_holm"] is None else p_text(row["p_holm"])]
        for row in table
    ]  # fmt: skip
    print_table("Retriever ablations", heads, cells)
    if options.out:
        found = {"command": "python -m benchmarks.ablations --out benchmarks/results/ablations.json", "rows": table}
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
