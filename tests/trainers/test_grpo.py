"""One step of GRPO: rewards to advantages to gradients, on every environment that text can play."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator

from tests.trainers.players import SEARCH, TEXT_NAMES, player
from trainers import grpo
from trainers.batching import in_parts, micro_batches
from trainers.grpo import GRPOSettings
from trainers.sampling import plan_groups, play_groups
from trainers.settings import OptimSettings, SamplingSettings
from trainers.training.forward import token_logprobs
from trainers.training.models import correct_rows
from trainers.training.optimise import Optimiser, Processes

SGD_LIKE = OptimSettings(learning_rate=1e-3, max_grad_norm=0.0)


def run_of(model, chat):
    """Return what `update` needs of a run."""
    accelerator = Accelerator(cpu=True)
    return SimpleNamespace(parts=SimpleNamespace(
        model=model, chat=chat, device=torch.device("cpu"), temperature=1.0, accelerator=accelerator,
        optimiser=Optimiser(model, SGD_LIKE, 1), processes=Processes(accelerator),
    ))  # fmt: skip


def rewarded(groups, rewards):
    """Return groups with these rewards on the last turns of their episodes, in order."""
    left = iter(rewards)

    def last_turn(result):
        *turns, last = result.trajectory.turns
        bare = [replace(turn, reward=0.0) for turn in turns]
        trajectory = replace(result.trajectory, turns=(*bare, replace(last, reward=next(left))))
        return replace(result, trajectory=trajectory)

    return [replace(group, results=tuple(map(last_turn, group.results))) for group in groups]


def played(name="SearchQA", arguments=SEARCH, rewards=(1.0, 0.0, 0.0, 0.0, 1.0, 0.5), size=3, **limits):
    policy, model, chat, spec = player(name, arguments, **limits)
    groups = play_groups(plan_groups(spec, "train", [0, 1], size, "k"), policy)
    return rewarded(groups, rewards), model, chat


@pytest.fixture(scope="module")
def searched():
    """Groups, the model that played them and its tokens, for tests that change none of them."""
    return played()


def rows_for(groups, settings):
    rows, owners = grpo.rows_of_groups(groups)
    trained, _, signal = grpo.with_advantages(rows, owners, groups, settings)
    return trained, signal


def lowered(row, amount):
    """Return the logprobs of a row's trained tokens, all lower."""
    pairs = zip(row.sequence.logprobs, row.sequence.trained, strict=True)
    return tuple(logprob - amount if kept else 0.0 for logprob, kept in pairs)


