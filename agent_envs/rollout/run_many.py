"""Threads play the many episodes of a plan, with a journal that a killed run resumes from.

The journal keeps the run's settings and its finished episodes, and refuses to go on under other settings. A long text that an
episode showed is stored once: in the rows of later episodes `[start, place]` stands for it, the number `place` of the texts of
the row whose line begins at the byte `start`. Journals of `run@1` have no such references.
"""

import threading
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import BudgetSpent, UsageError
from agent_envs.base.jsonl_log import Journal, read_places, read_row, set_aside
from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.lockstep import Lane, Lockstep
from agent_envs.rollout.policy import CompanionPolicy, Policy, traits_of
from agent_envs.rollout.reply_log import RememberingPolicy, ReplyLog
from agent_envs.services.chat.model import known_counts, stored_counts
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

RUN_SCHEMA, OLD_SCHEMA = "agent-envs/run@2", "agent-envs/run@1"
KNOWN_TEXTS, KNOWN_ROWS = 4_096, 256  # that a writer and a reader keep at hand
UNFINISHED = ("fault", "budget")
MOST = 1e100  # numbers from here on are nobody's, and their squares would be no floats


FAULT_ATTEMPTS = 3


@dataclass(frozen=True)
class RunLog:
    """The files of a run.

    Attributes:
        path: the journal, which a killed run goes on from.
        about: what the caller wants to be equal when it goes on, by name; plain JSON.
        recording: where the environments' outside services are recorded, or replayed from.
        unfinished: keys of episodes that a fault or the budget ended in earlier parts of the run, once it was read.
    """

    path: Path
    about: Mapping[str, Any] = field(default_factory=dict)
    recording: Recording | None = None
    unfinished: set[str] = field(default_factory=set)


class RunJournal:
    """The journal of one run, open for writing; safe to use from many threads."""

    def __init__(self, place: RunLog, head: Mapping[str, Any]) -> None:
        """Open it. The lock comes before any reading, so that a second process cannot play the same episodes.

        Raises UsageError: another process has it.
        """
        self.path, self._unfinished = place.path, place.unfinished
        self._head = {"schema": RUN_SCHEMA, **head, **place.about}
        self._file = Journal(place.path)
        self._lock = threading.Lock()
        self._shares = True  # whether rows may refer to earlier ones
        self._places: dict[bytes, tuple[int, int]] = {}  # of the latest texts, by their sha256

    def finished(self) -> Iterator[tuple[str, EpisodeResult]]:
        """Yield (key, result) of what is finished, noting other keys; an empty journal gets its head; UsageError for another's.

        Raises UsageError: the journal belongs to another configuration, or a row is malformed.
        """
        rows = read_rows(self.path)
        if self.path.stat().st_size == 0:
            self._file.append(self._head)
        first = next(rows)
        old = first if isinstance(first, dict) else {}
        self._shares = old.get("schema") != OLD_SCHEMA
        if first != {**self._head, "schema": RUN_SCHEMA if self._shares else OLD_SCHEMA}:
            changed = ", ".join(_list_differences(old, self._head))
            raise UsageError(
                f"{self.path} was written with another {changed}: use another folder, or the same settings"
            )
        for row in rows:
            key, result = result_of(row, self.path)
            if result.status in UNFINISHED:
                self._unfinished.add(key)
            else:
                yield key, result

    def keep(self, item: Planned, result: EpisodeResult) -> None:
        """Append a result as a lean row; texts of earlier rows are references to them."""
        lean = result.trajectory.to_lean_json()
        row = {
            "key": item.key, "status": result.status, "fault": result.fault, "attempts": list(result.attempts),
            "usage": stored_counts(result.usage), "seconds": result.seconds, "agent_seconds": result.agent_seconds,
            "trial": item.trial, "trajectory": lean,
        }  # fmt: skip
        names = [sha256(text.encode("utf-8", "surrogatepass")).digest() for text in lean["texts"]]
        with self._lock:
            if self._shares:
                lean["texts"] = [self._places.get(name, text) for name, text in zip(names, lean["texts"], strict=True)]
            start = self._file.append(row)
            for place, name in enumerate(names):
                self._places.setdefault(name, (start, place))
            while len(self._places) > KNOWN_TEXTS:
                del self._places[next(iter(self._places))]

    def close(self) -> None:
        """Put everything on disk and release the file."""
        with self._lock:
            self._file.close()


