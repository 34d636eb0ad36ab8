"""`Services` are what a run hands to its environments: a recording of outside answers, and the budgets of feedback models."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_envs.services.chat.spending import Charged, RunBudgets
from agent_envs.services.recording import Recording


@dataclass(frozen=True)
class Services:
    """The recording and the budgets before the outside services of a run's environments.

    Attributes:
        recording: where answers are recorded, or replayed from; a journal's `RunLog` may bring one instead.
        charged: puts a chat model that gives feedback behind a budget of the run; None leaves it to that of its environment.
        elsewhere: returns a stack, with the JSON of its spec, as one that is stepped elsewhere; None for steps here.
        players: returns the log of replies and what plays whole episodes elsewhere, of a file for replies, the keys of
            episodes that have ended, the limits of a `Lockstep`, the agent's name and these services; None for episodes here.
    """

    recording: Recording | None = None
    charged: Charged | None = field(default_factory=RunBudgets)
    elsewhere: Callable[[Any, str], Any] | None = None
    players: Callable[..., tuple[Any, Any]] | None = None

    @property
    def replayed(self) -> bool:
        """Whether nothing outside is asked, because all answers come from a recording."""
        return self.recording is not None and self.recording.mode == "replay"
