"""Tables of sweeps as the papers print them: sets, averages, what is left out; from made-up results, and from a real run."""

import json

import pytest

from tests.trainers.test_sweeps import result_of
from trainers import sweeps
from trainers.command_line import parse
from trainers.sweeps import Cell, Layout, read_sweep, run_sweep, table_of
from trainers.veg import VEGSettings


def told_of(out, name):
    """Return the rows of a paper's table by their first words, from made-up results of all its runs."""
    common, cells = read_sweep("veg", name)
    for number, cell in enumerate(cells, 1):
        settings, folder = parse(VEGSettings, [*common, *cell.options, "--out", str(out / cell.folder)], program="veg")
        tests = {}
        for place, test in enumerate(json.loads(settings.with_feedback().env.tests)):
            tests[test] = summary(number / 20 + place / 100, 10 * number, "without" not in test)
        result = {
            **result_of(number / 20), "after_with_feedback": tests["with_feedback"], "tests": tests,
            "after_without": tests["without_feedback"],
        }  # fmt: skip
        (folder / "result.json").write_text(json.dumps(result))
    text = run_sweep("veg", name, ["--out", str(out)])
    assert (out / "table.md").read_text() == text + "\n"
    table, *notes = text.split("\n\n")
    head, _, *rows = ([part.strip() for part in line.strip("|").split("|")] for line in table.splitlines())
    return head, {row[0]: row[1:] for row in rows}, notes


def summary(success, tasks, fed):
    told = {"success": success, "interval": [success, success], "tasks": tasks}
    return told | ({"feedback/messages": 2.0} if fed else {})


def shares(entries):
    return [float(entry.partition("%")[0]) for entry in entries]


def test_table_3_has_the_papers_sets_and_averages(tmp_path):
    head, rows, notes = told_of(tmp_path / "out", "table3")
    sizes = {"NQ": 3610, "TriviaQA": 11313, "PopQA": 14267, "HotpotQA": 7405, "2wiki": 12576, "Musique": 2417,
             "Bamboogle": 125}  # fmt: skip
    assert head == ["method", *sizes, "Avg. (micro)", "Avg. (macro)"]
    labels = [f"{size}, {rate}, {way} feedback" for size in ("3B", "7B") for rate in (0.1, 0.5, 0.9)
              for way in ("with", "without")]  # fmt: skip
    assert list(rows) == labels
    for number, row in enumerate(rows.values()):
        first = 5 * (number // 2 + 1) + (7 if number % 2 else 0)  # per cent; a set more is one more
        assert shares(row[:7]) == [first + place for place in range(7)]
        micro = sum(size * (first + place) for place, size in enumerate(sizes.values())) / 51713
        assert shares(row[7:]) == [pytest.approx(micro, abs=0.051), first + 3]
    assert rows["3B, 0.1, with feedback"][0] == "5.0% [5.0%, 5.0%]" and "micro average" in notes[0]


@pytest.mark.parametrize("name", ["table2", "table4"])
def test_tables_2_and_4_have_averages_over_domains(name, tmp_path):
    head, rows, notes = told_of(tmp_path / "out", name)
    assert head == ["method", "Retail", "Airline", "Telecom", "Avg. (micro)", "Avg. (macro)"]
    labels = ["GRPO", "VEG"] if name == "table2" else ["None (GRPO)", "Qwen3-32B", "Claude Sonnet 4"]
    assert list(rows) == [f"{label}, {way}" for label in labels for way in ("with feedback", "without")]
    for number, row in enumerate(rows.values()):
        cells = [3 * (number // 2) + place for place in (1, 2, 3)]
        rates = [5 * cell + number % 2 for cell in cells]  # per cent, of ten tasks times the cell's number
        micro = sum(cell * rate for cell, rate in zip(cells, rates, strict=True)) / sum(cells)
        assert shares(row) == [*rates, pytest.approx(micro, abs=0.051), sum(rates) / 3]
    told = run_sweep("veg", name, ["--help"])
    assert all(note.strip() in told for note in notes) and ("Validator" in told) == (name == "table2")


SMALL_VEG = """options = [
    "--env.id", "Order", "--env.arguments", '{"size": 2, "max_generations": 3}', "--model.name", "tiny:tiny",
    "--model.tokenizer-plays", "64", "--log.no-curves",
    "--warm-start.demonstrations", "40", "--warm-start.steps", "6", "--warm-start.rows-per-step", "20", "--steps", "1",
    "--warm-start.optim.learning-rate", "0.003", "--sampling.max-new-tokens", "12", "--sampling.batch", "16",
    "--tasks-per-step", "2", "--group-size", "2", "--evaluation.every", "0", "--evaluation.test-tasks", "4",
    "--env.tests", '{"pair": {}, "pair without feedback": {"wrappers": []}, "dev": {"split": "dev"}}',
]
average = true
notes = ["A note."]

[[set]]
name = "pair"
column = "Pair"
questions = 1

[[set]]
name = "dev"
column = "Dev"
questions = 3

[[cell]]
row = "0.5"
column = ""
options = ["--epsilon", "0.5"]
"""


def test_a_small_sweep_of_veg_fills_its_sets(tmp_path, monkeypatch):
    """A real run, in a process of its own; where a set was not tested without feedback its column is empty, and the average."""
    (tmp_path / "veg" / "sweeps").mkdir(parents=True)
    (tmp_path / "veg" / "sweeps" / "small.toml").write_text(SMALL_VEG)
    monkeypatch.setattr(sweeps, "PRESETS", tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    lines = run_sweep("veg", "small", ["--out", str(tmp_path / "out")]).splitlines()
    tests = json.loads((tmp_path / "out" / "05" / "result.json").read_text())["tests"]
    pair, dev, bare = (tests[name]["success"] for name in ("pair", "dev", "pair without feedback"))
    assert lines[0] == "| method | Pair | Dev | Avg. (micro) | Avg. (macro) |" and lines[-1] == "A note."
    row, without = (line.strip("| ").split(" | ") for line in lines[2:4])
    assert row[0] == "0.5, with feedback" and without[0] == "0.5, without feedback" and len(without) == 2
    assert shares(row[1:]) == pytest.approx(
        [100 * value for value in (pair, dev, (pair + 3 * dev) / 4, (pair + dev) / 2)], abs=0.051
    )
    assert shares(without[1:]) == pytest.approx([100 * bare], abs=0.051)


def test_an_average_needs_the_whole_row():
    cells = [Cell("one", "Retail", ()), Cell("one", "Airline", ()), Cell("two", "Retail", ())]
    results = {cell: {"after": summary(0.5, 8, False)} for cell in cells}
    assert table_of(results, Layout(average=True)).splitlines()[2:] == [
        "| one | 50.0% [50.0%, 50.0%] | 50.0% [50.0%, 50.0%] | 50.0% | 50.0% |",
        "| two | 50.0% [50.0%, 50.0%] |  |  |  |",
    ]
