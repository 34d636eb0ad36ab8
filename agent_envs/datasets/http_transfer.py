"""An HTTP transfer survives cuts: ranges, validators, retries, a cap on the bytes, redirects to https only."""

import ipaddress
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.jsonl_log import try_lock
from agent_envs.base.serialization import sha256_file
from agent_envs.datasets.corpora import Progress, write_atomically

RETRIES = 5
REDIRECTS = 5
TIMEOUT_SECONDS = 30.0
_BUSY = {408, 425, 429, 500, 502, 503, 504}


class _Interrupted(Exception):
    """A transfer that may go on at the next attempt."""


def check_url(url: str) -> None:
    """Raise a UsageError unless an address is https, or http to this machine."""
    parsed = httpx.URL(url)
    try:
        local = parsed.host == "localhost" or ipaddress.ip_address(parsed.host).is_loopback
    except ValueError:
        local = False
    if parsed.scheme != "https" and not (parsed.scheme == "http" and local):
        raise UsageError(f"{url}: only https, and http to this machine, are downloaded from")


class Transfer:
    """One file on its way into a `.part` file, with a `.part.json` that says what the part is a part of."""

    def __init__(
        self, *, url: str, part: Path, max_bytes: int, backoff_seconds: float, progress: Progress | None
    ) -> None:
        """Say what to fetch, into which part, how much at most, and the first pause after a cut (it doubles)."""
        self.url = url
        self.part = part
        self.note = part.with_name(part.name + ".json")
        self.max_bytes = max_bytes
        self.backoff_seconds = backoff_seconds
        self.progress = progress

    def run(self) -> None:
        """Complete the part, going on where an earlier run stopped; an EnvFault says how to resume."""
        try:
            with self.part.open("ab") as file, httpx.Client(timeout=TIMEOUT_SECONDS) as client:
                if not try_lock(file):
                    raise EnvFault(f"another process is writing {self.part}: wait for it, then run this again")
                self._attempts(file, client)
        except EnvFault as fault:
            if not fault.retryable and not self.part.stat().st_size:
                self.part.unlink()
                self.note.unlink(missing_ok=True)
            raise

    def move(self, target: Path, sha256: str | None) -> None:
        """Put the complete part in its place; one with another sha256 than the expected is removed."""
        try:
            actual = sha256_file(self.part) if sha256 else sha256
            if actual != sha256:
                self.part.unlink()
                self.note.unlink(missing_ok=True)
                raise EnvFault(f"{self.url}: the file's hash is {actual}, expected sha256 {sha256}", retryable=False)
            os.replace(self.part, target)
        except FileNotFoundError:
            raise EnvFault(f"another process moved {self.part} away: run this again") from None
        # Last, so that a process that opens the part before the move finds it complete and does not cut it.
        self.note.unlink(missing_ok=True)

    def _attempts(self, file: BinaryIO, client: httpx.Client) -> None:
        cause: Exception | None = None
        for attempt in range(RETRIES + 1):
            if attempt:
                time.sleep(self.backoff_seconds * 2 ** (attempt - 1))
            try:
                return self._attempt(file, client)
            except (_Interrupted, httpx.TransportError) as error:
                cause = error
                file.flush()
        raise EnvFault(
            f"{self.url}: {cause}. {file.tell():,} bytes are kept in {self.part}: run the same command again to resume"
        )

    def _attempt(self, file: BinaryIO, client: httpx.Client) -> None:
        note = self._resumable()
        if not note:
            file.truncate(0)
        offset = file.seek(0, os.SEEK_END)
        if offset and offset == note.get("total"):
            return
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers |= {"Range": f"bytes={offset}-", "If-Range": note["validator"]}
        with self._response(client, headers) as response:
            start, total = self._extent(response, offset)
            if start != offset:
                file.truncate(0)
                offset = file.seek(0)
            self._describe(response, total)
            self._receive(response, file, offset, total)

    def _resumable(self) -> dict[str, Any]:
        try:
            note = json.loads(self.note.read_bytes())
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) and note.get("url") == self.url and note.get("validator") else {}

    def _describe(self, response: httpx.Response, total: int) -> None:
        etag = response.headers.get("etag", "")
        # A weak tag does not promise equal bytes, which is what a resumed file needs.
        validator = etag if etag and not etag.startswith("W/") else response.headers.get("last-modified", "")
        note = json.dumps({"url": self.url, "validator": validator, "total": total}).encode()
        write_atomically(self.note, lambda file: file.write(note))

    @contextmanager
    def _response(self, client: httpx.Client, headers: dict[str, str]) -> Iterator[httpx.Response]:
        url = httpx.URL(self.url)
        for _ in range(REDIRECTS + 1):
            with client.stream("GET", url, headers=headers) as response:
                if not response.has_redirect_location:
                    yield response
                    return
                url = response.url.join(response.headers["location"])
            if url.scheme != "https":
                raise EnvFault(f"{self.url} redirects to {url}: redirects may only lead to https", retryable=False)
        raise EnvFault(f"{self.url} redirects more than {REDIRECTS} times", retryable=False)

    def _extent(self, response: httpx.Response, offset: int) -> tuple[int, int]:
        """Return where the body starts in the file and how long the file is (-1: not told)."""
        status = response.status_code
        if status == 416:
            self.note.unlink(missing_ok=True)
            raise _Interrupted("the server has no such range; starting again")
        if status in _BUSY:
            raise _Interrupted(f"the server answered {status}")
        if status not in (200, 206):
            raise EnvFault(f"{self.url}: the server answered {status}", retryable=False)
        if response.headers.get("content-encoding", "identity") != "identity":
            raise EnvFault(f"{self.url}: the server sent a compressed body unasked", retryable=False)
        if status == 200:
            return 0, int(response.headers.get("content-length", -1))
        place, _, total = response.headers.get("content-range", "").removeprefix("bytes ").partition("/")
        if place.partition("-")[0] != str(offset):
            self.note.unlink(missing_ok=True)
            raise _Interrupted("the server sent another range than asked for; starting again")
        return offset, int(total) if total.isdigit() else -1

    def _receive(self, response: httpx.Response, file: BinaryIO, offset: int, total: int) -> None:
        count = offset
        if total <= self.max_bytes:
            for chunk in response.iter_raw():
                count += len(chunk)
                if count > self.max_bytes:
                    break
                file.write(chunk)
                if self.progress is not None:
                    self.progress(count, total)
        if max(count, total) > self.max_bytes:
            file.truncate(0)
            size = f"{total:,} bytes" if total > 0 else "a body"
            raise EnvFault(f"{self.url}: {size} beyond the cap of {self.max_bytes:,}", retryable=False)
