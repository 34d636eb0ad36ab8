"""Rows survive kills and resumes; every sink gets them; what is missing is told in a line."""

import json
import sys

import pytest

from agent_envs.base.errors import UsageError
from trainers.settings import LogSettings
from trainers.training.metrics import Metrics, read_metrics


def test_rows_come_back_by_step_and_the_last_write_of_a_step_counts(tmp_path):
    with Metrics(tmp_path, quiet=True) as metrics:
        metrics.log(1, {"reward": 0.5, "loss": 1.0})
        metrics.log(2, {"reward": 0.25, "loss": 9.0})
        metrics.log(2, {"eval/success": 0.75})
    with Metrics(tmp_path, quiet=True) as metrics:
        metrics.log(2, {"reward": 0.125, "loss": 2.0})
        metrics.log(3, {"reward": 1})
    assert read_metrics(tmp_path / "metrics.jsonl") == [
        {"step": 1, "reward": 0.5, "loss": 1.0},
        {"step": 2, "reward": 0.125, "loss": 2.0, "eval/success": 0.75},
        {"step": 3, "reward": 1.0},
    ]


def test_a_torn_last_row_is_dropped_and_the_run_goes_on(tmp_path):
    with Metrics(tmp_path, quiet=True) as metrics:
        metrics.log(1, {"reward": 0.5})
        metrics.log(2, {"reward": 0.75})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-7])
    assert [row["step"] for row in read_metrics(path)] == [1]
    with Metrics(tmp_path, quiet=True) as metrics:
        metrics.log(2, {"reward": 0.25})
    assert read_metrics(path) == [{"step": 1, "reward": 0.5}, {"step": 2, "reward": 0.25}]


def test_numbers_that_are_not_finite_are_written_as_null_and_left_out(tmp_path):
    with Metrics(tmp_path, quiet=True) as metrics:
        metrics.log(1, {"kl": float("nan"), "entropy": float("inf"), "loss": 0.5})
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 1, "loss": 0.5}]
    row = json.loads((tmp_path / "metrics.jsonl").read_text())["row"]
    assert row["metrics"] == {"kl": None, "entropy": None, "loss": 0.5}


def test_a_process_that_is_not_the_first_writes_nothing(tmp_path, capsys):
    with Metrics(tmp_path / "run", enabled=False) as metrics:
        metrics.log(1, {"reward": 1.0})
    assert not (tmp_path / "run").exists()
    assert capsys.readouterr().err == ""


def test_away_from_a_terminal_a_step_is_a_line(tmp_path, capsys):
    with Metrics(tmp_path, total_steps=7) as metrics:
        metrics.log(3, {"reward": 0.5, "hidden": 1.0, "grad_norm": 0.123456})
    assert capsys.readouterr().err == "step 3/7: reward 0.5, grad_norm 0.1235\n"


def test_tensorboard_has_every_scalar_and_hides_what_a_resume_replaces(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps, loss in (((1, 2, 3), 9.0), ((2, 3, 4), 1.0)):
        with Metrics(tmp_path, LogSettings(tensorboard=True), quiet=True) as metrics:
            for step in steps:
                metrics.log(step, {"loss": loss, "clip_ratio/low_mean": 0.5})
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"loss", "clip_ratio/low_mean"}
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 9.0), (2, 1.0), (3, 1.0), (4, 1.0)]


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_service_that_is_not_installed_is_told_with_its_command_and_nothing_is_written(tmp_path, name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=f"pip install {name}"):
        Metrics(tmp_path / "run", LogSettings(**{name: "project"}))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_a_service_is_opened_written_and_finished(tmp_path, monkeypatch, name):
    (tmp_path / f"{name}.py").write_text(
        "import pathlib\n"
        "out = pathlib.Path(__file__).with_suffix('.txt')\n"
        "def put(*words):\n"
        "    out.write_text((out.read_text() if out.exists() else '') + repr(words) + '\\n')\n"
        "def init(project, name): put('init', project, name)\n"
        "def log(metrics, step): put('log', metrics, step)\n"
        "def finish(): put('finish')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    with Metrics(tmp_path / "run-7", LogSettings(**{name: "project"}), quiet=True) as metrics:
        metrics.log(4, {"reward": 0.5})
    monkeypatch.delitem(sys.modules, name)
    assert (tmp_path / f"{name}.txt").read_text().splitlines() == [
        "('init', 'project', 'run-7')",
        "('log', {'reward': 0.5}, 4)",
        "('finish',)",
    ]
