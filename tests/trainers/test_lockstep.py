"""An engine's policy in lockstep: its tokens are those of any other batch, forks share them, and checkpoints keep them."""

import threading
import time
from dataclasses import replace

import pytest

from agent_envs import UsageError
from agent_envs.core.trajectory import TrajectoryTree
from agent_envs.rollout.lockstep import Lockstep
from agent_envs.rollout.run_many import run_many
from tests.trainers.players import SEARCH, player
from trainers.environments import environment_spec
from trainers.sampling import plan_groups
from trainers.tokens import drift

ARGUMENTS = {**SEARCH, "max_generations": 4}


def searching(tasks=(0, 1), group=2, **limits):
    policy, _, _, spec = player("SearchQA", ARGUMENTS, **limits)
    return policy, plan_groups(spec, "train", list(tasks), group, "k")


def played(policy, plan, order=None, batch=None):
    """Return the records of a plan, played to the end in lockstep, by key."""
    with Lockstep(policy) as lockstep:
        lanes = lockstep.begin(plan)
        lanes = lanes if order is None else [lanes[place] for place in order]
        while not all(lane.over for lane in lanes):
            lockstep.step(lanes)
        return {lane.item.key: replace(lane.result().trajectory, task=None) for lane in lanes}


def without_rounding(trajectory):
    """Return its turns without numbers that depend on the size of a batch, and these numbers."""
    turns = [replace(turn, logprobs=(), entropies=()) for turn in trajectory.turns]
    return turns, [number for turn in trajectory.turns for number in (*turn.logprobs, *turn.entropies)]


def test_batches_of_any_size_play_what_one_by_one_play_gives():
    """So do more episodes at a time than the engine takes rows, or the policy requests."""
    alone, plan = searching(tasks=range(12), group=2, batch=1)
    records = {key: result.trajectory for key, result in alone.play(plan).items()}
    assert len({turn.action for record in records.values() for turn in record.turns}) > 24

    def compare(results):
        assert results.keys() == records.keys()
        for key, result in results.items():
            (turns, numbers), (others, rounded) = map(without_rounding, (result.trajectory, records[key]))
            assert turns == others and numbers == pytest.approx(rounded, abs=1e-4)

    for batch, rows in ((24, 24), (5, 5), (24, 6)):
        policy, _ = searching(batch=batch)
        policy._engine.batch = rows
        compare(policy.play(plan))
    policy, _ = searching(batch=6)
    compare({item.key: result for item, result in run_many(plan, policy, concurrency=18)})


def test_lanes_play_what_run_many_plays_in_any_order():
    policy, plan = searching()
    wanted = {key: result.trajectory for key, result in policy.play(plan).items()}
    policy.forget()
    assert played(policy, plan) == wanted and len(wanted) == 4
    policy.forget()
    assert played(policy, plan, [3, 1, 0, 2]) == wanted


def test_a_fork_draws_for_itself_and_the_same_branch_draws_the_same():
    policy, plan = searching(tasks=[0], group=1)
    with Lockstep(policy) as lockstep:
        (trunk,) = lockstep.begin(plan)
        lockstep.step([trunk])
        forks = [lockstep.fork(trunk, "b1"), lockstep.fork(trunk, "b2")]
        everyone = [trunk, *forks]
        while not all(lane.over for lane in everyone):
            lockstep.step(everyone)
        records = [lane.walk.result().trajectory for lane in everyone]
        tokens = [[turn.token_ids for turn in record.turns] for record in records]
        assert tokens[0][0] == tokens[1][0] == tokens[2][0] and len({rows[1] for rows in tokens}) == 3
        tree = TrajectoryTree(records[0].header, records[0].prompt)
        for record in records:
            tree.add(record)
            assert drift(policy.sequences(lane_of(everyone, record).origin)[0], policy.rebuild(record)[0]) == 0
        assert len(tree.nodes) == 1 + sum(len(rows) - 1 for rows in tokens)
    policy.forget()
    with Lockstep(policy) as lockstep:  # the same branch of another run, alone
        (trunk,) = lockstep.begin(plan)
        lockstep.step([trunk])
        fork = lockstep.fork(trunk, "b2")
        lockstep.step([fork])
        assert fork.walk.turns[1].token_ids == tokens[2][1] and len(trunk.walk.turns) == 1


