"""Rows of a submission hold episodes, as actions and digests that a replay computes again, attempts, and services' answers.

A row holds what was done and digests of what was shown. Nothing in it is believed: whoever has the suite and the package
steps the actions again and compares. `chain` binds the header and every turn, actions included, so that an action that
changed nothing cannot be swapped unseen either. Rows go to gzip files, so that equal rows give equal bytes;
`agent_envs.evaluation.verification.shards` reads them.
"""

import gzip
import math
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, SerializerFunctionWrapHandler, model_serializer, model_validator

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.base.serialization import canonical_json, digest, sha256_text
from agent_envs.base.strict_model import Strict
from agent_envs.core.trajectory import Turn
from agent_envs.evaluation.runs.run_folder import RunEpisode
from agent_envs.evaluation.submission.models import SAFE_INTEGER, Count, Digest
from agent_envs.evaluation.suites.suite import Hex, Name

MOST_TURNS = 10_000
MOST_ACTION_CHARACTERS = 1_000_000
AGENT = "agent_0"
_UNCHAINED = ("turns", "result", "usage", "seconds", "agent_seconds", "chain")


def _not_minus_zero(value: float) -> float:
    """Return a number unchanged; ValueError for -0.0, which would have two spellings."""
    if value == 0 and math.copysign(1, value) < 0:
        raise ValueError("-0.0 has two spellings")
    return value


