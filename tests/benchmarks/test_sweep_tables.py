"""Tables of sweeps as the papers print them: sets, averages, what is left out; from made-up results, and from a real run."""

from tests.needs import require

require("[train]")

import json
import os
from pathlib import Path

import pytest

from benchmarks import sweeps
from benchmarks.sweeps import MACRO, MICRO, Layout, SweepCell, read_layout, read_sweep, run_sweep, table_of
from tests.benchmarks.test_sweeps import result_of
from tests.trainers.forked import run_module
from trainers.command_line import parse
from trainers.grpo import GRPOSettings
from trainers.sft import SFTSettings
from trainers.veg import TESTS, VEGSettings


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


def domains(success, tasks, fed):
    """Return what a run on three domains tells: each, and all pooled."""
    kinds = {f"Tau2{name}": summary(success * place, tasks * place, fed) for place, name in enumerate(DOMAINS, 1)}
    right = sum(row["success"] * row["tasks"] for row in kinds.values())
    return {**summary(right / (6 * tasks), 6 * tasks, fed), "kinds": kinds}


DOMAINS = ("Airline", "Retail", "Telecom")
TAU2 = {
    "table2": [
        f"{model}, {method}" for model in ("Qwen3-4B-Instruct", "Qwen3-4B-Thinking") for method in ("GRPO", "VEG")
    ],
    "table4": ["None (GRPO)", "Qwen3-32B", "Claude Sonnet 4"],
}


@pytest.mark.parametrize("name", TAU2)
def test_tables_2_and_4_have_averages_over_domains(name, tmp_path):
    common, cells = read_sweep("veg", name)
    for number, cell in enumerate(cells, 1):
        _, folder = parse(VEGSettings, [*common, *cell.options, "--out", str(tmp_path / cell.folder)], program="veg")
        ways = {
            "after_with_feedback": domains(number / 20, 10, True),
            "after_without": domains(number / 20 - 0.02, 10, False),
        }
        assert list(ways) == list(TESTS.values())
        chosen = {"split": "pooled_train80", "step": 10 * number}
        (folder / "result.json").write_text(json.dumps({**result_of(0.5), **ways, "chosen": chosen}))
    text = run_sweep("veg", name, ["--out", str(tmp_path)])
    head, _, *rows = (
        [part.strip() for part in line.strip("|").split("|")] for line in text.split("\n\n")[0].splitlines()
    )
    assert head == ["method", *(f"Tau2{domain}" for domain in DOMAINS), "Avg. (micro)", "Avg. (macro)"]
    assert [row[0] for row in rows] == [f"{row}, {way}" for row in TAU2[name] for way in ("with feedback", "without")]
    for number, row in enumerate(rows):
        rate = 5 * (number // 2 + 1) - (
            2 if row[0].endswith("without") else 0
        )  # per cent of the first domain, of six parts one
        micro = rate * (1 + 4 + 9) / 6
        assert shares(row[1:]) == pytest.approx([rate, 2 * rate, 3 * rate, micro, 2 * rate], abs=0.051)
        assert "[" in row[4] and "[" not in row[5]  # what is pooled has an interval
    for number, row in enumerate(TAU2[name], 1):
        assert f"\n{row}: the weights of step {10 * number}, the best on the split pooled_train80" in text
    told = run_sweep("veg", name, ["--help"])
    assert ("Validator" in told) == (name == "table2")


@pytest.mark.parametrize("name", TAU2)
def test_tables_2_and_4_pool_the_domains_and_name_a_judge(name, tmp_path):
    common, cells = read_sweep("veg", name)
    for cell in cells:
        words = [*common, *cell.options, "--out", str(tmp_path / cell.folder)]
        env = parse(VEGSettings, words, program="veg")[0].env
        assert list(json.loads(env.mixture)) == ["Tau2Airline", "Tau2Retail", "Tau2Telecom"]
        assert json.loads(env.arguments)["judge"].startswith("anthropic:")
        assert (env.train_split, env.eval_split, env.test_split) == (
            "pooled_train80",
            "pooled_train80",
            "pooled_test20",
        )
    for note in read_layout("veg", name).notes:
        assert "agent-envs eval Tau2Retail" not in note or "--arg judge=anthropic:" in note


