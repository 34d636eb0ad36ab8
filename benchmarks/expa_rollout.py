"""Expanded rollouts in lock-step are timed a token beside plain generation of as many tokens in the same run.

    python -m benchmarks.expa_rollout --out benchmarks/results/expa_rollout.json

`ExpandedPlayer` plays a batch of episodes on an environment with expanded actions: it samples, steps environments, and feeds
what they append. `HFEngine` then goes on from the same prompts for exactly as many tokens a row, with the same weights. Tokens
are all those after the prompts: on our side some are appended and not sampled, on the other all are sampled. Models have
random weights (Qwen2, float32, one thread); rows of expanded actions are stretched, so that episodes have language and actions
in them, and the share of each is told. Runs alternate in one process; figures are medians over rounds.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET = 2.0
KEY, SPLIT, TASKS = "bench", "train", 16
SIZES = {  # of Qwen2; the vocabulary is that of the environment's own words, some hundreds, where none is named
    "1m": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4},
    "10m": {"hidden_size": 320, "intermediate_size": 896, "num_hidden_layers": 8, "num_attention_heads": 8},
    "1m, 32k tokens": {
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "vocab_size": 32_000,
    },
}
ENVIRONMENTS = ("SortExpA", "CalcBenchExpA")


class Bench:
    """A model with a head, a player and an engine over it, and the plan of a batch of episodes."""

    def __init__(self, size: str, env_id: str, rows: int, tokens: int) -> None:
        """Make everything from nothing, the same for the same arguments."""
        import gymnasium as gym
        import torch
        from transformers import Qwen2Config, Qwen2ForCausalLM

        from trainers.contracts import Sampling
        from trainers.earl_parts.expa_head import attach_head
        from trainers.earl_parts.expanded.player import ExpandedPlayer
        from trainers.earl_parts.expanded.sequences import vocabulary_rows
        from trainers.engines import HFEngine
        from trainers.environments import environment_spec
        from trainers.sampling import plan_groups
        from trainers.tiny import word_tokenizer
        from trainers.tokens import ChatTokenizer

        torch.set_num_threads(1)
        torch.manual_seed(0)
        env = gym.make(f"agent_envs:agent_envs/{env_id}-v0")
        chat = ChatTokenizer(word_tokenizer(texts(env), digits=True), "chatml")
        shape: dict[str, Any] = {"vocab_size": len(chat.tokenizer), "num_key_value_heads": 2, **SIZES[size]}
        model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=False, max_position_embeddings=4096))
        head = attach_head(model, vocabulary_rows(env, chat, shape["vocab_size"]))
        with torch.no_grad():
            head.weight.mul_(15)
        self.sampling = Sampling(1.0)
        self.player = ExpandedPlayer(model, chat, self.sampling, max_new_tokens=tokens, max_context=4096, batch=rows)
        self.engine = HFEngine(model, None, batch=rows, eos_ids=())
        self.plan = plan_groups(environment_spec(env_id, {}), SPLIT, range(rows // 4), 4, KEY)

    def expanded(self) -> tuple[float, dict[str, tuple[int, int]]]:
        """Play the plan; return CPU-seconds, and of each row the lengths of its prompt and of what followed."""
        started = time.process_time()
        results = self.player.play(self.plan)
        spent = time.process_time() - started
        lengths = {}
        for key, result in results.items():
            (sequence,) = self.player.sequences(key)
            prompt = sequence.trained.index(True)
            lengths[key] = prompt, len(sequence.ids) - prompt
            self.counts["rows"] += 1
            self.counts["steps"] += len(result.trajectory.turns)
            self.counts["tokens"] += len(sequence.ids) - prompt
            self.counts["decisions"] += sum(sequence.trained)
            self.counts["actions"] += sum(target > max(sequence.ids) for target in sequence.targets)
        return spent, lengths

    def plain(self, lengths: dict[str, tuple[int, int]]) -> float:
        """Generate as many tokens from the same prompts; return CPU-seconds."""
        from trainers.contracts import Prefix

        prefixes = []
        for seed, (key, (prompt, follow)) in enumerate(lengths.items()):
            (sequence,) = self.player.sequences(key)
            prefixes.append(Prefix(sequence.ids[:prompt], follow, seed=seed))
        started = time.process_time()
        found = self.engine.generate(prefixes, self.sampling)
        spent = time.process_time() - started
        if [len(row.ids) for row in found] != [follow for _, follow in lengths.values()]:
            raise SystemExit("plain generation has another number of tokens: not equal work")
        return spent

    def row(self, rounds: int) -> dict[str, Any]:
        """Return the figures of all rounds; one before them warms up."""
        self.counts = dict.fromkeys(("rows", "steps", "tokens", "decisions", "actions"), 0)
        self.plain(self.expanded()[1])
        self.counts = dict.fromkeys(self.counts, 0)
        pairs = []
        for _ in range(rounds):
            spent, lengths = self.expanded()
            pairs.append((spent, self.plain(lengths)))
        tokens = self.counts["tokens"] / rounds
        ratio = statistics.median(ours / plain for ours, plain in pairs)
        return {
            "microseconds_a_token": round(1e6 * statistics.median(ours for ours, _ in pairs) / tokens, 1),
            "plain_microseconds_a_token": round(1e6 * statistics.median(plain for _, plain in pairs) / tokens, 1),
            "expanded/plain": round(ratio, 2),
            "rounds": [round(ours / plain, 2) for ours, plain in pairs],
            "rows": self.counts["rows"] // rounds,
            "tokens_after_prompts": round(tokens),
            "chosen_share": round(self.counts["decisions"] / self.counts["tokens"], 2),
            "actions_share": round(self.counts["actions"] / self.counts["decisions"], 2),
            "environment_steps": self.counts["steps"] // rounds,
            "reaches_target": ratio <= TARGET,
        }


def texts(env: Any) -> list[str]:
    """Return what the solver sees and says in a few tasks: the words of a tokenizer."""
    from agent_envs.rollout.episode_runner import run_episode
    from agent_envs.rollout.policy import CompanionPolicy

    found: list[str] = []
    for task in range(TASKS):
        episode = run_episode(env, CompanionPolicy("solver"), task=task, split=SPLIT).trajectory
        found += [message.content for message in episode.prompt]
        found += [turn.action for turn in episode.turns if isinstance(turn.action, str)]
        found += [message.content for turn in episode.turns for message in turn.observation]
    return found


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the figures as text."""
    lines = [
        f"{'microseconds of CPU a token':<32}{'expanded':>10}{'plain':>10}{'ratio':>8}{'chosen':>8}{'env steps':>11}"
    ]
    for name, row in rows.items():
        end = "" if row["reaches_target"] else f"   misses {TARGET:g}"
        lines.append(
            f"{name:<32}{row['microseconds_a_token']:>10.1f}{row['plain_microseconds_a_token']:>10.1f}"
            f"{row['expanded/plain']:>8.2f}{row['chosen_share']:>8.2f}{row['environment_steps']:>11,}{end}"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=32, help="episodes at a time")
    parser.add_argument("--tokens", type=int, default=128, help="after the prompt, at most")
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--environments", nargs="*", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    rows = {}
    for size in options.sizes:
        for env_id in options.environments:
            print(f"{size}, {env_id}", file=sys.stderr)
            rows[f"{size}, {env_id}"] = Bench(size, env_id, options.rows, options.tokens).row(options.rounds)
    print(table(rows))
    if options.out:
        record = {
            "command": shlex.join(["python", "-m", "benchmarks.expa_rollout", *sys.argv[1:]]),
            "versions": {"python": platform.python_version()}
            | {package: version(package) for package in ("torch", "transformers", "gymnasium")},
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} shared cores, one thread",
            "rows": rows,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
