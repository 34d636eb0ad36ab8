"""What the benchmarks of VEG and of free turns compute from finished runs."""

import math
from dataclasses import replace

import pytest

from agent_envs.chat import ChatRequest
from agent_envs.messages import Message
from agent_envs.rollout import EpisodeResult
from agent_envs.trajectory import Header, Trajectory, Turn
from benchmarks import legal_learn, veg_chart, veg_learn
from benchmarks.veg_failures import end_of, ends
from benchmarks.veg_price import CHARACTERS, REPLY, Counting


def runs(*values):
    return [{"after": {"success": value}} for value in values]


def test_the_difference_of_seeds_has_students_interval():
    """Gaps 0.1, 0.2, 0.3: mean 0.2, standard deviation 0.1, half-width 4.303 x 0.1 / sqrt(3)."""
    told = veg_learn.compared(runs(0.5, 0.5, 0.5), runs(0.6, 0.7, 0.8), "after")
    half = 4.303 * 0.1 / math.sqrt(3)
    assert told["by_seed"] == [0.1, 0.2, 0.3] and told["mean"] == 0.2
    assert told["interval"] == pytest.approx([0.2 - half, 0.2 + half], abs=1e-4)
    assert "interval" not in veg_learn.compared(runs(0.5), runs(0.75), "after")


def test_curves_of_seeds_are_averaged_where_all_of_them_are():
    one, other = [[0.0, 0.0], [10.0, 1.0]], [[5.0, 0.5], [20.0, 0.5]]
    mean = veg_chart.mean_of([one, other], points=3)
    assert mean == [(5.0, 0.5), (7.5, 0.625), (10.0, 0.75)]
    assert veg_chart.mean_of([]) == []
    assert veg_chart.smooth([[float(x), float(x)] for x in range(10)]) == [(float(x), float(x)) for x in range(10)]


def test_a_run_without_wrappers_has_one_curve_for_both_panels():
    bare = {"curves": {"eval/success": [[1.0, 0.5]], "eval_bare/success": []}}
    within = {"curves": {"eval/success": [[1.0, 0.5]], "eval_bare/success": [[1.0, 0.25]]}}
    assert veg_chart.curve_of(bare, "eval_bare/success") == [[1.0, 0.5]]
    assert veg_chart.curve_of(within, "eval_bare/success") == [[1.0, 0.25]]


def test_pictures_are_drawn(tmp_path):
    curves = {name: [[1.0, 0.5], [2.0, 0.75]] for name in ("eval/success", "eval_bare/success", "entropy")}
    veg_chart.draw({"grpo": [{"curves": curves}] * 2, "veg": [{"curves": curves}]}, tmp_path / "veg.png", "title")
    assert (tmp_path / "veg.png").read_bytes().startswith(b"\x89PNG")


def test_a_stand_in_counts_what_a_paid_model_would_be_sent():
    reply = Counting().complete(
        ChatRequest([{"role": "system", "content": "x" * 40}, {"role": "user", "content": "y" * 9}])
    )
    assert reply.usage == {"input": 49 // CHARACTERS, "output": len(REPLY) // CHARACTERS, "calls": 1}


def test_an_end_is_told_by_what_the_environment_showed():
    shown = (Message("user", "Doc A", "tool"), Message("user", "Gold", "feedback"))
    turn = Turn(1, "", "<answer>B</answer>", None, shown)
    head = Header("agent_envs/SearchQA-v0", "", "t", "test", "", 0, "k")
    result = EpisodeResult(Trajectory(head, (), (turn,)), "terminated")
    assert end_of(result, ("Gold",)) == "never shown" and end_of(result, ("Doc A",)) == "shown, not answered"
    won = replace(result, trajectory=replace(result.trajectory, success=True))
    assert ends([result, won], [("Gold",), ("Gold",)]) == {"never shown": 0.5, "solved": 0.5}


def test_experiments_begin_with_grpo_in_each_group():
    firsts = {}
    for experiment in veg_learn.EXPERIMENTS:
        firsts.setdefault(experiment.group, experiment)
    assert all("none" in experiment.options for experiment in firsts.values()) and len(firsts) == 3
    assert set(legal_learn.PRESETS.values()) == {"tiny-legal", "tiny-legal-4"} and legal_learn.LIMITS[0] == 0
