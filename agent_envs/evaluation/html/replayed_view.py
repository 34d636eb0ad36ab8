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

from agent_envs.base.errors import EnvFault, ReplayMismatch
from agent_envs.core.conversation_view import ConversationView, ViewEntry
from agent_envs.core.env import core_of
from agent_envs.core.registry import companion
from agent_envs.core.trajectory import Task, Trajectory
from agent_envs.evaluation.html.rendered_states import Painter, draws
from agent_envs.evaluation.runs.measures import EntryTasks
from agent_envs.evaluation.suites.plan import NOT_HERE
from agent_envs.evaluation.suites.suite import Entry
from agent_envs.rollout.episode_runner import replay
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

LONGEST_REASON = 400
FULL = "No pictures are shown: those of earlier transcripts fill the room that pages have for them."


@dataclass(frozen=True, slots=True)
class ReplayedEpisode:
    """The view of a replayed episode: all sides, pictures, names of expanded actions, and a note on missing parts."""

    conversation: ConversationView | None = None
    pictures: tuple[str, ...] = ()
    note: str = ""
    names: tuple[str, ...] = ()
    terms: tuple[dict[str, float | None], ...] = ()  # of each turn, None for one that does not apply; () if not known


class ReplayReader:
    """Tells of one run's tasks and episodes; ask for those of an entry together, as one environment is held at a time.

    Nothing is asked live: outside services answer from the run's recording, or not at all. `notes` tells, by entry, what is not
    known here and why.
    """

    def __init__(self, externals: Path) -> None:
        """Take the run's recording, which need not be there."""
        self.notes: dict[str, str] = {}
        self._externals, self._open = externals, ExitStack()
        self._recording: Recording | None = None
        self._entry: Entry | None = None

    def __enter__(self) -> "ReplayReader":
        """Return the reader."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close the recording."""
        self._open.close()

    def task(self, entry: Entry, name: str) -> Task | None:
        """Return a task of an entry, None where it is not known here."""
        self._open_entry(entry)
        return self._tasks.get(name, self._digests[name]) if self._env is not None else None

    def of(self, entry: Entry, trajectory: Trajectory, pictured: bool = True) -> ReplayedEpisode:
        """Replay an episode and return conversation, pictures and terms, if it has any; `note` says why some are missing.

        Args:
            entry: the episode's.
            trajectory: as it was recorded.
            pictured: whether pictures are wanted.
        """
        task = self.task(entry, trajectory.header.task_id)
        if self._env is None or not trajectory.turns:
            return ReplayedEpisode()
        spec, whole = core_of(self._env).reward_spec, replace(trajectory, task=task)
        terms = () if task is None else tuple(spec.terms_by_turn(whole))
        return replace(self._replayed(self._env, trajectory, pictured), terms=terms)

    def _replayed(self, stack: gym.Env[Any, Any], trajectory: Trajectory, pictured: bool) -> ReplayedEpisode:
        """Replay an episode in its environment, and return all but its terms."""
        view_of, has_pictures = companion(stack, "conversation_view"), draws(stack)
        names = tuple(action.name for action in getattr(core_of(stack), "expanded_actions", ()))
        note = FULL if has_pictures and not pictured else ""
        if view_of is None and (note or not has_pictures):
            return ReplayedEpisode(note=note, names=names)
        env = Painter(stack, len(trajectory.turns)) if has_pictures and pictured else stack
        try:
            replay(env, trajectory)
            conversation = _with_feedback(view_of(env), trajectory) if view_of is not None else None
        except (ReplayMismatch, EnvFault) as error:
            return ReplayedEpisode(note=_reason(view_of is not None, " ".join(str(error).split())))
        except NOT_HERE as error:
            return ReplayedEpisode(note=_reason(view_of is not None, type(error).__name__))
        return ReplayedEpisode(conversation, tuple(env.pictures) if isinstance(env, Painter) else (), note, names)

    def _open_entry(self, entry: Entry) -> None:
        """Open an entry's environment and tasks in place of another's; what is missing becomes a note, not an error."""
        if entry is self._entry:
            return

        def missing(why: str) -> None:
            """Note once for an entry that its episodes are not shown in full, and why."""
            lack = "questions, gold answers and what else only the environment knows are not all shown"
            self.notes.setdefault(entry.label, f"{entry.label}: {lack}, as {why}.")

        self._entry, self._tasks, self._env = entry, EntryTasks(entry, missing), None
        self._digests = {task: content for task, content, _ in entry.tasks}
        if ":" in entry.env_id:  # a page must not import what a run's file names
            missing("its environment is not registered here")
        elif self._tasks.env is not None:
            try:
                core_of(self._tasks.env).services = Services(self._open_recording())
                self._env = self._tasks.env
            except NOT_HERE as error:
                missing(f"the run's recorded answers cannot be read ({type(error).__name__})")

    def _open_recording(self) -> Recording:
        """Open the run's recording for replay, once; an empty one where the run recorded nothing."""
        if self._recording is None:
            path = self._externals
            if not path.is_file():
                path = Path(self._open.enter_context(tempfile.TemporaryDirectory())) / path.name
                path.touch()
            self._recording = self._open.enter_context(Recording(path, "replay"))
        return self._recording


def _with_feedback(view: ConversationView, trajectory: Trajectory) -> ConversationView:
    """Add a wrapper's feedback to a conversation, across both sides, at the end of each turn."""
    messages_by_turn = [(0, trajectory.prompt)]
    for turn in trajectory.turns:
        news = turn.observation if turn.context == "append" else turn.observation[-1:]
        messages_by_turn.append((turn.index, news))
    more = [
        ViewEntry("", "note", message.content, turn=turn)
        for turn, messages in messages_by_turn
        for message in messages
        if message.author == "feedback"
    ]
    return replace(view, entries=(*view.entries, *more))


def _reason(conversation: bool, why: str) -> str:
    """Return the sentence on why an episode could not be stepped again and what is therefore not shown."""
    what = "Only the policy's side is shown" if conversation else "No pictures are shown"
    return f"{what}, as the episode could not be stepped again: {why[:LONGEST_REASON]}"
