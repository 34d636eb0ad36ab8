"""The port to everything outside: live, record or replay, with attempts, a deadline and faults.

A service (an LLM user, a judge, a web search) is a function from a JSON request to a JSON response. The port stands before
it and keys each call by (port, digest of the request, episode key, branch, ordinal of that request in the episode), so
that equal starts draw independent samples and a replay finds each one again. A deterministic service is keyed by the
digest of the request alone.
"""

import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent_envs.canonical import canonical_json, digest, state_type
from agent_envs.errors import EnvFault, UsageError
from agent_envs.journal import Journal, read_journal

Backend = Callable[[Any], Any]
Mode = Literal["live", "record", "replay"]
MAX_ATTEMPTS = 5


@state_type
@dataclass(frozen=True, slots=True)
class CallSite:
    """Where in which episode a call is made. `ordinal` counts the calls of that episode, from 0; it is state."""

    episode_key: str
    branch: str = ""
    ordinal: int = 0


class ExternalPort:
    """One outside service under a name."""

    def __init__(
        self,
        name: str,
        backend: Backend | None = None,
        *,
        mode: Mode = "live",
        store: Path | None = None,
        deterministic: bool = False,
        deadline_seconds: float = 60.0,
        max_bytes: int = 4_000_000,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Set up the port.

        Args:
            name: part of every key.
            backend: the service; not needed for replay. It raises EnvFault(cause, retryable) when it fails.
            mode: `live` calls; `record` calls and appends to the store; `replay` reads the store and never calls.
            store: the journal of recordings, for `record` and `replay`.
            deterministic: key by the request alone (a judge at temperature 0).
            deadline_seconds: over all attempts of one call.
            max_bytes: cap on a response's canonical JSON, in bytes.
            wait: how to sleep between attempts.
        """
        if mode != "replay" and backend is None:
            raise UsageError(f"ExternalPort({name!r}): mode={mode!r} needs a backend")
        if mode != "live" and store is None:
            raise UsageError(f"ExternalPort({name!r}): mode={mode!r} needs store=PATH")
        self.name, self.mode, self.deterministic = name, mode, deterministic
        self._backend, self._wait = backend, wait
        self._deadline_seconds, self._max_bytes = deadline_seconds, max_bytes
        self._lock = threading.Lock()
        # As JSON texts, so that a caller who changes a response changes nobody else's.
        self._recorded: dict[str, str] = {}
        self._journal: Journal | None = None
        if store is not None and mode == "record":
            self._journal = Journal(store)
        if store is not None and mode != "live":
            self._recorded = {row["key"]: canonical_json(row["response"]) for row in read_journal(store)}

    def key(self, request: Any, site: CallSite) -> str:
        """Return the digest under which this call is stored."""
        place = [] if self.deterministic else [site.episode_key, site.branch, site.ordinal]
        return digest([self.name, digest(request), *place])

    def call(self, request: Any, site: CallSite) -> Any:
        """Return the service's response.

        Raises:
            EnvFault: the service failed for good, its answer was too large, or a replay has no recording.
        """
        key = self.key(request, site)
        with self._lock:
            if key in self._recorded:
                return json.loads(self._recorded[key])
        if self.mode == "replay":
            raise EnvFault(f"{self.name}: no recording for request {digest(request)[:12]} at {site}", retryable=False)
        text = self._attempt(request, key)
        response = json.loads(text)
        if self._journal is not None:
            with self._lock:
                if key in self._recorded:  # another thread asked the same meanwhile: its answer is the recorded one
                    return json.loads(self._recorded[key])
                self._recorded[key] = text
                self._journal.append({"key": key, "port": self.name, "request": request, "response": response})
        return response

    def close(self) -> None:
        """Close the store."""
        if self._journal is not None:
            self._journal.close()

    def _attempt(self, request: Any, key: str) -> str:
        assert self._backend is not None
        jitter = random.Random(key)
        started = time.monotonic()
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                response = self._backend(request)
            except EnvFault as fault:
                pause = 0.5 * 2 ** (attempt - 1) * (0.5 + jitter.random())
                late = time.monotonic() + pause - started > self._deadline_seconds
                if not fault.retryable or attempt == MAX_ATTEMPTS or late:
                    why = f"{self.name}: {fault.cause} (attempt {attempt} of {MAX_ATTEMPTS})"
                    raise EnvFault(why, fault.retryable) from fault
                self._wait(pause)
            else:
                text = canonical_json(response)
                if len(text.encode("utf-8", "surrogatepass")) > self._max_bytes:
                    raise EnvFault(f"{self.name}: the response is larger than {self._max_bytes} bytes", retryable=False)
                return text
        raise AssertionError("unreachable: the last attempt returns or raises")
