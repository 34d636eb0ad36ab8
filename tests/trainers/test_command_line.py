"""Presets, options, and runs that go on."""

import json
from dataclasses import asdict, replace

import pytest

from agent_envs import UsageError
from agent_envs.core.registry import full_id
from agent_envs.datasets.published import DATASETS
from trainers.arpo import ARPOSettings
from trainers.command_line import load_preset, parse, preset_names, read_settings, write_settings
from trainers.earl import EARLSettings
from trainers.grpo import GRPOSettings
from trainers.imitation.imitating import flaws_of
from trainers.settings import EvalSettings, OptimSettings, ReinforcementSettings
from trainers.sft import SFTSettings
from trainers.veg import VEGSettings
from trainers.verlog import VerlogSettings

TRAINERS = {"grpo": GRPOSettings, "sft": SFTSettings}
SETTINGS = TRAINERS | {"arpo": ARPOSettings, "earl": EARLSettings, "veg": VEGSettings, "verlog": VerlogSettings}
PRESETS = [(program, name) for program in TRAINERS for name in preset_names(program)]


def test_the_presets_that_were_asked_for_are_there():
    asked = {"tiny-searchqa", "searchqa-qwen2.5-3b", "searchqa-qwen2.5-7b", "r1-qwen2.5-3b"}
    assert asked <= set(preset_names("grpo")) and {"sft-direct", "rejection-sampling"} <= set(preset_names("sft"))


@pytest.mark.parametrize("program, name", PRESETS)
def test_every_preset_loads_and_names_an_environment_and_sound_arguments(program, name):
    settings = load_preset(TRAINERS[program], program, name)
    assert full_id(settings.env.id) and isinstance(json.loads(settings.env.arguments), dict)
    assert settings != replace(TRAINERS[program](), preset=name)
    if program == "grpo":
        flaws_of(settings.warm_start.flaws)


@pytest.mark.parametrize("program", sorted(SETTINGS))
def test_no_preset_has_worked_turns_in_its_prompts(program):
    """What the papers trained on had none; a later default of the argument moves no preset."""
    for name in preset_names(program):
        env = load_preset(SETTINGS[program], program, name).env
        if ":" not in env.id:  # a class of the trainers' own, which has no such argument
            assert json.loads(env.arguments)["examples"] == 0, name


def test_the_papers_numbers():
    """VEG: 350 steps of 512 prompts and 5 samples, 2 turns; the rest is its base, SkyRL's recipe."""
    for size in ("3b", "7b"):
        settings = load_preset(GRPOSettings, "grpo", f"searchqa-qwen2.5-{size}")
        assert (settings.steps, settings.tasks_per_step, settings.group_size) == (350, 512, 5)
        assert json.loads(settings.env.arguments)["max_generations"] == 2
        assert (settings.optim.learning_rate, settings.optim.max_grad_norm, settings.beta) == (1e-6, 0.5, 0.001)
        assert settings.model.name == f"Qwen/Qwen2.5-{size.upper()}-Instruct"


SEVEN = {"nq": "test", "triviaqa": "test", "popqa": "test", "hotpotqa": "dev", "2wiki": "dev", "musique": "dev",
         "bamboogle": "test"}  # fmt: skip
PAPERS = [("grpo", "searchqa-qwen2.5-3b"), ("grpo", "searchqa-qwen2.5-7b"), ("grpo", "r1-qwen2.5-3b"),
          ("sft", "sft-direct"), ("sft", "rejection-sampling")]  # fmt: skip


@pytest.mark.parametrize("program, name", PAPERS)
def test_presets_for_the_papers_numbers_test_on_all_seven_sets(program, name):
    env = load_preset(TRAINERS[program], program, name).env
    tests = json.loads(env.tests)
    assert {test: row.get("split", env.test_split) for test, row in tests.items()} == SEVEN
    for test, row in tests.items():
        published = DATASETS[row["tasks"]]
        assert row["tasks"] == test and row.get("split", env.test_split) in published.splits
        assert "test" not in published.splits or "split" not in row


def test_options_change_a_preset(tmp_path):
    words = ["--preset", "tiny-searchqa", "--seed", "7", "--optim.learning-rate", "0.5", "--out", str(tmp_path / "r")]
    settings, out = parse(GRPOSettings, words, program="grpo")
    preset = load_preset(GRPOSettings, "grpo", "tiny-searchqa")
    optim = replace(preset.optim, learning_rate=0.5)
    assert settings == replace(preset, seed=7, optim=optim, out=str(tmp_path / "r")) and out == tmp_path / "r"
    assert read_settings(GRPOSettings, out) == settings


