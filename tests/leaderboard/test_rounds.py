"""A round: the page's commands from end to end, deadlines, counts of what was drawn, and who cannot take part."""

import json
import re
import shlex
import sys
from dataclasses import replace

import pytest

from agent_envs import solve
from agent_envs.base.errors import UsageError
from agent_envs.cli import app as cli
from agent_envs.evaluation.submission.models import Submitter
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.draw import drawn_suite, round_nonce
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, entry_env
from agent_envs.evaluation.suites.suite import suite_text
from agent_envs.evaluation.verification.suites_known import registered_suite, registrations_of
from agent_envs.evaluation.verification.verify import How, verify
from agent_envs.rollout.policy import NullPolicy, Reply
from leaderboard import registering
from leaderboard.board import add, boards_of, decide_about
from leaderboard.command_line import main
from leaderboard.pages import page_of, to_json
from leaderboard.registering import draw_counts, open_round, register
from leaderboard.rounds import rounds_of, rounds_table
from leaderboard.standings import standings
from tests.evaluation.submission.packing import play
from tests.leaderboard.boards import made_up
from tests.leaderboard.test_page import PAGE

BOTH = ("Order", "Count")


def own_suite(tasks=5):
    entries = tuple(adhoc_suite(Choice(name, limit=tasks)).entries[0] for name in BOTH)
    return adhoc_suite(Choice("Order", limit=tasks)).model_copy(
        update={"id": "mine", "entries": entries, "scored": True}
    )


class Memoriser(NullPolicy):
    """Knows by heart what solves each task of the fixed set, and reads nothing but which one it is."""

    name = "memoriser"

    def __init__(self):
        self.known = {}
        for entry in own_suite().entries:
            env = entry_env(entry)
            for task, _, _ in entry.tasks:
                _, info = env.reset(seed=0, options={"task": task, "split": entry.split})
                self.known[json.dumps(info["messages"])] = solve(env)
        self.plays = {}

    def act(self, requests):
        return [self._reply(request) for request in requests]

    def _reply(self, request):
        if request.turn == 1:
            self.plays[request.episode_key] = self.known.get(json.dumps(list(request.messages)), [])
        actions = self.plays.get(request.episode_key, [])
        return Reply(actions[request.turn - 1] if request.turn <= len(actions) else "")


def run_console(capsys, monkeypatch, line):
    """Run a command of the page in this process, and return its code and what it printed."""
    words = shlex.split(line)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main([*words[3:]]) if words[0] == "python" else cli.main()
    return end.value.code, capsys.readouterr().out


def test_a_round_tells_who_knows_the_fixed_set_by_heart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registering.secrets, "token_hex", lambda count: "ab" * count)
    (tmp_path / "BOARD" / "boards").mkdir(parents=True)
    (tmp_path / "BOARD" / "mine.json").write_text(suite_text(own_suite()))
    (tmp_path / "BOARD" / "boards" / "mine.toml").write_text('title = "Mine"\nsuite = "mine.json"\n')
    (block,) = re.findall(r"```console\n(.*?)```", PAGE.partition("### Rounds")[2].partition("### ")[0], flags=re.S)
    salt, agent = "", f"{__name__}:Memoriser"
    for line in block.splitlines():
        line = line.replace("demo@1", "BOARD/mine.json").replace("random", agent).replace("SALT", salt)
        code, printed = run_console(capsys, monkeypatch, line)
        assert code == 0, (line, printed)
        salt = salt or next(iter(re.findall(r"--round ([0-9a-f]{32})", printed)), "")
    (told,) = json.loads((tmp_path / "SITE" / "boards.json").read_text())
    (result,) = told["rounds"]
    assert result["score"]["fixed"][0] == 1.0 and result["score"]["round"][0] <= 0.2 and result["gap"][0] >= 0.8
    assert set(result["entries"]) == {"Order-v0", "Count-v0"} and result["agent"] == agent
    assert 0.1 < result["score"]["played_back"][0] < 0.5 and result["entries"]["Count-v0"]["round"][0] == 0.0
    by_class = {row["class"]: row for row in told["rows"]}
    assert by_class["registered"]["draws"] == {"registered": 1, "submitted": 0, "rounds": 1, "rounds_submitted": 1}
    pages = [path.read_text() for path in (tmp_path / "SITE").glob("[br]o*/*.html")]
    shown = [page for page in pages if "Fixed set and round" in page]
    assert len(shown) == 3 and sum("Count-v0" in page.partition("Fixed set and round")[2].partition("</table>")[0]
                                   for page in shown) == 2  # fmt: skip
    assert all("registered 1 time, submitted 0; in 1 round, submitted 1" in page for page in shown)


