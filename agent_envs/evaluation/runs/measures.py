"""`EpisodeNumbers` holds what tables need of one episode, so that a run of ten thousand holds no transcript.

`Measures` finds what a family says of it beside success: labels of its task and metrics of what was played. Both are
companions of the environment's class (`register_companions`) and are computed when a run is read, from the same trajectories
whether they were just played or come from a journal. Journals hold no tasks: those are fetched from the source of the entry's
environment, which is made only where the class has such companions and a task is wanted. The numbers of a large run are kept
in the cache folder (`NumbersCache`) for as long as journal, settings and code are the same.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from agent_envs.base.caches import load_rows, place_of, save_rows
from agent_envs.base.dialects import TOLERATED
from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Answer, Call, Malformed, Say, sound_json
from agent_envs.base.serialization import sha256_file
from agent_envs.base.type_checks import misfit
from agent_envs.core.env import core_of
from agent_envs.core.episode import Share
from agent_envs.core.registry import companion_of, env_ids, full_id
from agent_envs.core.trajectory import CONTEXT_FULL, Task, Trajectory, Turn
from agent_envs.evaluation.suites.plan import NOT_HERE, entry_env
from agent_envs.evaluation.suites.suite import Entry, Suite
from agent_envs.rollout.episode_runner import EpisodeResult

FAILURES = {
    "solved": "the task was solved",
    "wrong answer": "the episode ended with an answer that is not right",
    "out of turns": "the turns were used up",
    "unreadable": "the turns were used up, and at least half of them held no readable action",
    "not achieved": "the episode ended by the task's own rules, without success and without an answer",
    "fault": "an outside service failed for good",
    "budget": "the cost limit was reached",
    "missing": "it was not played",
    "refused": "the model, or a filter of its service, would not reply: a limit of the agent's, which counts 0",
    "context full": "a prompt was longer than the model's context: a limit of the agent's, which counts 0",
}
UNPLAYED = ("fault", "budget", "missing")
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


Companion = Callable[[Any], Any]
MOST_TASKS = 256  # kept of an entry: trials of a task lie near each other in a journal
LEAST = 1_000  # episodes: a smaller run is read in less than the start of a process takes


@dataclass(frozen=True, slots=True)
class EpisodeNumbers:
    """The measures of one planned episode."""

    entry: str  # label of the suite's entry
    task: str
    cluster: str
    trial: int
    status: str  # `terminated`, `truncated`, `fault`, `budget` or `missing`
    outcome: str  # one of `FAILURES`
    success: bool = False  # by the suite's predicate; False where it was not played to its end
    total_reward: float = 0.0  # undiscounted return
    turns: int = 0  # actions of the policy
    valid: int = 0  # of them, those that were readable and carried out as meant
    calls: int = 0  # tool calls that were carried out
    prose: int = 0  # characters that the policy wrote beside its actions: its reasoning
    usage: dict[str, int] = field(default_factory=dict)  # tokens by name
    seconds: float = 0.0  # wall time
    agent_seconds: float = 0.0  # the policy's part of it
    attempts: int = 0  # how many attempts failed before this one
    fault: str = ""  # what failed
    labels: dict[str, str] = field(default_factory=dict)  # of its task, as the family names them
    metrics: dict[str, float | None] = field(default_factory=dict)  # as the family counts them, None: does not apply
    shares: list[str] = field(default_factory=list)  # the metrics that are printed in per cent
    replies: dict[str, int] = field(default_factory=dict)  # how the policy's ended, see `reply_counts`

    @property
    def complete(self) -> bool:
        """Whether the episode came to an end of its own."""
        return self.status not in UNPLAYED


def unplayed_numbers(entry: Entry, task: str, cluster: str, trial: int) -> EpisodeNumbers:
    """Return the numbers of a planned episode that was not played."""
    return EpisodeNumbers(entry.label, task, cluster, trial, "missing", "missing")


def numbers_of(entry: Entry, cluster: str, trial: int, result: EpisodeResult) -> EpisodeNumbers:
    """Return the numbers of a result: outcome, success, reward, turns, calls, usage and times."""
    trajectory = result.trajectory
    turns = trajectory.turns
    replies = reply_counts(turns)
    success = result.status not in UNPLAYED and entry.solved(trajectory)
    return EpisodeNumbers(
        entry=entry.label, task=trajectory.header.task_id, cluster=cluster, trial=trial, status=result.status,
        outcome=outcome_of(result, success), success=success, total_reward=trajectory.total_reward, turns=len(turns),
        valid=sum(map(valid_turn, turns)), calls=tool_calls(turns).total(), prose=sum(map(_prose, turns)),
        usage=result.usage, seconds=result.seconds, agent_seconds=result.agent_seconds, attempts=len(result.attempts),
        fault=result.fault, replies=replies, metrics=_reply_metrics(replies),
        shares=["refused"],
    )  # fmt: skip


def reply_counts(turns: Sequence[Turn]) -> dict[str, int]:
    """Count the replies with a finish reason, and a full context, by kind; {} where no turn has a reason.

    `all` of them; `cut` by a limit on their tokens, `cut_invalid` those of them without a valid action and `thought` those that
    came to no text beside thoughts; `refused` where the last reply was; `full` where the context was, with its `prompt_tokens`
    and `context_tokens`.
    """
    replies = [turn for turn in turns if turn.finish_reason and turn.outcome != "full"]
    cut = [turn for turn in replies if turn.outcome == "cut"]
    invalid, thoughts = (sum(map(kind, cut)) for kind in (lambda turn: not valid_turn(turn), _only_thoughts))
    counts = {"all": len(replies), "cut": len(cut), "cut_invalid": invalid, "thought": thoughts} if replies else {}
    if turns and turns[-1].outcome == "refused":
        counts |= {"refused": 1}
    if turns and turns[-1].outcome == "full":
        prompt, _, context = turns[-1].finish_reason.removeprefix(CONTEXT_FULL).partition("/")
        tokens = [int(text) if (text := part.strip()[:12]).isdecimal() else 0 for part in (prompt, context)]
        counts |= {"full": 1, "prompt_tokens": tokens[0], "context_tokens": tokens[1]}
    return counts


def _reply_metrics(counts: Mapping[str, int]) -> dict[str, float | None]:
    """Return the metrics of replies: those that were cut, and whether the episode ended in a refusal; {} without reasons."""
    return {"cut_replies": float(counts["cut"]), "refused": float(counts.get("refused", 0))} if "cut" in counts else {}


def _only_thoughts(turn: Turn) -> bool:
    return not _THOUGHTS.sub("", str(turn.action)).strip()


def tool_calls(turns: Iterable[Turn]) -> Counter[str]:
    """Count the calls of each tool that were carried out."""
    results = [item for turn in turns for item in turn.results]
    return Counter(item.name for item in results if item.call_id and not item.error)


def valid_turn(turn: Turn) -> bool:
    """Return whether an action was readable, in whatever dialect, and carried out as meant."""
    odd = any(not event.startswith(TOLERATED) for event in turn.events)
    return not odd and not isinstance(turn.parsed, Malformed) and not any(item.error for item in turn.results)


def outcome_of(result: EpisodeResult, success: bool) -> str:
    """Return the key of `FAILURES` for an end: its status if unplayed, solved, by agent or limit, or by the last action."""
    if result.status in UNPLAYED:
        return result.status
    turns = result.trajectory.turns
    if success:
        return "solved"
    if turns[-1].outcome in ("refused", "full"):
        return "refused" if turns[-1].outcome == "refused" else "context full"
    if result.status == "truncated":
        return "unreadable" if 2 * sum(map(valid_turn, turns)) <= len(turns) else "out of turns"
    return "wrong answer" if isinstance(turns[-1].parsed, Answer) else "not achieved"


def _prose(turn: Turn) -> int:
    """Count a text turn's characters beside its action: the whole text less what was said, answered or called."""
    if not isinstance(turn.action, str):
        return 0
    payload = 0
    if isinstance(turn.parsed, Say):  # what is said, or the name of an action behind its reasoning
        payload = len(turn.action) if turn.parsed.text.strip() == turn.action.strip() else len(turn.parsed.text)
    elif isinstance(turn.parsed, Answer):
        payload = len(turn.parsed.text)
    elif isinstance(turn.parsed, Call):
        payload = sum(map(_payload, turn.parsed.calls))
    return max(len(turn.action) - payload, 0)


