"""Run by test_checkpoints: the same small training, whole and killed at many moments; prints what came out as JSON.

Every run is a fork of this process, which itself never trains, so torch is imported once. A run is told to kill itself
at its n-th event: every micro-batch, update, opened file, renamed and deleted folder is one.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import torch

from tests.trainers.conftest import make_model, make_rows
from trainers.batching import micro_batches
from trainers.settings import OptimSettings
from trainers.training.checkpoints import Checkpoints
from trainers.training.forward import token_logprobs
from trainers.training.metrics import Metrics, read_metrics
from trainers.training.optimise import Optimiser

STEPS = 7
events: list[str] = []
die_at = 0


def happened(event: str) -> None:
    events.append(event)
    if len(events) == die_at:
        os.kill(os.getpid(), signal.SIGKILL)


def audit(event: str, arguments: tuple) -> None:
    written = event == "open" and isinstance(arguments[1], str) and arguments[1][0] in "wax"
    if written or event in ("os.rename", "shutil.rmtree", "os.rmdir", "os.mkdir"):
        happened(f"{event} {Path(str(arguments[0])).name}")


def train(folder: Path) -> None:
    model = make_model()
    optimiser = Optimiser(model, OptimSettings(learning_rate=1e-2, warmup_steps=2, schedule="cosine"), STEPS)
    checkpoints = Checkpoints(folder / "checkpoints", keep=2, best_within_steps=5)
    saved = checkpoints.load(model, optimiser)
    first = saved.step if saved else 0
    with Metrics(folder, quiet=True) as metrics:
        for step in range(first + 1, STEPS + 1):
            total = 0.0
            for micro in micro_batches(make_rows(4, seed=step), 40, 0):
                noise = torch.rand(()).item()
                logprobs, _ = token_logprobs(model, micro)
                loss = -(logprobs * micro.advantages * noise).sum() / 20
                loss.backward()
                total += loss.item()
                happened("micro-batch")
            norm = optimiser.step()
            happened("update")
            metrics.log(step, {"loss": total, "grad_norm": norm})
            if step % 2 == 0:
                checkpoints.keep_best(step, -abs(step - 4.0), model)
                checkpoints.save(step, model, optimiser, {"noise": noise})
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    best = checkpoints.best()
    ended = {"weights": hashlib.sha256(weights).hexdigest(), "best": best.step if best else 0, "first": first}
    (folder / "ended.json").write_text(json.dumps({**ended, "events": events}))


def forked(folder: Path, moment: int) -> int:
    """Train in a child that dies at a moment (0: never) and return how it ended."""
    global die_at
    folder.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            die_at = moment
            sys.addaudithook(audit)
            train(folder)
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def outcome(folder: Path) -> dict:
    ended = json.loads((folder / "ended.json").read_text())
    left = sorted(path.name for path in (folder / "checkpoints").iterdir())
    return {**ended, "metrics": read_metrics(folder / "metrics.jsonl"), "left": left}


def main(folder: Path, stride: int) -> None:
    torch.set_num_threads(1)
    Optimiser(make_model(), OptimSettings(), 1)  # what this imports, the children need not
    assert forked(folder / "whole", 0) == 0
    whole = outcome(folder / "whole")
    killed = {}
    first = next(number for number, event in enumerate(whole["events"], 1) if event == "micro-batch")
    for moment in range(first, len(whole["events"]) + 1, stride):
        place = folder / f"killed-{moment}"
        died = forked(place, moment)
        went_on = forked(place, 0)
        killed[whole["events"][moment - 1] + f" ({moment})"] = {"died": died, "went_on": went_on, **outcome(place)}
    print(json.dumps({"whole": whole, "killed": killed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