Key = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Number = Annotated[float, Field(ge=-1e12, le=1e12), AfterValidator(_not_minus_zero)]
Seconds = Annotated[float, Field(ge=0, le=1e9), AfterValidator(_not_minus_zero)]
Text = Annotated[str, Field(max_length=100_000)]
Action = (
    Annotated[str, Field(max_length=MOST_ACTION_CHARACTERS)] | Annotated[int, Field(ge=-SAFE_INTEGER, le=SAFE_INTEGER)]
)
Usage = Annotated[dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")], Count], Field(max_length=40)]
Status = Literal["terminated", "truncated", "fault", "budget", "missing"]


class EnvRef(Strict):
    """Which environment; `turn_limit` null: its own limit."""

    id: Name
    spec_digest: Hex
    turn_limit: Annotated[int, Field(ge=0, le=MOST_TURNS)] | None


class TurnRow(Strict):
    """One action and what came back. `action` is what was passed to `step`; the observation stands as its digest."""

    t: Annotated[int, Field(ge=1, le=MOST_TURNS)]
    agent: Annotated[str, Field(pattern=r"^[a-z]{1,20}_[0-9]{1,3}$")]
    action: Action
    observation_sha256: Hex
    reward: Number
    terms: Annotated[dict[Name, Number], Field(max_length=100)]
    terminated: bool
    truncated: bool
    events: Annotated[tuple[Text, ...], Field(max_length=1000)]
    context: Literal["append", "replace"]
    outcome: Literal["acted", "cut", "refused", "full"] = "acted"

    @model_serializer(mode="wrap")
    def _omit_default_outcome(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write a turn without an outcome that is the usual one, as before: chains of rows stay the same."""
        row: dict[str, Any] = write(self)
        return row if self.outcome != "acted" else {name: row[name] for name in row if name != "outcome"}


class ResultRow(Strict):
    """The episode's return, and the environment's own `success`; a suite's predicate may ask for something else."""

    total: Annotated[Number, Field(alias="return")]
    success: bool


class EpisodeRow(Strict):
    """One planned episode. One that was not played to its end has no turns, and its status says why."""

    format: Annotated[Literal["agent-envs/episode@1"], Field(alias="schema")] = "agent-envs/episode@1"
    key: Key
    entry: Name
    env: EnvRef
    task: Name
    task_digest: Hex
    cluster: Name
    trial: Annotated[int, Field(ge=0, lt=1000)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    status: Status
    prompt_sha256: Digest
    turns: Annotated[tuple[TurnRow, ...], Field(max_length=MOST_TURNS)]
    result: ResultRow
    usage: Usage
    seconds: Seconds
    agent_seconds: Seconds
    chain: Hex

    @model_validator(mode="after")
    def _check_turns(self) -> "EpisodeRow":
        """Return the row; ValueError unless turns are numbered, only the last ends it, and status and result fit them."""
        ended = self.status in ("terminated", "truncated")
        if [turn.t for turn in self.turns] != list(range(1, len(self.turns) + 1)):
            raise ValueError("turns are numbered from 1")
        if bool(self.turns) != ended or bool(self.prompt_sha256) != ended:
            raise ValueError("turns and a prompt belong to episodes that were played to their end, and to no other")
        flags = [(turn.terminated, turn.truncated) for turn in self.turns]
        if ended and (any(map(any, flags[:-1])) or not any(flags[-1]) or flags[-1][0] != (self.status == "terminated")):
            raise ValueError("the last turn, and no other, ends the episode in the way that the status says")
        if self.result.total != return_of(self.turns) or (self.result.success and not ended):
            raise ValueError("the result is not that of the turns")
        return self


class AttemptRow(Strict):
    """One attempt at an episode, in the order in which they were made; retried and cut ones too."""

    format: Annotated[Literal["agent-envs/attempt@1"], Field(alias="schema")] = "agent-envs/attempt@1"
    key: Key
    attempt: Annotated[int, Field(ge=1, le=1_000_000)]
    status: Literal["terminated", "truncated", "fault", "budget"]
    cause: Annotated[str, Field(max_length=2000)]


class ExternalRow(Strict):
    """What an outside service answered; `key` is the port's key of the call."""

    format: Annotated[Literal["agent-envs/external@1"], Field(alias="schema")] = "agent-envs/external@1"
    key: Hex
    port: Name
    request: JsonValue
    response: JsonValue


def messages_digest(messages: Sequence[Message]) -> str:
    """Return the sha256 of messages as a chat template gets them: role, content, tool calls; not who wrote them."""
    return digest([message.as_dict() for message in messages])


def turn_row(turn: Turn) -> TurnRow:
    """Convert a turn to a row of a submission; the observation is kept as its digest alone."""
    return TurnRow(
        t=turn.index,
        agent=AGENT,
        action=turn.action,
        observation_sha256=messages_digest(turn.observation),
        reward=turn.reward + 0.0,
        terms={name: value + 0.0 for name, value in turn.terms},
        terminated=turn.terminated,
        truncated=turn.truncated,
        events=turn.events,
        context=turn.context,  # type: ignore[arg-type]  # checked by the model
        outcome=turn.outcome,  # type: ignore[arg-type]
    )


def return_of(turns: Sequence[TurnRow]) -> float:
    """Return the undiscounted return, rounded once: `sum` differs between versions of Python."""
    return math.fsum(turn.reward for turn in turns) + 0.0


def row_of(episode: RunEpisode) -> EpisodeRow:
    """Return an episode as a row, its chain computed; a ValidationError says what is beyond the format's limits."""
    entry, result = episode.entry, episode.result
    trajectory, head = result.trajectory, result.trajectory.header
    turns = tuple(map(turn_row, trajectory.turns))
    row = EpisodeRow(
        key=episode.key,
        entry=entry.label,
        env=EnvRef(id=head.env_id, spec_digest=head.spec_digest, turn_limit=entry.turn_limit),
        task=head.task_id,
        task_digest=head.task_digest,
        cluster=episode.cluster,
        trial=episode.trial,
        seed=head.seed,
        status=result.status,  # type: ignore[arg-type]  # checked by the model
        prompt_sha256=messages_digest(trajectory.prompt) if trajectory.turns else "",
        turns=turns,
        result=ResultRow(total=return_of(turns), success=trajectory.success),
        usage=result.usage,
        seconds=float(result.seconds),
        agent_seconds=float(result.agent_seconds),
        chain="0" * 64,
    )
    return row.model_copy(update={"chain": chain_of(row)})


def chain_of(row: EpisodeRow) -> str:
    """Return the last link of a row's chain: a digest of its header, then one a turn over the link before it."""
    data = row.model_dump(mode="json")
    link = digest({name: value for name, value in data.items() if name not in _UNCHAINED})
    for turn in data["turns"]:
        link = sha256_text(link + canonical_json(turn))
    return link


def row_text(row: Strict) -> str:
    """Return the one line that a row is stored as."""
    return canonical_json(row.model_dump(mode="json"))


MOST_ROWS = 2_000
MOST_SHARD_BYTES = 32_000_000
MOST_LINE_BYTES = 16_000_000
MOST_RATIO = 200
_LEVEL = 6
_CHUNK = 1 << 20


class ShardWriter:
    """Writes lines to 0000.jsonl.gz, 0001.jsonl.gz, ... of a folder, none with too many rows or bytes."""

    def __init__(self, folder: Path, *, most_rows: int = MOST_ROWS, most_bytes: int = MOST_SHARD_BYTES) -> None:
        """Set the folder and bounds; no file is opened before the first line."""
        self._folder, self._most_rows, self._most_bytes = folder, most_rows, most_bytes
        self._number = -1
        self._file: IO[bytes] | None = None
        self._gzip: gzip.GzipFile | None = None
        self._rows = self._bytes = 0

    def write(self, line: str) -> tuple[Path, int]:
        """Write a line and return its file and its number there, from 1; UsageError for one longer than any reader accepts."""
        data = line.encode() + b"\n"
        if len(data) > min(MOST_LINE_BYTES, self._most_bytes):
            raise UsageError(f"a row of {len(data):,} bytes; the format takes {MOST_LINE_BYTES:,}")
        if self._gzip is None or self._rows >= self._most_rows or self._bytes + len(data) > self._most_bytes:
            self._open_next()
        assert self._gzip is not None
        self._gzip.write(data)
        self._rows += 1
        self._bytes += len(data)
        return self._path, self._rows

    def close(self) -> None:
        """Finish the last file, if one is open; one that shrank more than 200 times is stored uncompressed instead."""
        if self._gzip is None or self._file is None:
            return
        self._gzip.close()
        self._file.close()
        self._gzip = self._file = None
        if self._bytes > MOST_RATIO * self._path.stat().st_size:
            _store(self._path)

    @property
    def _path(self) -> Path:
        """The path of the shard that is being written."""
        return self._folder / f"{self._number:04d}.jsonl.gz"

    def _open_next(self) -> None:
        """Close the current shard and open the next, compressed without name and time so that equal rows give equal bytes."""
        self.close()
        self._number += 1
        self._rows = self._bytes = 0
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("wb")
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=self._file, mtime=0)


def _store(path: Path) -> None:
    """Write a file again without compression: honest rows that shrink like a bomb must not be refused as one."""
    plain = path.with_suffix(".plain")
    with gzip.open(path, "rb") as source, plain.open("wb") as target:
        with gzip.GzipFile(filename="", mode="wb", compresslevel=0, fileobj=target, mtime=0) as file:
            while chunk := source.read(_CHUNK):
                file.write(chunk)
    plain.replace(path)
