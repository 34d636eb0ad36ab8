"""Packing: what was packed is the run, can be stepped again to the digest, and holds nothing that it should not."""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.core.episode import border_notes
from agent_envs.evaluation.runs.run_folder import open_run
from agent_envs.evaluation.submission.episode_rows import (
    AttemptRow,
    ExternalRow,
    chain_of,
    messages_digest,
    row_of,
    turn_row,
)
from agent_envs.evaluation.submission.models import Manifest, Submission
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.provenance import about_template, unanswered
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import read_suite, seed_of
from agent_envs.evaluation.verification.shards import read_episode_rows, read_lines
from agent_envs.rollout.episode_runner import record_turn
from agent_envs.rollout.run_many import read_rows
from agent_envs.services.recording import Recording
from tests import ROOT
from tests.evaluation.submission.packing import Saying, files_of, gzipped, play, rows_of, small_suite


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packing") / "run"
    play(folder)
    return folder


def submission_of(packed):
    return Submission.model_validate_json((packed / "submission.json").read_text(encoding="utf-8"))


def test_what_is_packed_is_the_run(run_folder, tmp_path):
    name = pack_run(run_folder, tmp_path / "out")
    run = open_run(run_folder)
    rows = rows_of(tmp_path / "out")
    assert [row.key for row in rows] == [key for key, *_ in run.suite.episodes()] and len(rows) == 6
    assert {row.key: row for row in rows} == {played.key: row_of(played) for played in run.rows()}
    assert all(row.seed == seed_of(row.key) for row in rows)
    suite = read_suite((tmp_path / "out" / "suite.json").read_text(encoding="utf-8"), "packed")
    submission = submission_of(tmp_path / "out")
    assert suite == run.suite and submission.suite.digest == suite.digest()
    lines = (tmp_path / "out" / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    attempts = [AttemptRow.model_validate_json(line) for line in lines]
    assert [(row.key, row.attempt, row.status, row.cause) for row in attempts] == [
        (row.key, 1, row.status, "") for row in rows
    ]
    text = (tmp_path / "out" / "manifest.json").read_bytes()
    files = files_of(tmp_path / "out")
    assert name == hashlib.sha256(text).hexdigest()
    assert {row.path: (row.bytes, row.sha256) for row in Manifest.model_validate_json(text).files} == {
        path: (len(data), hashlib.sha256(data).hexdigest()) for path, data in files.items() if path != "manifest.json"
    }


@pytest.mark.parametrize("agent", ["random", "heuristic"])
@pytest.mark.parametrize("turn_limits", [(), (0,), (2,)])
def test_packed_actions_step_again_to_every_digest_reward_and_flag(agent, turn_limits, tmp_path):
    run = play(tmp_path / "run", small_suite(tasks=4, trials=1, turn_limits=turn_limits), agent)
    pack_run(tmp_path / "run", tmp_path / "out")
    entry = run.suite.entries[0]
    env = entry_env(entry)
    rows = rows_of(tmp_path / "out")
    for row in rows:
        options = {"task": row.task, "split": entry.split, "episode_key": row.key}
        _, info = env.reset(seed=row.seed, options=options)
        assert row.prompt_sha256 == messages_digest(env.unwrapped.episode.prompt)
        assert (row.env.spec_digest, row.task_digest) == (env.unwrapped.spec_digest, env.unwrapped.episode.task.digest)
        turns = []
        for old in row.turns:
            step = env.step(old.action)
            new = record_turn(env, step)
            turns.append(turn_row(replace(new, events=border_notes(old.events) + new.events)))
            info = step[4]
        assert tuple(turns) == row.turns and bool(info["success"]) is row.result.success
        assert chain_of(row.model_copy(update={"turns": tuple(turns)})) == row.chain
    assert len(rows) == 4 and sum(len(row.turns) for row in rows) > (3 if turn_limits == (0,) else 4)


def test_a_swapped_action_without_an_effect_is_seen(tmp_path):
    """The environment says the same to both texts; only the chain knows which was played."""
    play(tmp_path / "run", small_suite(tasks=1, trials=1), "saying", policy=Saying("<answer>x</answer>"))
    pack_run(tmp_path / "run", tmp_path / "out")
    path = next((tmp_path / "out").glob("episodes/*/*.gz"))
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzipped(text.replace("<answer>x</answer>", "<answer>y</answer>").encode()))
    with pytest.raises(UsageError, match="chain is another"):
        list(read_episode_rows(path))


