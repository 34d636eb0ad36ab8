"""A picture of the metrics that are there, with means and windows as told."""

import pytest

from agent_envs.base.errors import UsageError
from trainers.figures.learning_curves import mean_curve, plot_curves, points, smooth, smoothing


def rows(offset, count=6):
    made = [{"step": step, "reward": offset + step / 10, "loss": 1 / step} for step in range(1, count + 1)]
    for row in made[1::2]:
        row |= {"eval/success": 0.5, "eval/success_low": 0.4, "eval/success_high": 0.7}
    return made


def size(path):
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def test_a_panel_for_every_metric_that_some_row_has(tmp_path):
    plot_curves([rows(0), rows(1)], tmp_path / "new" / "three.png", title="three")
    assert size(tmp_path / "new" / "three.png")[0] > 1000
    plot_curves([rows(0)], tmp_path / "one.png", panels=("reward",))
    plot_curves([rows(0)], tmp_path / "four.png", panels=("reward", "loss", "eval/success", "step"))
    one, four = size(tmp_path / "one.png"), size(tmp_path / "four.png")
    assert one[0] * 2 < four[0] and one[1] < four[1]


def test_the_picture_shows_the_data(tmp_path):
    for name, data in (("a", rows(0)), ("b", rows(5)), ("c", rows(0))):
        plot_curves([data], tmp_path / f"{name}.png", panels=("reward",))
    first, other, again = (tmp_path.joinpath(f"{name}.png").read_bytes() for name in "abc")
    assert first == again != other


def test_seeds_of_different_length_and_missing_points_are_drawn(tmp_path):
    plot_curves([rows(0, 6), rows(1, 3), []], tmp_path / "ragged.png")
    assert size(tmp_path / "ragged.png")
    with pytest.raises(UsageError, match="no metrics to draw"):
        plot_curves([[{"step": 1, "other": 2.0}]], tmp_path / "none.png")


def test_means_over_seeds_are_of_the_steps_that_all_have():
    curves = [points(rows(0, 4), "reward"), points(rows(1, 2), "reward"), []]
    assert mean_curve(curves) == [(1, pytest.approx(0.6)), (2, pytest.approx(0.7))]
    assert mean_curve([[], []]) == []


def test_smoothing_is_a_mean_around_each_point():
    assert smooth([1.0, 2.0, 6.0, 7.0], 1) == [1.0, 2.0, 6.0, 7.0]
    assert smooth([1.0, 2.0, 6.0, 7.0], 3) == [1.5, 3.0, 5.0, 6.5]
    assert [smoothing(count) for count in (0, 19, 40, 200)] == [1, 1, 2, 10]
