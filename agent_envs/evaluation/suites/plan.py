"""A person's choice becomes a suite here, and a suite becomes the episodes that are played."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from pydantic import ValidationError

from agent_envs.base.errors import AgentEnvsError, DataMissing, MissingExtra, UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.base.terminal import stage_lines
from agent_envs.core.env import TurnEnv, core_of, spec_json
from agent_envs.core.registry import NAMESPACE, companion, full_id
from agent_envs.evaluation.suites.suite import ADHOC, Entry, Feedback, Suite, first_fault, seed_of
from agent_envs.rollout.episode_runner import Planned
from agent_envs.wrappers import ForcedAnswer, TurnLimit, VerbalFeedback

# Why no environment is made.
NOT_HERE = (AgentEnvsError, gym.error.Error, OSError, ImportError, AttributeError, KeyError)
QUIET_SECONDS = 2.0


@dataclass(frozen=True)
class Choice:
    """A person's choice: one environment, over the values of one argument or over turn limits where these are given."""

    env_id: str  # an id, short or full
    arguments: dict[str, Any] = field(default_factory=dict)  # of the environment
    split: str = ""  # "" for test, else dev, else the last there is
    limit: int | None = None  # only the first tasks; None for the whole split
    trials: int = 1  # episodes a task
    sweep: tuple[str, tuple[Any, ...]] | None = None  # (argument, its values), or None
    turn_limits: tuple[int, ...] = ()  # free turns before a forced answer; turns where none can be forced
    feedback: tuple[Feedback | None, ...] = (None,)  # before every turn; several are entries of their own


def adhoc_suite(choice: Choice) -> Suite:
    """Return a choice's suite, unscored with several entries; UsageError for limit or trials below 1, or a turn limit twice."""
    if (choice.limit is not None and choice.limit < 1) or choice.trials < 1:
        raise UsageError(f"limit={choice.limit} and trials={choice.trials}: give numbers >= 1")
    if len(set(choice.turn_limits)) < len(choice.turn_limits):
        raise UsageError(f"turn limits {choice.turn_limits}: each one once")
    try:
        entries = tuple(_entries(choice))
    except ValidationError as error:
        raise UsageError(f"{choice.env_id}: {first_fault(error)}") from None
    return Suite(id=ADHOC, version="0.0", scored=len(entries) == 1, trials=choice.trials, entries=entries)


def _entries(choice: Choice) -> Iterator[Entry]:
    """Yield a suite's entries: one for each value of the sweep, turn limit and feedback, labelled by what varies."""
    name, values = choice.sweep or ("", (None,))
    for value in values:
        arguments = {**choice.arguments, **({name: value} if name else {})}
        env = gym.make(full_id(choice.env_id), **arguments)
        core = core_of(env)
        split = choose_split(choice, core.source.splits)
        label = [f"{name}={value if isinstance(value, str) else canonical_json(value)}"] if name else []
        tasks = tasks_of(core, split, choice.limit)
        unit = "free_turns" if core.answer_tags[0] else "turns"
        limits = allowed_limits(core, choice.turn_limits) or (None,)
        for turns, feedback in itertools.product(limits, choice.feedback):
            parts = label if turns is None else [*label, f"{unit}={turns}"]
            if len(choice.feedback) > 1 or feedback is not None:
                parts = [*parts, feedback.label if feedback is not None else "feedback=none"]
            yield Entry(
                label=" ".join(parts) or core.env_id.removeprefix(f"{NAMESPACE}/"), env_id=core.env_id,
                arguments=arguments, spec_digest=core.spec_digest, split=split, turn_limit=turns, feedback=feedback,
                tasks=tasks,
            )  # fmt: skip


def allowed_limits(core: TurnEnv, turn_limits: tuple[int, ...]) -> tuple[int, ...]:
    """Return turn limits cut to the most that an environment grants, each once; UsageError for 0 if no answer can be forced."""
    forces = bool(core.answer_tags[0])
    if not forces and 0 in turn_limits:
        raise UsageError(f"{core.env_id} has no answer to force: give turn limits >= 1")
    most = core.max_turns - forces
    return tuple(dict.fromkeys(min(turns, most) for turns in turn_limits))


