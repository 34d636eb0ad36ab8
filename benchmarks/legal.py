"""Built-in agents play legal search on generated and real law, by semantic engine and by free turns, with intervals.

    AGENT_ENVS_DATA=... python -m benchmarks.legal [--out FILE] [--tasks N] [--engines NAME ...]

Agents: random; naive RAG (one semantic search, then the likeliest span); the searcher (keyword, semantic, read; rules, no
gold); the solver. Recall of the engines alone is in `benchmarks.recall`. The real law is the D.C. Code's dev questions,
which quote it nearly verbatim.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.envs.legal_search.heuristic import NaiveRAG
from agent_envs.envs.legal_search.scoring import metrics
from agent_envs.evaluation.statistics.rates import mean_interval, success_rate
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.wrappers import ForcedAnswer

SOURCES = {"statutes": "test", "agreements": "test", "dc_code": "dev"}
AGENTS = ("random", "naive_rag", "searcher", "solver")
ENGINES = ("static", "bm25", "hybrid", "random", "empty", "oracle")
FREE_TURNS = (0, 1, 2, 3, 4, 6, 8, 10)


def policy(name: str) -> Any:
    """Return an agent by the name that this page gives it."""
    if name == "naive_rag":
        return NaiveRAG()
    return CompanionPolicy("heuristic" if name == "searcher" else name)


def played(env: gym.Env[Any, Any], name: str, split: str, tasks: int) -> dict[str, Any]:
    """Play the first tasks of a split; return success and return with intervals, and what else was counted."""
    core = env.unwrapped
    count = min(tasks, core.source.size(split))
    started = time.process_time()
    results = [agent_envs.run_episode(env, policy(name), seed=0, task=place, split=split) for place in range(count)]
    ids = [result.trajectory.header.task_id for result in results]
    clusters = [result.trajectory.task.cluster for result in results]
    returns = [result.trajectory.total_reward for result in results]
    low, high = mean_interval(returns, clusters)
    told = [metrics(result.trajectory) for result in results]
    return {
        "success": success_rate([float(bool(result.success)) for result in results], ids, clusters).text(),
        "return": f"{sum(returns) / count:.2f} [{low:.2f}, {high:.2f}]",
        "turns": round(sum(len(result.trajectory.turns) for result in results) / count, 2),
        **{name: round(sum(row.get(name, 0.0) for row in told) / count, 3) for name in ("abstained", "wrong", "cited")},
        "cpu_ms_an_episode": round(1000 * (time.process_time() - started) / count, 1),
    }


def show(where: str, row: dict[str, Any]) -> dict[str, Any]:
    """Print a row as it is made, and return it."""
    print(f"{where:<44} {json.dumps(row)}", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tasks", type=int, default=300, help="questions of each source (default 300)")
    parser.add_argument("--limit-tasks", type=int, default=100, help="questions for each number of free turns")
    parser.add_argument("--engines", nargs="*", default=ENGINES, help="semantic engines of the comparison")
    chosen = parser.parse_args()
    found: dict[str, Any] = {"agents": {}, "engines": {}, "free_turns": {}}
    for source, split in SOURCES.items():
        env = gym.make("agent_envs/LegalSearch-v0", tasks=source)
        found["agents"][source] = {
            name: show(f"{source} {name}", played(env, name, split, chosen.tasks)) for name in AGENTS
        }
    for engine in chosen.engines:
        env = gym.make("agent_envs/LegalSearch-v0", semantic=engine)
        found["engines"][engine] = {
            name: show(f"statutes semantic={engine} {name}", played(env, name, "test", chosen.tasks))
            for name in ("naive_rag", "searcher")
        }
    for source, split in SOURCES.items():
        env = gym.make("agent_envs/LegalSearch-v0", tasks=source)
        found["free_turns"][source] = {
            free: {
                name: show(
                    f"{source} {free} free turns {name}",
                    played(ForcedAnswer(env, free), name, split, chosen.limit_tasks),
                )
                for name in ("searcher", "solver")
            }
            for free in FREE_TURNS
        }
    if chosen.out:
        record = {
            "command": f"python -m benchmarks.legal --tasks {chosen.tasks} --limit-tasks {chosen.limit_tasks} "
            f"--engines {' '.join(chosen.engines)}",
            "versions": {"python": platform.python_version(), "agent_envs": agent_envs.__version__},
            **found,
        }
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
