"""`Scene` is all that a simulated side is given for its next line, and `Partner` is the protocol of simulated sides.

A partner holds no state of an episode: what it keeps in mind travels in the dialogue, so that a fork in mid-dialogue forks
both sides. `partners` makes partners by name.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.dialogue import Dialogue, Line, recording_of
from agent_envs.envs.tau2.task_schema import Tau2Task
from agent_envs.envs.tau2.toolkit import Side
from agent_envs.envs.tau2.turn_taking import Rules, seen_by
from agent_envs.services.recording import CallSite, Recording


@dataclass(frozen=True, slots=True)
class Scene:
    """The situation in which a partner speaks.

    Attributes:
        task: the task, with all that it carries.
        public: its typed view, without criteria.
        rules: the domain and the limits.
        side: whom the partner plays.
        dialogue: the conversation; `seen_by(dialogue, side)` is what the partner may know of it.
        key: the episode's key, of which a partner makes its randomness.
        branch: the branch of the episode, which outside services are asked under.
        recording: where outside services are recorded or replayed from, or None.
    """

    task: Task
    public: Tau2Task
    rules: Rules
    side: Side
    dialogue: Dialogue
    key: str
    branch: str = ""
    recording: Recording | None = None

    @property
    def memory(self) -> Any:
        """The partner's memory, None at the start."""
        return self.dialogue.memory

    @property
    def site(self) -> CallSite:
        """The call site of outside services: every message has a place of its own."""
        return CallSite(self.key, self.branch, 8 * len(self.dialogue.lines))

    @property
    def news(self) -> tuple[Line, ...]:
        """The lines since the partner last spoke, as it sees them: the other side's words, or the answers to its calls."""
        start = len(self.dialogue.lines)
        while start and self.dialogue.lines[start - 1].sender != self.side:
            start -= 1
        return seen_by(self.dialogue, self.side, start)


class Partner(Protocol):
    """Plays one side. `name` stands in reports; `service` names the outside service that it asks, "" where it asks none."""

    name: str
    service: str

    def speak(self, scene: Scene) -> tuple[Line | None, Any]:
        """Return the next line of the partner's side, or None to stop, and its memory.

        Raises EnvFault: an outside service failed.
        """
        ...


def recorded_lines(task: Task, side: Side) -> tuple[Line, ...]:
    """Return a side's lines in a task's recording; none where there is no recording."""
    return tuple(line for line in recording_of(task.data.get("recording", ())) if line.sender == side)
