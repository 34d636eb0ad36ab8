"""Verlog trains a policy by PPO over the turns of long episodes: a critic, two discounts, batches of a fixed number of turns.

    python -m trainers.verlog --preset tiny-babyai-goto --seed 0 --out runs/verlog

One step: each of `n_env` lanes plays `e_len` turns and goes on from there in the next step, wherever its episode is. A turn is
a data point: what `Memory` showed, and what was said. Rewards less the KL to the start become advantages by GAE with discounts
of turns and of tokens, bootstrapped from the critic where the batch or a limit cut an episode; then gradient steps of the
policy, with PPO's clip, and of the critic. Reads from top to bottom; formulas are in `advantages.py` and `losses.py`, the
critic in `training/critic.py`, lanes in `fixed_turns.py`; docs/verlog.md numbers the details that move results.

Deviations from the report (Verlog, 2025) and from the released code (WentseChen/Verlog, August 2025, a verl fork):
 1. An episode that a limit truncated is bootstrapped like one that the batch cut, as the report says; the release counts it
    as a failure (`--released-truncation`).
 2. A value slot a token; the release has one more behind replies that end early: equal at token discounts of 1.
 3. The critic's warm-up must have settled before the policy learns (`verlog_parts`); the release goes on whatever came of it.
    The release's first policy step is on the warm-up's stale sample; ours is on a batch of its own.
 4. `warmup.share` is the release's quarter; the report says a tenth.
 5. Empty turns, for which a context had no room, are no data points; their state's value carries credit past them.
 6. The mean of a loss is over the trained tokens of a minibatch over all processes. As in the release, the weights of first
    tokens are not divided out.
 7. The format penalty is the environment's (`reward="format_penalty_released"` is the release's: it replaces a win).
 8. Success is measured on fixed held-out tasks, never on the episodes that happen to end in a batch: short ones are too many.
 9. One environment a run; text actions only.
10. The critic is a copy of the policy after any warm start, with a linear head that begins at 0; report and release do not say
    how theirs begins.
11. Lanes take training tasks by turns; the release does not fix the seeds of its environments.
"""

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from accelerate.utils import gather_object

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import stage_lines
from trainers import losses
from trainers.advantages import DualDiscounts, dual_discount_gae
from trainers.batching import MicroBatch, TrainRow, in_parts
from trainers.expanded_actions import expanded_parts
from trainers.fixed_turns import DataPoint, FixedTurns, LanePlan, state_before
from trainers.imitation import check_flaws, warm_start
from trainers.run import TrainingRun, run_program
from trainers.settings import EnvironmentSettings, ReinforcementSettings, at_least_one, not_negative
from trainers.training.critic import (
    Critic,
    CriticSettings,
    WarmupSettings,
    critic_step,
    fit,
    value_return_pairs,
    values_of,
    with_targets,
)
from trainers.training.forward import token_logprobs
from trainers.training.models import ReferenceModel, reference_of, with_reference
from trainers.training.optimise import Optimiser, gradient_step, mean_by_name
from trainers.verlog_parts import check_warm_up, note_if_short, rounds_of, turns_of_an_episode

Batch = list[list[DataPoint]]  # of lanes


