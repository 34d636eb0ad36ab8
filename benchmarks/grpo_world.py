"""GRPO steps are measured on turns of a fixed number of tokens, and our side of the measurement is here.

An episode is a prompt, turns of the policy, and a constant text between them; the reward is a share of letters. The peer plays
the same from the same folder of weights: see `benchmarks/peers/trl_step.py`.
"""

import functools
import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import Message, RewardSpec, Task, Term, TurnEnv
from agent_envs.core.env import Episode, Outcome
from agent_envs.core.trajectory import Trajectory

TASKS = 64
WRAPPING = 19  # tokens that the template puts around a prompt
CLOSING = 2  # the end of a turn and the line break behind it
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name + ' ' + (call.function.arguments | tojson) }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Shape:
    """The lengths of an episode in tokens: its prompt, the samples of each of its turns, and the tool results between them.

    `target` is of TRL's CPU-seconds over ours.
    """

    prompt: int
    turns: int
    sampled: int
    shown: int
    target: float


class Prompts:
    """The prompts of a shape as tasks."""

    name, splits, digest = "prompts", ("train",), ""

    def __init__(self, tokens: int) -> None:
        self._texts = prompts(tokens)

    def size(self, split: str) -> int:
        """Return the number of tasks."""
        return len(self._texts)

    def get(self, split: str, key: int | str) -> Task:
        """Return one by its index or id."""
        number = int(str(key).rpartition("-")[2])
        return Task(f"{split}-{number}", split, self._texts[number])


def _share(trajectory: Trajectory) -> float:
    """Return the share of the letter a in the last action; 0 where the episode did not terminate."""
    last, action = trajectory.last, str(trajectory.last.action)
    return action.count("a") / max(1, len(action)) if last.terminated else 0.0


class PromptWorld(TurnEnv):
    """Shows the same text after every turn but the last; rewards the share of the letter a in the last."""

    reward_spec = RewardSpec("letters", (Term("a", 0.0, 1.0, "share of the letter a", _share),), (0.0, 1.0))

    def __init__(self, *, prompt: int, turns: int, result_length: int) -> None:
        self.source, self.max_turns, self.result_length = Prompts(prompt), turns, result_length

    def _begin(self, task: Task, key: str) -> tuple[None, tuple[Message, ...]]:
        """Begin with the task's text as the prompt."""
        return None, (Message("user", task.question, "environment"),)

    def _advance(self, episode: Episode, action: str) -> Outcome:
        """Answer a turn with the same text; the last turn ends the episode."""
        if len(episode.turns) + 1 == self.max_turns:
            return Outcome(None, None, terminated=True)
        return Outcome(None, None, (Message("user", text(self.result_length), "tool"),))


def prompts(tokens: int) -> list[str]:
    """Return the texts that make prompts of so many tokens, each different at its end."""
    return [text(tokens - WRAPPING - 4) + f" {number:03d}" for number in range(TASKS)]


def text(length: int) -> str:
    """Return a text of so many characters."""
    return ("It is what it is. " * length)[:length]


def save_model(config: dict[str, Any], folder: Path) -> None:
    """Write what both sides load: a byte-level tokenizer, and a Qwen2 model with random weights.

    A configuration with a larger vocabulary than bytes need gets names for the rest, which no text is ever encoded into.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    vocabulary = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary += [f"word{number}" for number in range(len(vocabulary), config.get("vocab_size", 0))]
    backend = Tokenizer(models.BPE(vocab={piece: place for place, piece in enumerate(vocabulary)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(special)
    fast: Any = PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    sizes = {"vocab_size": len(vocabulary), "max_position_embeddings": 2048, "tie_word_embeddings": True}
    Qwen2ForCausalLM(Qwen2Config(**{**sizes, **ends, **config})).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


PARTS = {  # of a step, and the function that does it
    "sampling": "trainers.engines.hf:HFEngine.generate",
    "sampling: prefixes": "trainers.engines.hf:prefill",
    "environment steps": "agent_envs.core.env:TurnEnv.step",
    "tokenising": "trainers.tokens:Conversation.observe",
    "tokenising: prompts": "trainers.tokens:ChatTokenizer.open",
    "tokenising: the record": "trainers.engine_policy:EnginePolicy.rebuild",
    "update": "trainers.grpo:update",
}


def time_parts() -> dict[str, float]:
    """Have the functions of PARTS timed from now on; return the seconds of each, the GPU's included, as they grow."""
    seconds = dict.fromkeys(PARTS, 0.0)
    for name, place in PARTS.items():
        module, _, path = place.partition(":")
        *owners, last = path.split(".")
        owner: Any = functools.reduce(getattr, owners, importlib.import_module(module))
        setattr(owner, last, _timed(getattr(owner, last), seconds, name))
    return seconds


def _timed(function: Any, seconds: dict[str, float], part: str) -> Any:
    """Return a function that adds the seconds of its calls to what a part took."""

    def call(*arguments: Any, **options: Any) -> Any:
        """Call the function."""
        began = clock()
        result = function(*arguments, **options)
        seconds[part] += clock() - began
        return result

    return call