def test_packing_twice_gives_the_same_bytes_whatever_the_order_of_playing(run_folder, tmp_path):
    assert pack_run(run_folder, tmp_path / "one") == pack_run(run_folder, tmp_path / "two" / "deeper")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two" / "deeper")
    shuffled = tmp_path / "shuffled"
    shutil.copytree(run_folder, shuffled)
    head, *rows = read_rows(run_folder / "journal.jsonl")
    (shuffled / "journal.jsonl").unlink()
    with Journal(shuffled / "journal.jsonl") as journal:
        for row in (head, *reversed(rows)):
            journal.append(row)
    pack_run(shuffled, tmp_path / "three")
    assert files_of(tmp_path / "one") == {**files_of(tmp_path / "three")}
    packed = next((tmp_path / "one").glob("episodes/*/*.gz")).read_bytes()
    assert packed[4:8] == b"\0\0\0\0" and packed[3] == 0  # no time, no name


def test_every_attempt_is_told_over_all_parts_of_a_run(tmp_path):
    suite = small_suite(tasks=2, trials=1)
    one, two = (key for key, *_ in suite.episodes())
    play(tmp_path / "run", suite, "saying", policy=Saying(faulty=[two], cause="broken \ud800" + "x" * 5000))
    with pytest.raises(UsageError, match="1 of 2 planned .*1 fault"):
        pack_run(tmp_path / "run", tmp_path / "out")
    pack_run(tmp_path / "run", tmp_path / "faulty", incomplete=True)
    assert [row.status for row in rows_of(tmp_path / "faulty")] == ["terminated", "fault"]
    play(tmp_path / "run", suite, "saying", policy=Saying())
    pack_run(tmp_path / "run", tmp_path / "out")
    assert [row.status for row in rows_of(tmp_path / "out")] == ["terminated", "terminated"]
    lines = (tmp_path / "out" / "attempts.jsonl").read_text(encoding="utf-8").splitlines()
    attempts = [AttemptRow.model_validate_json(line) for line in lines]
    expected = [(one, 1, "terminated"), (two, 1, "fault"), (two, 2, "fault"), (two, 3, "fault"), (two, 4, "terminated")]
    assert [(row.key, row.attempt, row.status) for row in attempts] == expected
    assert attempts[1].cause.startswith("broken ?xxx") and len(attempts[1].cause) == 2000


def test_agents_that_read_the_gold_are_references_whatever_a_file_says(tmp_path):
    play(tmp_path / "run", small_suite(1, 1), "solver")
    about = tmp_path / "about.json"
    about.write_text(about_template(), encoding="utf-8")
    pack_run(tmp_path / "run", tmp_path / "out", about)
    assert submission_of(tmp_path / "out").agent.kind == "reference"
    row = json.loads(about_template())
    about.write_text(json.dumps({**row, "agent": {**row["agent"], "kind": "agent"}}), encoding="utf-8")
    with pytest.raises(UsageError, match="agent.kind"):
        pack_run(tmp_path / "run", tmp_path / "again", about)


class Looking(Saying):
    """Is handed the environment, and says nothing of it."""

    name, needs_env = "honest-model", True

    def begin(self, env):
        return self


@pytest.mark.parametrize(
    "agent, policy", [("mine:Looking", Looking()), ("solver", Saying()), ("mine:Told", Saying(privileged=True))]
)
def test_who_is_handed_the_environment_or_named_solver_is_a_reference(agent, policy, tmp_path):
    play(tmp_path / "run", small_suite(1, 1), agent, policy=policy)
    pack_run(tmp_path / "run", tmp_path / "out")
    assert submission_of(tmp_path / "out").agent.kind == "reference"


@pytest.mark.parametrize("field, value", [("attempts", [True]), ("fault", 1), ("attempts", [None])])
def test_a_malformed_row_with_a_right_hash_is_refused_in_one_line(run_folder, tmp_path, field, value):
    shutil.copytree(run_folder, tmp_path / "run")
    path = tmp_path / "run" / "journal.jsonl"
    rows = list(read_journal(path))
    rows[1][field] = value
    path.unlink()
    with Journal(path) as journal:
        for row in rows:
            journal.append(row)
    with pytest.raises(
        UsageError, match="holds a row that is no episode: ValueError its fault and its attempts"
    ) as refusal:
        pack_run(tmp_path / "run", tmp_path / "out")
    assert "\n" not in str(refusal.value)


