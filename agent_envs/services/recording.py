"""An external port calls one outside service, live, recorded or replayed, with attempts, a deadline and faults.

A service (an LLM user, a judge, a web search) is a function from a JSON request and the seconds it may take to a JSON
response. The port stands before it and keys each call by (port, digest of the request, episode key, branch, ordinal of that
request in the episode), so that equal starts draw independent samples and a replay finds each one again. A deterministic
service is keyed by the digest of the request alone. All ports of a run share one `Recording`; without one they are live.

An answer that nobody could use is discarded: a row of the recording says so, and a run that goes on asks again. A later answer
takes its place; until there is one, a replay still finds what the run saw.
"""

import json
import random
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import BudgetSpent, ContextFull, EnvFault, UsageError
from agent_envs.base.jsonl_log import Journal, read_journal, read_places, read_row
from agent_envs.base.serialization import canonical_json, digest, state_type

Backend = Callable[[Any, float], Any]
DISCARDED = "discarded"  # in a row without an answer: the one before it under this key was of no use
MAX_ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_ASKED_PAUSE_SECONDS = 60.0
LONGEST_HOLD_SECONDS = 60.0
MOST_OVERLOADS = 30  # answers to one call, whatever its clock says
HOLDS_UNTOLD = 3  # of a service that is overloaded, before a warning tells of it


@state_type
@dataclass(frozen=True, slots=True)
class CallSite:
    """The episode and turn of a call. `ordinal` counts the calls of that episode, from 0; it is state."""

    episode_key: str
    branch: str = ""
    ordinal: int = 0


class NotRecorded(EnvFault):
    """A request in a replay has no recorded answer."""


