"""Lanes: environments that play on in step, are forked between turns, cut, and go on from a checkpoint."""

import json
import threading
import time
from dataclasses import replace

import pytest

from agent_envs import BudgetSpent, EnvFault, UsageError
from agent_envs.core.trajectory import TrajectoryTree
from tests.trainers.players import SEARCH, player
from trainers.environments import environment_spec
from trainers.lanes import Lanes
from trainers.sampling import plan_groups
from trainers.tokens import drift

ARGUMENTS = {**SEARCH, "max_generations": 4}


def searching(tasks=(0, 1), group=2, **limits):
    policy, _, _, spec = player("SearchQA", ARGUMENTS, **limits)
    return policy, plan_groups(spec, "train", list(tasks), group, "k")


def played(policy, plan, order=None, batch=None):
    """Return the records of a plan, played to the end in lanes, by key."""
    with Lanes(policy) as lanes:
        row = lanes.open(plan)
        row = row if order is None else [row[place] for place in order]
        while not all(lane.over for lane in row):
            lanes.turn(row)
        return {lane.item.key: replace(lane.walk.result().trajectory, task=None) for lane in row}


def test_lanes_play_what_run_many_plays_in_any_order_and_beside_anything():
    policy, plan = searching()
    wanted = {key: result.trajectory for key, result in policy.play(plan).items()}
    policy.forget()
    assert played(policy, plan) == wanted and len(wanted) == 4
    policy.forget()
    assert played(policy, plan, [3, 1, 0, 2]) == wanted
    alone, _ = searching(batch=1)
    (mine,), theirs = played(alone, plan[2:3]).values(), wanted[plan[2].key]
    for turn, other in zip(mine.turns, theirs.turns, strict=True):  # up to the rounding of another batch
        assert replace(turn, logprobs=(), entropies=()) == replace(other, logprobs=(), entropies=())
        assert turn.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_a_fork_draws_for_itself_and_the_same_branch_draws_the_same():
    policy, plan = searching(tasks=[0], group=1)
    with Lanes(policy) as lanes:
        (trunk,) = lanes.open(plan)
        lanes.turn([trunk])
        forks = [lanes.fork(trunk, "b1"), lanes.fork(trunk, "b2")]
        everyone = [trunk, *forks]
        while not all(lane.over for lane in everyone):
            lanes.turn(everyone)
        records = [lane.walk.result().trajectory for lane in everyone]
        said = [[turn.token_ids for turn in record.turns] for record in records]
        assert said[0][0] == said[1][0] == said[2][0] and len({rows[1] for rows in said}) == 3
        tree = TrajectoryTree(records[0].header, records[0].prompt)
        for record in records:
            tree.add(record)
            assert drift(policy.sequences(lane_of(everyone, record).origin)[0], policy.rebuilt(record)[0]) == 0
        assert len(tree.nodes) == 1 + sum(len(rows) - 1 for rows in said)
        assert [len(lane.steps) for lane in everyone] == [len(rows) - (place > 0) for place, rows in enumerate(said)]
    policy.forget()
    with Lanes(policy) as lanes:  # the same branch of another run, alone
        (trunk,) = lanes.open(plan)
        lanes.turn([trunk])
        fork = lanes.fork(trunk, "b2")
        lanes.turn([fork])
        assert fork.steps[0].turn.token_ids == said[2][1] and len(trunk.steps) == 1


def lane_of(lanes, record):
    return next(lane for lane in lanes if lane.walk.header == record.header)


@pytest.mark.parametrize("wrappers", [(), [("Memory", {"turns": 1})]])
def test_forks_at_the_beginning_of_the_newest_turn_prefill_one_token(wrappers):
    """They are taken before the turn, its entropies decide, and what the trunk read in it they need not read again."""
    policy, _, _, _ = player("SearchQA", ARGUMENTS)
    plan = plan_groups(environment_spec("SearchQA", ARGUMENTS, wrappers), "train", [0], 1, "k")
    with Lanes(policy) as lanes:
        (trunk,) = lanes.open(plan)
        lanes.turn([trunk])
        forks = [lanes.fork(trunk, "b1"), lanes.fork(trunk, "b2")]
        before = policy._engine.prefilled_tokens
        lanes.turn([trunk])
        assert policy._engine.prefilled_tokens - before > 20
        before = policy._engine.prefilled_tokens
        lanes.turn(forks)
        assert policy._engine.prefilled_tokens - before == 1 and policy._engine.cache_misses == 0


