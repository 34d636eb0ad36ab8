"""Results of several seeds are compared in pairs, with their mean difference and Student's interval over seeds."""

import json
import math

import pytest

from agent_envs.base.errors import UsageError
from benchmarks import earl_learn, learn, veg_learn
from benchmarks.training_runs import (
    describe_seeds,
    lead_over_seeds,
    mean_line,
    over_seeds,
    points,
    report_seeds,
    summarise_shares,
    with_points_on_a_line,
    write,
)
from trainers.command_line import PRESETS


def test_three_seeds_have_students_interval():
    """Gaps 0.1, 0.2, 0.3: mean 0.2, standard deviation 0.1, half-width 4.303 x 0.1 / sqrt(3)."""
    told = lead_over_seeds({0: 0.5, 1: 0.5, 2: 0.5}, {2: 0.8, 1: 0.7, 0: 0.6})
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
    told = lead_over_seeds({0: 0.5, 1: 0.9}, {0: 0.5, 2: 0.4})
    assert told["by_seed"] == {"0": 0.0} and told["mean"] == 0.0 and told["interval"] is None
    assert lead_over_seeds({0: 0.5}, {1: 0.5}) is None


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


def test_reported_seeds_follow_from_the_presets_name_and_no_setting_was_tried_on_them():
    """The digest of "tiny-searchqa" begins 4f21 84be 1a6c 786f ebc4."""
    assert report_seeds("tiny-searchqa") == (0x4F21, 0x84BE, 0x1A6C, 0x786F, 0xEBC4)
    for preset in sorted({path.stem for path in PRESETS.rglob("tiny-*.toml")}):
        drawn = report_seeds(preset, 10)
        assert len(set(drawn)) == 10 and not set(drawn) & set(range(10)) and drawn[:5] == report_seeds(preset)
    with pytest.raises(UsageError, match="gives 16 seeds, not 17"):
        report_seeds("tiny-searchqa", 17)


def test_a_reader_is_told_which_seeds_settings_were_chosen_on():
    assert "drawn after" in describe_seeds("tiny-sort4", report_seeds("tiny-sort4"))
    assert "chosen on" in describe_seeds("tiny-sort4", (0, 1, 2)) and "given" in describe_seeds("tiny-sort4", (77, 78))
    later = report_seeds("tiny-sort4", 8)[5:]
    assert describe_seeds("tiny-sort4", later).startswith("numbers 6, 7, 8 of the seeds that follow from the sha256")


def test_every_learning_benchmark_reports_on_those_seeds(monkeypatch, capsys):
    for module, program in ((learn, "grpo"), (earl_learn, "earl"), (veg_learn, "veg")):
        begun = []
        monkeypatch.setattr(
            module,
            "run_training",
            lambda name, options, seed, folder, begun=begun: begun.append((name, options, seed)) or 1 / 0,
        )
        monkeypatch.setattr("sys.argv", [module.__name__])
        with pytest.raises(ZeroDivisionError):
            module.main()
        named = {(name, options[options.index("--preset") + 1], seed) for name, options, seed in begun}
        assert named <= {(program, preset, seed) for _, preset, _ in named for seed in report_seeds(preset)} and named


def test_the_worst_seed_is_named():
    told = summarise_shares({20257: 0.8, 6764: 0.75, 30831: 0.75})
    assert told["worst"] == {"seed": 6764, "value": 0.75} and told["mean"] == 0.7667
    assert mean_line(told).endswith("worst 75.0 (seed 6764)") and mean_line(told).startswith("mean of 3 seeds 76.7 % [")


def test_a_file_of_figures_keeps_what_was_not_run_again(tmp_path):
    write({"a": 1, "b": 2}, tmp_path / "figures.json", "presets", {})
    write({"b": 3}, tmp_path / "figures.json", "presets", {"command": "again"})
    kept = json.loads((tmp_path / "figures.json").read_text())
    assert kept == {"about": {"command": "again"}, "presets": {"a": 1, "b": 3}}
