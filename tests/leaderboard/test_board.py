"""A board: decisions that stay, rows that its own build verified, ties that are told as ties."""

import csv
import io
import json
import re
import shutil

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.runs import run_folder
from agent_envs.evaluation.runs.evaluate import evaluate
from agent_envs.evaluation.submission import replay_pool
from agent_envs.evaluation.submission.models import Submission
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.submission.replay_pool import check_lines
from agent_envs.evaluation.submission.replaying import Checked, places_of
from agent_envs.evaluation.suites.suite import load_suite
from agent_envs.evaluation.verification import verify
from agent_envs.evaluation.verification.verify import How
from agent_envs.rollout.policy import CompanionPolicy
from leaderboard.board import SUBMISSIONS, Board, BoardSettings, add, boards_of, decide_about, find_submission
from leaderboard.command_line import main
from leaderboard.decisions import NAME, decisions_of
from leaderboard.pages import page_of, row_page, sheet, to_json, write_boards
from leaderboard.standings import Entrant, standings
from leaderboard.transcripts import episodes_to_show, transcripts_of
from tests.evaluation.verification.changes import reseal
from tests.leaderboard.boards import built, how, made_up, many_tasks


def test_a_board_is_built_of_what_it_verified(made, board):
    suite, place = made
    ids = {}
    for name in ("random", "again", "taught", "heuristic", "solver"):
        verdict = add(place / name, board, how(suite), "maintainer")
        ids[name] = verdict.submission
    found = built(board)
    groups = {row.entrant.verdict.submission: row.group for row in found.standings.rows}
    assert groups == {ids["random"]: "replayed", ids["again"]: "multi-attempt", ids["taught"]: "trained on the suite",
                      ids["heuristic"]: "replayed", ids["solver"]: "reference"}  # fmt: skip
    assert [row.verb for row in found.decisions] == ["accepted"] * 5 and found.left == ()
    (pair,) = found.standings.pairs  # of one class only
    assert {pair.first, pair.second} == {ids["random"], ids["heuristic"]}
    rows = {row.entrant.verdict.submission: row for row in found.standings.rows}
    chance, heuristic = rows[ids["random"]], rows[ids["heuristic"]]
    told = pair.difference if pair.second == ids["heuristic"] else -pair.difference
    assert told == pytest.approx(heuristic.score.value - chance.score.value)
    assert pair.low <= pair.difference <= pair.high and 0 < pair.p_value <= pair.adjusted <= 1
    assert (chance.place, heuristic.place) == (("2", "1") if pair.is_significant else ("1 to 2", "1 to 2"))
    with pytest.raises(UsageError, match="is on the board already"):
        add(place / "random", board, how(suite), "maintainer")


def test_what_was_edited_or_withdrawn_is_not_shown(made, board, tmp_path):
    suite, place = made
    names = [add(place / name, board, how(suite), "maintainer").submission for name in ("random", "heuristic", "again")]
    decide_about(board, names[0][:12], "withdrawn", "too early", "its author")
    assert add(place / "random", board, how(suite), "maintainer").code == 0 and len(built(board).standings.rows) == 3
    decide_about(board, names[0][:12], "withdrawn", "a bug in the agent", "its author")
    decide_about(board, names[2][:12], "disputed", "the scaffold is unclear", "a reader")
    episodes = next((board / SUBMISSIONS / names[1] / "episodes").rglob("*.gz"))
    episodes.write_bytes(episodes.read_bytes()[:-1])
    found = built(board)
    assert [row.entrant.verdict.submission for row in found.standings.rows] == [names[2]]
    assert len(found.left) == 1 and "rejected by this verification" in found.left[0]
    assert any("withdrawn by its author: a bug in the agent" in row.text() for row in found.decisions)
    with pytest.raises(UsageError, match="say why"):
        decide_about(board, names[1], "disputed", "", "me")
    with pytest.raises(UsageError, match="0 submissions of"):
        find_submission(board, "zz")
    with pytest.raises(UsageError, match="control, bidirectional"):
        decide_about(board, names[2], "withdrawn", "an\u202eevil", "me")
    shutil.rmtree(board / SUBMISSIONS / names[2])
    with pytest.raises(UsageError, match="is missing, and .* is accepted"):
        built(board)


def test_what_the_board_played_again_is_ranked_until_it_is_taken_back(made, board):
    suite, place = made
    name = add(place / "random", board, how(suite), "maintainer").submission
    add(place / "heuristic", board, how(suite), "maintainer")

    def group():
        return next(row for row in built(board).standings.rows if row.entrant.verdict.submission == name)

    decide_about(board, name, "reproduced", "played again with the same weights", "the board")
    assert (
        group().group == "ranked" and group().entrant.badges[-1] == "reproduced" and built(board).standings.pairs == ()
    )
    decide_about(board, name, "withdrawn", "another model was meant", "its author")
    decide_about(board, name, "reproduced", "once more", "the board")
    assert len(built(board).standings.rows) == 1  # nothing but an acceptance puts a row back
    add(place / "random", board, how(suite), "maintainer")
    assert group().group == "replayed"


