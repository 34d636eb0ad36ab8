"""A warm start imitates demonstrations before another trainer's first step, until what is held out has settled.

Only tokens of actions are in the loss, the end of a turn among them; all tokens of a step weigh the same, over all processes.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import torch

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import stage_lines
from agent_envs.core.trajectory import Trajectory
from trainers.batching import MicroBatch, Row
from trainers.contracts import TokenSequence
from trainers.environments import stacks_of, tasks_of_step, wrapped
from trainers.imitation.episode_sources import solved
from trainers.run import RunParts, TrainingRun
from trainers.sampling import trimmed
from trainers.settings import WarmStartSettings
from trainers.training.forward import token_logprobs
from trainers.training.models import leave_out
from trainers.training.optimise import Optimiser, gradient_step


def imitate(settings: WarmStartSettings, run: TrainingRun, seed: int) -> None:
    """Imitate demonstrations before another trainer's first step, with an optimiser of its own, and keep what it was."""
    episodes = list(demonstrated(settings, run, seed))
    rows = rows_of(episodes, run.parts, settings.train_on)
    optimiser = Optimiser(run.parts.model, settings.optim, settings.steps)
    shown = run.parts.processes.mean([float(one.success) for one in episodes])
    told, settling = stage_lines("warm start"), Settling(settings, shown)
    while optimiser.steps < settling.last:
        chosen = run.parts.processes.share(tasks_of_step(optimiser.steps, settings.rows_per_step, len(rows), seed))
        stats = imitation_step([rows[place] for place in chosen], run.parts, optimiser, settings.token_budget)
        if settling.due(optimiser.steps):
            settling.measured(optimiser.steps, run.held_out_success(settings.settling.tasks))
        if settling.cools_after(optimiser.steps):
            optimiser.cool_down(settings.settling.cooldown)
        told(f"loss {stats['loss']:.3f}{settling.in_words}", optimiser.steps / settling.last)
    unsaid = sorted(run.parts.constant - said_in(rows))
    leave_out(run.parts.bare, unsaid)
    run.weights_changed()
    run.memory["unsaid"] = unsaid
    run.memory["warm_start"] = {
        "steps": optimiser.steps,
        "demonstrations": settling.shown,
        "measures": settling.measures,
    }


class Settling:
    """Says when a warm start ends: after its steps, or `cooldown` steps after its held-out success settled.

    Attributes:
        shown: the success of the demonstrations themselves.
        last: the step after which it ends, as far as is known.
        measures: (step, success), in their order.
    """

    def __init__(self, settings: WarmStartSettings, shown: float) -> None:
        """Take the settings and the success of the demonstrations."""
        self.shown, self.last, self.measures = round(shown, 4), settings.steps, list[list[float]]()
        self._how, self._settled = settings.settling, False

    @property
    def in_words(self) -> str:
        """What was measured last, for a line on the screen."""
        return f", held-out success {self.measures[-1][1]:.3f}" if self.measures else ""

    def due(self, step: int) -> bool:
        """Return whether success is measured after a step."""
        how = self._how
        return bool(how.every) and step % how.every == 0 and not self._settled and step < self.last - how.cooldown

    def measured(self, step: int, success: float) -> None:
        """Take a measure, and settle where there was no progress for long enough."""
        self.measures.append([step, round(success, 4)])
        values = [value for _, value in self.measures]
        before, lately = values[: -self._how.patience], values[-self._how.patience :]
        best = max(before, default=0.0)
        if before and best > 0 and best >= self.shown / 2 and max(lately) <= best + self._how.margin:
            self._settled, self.last = True, step + self._how.cooldown

    def cools_after(self, step: int) -> bool:
        """Return whether the rate begins to fall with the next step."""
        return bool(self._how.every) and step == self.last - self._how.cooldown


def demonstrated(settings: WarmStartSettings, run: TrainingRun, seed: int) -> Iterator[Trajectory]:
    """Yield the demonstrations of a warm start, in equal shares within each of its stacks of wrappers."""
    stacks = stacks_of(settings.stacks, "warm_start.stacks")
    cuts = [settings.demonstrations * place // len(stacks) for place in range(len(stacks) + 1)]
    for stack, (first, stop) in zip(stacks, pairwise(cuts), strict=True):
        for env, count in run.parts.shared_out(stop - first):
            flaws = stack.flaws or settings.flaws
            yield from solved(wrapped(env, stack.rows), count, flaws, run.parts.train_split, seed, first=first)


def imitation_step(rows: Sequence[Row], parts: RunParts, optimiser: Optimiser, token_budget: int) -> dict[str, float]:
    """Take one gradient step towards the tokens that are trained; the loss is the mean over those of all processes."""

    def by_token(micro: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        with parts.accelerator.autocast():
            logprobs, _ = token_logprobs(parts.model, micro, with_entropy=False)
        return -logprobs, {}

    stats = gradient_step(rows, parts, by_token, token_budget=token_budget, optimiser=optimiser)
    return stats | {"tokens": sum(len(row.sequence.ids) for row in rows)}


def rows_of(episodes: Sequence[Trajectory], parts: RunParts, train_on: str) -> list[Row]:
    """Return the tokens of episodes as rows.

    Raises:
        UsageError: there are none.
    """
    sequences = [trimmed(seq) for episode in episodes for seq in parts.encoded(episode)]
    if train_on == "all":
        sequences = [everything(sequence) for sequence in sequences]
    fitting = [sequence for sequence in sequences if len(sequence.ids) <= parts.max_context]
    if left := len(sequences) - len(fitting):
        longest = f"sampling.max_context={parts.max_context}"
        print(f"{left} episodes are longer than {longest} and left out", file=sys.stderr)
    if not fitting:
        raise UsageError(
            "there are no episodes to imitate: rejection sampling kept none, the file is empty, or all are too long"
        )
    return [Row(sequence, (0.0,) * len(sequence.ids)) for sequence in fitting]


def said_in(rows: Sequence[Row]) -> set[int]:
    """Return the tokens that the actions of demonstrations are made of."""
    pairs = (pair for row in rows for pair in zip(row.sequence.ids, row.sequence.turns, strict=True))
    return {token for token, turn in pairs if turn}


def everything(sequence: TokenSequence) -> TokenSequence:
    """Return a sequence of which all tokens but the first, which nothing predicts, are trained."""
    legal = tuple(numbers or (0,) for numbers in sequence.legal)  # where nothing was decided, a token came next
    return replace(sequence, trained=(False, *(True,) * (len(sequence.ids) - 1)), legal=legal)
