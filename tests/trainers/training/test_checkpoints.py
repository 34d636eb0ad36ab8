"""A run that is killed at any moment goes on to the same end; damage is skipped; the best is by validation."""

import json
import random
import sys
from pathlib import Path

import pytest
import torch

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.serialization import digest
from tests.trainers.conftest import make_rows
from tests.trainers.forked import ended, started
from trainers.batching import micro_batches
from trainers.settings import OptimSettings
from trainers.training.checkpoints import Checkpoints, whole_folder
from trainers.training.forward import token_logprobs
from trainers.training.optimise import Optimiser


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


@pytest.fixture
def run(tiny_model):
    def start(seed=0):
        model = tiny_model(seed=seed)
        return model, Optimiser(model, OptimSettings(learning_rate=1e-2), 10)

    return start


def advance(run, rows):
    model, optimiser = run
    for micro in micro_batches(rows, 1000, 0):
        (token_logprobs(model, micro)[0] * micro.advantages).sum().backward()
    optimiser.step()


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_run_killed_at_any_moment_and_resumed_ends_bit_for_bit_as_the_whole_run(tmp_path):
    printed = tmp_path / "printed"
    runs = started("tests.trainers.training.resumed_runs", tmp_path, 3, out=printed, CUDA_VISIBLE_DEVICES="")
    assert ended(runs) == 0
    found = json.loads(printed.read_text())
    whole = found["whole"]
    assert len({row["loss"] for row in whole["metrics"]}) == 7
    assert whole["left"] == ["best-00000004", "step-00000004", "step-00000006"] and whole["best"] == 4
    moments = {name.partition(" ")[0] for name in found["killed"]}
    assert moments >= {"micro-batch", "open", "os.rename", "os.mkdir"}, "killed in mid-step and in mid-save"
    assert {run["first"] for run in found["killed"].values()} == {0, 2, 4, 6}
    for moment, killed in found["killed"].items():
        assert (killed["died"], killed["went_on"]) == (-9, 0), moment
        assert killed["weights"] == whole["weights"], moment
        assert killed["metrics"] == whole["metrics"], moment
        assert killed["best"] == whole["best"] and set(killed["left"]) >= set(whole["left"]), moment


def test_everything_comes_back(checkpoints, run, random_rows):
    torch.manual_seed(1)
    random.seed(1)
    one, other = run(), run(seed=9)
    advance(one, random_rows(3))
    checkpoints.save(1, *one, {"cursor": [1, 2], "name": "x"})
    drawn = (torch.rand(3).tolist(), random.random())
    saved = checkpoints.load(*other)
    assert (saved.step, saved.state) == (1, {"cursor": [1, 2], "name": "x"})
    assert (torch.rand(3).tolist(), random.random()) == drawn
    assert same(one[0], other[0]) and other[1].steps == 1
    for both in (one, other):
        advance(both, random_rows(3, seed=2))
    assert same(one[0], other[0])


def test_an_adapter_is_saved_without_its_base(checkpoints, tiny_model, random_rows):
    from peft import LoraConfig, get_peft_model
    from safetensors.torch import load_file

    runs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        adapted = get_peft_model(tiny_model(), LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
        runs.append((adapted, Optimiser(adapted, OptimSettings(learning_rate=1e-2), 10)))
    advance(runs[0], random_rows(3))
    path = checkpoints.save(1, *runs[0], {})
    assert all("lora_" in name for name in load_file(path / "weights.safetensors"))
    assert not same(runs[0][0], runs[1][0])
    checkpoints.load(*runs[1])
    assert same(runs[0][0], runs[1][0])


def test_the_last_ones_stay(checkpoints, run):
    for step in (5, 10, 15):
        checkpoints.save(step, *run(), {})
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-00000010", "step-00000015"]
    assert checkpoints.latest().step == 15


def test_without_a_checkpoint_a_run_starts_at_its_beginning(checkpoints, run):
    started = run()
    assert checkpoints.load(*started) is None and checkpoints.load_best(started[0]) is None
    assert same(started[0], run()[0])
    assert not checkpoints.folder.exists()


def cut(path):
    path.write_bytes(path.read_bytes()[:-10])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [cut, flip, Path.unlink], ids=["cut", "flipped bit", "missing"])
@pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.pt", "rng.pt", "state.json"])
def test_a_damaged_checkpoint_is_skipped_with_a_line(checkpoints, run, capsys, name, damage):
    checkpoints.save(1, *run(), {"sound": True})
    damage(checkpoints.save(2, *run(seed=1), {}) / name)
    restored = run(seed=2)
    assert checkpoints.load(*restored).state == {"sound": True}
    assert same(restored[0], run()[0])
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "step-00000002 is damaged and skipped" in line


def test_no_pickle_is_ever_opened(checkpoints, run, tmp_path):
    import hashlib

    path = checkpoints.save(1, *run(), {})
    torch.save({"adamw": print, "steps": 1}, path / "optimiser.pt")
    state = json.loads((path / "state.json").read_text())
    state["files"]["optimiser.pt"] = hashlib.sha256((path / "optimiser.pt").read_bytes()).hexdigest()
    del state["sha256"]
    state["sha256"] = digest(state)
    (path / "state.json").write_text(json.dumps(state))
    with pytest.raises(Exception, match="[Ww]eights.?only"):
        checkpoints.load(*run())


def test_a_checkpoint_of_another_model_is_refused(checkpoints, run, tiny_model):
    checkpoints.save(1, *run(), {})
    wider = tiny_model(intermediate_size=48)
    with pytest.raises(UsageError, match="another model"):
        checkpoints.load(wider, Optimiser(wider, OptimSettings(), 1))
    untied = tiny_model(tie_word_embeddings=False)
    with pytest.raises(UsageError, match="another model: lm_head"):
        checkpoints.load(untied, Optimiser(untied, OptimSettings(), 1))


