"""`Services` are what a run hands to its environments: a recording of outside answers, and what counts the cost of feedback."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_envs.services.chat import ChatModel
from agent_envs.services.recording import Recording


@dataclass(frozen=True)
class Services:
    """What stands before the outside services that a run's environments ask.

    Attributes:
        recording: where answers are recorded, or replayed from; a journal's `RunLog` may bring one instead.
        charged: makes of a chat model that gives feedback one that counts what it costs, and may raise BudgetSpent.
    """

    recording: Recording | None = None
    charged: Callable[[ChatModel], ChatModel] | None = None

    @property
    def replayed(self) -> bool:
        """Whether nothing outside is asked, because all answers come from a recording."""
        return self.recording is not None and self.recording.mode == "replay"
