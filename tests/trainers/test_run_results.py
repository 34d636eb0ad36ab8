"""A finished run writes its result last and is not repeated, and further tests and episode statistics are logged."""

import json
import shutil

import pytest

from tests.trainers.forked import ended, started
from tests.trainers.test_training_run import curve, run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "run"
    return out, run(out, steps=2)


def test_a_finished_run_says_so_and_is_not_played_again(finished, tmp_path):
    """Raising the steps goes on with it."""
    out, result = finished
    place = tmp_path / "copy"
    shutil.copytree(out, place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    told, notes = tmp_path / "told", tmp_path / "notes"
    assert ended(started("trainers.grpo", "--resume", place, out=told, err=notes)) == 0
    assert json.loads(told.read_text()) == result
    assert f"{place} is finished, after 2 steps" in notes.read_text() and "raise steps" in notes.read_text()
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before
    settings = json.loads((place / "settings.json").read_text())
    (place / "settings.json").write_text(json.dumps({**settings, "steps": 3}))
    assert ended(started("trainers.grpo", "--resume", place)) == 0
    assert json.loads((place / "result.json").read_text())["steps"] == 3
    assert curve(place)[:2] == curve(out) and len(curve(place)) == 3


def test_further_tests_are_measured_at_the_end_and_the_test_itself_once(tmp_path, monkeypatch):
    import trainers.evaluation as module

    asked, honest = [], module.measure_all

    def measured(policy, specs, split, count, key):
        asked.extend((json.loads(spec)["kwargs"].get("size"), split) for _, spec in specs)
        return honest(policy, specs, split, count, key)

    monkeypatch.setattr(module, "measure_all", measured)
    tests = {"same": {}, "longer": {"size": 3}, "seen": {"split": "train"}}
    words = ["--env.tests", json.dumps(tests), "--evaluation.every", "0"]
    result = run(tmp_path / "tests", *words, steps=1)
    assert asked == [(2, "test"), (2, "test"), (3, "test"), (2, "train")]
    assert list(result["tests"]) == ["same", "longer", "seen"] and result["before"]["tasks"] == 8
    assert result["tests"]["same"] == {"split": "test", **result["after"]}
    assert {row["split"] for row in result["tests"].values()} == {"test", "train"}
    assert json.loads((tmp_path / "tests" / "result.json").read_text()) == result


def test_steps_tell_of_terminated_episodes_and_of_extremes(finished):
    """Under TRL's names: a limit ends most episodes of a random policy, so lengths of the others are apart."""
    rows = curve(finished[0])
    for row in rows:
        assert 0 <= row["tools/failure_frequency"] <= 1
        assert 0 <= row["clip_ratio/low_min"] <= row["clip_ratio/low_mean"]
        assert row["clip_ratio/high_mean"] <= row["clip_ratio/high_max"] <= 1
        if row["completions/clipped_ratio"] < 1:
            names = [f"completions/{kind}_terminated_length" for kind in ("min", "mean", "max")]
            low, middle, high = (row[name] for name in names)
            assert row["completions/min_length"] <= low <= middle <= high <= row["completions/max_length"]
    assert any("completions/min_terminated_length" in row for row in rows)
