"""Supervised fine-tuning (SFT) imitates episodes: maximum likelihood of the actions, given what was shown before them.

    python -m trainers.sft --preset tiny-searchqa --out runs/sft

Four sources of episodes: the environment's solver (with flaws, where a warm start should leave something to learn), direct
answers (Search-R1's SFT baseline: the gold answer and no search), rejection sampling (Search-R1's: five episodes a task
from the model itself, those that solve their task are imitated), or a file of recorded episodes. Only tokens of actions are
in the loss, the end of a turn among them; all tokens of a step weigh the same, over all processes.

Deviations from Search-R1 (arXiv 2503.09516, section 4 and appendix): it trains SFT on direct answers and rejection sampling
with verl's and its own scripts; learning rates and epochs of these baselines are not published, ours are in the presets.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

from agent_envs.base.errors import UsageError
from agent_envs.base.progress import stage_lines
from agent_envs.core.trajectory import Trajectory
from trainers import losses
from trainers.batching import Row, micro_batches
from trainers.command_line import one_line_errors, parse
from trainers.contracts import TokenSequence
from trainers.episode_sources import accepted, check_flaws, direct_answers, recorded, solved
from trainers.sampling import tasks_of_step, trimmed
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    LogSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
    WarmStartSettings,
    at_least_one,
    check_seed,
)
from trainers.stacks import stacks_of, wrapped
from trainers.training.forward import laid_out, token_logprobs
from trainers.training.optimise import Optimiser
from trainers.training_run import TrainingRun, open_run


@dataclass(frozen=True)
class SFTSettings:
    """Supervised fine-tuning on episodes of an environment.

    Attributes:
        preset: start from these settings: a name under trainers/presets/sft, or a .toml file.
        seed: of everything.
        out: folder of the run.
        data: where episodes come from: "solver", "direct", "rejection", or a .jsonl file of recorded episodes.
        episodes: of the solver, or tasks of the two others; a file is read whole.
        samples_per_task: of rejection sampling.
        flaws: of the solver; see `WarmStartSettings`.
        train_on: "actions" alone, or "all" tokens.
        steps: gradient steps.
        rows_per_step: episodes a step; over all processes.
        token_budget: tokens of a micro-batch.
    """

    preset: str = ""
    seed: int = 0
    out: str = "runs/sft"
    env: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    evaluation: EvalSettings = field(default_factory=EvalSettings)
    log: LogSettings = field(default_factory=LogSettings)
    data: str = "solver"
    episodes: int = 1000
    samples_per_task: int = 5
    flaws: str = "none"
    train_on: Literal["actions", "all"] = "actions"
    steps: int = 200
    rows_per_step: int = 64
    token_budget: int = 4096

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: one is out of its range.
        """
        check_seed(self.seed)
        check_flaws(self.flaws, self.env.id)
        if self.data.endswith(".jsonl") and not Path(self.data).is_file():
            raise UsageError(f"data={self.data!r}: there is no such file")
        if not self.data.endswith(".jsonl") and self.data not in ("solver", "direct", "rejection"):
            raise UsageError(f"data={self.data!r}: solver, direct, rejection, or a .jsonl file of episodes")
        at_least_one(self, "", "steps", "episodes", "samples_per_task", "rows_per_step", "token_budget")


def train(settings: SFTSettings, run: TrainingRun) -> dict[str, object]:
    """Imitate from where the run stands to its last step and return what is written to OUT/result.json."""
    run.check_shares(settings.rows_per_step)
    if run.fresh:
        run.begin()
    rows = rows_of(list(episodes_of(settings, run)), run, settings.train_on)
    while run.step < settings.steps:
        started, cpu = time.perf_counter(), time.process_time()
        chosen = run.share(tasks_of_step(run.step, settings.rows_per_step, len(rows), settings.seed))
        stats = imitation_step([rows[place] for place in chosen], run, run.optimiser, settings.token_budget)
        run.weights_changed()
        stats["step_time"], stats["cpu_seconds/step"] = time.perf_counter() - started, time.process_time() - cpu
        run.end_step(stats)
    return run.finish()


