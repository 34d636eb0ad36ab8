"""Downloads are resumable, bounded and held against a sha256. No other module knows huggingface_hub.

Plain addresses must be https, or http to this machine; redirects may only lead to https. No credentials are sent.
"""

import gzip
import ipaddress
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import httpx

from agent_envs.base.caches import cache_dir, write_atomically
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.base.jsonl_log import try_lock
from agent_envs.base.serialization import sha256_file
from agent_envs.datasets.catalogue import download_path, record_sha256, recorded_sha256
from agent_envs.datasets.corpora import Progress
from agent_envs.datasets.manual_sources import MANUAL_SOURCES
from agent_envs.datasets.published import CORPORA, DATASETS, MIXTURES, PROBLEMS, Published

RETRIES = 5
REDIRECTS = 5
TIMEOUT_SECONDS = 30.0
_BUSY = {408, 425, 429, 500, 502, 503, 504}
DEFAULT_MAX_BYTES = 2_000_000_000
UNPACKED_MAX_BYTES = 40_000_000_000


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
        """Set the URL, the part file, the cap on bytes, and the first pause between attempts, which doubles."""
        self.url = url
        self.part = part
        self.note = part.with_name(part.name + ".json")
        self.max_bytes = max_bytes
        self.backoff_seconds = backoff_seconds
        self.progress = progress

    def run(self) -> None:
        """Complete the part under a lock, resuming an earlier run's; EnvFault if it fails (one final drops an empty part)."""
        try:
            with self.part.open("ab") as file, httpx.Client(timeout=TIMEOUT_SECONDS) as client:
                if not try_lock(file):
                    raise EnvFault(f"another process is writing {self.part}: wait for it, then run this again")
                self._attempt_repeatedly(file, client)
        except EnvFault as fault:
            if not fault.retryable and not self.part.stat().st_size:
                self.part.unlink()
                self.note.unlink(missing_ok=True)
            raise

    def move(self, target: Path, sha256: str | None) -> None:
        """Put the complete part in its place; EnvFault where its sha256 is another (it is removed) or the part is gone."""
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

    def _attempt_repeatedly(self, file: BinaryIO, client: httpx.Client) -> None:
        """Attempt the transfer, sleeping longer after each cut; EnvFault after the last (the part stays) or a final fault."""
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
        """Request what the part lacks, or all of it where the server's version changed, and note what the part is of."""
        note = self._read_note()
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
            etag = response.headers.get("etag", "")
            # A weak tag does not promise equal bytes, which is what a resumed file needs.
            validator = etag if etag and not etag.startswith("W/") else response.headers.get("last-modified", "")
            note = {"url": self.url, "validator": validator, "total": total}
            write_atomically(self.note, lambda file: file.write(json.dumps(note).encode()))
            self._receive(response, file, offset, total)

    def _read_note(self) -> dict[str, Any]:
        """Read the note beside the part; {} where it is missing, of another URL, or without a validator."""
        try:
            note = json.loads(self.note.read_bytes())
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) and note.get("url") == self.url and note.get("validator") else {}

    @contextmanager
    def _response(self, client: httpx.Client, headers: dict[str, str]) -> Iterator[httpx.Response]:
        """Open the response behind redirects, which may lead to https alone; EnvFault for others or too many."""
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
        """Return the body's start in the file and the file's length (-1: not told); _Interrupted to retry, else EnvFault."""
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
        """Write the body to the part with progress; beyond the cap, announced or received, empty it and raise EnvFault."""
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


def fetch_url(
    url: str,
    target: Path,
    sha256: str | None = None,
    progress: Progress | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    backoff_seconds: float = 1.0,
) -> Path:
    """Download a file, resuming an earlier part, and return its path; one there with the right hash, or no hash asked, stays.

    Args:
        url: https address (http only to this machine).
        target: where the file goes; `target.part` and `target.part.json` lie beside it meanwhile.
        sha256: expected digest; None skips the check and keeps a file that is there.
        progress: called with the bytes so far and the total.
        max_bytes: a longer body is refused.
        backoff_seconds: first pause after a cut; it doubles at each of the five retries.

    Raises:
        EnvFault: the transfer failed; where it is retryable, the same call resumes it.
        UsageError: an address of another kind.
    """
    check_url(url)
    if target.is_file() and sha256 in (None, sha256_file(target)):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    transfer = Transfer(url=url, part=part, max_bytes=max_bytes, backoff_seconds=backoff_seconds, progress=progress)
    transfer.run()
    transfer.move(target, sha256)
    return target


