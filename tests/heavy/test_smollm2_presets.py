"""Two steps of each preset of a small pretrained model, with its own chat template, on a few tasks of few tokens."""

from tests.needs import require

require("[train]", "[babyai]", "smollm")

import json
import os
import subprocess
import sys

import pytest

from tests import ROOT
from trainers.training.metrics import METRICS_FILE, read_metrics
from trainers.training.packaged import model_place

# One worker has all of them: the weights are converted once.
pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("smollm2")]
# Pays a sound form a little, so that rewards differ before anything is solved: EARL trains on no row without an advantage.
SUMS = {"examples": 0, "digits": 1, "train_operations": 1, "test_operations": 1, "train_words": 0.0, "test_words": 0.0,
        "max_actions": 48, "reward": "em_format"}  # fmt: skip
GROUPS = ("--tasks-per-step", "1", "--group-size", "2", "--entropy", "0.001")  # it has a gradient where groups are flat
ROWS = {
    ("grpo", "smollm2-searchqa"): GROUPS,
    ("veg", "smollm2-veg"): GROUPS,
    ("earl", "smollm2-arithmetic"): (
        *("--env.arguments", json.dumps(SUMS), "--tasks-per-step", "4", "--group-size", "4"),
        *("--warm-start.steps", "4", "--warm-start.demonstrations", "16", "--sampling.max-new-tokens", "24"),
    ),
    ("arpo", "smollm2-toolreasoning"): (*GROUPS, "--branching.roots", "1"),
    ("arpo", "smollm2-searchqa"): (*GROUPS, "--branching.roots", "1"),
    ("verlog", "smollm2-babyai"): (
        *("--n-env", "2", "--e-len", "2", "--warmup.batches", "1", "--warmup.rounds", "1"),
        *("--model.lora-rank", "4", "--beta", "0"),  # a second model of all weights, and a third, take too much memory
    ),
}
SMALL = {"steps": 2, "sampling.max-new-tokens": 12, "token-budget": 1024, "evaluation.test-tasks": 0,
         "warm-start.demonstrations": 4, "warm-start.steps": 1, "warm-start.rows-per-step": 4,
         "warm-start.token-budget": 1024, "warm-start.optim.learning-rate": 2e-4,
         "warm-start.optim.warmup-steps": 1}  # fmt: skip


@pytest.fixture(scope="module")
def weights():
    """The converted model, in the cache folder of these tests."""
    return model_place("smollm2-135m")


@pytest.mark.parametrize(("program", "preset"), ROWS)
def test_two_steps_have_a_gradient_and_no_drift(program, preset, weights, tmp_path):
    own = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", f"trainers.{program}", "--preset", preset, *own, *ROWS[program, preset]]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    out = tmp_path / "run"
    words = [*command, "--out", str(out), "--log.no-optimiser", "--log.no-curves"]
    ran = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=1800, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = read_metrics(out / METRICS_FILE)
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["faults"] == row["edited"] == 0 and row["sampled_tokens"] > 0 for row in rows)
    assert [row.get("drift") for row in rows] == [None if program == "verlog" else 0] * 2  # which rebuilds no turns
    assert max(row.get("grad_norm", 0) for row in rows) > 0  # EARL takes no step where all groups are flat
    assert json.loads((out / "result.json").read_text())["steps"] == 2