TRAINED = {
    "SFT": ("sft", "direct"), "R1-base": ("grpo", 0), "R1-instruct": ("grpo", 0), "Rejection Sampling": ("sft", "rejection"),
    "GRPO": ("grpo", 4), "GRPO (Our repl.)": ("grpo", 1), "Ours": ("veg", 1),
}  # fmt: skip
KINDS = {"sft": SFTSettings, "grpo": GRPOSettings, "veg": VEGSettings}
SETS = ["nq", "triviaqa", "popqa", "hotpotqa", "2wiki", "musique", "bamboogle"]


def test_table_1_has_every_row_that_is_trained(tmp_path):
    """Seven runs a size, each by its own trainer and settings, tested on the seven sets; VEG also without feedback."""
    common, cells = read_sweep("veg", "table1")
    rows = {f"Qwen2.5-{size}-Instruct, {method}": method for size in ("3B", "7B") for method in TRAINED}
    assert [cell.row for cell in cells] == list(rows) and len({cell.folder for cell in cells}) == 14
    for cell in cells:
        program, how = TRAINED[rows[cell.row]]
        words = [*common, *cell.options, "--out", str(tmp_path / cell.folder)]
        settings, _ = parse(KINDS[cell.program], words, program=cell.program)
        model = cell.row.split(",")[0].removesuffix("-Instruct" if rows[cell.row] == "R1-base" else "")
        assert cell.program == program and settings.model.name == f"Qwen/{model}"
        arguments, tests = json.loads(settings.env.arguments), json.loads(settings.env.tests)
        assert arguments["tasks"] == "nq+hotpotqa" and not settings.evaluation.keep_best
        assert sorted(name for name in tests if "without" not in name) == sorted(SETS)
        assert (len(tests) == 14) == (program == "veg")
        assert settings.data == how if program == "sft" else arguments["max_searches"] == how
        assert arguments["max_generations"] == arguments["max_searches"] + 1


def test_table_1_is_printed_with_both_averages(tmp_path):
    common, cells = read_sweep("veg", "table1")
    for number, cell in enumerate(cells, 1):
        words = [*common, *cell.options, "--out", str(tmp_path / cell.folder)]
        settings, folder = parse(KINDS[cell.program], words, program=cell.program)
        tests = {
            test: summary(number / 20, 2048, cell.program == "veg" and "without" not in test)
            for test in json.loads(settings.env.tests)
        }
        (folder / "result.json").write_text(json.dumps({**result_of(0.5), "tests": tests}))
    text = run_sweep("veg", "table1", ["--out", str(tmp_path)])
    table = text.split("\n\n")[0].splitlines()
    assert table[0].endswith("| Avg. (micro) | Avg. (macro) |") and len(table) == 2 + 2 * 8
    names = [line.split("|")[1].strip() for line in table[2:]]
    assert names[6:8] == ["Qwen2.5-3B-Instruct, Ours, with feedback", "Qwen2.5-3B-Instruct, Ours, without feedback"]
    assert "(trainers.sft): --preset sft-direct" in run_sweep("veg", "table1", ["--help"])


def published(table):
    path = Path(os.environ["AGENT_ENVS_DATA"]) / "published" / "published.json"
    return next(row for row in json.loads(path.read_text())["tables"] if row["id"] == table)


@pytest.mark.data
def test_table_1_has_the_rows_and_columns_of_the_published_one():
    table = published("veg_t1")
    trained = {
        f"{row['base_model']}, {row['method']}" for row in table["rows"] if row["group"].startswith(("trained", "VEG"))
    }
    assert {cell.row for cell in read_sweep("veg", "table1")[1]} == trained
    layout = read_layout("veg", "table1")
    assert [column.lower() for column, _ in layout.sets.values()] == [name.lower() for name in table["columns"][:-1]]
    assert {column.lower(): count for column, count in layout.sets.values()} == {
        name.lower(): count for name, count in table["average"]["weights"].items()
    }
    left_out = {row["method"] for row in table["rows"]} - {row.split(", ")[1] for row in trained}
    assert all(method in layout.notes[0] for method in left_out)
    assert all(f"{row['printed']:.3f}"[1:] in layout.notes[1] for row in table["average"]["mismatch"])


