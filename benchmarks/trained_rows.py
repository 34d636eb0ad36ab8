"""Small trained models as rows beside the built-in agents: made from nothing in minutes, neither scripted nor paid.

    python -m benchmarks.trained_rows --out benchmarks/results/trained_rows.json

Each row trains a tiny preset on the first seed that its name gives (`report_seeds`), and then plays the run as it began (after
imitation of a flawed solver) and as it ended, by `agent-envs eval --agent trainers.trained_agent:TrainedAgent`, beside the
random policy and the solver, in the environment that it was trained in and on its test tasks. EARL's model has expanded
actions, which no chat agent plays: its row is what the trainer itself measured. One seed a row: the rows say what it is to have
a trained agent here, and nothing about methods; docs/grpo.md, veg.md, earl.md and verlog.md compare those over seeds.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.training_runs import about, end_trainers_with_us, report_seeds, seeds_told, trained, write
from trainers.trained_agent import evaluation_command

# row: the trainer, its preset, what differs from the preset
ROWS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "grpo": ("grpo", "tiny-minute", ()),
    "veg": ("veg", "tiny-searchqa", ("--most-env-steps", "9000")),
    "verlog": ("verlog", "tiny-minute", ()),
    "earl": ("earl", "tiny-sort4-minute", ()),
}
TASKS = 256


def row(name: str, folder: Path) -> dict[str, Any]:
    """Train one row and play it; `folder` keeps the run, and a second call goes on with it."""
    program, preset, options = ROWS[name]
    (seed,) = report_seeds(preset, 1)
    result = trained(program, ("--preset", preset, *options), seed, folder)
    told = {"preset": f"{program}/{preset}", "options": list(options), "seed": seed}
    told |= {"seeds": seeds_told(preset, (seed,)), "cpu_seconds": round(result["cpu_seconds"], 1)}
    if program == "earl":
        agents = {key: _rate(result[when]) for key, when in (("as it began", "before"), ("as it ended", "after"))}
        for agent, when in zip(agents.values(), ("before", "after"), strict=True):
            agent |= {name: round(result[when][f"tools/{name}"], 3) for name in ("compare", "swap")}
        return told | {"measured": "by the trainer", "agents": agents}
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    words = shlex.split(evaluation_command(settings, folder).partition("  # ")[0])
    if "--feedback" in words:  # one row: the policy on its own
        words[words.index("--feedback") + 1] = "none"
    played = {"as it began": [*words, "--agent-arg", "start=true"], "as it ended": words}
    plain = words[: words.index("--agent")]
    played |= {agent: [*plain, "--agent", agent] for agent in ("random", "solver")}
    return told | {"measured": "by agent-envs eval", "agents": {key: _play(value) for key, value in played.items()}}


def _play(words: Sequence[str]) -> dict[str, Any]:
    """Return the success of an evaluation of the first test tasks."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "agent_envs", *words[1:], "-n", str(TASKS), "--out", f"{folder}/run", "--json"]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return _rate(json.loads(answer.stdout))


def _rate(row: dict[str, Any]) -> dict[str, Any]:
    return {"success": round(row["success"], 4), "interval": [round(bound, 4) for bound in row["interval"]]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the rows, print them, and write them into a file of figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trained_rows", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="a file of figures; other rows in it stay")
    parser.add_argument("--runs", type=Path, default=Path("runs/trained-rows"), help="where runs are kept")
    parser.add_argument("--only", choices=sorted(ROWS), action="append", help="this row")
    given = parser.parse_args(arguments)
    for name in given.only or ROWS:
        began = time.monotonic()
        found = row(name, given.runs / name)
        for agent, rate in found["agents"].items():
            low, high = rate["interval"]
            print(f"{name:7} {agent:12} {100 * rate['success']:5.1f} % [{100 * low:.1f}, {100 * high:.1f}]", flush=True)
        print(
            f"{name:7} {found['cpu_seconds']:.0f} CPU-s of training, {time.monotonic() - began:.0f} s in all",
            flush=True,
        )
        if given.out is not None:
            write({name: found}, given.out, "rows", about("python -m benchmarks.trained_rows"))
    return 0


if __name__ == "__main__":
    end_trainers_with_us()
    raise SystemExit(main())
