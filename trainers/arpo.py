"""ARPO (agentic reinforced policy optimisation) trains by GRPO on rollouts that branch where a tool's answer left doubt.

    python -m trainers.arpo --preset tiny-searchqa --seed 0 --out runs/arpo

One step: each of P tasks grows a tree of M leaves from N roots; a path forks before a turn that follows a tool's result, where
a rule says so (`arpo_parts`). Each leaf's advantage is its reward against its tree's; then come the gradient steps
of `trainers.grpo`, whose losses, clip and minibatches these are: `--branching.rule off` is that trainer, to the bit.

Deviations from the paper (arXiv 2507.19849; docs/arpo.md has each with its reason):
 1. The first k entropies are read once the trunk's turn is whole, and forks begin before that turn: nothing stops in mid-turn.
 2. `rule="paper"`: at most Z - 1 forks join the path that came to the node, so that Z leave it (the text: Z new ones); tau is
    published nowhere, and measured at the start. The default is the released rule, a chance.
 3. The entropy is a mean over ln V, from 0 to 1 (the paper: over V); the released rule has the release's sum over ln V.
 4. Advantages: soft, as in the paper's runs; `hard` and `weighted` are ours (nobody released a hard one).
 5. Rewards are the environment's: `reward="hierarchical"` of ToolReasoning is equation 8.
 6. KL is 0, as in the scripts, though equation 6 has one; tokens are averaged over the batch (the text: within a row first).
 7. `rule="likelihood"` is a control of ours after APPO (arXiv 2606.12384): that multiplies a token's entropy by an accumulated
    likelihood ratio, of two policies, of what follows it. Here there is one policy, so that the mean logprob of the path from
    the node on is held against the one before it; forks are at turns, the better half by score, and advantages stay GRPO's.
 8. A group's std is unbiased, plus 1e-4 as in `trainers.grpo` (the release: 1e-6).
From the released code: the window is after the result, not before the call (there the first decision is a coin); the baseline
is of each task and step (there it is never cleared, and a fork has one of its own); forks take the budget in the order of their
names (there of their slots); all fresh roots begin together (there one a step of the engine), and none is copied to fill up;
rollouts that a fault ended are missing; a limit of calls is the environment's (there an end token is appended, and trained on).
Entropies are exact with `engine=hf`; the release sees the likeliest 10 tokens, vLLM
here 20 (lower bounds).
"""

import contextlib
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.jsonl_log import Journal
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.runs.measures import tool_calls
from agent_envs.rollout.lockstep import Lockstep
from trainers.arpo_parts import BranchingSettings, TaskTree, deltas, grow
from trainers.batching import TrainRow
from trainers.command_line import write_settings
from trainers.contracts import common_beginning
from trainers.environments import tasks_of_step
from trainers.grpo import GRPOSettings, rows_of_groups, update_in_parts, with_advantages, with_scores
from trainers.imitation import warm_start
from trainers.run import TrainingRun, run_program
from trainers.sampling import EpisodeGroup, group_of, group_stats, plan_groups, reward_terms
from trainers.training.models import reference_of
from trainers.training.optimise import Ratio, one_budget

DECISIONS = "decisions-{}.jsonl"  # in the run's folder, one file a process
TAU_EPISODES = 64  # episodes whose median of dH is the paper's tau


@dataclass(frozen=True)
class ARPOSettings(GRPOSettings):
    """GRPO over rollouts that branch after tools' results; the other settings are those of GRPO.

    Attributes:
        preset: start from these settings: a name under trainers/presets/arpo, or a .toml file.
        out: folder of the run.
        group_size: leaves of each task (M).
        branching: where rollouts fork; rule "off" is GRPO.
        shared: tokens that leaves share are trained by each of them (soft), or once, with the mean of their advantages (hard).
        weighted: train with weights that share out 1 a root, so that what forked counts no more than what did not.
    """

    out: str = "runs/arpo"
    group_size: int = 16
    branching: BranchingSettings = field(default_factory=BranchingSettings)
    shared: Literal["soft", "hard"] = "soft"
    weighted: bool = False

    def __post_init__(self) -> None:
        """Refuse what no other part would, with a UsageError: more roots than leaves, or credit that knows no trees."""
        GRPOSettings.__post_init__(self)
        if self.branching.roots > self.group_size:
            raise UsageError(f"branching.roots={self.branching.roots}: group_size has the leaves, {self.group_size}")
        if self.credit != "episode" or (self.weighted and self.baseline != "mean"):
            raise UsageError("credit=turn knows no trees, and weighted has the weighted mean as its baseline")


