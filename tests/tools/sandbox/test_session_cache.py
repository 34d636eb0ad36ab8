import gymnasium as gym
import pytest

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.tools.sandbox import (
    ExecResult,
    Limits,
    SandboxSpec,
    SessionSnapshot,
    begin_record,
    close_sandboxes,
    open_sandbox,
    restore_session,
    run_cell,
    sandbox_version,
)
from agent_envs.tools.sandbox.monty import MontyBackend
from agent_envs.tools.sandbox.sessions import SessionCache

CELLS = ("import random\nx = [random.random()]", "x.append(len(x)); x", "1 / 0", "x.append(random.randint(0, 99)); x")


def values(record, cells):
    results = []
    for cell in cells:
        result, record = run_cell(record, cell)
        results.append(result)
    return results, record


def test_a_record_goes_in_and_the_next_comes_out(backend):
    record = begin_record(SandboxSpec(backend=backend, seed=3))
    assert record.cells == () and record.spec.version == sandbox_version(backend)
    results, after = values(record, CELLS)
    with open_sandbox(SandboxSpec(backend=backend, seed=3)) as session:
        assert results == [session.run(cell) for cell in CELLS]
        assert after == session.snapshot()
    assert record.cells == ()


def test_every_record_can_be_gone_on_from_in_any_order(backend):
    record = begin_record(SandboxSpec(backend=backend))
    records, results = [record], []
    for cell in CELLS:
        result, record = run_cell(record, cell)
        records.append(record)
        results.append(result)
    for number in (2, 0, 3, 1, 0, 2, 3):
        if number == 3:
            close_sandboxes()
        assert run_cell(records[number], CELLS[number]) == (results[number], records[number + 1])
        other, _ = run_cell(decode_state(encode_state(records[number])), "x = 'elsewhere'; x")
        assert other.value == "'elsewhere'"


def test_a_cell_past_a_limit_leaves_the_record(backend):
    record = begin_record(SandboxSpec(backend=backend, limits=Limits(cpu_seconds=0.2)))
    _, record = run_cell(record, "x = 1")
    result, after = run_cell(record, "x = 2\nwhile True: pass")
    assert (result.status, after) == ("timeout", record)
    assert run_cell(record, "x")[0].value == "1"


def test_a_fault_leaves_the_record_good(monkeypatch):
    def fails(backend, spec, saved):
        raise EnvFault("sandbox monty: no worker")

    _, record = run_cell(begin_record(), "x = 7")
    close_sandboxes()
    with monkeypatch.context() as patch:
        patch.setattr(MontyBackend, "open", fails)
        for _ in range(2):
            with pytest.raises(EnvFault, match="no worker"):
                run_cell(record, "6 * x")
    assert run_cell(record, "6 * x")[0].value == "42"


def test_a_damaged_record_is_refused():
    record = begin_record()
    with pytest.raises(UsageError, match="damaged"):
        run_cell(SessionSnapshot(record.spec, record.cells, "0" * 64), "1")
    with pytest.raises(UsageError, match="the sandboxes are"):
        begin_record(SandboxSpec(backend="none"))


def test_the_longest_unused_sessions_are_closed():
    made = []

    def restore(record):
        made.append(restore_session(record))
        return made[-1]

    shelf = SessionCache(restore, most=2)
    record = begin_record()
    for number in range(4):
        shelf.run(record, f"x = {number}")
    assert [session._closed for session in made] == [True, True, False, False]
    _, last = shelf.run(record, "x = 3")
    assert len(made) == 5
    assert shelf.run(last, "x")[0].value == "3"
    assert len(made) == 5, "it was on the shelf"
    shelf.close()
    assert all(session._closed for session in made)
    assert shelf.run(last, "x")[0].value == "3"
    shelf.close()


class Coder(gym.Env):
    """The least environment with a sandbox: made in one process, stepped in another."""

    observation_space, action_space = gym.spaces.Text(100, min_length=0), gym.spaces.Text(100)

    def reset(self, *, seed=None, options=None):
        self.record = begin_record(SandboxSpec(seed=seed or 0))
        _, self.record = run_cell(self.record, "n = 0")
        return "", {}

    def step(self, action):
        result, self.record = run_cell(self.record, action)
        return result.value, 0.0, False, False, {}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_asynchronous_vector_environments_work_after_use_in_the_parent():
    assert run_cell(begin_record(), "1")[0] == ExecResult("ok", value="1")
    envs = gym.vector.AsyncVectorEnv([Coder, Coder], shared_memory=False)
    try:
        envs.reset(seed=1)
        for number in range(1, 4):
            observations, *_ = envs.step(("n += 1; n", "n += 2; n"))
            assert tuple(observations) == (str(number), str(2 * number))
    finally:
        envs.close()
    assert run_cell(begin_record(), "2")[0].value == "2"