def test_a_playback_wins_where_tasks_can_be_had_without_reading(tmp_path):
    """One entry whose tasks are all solved by one recording: fixed, round and playback are alike."""
    suite, registry, board = own_suite(), tmp_path / "registry", tmp_path / "board"
    suite = suite.model_copy(update={"entries": suite.entries[1:]})
    (board / "boards").mkdir(parents=True)
    (board / "mine.json").write_text(suite_text(suite))
    (board / "boards" / "mine.toml").write_text('title = "Mine"\nsuite = "mine.json"\n')
    register(suite, "null", registry)
    (row,) = open_round(suite, registry)
    drawn, left = drawn_suite(suite, round_nonce("null", row.salt))
    assert (row.agent, row.id, row.digest) == ("null", drawn.id, drawn.digest()) and left == ()
    for name, its_suite in (("fixed", suite), ("round", drawn)):
        play(tmp_path / name, its_suite, "null")
        pack_run(tmp_path / name, tmp_path / f"{name}-packed")
        how = How(None if name == "round" else suite, registry=registry, jobs=0)
        assert add(tmp_path / f"{name}-packed", board, how, "me").code == 0
    (built,) = boards_of(board, How(registry=registry, jobs=0), lambda line: None)
    (result,) = built.rounds
    fixed, later, back = result.score
    assert fixed.value == later.value == back.value == 0.0 and result.gap.difference == 0.0
    assert result.entries["Count-v0"][2].trials == 5  # five alike attempts are one
    assert any(table.caption == "Fixed set and round" for table in page_of(built).tables)
    assert to_json(built)["rounds"][0]["score"]["played_back"][0] == 0.0


def claimed(suite, key, chance, by, **more):
    """Return a made up submission of one agent's name, by a submitter."""
    entrant = made_up(suite, key, chance, 1)
    agent = entrant.submission.agent.model_copy(update={"name": "null"})
    meta = entrant.submission.model_copy(update={"agent": agent, "submitter": Submitter(**by)})
    return replace(entrant, submission=meta, **more)


def test_a_fixed_set_under_another_submitters_hand_is_not_paired_and_marks_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("leaderboard.rounds._played_back", lambda *_: {})
    suite = own_suite()
    drawn, _ = drawn_suite(suite, "ab" * 16)
    mine, theirs = {"name": "Ada", "contact": "ada@example.org"}, {"name": "Ada", "contact": "eve@example.org"}
    round_entrant = claimed(drawn, "e", 0.5, mine, registered_suite=drawn, is_round=True)
    entrants = [claimed(suite, "a", 0.2, mine), claimed(suite, "b", 0.8, mine), claimed(suite, "c", 1.0, theirs)]
    fixed_only = standings(suite, [entrants[2], round_entrant])
    assert rounds_of(suite, fixed_only.rows) == ()
    (result,) = rounds_of(suite, standings(suite, [*entrants, round_entrant]).rows)
    assert (result.fixed.entrant.verdict.submission, result.round.entrant.verdict.submission) == ("b" * 64, "e" * 64)
    assert [cell.text for cell in rounds_table([result]).rows[0][-2:]] == ["b" * 16, "e" * 16]
    half = replace(claimed(suite, "d", 1.0, mine).verdict, badges=("replayed",))
    late = replace(round_entrant.verdict, badges=("complete", "replayed"),
                   flags=("not registered: it came on 2999-01-01, and its last day was 2026-01-01",))  # fmt: skip
    part = replace(round_entrant.verdict, badges=("replayed",))
    for fixed, verdict, marks in (
        ([entrants[1], replace(entrants[0], verdict=half)], late, ([], ["after its last day"])),
        ([replace(entrants[0], verdict=half)], part, (["not complete"], ["not complete"])),
    ):
        (result,) = rounds_of(suite, standings(suite, [*fixed, replace(round_entrant, verdict=verdict)]).rows)
        cells = rounds_table([result], by_entry=True).rows[0][-2:]
        assert [cell.text.partition(" (")[2].rstrip(")") for cell in cells] == ["; ".join(side) for side in marks]
        assert (
            list(result.to_json()["marks"].values()) == list(marks)
            and result.fixed.entrant.verdict.submission[0] in "bd"
        )