def test_what_a_person_tells_is_packed_and_what_nobody_told_is_named(run_folder, tmp_path):
    pack_run(run_folder, tmp_path / "bare")
    bare = submission_of(tmp_path / "bare")
    assert bare.agent.kind == "agent" and bare.agent.name == "heuristic" and bare.models == () and bare.date
    missing = ["agent.scaffold", "agent.multi_attempt", "submitter.name", "submitter.contact", "licence"]
    assert unanswered(tmp_path / "bare") == [*missing, "training.on_suite_train", "training.on_suite_test"]
    (tmp_path / "notes.md").write_text("# How\nBy looking.\n", encoding="utf-8")
    told = {
        "schema": "agent-envs/about@1",
        "agent": {"name": "Größe 7", "scaffold": "none", "multi_attempt": False, "uses": ["search"]},
        "models": [{"name": "tiny", "weights": "open", "revision": "abc", "sampling": {"temperature": 0.5}}],
        "submitter": {"name": "Ada", "contact": "ada@lovelace.org"},
        "licence": "CC-BY-4.0",
        "date": "2026-02-03",
        "training": {"on_suite_train": True, "on_suite_test": False, "notes": "two\nlines"},
        "report": "notes.md",
    }
    (tmp_path / "about.json").write_text(json.dumps(told), encoding="utf-8")
    pack_run(run_folder, tmp_path / "told", tmp_path / "about.json")
    found = submission_of(tmp_path / "told")
    assert (
        unanswered(tmp_path / "told") == []
        and found.agent.name == "Größe 7"
        and found.submitter.contact == "ada@lovelace.org"
    )
    assert found.date == "2026-02-03" and found.training.on_suite_test is False and found.models[0].weights == "open"
    assert (tmp_path / "told" / "report.md").read_text(encoding="utf-8") == "# How\nBy looking.\n"
    assert "report.md" in (tmp_path / "told" / "manifest.json").read_text(encoding="utf-8")


def test_no_score_enters(run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "before")
    (tmp_path / "run" / "results.json").write_text('{"success": 0.987654}', encoding="utf-8")
    pack_run(tmp_path / "run", tmp_path / "after")
    assert files_of(tmp_path / "before") == files_of(tmp_path / "after")
    assert not {"success", "score", "return", "results"} & set(submission_of(tmp_path / "after").model_dump())


@pytest.mark.parametrize(
    "agent, name, model, provider",
    [
        ("openai:gpt-4.1", "openai:gpt-4.1", "gpt-4.1", "openai"),
        ("openai:org/m@1@http://10.0.0.7:8000/v1", "openai:org/m@1", "org/m@1", "openai-compatible server"),
        ("anthropic:claude-x", "anthropic:claude-x", "claude-x", "anthropic"),
    ],
)
def test_models_are_named_and_addresses_stay_private(agent, name, model, provider, tmp_path):
    play(tmp_path / "run", small_suite(1, 1), agent, policy=Saying(), agent_options={"temperature": 0.5, "extra": {}})
    pack_run(tmp_path / "run", tmp_path / "out")
    found = submission_of(tmp_path / "out")
    assert (found.agent.name, found.models[0].name, found.models[0].provider) == (name, model, provider)
    assert found.models[0].sampling == {"temperature": 0.5} and found.agent.options == {"temperature": 0.5, "extra": {}}
    assert set(found.prices.models) <= {model} and ("gpt-4.1" not in agent or found.prices.models)
    assert all(b"10.0.0.7" not in data for data in files_of(tmp_path / "out").values())


def test_answers_of_services_are_packed_by_key(run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "run")
    with Recording(tmp_path / "run" / "externals.jsonl", "record") as recording:
        for number in range(5):
            key = hashlib.sha256(str(number).encode()).hexdigest()
            recording.keep(key, "user", {"messages": ["hi ö"], "n": number}, {"text": None, "score": 0.25})
            recording.discard(key, {"text": None, "score": 0.25})
            recording.keep(key, "user", {"messages": ["hi ö"], "n": number}, {"text": None, "score": 0.5})
    pack_run(tmp_path / "run", tmp_path / "without")
    assert not (tmp_path / "without" / "externals").exists()  # no episode asks for them
    pack_run(tmp_path / "run", tmp_path / "out", replay=False)
    rows = [
        ExternalRow.model_validate_json(line) for line in read_lines(tmp_path / "out" / "externals" / "0000.jsonl.gz")
    ]
    assert len(rows) == 5 and [row.key for row in rows] == sorted(row.key for row in rows)
    assert rows[0].port == "user" and rows[0].response == {"text": None, "score": 0.5}
    assert sorted(row.request["n"] for row in rows) == [0, 1, 2, 3, 4]


def test_a_submission_can_be_read_like_any_other_directory(run_folder, tmp_path):
    (tmp_path / "plain").mkdir()
    pack_run(run_folder, tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_example_of_the_page_runs(run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "RUN")
    page = (ROOT / "docs" / "submission.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    (tmp_path / "block.py").write_text(block, encoding="utf-8")
    path = {**os.environ, "PYTHONPATH": str(ROOT)}  # as in a checkout, where leaderboard/ is
    ran = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, check=True, env=path
    )
    first, *rows = ran.stdout.splitlines()
    assert first.startswith(hashlib.sha256((tmp_path / "DIR" / "manifest.json").read_bytes()).hexdigest())
    assert [row.split()[0] for row in rows] == [key for key, *_ in open_run(run_folder).suite.episodes()]
