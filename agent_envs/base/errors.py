"""The errors of the package form one small tree.

AgentEnvsError
├── UsageError       a programmer's mistake: unknown argument, task or id; step out of order
├── DataMissing      a data set that is not on this machine: what, where, and the command that gets it
├── MissingExtra     an optional package that is not installed: the exact pip line
├── Unsolvable       nothing can be gained any more from this episode
├── ReplayMismatch   a recorded episode that this installation does not reproduce
├── BudgetSpent      the run's cost limit is reached: no further call is paid for
└── EnvFault         infrastructure failed (a retriever, judge or user model): never a reward
    └── ContextFull  a prompt is longer than the model's context: where an agent meets it, its own limit
"""

import copyreg
from typing import Any


class AgentEnvsError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(AgentEnvsError, ValueError):
    """A call that no environment can honour; the message names the id, the argument and the fix."""


class DataMissing(AgentEnvsError, FileNotFoundError):
    """A named data set is not there; the message says what was looked for, where, and how to get it."""


class MissingExtra(AgentEnvsError, ImportError):
    """An optional package is missing."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: {install_line(extra)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it by its message: another process may raise it here."""
        return copyreg.__newobj__, (type(self), *self.args)  # type: ignore[attr-defined]


def install_line(extra: str) -> str:
    """Return the pip command that installs an extra; for one with torch, words to install torch by its index first."""
    line, torch = f'pip install "agent-envs[{extra}]"', extra in {"dense", "discrete", "train", "trl"}
    return f"pip install torch, from the index of your machine (CPU or GPU); then {line}" if torch else line


class Unsolvable(AgentEnvsError):
    """The episode is over, or no sequence of actions can still gain anything."""


class ReplayMismatch(AgentEnvsError):
    """Replaying a record gave something else; the message names the turn and the field."""


class BudgetSpent(AgentEnvsError):
    """The run's cost limit is reached; `usage` has the tokens that earlier attempts at the same call were billed."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.usage: dict[str, int] = {}


class EnvFault(AgentEnvsError):
    """An outside service failed. Not a failure of the policy: such an episode has no reward.

    Attributes:
        cause: one line that says what failed.
        retryable: whether the same call may succeed later.
        wait_seconds: how long the service asked to be left alone (`Retry-After`); 0 if it did not say.
        usage: tokens by name that were billed nevertheless.
        overloaded: whether the service has no room for anybody now (HTTP 529): no matter of this call.
    """

    overloaded = False

    def __init__(self, cause: str, retryable: bool = True, wait_seconds: float = 0.0) -> None:
        """Hold the cause, whether another attempt may help, the wait that the service asked for, and the usage so far."""
        super().__init__(cause)
        self.cause = cause or "a fault without a cause"
        self.retryable = retryable
        self.wait_seconds = wait_seconds
        self.usage: dict[str, int] = {}


class ContextFull(EnvFault):
    """A prompt is longer than a model's context. The counts are 0 where the service does not give them."""

    def __init__(self, cause: str, prompt_tokens: int = 0, context_tokens: int = 0) -> None:
        super().__init__(cause, retryable=False)
        self.prompt_tokens, self.context_tokens = prompt_tokens, context_tokens