def test_rows_of_drawn_suites_are_named_where_no_registry_is_given(tmp_path, capsys):
    suite, registry, board = own_suite(2), tmp_path / "registry", tmp_path / "board"
    (board / "boards").mkdir(parents=True)
    (board / "mine.json").write_text(suite_text(suite))
    (board / "boards" / "mine.toml").write_text('title = "Mine"\nsuite = "mine.json"\n')
    row, _, _ = register(suite, "null", registry)
    drawn, _ = registered_suite(registry, row.id)
    play(tmp_path / "run", drawn, "null")
    pack_run(tmp_path / "run", tmp_path / "packed")
    name = add(tmp_path / "packed", board, How(registry=registry, jobs=0), "me").submission
    (built,) = boards_of(board, How(jobs=0), lambda line: None)
    assert built.left == (f"{name[:16]}: played on a drawn suite: give --registry",) and not built.standings.rows
    (tmp_path / "empty").mkdir()
    (built,) = boards_of(board, How(registry=tmp_path / "empty", jobs=0), lambda line: None)
    assert built.left[0].endswith("played on a drawn suite: " + str(tmp_path / "empty") + " has no registration of it")
    with pytest.raises(SystemExit) as end:
        main(["build", "--board", str(board), "--out", str(tmp_path / "site"), "--jobs", "1"])
    assert end.value.code == 1 and "give --registry" in capsys.readouterr().out
    (board / "submissions" / name / "more.txt").write_text("x")
    (built,) = boards_of(board, How(registry=registry, jobs=0), lambda line: None)
    assert len(built.left) == 1 and "more.txt" in built.left[0]  # rejected by now: with its own reason


def test_tasks_of_a_round_are_an_agents_own_and_nobody_enters_late(tmp_path):
    suite = own_suite()
    with pytest.raises(UsageError, match="no agent is registered for mine@0.0"):
        open_round(suite, tmp_path)
    register(suite, "one", tmp_path)
    register(suite, "two", tmp_path)
    rows = open_round(suite, tmp_path)
    (one, row), (two, _) = (registered_suite(tmp_path, item.id) for item in rows)
    assert [item.agent for item in rows] == ["one", "two"] and row == rows[0] and one.id != two.id and one.scored
    assert not {task for entry in one.entries for task in entry.tasks} & {
        task for entry in two.entries for task in entry.tasks
    }
    assert len({item.salt for item in rows}) == 1 and all(len(entry.tasks) == 5 for entry in one.entries)
    register(suite, "late", tmp_path)
    late, _ = drawn_suite(suite, round_nonce("late", rows[0].salt))
    assert registered_suite(tmp_path, late.id) is None
    path = tmp_path / f"{one.id}.json"
    path.write_text(path.read_text().replace('"trials":1', '"trials":2'))
    with pytest.raises(UsageError, match="not the suite that was registered"):
        registered_suite(tmp_path, one.id)


