"""A GRPO step is measured beside TRL's in the same run, at equal numbers of tokens: CPU-seconds and peak memory.

    python -m benchmarks.grpo_step --out benchmarks/results/grpo_step.json

Both sides start from the same weights (Qwen2, random, a vocabulary of 261 byte-level tokens), play 8 prompts x 4 completions a
step in float32 on one thread, and take one AdamW step, without a reference model. Ours is the whole of what a user's step is:
`trainers.grpo.train` on a registered environment, with its metrics; TRL's is `GRPOTrainer.train`. Ends of turns are kept from
happening (here by an engine without end tokens, there by `min_new_tokens`), so that every turn has the same number of tokens,
and the totals of both sides are compared. A step runs from the end of one to the end of the next; the first is left out. Runs
alternate, each in a process of its own; figures are medians over steps, ratios medians over rounds.

With several turns, a tool shows a constant text between them. TRL plays them with `environment_factory` and generates every
turn from the whole conversation; ours goes on from the keys and values that it kept. No model with random weights calls a
tool: in TRL the parser of responses is replaced (see the peer's file), in our environment every text is a call. The schema of
the tool is not in the prompt, on either side. TRL is measured as it ships too, which is with gradient checkpointing, and both
sides with smaller micro-batches.

The peer is the cheapest of TRL's configurations. `--choose` plays all sides in the first round, and from the second on ours
as it ships beside the one of TRL that was cheapest in the first. A row is written after each round, with the rounds so far.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.grpo_world import Shape, prompts, run_json, text
from benchmarks.steps import peer_python

OURS = [sys.executable, "-m", "benchmarks.grpo_world"]
GROUPS, GROUP_SIZE = 8, 4
NAMES = "hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads vocab_size".split()
SIZES = {  # of Qwen2: 0.82 and 9.43 million parameters
    "1m": dict(zip(NAMES, (128, 384, 4, 4, 2), strict=False)),
    "10m": dict(zip(NAMES, (320, 896, 8, 8, 4), strict=False)),
}
SIDES: dict[str, dict[str, Any]] = {
    "ours": {},
    "trl": {},
    "ours, checkpointing": {"checkpointing": True},
    "trl, checkpointing": {"checkpointing": True},
    "ours, 8 rows at a time": {"micro_rows": 8},
    "trl, 8 rows at a time": {"micro_rows": 8},
}
TOLERANCE = 0.005  # of token counts: an end token that was drawn by chance saves ours the closing one
SHAPES = {
    "1 turn": Shape(36, 1, 64, 0, 1 / 1.05),
    "4 turns": Shape(36, 4, 32, 128, 2),
    "4 turns, longer prompt": Shape(300, 4, 32, 128, 2),
}


def run_cell(side: str, shape: Shape, model: Path, steps: int) -> dict[str, Any]:
    """Measure one side in a process of its own."""
    cell = {
        **asdict(shape),
        "model": str(model),
        "text": text(shape.shown),
        "prompts": prompts(shape.prompt),
        "groups": GROUPS,
        "group_size": GROUP_SIZE,
        "steps": steps,
        "checkpointing": False,
        "dtype": "float32",
        **SIDES[side],
    }
    file = model / "cell.json"
    file.write_text(json.dumps(cell), "utf-8")
    if side.startswith("ours"):
        figures = run_json([*OURS, str(file)])
    else:
        figures = run_json([peer_python("trl"), "benchmarks/peers/trl_step.py", str(file)])
    return {**figures, "load": os.getloadavg()[0]}


def cheapest(cells: dict[str, dict[str, Any]], name: str = "step") -> str:
    """Return the cheapest of TRL's configurations."""
    return min((side for side in cells if side.startswith("trl")), key=lambda side: float(cells[side][name]))


