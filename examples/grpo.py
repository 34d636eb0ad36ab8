"""GRPO on an environment of one's own: a tiny model imitates a careless player of HigherLower, then learns from reward.

python examples/grpo.py [OUT]
"""

import json
import sys
from pathlib import Path

from trainers.grpo import GRPOSettings, train
from trainers.run import open_run
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
    SettlingSettings,
    WarmStartSettings,
)

settings = GRPOSettings(
    env=EnvironmentSettings(id="own_environment:examples/HigherLower-v0"),
    model=ModelSettings(name="tiny:tiny"),
    warm_start=WarmStartSettings(
        demonstrations=1500,
        flaws=json.dumps({"sampled": 0.5}),  # half of the turns are any number of the range
        steps=300,
        settling=SettlingSettings(every=0),
        optim=OptimSettings(learning_rate=2e-3, schedule="cosine"),
    ),
    sampling=SamplingSettings(max_new_tokens=6, max_context=64, batch=128, eval_temperature=1.0),
    optim=OptimSettings(learning_rate=5e-4),
    evaluation=EvalSettings(every=0, test_tasks=256),
    steps=25,
    tasks_per_step=16,
)
if __name__ == "__main__":
    with open_run(settings, Path(sys.argv[1] if len(sys.argv) > 1 else "runs/examples/grpo")) as run:
        result = train(settings, run)
    for when in ("before", "after"):
        print(f"success {when}: {100 * result[when]['success']:.1f} %")
