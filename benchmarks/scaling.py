"""Retrieval engines are measured at 10 thousand, 100 thousand and a million passages: build, memory, disk and query time.

    python -m benchmarks.scaling --out benchmarks/results/scaling.json

Passages are synthetic: about 100 words each, drawn by a seeded generator from a Zipf vocabulary whose commonest words are
the stop words, and written once to a file in `--work`; a size is so many first lines of it. A query is ten words of one
passage. Building and searching are measured in processes of their own, so that a peak is one engine's. Cells that the
file has already are not measured again (`--again` measures them). A chart goes beside the file, in .svg.
"""

import argparse
import itertools
import json
import math
import platform
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from agent_envs.base.documents import Corpus, Passage
from agent_envs.tools.retrieval.bm25 import STOP_WORDS, BM25Settings, get_index, query_terms
from agent_envs.tools.retrieval.okapi_reference import OkapiReference
from agent_envs.tools.retrieval.tantivy_index import get_tantivy_index
from benchmarks.scaling_chart import chart_svg

Search: TypeAlias = Callable[[str], object]
Figures: TypeAlias = dict[str, float]

SIZES = (10_000, 100_000, 1_000_000)
ENGINES = ("bm25", "tantivy", "rank_bm25")
WIKI_18 = 21_015_324
VOCABULARY = 1_000_000
WORDS_A_PASSAGE = (80, 120)
WORDS_A_QUERY = 10
TOP_K = 3
QUERIES = {"bm25": 300, "tantivy": 300, "rank_bm25": 20}
# rank_bm25 would hold some 8 GB at a million passages and take seconds for each query; bm25 refuses more than these
MOST = {"rank_bm25": 100_000, "bm25": 3_000_000}
GENERATOR = "zipf-1"


class LineCorpus:
    """The first lines of a file, read as they are asked for: not mapped, so that text does not count as memory."""

    def __init__(self, path: Path, rows: int) -> None:
        self.digest = f"scaling {GENERATOR} {rows}"
        self._starts = np.load(path.with_suffix(".npy"))[: rows + 1]
        self._file = path.open("rb")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> Passage:
        start, end = int(self._starts[row]), int(self._starts[row + 1])
        self._file.seek(start)
        title, _, text = self._file.read(end - start).decode().rstrip("\n").partition("\t")
        return Passage(str(row), title, text)

    def row(self, passage_id: str) -> int:
        """Return the row of an id, which is its number."""
        return int(passage_id)


def lines(rows: int) -> Iterator[str]:
    """Yield generated passages as lines, by the number of rows alone."""
    rng = random.Random(f"scaling {GENERATOR}")
    words = [*STOP_WORDS, *(f"w{rank}" for rank in range(len(STOP_WORDS), VOCABULARY))]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    for _ in range(rows):
        passage = rng.choices(words, cum_weights=weights, k=rng.randint(*WORDS_A_PASSAGE))
        yield f"{' '.join(passage[:2])}\t{' '.join(passage[2:])}\n"


def write_passages(path: Path, rows: int) -> None:
    """Write at least so many lines, and where they start; a file that has them stays."""
    starts = path.with_suffix(".npy")
    if starts.exists() and len(np.load(starts, mmap_mode="r")) > rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    offsets, position = np.zeros(rows + 1, dtype=np.int64), 0
    with path.open("wb") as file:
        for row, line in enumerate(lines(rows)):
            position += file.write(line.encode())
            offsets[row + 1] = position
    np.save(starts, offsets)


def queries(corpus: Corpus, number: int) -> list[str]:
    """Draw queries of words from passages of the corpus, always the same."""
    rng = random.Random(f"scaling queries {GENERATOR} {len(corpus)}")
    texts = (corpus[rng.randrange(len(corpus))].text for _ in range(number))
    return [" ".join(rng.sample(text.split(), WORDS_A_QUERY)) for text in texts]


