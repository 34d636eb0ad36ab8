"""Used by test_pooling: each process has numbers of its own; the last one writes what all of them make of them."""

import json
import sys
from pathlib import Path

from trainers.settings import ModelSettings
from trainers.training.models import make_accelerator
from trainers.training.optimise import Ratio, means_of_processes, sums_of_processes

SHARES = [
    {
        "reward": 1.0, "drift": 1, "tools/lookup": 3.0, "tools/find_max": 4.0, "completions/min_length": 7,
        "completions/max_length": 9, "completions/min_terminated_length": 8, "clip_ratio/low_min": 0.25,
        "sampling/kl/max": 0.5, "valid_actions": Ratio(1, 1), "completions/mean_terminated_length": Ratio(8, 1),
    },
    {
        "reward": 2.0, "drift": 2, "tools/find_max": 2.0, "completions/min_length": 5,
        "completions/max_length": 6, "clip_ratio/low_min": 0.75,
        "sampling/kl/max": 0.25, "valid_actions": Ratio(0, 3), "completions/mean_terminated_length": Ratio(0, 0),
    },
]  # fmt: skip


def main(out: str) -> None:
    accelerator = make_accelerator(ModelSettings(dtype="float32"))
    mine = SHARES[accelerator.process_index]
    found = {"means": means_of_processes(mine), "sums": sums_of_processes(mine)}
    if accelerator.is_main_process:
        Path(out).write_text(json.dumps(found), encoding="utf-8")
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
