"""Semantic engines are measured: encoding, building, memory, disk and query time at 10 and 100 thousand vectors.

    python -m benchmarks.dense_scaling --out benchmarks/results/dense_scaling.json

Encoding is measured on some of the passages of benchmarks/scaling.py (about 100 words each), on one thread, and a query's on
ten words. Indexes are measured on made vectors, because encoding 100 thousand takes hours: unit vectors around 2,000 centres,
queries beside some of them; recall is against the exact ten. The static engine's index is int8 of 256 numbers, the others hold
MiniLM's 384. Each index is built and searched in a process of its own. What 21,015,324 passages need is computed, not measured:
bytes, build and query time a vector and encoding time a passage as measured, times their number (ivf's build to its power 1.5).
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.tools.retrieval.dense import MINILM, sentence_encoder
from agent_envs.tools.retrieval.embeddings import Encoder
from agent_envs.tools.retrieval.static import StaticIndex, static_encoder
from agent_envs.tools.retrieval.vectors import INDEX, KINDS, VectorIndex, build_index, faiss_package, measured_recall
from benchmarks.scaling import WIKI_18, Figures, LineCorpus, memory_mb, queries, write_passages

SIZES = (10_000, 100_000)
ENGINES = ("static", *KINDS)
WIDTH = {"static": 256}  # of int8; the others have MiniLM's, of float32
MINILM_WIDTH = 384
CENTRES, SPREAD, QUERY_SPREAD = 2_000, 0.7, 0.4
QUERIES, TOP_K = 200, 3
GROWTH = {"ivf": 1.5}  # of the build: as many more vectors, and the square root as many more cells, to compare with
ENCODED = {"static": 5_000, MINILM: 256}


def made_vectors(rows: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return unit vectors in clusters, and queries beside some of them."""
    rng = np.random.default_rng(rows)
    centres = rng.standard_normal((CENTRES, width), dtype=np.float32)
    vectors = centres[rng.integers(0, CENTRES, rows)] + SPREAD * rng.standard_normal((rows, width), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    noise = rng.standard_normal((QUERIES, width), dtype=np.float32) * (QUERY_SPREAD / width**0.5)
    asked = vectors[rng.integers(0, rows, QUERIES)] + noise
    return vectors, asked / np.linalg.norm(asked, axis=1, keepdims=True)


class GivenQueries:
    """Stands where a model encodes queries, so that searching is measured alone."""

    def __init__(self, vectors: NDArray[np.int8]) -> None:
        self.vectors = vectors

    def encode(self, texts: list[str]) -> NDArray[np.int8]:
        """Return the vector of the query whose number is asked for."""
        return self.vectors[int(texts[0]) : int(texts[0]) + 1]


def measure_index(engine: str, rows: int) -> Figures:
    vectors, asked = made_vectors(rows, WIDTH.get(engine, MINILM_WIDTH))
    if engine == "static":
        vectors, asked = (
            np.rint(some * 127 / np.abs(some).max(axis=1, keepdims=True)).astype(np.int8) for some in (vectors, asked)
        )
    else:
        faiss_package()
    before = memory_mb("RssAnon")
    cpu = time.process_time()
    if engine == "static":
        index: Any = StaticIndex(GivenQueries(asked), vectors)  # type: ignore[arg-type]
        searches = [lambda number=number: index.top(str(number), TOP_K) for number in range(QUERIES)]
    else:
        index = VectorIndex(build_index(engine, vectors))
        searches = [lambda query=query: index.top(query, TOP_K) for query in asked]
    figures: Figures = {"build_cpu_seconds": time.process_time() - cpu}
    held = memory_mb("RssAnon") - before
    figures["memory_mb"] = vectors.nbytes / 1e6 if engine == "static" else max(held, _file_mb(index))
    figures["disk_mb"] = vectors.nbytes / 1e6 + (0.0 if engine in ("static", "flat") else _file_mb(index))
    if engine != "static":
        figures["recall_at_10"] = measured_recall(index, vectors, asked)
    return figures | _timed(searches)


def _file_mb(index: VectorIndex) -> float:
    with tempfile.TemporaryDirectory() as folder:
        faiss_package().write_index(index._index, str(Path(folder) / INDEX))
        return (Path(folder) / INDEX).stat().st_size / 1e6


def _timed(searches: list[Any]) -> Figures:
    for search in searches[:3]:
        search()
    latencies, cpu = [], time.process_time()
    for search in searches:
        begun = time.perf_counter()
        search()
        latencies.append((time.perf_counter() - begun) * 1e3)
    spent = (time.process_time() - cpu) * 1e3 / len(searches)
    p50, p99 = np.percentile(latencies, [50, 99]).tolist()
    return {"query_p50_ms": p50, "query_p99_ms": p99, "query_cpu_ms": spent}


def measure_encoding(name: str, work: Path) -> Figures:
    encoder: Encoder = static_encoder() if name == "static" else sentence_encoder(name)
    corpus = LineCorpus(work / "passages.txt", ENCODED[name])
    texts = [corpus[row].text for row in range(len(corpus))]
    encoder.encode(texts[:16])
    cpu = time.process_time()
    for start in range(0, len(texts), encoder.block):
        encoder.encode(texts[start : start + encoder.block])
    spent = time.process_time() - cpu
    asked = queries(corpus, 50)
    encode = encoder.encode_query if name == MINILM else lambda query: encoder.encode([query])  # type: ignore[attr-defined]
    timed = _timed([lambda query=query: encode(query) for query in asked])
    return {"passages": len(texts), "passages_per_cpu_second": len(texts) / spent} | timed


def apart(*what: str) -> Figures:
    command = [sys.executable, "-m", "benchmarks.dense_scaling", "--worker", *what]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(ran.stdout)
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def computed(engine: str, largest: int, cell: Figures, encoding: dict[str, Figures]) -> Figures:
    """Return what all of wiki-18 needs: each figure of the largest size times the passages, encoding at the measured rate."""
    times = WIKI_18 / largest
    rate = encoding["static" if engine == "static" else MINILM]["passages_per_cpu_second"]
    figures = {
        "memory_gb": cell["memory_mb"] * times / 1e3,
        "disk_gb": cell["disk_mb"] * times / 1e3,
        "build_core_hours": cell["build_cpu_seconds"] * times ** GROWTH.get(engine, 1.0) / 3600,
        "encode_core_hours": WIKI_18 / rate / 3600,
    }
    if engine in ("static", "flat", "sq8"):  # every vector is read; what the others read does not grow so
        figures["query_cpu_seconds"] = cell["query_cpu_ms"] * times / 1e3
    return {name: float(f"{value:.3g}") for name, value in figures.items()}


def run(out: Path | None, work: Path, sizes: list[int], models: list[str]) -> None:
    write_passages(work / "passages.txt", max(ENCODED.values()))
    encoding = {}
    for name in models:
        encoding[name] = apart("encode", name, str(work))
        print(f"encode {name}: {json.dumps(encoding[name])}", flush=True)
    results: dict[str, dict[str, Figures]] = {}
    for engine in ENGINES if MINILM in models else ("static",):
        for size in sizes:
            results.setdefault(engine, {})[str(size)] = apart("index", engine, str(size))
            print(f"{engine} {size:,}: {json.dumps(results[engine][str(size)])}", flush=True)
    largest = max(sizes)
    packages = ("numpy", "faiss-cpu", "sentence-transformers", "torch", "wordllama") if MINILM in models else ("numpy",)
    record = {
        "command": "python -m benchmarks.dense_scaling --out benchmarks/results/dense_scaling.json",
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
        "machine": f"{platform.system()} {platform.machine()}, one thread",
        "vectors": f"{CENTRES} centres, spread {SPREAD}, queries {QUERY_SPREAD} from a vector",
        "encoding": encoding,
        "results": results,
        f"computed for {WIKI_18}": {
            engine: computed(engine, largest, by_size[str(largest)], encoding) for engine, by_size in results.items()
        },
    }
    if out:
        out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(json.dumps(record[f"computed for {WIKI_18}"], indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/scaling"))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--models", nargs="+", choices=tuple(ENCODED), default=list(ENCODED))
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if not chosen.worker:
        run(chosen.out, chosen.work.absolute(), chosen.sizes, chosen.models)
        return
    stage, name, more = chosen.worker
    figures = measure_index(name, int(more)) if stage == "index" else measure_encoding(name, Path(more))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
