"""The journal of a run keeps its settings and its finished episodes, and refuses to go on under other settings.

A long text that an episode showed is stored once: in the rows of later episodes `[start, place]` stands for it, the number
`place` of the texts of the row whose line begins at the byte `start`. Journals of `run@1` have no such references.
"""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_places, read_row
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.services.recording import Recording

RUN_SCHEMA, OLD_SCHEMA = "agent-envs/run@2", "agent-envs/run@1"
KNOWN_TEXTS, KNOWN_ROWS = 4_096, 256  # that a writer and a reader keep at hand
UNFINISHED = ("fault", "budget")
MOST = 1e100  # numbers from here on are nobody's, and their squares would be no floats


@dataclass(frozen=True)
class Planned:
    """One planned episode: the spec as JSON (see `spec_json`), the task, and the seed."""

    key: str
    spec: str
    task: int | str
    split: str
    seed: int
    trial: int = 0


@dataclass(frozen=True)
class RunLog:
    """Where a run is kept.

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
        """Yield (key, result) of what is finished, read as it is needed: a long run's transcripts are not held.

        Raises UsageError: the journal belongs to another configuration, or a row is malformed.
        """
        rows = read_rows(self.path)
        if self.path.stat().st_size == 0:
            self._file.append(self._head)
        first = next(rows)
        old = first if isinstance(first, dict) else {}
        self._shares = old.get("schema") != OLD_SCHEMA
        if first != {**self._head, "schema": RUN_SCHEMA if self._shares else OLD_SCHEMA}:
            changed = ", ".join(_differing(old, self._head))
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
        """Append a result."""
        lean = result.trajectory.to_lean_json()
        row = {
            "key": item.key, "status": result.status, "fault": result.fault, "attempts": list(result.attempts),
            "usage": result.usage, "seconds": result.seconds, "agent_seconds": result.agent_seconds, "trial": item.trial,
            "trajectory": lean,
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
    """Yield the rows of a run's journal, texts in place of references to them; otherwise as `read_journal`.

    Raises UsageError: a row before the last is damaged, or refers to what is no text of an earlier row.
    """
    known: dict[int, list[Any]] = {}  # texts as they stand in their rows, so that a reference leads to no other one

    def text(start: int, place: int) -> str:
        if type(start) is not int or type(place) is not int or not (0 <= start < begin and place >= 0):
            raise ValueError(f"[{start!r}, {place!r}] is no place in an earlier row")
        if (texts := known.get(start)) is None:
            with path.open("rb") as file:
                texts = _texts(read_row(file, start), start, known)
        if not isinstance(found := texts[place], str):
            raise ValueError(f"[{start}, {place}] is no text")
        return found

    for row, begin in read_places(path):
        try:
            if isinstance(row, dict) and "trajectory" in row and (texts := _texts(row, begin, known)):
                row["trajectory"]["texts"] = [item if isinstance(item, str) else text(*item) for item in texts]
        except (KeyError, IndexError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"{path} holds a row that is no episode: {type(error).__name__} {error}") from error
        yield row


def _texts(row: Any, start: int, known: dict[int, list[Any]]) -> list[Any]:
    if not isinstance(texts := row["trajectory"].get("texts", []), list):
        raise TypeError(f"its texts are a {type(texts).__name__}")
    known[start] = texts
    if len(known) > KNOWN_ROWS:
        del known[next(iter(known))]
    return texts


def result_of(row: Any, path: Path) -> tuple[str, EpisodeResult]:
    """Return the key and the result that a row of a run's journal holds; raises UsageError where it is no such row."""
    try:
        if not isinstance(row["fault"], str) or not all(isinstance(cause, str) for cause in row["attempts"]):
            raise ValueError("its fault and its attempts are no texts")
        usage = {str(name): int(count) for name, count in row["usage"].items()}
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
    """Yield what sums and squares are made of."""
    yield from (result.seconds, result.agent_seconds, *result.usage.values())
    for turn in result.trajectory.turns:
        yield from (turn.reward, *dict(turn.terms).values())


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            yield from (f"{name}.{more}" for more in _differing(before, value))
        elif before != value:
            yield f"{name} ({before!r} -> {value!r})"
