"""Runs whose environments actors of Ray step have the curves and the weights of runs that step them here, to the bit."""

import json

import pytest

from agent_envs.base.jsonl_log import read_journal
from tests.needs import needs
from tests.trainers.forked import killed_and_resumed
from tests.trainers.test_training_run import curve
from tests.trainers.test_verlog import SMALL
from trainers import arpo, verlog
from trainers.arpo import ARPOSettings
from trainers.command_line import parse
from trainers.run import open_run
from trainers.verlog import VerlogSettings

pytestmark = [needs("[ray]"), pytest.mark.heavy]
# The presets with a start that takes seconds.
SHORT = [
    "--preset", "tiny-minute", "--steps", "4", "--warm-start.demonstrations", "200", "--warm-start.steps", "20",
    "--evaluation.every", "2", "--evaluation.tasks", "8", "--evaluation.test-tasks", "8", "--log.no-curves",
    "--log.checkpoint-every", "1", "--log.keep-checkpoints", "9",
]  # fmt: skip
ARPO = [*SHORT, "--tasks-per-step", "4", "--branching.chance", "0.9"]
VERLOG = [*SHORT, "--n-env", "6", "--warmup.batches", "1", "--warmup.rounds", "1"]
RAY = ["--sampling.backend", "ray"]


def run(module, kind, words, out):
    settings, folder = parse(kind, [*words, "--out", str(out)], program=module.__name__.rpartition(".")[2])
    with open_run(settings, folder) as opened:
        module.train(settings, opened)
    return record(out)


def record(out):
    """The curve, the result but its time, the decisions where there are any, and the weights of a run."""
    result = json.loads((out / "result.json").read_text()) | {"cpu_seconds": 0}
    decisions = out / arpo.DECISIONS.format(0)
    rows = list(read_journal(decisions)) if decisions.exists() else []
    return curve(out), result, rows, (out / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("module", "kind", "words"),
    [(arpo, ARPOSettings, ARPO), pytest.param(verlog, VerlogSettings, VERLOG, marks=needs("[babyai]"))],
)
def test_forks_and_lanes_in_actors_have_the_curve_of_those_here(tmp_path, monkeypatch, module, kind, words):
    import ray

    from agent_envs.rollout.ray_backend import Actors

    wanted, calls, ask = run(module, kind, words, tmp_path / "here"), [], Actors.ask

    def ask_and_kill(actors, place, *turn):
        calls.append(place)
        if len(calls) % 80 == 0:
            ray.kill(place.handle, no_restart=False)
        return ask(actors, place, *turn)

    monkeypatch.setattr(Actors, "ask", ask_and_kill)
    assert run(module, kind, [*words, *RAY], tmp_path / "there") == wanted
    assert len(calls) > 160 and len(set(map(id, calls))) == 2 and len(wanted[0]) == 4
    assert module is verlog or any(row["forks"] for row in wanted[2] if "node" in row)


def test_a_killed_run_of_lanes_in_actors_goes_on_to_the_curve_of_those_here(tmp_path):
    words = [*SMALL, "--steps", "3"]
    wanted = run(verlog, VerlogSettings, words, tmp_path / "here")
    killed_and_resumed("trainers.verlog", [*words, *RAY], tmp_path / "killed", "step-00000001")
    assert record(tmp_path / "killed") == wanted
