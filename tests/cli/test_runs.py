"""The verbs that read runs, and going on with one."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import UNTIMED, shell, strict
from tests.needs import needs


@pytest.fixture
def folder(run, tmp_path):
    code, _, _ = run(
        "eval", "SearchQA", "--agent", "heuristic", "-n", "12", "--trials", "2", "--out", tmp_path / "r", "--json"
    )
    assert code == 0
    return tmp_path / "r"


def test_resume_takes_no_other_argument(run, folder):
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    before = strict((folder / "results.json").read_text())
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:9]))
    code, out, _ = run("eval", "--resume", folder, "--json")
    again = strict(out)
    assert code == 0 and {**again, **UNTIMED} == {**before, **UNTIMED}
    for more in (["--agent", "random"], ["-n", "3"], ["SearchQA"], ["--max-cost", "1"], ["--concurrency", "2"]):
        code, out, err = run("eval", "--resume", folder, *more)
        assert code == 2 and out == "" and "leave out" in err
        assert ("a larger limit goes with" in err) == (more[0] == "--max-cost")
    code, _, err = run("eval", "--resume", folder.parent)
    assert code == 2 and "is no folder of a run" in err


@needs("[envs]")
def test_a_suite_and_its_refusals(run, tmp_path):
    code, out, _ = run("eval", "--suite", "core", "-n", "2", "--json", "--out", tmp_path / "r")
    row = strict(out)
    assert code == 0 and row["suite"].startswith("core@1.") and row["smoke"] is True and row["trials"] == 4
    for more in (["SearchQA"], ["--trials", "2"], ["--split", "dev"], ["--arg", "top_k=1"], ["--turn-limits", "1"]):
        code, out, err = run("eval", "--suite", "core", *more)
        assert code == 2 and out == "" and "names environments, tasks and trials itself" in err
    for wrong, words in (
        (["eval"], "name an id"),
        (["eval", "--suite", "nope"], "the suites are babyai, calc-bench, core"),
        (["eval", "SearchQA", "--turn-limits", "1,x"], "whole numbers"),
        (["eval", "SearchQA", "--turn-limits", ""], "--turn-limits '': write whole numbers"),
        (["eval", "SearchQA", "--turn-limits", " , "], "whole numbers"),
        (["eval", "SearchQA", "--turn-limits", "9" * 5_000], "whole numbers"),
        (["eval", "--suite", "core", "--turn-limits", ""], "whole numbers"),
        (["eval", "SearchQA", "--sweep", "top_k"], "NAME=VALUE"),
        (["eval", "SearchQA", "-n", "2", "--pack", tmp_path / "p"], "cannot be packed"),
        (["eval", "SearchQA", "--max-cost", "1"], "no price is known for agent 'random'"),
    ):  # fmt: skip
        code, out, err = run(*wrong)
        assert code == 2 and out == "" and words in err


def test_a_suite_of_a_run_is_a_file_that_others_can_play(run, folder, tmp_path):
    code, out, _ = run(
        "eval", "--suite", folder / "suite.json", "--agent", "heuristic", "--json", "--out", tmp_path / "b"
    )
    assert code == 0 and strict(out)["success"] == strict((folder / "results.json").read_text())["success"]


def test_sweeps_and_turn_limits_print_a_table(run, tmp_path):
    code, out, err = run(
        "eval", "SearchQA", "--agent", "heuristic", "-n", "6", "--turn-limits", "0,2,9,10", "--out", tmp_path / "t"
    )
    assert code == 0 and "free_turns=0" in out and "free_turns=2" in out and "free_turns=5" in out
    assert "note: --turn-limits 9, 10: played as 5, the most" in err
    code, out, _ = run("report", tmp_path / "t", "--page", tmp_path / "limits.html")
    assert code == 0 and "Against turn limits, SearchQA-v0 test" in out and "page: " in out
    assert (tmp_path / "limits.html").read_text().count('<svg class="plot"') == 4
    code, out, _ = run("compare", tmp_path / "t")
    assert code == 0 and "points [" in out and "80 % power" in out
    code, out, _ = run("eval", "SearchQA", "-n", "4", "--sweep", "top_k=1,3", "--json", "--out", tmp_path / "s")
    assert [row["entry"] for row in strict(out)["entries"]] == ["top_k=1", "top_k=3"]


def test_report_compare_view(run, folder, tmp_path):
    code, out, _ = run("report", folder)
    assert code == 0 and "How the episodes ended" in out and "note:" in out
    code, out, _ = run("report", folder, "--markdown")
    assert code == 0 and out.startswith("# heuristic on SearchQA-v0\n")
    code, out, _ = run("report", folder, "--json")
    assert code == 0 and strict(out)["title"] == "heuristic on SearchQA-v0"
    assert run("eval", "SearchQA", "--agent", "random", "-n", "12", "--trials", "2", "--out", tmp_path / "o")[0] == 0
    code, out, _ = run("report", folder, tmp_path / "o", "--json", "--page", tmp_path / "two.html")
    assert code == 0 and strict(out)["title"] == "heuristic on SearchQA-v0 · random on SearchQA-v0"
    assert "Behaviour" in (tmp_path / "two.html").read_text()
    code, out, _ = run("compare", folder, tmp_path / "o", "--json", "--page", tmp_path / "pair.html")
    page = (tmp_path / "pair.html").read_text()
    assert "<h1>random minus heuristic</h1>" in page and page.count('<svg class="bar"') == 1
    row = strict(out)
    assert code == 0 and row["contrasts"][0]["tasks"] == 12 and row["notes"] == []
    code, out, err = run("compare", folder)
    assert code == 2 and "name two runs" in err
    code, out, _ = run("view", folder, "--json")
    index = strict(out)["index"]
    assert code == 0 and index == str(folder / "view" / "index.html") and "<script" not in Path(index).read_text()
    for verb in ("report", "compare", "view"):
        code, out, err = run(verb, tmp_path)
        assert code == 2 and out == "" and "is no folder of a run" in err


def test_pack_of_a_whole_split(run, tmp_path):
    knobs = json.dumps({"questions_per_world": 1, "passages": 40, "hops": [1]})
    command = ("eval", "SearchQA", "--agent", "heuristic", "--arg", f"world={knobs}", "--json")
    code, out, err = run(*command, "--out", tmp_path / "r", "--pack", tmp_path / "p")
    assert code == 0 and strict(out)["episodes"] == 32 and "packed" in err
    assert (tmp_path / "p" / "manifest.json").exists()
    code, out, _ = run("pack", tmp_path / "r", tmp_path / "q", "--json")
    assert code == 0 and len(strict(out)["submission"]) == 64
    files = sorted(path.relative_to(tmp_path / "p") for path in (tmp_path / "p").rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path / "q") for path in (tmp_path / "q").rglob("*") if path.is_file())


def test_a_smoke_run_is_not_packed(run, folder, tmp_path):
    code, _, err = run("pack", folder, tmp_path / "p")
    assert code == 2 and "smoke" in err and not (tmp_path / "p").exists()


def test_a_run_goes_on_in_a_process_of_its_own(agents):
    ran = shell("eval", "SearchQA", "--agent", "cli_agents:Slow", "-n", "4", "--json", "--out", "r", cwd=agents)
    assert ran.returncode == 0
    (agents / "r" / "results.json").unlink()
    ran = shell("eval", "--resume", "r", "--json", cwd=agents)
    assert ran.returncode == 0 and strict(ran.stdout)["agent"] == "cli_agents:Slow"
    source = agents / "cli_agents.py"
    source.write_text(source.read_text() + "\n# another\n")
    ran = shell("eval", "--resume", "r", "--json", cwd=agents)
    assert ran.returncode == 2 and "the file of cli_agents:Slow was changed" in ran.stderr and ran.stdout == ""
