"""The first Ctrl-C lets what runs finish, and the second leaves at once, in verbs whose work is kept."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

from agent_envs.base.terminal import show


@contextlib.contextmanager
def two_interrupts(running: str) -> Iterator[None]:
    """Let the first Ctrl-C finish what runs, and say so; the second leaves at once.

    Args:
        running: what finishes first: "running episodes".
    """

    def interrupted(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        show(f"stopping: {running} finish first; Ctrl-C again leaves at once", file=sys.stderr)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
