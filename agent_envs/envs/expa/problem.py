"""A problem is shared by the text and the expanded environment: tasks, prompt, external environments, reward, and success."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_envs.base.messages import Message
from agent_envs.base.protocol import Answer, Say
from agent_envs.core import pages
from agent_envs.core.env import Episode, Outcome
from agent_envs.core.episode import RewardSpec
from agent_envs.core.trajectory import Task, TaskSource, Trajectory, Turn
from agent_envs.envs.expa.actions import ExternalEnvironment

TEXT, EXPANDED, JSON = "text", "expanded", "json"  # whose words a prompt has; `json`: the text face with native calls
MAX_LIMIT = 10**6
sections = partial(pages.sections, __package__)
paged = partial(pages.paged, __package__)


@dataclass(frozen=True)
class Problem:
    """A kind of task, whichever face it is played on.

    Attributes:
        environments: the external environments, in the order of their routing actions.
        reward: the declared reward; it reads typed turns and not the face.
        solved: whether a finished trajectory, its task included, solves the task.
        world: the latent state of the external environments at the start of a task.
        opening: the messages of a reset.
        finish: how an episode is brought to its end, in words for the text face.
        described: whether the prompt describes the environments; where it does not, refusals do not name their actions.
    """

    source: TaskSource
    environments: tuple[ExternalEnvironment, ...]
    reward: RewardSpec
    solved: Callable[[Trajectory], bool]
    world: Callable[[Task], Any]
    opening: Callable[[Task], tuple[Message, ...]]
    finish: str
    described: bool = True

    def with_success(self, episode: Episode, action: str | int, outcome: Outcome, max_turns: int) -> Outcome:
        """Return the outcome, its `success` judged where it or the limit of turns ends the episode."""
        index = len(episode.turns) + 1
        if not outcome.terminated and index < max_turns:
            return outcome
        head = (index, episode.header.origin, action, outcome.parsed, outcome.observation, outcome.results)
        turn = Turn(*head, terminated=outcome.terminated, truncated=not outcome.terminated)
        outcome.success = self.solved(episode.trajectory(turn))
        return outcome


def policy_language(trajectory: Trajectory, *, as_read: bool = False) -> str:
    """Return the policy's own language: the last turn's if it is an answer, else all its texts, line breaks between.

    What environments appended is left out and leaves a line break, so that no number runs across it. `as_read`: expanded text
    without thoughts, and with what was tolerated in the form of the prompt.
    """
    if isinstance(trajectory.last.parsed, Answer):
        return str(trajectory.last.action)
    parts = [
        (turn.parsed.text if as_read else str(turn.action)) if isinstance(turn.parsed, Say) else "\n"
        for turn in trajectory.turns
    ]
    return "".join(parts)


def ended(trajectory: Trajectory) -> bool:
    """Return whether the newest turn terminated or truncated the episode."""
    return trajectory.last.terminated or trajectory.last.truncated


def task_of(trajectory: Trajectory) -> Task:
    """Return the task, which is there while an episode lives."""
    assert trajectory.task is not None
    return trajectory.task


def opening(system: str, user: str) -> tuple[Message, ...]:
    """Return the messages of a reset: the instructions, then the question."""
    return Message("system", system, "environment"), Message("user", user, "environment")
