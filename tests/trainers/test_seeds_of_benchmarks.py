"""Results of several seeds are compared in pairs, with their mean difference and Student's interval over seeds."""

import json
import math

import pytest

from benchmarks.training_runs import ahead, over_seeds, points, with_points_on_a_line


def test_three_seeds_have_students_interval():
    """Gaps 0.1, 0.2, 0.3: mean 0.2, standard deviation 0.1, half-width 4.303 x 0.1 / sqrt(3)."""
    told = ahead({0: 0.5, 1: 0.5, 2: 0.5}, {2: 0.8, 1: 0.7, 0: 0.6})
    half = 4.3027 * 0.1 / math.sqrt(3)
    assert told["by_seed"] == {"0": 0.1, "1": 0.2, "2": 0.3} and told["mean"] == 0.2
    assert told["interval"] == pytest.approx([0.2 - half, 0.2 + half], abs=1e-4)


@pytest.mark.parametrize("count, quantile", [(2, 12.7062), (4, 3.1824), (6, 2.5706), (9, 2.3060), (30, 2.0452)])
def test_any_number_of_seeds_from_two_on_has_an_interval(count, quantile):
    """Values 0 and 1 in turns, for an even count: standard deviation sqrt(n / (n - 1)) / 2."""
    values = {seed: float(seed % 2) for seed in range(count)}
    mean = sum(values.values()) / count
    spread = math.sqrt(sum((value - mean) ** 2 for value in values.values()) / (count - 1))
    half = quantile * spread / math.sqrt(count)
    assert over_seeds(values)["interval"] == pytest.approx([mean - half, mean + half], abs=1e-3)


def test_seeds_are_paired_by_their_number():
    told = ahead({0: 0.5, 1: 0.9}, {0: 0.5, 2: 0.4})
    assert told["by_seed"] == {"0": 0.0} and told["mean"] == 0.0 and told["interval"] is None
    assert ahead({0: 0.5}, {1: 0.5}) is None


def test_seeds_that_agree_claim_no_certainty():
    assert over_seeds({0: 0.1 + 0.2, 1: 0.3, 2: 0.3})["interval"] is None


def test_differences_are_told_in_points():
    assert points(over_seeds({3: 0.25})) == "+25.0, no interval (seed 3)"
    told = points({"by_seed": {"0": 0.1, "1": 0.2}, "mean": 0.15, "interval": [-0.0512, 0.3512]})
    assert told == "+15.0 [-5.1, +35.1] (seeds 0, 1)"


def test_points_stand_on_a_line_and_nothing_else_moves():
    table = {"curve": [[1, 0.5], [32446, -1e-05]], "three": [1, 2, 3], "words": ["a", "b"], "interval": [0.25, None]}
    text = with_points_on_a_line(json.dumps(table, indent=1))
    assert json.loads(text) == table and "[1, 0.5]" in text and "[32446, -1e-05]" in text and "[1, 2" not in text