def test_a_submission_that_lies_in_its_place_already_is_accepted_there(made, board):
    suite, place = made
    name = verify.verify(place / "random", how(suite)).submission
    shutil.copytree(place / "random", board / SUBMISSIONS / name)  # as a merged pull request leaves it
    assert built(board).standings.rows == ()  # nobody decided about it
    add(board / SUBMISSIONS / name, board, how(suite), "maintainer")
    assert [row.entrant.verdict.submission for row in built(board).standings.rows] == [name]
    assert sorted(path.name for path in (board / SUBMISSIONS).iterdir()) == [name]


def test_a_submission_of_another_suite_is_named_and_stands_on_no_board(made, board):
    suite, place = made
    add(place / "random", board, how(suite), "maintainer")
    path = board / "boards" / "mine.toml"
    path.write_text(path.read_text().replace("suites/mine.json", "demo@1"))
    told = []
    (found,) = boards_of(board, how(suite), told.append)
    assert (
        found.standings.rows == () and found.decisions == () and "is of mine@1.0, which no board here has" in told[-1]
    )


def test_a_decision_that_was_edited_is_refused_and_a_torn_one_dropped(made, board):
    suite, place = made
    add(place / "random", board, how(suite), "maintainer")
    decide_about(board, decisions_of(board)[0].submission, "withdrawn", "cheated", "me")
    path = board / NAME
    text = path.read_bytes()
    path.write_bytes(text[:-9])
    assert [row.verb for row in decisions_of(board)] == ["accepted"]
    path.write_bytes(text.replace(b"maintainer", b"maintained"))
    with pytest.raises(UsageError, match="line 1 is damaged"):
        decisions_of(board)


def test_a_rejected_submission_is_decided_about_and_not_copied(made, board, tmp_path):
    suite, place = made
    bad = tmp_path / "bad"
    shutil.copytree(place / "random", bad)
    (bad / "attempts.jsonl").write_text("{}\n")
    verdict = add(bad, board, how(suite), "maintainer")
    assert (verdict.code, verdict.submission) == (1, "") and decisions_of(board) == ()
    reseal(bad)
    verdict = add(bad, board, how(suite), "maintainer")
    assert verdict.code == 1
    (row,) = decisions_of(board)
    assert (row.verb, row.submission) == ("rejected", verdict.submission) and row.reason
    assert not (board / SUBMISSIONS / verdict.submission).exists() and built(board).standings.rows == ()


def test_equal_agents_are_tied_and_the_test_of_a_pair_is_on_the_suites_weights(made, board):
    suite, place = made
    for name in ("random", "heuristic"):
        add(place / name, board, how(suite), "maintainer")
    rows = built(board).standings.rows
    twin = standings(suite, [rows[0].entrant, rows[0].entrant])
    (pair,) = twin.pairs
    assert (pair.difference, pair.p_value, pair.is_significant) == (0.0, 1.0, False)
    assert {row.place for row in twin.rows} == {"1 to 2"} and pair.low < 0 < pair.high


def test_pages_hold_no_task_of_a_private_suite_and_no_markup_of_strangers(made, board, tmp_path):
    suite, place = made
    for name in ("random", "heuristic", "solver"):
        add(place / name, board, how(suite), "maintainer")
    boards = [built(board)]
    for _ in range(2):  # a second build takes the folder of the first
        write_boards(boards, tmp_path / "site")
    html = (tmp_path / "site" / "boards" / "mine.html").read_text()
    files = [path for path in (tmp_path / "site").rglob("*") if path.is_file()]
    everything = "".join(path.read_text() for path in files)
    assert {path.name for path in files} >= {"index.html", "mine.html", "boards.json", "boards.csv"} and len(
        files
    ) == 12
    pages = {path.resolve() for path in files if path.suffix == ".html"}
    for page in pages:
        for link in re.findall(r'href="([^"#]+\.html)', page.read_text()):
            assert (page.parent / link).resolve() in pages
    assert "<script" not in everything and "&lt;script" in html and "Published, not replayed" in html
    for entry in suite.entries:
        for task, digest, _ in entry.tasks:
            assert digest not in everything and f'"{task}"' not in everything and f">{task}<" not in everything
    assert to_json(boards[0])["rows"][0]["class"] == "replayed"
    assert page_of(boards[0]).tables[0].caption == "Replayed"
    sheet = list(csv.DictReader(io.StringIO((tmp_path / "site" / "boards.csv").read_text())))
    assert [row["class"] for row in sheet] == ["replayed", "replayed", "reference"]
    assert float(sheet[0]["score"]) == boards[0].standings.rows[0].score.value
    above = boards[0].standings.rows[0]
    page = row_page(boards[0], above)
    (pair,) = boards[0].standings.pairs
    (beside,) = (table for table in page.tables if table.caption.startswith("Beside"))
    ours = pair.difference if pair.second == above.entrant.verdict.submission else -pair.difference
    assert beside.rows[0][2].startswith(f"{100 * ours:+.1f} [") and ours > 0 and len(beside.rows) == 1 + 2
    assert f"submissions/{above.entrant.verdict.submission}" in page.notes[-1]


