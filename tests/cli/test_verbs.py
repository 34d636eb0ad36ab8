"""The command line: what it teaches, what it prints, and its exit codes."""

import json
import subprocess
import sys

import pytest
import typer

import agent_envs
from agent_envs.cli import app as cli
from tests.cli.conftest import ROOT, shell, strict
from tests.envs.search_qa.conftest import write_folder
from tests.fresh_process import printed
from tests.needs import needs


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


VERBS = dict(commands(typer.main.get_command(cli.app)))


def test_the_verbs():
    wanted = {
        ("list",),
        ("show",),
        ("play",),
        ("check",),
        ("eval",),
        ("data", "list"),
        ("data", "get"),
        ("data", "path"),
    }
    assert set(VERBS) >= wanted


@pytest.mark.parametrize("path", VERBS, ids=" ".join)
def test_help_explains_every_option(run, path):
    code, out, _ = run(*path, "--help")
    assert code == 0
    assert VERBS[path].help and VERBS[path].help.split(";")[0].split(".")[0] in out
    for parameter in VERBS[path].params:
        assert parameter.help, f"{' '.join(path)}: {parameter.name} has no help"
        assert parameter.help.split()[0] in out


def test_the_first_help_gives_an_example(run):
    code, out, _ = run("--help")
    assert code == 0 and "agent-envs eval SearchQA --agent random -n 20" in out
    assert all(verb in out for verb in ("list", "show", "play", "check", "eval", "data"))


HEAVY = ("torch", "transformers", "pydantic", "jinja2", "bm25s", "httpx", "huggingface_hub", "pyarrow")


def test_help_is_light():
    code = f"""
import json, sys
sys.argv = ["agent-envs", "--help"]
from agent_envs.cli import app as cli
try:
    cli.main()
except SystemExit:
    pass
print(json.dumps([m for m in {HEAVY} if m in sys.modules]))
"""
    assert json.loads(printed(code).splitlines()[-1]) == []


def test_list(run):
    code, out, _ = run("list")
    assert code == 0 and all(env_id in out for env_id in agent_envs.env_ids())
    code, out, _ = run("list", "--json")
    rows = strict(out)
    assert [row["id"] for row in rows] == agent_envs.env_ids() and all(row["summary"] for row in rows)


@pytest.mark.parametrize("name", ["SearchQA", "SearchQA-v0", "agent_envs/SearchQA-v0"])
def test_show(run, name):
    code, out, _ = run("show", name)
    assert code == 0
    for part in ("agent_envs/SearchQA-v0", "max_generations", "exact_match", "<search>", "(reward 1)", "Question: "):
        assert part in out


