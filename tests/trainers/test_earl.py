"""EARL: what one step does with groups that failed, and with the others; its terms against float64."""

import copy
from dataclasses import replace

import gymnasium as gym
import pytest
import torch

from agent_envs import EnvFault, env_ids
from agent_envs.base.errors import UsageError
from tests.trainers.earl_runs import expanded_run, paper_settings, text_run
from trainers import earl
from trainers.batching import micro_batches
from trainers.earl import EARLSettings
from trainers.earl_parts.counterfactual.interventions import forkable, routes_of
from trainers.earl_parts.counterfactual.optimisation import CounterfactualSettings, RouteChoice
from trainers.sampling import plan_groups, play_groups, trim
from trainers.tokens import drift
from trainers.training.forward import head_of, token_scores
from trainers.training.models import ReferenceModel, with_reference

SMALL = {"numbers": 2, "digits": 1, "max_actions": 16}
FACES = ["CountdownExpA", "Countdown"]
EXPA_IDS = [name.split("/")[-1].removesuffix("-v0") for name in env_ids() if "ExpA" in name]


def opened(face):
    if face.endswith("ExpA"):
        return expanded_run(face, limits={"max_new_tokens": 30}, **SMALL)
    return text_run(face, {"numbers": 2, "digits": 1, "max_generations": 3})


def played(run, size=3, tasks=(0, 1, 2)):
    plan = plan_groups(run.parts.spec, "train", list(tasks), size, "k")
    run.player = forkable(run.parts.policy)
    return plan, play_groups(plan, run.parts.policy, keep=True, play=run.player.play)


def rewarded(groups, rewards):
    """Return groups with these rewards on the last turns of their episodes, in order; None where they are as they were."""
    left = iter(rewards)

    def last_turn(result):
        reward = next(left)
        if reward is None:
            return result
        *turns, last = result.trajectory.turns
        bare = [replace(turn, reward=0.0) for turn in turns]
        trajectory = replace(result.trajectory, turns=(*bare, replace(last, reward=reward)))
        return replace(result, trajectory=trajectory)

    return [replace(group, results=tuple(map(last_turn, group.results))) for group in groups]


def again_with(again, rewards):
    """Return episodes played again with these rewards, by the order of their keys."""
    left = dict(zip(sorted(again), rewards, strict=True))

    def paid(found, reward):
        *turns, last = found.result.trajectory.turns
        turns = (*[replace(turn, reward=0.0) for turn in turns], replace(last, reward=reward))
        return replace(found, result=replace(found.result, trajectory=replace(found.result.trajectory, turns=turns)))

    return {key: paid(found, left[key]) for key, found in again.items()}


