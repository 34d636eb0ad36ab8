"""The commands of baselines: tables with plan, estimate, published numbers and resumption; best of n; several attempts."""

from tests.needs import require

require("[train]", "[envs]")

import json
from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs.services.chat import ScriptedChat
from baselines import best_of_n, reflexion, table
from baselines.scripted_reader import Errors, ScriptedReader
from baselines.table_rows import TABLES
from baselines.transcripts import MARK, transcripts
from tests import ROOT
from tests.baselines.test_agents import read
from tests.services.chat.conftest import serve  # noqa: F401 - a fixture
from tests.services.chat.wire import OpenAIWire
from trainers.sft import recordings

MODEL = "anthropic:claude-sonnet-4-5"


@pytest.mark.parametrize("name", sorted(TABLES))
def test_each_dry_run_plans_every_inference_row_and_names_what_trains_the_rest(name, capsys):
    assert table.main([name, "--agent", MODEL, "--dry-run", "-n", "2"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for row in TABLES[name].rows:
        assert (row.method.split()[0] if row.agent else f"trained, not played here: {row.method}") in told
    assert "USD" in told and "assumed: every turn is used" in told


def test_presets_and_baselines_of_tables_are_there():
    for each in TABLES.values():
        for row in each.rows:
            words = row.preset.split()
            if "--preset" in words:
                trainer, preset = words[2].rpartition(".")[2], words[words.index("--preset") + 1]
                assert (ROOT / "trainers/presets" / trainer / f"{preset}.toml").is_file(), row.preset


def test_a_table_plays_resumes_and_shows_published_numbers(serve, tmp_path, capsys, monkeypatch):  # noqa: F811
    rows = [{"method": "Gemini 2.5 Pro", "base_model": None, "values": {"Accuracy": 78.0, "Avg. Turns": 5.3}}]
    (tmp_path / "data/published").mkdir(parents=True)
    body = json.dumps({"tables": [{"id": "legal_main", "rows": rows}]})
    (tmp_path / "data/published/published.json").write_text(body, encoding="utf-8")
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "data"))
    handler = OpenAIWire(read)
    arguments = [
        "legal-1",
        "--agent",
        f"openai:m@{serve(handler)}",
        "-n",
        "2",
        "--rows",
        "rag",
        "--out",
        str(tmp_path / "out"),
    ]
    assert table.main(arguments) == 0
    told, calls = capsys.readouterr().out, len(handler.bodies)
    assert "published: Gemini 2.5 Pro" in told and "78.0" in told and "5.3" in told and calls > 0
    assert "by free turns: 0: " in told and "does not recompute: called the same as zero turns" in told
    (tmp_path / "out/na-ve-rag--gemini-2-5-pro").exists()
    journal = next((tmp_path / "out").rglob("journal.jsonl"))
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]), encoding="utf-8")  # as a kill leaves it
    assert table.main(arguments) == 0
    assert 0 < len(handler.bodies) - calls < calls
    assert table.main([*arguments[:-2], "--rows", "nobody", "--out", str(tmp_path / "out")]) == 2


def test_best_of_n_writes_what_sft_imitates_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(best_of_n, "make_agent", lambda name, **options: _tag_agent())
    out = tmp_path / "solved.jsonl"
    arguments = ["SearchQA", "--agent", "baseline:tag_agent", "--tasks", "2", "--samples", "2", "--out", str(out)]
    assert best_of_n.main(arguments) == 0
    before = out.read_bytes()
    assert len(list(recordings(out, gym.make("agent_envs/SearchQA-v0"), "train"))) == 2
    assert best_of_n.main(arguments) == 0 and out.read_bytes() == before
    assert best_of_n.main([*arguments, "--split", "test"]) == 2


def _tag_agent():
    from baselines.tag_agent import TagAgent

    return TagAgent(ScriptedReader(Errors()))


def test_a_second_attempt_reads_what_the_first_noted():
    import gymnasium as gym

    heard = []

    def speak(request):
        text = "\n".join(str(row["content"]) for row in request.messages)
        heard.append(text)
        if "An attempt at a task failed" in text:
            return "Look it up."
        return ScriptedReader().complete(request).text if "Look it up." in text else "<answer>no idea</answer>"

    trial, notes = reflexion.attempts(gym.make("agent_envs/SearchQA-v0"), 0, "dev", 3, ScriptedChat(speak))
    assert (trial, notes) == (2, ["Look it up."])
    assert "AGENT: <answer>no idea</answer>" in heard[1] and "Earlier attempts" in heard[2]


def test_the_page_of_transcripts_is_current():
    page = Path(ROOT / "docs/baselines.md").read_text(encoding="utf-8")
    assert page.partition(MARK)[2].strip() == transcripts().strip()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-n", "-1"], "give numbers >= 1"),
        (["--trials", "0"], "give numbers"),
        (["--env-arg", "x"], "--env-arg x: write"),
    ],
)
def test_a_plan_of_nothing_is_refused(words, told, capsys):
    assert table.main(["legal-1", "--agent", MODEL, "--dry-run", *words]) == 2
    assert told in capsys.readouterr().err