def fetch_hub(
    repo: str, filename: str, revision: str, target_dir: Path, sha256: str | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Path:  # fmt: skip
    """Download a hub (HF_ENDPOINT's, too) data set's file into a folder; one with another sha256 is removed: EnvFault.

    Raises:
        EnvFault: the hub failed or has no such file, or the file is too large or has another hash.
        MissingExtra: huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url
        from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError
    except ImportError:
        raise MissingExtra("huggingface_hub", "data", "downloading from the hub") from None
    what = f"{repo}/{filename} at {revision}"
    # The bases of the hub's error are those of whichever HTTP library its version is built on.
    failures: tuple[type[BaseException], ...] = (OSError, EntryNotFoundError, *HfHubHTTPError.__bases__)
    try:
        # The data are public, so a token of the user's is not shown to whatever HF_ENDPOINT names.
        address = hf_hub_url(repo, filename, repo_type="dataset", revision=revision)
        size = get_hf_file_metadata(address, token=False).size
        if size is not None and size > max_bytes:
            raise EnvFault(f"{what}: {size:,} bytes are beyond the cap of {max_bytes:,}", retryable=False)
        path = Path(
            hf_hub_download(repo, filename, repo_type="dataset", revision=revision, local_dir=target_dir, token=False)
        )
    except failures as error:
        is_missing = isinstance(error, EntryNotFoundError) and not isinstance(error, FileNotFoundError)
        raise EnvFault(f"{what}: {error}", retryable=not is_missing) from error
    actual = sha256_file(path) if sha256 else sha256
    if actual != sha256:
        path.unlink()
        raise EnvFault(f"{what}: sha256 {actual}, expected {sha256}; the file was removed", retryable=False)
    return path


def _fetch(name: str, file: Published, progress: Progress | None) -> Path:
    """Download a file unless its checked copy is here (a damaged one is replaced), and record its sha256; return its path."""
    path = download_path(name, file)
    expected = file.sha256 or recorded_sha256(path)
    if path.is_file():
        if expected is not None and sha256_file(path) == expected:
            return path
        path.unlink()
    if file.url:
        fetch_url(file.url, path, expected, progress, max_bytes=file.max_bytes)
    else:
        folder = path.parents[len(Path(file.path).parts) - 1]
        fetch_hub(file.repo, file.path, file.revision, folder, expected, file.max_bytes)
    record_sha256(path, expected or sha256_file(path))
    return path


def _unpack(packed: Path, target: Path, progress: Progress | None) -> None:
    """Unpack a gzip file, progress in packed bytes; EnvFault for a damaged one or one that unpacks beyond the cap."""
    size = packed.stat().st_size

    def write(output: BinaryIO) -> None:
        """Write the unpacked file with progress; EnvFault beyond the cap, as a small file may unpack to a huge one."""
        count = 0
        with packed.open("rb") as raw, gzip.GzipFile(fileobj=raw) as source:
            while chunk := source.read(1 << 20):
                count += len(chunk)
                if count > UNPACKED_MAX_BYTES:
                    raise EnvFault(f"{packed}: unpacks to more than {UNPACKED_MAX_BYTES:,} bytes", retryable=False)
                output.write(chunk)
                if progress is not None:
                    progress(raw.tell(), size)

    try:
        write_atomically(target, write)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise EnvFault(f"{packed} does not unpack ({error}): remove it and get it again", retryable=False) from None


def _get_corpus(name: str, progress: Progress | None) -> Path:
    """Download and unpack a corpus unless its checked copy is here, and remove the packed file; UsageError without download."""
    file = CORPORA[name].file
    if file is None:
        raise UsageError(f"corpus {name!r} comes with the data folder that AGENT_ENVS_DATA names; it has no download")
    target = download_path(name, file).with_suffix("")
    if target.is_file() and recorded_sha256(target) == sha256_file(target):
        return target
    packed = _fetch(name, file, progress)
    _unpack(packed, target, progress)
    record_sha256(target, sha256_file(target))
    packed.unlink()
    return target


def get(
    name: str, split: str = "", progress: Progress | None = None, *, source: Literal["hub", "official"] = "hub"
) -> Path:
    """Get a split or a corpus into the cache and return its file, of a mixture its folder; UsageError for none, or EnvFault.

    What is there and intact is not transferred again; what is there and damaged is replaced.

    Args:
        name: a data set, mixture, problem set or corpus of the catalogue.
        split: train, dev or test; not read for a corpus.
        progress: called with the bytes so far and the total (the hub's client shows a bar of its own instead).
        source: the collection on the hub, or the authors' own file where its address is known; a problem set has but
            one source, and this is not read.
    """
    if name in CORPORA:
        return _get_corpus(name, progress)
    if name in MIXTURES:
        paths = [get(member, split, progress, source=source) for member in MIXTURES[name].members]
        return Path(os.path.commonpath([cache_dir(), *paths]))
    if name in MANUAL_SOURCES:
        raise UsageError(f"{name} is not downloaded from here: {MANUAL_SOURCES[name].terms}")
    if name not in DATASETS and name not in PROBLEMS:
        every = (*DATASETS, *MIXTURES, *PROBLEMS, *MANUAL_SOURCES, *CORPORA)
        raise UsageError(
            f"no data set, problem set or corpus {name!r}; the names are {', '.join(dict.fromkeys(every))}"
        )
    files = PROBLEMS[name].files if name in PROBLEMS else DATASETS[name].files
    if not files:
        raise UsageError(f"{name} is not downloaded from here: {PROBLEMS[name].terms}")
    for file in files:
        if file.split == split and (name in PROBLEMS or bool(file.url) == (source == "official")):
            return _fetch(name, file, progress)
    kinds = ", ".join(f"{file.split} ({'official' if file.url else 'hub'})" for file in files)
    reason = f"has no split {split!r} from source {source!r}" if split else "is several files: name one with --split"
    raise UsageError(f"{name} {reason}; published: {kinds}")
