"""A sandbox runs Python code that a model wrote: `open_sandbox(spec)` gives a session, and `run(code)` a result (see `port`).

Two backends, chosen by name, and no fallback from one to the other: `monty`, a subset of Python that starts in milliseconds on
any system, and `bwrap`, all of CPython with numpy and sympy behind Linux namespaces, a list of system calls and limits. Neither
is a boundary between tenants of one machine: the kernel is shared.

Modules, in reading order:
    port: the spec, cells and their results, the limits of time, memory and output, snapshots; read it first.
    records: what a cell leaves in a session's record, without a sandbox; the names of the backends.
    sessions: a session over any backend, and idle sessions for callers whose state is immutable.
    pool: the protocol of backends and interpreters, how many interpreters live at once, saved memories, the cleaning thread.
    processes: a process seen from outside: processor time, wall time (timeout), signals, the watchdog over limits.
    monty: the Monty backend, and the import of pydantic-monty, also after a fork.
    last_expression: the last expression of a cell, whose value is shown.
    bwrap, fork_server, harness: the bubblewrap backend, its fork server seen from outside, and the program that runs inside.
    mounts, seccomp: the files and packages that bwrap shows, and the system calls that it allows.
"""

import os
import sys
import threading

from agent_envs.base.errors import UsageError
from agent_envs.tools.sandbox.monty import MontyBackend, monty_version
from agent_envs.tools.sandbox.mounts import bwrap_version
from agent_envs.tools.sandbox.pool import Cleaner, Saves
from agent_envs.tools.sandbox.port import (
    LASTING,
    STATUSES,
    ExecResult,
    Limits,
    SandboxCell,
    SandboxSpec,
    SessionSnapshot,
)
from agent_envs.tools.sandbox.records import BACKENDS, LANGUAGE, SUBSET, filled, known_backend, record_of, recorded_cell
from agent_envs.tools.sandbox.sessions import BackendPool, Session, SessionCache

__all__ = [
    "BACKENDS", "LANGUAGE", "LASTING", "STATUSES", "SUBSET", "ExecResult", "Limits", "SandboxCell", "SandboxSpec",
    "Session", "SessionSnapshot", "begin_record", "close_sandboxes", "open_sandbox", "record_of", "recorded_cell",
    "restore_session", "run_cell", "sandbox_version",
]  # fmt: skip
_SAVES, _CLEANER = Saves(), Cleaner()
_POOLS: dict[str, BackendPool] = {}
_LOCK = threading.Lock()


def sandbox_version(backend: str, packages: tuple[str, ...] = ()) -> str:
    """Return the installed version of a `backend`, with a spec's `packages`; UsageError or MissingExtra where it cannot run.

    Raises:
        UsageError: no such backend or packages, or it cannot run on this machine.
        MissingExtra: a package is missing.
    """
    known_backend(backend, packages)
    return monty_version() if backend == "monty" else bwrap_version(packages)


def open_sandbox(spec: SandboxSpec = SandboxSpec()) -> Session:  # noqa: B008 - frozen
    """Return a session with no names, its interpreter made at once; UsageError, MissingExtra or EnvFault if it cannot be.

    Raises:
        UsageError: no such backend, another version than the spec names, or this system refuses it.
        MissingExtra: a package is missing.
        EnvFault: the backend failed.
    """
    session = _session(spec)
    session.start()
    return session


def restore_session(snapshot: SessionSnapshot) -> Session:
    """Return a session as it was when the snapshot was taken; UsageError if that is damaged or of another version.

    Its cells run again with the first new one, unless this process took the snapshot and still has the memory.

    Raises:
        UsageError: the snapshot is damaged, or of another backend or version than is installed.
        MissingExtra: a package is missing.
    """
    snapshot.check()
    return _session(snapshot.spec, snapshot)


def begin_record(spec: SandboxSpec = SandboxSpec()) -> SessionSnapshot:  # noqa: B008 - frozen
    """Return the record of a session in which nothing has run, for `run_cell`. Starts nothing.

    Raises:
        UsageError: no such backend, another version than the spec names, or this system cannot have it.
        MissingExtra: a package is missing.
    """
    return _session(spec).snapshot()


def run_cell(record: SessionSnapshot, code: str, limits: Limits | None = None) -> tuple[ExecResult, SessionSnapshot]:
    """Run a cell in a session that ran the record's cells; return its result and the record with it (see `SessionCache`).

    Args:
        record: of the session so far; one without a version (`record_of`) is taken for one of the installed version.
        code: the program's text.
        limits: of time, memory and output (units: `Limits`); None for the session's own.

    Raises:
        UsageError: the record is damaged, or of another backend or version than is installed.
        EnvFault: the sandbox failed; the record stays good, and may be asked again.
    """
    if not record.spec.version:  # the cache holds sessions by their records as they are after a run: with the version
        record.check()
        record = SessionSnapshot.of(
            filled(record.spec, sandbox_version(record.spec.backend, record.spec.packages)), record.cells
        )
    return _SESSION_CACHE.run(record, code, limits)


def close_sandboxes() -> None:
    """End all processes of all backends; sessions that are open make theirs again when they next run."""
    _SESSION_CACHE.close()
    for pool in list(_POOLS.values()):
        pool.backend.close()


def _pool(name: str) -> BackendPool:
    """Return the pools that the sessions of a backend share, made at first use."""
    with _LOCK:
        if name not in _POOLS and name == "monty":
            _POOLS[name] = BackendPool(MontyBackend(), _SAVES, _CLEANER)
        elif name not in _POOLS:
            from agent_envs.tools.sandbox.bwrap import BwrapBackend  # parts of it exist on Linux only

            _POOLS[name] = BackendPool(BwrapBackend(), _SAVES, _CLEANER)
        return _POOLS[name]


def _session(spec: SandboxSpec, snapshot: SessionSnapshot | None = None) -> Session:
    """Open a session, from a snapshot's cells and saved memory if given; UsageError if another version is installed."""
    version = sandbox_version(spec.backend, spec.packages)
    if spec.version not in ("", version):
        raise UsageError(f"sandbox {spec.backend}: {spec.version!r} is asked for, and {version!r} is installed")
    spec, pool = filled(spec, version), _pool(spec.backend)
    if snapshot is None:
        return Session(pool, spec)
    saved = _SAVES.find(snapshot.sha256)
    count = len(snapshot.cells) if saved is not None else 0
    return Session(pool, spec, cells=snapshot.cells, saved=saved, saved_cells=count)


def _after_fork() -> None:
    """Replace locks and live processes in a forked child, where those of the parent are of no use."""
    global _LOCK
    _LOCK = threading.Lock()
    for pool in _POOLS.values():
        pool.interpreters.renew()
        pool.backend.renew()
    for shared in (_SAVES, _CLEANER, _SESSION_CACHE):
        shared.renew()


_SESSION_CACHE = SessionCache(restore_session)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