class Recording(Uncopied):
    """The recorded answers of outside services: one file for all ports of a run, safe to use from many threads."""

    def __init__(self, path: Path, mode: Literal["record", "replay"]) -> None:
        """Read the file; `record` also opens it for appending, and makes it where it is missing.

        Raises UsageError: another process is recording into it, it is damaged, or there is nothing to replay.
        """
        if mode not in ("record", "replay"):
            raise UsageError(f'Recording({str(path)!r}): mode={mode!r}; the modes are "record" and "replay"')
        if mode == "replay" and not path.is_file():
            raise UsageError(f"{path}: no recording to replay; record one first")
        self.path, self.mode = path, mode
        self.answer_keys: list[str] = []  # keys of the answers that `find` gave in a replay; who reads them clears them
        self._lock = threading.Lock()
        self._journal = Journal(path) if mode == "record" else None
        # Where the answers stand, because a long run's are too many to hold.
        self._places: dict[str, int] = {}
        for row, start in read_places(path):
            if not row.get(DISCARDED):
                self._places[row["key"]] = start
            elif mode == "record":
                self._places.pop(row["key"], None)

    def __contains__(self, key: object) -> bool:
        """Return whether an answer is recorded under this key (`find` cannot tell a recorded null from none)."""
        with self._lock:
            return key in self._places

    def find(self, key: str, request: tuple[str, Any] | None = None) -> Any | None:
        """Return a copy of the answer recorded under a key, None for none; NotRecorded if another request is beside it.

        Raises NotRecorded: it stands beside another (port, request) than `request`; a stranger's recording may say anything.
        """
        with self._lock:
            if key not in self._places:
                return None
            row = self._row(self._places[key])
            if self._journal is None:
                self.answer_keys.append(key)
        if request is not None and (row["port"], digest(row["request"])) != (request[0], digest(request[1])):
            raise NotRecorded(
                f"{request[0]}: the answer under {key[:12]} is recorded beside another request", retryable=False
            )
        return row["response"]

    def keep(self, key: str, port: str, request: Any, response: Any) -> Any:
        """Record an answer and return a copy of what is recorded (another thread's if that was first); UsageError in replay."""
        with self._lock:
            if key not in self._places:
                if self._journal is None:
                    raise UsageError(f'{self.path} is open for replay; open it with mode="record" to record')
                row = {"key": key, "port": port, "request": request, "response": response}
                self._places[key] = self._journal.append(row)
            return self._answer(self._places[key])

    def discard(self, key: str, response: Any) -> None:
        """Discard the answer under a key, if this is still it; a recording that is replayed stays as it is."""
        with self._lock:
            # Another thread may have been given a better answer meanwhile, and gone on with it.
            if self._journal is not None and key in self._places and self._answer(self._places[key]) == response:
                self._journal.append({"key": key, DISCARDED: True})
                del self._places[key]

    def _answer(self, start: int) -> Any:
        """Return the response of the row that begins at a byte of the file."""
        return self._row(start)["response"]

    def _row(self, start: int) -> Any:
        """Read the row that begins at a byte of the file."""
        with self.path.open("rb") as file:
            return read_row(file, start)

    def close(self) -> None:
        """Put everything on disk and release the file."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def calls_again(recording: Recording | None) -> bool:
    """Return whether a discarded call is made again, and not found in the recording."""
    return recording is None or recording.mode == "record"


def read_answers(path: Path) -> Iterator[Any]:
    """Yield the rows of a recording that are answers: of one key, a later one takes the place of an earlier."""
    return (row for row in read_journal(path) if not row.get(DISCARDED))


class _Hold(Uncopied):
    """How long calls to a service wait that is overloaded: one growing pause for all of them, whichever call met it."""

    def __init__(self, name: str) -> None:
        self._name, self._lock, self._count, self._until = name, threading.Lock(), 0, 0.0

    def begin(self, now: float) -> float:
        """Return the seconds that are left of the pause; one that is over is followed by one of twice its length."""
        with self._lock:
            if now >= self._until:
                self._count += 1
                self._until = now + min(2.0**self._count, LONGEST_HOLD_SECONDS)
                if self._count == HOLDS_UNTOLD:
                    words = (
                        f"{self._name} is overloaded: calls to it wait, up to {LONGEST_HOLD_SECONDS:.0f} s at a time"
                    )
                    warnings.warn(words, stacklevel=2)
            return self._until - now

    def end(self) -> None:
        """Forget what was met before a call that succeeded."""
        self._count = 0


class ExternalPort:
    """One outside service under a name. `recording` may be set until the first call."""

    def __init__(
        self,
        name: str,
        backend: Backend | None = None,
        *,
        recording: Recording | None = None,
        deterministic: bool = False,
        deadline_seconds: float = 120.0,
        attempt_seconds: float = 60.0,
        max_bytes: int = 4_000_000,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the port; UsageError without a backend, unless a recording is replayed.

        Args:
            name: part of every key.
            backend: the service, `(request, seconds) -> response`; not needed for replay. It raises EnvFault when it fails.
            recording: where answers are recorded or replayed; without one every call is live.
            deterministic: key by the request alone (a judge at temperature 0).
            deadline_seconds: over all attempts of one call and the waits between them.
            attempt_seconds: the most that one attempt is given.
            max_bytes: cap on a response's canonical JSON, in bytes.
            wait: how to sleep between attempts.
            clock: the seconds that the deadline is held against.
        """
        self.name, self.deterministic, self.recording = name, deterministic, recording
        self._backend, self._wait, self._clock = backend, wait, clock
        self._deadline_seconds, self._attempt_seconds, self._max_bytes = deadline_seconds, attempt_seconds, max_bytes
        self._hold = _Hold(name)
        if backend is None and (recording is None or recording.mode == "record"):
            raise UsageError(f"ExternalPort({name!r}) needs a backend, or a recording to replay")

    def key(self, request: Any, site: CallSite) -> str:
        """Return the digest under which this call is stored."""
        place = [] if self.deterministic else [site.episode_key, site.branch, site.ordinal]
        return digest([self.name, digest(request), *place])

    def call(self, request: Any, site: CallSite) -> Any:
        """Return the recorded response, else the service's, recorded; NotRecorded if a replay lacks it, EnvFault if it fails.

        Raises:
            EnvFault: the service failed for good, or its answer was too large.
            NotRecorded: a replay has no recording of this call.
        """
        key, recording = self.key(request, site), self.recording
        if recording is None:
            return self._attempt(request, key)
        if key in recording:
            return recording.find(key, (self.name, request))
        if recording.mode == "replay":
            raise NotRecorded(
                f"{self.name}: no recording for request {digest(request)[:12]} at {site}", retryable=False
            )
        return recording.keep(key, self.name, request, self._attempt(request, key))

    def discard(self, request: Any, site: CallSite, response: Any) -> None:
        """Discard a call's recorded response, which could not be used: a run that goes on calls again.

        Only for a response that no caller goes on from, so that what was played before still replays.
        """
        if self.recording is not None:
            self.recording.discard(self.key(request, site), response)

    def close(self) -> None:
        """Close the service, if it can be closed; the recording belongs to the run."""
        close = getattr(self._backend, "close", None)
        if close is not None:
            close()

    def _attempt(self, request: Any, key: str) -> Any:
        """Return the backend's answer, slept between at most 5 attempts; EnvFault for the last, a lasting one, the deadline.

        Answers of an overloaded service are no attempts: all calls to it wait, and are made again until the deadline.
        """
        if self._backend is None:
            raise UsageError(f"ExternalPort({self.name!r}) was made for replay and has no backend to call")
        jitter = random.Random(key)
        ends = self._clock() + self._deadline_seconds
        late = f"; another would start after the deadline of {self._deadline_seconds:g} s"
        seconds = min(self._attempt_seconds, self._deadline_seconds)
        wasted: Counter[str] = Counter()
        attempt, overloads = 1, 0
        while True:
            try:
                response = self._check_response(self._with_waste(self._backend(request, seconds), wasted))
                self._hold.end()
                return response
            except BudgetSpent as end:
                end.usage = dict(wasted)
                raise
            except EnvFault as fault:
                wasted.update(fault.usage)
                fault.usage = dict(wasted)
                if isinstance(fault, ContextFull):
                    raise
                overloads += fault.overloaded
                is_last = overloads > MOST_OVERLOADS if fault.overloaded else attempt == MAX_ATTEMPTS
                if not fault.retryable or is_last:
                    raise self._final(fault, attempt) from fault
                # Full jitter; where the service named a time, on top of it, so that callers do not come back at once.
                pause = jitter.uniform(0.0, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
                pause += min(max(fault.wait_seconds, 0.0), LONGEST_ASKED_PAUSE_SECONDS)
                if fault.overloaded:
                    pause += self._hold.begin(self._clock())
                else:
                    attempt += 1
                if self._clock() + pause >= ends:
                    raise self._final(fault, attempt - (not fault.overloaded), late) from fault
                self._wait(pause)
                seconds = min(self._attempt_seconds, ends - self._clock())
                if seconds <= 0.0:  # it slept for longer than it was asked to
                    raise self._final(fault, attempt - (not fault.overloaded), late) from fault

    def _with_waste(self, response: Any, wasted: Mapping[str, int]) -> Any:
        """Add the cost of failed attempts to the response; only chat models count it."""
        return response

    def _final(self, fault: EnvFault, attempt: int, late: str = "") -> EnvFault:
        """Build the fault of the last attempt, with the service's name and the number of attempts."""
        cause = fault.cause.removeprefix(f"{self.name}: ")
        why = f"{self.name}: {cause} (attempt {attempt} of {MAX_ATTEMPTS}{late})"
        final = EnvFault(why, fault.retryable, fault.wait_seconds)
        final.usage = fault.usage
        return final

    def _check_response(self, response: Any) -> Any:
        """Return the response as plain JSON; EnvFault if it is too large or nested too deeply."""
        try:
            text = canonical_json(response)
        except RecursionError:
            raise EnvFault("the response is nested too deeply") from None
        if len(text.encode("utf-8", "surrogatepass")) > self._max_bytes:
            raise EnvFault(f"the response is larger than {self._max_bytes} bytes", retryable=False)
        return json.loads(text)
