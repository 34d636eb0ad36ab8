"""Presets of EARL: they build on one another, and every environment that they name takes their arguments."""

import json
import tomllib

import gymnasium as gym
import pytest

from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from benchmarks.sweeps import read_sweep, sweep_names
from trainers import earl
from trainers.command_line import PRESETS, load_preset, preset_names
from trainers.earl import EARLSettings
from trainers.imitation import check_flaws

NAMES = preset_names("earl")


def made(name, *arguments):
    """Return the core of an environment, which refuses arguments that it does not know."""
    merged = {}
    for text in arguments:
        merged |= json.loads(text)
    return core_of(gym.make(full_id(name), **merged))


def test_the_presets_that_were_asked_for_are_there():
    models = {f"earl-qwen2.5-{size}-{kind}" for size in ("0.5b", "3b", "7b") for kind in ("base", "instruct")}
    assert models <= set(NAMES) and {"tiny-sort4", "tiny-sort4-minute", "tiny-countdown"} <= set(NAMES)
    for name in models:
        settings = load_preset(EARLSettings, "earl", name)
        assert settings.sampling.max_new_tokens == 1024 and settings.counterfactual.rule == "paper"
        assert ("Instruct" in settings.model.name) == name.endswith("instruct")
        assert name.split("-")[2] in settings.model.name.lower()
        sort = load_preset(EARLSettings, "earl", name.replace("earl-", "earl-sort-"))
        assert sort.sampling.max_new_tokens == 384 and sort.model.name == settings.model.name
        assert sort.curriculum.steps == 40 and sort.curriculum.id == "OrderExpA" and sort.env.id == "SortExpA"


@pytest.mark.parametrize("name", NAMES)
def test_every_preset_names_environments_that_take_its_arguments(name):
    settings = load_preset(EARLSettings, "earl", name)
    env = settings.env
    core = made(env.id, env.arguments)
    tested = made(env.id, env.arguments, env.test_arguments)
    assert {env.train_split, env.eval_split} <= set(core.source.splits) and env.test_split in tested.source.splits
    for arguments in json.loads(env.tests).values():
        split = arguments.pop("split", env.test_split)
        assert split in made(env.id, env.arguments, json.dumps(arguments)).source.splits
    if settings.curriculum.steps:
        easier = made(settings.curriculum.id, settings.curriculum.arguments)
        assert easier.expanded_actions == core.expanded_actions[: len(easier.expanded_actions)]
    check_flaws(settings.warm_start.flaws, env.id)
    if env.id.endswith("ExpA"):
        assert not settings.counterfactual.action or core.id_of(settings.counterfactual.action)
    assert settings.sampling.max_new_tokens < settings.sampling.max_context


@pytest.mark.parametrize("name", sweep_names("earl"))
def test_every_cell_of_a_sweep_names_environments_that_take_its_arguments(name):
    common, cells = read_sweep("earl", name)
    preset = load_preset(EARLSettings, "earl", common[common.index("--preset") + 1])
    for cell in cells:
        words = [*common, *cell.options]
        given = {word: words[place + 1] for place, word in enumerate(words) if word.startswith("--env.")}
        arguments = given.get("--env.arguments", preset.env.arguments)
        core = made(given.get("--env.id", preset.env.id), arguments)
        assert core.source.size("train") > 0
        check_flaws(given.get("--warm_start.flaws", preset.warm_start.flaws), given.get("--env.id", preset.env.id))


def test_what_a_preset_extends_is_below_it():
    path = PRESETS / "earl" / "earl-sort-qwen2.5-0.5b-base.toml"
    own = tomllib.loads(path.read_text(encoding="utf-8"))
    settings = load_preset(EARLSettings, "earl", path.stem)
    base = load_preset(EARLSettings, "earl", own["extends"])
    assert settings.group_size == own["group_size"] != base.group_size
    assert settings.model.gradient_checkpointing and settings.model.name == own["model"]["name"] != base.model.name
    assert (settings.env, settings.curriculum, settings.optim) == (base.env, base.curriculum, base.optim)


def test_a_missing_base_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text('extends = "nothing"\nsteps = 3\n')
    with pytest.raises(UsageError, match=r"nothing\.toml"):
        load_preset(EARLSettings, "earl", str(tmp_path / "mine.toml"))
    monkeypatch.setattr("sys.argv", ["earl", "--preset", str(tmp_path / "mine.toml"), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        earl.main()
    told = capsys.readouterr().err
    assert end.value.code == 2 and len(told.strip().splitlines()) == 1 and "nothing.toml" in told


def test_presets_that_extend_one_another_are_one_line(tmp_path):
    (tmp_path / "one.toml").write_text('extends = "two"\n')
    (tmp_path / "two.toml").write_text('extends = "one"\n')
    with pytest.raises(UsageError, match="extends"):
        load_preset(EARLSettings, "earl", str(tmp_path / "one.toml"))
    (tmp_path / "three.toml").write_text("extends = 3\n")
    with pytest.raises(UsageError, match="extends"):
        load_preset(EARLSettings, "earl", str(tmp_path / "three.toml"))
