"""EARL is reinforcement learning over an expanded action space, with counterfactual policy optimisation (CPO).

    python -m trainers.earl --preset tiny-sort4 --seed 0 --out runs/earl

One step: play G episodes of each of P tasks; where a whole group failed, play each of its episodes again from a position of
its own at which a routing action is forced (CPO); then gradient steps with PPO's clip on what was chosen. An id that ends in
ExpA has expanded actions, which are chosen among the tokens (arXiv 2510.07581, algorithm 1); the text environment of the same
task is for the paper's baselines. So its methods are settings:

    EARL = ExpA+CPO   --env.id CountdownExpA --counterfactual.rule paper
    ExpA+GRPO         --env.id CountdownExpA --counterfactual.rule off
    Prompt+CPO        --env.id Countdown     --counterfactual.rule paper
    Prompt+GRPO       --env.id Countdown     --counterfactual.rule off
    SFT+GRPO          Prompt+GRPO after      --warm_start.demonstrations 10000

Its tables are sweeps over them (`trainers/presets/earl/sweeps`); the run of a policy that sorts ends with its decision tree.
Reads from top to bottom; docs/earl.md numbers the details that move results.

Deviations from the paper and its released code (`counterfactual.rule` tells which of the two is followed where they differ):
 1. The group test sees whole groups; the release tests what of a group lies in one process.
 2. The forced action is trained (`counterfactual.train_forced`), as in the release; the paper does not say.
 3. A group's std is unbiased, plus 1e-6, as in the release; the paper does not say.
 4. Tokens of descriptions and observations have no gradient, and do not count in the mean; in the release they count.
 5. The KL (k3, over the vocabulary's softmax, where a token was chosen: D.3 and the release) is to the model that the run began
    with, after any warm start.
 6. Baselines write calls freely, and their calls count like the others': the release constrains what stands inside a tag, and
    counts no calls of theirs.
 7. Rows without an advantage (groups whose rewards are equal, counterfactuals that gained nothing) are left out of the step, of
    its mean, its KL and its entropy bonus.
 8. The decoder is that of transformers, in lock-step over all episodes of a batch; vLLM samples text environments only.
 9. Language mode opens the routing actions of the environment's own tools; in the release those of every configured tool.
10. No checkpoint is chosen on test tasks; the release's script scores all that were saved there.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.envs.expa import ExpandedActionEnv
from agent_envs.rollout.episode_runner import Planned
from trainers import losses
from trainers.batching import MicroBatch, TrainRow, in_parts
from trainers.earl_parts.counterfactual.interventions import (
    Forkable,
    Interventions,
    Replay,
    forkable,
    play_again,
    routes_of,
)
from trainers.earl_parts.counterfactual.optimisation import (
    CounterfactualSettings,
    RouteChoice,
    counterfactual_advantages,
    failed_groups,
    row_of,
)
from trainers.earl_parts.sorting_result import sorting_result
from trainers.environments import environment, tasks_of_step
from trainers.imitation import check_flaws, warm_start
from trainers.run import TrainingRun, run_program
from trainers.sampling import EpisodeGroup, distinct_calls, group_stats, plan_groups, play_groups
from trainers.settings import EnvironmentSettings, ReinforcementSettings, at_least_one, not_negative
from trainers.training.forward import head_of, token_scores
from trainers.training.models import reference_of, with_reference
from trainers.training.optimise import gradient_step, mean_by_name


@dataclass(frozen=True)
class CurriculumSettings:
    """The curriculum: easier tasks with the same actions, played first in place of the environment.

    Attributes:
        steps: for how many; 0 for no curriculum.
        id: of the environment.
        arguments: of the environment, as a JSON object.
    """

    steps: int = 0
    id: str = ""
    arguments: str = "{}"

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, steps without an environment, and the other way round."""
        if self.steps < 0 or bool(self.steps) != bool(self.id):
            raise UsageError("curriculum.steps and curriculum.id go together; 0 and nothing for no curriculum")