def _payload(call: ToolCall) -> int:
    """Count the characters of a call's argument values; the whole text where it is no JSON object."""
    try:
        values = sound_json(call.arguments)
    except ValueError:
        values = None
    if not isinstance(values, dict):  # no environment writes such a call; a run's file may hold one
        return len(call.arguments)
    return sum(len(value) if isinstance(value, str) else len(str(value)) for value in values.values())


class Measures:
    """Labels and metrics of the episodes of one run. `notes` tells, by entry, where they are not known and why."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self._entries: dict[str, _EntryMeasures | None] = {}

    def annotate(self, entry: Entry, numbers: EpisodeNumbers, trajectory: Trajectory | None = None) -> EpisodeNumbers:
        """Return an episode's numbers with labels and, if it ended, metrics; RuntimeError where a companion fails.

        A companion that fails, or returns something else than it should, is a RuntimeError that names the environment.
        """
        if entry.label not in self._entries:
            self._entries[entry.label] = self._measures_of(entry)
        measures = self._entries[entry.label]
        return numbers if measures is None else measures.annotate(numbers, trajectory)

    def plan_numbers(self, suite: Suite, numbers: Mapping[str, EpisodeNumbers]) -> list[EpisodeNumbers]:
        """Return the numbers of every planned episode in the order of the suite; those not among `numbers` are missing."""
        return [
            numbers.get(key) or self.annotate(entry, unplayed_numbers(entry, task, cluster, trial))
            for key, entry, task, cluster, trial in suite.episodes()
        ]

    def _measures_of(self, entry: Entry) -> "_EntryMeasures | None":
        """Return an entry's labels and metrics companions, or None without any; an unknown environment becomes a note."""
        try:
            env_class = class_of(entry)
        except NOT_HERE as error:
            why = f"its environment is not known here ({type(error).__name__})"
            self.notes[entry.label] = f"{entry.label}: labels and metrics, if it has any, are not told, as {why}"
            return None
        labels, metrics = companion_of(env_class, "labels"), companion_of(env_class, "metrics")
        return _EntryMeasures(entry, labels, metrics, self.notes) if labels or metrics else None