@pytest.mark.parametrize("name", TEXT_NAMES)  # all but one of each family have the mark.heavy
def test_one_update_on_every_environment(name):
    """The smoke matrix: whatever is registered can be played, rewarded and learnt from."""
    arguments = SEARCH if name == "SearchQA" else {}
    rewards = (1.0, 0.0, 0.0, 1.0)
    groups, model, chat = played(name, arguments, rewards, size=2, max_context=1536, max_new_tokens=4)
    before = copy.deepcopy(model.state_dict())
    rows, signal = rows_for(groups, GRPOSettings())
    stats = grpo.update(rows, run_of(model, chat), GRPOSettings())
    assert signal == 1.0 and sum(group.drift for group in groups) == 0
    assert 0 < stats["grad_norm"] < float("inf") and stats["approx_kl"] < 1e-6 and stats["entropy"] > 0
    assert any(not torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_the_advantages_of_a_hand_worked_table():
    """Groups (1, 0, 0) and (0, 1, 0.5): means 1/3 and 1/2, stds sqrt(1/3) and 1/2."""
    groups, _, _ = played()
    rows, signal = rows_for(groups, replace(GRPOSettings(), scale="group_std"))
    found = [sum(row.advantages) / sum(row.sequence.trained) for row in rows]
    std = (1 / 3) ** 0.5
    wanted = [2 / 3 / std, -1 / 3 / std, -1 / 3 / std, -1.0, 1.0, 0.0]
    assert found == pytest.approx(wanted, abs=5e-4) and signal == 1.0
    for row in rows:
        assert all((share != 0) <= kept for share, kept in zip(row.advantages, row.sequence.trained, strict=True))


def test_a_step_teaches_what_was_rewarded():
    groups, model, chat = played()
    settings = GRPOSettings()
    rows, _ = rows_for(groups, settings)
    run = run_of(model, chat)
    first = logprob_of_each(rows, model, chat)
    grpo.update(rows, run, settings)
    moved = [after - before for before, after in zip(first, logprob_of_each(rows, model, chat), strict=True)]
    assert moved[0] > 0 and moved[4] > 0  # the best of their groups
    assert moved[1] < moved[0] and moved[3] < moved[4]


@pytest.mark.parametrize("rewards", [(1.0, 0.0, 0.0, 1.0, 1.0, 1.0), (1.0,) * 6], ids=["a group", "all groups"])
@pytest.mark.parametrize("loss", ["token_mean", "sequence_mean"])
def test_flat_groups_are_not_computed_and_the_update_is_the_same(searched, monkeypatch, rewards, loss):
    """In float64, as Adam makes much of the rounding of small gradients; after a step, so that there is momentum."""
    groups, model, chat = searched
    settings = replace(GRPOSettings(), loss=loss)
    taught, flat = (rows_for(rewarded(groups, each), settings)[0] for each in ((1.0, 0.0, 0.0, 0.0, 1.0, 0.5), rewards))
    step, computed, updates = grpo.gradient_step, [], []
    count = lambda *args: computed.append(len(args[1].rows)) or token_logprobs(*args)  # noqa: E731
    monkeypatch.setattr(grpo, "token_logprobs", lambda *args, **_: count(*args))
    for as_before in (True, False):
        if as_before:
            monkeypatch.setattr(grpo, "gradient_step", lambda *args, **how: step(*args, **how | {"flat_rows": True}))
        else:
            monkeypatch.setattr(grpo, "gradient_step", step)
        run = run_of(copy.deepcopy(model).double(), chat)
        grpo.update(taught, run, settings)
        computed.clear()
        stats = grpo.update(flat, run, settings)
        assert sum(computed) == (len(flat) if as_before else sum(any(row.advantages) for row in flat))
        updates.append((stats["loss"], stats["grad_norm"], *run.parts.model.parameters()))
    for one, other in zip(*updates, strict=True):
        assert torch.allclose(torch.as_tensor(one), torch.as_tensor(other), rtol=0, atol=1e-7)


def logprob_of_each(rows, model, chat):
    found = [0.0] * len(rows)
    for micro in micro_batches(rows, 4096, chat.pad_id):
        with torch.no_grad():
            sums = token_logprobs(model, micro)[0].sum(dim=1)
        for place, value in zip(micro.rows, sums.tolist(), strict=True):
            found[place] = value
    return found


@pytest.mark.parametrize("loss", ["token_mean", "sequence_mean", "dr_grpo"])
@pytest.mark.parametrize("policy_loss", ["ppo", "gspo", "cispo", "reinforce"])
def test_the_step_does_not_depend_on_the_split_into_micro_batches(searched, loss, policy_loss):
    groups, model, chat = searched
    norms, weights = [], []
    for budget in (150, 100_000):
        settings = replace(GRPOSettings(), loss=loss, policy_loss=policy_loss, entropy=0.01, token_budget=budget)
        rows, _ = rows_for(groups, settings)
        twin = copy.deepcopy(model)
        norms.append(grpo.update(rows, run_of(twin, chat), settings)["grad_norm"])
        weights.append(torch.cat([p.detach().flatten() for p in twin.parameters()]))
    assert norms[0] == pytest.approx(norms[1], rel=1e-5) and norms[0] > 0
    moved = [after - torch.cat([p.detach().flatten() for p in model.parameters()]) for after in weights]
    # Adam's first step is the sign of the gradient: where that is clear, both went the same way.
    assert float((moved[0] - moved[1]).abs().mean()) < 1e-3 * float(moved[0].abs().mean())


def test_flat_groups_and_cut_off_episodes_can_be_left_out():
    groups, _, _ = played(rewards=(1.0, 1.0, 1.0, 0.0, 1.0, 0.0))
    rows, signal = rows_for(groups, GRPOSettings())
    assert signal == 0.5 and len(rows) == 6 and all(not any(row.advantages) for row in rows[:3])
    dropped, _ = rows_for(groups, replace(GRPOSettings(), drop_flat_groups=True))
    assert dropped == rows[3:]
    truncated = [result.trajectory.last.truncated for group in groups for result in group.results]
    whole, _ = rows_for(groups, replace(GRPOSettings(), drop_truncated=True))
    assert whole == [row for row, cut in zip(rows, truncated, strict=True) if not cut] and any(truncated)


def test_nothing_happens_without_a_signal():
    groups, model, chat = played(rewards=(1.0,) * 6)
    settings = replace(GRPOSettings(), drop_flat_groups=True)
    rows, signal = rows_for(groups, settings)
    before = copy.deepcopy(model.state_dict())
    assert (rows, signal) == ([], 0.0) and grpo.update(rows, run_of(model, chat), settings) == {"learning_rate": 1e-3}
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_turn_credit_gives_each_turn_its_own():
    """The first turn of the second episode earns 1 as well: its later turns must not be praised for it."""
    groups, _, _ = played(rewards=(0.0,) * 6)
    first = groups[0].results[1]
    turns = (replace(first.trajectory.turns[0], reward=1.0), *first.trajectory.turns[1:])
    results = list(groups[0].results)
    results[1] = replace(first, trajectory=replace(first.trajectory, turns=turns))
    groups[0] = replace(groups[0], results=tuple(results))
    rows, _ = rows_for(groups, replace(GRPOSettings(), credit="turn"))
    shares = [dict(zip(row.sequence.turns, row.advantages, strict=True)) for row in rows[:3]]
    assert [share[1] for share in shares] == [-0.5, 1.0, -0.5]  # against the mean of the other two
    assert all(share[turn] == 0.0 for share in shares for turn in share if turn != 1)
    assert any(max(share) > 1 for share in shares)


def test_the_kl_is_taken_from_the_reward_of_its_turn():
    groups, _, _ = played()
    rows, owners = grpo.rows_of_groups(groups)
    # A reference that gives every trained token a logprob lower by 0.1: k1 is 0.1 a token.
    further = [replace(row, reference_logprobs=lowered(row, 0.1)) for row in rows]
    settings = replace(GRPOSettings(), beta=0.5, kl="k1", kl_in="reward")
    trained, _, signal = grpo.with_advantages(further, owners, groups, settings)
    assert signal == 1.0 and all(any(row.advantages) for row in trained)
    longest = max(len(result.trajectory.turns) for group in groups for result in group.results)
    table = grpo.penalties(further, owners, torch.zeros(6, longest), settings)
    for row, owner in zip(further, owners, strict=True):
        for turn in set(row.sequence.turns) - {0}:
            count = row.sequence.turns.count(turn)
            assert float(table[owner, turn - 1]) == pytest.approx(-0.5 * 0.1 * count, rel=1e-4)


def test_the_correction_weighs_tokens_by_the_trainers_own_logprobs():
    groups, model, chat = played()
    settings = replace(GRPOSettings(), correction="token_truncate", sampling=SamplingSettings())
    rows, owners = grpo.rows_of_groups(groups)
    skewed = [replace(row, sequence=replace(row.sequence, logprobs=lowered(row, 0.4))) for row in rows]
    weighed, stats = correct_rows(skewed, run_of(model, chat).parts, "token_truncate", 4096)
    found, *_ = grpo.with_advantages(weighed, owners, groups, settings)
    for old, row in zip(grpo.with_advantages(rows, owners, groups, settings)[0], found, strict=True):
        assert row.sequence.logprobs == pytest.approx(old.sequence.logprobs, abs=1e-4)
        wanted = [share * 2.718281828**0.4 for share in old.advantages]  # below the cap of 2
        assert list(row.advantages) == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    assert stats["sampling/sampling_logp_difference/max"] == pytest.approx(0.4, abs=1e-3)


def test_minibatches_hold_every_row_once():
    groups, _, _ = played()
    rows, _ = rows_for(groups, GRPOSettings())
    assert in_parts(rows, 2) == [rows[:3], rows[3:]]  # a group each
    parts = in_parts(rows, 4)
    assert sorted(map(len, parts)) == [1, 1, 2, 2] and sum(parts, []) == rows
