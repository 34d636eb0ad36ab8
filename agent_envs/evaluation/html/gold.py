"""Gold answers for a page, from the environments' own task sources, where those can be made here."""

import gymnasium as gym

from agent_envs.base.errors import AgentEnvsError
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Entry
from agent_envs.rollout.policy import core_of
from agent_envs.core.trajectory import Header, TaskSource


class GoldAnswers:
    """Reads one entry's source at a time: ask for the tasks of an entry together."""

    def __init__(self) -> None:
        """Start with none."""
        self.notes: dict[str, str] = {}
        self._entry: Entry | None = None
        self._source: TaskSource | None = None

    def of(self, entry: Entry, header: Header) -> tuple[str, ...]:
        """Return the gold answers of an episode's task; none, and a line in `notes`, where they are not known here."""
        if entry is not self._entry:
            self._entry, self._source = entry, self._made(entry)
        if self._source is None or not header.task_digest:
            return ()
        try:
            task = self._source.get(entry.split, header.task_id)
        except (KeyError, AgentEnvsError):
            self._missing(entry, "a task is not there")
            return ()
        if task.digest != header.task_digest:
            self._missing(entry, "a task has another content here")
            return ()
        return task.gold

    def _made(self, entry: Entry) -> TaskSource | None:
        if ":" in entry.env_id:  # a page must not import what a run's file names
            self._missing(entry, "its environment is not registered here")
            return None
        try:
            return core_of(entry_env(entry)).source
        except (AgentEnvsError, gym.error.Error, OSError, ImportError, KeyError) as error:
            # The message may name folders of this machine, and pages are passed on.
            self._missing(entry, f"its environment cannot be made here ({type(error).__name__})")
            return None

    def _missing(self, entry: Entry, why: str) -> None:
        self.notes.setdefault(entry.label, f"{entry.label}: gold answers are not shown, as {why}.")