def test_show_json(run):
    code, out, _ = run("show", "SearchQA", "--json", "--arg", "reward=em_format", "--arg", "top_k=1")
    page = strict(out)
    assert code == 0 and page["id"] == "agent_envs/SearchQA-v0"
    assert page["reward"]["name"] == "em_format" and page["splits"]["test"] == 4096
    assert "Doc 1(" in page["example"] and "Doc 2(" not in page["example"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "nope"], "agent_envs/SearchQA-v0"),
        (["play", "nope"], "agent_envs/SearchQA-v0"),
        (["check", "nope"], "agent_envs/SearchQA-v0"),
        (["eval", "nope"], "agent_envs/SearchQA-v0"),
        (["check"], "--all"),
        (["check", "nomodule:X"], "nomodule"),
        (["check", "os:path"], "os:path"),
        (["check", ":x"], ":x"),
        (["check", "SearchQA", "-n", "0"], "-n"),
        (["show", "SearchQA", "--arg", "tusk=1"], "tusk"),
        (["eval", "SearchQA", "--arg", "tusk=1"], "tusk"),
        (["show", "SearchQA", "--arg", "tusk"], "NAME=VALUE"),
        (["show", "SearchQA", "--arg", "tasks=5"], "tasks=5"),
        (["show", "SearchQA", "--arg", "retriever=bing"], "bm25_okapi"),
        (["play", "SearchQA", "--task", "-1"], "no task -1"),
        (["play", "SearchQA", "--split", "validation"], "train, dev, test"),
        (["eval", "SearchQA", "--split", "validation"], "train, dev, test"),
        (["eval", "SearchQA", "--agent", "nobody"], "random, heuristic, solver, null"),
        (["eval", "SearchQA", "--agent", "nomodule:X"], "nomodule"),
        (["eval", "SearchQA", "--agent", ":X"], ":X"),
        (["eval", "SearchQA", "--agent", "..a:X"], "..a:X"),
        (["eval", "SearchQA", "--agent", "os:path"], "os:path"),
        (["eval", "SearchQA", "--agent", "cli_agents:Nothing"], "Nothing"),
        (["eval", "SearchQA", "--agent", "cli_agents:NeedsWords"], "words"),
        (["eval", "SearchQA", "--agent", "cli_agents:NoPolicy"], "act(requests)"),
        (["eval", "SearchQA", "-n", "0"], "-n"),
        (["eval", "SearchQA", "--trials", "0"], "--trials"),
        (["eval", "SearchQA", "--concurrency", "0"], "--concurrency"),
        (["eval", "SearchQA", "-n", "1", "--out", "cli_agents.py"], "cli_agents.py"),
        (["data", "path", "nope"], "hotpotqa"),
        (["data", "get", "nope"], "hotpotqa"),
        (["data", "path", "hotpotqa", "--split", "validation"], "train, dev, test"),
        (["frobnicate"], "frobnicate"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_with_2_and_says_what_there_is(run, agents, arguments, words):
    code, out, err = run(*arguments)
    assert code == 2
    assert words in err
    assert out == "" and not (agents / "runs").exists()


def test_play_with_piped_input():
    ran = shell(
        "play",
        "SearchQA",
        "--task",
        "0",
        "--split",
        "test",
        input="<search>Buhex\nborn</search>\n\nhm\n\n<answer>x</answer>\n\n",
    )
    assert ran.returncode == 0 and ran.stderr == ""
    for part in (
        "Question: ",
        "<information>",
        "turn 1, 6 left",
        "turn 3, 4 left",
        "Your turn held no action",
        "not solved",
    ):
        assert part in ran.stdout
    assert "malformed" in ran.stdout


GAME = """
import gymnasium as gym
from agent_envs.envs.text_games.adapter import TextAdapter


class Lake(TextAdapter):
    def __init__(self, *, drawn=True, render_mode=None):
        names = ["left", "down", "right", "up"]
        super().__init__("FrozenLake-v1", lambda env, place, info: f"field {place}", names, "Go.", render_mode=render_mode,
                         env_arguments={"is_slippery": False}, drawing=self.board if drawn else None)

    @staticmethod
    def board(env):
        return "." * env.unwrapped.s + "@"


gym.register("game/Lake-v0", entry_point="play_game:Lake")
"""


def test_play_draws_a_game_and_takes_the_names_of_actions(tmp_path):
    (tmp_path / "play_game.py").write_text(GAME, encoding="utf-8")
    typed = "right\n\nTHINK: further\nACTION: Right.\nover there\n\n"
    ran = shell("play", "play_game:game/Lake-v0", input=typed, cwd=tmp_path)
    assert ran.returncode == 0 and ran.stderr == ""
    boards = [line for line in ran.stdout.splitlines() if line.endswith("@")]
    # An empty line shows the state again; the last turn named no action: the default, which is left, went back.
    assert boards == ["@", ".@", ".@", "..@", ".@"]
    assert "turn 4, 97 left" in ran.stdout and "1 left   2 down   3 right   4 up" in ran.stdout
    assert "Instead you did: left." in ran.stdout
    plain = shell("play", "play_game:game/Lake-v0", "--arg", "drawn=false", input=typed, cwd=tmp_path)
    assert "@" not in plain.stdout and "field 2" in plain.stdout


def test_play_goes_on_to_the_end_of_a_game(tmp_path):
    (tmp_path / "play_game.py").write_text(GAME, encoding="utf-8")
    ran = shell("play", "play_game:game/Lake-v0", input="DOWN\ndown\nright\nright\ndown\nright\n", cwd=tmp_path)
    end = ["reward, success    1", "return, their sum  1", "gold               none: the state decides"]
    assert ran.returncode == 0 and ran.stdout.splitlines()[-3:] == end
    assert "The episode is over after turn 6: solved." in ran.stdout
    assert [len(line) for line in ran.stdout.splitlines() if line.endswith("@")] == [1, 5, 9, 10, 11, 15, 16]


@needs("[sandbox]")
def test_empty_lines_within_a_tag_belong_to_the_turn():
    program = "<python>\na = 20\n\n\nprint(a + 3)\n</python>\n\n"
    ran = shell("play", "ToolReasoning", input=program)
    assert (
        ran.returncode == 0
        and "\n23\n" in ran.stdout
        and "--- turn 2," in ran.stdout
        and "--- turn 3," not in ran.stdout
    )
    ran = shell("play", "ToolReasoning", input="<python>\nprint(1)\n\n\n\n<python>print(7 + 6)</python>\n\n")
    assert (
        "--- turn 2," in ran.stdout and "--- turn 3," in ran.stdout and "\n13\n" in ran.stdout
    )  # never closed: three lines


def test_play_ends_with_its_input():
    for text in ("", "<search>a</search>\n\n", "\n", "<search>a</search>"):
        ran = shell("play", "SearchQA", input=text)
        assert ran.returncode == 0 and "no more input" in ran.stdout, text
        assert "Traceback" not in ran.stderr


@needs("[envs]")
def test_a_reader_that_leaves_is_told_nothing():
    for verb, reader in (("show SearchQA", "head -c 10"), ("list --json", "true")):
        command = f"'{sys.executable}' -m agent_envs {verb} | {reader}"
        ran = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
        assert ran.stderr == ""


def test_data_list(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AGENT_ENVS_DATA", raising=False)
    code, out, _ = run("data", "list", "--json")
    rows = {row["name"]: row for row in strict(out)}
    assert code == 0 and set(rows) >= {"nq", "hotpotqa", "bamboogle", "nq+hotpotqa", "sample", "wiki-18"}
    assert {row["here"] for row in rows.values()} == {"no"}
    write_folder(tmp_path / "data")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    rows = {row["name"]: row for row in strict(run("data", "list", "--json")[1])}
    assert (
        rows["hotpotqa"]["here"] == "dev 6"
        and rows["nq+hotpotqa"]["here"] == "dev 7"
        and rows["musique"]["here"] == "no"
    )
    assert rows["sample"]["here"].endswith("corpus.jsonl")
    assert all(row["licence"] and row["published"] and row["title"] for row in rows.values())
    assert "hotpotqa" in run("data", "list")[1]


def test_data_path(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    folder = write_folder(tmp_path / "data")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    assert run("data", "path", "hotpotqa")[:2] == (0, f"{folder / 'dev' / 'hotpotqa.jsonl'}\n")
    assert run("data", "path", "sample")[:2] == (0, f"{folder / 'corpus.jsonl'}\n")
    assert run("data", "path", "nq+hotpotqa")[1].count("\n") == 2
    for arguments in (["hotpotqa", "--split", "train"], ["musique"], ["wiki-18"]):
        code, out, err = run("data", "path", *arguments)
        assert code == 2 and out == ""
        assert "is not on this machine" in err and f"agent-envs data get {arguments[0]}" in err
    monkeypatch.delenv("AGENT_ENVS_DATA")
    code, _, err = run("data", "path", "hotpotqa")
    assert code == 2 and "AGENT_ENVS_DATA (not set)" in err and "agent-envs data get hotpotqa --split dev" in err


def test_escape_sequences_do_not_reach_the_terminal(capsys):
    from agent_envs.base.terminal import print_table, show

    show("\x1b]0;owned\x07\x1b[2Jred\u202etxt")
    print_table("t", ["head"], [["\x1b[31mcell"]])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out
    assert "owned" in out and "red" in out and "cell" in out