def first_tasks(suite: Suite, limit: int | None) -> Suite:
    """Return a suite with the first `limit` tasks of each entry only; the same suite for None."""
    if limit is None:
        return suite
    entries = tuple(entry.model_copy(update={"tasks": entry.tasks[:limit]}) for entry in suite.entries)
    return suite.model_copy(update={"entries": entries})


def playable_part(suite: Suite) -> tuple[Suite, list[str]]:
    """Return a suite without the entries that lack packages or data here, and a line on each; UsageError if none is left."""
    left, lacking = [], []
    for entry in suite.entries:
        try:
            env = entry_env(entry)
            core_of(env).source.get(entry.split, entry.tasks[0][0])
            if entry.feedback is None and not core_of(env).live_service:
                env.reset(seed=0, options={"task": entry.tasks[0][0], "split": entry.split})  # which needs the tools
            left.append(entry)
        except (MissingExtra, DataMissing) as error:
            lacking.append(f"{entry.label} is skipped: {error}")
    if not left:
        raise UsageError(f"{suite.name}: no entry can be played here; {lacking[0]}")
    return suite.part(tuple(left)), lacking


def choose_split(choice: Choice, splits: tuple[str, ...]) -> str:
    """Return the split asked for, else test, else dev, else the last there is; UsageError for an unknown one."""
    if choice.split and choice.split not in splits:
        raise UsageError(f"{choice.env_id}: no split {choice.split!r}; the splits are {', '.join(splits)}")
    return choice.split or next((name for name in ("test", "dev") if name in splits), splits[-1])


def tasks_of(core: TurnEnv, split: str, limit: int | None) -> tuple[tuple[str, str, str], ...]:
    """Return (id, digest, cluster) of the first `limit` tasks, or all, each id once; tells progress on stderr after 2 s."""
    size = core.source.size(split)
    most, tell, start = size if limit is None else min(limit, size), stage_lines(core.env_id), time.monotonic()
    rows: dict[str, tuple[str, str, str]] = {}
    for index in range(most):
        task = core.source.get(split, index)
        if time.monotonic() - start > QUIET_SECONDS:  # worlds of Crafter take 40 ms each
            tell("tasks drawn", (index + 1) / most)
        # A generated world with fewer questions than asked for repeats them.
        rows.setdefault(task.id, (task.id, task.digest, task.cluster or task.id))
    return tuple(rows.values())


def ceiling_note(env: gym.Env[Any, Any], split: str, tasks: Sequence[str] | None = None) -> str:
    """Return a note on tasks of a split that cannot succeed, or that this is not known as a companion fails; "" if all can.

    `tasks` are the ids of those that are played; None for all of the split.
    """
    try:
        lost = _call_companion(env, "out_of_reach", {}, split)
    except UsageError as error:
        return f"the ceiling is not known: {error}"
    ids = None if tasks is None else frozenset(tasks)
    reasons = Counter(reason for name, reason in lost.items() if ids is None or name in ids)
    count = core_of(env).source.size(split) if tasks is None else len(tasks)
    summary = " and ".join(f"{number} of {count} tasks {reason}" for reason, number in reasons.items())
    return summary and f"{summary}: the ceiling is {100 * (1 - reasons.total() / count):.1f} %"


def gold_note(env: gym.Env[Any, Any]) -> str:
    """Return a note that an environment's arguments show the gold, or that this is not known; "" where they do not."""
    try:
        reason = _call_companion(env, "shows_gold", "")
    except UsageError as error:
        return f"whether the gold is shown is not known: {error}"
    return reason and f"the gold is shown, {reason}: a diagnosis, and no score of an agent"


