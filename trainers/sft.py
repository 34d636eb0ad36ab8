"""Supervised fine-tuning on episodes: maximum likelihood of the actions, given everything that was shown before them.

    python -m trainers.sft --preset tiny-searchqa --out runs/sft

Four sources of episodes: the environment's solver (with flaws, where a warm start should leave something to learn), direct
answers (Search-R1's SFT baseline: the gold answer and no search), rejection sampling (Search-R1's: five episodes a task
from the model itself, those that solve their task are imitated), or a file of recorded episodes. Only tokens of actions are
in the loss, the end of a turn among them; all tokens of a step weigh the same, over all processes.

Deviations from Search-R1 (arXiv 2503.09516, section 4 and appendix): it trains SFT on direct answers and rejection sampling
with verl's and its own scripts; learning rates and epochs of these baselines are not published, ours are in the presets.
"""

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import gymnasium as gym

from agent_envs.errors import UsageError
from agent_envs.journal import Journal, read_journal
from agent_envs.policies import Reply, Request, core_of
from agent_envs.progress import stage_lines
from agent_envs.rollout import run_episode
from agent_envs.trajectory import Trajectory
from trainers import losses
from trainers.batching import Row, micro_batches
from trainers.command_line import one_line_errors, parse
from trainers.contracts import TokenSequence
from trainers.demonstrations import SEARCH_FLAWS, TOOL_FLAWS, Flaws, demonstrations
from trainers.sampling import plan_groups, play_groups, tasks_of_step, trimmed
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
from trainers.training.forward import token_logprobs
from trainers.training.optimise import Optimiser
from trainers.training_run import TrainingRun, open_run

NAMED_FLAWS = {"none": Flaws(), "search": SEARCH_FLAWS, "tools": TOOL_FLAWS}


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
    token_budget: int = 16384

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: one is out of its range.
        """
        check_seed(self.seed)
        flaws_of(self.flaws)
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
    """Imitate demonstrations before another trainer's first step, with an optimiser of its own."""
    if settings.demonstrations == 0:
        return
    flaws, env = flaws_of(settings.flaws), run.environment()
    shown = demonstrations(env, settings.demonstrations, flaws, split=run.train_split, seed=seed)
    rows = rows_of(list(shown), run, settings.train_on)
    optimiser = Optimiser(run.model, settings.optim, settings.steps)
    told = stage_lines("warm start")
    for step in range(settings.steps):
        chosen = run.share(tasks_of_step(step, settings.rows_per_step, len(rows), seed))
        stats = imitation_step([rows[place] for place in chosen], run, optimiser, settings.token_budget)
        told(f"loss {stats['loss']:.3f}", (step + 1) / settings.steps)
    run.weights_changed()


def imitation_step(rows: Sequence[Row], run: TrainingRun, optimiser: Optimiser, token_budget: int) -> dict[str, float]:
    """Take one gradient step towards the tokens that are trained; the loss is the mean over those of all processes."""
    tokens = int(run.sums([sum(sum(row.sequence.trained) for row in rows)])[0])
    total = 0.0
    for micro in micro_batches(rows, token_budget, run.chat.pad_id):
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
    sequences = [trimmed(seq) for episode in episodes for seq in run.chat.sequences(episode, run.tools)]
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
    return replace(sequence, trained=(False, *(True,) * (len(sequence.ids) - 1)))


def episodes_of(settings: SFTSettings, run: TrainingRun) -> Iterator[Trajectory]:
    """Yield the episodes that are imitated."""
    if settings.data == "solver":
        flaws = flaws_of(settings.flaws)
        yield from demonstrations(
            run.environment(), settings.episodes, flaws, split=run.train_split, seed=settings.seed
        )
    elif settings.data == "direct":
        yield from direct_answers(run.environment(), settings.env.train_split, settings.episodes)
    elif settings.data == "rejection":
        yield from accepted(settings, run)
    else:
        yield from recorded(Path(settings.data))


