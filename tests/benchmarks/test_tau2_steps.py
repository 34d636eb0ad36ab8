"""The steps of tau2 are counted as they are played, and the kept figures say that both checkouts played the same."""

import json
from pathlib import Path

import pytest

from benchmarks import tau2_steps


def test_a_round_counts_the_steps_that_were_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tau2_steps, "EPISODES", 2)
    one, again = tau2_steps.measure("telecom"), tau2_steps.measure("telecom")
    assert one["steps"] > 2 and one["steps_per_cpu_second"] > 0
    assert (one["steps"], one["played"]) == (again["steps"], again["played"])


def test_the_kept_figures_are_of_equal_play() -> None:
    kept = json.loads((Path(tau2_steps.__file__).parent / "results/tau2_steps.json").read_text(encoding="utf-8"))
    assert all(kept["domains"][domain]["played_the_same"] for domain in tau2_steps.DOMAINS)