@dataclass(frozen=True)
class VerlogSettings(ReinforcementSettings):
    """PPO over turns with a critic: plays lanes, trains policy and critic on their turns, writes curves and checkpoints.

    Attributes:
        preset: start from these settings: a name under trainers/presets/verlog, or a .toml file.
        critic: the value model.
        warmup: of the critic, before the policy learns.
        most_env_steps: end once environments took so many steps for training, the warm-up's among them; 0 for no limit.
        n_env: lanes; over all processes.
        e_len: turns that each lane plays a step.
        staggered: lanes begin at ages that spread over an episode's limit; nobody learns from the turns before.
        discounts: of turns and of tokens.
        released_truncation: an episode that a limit ended counts as a failure, without a bootstrap, as in the release.
        beta: weight of the KL to the start in the reward of each token (k1); 0 keeps no such model.
    """

    out: str = "runs/verlog"
    env: EnvironmentSettings = field(default_factory=lambda: EnvironmentSettings("BabyAI", wrappers='[{"Memory": {}}]'))
    critic: CriticSettings = field(default_factory=CriticSettings)
    warmup: WarmupSettings = field(default_factory=WarmupSettings)
    steps: int = 300
    most_env_steps: int = 0
    n_env: int = 32
    e_len: int = 8
    staggered: bool = False
    minibatches: int = 2
    discounts: DualDiscounts = field(default_factory=DualDiscounts)
    released_truncation: bool = False
    dual_clip: float = 3.0
    beta: float = 1e-3
    entropy: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse what no other part would, with a UsageError."""
        super().__post_init__()
        if expanded_parts(self.env.id):
            raise UsageError(f"env.id={self.env.id!r}: Verlog's data are turns of text; take the id without ExpA")
        check_flaws(self.warm_start.flaws, self.env.id)
        at_least_one(self, "", "n_env", "e_len")
        not_negative(self, "most_env_steps", below=math.inf)


def train(settings: VerlogSettings, run: TrainingRun) -> dict[str, Any]:
    """Train from where the run stands to its last step and return what is written to OUT/result.json."""
    run.parts.processes.check_shares(settings.n_env)
    if run.fresh:
        warm_start(settings.warm_start, run, settings.seed)
    critic = Critic(run.parts.bare, settings.critic)
    run.keep("critic", critic, optimiser := Optimiser(critic, settings.critic.optim, 0))
    lane_plan = LanePlan(run.parts.spec, run.parts.train_split, run.parts.train_size, settings.n_env, settings.seed)
    states = dict(run.memory.get("lanes", ()))
    with FixedTurns(lane_plan, run.parts.policy, run.parts.max_context, run.parts.chat.end_ids[0], states) as lanes:
        lanes.open(run.parts.processes.share(range(settings.n_env)))
        if run.fresh:
            warm_up(critic, optimiser, lanes, run, settings)
            run.memory["lanes"] = gather_object(lanes.state_dict())
            run.weights_changed()  # a run that goes on from its first checkpoint has no caches either, and counts from 0
            run.parts.policy.edited = 0
            run.begin()
        reference = reference_of(run) if settings.beta else None
        while not run.over:
            start, cpu = time.perf_counter(), time.process_time()
            # 1. Play on.
            batch, stats = lanes.play(settings.e_len)
            stats["cpu_seconds/sampling"] = time.process_time() - cpu
            # 2. Rewards become advantages and returns, turns become rows of tokens.
            rows = rows_with_advantages(batch, critic, run, settings, reference)
            stats |= critic_metrics(rows, run, settings)
            rows = whiten(rows, run)
            # 3. Gradient steps of both.
            update_metrics = []
            for epoch in range(settings.epochs):
                random.Random(f"{run.key('rows')}/{epoch}").shuffle(rows)
                for part in in_parts(rows, settings.minibatches):
                    of_critic = critic_step(part, critic, optimiser, run.parts, settings.critic, settings.token_budget)
                    update_metrics.append(update(part, run, settings) | of_critic)
            run.weights_changed()
            # 4. What it was like: metrics, an evaluation when it is due, a checkpoint with the lanes.
            stats |= mean_by_name(update_metrics)
            stats["step_time"], stats["cpu_seconds/step"] = time.perf_counter() - start, time.process_time() - cpu
            run.memory["lanes"] = gather_object(lanes.state_dict())
            earlier = run.memory.pop("uncounted_turns", 0) if run.parts.accelerator.is_main_process else 0
            run.end_step(stats, turns=int(stats.pop("turns")) + earlier)
    return run.finish(lambda _: {name: run.memory[name] for name in ("critic_warm_up",) if name in run.memory})


def warm_up(
    critic: Critic, optimiser: Optimiser, lanes: FixedTurns, run: TrainingRun, settings: VerlogSettings
) -> None:
    """Let the critic learn from the starting policy's turns, a random share of them in each round, with fresh returns.

    Raises:
        AgentEnvsError: by `check_warm_up`, which is ours.
    """
    warmup, limit = settings.warmup, turns_of_an_episode(run)
    staggered = lanes.stagger(limit) if settings.staggered else 0
    run.memory["uncounted_turns"] = int(run.parts.processes.sums([staggered])[0])
    note_if_short(warmup.batches * settings.e_len, limit)
    if not warmup.batches:
        return
    report, pool, faults = stage_lines("critic warm-up"), list[list[DataPoint]](), 0.0
    for number in range(warmup.batches):
        points, stats = lanes.play(settings.e_len)
        pool, faults = pool + points, faults + stats["faults"]
        report("playing", (number + 1) / warmup.batches / 2)
    rows = rows_with_advantages(pool, critic, run, settings)
    history = [critic_metrics(rows, run, settings)]
    for number in rounds_of(warmup, history):
        count = max(1, round(warmup.share * len(rows)))
        sample = random.Random(f"{settings.seed}/warm-up/{number}").sample(rows, count)
        for part in in_parts(sample, max(1, round(warmup.batches * warmup.share * settings.minibatches))):
            critic_step(part, critic, optimiser, run.parts, settings.critic, settings.token_budget)
        rows = rows_with_advantages(pool, critic, run, settings)
        history.append(critic_metrics(rows, run, settings))
        loss = history[-1]["value_loss"]
        report(f"value loss {loss:.4f}", min(1.0, 0.5 + (number + 1) / warmup.rounds / 2))
    check_warm_up(pool, rows, history, faults, run, settings)


def rows_with_advantages(
    batch: Batch, critic: Critic, run: TrainingRun, settings: VerlogSettings, reference: ReferenceModel | None = None
) -> list[TrainRow]:
    """Return the sampled turns of a batch as rows with advantages, returns, values and marks of first tokens."""
    points = [point for lane in batch for point in lane]
    rows = [TrainRow(point.sequence, tuple(map(float, point.sequence.trained))) for point in points]
    if reference is not None:
        rows = with_reference(rows, run.parts, reference, settings.token_budget)
    values, bootstraps = values_and_bootstraps(points, rows, critic, run, settings)
    rewards = [token_rewards(point, row, settings) for point, row in zip(points, rows, strict=True)]
    trained, start = list[TrainRow](), 0
    for lane in batch:
        part, start = slice(start, start + len(lane)), start + len(lane)
        advantages = dual_discount_gae(values[part], rewards[part], bootstraps[part], discounts=settings.discounts)
        turns = zip(lane, rows[part], values[part], advantages, strict=True)
        trained += [with_targets(row, own, gae) for point, row, own, gae in turns if not point.empty]
    return trained


def values_and_bootstraps(
    points: Sequence[DataPoint], rows: Sequence[TrainRow], critic: Critic, run: TrainingRun, settings: VerlogSettings
) -> tuple[list[list[float]], list[float | None]]:
    """Return the critic's values of each turn's tokens, and of what follows a turn where its lane does not go on."""
    states = [state_before(point.next_state, run.parts.chat.end_ids[0]) for point in points if point.next_state]
    values = values_of(critic, [*(row.sequence for row in rows), *states], run.parts, settings.token_budget)
    following = iter(values[len(rows) :])
    bootstraps = [bootstrap(point, next(following)[0] if point.next_state else None, settings) for point in points]
    return values[: len(rows)], bootstraps


def token_rewards(point: DataPoint, row: TrainRow, settings: VerlogSettings) -> list[float]:
    """Return the reward of each token of a turn: the KL penalty, and at the last one the turn's own as well."""
    kl = [0.0] if point.empty else penalties(row, settings.beta)
    return [*kl[:-1], kl[-1] + point.turn.reward]


