"""Verlog: a step's arithmetic on turns that are written by hand, whole runs that survive a kill, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_envs import AgentEnvsError, UsageError
from agent_envs.core.trajectory import Turn
from tests.needs import needs
from tests.rows import each_row
from tests.trainers.forked import killed_and_resumed, two_ranks
from tests.trainers.players import SEARCH, TEXT_NAMES, player
from tests.trainers.training.test_critic import parts_of
from trainers import verlog
from trainers.advantages import DualDiscounts, dual_discount_gae
from trainers.batching import TrainRow
from trainers.command_line import load_preset, parse, preset_names
from trainers.contracts import TokenSequence
from trainers.environments import environment_spec, wrapper_rows
from trainers.fixed_turns import DataPoint, FixedTurns, LanePlan
from trainers.run import open_run
from trainers.settings import EnvironmentSettings, OptimSettings
from trainers.training.critic import Critic, CriticSettings, critic_step
from trainers.training.metrics import read_metrics
from trainers.training.optimise import Optimiser
from trainers.verlog import VerlogSettings

UNTIMED = ("step_time", "cpu_seconds")
SMALL = [
    "--env.id", "Order", "--env.arguments", '{"size": 2, "max_generations": 3}', "--model.name", "tiny:tiny",
    "--model.tokenizer-plays", "64", "--log.no-curves", "--warm-start.demonstrations", "40", "--warm-start.steps", "6",
    "--warm-start.stacks", '[[{"Memory": {}}]]', "--warm-start.rows-per-step", "20",
    "--warm-start.optim.learning-rate", "0.003",
    "--sampling.max-new-tokens", "8", "--sampling.batch", "16", "--n-env", "4", "--e-len", "3", "--minibatches", "2",
    "--warmup.batches", "2", "--warmup.rounds", "2", "--warmup.no-check", "--critic.optim.learning-rate", "0.001",
    "--optim.learning-rate", "0.0005", "--evaluation.every", "2", "--evaluation.tasks", "4", "--evaluation.test-tasks", "4",
    "--log.checkpoint-every", "1", "--log.keep-checkpoints", "9",
]  # fmt: skip


def a_run(model, chat, **more):
    parts, optimiser = parts_of(model), Optimiser(model, OptimSettings(learning_rate=1e-3), 1)
    parts.__dict__.update({"chat": chat, "optimiser": optimiser, "temperature": 1.0} | more)
    return SimpleNamespace(parts=parts)


# A step's arithmetic.


def point(index, tokens, reward=0.0, *, ahead=(), empty=False, terminated=False, truncated=False):
    """Return a turn of so many tokens behind a prompt of two."""
    ids = (5, 6, *range(10, 10 + tokens))
    trained = (False, False, *(True,) * tokens)
    sequence = TokenSequence(ids, trained, tuple(-0.5 * kept for kept in trained), tuple(map(int, trained)))
    turn = Turn(index, "", None, None, (), reward=reward, terminated=terminated, truncated=truncated)
    return DataPoint(turn, sequence, empty, ahead)


def judged(monkeypatch, batch, values, states, settings=None, reference=None):
    """Return rows and numbers of a batch whose critic says these values of turns, and these of states behind cuts."""
    monkeypatch.setattr(
        verlog, "values_of", lambda critic, sequences, run, budget: [*values, *([one] for one in states)]
    )
    run = SimpleNamespace(parts=parts_of(None))
    run.parts.chat = SimpleNamespace(pad_id=0, end_ids=(9,))
    if reference is not None:

        def with_reference(rows, *_):
            return [replace(row, reference_logprobs=(reference,) * len(row.sequence.ids)) for row in rows]

        monkeypatch.setattr(verlog, "with_reference", with_reference)
    settings = settings or VerlogSettings(beta=0.0)
    rows = verlog.rows_with_advantages(batch, None, run, settings, reference)
    return rows, verlog.critic_metrics(rows, run, settings)


def advantages_of(row):
    return [value for value, kept in zip(row.advantages, row.sequence.trained, strict=True) if kept]


def test_the_facts_batch_a_win_and_a_cut(monkeypatch):
    won = [point(1, 2), point(2, 3, 1.0, terminated=True)]
    cut = [point(1, 2), point(2, 3, ahead=(5, 6))]
    values = [[0.5, 0.4], [0.6, 0.7, 0.2]] * 2
    rows, told = judged(monkeypatch, [won, cut], values, [0.8])
    wanted = [[0.4702, 0.5702], [0.4, 0.3, 0.8], [0.274576, 0.374576], [0.192, 0.092, 0.592]]
    for row, advantages, own in zip(rows, wanted, values, strict=True):
        assert advantages_of(row) == pytest.approx(advantages, abs=1e-9)
        returns = [own[place] + advantages[place] for place in range(len(own))]
        assert row.more["returns"][2:] == pytest.approx(returns) and row.more["values"][2:] == pytest.approx(own)
        assert row.more["first"] == (0.0, 0.0, 1.0, *(0.0,) * (len(own) - 1))
    assert told["kl"] == 0.0 and told["value_loss"] > 0


@pytest.mark.parametrize(("released", "wanted"), [(False, 0.99 * 0.8 - 0.3), (True, -0.3)])
def test_a_limit_s_truncation_is_bootstrapped_or_a_failure_as_released(monkeypatch, released, wanted):
    lane = [point(1, 1, truncated=True, ahead=(5, 6)), point(1, 1, ahead=(7, 8))]
    settings = VerlogSettings(beta=0.0, released_truncation=released)
    rows, _ = judged(monkeypatch, [lane], [[0.3], [0.1]], [0.8, 0.2], settings)
    assert advantages_of(rows[0]) == pytest.approx([wanted])
    assert advantages_of(rows[1]) == pytest.approx([0.99 * 0.2 - 0.1])  # the next episode's cut, and its own state


def test_an_empty_turn_is_no_data_point_and_its_reward_is_not_lost(monkeypatch):
    lane = [point(1, 2), point(2, 1, 1.0, empty=True, terminated=True)]
    rows, _ = judged(monkeypatch, [lane], [[0.5, 0.4], [0.6]], [], VerlogSettings(beta=0.1), reference=-2.0)
    assert len(rows) == 1
    kl = -0.1 * (-0.5 + 2.0)
    second = kl + 0.99 * 0.6 - 0.4 + 0.99 * 0.95 * (1.0 - 0.6)
    assert advantages_of(rows[0]) == pytest.approx([kl + 0.4 - 0.5 + second, second])


def test_the_kl_to_the_start_is_taken_from_the_reward_of_each_token(monkeypatch):
    settings = VerlogSettings(beta=0.1)
    rows, told = judged(monkeypatch, [[point(1, 2, 1.0, terminated=True)]], [[0.0, 0.0]], [], settings, reference=-2.0)
    each = 0.1 * (-0.5 + 2.0)  # k1
    assert advantages_of(rows[0]) == pytest.approx([1.0 - 2 * each, 1.0 - each]) and told["kl"] == pytest.approx(1.5)


def test_advantages_are_whitened_over_the_trained_tokens():
    rows = [TrainRow(point(1, 2).sequence, (0.0, 0.0, 3.0, 1.0)), TrainRow(point(1, 1).sequence, (0.0, 0.0, -1.0))]
    found = verlog.whiten(rows, SimpleNamespace(parts=parts_of(None)))
    assert [row.advantages for row in found] == [
        (0.0, 0.0, pytest.approx(1.0), pytest.approx(0.0)),
        (0.0, 0.0, pytest.approx(-1.0)),
    ]


def test_a_turn_discount_reaches_over_an_episode_s_turns_but_not_over_its_end(monkeypatch):
    lane = [point(1, 1, 1.0, terminated=True), point(1, 1), point(2, 1, 0.5, terminated=True)]
    rows, _ = judged(
        monkeypatch, [lane], [[0.0], [0.0], [0.0]], [], VerlogSettings(beta=0.0, discounts=DualDiscounts(0.5, 1.0))
    )
    assert [advantages_of(row) for row in rows] == [pytest.approx([1.0]), pytest.approx([0.25]), pytest.approx([0.5])]
    assert dual_discount_gae([[0.0]], [[1.0]], [0.0], discounts=DualDiscounts()) == [[1.0]]


@pytest.mark.parametrize("name", TEXT_NAMES)  # all but one of each family have the mark.heavy
def test_a_step_on_every_environment_under_memory(name):
    """Whatever is registered can be played in lanes, judged and learnt from, by both."""
    arguments = SEARCH if name == "SearchQA" else {}
    policy, model, chat, _ = player(name, arguments, max_context=1536, max_new_tokens=3)
    spec = environment_spec(name, arguments, [("Memory", {"turns": 1})])
    run, settings = a_run(model, chat), VerlogSettings(beta=0.0)
    critic = Critic(model, CriticSettings())
    with FixedTurns(LanePlan(spec, "train", 4, 2, 0), policy, 1536, chat.end_ids[0]) as lanes:
        lanes.open(range(2))
        batch, told = lanes.play(2)
    assert told["turns"] == 4
    batch[0][-1] = replace(batch[0][-1], turn=replace(batch[0][-1].turn, reward=1.0))
    rows = verlog.rows_with_advantages(batch, critic, run, settings)
    stats = verlog.update(verlog.whiten(rows, run), run, settings)
    stats |= critic_step(rows, critic, Optimiser(critic, OptimSettings(1e-3), 0), run.parts, CriticSettings(), 4096)
    assert stats["grad_norm"] > 0 and stats["critic/grad_norm"] > 0 and stats["approx_kl"] < 1e-6


# Whole runs.


def run(out, *words, steps=3):
    settings, folder = parse(
        VerlogSettings, [*SMALL, "--steps", str(steps), *words, "--out", str(out)], program="verlog"
    )
    with open_run(settings, folder) as opened:
        return verlog.train(settings, opened)


def curve(out):
    rows = read_metrics(Path(out) / "metrics.jsonl")
    return [{name: value for name, value in row.items() if not name.startswith(UNTIMED)} for row in rows]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, run(out)


def test_staggered_lanes_cost_turns_that_count_and_that_nobody_learns_from(tmp_path):
    """With a limit of 3 turns the four lanes begin 0, 0, 1 and 2 turns later."""
    alike = ("--seed", "3", "--evaluation.test-tasks", "0", "--evaluation.every", "0")
    result = run(tmp_path / "run", "--staggered", *alike, steps=1)
    plain = run(tmp_path / "plain", *alike, steps=1)
    assert result["env_steps"] == (2 + 1) * 4 * 3 + 3 and result["critic_warm_up"]["turns"] == 2 * 4 * 3
    assert plain["env_steps"] == (2 + 1) * 4 * 3 and plain["critic_warm_up"]["turns"] == 2 * 4 * 3
    assert curve(tmp_path / "run")[0]["lane_age"] != curve(tmp_path / "plain")[0]["lane_age"]


def test_a_run_tells_what_was_asked_for(whole):
    out, result = whole
    assert json.loads((out / "result.json").read_text()) == json.loads(json.dumps(result))
    assert result["steps"] == 3 and result["env_steps"] == (2 + 3) * 4 * 3  # the warm-up's turns count
    assert result["critic_warm_up"]["turns"] == 24 and len(result["critic_warm_up"]["value_losses"]) == 3
    rows = curve(out)
    assert [row["env_steps"] for row in rows] == [36, 48, 60] and [("eval/success" in row) for row in rows] == [
        False,
        True,
        True,
    ]
    for name in ("explained_variance", "critic/first_loss", "critic/others_loss", "kl", "entropy", "valid_actions",
                 "episodes_ended", "lane_age", "empty_turns", "faults"):  # fmt: skip
        assert all(name in row for row in rows), name
    assert "bare" not in result  # without its memory the game is another one


@pytest.mark.heavy
def test_a_killed_run_goes_on_to_the_same_curve(whole, tmp_path):
    """SIGKILL in the middle of a step, twice, at moments that differ; then --resume and nothing else."""
    out, result = whole
    place = tmp_path / "killed"
    killed_and_resumed("trainers.verlog", [*SMALL, "--steps", "3"], place, "step-00000000", "step-00000002")
    assert curve(place) == curve(out)
    found = json.loads((place / "result.json").read_text())
    assert {**found, "cpu_seconds": 0} == json.loads(json.dumps({**result, "cpu_seconds": 0}))


@pytest.mark.heavy
def test_it_runs_under_verbal_feedback_as_it_stands(tmp_path, capsys):
    """VEG's wrapper around Memory: nothing changes in the trainer, and the policy reads feedback before its turns."""
    stack = json.dumps([{"Memory": {}}, {"VerbalFeedback": {"feedback": "scripted:good", "epsilon": 1.0}}])
    words = ["--env.wrappers", stack, "--warm-start.stacks", f"[{stack}]"]
    words += ["--sampling.batch", "64", "--warmup.batches", "1"]
    result = run(tmp_path / "veg", *words, steps=1)
    assert result["after"]["feedback/messages"] > 0


