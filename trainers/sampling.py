"""Groups of episodes that start alike are planned and played for a trainer, onto trajectory trees, and counted for its log.

The record of truth is the tree; from it a player rebuilds the very tokens that the model saw, and `EpisodeGroup.drift` counts
where it could not. A step's groups are shared out among the environments of a mixture: each gets its share, rounded up or down
by a draw of the step's own, and of its tasks every one comes once before any comes again. All follows from the seed and the
step.
"""

import contextlib
import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.jsonl_log import Journal
from agent_envs.core.trajectory import Trajectory, TrajectoryTree, Turn
from agent_envs.evaluation.runs.measures import tool_calls, valid_turn
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.policy import origin_of
from agent_envs.services.run_services import Services
from agent_envs.wrappers.feedback_models import feedback_usage
from trainers.contracts import TokenSequence
from trainers.environments import TrainEnvironment, tasks_at, tasks_of_step
from trainers.tokens import drift as drifted
from trainers.training.optimise import Ratio

NOTHING = TokenSequence((), (), (), ())
Play = Callable[[Sequence[Planned]], dict[str, EpisodeResult]]


@dataclass(frozen=True)
class EpisodeGroup:
    """Episodes that started alike: one tree, its trajectories in the order of their rollout index.

    Attributes:
        tree: all turns.
        results: of the episodes that were played to their end; faults are left out.
        sequences: the tokens of each result, without what follows the last sampled token.
        drift: tokens that the record could not rebuild exactly; 0, or there is a bug.
        faults: episodes that an outside fault ended: they have no reward.
        weights: of the results, where they are leaves of a tree that branches; empty where all count alike.
    """

    tree: TrajectoryTree
    results: tuple[EpisodeResult, ...]
    sequences: tuple[tuple[TokenSequence, ...], ...]
    drift: int
    faults: int
    weights: tuple[float, ...] = ()

    @property
    def turns(self) -> int:
        """Turns of all its episodes."""
        return sum(len(result.trajectory.turns) for result in self.results)


def plan_groups(spec: str, split: str, tasks: Sequence[int], group_size: int, key: str) -> list[Planned]:
    """Return the plan of groups that start identically: same task, same environment seed, sampling keyed by rollout."""
    return [
        Planned(f"{key}/{place}.{task}/{rollout}", spec, task, split, seed=task, trial=rollout)
        for place, task in enumerate(tasks)
        for rollout in range(group_size)
    ]


