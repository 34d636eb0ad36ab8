"""The commands of ARPO's figures compute on rows made by hand what they say."""

import json
from dataclasses import replace
from statistics import fmean

import pytest

from agent_envs.base.jsonl_log import Journal
from benchmarks import arpo_learn
from tests import ROOT
from trainers.arpo import ARPOSettings
from trainers.arpo_parts import BranchingSettings, BranchNode, chance_of
from trainers.command_line import load_preset, parse
from trainers.grpo import GRPOSettings


def run(seed, success, curve=((100, 0.5), (400, 1.0))):
    side = {"success": success, "interval": [success - 0.1, min(1.0, success + 0.1)]}
    return {
        "seed": seed, "before": side, "after": side, "success_over_tool_calls": [list(row) for row in curve],
        "success_over_sampled_tokens": [list(row) for row in curve],
    }  # fmt: skip


def test_success_over_calls_is_the_area_under_its_curve():
    assert arpo_learn.over_calls(run(1, 0.5)) == pytest.approx((100 * 0.5 + 300 * 0.75) / 400)


def test_matched_forks_by_chance_at_the_mean_of_what_arpos_rule_gave_the_nodes_before():
    """From 16 times .57 on: a node's own entropy never counts for its chance, and each one counts for those behind it."""
    arpo_learn._CHANCES.clear()
    arpo_learn._CHANCES.extend([arpo_learn.CHANCE] * 16)
    rule = load_preset(ARPOSettings, "arpo", arpo_learn.PRESET).branching
    settings = BranchingSettings("callable:benchmarks.arpo_learn:matched")
    chances, given = [arpo_learn.CHANCE] * 16, []
    for number in range(200):
        place = BranchNode("o", 2, 1, "search", 1.0 + number % 7 / 20, 1.0, 4)
        expected = sum(chances[-150:]) / len(chances[-150:])
        given.append(chance_of(place, settings))
        assert given[-1] == pytest.approx(expected)
        chances.append(chance_of(place, rule))
    assert len(set(chances[16:])) == 6 and max(given[60:]) - min(given[60:]) < 0.05  # one rate, where ARPO has six


def test_the_power_is_that_of_the_first_step(tmp_path):
    (tmp_path / "arpo-1").mkdir()
    journal = Journal(tmp_path / "arpo-1" / "decisions-0.jsonl")
    for step, chance in ((0, 0.57), (0, 0.37), (0, 0.77), (0, 0.57), (1, 0.0)):
        journal.append({"step": step, "node": "n", "delta": chance, "chance": chance})
    journal.close()
    told = arpo_learn.power(tmp_path / "arpo-1")
    assert told["nodes"] == 4 and told["mean_chance"] == 0.57 and told["decided_alike"] == 0.9
    assert told["chance_quartiles"] == [0.42, 0.57, 0.72] and told["enough"]


