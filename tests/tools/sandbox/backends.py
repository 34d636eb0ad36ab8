"""The backends as parameters that ask for what they need, and a thread that kills a process in use."""

import signal
import threading
import time

import pytest

from agent_envs.tools.sandbox.processes import Process
from tests.needs import needs

MONTY = pytest.param("monty", marks=needs("[sandbox]"))
BWRAP = pytest.param("bwrap", marks=needs("bwrap", "[sandbox]"))


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
