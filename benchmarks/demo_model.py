"""The demo's small model is made here: from nothing, by imitating a solver that errs; `make demo` lets it learn from there.

    python -m benchmarks.demo_model --out benchmarks/results/demo_model

The folder holds 150,000 weights and a tokenizer, under 1 MB. Its seed is the first that follows from the preset's name
(`report_seeds`). It takes about a CPU-minute; other versions of torch may give other last bits.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from benchmarks.training_runs import end_trainers_with_us, report_seeds, run_training

PRESET = "tiny-minute"
MODEL = Path(__file__).parent / "results" / "demo_model"
IMITATION = (
    "--steps", "15", "--log.no-curves", "--warm-start.demonstrations", "2400", "--warm-start.steps", "1500",
    "--evaluation.every", "8", "--evaluation.test-tasks", "128",
)  # fmt: skip


def make(out: Path) -> None:
    """Train the preset, and keep the model as it was before the first step of reinforcement."""
    from safetensors.torch import load_file, save_file  # torch with it, which the demo's own process does not need

    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        run_training("grpo", ("--preset", PRESET, *IMITATION), report_seeds(PRESET)[0], run)
        shutil.copytree(run / "model", out, dirs_exist_ok=True)
        (start,) = (run / "checkpoints" / "start").glob("best-*/weights.safetensors")
        weights = load_file(out / "model.safetensors") | load_file(start)
        save_file(weights, out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    end_trainers_with_us()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the model")
    make(parser.parse_args().out)
