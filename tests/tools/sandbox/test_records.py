from dataclasses import replace

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.tools.sandbox import (
    ExecResult,
    Limits,
    SandboxCell,
    SandboxSpec,
    begin_record,
    close_sandboxes,
    record_of,
    recorded_cell,
    restore_session,
    run_cell,
    sandbox_version,
)
from tests.fresh_process import printed

SPEC = SandboxSpec(seed=5, limits=Limits(cpu_seconds=0.3, code_characters=2_000, output_bytes=500))
MEMORY = {"monty": 256, "bwrap": 1_024}
OWN = Limits(cpu_seconds=0.5, output_bytes=40)
# Each with its limits, and whether it leaves a mark on the record.
CELLS = (
    ("x = 1", None, True),
    ("x += 1; x", None, True),
    ("", None, True),
    ("print('a\\nb')", None, True),
    ("'\u00e9\u4e2d\U0001f600'", None, True),
    ("def f(n):\n    return n * x\nf(4)", None, True),
    ("1 / 0", None, True),
    ("unknown", None, True),
    ("x = (", None, True),
    ("import os\nos.listdir('/')", None, True),
    ("print('z' * 499)", OWN, False),
    ("'z' * 100", OWN, True),
    ("x", Limits(cpu_seconds=0.3, code_characters=2_000, output_bytes=500), True),
    ("print('z' * 600)", None, False),
    ("while True: pass", None, False),
    ("y = [0] * 10**9", None, False),
    ("x = 1\0", None, False),
    ("'\ud800'", None, False),
    ("#" + "x" * 2_000, None, False),
    ("import random\nx = random.random(); x", OWN, True),
)


def told(result):
    """Return a result as a recording gives it back."""
    return ExecResult.from_json(result.to_json())


def test_records_are_the_same_whether_a_cell_runs_or_its_result_is_recorded(backend):
    record = ran = begin_record(SandboxSpec(backend=backend, seed=SPEC.seed, limits=SPEC.limits))
    bare = record_of(SandboxSpec(backend=backend, seed=SPEC.seed, limits=SPEC.limits))
    assert len(CELLS) == 20
    for code, limits, lasts in CELLS:
        result, after = run_cell(ran, code, limits)
        assert (after != ran) is lasts, code
        assert recorded_cell(record, code, told(result), limits) == after, code
        bare = recorded_cell(bare, code, told(result), limits)
        assert bare.cells == after.cells
        record = ran = after
    assert [cell.limits for cell in record.cells if cell.limits] == [replace(OWN, memory_mb=MEMORY[backend])] * 2


def test_a_record_without_a_version_can_be_run_from_and_restored(backend):
    spec = SandboxSpec(backend=backend)
    result, after = run_cell(record_of(spec), "x = [3]")
    assert after.spec.version == sandbox_version(backend)
    bare = record_of(spec, after.cells)
    assert bare.spec.version == "" and bare != after
    results = [run_cell(bare, "x.append(len(x)); x") for _ in range(2)]
    close_sandboxes()
    results.append(run_cell(decode_state(encode_state(bare)), "x.append(len(x)); x"))
    assert [result.value for result, _ in results] == ["[3, 1]"] * 3
    assert len({after.sha256 for _, after in results}) == 1
    with restore_session(bare) as session:
        assert session.run("x").value == "[3]"


def test_a_filled_record_is_the_one_that_a_session_begins_with():
    assert record_of(SandboxSpec(version=sandbox_version("monty"))) == begin_record()
    assert record_of(SandboxSpec(limits=Limits(memory_mb=99))).spec.limits.memory_mb == 99


def test_going_on_without_a_version_makes_no_session_anew(monkeypatch):
    _, after = run_cell(record_of(SandboxSpec(seed=77)), "n = 0")
    made = []
    monkeypatch.setattr("agent_envs.tools.sandbox._SESSION_CACHE._restore", made.append)
    assert run_cell(record_of(SandboxSpec(seed=77), after.cells), "n")[0].value == "0"
    assert made == []


def test_a_result_that_was_told_is_believed_and_shows_as_drift_when_the_cell_runs():
    record = recorded_cell(record_of(SandboxSpec()), "1 + 1", ExecResult("ok", value="3"))
    with restore_session(record) as session:
        assert session.run("2").value == "2"
        assert session.drift == 1


@pytest.mark.parametrize("status", ["timeout", "memory", "output_limit", "killed"])
def test_a_cell_that_leaves_nothing_leaves_the_record(status):
    record = record_of(SandboxSpec(), (SandboxCell("x = 1", None, "0" * 64),))
    assert recorded_cell(record, "x = 2", ExecResult(status)) is record


def test_misuse_is_refused():
    with pytest.raises(UsageError, match="the sandboxes are monty, bwrap"):
        record_of(SandboxSpec(backend="docker"))
    with pytest.raises(UsageError, match="whole number"):
        record_of(SandboxSpec(seed=1.5))
    with pytest.raises(UsageError, match="memory_mb=64 and recursion=1000 belong to the session"):
        recorded_cell(record_of(SandboxSpec()), "1", ExecResult("ok"), Limits(memory_mb=64))
    damaged = record_of(SandboxSpec(), (SandboxCell("x = 1", None, "0" * 64),))
    object.__setattr__(damaged, "sha256", "0" * 64)
    with pytest.raises(UsageError, match="damaged"):
        run_cell(damaged, "x")


ALONE = """
import shutil, sys
sys.modules["pydantic_monty"] = sys.modules["sympy"] = None
shutil.which = lambda name: None
from agent_envs.base.errors import AgentEnvsError
from agent_envs.tools.sandbox import BACKENDS, ExecResult, SandboxSpec, record_of, recorded_cell, run_cell
for backend in BACKENDS:
    record = recorded_cell(record_of(SandboxSpec(backend=backend)), "x = 2", ExecResult("ok"))
    assert [cell.code for cell in record.cells] == ["x = 2"]
    try:
        run_cell(record, "x")
    except AgentEnvsError as error:
        print(backend, type(error).__name__)
"""


def test_no_backend_is_needed_until_a_cell_runs():
    assert printed(ALONE).split() == ["monty", "MissingExtra", "bwrap", "UsageError"]
