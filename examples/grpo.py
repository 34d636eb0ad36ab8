"""GRPO on a small Search QA: a tiny model imitates a solver that answers too early on purpose, then learns from reward.

python examples/grpo.py [OUT]
"""

import sys
from dataclasses import replace
from pathlib import Path

from trainers.command_line import load_preset
from trainers.grpo import GRPOSettings, train
from trainers.run import open_run

settings = load_preset(
    GRPOSettings, "grpo", "tiny-minute"
)  # a file of settings: trainers/presets/grpo/tiny-minute.toml
settings = replace(settings, steps=25, seed=0, evaluation=replace(settings.evaluation, every=0, test_tasks=256))

if __name__ == "__main__":
    with open_run(settings, Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/grpo")) as run:
        result = train(settings, run)
    for when in ("before", "after"):
        print(f"success {when}: {100 * result[when]['success']:.1f} %")
