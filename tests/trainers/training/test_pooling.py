"""Numbers of several parts are those of the whole, and extremes are extremes."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.forked import two_ranks
from trainers.training.optimise import Ratio, add_up, averages, extreme, mean_by_name, means_of_processes


def test_two_processes_have_the_numbers_of_both(tmp_path):
    assert two_ranks("tests.trainers.training.pooled_processes", tmp_path / "found.json") == [0, 0]
    found = json.loads((tmp_path / "found.json").read_text())
    both = {
        "completions/min_length": 5, "completions/max_length": 9, "completions/min_terminated_length": 8,
        "clip_ratio/low_min": 0.25, "sampling/kl/max": 0.5,
    }  # fmt: skip
    assert found["means"] == both | {
        "reward": 1.5, "drift": 3, "tools/lookup": 1.5, "tools/find_max": 3.0, "valid_actions": 0.25,
        "completions/mean_terminated_length": 8.0,
    }  # fmt: skip
    assert both.items() <= found["sums"].items() and found["sums"]["reward"] == 3.0


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=6))
def test_micro_batches_add_up_to_the_batch(parts):
    totals: dict[str, float] = {}
    for weight, value, least in parts:
        add_up(totals, {"kl": value, "clip_ratio/low_min": least, "clip_ratio/high_max": least}, weight)
    tokens = sum(weight for weight, _, _ in parts)
    told = averages(totals, tokens)
    assert told["kl"] == pytest.approx(sum(weight * value for weight, value, _ in parts) / tokens, abs=1e-9)
    assert told["clip_ratio/low_min"] == min(least for _, _, least in parts)
    assert told["clip_ratio/high_max"] == max(least for _, _, least in parts)


def test_of_several_gradient_steps_means_are_averaged_and_extremes_kept():
    rows = [{"loss": 1.0, "clip_ratio/low_min": 0.5}, {"loss": 3.0, "kl": 1.0, "clip_ratio/low_min": 0.25}]
    assert mean_by_name(rows) == {"loss": 2.0, "kl": 1.0, "clip_ratio/low_min": 0.25}


def test_a_ratio_is_a_number_that_travels_whole():
    ratio = pickle.loads(pickle.dumps(Ratio(3, 4)))  # as accelerate sends it
    assert (ratio, ratio.total, ratio.count) == (0.75, 3, 4) and Ratio(0, 0) == 0.0
    assert means_of_processes({"valid_actions": ratio}) == {"valid_actions": 0.75}
    assert json.dumps(ratio) == "0.75"


def test_only_words_of_a_name_make_an_extreme():
    assert extreme("completions/max_length") is max and extreme("a/min") is min
    assert extreme("clip_ratio/low_mean") is None and extreme("terminal") is None and extreme("tools/min") is None
