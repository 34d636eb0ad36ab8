"""GRPO in TRL on a toy: the share of small letters in its two turns is the reward, which a model from nothing raises.

    python -m tests.integrations.rising SEED [STEPS]
    python -m tests.integrations.rising save DIR       a model from nothing, for the page's scripts

It prints a line of JSON: the mean reward of the first and of the last five steps, and of every step. test-integrations runs it.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import gymnasium as gym

from agent_envs import Message, RewardSpec, Task, Term, TurnEnv, task_rows
from agent_envs.core.env import Outcome

ID = "toy/Letters-v0"


class Prompts:
    """Four tasks that differ by a number."""

    name, splits, digest = "prompts", ("train", "test"), ""

    def size(self, split):
        return 4

    def get(self, split, key):
        number = int(str(key).rpartition("-")[2])
        return Task(f"{split}-{number}", split, f"{number}?", (), cluster=split)


def _letters(trajectory):
    text = str(trajectory.last.action)
    return sum("a" <= letter <= "z" for letter in text) / max(1, len(text)) / 2


class Letters(TurnEnv):
    """Two turns of small letters."""

    def __init__(self):
        self.source, self.max_turns = Prompts(), 2
        self.reward_spec = RewardSpec(
            "letters", (Term("letters", 0.0, 0.5, "share of small letters", _letters),), (0.0, 1.0)
        )

    def _begin(self, task, key):
        return None, (Message("user", task.question, "environment"),)

    def _advance(self, episode, action):
        last = len(episode.turns) == 1
        return Outcome(None, (Message("user", "More?", "environment"),), terminated=last, success=last)


if ID not in gym.registry:
    gym.register(ID, entry_point=f"{__name__}:Letters")


def tokenizer():
    """Return a byte-level tokenizer with ChatML, made here."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|pad|>", padding_side="left"
    )
    fast.add_tokens(["<|pad|>", "<|im_start|>", "<|im_end|>"], special_tokens=True)
    fast.chat_template = (
        "{% for row in messages %}<|im_start|>{{ row.role }}\n{{ row.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    return fast


def model(words, seed):
    """Return a model of 60,000 parameters, made from nothing."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=16384, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
        bos_token_id=None,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def trained(seed, steps):
    """Return the mean reward of each step."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from agent_envs.integrations.trl_rollout import reward, rollout

    words, rows = tokenizer(), task_rows(f"tests.integrations.rising:{ID}", 4, seed=seed)
    budget = 12

    def generate(trainer, prefixes):
        ids, scores = trainer._generate_single_turn(prefixes, None, {}, 1)
        return [turn[:budget] for turn in ids], scores

    settings = GRPOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=16, num_generations=8, max_completion_length=64,
        generation_kwargs={"max_new_tokens": budget}, max_steps=steps, learning_rate=5e-3, lr_scheduler_type="constant",
        use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none", save_strategy="no", logging_steps=1,
        seed=seed,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model(words, seed), reward_funcs=reward, args=settings, train_dataset=Dataset.from_list(rows),
        processing_class=words, rollout_func=rollout(rows, generate),
    )  # fmt: skip
    trainer.train()
    return [log["reward"] for log in trainer.state.log_history if "reward" in log]


def save(folder):
    """Write a model made from nothing and its tokenizer, with Qwen3's template, which TRL knows how to read calls in."""
    import trl

    words = tokenizer()
    words.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    model(words, 0).save_pretrained(folder)
    words.save_pretrained(folder)


if __name__ == "__main__":
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    if sys.argv[1] == "save":
        save(sys.argv[2])
        sys.exit()
    rewards = trained(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 30)
    first, last = sum(rewards[:5]) / 5, sum(rewards[-5:]) / 5
    print(json.dumps({"seed": int(sys.argv[1]), "first": first, "last": last, "rewards": rewards}))
