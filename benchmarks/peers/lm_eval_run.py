"""lm-eval runs an evaluation as a peer of benchmarks/runner.py and prints one JSON line with what it cost.

Runs in a virtual environment that has lm-eval and the CPU build of torch. The dummy model answers at once; the task is a local
JSON file of the right size, so nothing is downloaded. lm-eval asks once a sample: one turn an episode.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from pathlib import Path

TASK = """
task: forty_two
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs:
  until: ["\\n"]
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


def rss_mb() -> float:
    """Return the peak resident set of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    began = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HF_HOME"] = name
        import lm_eval
        import lm_eval.evaluator  # this and the models import torch at use: import, not evaluation
        import lm_eval.models.dummy
        import torch  # noqa: F401
        from lm_eval.loggers import EvaluationTracker
        from lm_eval.tasks import TaskManager

        imported, before = time.process_time() - began, rss_mb()
        rows = ({"question": f"question {number}", "answer": "lol"} for number in range(options.episodes))
        (folder / "data.json").write_text("\n".join(map(json.dumps, rows)))
        (folder / "forty_two.yaml").write_text(TASK.format(data=folder / "data.json"))
        started, cpu = time.perf_counter(), time.process_time()
        tracker = EvaluationTracker(output_path=str(folder / "out"))
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        results = lm_eval.simple_evaluate(
            model="dummy", tasks=["forty_two"], task_manager=manager, log_samples=True, evaluation_tracker=tracker,
            bootstrap_iters=0,
        )  # fmt: skip
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        tracker.save_results_samples(task_name="forty_two", samples=samples["forty_two"])
        cpu, wall = time.process_time() - cpu, time.perf_counter() - started
    row = {
        "peer": "lm_eval", "version": lm_eval.__version__, "episodes": options.episodes, "turns": options.episodes,
        "turns_per_episode": 1,
        "cpu_seconds": cpu, "cpu_seconds_total": cpu + imported, "wall_seconds": wall, "peak_rss_mb": rss_mb(),
        "rss_after_import_mb": before,
    }  # fmt: skip
    print(json.dumps(row))


if __name__ == "__main__":
    main()
