"""Bytes that an earlier layout of the packages wrote are read, and play on as they did."""

import gzip
import hashlib
import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import Snapshot, record_turn, replay, restore, snapshot
from agent_envs.evaluation.report.report import report_on
from agent_envs.evaluation.runs.evaluate import result_of_run
from agent_envs.evaluation.runs.run_folder import open_run
from agent_envs.evaluation.submission.episode_rows import turn_row
from agent_envs.evaluation.submission.models import Manifest, Submission
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import read_suite
from agent_envs.evaluation.verification.shards import read_episode_rows
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from agent_envs.wrappers import Memory, TurnLimit, VerbalFeedback
from tests import ROOT

STORED = ROOT / "tests" / "stored"
ROWS = [json.loads(line) for line in gzip.decompress((STORED / "snapshots.jsonl.gz").read_bytes()).splitlines()]
STACKS = {
    "": lambda env: env,
    "limits": lambda env: TurnLimit(Memory(env, turns=1), turns=40),
    "feedback": lambda env: VerbalFeedback(env, feedback="scripted:good", epsilon=0.5),
}


def test_every_id_is_among_the_stored_rows():
    assert {row["id"] for row in ROWS} == set(agent_envs.env_ids())
    assert {row["stack"] for row in ROWS} == set(STACKS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['id'].rpartition('/')[2]}-{row['stack'] or 'bare'}")
def test_a_stored_snapshot_plays_on_as_it_did(row):
    env = STACKS[row["stack"]](gym.make(row["id"]))
    data = row["snapshot"].encode()
    restore(env, Snapshot.from_bytes(data))
    assert env.unwrapped.spec_digest == row["spec_digest"]
    # Written again, its sha256 is the one of the present layout, and nothing else is another.
    assert snapshot(env).to_bytes().rpartition(b',"format"')[0] == data.rpartition(b',"format"')[0]
    for action, before in zip(row["actions"], row["played"], strict=True):
        observation, reward, terminated, truncated, info = env.step(action)
        seen = [hashlib.sha256(observation.encode()).hexdigest()[:16], reward, terminated, truncated]
        assert seen == before
    assert info["success"] is row["success"]


def test_the_second_layout_of_a_snapshot_is_read_and_written_as_it_was():
    data = (STORED / "snapshot-2.json").read_bytes()
    gym.make(ROWS[0]["id"])  # which brings its types
    assert b"agent-envs/snapshot@2" in data and Snapshot.from_bytes(data).to_bytes() == data
    assert Snapshot.from_bytes(data) == Snapshot.from_bytes(ROWS[0]["snapshot"].encode())


def test_a_stored_run_is_reported_and_replayed():
    run = open_run(STORED / "run")
    rows = list(run.rows())
    assert len(rows) == 3
    with Recording(run.externals, "replay") as recording:
        for row in rows:
            env = entry_env(row.entry)
            env.unwrapped.services = Services(recording)
            assert replay(env, row.result.trajectory).success is row.result.success
    stored = json.loads((STORED / "run" / "results.json").read_text(encoding="utf-8"))
    assert result_of_run(run)[0].to_json() == stored and len(stored) > 20
    assert report_on(run).tables


def test_a_stored_submission_steps_again_to_every_digest_reward_and_flag():
    folder = STORED / "submission"
    manifest = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    for file in manifest.files:
        data = (folder / file.path).read_bytes()
        assert (file.bytes, file.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    suite = read_suite((folder / "suite.json").read_text(encoding="utf-8"), "stored")
    submission = Submission.model_validate_json((folder / "submission.json").read_text(encoding="utf-8"))
    assert submission.suite.digest == suite.digest()
    env = entry_env(suite.entries[0])
    rows = list(read_episode_rows(folder / "episodes" / "searchqa-v0" / "0000.jsonl.gz"))
    for row in rows:
        _, info = env.reset(seed=row.seed, options={"task": row.task, "split": "test", "episode_key": row.key})
        assert (row.env.spec_digest, row.task_digest) == (env.unwrapped.spec_digest, env.unwrapped.episode.task.digest)
        turns = []
        for turn in row.turns:
            step = env.step(turn.action)
            turns.append(turn_row(record_turn(env, step)))
            info = step[4]
        assert tuple(turns) == row.turns and bool(info["success"]) is row.result.success
    assert len(rows) == 6
