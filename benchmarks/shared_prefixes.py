"""An update that computes shared beginnings once is measured beside one that computes them for each row, on five kinds of rows.

    python -m benchmarks.shared_prefixes --out benchmarks/results/shared_prefixes.json

Rows are random tokens, laid out as the algorithms lay theirs out: a GRPO group (a short one, and prompts of 300 tokens with
100 and with 300 after it), a tree of ARPO (16 leaves from 8 roots), EARL's episodes with their counterfactuals, and turns under
`Memory`, which have a system prompt in common and nothing else. Each is updated three ways, in alternation, each time in a
process of its own, by a Qwen2 of random weights in float32 on one thread, forward and backward:

- padded: every row is computed for itself;
- cut by length: shared tokens are computed once within a micro-batch, which holds as many padded tokens as before;
- packed: micro-batches count distinct tokens, and siblings are kept together.

The bound is what the numbers of tokens alone would give: all tokens over the distinct ones. Attention still sees whole rows, so
that it is not reached where attention is much of the work; the last layer is computed where it is read alone, so that it
may be passed. Memory is how far a process grows in its update.
"""

import argparse
import json
import multiprocessing
import platform
import random
import resource
import statistics
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import transformers
from transformers import Qwen2Config, Qwen2ForCausalLM

from agent_envs.base.progress import stage_lines
from benchmarks.grpo_step import SIZES
from trainers.batching import Row, micro_batches
from trainers.contracts import TokenSequence
from trainers.training.forward import laid_out, token_scores

VOCABULARY = 1000
WAYS = ("padded", "cut by length", "packed")
Part = tuple[int, bool]  # so many tokens, and whether the policy sampled them


class Paths:
    """Makes rows of random tokens that go on from one another."""

    def __init__(self, seed: str) -> None:
        """Take what the tokens are drawn from."""
        self._random = random.Random(seed)

    def longer(self, ids: tuple[int, ...], trained: tuple[bool, ...], *parts: Part) -> tuple[Any, Any]:
        """Return tokens, and which of them are trained, with further parts behind them."""
        for count, sampled in parts:
            ids += tuple(self._random.randrange(VOCABULARY) for _ in range(count))
            trained += (sampled,) * count
        return ids, trained

    def group(self, count: int, prompt: int, *parts: Part) -> list[Row]:
        """Return rows of one prompt."""
        stem = self.longer((), (), (prompt, False))
        return [row(*self.longer(*stem, *parts)) for _ in range(count)]

    def tree(self, roots: int, turns: int) -> list[Row]:
        """Return two leaves of each root: a path of turns, and one that left it at the beginning of one of them."""
        prompt, rows = self.longer((), (), (300, False)), []
        for _ in range(roots):
            nodes = [prompt]
            for _ in range(turns):
                nodes.append(self.longer(*nodes[-1], (50, True), (50, False)))
            place = self._random.randrange(turns)
            fork = self.longer(*nodes[place], *[(50, True), (50, False)] * (turns - place))
            rows += [row(*nodes[-1]), row(*fork)]
        return rows

    def pairs(self, count: int) -> list[Row]:
        """Return episodes of 200 tokens, each beside one that left it at any token."""
        rows = []
        for _ in range(count):
            ids, trained = self.longer((), (), (120, False), (200, True))
            place = self._random.randrange(121, 320)
            rows += [row(ids, trained), row(*self.longer(ids[:place], trained[:place], (320 - place, True)))]
        return rows


def row(ids: tuple[int, ...], trained: tuple[bool, ...]) -> Row:
    """Return a row for the update."""
    sequence = TokenSequence(ids, trained, (0.0,) * len(ids), tuple(map(int, trained)))
    return Row(sequence, tuple(map(float, trained)))


SHAPES = {
    "GRPO group of 16, prompt 40": lambda paths: paths.group(16, 40, (10, True), (20, False), (10, True)),
    "GRPO group of 32, prompt 500": lambda paths: paths.group(32, 500, (68, True)),
    "GRPO group of 16, prompt 300, 100 after it": lambda paths: paths.group(
        16, 300, (40, True), (30, False), (30, True)
    ),
    "GRPO group of 16, prompt 300, 300 after it": lambda paths: paths.group(16, 300, *[(25, True), (50, False)] * 4),
    "ARPO tree, 16 leaves from 8 roots": lambda paths: paths.tree(8, 3),
    "EARL, 16 pairs": lambda paths: paths.pairs(16),
    "Memory, 32 turns, system prompt 200": lambda paths: paths.group(32, 200, (150, False), (24, True)),
}