def train(
    settings: ARPOSettings, run: TrainingRun, more: Callable[[dict[str, Any]], dict[str, Any]] = lambda _: {}
) -> dict[str, Any]:
    """Train from where the run stands to its last step and return what is written to OUT/result.json; `more` adds to it."""
    run.parts.processes.check_shares(settings.tasks_per_step, settings.scale)
    if run.fresh:
        warm_start(settings.warm_start, run, settings.seed)
    settings = with_tau(settings, run)
    if run.fresh:
        run.begin()
    reference = reference_of(run) if settings.beta else None
    while not run.over:
        start, cpu = time.perf_counter(), time.process_time()
        # 1. Grow a tree for each task. Every resume grows the same ones, every process its share of them.
        plan, stats = settings.plan(run)
        trees = grow_trees(run.parts.processes.share(plan, together=settings.group_size), run, settings)
        groups = groups_of(trees, run)
        run.parts.policy.forget()
        stats |= group_stats(groups) | tree_stats(trees, groups) | {"cpu_seconds/sampling": time.process_time() - cpu}
        # 2. Rewards become advantages, leaves become rows of tokens.
        rows, owners = rows_of_groups(groups)
        rows, gap = with_scores(rows, run, settings, reference)
        weights = [weight for group in groups for weight in group.weights] if settings.weighted else None
        rows, owners, signal = with_advantages(rows, owners, groups, settings, weights)
        if settings.shared == "hard":
            episodes = [result.trajectory for group in groups for result in group.results]
            rows = shared_once(rows, [episodes[owner] for owner in owners])
        stats |= gap | {"frac_reward_zero_std": 1 - signal, "tokens/distinct_share": distinct_share(rows)}
        # 3. Gradient steps.
        stats |= update_in_parts(rows, run, settings)
        run.weights_changed()
        # 4. What it was like: decisions, metrics, an evaluation when it is due (which never branches), a checkpoint.
        log_decisions(trees, run)
        stats["step_time"], stats["cpu_seconds/step"] = time.perf_counter() - start, time.process_time() - cpu
        turns = [turn for tree in trees for turn in tree.turns]
        run.end_step(stats, groups, turns=len(turns), calls=tool_calls(turns))
    return run.finish(more)


def with_tau(settings: ARPOSettings, run: TrainingRun) -> ARPOSettings:
    """Return settings with a tau for the rule `paper`: the given one, else the median dH of rollouts of the start, written."""
    branching = settings.branching
    if branching.rule != "paper" or branching.tau is not None:
        return settings
    if "tau" not in run.memory:
        tasks = tasks_of_step(0, min(TAU_EPISODES, run.parts.train_size), run.parts.train_size, settings.seed)
        plan = plan_groups(run.parts.spec, run.parts.train_split, tasks, 1, run.key("tau"))
        sampled, results = run.parts.policy.sampled_tokens, run.parts.policy.play(plan).values()
        changes = [d for row in results for d in deltas(row.trajectory.turns, branching, len(run.parts.chat.tokenizer))]
        run.parts.policy.forget()
        run.parts.policy.sampled_tokens = sampled  # which counts training alone, as calls and steps do
        if not changes:
            raise AgentEnvsError("branching.rule='paper': no rollout of the start called a tool; give branching.tau")
        run.memory["tau"] = statistics.median(changes)
    settings_with_tau = replace(settings, branching=replace(branching, tau=run.memory["tau"]))
    if run.parts.accelerator.is_main_process:
        write_settings(settings_with_tau, run.parts.out)
    return settings_with_tau


