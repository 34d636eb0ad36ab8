"""GRPO (group relative policy optimisation) trains a policy on groups of multi-turn episodes.

    python -m trainers.grpo --preset tiny-searchqa --seed 0 --out runs/grpo

One step: play G episodes of each of P tasks; an episode's advantage is its reward against its group's; then gradient steps
on the tokens that the policy sampled, with PPO's clip, in micro-batches. Reads from top to bottom; formulas are in
`advantages.py` and `losses.py`, each with its source, and docs/grpo.md numbers the details that move results.

Deviations from the paper (DeepSeekMath, arXiv 2402.03300, section 4.1; details in docs/grpo.md):
 1. Outcome supervision alone (4.1.2); no reward model, and no iterated reference model (its algorithm 1, line 2): the
    reference stays the model that the run began with.
 2. An episode has many turns: tokens of observations, prefills and chat templates are in the context and never in the loss.
 3. `--loss token_mean` (DAPO) is the default, not the mean of a row's mean; `--beta` is 0, so there is no reference model.
 4. Episodes that an outside fault ended have no reward: they leave their group.
 5. One gradient step a batch of episodes unless `--epochs` or `--minibatches` say otherwise; with one, every ratio is 1.
    Minibatches are whole groups as far as they divide.
 6. Group std with ddof 1, plus 1e-4; flat groups stay in the denominator of the loss unless `--drop-flat-groups`;
    metrics of the update are of the rows that have a gradient.
 7. The KL term is not weighted by the importance weights of `--correction`; with LoRA the reference is the base model.
 8. `--credit turn` leaves out the weight gamma_turn^(t-1) of turn t.
From the released Search QA trainers (Search-R1, a verl fork, and SkyRL): no rolling window that cuts the prompt off on the
left; a conversation that fills `max_context` (generation included) ends instead. Observations are messages of a chat, not
text inside one assistant turn; prompts are in our own words, and observations are cut by characters. Search-R1's v0.1 mixed
up group indices; groups here are the children of one tree's root.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch

from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import Planned
from trainers import advantages as adv
from trainers import losses
from trainers.batching import MicroBatch, TrainRow, in_parts
from trainers.imitation import check_flaws, warm_start
from trainers.run import TrainingRun, run_program
from trainers.sampling import EpisodeGroup, group_stats, step_plan
from trainers.settings import ReinforcementSettings, at_least_one, not_negative
from trainers.training.forward import token_logprobs
from trainers.training.models import ReferenceModel, correct_rows, reference_of, with_reference
from trainers.training.optimise import gradient_step, mean_by_name


@dataclass(frozen=True)
class GRPOSettings(ReinforcementSettings):
    """GRPO over multi-turn episodes: plays groups, trains on what the policy sampled, writes curves and checkpoints.

    Attributes:
        preset: start from these settings: a name under trainers/presets/grpo, or a .toml file.
        most_env_steps: end once environments took so many steps for training; 0 for no limit.
        most_tool_calls: end once tools carried out so many calls for training; 0 for no limit.
        tasks_per_step: groups (P); over all processes.
        group_size: episodes of each (G).
        scale: of `credit=episode`: by the group's std (GRPO), the batch's, or none (Dr. GRPO).
        baseline: of `credit=episode`: the group's mean, or that of the others (RLOO).
        credit: one advantage an episode, or one a turn, from rewards of turns.
        turn_baseline: of `credit=turn`.
        gamma_turn: discount from turn to turn; `credit=turn` only.
        policy_loss: PPO's clip on token ratios, on sequence ratios (GSPO), CISPO, or none (reinforce).
        eps_low: clip below 1; CISPO has none.
        eps_high: clip above 1 (DAPO: 0.28).
        loss: how tokens are averaged: token_mean (DAPO), sequence_mean (GRPO, GSPO), or dr_grpo, a sum over the constant
            sampling.max_context.
        kl: its estimator; in the reward k1 has the right gradient.
        kl_in: the loss, or the reward (of the token's turn).
        drop_flat_groups: leave out groups whose rewards are all equal (DAPO's dynamic sampling, without sampling more).
        drop_truncated: no gradient from episodes that a limit ended (DAPO's overlong filtering).
        correction: importance weights between the engine and the trainer's model; only "off" spares a forward pass.
    """

    MIXES: ClassVar = True  # groups may be of several environments, `env.mixture`
    out: str = "runs/grpo"
    most_env_steps: int = 0
    most_tool_calls: int = 0
    tasks_per_step: int = 8
    group_size: int = 8
    scale: adv.Scale = "group_std"
    baseline: adv.Baseline = "mean"
    credit: Literal["episode", "turn"] = "episode"
    turn_baseline: adv.TurnBaseline = "leave_one_out"
    gamma_turn: float = 1.0
    policy_loss: Literal["ppo", "gspo", "cispo", "reinforce"] = "ppo"
    loss: Literal["token_mean", "sequence_mean", "dr_grpo"] = "token_mean"
    kl: losses.Estimator = "k3"
    kl_in: Literal["loss", "reward"] = "loss"
    drop_flat_groups: bool = False
    drop_truncated: bool = False
    correction: losses.Correction = "off"

    def __post_init__(self) -> None:
        """Refuse what no other part would, with a UsageError."""
        super().__post_init__()
        check_flaws(self.warm_start.flaws, self.env.id)
        at_least_one(self, "", "tasks_per_step")
        not_negative(self, "gamma_turn")
        not_negative(self, "most_env_steps", "most_tool_calls", below=math.inf)
        if self.group_size < 2:
            raise UsageError(f"group_size={self.group_size}: advantages are relative to a group of at least 2")

    def plan(self, run: TrainingRun) -> tuple[list[Planned], dict[str, float]]:
        """Return the episodes of the coming step, group by group, and metrics of the plan, if there are any."""
        environments, counts = list(run.parts.environments.values()), (self.tasks_per_step, self.group_size)
        return step_plan(environments, run.parts.train_split, counts, run.step, self.seed), {}


def train(
    settings: GRPOSettings, run: TrainingRun, more: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {}
) -> dict[str, Any]:
    """Train from where the run stands to its last step and return what is written to OUT/result.json; `more` adds to it."""
    run.parts.processes.check_shares(
        settings.tasks_per_step, settings.scale, settings.turn_baseline if settings.credit == "turn" else ""
    )
    if run.fresh:
        warm_start(settings.warm_start, run, settings.seed)
        run.begin()
    reference = reference_of(run) if settings.beta else None
    while not run.over:
        start, cpu = time.perf_counter(), time.process_time()
        # 1. Play. Every resume plays the same groups, every process its share of them.
        plan, stats = settings.plan(run)
        groups = run.play(plan, together=settings.group_size)
        stats |= group_stats(groups) | {"cpu_seconds/sampling": time.process_time() - cpu}
        # 2. Rewards become advantages, episodes become rows of tokens.
        rows, owners = rows_of_groups(groups)
        rows, gap = with_scores(rows, run, settings, reference)
        rows, _, signal = with_advantages(rows, owners, groups, settings)
        stats |= gap | {"frac_reward_zero_std": 1 - signal}
        # 3. Gradient steps.
        stats |= update_in_parts(rows, run, settings)
        run.weights_changed()
        # 4. What it was like: metrics, an evaluation when it is due, a checkpoint.
        stats["step_time"], stats["cpu_seconds/step"] = time.perf_counter() - start, time.process_time() - cpu
        run.end_step(stats, groups)
    return run.finish(more)


def rows_of_groups(groups: list[EpisodeGroup]) -> tuple[list[TrainRow], list[int]]:
    """Return the token sequences of all episodes as rows whose advantages are weights of 1, and the episode of each.

    An episode is one row, or several where its context was replaced on the way.
    """
    episodes = [sequences for group in groups for sequences in group.sequences]
    pairs = [(sequence, owner) for owner, sequences in enumerate(episodes) for sequence in sequences]
    rows = [TrainRow(sequence, tuple(map(float, sequence.trained))) for sequence, _ in pairs]
    return rows, [owner for _, owner in pairs]


def with_scores(
    rows: list[TrainRow], run: TrainingRun, settings: GRPOSettings, reference: ReferenceModel | None
) -> tuple[list[TrainRow], dict[str, float]]:
    """Return rows with logprobs under the reference, and weights of `correction` with its metrics, where settings want them."""
    if reference is not None:
        rows = with_reference(rows, run.parts, reference, settings.token_budget)
    if settings.correction == "off":
        return rows, {}
    return correct_rows(rows, run.parts, settings.correction, settings.token_budget)


def with_advantages(
    rows: list[TrainRow],
    owners: list[int],
    groups: list[EpisodeGroup],
    settings: GRPOSettings,
    weights: Sequence[float] | None = None,
) -> tuple[list[TrainRow], list[int], float]:
    """Return the rows that the drop settings leave, with advantages and their owners, and the share of groups with a signal.

    Args:
        rows: of all episodes.
        owners: the number of each row's episode.
        groups: of the episodes.
        settings: of advantages, and of what is dropped.
        weights: of the episodes, where they are leaves of trees that count by them; `credit=episode` alone.
    """
    episodes = [result.trajectory for group in groups for result in group.results]
    group_ids = [number for number, group in enumerate(groups) for _ in group.results]
    rewards, reached = adv.pad_turns([[turn.reward for turn in episode.turns] for episode in episodes])
    by_turn = settings.credit == "turn"
    signal = adv.groups_with_signal(rewards if by_turn else rewards.sum(dim=1), group_ids)  # (episodes,)
    if settings.beta and settings.kl_in == "reward":
        rewards = rewards + penalties(rows, owners, rewards, settings)
    if by_turn:
        advantages = adv.turn_advantages(rewards, reached, group_ids, settings.gamma_turn, settings.turn_baseline)
    else:
        totals, options = rewards.sum(dim=1), (settings.scale, settings.baseline)
        advantages = adv.group_advantages(totals, group_ids, *options, weights=weights)
        advantages = advantages[:, None].expand_as(rewards)  # (episodes, turns)
    places = loss_rows(owners, episodes, signal, settings)
    trained = [credit(rows[place], advantages[owners[place]]) for place in places]
    return trained, [owners[place] for place in places], share_of_groups(signal, group_ids)


def loss_rows(owners: list[int], episodes: list[Trajectory], signal: torch.Tensor, settings: GRPOSettings) -> list[int]:
    """Return the places of the rows that are trained on, as `drop_truncated` and `drop_flat_groups` say."""
    cut = [settings.drop_truncated and episode.last.truncated for episode in episodes]
    flat = (~signal).tolist() if settings.drop_flat_groups else [False] * len(episodes)
    return [place for place, owner in enumerate(owners) if not (cut[owner] or flat[owner])]


def credit(row: TrainRow, advantages: torch.Tensor) -> TrainRow:
    """Return a row whose tokens have the advantages of their turns (turns,), times the weights that it has."""
    shares = [0.0, *advantages.tolist()]  # turn 0 is what the policy did not sample
    pairs = zip(row.advantages, row.sequence.turns, strict=True)
    return replace(row, advantages=tuple(weight * shares[turn] for weight, turn in pairs))


def share_of_groups(signal: torch.Tensor, group_ids: list[int]) -> float:
    """Return the share of groups whose rewards differ, from whether each episode's does and its group's number."""
    flat = {group for group, differs in zip(group_ids, signal.tolist(), strict=True) if not differs}
    return 1 - len(flat) / len(set(group_ids))


def penalties(rows: list[TrainRow], owners: list[int], rewards: torch.Tensor, settings: GRPOSettings) -> torch.Tensor:
    """Return each turn's KL penalty on its reward, summed over its trained tokens (episodes, turns)."""
    table = torch.zeros_like(rewards)
    for row, owner in zip(rows, owners, strict=True):
        sequence = row.sequence
        lists = (sequence.logprobs, row.reference_logprobs, sequence.trained)
        token_penalties = losses.kl_penalty(*(torch.tensor([values]) for values in lists), settings.beta, settings.kl)
        turns = torch.tensor([sequence.turns])  # (1, tokens)
        table[owner].index_add_(0, turns[turns > 0] - 1, token_penalties[turns > 0].to(table.dtype))
    return table


def update_in_parts(rows: list[TrainRow], run: TrainingRun, settings: GRPOSettings) -> dict[str, float]:
    """Take the gradient steps of a batch and return their mean metrics. Groups stay together; their tasks came at random."""
    parts = in_parts(rows, settings.minibatches)
    metrics = mean_by_name([update(part, run, settings) for _ in range(settings.epochs) for part in parts])
    return metrics | {"tokens": sum(len(row.sequence.ids) for row in rows)}


def update(rows: list[TrainRow], run: TrainingRun, settings: GRPOSettings) -> dict[str, float]:
    """Take one gradient step on rows and return its metrics."""

    def by_token(micro: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute each token's loss and metrics; entropies get a gradient only where they are in the loss."""
        with run.parts.accelerator.autocast():
            inputs = run.parts.model, micro, run.parts.temperature
            logprobs, entropies = token_logprobs(*inputs, entropy_grad=settings.entropy != 0)
        return token_losses(logprobs, entropies, micro, settings)

    mean = partial(mean_loss, settings=settings)
    flat = bool(settings.entropy or (settings.beta and settings.kl_in == "loss"))  # what else rows learn from
    return gradient_step(rows, run.parts, by_token, mean, token_budget=settings.token_budget, flat_rows=flat)


def token_losses(
    logprobs: torch.Tensor, entropies: torch.Tensor, micro: MicroBatch, settings: GRPOSettings
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the loss of each token (batch, tokens) by the settings' loss, KL and entropy, and means over trained ones."""
    log_ratio = losses.log_ratios(logprobs, micro.old_logprobs, micro.trained)
    of_rows = settings.policy_loss == "gspo"
    ratios = (losses.sequence_log_ratios(log_ratio, micro.trained) if of_rows else log_ratio).exp()
    clip = settings.eps_low, settings.eps_high
    if settings.policy_loss == "reinforce":
        loss = losses.reinforce(logprobs, micro.advantages)
    elif settings.policy_loss == "cispo":
        loss = losses.cispo(logprobs, ratios, micro.advantages, eps_high=settings.eps_high)
    else:
        loss = losses.ppo_clip(ratios, micro.advantages, *clip, settings.dual_clip or None)
    metrics = losses.ratio_metrics(log_ratio.detach(), ratios.detach(), micro.advantages, micro.trained, *clip)
    metrics["entropy"] = (entropies.detach() * micro.trained).sum() / micro.trained.sum().clamp(min=1)
    if settings.beta:
        divergence = losses.kl_estimate(logprobs.detach(), micro.reference_logprobs, micro.trained, "k3")
        metrics["kl"] = divergence.sum() / micro.trained.sum().clamp(min=1)
        if settings.kl_in == "loss":
            loss = loss + settings.beta * losses.kl_loss(logprobs, micro.reference_logprobs, micro.trained, settings.kl)
    if settings.entropy:
        loss = loss + losses.entropy_bonus(entropies, settings.entropy)
    return loss, metrics


def mean_loss(
    by_token: torch.Tensor, trained: torch.Tensor, tokens: int, rows: int, settings: GRPOSettings
) -> torch.Tensor:
    """Average token losses by `loss`: over all tokens, over rows of row means, or over rows times the longest context."""
    if settings.loss == "token_mean":
        return losses.token_mean(by_token, trained, tokens)
    if settings.loss == "sequence_mean":
        return losses.sequence_mean(by_token, trained, rows)
    return losses.dr_grpo(by_token, trained, rows, settings.sampling.max_context)


def main() -> None:
    """Run the command line: train by GRPO; exit with 2 for an error, 130 for Ctrl-C."""
    run_program("grpo", GRPOSettings, train)


if __name__ == "__main__":
    main()
