"""Sweeps: tables whose cells are runs in processes of their own, finished, killed and failing ones among them."""

from tests.needs import require

require("[train]")

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from agent_envs.base.errors import AgentEnvsError, UsageError
from benchmarks import sweeps
from benchmarks.sweeps import SweepCell, default_out, read_sweep, run_sweep, sweep_names, table_of
from trainers.command_line import load_preset, option_names, parse
from trainers.earl import EARLSettings
from trainers.sft import SFTSettings
from trainers.veg import VEGSettings

TINY = """options = [
    "--env.id", "SortExpA", "--env.arguments", '{"size": 2, "directions": "ascending", "max_actions": 12}',
    "--model.name", "tiny:tiny", "--model.tokenizer-plays", "64", "--log.no-curves",
    "--sampling.max-new-tokens", "30", "--sampling.batch", "16", "--tasks-per-step", "2",
    "--group-size", "2", "--evaluation.every", "0", "--evaluation.test-tasks", "4", "--steps", "1",
]

[[cell]]
row = "ExpA+CPO"
column = "tiny"
options = ["--counterfactual.rule", "paper"]

[[cell]]
row = "ExpA+GRPO"
column = "tiny"
options = []
"""
DONE = subprocess.CompletedProcess([], 2)
FOLDERS = ("expa-cpo-tiny", "expa-grpo-tiny")


def result_of(success, kinds=None):
    after = {"success": success, "interval": [success / 2, 1.0]}
    if kinds:
        after["kinds"] = {name: {"success": value, "interval": [0.0, 1.0]} for name, value in kinds.items()}
    return {"after": after, "steps": 1, "planned_steps": 1}


@pytest.fixture
def presets(tmp_path, monkeypatch):
    """Return where sweeps are looked for, with one of them."""
    folder = tmp_path / "presets"
    (folder / "earl" / "sweeps").mkdir(parents=True)
    (folder / "earl" / "sweeps" / "pair.toml").write_text(TINY)
    monkeypatch.setattr(sweeps, "PRESETS", folder)
    return folder


class Runs:
    """Stands for the processes of the cells: notes their words, and writes what a finished run writes."""

    def __init__(self, codes=()):
        self.words, self.codes = [], list(codes)

    def __call__(self, command, check):
        self.words.append(command[3:])
        code = self.codes.pop(0) if self.codes else 0
        out = command[command.index("--resume" if "--resume" in command else "--out") + 1]
        if "--resume" not in command:
            parse(EARLSettings, command[3:], program="earl")  # writes settings.json
        os.makedirs(os.path.join(out, "checkpoints"), exist_ok=True)
        if code == 0:
            with open(os.path.join(out, "result.json"), "w") as file:
                json.dump(result_of(0.25), file)
        return subprocess.CompletedProcess(command, code)


def test_every_cell_is_run_once_and_becomes_a_table(presets, tmp_path, monkeypatch):
    runs = Runs()
    monkeypatch.setattr(sweeps.subprocess, "run", runs)
    words = ["--out", str(tmp_path / "out"), "--seed", "7"]
    table = run_sweep("earl", "pair", words)
    assert table.splitlines() == [
        "| method | tiny |", "|---|---|", "| ExpA+CPO | 25.0% [12.5%, 100.0%] |", "| ExpA+GRPO | 25.0% [12.5%, 100.0%] |",
    ]  # fmt: skip
    assert (tmp_path / "out" / "table.md").read_text() == table + "\n"
    rows = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [(row["row"], row["column"], row["result"]) for row in rows] == [
        ("ExpA+CPO", "tiny", result_of(0.25)), ("ExpA+GRPO", "tiny", result_of(0.25)),
    ]  # fmt: skip
    assert [run[-1] for run in runs.words] == [str(tmp_path / "out" / folder) for folder in FOLDERS]
    assert all("--seed" in run and run[run.index("--seed") + 1] == "7" for run in runs.words)
    assert "--counterfactual.rule" in runs.words[0] and "--counterfactual.rule" not in runs.words[1]
    assert run_sweep("earl", "pair", words) == table and len(runs.words) == 2  # all is finished
    assert words == ["--out", str(tmp_path / "out"), "--seed", "7"]


