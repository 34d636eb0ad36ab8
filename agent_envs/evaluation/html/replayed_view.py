"""`ReplayReader` steps recorded episodes again, to show both sides of a conversation and pictures of states on pages.

A journal holds what the policy saw and did. What the other side did with its own tools, what changed, and how a state looks,
the environment tells when the episode is stepped again: it is made anew from the run's suite, and must give the recorded
episode, turn by turn.
"""

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import AgentEnvsError, EnvFault, ReplayMismatch
from agent_envs.core.builtin_agents import companion, companion_of
from agent_envs.core.conversation_view import ConversationView, ViewEntry
from agent_envs.core.trajectory import Trajectory
from agent_envs.core.wrapper_stack import core_of
from agent_envs.evaluation.html.rendered_states import Painter, draws
from agent_envs.evaluation.runs.measures import class_of
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Entry
from agent_envs.rollout.episode_runner import replay
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

LONGEST_REASON = 400
FULL = "No pictures are shown: those of earlier transcripts fill the room that pages have for them."
_UNMADE = (AgentEnvsError, gym.error.Error, OSError, ImportError, KeyError)


@dataclass(frozen=True, slots=True)
class Seen:
    """What an episode's environment told: all sides, pictures of its states, and why it told less than it could have."""

    conversation: ConversationView | None = None
    pictures: tuple[str, ...] = ()
    note: str = ""


class ReplayReader:
    """Tells of one run's episodes; ask for those of an entry together, as one environment is held at a time.

    Nothing is asked live: outside services answer from the run's recording, or not at all.
    """

    def __init__(self, externals: Path) -> None:
        """Take the run's recording, which need not be there."""
        self._externals, self._open = externals, ExitStack()
        self._recording: Recording | None = None
        self._entry: Entry | None = None
        self._env: gym.Env[Any, Any] | None = None
        self._why = ""

    def __enter__(self) -> "ReplayReader":
        """Return the reader."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close the recording."""
        self._open.close()

    def of(self, entry: Entry, trajectory: Trajectory, pictured: bool = True) -> Seen:
        """Return what an environment tells of an episode; with `note` where it should have told more.

        Args:
            entry: the episode's.
            trajectory: as it was recorded.
            pictured: whether pictures are wanted.
        """
        if entry is not self._entry:
            self._entry, self._env, self._why = entry, None, ""
            self._make(entry)
        if self._env is None or not trajectory.turns:
            return Seen(note=self._why)
        told, drawn = companion(self._env, "conversation_view"), draws(self._env)
        note = FULL if drawn and not pictured else ""
        if told is None and (note or not drawn):
            return Seen(note=note)
        env = Painter(self._env, len(trajectory.turns)) if drawn and pictured else self._env
        try:
            replay(env, trajectory)
            conversation = _with_feedback(told(env), trajectory) if told is not None else None
        except (ReplayMismatch, EnvFault) as error:
            return Seen(note=_reason(told is not None, " ".join(str(error).split())))
        except _UNMADE as error:
            return Seen(note=_reason(told is not None, type(error).__name__))
        return Seen(conversation, tuple(env.pictures) if isinstance(env, Painter) else (), note)

    def _make(self, entry: Entry) -> None:
        conversation, pictures = _has(entry)
        if not conversation and not pictures:
            return
        try:
            env = entry_env(entry)
            core_of(env).services = Services(self._recorded())
        except _UNMADE as error:
            # The message may name folders of this machine, and pages are passed on.
            self._why = _reason(conversation, f"its environment cannot be made here ({type(error).__name__})")
        else:
            self._env = env

    def _recorded(self) -> Recording:
        if self._recording is None:
            path = self._externals
            if not path.is_file():
                path = Path(self._open.enter_context(tempfile.TemporaryDirectory())) / path.name
                path.touch()
            self._recording = self._open.enter_context(Recording(path, "replay"))
        return self._recording


def _with_feedback(view: ConversationView, trajectory: Trajectory) -> ConversationView:
    """Return a conversation with what a wrapper's feedback said, across them, at the end of each turn."""
    shown = [(0, trajectory.prompt)]
    for turn in trajectory.turns:
        news = turn.observation if turn.context == "append" else turn.observation[-1:]
        shown.append((turn.index, news))
    more = [
        ViewEntry("", "note", message.content, turn=turn)
        for turn, messages in shown
        for message in messages
        if message.author == "feedback"
    ]
    return replace(view, entries=(*view.entries, *more))


def _has(entry: Entry) -> tuple[bool, bool]:
    """Return whether an entry's environment has a conversation view, and pictures; an unknown one has neither."""
    if ":" in entry.env_id:  # a page must not import what a run's file names
        return False, False
    try:
        kind = class_of(entry)
        return companion_of(kind, "conversation_view") is not None, "svg" in getattr(kind, "metadata", {}).get(
            "render_modes", ()
        )
    except (*_UNMADE, AttributeError):
        return False, False


def _reason(conversation: bool, why: str) -> str:
    what = "Only the policy's side is shown" if conversation else "No pictures are shown"
    return f"{what}, as the episode could not be stepped again: {why[:LONGEST_REASON]}"