@pytest.mark.parametrize("face", FACES)
def test_failed_groups_train_counterfactuals_and_flat_ones_nothing(face):
    """Group 0 failed, group 1 has a winner, group 2 is flat and won: rows are of 0 with R' - R, and of 1 as in GRPO."""
    run, settings = opened(face), paper_settings()
    plan, groups = played(run)
    groups = rewarded(groups, [-1.0, 0.0, -0.5, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    route = routes_of(run.parts.environment())[0]
    again = earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
    assert set(again) == {f"k/0.0/{rollout}" for rollout in range(3)}
    again = again_with(again, [1.0, 0.5, -0.5])  # the last gained nothing
    rows, told = earl.rows_with_advantages(groups, again, settings)
    std = (1 / 3) ** 0.5
    shares = [{share for share, kept in zip(row.advantages, row.sequence.trained, strict=True) if kept} for row in rows]
    wanted = [2.0, 0.5, 2 / 3 / std, -1 / 3 / std, -1 / 3 / std]
    assert [share for (share,) in shares] == pytest.approx(wanted, rel=1e-5)
    assert all(
        not share for row in rows for share, kept in zip(row.advantages, row.sequence.trained, strict=True) if not kept
    )
    assert [row.sequence for row in rows[:2]] == [again[f"k/0.0/{number}"].sequences[0] for number in (0, 1)]
    assert [row.sequence for row in rows[2:]] == [sequence for (sequence,) in groups[1].sequences]
    assert told == {"frac_reward_zero_std": pytest.approx(1 / 3)}


def test_an_episode_with_the_mean_reward_stays_in_its_group():
    run, settings = opened("Countdown"), paper_settings()
    _, groups = played(run, tasks=(0,))
    rows, _ = earl.rows_with_advantages(rewarded(groups, [0.0, 0.5, 1.0]), {}, settings)
    assert len(rows) == 3 and not any(rows[1].advantages)


def test_rows_come_in_the_order_of_their_groups():
    """A failed group between two others: minibatches must not hold all counterfactuals in the first."""
    run, settings = opened("CountdownExpA"), paper_settings()
    plan, groups = played(run, size=2)
    groups = rewarded(groups, [1.0, 0.0, -1.0, -1.0, 1.0, 0.0])
    again = earl.play_counterfactuals(groups, plan, routes_of(run.parts.environment())[0], run.player, run, settings)
    again = again_with(again, [1.0] * len(again))
    rows, _ = earl.rows_with_advantages(groups, again, settings)
    assert [max(map(abs, row.advantages)) > 1.5 for row in rows] == [False] * 2 + [True] * len(again) + [False] * 2


@pytest.mark.parametrize("face", FACES)
def test_what_is_played_again_is_what_its_record_says(face):
    """No drift, old logprobs are the policy's, a shared prefix is as it was sampled, and limits hold."""
    run, settings = opened(face), paper_settings()
    plan, groups = played(run, size=4)
    groups = rewarded(groups, [0.0] * 12)
    route = routes_of(run.parts.environment())[0]
    sampled = run.parts.policy.sampled_tokens
    again = earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
    assert len(again) >= 8 and run.parts.policy.sampled_tokens > sampled
    factual = {
        result.trajectory.header.episode_key: sequences[0]
        for group in groups
        for result, sequences in zip(group.results, group.sequences, strict=True)
    }
    for key, found in again.items():
        (sequence,) = found.sequences
        (rebuilt,) = [trim(one) for one in run.parts.policy.rebuild(found.result.trajectory)]
        assert drift(sequence, rebuilt) == 0 and sequence.logprobs == pytest.approx(rebuilt.logprobs)
        assert (sequence.targets, sequence.legal) == (rebuilt.targets, rebuilt.legal)
        before = factual[key]
        shared = next(
            (n for n, pair in enumerate(zip(before.ids, sequence.ids, strict=False)) if pair[0] != pair[1]),
            min(len(before.ids), len(sequence.ids)),
        )
        first = sequence.trained.index(True) if any(sequence.trained) else 0
        assert shared >= min(first, before.trained.index(True))  # the prompt, at least
    rows, _ = earl.rows_with_advantages(groups, again_with(again, [1.0] * len(again)), settings)
    assert len(rows) == len(again)
    for micro in micro_batches(rows, 100_000, run.parts.chat.pad_id):
        with torch.no_grad():
            scores = token_scores(run.parts.model, micro, 1.0)
        assert torch.allclose(scores.logprobs, micro.old_logprobs, atol=1e-4)


def test_the_forced_action_is_trained_only_where_that_is_asked_for():
    counts = []
    for trained in (True, False):
        run = opened("CountdownExpA")
        settings = paper_settings(counterfactual={"train_forced": trained})
        plan, groups = played(run)
        groups = rewarded(groups, [0.0] * 9)
        route = routes_of(run.parts.environment())[0]
        again = earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
        counts.append(sum(sum(found.sequences[0].trained) for found in again.values()))
        played_on = len(again)
    assert counts[0] - counts[1] == played_on > 0


@pytest.mark.parametrize("face", FACES)
def test_one_step_moves_the_weights_and_its_split_does_not_matter(face):
    run = opened(face)
    plan, groups = played(run)
    groups = rewarded(groups, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.5])
    route = routes_of(run.parts.environment())[0]
    settings = paper_settings(entropy=0.01, beta=0.1)
    again = earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
    rows, _ = earl.rows_with_advantages(groups, again_with(again, [1.0] * len(again)), settings)
    rows = with_reference(rows, run.parts, ReferenceModel(run.parts.model), 4000, vocabulary=True)
    found = []
    for budget in (60, 100_000):
        twin = opened(face)
        twin.parts.model.load_state_dict(run.parts.model.state_dict())
        stats = earl.update(rows, twin, replace(settings, token_budget=budget))
        found.append(stats)
    assert found[0]["grad_norm"] == pytest.approx(found[1]["grad_norm"], rel=1e-4) and found[0]["grad_norm"] > 0
    for name in ("loss", "entropy", "expanded_actions", "kl"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4, abs=1e-6), name
    assert found[0]["kl"] == pytest.approx(0, abs=1e-6) and found[0]["approx_kl"] < 1e-6
    assert (found[0]["expanded_actions"] > 0) == (face == "CountdownExpA")


def test_nothing_happens_without_a_signal():
    run, settings = opened("CountdownExpA"), paper_settings(beta=0.1, entropy=0.1)
    _, groups = played(run)
    rows, told = earl.rows_with_advantages(rewarded(groups, [1.0] * 9), {}, settings)
    before = copy.deepcopy(run.parts.model.state_dict())
    assert (rows, told) == ([], {"frac_reward_zero_std": 1.0})
    assert earl.update(rows, run, settings) == {"learning_rate": 1e-3}
    assert all(torch.equal(before[name], value) for name, value in run.parts.model.state_dict().items())


def brute_force(run, row, temperature=1.0):
    """Return log-softmax rows over what was legal and over the vocabulary alone, in float64: one forward of the whole."""
    model, head = run.parts.model, head_of(run.parts.model)
    ids = torch.tensor([row.sequence.ids])
    states = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0]
    words = model.get_output_embeddings()(states).double() / temperature
    actions = torch.nn.functional.linear(states, head.weight).double() / temperature
    chosen, spoken, entropies = [], [], []
    for place in range(1, len(row.sequence.ids)):
        if not row.sequence.trained[place]:
            continue
        legal, target = row.sequence.legal[place], row.sequence.targets[place]
        mask = torch.full((actions.shape[1],), -torch.inf, dtype=torch.float64)
        mask[[number - 1 for number in legal if number]] = 0.0
        closed = torch.full_like(words[place - 1], 0.0 if 0 in legal else -torch.inf)
        logprobs = torch.cat([words[place - 1] + closed, actions[place - 1] + mask]).log_softmax(-1)
        chosen.append(logprobs[target])
        entropies.append(-torch.where(logprobs.isinf(), 0.0, logprobs.exp() * logprobs).nansum())
        if target < head.vocabulary:
            spoken.append(words[place - 1].log_softmax(-1)[target])
    return torch.stack(chosen), torch.stack(spoken), torch.stack(entropies)


