"""Whole runs of EARL, from the command line to result.json: kills, limits on tokens, curricula, processes, saved models."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from tests.trainers.earl_runs import (
    ARITHMETIC,
    COUNTDOWN,
    CPO,
    FEW,
    SORT,
    TEXT_COUNTDOWN,
    TEXT_SORT,
    WARM,
    curve,
    run,
    settings_of,
    without_clocks,
)
from trainers import earl, grpo, sft
from trainers.command_line import parse
from trainers.earl import EARLSettings, train
from trainers.run import open_run

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
FACES = {"Arithmetic": ARITHMETIC, "text Countdown": TEXT_COUNTDOWN}
SEEDS = {
    "expanded": "1",
    "text": "30",
}  # in whose first step one of two groups failed, and not all are equal in the other
AVERAGE = ["--counterfactual.encourage", "average"]


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def sort(tmp_path_factory):
    """A run on SortExpA with all that CPO keeps: after a warm start, with a KL and gains of routes."""
    out = tmp_path_factory.mktemp("sort") / "run"
    return out, run(out, *SORT, *WARM, *CPO, *AVERAGE, "--beta", "0.05", "--entropy", "0.01", steps=4)


@pytest.fixture(scope="module")
def text_sort(tmp_path_factory):
    """A run on the text face, whose calls CPO makes as tags."""
    out = tmp_path_factory.mktemp("text") / "run"
    return out, run(out, *TEXT_SORT, *CPO, "--seed", "1")


def model_of(fixture):
    return ["--model.name", str(fixture[0] / "model")]


def fired(out, result):
    rows = curve(out)
    assert len(rows) == result["steps"] and all(row["drift"] == 0 and row["edited"] == 0 for row in rows)
    assert any(0 < row["counterfactual/share"] <= 1 for row in rows)
    assert result["sampled_tokens"] == rows[-1]["sampled_tokens"]
    assert all(0 <= row["counterfactual/rewarded"] <= 1 and row["counterfactual/gain"] >= 0 for row in rows)


@pytest.mark.parametrize("face", FACES)
def test_counterfactuals_fire_on_either_face(tmp_path, face):
    """Models of random weights: groups fail, and what is trained is what was played again."""
    result = run(tmp_path / "run", *FACES[face], *CPO)
    fired(tmp_path / "run", result)
    assert all(row["counterfactual/share"] > 0.5 for row in curve(tmp_path / "run"))


def test_counterfactuals_fire_where_items_are_sorted(sort, text_sort):
    fired(*sort)
    fired(*text_sort)


def test_without_a_rule_it_is_grpo(sort, tmp_path):
    """The same episodes, metrics and updates as `trainers.grpo` without flat groups, but for the std's epsilon."""
    run(tmp_path / "earl", *SORT, *model_of(sort))
    words = [*FEW, *SORT, *model_of(sort), "--steps", "2", "--drop-flat-groups", "--out", str(tmp_path / "grpo")]
    settings, folder = parse(grpo.GRPOSettings, words, program="grpo")
    with open_run(settings, folder) as opened:
        grpo.train(settings, opened)
    ours, theirs = curve(tmp_path / "earl"), curve(tmp_path / "grpo")
    assert not any(name.startswith("counterfactual") for row in ours for name in row)
    for name in ("reward", "success", "grad_norm", "loss", "frac_reward_zero_std", "turns", "tokens"):
        assert ours[0][name] == pytest.approx(theirs[0][name], rel=2e-3, abs=1e-5), name


@pytest.mark.heavy
def test_a_killed_run_goes_on_to_the_same_curve(sort, tmp_path):
    """SIGKILL in the middle of steps; the gains of routes, the reference and counterfactual episodes come back."""
    out, result = sort
    assert any(row["counterfactual/share"] > 0 for row in curve(out))
    place = tmp_path / "killed"
    words = [*FEW, *SORT, *WARM, *CPO, *AVERAGE, "--beta", "0.05", "--entropy", "0.01", "--steps", "4"]
    command = [sys.executable, "-m", "trainers.earl", *words, "--out", str(place)]
    for wanted in ("step-00000001", "step-00000003"):
        process = subprocess.Popen(command, env=environment(), **QUIET)
        limit = time.monotonic() + 240
        while not (place / "checkpoints" / wanted).exists():
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        command = [sys.executable, "-m", "trainers.earl", "--resume", str(place)]
    subprocess.run(command, check=True, env=environment(), **QUIET)
    assert curve(place) == curve(out)
    assert without_clocks(json.loads((place / "result.json").read_text())) == without_clocks(result)


def interrupted(out, *words, after, steps):
    """Begin a run, stop it after a step, and return the run that goes on."""
    settings, folder = settings_of(out, *words, steps=steps)
    with pytest.raises(KeyboardInterrupt), open_run(settings, folder) as opened:
        end_step = opened.end_step

        def ended(stats, groups=(), **counts):
            end_step(stats, groups, **counts)
            if opened.step == after:
                raise KeyboardInterrupt

        opened.end_step = ended
        train(settings, opened)
    return parse(EARLSettings, ["--resume", str(out)], program="earl")


