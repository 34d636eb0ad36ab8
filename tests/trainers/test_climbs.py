"""The positive control of CPO is told on both axes: steps, as the paper's Figure 6, and sampled tokens."""

import contextlib

from agent_envs.base.jsonl_log import Journal
from benchmarks import earl_learn

ROWS = [
    {"step": float(step), "sampled_tokens": 500.0 * step, "success": min(1.0, 0.1 * (step - 3))}
    for step in range(1, 13)
]


def test_where_a_goal_is_reached_is_told_in_steps_and_tokens():
    """Success of steps 4 to 8 is 0.1 to 0.5, whose mean is 0.3."""
    rows = [{**row, "success": max(0.0, row["success"])} for row in ROWS]
    told = earl_learn.climb(rows)
    assert told["reached"] == {"success": 0.3, "step": 8, "sampled_tokens": 4000}
    assert told["curve"][7] == [8, 4000, 0.5] and len(told["curve"]) == 12
    assert earl_learn.climb(rows[:4])["reached"] == {"success": 0.3, "step": None, "sampled_tokens": None}


def test_both_rules_are_run_and_drawn(tmp_path):
    known = earl_learn.experiments()
    assert {known[f"held-down-{rule}"].preset for rule in ("paper", "off")} == {"tiny-held-down"}
    for rule in ("paper", "off"):
        folder = tmp_path / f"held-down-{rule}-7"
        folder.mkdir()
        with contextlib.closing(Journal(folder / "metrics.jsonl")) as journal:
            for row in ROWS:
                journal.append({"step": int(row["step"]), "metrics": row})
    found = {f"held-down-{rule}": [tmp_path / f"held-down-{rule}-7"] for rule in ("paper", "off")}
    earl_learn.draw_climbs(found, tmp_path / "climbs.png")
    assert (tmp_path / "climbs.png").stat().st_size > 5000