def test_a_run_goes_on_with_its_own_settings_alone(tmp_path):
    settings = replace(GRPOSettings(), seed=3)
    write_settings(settings, tmp_path)
    (tmp_path / "checkpoints").mkdir()
    assert parse(GRPOSettings, [f"--resume={tmp_path}"], program="grpo") == (settings, tmp_path)
    assert parse(GRPOSettings, ["--resume", str(tmp_path)], program="grpo") == (settings, tmp_path)
    with pytest.raises(UsageError, match="takes nothing else"):
        parse(GRPOSettings, ["--resume", str(tmp_path), "--seed", "4"], program="grpo")
    with pytest.raises(UsageError, match=r"go on with --resume .* \(no step of it is finished: delete it"):
        parse(GRPOSettings, ["--out", str(tmp_path)], program="grpo")
    (tmp_path / "metrics.jsonl").write_text("a step\n")
    with pytest.raises(UsageError, match="or name another folder with --out$"):
        parse(GRPOSettings, ["--out", str(tmp_path)], program="grpo")
    with pytest.raises(UsageError, match="holds no run"):
        parse(GRPOSettings, ["--resume", str(tmp_path / "nothing")], program="grpo")


def test_a_run_that_goes_on_may_be_given_new_limits_and_nothing_else(tmp_path):
    settings = replace(VEGSettings(), seed=3, max_calls=9)
    write_settings(settings, tmp_path)
    more, _ = parse(VEGSettings, ["--resume", str(tmp_path), "--max_calls=20", "--max-cost", "2.5"], program="veg")
    assert more == replace(settings, max_calls=20, max_cost=2.5) == read_settings(VEGSettings, tmp_path)
    assert parse(VEGSettings, ["--max-calls", "0", "--resume", str(tmp_path)], program="veg")[0].max_calls == 0
    with pytest.raises(UsageError, match="nothing else but --max-calls and --max-cost, and not --epsilon"):
        parse(VEGSettings, ["--resume", str(tmp_path), "--max-calls", "3", "--epsilon", "0.2"], program="veg")
    assert read_settings(VEGSettings, tmp_path).max_calls == 0
    with pytest.raises(UsageError, match="takes nothing else, and not more"):
        parse(GRPOSettings, ["--resume", str(tmp_path / "none"), "more"], program="grpo")


@pytest.mark.parametrize(
    "text, message",
    [
        ("steps = 'many'", "steps='many': int is needed"),
        ("stepz = 3", "no setting stepz"),
        ("loss = 'mean'", "loss='mean': one of 'token_mean'"),
        ("[env]\nname = 'Sort'", "no setting name"),
        ("env = 3", "a table of settings is needed"),
        ("steps = ", "Invalid value"),
    ],
)
def test_a_wrong_preset_says_what_is_wrong(tmp_path, text, message):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        load_preset(GRPOSettings, "grpo", str(path))


def test_an_unknown_preset_names_the_known_ones():
    with pytest.raises(UsageError, match="no preset 'tiny'; there are .*tiny-searchqa"):
        parse(GRPOSettings, ["--preset", "tiny"], program="grpo")
    with pytest.raises(UsageError, match="--preset needs a name"):
        parse(GRPOSettings, ["--preset"], program="grpo")


def test_a_result_that_is_no_result_ends_no_run(tmp_path):
    settings = replace(GRPOSettings(), steps=3)
    write_settings(settings, tmp_path)
    for text in ("", "{", "[]", "{}", '{"steps": null}', '{"planned_steps": 2}'):
        (tmp_path / "result.json").write_text(text)
        assert parse(GRPOSettings, ["--resume", str(tmp_path)], program="grpo") == (settings, tmp_path)


def test_help_teaches_every_setting(capsys):
    with pytest.raises(SystemExit) as end:
        parse(GRPOSettings, ["--help"], program="grpo")
    told = capsys.readouterr().out
    assert end.value.code == 0 and "--group-size" in told and "--optim.learning-rate" in told
    assert "episodes of each (G)" in told and "after the warm-up" in told
    assert len(asdict(GRPOSettings())) > 20


def test_numbers_below_0_are_refused():
    with pytest.raises(UsageError, match="entropy=-1: give a number >= 0"):
        ReinforcementSettings(entropy=-1)
    with pytest.raises(UsageError, match="entropy=1000000.0: give a number >= 0, below 1e\\+06"):
        ReinforcementSettings(entropy=1e6)
    with pytest.raises(UsageError, match="most_tokens=-1: give a finite number >= 0$"):
        EARLSettings(most_tokens=-1)
    with pytest.raises(UsageError, match="evaluation.tasks=-1: give a finite number >= 0"):
        EvalSettings(tasks=-1)
    with pytest.raises(UsageError, match="optim.weight_decay=inf: give a finite number >= 0"):
        OptimSettings(weight_decay=float("inf"))
    assert VerlogSettings(most_env_steps=10**7).most_env_steps == GRPOSettings(most_env_steps=10**7).most_env_steps
