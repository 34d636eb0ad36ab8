"""TRL's GRPO steps are measured for the cell that a JSON file describes: CPU-seconds, tokens and peak memory as JSON.

Where a cell has several turns, TRL's own loop plays them: `environment_factory`, a tool that is called between generations,
every generation from the whole conversation. A model with random weights calls no tool, so the parser of responses is replaced
by one that reads every text as a call (and decodes it, as TRL's would); nothing else of TRL is touched.
"""

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TRL_EXPERIMENTAL_SILENCE": "1"}

import torch
import transformers
import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer


class TrlWorld:
    """An environment whose one tool always shows the same text."""

    observation = ""

    def reset(self, **row: Any) -> None:
        """Reset nothing: there is no state."""

    def look(self) -> str:
        """Look at what there is."""
        return self.observation


class Marks(TrainerCallback):
    """CPU-seconds and peak memory at the end of each step."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.peak = 0.0

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        """Record the clock and the peak memory."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(clock())
        self.peak = peak_mb()


class Rollouts:
    """Wraps TRL's generation of a batch, and records its costs and tokens."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self.costs: list[float] = []
        self.sampled: list[int] = []
        self.tokens: list[int] = []
        self._generate = trainer._generate

    def __call__(self, prompts: list[Any]) -> Any:
        """Generate, and count."""
        started = clock()
        output = self._generate(prompts)
        self.costs.append(clock() - started)
        prompt_ids, completion_ids, tool_mask = output[:3]
        sampled = sum(map(sum, tool_mask)) if tool_mask else sum(map(len, completion_ids))
        self.sampled.append(int(sampled))
        self.tokens.append(sum(map(len, prompt_ids)) + sum(map(len, completion_ids)))
        return output


def clock() -> float:
    """Return CPU-seconds, or seconds where a GPU does the work."""
    return time.perf_counter() if torch.cuda.is_available() else time.process_time()


def peak_mb() -> float:
    """Return the peak of this process's memory, or of the GPU's where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def reward(completions: list[list[dict[str, str]]], **columns: Any) -> list[float]:
    """Return the share of the letter a in the last message."""
    return [messages[-1]["content"].count("a") / max(1, len(messages[-1]["content"])) for messages in completions]


def call(tokenizer: Any, ids: list[int], prefix: Any = None, tools: Any = None) -> dict[str, Any]:
    """Parse any response as a call of the tool."""
    calls = [{"type": "function", "function": {"name": "look", "arguments": {}}}]
    return {"role": "assistant", "content": tokenizer.decode(ids, skip_special_tokens=True), "tool_calls": calls}


def trainer_of(cell: dict[str, Any]) -> GRPOTrainer:
    """Return the trainer of a cell."""
    tokenizer = AutoTokenizer.from_pretrained(cell["model"])
    model = AutoModelForCausalLM.from_pretrained(cell["model"], dtype=torch.float32)
    more: dict[str, Any] = {}
    if cell["turns"] > 1:
        tokenizer.response_template = {}  # TRL asks only whether there is one; `call` reads responses
        grpo_trainer.parse_response = call
        # No end token is sampled, so ours closes a turn with one that TRL leaves out: one character makes up for it.
        TrlWorld.observation = cell["text"] + "."
        more["environment_factory"] = TrlWorld
    rows = cell["groups"] * cell["group_size"]
    longest = cell["turns"] * (cell["sampled"] + len(TrlWorld.observation) + 64)
    settings = GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        max_steps=cell["steps"],
        per_device_train_batch_size=cell.get("micro_rows", rows),
        gradient_accumulation_steps=rows // cell.get("micro_rows", rows),
        num_generations=cell["group_size"],
        max_completion_length=longest,
        max_tool_calling_iterations=max(1, cell["turns"] - 1),
        generation_kwargs={"min_new_tokens": cell["sampled"], "max_new_tokens": cell["sampled"]},
        gradient_checkpointing=cell["checkpointing"],
        learning_rate=1e-5,
        beta=0.0,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        bf16=cell["dtype"] == "bfloat16",
    )
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in cell["prompts"]])
    return GRPOTrainer(
        model=model, args=settings, train_dataset=data, processing_class=tokenizer, reward_funcs=reward, **more
    )


def main() -> None:
    """Train for a few steps and print what they cost; the first step is not counted."""
    torch.set_num_threads(1)
    cell = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    trainer = trainer_of(cell)
    trainer._generate = rollouts = Rollouts(trainer)
    trainer.add_callback(marks := Marks())
    print(f"before training: {peak_mb():.0f} MB", file=sys.stderr)
    trainer.train()
    steps = [end - start for start, end in zip(marks.ends, marks.ends[1:], strict=False)]
    figures = {
        "step": statistics.median(steps),
        "steps": steps,
        "generation": statistics.median(rollouts.costs[1:]),
        "sampled": statistics.mean(rollouts.sampled[1:]),
        "tokens": statistics.mean(rollouts.tokens[1:]),
        "peak_mb": marks.peak,
        "versions": {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__},
    }
    print("\n" + json.dumps(figures))


if __name__ == "__main__":
    main()
