"""Verlog's loop does what it says: both models learn, from whitened advantages and fresh targets, and go on after a kill."""

import json
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import pytest

from agent_envs import AgentEnvsError
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from benchmarks.sweeps import read_sweep, sweep_names
from tests.needs import needs
from tests.trainers.test_verlog import a_run, advantages_of, curve, point, run
from tests.trainers.training.test_critic import with_targets
from trainers import verlog, verlog_parts
from trainers.advantages import DualDiscounts
from trainers.batching import TrainRow
from trainers.command_line import parse
from trainers.fixed_turns import FixedTurns
from trainers.run import TrainingRun, open_run
from trainers.training.critic import WarmupSettings
from trainers.verlog import VerlogSettings
from trainers.verlog_parts import ended_pairs, has_settled

UNTESTED = ("--evaluation.test-tasks", "0", "--evaluation.every", "0")
UNTAUGHT = ("--warm-start.demonstrations", "0")


def weights(module):
    return [weight.detach().clone() for weight in module.parameters()]


def moved(before, module):
    return any(not old.equal(new) for old, new in zip(before, module.parameters(), strict=True))


@pytest.fixture(scope="module", autouse=True)
def pay():
    """Let each turn earn something, which this policy would not, and each batch have a turn that was recorded otherwise."""
    play = FixedTurns.play

    def paid(lanes, turns):
        batch, stats = play(lanes, turns)
        lanes._policy.edited += 1
        rich = [[replace(one, turn=replace(one.turn, reward=0.2 * one.turn.index)) for one in lane] for lane in batch]
        return rich, stats

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FixedTurns, "play", paid)
        yield


class Watched:
    """A run of two steps, with the rows of each gradient step, and both models as they were when the policy began to learn."""

    def __init__(self, out):
        self.critic_rows, self.policy_rows, self.of_warm_up = [], [], 0
        with pytest.MonkeyPatch.context() as patch:
            update, critic_step, begin = verlog.update, verlog.critic_step, TrainingRun.begin
            patch.setattr(verlog, "update", lambda rows, *more: self.policy_rows.append(rows) or update(rows, *more))
            patch.setattr(
                verlog, "critic_step", lambda rows, *more: self.critic_rows.append(rows) or critic_step(rows, *more)
            )
            patch.setattr(TrainingRun, "begin", lambda opened: self._begins(opened) or begin(opened))
            self.result = run(out, *UNTESTED, steps=2)
        self.curve = curve(out)

    def _begins(self, opened):
        self.policy, self.critic = opened.parts.bare, opened._modules["critic"][0]
        self.before = weights(self.policy), weights(self.critic)
        self.of_warm_up = len(self.critic_rows)


@pytest.fixture(scope="module")
def watched(tmp_path_factory, pay):
    return Watched(tmp_path_factory.mktemp("watched") / "run")


def test_policy_and_critic_learn_after_the_warm_up(watched):
    assert moved(watched.before[0], watched.policy) and moved(watched.before[1], watched.critic)
    assert len(watched.policy_rows) == 2 * 2 and len(watched.critic_rows) - watched.of_warm_up == 2 * 2


def test_the_policy_learns_from_whitened_advantages(watched):
    for step in (watched.policy_rows[:2], watched.policy_rows[2:]):
        values = [value for part in step for row in part for value in advantages_of(row)]
        mean = sum(values) / len(values)
        spread = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
        assert mean == pytest.approx(0, abs=1e-6) and spread == pytest.approx(1, abs=1e-3)


def test_rewards_pay_for_the_distance_to_the_start(watched):
    """At the first step policy and reference are one model; at the second they are not."""
    assert abs(watched.curve[0]["kl"]) < 1e-6 < 1e-5 < abs(watched.curve[1]["kl"])
    assert all(row.reference_logprobs for part in watched.policy_rows for row in part)


def test_the_critic_learns_in_its_warm_up_from_a_share_of_turns_with_targets_of_its_own(watched):
    """24 turns of which two rounds train on a quarter; before the first the critic says 0, before the second it does not."""
    first, second = watched.critic_rows[: watched.of_warm_up]
    assert len(first) == len(second) == 6
    assert not any(any(row.more["values"]) for row in first) and all(any(row.more["values"]) for row in second)
    assert len(set(watched.result["critic_warm_up"]["value_losses"])) == 3


def test_the_entropy_bonus_raises_the_entropy(tiny_model, random_rows):
    rows = [replace(row, advantages=(0.0,) * len(row.advantages)) for row in random_rows(4)]
    opened = a_run(tiny_model(), SimpleNamespace(pad_id=0))
    first, *_, last = (verlog.update(rows, opened, VerlogSettings(entropy=1.0))["entropy"] for _ in range(4))
    assert last > first


def test_a_run_without_a_test_goes_on_to_the_same_curve_from_its_first_checkpoint(watched, tmp_path, monkeypatch):
    """Nothing drops the engine's caches or the warm-up's counts there but the run itself."""

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "end_step", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "killed", *UNTESTED, steps=2)
    settings, folder = parse(VerlogSettings, ["--resume", str(tmp_path / "killed")], program="verlog")
    with open_run(settings, folder) as opened:
        verlog.train(settings, opened)
    assert curve(folder) == watched.curve


# The warm-up's check.


