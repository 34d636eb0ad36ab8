"""Verification: what is honest is accepted with its scores, in bounded processes, and a killed one goes on."""

import gzip
import json
import shutil

import pytest

from agent_envs.base.caches import cache_dir
from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.base.jsonl_log import Journal
from agent_envs.cli import app as cli
from agent_envs.evaluation.runs.evaluate import result_of_run
from agent_envs.evaluation.runs.run_folder import open_run
from agent_envs.evaluation.submission import replay_pool, replaying
from agent_envs.evaluation.submission.models import Submission
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.replay_pool import Ledger, Replaying, check_lines
from agent_envs.evaluation.submission.replaying import Checked
from agent_envs.evaluation.suites.suite import load_suite, suite_text
from agent_envs.evaluation.verification.badges import BADGES, ranked
from agent_envs.evaluation.verification.suites_known import NAME
from agent_envs.evaluation.verification.verify import How, verify
from agent_envs.tools.bounded_processes import BoundedProcesses, Lost
from tests.evaluation.submission.packing import Saying, play, small_suite
from tests.evaluation.verification.changes import change_rows, reseal
from tests.needs import needs


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Return (suite, packed) of a run of the heuristic, whose suite lies beside it as a file."""
    place = tmp_path_factory.mktemp("small")
    suite = small_suite(tasks=4, trials=1)
    play(place / "run", suite)
    pack_run(place / "run", place / "packed")
    (place / "suite.json").write_text(suite_text(suite), encoding="utf-8")
    return suite, place / "packed"


@needs("[envs]")
def test_scores_are_those_of_the_run_over_every_family(all_families):
    suite, packed = all_families
    verdict = verify(packed, How(suite, jobs=0))
    assert (verdict.verdict, verdict.code, verdict.kind) == ("accepted", 0, "reference")
    result, numbers = result_of_run(open_run(packed.parent / "run"))
    assert [row["success"] for row in verdict.entries] == [item.success.value for item in result.summaries]
    assert [(item.success, item.turns) for item in verdict.episodes] == [(item.success, item.turns) for item in numbers]
    assert verdict.score == result.score and verdict.badges == ("complete", "replayed with recordings")
    assert len({item.status for item in verdict.episodes}) == 2 and any(item.by_solver for item in verdict.episodes)


@needs("[envs]")
def test_processes_find_what_one_process_finds_and_a_stopped_verification_goes_on(all_families, monkeypatch):
    suite, packed = all_families
    counted = []

    def counting(lines, how):
        def each():
            for line in lines:
                counted.append(line)
                yield line

        return check_lines(each(), how)

    def stop(checked, planned, wins):
        if checked == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(replay_pool, "check_lines", counting)
    with pytest.raises(KeyboardInterrupt):
        verify(packed, How(suite, jobs=1, progress=stop))
    (ledger,) = (cache_dir() / "checked").iterdir()
    assert len(ledger.read_text().splitlines()) == 1 + 20
    counted.clear()
    verdict = verify(packed, How(suite, jobs=1))
    assert verdict == verify(packed, How(suite, jobs=0)) and verdict.verdict == "accepted"
    assert len(counted) == 2 * 46 - 20 and not ledger.exists()


def test_a_ledger_of_other_inputs_is_not_read(small):
    suite, _ = small
    ledgers = [Ledger(what, Replaying(suite, flags=flags)) for what in "ab" for flags in (True, False)]
    for ledger in ledgers:
        ledger.close(finished=True)
    assert len({ledger.path for ledger in ledgers}) == 4


def test_an_episode_that_no_process_finishes_is_not_verified_and_says_so(small, monkeypatch):
    suite, packed = small

    def one_lost(processes, items):
        for number, _ in enumerate(items):
            yield number, Lost("it took more than 120 s") if number == 2 else Checked("0" * 16)

    monkeypatch.setattr(BoundedProcesses, "run", one_lost)
    verdict = verify(packed, How(suite, jobs=1))
    assert verdict.code == 3 and [item.what for item in verdict.unknown] == [
        "its replay is not known: it took more than 120 s"
    ]


def test_what_is_missing_here_is_told_by_name(small, monkeypatch):
    suite, packed = small

    def lacking(entry):
        raise MissingExtra("minigrid", "babyai", "BabyAI")

    monkeypatch.setattr(replaying, "entry_env", lacking)
    verdict = verify(packed, How(suite, jobs=0))
    assert verdict.code == 3 and 'pip install "agent-envs[babyai]"' in verdict.unknown[0].what
    assert verdict.badges == () and verdict.score is None


def test_exit_codes_and_what_a_submitter_sees(small, tmp_path, capsys):
    _, packed = small
    shutil.copytree(packed, tmp_path / "edited")
    change_rows(tmp_path / "edited", lambda rows: [{**rows[0], "seed": 1}, *rows[1:]])
    suite = ["--suite", str(packed.parent / "suite.json"), "--jobs", "1"]
    cases = [([str(packed), *suite], 0), ([str(tmp_path / "edited"), *suite, "--json"], 1), ([str(packed)], 3)]
    told = []
    for arguments, code in cases:
        assert cli.app(["verify", *arguments], standalone_mode=False) == code, arguments
        told.append(capsys.readouterr())
    assert "accepted: submission" in told[0].out and "does not prove who acted" in told[0].out
    assert "not stated yet: agent.scaffold" in told[0].out
    assert json.loads(told[1].out)["findings"][0]["what"].startswith("chain") and "seed" in told[1].out
    assert "--suite FILE" in told[2].out
    with pytest.raises(UsageError, match="is no directory"):
        cli.app(["verify", str(tmp_path / "nothing"), *suite], standalone_mode=False)


def test_an_incomplete_submission_counts_its_faults_as_nothing_and_is_not_complete(tmp_path):
    suite = small_suite(tasks=2, trials=1)
    keys = [key for key, *_ in suite.episodes()]
    play(tmp_path / "run", suite, "saying", policy=Saying(faulty=keys[:1]))
    pack_run(tmp_path / "run", tmp_path / "packed", incomplete=True)
    verdict = verify(tmp_path / "packed", How(suite, jobs=0))
    assert verdict.verdict == "accepted" and verdict.badges == ("replayed",)
    assert (verdict.entries[0]["episodes"], verdict.entries[0]["played"]) == (2, 1)


def test_actions_of_the_solver_and_of_another_submission_are_flagged(small, tmp_path):
    suite, packed = small
    play(tmp_path / "run", suite, "solver")
    pack_run(tmp_path / "run", tmp_path / "solved")
    text = (tmp_path / "solved" / "submission.json").read_text(encoding="utf-8")
    assert Submission.model_validate_json(text).agent.kind == "reference"
    renamed = text.replace('"name": "solver"', '"name": "mine"').replace('"kind": "reference"', '"kind": "agent"')
    (tmp_path / "solved" / "submission.json").write_text(renamed, encoding="utf-8")
    reseal(tmp_path / "solved")
    flags = verify(tmp_path / "solved", How(suite, jobs=0)).flags
    assert flags == ("4 of 4 episodes have the very actions of the built-in solver",)
    twin = verify(packed, How(suite, jobs=0, beside=(packed,))).flags
    assert any("4 of 4 episodes have the very actions of submission" in flag for flag in twin)
    assert not any("of submission" in flag for flag in verify(packed, How(suite, jobs=0)).flags)


def test_a_folder_beside_that_is_no_submission_is_the_callers_mistake(small, tmp_path):
    suite, packed = small
    (tmp_path / "empty").mkdir()
    shutil.copytree(packed, tmp_path / "odd")
    shard = next((tmp_path / "odd").rglob("*.gz"))
    shard.write_bytes(gzip.compress(b'{"key":5}\n'))
    for other in (tmp_path / "empty", tmp_path / "nothing", tmp_path / "odd"):
        with pytest.raises(UsageError, match="--beside .* is no submission that can be read"):
            verify(packed, How(suite, jobs=0, beside=(other,)))


def test_a_suites_file_gives_no_other_suite_a_shipped_ones_name(tmp_path):
    core, demo = load_suite("core"), load_suite("demo")
    play(tmp_path / "run", demo.part(demo.entries[:1]), "random")
    pack_run(tmp_path / "run", tmp_path / "packed")
    for suite in (core.part(core.entries[:1]), demo.part(demo.entries[:1]).model_copy(update={"scored": True})):
        with pytest.raises(UsageError, match="give yours an id of its own"):
            verify(tmp_path / "packed", How(suite, jobs=0))
    verdict = verify(tmp_path / "packed", How(demo.part(demo.entries[:1]), jobs=0))
    assert (verdict.part, verdict.score) == (f"1 of {len(demo.entries)} entries", None)
    assert verify(tmp_path / "packed", How(demo, jobs=0)).verdict == "rejected"


def test_a_registry_that_is_none_is_told_in_one_line(small, tmp_path):
    _, packed = small
    with pytest.raises(UsageError, match="there is no such folder"):
        verify(packed, How(registry=tmp_path / "nothing"))
    with Journal(tmp_path / NAME) as journal:
        journal.append({"schema": "agent-envs/registration@1", "agent": 5})
    with pytest.raises(UsageError, match="holds a row that is no registration"):
        verify(packed, How(registry=tmp_path))


def test_badges_say_what_they_do_not_prove_and_only_two_are_ranked():
    assert set(BADGES) == {"complete", "replayed", "replayed with recordings", "registered", "reproduced"}
    assert all("not prove" in badge.not_proved or "neither" in badge.not_proved for badge in BADGES.values())
    assert [name for name, badge in BADGES.items() if badge.ranked] == ["registered", "reproduced"]
    assert ranked(("complete", "registered"), "core@1.17") and not ranked(("complete", "replayed"), "core@1.17")
    assert not ranked(("complete", "registered"), "demo@1.0")


def test_an_edited_journal_is_not_packed(tmp_path):
    """A journal of ones, signed again: packing steps every action and finds other rewards."""
    from agent_envs.base.jsonl_log import Journal, read_journal

    run = play(tmp_path / "run", small_suite(tasks=2, trials=1), "saying", policy=Saying())
    path = run.log().path
    rows = list(read_journal(path))
    for row in rows[1:]:
        turn = row["trajectory"]["turns"]["$tuple"][-1]
        turn["reward"], turn["terms"] = 1.0, {"$tuple": [{"$tuple": [turn["terms"]["$tuple"][0]["$tuple"][0], 1.0]}]}
        row["trajectory"]["success"] = True
    path.unlink()
    with Journal(path) as journal:
        for row in rows:
            journal.append(row)
    with pytest.raises(UsageError, match=r"2 of 2 episodes are not what their actions give: .*turns\[0\].reward"):
        pack_run(tmp_path / "run", tmp_path / "packed")
    assert not (tmp_path / "packed").exists()
    pack_run(tmp_path / "run", tmp_path / "packed", replay=False)
    assert json.loads((tmp_path / "packed" / "manifest.json").read_bytes())["replayed"] is False
    assert verify(tmp_path / "packed", How(run.suite, jobs=0)).verdict == "rejected"
    turn["terms"] = {"$tuple": []}
    path.unlink()
    with Journal(path) as journal:
        for row in rows:
            journal.append(row)
    with pytest.raises(UsageError, match="not the sum of its terms"):
        open_run(tmp_path / "run").numbers()
