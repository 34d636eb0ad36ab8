"""Our BM25 is timed against rank-bm25's BM25Okapi: queries per CPU-second, latency, build time and memory.

    python benchmarks/retrieval.py [--data FOLDER] [--out FILE]

Each engine runs in a process of its own, over the same passages, the same terms (our tokenizer) and the same questions,
top 3. FOLDER is the data folder whose searchqa/ holds the real sample; without it only synthetic corpora are measured.
The two engines do not rank alike (Okapi floors the idf of common terms); this measures their cost alone.
"""

import argparse
import json
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval import bm25
from agent_envs.tools.retrieval.bm25 import BM25Retriever, tokenize

ENGINES = ("agent-envs", "rank-bm25")
TOP_K = 3
QUERIES = {"agent-envs": 1_875, "rank-bm25": 40}  # rank-bm25 takes 0.2 to 0.4 s a question on the sample


def synthetic(passages: int) -> tuple[MemoryCorpus, list[str]]:
    """Generate a corpus of Zipf-like words and its queries, by its size alone."""
    rng = random.Random(f"retrieval benchmark {passages}")
    words = [f"word{number}" for number in range(3_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    texts = [" ".join(rng.choices(words, weights, k=60)) for _ in range(passages)]
    corpus = MemoryCorpus(Passage(str(row), f"title{row}", text) for row, text in enumerate(texts))
    return corpus, [" ".join(rng.choices(words, weights, k=12)) for _ in range(QUERIES["agent-envs"])]


def sample(data: Path) -> tuple[MemoryCorpus, list[str]]:
    """Load the sample corpus and its questions, in a fixed random order."""
    with (data / "searchqa" / "corpus.jsonl").open(encoding="utf-8") as lines:
        corpus = MemoryCorpus(Passage(row["id"], row["title"], row["text"]) for row in map(json.loads, lines))
    questions = [
        json.loads(line)["question"]
        for path in sorted((data / "searchqa" / "dev").glob("*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    random.Random("order of questions").shuffle(questions)
    return corpus, questions


def peak_mb() -> float:
    """Return the peak of resident memory in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def build(engine: str, corpus: MemoryCorpus, folder: Path) -> Any:
    """Build the index of agent-envs or of rank-bm25, and return its search function."""
    if engine == "agent-envs":
        return BM25Retriever(corpus, cache_dir=folder).search
    from rank_bm25 import BM25Okapi

    okapi = BM25Okapi([tokenize(f"{passage.title}\n{passage.text}") for passage in corpus.passages])
    return lambda query, top_k: okapi.get_top_n(tokenize(query), corpus.passages, n=top_k)


def measure(engine: str, name: str, data: Path | None) -> dict[str, float]:
    """Measure an engine on a corpus: build, load, latency, throughput and memory."""
    corpus, questions = sample(data) if name == "sample" and data else synthetic(int(name))
    questions = questions[: QUERIES[engine] if name == "sample" else 500]
    import bm25s  # noqa: F401  # importing it is no part of a build
    import rank_bm25  # noqa: F401

    base = peak_mb()
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        search = build(engine, corpus, Path(folder))
        figures = {"passages": len(corpus), "build_cpu_seconds": time.process_time() - started}
        if engine == "agent-envs":
            bm25._LARGE.clear()  # as a second process would begin; small corpora are always built
            started = time.process_time()
            search = build(engine, corpus, Path(folder))
            if len(corpus) > bm25.SMALL_CORPUS:
                figures["load_cpu_seconds"] = time.process_time() - started
        search(questions[0], TOP_K)
        latencies = []
        started = time.process_time()
        for question in questions:
            start = time.perf_counter()
            search(question, TOP_K)
            latencies.append(time.perf_counter() - start)
        figures["queries_per_cpu_second"] = len(questions) / (time.process_time() - started)
    figures["queries"] = len(questions)
    figures["latency_p50_ms"], figures["latency_p99_ms"] = (np.percentile(latencies, [50, 99]) * 1e3).tolist()
    figures["peak_rss_mb"], figures["rss_before_build_mb"] = peak_mb(), base
    return {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in figures.items()}


def measure_apart(engine: str, name: str, data: Path | None) -> dict[str, float]:
    """Measure in a process of its own, so that memory is the engine's alone."""
    command = [sys.executable, __file__, "--worker", engine, name]
    if data is not None:
        command += ["--data", str(data)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


ROWS = ("queries_per_cpu_second", "latency_p50_ms", "latency_p99_ms", "build_cpu_seconds", "peak_rss_mb")


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    """Format both engines' figures with their ratio as lines."""
    lines = [f"{'corpus':>10} {'figure':<24} {ENGINES[0]:>12} {ENGINES[1]:>12} {'ratio':>10}"]
    for name, engines in results.items():
        for figure in ROWS:
            ours, theirs = (engines[engine][figure] for engine in ENGINES)
            lines.append(f"{name:>10} {figure:<24} {ours:>12.5g} {theirs:>12.5g} {ours / theirs:>10.3g}")
    return "\n".join(lines)


def main() -> None:
    """Measure both engines on all corpora, or one in a worker process, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "CORPUS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(*options.worker, options.data)))
        return
    names = ["300", "1000"] + (["sample"] if options.data else [])
    results = {name: {engine: measure_apart(engine, name, options.data) for engine in ENGINES} for name in names}
    print(table(results))
    if options.out:
        record = {
            "command": "python benchmarks/retrieval.py" + (" --data $AGENT_ENVS_DATA" if options.data else ""),
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in ("numpy", "bm25s", "rank-bm25")},
            "machine": f"{platform.system()} {platform.machine()}",
            "top_k": TOP_K,
            "results": results,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
