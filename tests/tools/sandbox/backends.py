"""These helpers skip tests of `bwrap` where it cannot run, and fail them instead where CI_HAS_BWRAP=1 is set."""

import functools
import os

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.tools.sandbox import SandboxSpec, Session, open_sandbox

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


def opened(backend: str, **arguments: object) -> Session:
    """Return a session of a backend, or skip."""
    need(backend)
    return open_sandbox(SandboxSpec(backend=backend, **arguments))  # type: ignore[arg-type]
