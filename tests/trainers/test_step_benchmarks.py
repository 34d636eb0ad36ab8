"""The benchmarks of a GRPO step: the work is what they say it is, and unequal work is refused. No figures."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from benchmarks import gpu_step, grpo_world
from benchmarks.gpu_step import CONFIGS, PARAMETERS, use
from benchmarks.grpo_step import NAMES, OURS, cheapest, compare_sides, table, write
from benchmarks.grpo_world import CLOSING, WRAPPING, Shape, prompts, run_json, save_model, text
from tests import ROOT
from tests.trainers.forked import ended, run_module, started

SMALL = dict(zip(NAMES, (32, 32, 1, 2, 1), strict=False))


def test_a_cell_plays_and_trains_on_as_many_tokens_as_its_shape_says(tmp_path: Path, monkeypatch: Any) -> None:
    shape = Shape(prompt=30, turns=3, sampled=5, shown=11, target=1.0)
    save_model(SMALL, tmp_path)
    cell = asdict(shape) | {"model": str(tmp_path), "groups": 2, "group_size": 3, "steps": 2}
    (tmp_path / "cell.json").write_text(json.dumps(cell | {"checkpointing": False, "dtype": "float32"}), "utf-8")
    monkeypatch.setattr(grpo_world.subprocess, "run", run_module)
    found = run_json([*OURS, str(tmp_path / "cell.json")])
    row = 30 + 3 * 5 + 2 * (CLOSING + WRAPPING + 11)
    assert found["sampled"] == 6 * 3 * 5
    assert abs(found["tokens"] - 6 * row) <= 6 * 2  # an end token drawn by chance needs no closing one
    assert len(found["steps"]) == 1


def test_prompts_have_the_length_that_is_asked_for_and_differ(tmp_path: Path) -> None:
    save_model(SMALL | {"vocab_size": 300}, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == 300
    found = {tuple(opening(tokenizer, said)) for said in prompts(40)}
    assert {len(ids) for ids in found} == {40}
    assert len(found) == len(prompts(40))
    assert len(text(7)) == 7


def opening(tokenizer: Any, said: str) -> list[int]:
    """The tokens of a prompt."""
    messages = [{"role": "user", "content": said}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)


def cell_of(step: float, tokens: float = 100.0) -> dict[str, Any]:
    """A measurement."""
    times = {"step": step, "steps": [step], "generation": step / 2}
    return times | {"sampled": 50, "tokens": tokens, "peak_mb": 100 * step, "load": 1.0}


def test_ratios_are_those_of_rounds_and_targets_are_told() -> None:
    rounds = [{"ours": cell_of(1.0), "trl": cell_of(2.0)}, {"ours": cell_of(2.0), "trl": cell_of(6.0)}]
    found = compare_sides(rounds, Shape(1, 1, 1, 1, target=2.6))
    assert found["sides"]["trl"]["cpu/ours"] == 2.5  # not 4 / 1.5
    assert found["reached"] == {"cpu": False, "memory": True}
    assert "missed in cpu" in table({"a row": found})


def test_the_peer_is_the_cheapest_configuration_of_those_that_played_on() -> None:
    first = {
        "ours": cell_of(1.0),
        "trl": cell_of(3.0),
        "trl, checkpointing": cell_of(1.9),
        "ours, checkpointing": cell_of(0.5),
    }
    assert cheapest(first) == "trl, checkpointing"
    rounds = [first, *({"ours": cell_of(1.0), cheapest(first): cell_of(step)} for step in (1.7, 2.1))]
    found = compare_sides(rounds, Shape(1, 1, 1, 1, target=2))
    assert found["peer"] == "trl, checkpointing"
    assert found["sides"][found["peer"]]["cpu/ours of rounds"] == [1.9, 1.7, 2.1]
    assert found["sides"]["trl"]["cpu/ours of rounds"] == [3.0]
    assert found["reached"]["cpu"] is False  # 1.9: the dearer configuration would have met it
    assert "trl, checkpointing, over 3 rounds: 1.70 to 2.10 x" in table({"a row": found})


def test_rows_that_were_not_measured_stay(tmp_path: Path) -> None:
    write(tmp_path / "steps.json", {"one": {"at": 1}, "two": {"at": 1}})
    write(tmp_path / "steps.json", {"two": {"at": 2}})
    assert json.loads((tmp_path / "steps.json").read_text("utf-8"))["rows"] == {"one": {"at": 1}, "two": {"at": 2}}


def test_the_page_quotes_the_kept_figures_of_four_turns() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "grpo_step.json").read_text("utf-8"))["rows"]
    page = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    line = next(line for line in page.splitlines() if line.startswith("| GRPO step, four turns"))
    for name in ("1m, 4 turns", "1m, 4 turns, longer prompt", "10m, 4 turns"):
        sides = rows[name]["sides"]
        peer = sides[cheapest(sides, "cpu_seconds_a_step")]
        assert f" {sides['ours']['sampled_tokens_per_cpu_second']:,.0f} " in line, name
        assert f" {peer['sampled_tokens_per_cpu_second']:,.0f} ({peer['cpu/ours']:.2f} x" in line, name
        if spread := peer.get("cpu/ours of rounds"):
            assert f"{min(spread):.2f} to {max(spread):.2f} over {len(spread)} rounds" in line, name


def test_unequal_work_is_no_comparison() -> None:
    with pytest.raises(SystemExit, match="not equal work"):
        compare_sides([{"ours": cell_of(1.0), "trl": cell_of(2.0, tokens=102)}], Shape(1, 1, 1, 1, 1.0))


def test_the_use_of_a_gpu_counts_every_token_four_times_forward() -> None:
    short = use({"tokens": 64.0, "step": 1.0}, "3B", rows=64, peak_tflops=1e-12)
    assert short == pytest.approx(8 * PARAMETERS["3B"] * 64, rel=1e-4)
    long = use({"tokens": 64.0 * 8192, "step": 1.0}, "3B", rows=64, peak_tflops=1e-12) / 8192
    width = CONFIGS["3B"]["hidden_size"]
    assert long / short - 1 == pytest.approx(4 * 36 * width * 4096 / (2 * PARAMETERS["3B"]), rel=1e-3)


def test_without_a_gpu_its_benchmark_refuses_in_one_line(tmp_path: Path) -> None:
    assert ended(started("benchmarks.gpu_step", err=str(tmp_path / "errors"))) == 1
    errors = (tmp_path / "errors").read_text("utf-8")
    assert errors.count("\n") == 1
    assert "no GPU" in errors


def test_its_rehearsal_plays_the_rows_without_one(tmp_path: Path, monkeypatch: Any) -> None:
    only = ["engine", "transformers", "135M, 4 turns"]
    monkeypatch.setattr(gpu_step.subprocess, "run", run_module)
    monkeypatch.setattr(
        "sys.argv", ["gpu_step", "--rehearse", "--profile", "--out", str(tmp_path / "rows"), "--only", *only]
    )
    gpu_step.main()
    rows = json.loads((tmp_path / "rows").read_text("utf-8"))["rows"]
    assert list(rows) == ["135M, engine", "135M, transformers", "135M, 4 turns"]
    assert all(row["sampled"] / row["step"] > 0 for row in rows.values())
    parts = rows["135M, 4 turns"]["parts"]
    assert set(parts) == set(grpo_world.PARTS) and all(seconds > 0 for seconds in parts.values())
    assert parts["sampling: prefixes"] < parts["sampling"]