def make_search(engine: str, corpus: Corpus, folder: Path) -> Search:
    """Build or open an engine's index, and return its search function."""
    if engine == "bm25":
        bm25 = get_index(corpus, cache_dir=folder)
        return lambda query: bm25.top(query, TOP_K)
    if engine == "tantivy":
        tantivy = get_tantivy_index(corpus, cache_dir=folder)
        return lambda query: tantivy.top(query, TOP_K)
    reference = OkapiReference(corpus, BM25Settings(method="okapi"))  # the retriever refuses more than 20,000 passages
    return lambda query: reference.top(query, TOP_K)


def memory_mb(field: str) -> float:
    """Return a field of /proc/self/status in MB (10**6 bytes); without one, the peak as the system counts it."""
    status = Path("/proc/self/status")
    if status.exists():
        row = next(line for line in status.read_text().splitlines() if line.startswith(field))
        return int(row.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def measure(stage: str, engine: str, size: int, work: Path) -> Figures:
    """Measure one stage of an engine, build or serving: time, memory and disk."""
    for package in ("bm25s", "tantivy", "rank_bm25"):
        __import__(package)  # no part of a build
    corpus, folder = LineCorpus(work / "passages.txt", size), work / f"{engine}-{size}"
    before = memory_mb("VmHWM")
    cpu, wall = time.process_time(), time.perf_counter()
    search = make_search(engine, corpus, folder)
    seconds = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    figures: Figures = {}
    if stage != "serve":
        figures |= {f"build_{name}": value for name, value in seconds.items()}
        figures |= {"build_peak_rss_mb": memory_mb("VmHWM"), "rss_before_mb": before}
        figures["disk_mb"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    if stage != "build":
        figures |= {f"open_{name}": value for name, value in seconds.items() if stage == "serve"}
        figures |= time_queries(search, [query for query in queries(corpus, QUERIES[engine]) if query_terms(query)])
        figures |= {"serve_peak_rss_mb": memory_mb("VmHWM"), "serve_anonymous_mb": memory_mb("RssAnon")}
    return figures


def time_queries(search: Search, texts: list[str]) -> Figures:
    """Time the queries, and return median, 99th percentile and CPU time, after three that do not count."""
    for query in texts[:3]:
        search(query)
    latencies, cpu = [], time.process_time()
    for query in texts:
        start = time.perf_counter()
        search(query)
        latencies.append((time.perf_counter() - start) * 1e3)
    cpu_ms = (time.process_time() - cpu) * 1e3 / len(texts)
    p50, p99 = np.percentile(latencies, [50, 99]).tolist()
    return {"query_p50_ms": p50, "query_p99_ms": p99, "query_cpu_ms": cpu_ms, "queries": len(texts)}


def measure_apart(engine: str, size: int, work: Path) -> Figures:
    """Measure each stage in a process of its own; rank-bm25, which keeps nothing on disk, in one process."""
    shutil.rmtree(work / f"{engine}-{size}", ignore_errors=True)
    figures: Figures = {}
    for stage in ("build+serve",) if engine == "rank_bm25" else ("build", "serve"):
        command = [
            sys.executable,
            "-m",
            "benchmarks.scaling",
            "--work",
            str(work),
            "--worker",
            stage,
            engine,
            str(size),
        ]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        figures |= json.loads(ran.stdout)
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def extrapolate(by_size: dict[str, Figures], target: int) -> Figures:
    """Return figures at a size on the line through the two largest sizes, query time as well; {} with fewer sizes."""
    sizes = sorted(map(int, by_size))[-2:]
    if len(sizes) < 2:
        return {}
    (small, large), (low, high) = sizes, (by_size[str(size)] for size in sizes)
    grow = (target - large) / (large - small)
    names = ("build_cpu_seconds", "build_peak_rss_mb", "disk_mb", "serve_anonymous_mb", "query_p50_ms", "query_cpu_ms")
    return {name: float(f"{high[name] + (high[name] - low[name]) * grow:.3g}") for name in names}


def growth(by_size: dict[str, Figures], name: str) -> float | None:
    """Return the exponent of a figure's growth between the two largest sizes (1 is linear); None with fewer sizes."""
    sizes = sorted(map(int, by_size))[-2:]
    low, high = by_size[str(sizes[0])][name], by_size[str(sizes[-1])][name]
    if len(sizes) < 2 or not (low > 0 and high > 0):
        return None
    return round(math.log(high / low) / math.log(sizes[1] / sizes[0]), 2)


COLUMNS = ("build_cpu_seconds", "build_wall_seconds", "build_peak_rss_mb", "disk_mb", "serve_peak_rss_mb",
           "query_p50_ms", "query_p99_ms", "query_cpu_ms")  # fmt: skip


def table(results: dict[str, dict[str, Figures]]) -> str:
    """Format the figures by engine and size as lines."""
    rows = [f"{'engine':>10} {'passages':>10} " + " ".join(f"{name:>18}" for name in COLUMNS)]
    for engine, by_size in results.items():
        for size in sorted(by_size, key=int):
            rows.append(
                f"{engine:>10} {int(size):>10,} " + " ".join(f"{by_size[size][name]:>18,.5g}" for name in COLUMNS)
            )
    return "\n".join(rows)


def record(results: dict[str, dict[str, Figures]], commands: list[str]) -> dict[str, Any]:
    """Build the record of all measurements: versions, growth exponents, extrapolation, and sizes that were left out."""
    left_out = {
        f"{engine} {size}": f"not measured beyond {MOST[engine]:,} passages: see MOST in benchmarks/scaling.py"
        for engine in MOST
        for size in sorted({int(size) for by_size in results.values() for size in by_size})
        if size > MOST[engine]
    }
    packages = ("numpy", "bm25s", "tantivy", "rank-bm25")
    return {
        "commands": commands,
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
        "machine": f"{platform.system()} {platform.machine()}",
        "passages": f"{GENERATOR}: {WORDS_A_PASSAGE[0]} to {WORDS_A_PASSAGE[1]} words of a Zipf vocabulary of {VOCABULARY:,}",
        "top_k": TOP_K,
        "results": results,
        "growth": {
            engine: {name: growth(by_size, name) for name in COLUMNS} for engine, by_size in results.items() if by_size
        },
        "extrapolated": {f"{engine} {WIKI_18}": extrapolate(by_size, WIKI_18) for engine, by_size in results.items()},
        "left_out": left_out,
    }


def command(options: argparse.Namespace) -> str:
    """Return the command line that repeats these measurements."""
    parts = ["python -m benchmarks.scaling --out benchmarks/results/scaling.json"]
    for name, values, usual in (("sizes", options.sizes, SIZES), ("engines", options.engines, ENGINES)):
        if tuple(values) != usual:
            parts.append(f"--{name} {' '.join(map(str, values))}")
    return " ".join(parts)


def run(options: argparse.Namespace) -> None:
    """Measure all cells that the file lacks, and write record and chart after each."""
    out, work = options.out, options.work.absolute()
    earlier = json.loads(out.read_text("utf-8")) if out and out.exists() else {"results": {}, "commands": []}
    results: dict[str, dict[str, Figures]] = {engine: earlier["results"].get(engine, {}) for engine in ENGINES}
    commands = [*dict.fromkeys([*earlier["commands"], command(options)])]
    write_passages(work / "passages.txt", max(options.sizes))
    for size in sorted(options.sizes):
        for engine in options.engines:
            if size > MOST.get(engine, size) or (str(size) in results[engine] and not options.again):
                continue
            results[engine][str(size)] = measure_apart(engine, size, work)
            print(f"{engine} {size:,}: {json.dumps(results[engine][str(size)])}", flush=True)
            if out:  # after every cell, so that nothing is measured twice
                out.write_text(json.dumps(record(results, commands), indent=1) + "\n", "utf-8")
                out.with_suffix(".svg").write_text(chart_svg(results), "utf-8")
    print(table(results))


def main() -> None:
    """Run all measurements, or one stage in a worker process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/scaling"), help="passages and indexes (2 GB)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--again", action="store_true", help="measure cells that the file has already")
    parser.add_argument("--worker", nargs=3, metavar=("STAGE", "ENGINE", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        stage, engine, size = options.worker
        print(json.dumps(measure(stage, engine, int(size), options.work)))
        return
    run(options)


if __name__ == "__main__":
    main()
