"""VEG on a small Search QA: GRPO with a scripted adviser before each turn, tested with its advice and without.

In a run of this size success does not rise (8.6 to 12.5 % with advice, an interval of the gain that holds 0): see docs/veg.md.

python examples/veg.py [OUT]
"""

import sys
from dataclasses import replace
from pathlib import Path

from trainers.command_line import load_preset
from trainers.grpo import GRPOSettings, train
from trainers.run import open_run
from trainers.veg import VEGSettings, results

small, veg = load_preset(GRPOSettings, "grpo", "tiny-minute"), load_preset(VEGSettings, "veg", "tiny-searchqa")
settings = replace(
    veg,
    env=small.env,
    model=small.model,
    sampling=small.sampling,
    warm_start=replace(small.warm_start, stacks=veg.warm_start.stacks),  # the model is shown advice that is heeded
    evaluation=replace(small.evaluation, every=0, test_tasks=128),
    feedback="scripted:good",
    epsilon=0.1,  # of the turns get advice to explore, the others to exploit
    steps=15,
    most_env_steps=0,
)
out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/veg")
with open_run(settings.with_feedback(), out, settings.spending()) as run:
    result = train(settings, run, results)
for when in ("before", "after"):
    with_advice, without = (100 * side[when]["success"] for side in (result, result["bare"]))
    print(f"success {when}: {with_advice:.1f} %, {without:.1f} % without advice")