def read_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a run's journal, texts in place of references; UsageError for a wrong one or a damaged earlier row.

    Raises UsageError: a row before the last is damaged, or refers to what is no text of an earlier row.
    """
    texts_by_row: dict[
        int, list[Any]
    ] = {}  # texts as they stand in their rows, so that a reference leads to no other one

    def text(start: int, place: int) -> str:
        """Return the text that a later row refers to by its row's start and its place; ValueError for a wrong reference."""
        if type(start) is not int or type(place) is not int or not (0 <= start < begin and place >= 0):
            raise ValueError(f"[{start!r}, {place!r}] is no place in an earlier row")
        if (texts := texts_by_row.get(start)) is None:
            with path.open("rb") as file:
                texts = _texts(read_row(file, start), start, texts_by_row)
        if not isinstance(content := texts[place], str):
            raise ValueError(f"[{start}, {place}] is no text")
        return content

    for row, begin in read_places(path):
        try:
            if isinstance(row, dict) and "trajectory" in row and (texts := _texts(row, begin, texts_by_row)):
                row["trajectory"]["texts"] = [item if isinstance(item, str) else text(*item) for item in texts]
        except (KeyError, IndexError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"{path} holds a row that is no episode: {type(error).__name__} {error}") from error
        yield row


def _texts(row: Any, start: int, texts_by_row: dict[int, list[Any]]) -> list[Any]:
    """Return a row's texts and keep them for later rows, those of the last few rows alone; TypeError if they are no list."""
    if not isinstance(texts := row["trajectory"].get("texts", []), list):
        raise TypeError(f"its texts are a {type(texts).__name__}")
    texts_by_row[start] = texts
    if len(texts_by_row) > KNOWN_ROWS:
        del texts_by_row[next(iter(texts_by_row))]
    return texts


def set_damaged_aside(
    place: RunLog, plan: Sequence[Planned], policy: Policy, lost: Collection[str] = ()
) -> tuple[int, int]:
    """Move damaged lines of a run's journal and recording aside, with rows that need their texts; return how many of each.

    `lost` are the keys of episodes whose rows are moved though they are sound.
    """
    keys = set[Any]()

    def needs(row: Any, sound: Collection[int]) -> bool:
        """Return whether a row is one of a lost episode or there twice, or refers to a text of a row that is not there."""
        if "trajectory" not in row:
            return bool(sound)  # a head, within the rows
        key, ended = row.get("key"), row.get("status") not in UNFINISHED
        leans = any(not isinstance(text, str) and text[0] not in sound for text in row["trajectory"].get("texts", []))
        if key in lost or leans or (ended and key in keys):
            return True
        keys.update([key] if ended else [])
        return False

    head = {"schema": RUN_SCHEMA, **head_of(plan, policy), **place.about}
    rows = set_aside(place.path, needs, head)
    set_aside(_replies_of(place.path), lambda row, sound: False)
    recording = place.path.with_name("externals.jsonl")
    return rows, set_aside(recording, lambda row, sound: False)


def result_of(row: Any, path: Path) -> tuple[str, EpisodeResult]:
    """Return the key and the result that a row of a run's journal holds; raises UsageError where it is no such row."""
    try:
        if not isinstance(row["fault"], str) or not all(isinstance(cause, str) for cause in row["attempts"]):
            raise ValueError("its fault and its attempts are no texts")
        usage = {name: int(count) for name, count in known_counts(row["usage"]).items()}
        result = EpisodeResult(
            Trajectory.from_json(row["trajectory"]), str(row["status"]), str(row["fault"]), usage,
            tuple(map(str, row["attempts"])), float(row["seconds"]), float(row["agent_seconds"]),
        )  # fmt: skip
        if not all(abs(number) < MOST for number in _numbers(result)):
            raise ValueError(f"it counts, took or earned {MOST:g} or more")
        return str(row["key"]), result
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{path} holds a row that is no episode: {type(error).__name__} {error}") from error