@pytest.mark.data
def test_tables_2_and_4_have_the_published_rows_and_say_where_an_average_does_not_follow():
    table = published("veg_t2")
    trained = {f"{row['base_model']}, {row['method']}" for row in table["rows"] if row["group"] in ("trained", "VEG")}
    assert {row.replace("VEG", "Ours") for row in TAU2["table2"]} == trained
    notes = " ".join(read_layout("veg", "table2").notes)
    for row in table["average"]["mismatch"]:
        solved = {row: value for row, value in next(one for one in table["rows"] if one["base_model"] in row["row"]
                                                    and one["method"] == "Ours")["values"].items()}  # fmt: skip
        counts = [round(solved[name] * size) for name, size in (("Retail", 28), ("Airline", 7), ("Telecom", 21))]
        assert f"({'+'.join(map(str, counts))})/56 = {sum(counts) / 56:.3f}".replace("0.", ".") in notes
        assert f"{row['printed']:.3f}"[1:] in notes
    assert [row["method"] for row in published("veg_t4")["rows"]] == TAU2["table4"]


@pytest.mark.data
def test_table_3_has_the_published_rows_and_says_where_an_average_does_not_follow():
    table = published("veg_t3")
    rows = [f"{row['base_model'][8:10]}, {row['method'].split()[0]}" for row in table["rows"]]
    assert [cell.row for cell in read_sweep("veg", "table3")[1]] == rows
    (odd,) = table["average"]["mismatch"]
    note = read_layout("veg", "table3").notes[0]
    assert f"{odd['weighted']:.4f}"[1:] in note and f"{odd['printed']:.3f}"[1:] in note


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


@pytest.mark.heavy
def test_a_small_sweep_of_veg_fills_its_sets(tmp_path, monkeypatch):
    """A real run, in a process of its own; the heavy test of a killed sweep starts one as users do.

    Where a set was not tested without feedback its column is empty, and the average.
    """
    (tmp_path / "veg" / "sweeps").mkdir(parents=True)
    (tmp_path / "veg" / "sweeps" / "small.toml").write_text(SMALL_VEG)
    monkeypatch.setattr(sweeps, "PRESETS", tmp_path)
    monkeypatch.setattr(sweeps.subprocess, "run", run_module)
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


def test_a_domain_without_a_result_has_no_figure_and_no_average():
    """Neither of its row, nor of its seeds; the other row stands."""
    lost = domains(0.1, 10, True) | {"success": None, "interval": None}
    lost["kinds"]["Tau2Retail"] = {"success": None, "interval": None, "tasks": 0, "faults": 20}
    cells = [SweepCell("one", "", (), seed) for seed in "01"]
    results = dict(zip(cells, ({"after": lost}, {"after": domains(0.2, 10, True)}), strict=True))
    head, _, row = (line.strip("| ").split(" | ") for line in table_of(results, Layout(average=True)).splitlines())
    for name in ("Tau2Retail", MICRO):
        assert row[head.index(f"{name} seed 0")] == "" and f"{name} mean of 2 seeds" not in head
        assert shares([row[head.index(f"{name} seed 1")]])[0] > 0
    assert f"{MACRO} seed 0" not in head and f"{MACRO} seed 1" in head
    assert "Tau2Airline mean of 2 seeds" in head
    alone = table_of({SweepCell("one", "", ()): {"after": lost}}, Layout(average=True)).splitlines()
    assert alone[0] == "| method | Tau2Airline | Tau2Retail | Tau2Telecom | Avg. (micro) |" and alone[2].count("%") == 6


def test_an_average_needs_the_whole_row():
    cells = [SweepCell("one", "Retail", ()), SweepCell("one", "Airline", ()), SweepCell("two", "Retail", ())]
    results = {cell: {"after": summary(0.5, 8, False)} for cell in cells}
    assert table_of(results, Layout(average=True)).splitlines()[2:] == [
        "| one | 50.0% [50.0%, 50.0%] | 50.0% [50.0%, 50.0%] | 50.0% | 50.0% |",
        "| two | 50.0% [50.0%, 50.0%] |  |  |  |",
    ]
