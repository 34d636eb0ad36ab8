"""An id is a promise: what was recorded comes out again, turn for turn."""

from copy import deepcopy
from functools import lru_cache

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.core.registry import TABLE, row_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.evaluation.suites.suite import load_suite, suite_names
from tests import golden
from tests.golden import core_row, differences, is_default, load, play, recording, variants

CASES = [(row.id, arguments) for row in TABLE for arguments in variants(row, outside=False)]
PROMISED = [row for row in TABLE if row.id in golden.load_promises()]
OUTSIDE = [(row.id, arguments) for row in TABLE for arguments in variants(row, outside=True)]
FIX = "a moved score needs a new version of the id, or (where no release had it) make golden and a line under Scores"


def rows_of(env_id, arguments):
    return [core_row(item) for item in play(row_of(env_id), arguments)]


@lru_cache(maxsize=1)
def default_rows(env_id):
    return rows_of(env_id, {})


@pytest.mark.parametrize(("env_id", "arguments"), CASES, ids=lambda value: canonical_json(value))
def test_golden_replay(env_id, arguments):
    rows = load(env_id)
    assert canonical_json(arguments) in rows, (
        f"{env_id} {arguments} has no golden replay: {recording(env_id)} records it"
    )
    recorded = rows[canonical_json(arguments)]
    played = default_rows(env_id) if is_default(env_id, arguments) else rows_of(env_id, arguments)
    if "digest" in recorded:
        assert digest(played) == recorded["digest"], f"{env_id} {arguments} moved; {FIX}"
        return
    moved = [] if recorded["trajectories"] == played else list(differences(recorded["trajectories"], played))
    assert not moved, f"{env_id} {arguments} moved:\n" + "\n".join(moved[:5]) + f"\n{FIX}"


@pytest.mark.parametrize("env_id", [row.id for row in TABLE])
def test_recorded_actions_replay_by_the_public_function(env_id):
    row = deepcopy(load(env_id)[canonical_json({})]["trajectories"][0])
    env = gym.make(env_id)
    row["header"]["spec_digest"] = env.unwrapped.spec_digest
    recorded = Trajectory.from_json(row)
    assert agent_envs.replay(env, recorded).total_reward == recorded.total_reward > 0.5 and recorded.success


def test_a_moved_score_fails_and_says_what_moved():
    rows = load("agent_envs/SearchQA-v0")[canonical_json({})]["trajectories"]
    moved = list(differences(rows, [{**rows[0], "success": not rows[0]["success"]}, *rows[1:]]))
    assert moved == ["[0].success: was 'True', is 'False'"]


def test_an_id_without_a_golden_file_is_told_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    with pytest.raises(AssertionError, match="Sort-v0 has no golden replays: make golden ID=Sort records them"):
        load.__wrapped__("agent_envs/Sort-v0")


@pytest.mark.parametrize("row", PROMISED, ids=lambda row: row.name)
def test_what_a_release_promised_is_recorded_as_it_was(row):
    golden.check_promises(row, load(row.id))


@pytest.mark.parametrize("row", PROMISED, ids=lambda row: row.name)
def test_limits_rewards_and_sizes_are_those_that_were_promised(row):
    now, promised = golden.settings(row), golden.load_promises("settings")[row.id]
    moved = {name: (value, now.get(name)) for name, value in promised.items() if now.get(name, "gone") != value}
    assert promised and not moved, f"{row.id}: {moved} moved since its release: -v{row.version + 1} is needed"


@pytest.mark.parametrize("row", PROMISED, ids=lambda row: row.name)
def test_turns_are_read_as_was_promised(row):
    promised = golden.load_promises("readings")[row.id]
    assert len(promised) == 4 and golden.readings(row) == promised, f"{row.id}: -v{row.version + 1} is needed"


def test_every_id_that_a_suite_plays_is_promised_and_so_is_its_twin():
    names = {row_of(entry.env_id).name for name in suite_names() for entry in load_suite(name).entries}
    ids = {row.id for row in TABLE if {row.name, row.twin} & names}
    assert ids and not ids - golden.load_promises().keys(), "python -m tests.golden --promise"


def test_a_promised_id_leaves_for_a_higher_version_alone():
    versions = {row.name: row.version for row in TABLE}
    promised = [env_id.removeprefix("agent_envs/").rsplit("-v", 1) for env_id in golden.load_promises()]
    assert promised and [name for name, version in promised if versions.get(name, -1) < int(version)] == []


@pytest.fixture
def sort_promised(monkeypatch, tmp_path):
    """Sort's golden in a folder of its own, its first replay promised with another digest."""
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    monkeypatch.setattr(golden, "play", lambda row, arguments: [])
    monkeypatch.setattr(golden, "load", load.__wrapped__)
    (tmp_path / "promises.json").write_text('{"agent_envs/Sort-v0":{"replays":{"{}":"another"}}}')
    return row_of("Sort")


def test_a_promised_golden_is_not_recorded_again_where_it_moved(sort_promised):
    with pytest.raises(golden.UsageError, match=r"Sort-v0 \{\} moved since its release: -v1 is needed"):
        golden.record(sort_promised, with_data=False)
    assert not golden.path_of(sort_promised.id).exists()


def test_new_ids_and_values_are_recorded_and_promised_later(sort_promised, monkeypatch):
    monkeypatch.setattr(golden, "TABLE", [sort_promised])
    kept = {"agent_envs/Gone-v0": {"{}": "kept"}, "agent_envs/Sort-v0": {"{}": digest([])}}
    promises = {env_id: {"replays": replays} for env_id, replays in kept.items()}
    (golden.FOLDER / "promises.json").write_text(canonical_json(promises))
    golden.record(sort_promised, with_data=False)
    count = len(list(variants(sort_promised, outside=False)))
    assert count > 1 and golden.write_promises() == count + 1
    assert golden.load_promises()["agent_envs/Gone-v0"] == {"{}": "kept"}


def test_a_value_that_is_gone_breaks_its_promise(sort_promised):
    with pytest.raises(golden.UsageError, match="-v1 is needed"):
        golden.check_promises(sort_promised, {})
    kept = {"{}": {"digest": "another"}}
    golden.check_promises(sort_promised, kept)
    gone = {**golden.load_promises()["agent_envs/Sort-v0"], '{"reward":"gone"}': "another"}
    promises = {"agent_envs/Sort-v0": {"replays": gone}}
    (golden.FOLDER / "promises.json").write_text(canonical_json(promises))
    with pytest.raises(golden.UsageError, match="gone.* -v1 is needed"):
        golden.check_promises(sort_promised, kept | {'{"reward":"gone"}': {"digest": "another"}})


@pytest.mark.data
@pytest.mark.parametrize(("env_id", "arguments"), OUTSIDE, ids=lambda value: canonical_json(value))
def test_golden_digest_on_real_data(env_id, arguments):
    rows = load(env_id)
    assert canonical_json(arguments) in rows, (
        f"{env_id} {arguments} has no golden digest: {recording(env_id)} records it"
    )
    found = digest(rows_of(env_id, arguments))
    assert found == rows[canonical_json(arguments)]["digest"], f"{env_id} {arguments} moved; {FIX}"
