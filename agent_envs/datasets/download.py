"""Downloads are resumable, bounded and held against a sha256. No other module knows huggingface_hub.

Plain addresses must be https, or http to this machine; redirects may only lead to https. No credentials are sent.
"""

import gzip
import os
import zlib
from pathlib import Path
from typing import BinaryIO, Literal

from agent_envs.base.cache_dir import cache_dir
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.base.serialization import sha256_file
from agent_envs.datasets.catalogue import download_path, record_sha256, recorded_sha256
from agent_envs.datasets.corpora import Progress, write_atomically
from agent_envs.datasets.http_transfer import Transfer, check_url
from agent_envs.datasets.manual_sources import MANUAL_SOURCES
from agent_envs.datasets.published import CORPORA, DATASETS, MIXTURES, PROBLEMS, Published

DEFAULT_MAX_BYTES = 2_000_000_000
UNPACKED_MAX_BYTES = 40_000_000_000


def fetch_url(
    url: str,
    target: Path,
    sha256: str | None = None,
    progress: Progress | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    backoff_seconds: float = 1.0,
) -> Path:
    """Download a file, resuming what an earlier call left; a file that is there with the right hash is kept.

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
    """Download a file of a data set repository on the Hugging Face hub (or at HF_ENDPOINT) into a folder.

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
        gone = isinstance(error, EntryNotFoundError) and not isinstance(error, FileNotFoundError)
        raise EnvFault(f"{what}: {error}", retryable=not gone) from error
    actual = sha256_file(path) if sha256 else sha256
    if actual != sha256:
        path.unlink()
        raise EnvFault(f"{what}: sha256 {actual}, expected {sha256}; the file was removed", retryable=False)
    return path


def _fetch(name: str, file: Published, progress: Progress | None) -> Path:
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
    """Unpack a gzip file; progress counts packed bytes."""
    size = packed.stat().st_size

    def write(output: BinaryIO) -> None:
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
    """Get a split of a data set, or a corpus, into the cache, and return its file (of a mixture: the folder of both).

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
    asked = f"has no split {split!r} from source {source!r}" if split else "is several files: name one with --split"
    raise UsageError(f"{name} {asked}; published: {kinds}")
