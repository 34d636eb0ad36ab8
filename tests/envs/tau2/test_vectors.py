"""The engine agrees with everything that was recorded of the original, and the comparison can fail."""

import copy
import json
import os
from pathlib import Path

import pytest

from tests.envs.tau2.vectors import main, replay_file, vectors_in

VECTORS = Path(os.environ.get("AGENT_ENVS_DATA", "")) / "tau2" / "vectors"
pytestmark = pytest.mark.data
EVALUATED = [
    f"evaluated {member}"
    for member in (
        "reward_without_nl", "db_match", "env_reward", "env_breakdown", "env_assertions", "action_reward",
        "action_checks", "communicate_reward", "communicate_checks", "errors",
    )
]  # fmt: skip
FILES = [f"{kind}-{domain}.jsonl" for kind in ("gold", "random") for domain in ("airline", "retail", "telecom")]


@pytest.mark.parametrize("name", FILES)
def test_every_vector_agrees(name):
    number, tally = replay_file(VECTORS / name)
    assert tally.differences == []
    assert number >= 30
    assert {"content", "error flag", "exact hash", "lenient hash"} <= tally.agreed.keys()
    if name.startswith("gold"):
        assert set(EVALUATED) <= tally.agreed.keys()


def _alter_content(vector):
    step = next(step for step in vector["steps"] if not step["error"])
    step["content"] = step["content"].replace("a", "b", 1) if "a" in step["content"] else step["content"] + "!"


def _alter_flag(vector):
    vector["steps"][0]["error"] = not vector["steps"][0]["error"]


def _alter_exact(vector):
    vector["hash_final"]["agent"]["exact"] = "0" * 64


def _alter_lenient(vector):
    vector["hash_final"]["agent"]["lenient"] = "0" * 64


def _alter_step_hash(vector):
    step = next(step for step in vector["steps"] if "hash_after" in step)
    step["hash_after"]["agent"]["exact"] = "0" * 64


def _drop_step(vector):
    writes = [place for place, step in enumerate(vector["steps"]) if "hash_after" in step]
    del vector["steps"][writes[-1]]


ALTERATIONS = [_alter_content, _alter_flag, _alter_exact, _alter_lenient, _alter_step_hash, _drop_step]


def _changing_vector(domain):
    for vector in vectors_in(VECTORS / f"gold-{domain}.jsonl"):
        if vector["steps"] and vector["hash_final"] != vector["hash_after_init"]:
            return vector
    raise AssertionError(f"no gold vector of {domain} changes anything")


@pytest.mark.parametrize("alter", ALTERATIONS)
def test_one_altered_vector_exits_1(alter, tmp_path, capsys):
    vector = _changing_vector("retail")
    altered = copy.deepcopy(vector)
    alter(altered)
    (tmp_path / "a.jsonl").write_text(json.dumps(vector) + "\n")
    assert main([str(tmp_path)]) == 0
    (tmp_path / "b.jsonl").write_text(json.dumps(altered) + "\n")
    assert main([str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "b.jsonl: 1 vectors; " in shown and f"  - {vector['task_id']} " in shown


def _alter_returned(vector):
    vector["init"][0]["returned"] = "something else"


def _alter_met(vector):
    vector["env_assertions"][0]["met"] = not vector["env_assertions"][0]["met"]


@pytest.mark.parametrize("alter", [_alter_returned, _alter_met])
def test_initial_actions_and_assertions_count(alter, tmp_path):
    vector = _changing_vector("telecom")
    alter(vector)
    (tmp_path / "a.jsonl").write_text(json.dumps(vector) + "\n")
    assert main([str(tmp_path)]) == 1
    assert main([str(tmp_path), "--domain", "telecom"]) == 1


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("reward_without_nl", 0.5), ("db_match", None), ("env_reward", 0.5), ("env_breakdown", {}),
        ("env_assertions", [None]), ("action_reward", 0.5), ("action_checks", []), ("communicate_reward", 0.5),
        ("communicate_checks", []),
    ],
)  # fmt: skip
def test_evaluations_count(member, value, tmp_path, capsys):
    vector = _changing_vector("retail")
    vector["evaluations"]["gold_minus_last_write"][member] = value
    (tmp_path / "a.jsonl").write_text(json.dumps(vector) + "\n")
    assert main([str(tmp_path)]) == 1
    assert f"  - {vector['task_id']} gold_minus_last_write: evaluated {member}" in capsys.readouterr().out


def test_an_evaluation_of_an_unknown_trajectory_is_a_difference(tmp_path, capsys):
    vector = _changing_vector("retail")
    vector["evaluations"]["gold_twice"] = vector["evaluations"]["gold"]
    (tmp_path / "a.jsonl").write_text(json.dumps(vector) + "\n")
    assert main([str(tmp_path)]) == 1 and "gold_twice" in capsys.readouterr().out


def test_nothing_to_replay_is_no_success(tmp_path, capsys):
    assert main([str(tmp_path)]) == 1
    (tmp_path / "a.jsonl").write_text(json.dumps(_changing_vector("retail")) + "\n")
    assert main([str(tmp_path), "--domain", "airline"]) == 1
    assert "no vectors" in capsys.readouterr().err
