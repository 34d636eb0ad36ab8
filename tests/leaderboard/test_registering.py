"""Registration: a nonce draws tasks that no suite has, a submission of them is known by the board's own file alone."""

import json
from dataclasses import replace

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.cli import app as cli
from agent_envs.core.env import core_of
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.draw import drawn_suite
from agent_envs.evaluation.suites.plan import entry_env, plan_of
from agent_envs.evaluation.suites.suite import Suite, load_suite, suite_text
from agent_envs.evaluation.verification.suites_known import registered_suite
from agent_envs.evaluation.verification.verify import How, verify
from leaderboard.board import add, boards_of
from leaderboard.command_line import main
from leaderboard.pages import write_boards
from leaderboard.registering import register
from leaderboard.standings import standings
from tests.evaluation.submission.packing import play, small_suite
from tests.evaluation.verification.changes import reseal
from tests.leaderboard.boards import made_up, many_tasks
from tests.needs import needs


@needs("[envs]")
def test_a_nonce_draws_other_tasks_of_the_same_entries_each_time():
    names = ("SearchQA-v0", "Count-v0", "Sort-v0", "BabyAI-v0", "ToolReasoning-v0", "Tau2Retail-v0")
    whole = load_suite("demo")
    demo = whole.model_copy(update={"entries": tuple(entry for entry in whole.entries if entry.label in names)})
    one, left = drawn_suite(demo, "ab" * 16)
    two, _ = drawn_suite(demo, "cd" * 16)
    assert drawn_suite(demo, "ab" * 16) == (one, left) and one.id != two.id and len(one.id) <= 40
    assert left == ("Tau2Retail-v0",)  # its world is a fixed file
    assert len(one.entries) == len(demo.entries) - 1 and plan_of(one)
    for entry, other in zip(one.entries, two.entries, strict=True):
        assert len(entry.tasks) == 8 and entry.spec_digest == other.spec_digest
        source = core_of(entry_env(entry)).source
        known = {source.get(split, at).digest for split in source.splits for at in range(20)}
        drawn = {content for _, content, _ in entry.tasks}
        assert not drawn & {content for _, content, _ in other.tasks} and not drawn & known, entry.label


def test_a_registered_run_is_known_and_another_agents_is_not(tmp_path):
    row, path, _ = register(small_suite(tasks=3, trials=1), "heuristic", tmp_path / "board")
    suite, draw = registered_suite(tmp_path / "board", row.id)
    assert (
        draw == row
        and draw.agent == "heuristic"
        and draw.salt == ""
        and suite == load_suite(str(path))
        and registered_suite(tmp_path / "board", "x") is None
    )
    play(tmp_path / "run", suite)
    pack_run(tmp_path / "run", tmp_path / "packed")
    how = How(registry=tmp_path / "board", jobs=0)
    verdict = verify(tmp_path / "packed", how)
    assert verdict.badges == ("complete", "replayed", "registered") and verdict.to_json()["ranked"] is True
    assert verify(tmp_path / "packed", How(jobs=0)).code == 3
    play(tmp_path / "other", suite, "random")
    pack_run(tmp_path / "other", tmp_path / "theirs")
    assert "was registered for heuristic" in verify(tmp_path / "theirs", how).findings[0].what
    path.write_text(path.read_text(encoding="utf-8").replace('"trials":1', '"trials":2'), encoding="utf-8")
    with pytest.raises(UsageError, match="not the suite that was registered"):
        verify(tmp_path / "packed", how)


@needs("[envs]")
def test_the_command_names_what_is_left_out_and_refuses_odd_names(tmp_path, capsys):
    registry = ["--registry", str(tmp_path / "board"), "--json"]
    with pytest.raises(SystemExit) as end:
        main(["register", "babyai", "--agent", "mine", *registry])
    told = json.loads(capsys.readouterr().out)
    assert end.value.code == 0 and told["suite"] == "babyai@1.0" and told["left_out"] == [] and len(told["nonce"]) == 32
    with pytest.raises(SystemExit) as end:
        main(["register", "babyai", "--agent", "a\u202eb", *registry])
    assert end.value.code == 2 and "agent" in capsys.readouterr().err


def test_fixed_tasks_alone_cannot_be_registered():
    demo = load_suite("demo")
    fixed = tuple(entry for entry in demo.entries if entry.label.startswith("Tau2"))
    with pytest.raises(UsageError, match="generated tasks that a nonce can draw"):
        drawn_suite(Suite(**{**dict(demo), "entries": fixed}), "ab" * 16)