def test_what_was_stepped_is_kept_for_the_same_code_alone(made, board, tmp_path, monkeypatch):
    suite, place = made
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    stepped = []

    def counting(lines, how):
        return check_lines((stepped.append(line) or line for line in lines), how)

    monkeypatch.setattr(replay_pool, "check_lines", counting)
    add(place / "random", board, How(suite, jobs=1), "maintainer")
    assert len(stepped) == 48
    first = [*boards_of(board, How(jobs=1), lambda line: None)]
    assert len(stepped) == 48 and first == [*boards_of(board, How(jobs=0), lambda line: None)] and len(stepped) == 96
    monkeypatch.setattr(verify, "code_digest", lambda: "other code")
    assert [*boards_of(board, How(jobs=1), lambda line: None)] == first and len(stepped) == 144


def test_the_command_line_of_a_board(made, board, capsys, tmp_path, monkeypatch):
    suite, place = made
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    file = str(board / "suites" / "mine.json")

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main([*map(str, words)])
        return end.value.code, capsys.readouterr()

    verifying = ("--suite", file, "--jobs", "1")
    for name in ("random", "heuristic"):  # the suite is the board's own
        assert run("add", place / name, "--board", board, "--who", "me", "--jobs", "1")[0] == 0
    first, second = (row.submission[:16] for row in decisions_of(board))
    code, told = run("compare", first, second, "--board", board, *verifying)
    assert code == 0 and "second minus first" in told.out and "over clusters of tasks" in told.out
    code, told = run("build", "--board", board, "--out", board / "site", "--jobs", "1")
    assert code == 0 and "mine: 2 rows" in told.out and "verify " in told.err
    code, told = run("withdraw", first, "--why", "a bug", "--board", board, "--who", "me")
    assert code == 0 and "withdrawn by me: a bug" in told.out
    code, told = run("build", "--board", board, "--out", board / "site", "--jobs", "1", "--json")
    assert code == 0 and json.loads(told.out)["rows"] == {"mine": 1}
    code, told = run("withdraw", "nothing", "--why", "x", "--board", board, "--who", "me")
    assert code == 2 and "give more of an id" in told.err
    (board / SUBMISSIONS / decisions_of(board)[1].submission / "more.txt").write_text("?")
    code, told = run("build", "--board", board, "--out", board / "site", "--jobs", "1")
    assert code == 1 and "not shown: " in told.out
    code, told = run("build", "--board", board / "site", "--out", board / "other", "--jobs", "1")
    assert code == 2 and "write boards/NAME.toml" in told.err


def test_names_that_look_alike_or_mix_scripts_are_flagged(made, board, tmp_path):
    suite, place = made
    for name, agent in (("random", "r\u0430ndom"), ("again", "my agent"), ("taught", "My agent")):
        folder = tmp_path / name
        shutil.copytree(place / name, folder)
        text = (folder / "submission.json").read_text(encoding="utf-8")
        (folder / "submission.json").write_text(
            text.replace('"name": "random"', f'"name": "{agent}"', 1), encoding="utf-8"
        )
        reseal(folder)
        assert add(folder, board, how(suite), "me").code == 0
    flags = {row.entrant.verdict.agent: row.entrant.verdict.flags for row in built(board).standings.rows}
    assert flags["my agent"] == ("its name looks like 'My agent'",) and flags["My agent"] == (
        "its name looks like 'my agent'",
    )
    mixed, builtin = flags["r\u0430ndom"]
    assert (
        mixed.endswith("mixes letters of CYRILLIC and LATIN, which look alike")
        and builtin == "its name looks like 'random'"
    )


