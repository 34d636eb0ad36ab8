"""Groups of equal starts: the tree is the record, and from it come the very tokens that were sampled."""

from collections import Counter
from dataclasses import replace

import gymnasium as gym
import pytest
import torch

from agent_envs import EnvFault
from agent_envs.base.errors import AgentEnvsError
from agent_envs.core.env import spec_json
from agent_envs.core.trajectory import Turn
from agent_envs.wrappers import ForcedAnswer, Memory
from tests.toy import ID as GUESS
from tests.trainers.players import SEARCH, player
from trainers.batching import TrainRow, micro_batches
from trainers.contracts import TokenSequence
from trainers.environments import tasks_of_step
from trainers.sampling import plan_groups, play_groups, trim, turn_means
from trainers.training.forward import token_logprobs


def play(policy, spec, tasks=(0, 1), size=3, key="k"):
    return play_groups(plan_groups(spec, "train", list(tasks), size, key), policy)


def all_sequences(groups):
    return [sequence for group in groups for row in group.sequences for sequence in row]


def test_entropy_is_of_all_sampled_tokens_and_the_logprob_of_right_answers_of_theirs():
    right = Turn(1, "a", "x", None, (), entropies=(9.0, 1.0), logprobs=(9.0, -1.0), sampled=(False, True))
    wrong = Turn(1, "b", "x", None, (), entropies=(2.0, 3.0), logprobs=(-7.0, -8.0))
    demonstrated = Turn(2, "a", "x", None, ())
    told = turn_means([right, wrong, demonstrated], [right, demonstrated])
    assert told["completions/entropy"] == 2.0 and told["completions/right_logprob"] == -1.0
    assert turn_means([wrong], [])["completions/entropy"] == 2.5
    assert "completions/right_logprob" not in turn_means([wrong], [])


def test_a_group_starts_alike_and_goes_its_ways():
    policy, _, _, spec = player("SearchQA", SEARCH)
    groups = play(policy, spec, size=4)
    for group in groups:
        assert len(list(group.tree.paths())) == 4 == len(group.results)
        assert len({result.trajectory.prompt for result in group.results}) == 1
        assert len({result.trajectory.header.task_id for result in group.results}) == 1
        assert len({result.trajectory.turns[0].action for result in group.results}) > 1
    assert groups[0].tree.root.task_id != groups[1].tree.root.task_id


def test_the_same_key_plays_the_same_and_another_does_not():
    policy, _, _, spec = player("SearchQA", SEARCH)
    one, two, other = (all_sequences(play(policy, spec, key=key)) for key in ("a", "a", "b"))
    assert one == two != other


@pytest.mark.parametrize("name, arguments", [("SearchQA", SEARCH), ("Sort", {"size": 3}), ("Arithmetic", {})])
def test_recorded_logprobs_are_those_of_a_fresh_pass_over_the_whole_conversation(name, arguments):
    """Over all turns at once, without any cache: what was sampled token by token, turn by turn."""
    policy, model, chat, spec = player(name, arguments)
    groups = play(policy, spec)
    sequences = all_sequences(groups)
    assert sum(group.drift for group in groups) == 0
    assert sum(sum(sequence.trained) for sequence in sequences) == policy.sampled_tokens > 0
    rows = [TrainRow(sequence, (0.0,) * len(sequence.ids)) for sequence in sequences]
    for micro in micro_batches(rows, 4096, chat.pad_id):
        found, _ = token_logprobs(model, micro)
        assert torch.allclose(found, micro.old_logprobs, atol=1e-4)


def test_only_what_the_policy_sampled_is_trained():
    policy, _, chat, spec = player("SearchQA", SEARCH)
    for group in play(policy, spec):
        for result, (sequence,) in zip(group.results, group.sequences, strict=True):
            by_turn = Counter(turn for turn in sequence.turns if turn)
            for turn in result.trajectory.turns:
                mine = tuple(
                    token for token, owner in zip(sequence.ids, sequence.turns, strict=True) if owner == turn.index
                )
                assert mine == turn.token_ids and by_turn[turn.index] == len(turn.logprobs)
            assert sequence.trained == tuple(turn > 0 for turn in sequence.turns) and sequence.trained[-1]
            assert not any(sequence.trained[: len(chat.open(result.trajectory.prompt).ids)])


