"""Sandbox sessions run, limit, fork, snapshot and restore cells in the same way on both backends."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.tools.sandbox import (
    ExecResult,
    Limits,
    SandboxCell,
    SandboxSpec,
    SessionSnapshot,
    open_sandbox,
    restore_session,
    sandbox_version,
)
from agent_envs.tools.sandbox.sessions import Session
from tests.examples import examples

SHORT = Limits(cpu_seconds=0.2, wall_seconds=5.0)
CELLS = (
    "import random\nx = [random.random() for _ in range(3)]",
    "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(10)",
    "x.append(random.randint(1, 10**9)); x[-1]",
    "1 / 0",
    "y = {'a': x, 'b': {1, 2, 3}}; print(y); y",
    "hash('abc'), hash((1, 'a')), {'abc', 'd'}",
    "class A:\n    def __init__(self, v): self.v = v\na = A(3); a.v",
    "a.v += len(x); a.v",
    "print('abc' * 3); f",
)


def test_names_stay_and_the_last_expression_is_the_value(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        assert session.run("x = 20; y = 22") == ExecResult("ok")
        assert session.run("print(x)\nx + y") == ExecResult("ok", "20\n", "42")
        assert session.run("None") == ExecResult("ok")
        assert session.run("if x: 5") == ExecResult("ok")
        assert session.run("'a\\n'").value == "'a\\n'"
        assert session.run("") == session.run("# nothing") == ExecResult("ok")
        assert session.spec.version == sandbox_version(backend)
        assert session.spec.limits.memory_mb == {"monty": 256, "bwrap": 1024}[backend]


def test_errors_are_type_and_message(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        told = session.run("print('before')\n1 / 0\nprint('after')")
        assert told == ExecResult("error", "before\n", "", "ZeroDivisionError: division by zero")
        assert session.run("raise ValueError('x')").error == "ValueError: x"
        assert session.run("raise ValueError").error == "ValueError"
        assert session.run("nothing").error == "NameError: name 'nothing' is not defined"
        assert session.run("1 +").error.startswith("SyntaxError: ")
        assert session.run("print(1)\n1 +").stdout == "", "nothing runs before all of it parses"
        assert session.run("\ud800").status == session.run("a\0").status == session.run("x" * 40_000).status == "error"
        assert session.run("raise TimeoutError('time limit exceeded')").status == "error"


@pytest.mark.parametrize(
    ("bad", "status", "error"),
    [
        ("while True: pass", "timeout", "Timeout: more than 0.2 s of processor time"),
        ("y = 'a' * 10**11", "memory", "MemoryError: more than {mb} MB of memory"),
        ("while True: print('a' * 1000)", "output_limit", "OutputLimit: more than 65536 bytes were printed"),
    ],
)
def test_a_cell_past_a_limit_leaves_the_session_as_it_was(backend, bad, status, error):
    with open_sandbox(SandboxSpec(backend=backend, limits=SHORT)) as session:
        session.run("import random\nx = [1]; y = random.random()")
        result = session.run(f"x.append(2); random.random(); z = 3\n{bad}")
        assert (result.status, result.value) == (status, "")
        assert result.error == error.format(mb=session.spec.limits.memory_mb)
        assert (len(result.stdout), result.truncated) == ((65_536, True) if status == "output_limit" else (0, False))
        assert session.run("x").value == "[1]"
        assert session.run("z").error.startswith("NameError")
        twin = open_sandbox(SandboxSpec(backend=backend))
        twin.run("import random\nx = [1]; y = random.random()")
        assert session.run("random.random()") == twin.run("random.random()")
        twin.close()


def test_limits_may_differ_from_cell_to_cell_but_not_those_of_the_session(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        assert session.run("'a' * 100", Limits(output_bytes=10)) == ExecResult("ok", value="'aaaaaaaaa", truncated=True)
        assert session.run("print('a' * 100)", Limits(output_bytes=10)).stdout == "a" * 10
        assert session.run("while True: pass", SHORT).status == "timeout"
        assert session.run("x" * 20, Limits(code_characters=10)).error.startswith("SyntaxError: the code is longer")
        for limits in (Limits(memory_mb=700), Limits(recursion=77)):
            with pytest.raises(UsageError, match="belong to the session"):
                session.run("1", limits)
        restored = restore_session(session.snapshot())
        assert restored.run("1").value == "1"
        restored.close()


def test_wide_characters_are_cut_whole(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        result = session.run("print('\N{EURO SIGN}' * 5, end='')\n'\N{EURO SIGN}' * 5", Limits(output_bytes=16))
        assert (result.stdout, result.value) == ("\N{EURO SIGN}" * 5, "'" + "\N{EURO SIGN}" * 5)


def test_clocks_stand_still_and_random_is_seeded(backend):
    code = """