@dataclass(frozen=True)
class EARLSettings(ReinforcementSettings):
    """EARL over an expanded action space, and the paper's baselines over text.

    Attributes:
        preset: start from these settings: a name under trainers/presets/earl, or a .toml file.
        curriculum: what is played first: ordering before sorting.
        counterfactual: when and how episodes of failed groups are played again; rule "off" is GRPO.
        steps: of playing and training, those of the curriculum included.
        most_tool_calls: end once tools carried out so many calls for training, of counterfactuals too; 0 for no limit.
        most_tokens: end once so many tokens and actions were sampled, those of counterfactuals included; 0 for no limit.
        tasks_per_step: groups (P); over all processes.
        group_size: episodes of each (G).
    """

    out: str = "runs/earl"
    env: EnvironmentSettings = field(default_factory=lambda: EnvironmentSettings(id="SortExpA"))
    curriculum: CurriculumSettings = field(default_factory=CurriculumSettings)
    counterfactual: CounterfactualSettings = field(default_factory=CounterfactualSettings)
    most_tool_calls: int = 0
    most_tokens: int = 0
    tasks_per_step: int = 8
    group_size: int = 8
    dual_clip: float = 3.0

    def __post_init__(self) -> None:
        """Raise UsageError for bad flaws, counts, groups of one, or vllm with expanded actions or counterfactuals."""
        super().__post_init__()
        check_flaws(self.warm_start.flaws, self.env.id)
        at_least_one(self, "", "tasks_per_step")
        not_negative(self, "most_tokens", below=math.inf)
        if self.group_size < 2:
            raise UsageError(f"group_size={self.group_size}: advantages are relative to a group of at least 2")
        if self.sampling.engine == "vllm" and (self.counterfactual.rule != "off" or "ExpA" in self.env.id):
            raise UsageError("sampling.engine=vllm plays no expanded actions and no counterfactuals: use hf")


def train(settings: EARLSettings, run: TrainingRun) -> dict[str, Any]:
    """Train from where the run stands to its last step and return what is written to OUT/result.json."""
    run.parts.processes.check_shares(settings.tasks_per_step)
    if run.fresh:
        warm_start(settings.warm_start, run, settings.seed)
    suppress_routes(settings.model.routing_bias, run)
    if run.fresh:
        run.begin()
    reference = reference_of(run) if settings.beta else None
    choice, player = None, None
    if settings.counterfactual.rule != "off":
        player = forkable(run.parts.policy)
        choice = RouteChoice(settings.counterfactual, routes_of(run.parts.environment()), settings.seed)
        choice.restore(run.memory.get("encouraged", choice.state()))
    while not run.over and not 0 < settings.most_tokens <= run.sampled_tokens:
        start, cpu = time.perf_counter(), time.process_time()
        # 1. Play whole groups. Every resume plays the same ones, every process its share of them.
        spec, size = stage(settings, run)
        tasks = tasks_of_step(run.step, settings.tasks_per_step, size, settings.seed)
        plan = plan_groups(spec, settings.env.train_split, tasks, settings.group_size, run.key("train"))
        own_plan = run.parts.processes.share(plan, together=settings.group_size)
        groups = play_groups(own_plan, run.parts.policy, keep=True, play=player and player.play)
        stats = group_stats(groups)
        # 2. Play the episodes of failed groups again, each from a moment of its own at which a route is forced.
        replays: dict[str, Replay] = {}
        if choice and player:
            route = choice.choose(run.step)
            replays = play_counterfactuals(groups, plan, route, player, run, settings)
            stats |= learn_gain(groups, replays, route, choice, run)
        run.parts.policy.forget()
        stats["cpu_seconds/sampling"] = time.process_time() - cpu
        # 3. Rewards become advantages, episodes become rows of tokens.
        rows, reward_stats = rows_with_advantages(groups, replays, settings)
        stats |= reward_stats
        if reference is not None:
            rows = with_reference(rows, run.parts, reference, settings.token_budget, vocabulary=True)
        # 4. Gradient steps.
        parts = in_parts(rows, settings.minibatches)  # rows follow one another as their groups do
        stats |= mean_by_name([update(part, run, settings) for _ in range(settings.epochs) for part in parts])
        run.weights_changed()
        # 5. What it was like: metrics, an evaluation when it is due, a checkpoint.
        stats["step_time"], stats["cpu_seconds/step"] = time.perf_counter() - start, time.process_time() - cpu
        calls = distinct_calls(groups, [replay.result.trajectory for replay in replays.values()])
        run.end_step(stats | {"tokens": sum(len(row.sequence.ids) for row in rows)}, groups, calls=calls)
    return run.finish(lambda _: sorting_result(settings, run))


