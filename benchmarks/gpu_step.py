"""Sampling and GRPO steps of real models' shapes, with random weights, are timed on a GPU: tokens a second, memory, MFU.

    python -m benchmarks.gpu_step --profile --out benchmarks/results/gpu_step.json
    python -m benchmarks.gpu_step --only 3B

The first takes every row but that of 3B, which needs about 80 GB, and is to take four minutes at most; nothing is downloaded.
Rows of samples are one call of the engine, with plain passes and with CUDA graphs, beside `model.generate` of transformers on
the same rows. Rows of steps are `trainers.grpo.train` on what `benchmarks.grpo_step` plays; `tiny-minute` is the preset of that
name, without its warm start. `--profile` prints where a step's time goes; each part waits for the GPU, so the step is slower.
`--rehearse` plays all rows with a model of no size, on a CPU too. No figure of the present engine on a GPU is known yet.

Model-FLOPs utilisation counts what the mathematics needs, whoever computes it and how often: each token forward once when it is
played, and forward and backward once in the update, 8 FLOPs a parameter and token, and attention's part of the same. So
prefilling again and computing activations again are no use of the GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.grpo_step import NAMES, OURS
from benchmarks.grpo_world import Shape, prompts, run_json, text

CONFIGS: dict[str, dict[str, Any]] = {  # of Qwen2's kind: SmolLM2-135M, Qwen2.5-0.5B and 3B
    "135M": dict(zip(NAMES, (576, 1_536, 30, 9, 3, 49_152), strict=True)),
    "494M": dict(zip(NAMES, (896, 4_864, 24, 14, 2, 151_936), strict=True)),
    "3B": dict(zip(NAMES, (2_048, 11_008, 36, 16, 2, 151_936), strict=True)) | {"rms_norm_eps": 1e-6},
    "none": dict(zip(NAMES, (32, 32, 1, 2, 1, 300), strict=True)),
}
PARAMETERS = {"135M": 134_515_008, "494M": 494_032_768, "3B": 3_085_938_688}  # embeddings once: they are tied
SAMPLED = ("engine", "graphs", "transformers")  # by the 135M shape
STEPS: dict[str, tuple[str, Shape, tuple[int, int]]] = {  # model, shape, groups and their size
    "135M, 4 turns": ("135M", Shape(300, 4, 16, 128, 1.0), (16, 8)),
    "494M, 1 turn": ("494M", Shape(256, 1, 128, 0, 1.0), (16, 8)),
    "3B, 1 turn": ("3B", Shape(512, 1, 512, 0, 1.0), (8, 8)),
    "3B, 4 turns": ("3B", Shape(512, 4, 128, 256, 1.0), (8, 8)),
}


def use(figures: dict[str, Any], model: str, rows: int, peak_tflops: float) -> float:
    """Return the share of the GPU's arithmetic that a step used."""
    config, length = CONFIGS[model], figures["tokens"] / rows
    # Scores and their weighted sums: 4 FLOPs a width, layer and token attended to, of which there are half the length.
    attention = 4 * config["num_hidden_layers"] * config["hidden_size"] * length / 2
    return float(4 * (2 * PARAMETERS[model] + attention) * figures["tokens"] / figures["step"] / (peak_tflops * 1e12))


def sample(folder: str, how: str, rows: int, prompt: int, new: int) -> dict[str, Any]:
    """Return the tokens a second of the second of two calls that continue random prompts in bfloat16."""
    import torch

    from benchmarks.grpo_world import clock, peak_mb
    from trainers.contracts import Prefix, Sampling
    from trainers.engines.hf import HFEngine
    from trainers.settings import ModelSettings
    from trainers.training.models import load_model

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(ModelSettings(folder), device)[0].eval()
    ids = torch.randint(300, (rows, prompt), generator=torch.Generator().manual_seed(0))
    engine = HFEngine(model, None, batch=rows, eos_ids=(), graphs=how == "graphs")
    prefixes = [Prefix(tuple(row), new, seed=at) for at, row in enumerate(ids.tolist())]
    options: dict[str, Any] = {"do_sample": True, "max_new_tokens": new, "min_new_tokens": new, "pad_token_id": 0}
    seconds = 0.0
    with torch.inference_mode(), torch.autocast(device, torch.bfloat16):
        for _ in range(2):
            began = clock()
            if how == "transformers":
                model.generate(ids.to(device), attention_mask=torch.ones_like(ids).to(device), **options)
            else:
                engine.generate(prefixes, Sampling())
            seconds = clock() - began
    return {"sampled": rows * new, "step": seconds, "peak_mb": peak_mb()}