def test_a_demo_without_an_extra_is_verified_as_the_part_that_was_played(tmp_path, capsys):
    demo = load_suite("demo")
    part = demo.part(tuple(entry for entry in demo.entries if "Count-" in entry.label))
    play(tmp_path / "run", part, "random")
    pack_run(tmp_path / "run", tmp_path / "packed")
    verdict = verify(tmp_path / "packed", How(jobs=0))
    assert verdict.verdict == "accepted" and verdict.to_json()["ranked"] is False and len(verdict.entries) == 1
    assert (verdict.part, verdict.score, verdict.badges) == (f"1 of {len(demo.entries)} entries", None, ("replayed",))
    assert verdict.to_json()["part"] == verdict.part and verdict.to_json()["score"] is None
    assert cli.app(["verify", str(tmp_path / "packed"), "--jobs", "1"], standalone_mode=False) == 0
    printed = capsys.readouterr().out
    assert (
        f"on demo@1.0, {verdict.part}: no score" in printed and "\nscore" not in printed and "complete" not in printed
    )
    words = [
        "export",
        str(tmp_path / "packed"),
        "--to",
        "hub",
        "--dataset",
        "a/b",
        "--out",
        str(tmp_path / "x"),
        "--jobs",
        "1",
    ]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and f"holds {verdict.part} of demo@1.0" in capsys.readouterr().err
    (tmp_path / "board" / "boards").mkdir(parents=True)
    (tmp_path / "board" / "boards" / "demo.toml").write_text('title = "Demo"\nsuite = "demo@1"\n')
    with pytest.raises(UsageError, match=f"holds {verdict.part} of demo@1.0: a board shows whole suites"):
        add(tmp_path / "packed", tmp_path / "board", How(jobs=0), "me")
    forged = load_suite("demo").part(part.entries).model_copy(update={"scored": True})
    (tmp_path / "packed" / "suite.json").write_text(suite_text(forged))
    reseal(tmp_path / "packed")
    assert verify(tmp_path / "packed", How(jobs=0)).findings[0].what.startswith("submission.json: suite.digest")
    entry = part.entries[0].model_copy(update={"tasks": part.entries[0].tasks[:2]})
    play(tmp_path / "fewer", part.model_copy(update={"entries": (entry,)}), "random")
    pack_run(tmp_path / "fewer", tmp_path / "packed2")
    assert verify(tmp_path / "packed2", How(jobs=0)).verdict == "rejected"


def test_registered_rows_stand_on_the_board_of_their_suite_and_are_compared_as_samples(tmp_path):
    suite, registry, board = load_suite("calc-bench"), tmp_path / "registry", tmp_path / "board"
    entries = tuple(entry.model_copy(update={"tasks": entry.tasks[:6]}) for entry in suite.entries[:2])
    suite = suite.model_copy(update={"id": "mine", "entries": entries, "averages": ()})
    (board / "boards").mkdir(parents=True)
    (board / "mine.json").write_text(suite_text(suite))
    (board / "boards" / "mine.toml").write_text('title = "Mine"\nsuite = "mine.json"\n')
    for agent in ("random", "null", "random"):
        row, _, _ = register(suite, agent, registry)
        played, _ = registered_suite(registry, row.id)
        play(tmp_path / row.id, played, agent)
        pack_run(tmp_path / row.id, tmp_path / f"{row.id}-packed")
        assert add(tmp_path / f"{row.id}-packed", board, How(registry=registry, jobs=0), "me").code == 0
    play(tmp_path / "shipped", suite, "random")
    pack_run(tmp_path / "shipped", tmp_path / "shipped-packed")
    add(tmp_path / "shipped-packed", board, How(suite, jobs=0), "me")
    (found,) = boards_of(board, How(registry=registry, jobs=0), lambda line: None)
    assert [row.group for row in found.standings.rows] == ["registered"] * 3 + ["replayed"]
    scores = {row.entrant.verdict.submission: row.score for row in found.standings.rows}
    assert len(found.standings.pairs) == 3 and not any(pair.paired for pair in found.standings.pairs)
    for pair in found.standings.pairs:
        assert pair.difference == pytest.approx(scores[pair.second].value - scores[pair.first].value)
        assert pair.low < pair.difference < pair.high and not pair.is_significant
    write_boards([found], tmp_path / "site")  # whose pages hold rows of other tasks beside each other
    assert not (tmp_path / "site" / "pairs").exists()
    told = []
    (without,) = boards_of(board, How(suite, jobs=0), told.append)
    assert len(without.standings.rows) == 1 and len(without.left) == 3
    assert all(line.endswith(": played on a drawn suite: give --registry") for line in without.left)


def test_independent_samples_are_told_apart_by_large_differences_and_seldom_by_chance():
    def drawn(name, chance, seed):
        suite = many_tasks(60).model_copy(update={"id": f"many-{name}{seed}"})
        return replace(made_up(suite, name, chance, seed), registered_suite=suite)

    wrong = 0
    for seed in range(60):
        rows = [drawn(name, 0.5, 3 * seed + number) for number, name in enumerate("abc")]
        wrong += any(pair.is_significant for pair in standings(many_tasks(60), rows).pairs)
    assert wrong <= 8  # 5 % of 60 boards are 3; more than 8 has a chance below 1 %
    found = standings(many_tasks(60), [drawn("a", 0.2, 1), drawn("b", 0.8, 2), drawn("c", 0.8, 3)])
    assert {row.entrant.verdict.agent: row.place for row in found.rows} == {"a": "3", "b": "1 to 2", "c": "1 to 2"}
    flat = standings(many_tasks(60), [drawn("a", 0.0, 1), drawn("b", 0.0, 2)])
    assert [(pair.p_value, pair.is_significant) for pair in flat.pairs] == [(1.0, False)]