def test_help_tells_the_runs_and_makes_none(presets, tmp_path, monkeypatch, capsys):
    runs = Runs()
    monkeypatch.setattr(sweeps.subprocess, "run", runs)
    monkeypatch.setattr(sys, "argv", ["sweeps", "earl", "pair", "--out", str(tmp_path / "out"), "--help"])
    sweeps.main()
    told = capsys.readouterr().out
    assert told.startswith("pair: 2 runs of trainers.earl, all with --env.id SortExpA")
    assert "\n  ExpA+CPO, tiny: --counterfactual.rule paper\n" in told and "--seeds 0,1,2" in told
    assert runs.words == [] and not (tmp_path / "out").exists()


def test_seeds_are_runs_of_their_own_and_the_table_has_their_mean(presets, tmp_path, monkeypatch):
    runs = Runs(codes=[0, 0, 2])
    monkeypatch.setattr(sweeps.subprocess, "run", runs)
    words = ["--seeds", "0,7", "--steps", "3", "--out", str(tmp_path / "out")]
    with pytest.raises(AgentEnvsError, match=r"ExpA\+CPO, tiny, seed 7 ended with exit code 2"):
        run_sweep("earl", "pair", words)
    table = run_sweep("earl", "pair", words)
    folders = [str(tmp_path / "out" / f"{folder}-{seed}") for seed in (0, 7) for folder in FOLDERS]
    assert [run[-1] for run in runs.words] == [*folders[:3], folders[2], folders[3]]  # the third one failed and went on
    assert [run[run.index("--seed") + 1] for run in runs.words if "--seed" in run] == ["0", "0", "7", "7"]
    assert all("--seeds" not in run and ("--steps" in run) != ("--resume" in run) for run in runs.words)
    assert table.splitlines()[0] == "| method | tiny seed 0 | tiny seed 7 | tiny mean of 2 seeds |"
    assert table.splitlines()[3].endswith("| 25.0% [12.5%, 100.0%] | 25.0% (25.0% to 25.0%) |")


def test_the_mean_of_seeds_stands_with_their_extremes():
    cells = [SweepCell("one", "", (), seed) for seed in "012"]
    results = {cell: result_of(value) for cell, value in zip(cells, (0.5, 0.25, 0.75), strict=True)}
    assert table_of(results).splitlines()[0] == "| method | seed 0 | seed 1 | seed 2 | mean of 3 seeds |"
    assert table_of(results).splitlines()[2].endswith("| 75.0% [37.5%, 100.0%] | 50.0% (25.0% to 75.0%) |")