def test_the_gains_of_routes_come_back(sort, tmp_path):
    (out, _), after = sort, 2
    words = [*SORT, *WARM, *CPO, *AVERAGE, "--beta", "0.05", "--entropy", "0.01"]
    settings, folder = interrupted(tmp_path / "cut", *words, after=after, steps=4)
    with open_run(settings, folder) as opened:
        assert opened.step == after and not opened.fresh
        assert set(opened.memory["encouraged"]) == {"compare", "swap"}
        assert opened.memory["encouraged"] != dict.fromkeys(("compare", "swap"), 1e-3)
        train(settings, opened)
    assert curve(tmp_path / "cut") == curve(out)


def test_a_limit_on_tool_calls_ends_a_run_and_counts_counterfactuals(sort, tmp_path):
    words = [*SORT, *CPO, *model_of(sort), "--most-tool-calls", "1"]
    result = run(tmp_path / "run", *words)
    assert result["steps"] == 1 and sum(result["tool_calls"].values()) >= 1


def test_a_limit_on_tokens_ends_a_run_for_good(sort, tmp_path, capsys):
    words = [*SORT, *CPO, *model_of(sort), "--most-tokens", "500"]
    result = run(tmp_path / "run", *words, steps=50)
    rows = curve(tmp_path / "run")
    assert result["steps"] == len(rows) < 50 and result["planned_steps"] == 50
    assert rows[-1]["sampled_tokens"] >= 500 > rows[-2]["sampled_tokens"]
    assert (tmp_path / "run" / "checkpoints" / f"step-{len(rows):08d}").exists()
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        parse(EARLSettings, ["--resume", str(tmp_path / "run")], program="earl")
    told = capsys.readouterr()
    assert end.value.code == 0 and json.loads(told.out) == result and f"after {len(rows)} steps" in told.err


def test_a_curriculum_is_played_first(sort, tmp_path):
    words = [*SORT, *CPO, *model_of(sort), "--curriculum.id", "OrderExpA", "--curriculum.steps", "1", "--log.episodes"]
    words += ["--curriculum.arguments", '{"size": 2, "max_actions": 12}', "--counterfactual.action", "swap"]
    run(tmp_path / "run", *words)
    lines = (tmp_path / "run" / "episodes-0.jsonl").read_text().splitlines()
    rows = [json.loads(line)["row"] for line in lines if '"trajectory"' in line]
    ids = {(row["step"], row["trajectory"]["header"]["env_id"].split("/")[-1]) for row in rows}
    assert ids == {(1, "OrderExpA-v0"), (2, "SortExpA-v0")}


def test_the_trees_of_a_run_are_drawn(sort):
    out, result = sort
    assert {"accuracy", "comparisons", "swaps", "direction"} <= set(result)
    assert {path.suffix for path in (out / "trees").iterdir()} == {".txt", ".json"}


def test_trees_are_drawn_of_a_text_face_as_well(text_sort):
    out, result = text_sort
    assert {tree["direction"] for tree in result["trees"]} == {"ascending", "descending"}
    assert result["direction"] == "ascending" and list((out / "trees").glob("*.json"))


def test_a_saved_model_plays_the_same(sort, tmp_path):
    """The folder holds the head; what it is measured at in the beginning is what it was measured at in the end."""
    out, result = sort
    assert (out / "model" / "expanded_head.safetensors").exists()
    words = [*SORT, "--model.name", str(out / "model"), "--optim.learning-rate", "0"]
    again = run(tmp_path / "again", *words, steps=1)
    assert again["before"] == result["after"]
    for name in ("accuracy", "comparisons", "swaps", "trees"):
        assert again[name] == result[name]
    one, two = (
        load_file(place / "model" / "expanded_head.safetensors")["weight"] for place in (out, tmp_path / "again")
    )
    assert torch.equal(one, two)


def test_a_head_of_other_actions_is_refused(sort, tmp_path, capsys, monkeypatch):
    out, _ = sort
    words = [*FEW, *COUNTDOWN, "--model.name", str(out / "model"), "--out", str(tmp_path / "other")]
    monkeypatch.setattr(sys, "argv", ["earl", *words])
    with pytest.raises(SystemExit) as end:
        earl.main()
    told = capsys.readouterr().err
    assert end.value.code == 2 and "not those of the model's expanded head" in told and "Traceback" not in told


@pytest.mark.heavy
def test_lora_trains_the_head_and_an_adapter(sort, tmp_path):
    out, _ = sort
    words = [
        "--model.name",
        str(out / "model"),
        "--model.lora-rank",
        "2",
        "--beta",
        "0.02",
        "--optim.learning-rate",
        "0.01",
    ]
    result = run(tmp_path / "lora", *SORT, *CPO, *words, steps=2)
    weights = load_file(tmp_path / "lora" / "checkpoints" / "step-00000002" / "weights.safetensors")
    assert all("lora_" in name or "expanded_head" in name for name in weights)
    assert any("expanded_head" in name for name in weights) and any("lora_" in name for name in weights)
    before = load_file(out / "model" / "expanded_head.safetensors")["weight"]
    after = load_file(tmp_path / "lora" / "model" / "expanded_head.safetensors")["weight"]
    assert not torch.equal(before, after) and (tmp_path / "lora" / "model" / "adapter_config.json").exists()
    again = run(tmp_path / "more", *SORT, "--model.name", str(tmp_path / "lora" / "model"), steps=1)
    assert again["before"]["reward"] == result["after"]["reward"]  # merged into the base