def cells(options: argparse.Namespace, folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the rows that are asked for, each with its model and what its process reads."""
    few = {"rows": 4, "prompt": 40, "new": 4} if options.rehearse else {"rows": 128, "prompt": 133, "new": 128}
    by_name: dict[str, tuple[str, dict[str, Any]]] = {}
    for how in SAMPLED:
        if how != "graphs" or not options.rehearse:
            by_name[f"135M, {how}"] = "135M", {"how": how, **few}
    for name, (model, full, (groups, size)) in STEPS.items():
        shape = replace(full, prompt=40, sampled=4) if options.rehearse else full
        cell = asdict(shape) | {"text": text(shape.shown), "prompts": prompts(shape.prompt), "steps": options.steps}
        cell |= {"groups": 2, "group_size": 2} if options.rehearse else {"groups": groups, "group_size": size}
        cell |= {"micro_rows": options.micro_rows, "checkpointing": model == "3B", "dtype": "bfloat16"}
        by_name[name] = model, cell | {"batch": 128, "graphs": options.graphs, "profile": options.profile}
    tiny = {"preset": "tiny-minute", "steps": options.steps, "plays": 64 if options.rehearse else 2_048}
    by_name["tiny-minute"] = "", tiny | {"profile": options.profile, "graphs": options.graphs}
    words = options.only or ([""] if options.rehearse else ["135M", "494M", "tiny"])
    return {
        name: (model, cell | {"model": str(folder / model)})
        for name, (model, cell) in by_name.items()
        if any(word in name for word in words)
    }


def line(name: str, figures: dict[str, Any]) -> str:
    """Return a row as text, with the parts of its steps in the lines below."""
    parts = "".join(f"\n    {part:<24}{seconds:>10.3f} s a step" for part, seconds in figures.get("parts", {}).items())
    return (
        f"{name:<20}{figures['sampled'] / figures['step']:>10,.0f} sampled tokens/s{figures['step']:>10.3f} s"
        f"{figures['peak_mb'] / 1024:>8.1f} GB{figures.get('mfu', 0):>8.1%} MFU{parts}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peak-tflops", type=float, default=989.0, help="of the GPU, dense bfloat16 (H100, H200: 989)")
    parser.add_argument("--only", nargs="*", help="rows whose names hold one of these words; all but 3B otherwise")
    parser.add_argument("--micro-rows", type=int, default=8, help="of the update")
    parser.add_argument("--steps", type=int, default=3, help="the first one is not counted")
    parser.add_argument("--graphs", action="store_true", help="let steps sample with CUDA graphs")
    parser.add_argument("--profile", action="store_true", help="print where a step's time goes")
    parser.add_argument("--rehearse", action="store_true", help="all rows, with a model of no size")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sample", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sample:
        cell = json.loads(Path(options.sample).read_text("utf-8"))
        print(json.dumps(sample(cell["model"], cell["how"], cell["rows"], cell["prompt"], cell["new"])))
        return
    import torch

    if not torch.cuda.is_available() and not options.rehearse:
        raise SystemExit("gpu_step: torch sees no GPU here; --rehearse plays the rows without one")
    rows: dict[str, Any] = {}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, (model, cell) in cells(options, folder).items():
            if model and not (folder / model).exists():
                config = CONFIGS["none" if options.rehearse else model]
                subprocess.run([*OURS, json.dumps(config), cell["model"]], check=True, stderr=subprocess.DEVNULL)
            (folder / "cell.json").write_text(json.dumps(cell), "utf-8")
            ours = [sys.executable, "-m", "benchmarks.gpu_step", "--sample"] if "how" in cell else OURS
            figures = rows[name] = run_json([*ours, str(folder / "cell.json")])
            if "groups" in cell and not options.rehearse:
                figures["mfu"] = use(figures, model, cell["groups"] * cell["group_size"], options.peak_tflops)
            print(line(name, figures), flush=True)
    print(f"{time.perf_counter() - began:.0f} s in all")
    if options.out:
        record: dict[str, Any] = {"command": "python -m benchmarks.gpu_step " + " ".join(sys.argv[1:])}
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
        record |= {"gpu": gpu, "torch": torch.__version__, "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