@pytest.mark.parametrize("text", ["one", "0,0", "0,00", "-1", ",", "0.5"])
def test_wrong_seeds_are_one_line(text, tmp_path):
    with pytest.raises(UsageError, match="--seeds .*: give different whole numbers"):
        run_sweep("earl", "tiny-methods", ["--seeds", text, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


def test_a_failing_cell_is_reported_and_the_others_stand(presets, tmp_path, monkeypatch):
    runs = Runs(codes=[0, 2])
    monkeypatch.setattr(sweeps.subprocess, "run", runs)
    words = ["--out", str(tmp_path / "out")]
    with pytest.raises(AgentEnvsError, match=r"ExpA\+GRPO, tiny ended with exit code 2; run the same command"):
        run_sweep("earl", "pair", words)
    assert (tmp_path / "out" / FOLDERS[0] / "result.json").exists() and not (tmp_path / "out" / "table.md").exists()
    run_sweep("earl", "pair", words)
    assert [run[0] for run in runs.words[2:]] == ["--resume"]  # the failed one alone, from where it stood


def test_a_folder_with_other_settings_is_refused_before_anything_runs(presets, tmp_path, monkeypatch):
    runs = Runs(codes=[0, 2])
    monkeypatch.setattr(sweeps.subprocess, "run", runs)
    words = ["--out", str(tmp_path / "out")]
    with pytest.raises(AgentEnvsError, match="ended with exit code 2"):
        run_sweep("earl", "pair", words)  # the first cell is finished, the second has begun
    other = {
        ("--steps", "350"): r"expa-cpo-tiny holds a run of other settings: steps is 1 there and 350 here; name another",
        (
            "--env.arguments",
            '{"size": 3, "directions": "ascending", "max_actions": 12}',
        ): "env.arguments.size is 2 there",
        (
            "--env.arguments",
            "{}",
        ): "directions is 'ascending' there and None here, .*max_actions is 12 there and None here; name",
    }
    for more, message in other.items():
        with pytest.raises(UsageError, match=message) as refused:
            run_sweep("earl", "pair", [*words, *more])
        assert "\n" not in str(refused.value)
    shutil.rmtree(tmp_path / "out" / FOLDERS[0])  # what has only begun is refused, too
    with pytest.raises(UsageError, match=r"expa-grpo-tiny holds .*: group_size is 2 there and 4 here"):
        run_sweep("earl", "pair", [*words, "--group-size", "4"])
    assert len(runs.words) == 2
    same = ["--env.arguments", '{"max_actions":12, "directions":"ascending", "size":2}', "--preset", ""]
    assert "25.0%" in run_sweep("earl", "pair", [*words, *same]) and [run[0] for run in runs.words[3:]] == ["--resume"]


def test_what_may_be_given_anew_reaches_a_run_that_goes_on(tmp_path, monkeypatch):
    common, cells = read_sweep("veg", "epsilon")
    out, begun = tmp_path / "out", []
    for cell in cells:
        parse(VEGSettings, [*common, *cell.options, "--out", str(out / cell.folder)], program="veg")
        (out / cell.folder / "checkpoints").mkdir()
    monkeypatch.setattr(sweeps.subprocess, "run", lambda command, check: begun.append(command) or DONE)
    with pytest.raises(AgentEnvsError, match="exit code 2"):
        run_sweep("veg", "epsilon", ["--out", str(out), "--max-calls", "9"])
    assert begun[0][3:] == ["--resume", str(out / "01"), "--max-calls", "9"]


def test_another_preset_has_another_folder():
    common = ["--preset", "tiny-searchqa"]
    for words, folder in {
        (): "runs/veg-epsilon",
        ("--preset", "tiny-searchqa"): "runs/veg-epsilon",
        ("--steps", "3", "--preset=veg-qwen2.5-3b"): "runs/veg-epsilon-veg-qwen2.5-3b",
        ("--preset", "one", "--preset", "mine/two.toml"): "runs/veg-epsilon-two",
    }.items():
        assert default_out("veg", "epsilon", common, words) == folder


def test_an_unknown_sweep_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sweeps", "earl", "table9", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        sweeps.main()
    told = capsys.readouterr().err
    assert end.value.code == 2 and "no sweep 'table9'; there are table1, table5" in told and "Traceback" not in told


def test_kinds_of_tasks_are_columns():
    cells = [SweepCell("one", "", ()), SweepCell("two", "", ())]
    kinds = {"count": 0.25, "countdown": 0.75}, {"countdown": 0.125}
    results = {cell: result_of(0.5, found) for cell, found in zip(cells, kinds, strict=True)}
    assert table_of(results).splitlines() == [
        "| method | count | countdown | overall |",
        "|---|---|---|---|",
        "| one | 25.0% [0.0%, 100.0%] | 75.0% [0.0%, 100.0%] | 50.0% [25.0%, 100.0%] |",
        "| two |  | 12.5% [0.0%, 100.0%] | 50.0% [25.0%, 100.0%] |",
    ]


@pytest.mark.parametrize("name", sweep_names("earl"))
def test_every_cell_has_a_folder_of_its_own_and_sound_settings(name, tmp_path):
    common, cells = read_sweep("earl", name)
    assert len({cell.folder for cell in cells}) == len({(cell.row, cell.column) for cell in cells}) == len(cells) > 1
    for cell in cells:
        words = [*common, "--seed", "3", *cell.options, "--out", str(tmp_path / cell.folder)]
        settings, out = parse(EARLSettings, words, program="earl")
        assert settings.preset == common[common.index("--preset") + 1] and settings.seed == 3
        text = not settings.env.id.endswith("ExpA")
        assert text == cell.row.startswith(("Prompt", "SFT")), cell
        assert (settings.counterfactual.rule == "paper") == cell.row.endswith("CPO"), cell


def test_another_preset_replaces_that_of_a_sweep(tmp_path):
    words = ["--preset", "earl-qwen2.5-3b-instruct", "--preset", "tiny-arithmetic", "--out", str(tmp_path / "run")]
    settings, _ = parse(EARLSettings, words, program="earl")
    loaded = load_preset(EARLSettings, "earl", "tiny-arithmetic")
    assert settings.preset == "tiny-arithmetic" and settings.env == loaded.env
    settings, _ = parse(
        EARLSettings, [*words[2:4], "--preset=tiny-sort4", "--out", str(tmp_path / "b")], program="earl"
    )
    assert settings.env.id == "SortExpA"


def test_an_option_reaches_the_cells_whose_trainer_has_it_and_no_other(tmp_path, monkeypatch):
    """Table 1 is run by three trainers, of which VEG's alone takes a spend limit and GRPO's no kind of data."""
    begun = []
    monkeypatch.setattr(sweeps.subprocess, "run", Finished(begun))
    words = ["--max-cost", "100", "--log.no-curves", "--sampling.max_new_tokens=16", "--data", "solver", "--steps", "3"]
    run_sweep("veg", "table1", [*words, "--out", str(tmp_path / "out")])
    assert len(begun) == 14
    for module, *options in begun:
        assert ("--max-cost" in options) == (module == "trainers.veg")
        assert (options.count("--data") == 1) == (module == "trainers.sft")
        assert {"--log.no-curves", "--sampling.max_new_tokens=16", "--steps", "3"} <= set(options)


class Finished:
    """Stands for the processes of cells that end at once, with a result."""

    def __init__(self, begun):
        self.begun = begun

    def __call__(self, command, check):
        self.begun.append(command[2:])
        out = command[command.index("--out") + 1]
        os.makedirs(out)
        with open(os.path.join(out, "result.json"), "w") as file:
            json.dump({"tests": {"nq": result_of(0.5)["after"]}}, file)
        return subprocess.CompletedProcess(command, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--max-coast", "100"],
            "--max-coast is an option of no trainer of this sweep (trainers.grpo, trainers.sft, trainers.veg)",
        ),
        (["100"], "100 is an option of no trainer"),
        (["--max-cost", "-1"], "max_cost=-1.0; give a number >= 0"),
        (["--steps", "many"], "invalid"),
    ],
)
def test_what_a_late_cell_would_refuse_is_refused_before_the_first(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweeps.subprocess, "run", lambda *_, **__: pytest.fail("a cell was run"))
    with pytest.raises((UsageError, SystemExit)) as refused:
        run_sweep("veg", "table1", ["--out", str(tmp_path / "out"), *words])
    told = " ".join(f"{refused.value} {capsys.readouterr().err}".split())
    assert message in told and not (tmp_path / "out").exists()