def test_what_is_kept_of_replaced_contexts_stays_flat_over_many_turns():
    """Under `Memory` each turn has a context of its own, and the engine keeps that of the newest turn alone."""
    policy, _, _, _ = player("BabyAI", {"max_turns": 128}, max_context=4096, max_new_tokens=4)
    plan = plan_groups(environment_spec("BabyAI", {"max_turns": 128}, [("Memory", {"turns": 1})]), "train", [0], 1, "k")
    kept = []
    with Lanes(policy) as lanes:
        (lane,) = lanes.open(plan)
        while not lane.over:
            lanes.turn([lane])
            kept.append(policy._engine.kept_tokens)
            length = len(policy.newest(lane.origin).ids)
            assert kept[-1] < length
    assert len(kept) == 128


def test_steps_carry_the_tokens_up_to_their_turn():
    policy, plan = searching(tasks=[0], group=1)
    with Lanes(policy) as lanes:
        (lane,) = lanes.open(plan)
        while not lane.over:
            lanes.turn([lane])
        (whole,) = policy.sequences(lane.origin)
        for step in lane.steps:
            part = step.sequence()
            assert part.ids == whole.ids[: len(part.ids)] and part.trained == whole.trained[: len(part.ids)]
            own = [part.ids[at] for at, turn in enumerate(part.turns) if turn == step.turn.index]
            assert tuple(own) == step.turn.token_ids and step.sampled == len(own) and part.trained[-1]
        (steps,) = lanes.cut([lane])
        assert len(steps) == len(lane.walk.turns) and lane.steps == []


def test_a_turn_without_room_is_recorded_and_is_no_data_point():
    policy, plan = searching(tasks=[0], group=1, max_context=140)
    with Lanes(policy) as lanes:
        (lane,) = lanes.open(plan)
        while not lane.over:
            lanes.turn([lane])
        assert [step.sampled > 0 for step in lane.steps] == [bool(step.turn.token_ids) for step in lane.steps]
        assert lane.steps[-1].sampled == 0 and len(lane.steps) == len(lane.walk.turns)


def test_a_lane_plays_the_next_episode_and_a_batch_is_cut_anywhere():
    policy, plan = searching(tasks=[0, 1, 2], group=1)
    with Lanes(policy) as lanes:
        (lane,) = lanes.open(plan[:1])
        with pytest.raises(UsageError, match="is not over"):
            lanes.again([lane], plan[1:2])
        left = list(plan[1:])
        batches = []
        for _ in range(3):
            for _ in range(2):
                lanes.turn([lane])
                if lane.over and left:
                    lanes.again([lane], [left.pop(0)])
            batches += lanes.cut([lane])
        keys = [step.origin for batch in batches for step in batch]
        assert [len(batch) for batch in batches] == [2, 2, 2] and len(set(keys)) > 1 and keys == sorted(keys)


def test_lanes_go_on_from_a_checkpoint_as_if_nothing_had_been():
    policy, plan = searching()
    with Lanes(policy) as lanes:
        row = lanes.open(plan)
        lanes.turn(row)
        row.append(lanes.fork(row[0], "b1"))
        with pytest.raises(UsageError, match="cut"):
            lanes.moments(row)
        lanes.cut(row)
        kept = json.dumps(lanes.moments(row))
        policy._engine.forget()
        while not all(lane.over for lane in row):
            lanes.turn(row)
    other, _ = searching()
    with Lanes(other) as lanes:
        again = lanes.restored(json.loads(kept))
        while not all(lane.over for lane in again):
            lanes.turn(again)
    assert len(again) == 5
    for lane, twin in zip(row, again, strict=True):
        record = twin.walk.result().trajectory
        assert twin.origin == lane.origin and replace(lane.walk.result().trajectory, task=record.task) == record
        assert other.sequences(twin.origin) == policy.sequences(lane.origin)
        assert [step.sequence() for step in twin.steps] == [step.sequence() for step in lane.steps]


