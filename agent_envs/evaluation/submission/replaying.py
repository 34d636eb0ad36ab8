"""`RowReplayer` steps the actions of a submission's row again: packing and verification both call it, and nothing else.

The row that a replay gives is compared with the row that was handed in, field by field. Everything but `FREE` is computed
again from the suite and the actions, so nothing else in a row is believed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium as gym
from pydantic import ValidationError

from agent_envs.base.errors import AgentEnvsError, DataMissing, MissingExtra, UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of, shown_messages
from agent_envs.core.episode import border_notes
from agent_envs.core.registry import companion
from agent_envs.core.snapshot import fork
from agent_envs.core.trajectory import Header, Trajectory, Turn, ends_by_agent
from agent_envs.evaluation.runs.run_folder import RunEpisode
from agent_envs.evaluation.submission.episode_rows import EpisodeRow, chain_of, row_of, row_text
from agent_envs.evaluation.suites.plan import NOT_HERE, entry_env
from agent_envs.evaluation.suites.suite import Entry, Suite, changes, first_fault, seed_of
from agent_envs.rollout.episode_runner import EpisodeResult, record_turn
from agent_envs.rollout.policy import Reply
from agent_envs.services.http.faults import one_line
from agent_envs.services.recording import NotRecorded
from agent_envs.services.run_services import Services

FREE = ("usage", "seconds", "agent_seconds")  # no replay can know them
MOST_FINDINGS = 20
_CUT = re.compile(r"action cut to ([0-9]{1,9}) of ([0-9]{1,15}) characters")


@dataclass(frozen=True, slots=True)
class Place:
    """A planned episode: its place in the suite, and the header that its record must have."""

    entry: Entry
    cluster: str
    trial: int
    header: Header


@dataclass(frozen=True)
class Checked:
    """The result of replaying one row. Numbers are the replay's, never the row's."""

    key: str = ""  # of the episode; "" where the row cannot be read
    status: str = ""  # as in the row; `terminated` and `truncated` are as replayed
    success: bool = False  # by the suite's predicate
    total: float = 0.0  # the return
    turns: int = 0  # that were stepped
    actions: str = ""  # sha256 of the actions, by which equal episodes are known
    by_solver: bool = False  # the built-in solver takes the very same actions
    findings: tuple[str, ...] = ()  # what is wrong, each naming the field; none for a sound row
    unknown: str = ""  # why the row cannot be checked here; "" where it was
    answer_keys: tuple[str, ...] = ()  # keys of the recorded answers that its replay was given


def places_of(suite: Suite) -> Iterator[tuple[str, Place]]:
    """Yield (episode key, place) of every planned episode, in the order of the suite."""
    for entry in suite.entries:
        for task, content, cluster in entry.tasks:
            for trial in range(suite.trials):
                key = suite.key(entry, task, trial)
                header = Header(entry.env_id, entry.spec_digest, task, entry.split, content, seed_of(key), key)
                yield key, Place(entry, cluster, trial, header)


class _RowFault(Exception):
    """A fault of the row: no replay gives it; the message names the field."""


class _ReplayUnavailable(Exception):
    """A part that a replay needs is missing here, or is another version."""


@dataclass
class RowReplayer:
    """Replays rows of one suite."""

    suite: Suite  # as the reader knows it; never the one that a stranger handed in
    services: Services  # with the recording that answers for outside services
    flags: bool = False  # whether actions are compared with the built-in solver's
    _envs: dict[str, gym.Env[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Map the suite's episodes to their places."""
        self._places = dict(places_of(self.suite))

    def check(self, label: str, line: bytes) -> Checked:
        """Replay a line of the entry's episodes; what is wrong with it, or why it cannot be replayed here, is in the result."""
        try:
            row = EpisodeRow.model_validate_json(line)
        except (ValidationError, RecursionError) as error:
            what = first_fault(error) if isinstance(error, ValidationError) else "nested too deeply"
            return Checked(findings=(what,))
        place = self._places.get(row.key)
        if place is None or place.entry.label != label:
            why = "is not planned" if place is None else f"belongs to entry {place.entry.label}"
            return Checked(row.key, findings=(f"key: episode {row.key} {why}",))
        outcome = Checked(row.key, row.status, actions=digest([turn.action for turn in row.turns]) if row.turns else "")
        try:
            again, by_solver, success = self._replay_row(row, place)
        except _RowFault as wrong:
            return replace(outcome, findings=(str(wrong),))
        except _ReplayUnavailable as lack:
            return replace(outcome, unknown=str(lack))
        findings: list[str] = []
        if row_text(again).encode() != line:
            findings = _differences(row, again) or ["the line is not in canonical form"]
        return replace(
            outcome,
            success=success,
            total=again.result.total,
            turns=len(again.turns),
            by_solver=by_solver,
            answer_keys=tuple(dict.fromkeys(self._answer_keys)) if row.turns else (),
            findings=tuple(findings[:MOST_FINDINGS]),
        )

    def _replay_row(self, row: EpisodeRow, place: Place) -> tuple[EpisodeRow, bool, bool]:
        """Replay a row into a new row, and return whether a solver gave its actions, and whether it counts as a success.

        Raises `_RowFault` where the result is no row.
        """
        head = replace(place.header)
        result, by_solver = EpisodeResult(Trajectory(head, (), ()), row.status), False
        if row.turns:
            result, by_solver = self.play(row, place)
        result = replace(result, usage=dict(row.usage), seconds=row.seconds, agent_seconds=row.agent_seconds)
        try:
            again = row_of(RunEpisode(row.key, place.entry, place.cluster, place.trial, result))
        except ValidationError as error:
            raise _RowFault(f"replayed, it is no row: {first_fault(error)}") from None
        return again, by_solver, bool(again.turns) and place.entry.solved(result.trajectory)

    def play(self, row: EpisodeRow, place: Place) -> tuple[EpisodeResult, bool]:
        """Return a row's replayed episode, and if the solver acts alike; `_RowFault`, `_ReplayUnavailable` if it fails."""
        where = "reset"
        self._answer_keys.clear()
        try:
            env = self._env(place.entry)
            prompt = self._reset(env, place)
            turns: list[Turn] = []
            info: dict[str, Any] = {}
            solving = companion(env, "solver") if self.flags else None
            for old in row.turns:
                where = f"turns.{old.t - 1}"
                if turns and (turns[-1].terminated or turns[-1].truncated):
                    raise _RowFault(f"{where}: the episode ended before it, in turn {turns[-1].index}")
                if solving is not None and _solver_action(solving, env) != old.action:
                    solving = None
                core_of(env).reply_cut = old.outcome == "cut"
                step = env.step(old.action)
                info = step[4]
                new = record_turn(env, step, Reply("", outcome=old.outcome))
                turns.append(replace(new, events=_border_events(old.events, old.action) + new.events))
        except (_RowFault, _ReplayUnavailable):
            raise
        # A stranger's text may meet an error of ours: then this row is not verified, and the others are.
        except Exception as error:  # noqa: BLE001
            raise _classify(error, place.entry.label, where, bool(self._answer_keys)) from None
        last = turns[-1]
        if not (last.terminated or last.truncated):
            if not (row.turns[-1].truncated and ends_by_agent(turns)):
                raise _RowFault(f"turns: the episode goes on after turn {last.index}, the last in the row")
            last = turns[-1] = replace(last, truncated=True)
        success = bool(info.get("success", False))
        trajectory = Trajectory(place.header, prompt, tuple(turns), None, success)
        return EpisodeResult(trajectory, "terminated" if last.terminated else "truncated"), solving is not None

    @property
    def _answer_keys(self) -> list[str]:
        """The keys of the recorded answers that this row was given so far."""
        return self.services.recording.answer_keys if self.services.recording is not None else []

    def _reset(self, env: gym.Env[Any, Any], place: Place) -> tuple[Any, ...]:
        """Reset to a row's task and return the prompt's messages; `_ReplayUnavailable` if spec or task differ here."""
        head = place.header
        try:
            _, info = env.reset(
                seed=head.seed, options={"task": head.task_id, "split": head.split, "episode_key": head.episode_key}
            )
        except UsageError as error:
            raise _ReplayUnavailable(f"{place.entry.label}: {one_line(str(error))}") from None
        fresh = core_of(env).episode.header
        for name in ("spec_digest", "task_digest"):
            if getattr(fresh, name) != getattr(head, name):
                raise _ReplayUnavailable(
                    f"{place.entry.label}: {name} of task {head.task_id!r} is another one in this installation"
                )
        return shown_messages(env, info)

    def _env(self, entry: Entry) -> gym.Env[Any, Any]:
        """Return the entry's environment, made once; `_ReplayUnavailable` if it cannot be made here."""
        if entry.label not in self._envs:
            try:
                env = entry_env(entry)
            except NOT_HERE as error:
                raise _ReplayUnavailable(f"{entry.label}: {one_line(str(error))}") from None
            core_of(env).services = self.services
            self._envs[entry.label] = env
        return self._envs[entry.label]


