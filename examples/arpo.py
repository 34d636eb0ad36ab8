"""ARPO on a small Search QA: episodes fork where a tool's answer made the model unsure, and the forks share their trunk.

python examples/arpo.py [OUT]
"""

import sys
from dataclasses import replace
from pathlib import Path

from trainers.arpo import ARPOSettings, train
from trainers.command_line import load_preset
from trainers.run import open_run

settings = load_preset(ARPOSettings, "arpo", "tiny-minute")
settings = replace(
    settings,
    branching=replace(settings.branching, roots=4, beam=2),  # a tree of eight leaves from four starts
    evaluation=replace(settings.evaluation, every=0, test_tasks=128),
    steps=15,
)
with open_run(settings, Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/arpo")) as run:
    result = train(settings, run)
for when in ("before", "after"):
    print(f"success {when}: {100 * result[when]['success']:.1f} %")