class Player(Protocol):
    """Plays episodes and keeps them as tokens: what an `EnginePolicy` is to text, and `expanded.ExpandedPlayer` to ExpA ids.

    Attributes:
        batch: how many episodes it plays at a time.
        sampled_tokens: drawn so far, over all episodes.
        edited: turns whose text the environment recorded otherwise than it was sampled.
        services: what stands before the outside services of the environments that it plays.
        report: called with "episodes" and the share of a plan that is played, as it grows.
    """

    services: Services
    report: Callable[[str, float], None]
    batch: int
    sampled_tokens: int
    edited: int

    def play(self, plan: Sequence[Planned]) -> dict[str, EpisodeResult]:
        """Return the results of a plan by key: all of them, faults among them.

        Raises:
            BudgetSpent: nothing may be paid any more for the others.
        """
        ...

    def sequences(self, episode_key: str) -> list[TokenSequence]:
        """Return the tokens of an episode as they were sampled."""
        ...

    def rebuild(self, trajectory: Trajectory) -> list[TokenSequence]:
        """Return the same tokens made from the record alone."""
        ...

    def demonstration_tokens(
        self, trajectory: Trajectory, spec: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[TokenSequence]:
        """Encode another agent's episode, in a spec's environment with these tools, as tokens."""
        ...

    def forget(self) -> None:
        """Drop everything that is kept of episodes."""
        ...


def play_groups(
    plan: Sequence[Planned], policy: Player, *, keep: bool = False, play: Play | None = None
) -> list[EpisodeGroup]:
    """Play a plan; return its groups in order but those of faults alone (AgentEnvsError if all are); forget, unless `keep`.

    Args:
        plan: of groups, as `plan_groups` makes it.
        policy: who plays, and knows the tokens.
        keep: whether it forgets nothing.
        play: how the policy plays the plan; None for `policy.play`.

    Raises:
        BudgetSpent: nothing may be paid any more for the others: a part of a plan is none to learn from.
        AgentEnvsError: every episode ended in a fault: there is nothing to learn from.
    """
    results = (play or policy.play)(plan)
    keys: dict[str, list[str]] = {}
    for item in plan:
        keys.setdefault(item.key.rpartition("/")[0], []).append(item.key)
    groups = [group_of([results[key] for key in members], policy) for members in keys.values()]
    if not keep:
        policy.forget()
    if not any(group.results for group in groups):
        raise AgentEnvsError(f"all {len(plan)} episodes ended in a fault, the first: {results[plan[0].key].fault}")
    return [group for group in groups if group.results]


def group_of(results: Sequence[EpisodeResult], policy: Player) -> EpisodeGroup:
    """Group episodes that started alike with their tokens; those that an outside fault ended are counted and left out."""
    episodes = tuple(result for result in results if result.status in ("terminated", "truncated"))
    if not episodes:
        return EpisodeGroup(TrajectoryTree(results[0].trajectory.header, ()), (), (), 0, len(results))
    tree = TrajectoryTree(episodes[0].trajectory.header, episodes[0].trajectory.prompt)
    sequences, drift = [], 0
    for result in episodes:
        tree.add(result.trajectory)
        rebuilt = [trim(sequence) for sequence in policy.rebuild(result.trajectory)]
        header = result.trajectory.header
        origin = origin_of(header.episode_key, header.branch)
        sampled = [trim(sequence) for sequence in policy.sequences(origin)]
        drift += sum(drifted(*pair) for pair in itertools.zip_longest(sampled, rebuilt, fillvalue=NOTHING))
        sequences.append(sampled_parts(sampled))
    return EpisodeGroup(tree, episodes, tuple(sequences), drift, len(results) - len(episodes))


def log_episodes(groups: Sequence[EpisodeGroup], step: int, path: Path) -> None:
    """Add the episodes of a step to a file, with their tokens."""
    with contextlib.closing(Journal(path)) as journal:
        for group in groups:
            for result in group.results:
                journal.append({"step": step, "trajectory": result.trajectory.to_json()})


def sampled_parts(sequences: Sequence[TokenSequence]) -> tuple[TokenSequence, ...]:
    """Return those of an episode's sequences in which something was sampled, up to their last trained token."""
    return tuple(trim(sequence) for sequence in sequences if any(sequence.trained))


def trim(sequence: TokenSequence) -> TokenSequence:
    """Return a sequence up to its last trained token: nothing after it can matter to a causal model."""
    length = max((place + 1 for place, trained in enumerate(sequence.trained) if trained), default=0)
    return sequence.upto(length)


def shares(weights: Sequence[float], count: int, seed: int, step: int) -> list[int]:
    """Divide a step's `count` groups among environments by weights, rounded by a seeded draw; their sum is `count`."""
    draw = random.Random(f"mixture:{seed}:{step}").random()
    marks = [math.floor(count * edge / sum(weights) + draw) for edge in accumulate(weights, initial=0.0)]
    marks[-1] = count
    return [stop - start for start, stop in pairwise(marks)]


def step_plan(
    environments: Sequence[TrainEnvironment], split: str, counts: tuple[int, int], step: int, seed: int
) -> list[Planned]:
    """Return the plan of a step's groups: of one environment in order, of several by their weights and shuffled.

    Args:
        environments: where they are played.
        split: of the tasks.
        counts: of groups, and of episodes in each.
        step: from 0.
        seed: of the order of tasks.
    """
    groups, size, key = *counts, f"{seed}/train/{step}"
    if len(environments) == 1:
        return plan_groups(
            environments[0].spec, split, tasks_of_step(step, groups, environments[0].size, seed), size, key
        )
    weights = [environment.weight for environment in environments]
    group_counts = [shares(weights, groups, seed, earlier) for earlier in range(step + 1)]
    pairs = []
    for place, environment in enumerate(environments):
        first = sum(row[place] for row in group_counts[:-1])
        tasks = tasks_at(range(first, first + group_counts[-1][place]), environment.size, seed)
        pairs += [(environment.spec, task) for task in tasks]
    random.Random(f"order:{seed}:{step}").shuffle(pairs)  # minibatches take groups as they come
    plans = [plan_groups(spec, split, [task], size, f"{key}/{place}") for place, (spec, task) in enumerate(pairs)]
    return [episode for plan in plans for episode in plan]


def episode_means(groups: Sequence[EpisodeGroup]) -> dict[str, float]:
    """Return means over all episodes, and least and most tokens: reward, turns (`turn_means`), tools, terms, feedback."""
    results = [result for group in groups for result in group.results]
    episodes = [result.trajectory for result in results]
    turns = [turn for episode in episodes for turn in episode.turns]
    calls = [tool_calls(episode.turns) for episode in episodes]
    names = sorted({name for call in calls for name in call})
    tokens = sampled_tokens(groups)
    return {
        "reward": _mean([episode.total_reward for episode in episodes]),
        "turns": _mean([len(episode.turns) for episode in episodes]),
        **turn_means(turns, [turn for result in results if result.success for turn in result.trajectory.turns]),
        "completions/mean_length": _mean(tokens),
        "completions/min_length": min(tokens, default=0),
        "completions/max_length": max(tokens, default=0),
        "completions/clipped_ratio": _mean([episode.last.truncated for episode in episodes]),
        "tools/call_frequency": _mean([sum(call.values()) for call in calls]),
        **{f"tools/{name}": _mean([call[name] for call in calls]) for name in names},
        **reward_terms([(result, 1.0) for result in results]),
        **_feedback(results),
    }


def turn_means(turns: Sequence[Turn], successes: Sequence[Turn]) -> dict[str, float]:
    """Return the share of valid turns, and means over sampled tokens: entropy, and the logprob of those of right answers.

    Both are the sampler's own numbers, of the distribution that was drawn from. The last is a reading of arXiv 2512.04220,
    which warns of a fall in the likelihood of right answers. The paper follows given answers through an update, which takes a
    pass over them; this follows the policy's own of each step. It is left out where nothing succeeded.

    Args:
        turns: of all episodes.
        successes: turns of the episodes that succeeded.
    """
    means = {"valid_actions": Ratio(sum(map(valid_turn, turns)), len(turns))}
    rows = (("entropy", "entropies", turns), ("right_logprob", "logprobs", successes))
    for name, column, some in rows:
        values = [value for turn in some for value in own_tokens(turn, getattr(turn, column))]
        means |= {f"completions/{name}": Ratio(math.fsum(values), len(values))} if values else {}
    return means


def own_tokens(turn: Turn, values: Sequence[float]) -> list[float]:
    """Return those of a turn's values, one a token or none at all, that are of tokens which the policy sampled."""
    mask = turn.sampled if values and turn.sampled else (True,) * len(values)
    return [value for value, sampled in zip(values, mask, strict=True) if sampled]


def _feedback(results: Sequence[EpisodeResult]) -> dict[str, float]:
    """Return feedback an episode: messages, and calls and tokens of a chat model that gave it; {} where there was none."""
    message_count, usage = 0, Counter[str]()
    for result in results:
        messages = [*result.trajectory.prompt, *(m for turn in result.trajectory.turns for m in turn.observation)]
        message_count += sum(message.author == "feedback" for message in messages)
        usage.update(feedback_usage(result.usage))
    totals = {"messages": message_count, **usage} if message_count else {}
    return {f"feedback/{name}": total / len(results) for name, total in totals.items()}


def _outcomes(groups: Sequence[EpisodeGroup]) -> dict[str, float]:
    """Return TRL's numbers of the episodes that no limit ended, without extremes where there are none, and of tools."""
    episodes = [result.trajectory for group in groups for result in group.results]
    pairs = zip(sampled_tokens(groups), episodes, strict=True)
    lengths = [tokens for tokens, episode in pairs if not episode.last.truncated]
    results = [result for episode in episodes for turn in episode.turns for result in turn.results]
    extremes = {"min": min(lengths), "max": max(lengths)} if lengths else {}
    return {
        "completions/mean_terminated_length": Ratio(sum(lengths), len(lengths)),
        **{f"completions/{name}_terminated_length": value for name, value in extremes.items()},
        "tools/failure_frequency": Ratio(sum(bool(result.error) for result in results), len(results)),
    }


def sampled_tokens(groups: Sequence[EpisodeGroup]) -> list[int]:
    """Count the sampled tokens of each episode."""
    return [sum(map(sum, (sequence.trained for sequence in row))) for group in groups for row in group.sequences]


def reward_terms(episodes: Sequence[tuple[EpisodeResult, float]]) -> dict[str, float]:
    """Return the mean of each term of the reward, under TRL's names, over the episodes that it applies to, if any.

    Args:
        episodes: each with its weight.
    """
    rows: dict[str, list[tuple[float, float]]] = {}
    for result, weight in episodes:
        for name, value in result.terms.items():
            if value is not None:
                rows.setdefault(f"rewards/{name}/mean", []).append((value * weight, weight))
    return {name: Ratio(*map(sum, zip(*row, strict=True))) for name, row in rows.items()}


def _mean(values: Sequence[float]) -> float:
    """Return the mean of values; 0 of none."""
    return sum(values) / max(1, len(values))


def distinct_calls(groups: Sequence[EpisodeGroup], forks: Sequence[Trajectory] = ()) -> Counter[str]:
    """Count the calls of each tool, in groups and in forks of their episodes; in turns that are shared, once."""
    turns = {name: node.turn for group in groups for name, node in group.tree.nodes.items()}
    return tool_calls((turns | {turn.node: turn for fork in forks for turn in fork.turns}).values())


def group_stats(groups: Sequence[EpisodeGroup]) -> dict[str, float]:
    """Return a step's metrics: episodes' means, TRL's outcomes, success, rewards' std (0 for one episode), drift, faults."""
    results = [result for group in groups for result in group.results]
    rewards = [result.trajectory.total_reward for result in results]
    return {
        **episode_means(groups),
        **_outcomes(groups),
        "success": _mean([result.success for result in results]),
        "reward_std": statistics.stdev(rewards) if len(rewards) > 1 else 0.0,
        "drift": sum(group.drift for group in groups),
        "faults": sum(group.faults for group in groups),
    }
