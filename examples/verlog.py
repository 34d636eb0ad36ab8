"""Verlog's PPO on BabyAI: each turn is a sample of its own, with a critic, so that long episodes fit a short context.

python examples/verlog.py [OUT]
"""

import sys
from dataclasses import replace
from pathlib import Path

from trainers.command_line import load_preset
from trainers.run import open_run
from trainers.verlog import VerlogSettings, train

settings = load_preset(VerlogSettings, "verlog", "tiny-minute")
settings = replace(settings, seed=0, steps=15)
with open_run(settings, Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/verlog")) as run:
    result = train(settings, run)
for when in ("before", "after"):
    print(f"success {when}: {100 * result[when]['success']:.1f} %")