def test_a_prefill_is_given_and_not_trained():
    policy, _, _, spec = player("SearchQA", SEARCH)
    forced = spec_json(ForcedAnswer(gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH), free_turns=0))
    groups = play(policy, forced)
    assert sum(group.drift for group in groups) == 0
    for group in groups:
        for result, (sequence,) in zip(group.results, group.sequences, strict=True):
            (turn,) = result.trajectory.turns
            given = len(turn.token_ids) - sum(turn.sampled)
            assert turn.action.startswith("<answer>") and given > 0 and not any(turn.sampled[:given])
            assert sum(sequence.trained) == sum(turn.sampled)


def test_a_replaced_context_is_a_sequence_of_its_own():
    policy, model, chat, _ = player("SearchQA", SEARCH)
    memory = spec_json(Memory(gym.make("agent_envs:agent_envs/SearchQA-v0", **SEARCH), turns=1))
    groups = play(policy, memory)
    assert sum(group.drift for group in groups) == 0
    for group in groups:
        for result, sequences in zip(group.results, group.sequences, strict=True):
            assert len(sequences) == len(result.trajectory.turns)
            assert [set(sequence.turns) - {0} for sequence in sequences] == [{n + 1} for n in range(len(sequences))]
    rows = [TrainRow(sequence, (0.0,) * len(sequence.ids)) for sequence in all_sequences(groups)]
    for micro in micro_batches(rows, 4096, chat.pad_id):
        assert torch.allclose(token_logprobs(model, micro)[0], micro.old_logprobs, atol=1e-4)


def test_a_full_context_ends_what_the_policy_says():
    policy, _, chat, spec = player("SearchQA", {**SEARCH, "max_generations": 6})
    policy, _, chat, spec = player(
        "SearchQA", SEARCH, max_context=len(chat.open([{"role": "user", "content": "?"}]).ids) + 60
    )
    groups = play(policy, spec, size=6)
    assert sum(group.drift for group in groups) == 0
    said = [turn for group in groups for result in group.results for turn in result.trajectory.turns]
    assert any(turn.action == "" and turn.token_ids == () for turn in said)
    assert all(sequence.trained[-1] for sequence in all_sequences(groups))


def test_a_fault_leaves_its_group_and_gets_no_reward(monkeypatch):
    policy, _, _, spec = player("SearchQA", SEARCH)
    act = policy.act

    def failing(requests):
        if any(request.episode_key.endswith("0.0/1") for request in requests):
            raise EnvFault("the engine is down", retryable=False)
        return act(requests)

    monkeypatch.setattr(policy, "act", failing)
    policy.batch = 1
    first, second = play(policy, spec)
    assert (first.faults, len(first.results), len(first.sequences)) == (1, 2, 2)
    assert (second.faults, len(second.results)) == (0, 3)
    monkeypatch.setattr(policy, "act", lambda requests: (_ for _ in ()).throw(EnvFault("down", retryable=False)))
    with pytest.raises(AgentEnvsError, match="all 6 episodes ended in a fault, the first: down"):
        play(policy, spec)


def test_a_third_partys_environment_is_played_too():
    policy, _, _, spec = player(GUESS)
    groups = play(policy, spec)
    assert sum(group.drift for group in groups) == 0 and all(len(group.results) == 3 for group in groups)


def test_every_task_comes_once_before_any_comes_again():
    steps = [tasks_of_step(step, 4, 10, seed=3) for step in range(5)]
    flat = [task for step in steps for task in step]
    assert sorted(flat[:10]) == sorted(flat[10:]) == list(range(10)) and flat[:10] != flat[10:]
    assert steps == [tasks_of_step(step, 4, 10, seed=3) for step in range(5)]
    assert flat != [task for step in range(5) for task in tasks_of_step(step, 4, 10, seed=4)]
    assert sorted(tasks_of_step(0, 25, 10, seed=0)) == sorted(
        [*range(10), *range(10), *tasks_of_step(0, 25, 10, 0)[20:]]
    )


def test_nothing_after_the_last_trained_token_is_kept():
    sequence = TokenSequence((5, 6, 7, 8), (False, True, False, False), (0.0, -1.0, 0.0, 0.0), (0, 1, 0, 0))
    short = trim(sequence)
    assert short == TokenSequence((5, 6), (False, True), (0.0, -1.0), (0, 1)) == trim(short)
    assert trim(replace(sequence, trained=(False,) * 4)).ids == ()