def _call_companion(env: gym.Env[Any, Any], kind: str, nothing: Any, *more: Any) -> Any:
    """Return a companion's text or texts by name, `nothing` without one; UsageError where it fails or gives another type.

    Raises:
        UsageError: it failed or told something else; a stranger's companion ends no run.
    """
    try:
        look = companion(env, kind)
        answer = look(env, *more) if look else nothing
        rows = answer.items() if isinstance(answer, dict) else [(answer,)]
        if type(answer) is not type(nothing) or not all(isinstance(part, str) for row in rows for part in row):
            raise TypeError(f"it returned {answer!r}")
    except Exception as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"the companion {kind} of {core_of(env).env_id} failed: {what[:300]}") from error
    return answer


@dataclass(frozen=True)
class Notes:
    """Notes on a suite before it is played, by entry: the gold is visible, tasks cannot succeed."""

    shows_gold: tuple[str, ...] = ()
    ceilings: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.shows_gold, *self.ceilings)


def notes_on(suite: Suite) -> Notes:
    """Return `gold_note` and `ceiling_note` of every entry that has one."""
    gold, reach = dict[str, str](), dict[str, str]()
    for entry in suite.entries:
        env = entry_env(entry)
        gold[entry.label] = gold_note(env)
        reach[entry.label] = ceiling_note(env, entry.split, [name for name, _, _ in entry.tasks])
    lines = [tuple(f"{label}: {note}" for label, note in by_label.items() if note) for by_label in (gold, reach)]
    return Notes(*lines)


def plan_of(suite: Suite) -> list[Planned]:
    """Return a suite's planned episodes; UsageError where an environment or a task is another one here than in the suite.

    Raises:
        UsageError: an environment or a task is another one here than where the suite was written.
    """
    specs = {}
    for entry in suite.entries:
        env = entry_env(entry)
        core = core_of(env)
        where = f"suite {suite.name}, {entry.label}"
        if core.spec_digest != entry.spec_digest:
            raise UsageError(
                f"{where}: {entry.env_id} is another environment here (spec digest {entry.spec_digest[:12]} -> "
                f"{core.spec_digest[:12]}): its data, its reward or its arguments changed"
            )
        for name, content, _ in entry.tasks:
            try:
                here = core.source.get(entry.split, name).digest
            except KeyError:
                raise UsageError(f"{where}: there is no task {name!r} in split {entry.split!r} here") from None
            if here != content:
                raise UsageError(f"{where}: task {name!r} has another content here ({content[:12]} -> {here[:12]})")
        specs[entry.label] = spec_json(env)
    return [
        Planned(key, specs[entry.label], task, entry.split, seed_of(key), trial)
        for key, entry, task, _, trial in suite.episodes()
    ]


def entry_env(entry: Entry) -> gym.Env[Any, Any]:
    """Return the environment of an entry with its turn limit and feedback; UsageError if the feedback's templates changed."""
    env, turns = _make_env(entry), entry.turn_limit
    if turns is not None:
        env = ForcedAnswer(env, free_turns=turns) if core_of(env).answer_tags[0] else TurnLimit(env, turns=turns)
    if entry.feedback is None:
        return env
    adviser = entry.feedback
    wrapper = VerbalFeedback(
        env, feedback=adviser.model, epsilon=adviser.epsilon, templates=adviser.texts or "", options=adviser.options
    )
    if wrapper.templates != adviser.templates:
        raise UsageError(
            f"{entry.label}: its feedback was asked for with templates {adviser.templates}, and these are {wrapper.templates}"
        )
    return wrapper


def _make_env(entry: Entry) -> gym.Env[Any, Any]:
    """Make an entry's environment; errors in its arguments become UsageError, faults of the machine stay."""
    arguments: dict[str, Any] = dict(entry.arguments)
    try:
        return gym.make(full_id(entry.env_id), **arguments)
    except (AgentEnvsError, gym.error.Error, OSError, ImportError, KeyError):
        raise
    except TypeError as error:
        raise UsageError(f"{entry.env_id}: {error}") from error
    except (ValueError, AttributeError, ArithmeticError, LookupError, RecursionError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(
            f"{entry.env_id} cannot be made with {canonical_json(arguments)[:300]}: {what[:300]}"
        ) from error
