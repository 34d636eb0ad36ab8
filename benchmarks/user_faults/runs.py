"""`findings` steps the tau2 episodes of a run's folder again and looks for faults of their simulated users.

A journal holds what the agent saw and did; what the user did with its own tools, the environment tells when the episode is
stepped again. Nothing is asked live: models answer from the run's recording, or the episode counts as unread.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import gymnasium as gym

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.core.wrapper_stack import core_of
from agent_envs.envs.tau2.env import Tau2Env
from agent_envs.evaluation.runs.measures import class_of
from agent_envs.evaluation.runs.run_folder import Played, Run, open_run
from agent_envs.evaluation.suites.plan import entry_env
from agent_envs.evaluation.suites.suite import Entry
from agent_envs.rollout.episode_runner import replay
from agent_envs.rollout.run_log import UNFINISHED
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from benchmarks.user_faults.findings import Findings, Judged
from benchmarks.user_faults.rules import UserFault, user_faults


def is_run(path: Path) -> bool:
    """Return whether a path is the folder of a run."""
    return (path / "config.json").is_file() and (path / "suite.json").is_file()


def episode_faults(core: Tau2Env) -> tuple[UserFault, ...]:
    """Return what the simulated user of an episode that is over did beyond its scenario; nothing where there is none."""
    if core.face.side == "user" or core.partner is None:
        return ()
    task, dialogue = core.opened(core.episode.task)[0], core.episode.state
    return user_faults(task, dialogue.lines, dialogue.ended, core.rules.domain, core.arguments["persona"])


def findings(path: Path) -> list[Findings]:
    """Return what a run holds, an entry of its suite with a simulated user each.

    Raises:
        UsageError: its parts do not belong together, or no episode of it has a simulated user.
    """
    run = open_run(path)
    with ExitStack() as stack:
        entries = _Entries(run, _recording(run, stack))
        for played in run.rows():
            entries.take(played)
    if not entries.found:
        raise UsageError(f"{path}: no episode of the run has a simulated user of tau2")
    return list(entries.found.values())


class _Entries:
    """The findings and the environment of each entry, by its label."""

    def __init__(self, run: Run, recording: Recording) -> None:
        self._run, self._services = run, Services(recording)
        self._made: dict[str, gym.Env[str, str] | None] = {}
        self.found: dict[str, Findings] = {}

    def take(self, played: Played) -> None:
        """Step an episode again and keep what was found."""
        label = played.entry.label
        if label not in self._made:
            self._made[label] = self._environment(played.entry)
        env = self._made[label]
        if env is None:
            return
        core = _core(env)
        user = core.partner.name if core.partner is not None else ""
        found = self.found.setdefault(
            label, Findings(f"{self._run.folder}: {label}", core.domain, self._run.agent, user)
        )
        trajectory = played.result.trajectory
        if played.result.status in UNFINISHED or not trajectory.turns:
            found.unread.append(f"{played.key}: the episode was not finished")
            return
        try:
            replay(env, trajectory)
        except AgentEnvsError as error:
            found.unread.append(f"{played.key}: {' '.join(str(error).split())}"[:300])
            return
        faults = episode_faults(core)
        said = tuple(core.episode.state.lines[fault.line].text[:2000] for fault in faults)
        found.judged.append(Judged(trajectory.header.task_id, played.trial, bool(trajectory.success), faults, said))

    def _environment(self, entry: Entry) -> gym.Env[str, str] | None:
        """Return an entry's environment; None where it is another family's, or has no simulated user."""
        if ":" in entry.env_id or not issubclass(class_of(entry), Tau2Env):  # no import of what a file names
            return None
        env = entry_env(entry)
        core = _core(env)
        core.services = self._services
        return env if core.partner is not None and core.face.side == "assistant" else None


def _core(env: gym.Env[str, str]) -> Tau2Env:
    core = core_of(env)
    assert isinstance(core, Tau2Env)
    return core


def _recording(run: Run, stack: ExitStack) -> Recording:
    path = run.externals
    if not path.is_file():
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / path.name
        path.touch()
    return stack.enter_context(Recording(path, "replay"))
