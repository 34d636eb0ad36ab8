"""EARL on sorting four items: compare and swap are tokens of their own, and the policy's decision tree is read off.

python examples/earl.py [OUT]
"""

import sys
from dataclasses import replace
from pathlib import Path

from trainers.command_line import load_preset
from trainers.earl import EARLSettings, train
from trainers.run import open_run

settings = load_preset(EARLSettings, "earl", "tiny-sort4-minute")
settings = replace(settings, counterfactual=replace(settings.counterfactual, rule="paper"), seed=0)
with open_run(settings, Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/earl")) as run:
    result = train(settings, run)
for when in ("before", "after"):
    print(f"success {when}: {100 * result[when]['success']:.1f} %, {result[when]['tools/compare']:.2f} comparisons")
