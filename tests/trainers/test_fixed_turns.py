"""Batches of a fixed number of turns: lanes that go on, states behind cuts, and a batch that a checkpoint repeats."""

import json
from dataclasses import replace

import pytest

from agent_envs import AgentEnvsError, BudgetSpent, EnvFault
from agent_envs.rollout.lockstep import Lockstep
from tests.trainers.players import SEARCH, player
from trainers.environments import environment_spec
from trainers.fixed_turns import FixedTurns, LanePlan, LaneTurns, state_before
from trainers.sampling import plan_groups

ORDER = {"size": 2, "max_generations": 3}


def lane_plan_of(policy=None, wrappers=(("Memory", {"turns": 1}),), **limits):
    policy, _, chat, _ = player("Order", ORDER, **limits)
    return policy, LanePlan(environment_spec("Order", ORDER, list(wrappers)), "train", 50, 4, 0), chat.end_ids[0]


def played(batches=2, turns=3, states=(), **how):
    policy, lane_plan, end = lane_plan_of(**how)
    found = []
    with FixedTurns(lane_plan, policy, 768, end, dict(states)) as lanes:
        lanes.open(range(4))
        for _ in range(batches):
            found.append(lanes.play(turns))
        return found, lanes.state_dict()


def lanes_of(lanes):
    return [row.lane for row in lanes._rows.values()]


def test_a_batch_has_its_turns_whatever_the_episodes_do():
    found, _ = played(batches=3, turns=4)
    for batch, told in found:
        assert [len(lane) for lane in batch] == [4] * 4 and told["turns"] == 16 and told["empty_turns"] == 0
        for lane in batch:
            for number, point in enumerate(lane):
                over = point.turn.terminated or point.turn.truncated
                cut = number == 3 and not over
                assert bool(point.next_state) == (cut or (point.turn.truncated and not point.turn.terminated))
                following = lane[number + 1].turn.index if number < 3 else None
                assert following in (None, 1 if over else point.turn.index + 1)
    assert sum(told["episodes_ended"] for _, told in found) > 4
    assert any(point.turn.truncated for batch, _ in found for lane in batch for point in lane)


def test_the_log_has_what_the_policy_is_like_and_how_likely_right_answers_are():
    """The turns of an episode that succeeded in this batch are looked up by its reward, which ends it."""
    found, _ = played(batches=6, turns=4)
    right = 0
    for batch, told in found:
        values = [value for lane in batch for point in lane for value in point.turn.entropies]
        assert told["completions/entropy"] == pytest.approx(sum(values) / len(values))
        turns = [point.turn for lane in batch for point in lane]
        won = {turn.origin for turn in turns if turn.reward > 0.5}
        logprobs = [value for turn in turns if turn.origin in won for value in turn.logprobs]
        assert told.get("completions/right_logprob", 0.0) == pytest.approx(sum(logprobs) / max(1, len(logprobs)))
        right += bool(won)
    assert right > 1


def test_only_the_turn_s_own_tokens_are_trained_with_and_without_memory():
    for wrappers in ((("Memory", {"turns": 1}),), ()):
        ((batch, _), *_), _ = played(wrappers=wrappers)
        for lane in batch:
            for point in lane:
                own = [number for number, kept in zip(point.sequence.ids, point.sequence.trained, strict=True) if kept]
                assert tuple(own) == point.turn.token_ids and point.sequence.trained[-1]


def test_the_state_behind_a_cut_is_what_the_next_turn_begins_with():
    for wrappers in ((("Memory", {"turns": 1}),), ()):
        (one, two), _ = played(turns=2, wrappers=wrappers)
        pairs = list(zip(one[0], two[0], strict=True))
        cuts = [(before[-1], after[0]) for before, after in pairs if before[-1].next_state and after[0].turn.index > 1]
        assert cuts
        for before, after in cuts:
            prompt = after.sequence.ids[: after.sequence.trained.index(True)]
            assert before.next_state == prompt


def test_batches_go_on_from_a_checkpoint_as_if_nothing_had_been():
    whole, _ = played(batches=4)
    _, states = played(batches=2)
    rest, _ = played(batches=2, states=json.loads(json.dumps(states)))
    assert [told for _, told in rest] == [told for _, told in whole[2:]]
    for (mine, _), (theirs, _) in zip(rest, whole[2:], strict=True):
        assert [[(p.sequence, p.next_state) for p in lane] for lane in mine] == [
            [(p.sequence, p.next_state) for p in lane] for lane in theirs
        ]


def test_a_checkpoint_stands_still_while_lanes_play_on():
    policy, lane_plan, end = lane_plan_of()
    with FixedTurns(lane_plan, policy, 400, end) as lanes:
        lanes.open(range(4))
        lanes.play(2)
        states = lanes.state_dict()
        stood = json.dumps(states)
        lanes.play(1)
        assert json.dumps(states) == stood and any(state["walk"]["record"]["turns"] for _, state in states)


def test_staggered_lanes_have_ages_that_spread_over_the_limit():
    """Eight turns over four lanes: none, 2, 4 and 6, of which episodes of three turns have ended; nothing of them is data."""
    policy, lane_plan, end = lane_plan_of()
    with FixedTurns(lane_plan, policy, 400, end) as lanes:
        lanes.open(range(4))
        assert lanes.stagger(8) == 0 + 2 + 4 + 6
        assert len({(lane.item.trial, len(lane.walk.turns)) for lane in lanes_of(lanes)}) == 4
        assert not lanes_of(lanes)[0].walk.turns and all(
            len(talk.conversations) == 1 for talk in policy._histories.values()
        )
        batch, told = lanes.play(2)
        assert told["turns"] == 8 and told["faults"] == 0
        assert [lane[0].turn.index for lane in batch][:2] == [1, 3]