def flaws_of(text: str) -> Flaws:
    """Return the flaws that a setting names.

    Raises:
        UsageError: no such name, or no such chance.
    """
    if text in NAMED_FLAWS:
        return NAMED_FLAWS[text]
    try:
        return Flaws(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise UsageError(f"flaws={text!r}: {', '.join(NAMED_FLAWS)}, or a JSON object of chances: {error}") from None


class _GoldAnswer:
    """Answers at once with the first accepted answer: what Search-R1's SFT baseline is shown."""

    name = "gold"
    batch = 1
    needs_env = True
    privileged = True

    def __init__(self, env: gym.Env | None = None) -> None:
        self._env = env

    def begin(self, env: gym.Env) -> "_GoldAnswer":
        return _GoldAnswer(env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        core = core_of(self._env)
        before, after = core.answer_tags
        return [Reply(f"{before}{core.episode.task.gold[0]}{after}") for _ in requests]


def direct_answers(env: gym.Env, split: str, count: int) -> Iterator[Trajectory]:
    """Yield episodes that answer at once, and rightly.

    Raises:
        UsageError: the environment's answers have no tags, so there is no direct one.
    """
    core = core_of(env)
    if not core.answer_tags[0]:
        raise UsageError(f"{core.env_id}: an answer has no tags here; data=solver shows how it is played")
    for task in range(min(count, core.source.size(split))):
        episode = run_episode(env, _GoldAnswer(), seed=task, split=split, task=task)
        if episode.success:
            yield episode.trajectory


def accepted(settings: SFTSettings, run: TrainingRun) -> Iterator[Trajectory]:
    """Yield the model's own episodes that solved their task, from the weights of step 0, kept in OUT/accepted.jsonl.

    A run that was killed while it collected goes on with the next tasks; later the file is what is imitated.

    Raises:
        UsageError: there are several processes, or the file of a run that has begun to learn is not whole.
    """
    if run.accelerator.num_processes > 1:
        raise UsageError(
            "rejection sampling plays in one process; then train in many on its file: --data .../accepted.jsonl"
        )
    path, tasks = run.out / "accepted.jsonl", min(settings.episodes, run.train_size)
    order = tasks_of_step(0, tasks, run.train_size, settings.seed)
    chunk = max(1, run.policy.batch // settings.samples_per_task)
    seen = max((row["tasks"] for row in read_journal(path)), default=0) if path.exists() else 0
    if run.step and seen < tasks:
        raise UsageError(
            f"{path} holds {seen} of {tasks} tasks, and the weights that sampled them have changed: start anew"
        )
    with contextlib.closing(Journal(path)) as journal:
        for start in range(seen, tasks, chunk):
            some, key = order[start : start + chunk], f"{settings.seed}/rejection/{start}"
            groups = play_groups(
                plan_groups(run.spec, run.train_split, some, settings.samples_per_task, key), run.policy
            )
            solved = [result.trajectory.to_json() for group in groups for result in group.results if result.success]
            journal.append({"tasks": start + len(some), "solved": solved})
    yield from (Trajectory.from_json(body) for row in read_journal(path) for body in row["solved"])


def recorded(path: Path) -> Iterator[Trajectory]:
    """Yield the solved episodes of a file: rows of `Trajectory.to_json`, or a run's journal."""
    for row in read_journal(path):
        bodies = row.get("solved", [row.get("trajectory", row)]) if isinstance(row, dict) else []
        for body in bodies:
            if not isinstance(body, dict) or "turns" not in body:
                continue  # the head of a journal
            episode = Trajectory.from_json(body)
            if episode.success:
                # As text: the tokens may be another model's.
                bare = {"token_ids": (), "logprobs": (), "entropies": (), "sampled": ()}
                yield replace(episode, turns=tuple(replace(turn, **bare) for turn in episode.turns))


def main() -> None:
    """Run the command line."""
    with one_line_errors("sft"):
        settings, out = parse(SFTSettings, program="sft")
        with open_run(settings, out, settings.steps) as run:
            train(settings, run)


if __name__ == "__main__":
    main()