def suppress_routes(bias: float, run: TrainingRun) -> None:
    """Set a constant on the logits of routing actions, for an experiment; nothing at 0; UsageError if there are none.

    Raises:
        UsageError: the model has none.
    """
    if not bias:
        return
    core, head = core_of(run.parts.environment()), head_of(run.parts.model)
    if head is None or not isinstance(core, ExpandedActionEnv):
        raise UsageError(f"model.routing_bias: {core.env_id} has no routing actions")
    head.suppress([core.id_of(route) for route in routes_of(run.parts.environment())], bias)
    run.weights_changed()


def stage(settings: EARLSettings, run: TrainingRun) -> tuple[str, int]:
    """Return the coming step's environment, as JSON, and its number of train tasks: the curriculum's first, then the run's."""
    if run.step >= settings.curriculum.steps:
        return run.parts.spec, run.parts.train_size
    spec, core = environment(settings.curriculum.id, settings.curriculum.arguments)
    return spec, core.source.size(settings.env.train_split)


def rewards_of(groups: Sequence[EpisodeGroup]) -> tuple[list[float], list[int]]:
    """Return the reward of every episode and the number of its group."""
    rewards = [result.trajectory.total_reward for group in groups for result in group.results]
    return rewards, [number for number, group in enumerate(groups) for _ in group.results]


def play_counterfactuals(
    groups: Sequence[EpisodeGroup],
    plan: Sequence[Planned],
    route: str,
    player: Forkable,
    run: TrainingRun,
    settings: EARLSettings,
) -> dict[str, Replay]:
    """Play failed groups' episodes again with a route forced; return replays by the key of the first play, if there is one."""
    lost = failed_groups(*rewards_of(groups), settings.counterfactual.rule)
    plan_by_key = {item.key: item for item in plan}
    episodes = {
        key: (plan_by_key[key], result)
        for number, group in enumerate(groups)
        for result in group.results
        if number in lost and (key := result.trajectory.header.episode_key)
    }
    options = {"temperature": run.parts.temperature, "within": run.parts.accelerator.autocast}
    interventions = Interventions(run.parts.model, run.parts.chat, settings.counterfactual, **options)
    return play_again(player, interventions, episodes, run.parts.environment(), route)


def learn_gain(
    groups: Sequence[EpisodeGroup], replays: dict[str, Replay], route: str, choice: RouteChoice, run: TrainingRun
) -> dict[str, float]:
    """Return metrics of replays over all processes; teach the choice the forced route's mean gain, if there are any."""
    factual = {result.trajectory.header.episode_key: result for group in groups for result in group.results}
    gains = [
        replay.result.trajectory.total_reward - factual[key].trajectory.total_reward for key, replay in replays.items()
    ]
    wins = [replay.result.trajectory.total_reward > 0 for replay in replays.values()]
    count, gain, won, episodes = run.parts.processes.sums([len(gains), math.fsum(gains), sum(wins), len(factual)])
    if count:
        choice.learn(route, gain / count)
        run.memory["encouraged"] = choice.state()
    means = {"gain": gain / max(1.0, count), "rewarded": won / max(1.0, count), "share": count / max(1.0, episodes)}
    return {f"counterfactual/{name}": value for name, value in means.items()}