def _numbers(result: EpisodeResult) -> Iterator[float]:
    """Yield all numbers of a result that are summed later: times, usage and rewards."""
    yield from (result.seconds, result.agent_seconds, *result.usage.values())
    for turn in result.trajectory.turns:
        yield from (turn.reward, *dict(turn.terms).values())


def _list_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield "name (old -> new)" for each setting of `new` that differs, nested by dotted name; not for ones of `old` alone."""
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            yield from (f"{name}.{more}" for more in _list_differences(before, value))
        elif before != value:
            yield f"{name} ({before!r} -> {value!r})"


def run_many(
    plan: Sequence[Planned],
    policy: Policy,
    *,
    concurrency: int = 1,
    journal: Path | RunLog | None = None,
    pause_seconds: float = 1.0,
    services: Services | None = None,
) -> Generator[tuple[Planned, EpisodeResult], None, None]:
    """Play a plan and yield each episode as it finishes; those already in the journal come first.

    A policy of batch 1 is called from `concurrency` threads, each for an episode. One of batch N plays up to N episodes in
    `lockstep`; with more than that at a time there are several such sets, which step while another is with the policy. Each
    finished episode is in the journal before it is yielded, and also when nobody reads on: what is being played when the
    reader leaves, or is interrupted, is finished and kept. A journal of another plan or policy is refused. An episode whose
    service fails is tried 3 times, about `pause_seconds` and twice that apart, then yielded with status `fault`; a chat model
    is not asked again for what it has said in it, in this run or a later one (`reply_log`). When the policy or
    a model that gives feedback raises BudgetSpent, no further episode begins, and those that were cut short are yielded with
    status `budget`. Episodes of both kinds are played again by a later run.

    Args:
        plan: what is played, each key once.
        policy: who plays.
        concurrency: episodes at a time.
        journal: the file that a killed run goes on from, or more about it.
        pause_seconds: before the second attempt at an episode.
        services: what stands before the outside services of environments.

    Raises:
        UsageError: the journal belongs to another configuration, or keys repeat.
    """
    planned = {item.key: item for item in plan}
    if len(planned) != len(plan):
        raise UsageError("run_many: episode keys repeat in the plan")
    batch = getattr(policy, "batch", 1)
    whole_number(f"run_many: agent {policy.name}", "batch", batch)
    whole_number("run_many", "concurrency", concurrency)
    traits = traits_of(policy)
    if traits.needs_env and batch != 1:
        raise UsageError(f"agent {policy.name} has batch={batch} and needs_env: it cannot have both")
    place = RunLog(journal) if isinstance(journal, Path) else journal
    log = RunJournal(place, head_of(plan, policy)) if place else None
    replies: ReplyLog | None = None
    finished: set[str] = set()
    try:
        for key, result in log.finished() if log else ():
            if key in finished or key not in planned:
                why = "there twice" if key in finished else "not planned"
                raise UsageError(f"{log and log.path}: episode {key} is {why}")
            if result.trajectory.header.episode_key != key:
                raise UsageError(f"{log and log.path}: the row of episode {key} holds another episode")
            finished.add(key)
            yield planned[key], result
        left = [item for item in plan if item.key not in finished]
        if place is not None and place.recording is not None:
            services = replace(services or Services(), recording=place.recording)
        path = _replies_of(place.path) if place else None
        limits: dict[str, Any] = {"attempts": FAULT_ATTEMPTS, "pause_seconds": pause_seconds}
        if services is not None and services.players is not None:
            replies, lockstep = services.players(path, finished, limits, policy.name, services)
        else:
            replies = ReplyLog(path, finished)
            actor = policy if traits.needs_env else RememberingPolicy(policy, replies)
            lockstep = Lockstep(actor, services=services, threads=concurrency, keep_errors=True, **limits)
        with lockstep:
            yield from _Players(lockstep, left, log, replies, concurrency, batch).results()
    finally:
        for file in (log, replies):
            if file is not None:
                file.close()


def head_of(plan: Sequence[Planned], policy: Policy) -> dict[str, Any]:
    """Return the first row of a journal, as far as plan and policy decide it."""
    traits = traits_of(policy)
    # Who is handed the environment can read the gold in it; of the built-in agents only the solver does.
    privileged = traits.privileged or (traits.needs_env and type(policy) is not CompanionPolicy)
    return {"policy": policy.name, "privileged": privileged, "plan": digest([vars(item) for item in plan])}


def _replies_of(journal: Path) -> Path:
    """Return the place of the replies that a run's journal does not need yet."""
    return journal.with_name(f"{journal.stem}-replies.jsonl")