import datetime, random, time
time.sleep(3600)
now = datetime.datetime.now(), datetime.date.today(), time.time(), time.perf_counter(), time.strftime('%Y-%m-%d %H:%M')
print(now, random.random(), random.sample(range(100), 3), random.Random().random() == random.Random().random())
"""
    results = []
    for seed in (0, 0, 1):
        with open_sandbox(SandboxSpec(backend=backend, seed=seed)) as session:
            results.append(session.run(code))
    assert results[0] == results[1] != results[2]
    assert results[0].status == "ok"
    assert results[0].stdout.startswith(
        "(datetime.datetime(2026, 1, 1, 0, 0), datetime.date(2026, 1, 1), 1767225600.0, 1767225600.0, '2026-01-01 00:00') "
        "0.8444218515250481 "
    )


def play(session, cells):
    return [session.run(cell) for cell in cells]


def test_a_fork_has_the_same_future_and_a_life_of_its_own(backend):
    truth = open_sandbox(SandboxSpec(backend=backend))
    expected = play(truth, CELLS)
    for cut in range(len(CELLS)):
        with open_sandbox(SandboxSpec(backend=backend)) as session:
            assert play(session, CELLS[:cut]) == expected[:cut]
            with session.fork() as fork:
                assert fork.run("x = 'other'; random = None; f = None").status == "ok"
                assert play(session, CELLS[cut:]) == expected[cut:]
                assert fork.run("x").value == "'other'"
            with session.fork() as late, late.fork() as later:
                assert later.run("x") == late.run("x") == session.run("x")
    truth.close()


def test_a_snapshot_restores_with_and_without_the_memory_of_this_process(backend):
    with open_sandbox(SandboxSpec(backend=backend, seed=5)) as session:
        expected = play(session, CELLS[:5])
        taken = session.snapshot()
        more = play(session, CELLS[5:])
        assert [cell.code for cell in taken.cells] == list(CELLS[:5])
        with restore_session(taken) as near:
            assert play(near, CELLS[5:]) == more
            assert near.snapshot() == session.snapshot()
    code = """
import json, sys
from agent_envs.base.serialization import decode_state
from agent_envs.tools.sandbox import restore_session
session = restore_session(decode_state(json.load(sys.stdin)))
print(json.dumps([session.run(cell).to_json() for cell in json.loads(sys.argv[1])]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, json.dumps(CELLS[5:])],
        input=json.dumps(encode_state(taken)), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [ExecResult.from_json(value) for value in json.loads(ran.stdout)] == more
    assert expected[0].status == "ok"
    assert decode_state(encode_state(taken)) == taken


def recorded(backend, code, result):
    with open_sandbox(SandboxSpec(backend=backend, limits=SHORT)) as session:
        return restore_session(SessionSnapshot.of(session.spec, (SandboxCell(code, None, result.digest),)))


def test_a_record_that_does_not_repeat_counts_as_drift(backend):
    with recorded(backend, "x = 2\nx", ExecResult("ok", value="2")) as session:
        assert (session.run("x").value, session.drift) == ("2", 0)
    with recorded(backend, "x = 2\nx", ExecResult("ok", value="3")) as session:
        assert (session.run("x").value, session.drift) == ("2", 1)


def test_another_version_is_not_restored(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        taken = session.snapshot()
    with pytest.raises(UsageError, match="'old' is asked for"):
        restore_session(SessionSnapshot.of(replace(taken.spec, version="old"), taken.cells))


def test_a_closed_session_says_so(backend):
    session = open_sandbox(SandboxSpec(backend=backend))
    session.close()
    session.close()
    for use in (lambda: session.run("1"), session.fork, session.snapshot):
        with pytest.raises(UsageError, match="is closed; open another"):
            use()


def test_sessions_in_many_threads_equal_their_serial_twins(backend):
    def episode(number):
        with open_sandbox(SandboxSpec(backend=backend, seed=number)) as session:
            results = play(session, CELLS)
            with session.fork() as fork:
                return [*results, fork.run("random.random()"), session.run("random.random()")]

    serial = [episode(number) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(episode, [*range(8), *range(8)])) == serial * 2


def test_one_session_in_many_threads_runs_one_cell_at_a_time(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        session.run("n = 0")
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(lambda _: session.run("n += 1"), range(30)))
        assert session.run("n").value == "30"


CELL = st.sampled_from(
    [
        "x = 1",
        "x += 1; x",
        "x = [random.random()]",
        "import random",
        "del_ = x",
        "1 / 0",
        "print(x)",
        "x * 2",
        "y = x",
        "x = y",
    ]
)


@examples(25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CELL, max_size=6), st.lists(CELL, min_size=1, max_size=4))
def test_live_forked_and_restored_sessions_agree(before, after):
    with open_sandbox(SandboxSpec()) as live:
        play(live, before)
        taken = live.snapshot()
        with live.fork() as fork, restore_session(taken) as restored:
            with Session(live._pool, live.spec, cells=taken.cells) as replayed:
                expected = play(live, after)
                assert play(fork, after) == play(restored, after) == play(replayed, after) == expected
