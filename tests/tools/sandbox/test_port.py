from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json, decode_state, encode_state
from agent_envs.tools.sandbox import (
    STATUSES,
    ExecResult,
    Limits,
    SandboxCell,
    SandboxSpec,
    SessionSnapshot,
    open_sandbox,
    restore_session,
    sandbox_version,
)
from agent_envs.tools.sandbox.port import clean_result, refused
from tests.rows import each_row

CELLS = (SandboxCell("x = 1", None, "a" * 64), SandboxCell("x", Limits(cpu_seconds=1.0), "b" * 64))


@each_row(
    ("arguments", "told"),
    [
        ({"cpu_seconds": 0}, "cpu_seconds and wall_seconds are above 0"),
        ({"cpu_seconds": float("nan")}, "cpu_seconds and wall_seconds are above 0"),
        ({"wall_seconds": float("inf")}, "cpu_seconds and wall_seconds are above 0"),
        ({"cpu_seconds": True}, "cpu_seconds and wall_seconds are above 0"),
        ({"cpu_seconds": 10.0}, r"cpu_seconds=10, wall_seconds=10\): the wall limit is a backstop"),
        ({"output_bytes": 0}, r"output_bytes=0; give a whole number from 1"),
        ({"code_characters": "9"}, "code_characters='9'"),
        ({"recursion": 10**6}, "from 50 to 10000"),
        ({"memory_mb": 3.5}, r"memory_mb=3.5; give a whole number from 16"),
    ],
)
def test_limits_that_no_sandbox_can_keep_are_refused(arguments, told):
    with pytest.raises(UsageError, match=told):
        Limits(**arguments)


def test_results_compare_without_their_time():
    assert ExecResult("ok", value="2", cpu_ms=1.0) == ExecResult("ok", value="2", cpu_ms=9.0)
    assert ExecResult("ok", value="2").digest == ExecResult("ok", value="2", cpu_ms=9.0).digest
    assert len({ExecResult("ok", **{name: "x"}).digest for name in ("stdout", "value", "error")}) == 3


@given(st.sampled_from(STATUSES), st.text(), st.text(), st.text(), st.booleans(), st.floats(0, 1e9))
def test_results_travel_as_json(status, stdout, value, error, truncated, cpu_ms):
    result = ExecResult(status, stdout, value, error, truncated, cpu_ms)
    assert ExecResult.from_json(result.to_json()) == result
    assert decode_state(encode_state(result)).cpu_ms == cpu_ms


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"status": 1},
        {"stdout": None},
        {"truncated": 0},
        {"cpu_ms": "1"},
        {"cpu_ms": True},
        {"more": 1},
    ],
)
def test_a_strangers_result_is_checked(change):
    with pytest.raises(ValueError, match="sandbox result"):
        ExecResult.from_json(ExecResult("ok").to_json() | change)


def test_results_that_are_no_object_are_refused():
    for value in (None, [], "ok", {}):
        with pytest.raises(ValueError, match="has the fields"):
            ExecResult.from_json(value)


def test_what_is_no_code_does_not_run():
    limits = Limits(code_characters=10)
    assert refused("x" * 10, limits) is None
    assert refused("x" * 11, limits).error == "SyntaxError: the code is longer than 10 characters"
    assert refused("a\0", limits).error == "SyntaxError: source code cannot contain null bytes"
    assert refused("'\ud800'", limits).error == "SyntaxError: the code holds half of a surrogate pair"


def test_what_is_shown_has_no_addresses_and_keeps_its_limits():
    limits = Limits(output_bytes=40, memory_mb=99)
    found = clean_result(ExecResult("ok", "<f at 0x7f00AB> <g at 0x1>", "at 0x12 or 0x12", "e" * 41), limits)
    assert (found.stdout, found.value, found.error) == ("<f at 0x...> <g at 0x...>", "at 0x... or 0x12", "e" * 40)
    assert found.truncated
    assert clean_result(ExecResult("ok", "\N{EURO SIGN}" * 14), limits).stdout == "\N{EURO SIGN}" * 13
    assert not clean_result(ExecResult("ok", "x" * 40), limits).truncated
    assert clean_result(ExecResult("memory", value="v", error="12345 bytes"), limits) == ExecResult(
        "memory", error="MemoryError: more than 99 MB of memory"
    )


def test_a_snapshot_is_state_and_notices_every_change():
    taken = SessionSnapshot.of(SandboxSpec(version="v"), CELLS)
    taken.check()
    assert decode_state(encode_state(taken)) == taken
    assert canonical_json(encode_state(taken)) == canonical_json(encode_state(SessionSnapshot.of(taken.spec, CELLS)))
    changed = [
        replace(taken, sha256="0" * 64),
        replace(taken, cells=CELLS[:1]),
        replace(taken, cells=(replace(CELLS[0], code="x = 2"), CELLS[1])),
        replace(taken, cells=(replace(CELLS[0], result="c" * 64), CELLS[1])),
        replace(taken, spec=replace(taken.spec, seed=1)),
        replace(taken, spec=replace(taken.spec, limits=Limits(output_bytes=5))),
    ]
    for snapshot in changed:
        with pytest.raises(UsageError, match="damaged"):
            restore_session(snapshot)


@pytest.mark.parametrize("cells", [("x = 1",), (SandboxCell(1, None, "a"),), (SandboxCell("x", 3, "a"),), None])
def test_a_snapshot_of_wrong_parts_is_damaged_even_where_its_digest_fits(cells):
    with pytest.raises(UsageError, match="damaged"):
        restore_session(SessionSnapshot.of(SandboxSpec(), cells))


def test_misuse_is_told():
    with pytest.raises(UsageError, match="sandbox 'docker': the sandboxes are monty, bwrap"):
        open_sandbox(SandboxSpec(backend="docker"))
    with pytest.raises(UsageError, match="'pydantic-monty 9.9' is asked for, and 'pydantic-monty 1.4.0' is installed"):
        open_sandbox(SandboxSpec(version="pydantic-monty 9.9"))
    with pytest.raises(UsageError, match="seed='7'"):
        open_sandbox(SandboxSpec(seed="7"))
    assert sandbox_version("monty") == "pydantic-monty 1.4.0"