def test_arms_are_compared_in_pairs_of_one_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(arpo_learn, "power", lambda folder: {"nodes": 0})
    found = {"arpo": [run(1, 0.8), run(2, 0.9)], "random": [run(1, 0.7), run(2, 0.6)], "grpo-16": [run(2, 0.5)]}
    tables = arpo_learn.tables_of(found, tmp_path)
    gap = tables["compared"]["entropy against chance, after"]
    assert gap["mean"] == 0.2 and gap["by_seed"] == {"1": 0.1, "2": 0.3}
    low, high = gap["interval"]
    assert gap["smallest_that_could_be_shown"] == pytest.approx((high - low) / 2, abs=1e-4)
    alone = tables["compared"]["sharing, ARPO, after"]
    assert alone["by_seed"] == {"2": 0.4} and alone["interval"] is None
    arpo_learn.draw(found, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_seeds_of_a_file_stay_beside_new_ones_where_the_command_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(arpo_learn, "power", lambda folder: {"nodes": 3})
    (tmp_path / "arpo-2").mkdir()
    kept = {arm: {"command": arpo_learn.command_of(arm, 3000, "tiny-minute")} for arm in ("arpo", "random")}
    kept["arpo"]["seeds"], kept["random"]["seeds"] = [run(1, 0.8), run(2, 0.1)], [run(1, 0.7)]
    earlier = {"arms": kept, "power": {"1": {"nodes": 7}, "2": {"nodes": 8}}}
    found = {"arpo": [run(2, 0.9)], "late": [run(2, 0.6)]}
    together = arpo_learn.with_earlier(found, earlier, 3000, "tiny-minute")
    assert {arm: [row["seed"] for row in rows] for arm, rows in together.items()} == {"arpo": [1, 2], "late": [2]}
    assert together["arpo"][1]["after"]["success"] == 0.9  # what was played now takes the place of what was kept
    tables = arpo_learn.tables_of(together, tmp_path, 3000, "tiny-minute", earlier)
    assert tables["power"] == {"1": {"nodes": 7}, "2": {"nodes": 3}}
    for calls, preset in ((4000, "tiny-minute"), (3000, "tiny-searchqa")):
        assert arpo_learn.with_earlier(found, earlier, calls, preset) == found


@pytest.mark.parametrize("arm", list(arpo_learn.ARMS))
def test_every_arm_is_understood_and_differs_in_its_sampling_alone(arm, tmp_path):
    program = arpo_learn.ARMS[arm][0]
    kind = {"arpo": ARPOSettings, "grpo": GRPOSettings}[program]
    settings, _ = parse(kind, [*arpo_learn.words_of(arm, 123), "--out", str(tmp_path / "run")], program=program)
    base = load_preset(GRPOSettings, "grpo", arpo_learn.PRESET)
    for name in ("env", "model", "sampling", "optim", "tasks_per_step", "loss", "scale", "epochs", "minibatches"):
        assert getattr(settings, name) == getattr(base, name), name
    assert settings.most_tool_calls == 123 and settings.group_size in (8, 11, 16)
    assert settings.evaluation == replace(base.evaluation, every=5)


@pytest.mark.parametrize("arm", arpo_learn.PEERS)
def test_a_peer_of_another_preset_has_the_numbers_of_its_own(arm, tmp_path):
    """The options of a peer are what its preset changes, but for the number of rollouts."""
    presets = (arpo_learn.PRESET, "tiny-minute")
    large, small = (
        parse(GRPOSettings, [*arpo_learn.words_of(arm, 1, preset), "--out", str(tmp_path / preset)], program="grpo")[0]
        for preset in presets
    )
    names = ("eps_high", "drop_flat_groups", "loss", "credit", "turn_baseline", "beta", "kl", "kl_in")
    plain = load_preset(GRPOSettings, "grpo", "tiny-minute")
    assert [getattr(small, name) for name in names] == [getattr(large, name) for name in names]
    assert small.group_size == plain.group_size == 8 and large.group_size == 16
    assert any(getattr(small, name) != getattr(plain, name) for name in names)


def test_the_page_has_the_figures_of_the_files():
    page = (ROOT / "docs" / "arpo.md").read_text(encoding="utf-8")
    bound = json.loads((ROOT / "benchmarks" / "results" / "arpo_bound.json").read_text(encoding="utf-8"))
    for chance, shares in bound["saved"].items():
        cells = " | ".join(f"-{100 * share:.0f} %" for share in shares.values())
        assert f"| chance {chance.replace('0.5', '.5').replace('1.0', '1')} | {cells} |" in page
    for slope in bound["exponent"].values():
        assert f"{slope:.2f}" in page


FILES = sorted(
    path.name for path in (ROOT / "benchmarks" / "results").glob("arpo*.json") if "power" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", FILES)
def test_every_cell_of_a_comparison_is_that_of_its_file(name):
    page = (ROOT / "docs" / "arpo.md").read_text(encoding="utf-8")
    told = json.loads((ROOT / "benchmarks" / "results" / name).read_text(encoding="utf-8"))

    def quartiles(values):
        return ", ".join(f"{value:.2f}" for value in values)

    for seed, row in told["power"].items():
        cells = f"{quartiles(row['delta_quartiles'])} | {quartiles(row['chance_quartiles'])}"
        assert f"| {seed} | {row['nodes']} | {cells} | {100 * row['decided_alike']:.0f} % |" in page
        assert row["enough"] == (row["chance_quartiles"][2] - row["chance_quartiles"][0] >= arpo_learn.ENOUGH)
    for table in told["arms"].values():
        seeds = table["seeds"]
        start = 100 * fmean(run["before"]["success"] for run in seeds)
        line = f"| {start:.1f} | {100 * table['after']['mean']:.1f} | {100 * table['over_calls']['mean']:.1f} |"
        own = next(row for row in page.splitlines() if line in row)
        assert f"| {', '.join(str(run['seed']) for run in seeds)} |" in own or f"| {len(seeds)} |" in own
        steps, tokens, cpu = (fmean(run[each] for run in seeds) for each in ("steps", "sampled_tokens", "cpu_seconds"))
        assert own.endswith(f"| {steps:.0f} | {tokens / 1000:.0f} k | {cpu:.0f} |"), own
        if "tools/saved" in seeds[0]:
            shares = [100 * fmean(run[each] for run in seeds) for each in ("tools/saved", "branching/forked")]
            assert f"| {shares[0]:.0f} % | {shares[1]:.0f} % |" in own, own
    for each, gap in told["compared"].items():
        bounds = gap["interval"] and " [{:+.1f}, {:+.1f}]".format(*(100 * bound for bound in gap["interval"]))
        value = gap["smallest_that_could_be_shown"]
        smallest = "none" if value is None else f"{100 * value:.1f}"
        cells = f"{100 * gap['mean']:+.1f}{bounds or ''} | {len(gap['by_seed'])} | {smallest}"
        assert f"| {each} | {cells} |" in page