def test_a_pack_behind_its_deadline_is_not_registered_and_the_boards_date_counts(tmp_path):
    suite, registry, board = own_suite(2), tmp_path / "registry", tmp_path / "board"
    (board / "boards").mkdir(parents=True)
    (board / "mine.json").write_text(suite_text(suite))
    (board / "boards" / "mine.toml").write_text('title = "Mine"\nsuite = "mine.json"\n')
    rows = [register(suite, name, registry, days=3)[0] for name in ("null", "nuII", "null", "other")]
    drawn, _ = registered_suite(registry, rows[0].id)
    play(tmp_path / "run", drawn, "null")
    pack_run(tmp_path / "run", tmp_path / "packed")
    how = How(registry=registry, jobs=0)
    assert "registered" in verify(tmp_path / "packed", replace(how, arrived=rows[0].due)).badges
    late = verify(tmp_path / "packed", replace(how, arrived="2999-01-01"))
    assert late.verdict == "accepted" and late.badges == ("complete", "replayed") and not late.to_json()["ranked"]
    assert late.flags == (f"not registered: it came on 2999-01-01, and its last day was {rows[0].due}",)
    name = add(tmp_path / "packed", board, how, "me").submission
    log = board / "decisions.jsonl"
    (built,) = boards_of(board, how, lambda line: None)
    (row,) = built.standings.rows
    assert row.group == "registered" and row.entrant.draw_counts["registered"] == 3  # "nuII" looks like "null"
    assert (
        "registered 3 times, submitted 1" in str(page_of(built).tables)
        and to_json(built)["rows"][0]["draws"]["submitted"] == 1
    )
    # "null" has a row, and the other names have nothing: 1 time each, and neither counts for the other
    nothing = {"registered": 1, "submitted": 0, "rounds": 0, "rounds_submitted": 0}
    assert to_json(built)["registered_without_row"] == {"nuII": nothing, "other": nothing}
    (table,) = (table for table in page_of(built).tables if table.caption == "Registered, without a row")
    assert table.rows == (("nuII", "1", "0", "0", "0"), ("other", "1", "0", "0", "0"))
    decide_about(board, name, "withdrawn", "a bug", "me")
    (built,) = boards_of(board, how, lambda line: None)
    assert built.without_row["null"] == {**nothing, "registered": 2, "submitted": 1}
    draws = registrations_of(registry)
    assert draw_counts(draws, {rows[0].id}, "nobody", suite.name) == {} and len(draws) == 4
    log.unlink()
    late_board = replace(how, arrived="")
    from leaderboard import decisions

    class Later(decisions.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2999, 1, 1, tzinfo=tz)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decisions, "datetime", Later)
        add(tmp_path / "packed", board, late_board, "me")
    (built,) = boards_of(board, how, lambda line: None)
    assert [row.group for row in built.standings.rows] == ["replayed"]
    for days in (0, 4000):
        with pytest.raises(UsageError, match=f"--days {days}"):
            register(suite, "null", registry, days=days)


@pytest.mark.parametrize(
    "words", [["Sort", "--round", "ab"], ["--suite", "demo", "--as", "me"], ["Sort", "--as", "me"]]
)
def test_a_round_is_of_a_suite(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["agent-envs", "eval", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2 and "--round SALT draws from the suite of --suite NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    "salt", ["ab", "AB" * 16, "ab" * 16 + "\n", "SALT", "g" * 32, pytest.param("x" * 9_000, id="long")]
)
def test_a_salt_is_32_hex_digits(salt, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["agent-envs", "eval", "--suite", "demo", "--round", salt])
    with pytest.raises(SystemExit) as end:
        cli.main()
    line = capsys.readouterr().err
    assert (
        end.value.code == 2 and "a round's salt is 32 hex digits" in line and line.count("\n") == 1 and len(line) < 200
    )
    assert not any(tmp_path.iterdir())


def test_a_pack_under_another_name_than_the_registered_one_is_refused_before_anything_is_played(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    words = ["--suite", "demo", "--round", "ab" * 16, "--as", "mine", "--pack", "packed"]
    monkeypatch.setattr(sys, "argv", ["agent-envs", "eval", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    line = capsys.readouterr().err
    assert end.value.code == 2 and "agent-envs pack RUN DIR --about FILE" in line and line.count("\n") == 1
    assert not any(tmp_path.iterdir())
