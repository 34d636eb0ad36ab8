"""Records of sessions are kept without a sandbox: what a cell leaves behind follows from its result alone.

A replay has the results from a recording, and must go on to the same records on a machine that has no sandbox at all. So the
rule of what a record keeps is here, and sessions that really run follow it too.
"""

from dataclasses import replace

from agent_envs.base.errors import UsageError
from agent_envs.tools.sandbox import port

DEFAULT_MEMORY_MB = {"monty": 256, "bwrap": 1_024}
BACKENDS = tuple(DEFAULT_MEMORY_MB)
SUBSET = """\
The interpreter runs a subset of Python 3. Names stay defined from call to call, and the value of a last expression is shown.
- Modules: math, decimal, itertools, functools, collections, re, json, random, datetime, time, bisect, copy, typing,
  dataclasses, hashlib, base64, csv, unicodedata. There is no numpy, sympy, fractions, statistics, heapq, string or operator.
- No `yield`, no `del`, no class inheritance (so no exception classes of your own), no `@property`, `@staticmethod` or
  `@classmethod`, no `from module import *`.
- Generator expressions, `map` and `zip` are lists at once: never let one run over something endless.
- Methods cannot be passed as values (write `lambda s: s.lower()`, not `str.lower`).
- There are no files, no network, no processes and no input(). Clocks stand still and sleep() returns at once."""
FULL = """\
The interpreter is Python 3 with its standard library, numpy and sympy. Names stay defined from call to call, and the value of a
last expression is shown. Nothing can be written to disk; there is no network, no input(), and there are no other processes or
threads. Clocks stand still and sleep() returns at once."""
LANGUAGE = {"monty": SUBSET, "bwrap": FULL}  # what a prompt says of each backend


def record_of(spec: port.SandboxSpec, cells: tuple[port.SandboxCell, ...] = ()) -> port.SessionSnapshot:
    """Return the record of a session of the backend that `spec` names, which ran `cells`; nothing is started or installed.

    Raises UsageError: no such backend or packages, or the seed is no whole number.
    """
    return port.SessionSnapshot.of(filled(spec, spec.version), cells)


def recorded_cell(
    record: port.SessionSnapshot, code: str, result: port.ExecResult, limits: port.Limits | None = None
) -> port.SessionSnapshot:
    """Return the record as `run_cell` leaves it after this result: with the cell, unchanged, or empty if lost; runs nothing.

    Args:
        record: of the session so far.
        code: the program's text.
        result: what running it gave.
        limits: under which it ran; None for the session's own.

    Raises UsageError: the limits have another memory or recursion than the session.
    """
    limits = cell_limits(record.spec, limits)
    if port.refused(code, limits) is not None:
        return record
    if result.session_lost:
        return port.SessionSnapshot.of(record.spec, ())
    cell = lasting_cell(record.spec, code, limits, result)
    return record if cell is None else port.SessionSnapshot.of(record.spec, (*record.cells, cell))


def lasting_cell(
    spec: port.SandboxSpec, code: str, limits: port.Limits, result: port.ExecResult
) -> port.SandboxCell | None:
    """Return the record of a cell that ended `ok` or `error`; None for others, which left the session as it was."""
    if result.status not in port.LASTING:
        return None
    return port.SandboxCell(code, limits if limits != spec.limits else None, result.digest)


def cell_limits(spec: port.SandboxSpec, limits: port.Limits | None) -> port.Limits:
    """Return a cell's limits: the session's if None, else those given; UsageError for another memory or recursion.

    Raises UsageError: they have another memory or recursion than the session.
    """
    own = spec.limits
    limits = own if limits is None else limits
    if limits.memory_mb is None:
        limits = replace(limits, memory_mb=own.memory_mb)
    if (limits.memory_mb, limits.recursion) != (own.memory_mb, own.recursion):
        raise UsageError(
            f"run(limits=...): memory_mb={limits.memory_mb} and recursion={limits.recursion} belong to the session "
            f"({own.memory_mb}, {own.recursion}); open another session for others"
        )
    return limits


def filled(spec: port.SandboxSpec, version: str) -> port.SandboxSpec:
    """Return a spec with a version, and the backend's memory limit if it names none; UsageError for a wrong backend or seed.

    Raises UsageError: no such backend or packages, or the seed is no whole number.
    """
    known_backend(spec.backend, spec.packages)
    if type(spec.seed) is not int:
        raise UsageError(f"SandboxSpec(seed={spec.seed!r}): give a whole number")
    memory = spec.limits.memory_mb or DEFAULT_MEMORY_MB[spec.backend]
    return replace(spec, version=version, limits=replace(spec.limits, memory_mb=memory))


def known_backend(name: str, packages: tuple[str, ...] = ()) -> None:
    """Raise UsageError for the name of no backend, or for packages that it cannot have.

    Raises UsageError: it is none, or it cannot have them.
    """
    if name not in BACKENDS:
        raise UsageError(f"sandbox {name!r}: the sandboxes are {', '.join(BACKENDS)}")
    choices = tuple(port.MORE_PACKAGES) if name == "bwrap" else ()
    if type(packages) is not tuple or any(package not in choices for package in packages):
        raise UsageError(
            f"SandboxSpec(packages={packages!r}): the sandbox {name} can have {', '.join(choices) or 'no further packages'}"
        )