def rows_with_advantages(
    groups: Sequence[EpisodeGroup], replays: dict[str, Replay], settings: EARLSettings
) -> tuple[list[TrainRow], dict[str, float]]:
    """Return rows with D.2's advantages: R' - R for what was played again, group-relative ones in groups that did not fail.

    Rows follow one another as their groups do. Left out, and counted nowhere, are those of groups without a difference, whose
    advantages are 0, and what earned the same when it was played again.
    """
    rewards, group_ids = rewards_of(groups)
    keys = [result.trajectory.header.episode_key for group in groups for result in group.results]
    sequences = [parts for group in groups for parts in group.sequences]
    returns = {place: replays[key].result.trajectory.total_reward for place, key in enumerate(keys) if key in replays}
    advantages = counterfactual_advantages(rewards, group_ids, returns, settings.counterfactual.rule)
    signal = {number for number, advantage in zip(group_ids, advantages.factual, strict=True) if advantage}
    rows: list[TrainRow] = []
    for place, advantage in enumerate(advantages.factual):
        if advantages.counterfactual.get(place):
            rows += [row_of(sequence, advantages.counterfactual[place]) for sequence in replays[keys[place]].sequences]
        elif advantage is not None and group_ids[place] in signal:
            rows += [row_of(sequence, advantage) for sequence in sequences[place]]
    flat = sum(len({result.trajectory.total_reward for result in group.results}) == 1 for group in groups)
    return rows, {"frac_reward_zero_std": flat / len(groups)}


def update(rows: Sequence[TrainRow], run: TrainingRun, settings: EARLSettings) -> dict[str, float]:
    """Take one gradient step on rows and return its metrics; the loss is a mean over tokens."""
    by_token = partial(token_losses, run=run, settings=settings)
    return gradient_step(rows, run.parts, by_token, token_budget=settings.token_budget)


def token_losses(
    micro: MicroBatch, run: TrainingRun, settings: EARLSettings
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return the loss of each token (batch, tokens), D.3 equation 2 and an entropy bonus, and means over the trained ones."""
    bonus, clip = settings.entropy, (settings.eps_low, settings.eps_high)
    with run.parts.accelerator.autocast():
        scores = token_scores(run.parts.model, micro, run.parts.temperature, entropy_grad=bonus > 0)
    log_ratio = losses.log_ratios(scores.logprobs, micro.old_logprobs, micro.trained)
    loss = losses.ppo_clip(log_ratio.exp(), micro.advantages, *clip, settings.dual_clip or None)
    ratios = log_ratio.detach(), log_ratio.detach().exp()
    metrics = losses.ratio_metrics(*ratios, micro.advantages, micro.trained, *clip)
    count = micro.trained.sum().clamp(min=1)
    metrics["entropy"] = (scores.entropies.detach() * micro.trained).sum() / count
    metrics["expanded_actions"] = (micro.trained & (micro.targets != micro.ids)).sum() / count
    if settings.beta:
        is_token = micro.trained & (micro.targets == micro.ids)  # a token of the vocabulary was chosen
        kl_inputs = scores.vocabulary_logprobs, micro.reference_logprobs, is_token
        metrics["kl"] = losses.kl_estimate(kl_inputs[0].detach(), *kl_inputs[1:], "k3").sum() / count
        loss = loss + settings.beta * losses.kl_loss(*kl_inputs, "k3")
    return loss + losses.entropy_bonus(scores.entropies, bonus) if bonus else loss, metrics


def main() -> None:
    """Run the command line: train by EARL; exit with 2 for an error, 130 for Ctrl-C."""
    run_program("earl", EARLSettings, train)


if __name__ == "__main__":
    main()