def test_a_step_that_is_saved_again_replaces_the_first(checkpoints, run):
    checkpoints.save(1, *run(), {"try": 1})
    checkpoints.save(1, *run(seed=1), {"try": 2})
    assert checkpoints.latest().state == {"try": 2}
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-00000001"]


def test_the_best_is_by_validation_the_earliest_of_equals_and_within_the_steps(tmp_path, tiny_model):
    checkpoints = Checkpoints(tmp_path, best_within_steps=40)
    history = [(10, 0.3), (20, 0.5), (30, 0.5), (40, float("nan")), (50, 0.9)]
    kept = [checkpoints.keep_best(step, metric, tiny_model(seed=step)) for step, metric in history]
    assert kept == [True, True, False, False, False]
    model = tiny_model()
    best = checkpoints.load_best(model)
    assert (best.step, best.metric) == (20, 0.5)
    assert same(model, tiny_model(seed=20))
    assert [path.name for path in tmp_path.iterdir()] == ["best-00000020"]


@pytest.mark.parametrize("optimiser, most", [(True, 14), (False, 4)])
def test_bytes_a_weight_at_rest(tmp_path, optimiser, most):
    """12 to go on from and 2 of the best; weights alone, of the start and the best, without an optimiser."""
    model = torch.nn.Linear(400, 400)
    adam = Optimiser(model, OptimSettings(learning_rate=1e-2), 10)
    options = {"keep": 1, "dtype": torch.bfloat16, "optimiser": optimiser}
    checkpoints = Checkpoints(tmp_path, **options)
    if not optimiser:
        Checkpoints(tmp_path / "start", dtype=torch.bfloat16).keep_best(0, 0.0, model)
    for step in (1, 2, 3):
        model(torch.ones(400)).sum().backward()
        adam.step()
        checkpoints.keep_best(step, step, model)
        checkpoints.save(step, model, adam, {})
    files = {path.stat().st_ino: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert sum(files.values()) / sum(weight.numel() for weight in model.parameters()) < most + 0.1
    twin = torch.nn.Linear(400, 400)
    assert checkpoints.load_best(twin).step == 3
    assert torch.equal(twin.weight, model.weight.bfloat16().float())
    if optimiser:
        assert checkpoints.load(twin, adam).step == 3 and same(twin, model)
    else:
        with pytest.raises(UsageError, match="has no optimiser"):
            checkpoints.load(twin, adam)


def test_equal_weights_are_one_file(checkpoints, run):
    model, optimiser = run()
    Checkpoints(checkpoints.folder / "start").keep_best(0, 0.0, model)
    path = checkpoints.save(0, model, optimiser, {})
    assert (path / "weights.safetensors").stat().st_nlink == 2
    advance((model, optimiser), make_rows(3))
    path = checkpoints.save(1, model, optimiser, {})
    assert (path / "weights.safetensors").stat().st_nlink == 1 and checkpoints.latest().step == 1


def test_a_damaged_best_gives_way(checkpoints, tiny_model, capsys):
    checkpoints.keep_best(1, 0.9, tiny_model())
    cut(checkpoints.folder / "best-00000001" / "weights.safetensors")
    assert checkpoints.keep_best(2, 0.1, tiny_model())
    assert checkpoints.best().step == 2
    assert "damaged" in capsys.readouterr().err


def test_at_least_one_checkpoint_stays(tmp_path):
    with pytest.raises(UsageError, match="keep=0"):
        Checkpoints(tmp_path, keep=0)


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path):
    place = tmp_path / "folder"
    with whole_folder(place) as part:
        (part / "file").write_text("first")
    with pytest.raises(ZeroDivisionError), whole_folder(place) as part:
        (part / "file").write_text("second")
        raise ZeroDivisionError
    with pytest.raises(AgentEnvsError, match="cannot be written"), whole_folder(place):
        raise OSError(28, "No space left on device")
    assert (place / "file").read_text() == "first"
    with whole_folder(place) as part:
        (part / "file").write_text("third")
    assert (place / "file").read_text() == "third"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_further_modules_are_part_of_a_checkpoint(checkpoints, run):
    (model, optimiser), critic = run(), torch.nn.Linear(3, 1)
    own = Optimiser(critic, OptimSettings(learning_rate=1e-2), 10)
    critic(torch.ones(1, 3)).sum().backward()
    own.step()
    checkpoints.save(1, model, optimiser, {}, {"critic": (critic, own)})
    twin = torch.nn.Linear(3, 1)
    other = Optimiser(twin, OptimSettings(learning_rate=1e-2), 10)
    assert not same(critic, twin)
    checkpoints.load_part("critic", twin, other)
    assert same(critic, twin) and other.steps == 1
    for linear, adam in ((critic, own), (twin, other)):
        linear(torch.ones(1, 3)).sum().backward()
        adam.step()
    assert same(critic, twin)
    with pytest.raises(UsageError, match="holds no value"):
        checkpoints.load_part("value", twin, other)
    with pytest.raises(UsageError, match="is of another model"):
        checkpoints.load_part("critic", torch.nn.Linear(4, 1), other)
    for name in ("optimiser", "rng", "weights", "state", "a/b", ""):
        with pytest.raises(UsageError, match="give an identifier"):
            checkpoints.save(2, model, optimiser, {}, {name: (critic, own)})
    assert checkpoints.latest().step == 1