def critic_metrics(rows: Sequence[TrainRow], run: TrainingRun, settings: VerlogSettings) -> dict[str, float]:
    """Return the loss and the explained variance of the values that advantages were made with, and the KL to the start."""
    pairs = value_return_pairs(rows)
    penalty = sum(sum(penalties(row, settings.beta)) for row in rows)
    squared_error = sum((value - target) ** 2 for value, target in pairs) / 2
    penalty, squared_error, count = run.parts.processes.sums([penalty, squared_error, len(pairs)])
    stats = {"explained_variance": fit(pairs, run.parts.processes)[0], "value_loss": squared_error / max(1.0, count)}
    return stats | {"kl": -penalty / settings.beta / max(1.0, count) if settings.beta else 0.0}


def bootstrap(point: DataPoint, value: float | None, settings: VerlogSettings) -> float | None:
    """Return the value behind a turn: 0 after its episode's end (by `released_truncation` a limit's too), else `value`."""
    if point.turn.terminated or (point.turn.truncated and settings.released_truncation):
        return 0.0
    return value


def penalties(row: TrainRow, coefficient: float) -> list[float]:
    """Return the KL penalty on the reward of each trained token; 0s without a reference."""
    sequence = row.sequence
    if not row.reference_logprobs:
        return [0.0] * sum(sequence.trained)
    lists = (sequence.logprobs, row.reference_logprobs, sequence.trained)
    token_penalties = losses.kl_penalty(*(torch.tensor([column]) for column in lists), coefficient, "k1")[0]
    return [float(value) for value in token_penalties[torch.tensor(sequence.trained)]]