def class_of(entry: Entry) -> type:
    """Return the class of an entry's environment (else raise `NOT_HERE`); it is made only where no class is registered."""
    creator: Any = gym.registry[full_id(entry.env_id)].entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    return creator if isinstance(creator, type) else type(core_of(entry_env(entry)))


class _EntryMeasures:
    """One entry whose environment has such companions."""

    def __init__(
        self, entry: Entry, labels: Companion | None, metrics: Companion | None, notes: dict[str, str]
    ) -> None:
        """Set up the caches of labels by task, where equal labels share one dictionary, and of recent tasks."""
        self._entry, self._labels, self._metrics, self._notes = entry, labels, metrics, notes
        self._digests = {task: content for task, content, _ in entry.tasks}
        self._labels_by_task: dict[str, dict[str, str]] = {}
        self._equal: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._tasks = EntryTasks(entry, self._note_missing)
        self._task = lru_cache(maxsize=MOST_TASKS)(lambda name: self._tasks.get(name, self._digests[name]))

    def annotate(self, numbers: EpisodeNumbers, trajectory: Trajectory | None) -> EpisodeNumbers:
        """Add a task's labels and an ended episode's metrics to its numbers; without the task they stay as they are."""
        labels, values = self._labels_by_task.get(numbers.task), dict[str, Any]()
        record = trajectory if self._metrics and numbers.complete else None
        if labels is None or record is not None:
            task = (trajectory and trajectory.task) or self._task(numbers.task)
            if task is None:
                return numbers
            if labels is None:
                fresh = self._call_companion(
                    "labels", self._labels, task, task.id, lambda value: isinstance(value, str), "texts"
                )
                # Ten thousand tasks have few different ones.
                labels = self._labels_by_task[numbers.task] = self._equal.setdefault(tuple(fresh.items()), fresh)
            if record is not None:
                values = self._metrics_of(replace(record, task=task), task)
        metrics = {name: None if value is None else float(value) for name, value in values.items()}
        shares = [name for name, value in values.items() if isinstance(value, Share)]
        return replace(numbers, labels=labels, metrics=numbers.metrics | metrics, shares=numbers.shares + shares)

    def _metrics_of(self, trajectory: Trajectory, task: Task) -> dict[str, Any]:
        """Call the environment's metrics companion and return its numbers; RuntimeError: one is not finite."""
        fits = lambda value: value is None or (isinstance(value, int | float) and math.isfinite(value))  # noqa: E731
        return self._call_companion("metrics", self._metrics, trajectory, task.id, fits, "finite numbers")

    def _call_companion(
        self, kind: str, companion: Companion | None, subject: Any, task: str, fits: Callable[[Any], bool], what: str
    ) -> dict[str, Any]:
        """Call a companion, and return its values by name; a RuntimeError where they are of another type."""
        head = f"{self._entry.env_id}: its {kind} companion, for task {task!r},"
        try:
            values = companion(subject) if companion else {}
        except Exception as error:
            raise RuntimeError(f"{head} failed: {type(error).__name__}: {error}") from error
        if not isinstance(values, dict) or not all(isinstance(k, str) and fits(value) for k, value in values.items()):
            raise RuntimeError(f"{head} returned {str(values)[:200]}; it returns {what} by name")
        return values

    def _note_missing(self, why: str) -> None:
        """Note once for an entry that labels and metrics are not complete, and why."""
        label = self._entry.label
        self._notes.setdefault(label, f"{label}: not all labels and metrics are told, as {why}")


