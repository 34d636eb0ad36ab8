"""The abuse matrix: 34 probes on each backend; after each the same session still answers (the 35th)."""

import pytest

from agent_envs.tools.sandbox import close_sandboxes, open_sandbox
from benchmarks.sandbox_probes import PROBES, attack, spec, surroundings
from tests.tools.sandbox.backends import BWRAP, MONTY


@pytest.fixture(scope="module")
def facts():
    close_sandboxes()  # workers are to start with the secret in our environment
    with surroundings() as found:
        yield found


@pytest.fixture(scope="module", params=[MONTY, BWRAP])
def session(request, facts):
    with open_sandbox(spec(request.param)) as opened:
        yield opened


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_probe_is_contained_and_the_next_call_answers(session, probe, facts):
    result, wrong = attack(session, probe, facts)
    assert not wrong, (wrong, result)


def test_there_are_34_probes():
    assert len(PROBES) == len({probe.name for probe in PROBES}) == 34