def test_contexts_of_earlier_turns_are_not_kept():
    policy, lane_plan, end = lane_plan_of()
    with FixedTurns(lane_plan, policy, 400, end) as lanes:
        lanes.open(range(4))
        for _ in range(3):
            lanes.play(2)
            assert (
                all(len(talk.conversations) == 1 for talk in policy._histories.values()) and len(policy._histories) <= 4
            )


def test_each_task_comes_once_before_any_comes_again():
    lane_plan = LanePlan("", "train", 12, 4, 7)
    tasks = [lane_plan.episode(lane, number).task for number in range(6) for lane in range(4)]
    assert sorted(tasks[:12]) == sorted(tasks[12:]) == list(range(12))
    assert len({lane_plan.episode(lane, number).key for number in range(6) for lane in range(4)}) == 24


def test_a_turn_without_room_is_empty_and_keeps_its_state():
    found, _ = played(batches=1, turns=3, max_context=8)
    batch, told = found[0]
    assert told["empty_turns"] == 12
    assert all(sum(point.sequence.trained) == 1 and point.empty for lane in batch for point in lane)


def test_faults_cost_turns_and_the_lane_begins_anew():
    policy, lane_plan, end = lane_plan_of()
    with FixedTurns(lane_plan, policy, 400, end) as lanes:
        lanes.open(range(4))
        broken = lanes_of(lanes)[2]
        broken.walk.env.unwrapped.step = failing(EnvFault("the service is gone", retryable=False))
        batch, told = lanes.play(3)
        assert told["faults"] == 3 and batch[2] == [] and [len(lane) for lane in batch[:2]] == [3, 3]
        assert lanes.play(1)[1]["faults"] == 1 and lanes_of(lanes)[2].item.trial == 3
        for lane in lanes_of(lanes):
            lane.env.unwrapped.step = failing(EnvFault("the service is gone", retryable=False))
        with pytest.raises(
            AgentEnvsError, match="all turns of 4 lanes were lost to faults, the last: the service is gone"
        ):
            lanes.play(1)


def failing(error):
    def step(action):
        raise error

    return step


def test_a_state_is_a_sequence_with_one_token_that_nobody_said():
    found = state_before((4, 5), 9)
    assert found.ids == (4, 5, 9) and found.trained == (False, False, True)
    assert replace(found, ids=()).turns == (0, 0, 1)


# The turns of a lane.


def searching(tasks, wrappers=(), **limits):
    """Return a policy, its lockstep and one lane of each task, with its turns."""
    arguments = {**SEARCH, "max_generations": 4}
    policy, _, _, _ = player("SearchQA", arguments, **limits)
    lockstep = Lockstep(policy)
    plan = plan_groups(environment_spec("SearchQA", arguments, list(wrappers)), "train", tasks, 1, "k")
    return policy, lockstep, [LaneTurns(lane) for lane in lockstep.begin(plan)]


def step(policy, lockstep, rows):
    going = [row for row in rows if not row.lane.over]
    lockstep.step([row.lane for row in going])
    for row in going:
        row.take(policy)


def test_steps_carry_the_tokens_up_to_their_turn():
    policy, lockstep, (row,) = searching([0])
    while not row.lane.over:
        step(policy, lockstep, [row])
    (whole,) = policy.sequences(row.lane.origin)
    for each in row.steps:
        part = each.sequence()
        assert part.ids == whole.ids[: len(part.ids)] and part.trained == whole.trained[: len(part.ids)]
        own = [part.ids[at] for at, turn in enumerate(part.turns) if turn == each.turn.index]
        assert tuple(own) == each.turn.token_ids and each.sampled == len(own) and part.trained[-1]
    assert len(row.cut()) == len(row.lane.walk.turns) and row.steps == [] and row.whole == 0


def test_a_turn_without_room_is_recorded_and_is_no_data_point():
    policy, lockstep, (row,) = searching([0], max_context=140)
    while not row.lane.over:
        step(policy, lockstep, [row])
    assert [each.sampled > 0 for each in row.steps] == [bool(each.turn.token_ids) for each in row.steps]
    assert row.steps[-1].sampled == 0 and len(row.steps) == len(row.lane.walk.turns)


def test_under_memory_each_turn_is_a_sequence_of_its_own():
    policy, lockstep, (row,) = searching([0], [("Memory", {"turns": 1})])
    while not row.lane.over:
        step(policy, lockstep, [row])
    numbers = [set(each.sequence().turns) - {0} for each in row.steps]
    assert numbers == [{each.turn.index} for each in row.steps] and len(numbers) > 1


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
    policy, lockstep, (one, two) = searching([0, 1])
    while not one.lane.over:
        step(policy, lockstep, [one])
    whole = list(one.steps)
    lockstep.release(one.lane)
    (one.lane,) = lockstep.begin([replace(one.lane.item, key="k/next")])
    one.lane.env.unwrapped.step = Failing(one.lane.env.unwrapped, 2, EnvFault("the index is gone"))
    step(policy, lockstep, [one, two])
    assert len(one.steps) == len(whole) + 1
    step(policy, lockstep, [one, two])
    assert one.lane.over and one.lane.fault == "the index is gone" and one.steps == whole and one.lost == 1
    assert len(two.steps) == 2 and not two.lane.fault
    two.lane.env.unwrapped.step = Failing(two.lane.env.unwrapped, 1, BudgetSpent("no dollar is left"))
    with pytest.raises(BudgetSpent, match="no dollar"):
        step(policy, lockstep, [two])
