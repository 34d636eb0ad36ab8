"""inspect_ai runs an evaluation as a peer of benchmarks/runner.py and prints one JSON line with what it cost.

Runs in a virtual environment that has inspect-ai. The model needs no network: it waits for the latency and returns a fixed
text with explicit token counts. Logging is as lean as inspect_ai's own issue tracker recommends for large runs.
"""

import argparse
import asyncio
import json
import resource
import tempfile
import time


def rss_mb() -> float:
    """Return the peak resident set of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds a call")
    options = parser.parse_args()
    began = time.process_time()

    import inspect_ai
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi
    from inspect_ai.scorer import match
    from inspect_ai.solver import solver

    @modelapi(name="fake")
    class Fake(ModelAPI):
        """Answers after the latency."""

        async def generate(self, input, tools, tool_choice, config):
            """Return a fixed answer after the latency."""
            if options.latency:
                await asyncio.sleep(options.latency)
            output = ModelOutput.from_content(self.model_name, "forty-two")
            output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
            return output

        def max_connections(self):
            """Return the connections that may be open at a time."""
            return options.concurrency

    @solver
    def turns():
        """Build a solver of so many turns."""

        async def solve(state, generate):
            """Generate as many turns as the options say."""
            for _ in range(options.turns):
                state = await generate(state)
            return state

        return solve

    def evaluate(episodes: int) -> None:
        """Evaluate so many episodes with inspect_ai; they must all succeed."""
        samples = [Sample(input=f"question {number}", target="forty-two") for number in range(episodes)]
        with tempfile.TemporaryDirectory() as folder:
            # max_samples follows max_connections unless told; the log options are those of inspect_ai#3173.
            (log,) = inspect_ai.eval(
                Task(dataset=MemoryDataset(samples), solver=turns(), scorer=match()),
                model="fake/fake", log_dir=folder, display="none", max_connections=options.concurrency,
                max_samples=options.concurrency, log_realtime=False, log_model_api=False, score_display=False,
            )  # fmt: skip
        assert log.status == "success", log.error

    # inspect_ai imports its servers and numpy inside the first evaluation: that is import, not evaluation.
    evaluate(1)
    imported, before = time.process_time() - began, rss_mb()
    started, cpu = time.perf_counter(), time.process_time()
    evaluate(options.episodes)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - started
    row = {
        "peer": "inspect_ai", "version": inspect_ai.__version__, "episodes": options.episodes,
        "turns": options.episodes * options.turns, "cpu_seconds": cpu, "cpu_seconds_total": cpu + imported,
        "wall_seconds": wall, "peak_rss_mb": rss_mb(), "rss_after_import_mb": before,
    }  # fmt: skip
    print(json.dumps(row))


if __name__ == "__main__":
    main()
