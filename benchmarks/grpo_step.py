"""CPU-seconds and peak memory of a GRPO step, beside TRL's in the same run, at equal numbers of tokens.

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
the tool is not in the prompt, on either side. TRL is measured as it ships too, which is with gradient checkpointing.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import Message, RewardSpec, Task, Term, TurnEnv
from agent_envs.core import Episode, Outcome
from agent_envs.trajectory import Trajectory
from benchmarks.steps import measured, peer_python

GROUPS, GROUP_SIZE = 8, 4
TASKS = 64
WRAPPING = 19  # tokens that the template puts around a prompt
SIZES = {  # of Qwen2: 0.82 and 9.43 million parameters
    "1m": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4},
    "10m": {"hidden_size": 320, "intermediate_size": 896, "num_hidden_layers": 8, "num_attention_heads": 8},
}
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name + ' ' + (call.function.arguments | tojson) }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SIDES = {"ours": False, "trl": False, "ours, checkpointing": True, "trl, checkpointing": True}
TOLERANCE = 0.005  # of token counts: an end token that was drawn by chance saves ours the closing one


@dataclass(frozen=True)
class Shape:
    """What is played: a prompt of so many tokens, so many turns, so many tokens sampled in each, and shown between them.

    `target` is of TRL's CPU-seconds over ours.
    """

    prompt: int
    turns: int
    sampled: int
    shown: int
    target: float


SHAPES = {
    "1 turn": Shape(36, 1, 64, 0, 1 / 1.05),
    "4 turns": Shape(36, 4, 32, 128, 1.5),
    "4 turns, longer prompt": Shape(300, 4, 32, 128, 1.5),
}


class Prompts:
    """The prompts of a shape as tasks."""

    name, splits, digest = "prompts", ("train",), ""

    def __init__(self, tokens: int) -> None:
        self._texts = prompts(tokens)

    def size(self, split: str) -> int:
        """Return how many there are."""
        return len(self._texts)

    def get(self, split: str, key: int | str) -> Task:
        """Return one by its index or id."""
        number = int(str(key).rpartition("-")[2])
        return Task(f"{split}-{number}", split, self._texts[number])


def _share(trajectory: Trajectory) -> float:
    last = trajectory.last
    return last.action.count("a") / max(1, len(last.action)) if last.terminated else 0.0


class World(TurnEnv):
    """Shows the same text after every turn but the last; rewards the share of the letter a in the last."""

    reward_spec = RewardSpec("letters", (Term("a", 0.0, 1.0, "share of the letter a", _share),), (0.0, 1.0))

    def __init__(self, *, prompt: int, turns: int, shown: int) -> None:
        self.source, self.max_turns, self.shown = Prompts(prompt), turns, shown

    def _begin(self, task: Task, key: str) -> tuple[None, tuple[Message, ...]]:
        return None, (Message("user", task.question, "environment"),)

    def _advance(self, episode: Episode, action: str) -> Outcome:
        if len(episode.turns) + 1 == self.max_turns:
            return Outcome(None, None, terminated=True)
        return Outcome(None, None, (Message("user", text(self.shown), "tool"),))


def prompts(tokens: int) -> list[str]:
    """Return the texts that make prompts of so many tokens, each different at its end."""
    return [text(tokens - WRAPPING - 4) + f" {number:03d}" for number in range(TASKS)]


def text(length: int) -> str:
    """Return a text of so many characters."""
    return ("It is what it is. " * length)[:length]


def save_model(size: str, folder: Path) -> None:
    """Write the model and the tokenizer that both sides load."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from trainers.tiny import byte_tokenizer

    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["<tool_call>", "</tool_call>"], special_tokens=True)
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    shape = SIZES[size]
    config = Qwen2Config(
        **shape,
        vocab_size=len(tokenizer),
        num_key_value_heads=shape["num_attention_heads"] // 2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def ours(cell: dict[str, Any]) -> dict[str, Any]:
    """Train for a few steps and return what they cost; the first step is not counted."""
    from trainers.grpo import GRPOSettings, train
    from trainers.settings import (
        EnvironmentSettings,
        EvalSettings,
        LogSettings,
        ModelSettings,
        OptimSettings,
        SamplingSettings,
    )
    from trainers.training_run import open_run

    gym.register(id="benchmarks/World-v0", entry_point="benchmarks.grpo_step:World")
    arguments = json.dumps({name: cell[name] for name in ("prompt", "turns", "shown")})
    settings = GRPOSettings(
        env=EnvironmentSettings(id="benchmarks/World-v0", arguments=arguments),
        model=ModelSettings(name=cell["model"], dtype="float32", gradient_checkpointing=cell["checkpointing"]),
        sampling=SamplingSettings(max_new_tokens=cell["sampled"], max_context=2048),
        optim=OptimSettings(learning_rate=1e-5),
        evaluation=EvalSettings(every=0, tasks=0, test_tasks=0),
        log=LogSettings(checkpoint_every=0),
        steps=cell["steps"],
        tasks_per_step=cell["groups"],
        group_size=cell["group_size"],
    )
    marks: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder, open_run(settings, Path(folder) / "run", cell["steps"]) as run:
        run.engine.eos_ids = frozenset()  # type: ignore[attr-defined]
        told = run.end_step
        print(f"before training: {peak_mb():.0f} MB", file=sys.stderr)

        def end_step(stats: Any, groups: Any = ()) -> None:
            played = [sequence for group in groups for episode in group.sequences for sequence in episode]
            marks.append(
                {
                    "end": time.process_time(),
                    "generation": stats["cpu_seconds/sampling"],
                    "sampled": sum(sum(sequence.trained) for sequence in played),
                    "tokens": sum(len(sequence.ids) for sequence in played),
                    "peak_mb": peak_mb(),
                }
            )
            told(stats, groups)

        run.end_step = end_step  # type: ignore[method-assign]
        train(settings, run)
    steps = [after["end"] - before["end"] for before, after in zip(marks, marks[1:], strict=False)]
    names = ("torch", "transformers", "accelerate", "numpy")
    return {
        "step": statistics.median(steps),
        "steps": steps,
        "generation": statistics.median(mark["generation"] for mark in marks[1:]),
        "sampled": statistics.mean(mark["sampled"] for mark in marks[1:]),
        "tokens": statistics.mean(mark["tokens"] for mark in marks[1:]),
        "peak_mb": marks[-1]["peak_mb"],
        "versions": {name: version(name) for name in names},
    }


def peak_mb() -> float:
    """Return the peak of this process's memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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
        "checkpointing": SIDES[side],
    }
    file = model / "cell.json"
    file.write_text(json.dumps(cell), "utf-8")
    if side.startswith("ours"):
        found = measured([sys.executable, "-m", "benchmarks.grpo_step", "--cell", str(file)])
    else:
        found = measured([peer_python("trl"), "benchmarks/peers/trl_step.py", str(file)])
    return {**found, "load": os.getloadavg()[0]}


def compared(rounds: list[dict[str, dict[str, Any]]], shape: Shape) -> dict[str, Any]:
    """Return medians of each side over rounds, and the ratios of TRL's figures to ours, round by round.

    Raises:
        SystemExit: the sides did not play and train on as many tokens.
    """
    sides: dict[str, Any] = {}
    for side in rounds[0]:
        cells = [cells[side] for cells in rounds]
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
        ratios = [cells[side]["step"] / cells["ours"]["step"] for cells in rounds]
        sides[side]["cpu/ours"] = round(statistics.median(ratios), 3)
        sides[side]["memory/ours"] = round(sides[side]["peak_mb"] / sides["ours"]["peak_mb"], 3)
    peer = sides["trl"]
    reached = {"cpu": peer["cpu/ours"] >= round(shape.target, 3), "memory": peer["memory/ours"] >= 1}
    return {"shape": asdict(shape), "sides": sides, "reached": reached}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the comparisons as text."""
    head = f"{'':<34}{'CPU-s a step':>13}{'generation':>11}{'tokens/CPU-s':>13}{'peak MB':>9}{'CPU/ours':>10}{'MB/ours':>9}"
    lines = [head]
    for name, row in rows.items():
        for side, found in row["sides"].items():
            figures = (
                f"{found['cpu_seconds_a_step']:>13.3f}{found['of_which_generation']:>11.3f}"
                f"{found['sampled_tokens_per_cpu_second']:>13,.0f}{found['peak_mb']:>9,}"
            )
            ratios = f"{found.get('cpu/ours', 1):>10.2f}{found.get('memory/ours', 1):>9.2f}"
            lines.append(f"{name + ', ' + side:<34}{figures}{ratios}")
        missed = [what for what, reached in row["reached"].items() if not reached]
        wanted = f"  wanted: {row['shape']['target']:.2f} x the CPU-seconds, 1 x the memory or more"
        lines.append(f"{wanted}{': missed in ' + ' and '.join(missed) if missed else ''}")
    return "\n".join(lines)


def compare(options: argparse.Namespace) -> None:
    """Run the rounds and print the table."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    rows: dict[str, dict[str, Any]] = {}
    versions: dict[str, Any] = {}
    command = "python -m benchmarks.grpo_step " + " ".join(sys.argv[1:])
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            # In a process of its own: a child's peak memory begins with that of its parent.
            subprocess.run([sys.executable, "-m", "benchmarks.grpo_step", "--save", size, folder], check=True)
            for name in options.shapes:
                rounds = []
                for number in range(options.rounds):
                    print(f"{size}, {name}: round {number + 1}/{options.rounds}", file=sys.stderr)
                    cells = {side: run_cell(side, SHAPES[name], Path(folder), options.steps) for side in options.sides}
                    rounds.append(cells)
                rows[f"{size}, {name}"] = {"command": command, **compared(rounds, SHAPES[name])}
                versions = {side: cells[side]["versions"] for side in options.sides if "," not in side}
    print(table(rows))
    if options.out:
        before = json.loads(options.out.read_text("utf-8"))["rows"] if options.out.exists() else {}
        record = {
            "versions": {"python": platform.python_version(), **versions},
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} shared cores, one thread a process",
            "rows": before | rows,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="of each run, the first one included")
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--sides", nargs="*", choices=list(SIDES), default=list(SIDES))
    parser.add_argument("--out", type=Path, help="also write the figures as JSON; rows that are not measured stay")
    parser.add_argument("--cell", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--save", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(ours(json.loads(options.cell.read_text("utf-8")))))
    elif options.save:
        save_model(options.save[0], Path(options.save[1]))
    else:
        compare(options)


if __name__ == "__main__":
    main()