def whiten(rows: list[TrainRow], run: TrainingRun) -> list[TrainRow]:
    """Return rows whose advantages have mean 0 and standard deviation 1 over the trained tokens of all processes."""
    pairs = [list(zip(row.advantages, row.sequence.trained, strict=True)) for row in rows]
    values = [value for row in pairs for value, trained in row if trained]
    total, squares, count = run.parts.processes.sums([sum(values), sum(value**2 for value in values), len(values)])
    mean = total / max(1.0, count)
    scale = (max(0.0, squares - count * mean**2) / max(1.0, count - 1) + 1e-8) ** 0.5
    white = [tuple((value - mean) / scale if trained else 0.0 for value, trained in row) for row in pairs]
    return [replace(row, advantages=own) for row, own in zip(rows, white, strict=True)]


def update(rows: list[TrainRow], run: TrainingRun, settings: VerlogSettings) -> dict[str, float]:
    """Take one gradient step of the policy on rows and return its metrics."""

    def by_token(micro: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute each token's PPO loss with the entropy bonus, and the metrics of ratios and entropies."""
        with run.parts.accelerator.autocast():
            inputs = run.parts.model, micro, run.parts.temperature
            logprobs, entropies = token_logprobs(*inputs, entropy_grad=settings.entropy != 0)
        log_ratio = losses.log_ratios(logprobs, micro.old_logprobs, micro.trained)
        clip = settings.eps_low, settings.eps_high
        loss = losses.ppo_clip(log_ratio.exp(), micro.advantages, *clip, settings.dual_clip or None)
        loss = loss + losses.entropy_bonus(entropies, settings.entropy)
        metrics = losses.ratio_metrics(
            log_ratio.detach(), log_ratio.detach().exp(), micro.advantages, micro.trained, *clip
        )
        metrics["entropy"] = (entropies.detach() * micro.trained).sum() / micro.trained.sum().clamp(min=1)
        return loss, metrics

    return gradient_step(rows, run.parts, by_token, token_budget=settings.token_budget)


def main() -> None:
    """Run the command line: train by Verlog; exit with 2 for an error, 130 for Ctrl-C."""
    run_program("verlog", VerlogSettings, train)


if __name__ == "__main__":
    main()
