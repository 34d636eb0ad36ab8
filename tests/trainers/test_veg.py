"""VEG: GRPO within feedback, measured with it and without; presets and sweeps of the paper's tables."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import pytest

from agent_envs.base.jsonl_log import read_journal
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.core.trajectory import Trajectory
from benchmarks.sweeps import SweepCell, read_sweep, sweep_names, table_of
from trainers import veg
from trainers.command_line import load_preset, parse, preset_names
from trainers.grpo import GRPOSettings, train
from trainers.run import open_run
from trainers.settings import EnvironmentSettings
from trainers.training.metrics import read_metrics
from trainers.veg import VEGSettings

GOOD = [{"VerbalFeedback": {"feedback": "scripted:good", "epsilon": 0.5}}]
SMALL = [
    "--env.id", "Order", "--env.arguments", '{"size": 2, "max_generations": 3}', "--model.name", "tiny:tiny",
    "--model.tokenizer-plays", "64", "--log.no-curves",
    "--warm-start.demonstrations", "40", "--warm-start.steps", "6", "--warm-start.rows-per-step", "20",
    "--warm-start.stacks", json.dumps([[], GOOD]), "--sampling.max-new-tokens", "12", "--sampling.batch", "16",
    "--sampling.eval-temperature", "1", "--tasks-per-step", "4", "--group-size", "4", "--optim.learning-rate", "0.0005",
    "--evaluation.every", "1", "--evaluation.tasks", "8", "--evaluation.test-tasks", "8", "--epsilon", "0.5", "--steps", "2",
]  # fmt: skip


def run(out, *words):
    settings, folder = parse(VEGSettings, [*SMALL, *words, "--out", str(out)], program="veg")
    with open_run(settings.with_feedback(), folder) as opened:
        return train(settings, opened, veg.results)


def authors(trajectory):
    shown = [*trajectory.prompt, *(message for turn in trajectory.turns for message in turn.observation)]
    return [message.author for message in shown]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("veg") / "run"
    return out, run(out, "--log.episodes")


def test_every_training_turn_has_feedback_before_it(whole):
    out, result = whole
    rows = read_journal(out / "episodes-0.jsonl")
    episodes = [Trajectory.from_json(row["trajectory"]) for row in rows if "trajectory" in row]
    assert len(episodes) == 32
    for episode in episodes:
        assert authors(episode).count("feedback") == len(episode.turns)
        assert episode.prompt[-1].author == "feedback"
    steps = read_metrics(out / "metrics.jsonl")
    assert sum(row["feedback/messages"] for row in steps) == pytest.approx(2 * result["env_steps"] / 32)
    assert all(row["drift"] == 0 for row in steps)


def test_the_result_tells_success_with_feedback_and_without(whole):
    out, result = whole
    assert json.loads((out / "result.json").read_text()) == result
    assert result["after_with_feedback"]["feedback/messages"] == result["after"]["feedback/messages"] > 0
    assert "feedback/messages" not in result["after_without"]
    assert result["after_without"]["success"] == result["bare"]["after"]["success"]
    assert result["after_with_feedback"]["tasks"] == result["after_without"]["tasks"] == 8
    rows = read_metrics(out / "metrics.jsonl")
    assert all({"eval/success", "eval_bare/success", "entropy"} <= set(row) for row in rows)


def test_advice_fades_out_group_by_group(tmp_path):
    """Over two steps: all of the four groups have it, then two, then none; epsilon is as it was."""
    run(tmp_path / "run", "--log.episodes", "--feedback-fade", "2", "--steps", "3", "--evaluation.every", "0")
    steps = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["feedback/share"] for row in steps] == [1.0, 0.5, 0.0]
    rows = [row for row in read_journal(tmp_path / "run" / "episodes-0.jsonl") if "trajectory" in row]
    episodes = [(row["step"], Trajectory.from_json(row["trajectory"])) for row in rows]
    for step, share in ((1, 1.0), (2, 0.5), (3, 0.0)):
        advised = ["feedback" in authors(episode) for number, episode in episodes if number == step]
        assert len(advised) == 16 and sum(advised) == 16 * share
        assert all(len({*advised[first : first + 4]}) == 1 for first in range(0, 16, 4))


def test_the_advised_groups_are_drawn_by_step():
    """Minibatches and processes take groups as they come: the first must not be the advised ones at every step."""
    settings = VEGSettings(feedback_fade=1000, tasks_per_step=8, group_size=2)
    spec = json.dumps({"additional_wrappers": [{"name": "VerbalFeedback"}]})
    played = SimpleNamespace(environments={"": SimpleNamespace(spec=spec, size=64)}, train_split="train")
    draws = []
    for step in (*range(497, 503), 500):
        plan, metrics = settings.plan(SimpleNamespace(parts=played, step=step))
        advised = ["VerbalFeedback" in item.spec for item in plan]
        assert advised[::2] == advised[1::2] and metrics["feedback/share"] == sum(advised) / 16 in (3 / 8, 4 / 8, 5 / 8)
        draws.append(advised[::2])
    assert len({tuple(draw) for draw in draws}) >= 4 and draws[3] == draws[-1]
    assert any(draw != sorted(draw, reverse=True) for draw in draws)


def test_without_feedback_it_is_grpo(whole, tmp_path):
    """The same start, tasks and draws: the curve is that of trainers.grpo to the bit; feedback is there in a test alone."""
    result = run(tmp_path / "none", "--feedback", "none", "--test-feedback", "scripted:weak")
    place = SMALL.index("--epsilon")  # which GRPO has not
    words = [*SMALL[:place], *SMALL[place + 2 :]]
    settings, folder = parse(GRPOSettings, [*words, "--out", str(tmp_path / "grpo")], program="grpo")
    with open_run(settings, folder) as opened:
        grpo = train(settings, opened)
    timed = ("cpu_seconds", "tests")
    assert {**result, **dict.fromkeys(timed)} == {
        **grpo, **{name: result[name] for name in veg.TESTS.values()}, **dict.fromkeys(timed),
    }  # fmt: skip
    assert result["before"] == run_before(whole) and result["after_without"]["success"] == result["after"]["success"]
    assert result["after_with_feedback"]["feedback/messages"] > 0 and "bare" not in result


def run_before(whole):
    """Return what the weights of the start gave in the bare environment in the run with feedback."""
    return whole[1]["bare"]["before"]


def test_feedback_stands_outermost():
    limit = '[{"TurnLimit": {"turns": 2}}]'
    settings = replace(VEGSettings(), epsilon=0.25, env=EnvironmentSettings(wrappers=limit, tests='{"nq": {}}'))
    env = settings.with_feedback().env
    inner, outer = json.loads(env.wrappers)
    assert inner == {"TurnLimit": {"turns": 2}}
    assert outer["VerbalFeedback"]["feedback"] == "scripted:good" and outer["VerbalFeedback"]["epsilon"] == 0.25
    tests = json.loads(env.tests)
    assert tests["nq"] == {} and tests["without_feedback"]["wrappers"] == [inner]
    assert tests["with_feedback"]["wrappers"] == [inner, outer]
    none = replace(settings, feedback="none").with_feedback().env
    assert json.loads(none.wrappers) == [inner] and "scripted:good" in none.tests


def test_a_wrong_feedback_is_one_line(tmp_path, monkeypatch, capsys):
    words = ["veg", *SMALL, "--feedback", "scripted:best", "--out", str(tmp_path / "run")]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as end:
        veg.main()
    told = capsys.readouterr().err
    assert end.value.code == 2 and "scripted:good" in told and "Traceback" not in told


@pytest.mark.parametrize("name", preset_names("veg"))
def test_every_preset_names_arguments_that_its_environment_takes(name):
    """The published data and a model for a user are not here: the generated tasks and the scripted user stand in."""
    settings = load_preset(VEGSettings, "veg", name)
    env = settings.env
    for arguments in (json.loads(env.test_arguments), *json.loads(env.tests).values()):
        own = {**json.loads(env.arguments), **arguments}
        own = {key: value for key, value in own.items() if key not in ("tasks", "user", "split")}
        assert core_of(gym.make(full_id(env.id), **own)).source.size("train") > 0
    assert 0 <= settings.epsilon <= 1


def test_the_papers_presets_have_its_numbers():
    for size in ("3b", "7b"):
        settings = load_preset(VEGSettings, "veg", f"veg-qwen2.5-{size}")
        assert (settings.steps, settings.tasks_per_step, settings.group_size, settings.epsilon) == (350, 512, 5, 0.1)
        env = json.loads(settings.env.arguments)
        assert env["max_generations"] == 2 and env["top_k"] == 3 and settings.model.name.startswith("Qwen/Qwen2.5")
        assert settings.feedback.startswith("anthropic:claude-sonnet-4") and settings.max_cost > 6200
    for kind in ("instruct", "thinking"):
        settings = load_preset(VEGSettings, "veg", f"veg-qwen3-4b-{kind}")
        env = json.loads(settings.env.arguments)
        assert env["max_agent_turns"] == 10 and env["user"] == settings.feedback and env["tasks"] == "official"
        assert (settings.env.train_split, settings.env.test_split) == ("pooled_train80", "pooled_test20")
        assert sorted(json.loads(settings.env.mixture)) == ["Tau2Airline", "Tau2Retail", "Tau2Telecom"] and env["judge"]
        assert settings.evaluation.keep_best and settings.evaluation.best_within_steps == settings.steps == 50
        assert kind in settings.model.name.lower() and settings.env.eval_split != settings.env.test_split


@pytest.mark.parametrize("name", sweep_names("veg"))
def test_every_cell_of_a_sweep_is_sound(name, tmp_path):
    common, cells = read_sweep("veg", name)
    assert len({cell.folder for cell in cells}) == len(cells) >= 3
    for cell in (cell for cell in cells if cell.program == "veg"):
        settings, _ = parse(VEGSettings, [*common, *cell.options, "--out", str(tmp_path / cell.folder)], program="veg")
        assert settings.preset and ("None" in cell.row or cell.row.endswith("GRPO")) == (settings.feedback == "none")
        settings.with_feedback()


def test_the_sweeps_have_the_tables_values():
    rates = [cell.options for cell in read_sweep("veg", "epsilon")[1]]
    assert rates == [("--epsilon", "0.1"), ("--epsilon", "0.5"), ("--epsilon", "0.9")]
    kinds = [cell.options[1] for cell in read_sweep("veg", "feedback")[1]]
    assert kinds == ["none", "scripted:weak", "scripted:good"]


def test_a_table_has_a_column_for_each_way_to_measure():
    told = {"success": 0.5, "interval": [0.25, 0.75]}
    result = {"after": told, "after_with_feedback": told, "after_without": told | {"success": 0.25}}
    assert table_of({SweepCell("0.1", "", (), "0"): result}).splitlines() == [
        "| method | with feedback seed 0 | without seed 0 | with feedback mean of 1 seeds | without mean of 1 seeds |",
        "|---|---|---|---|---|",
        "| 0.1 | 50.0% [25.0%, 75.0%] | 25.0% [25.0%, 75.0%] | 50.0% (50.0% to 50.0%) | 25.0% (25.0% to 25.0%) |",
    ]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--test-feedback", "none"], "test_feedback='none': name who gives feedback"),
        (["--max-cost", "nan"], "max_cost=nan"),
        (["--max-cost", "-1"], "max_cost=-1"),
        (["--max-calls", "-1"], "max_calls=-1"),
        (["--feedback-options", "[1]"], "feedback_options='[1]': a JSON object is needed"),
        (["--feedback", "openai:m@http://localhost:1", "--feedback-options", '{"heat": 1}'], "unknown option heat"),
        (["--templates", "nowhere"], "explore.md cannot be read"),
        (["--feedback", "openai:m@http://localhost:1", "--max-cost", "1"], "give prices=FILE"),
        (["--feedback", "openai:m@http://localhost:1", "--prices", "none.json"], "there is no such file"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.setattr("sys.argv", ["veg", *SMALL, *words, "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        veg.main()
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert end.value.code == 2 and message in told and "Traceback" not in told


def test_a_run_keeps_the_texts_of_its_templates(tmp_path):
    """What becomes of the folder is nothing to a run that goes on."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for mode in ("explore", "exploit"):
        (folder / f"{mode}.md").write_text(f"OLD {mode}: $instructions and $conversation")
    chat = "openai:m@http://localhost:1"
    words = [*SMALL, "--feedback", chat, "--templates", str(folder), "--out", str(tmp_path / "run")]
    first, out = parse(VEGSettings, words, program="veg")
    for mode in ("explore", "exploit"):
        (folder / f"{mode}.md").write_text(f"NEW {mode}: $instructions and $conversation")
    again, _ = parse(VEGSettings, ["--resume", str(out)], program="veg")
    assert again == first and json.loads(first.templates)["explore"].startswith("OLD explore")
    assert "OLD explore" in again.stack(chat)[0]["VerbalFeedback"]["templates"]["explore"]
    other, _ = parse(VEGSettings, [*words[:-1], str(tmp_path / "other")], program="veg")
    assert (
        other.summary() != first.summary() == again.summary() and len(first.summary().rpartition("templates ")[2]) == 12
    )


def test_prices_and_options_reach_the_wrapper():
    settings = VEGSettings(
        feedback="openai:m@http://localhost:1", prices="p.json", feedback_options='{"max_tokens": 9}'
    )
    given = settings.stack(settings.feedback)[0]["VerbalFeedback"]
    assert given["prices"] == "p.json" and given["options"] == {"max_tokens": 9}
    assert "options" not in settings.stack("scripted:weak")[0]["VerbalFeedback"]
    assert settings.chat_models == {"openai:m@http://localhost:1": "openai:m@http://localhost:1/v1"}


def test_help_names_its_own_presets(capsys):
    with pytest.raises(SystemExit):
        parse(VEGSettings, ["--help"], program="veg")
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "trainers/presets/veg" in told and "trainers/presets/grpo" not in told and "--feedback-options" in told


def test_it_is_short():
    assert len(Path(veg.__file__).read_text().splitlines()) <= 90