def grow_trees(plan: Sequence[Any], run: TrainingRun, settings: ARPOSettings) -> list[TaskTree]:
    """Grow the trees of a plan, as many tasks at once as the engine takes rows; AgentEnvsError if every rollout faulted.

    Raises:
        BudgetSpent: nothing may be paid any more, here or in another process.
        AgentEnvsError: a fault ended every rollout.
    """
    block = max(1, settings.sampling.batch // settings.branching.roots) * settings.group_size
    trees, policy = list[TaskTree](), run.parts.policy
    with one_budget(), Lockstep(policy, services=policy.services) as lockstep:
        for start in range(0, len(plan), block):
            trees += grow(plan[start : start + block], lockstep, settings.branching, len(run.parts.chat.tokenizer))
    if not any(tree.leaves() for tree in trees):
        raise AgentEnvsError(f"all {len(plan)} rollouts ended in a fault")
    return trees


def groups_of(trees: Sequence[TaskTree], run: TrainingRun) -> list[EpisodeGroup]:
    """Return the leaves of each tree as a group with weights; trees of faults alone are left out."""
    groups = []
    for tree in trees:
        if leaves := tree.leaves():
            group = group_of([result for result, _ in leaves], run.parts.policy)
            weights = tuple(weight for _, weight in leaves)
            groups.append(replace(group, weights=weights, faults=len(tree.paths) - len(leaves)))
    return groups


def tree_stats(trees: Sequence[TaskTree], groups: Sequence[EpisodeGroup]) -> dict[str, float]:
    """Return the metrics of branching, and the success and reward terms of the policy: leaves count with their weights."""
    leaves = [pair for group in groups for pair in zip(group.results, group.weights, strict=True)]
    total = sum(weight for _, weight in leaves)
    decisions = [row for tree in trees for row in tree.decisions]
    distinct_calls = tool_calls(turn for tree in trees for turn in tree.turns)
    leaf_calls = sum((tool_calls(result.trajectory.turns) for result, _ in leaves), start=Counter[str]())
    metrics = {
        "success": Ratio(sum(result.success * weight for result, weight in leaves), total),
        "reward": Ratio(sum(result.trajectory.total_reward * weight for result, weight in leaves), total),
        "branching/leaves": Ratio(len(leaves), len(trees)),
        "branching/roots": Ratio(sum(len(tree.roots) for tree in trees), len(trees)),
        "branching/missing": Ratio(sum(len(tree.paths) for tree in trees) - len(leaves), len(trees)),
        "branching/nodes": Ratio(len(decisions), len(trees)),
        "branching/forked": Ratio(sum(bool(row["forks"]) for row in decisions), len(decisions)),
        "branching/delta": Ratio(sum(row["delta"] for row in decisions), len(decisions)),
        "branching/probe_calls": Ratio(sum(tree.probe_calls for tree in trees), len(trees)),
        "tools/saved": Ratio(leaf_calls.total() - distinct_calls.total(), leaf_calls.total()),
    }
    # No ratios: a process whose trees made no call of a tool has 0 of it.
    calls = {f"tools/distinct_{name}": count / len(trees) for name, count in sorted(distinct_calls.items())}
    return metrics | reward_terms(leaves) | calls


def shared_once(rows: Sequence[TrainRow], episodes: Sequence[Trajectory]) -> list[TrainRow]:
    """Return rows that train each shared turn in the first of them alone, by the mean advantage; rows left with none go.

    Args:
        rows: of leaves, with the advantages of each.
        episodes: of each row.
    """
    owners: dict[tuple[str, int], list[tuple[int, int]]] = {}  # by token of a turn: where rows have it
    for number, (row, episode) in enumerate(zip(rows, episodes, strict=True)):
        counts: dict[int, int] = {}
        for place, turn in enumerate(row.sequence.turns):
            if row.sequence.trained[place]:
                counts[turn] = counts.get(turn, 0) + 1
                owners.setdefault((episode.turns[turn - 1].node, counts[turn]), []).append((number, place))
    advantages = [list(row.advantages) for row in rows]
    masks = [[False] * len(row.advantages) for row in rows]
    for places in owners.values():
        mean = sum(advantages[number][place] for number, place in places) / len(places)
        for number, place in places:
            advantages[number][place] = 0.0
        number, place = places[0]
        advantages[number][place], masks[number][place] = mean, True
    return [_mask(row, mine, values) for row, mine, values in zip(rows, masks, advantages, strict=True) if any(mine)]


def _mask(row: TrainRow, mask: Sequence[bool], advantages: Sequence[float]) -> TrainRow:
    """Copy a row with other advantages, in which the tokens of `mask` alone are trained and keep logprob and turn."""
    sequence = row.sequence
    logprobs = tuple(value if mine else 0.0 for value, mine in zip(sequence.logprobs, mask, strict=True))
    turns = tuple(turn if mine else 0 for turn, mine in zip(sequence.turns, mask, strict=True))
    thinned = replace(sequence, trained=tuple(mask), logprobs=logprobs, turns=turns)
    return replace(row, sequence=thinned, advantages=tuple(advantages))


def distinct_share(rows: Sequence[TrainRow]) -> float:
    """Return the share of the rows' tokens that are distinct: what rows begin with alike counts once; 0 of none."""
    ordered = sorted(row.sequence.ids for row in rows)
    total = sum(map(len, ordered))
    return (total - sum(common_beginning(*pair) for pair in pairwise(ordered))) / max(1, total)


def log_decisions(trees: Sequence[TaskTree], run: TrainingRun) -> None:
    """Add every decision of a step to a file; of a step that was played twice, after a kill, the later rows count."""
    with contextlib.closing(Journal(run.parts.out / DECISIONS.format(run.parts.accelerator.process_index))) as journal:
        for tree in trees:
            for row in tree.decisions:
                journal.append({"step": run.step, **row})


def main() -> None:
    """Run the command line: train by ARPO; exit with 2 for an error, 130 for Ctrl-C."""
    run_program("arpo", ARPOSettings, train)


if __name__ == "__main__":
    main()
