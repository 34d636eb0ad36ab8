"""Controls of legal search: what the law is like, who finds the way through it, and what free turns are worth.

    AGENT_ENVS_DATA=... python -m benchmarks.legal [--out FILE] [--tasks N]

Distributions: how long sections are, how large a library is, how many sections and calls a question needs, beside the D.C.
Code's. Controls on generated law, with intervals over clusters: the searcher (rules over sentences, no gold) at 0 to 12 free
turns, with three other sets of wordings, without engines, and with the ids of search results shuffled; its reader handed the
gold sections; naive RAG; the solver; random. Then the built-in agents on the D.C. Code.
"""

import argparse
import json
import platform
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.core.trajectory import Task
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.generated import GeneratedQuestion, GeneratedWorld
from agent_envs.envs.legal_search.heuristic import Missing, Reading
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.observations import snippet
from agent_envs.envs.legal_search.outcomes import matches
from agent_envs.envs.legal_search.published import load_library
from agent_envs.envs.legal_search.scoring import metrics
from agent_envs.envs.legal_search.statutes import StatutesConfig, get_statutes
from agent_envs.envs.legal_search.transcript import Shown
from agent_envs.evaluation.statistics.rates import mean_interval, success_rate
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.wrappers import ForcedAnswer
from benchmarks.naive_rag import NaiveRAG

WORLDS = 3  # of the test split
FREE_TURNS = (0, 1, 2, 4, 8, 12)
OTHER_WORDINGS = {
    "second": "second wordings",  # whose failures were looked at while the reader was written, as were the third's
    "third": "third wordings",
    "fourth": "fourth wordings, written before the reader was rewritten, measured once it was done",
}
ENGINES = ("static", "bm25", "hybrid")


class ShuffledIds(LegalSearch):
    """Searches show the ids of other sections than those that they found."""

    def hits(self, task: Task, query: str, key: str, engine: str = "semantic") -> Any:
        """Return what an engine finds, under other ids."""
        rows = self.source.library(task).corpus.passages
        moved = {row.id: rows[(place * 977 + 331) % len(rows)].id for place, row in enumerate(rows)}
        hits = super().hits(task, query, key, engine)
        return tuple(replace(hit, passage=replace(hit.passage, id=moved[hit.passage.id])) for hit in hits)


def played(env: gym.Env[Any, Any], agent: Any, split: str, tasks: int) -> dict[str, Any]:
    """Play the first tasks of a split; return success and return with intervals, and what else was counted."""
    core = env.unwrapped
    assert isinstance(core, LegalSearch)
    count = min(tasks, core.source.size(split))
    started = time.process_time()
    results = [agent_envs.run_episode(env, agent, seed=0, task=place, split=split) for place in range(count)]
    trajectories = [result.trajectory for result in results]
    ids = [row.header.task_id for row in trajectories]
    clusters = [row.task.cluster for row in trajectories if row.task]
    returns = [row.total_reward for row in trajectories]
    low, high = mean_interval(returns, clusters)
    told = [metrics(row) for row in trajectories]
    return {
        "success": success_rate([float(bool(result.success)) for result in results], ids, clusters).text(),
        "return": f"{sum(returns) / count:.2f} [{low:.2f}, {high:.2f}]",
        "turns": round(sum(len(row.turns) for row in trajectories) / count, 2),
        **{name: round(sum(row.get(name, 0.0) for row in told) / count, 3) for name in ("abstained", "wrong", "cited")},
        "cpu_ms_an_episode": round(1000 * (time.process_time() - started) / count, 1),
    }


def handed_gold(config: StatutesConfig) -> dict[str, Any]:
    """Return how many answerable questions the searcher's reader answers when it is handed the sections that prove them."""
    marks, ids, clusters = [], [], []
    for index in range(WORLDS):
        world = get_statutes(config, "test", index)
        for place, question in enumerate(world.questions):
            if question.answers:
                marks.append(float(matches(read_out(world, question), question.answers, question.metric)))
                ids.append(f"{index}-{place}")
                clusters.append(f"{index}-{question.chapter}")
    return {"success": success_rate(marks, ids, clusters).text(), "questions": len(marks)}


def read_out(world: GeneratedWorld, question: GeneratedQuestion) -> str:
    """Return what the reader makes of the gold sections."""
    library = world.library
    pages = {name: Shown(name, library.breadcrumb(name), library.read(name).text) for name in question.support}
    try:
        return Reading(question.text, pages, final=True).answer()
    except Missing:
        return ""


def gold_text(library: Library, question: GeneratedQuestion) -> list[str]:
    """Return the paragraphs that an answer rests on."""
    return [
        row[4:] if letter else row
        for name, letter in question.lines
        for row in library.read(name).text.splitlines()
        if row.startswith(f"({letter})") or not letter
    ]


def fewest_calls(world: GeneratedWorld, question: GeneratedQuestion, searches: Callable[[str], list[str]]) -> int:
    """Return after how few calls all gold text was seen: reads of the gold sections, and searches.

    The searches are those with the question and with the solver's queries, by both engines, whose extracts count as seen.
    """
    gold = gold_text(world.library, question)
    calls = [world.library.read(name).text for name in question.support]
    calls += [
        text for query in (question.text, *(query for query, _ in question.steps if query)) for text in searches(query)
    ]
    seen = [frozenset(place for place, row in enumerate(gold) if row in text) for text in calls]
    useful = [row for row in dict.fromkeys(seen) if row and not any(row < other for other in seen)]
    for size in range(1, len(question.support)):
        if any(len(frozenset().union(*chosen)) == len(gold) for chosen in combinations(useful, size)):
            return size
    return len(question.support)