def test_the_kl_is_over_the_vocabulary_where_a_token_was_chosen():
    """Against float64; the expanded rows have no part in it."""
    run = opened("CountdownExpA")
    _, groups = played(run)
    settings = paper_settings(beta=0.7)
    rows, _ = earl.rows_with_advantages(rewarded(groups, [1.0, 0.0, 0.0] * 3), {}, settings)
    reference = ReferenceModel(run.parts.model)
    rows = with_reference(rows, run.parts, reference, 4000, vocabulary=True)
    first = [brute_force(run, row)[1].detach() for row in rows]
    with torch.no_grad():
        generator = torch.Generator().manual_seed(1)
        for parameter in run.parts.model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    tokens = sum(sum(row.sequence.trained) for row in rows)
    brute = 0.0
    for row, old in zip(rows, first, strict=True):
        gap = old - brute_force(run, row)[1]
        brute = brute + (torch.expm1(gap) - gap).sum() / tokens
    trained = {name: parameter for name, parameter in run.parts.model.named_parameters() if parameter.requires_grad}
    wanted = torch.autograd.grad(brute, list(trained.values()), allow_unused=True)
    kl, gradients = 0.0, None
    plain = replace(settings, beta=0.0)
    for micro in micro_batches(rows, 100_000, run.parts.chat.pad_id):
        with_kl, metrics = earl.token_losses(micro, run, settings)
        without, _ = earl.token_losses(micro, run, plain)
        difference = torch.where(micro.trained, with_kl - without, 0.0).sum() / tokens
        kl += float(metrics["kl"])
        gradients = torch.autograd.grad(difference, list(trained.values()), allow_unused=True)
    assert kl == pytest.approx(float(brute.detach()), rel=1e-4) and kl > 1e-4
    for name, ours, theirs in zip(trained, gradients, wanted, strict=True):
        if name.startswith("expanded_head"):
            assert theirs is None
            continue
        if theirs is not None:
            assert torch.allclose(ours, 0.7 * theirs, rtol=1e-3, atol=1e-6), name
    (micro,) = micro_batches(rows, 100_000, run.parts.chat.pad_id)
    spoken = token_scores(run.parts.model, micro, 1.0).vocabulary_logprobs.sum()
    (gradient,) = torch.autograd.grad(spoken, [head_of(run.parts.model).weight], allow_unused=True)
    assert gradient is None or not gradient.any()
    assert any(number >= head_of(run.parts.model).vocabulary for row in rows for number in row.sequence.targets)