def test_a_sheet_holds_no_formula(monkeypatch):
    suite = many_tasks(8)
    found = standings(suite, [made_up(suite, name, 0.5, 1) for name in ("=1", "@1")])
    board = Board("b", BoardSettings.model_construct(title="B", suite="many@1", about="", published=[]), found, (), ())
    rows = list(csv.DictReader(io.StringIO(sheet([board]))))
    assert {row["agent"] for row in rows} == {"'=1", "'@1"} and not any(row["submission"][0] in "=@" for row in rows)


def test_places_are_ranges_where_rows_are_not_told_apart():
    suite = many_tasks(150)
    found = standings(suite, [made_up(suite, name, chance, seed) for name, chance, seed in
                              (("a", 0.3, 1), ("b", 0.3, 2), ("c", 0.7, 3), ("d", 0.95, 4))])  # fmt: skip
    places = {row.entrant.verdict.agent: row.place for row in found.rows}
    assert places == {"d": "1", "c": "2", "a": "3 to 4", "b": "3 to 4"}
    assert [row.entrant.verdict.agent for row in found.rows][:2] == ["d", "c"] and len(found.pairs) == 6
    d = next(row for row in found.rows if row.entrant.verdict.agent == "d")
    assert d.group == "ranked" and d.turns == 3 and d.pass_hat[2] == pytest.approx(0.95**2, abs=0.05)


def test_agents_alike_are_seldom_told_apart():
    suite, wrong = many_tasks(40), 0
    for seed in range(60):
        rows = [made_up(suite, name, 0.5, 3 * seed + number) for number, name in enumerate("abc")]
        wrong += any(pair.is_significant for pair in standings(suite, rows).pairs)
    assert wrong <= 8  # 5 % of 60 boards are 3; more than 8 has a chance below 1 %


def test_a_rows_page_shows_episodes_as_stepped_again_by_turns_failed_and_solved(tmp_path, monkeypatch):
    # Three entries stand for the shipped suite; a file of that id would be refused.
    monkeypatch.setattr("agent_envs.evaluation.verification.suites_known.suite_names", list)
    wide = load_suite("demo@1")
    labels = ("Count-v0", "BabaIsAI-v0", "Sort-v0")
    suite = wide.model_copy(update={"entries": tuple(item for item in wide.entries if item.label in labels)})
    evaluate(suite, run_folder.Settings("random"), policy=CompanionPolicy("random"), folder=tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "packed")
    verdict = verify.verify(tmp_path / "packed", How(suite, jobs=0))
    entrant = Entrant(verdict, Submission.model_validate_json((tmp_path / "packed" / "submission.json").read_bytes()),
                      folder=tmp_path / "packed")  # fmt: skip
    shown, missing = transcripts_of(entrant, suite)
    recorded = {row.key: row.result.trajectory for row in run_folder.open_run(tmp_path / "run").rows()}
    outcomes = {
        (place.entry.label, item.success) for (_, place), item in zip(places_of(suite), verdict.episodes, strict=True)
    }
    assert missing == () and len(shown) == len(outcomes) >= len(suite.entries) == 3
    for item in shown:
        play = recorded[item.anchor.removeprefix("e-")]
        assert (item.turns, item.reward) == (len(play.turns), play.total_reward)
        assert item.outcome.text == ("success" if play.success else "failure") and f'id="{item.anchor}-t1"' in item.html
    (row,) = standings(suite, [entrant]).rows
    board = Board("demo", BoardSettings(title="Demo", suite="demo@1"), standings(suite, [entrant]), (), ())
    page = row_page(board, row, shown, missing)
    (log,) = (table for table in page.tables if table.caption == "Verification")
    assert ("turns stepped again", f"{sum(len(play.turns) for play in recorded.values()):,}") in log.rows
    renamed = suite.model_copy(update={"id": "mine"})
    assert transcripts_of(entrant, renamed) == ((), ())  # a board's own suite
    (tmp_path / "packed" / "manifest.json").write_text((tmp_path / "packed" / "manifest.json").read_text() + " ")
    with pytest.raises(UsageError, match="was changed since it was verified"):
        transcripts_of(entrant, suite)


def test_episodes_to_show_are_few_and_of_both_kinds(made):
    suite, _ = made
    plan = [key for key, _ in places_of(suite)]
    half = len(plan) // 2
    both = {key: Checked(key, "terminated", number in (1, half), turns=1) for number, key in enumerate(plan)}
    assert episodes_to_show(suite, both) == [plan[0], plan[1], plan[half], plan[half + 1]]
    assert episodes_to_show(suite, both, 2) == [plan[0], plan[half]]  # the first entry's failure, the second's success
    assert episodes_to_show(suite, both, 3) == [plan[0], plan[1], plan[half]]
    assert episodes_to_show(suite, {plan[3]: Checked(plan[3], "fault")}) == []