def distributions() -> dict[str, Any]:
    """Return how long sections are, how large the libraries are, and what the test questions need."""
    reads: Counter[int] = Counter()
    calls: Counter[int] = Counter()
    extract = questions = 0
    worlds = [get_statutes(StatutesConfig(), "test", index) for index in range(WORLDS)]
    for world in worlds:
        engines = [make_retriever(name, world.library.corpus) for name in ("bm25", "static")]

        def searches(query: str, engines: Any = engines) -> list[str]:
            return [" ".join(snippet(hit.passage.text, query, 200) for hit in one.search(query, 5)) for one in engines]

        for question in world.questions:
            if question.answers:
                questions += 1
                reads[question.reads] += 1
                calls[fewest_calls(world, question, searches)] += 1
                gold = gold_text(world.library, question)
                extract += any(all(row in text for row in gold) for text in searches(question.text))
    return {
        "generated": [lengths(world.library) for world in worlds],
        "dc_code": lengths(load_library("dc_code")),
        "questions": questions,
        "clusters": len({(index, row.chapter) for index, world in enumerate(worlds) for row in world.questions}),
        "needed_sections": dict(sorted(reads.items())),
        "fewest_calls": dict(sorted(calls.items())),
        "extract_of_one_search_suffices": round(extract / questions, 3),
    }


def lengths(library: Library) -> dict[str, int]:
    """Return how many sections a library has, and quantiles of their length in characters."""
    sizes = sorted(len(row.text) for row in library.sections.values() if row.text)
    tenths = statistics.quantiles(sizes, n=10)
    return {
        "sections": len(sizes),
        "characters": sum(sizes),
        "p10": round(tenths[0]),
        "median": round(statistics.median(sizes)),
        "p90": round(tenths[8]),
    }


def controls(tasks: int) -> dict[str, Any]:
    """Return the table of controls on generated law."""
    make = partial(gym.make, "agent_envs/LegalSearch-v0")
    searcher = CompanionPolicy("heuristic")
    rows: dict[str, Callable[[], dict[str, Any]]] = {
        "reader handed the gold sections": lambda: handed_gold(StatutesConfig()),
        **{
            f"reader handed the gold sections, {name}": partial(handed_gold, StatutesConfig(wording=wording))
            for wording, name in OTHER_WORDINGS.items()
        },
        "naive RAG": lambda: played(make(), NaiveRAG(), "test", tasks),
        **{
            f"searcher, {free} free turns": partial(played_at, free, tasks, searcher)
            for free in FREE_TURNS
        },
        **{
            f"searcher, 12 free turns, {name}": partial(played_asked, wording, tasks, searcher)
            for wording, name in OTHER_WORDINGS.items()
        },
        "searcher, engines empty": lambda: played(make(semantic="empty", keyword="empty"), searcher, "test", tasks),
        "searcher, ids of hits shuffled": lambda: played(ShuffledIds(), searcher, "test", tasks),
        **{
            f"searcher, semantic={name}": partial(played_with, name, tasks, searcher) for name in ENGINES
        },
        "random": lambda: played(make(), CompanionPolicy("random"), "test", tasks),
        "solver": lambda: played(make(), CompanionPolicy("solver"), "test", tasks),
    }  # fmt: skip
    return {name: show(name, row()) for name, row in rows.items()}


def played_at(free: int, tasks: int, agent: Any) -> dict[str, Any]:
    """Play an agent with some free turns before the answer is forced."""
    return played(ForcedAnswer(gym.make("agent_envs/LegalSearch-v0"), free), agent, "test", tasks)


def played_asked(wording: str, tasks: int, agent: Any) -> dict[str, Any]:
    """Play an agent with 12 free turns on questions in another set of wordings."""
    env = ForcedAnswer(gym.make("agent_envs/LegalSearch-v0", world={"wording": wording}), 12)
    return played(env, agent, "test", tasks)


def played_with(engine: str, tasks: int, agent: Any) -> dict[str, Any]:
    """Play an agent with another engine of semantic search."""
    return played(gym.make("agent_envs/LegalSearch-v0", semantic=engine), agent, "test", tasks)


def show(where: str, row: dict[str, Any]) -> dict[str, Any]:
    """Print a row as it is made, and return it."""
    print(f"{where:<50} {json.dumps(row)}", flush=True)
    return row


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tasks", type=int, default=300, help="questions of each row (default 300)")
    chosen = parser.parse_args()
    record = {
        "command": f"python -m benchmarks.legal --tasks {chosen.tasks}",
        "versions": {"python": platform.python_version(), "agent_envs": agent_envs.__version__},
        "law": show("law", distributions()),
        "controls": controls(chosen.tasks),
        "dc_code": {
            agent.name: show(
                f"dc_code {agent.name}",
                played(gym.make("agent_envs/LegalSearch-v0", tasks="dc_code"), agent, "test", chosen.tasks),
            )
            for agent in (*map(CompanionPolicy, ("random", "heuristic", "solver")), NaiveRAG())
        },
    }
    if chosen.out:
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