def updated(rows: Sequence[Row], way: str, size: str, checkpointing: bool, budget: int) -> dict[str, float]:
    """Compute the gradient of all rows one way; return CPU-seconds, megabytes and tokens."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, max_position_embeddings=4096, **SIZES[size])).train()
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    share = laid_out(model) if way == "packed" else 1.0
    before, start = peak_megabytes(), time.process_time()
    batches = list(micro_batches(rows, budget, 0, laid_out=share))
    with mock.patch("trainers.training.forward.packable", lambda *parts: way != "padded"):
        for micro in batches:
            token_scores(model, micro).logprobs.sum().backward()
    seconds = time.process_time() - start
    grown = peak_megabytes() - before
    computed = sum(beginnings(batch.ids, batch.attention) for batch in batches)
    return {"cpu_seconds": seconds, "megabytes": grown, "computed": computed, "micro_batches": len(batches)}


def peak_megabytes() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def beginnings(ids: torch.Tensor, attention: torch.Tensor) -> int:
    """Return how many tokens rows have, those that they begin with alike counted once."""
    lists = [row[:length] for row, length in zip(ids.tolist(), attention.sum(1).tolist(), strict=True)]
    return len({tuple(row[: end + 1]) for row in lists for end in range(len(row))})


def apart(*arguments: Any) -> dict[str, float]:
    """Call `updated` in a process of its own."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()

    def work(pipe: Connection) -> None:
        pipe.send(updated(*arguments))

    process = context.Process(target=work, args=(theirs,))
    process.start()
    theirs.close()
    try:
        return ours.recv()  # type: ignore[no-any-return]
    except EOFError as error:
        raise SystemExit(f"a measurement ended without a result: {arguments[1:]}") from error
    finally:
        process.join()


def measured(name: str, size: str, checkpointing: bool, budget: int, rounds: int) -> dict[str, Any]:
    """Measure one kind of rows; ratios are medians over rounds of what stood side by side."""
    rows = SHAPES[name](Paths(name))
    total = sum(len(each.sequence.ids) for each in rows)
    everything = list(micro_batches(rows, 10**9, 0))
    distinct = beginnings(everything[0].ids, everything[0].attention)
    cells: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            cells[way].append(apart(rows, way, size, checkpointing, budget))
    result: dict[str, Any] = {"tokens": total, "distinct": distinct, "bound": round(total / distinct, 2)}
    for way in WAYS:
        figures = {key: statistics.median(cell[key] for cell in cells[way]) for key in cells[way][0]}
        pairs = list(zip(cells["padded"], cells[way], strict=True))
        result[way] = {
            "cpu_seconds": round(figures["cpu_seconds"], 3),
            "megabytes": round(figures["megabytes"]),
            "micro_batches": int(figures["micro_batches"]),
            "tokens_computed": total if way == "padded" else int(figures["computed"]),
            "speedup": round(statistics.median(a["cpu_seconds"] / b["cpu_seconds"] for a, b in pairs), 2),
            "memory": round(statistics.median(b["megabytes"] / a["megabytes"] for a, b in pairs), 2),
        }
    return result


def table(found: dict[str, Any]) -> str:
    """Return the figures as text."""
    lines = [f"{'':<62}{'bound':>7}" + "".join(f"{way:>24}" for way in WAYS[1:])]
    for name, result in found.items():
        ways = (result[way] for way in WAYS[1:])
        figures = (
            f"{result['tokens'] / way['tokens_computed']:.2f} tok {way['speedup']:.2f} x {way['memory']:.2f} MB"
            for way in ways
        )
        lines.append(f"{name:<62}{result['bound']:>7.2f}" + "".join(f"{figure:>26}" for figure in figures))
    return "\n".join(lines)


def main() -> None:
    """Measure all kinds of rows, with and without gradient checkpointing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=sorted(SIZES), default="1m", help="of the model (default: 1m)")
    parser.add_argument("--budget", type=int, default=4096, help="tokens of a micro-batch (default: 4096)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured (default: 3)")
    parser.add_argument("--out", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    report = stage_lines("updates")
    for place, name in enumerate(SHAPES):
        for checkpointing in (False, True):
            label = name + (", checkpointing" if checkpointing else "")
            report(label, (2 * place + checkpointing) / (2 * len(SHAPES)))
            found[label] = measured(name, arguments.size, checkpointing, arguments.budget, arguments.rounds)
    print(table(found))
    if arguments.out:
        about = {
            "command": f"python -m benchmarks.shared_prefixes --size {arguments.size} --budget {arguments.budget} "
            f"--rounds {arguments.rounds} --out {arguments.out}",
            "machine": f"{platform.system()} {platform.machine()}, one thread",
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        arguments.out.write_text(json.dumps({"about": about, "rows": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