def test_a_critic_that_has_not_settled_stops_the_run_with_one_line(tmp_path):
    with pytest.raises(AgentEnvsError, match=r"^the critic has not settled: value loss .* --warmup.no-check$"):
        run(
            tmp_path / "hasty",
            "--warmup.check",
            "--warmup.rounds",
            "4",
            "--critic.optim.learning-rate",
            "0.05",
            "--steps",
            "1",
        )
    assert not (tmp_path / "hasty" / "metrics.jsonl").exists() or not curve(tmp_path / "hasty")


def test_a_short_warm_up_is_told_in_one_line(tmp_path, capsys):
    run(tmp_path / "short", "--warmup.batches", "1", "--e-len", "2", "--n-env", "2", steps=1)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: critic warm-up")]
    assert "2 turns a lane are fewer than two episodes of 3" in line


def test_without_warm_up_the_critic_begins_at_nothing(tmp_path):
    result = run(tmp_path / "cold", "--warmup.batches", "0", "--critic.kind", "head", "--seed", "1", steps=1)
    assert "critic_warm_up" not in result and result["env_steps"] == 12
    assert curve(tmp_path / "cold")[0]["explained_variance"] < 0  # it says 0, and returns have another mean


REFUSED = [
    ({"env": EnvironmentSettings("SortExpA")}, "turns of text; take the id without ExpA"),
    ({"n_env": 0}, "n_env=0"),
    ({"beta": -1.0}, "beta=-1.0"),
]


