"""Supervised fine-tuning on episodes: maximum likelihood of the actions, given everything that was shown before them.

    python -m trainers.sft --preset tiny-searchqa --out runs/sft

Four sources of episodes: the environment's solver (with flaws, where a warm start should leave something to learn), direct
answers (Search-R1's SFT baseline: the gold answer and no search), rejection sampling (Search-R1's: five episodes a task
from the model itself, those that solve their task are imitated), or a file of recorded episodes. Only tokens of actions are
in the loss, the end of a turn among them; all tokens of a step weigh the same, over all processes.

Deviations from Search-R1 (arXiv 2503.09516, section 4 and appendix): it trains SFT on direct answers and rejection sampling
with verl's and its own scripts; learning rates and epochs of these baselines are not published, ours are in the presets.
"""

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import gymnasium as gym

from agent_envs.errors import UsageError
from agent_envs.journal import read_journal
from agent_envs.policies import Reply, Request, core_of
from agent_envs.progress import stage_lines
from agent_envs.rollout import run_episode
from agent_envs.run_journal import RunLog
from agent_envs.runner import run_many
from agent_envs.trajectory import Trajectory
from trainers import losses
from trainers.batching import Row, micro_batches
from trainers.command_line import parse
from trainers.contracts import TokenSequence
from trainers.demonstrations import SEARCH_FLAWS, TOOL_FLAWS, Flaws, demonstrations
from trainers.sampling import plan_groups, tasks_of_step, trimmed
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    LogSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
    WarmStartSettings,
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


def train(settings: SFTSettings, run: TrainingRun) -> dict[str, object]:
    """Imitate from where the run stands to its last step and return what is written to OUT/result.json."""
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
    shown = demonstrations(run.environment(), settings.demonstrations, flaws_of(settings.flaws), seed=seed)
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
    norm = optimiser.step(run.accelerator)
    return {"loss": run.sums([total])[0], "num_tokens": tokens, "learning_rate": rate, "grad_norm": norm}


def rows_of(episodes: Sequence[Trajectory], run: TrainingRun, train_on: str) -> list[Row]:
    """Return the tokens of episodes as rows.

    Raises:
        UsageError: there are none.
    """
    sequences = [trimmed(seq) for episode in episodes for seq in run.chat.sequences(episode, run.tools)]
    if train_on == "all":
        sequences = [everything(sequence) for sequence in sequences]
    if not sequences:
        raise UsageError("there are no episodes to imitate: rejection sampling kept none, or the file is empty")
    return [Row(sequence, (0.0,) * len(sequence.ids)) for sequence in sequences]


def everything(sequence: TokenSequence) -> TokenSequence:
    """Return a sequence of which all tokens but the first, which nothing predicts, are trained."""
    return replace(sequence, trained=(False, *(True,) * (len(sequence.ids) - 1)))


def episodes_of(settings: SFTSettings, run: TrainingRun) -> Iterator[Trajectory]:
    """Yield the episodes that are imitated."""
    if settings.data == "solver":
        flaws = flaws_of(settings.flaws)
        yield from demonstrations(run.environment(), settings.episodes, flaws, seed=settings.seed)
    elif settings.data == "direct":
        yield from direct_answers(run.environment(), settings.env.train_split, settings.episodes)
    elif settings.data == "rejection":
        yield from accepted(settings, run)
    elif settings.data.endswith(".jsonl"):
        yield from recorded(Path(settings.data))
    else:
        raise UsageError(f"data={settings.data!r}: solver, direct, rejection, or a .jsonl file of episodes")


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
    """Yield the model's own episodes that solved their task. They are journaled: a killed run goes on.

    Raises:
        UsageError: there are several processes.
    """
    if run.accelerator.num_processes > 1:
        raise UsageError(
            "rejection sampling plays in one process; then train in many on its file: --data .../rejection.jsonl"
        )
    tasks = random.Random(f"rejection:{settings.seed}").sample(
        range(run.train_size), min(settings.episodes, run.train_size)
    )
    plan = plan_groups(
        run.spec, settings.env.train_split, tasks, settings.samples_per_task, f"{settings.seed}/rejection"
    )
    log = RunLog(run.out / "rejection.jsonl", {"weights": "of step 0"})
    played = {
        item.key: result for item, result in run_many(plan, run.policy, concurrency=run.policy.batch, journal=log)
    }
    run.policy.forget()
    yield from (played[item.key].trajectory for item in plan if played[item.key].success)


def recorded(path: Path) -> Iterator[Trajectory]:
    """Yield the solved episodes of a file: rows of `Trajectory.to_json`, or a run's journal."""
    for row in read_journal(path):
        body = row.get("trajectory", row) if isinstance(row, dict) else row
        if isinstance(body, dict) and "turns" in body:
            episode = Trajectory.from_json(body)
            if episode.success:
                # As text: the tokens may be another model's.
                bare = {"token_ids": (), "logprobs": (), "entropies": (), "sampled": ()}
                yield replace(episode, turns=tuple(replace(turn, **bare) for turn in episode.turns))


def main() -> None:
    """Run the command line."""
    settings, out = parse(SFTSettings, program="sft")
    with open_run(settings, out, settings.steps) as run:
        train(settings, run)


if __name__ == "__main__":
    main()
