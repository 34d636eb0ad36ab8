"""Logged lengths and tool failure rates of episodes equal those counted from the recorded turns."""

from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import run_episode
from agent_envs.base.messages import ToolResult
from agent_envs.envs.tool_reasoning.tasks import make_source
from agent_envs.rollout.policy import CompanionPolicy
from tests.needs import needs
from tests.trainers.players import player
from trainers.command_line import parse
from trainers.environments import measured_tasks
from trainers.evaluation import Evaluator
from trainers.grpo import GRPOSettings
from trainers.sampling import episode_means, group_stats, plan_groups, play_groups


def played():
    policy, _, _, spec = player("Order", {"size": 2, "max_generations": 2})
    return play_groups(plan_groups(spec, "train", [0, 1, 2], 3, "stats"), policy)


def with_ends(groups, truncated):
    """Return groups of which a limit ended the episodes that are named, and no others."""
    left = iter(truncated)

    def ended(result):
        *turns, last = result.trajectory.turns
        limited = next(left)
        last = replace(last, truncated=limited, terminated=not limited)
        return replace(result, trajectory=replace(result.trajectory, turns=(*turns, last)))

    return [replace(group, results=tuple(map(ended, group.results))) for group in groups]


@needs("[envs]")
def test_terms_that_do_not_apply_are_left_out_of_means():
    """A telecom task is judged by assertions alone: `db: 0.0` would be a mean of nothing."""
    telecom = run_episode(gym.make("agent_envs/Tau2Telecom-v0"), CompanionPolicy("solver"), task=0, split="train").terms
    assert telecom["env_assertion"] == 1.0 and telecom["db"] is None
    rows = [telecom, {**telecom, "env_assertion": 0.0, "db": 0.5}, {"exact_match": 1.0}]
    group = played()[0]
    results = tuple(replace(result, terms=row) for result, row in zip(group.results, rows, strict=True))
    means = episode_means([replace(group, results=results)])
    terms = {name: float(value) for name, value in means.items() if name.startswith("rewards/")}
    assert terms == {"rewards/env_assertion/mean": 0.5, "rewards/db/mean": 0.5, "rewards/exact_match/mean": 1.0}


class Ends:
    """A source of as many tasks as it says, as published sets are."""

    def size(self, split):
        return 5

    def get(self, split, key):
        if not 0 <= key < 5:
            raise KeyError(key)
        return key


def test_a_measurement_goes_beyond_the_size_of_a_source_without_end():
    """ToolReasoning's tasks of level 1 that need a search: 40 by its size, and as many as are asked for behind it."""
    source = make_source(needs=["search"], levels=[1])
    inside, beyond = measured_tasks(source, "test", 40), measured_tasks(source, "test", 50)
    assert sorted(inside) == list(range(40)) and beyond == [*inside, *range(40, 50)]
    assert len({source.get("test", task).id for task in beyond}) == 50
    assert set(measured_tasks(source, "test", 7)) < set(inside)
    assert sorted(measured_tasks(Ends(), "test", 50)) == list(range(5))


def test_lengths_of_terminated_episodes_leave_out_those_that_a_limit_ended():
    groups = with_ends(played(), [True, False, True, True, False, False, True, True, True])
    sampled = [
        sum(sum(turn.sampled or [True] * len(turn.token_ids)) for turn in result.trajectory.turns)
        for group in groups
        for result in group.results
    ]
    kept = [sampled[place] for place in (1, 4, 5)]
    stats = group_stats(groups)
    assert stats["completions/mean_terminated_length"] == sum(kept) / 3
    assert stats["completions/mean_terminated_length"].count == 3
    assert stats["completions/min_terminated_length"] == min(kept)
    assert stats["completions/max_terminated_length"] == max(kept)
    assert stats["completions/clipped_ratio"] == 6 / 9 and stats["completions/max_length"] == max(sampled)


def test_where_nothing_terminated_there_is_no_shortest_length():
    stats = group_stats(with_ends(played(), [True] * 9))
    assert stats["completions/mean_terminated_length"] == 0.0 and stats["completions/clipped_ratio"] == 1.0
    assert not {"completions/min_terminated_length", "completions/max_terminated_length"} & set(stats)


def test_failures_are_a_share_of_the_calls():
    groups = played()
    results = [
        [ToolResult("1", "swap", "", error=error) for error in row] for row in ([False, True], [], [True, False])
    ]
    left = iter(results)

    def called(result):
        first, *turns = result.trajectory.turns
        bare = [replace(turn, results=()) for turn in turns]
        turns = (replace(first, results=tuple(next(left, ()))), *bare)
        return replace(result, trajectory=replace(result.trajectory, turns=turns))

    groups = [replace(group, results=tuple(map(called, group.results))) for group in groups]
    stats = group_stats(groups)
    assert stats["tools/failure_frequency"] == 0.5 and stats["tools/failure_frequency"].count == 4
    assert group_stats(with_ends(played()[:0], []))["tools/failure_frequency"] == 0.0


@pytest.mark.parametrize(
    ("wrappers", "words", "sides"),
    [
        ("[]", [], {"within"}),
        ('[{"TurnLimit": {"turns": 2}}]', [], {"within", "bare"}),
        ('[{"TurnLimit": {"turns": 2}}]', ["--evaluation.no-bare"], {"within"}),
        ('[{"TurnLimit": {"turns": 2}}, {"Memory": {"turns": 1}}]', [], {"within"}),
    ],
)
def test_the_bare_environment_is_measured_where_it_is_the_same_game(wrappers, words, sides, tmp_path):
    given = ["--env.id", "Order", "--env.wrappers", wrappers, *words, "--out", str(tmp_path)]
    settings, _ = parse(GRPOSettings, given, program="grpo")
    assert set(Evaluator(settings, None, None)._specs) == sides