def test_logprobs_and_entropies_are_those_of_a_brute_force_softmax():
    run = opened("CountdownExpA")
    _, groups = played(run)
    rows, _ = earl.rows_with_advantages(rewarded(groups, [1.0, 0.0, 0.0] * 3), {}, paper_settings())
    for micro in micro_batches(rows, 300, run.parts.chat.pad_id):
        scores = token_scores(run.parts.model, micro, 0.8)
        for place, number in enumerate(micro.rows):
            chosen, spoken, entropies = brute_force(run, rows[number], 0.8)
            mask = micro.trained[place]
            assert torch.allclose(scores.logprobs[place][mask].double(), chosen, atol=1e-5)
            assert torch.allclose(scores.entropies[place][mask].double(), entropies, atol=1e-5)
            word = mask & (micro.targets[place] < head_of(run.parts.model).vocabulary)
            assert torch.allclose(scores.vocabulary_logprobs[place][word].double(), spoken, atol=1e-5)
            assert not scores.vocabulary_logprobs[place][~word].any()


def test_the_entropy_bonus_lowers_the_loss_by_its_weight():
    run, settings = opened("CountdownExpA"), EARLSettings(entropy=0.1)
    _, groups = played(run)
    rows, _ = earl.rows_with_advantages(rewarded(groups, [1.0, 0.0, 0.0] * 3), {}, settings)
    (micro,) = micro_batches(rows, 100_000, run.parts.chat.pad_id)
    sums = []
    for each in (settings, replace(settings, entropy=0.0)):
        by_token, metrics = earl.token_losses(micro, run, each)
        sums.append(float(torch.where(micro.trained, by_token, 0.0).sum().detach()))
    total = float(metrics["entropy"]) * int(micro.trained.sum())
    assert total > 0 and sums[1] - sums[0] == pytest.approx(0.1 * total, rel=1e-3)


@pytest.mark.parametrize("face", FACES)
def test_faults_leave_their_group_and_what_remains_is_tested(face):
    """Two of three episodes are lost: the one that is left failed, and is played again."""
    run, settings = opened(face), paper_settings()
    plan, groups = played(run, tasks=(0, 1))
    groups = rewarded(groups, [0.0] * 3 + [1.0, 0.0, 0.0])
    one = replace(groups[0], results=groups[0].results[:1], sequences=groups[0].sequences[:1], faults=2)
    groups = [one, groups[1]]
    again = earl.play_counterfactuals(groups, plan, routes_of(run.parts.environment())[0], run.player, run, settings)
    assert set(again) <= {"k/0.0/0"}
    rows, told = earl.rows_with_advantages(groups, again_with(again, [1.0] * len(again)), settings)
    assert len(rows) == len(again) + 3 and told["frac_reward_zero_std"] == 0.5
    encouraged = RouteChoice(settings.counterfactual, routes_of(run.parts.environment()), 0)
    told = earl.learn_gain(groups, again, routes_of(run.parts.environment())[0], encouraged, run)
    assert told["counterfactual/share"] == len(again) / 4