def test_under_memory_each_turn_is_a_sequence_of_its_own():
    policy, plan = searching(tasks=[0], group=1)
    spec = environment_spec("SearchQA", ARGUMENTS, [("Memory", {"turns": 1})])
    with Lanes(policy) as lanes:
        row = lanes.open([replace(plan[0], spec=spec)])
        lanes.turn(row)
        row = lanes.restored(json.loads(json.dumps(lanes.moments(cut(lanes, row)))))
        while not row[0].over:
            lanes.turn(row)
        numbers = [set(step.sequence().turns) - {0} for step in row[0].steps]
        assert numbers == [{step.turn.index} for step in row[0].steps] and len(numbers) > 1


def cut(lanes, row):
    lanes.cut(row)
    return row


def test_a_policy_that_only_writes_refuses_expanded_actions_at_once():
    policy, plan = searching(tasks=[0], group=1)
    with Lanes(policy) as lanes, pytest.raises(UsageError, match="expanded actions"):
        lanes.open([replace(plan[0], spec=environment_spec("SortExpA", {}))])


class Failing:
    """Steps like the environment behind it, and fails at a turn."""

    def __init__(self, env, turn, error):
        self.step_of, self.left, self.error = env.step, turn, error

    def __call__(self, action):
        self.left -= 1
        if not self.left:
            raise self.error
        return self.step_of(action)


def test_a_fault_takes_the_turns_since_the_last_whole_episode():
    policy, plan = searching(tasks=[0, 1, 2], group=1)
    with Lanes(policy) as lanes:
        row = lanes.open(plan[:2])
        while not row[0].over:
            lanes.turn(row[:1])
        whole = list(row[0].steps)
        lanes.again(row[:1], plan[2:])
        row[0].env.unwrapped.step = Failing(row[0].env.unwrapped, 2, EnvFault("the index is gone"))
        lanes.turn(row)
        assert len(row[0].steps) == len(whole) + 1
        lanes.turn(row)
        assert row[0].over and row[0].fault == "the index is gone" and row[0].steps == whole and row[0].lost == 1
        assert len(row[1].steps) == 2 and not row[1].fault
        row[1].env.unwrapped.step = Failing(row[1].env.unwrapped, 1, BudgetSpent("no dollar is left"))
        with pytest.raises(BudgetSpent, match="no dollar"):
            lanes.turn(row[1:])


def test_environments_step_at_the_same_time():
    """Thirty-two environments that wait for one another can only end if all of them step at once."""
    policy, plan = searching(tasks=range(32), group=1)
    gate = threading.Barrier(32, timeout=30)
    with Lanes(policy) as lanes:
        row = lanes.open(plan)
        for number, lane in enumerate(row):
            step, pause = lane.env.unwrapped.step, (number * 7 % 5) / 1000

            def wait(action, step=step, pause=pause):
                gate.wait()
                time.sleep(pause)
                return step(action)

            lane.env.unwrapped.step = wait
        lanes.turn(row)
        waited = [lane.steps[0].turn for lane in row]
    policy.forget()
    with Lanes(policy, threads=1) as lanes:
        row = lanes.open(plan)
        lanes.turn(row)
        assert [lane.steps[0].turn for lane in row] == waited


def test_two_forks_of_one_name_are_refused():
    policy, plan = searching(tasks=[0], group=1)
    with Lanes(policy) as lanes:
        (trunk,) = lanes.open(plan)
        lanes.turn([trunk])
        lanes.fork(trunk, "x")
        with pytest.raises(UsageError, match="give each fork a branch of its own"):
            lanes.fork(trunk, "x")
        lanes.turn([trunk])
        with pytest.raises(UsageError, match="give each fork a branch of its own"):
            lanes.fork(trunk, "x")


def test_moments_stand_still_while_lanes_play_on():
    policy, plan = searching(tasks=[0], group=1)
    with Lanes(policy) as lanes:
        row = lanes.open(plan)
        lanes.turn(row)
        lanes.cut(row)
        moments = lanes.moments(row)
        stood = json.dumps(moments)
        lanes.turn(row)
        assert json.dumps(moments) == stood


def test_lanes_that_may_not_begin_again_are_left_as_they_are():
    policy, plan = searching(tasks=[0, 1], group=1)
    with Lanes(policy) as lanes:
        row = lanes.open(plan)
        while not row[0].over:
            lanes.turn(row[:1])
        for bad, message in ((plan, "k/1.1/0 is not over"), (plan[:1], "2 lanes need as many")):
            with pytest.raises(UsageError, match=message):
                lanes.again(row, bad)
        assert row[0].walk.result().trajectory.turns and policy.sequences(row[0].origin)