def warm_start(settings: WarmStartSettings, run: TrainingRun, seed: int) -> None:
    """Imitate demonstrations before another trainer's first step, with an optimiser of its own, and keep what it was."""
    if settings.demonstrations == 0:
        return
    episodes = list(demonstrated(settings, run, seed))
    rows = rows_of(episodes, run, settings.train_on)
    optimiser = Optimiser(run.model, settings.optim, settings.steps)
    told, settling = stage_lines("warm start"), Settling(settings, run.mean([float(one.success) for one in episodes]))
    while optimiser.steps < settling.last:
        chosen = run.share(tasks_of_step(optimiser.steps, settings.rows_per_step, len(rows), seed))
        stats = imitation_step([rows[place] for place in chosen], run, optimiser, settings.token_budget)
        if settling.due(optimiser.steps):
            settling.measured(optimiser.steps, run.held_out_success(settings.settling.tasks))
        if settling.cools_after(optimiser.steps):
            optimiser.cool_down(settings.settling.cooldown)
        told(f"loss {stats['loss']:.3f}{settling.in_words}", optimiser.steps / settling.last)
    run.weights_changed()
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
        for env, count in run.shared_out(stop - first):
            flaws = stack.flaws or settings.flaws
            yield from solved(wrapped(env, stack.rows), count, flaws, run.train_split, seed, first=first)


def imitation_step(rows: Sequence[Row], run: TrainingRun, optimiser: Optimiser, token_budget: int) -> dict[str, float]:
    """Take one gradient step towards the tokens that are trained; the loss is the mean over those of all processes."""
    tokens = int(run.sums([sum(sum(row.sequence.trained) for row in rows)])[0])
    total = 0.0
    for micro in micro_batches(rows, token_budget, run.chat.pad_id, laid_out=laid_out(run.model)):
        micro = micro.to(run.device)
        with run.accelerator.autocast():
            logprobs, _ = token_logprobs(run.model, micro, with_entropy=False)
        loss = losses.token_mean(-logprobs, micro.trained, tokens)
        run.accelerator.backward(loss)
        total += float(loss.detach())
    rate = optimiser.learning_rate
    stats = {"loss": run.sums([total])[0], "tokens": sum(len(row.sequence.ids) for row in rows)}
    return stats | {"learning_rate": rate, "grad_norm": optimiser.step(run.accelerator)}


def rows_of(episodes: Sequence[Trajectory], run: TrainingRun, train_on: str) -> list[Row]:
    """Return the tokens of episodes as rows.

    Raises:
        UsageError: there are none.
    """
    sequences = [trimmed(seq) for episode in episodes for seq in run.encoded(episode)]
    if train_on == "all":
        sequences = [everything(sequence) for sequence in sequences]
    fitting = [sequence for sequence in sequences if len(sequence.ids) <= run.max_context]
    if len(fitting) < len(sequences):
        left = len(sequences) - len(fitting)
        print(f"{left} episodes are longer than sampling.max_context={run.max_context} and left out", file=sys.stderr)
    sequences = fitting
    if not sequences:
        raise UsageError(
            "there are no episodes to imitate: rejection sampling kept none, the file is empty, or all are too long"
        )
    return [Row(sequence, (0.0,) * len(sequence.ids)) for sequence in sequences]


def everything(sequence: TokenSequence) -> TokenSequence:
    """Return a sequence of which all tokens but the first, which nothing predicts, are trained."""
    legal = tuple(numbers or (0,) for numbers in sequence.legal)  # where nothing was decided, a token came next
    return replace(sequence, trained=(False, *(True,) * (len(sequence.ids) - 1)), legal=legal)


def episodes_of(settings: SFTSettings, run: TrainingRun) -> Iterator[Trajectory]:
    """Yield the episodes that are imitated."""
    if settings.data == "solver":
        yield from solved(run.environment(), settings.episodes, settings.flaws, run.train_split, settings.seed)
    elif settings.data == "direct":
        yield from direct_answers(run.environment(), settings.env.train_split, settings.episodes)
    elif settings.data == "rejection":
        yield from accepted(run, settings.episodes, settings.samples_per_task, settings.seed)
    else:
        yield from recorded(Path(settings.data))


def main() -> None:
    """Run the command line."""
    with one_line_errors("sft"):
        settings, out = parse(SFTSettings, program="sft")
        with open_run(settings, out, settings.steps) as run:
            train(settings, run)


if __name__ == "__main__":
    main()
