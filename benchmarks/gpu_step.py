"""A GRPO step of Qwen2.5-3B's shape, with random weights, is timed on a GPU: tokens a second, memory, use of the GPU.

    python -m benchmarks.gpu_step --peak-tflops 989 --out benchmarks/results/gpu_step.json

It has not been run on a GPU yet: no figure of it is known. Beside TRL where the interpreter of `.venv-peers/trl` is there and
sees the GPU too. Both play what `benchmarks.grpo_step` plays, in bfloat16 with float32 weights and gradient checkpointing.

Model-FLOPs utilisation counts what the mathematics needs, whoever computes it and how often: each token forward once when it is
played, and forward and backward once in the update, 8 FLOPs a parameter and token, and attention's part of the same. So
prefilling again and computing activations again are no use of the GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.grpo_step import OURS
from benchmarks.grpo_world import Shape, prompts, run_json, text

CONFIG = {
    "vocab_size": 151_936,
    "hidden_size": 2048,
    "intermediate_size": 11_008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
}
PARAMETERS = 3_085_938_688  # embeddings once: they are tied
SHAPES = {"1 turn": Shape(512, 1, 512, 0, 1.0), "4 turns": Shape(512, 4, 128, 256, 1.0)}
TRL = Path(".venv-peers/trl/bin/python")


def use(figures: dict[str, Any], rows: int, peak_tflops: float) -> float:
    """Return the share of the GPU's arithmetic that a step used."""
    length = figures["tokens"] / rows
    # Scores and their weighted sums: 4 FLOPs a width, layer and token attended to, of which there are half the length.
    attention = 4 * CONFIG["num_hidden_layers"] * CONFIG["hidden_size"] * length / 2
    return float(4 * (2 * PARAMETERS + attention) * figures["tokens"] / figures["step"] / (peak_tflops * 1e12))


def commands() -> dict[str, list[str]]:
    """Return the command that measures each side; TRL's where it is installed and sees the GPU."""
    by_side = {"ours": OURS}
    probe = "import torch, trl; raise SystemExit(not torch.cuda.is_available())"
    if TRL.exists() and subprocess.run([str(TRL), "-c", probe], check=False).returncode == 0:
        by_side["trl"] = [str(TRL), "benchmarks/peers/trl_step.py"]
    return by_side


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="of the GPU, dense bfloat16 (H100, H200: 989)")
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--micro-rows", type=int, default=8, help="of the update")
    parser.add_argument("--steps", type=int, default=4, help="the first one is not counted")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("gpu_step: torch sees no GPU here; this benchmark needs one with about 80 GB")
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*OURS, json.dumps(CONFIG), folder], check=True)
        for name, shape in SHAPES.items():
            cell = asdict(shape) | {"model": folder, "text": text(shape.shown), "prompts": prompts(shape.prompt)}
            cell |= {"groups": options.groups, "group_size": options.group_size, "micro_rows": options.micro_rows}
            cell |= {"steps": options.steps, "checkpointing": True, "dtype": "bfloat16"}
            file = Path(folder) / "cell.json"
            file.write_text(json.dumps(cell), "utf-8")
            for side, command in commands().items():
                figures = run_json([*command, str(file)])
                figures["mfu"] = use(figures, options.groups * options.group_size, options.peak_tflops)
                rows[f"{name}, {side}"] = figures
                print(
                    f"{name + ', ' + side:<16}{figures['sampled'] / figures['step']:>8,.0f} sampled tokens/s"
                    f"{figures['step']:>8.2f} s a step{figures['peak_mb'] / 1024:>8.1f} GB{figures['mfu']:>8.1%} MFU"
                    f"{figures.get('slots_in_use', 1):>8.1%} of slots in use"
                )
    if options.out:
        record: dict[str, Any] = {"command": "python -m benchmarks.gpu_step " + " ".join(sys.argv[1:])}
        record |= {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