def test_options_are_named_as_the_parser_names_them(tmp_path, capsys):
    for kind, program in ((EARLSettings, "earl"), (VEGSettings, "veg"), (SFTSettings, "sft")):
        with pytest.raises(SystemExit):
            parse(kind, ["--help"], program=program)
        told = set(re.findall(r"--[a-z][\w.-]*", capsys.readouterr().out.partition("options")[2]))
        assert {"--env.id", "--log.no-curves", "--model.lora-rank"} <= option_names(kind)
        assert option_names(kind) <= told


def test_help_of_a_sweep_of_several_trainers_names_them():
    told = run_sweep("veg", "table1", ["--help"])
    assert "any other option holds for all\nruns whose trainer has it" in told
    for program in ("grpo", "sft", "veg"):
        assert f"python -m trainers.{program} --help" in told


@pytest.mark.heavy
def test_a_killed_sweep_goes_on(presets, tmp_path):
    """SIGKILL of the sweep and its run in the second cell; the same command finishes what is left and tells the table."""
    out = tmp_path / "out"
    code = "import sys; from pathlib import Path; from benchmarks import sweeps; sweeps.PRESETS = Path(sys.argv[1]); "
    code += "print(sweeps.run_sweep('earl', 'pair', sys.argv[2:]))"
    command = [sys.executable, "-c", code, str(presets), "--out", str(out), "--log.checkpoint-every", "1"]
    quiet = {"env": {**os.environ, "OMP_NUM_THREADS": "1"}, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True, **quiet)
    limit = time.monotonic() + 240
    while not (out / FOLDERS[1] / "settings.json").exists():
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = (out / FOLDERS[0] / "result.json").stat().st_mtime_ns
    assert not (out / FOLDERS[1] / "result.json").exists()
    again = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **quiet)
    assert again.stdout.endswith((out / "table.md").read_text()) and "| ExpA+GRPO |" in again.stdout
    assert (out / FOLDERS[0] / "result.json").stat().st_mtime_ns == first
