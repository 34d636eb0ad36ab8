"""Batches of a fixed number of turns: lanes that go on, states behind cuts, and a batch that a checkpoint repeats."""

import json
from dataclasses import replace

import pytest

from agent_envs import AgentEnvsError, EnvFault
from tests.trainers.players import player
from trainers.environments import environment_spec
from trainers.fixed_turns import Course, FixedTurns, state_before

ORDER = {"size": 2, "max_generations": 3}


def course_of(policy=None, wrappers=(("Memory", {"turns": 1}),), **limits):
    policy, _, chat, _ = player("Order", ORDER, **limits)
    return policy, Course(environment_spec("Order", ORDER, list(wrappers)), "train", 50, 4, 0), chat.end_ids[0]


def played(batches=2, turns=3, moments=(), **how):
    policy, course, end = course_of(**how)
    found = []
    with FixedTurns(course, policy, 400, end, dict(moments)) as lanes:
        lanes.open(range(4))
        for _ in range(batches):
            found.append(lanes.play(turns))
        return found, lanes.moments()


def test_a_batch_has_its_turns_whatever_the_episodes_do():
    found, _ = played(batches=3, turns=4)
    for batch, told in found:
        assert [len(lane) for lane in batch] == [4] * 4 and told["turns"] == 16 and told["empty_turns"] == 0
        for lane in batch:
            for number, point in enumerate(lane):
                over = point.turn.terminated or point.turn.truncated
                cut = number == 3 and not over
                assert bool(point.ahead) == (cut or (point.turn.truncated and not point.turn.terminated))
                following = lane[number + 1].turn.index if number < 3 else None
                assert following in (None, 1 if over else point.turn.index + 1)
    assert sum(told["episodes_ended"] for _, told in found) > 4
    assert any(point.turn.truncated for batch, _ in found for lane in batch for point in lane)


def test_only_the_turn_s_own_tokens_are_trained_with_and_without_memory():
    for wrappers in ((("Memory", {"turns": 1}),), ()):
        ((batch, _), *_), _ = played(wrappers=wrappers)
        for lane in batch:
            for point in lane:
                own = [number for number, kept in zip(point.sequence.ids, point.sequence.trained, strict=True) if kept]
                assert tuple(own) == point.turn.token_ids and point.sequence.trained[-1]


def test_the_state_behind_a_cut_is_what_the_next_turn_begins_with():
    for wrappers in ((("Memory", {"turns": 1}),), ()):
        (one, two), _ = played(wrappers=wrappers)
        pairs = list(zip(one[0], two[0], strict=True))
        cuts = [(before[-1], after[0]) for before, after in pairs if before[-1].ahead and after[0].turn.index > 1]
        assert cuts
        for before, after in cuts:
            prompt = after.sequence.ids[: after.sequence.trained.index(True)]
            assert before.ahead == prompt


def test_batches_go_on_from_a_checkpoint_as_if_nothing_had_been():
    whole, _ = played(batches=4)
    _, moments = played(batches=2)
    rest, _ = played(batches=2, moments=json.loads(json.dumps(moments)))
    assert [told for _, told in rest] == [told for _, told in whole[2:]]
    for (mine, _), (theirs, _) in zip(rest, whole[2:], strict=True):
        assert [[(p.sequence, p.ahead) for p in lane] for lane in mine] == [
            [(p.sequence, p.ahead) for p in lane] for lane in theirs
        ]


def test_staggered_lanes_have_ages_that_spread_over_the_limit():
    """Eight turns over four lanes: none, 2, 4 and 6, of which episodes of three turns have ended; nothing of them is data."""
    policy, course, end = course_of()
    with FixedTurns(course, policy, 400, end) as lanes:
        lanes.open(range(4))
        assert lanes.stagger(8) == 0 + 2 + 4 + 6
        assert len({(lane.item.trial, len(lane.walk.turns)) for lane in lanes._row.values()}) == 4
        assert not lanes._row[0].walk.turns and all(len(talk.conversations) == 1 for talk in policy._talks.values())
        batch, told = lanes.play(2)
        assert told["turns"] == 8 and told["faults"] == 0
        assert [lane[0].turn.index for lane in batch][:2] == [1, 3]


def test_contexts_of_earlier_turns_are_not_kept():
    policy, course, end = course_of()
    with FixedTurns(course, policy, 400, end) as lanes:
        lanes.open(range(4))
        for _ in range(3):
            lanes.play(2)
            assert all(len(talk.conversations) == 1 for talk in policy._talks.values()) and len(policy._talks) <= 4


def test_each_task_comes_once_before_any_comes_again():
    course = Course("", "train", 12, 4, 7)
    tasks = [course.episode(lane, number).task for number in range(6) for lane in range(4)]
    assert sorted(tasks[:12]) == sorted(tasks[12:]) == list(range(12))
    assert len({course.episode(lane, number).key for number in range(6) for lane in range(4)}) == 24


def test_a_turn_without_room_is_empty_and_keeps_its_state():
    found, _ = played(batches=1, turns=3, max_context=8)
    batch, told = found[0]
    assert told["empty_turns"] == 12
    assert all(sum(point.sequence.trained) == 1 and point.empty for lane in batch for point in lane)


def test_faults_cost_turns_and_the_lane_begins_anew():
    policy, course, end = course_of()
    with FixedTurns(course, policy, 400, end) as lanes:
        lanes.open(range(4))
        broken = lanes._row[2]
        broken.walk.env.unwrapped.step = failing(EnvFault("the service is gone", retryable=False))
        batch, told = lanes.play(3)
        assert told["faults"] == 3 and batch[2] == [] and [len(lane) for lane in batch[:2]] == [3, 3]
        assert lanes.play(1)[1]["faults"] == 1 and lanes._row[2].item.trial == 3
        for lane in lanes._row.values():
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