def compare_sides(rounds: list[dict[str, dict[str, Any]]], shape: Shape) -> dict[str, Any]:
    """Return medians of each side over rounds, and the ratios of TRL's figures to ours, round by round.

    Later rounds may lack sides of the first. The peer is the cheapest of those that played in all.

    Raises:
        SystemExit: the sides did not play and train on as many tokens.
    """
    sides: dict[str, Any] = {}
    for side in rounds[0]:
        cells = [cells[side] for cells in rounds if side in cells]
        step = statistics.median(cell["step"] for cell in cells)
        sides[side] = {
            "cpu_seconds_a_step": round(step, 3),
            "of_which_generation": round(statistics.median(cell["generation"] for cell in cells), 3),
            "sampled_tokens_per_cpu_second": round(cells[0]["sampled"] / step, 1),
            "sampled_tokens_a_step": cells[0]["sampled"],
            "tokens_a_step": cells[0]["tokens"],
            "peak_mb": round(statistics.median(cell["peak_mb"] for cell in cells)),
            "rounds": [[round(value, 3) for value in cell["steps"]] for cell in cells],
            "load": [round(cell["load"], 1) for cell in cells],
        }
        for name in ("sampled_tokens_a_step", "tokens_a_step"):
            if abs(sides[side][name] / sides["ours"][name] - 1) > TOLERANCE:
                raise SystemExit(f"{side}: {name} is {sides[side][name]}, ours {sides['ours'][name]}: not equal work")
    for side in sides.keys() - {"ours"}:
        ratios = [cells[side]["step"] / cells["ours"]["step"] for cells in rounds if side in cells]
        sides[side]["cpu/ours"] = round(statistics.median(ratios), 3)
        sides[side]["cpu/ours of rounds"] = [round(ratio, 3) for ratio in ratios]
        sides[side]["memory/ours"] = round(sides[side]["peak_mb"] / sides["ours"]["peak_mb"], 3)
    name = cheapest({side: sides[side] for side in rounds[-1]}, "cpu_seconds_a_step")
    peer = sides[name]
    reached = {"cpu": peer["cpu/ours"] >= round(shape.target, 3), "memory": peer["memory/ours"] >= 1}
    return {"shape": asdict(shape), "peer": name, "sides": sides, "reached": reached}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the comparisons as text."""
    head = f"{'':<34}{'CPU-s a step':>13}{'generation':>11}{'tokens/CPU-s':>13}{'peak MB':>9}{'CPU/ours':>10}{'MB/ours':>9}"
    lines = [head]
    for name, row in rows.items():
        for side, cell in row["sides"].items():
            figures = (
                f"{cell['cpu_seconds_a_step']:>13.3f}{cell['of_which_generation']:>11.3f}"
                f"{cell['sampled_tokens_per_cpu_second']:>13,.0f}{cell['peak_mb']:>9,}"
            )
            ratios = f"{cell.get('cpu/ours', 1):>10.2f}{cell.get('memory/ours', 1):>9.2f}"
            lines.append(f"{name + ', ' + side:<34}{figures}{ratios}")
        missed = [what for what, reached in row["reached"].items() if not reached]
        ratios = row["sides"][row["peer"]]["cpu/ours of rounds"]
        lines.append(
            f"  {row['peer']}, over {len(ratios)} rounds: {min(ratios):.2f} to {max(ratios):.2f} x the CPU-seconds"
        )
        target = f"  wanted: {row['shape']['target']:.2f} x the CPU-seconds, 1 x the memory or more"
        lines.append(f"{target}{': missed in ' + ' and '.join(missed) if missed else ''}")
    return "\n".join(lines)


def compare(options: argparse.Namespace) -> None:
    """Run the rounds and print the table."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    rows: dict[str, dict[str, Any]] = {}
    command = shlex.join(["python", "-m", "benchmarks.grpo_step", *sys.argv[1:]])
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            # In a process of its own: a child's peak memory begins with that of its parent.
            subprocess.run([*OURS, json.dumps(SIZES[size]), folder], check=True)
            for name in options.shapes:
                rounds: list[dict[str, dict[str, Any]]] = []
                for number in range(options.rounds):
                    sides = ["ours", cheapest(rounds[0])] if options.choose and rounds else options.sides
                    print(f"{size}, {name}: round {number + 1}/{options.rounds}: {sides}", file=sys.stderr)
                    rounds.append({side: run_cell(side, SHAPES[name], Path(folder), options.steps) for side in sides})
                    versions = {side: rounds[0][side]["versions"] for side in options.sides if "," not in side}
                    provenance = {"command": command, "versions": {"python": platform.python_version(), **versions}}
                    rows[f"{size}, {name}"] = provenance | compare_sides(rounds, SHAPES[name])
                    if options.out:
                        write(options.out, rows)
    print(table(rows))


def write(out: Path, rows: dict[str, dict[str, Any]]) -> None:
    """Write the rows; those of the file that were not measured stay."""
    before = json.loads(out.read_text("utf-8"))["rows"] if out.exists() else {}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} shared cores, one thread a process"
    out.write_text(json.dumps({"machine": machine, "rows": before | rows}, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="of each run, the first one included")
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--sides", nargs="*", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--choose", action="store_true", help="after the first round, ours and TRL's cheapest alone")
    parser.add_argument("--out", type=Path, help="also write the figures as JSON; rows that are not measured stay")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