@each_row("changes, wanted", REFUSED)
def test_what_it_refuses(changes, wanted):
    with pytest.raises(UsageError, match=wanted):
        VerlogSettings(**changes)


@pytest.mark.parametrize("name", preset_names("verlog"))
def test_presets_fit_the_settings(name):
    settings = load_preset(VerlogSettings, "verlog", name)
    assert settings.discounts == DualDiscounts(0.99, 0.95, 1.0, 1.0) and settings.critic.first_weight == 3.0
    assert "Memory" in settings.env.wrappers and settings.dual_clip == 3.0 and settings.beta == settings.entropy == 1e-3
    assert settings.minibatches == 2


@needs("[babyai]", "[crafter]")
@pytest.mark.parametrize("name", preset_names("verlog"))
def test_presets_name_environments_that_there_are(name):
    env = load_preset(VerlogSettings, "verlog", name).env
    spec = environment_spec(env.id, json.loads(env.arguments), wrapper_rows(env.wrappers, "env.wrappers"))
    assert "Memory" in spec


@pytest.mark.parametrize("name", ["tiny-babyai-seq", "tiny-babaisai-make-win", "tiny-crafter-wood"])
def test_presets_for_long_horizons_warm_up_over_two_limits_and_have_lanes_of_all_ages(name):
    settings = load_preset(VerlogSettings, "verlog", name)
    limit = json.loads(settings.env.arguments)["max_turns"]
    assert limit >= 100 and settings.staggered and settings.warmup.batches * settings.e_len >= 2 * limit
    short = load_preset(VerlogSettings, "verlog", "tiny-babyai-goto")
    for same in ("model", "warm_start", "sampling", "optim", "critic", "discounts", "n_env", "e_len", "minibatches"):
        assert getattr(settings, same) == getattr(short, same), same


@pytest.mark.heavy
def test_two_processes_share_the_lanes_and_go_on_together(whole, tmp_path):
    """Each has half of the lanes, by their numbers: the first batch is that of one process, and a checkpoint has them all."""
    place = tmp_path / "two"
    assert two_ranks("trainers.verlog", *SMALL, "--steps", "1", "--out", place) == [0, 0]
    (first,) = curve(place)
    assert first["env_steps"] == curve(whole[0])[0]["env_steps"] and first["lane_age"] == curve(whole[0])[0]["lane_age"]
    assert first["reward/turn"] == pytest.approx(curve(whole[0])[0]["reward/turn"])
    state = json.loads((place / "checkpoints" / "step-00000001" / "state.json").read_text())
    assert sorted(number for number, _ in state["state"]["memory"]["lanes"]) == [0, 1, 2, 3]
    (place / "result.json").unlink()
    settings = json.loads((place / "settings.json").read_text())
    (place / "settings.json").write_text(json.dumps(settings | {"steps": 2}))
    assert two_ranks("trainers.verlog", "--resume", place) == [0, 0]
    assert [row["step"] for row in curve(place)] == [1, 2]