def lane_of(lanes, record):
    return next(lane for lane in lanes if lane.walk.header == record.header)


@pytest.mark.parametrize("wrappers", [(), [("Memory", {"turns": 1})]])
def test_forks_at_the_beginning_of_the_newest_turn_prefill_one_token(wrappers):
    """They are taken before the turn, its entropies decide, and what the trunk read in it they need not read again."""
    policy, _, _, _ = player("SearchQA", ARGUMENTS)
    plan = plan_groups(environment_spec("SearchQA", ARGUMENTS, wrappers), "train", [0], 1, "k")
    with Lockstep(policy) as lockstep:
        (trunk,) = lockstep.begin(plan)
        lockstep.step([trunk])
        forks = [lockstep.fork(trunk, "b1"), lockstep.fork(trunk, "b2")]
        before = policy._engine.prefilled_tokens
        lockstep.step([trunk])
        assert policy._engine.prefilled_tokens - before > 20
        before = policy._engine.prefilled_tokens
        lockstep.step(forks)
        assert policy._engine.prefilled_tokens - before == 1 and policy._engine.cache_misses == 0


@pytest.mark.needs("[babyai]")
def test_what_is_kept_of_replaced_contexts_stays_flat_over_many_turns():
    """Under `Memory` each turn has a context of its own, and the engine keeps that of the newest turn alone."""
    policy, _, _, _ = player("BabyAI", {"max_turns": 128}, max_context=4096, max_new_tokens=4)
    plan = plan_groups(environment_spec("BabyAI", {"max_turns": 128}, [("Memory", {"turns": 1})]), "train", [0], 1, "k")
    kept = []
    with Lockstep(policy) as lockstep:
        (lane,) = lockstep.begin(plan)
        while not lane.over:
            lockstep.step([lane])
            kept.append(policy._engine._sessions.tokens)
            length = len(policy.newest(lane.origin).ids)
            assert kept[-1] < length
    assert len(kept) == 128


def test_a_policy_that_only_writes_refuses_expanded_actions_at_once():
    policy, plan = searching(tasks=[0], group=1)
    with Lockstep(policy) as lockstep, pytest.raises(UsageError, match="expanded actions"):
        lockstep.begin([replace(plan[0], spec=environment_spec("SortExpA", {}))])


def test_environments_step_at_the_same_time():
    """Thirty-two environments that wait for one another can only end if all of them step at once."""
    policy, plan = searching(tasks=range(32), group=1)
    gate = threading.Barrier(32, timeout=30)
    with Lockstep(policy) as lockstep:
        row = lockstep.begin(plan)
        for number, lane in enumerate(row):
            step, pause = lane.env.unwrapped.step, (number * 7 % 5) / 1000

            def wait(action, step=step, pause=pause):
                gate.wait()
                time.sleep(pause)
                return step(action)

            lane.env.unwrapped.step = wait
        lockstep.step(row)
        waited = [lane.walk.turns[0] for lane in row]
    policy.forget()
    with Lockstep(policy, threads=1) as lockstep:
        row = lockstep.begin(plan)
        lockstep.step(row)
        assert [lane.walk.turns[0] for lane in row] == waited


def test_two_forks_of_one_name_are_refused():
    policy, plan = searching(tasks=[0], group=1)
    with Lockstep(policy) as lockstep:
        (trunk,) = lockstep.begin(plan)
        lockstep.step([trunk])
        lockstep.fork(trunk, "x")
        with pytest.raises(UsageError, match="give each fork a branch of its own"):
            lockstep.fork(trunk, "x")
        lockstep.step([trunk])
        with pytest.raises(UsageError, match="give each fork a branch of its own"):
            lockstep.fork(trunk, "x")
