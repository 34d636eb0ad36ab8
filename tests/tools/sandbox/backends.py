"""These helpers skip tests of `bwrap` where it cannot run, and fail them instead where CI_HAS_BWRAP=1 is set."""

import functools
import os
import signal
import threading
import time

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.tools.sandbox import SandboxSpec, Session, open_sandbox
from agent_envs.tools.sandbox.processes import Process

PROMISED = os.environ.get("CI_HAS_BWRAP") == "1"


@functools.cache
def why_not() -> str:
    """Return why `bwrap` cannot be tested here; empty where it can."""
    try:
        open_sandbox(SandboxSpec(backend="bwrap", preload=False)).close()
    except UsageError as error:
        return str(error)
    return ""


def need(backend: str) -> None:
    """Skip the test where the backend cannot run, unless CI promises that it can."""
    if backend == "bwrap" and why_not():
        assert not PROMISED, f"CI_HAS_BWRAP=1, and {why_not()}"
        pytest.skip(why_not())


def killer_in_use(cell: Process, target: Process, number: int = signal.SIGKILL) -> threading.Thread:
    """Return a thread that sends a process a signal once a cell runs.

    By the clock alone it would come before the cell where the machine is busy, and the cell would begin anew.
    """
    begun, latest = cell.cpu_seconds(), time.monotonic() + 30

    def kill() -> None:
        while cell.cpu_seconds() < begun + 0.01 and time.monotonic() < latest:
            time.sleep(0.001)
        target.send(number)

    return threading.Thread(target=kill)


def opened(backend: str, **arguments: object) -> Session:
    """Return a session of a backend, or skip."""
    need(backend)
    return open_sandbox(SandboxSpec(backend=backend, **arguments))  # type: ignore[arg-type]
