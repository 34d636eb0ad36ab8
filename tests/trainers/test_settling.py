"""A warm start that settles ends where its own held-out success tells, not after a number of steps that seeds were tuned to."""

import pytest
import torch

from agent_envs.base.errors import UsageError
from tests.trainers.earl_runs import SORT, WARM, run
from trainers.imitation.imitating import Settling
from trainers.settings import OptimSettings, SettlingSettings, WarmStartSettings
from trainers.training.optimise import Optimiser


def ended(values, shown=0.6, steps=1000, **how):
    """Return after which step a warm start ends whose measures are these, and how many of them were taken."""
    settings = WarmStartSettings(1, steps=steps, settling=SettlingSettings(**{"every": 100, "cooldown": 50} | how))
    settling, left = Settling(settings, shown), list(values)
    step = 0
    while step < settling.last:
        step += 1
        if settling.due(step):
            settling.add_measure(step, left.pop(0))
    return settling.last, len(values) - len(left)


def test_it_ends_once_measures_bring_nothing_more():
    assert ended([0.2, 0.4, 0.41, 0.40, 0.41, 0.9, 0.9, 0.9, 0.9]) == (550, 5)
    assert ended([0.2, 0.4, 0.41, 0.40, 0.41, 0.9, 0.9, 0.9, 0.9], patience=2) == (450, 4)


def test_it_goes_on_while_each_patience_brings_a_margin():
    rising = [0.1 * place for place in range(1, 10)]
    assert ended(rising, shown=1.0) == (1000, 9)
    assert ended([0.40, 0.41, 0.42, 0.43, 0.44, 0.45, 0.46, 0.47, 0.48], patience=3, margin=0.02) == (1000, 9)
    assert ended([0.40, 0.41, 0.42, 0.42, 0.44, 0.45, 0.46, 0.47, 0.48], patience=3, margin=0.02) == (450, 4)


def test_nothing_settles_before_half_of_what_is_shown_is_reached():
    """A model that cannot copy yet stands still at 0, and three measures without progress say nothing of it."""
    assert ended([0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 0.5]) == (950, 9)
    assert ended([0.29] * 9) == (1000, 9) and ended([0.31] * 9) == (450, 4)
    assert ended([0.0] * 9, shown=0.0) == (1000, 9)


def test_the_most_steps_hold_the_cooldown_and_without_measures_all_are_taken():
    assert ended([0.1] * 9, cooldown=250) == (1000, 7)
    assert ended([], every=0) == (1000, 0)


def test_the_rate_falls_to_nothing_in_a_line():
    model = torch.nn.Linear(2, 2)
    optimiser = Optimiser(model, OptimSettings(learning_rate=1.0, schedule="constant"), 1000)
    rates = []
    for step in range(8):
        if step == 3:
            optimiser.cool_down(4)
        rates.append(optimiser.learning_rate)
        optimiser.steps += 1
    assert rates == pytest.approx([1, 1, 1, 1, 0.75, 0.5, 0.25, 0])


@pytest.mark.parametrize(
    "how, said",
    [
        ({"optim": OptimSettings(schedule="cosine")}, "the schedule is constant"),
        ({"steps": 10}, "settling.cooldown counts in"),
    ],
)
def test_settings_that_contradict_it_are_refused(how, said):
    with pytest.raises(UsageError, match=said):
        WarmStartSettings(5, **{"steps": 100, "settling": SettlingSettings(every=10, cooldown=20)} | how)
    with pytest.raises(UsageError, match="margin=1.0: give a number >= 0, below 1$"):
        SettlingSettings(margin=1.0)


def test_a_run_tells_how_its_warm_start_went(tmp_path):
    words = [
        "--warm-start.settling.every",
        "1",
        "--warm-start.settling.cooldown",
        "1",
        "--warm-start.settling.tasks",
        "2",
    ]
    told = run(tmp_path, *SORT, *WARM, *words, steps=1)["warm_start"]
    assert told["steps"] == 4 and told["demonstrations"] == 1.0  # four at the most: two swaps are not learnt in three
    assert [step for step, _ in told["measures"]] == [1, 2, 3][: len(told["measures"])]