OTHERS = {
    "grpo": (grpo.GRPOSettings, grpo.train, FEW),
    "sft": (sft.SFTSettings, sft.train, [
        "--optim.learning-rate", "0.003", "--evaluation.test-tasks", "4", "--evaluation.every", "0", "--episodes", "10",
        "--rows-per-step", "5", "--sampling.batch", "8",
    ]),
}  # fmt: skip


@pytest.mark.heavy
@pytest.mark.parametrize("program", OTHERS)
def test_the_other_trainers_take_expanded_actions(sort, tmp_path, program):
    kind, trained, ways = OTHERS[program]
    words = [*ways, *SORT, *model_of(sort), "--steps", "2", "--out", str(tmp_path / "run")]
    settings, folder = parse(kind, words, program=program)
    with open_run(settings, folder) as opened:
        result = trained(settings, opened)
    assert result["steps"] == 2 and any(row["grad_norm"] > 0 for row in curve(tmp_path / "run"))
    assert (tmp_path / "run" / "model" / "expanded_head.json").exists()
    start = load_file(next((tmp_path / "run" / "checkpoints").glob("start/*/weights.safetensors")))
    last = load_file(tmp_path / "run" / "checkpoints" / "step-00000002" / "weights.safetensors")
    assert not torch.equal(start["expanded_head.weight"], last["expanded_head.weight"])


def test_direct_answers_have_no_place_among_expanded_actions(sort, tmp_path, capsys, monkeypatch):
    words = [*model_of(sort), "--data", "direct", *SORT, "--evaluation.test-tasks", "0", "--evaluation.every", "0"]
    monkeypatch.setattr(sys, "argv", ["sft", *words, "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        sft.main()
    assert end.value.code == 2 and "data=solver" in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.parametrize("face", ["expanded", "text"])
def test_two_processes_train_as_one_does(sort, text_sort, tmp_path, face):
    """One group each, and in the first step one of them failed: counts, gains and weights are those of one process."""
    words = [*SORT, *model_of(sort)] if face == "expanded" else [*TEXT_SORT, *model_of(text_sort), "--group-size", "8"]
    words += [*CPO, *AVERAGE, "--tasks-per-step", "2", "--log.keep-checkpoints", "9", "--seed", SEEDS[face]]
    spread = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "trainers.earl"]
    command = [sys.executable, *spread, *FEW, *words, "--steps", "3", "--out", str(tmp_path / "two")]
    run(tmp_path / "one", *words, steps=3)
    one = curve(tmp_path / "one")
    assert one[0]["counterfactual/share"] == 0.5 and one[0]["grad_norm"] > 0
    subprocess.run(command, check=True, env=environment(), stdout=subprocess.DEVNULL, timeout=300)
    two = curve(tmp_path / "two")
    assert len(two) == 3
    names = ["reward", "grad_norm", "loss", "entropy", "frac_reward_zero_std", "num_tokens", "sampled_tokens"]
    names += ["counterfactual/gain", "counterfactual/share", "counterfactual/rewarded"]
    for name in names:
        assert two[0][name] == pytest.approx(one[0][name], rel=1e-4, abs=1e-6), name
    paths = [tmp_path / place / "checkpoints" / "step-00000001" for place in ("one", "two")]
    alone, together = (load_file(path / "weights.safetensors") for path in paths)
    assert all(torch.allclose(alone[name], together[name], atol=1e-4) for name in alone)
    kept = [json.loads((path / "state.json").read_text())["state"]["memory"]["encouraged"] for path in paths]
    assert kept[0] == pytest.approx(kept[1])


@pytest.mark.parametrize("trainer", [earl, grpo])
def test_vllm_has_no_expanded_actions(sort, tmp_path, capsys, monkeypatch, trainer):
    words = [*FEW, *SORT, *model_of(sort), "--sampling.engine", "vllm", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["trainer", *words])
    with pytest.raises(SystemExit) as end:
        trainer.main()
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert end.value.code == 2 and "sampling.engine=vllm" in told and "Traceback" not in told


def test_a_step_tells_the_edited_texts_of_its_own(sort, tmp_path):
    """A count since the process began would differ after a resume."""
    settings, folder = settings_of(tmp_path / "run", *SORT, *model_of(sort))
    with open_run(settings, folder) as opened:
        opened.parts.policy.edited = 2
        opened.end_step({})
        opened.end_step({})
    assert [row["edited"] for row in curve(tmp_path / "run")] == [2, 0]