class EntryTasks:
    """The tasks of an entry, from the source of its environment, which is made when the first of them is asked for."""

    def __init__(self, entry: Entry, unknown: Callable[[str], None]) -> None:
        self._entry, self._note_missing = entry, unknown

    def get(self, name: str, digest: str) -> Task | None:
        """Return the task of a name if its content has this digest; else None, with a note."""
        if self.env is None:
            return None
        try:
            task = core_of(self.env).source.get(self._entry.split, name)
        except (KeyError, AgentEnvsError):
            self._note_missing("a task is not there")
            return None
        if task.digest != digest:
            self._note_missing("a task has another content here")
            return None
        return task

    @cached_property
    def env(self) -> gym.Env[Any, Any] | None:
        """The entry's environment, made once; None where it cannot be made."""
        try:
            return entry_env(self._entry)
        except NOT_HERE as error:
            # The message may name folders of this machine, and pages are passed on.
            self._note_missing(f"its environment cannot be made here ({type(error).__name__})")
            return None


_NAMES = [field.name for field in fields(EpisodeNumbers)]


class NumbersCache:
    """The cache of one run's numbers; off for small runs, and for others' environments, whose code no digest covers."""

    def __init__(self, suite: Suite, identity: dict[str, object], journal: Path) -> None:
        """Place the cache by suite, identity and journal; off for small runs, missing journals and others' environments."""
        size, ours = suite.trials * sum(len(entry.tasks) for entry in suite.entries), set(env_ids())
        fits = size >= LEAST and journal.is_file() and all(entry.env_id in ours for entry in suite.entries)
        self._suite, self._journal, self._content = suite, journal, sha256_file(journal) if fits else ""
        self._path = place_of("numbers", suite.digest(), identity, self._content) if fits else None

    def load(self) -> list[EpisodeNumbers] | None:
        """Return the numbers of every planned episode, None where they are not in the cache or do not fit the plan."""
        rows = load_rows(self._path) if self._path is not None else []
        try:
            values = [dict(zip(_NAMES, row, strict=True)) for row in rows]
        except (TypeError, ValueError):
            return None
        planned = [[entry.label, *place] for _, entry, *place in self._suite.episodes()]
        if any(misfit(EpisodeNumbers, row) for row in values) or [row[:4] for row in rows] != planned:
            return None
        return [EpisodeNumbers(**row) for row in values]

    def keep(self, numbers: list[EpisodeNumbers], measures: Measures) -> None:
        """Store a run's numbers if all are complete, no measure is missing, and the journal is as it was when it was read."""
        complete = self._path is not None and not measures.notes and all(item.complete for item in numbers)
        if self._path is not None and complete and sha256_file(self._journal) == self._content:
            save_rows(self._path, [[getattr(item, name) for name in _NAMES] for item in numbers])
