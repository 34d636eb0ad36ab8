"""Runs of long horizons are of seeds that no setting was chosen on, and the page tells them as they are stored."""

from tests.needs import require

require("[train]")

import json

import pytest

from benchmarks import verlog_learn
from benchmarks.training_runs import report_seeds
from benchmarks.verlog_horizons import CUT, by_ten
from tests import ROOT
from trainers.command_line import parse
from trainers.verlog import VerlogSettings

PAGE = (ROOT / "docs" / "verlog.md").read_text(encoding="utf-8")


def stored(name):
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8"))


def cell(rate):
    low, high = (100 * bound for bound in rate["interval"])
    return f"{100 * rate['success']:.1f} [{low:.1f}, {high:.1f}]"


def test_a_number_is_told_by_ten_steps():
    assert by_ten([1.0] * 10 + [2.0, 4.0]) == [1.0, 3.0] and by_ten([]) == []


@pytest.mark.parametrize("preset", stored("verlog_horizons.json")["runs"])
def test_runs_are_of_the_rules_seeds_and_stand_on_the_page(preset):
    run = stored("verlog_horizons.json")["runs"][preset]
    assert [run["seed"]] == list(report_seeds(preset, 1)) and run["options"] == " ".join(CUT[preset])
    cells = [cell(run[side]) for side in ("before", "after", "greedy")]
    cells += [cell(run["built_in"][agent]) for agent in ("random", "solver")]
    cells += [str(run["steps"]), f"{run['env_steps']:,}", f"{run['cpu_seconds']:.0f}"]
    assert f"| `{preset}`, seed {run['seed']} | {run['limit']} | {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize("arm", [arm for arm in verlog_learn.ABLATIONS if verlog_learn.ABLATIONS[arm][0] == "verlog"])
def test_every_ablation_changes_one_thing_of_the_preset(arm, tmp_path):
    words = ("--preset", verlog_learn.PRESET, "--out", str(tmp_path / "run"))
    plain, changed = (
        parse(VerlogSettings, [*words, *more], program="verlog")[0] for more in ((), verlog_learn.ABLATIONS[arm][1])
    )
    names = {name for name in vars(plain) if getattr(plain, name) != getattr(changed, name)}
    assert (
        names
        == {
            "one discount": {"discounts"},
            "no warm-up": {"warmup", "steps"},
            "first weight 1": {"critic"},
            "native reward": {"env"},
            "released truncation": {"released_truncation"},
        }[arm]
    )
    if arm == "native reward":
        assert json.loads(changed.env.arguments) == {**json.loads(plain.env.arguments), "reward": "native"}
