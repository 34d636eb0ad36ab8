"""`agent-envs eval --feedback`: with and without beside each other, refusals in one line, and a run that goes on."""

import pytest

from tests.cli.conftest import strict


def test_with_and_without(run, tmp_path):
    command = (
        "eval",
        "SearchQA",
        "--agent",
        "heuristic",
        "-n",
        "3",
        "--feedback",
        "none,scripted:good",
        "--epsilon",
        "0.1",
    )
    code, out, _ = run(*command, "--out", tmp_path / "r", "--json")
    rows = strict(out)["entries"]
    assert code == 0 and [row["entry"] for row in rows] == ["feedback=none", "feedback=scripted:good epsilon=0.1"]
    assert [row["feedback_cost_usd"] for row in rows] == [0.0, 0.0]
    code, out, _ = run("compare", tmp_path / "r")
    assert code == 0 and "feedback=scripted:good epsilon=0.1: not distinguishable" in out
    code, out, _ = run("eval", "--resume", tmp_path / "r", "--json")
    assert code == 0 and [row["entry"] for row in strict(out)["entries"]] == [row["entry"] for row in rows]
    code, _, err = run(*command[:-1], "0.2", "--out", tmp_path / "r")
    assert code == 2 and "holds a run with another" in err and "epsilon" in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--epsilon", "0.1"], "name who gives it with --feedback"),
        (["--feedback", "scripted:best"], "the scripted ones are scripted:good, scripted:weak, scripted:misleading"),
        (["--feedback", "scripted:good", "--feedback-arg", "temperature=1"], "are for a chat model"),
        (["--feedback", "openai:m@http://localhost:1", "--feedback-templates", "nowhere"], "explore.md cannot be read"),
        (["--feedback", "openai:m@http://localhost:1", "--feedback-arg", "api_key_env=KEY"], "options name no key"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(run, tmp_path, more, message):
    code, out, err = run("eval", "SearchQA", "-n", "1", "--out", tmp_path / "r", *more)
    assert code == 2 and out == "" and message in err and len(err.strip().splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_a_key_that_is_missing_is_told_before_anything_is_played(run, tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    code, _, err = run(
        "eval", "SearchQA", "-n", "1", "--feedback", "anthropic:claude-sonnet-4", "--out", tmp_path / "r"
    )
    assert code == 2 and "needs an API key: set the environment variable ANTHROPIC_API_KEY" in err