class Faulty(gym.Wrapper):
    """Every step of a branch ends in an outside fault."""

    broken = False

    def step(self, action):
        if Faulty.broken:
            raise EnvFault("the calculator is down", retryable=False)
        return super().step(action)


def test_a_fault_of_a_counterfactual_episode_leaves_the_others(monkeypatch):
    from trainers.earl_parts.counterfactual import interventions as module

    run, settings = opened("CountdownExpA"), paper_settings()
    plan, groups = played(run)
    groups = rewarded(groups, [0.0] * 9)
    route = routes_of(run.parts.environment())[0]
    honest, count = module.fork, [0]

    def forked(env, branch):
        count[0] += 1
        made = honest(env, branch)
        if count[0] == 2:
            monkeypatch.setattr(Faulty, "broken", True)
            return Faulty(made)
        return made

    whole = earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
    monkeypatch.setattr(module, "fork", forked)
    again = earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
    assert len(again) == len(whole) - 1 > 0 and set(again) < set(whole)


def test_what_a_step_kept_is_forgotten():
    run, settings = opened("CountdownExpA"), paper_settings()
    plan, groups = played(run)
    earl.play_counterfactuals(
        rewarded(groups, [0.0] * 9), plan, routes_of(run.parts.environment())[0], run.player, run, settings
    )
    assert run.parts.policy._episodes
    run.parts.policy.forget()
    assert not run.parts.policy._episodes
    assert sum(map(len, run.parts.policy._envs.values())) <= run.parts.policy.batch
    text = opened("Countdown")
    plan, groups = played(text)
    earl.play_counterfactuals(
        rewarded(groups, [0.0] * 9), plan, routes_of(text.parts.environment())[0], text.player, text, settings
    )
    assert text.parts.policy._engine._sessions.tokens > 0
    text.parts.policy.forget()
    assert not (
        text.parts.policy._histories or text.parts.policy._forced_prefixes or text.parts.policy._engine._sessions.tokens
    )


@pytest.mark.parametrize("name", EXPA_IDS)
def test_one_update_on_every_environment_with_expanded_actions(name):
    """The smoke matrix of `test_grpo`, for the ids that text cannot play: group 0 failed, group 1 did not."""
    run = expanded_run(name, limits={"max_new_tokens": 16, "max_context": 2000})
    settings = paper_settings(entropy=0.01)
    plan, groups = played(run, size=2, tasks=(0, 1))
    assert sum(group.drift for group in groups) == 0
    groups = rewarded(groups, [0.0, 0.0, 1.0, 0.0])
    found = [
        earl.play_counterfactuals(groups, plan, route, run.player, run, settings)
        for route in routes_of(run.parts.environment())
    ]
    again = max(found, key=len)  # to order, nothing is compared
    assert again
    rows, _ = earl.rows_with_advantages(groups, again_with(again, [1.0] * len(again)), settings)
    before = copy.deepcopy(run.parts.model.state_dict())
    stats = earl.update(rows, run, settings)
    assert 0 < stats["grad_norm"] < float("inf") and stats["approx_kl"] < 1e-6 and stats["entropy"] > 0
    assert len(rows) == len(again) + 2 and stats["expanded_actions"] > 0
    assert not torch.equal(before["expanded_head.weight"], run.parts.model.state_dict()["expanded_head.weight"])


def test_routes_are_the_tools_of_either_face():
    assert routes_of(opened("CountdownExpA").parts.environment()) == routes_of(opened("Countdown").parts.environment())
    assert routes_of(gym.make("agent_envs:agent_envs/Sort-v0")) == ("compare", "swap")
    assert set(routes_of(gym.make("agent_envs:agent_envs/SortExpA-v0"))) == {"compare", "swap"}


def test_what_cannot_be_encouraged_is_refused():
    run = opened("Countdown")
    with pytest.raises(UsageError, match="counterfactual.action='abacus'"):
        RouteChoice(CounterfactualSettings(rule="paper", action="abacus"), routes_of(run.parts.environment()), 0)
    with pytest.raises(UsageError, match="group_size=1"):
        EARLSettings(group_size=1)
