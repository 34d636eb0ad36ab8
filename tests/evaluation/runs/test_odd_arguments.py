"""Arguments that an environment's constructor stumbles over: a run's file may name any, and pages are made all the same."""

from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs import UsageError, register_companions
from agent_envs.evaluation.html.replayed_view import ReplayReader
from agent_envs.evaluation.runs.measures import Measures, unplayed_numbers
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, entry_env
from tests.toy import Guess, sampler, solver

FAULTS = {
    "attribute": lambda: None.name,
    "type": lambda: dict(3),
    "value": lambda: dict([["a"]]),
    "index": lambda: [][0],
    "number": lambda: 1 / 0,
    "text": lambda: "\ud800".encode(),
}


class Brittle(Guess):
    def __init__(self, *, fault: str = "") -> None:
        super().__init__()
        if fault:
            FAULTS[fault]()


register_companions(Brittle, solver=solver, sampler=sampler, labels=lambda task: {"kind": "toy"})
gym.register(id="toy/Brittle-v0", entry_point="tests.evaluation.runs.test_odd_arguments:Brittle")


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_constructor_raises_is_one_error_and_readers_go_on(fault):
    entry = adhoc_suite(Choice("toy/Brittle-v0", limit=1)).entries[0].model_copy(update={"arguments": {"fault": fault}})
    with pytest.raises(UsageError, match=r"^toy/Brittle-v0"):
        entry_env(entry)
    measures = Measures()
    task, _, cluster = entry.tasks[0]
    numbers = unplayed_numbers(entry, task, cluster, 0)
    assert measures.annotate(entry, numbers) == numbers
    with ReplayReader(Path("none")) as reader:
        assert reader.task(entry, task) is None
    for notes in (measures.notes, reader.notes):
        assert "cannot be made here (UsageError)" in str(notes)