def _classify(error: Exception, label: str, where: str, served: bool) -> _RowFault | _ReplayUnavailable:
    """Classify an error in a replay: one of the row, of a recorded answer that was served, or of this installation."""
    lacking = isinstance(error, MissingExtra | DataMissing)
    if isinstance(error, NotRecorded) or (served and not lacking):
        return _RowFault(f"{where}: externals: {one_line(str(error))}")
    if isinstance(error, UsageError):
        return _RowFault(f"{where}.action: {one_line(str(error))}")
    kind = "" if isinstance(error, AgentEnvsError) else f"{type(error).__name__}: "
    return _ReplayUnavailable(f"{label}, {where}: {kind}{one_line(str(error))}")


def _differences(row: EpisodeRow, again: EpisodeRow) -> list[str]:
    """Return the fields in which a row differs from its replay, and its chain where that is not even the row's own."""
    old, new = row.model_dump(mode="json"), again.model_dump(mode="json")
    stale = ["chain: it is not that of the row"] if chain_of(row) != row.chain else []
    del old["chain"], new["chain"]
    names = changes(new, old)
    return [*stale, *(f"{name} (replayed -> in the row)" for name in names)]


def _border_events(events: tuple[str, ...], action: str | int) -> tuple[str, ...]:
    """Return a turn's notes on cut or replaced text; `_RowFault` if one repeats or contradicts the recorded action."""
    notes = border_notes(events)
    for note in notes:
        cut = _CUT.fullmatch(note)
        fits = isinstance(action, str) and (len(action) == int(cut[1]) < int(cut[2]) if cut else "?" in action)
        if not fits or notes.count(note) > 1:
            raise _RowFault(f"events: {note[:100]!r} cannot be true of this action")
    return notes


def _solver_action(solver: Any, env: gym.Env[Any, Any]) -> str | int | None:
    """Ask a solver for its action in a fork of the environment; None if it raises."""
    try:
        choice: str | int = solver(fork(env))
        return choice
    except Exception:  # noqa: BLE001 - a solver that gives up has not taken this action
        return None
