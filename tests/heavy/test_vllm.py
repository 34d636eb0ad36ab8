"""The vLLM engine on vLLM's build for CPUs: one process in a venv of its own measures, the tests here judge."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_envs.base.errors import MissingExtra
from tests import ROOT
from tests.needs import needs

# One worker has all of them: what they judge is measured once.
pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("vllm"), needs("[train]")]
VENV = ROOT / ".venv-vllm"
# Far over what rounding does in float32, far under what one step of training does.
CLOSE = 1e-4


@pytest.fixture(scope="module", params=[pytest.param("cpu", marks=needs("vllm"))])
def python(request):
    """The interpreter of the venv that VLLM_VENV names, else of ours, which make builds where it is missing or too old."""
    if "VLLM_VENV" in os.environ:
        return Path(os.environ["VLLM_VENV"]) / "bin" / "python"
    command = ["make", f"PYTHON={sys.executable}", f"{VENV.name}/.ready"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, f"{built.stdout[-2000:]}\n{built.stderr[-4000:]}"
    return VENV / "bin" / "python"


@pytest.fixture(scope="module")
def measured(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vllm")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    started = time.monotonic()
    ran = subprocess.run(
        [str(python), "-m", "tests.heavy.vllm_worker", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ran.returncode == 0, f"{ran.stdout[-2000:]}\n{ran.stderr[-6000:]}"
    print(f"vLLM worker: {time.monotonic() - started:.0f} s")
    # vLLM itself must say nothing here: whatever is no JSON fails.
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return {row.pop("name"): row for row in rows}


@pytest.mark.parametrize("name", ["plain", "cool", "top_k", "top_p", "greedy"])
def test_logprobs_are_those_of_the_sampled_distribution(measured, name):
    row = measured[f"logprobs {name}"]
    assert row["gap"] < CLOSE
    assert row["entropy"] > 0.5
    assert all(len(ids) == 12 for ids, finish in zip(row["ids"], row["finish"], strict=True) if finish == "length")


def test_entropies_are_lower_bounds_and_exact_where_few_tokens_hold_everything(measured):
    assert measured["greedy"]["exact"] == [False]
    for name in ("plain", "cool", "greedy"):
        least, most = measured[f"logprobs {name}"]["shortfall"]
        assert -CLOSE < least and 0.01 < most
    for name in ("logprobs top_k", "allowed"):
        least, most = measured[name]["shortfall"]
        assert -CLOSE < least and most < CLOSE


def test_tokens_are_drawn_as_often_as_their_probabilities_say(measured):
    row = measured["frequencies"]
    assert len(row["expected"]) == 5
    distance = sum(abs(one - other) for one, other in zip(row["expected"], row["found"], strict=True)) / 2
    assert distance < 0.06


def test_greedy_tokens_equal_the_other_engines(measured):
    assert measured["greedy"]["vllm"] == measured["greedy"]["hf"]


def test_allowed_ids_alone_are_drawn(measured):
    for name in ("allowed", "allowed greedy"):
        row = measured[name]
        assert {token for ids in row["ids"] for token in ids} <= set(row["letters"])
        assert row["gap"] < CLOSE


def test_a_row_does_not_depend_on_its_batch_but_on_its_seed(measured):
    row = measured["seeds"]
    assert row["together"] == row["alone"]
    first, again, other, wrapped = row["twins"]
    assert first == again == wrapped != other


def test_generation_ends_with_the_token_that_completes_a_stop_text_and_the_text_stays(measured):
    row = measured["stop"]
    assert set(row["finish"]) == {"stop"}
    for text in row["texts"]:
        assert any(text.endswith(stop) for stop in row["stops"])
        assert not any(stop in text[:-1] for stop in row["stops"])


def test_a_stop_text_inside_an_open_thought_ends_nothing(measured):
    row = measured["thought"]
    assert row["finish"] == ["length", "stop"] and row["lengths"] == [True, True]
    assert row["count"] == 64 and row["same"]


def test_a_stop_text_within_a_token_keeps_the_whole_token(measured):
    row = measured["whole tokens"]
    assert (row["finish"], row["tag"]) == ("stop", [row["last"]])
    assert row["text"].endswith("</search>")


def test_the_end_token_is_part_of_what_was_drawn(measured):
    row = measured["eos"]
    assert "eos" in row["finish"]
    for ids, finish in zip(row["ids"], row["finish"], strict=True):
        assert (ids[-1] == row["end"]) == (finish == "eos")
        assert row["end"] not in ids[:-1]


def test_limits_of_tokens_and_of_the_context_hold(measured):
    row = measured["length"]
    assert row["lengths"] == row["limits"]
    assert set(row["finish"]) == {"length"}
    assert measured["max_length"] == {"length": 12, "finish": "length", "nothing": []}


def test_the_next_turn_computes_its_new_tokens_alone_until_the_cache_is_forgotten(measured):
    row = measured["cache"]
    first, warm, cold = (after - before for before, after in zip(row["counts"], row["counts"][1:], strict=False))
    assert [first, cold] == row["lengths"]
    # vLLM keeps whole blocks, of 128 tokens on a CPU.
    assert warm == row["lengths"][1] - row["lengths"][0] // 128 * 128
    assert row["warm"] == row["cold"]


@pytest.mark.parametrize("name", ["sync", "lora"])
def test_after_every_sync_the_engine_samples_from_the_trained_weights(measured, name):
    assert len(measured[name]["rounds"]) == 2
    for row in measured[name]["rounds"]:
        assert row["before"] > 0.02
        assert row["probe"] < CLOSE
        assert row["after"] < CLOSE


def test_an_engine_of_adapters_never_samples_from_the_base(measured):
    assert "no adapter was synced" in measured["unsynced"]["refused"]
    assert measured["unsynced"]["first"] < CLOSE
    assert measured["base"]["gap"] > 0.02
    assert measured["mixed up"]["message"].startswith("UsageError")
    assert "takes a peft model" in measured["mixed up"]["message"]


def test_a_stale_head_is_found_and_stops_training(measured):
    row = measured["tied"]
    assert row["message"].startswith("StaleWeights")
    assert "tie_word_embeddings" in row["message"] and "LoRA" in row["message"]
    assert "sync 1 failed" in row["afterwards"]


def test_a_closed_engine_samples_nothing_and_leaves_no_files(measured):
    row = measured["closed"]
    assert "closed" in row["refused"]
    assert (row["kept"], row["left"]) == (1, 0)


def test_the_process_is_as_it_was_without_the_engine(measured):
    row = measured["undisturbed"]
    assert row["before"] == row["now"]
    assert row["threads"]


def test_episodes_are_rebuilt_from_the_record_without_drift(measured):
    row = measured["episodes"]
    assert (row["results"], row["drift"]) == (6, 0)
    assert row["trained"] == row["sampled"] > 0


def test_without_vllm_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    from trainers.engines.vllm import VLLMEngine

    with pytest.raises(MissingExtra, match=r'^VLLMEngine needs vllm.*: pip install "agent-envs\[train-gpu\]"$'):
        VLLMEngine(tmp_path)


def test_what_is_not_among_the_likeliest_tokens_counts_as_one_outcome():
    from trainers.engines.vllm import estimated_entropy

    half, quarter = math.log(0.5), math.log(0.25)
    assert estimated_entropy([half, quarter]) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    assert estimated_entropy([half, half]) == pytest.approx(math.log(2))
    assert estimated_entropy([0.0, -math.inf]) == 0.0