def settings_of(cell: dict[str, Any]) -> Any:
    """Return the trainer's settings for a cell: of a preset without warm start and measures, or of a shape."""
    from trainers import settings as parts
    from trainers.command_line import load_preset
    from trainers.grpo import GRPOSettings

    unmeasured = {"evaluation": parts.EvalSettings(every=0, tasks=0, test_tasks=0)}
    quiet = {"log": parts.LogSettings(checkpoint_every=0, curves=False), "steps": cell["steps"], **unmeasured}
    if "preset" in cell:
        settings = load_preset(GRPOSettings, "grpo", cell["preset"])
        model = replace(settings.model, tokenizer_plays=cell["plays"])
        sampling = replace(settings.sampling, graphs=cell["graphs"])
        return replace(settings, warm_start=parts.WarmStartSettings(), model=model, sampling=sampling, **quiet)
    arguments = json.dumps({"prompt": cell["prompt"], "turns": cell["turns"], "result_length": cell["shown"]})
    length = (
        cell["prompt"] + cell["turns"] * cell["sampled"] + (cell["turns"] - 1) * (cell["shown"] + WRAPPING + CLOSING)
    )
    return GRPOSettings(
        env=parts.EnvironmentSettings(id="benchmarks/World-v0", arguments=arguments),
        model=parts.ModelSettings(
            name=cell["model"], dtype=cell["dtype"], gradient_checkpointing=cell["checkpointing"]
        ),
        sampling=parts.SamplingSettings(
            max_new_tokens=cell["sampled"],
            max_context=2048,
            batch=cell.get("batch", 64),
            graphs=cell.get("graphs", False),
        ),
        optim=parts.OptimSettings(learning_rate=1e-5),
        tasks_per_step=cell["groups"],
        group_size=cell["group_size"],
        token_budget=cell["micro_rows"] * length if "micro_rows" in cell else GRPOSettings.token_budget,
        **quiet,
    )


def measure(cell: dict[str, Any]) -> dict[str, Any]:
    """Train for a few steps and return what they cost; the first step is not counted."""
    from trainers.grpo import train
    from trainers.run import open_run

    gym.register(id="benchmarks/World-v0", entry_point="benchmarks.grpo_world:PromptWorld")
    settings = settings_of(cell)
    marks: list[dict[str, float]] = []
    seconds = time_parts() if cell.get("profile") else {}
    with tempfile.TemporaryDirectory() as folder, open_run(settings, Path(folder) / "run") as run:
        engine: Any = run.parts.engine
        if "preset" not in cell:
            engine.eos_ids = frozenset()
        original_end_step = run.end_step
        print(f"before training: {peak_mb():.0f} MB", file=sys.stderr)

        def end_step(stats: Any, groups: Any = ()) -> None:
            """Record time, memory and tokens at the end of a training step, before the trainer's own work."""
            sequences = [sequence for group in groups for episode in group.sequences for sequence in episode]
            mark = {"end": clock(), "generation": stats["cpu_seconds/sampling"], "peak_mb": peak_mb()}
            mark["sampled"] = sum(sum(sequence.trained) for sequence in sequences)
            mark["tokens"] = sum(len(sequence.ids) for sequence in sequences)
            marks.append(mark | seconds)
            original_end_step(stats, groups)

        run.end_step = end_step  # type: ignore[method-assign]
        train(settings, run)
    steps = [after["end"] - before["end"] for before, after in zip(marks, marks[1:], strict=False)]
    return {
        "step": statistics.median(steps),
        "steps": steps,
        "generation": statistics.median(mark["generation"] for mark in marks[1:]),
        "sampled": statistics.mean(mark["sampled"] for mark in marks[1:]),
        "tokens": statistics.mean(mark["tokens"] for mark in marks[1:]),
        "peak_mb": marks[-1]["peak_mb"],
        "parts": {name: (marks[-1][name] - marks[0][name]) / len(steps) for name in seconds},
        "slots_in_use": engine.sampled_tokens / engine.slot_passes,
        "versions": {name: version(name) for name in ("torch", "transformers", "accelerate", "numpy")},
    }


def run_json(command: list[str]) -> dict[str, Any]:
    """Run a process and return the JSON of the last line that it printed.

    Raises:
        SystemExit: it failed; with the end of what it said.
    """
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr[-3000:]}")
    figures: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def clock() -> float:
    """Return CPU-seconds, or seconds where a GPU does the work."""
    import torch

    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def peak_mb() -> float:
    """Return the peak of this process's memory, or of the GPU's where there is one."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure the cell that a JSON file describes, or write a model: CONFIGURATION FOLDER."""
    if len(sys.argv) == 3:
        save_model(json.loads(sys.argv[1]), Path(sys.argv[2]))
    else:
        print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text("utf-8")))))


if __name__ == "__main__":
    main()
