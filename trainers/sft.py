"""Supervised fine-tuning (SFT) imitates episodes: maximum likelihood of the actions, given what was shown before them.

    python -m trainers.sft --preset tiny-searchqa --out runs/sft

Four sources of episodes: the environment's solver (with flaws, where a warm start should leave something to learn), direct
answers (Search-R1's SFT baseline: the gold answer and no search), rejection sampling (Search-R1's: five episodes a task
from the model itself, those that solve their task are imitated), or a file of recorded episodes. Only tokens of actions are
in the loss, the end of a turn among them; all tokens of a step weigh the same, over all processes.

Deviations from Search-R1 (arXiv 2503.09516, section 4 and appendix): it trains SFT on direct answers and rejection sampling
with verl's and its own scripts; learning rates and epochs of these baselines are not published, ours are in the presets.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Trajectory
from trainers.environments import stacks_of, tasks_of_step
from trainers.imitation import check_flaws
from trainers.imitation.imitating import (
    direct_answers,
    imitation_step,
    own_successes,
    recordings,
    rows_of,
    solutions,
    warm_start_episodes,
)
from trainers.run import TrainingRun, run_program
from trainers.settings import RunSettings, WarmStartSettings, at_least_one


@dataclass(frozen=True)
class SFTSettings(RunSettings):
    """Supervised fine-tuning on episodes of an environment.

    Attributes:
        preset: start from these settings: a name under trainers/presets/sft, or a .toml file.
        data: where episodes come from: "solver", "direct", "rejection", or a .jsonl file of recorded episodes or of ARPO's
            answers with tools (Tool-Star's: .json).
        episodes: of the solver, or tasks of the two others; a file is read whole.
        samples_per_task: of rejection sampling.
        flaws: of the solver; see `WarmStartSettings`.
        stacks: of wrappers within which the solver plays, in equal shares, as `WarmStartSettings` has them; "" for those of
            `env.wrappers` alone.
        steps: gradient steps.
        rows_per_step: episodes a step; over all processes.
    """

    out: str = "runs/sft"
    data: str = "solver"
    episodes: int = 1000
    samples_per_task: int = 5
    flaws: str = "none"
    stacks: str = ""
    steps: int = 200
    rows_per_step: int = 64

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, numbers out of their range, and data that are not there."""
        super().__post_init__()
        check_flaws(self.flaws, self.env.id)
        if self.stacks:
            stacks_of(self.stacks, "stacks")
        if self.data not in ("solver", "direct", "rejection") and not Path(self.data).is_file():
            raise UsageError(f"data={self.data!r}: solver, direct, rejection, or a file; there is no such file")
        at_least_one(self, "", "episodes", "samples_per_task", "rows_per_step")


def train(settings: SFTSettings, run: TrainingRun) -> dict[str, object]:
    """Imitate from where the run stands to its last step and return what is written to OUT/result.json."""
    run.parts.processes.check_shares(settings.rows_per_step)
    if run.fresh:
        run.begin()
    rows = rows_of(list(episodes_of(settings, run)), run.parts)
    while run.step < settings.steps:
        start, cpu = time.perf_counter(), time.process_time()
        places = run.parts.processes.share(tasks_of_step(run.step, settings.rows_per_step, len(rows), settings.seed))
        stats = imitation_step([rows[place] for place in places], run.parts, run.parts.optimiser, settings.token_budget)
        run.weights_changed()
        stats["step_time"], stats["cpu_seconds/step"] = time.perf_counter() - start, time.process_time() - cpu
        run.end_step(stats)
    return run.finish()


def episodes_of(settings: SFTSettings, run: TrainingRun) -> Iterator[Trajectory]:
    """Yield the episodes that `data` names: the solver's, direct answers, the model's own successes, or those of a file."""
    if settings.data == "solver" and settings.stacks:
        source = WarmStartSettings(settings.episodes, settings.flaws, settings.stacks)
        yield from warm_start_episodes(source, run, settings.seed)
    elif settings.data == "solver":
        yield from solutions(
            run.parts.environment(), settings.episodes, settings.flaws, run.parts.train_split, settings.seed
        )
    elif settings.data == "direct":
        yield from direct_answers(run.parts.environment(), settings.env.train_split, settings.episodes)
    elif settings.data == "rejection":
        yield from own_successes(run, settings.episodes, settings.samples_per_task, settings.seed)
    else:
        yield from recordings(Path(settings.data), run.parts.environment(), run.parts.train_split)


def main() -> None:
    """Run the command line: train by SFT; exit with 2 for an error, 130 for Ctrl-C."""
    run_program("sft", SFTSettings, train)


if __name__ == "__main__":
    main()