def test_what_was_earned_is_followed_over_batches_and_only_where_the_episode_ended():
    """Two lanes, two batches, discounts of .5 a turn and .9 a token; the second lane's second episode is cut."""
    one = [point(1, 2), point(2, 1, empty=True)], [point(3, 1, 1.0, terminated=True)]
    other = [point(1, 1, 0.25, truncated=True, ahead=(5, 6))], [point(1, 1, 0.5, ahead=(5, 6))]
    pool = [one[0], other[0], one[1], other[1]]
    spoken = [turn for piece in pool for turn in piece if not turn.empty]
    bare = [TrainRow(turn.sequence, (0.0,) * len(turn.sequence.ids)) for turn in spoken]
    rows = with_targets(bare, [[0.1, 0.2], [0.3], [0.4], [0.5]], 0.0)
    settings = VerlogSettings(
        warmup=WarmupSettings(batches=2), discounts=DualDiscounts(gamma_turn=0.5, gamma_token=0.9)
    )
    found = sorted(ended_pairs(pool, rows, settings))
    assert found == [
        (0.1, pytest.approx(0.25 * 0.9)), (0.2, pytest.approx(0.25)), (0.3, pytest.approx(0.25)), (0.4, pytest.approx(1.0)),
    ]  # fmt: skip


def test_a_fault_leaves_open_how_an_episode_ended():
    lane = [point(1, 1), point(1, 1, 1.0, terminated=True)]
    rows = with_targets([TrainRow(turn.sequence, (0.0,) * 3) for turn in lane], [[0.1], [0.2]], 0.0)
    assert ended_pairs([lane], rows, VerlogSettings(warmup=WarmupSettings(batches=1))) == [(0.2, 1.0)]


# Whether the loss is steady; explained variance against bootstrapped returns; explained variance, correlation and tokens of
# episodes that ended; whether the run goes on.
CHECKS = [
    (True, 0.9, (-1.0, 0.3, 5), True),
    (True, 0.9, (0.0, 0.0, 5), False),
    (True, 0.9, (0.0, 0.0, 0), True),
    (True, -0.1, (0.5, 0.9, 5), False),
    (False, 0.9, (0.5, 0.9, 5), False),
]


@pytest.mark.parametrize(("steady", "explained", "ended", "goes_on"), CHECKS)
def test_the_check_of_the_warm_up(tmp_path, monkeypatch, capsys, steady, explained, ended, goes_on):
    play = FixedTurns.play
    monkeypatch.setattr(verlog_parts, "has_settled", lambda losses: (steady, f"{len(losses)} losses"))
    monkeypatch.setattr(verlog_parts, "ended_pairs", lambda *_: [])
    monkeypatch.setattr(verlog, "fit", lambda *_: (explained, 0.5, 7))
    monkeypatch.setattr(verlog_parts, "fit", lambda pairs, _: ended)

    def faulty(lanes, turns):
        batch, stats = play(lanes, turns)
        return batch, stats | {"faults": 2}

    monkeypatch.setattr(FixedTurns, "play", faulty)
    words = [*UNTESTED, *UNTAUGHT, "--warmup.check", "--warmup.rounds", "3"]
    if goes_on:
        warm_up = run(tmp_path / "run", *words, steps=1)["critic_warm_up"]
        assert warm_up["faults"] == 4 and warm_up["in_ended_episodes"]["tokens"] == ended[2]
        told = "no episode ended" if not ended[2] else f"{ended[0]:.3f} in episodes that ended (r = {ended[1]:.3f})"
        assert f"24 turns, 4 faults, 4 losses, explained variance 0.900, {told}" in capsys.readouterr().err
    else:
        with pytest.raises(AgentEnvsError, match="the critic has not settled: 4 losses"):
            run(tmp_path / "run", *words, steps=1)


@pytest.mark.parametrize(
    ("most", "check", "rounds", "looks"),
    [("9", "--warmup.check", 6, [4, 7, 7]), ("4", "--warmup.check", 4, [4, 5]), ("9", "--warmup.no-check", 3, [4])],
)
def test_the_warm_up_goes_on_until_the_loss_has_settled(tmp_path, monkeypatch, most, check, rounds, looks):
    """It is looked at after three rounds and after six, not at every one: a loss that is steady by chance would pass then."""
    seen = []
    monkeypatch.setattr(
        verlog_parts, "has_settled", lambda losses: (seen.append(len(losses)) or len(losses) >= 6, "losses")
    )
    for module in (verlog, verlog_parts):
        monkeypatch.setattr(module, "fit", lambda *_: (0.9, 0.5, 7))
    words = [*UNTESTED, *UNTAUGHT, check, "--warmup.rounds", "3", "--warmup.most-rounds", most]
    if check == "--warmup.check" and rounds < 5:
        with pytest.raises(AgentEnvsError, match="the critic has not settled: losses"):
            run(tmp_path / "run", *words, steps=1)
    else:
        assert len(run(tmp_path / "run", *words, steps=1)["critic_warm_up"]["value_losses"]) == rounds + 1
    assert seen == looks


def test_a_loss_that_falls_by_a_twentieth_each_round_has_settled_at_no_look():
    assert not any(has_settled([0.95**number for number in range(rounds + 1)])[0] for rounds in (40, 80, 120))


# Sweeps.


@needs("[babyai]")
@pytest.mark.parametrize("name", sweep_names("verlog"))
def test_every_cell_of_a_sweep_is_understood(name, tmp_path):
    common, cells = read_sweep("verlog", name)
    assert len(cells) >= 2
    for number, cell in enumerate(cells):
        settings, _ = parse(
            VerlogSettings, [*common, *cell.options, "--out", str(tmp_path / str(number))], program="verlog"
        )
        assert set(json.loads(settings.env.arguments)) <= set(core_of(gym.make(full_id(settings.env.id))).arguments)
        batches = settings.steps + settings.warmup.batches
        assert batches * settings.n_env * settings.e_len == 16_896, f"{cell.row}: steps of environments"
