"""Whole runs, from the command line to result.json: learning curves that survive a kill, evaluations that never choose."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from safetensors.torch import load_file

from agent_envs import UsageError
from tests.examples import sample
from tests.trainers.forked import killed_and_resumed, two_ranks
from trainers import run_parts
from trainers.command_line import parse
from trainers.grpo import GRPOSettings, main, train
from trainers.run import open_run
from trainers.settings import EnvironmentSettings, ModelSettings, SamplingSettings
from trainers.training.metrics import read_metrics

SMALL = [
    "--env.id", "Order", "--env.arguments", '{"size": 2, "max_generations": 3}', "--model.name", "tiny:tiny",
    "--model.tokenizer-plays", "64", "--log.no-curves",
    "--warm-start.demonstrations", "40", "--warm-start.steps", "6", "--warm-start.rows-per-step", "20",
    "--warm-start.optim.learning-rate", "0.003", "--sampling.max-new-tokens", "12", "--sampling.batch", "16",
    "--sampling.eval-temperature", "1", "--tasks-per-step", "4", "--group-size", "4", "--optim.learning-rate", "0.0005",
    "--evaluation.every", "2", "--evaluation.tasks", "8", "--evaluation.test-tasks", "8", "--log.checkpoint-every", "1",
    "--log.keep-checkpoints", "9",
]  # fmt: skip
UNTIMED = ("step_time", "cpu_seconds")


def run(out, *words, steps=4):
    settings, folder = parse(GRPOSettings, [*SMALL, "--steps", str(steps), *words, "--out", str(out)], program="grpo")
    with open_run(settings, folder) as opened:
        return train(settings, opened)


def curve(out):
    rows = read_metrics(Path(out) / "metrics.jsonl")
    return [{name: value for name, value in row.items() if not name.startswith(UNTIMED)} for row in rows]


def test_a_trained_model_is_trained_on(whole, tmp_path):
    out, _ = whole
    result = run(tmp_path / "more", "--model.name", str(out / "model"), "--warm-start.demonstrations", "0", steps=1)
    assert result["before"]["success"] == whole[1]["after"]["success"]  # the same weights, tokens and draws


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    return out, run(out, "--log.curves")


def test_the_result_holds_what_was_asked_for(whole):
    out, result = whole
    assert json.loads((out / "result.json").read_text()) == result
    assert {"before", "after", "steps", "sampled_tokens", "cpu_seconds"} <= set(result)
    for side in ("before", "after"):
        low, high = result[side]["interval"]
        assert 0 <= low <= result[side]["success"] <= high <= 1 and result[side]["tasks"] == 8
    assert result["steps"] == 4 and result["sampled_tokens"] > 100 and result["cpu_seconds"] > 1
    rows = curve(out)
    assert [row["step"] for row in rows] == [1, 2, 3, 4] and rows[-1]["sampled_tokens"] == result["sampled_tokens"]
    assert all(row["drift"] == 0 for row in rows) and [("eval/success" in row) for row in rows] == [False, True] * 2
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_that_is_written_is_one_that_transformers_loads(whole):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out, _ = whole
    model = AutoModelForCausalLM.from_pretrained(out / "model")
    tokenizer = AutoTokenizer.from_pretrained(out / "model")
    last = sorted((out / "checkpoints").glob("step-*"))[-1]
    weights = load_file(last / "weights.safetensors")
    loaded = dict(model.named_parameters())
    assert all(torch.equal(loaded.pop(name), value) for name, value in weights.items())
    assert loaded and all("o_proj.bias" in name and not value.any() for name, value in loaded.items())
    assert tokenizer.chat_template and tokenizer.decode(tokenizer.encode("ascending order")) == "ascending order"


def test_a_run_that_a_limit_on_environment_steps_ends_is_measured_at_its_end(whole, tmp_path):
    out, _ = whole
    most = curve(out)[2]["env_steps"]
    result = run(tmp_path / "short", "--most-env-steps", str(int(most)))
    rows = curve(tmp_path / "short")
    assert [row["step"] for row in rows] == [1, 2, 3] and result["steps"] == 3 and result["env_steps"] == most
    assert [("eval/success" in row) for row in rows] == [False, True, True]
    assert rows[:2] == curve(out)[:2] and rows[2].items() >= curve(out)[2].items()


def test_the_same_seed_gives_the_same_curve_and_another_does_not(whole, tmp_path):
    out, result = whole
    run(tmp_path / "again")
    assert curve(tmp_path / "again") == curve(out)
    run(tmp_path / "other", "--seed", "1", steps=2)
    assert curve(tmp_path / "other") != curve(out)[:2]


def test_more_episodes_at_a_time_than_the_engine_takes_rows_are_the_same_but_for_rounding(whole, tmp_path):
    run(tmp_path / "waiting", "--sampling.batch", "5", "--sampling.episodes", "16", steps=1)
    (first,) = curve(tmp_path / "waiting")
    expected = curve(whole[0])[0]
    names = [name for name in expected if name in first and not name.startswith("eval/")]
    assert len(names) > 20 and {name: first[name] for name in names} == pytest.approx(
        {name: expected[name] for name in names}, rel=1e-3, abs=1e-4
    )
    with pytest.raises(UsageError, match="sampling.episodes=-1"):
        SamplingSettings(episodes=-1)


def test_a_killed_run_goes_on_to_the_same_curve(whole, tmp_path):
    """SIGKILL in the middle of a step, twice, at moments that differ; then --resume and nothing else."""
    out, result = whole
    place = tmp_path / "killed"
    killed_and_resumed("trainers.grpo", [*SMALL, "--steps", "4"], place, "step-00000001", "step-00000003")
    assert curve(place) == curve(out)
    found = json.loads((place / "result.json").read_text())
    assert {**found, "cpu_seconds": 0} == {**result, "cpu_seconds": 0}


def test_the_best_is_chosen_on_the_evaluation_split(tmp_path, monkeypatch):
    """The evaluation likes step 2 best; the test split would have liked another, and is not asked."""
    import trainers.evaluation as module

    asked = []
    honest = module.measure_all

    def measured(policy, spec, split, count, key):
        found = honest(policy, spec, split, count, key)
        asked.append(split)
        liked = {"dev": [0.9, 0.1], "test": [0.0, 1.0]}[split][min(1, asked.count(split) - 1)]
        rate = type(found.rate)(liked, liked, liked, 8, 8, 8)
        return type(found)(rate, found.successes, found.clusters, found.means, found.faults)

    monkeypatch.setattr(module, "measure_all", measured)
    result = run(tmp_path / "best", "--evaluation.keep-best")
    assert result["chosen"] == {"split": "dev", "step": 2}
    best = load_file(next((tmp_path / "best" / "checkpoints").glob("best-00000002")) / "weights.safetensors")
    final = load_file(tmp_path / "best" / "model" / "model.safetensors")
    last = load_file(tmp_path / "best" / "checkpoints" / "step-00000004" / "weights.safetensors")
    assert all(torch.equal(best[name], final[name]) for name in best)
    assert any(not torch.equal(best[name], last[name]) for name in best)
    assert asked == ["test", "dev", "dev", "test"]


def test_a_reference_model_is_the_one_of_the_beginning_also_after_a_resume(tmp_path):
    """With a KL term the curve must go on too: the reference is the model after the warm start, not the resumed one."""
    words = ["--beta", "0.05", "--optim.learning-rate", "0.003"]
    run(tmp_path / "whole", *words, steps=3)
    assert curve(tmp_path / "whole")[-1]["kl"] > 0
    settings, folder = parse(
        GRPOSettings, [*SMALL, *words, "--steps", "3", "--out", str(tmp_path / "cut")], program="grpo"
    )
    with pytest.raises(KeyboardInterrupt), open_run(settings, folder) as opened:
        end_step = opened.end_step

        def interrupted(stats, groups=()):
            end_step(stats, groups)
            if opened.step == 2:
                raise KeyboardInterrupt

        opened.end_step = interrupted
        train(settings, opened)
    settings, folder = parse(GRPOSettings, ["--resume", str(tmp_path / "cut")], program="grpo")
    with open_run(settings, folder) as opened:
        assert opened.step == 2 and not opened.fresh
        train(settings, opened)
    assert curve(tmp_path / "cut") == curve(tmp_path / "whole")


def test_two_processes_train_as_one_does(whole, tmp_path):
    """Each plays half of the groups; rewards, losses and weights are those of one process up to rounding."""
    assert two_ranks("trainers.grpo", *SMALL, "--steps", "2", "--out", tmp_path / "two") == [0, 0]
    learnt_alike(whole[0], tmp_path / "two")


@pytest.mark.heavy
def test_two_processes_of_torchs_launcher_train_as_one_does(whole, tmp_path):
    """The launcher that the docs name sets the ranks; the test above stands for it where seconds count."""
    spread = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "trainers.grpo"]
    words = [*SMALL, "--steps", "2", "--out", str(tmp_path / "two")]
    quiet = {"env": {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}, "stdout": subprocess.PIPE}
    printed = subprocess.run([sys.executable, *spread, *words], check=True, timeout=300, **quiet).stdout
    assert json.loads(printed.splitlines()[-1]) == json.loads((tmp_path / "two" / "result.json").read_text())
    learnt_alike(whole[0], tmp_path / "two")


def learnt_alike(out, other):
    """Check that the two steps of another run are the first two of this one."""
    one, two = curve(out)[:2], curve(other)
    for alone, together in zip(one, two, strict=True):
        for name in (
            "reward",
            "success",
            "grad_norm",
            "entropy",
            "learning_rate",
            "frac_reward_zero_std",
            "num_tokens",
            "valid_actions",
            "completions/min_length",
            "completions/max_length",
            "completions/mean_terminated_length",
            "clip_ratio/high_max",
        ):
            assert together[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-6), name
    together, alone = (
        load_file(place / "checkpoints" / "step-00000002" / "weights.safetensors") for place in (other, out)
    )
    assert all(torch.allclose(together[name], alone[name], atol=1e-4) for name in alone)


def test_a_process_without_rows_does_not_hold_the_others_up(tmp_path):
    """One group each; where it is flat, its process has nothing to train on, and other tools were called."""
    words = [*SMALL, "--tasks-per-step", "2", "--group-size", "2", "--drop-flat-groups", "--steps", "6"]
    assert two_ranks("trainers.grpo", *words, "--out", tmp_path / "two") == [0, 0]
    assert any(0 < row["frac_reward_zero_std"] < 1 for row in curve(tmp_path / "two"))


WAYS = {
    "turn credit": ["--credit", "turn", "--gamma-turn", "0.9"],
    "several updates": ["--epochs", "2", "--minibatches", "2"],
    "correction": ["--correction", "sequence_mask"],
    "KL in the reward": ["--beta", "0.1", "--kl-in", "reward", "--kl", "k1", "--drop-flat-groups"],
    "Dr. GRPO": ["--loss", "dr_grpo", "--scale", "none", "--baseline", "leave_one_out"],
    "clip-higher": ["--eps-high", "0.28", "--drop-flat-groups", "--drop-truncated", "--entropy", "0.01"],
    "GSPO": ["--policy-loss", "gspo", "--loss", "sequence_mean", "--eps-low", "0.0003", "--eps-high", "0.0004"],
    "CISPO": ["--policy-loss", "cispo", "--dual-clip", "0"],
}


@pytest.mark.parametrize("way", sample(list(WAYS), 4))
def test_every_way_to_train_takes_a_step(tmp_path, way):
    few = ["--evaluation.every", "0", "--evaluation.test-tasks", "0", "--log.episodes"]
    result = run(tmp_path / "way", *WAYS[way], *few, steps=2)
    rows = curve(tmp_path / "way")
    assert len(rows) == 2 and all(row["drift"] == 0 and row["edited"] == 0 for row in rows)
    assert any(row.get("grad_norm", 0) > 0 for row in rows) and result["before"] is None
    assert (tmp_path / "way" / "episodes-0.jsonl").stat().st_size > 0
    if way == "correction":
        assert rows[0]["sampling/sampling_logp_difference/max"] < 1e-4  # one model, two code paths
    if way == "KL in the reward":
        assert 0 <= rows[0]["frac_reward_zero_std"] <= 1 and rows[0]["kl"] == pytest.approx(0, abs=1e-6)


def test_lora_trains_an_adapter_alone_and_its_run_goes_on(whole, tmp_path):
    out, _ = whole
    words = [
        "--model.name",
        str(out / "model"),
        "--model.lora-rank",
        "4",
        "--warm-start.demonstrations",
        "0",
        "--beta",
        "0.02",
    ]
    run(tmp_path / "lora", *words, "--optim.learning-rate", "0.01", steps=2)
    weights = load_file(tmp_path / "lora" / "checkpoints" / "step-00000002" / "weights.safetensors")
    assert weights and all("lora_" in name for name in weights)
    assert (tmp_path / "lora" / "model" / "adapter_config.json").exists()
    assert curve(tmp_path / "lora")[1]["kl"] > 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["--model.lora-rank", "4"], "tiny models are trained whole"),
        (["--env.test-split", "exam"], "has no split 'exam'"),
        (["--env.arguments", "[1]"], "a JSON object is needed"),
        (["--env.arguments", "{"], "is no JSON"),
        (["--env.tests", "[1]"], "env.tests='[1]': a JSON object"),
        (["--env.tests", '{"one": 1}'], "env.tests: one='1': a JSON object"),
        (["--env.tests", '{"one": {"split": "exam"}}'], "has no split 'exam'"),
        (["--env.tests", '{"one": {"split": "dev"}}', "--evaluation.keep-best"], "would measure one"),
        (["--env.eval-split", "test", "--evaluation.keep-best"], "would choose on env.test_split"),
        (["--evaluation.every", "0", "--evaluation.keep-best"], "keep_best needs evaluations"),
        (["--group-size", "1"], "group_size=1"),
        (["--sampling.temperature", "0"], "sampling.temperature must be > 0"),
        (["--minibatches", "0"], "minibatches=0"),
        (["--model.name", "tiny:huge"], "size='huge'"),
        (["--env.id", "SortExpA"], "SortExpA"),
        (["--env.id", "Nothing"], "Nothing"),
        (["--model.tokenizer-plays", "0"], "tokenizer_plays=0"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["grpo", *SMALL, *words, "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as end:
        main()
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert end.value.code == 2 and message in told and "Traceback" not in told


@pytest.mark.parametrize("has_gpu", [False, True])
@pytest.mark.parametrize("name", ["Order", "SortExpA"])
def test_graphs_are_refused_before_anything_is_built(name, has_gpu, tmp_path, monkeypatch):
    def build(*of):
        raise LookupError("something is built")

    monkeypatch.setattr(run_parts, "make_accelerator", build)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    env, sampling = EnvironmentSettings(id=name), SamplingSettings(graphs=True)
    error, message = (LookupError, None) if has_gpu and name == "Order" else (UsageError, r"^sampling\.graphs: [^\n]*$")
    with pytest.raises(error, match=message):
        run_parts.build_parts(GRPOSettings(env=env, sampling=sampling), tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_graphs_are_refused_for_expanded_actions_under_an_id_of_ones_own(tmp_path, monkeypatch):
    own = replace(gym.spec("agent_envs/SortExpA-v0"), id="agent_envs_tests/OwnSort-v0")
    monkeypatch.setitem(gym.registry, own.id, own)
    parts = run_parts.make_accelerator(ModelSettings())
    monkeypatch.setattr(run_parts, "make_accelerator", lambda settings: parts)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    env, sampling = EnvironmentSettings(id=own.id, train_split="train"), SamplingSettings(graphs=True)
    with pytest.raises(UsageError, match=r"^sampling\.graphs: expanded actions[^\n]*$"):
        run_parts.build_parts(GRPOSettings(env=env, sampling=sampling), tmp_path / "run")