class _Players:
    """Threads that play a plan, each a few lanes in lockstep, and the episodes that have ended but are not read yet."""

    def __init__(
        self, lockstep: Lockstep, plan: Sequence[Planned], log: RunJournal | None, replies: ReplyLog, concurrency: int,
        batch: int,
    ) -> None:  # fmt: skip
        """Divide the concurrency into threads of at most `batch` lanes each."""
        self._lockstep, self._log, self._replies = lockstep, log, replies
        self._waiting, self._next = iter(plan), threading.Lock()
        concurrency = min(concurrency, max(1, len(plan)))
        threads = -(-concurrency // batch)
        self._sizes = [(concurrency + place) // threads for place in range(threads)]
        self._ended: SimpleQueue[tuple[Planned, EpisodeResult] | BaseException | None] = SimpleQueue()
        self._room = threading.Semaphore(concurrency)  # a slow reader is waited for, and little is held for it

    def results(self) -> Generator[tuple[Planned, EpisodeResult], None, None]:
        """Yield episodes as they end, and raise what a player raised. Leaving it waits for what is being played."""
        with ThreadPoolExecutor(len(self._sizes), thread_name_prefix="episode") as pool:
            try:
                playing = len([pool.submit(self._play, size) for size in self._sizes])
                while playing:
                    ended = self._ended.get()
                    if isinstance(ended, BaseException):
                        raise ended
                    playing -= ended is None
                    if ended is not None:
                        self._room.release()
                        yield ended
            finally:
                self._stop()

    def _stop(self) -> None:
        """Stop beginning episodes, and no longer wait for the reader."""
        with self._next:
            self._waiting = iter(())
        self._room.release(sum(self._sizes))

    def _play(self, size: int) -> None:
        """Play up to `size` episodes at a time until none is left; queue an error that is raised, and None at the end."""
        lanes: list[Lane] = []
        try:
            while True:
                with self._next:
                    items = list(islice(self._waiting, size - len(lanes)))
                lanes += self._begin(items)
                if not lanes:
                    break
                self._lockstep.step(lanes)
                for lane in lanes:
                    if lane.over:
                        self._end(lane)
                lanes = [lane for lane in lanes if not lane.over]
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            self._ended.put(error)
        self._ended.put(None)

    def _begin(self, items: Sequence[Planned]) -> list[Lane]:
        """Return lanes begun for the items; [] after an error, which stops the other threads and goes to the reader."""
        try:
            return self._lockstep.begin(items)
        except Exception as error:  # noqa: BLE001 - the reader raises it, and what is being played is played to its end
            self._stop()
            self._ended.put(error)
            return []

    def _end(self, lane: Lane) -> None:
        """Keep and queue a lane's record; an error stops new episodes: a bug is queued, a budget lane without usage dropped."""
        if lane.error is not None:
            self._stop()
            if not isinstance(lane.error, BudgetSpent):
                self._ended.put(lane.error)
                return
        result = lane.result()
        # Without the task's content, as the journal gives an episode back.
        result = replace(result, trajectory=replace(result.trajectory, task=None))
        self._lockstep.release(lane)
        if result.status == "budget" and not result.usage:
            return  # it had not begun to ask
        # Here and not where results are read: what was played is kept, whatever becomes of the reader.
        if self._log is not None:
            self._log.keep(lane.item, result)
        if result.status in UNFINISHED:
            self._replies.counted(lane.item.key)
        else:
            self._replies.drop(lane.item.key)
        self._room.acquire()
        self._ended.put((lane.item, result))
