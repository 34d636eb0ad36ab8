"""The catalogue finds and loads data sets and corpora by name, from their files on this machine.

Where a file's sha256 is not known here, its first download writes a `sha256.json` beside it. Later downloads, and reads of
questions and corpora, are held against that.
"""

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agent_envs.base.caches import cache_dir, write_atomically
from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.base.serialization import sha256_file
from agent_envs.datasets.corpora import FileCorpus
from agent_envs.datasets.published import CORPORA, DATASETS, MIXTURES, PROBLEMS, DataSet, ProblemSet, Published
from agent_envs.datasets.readers import ENDINGS, Question, read_file
from agent_envs.datasets.seeded import SPLITS

DATA_FOLDER_VARIABLE = "AGENT_ENVS_DATA"
_SUBFOLDER = "searchqa"


class _Place(NamedTuple):
    """A place where a split may lie; `only` picks one data set's rows from a shared file."""

    path: Path
    format: str | None
    only: str = ""


def download_path(name: str, file: Published) -> Path:
    """Return the path in the cache where a published file goes, in a folder of its own for its split and source."""
    folder = (file.split or "corpus") + ("-official" if file.url else "")
    family = () if name in PROBLEMS else (_SUBFOLDER,)
    return cache_dir().joinpath(*family, name, folder, file.path)


def recorded_sha256(path: Path) -> str | None:
    """Return the digest that a file's first download noted; None without a note; UsageError where the note is damaged."""
    try:
        sha256 = json.loads((path.parent / "sha256.json").read_bytes()).get(path.name)
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError):
        raise UsageError(
            f"{path.parent / 'sha256.json'} is damaged: remove the folder and get the data again"
        ) from None
    return sha256 if isinstance(sha256, str) else None


def record_sha256(path: Path, sha256: str) -> None:
    """Note a file's digest in the `sha256.json` beside it, created or replaced at once; other files' notes stay."""
    note = path.parent / "sha256.json"
    earlier = json.loads(note.read_bytes()) if note.exists() else {}
    content = json.dumps(earlier | {path.name: sha256}, indent=1, sort_keys=True).encode()
    write_atomically(note, lambda file: file.write(content))


def _check_recorded(path: Path, actual: str) -> None:
    """Raise UsageError if a file's sha256 is not the one that was recorded at its download; none recorded passes."""
    expected = recorded_sha256(path)
    if expected is not None and actual != expected:
        raise UsageError(f"{path} changed since its download: sha256 {actual}, recorded {expected}. Get it again")


def dataset(name: str) -> DataSet:
    """Return a row of the catalogue; UsageError, with the rows there are, for any other name, a mixture's included."""
    if name not in DATASETS:
        raise UsageError(f"data set {name!r} is unknown; known: {', '.join((*DATASETS, *MIXTURES))}, or a file's path")
    return DATASETS[name]


def _as_path(name: str, endings: tuple[str, ...]) -> Path | None:
    """Return a name as a path if it is absolute or ends as a file of data does; None for a name of the catalogue."""
    path = Path(name).expanduser()
    return path if path.is_absolute() or path.suffix.lower() in endings else None


def _places(row: DataSet | ProblemSet, split: str) -> Iterator[_Place]:
    """Yield where a split may lie, whether or not it is there: first the folder named by AGENT_ENVS_DATA, then the cache."""
    files = [file for file in row.files if file.split == split]
    folder = os.environ.get(DATA_FOLDER_VARIABLE)
    if folder and isinstance(row, DataSet):
        data = Path(folder) / _SUBFOLDER
        yield _Place(data / split / f"{row.sample}.jsonl", None)
        if split == "train" and row.name in ("hotpotqa", "musique"):
            yield _Place(data / "train_gold_multihop.jsonl", "sample", row.sample)
    elif folder:
        yield from (_Place(Path(folder) / row.name / file.path, file.format) for file in files)
    yield from (_Place(download_path(row.name, file), file.format) for file in files)


def _splits_here(row: DataSet | ProblemSet) -> tuple[str, ...]:
    """Return the splits of which a file is on this machine."""
    return tuple(split for split in SPLITS if any(place.path.is_file() for place in _places(row, split)))


def _missing(what: str, looked: list[str], command: str) -> DataMissing:
    """Return the error for data that is not on this machine, with the places looked at and the command that gets it."""
    if not os.environ.get(DATA_FOLDER_VARIABLE):
        looked = [f"the folder named by {DATA_FOLDER_VARIABLE} (not set)", *looked]
    return DataMissing(f"{what} is not on this machine. Looked at: {'; '.join(looked)}. {command}")


def _find(name: str, split: str) -> _Place:
    """Find a split's file by path or name; DataMissing (with the command) if it is not here, UsageError for unknown names."""
    if split not in SPLITS:
        raise UsageError(f"split {split!r} is unknown; the splits are {', '.join(SPLITS)}")
    if path := _as_path(name, ENDINGS):
        if not path.is_file():
            raise DataMissing(f"no question file at {path}")
        return _Place(path, None)
    if name in MIXTURES:
        raise UsageError(f"{name} is several files: ask for {' and '.join(MIXTURES[name].members)}")
    row = dataset(name)
    places = list(_places(row, split))
    for place in places:
        if place.path.is_file():
            return place
    command = f"Get it: agent-envs data get {name} --split {split}"
    if split not in row.splits:
        command = f"It is published for: {', '.join(row.splits)}"
    raise _missing(f"{name}, split {split},", [str(place.path) for place in places], command)


def find_questions(name: str, split: str) -> Path:
    """Return the file of a split: first in the folder named by AGENT_ENVS_DATA, then in the cache.

    Args:
        name: a data set of the catalogue, or the path of a question file.
        split: train, dev or test; a path is a test split.

    Raises:
        DataMissing: it is not on this machine; the message names every place looked at and the command that gets it.
        UsageError: an unknown name or split, or a mixture, which is several files.
    """
    return _find(name, split).path


def available_splits(name: str) -> tuple[str, ...]:
    """Return the splits that can be loaded now, as train, dev, test; of a mixture those of all members, of a file "test"."""
    if name in MIXTURES:
        common = [available_splits(member) for member in MIXTURES[name].members]
        return tuple(split for split in SPLITS if all(split in splits for splits in common))
    if _as_path(name, ENDINGS):
        return ("test",)
    return _splits_here(dataset(name))


def present_splits(name: str) -> tuple[str, ...]:
    """Return `available_splits(name)`, at least one; DataMissing, with the command that gets a split, where there is none.

    Raises:
        DataMissing: there is none; the message names a split that is published, and the command that gets it.
    """
    if splits := available_splits(name):
        return splits
    members = MIXTURES[name].members if name in MIXTURES else (name,)
    published_split = next(
        split for split in reversed(SPLITS) if all(split in dataset(member).splits for member in members)
    )
    for member in members:
        find_questions(member, published_split)
    raise AssertionError(f"{name}: {published_split} came to be while it was looked for")


@lru_cache(maxsize=64)
def _load(place: _Place, name: str, split: str, size: int, changed_ns: int) -> tuple[Question, ...]:
    """Read a split, cached by path, size and time of change; UsageError where its bytes differ from the recorded sha256."""
    if recorded_sha256(place.path) is not None:
        _check_recorded(place.path, sha256_file(place.path))
    row = DATASETS.get(name)
    labels = (("domain", row.domain),) if row else ()
    title = row.name if row else place.path.stem
    return read_file(place.path, place.format, dataset=title, split=split, only=place.only, labels=labels).questions


def load_questions(name: str, split: str) -> tuple[Question, ...]:
    """Return a split's questions, cached until its file changes; a mixture's are its members' in turn, ids prefixed.

    A mixture gives its members' questions one after the other, each id with the data set's name before it.
    """
    if name in MIXTURES:
        return tuple(
            Question(f"{member}:{row.id}", member, split, row.text, row.answers, row.support, row.labels)
            for member in MIXTURES[name].members
            for row in load_questions(member, split)
        )
    place = _find(name, split)
    state = place.path.stat()
    return _load(place, name, split, state.st_size, state.st_mtime_ns)


def problem_splits(name: str) -> tuple[str, ...]:
    """Return the splits of a problem set that are on this machine."""
    return _splits_here(PROBLEMS[name])


def find_problems(name: str, split: str) -> Path:
    """Return a problem split's file, in AGENT_ENVS_DATA or cache; DataMissing if absent, UsageError for other bytes or names.

    Raises:
        DataMissing: it is not on this machine, or is not downloaded at all; the message says what to do.
        UsageError: an unknown name or split, or a file that is not the published one.
    """
    if name not in PROBLEMS:
        raise UsageError(f"problem set {name!r} is unknown; known: {', '.join(PROBLEMS)}")
    if not PROBLEMS[name].files:
        raise DataMissing(f"{name} is not downloaded from here: {PROBLEMS[name].terms}, then give that file's path")
    published = {file.split: file for file in PROBLEMS[name].files}
    if split not in published:
        raise UsageError(f"{name} has no split {split!r}; published: {', '.join(published)}")
    places = [place.path for place in _places(PROBLEMS[name], split)]
    for path in places:
        if path.is_file():
            actual, expected = sha256_file(path), published[split].sha256
            if expected not in (None, actual):
                raise UsageError(f"{path} is not the published file: sha256 {actual}, expected {expected}")
            return path
    command = f"Get it: agent-envs data get {name} --split {split}"
    raise _missing(f"{name}, split {split},", [str(path) for path in places], command)


def find_corpus(name: str = "auto") -> Path:
    """Return the path of a corpus: `sample` (or `auto`), `wiki-18`, or a file's path, unchecked; DataMissing, or UsageError.

    Raises:
        DataMissing: it is not on this machine; the message says where it was looked for and how to get it.
        UsageError: an unknown name.
    """
    if path := _as_path(name, (".jsonl", ".gz")):
        return path
    name = "sample" if name == "auto" else name
    if name not in CORPORA:
        raise UsageError(f"corpus {name!r} is unknown; known: auto, {', '.join(CORPORA)}, or a path")
    file = CORPORA[name].file
    folder = os.environ.get(DATA_FOLDER_VARIABLE)
    if file is not None:
        path = download_path(name, file).with_suffix("")
        command = f"Get it: agent-envs data get {name}"
    else:
        path = Path(folder or "") / _SUBFOLDER / "corpus.jsonl"
        command = (
            f"Set {DATA_FOLDER_VARIABLE} to the data folder, or give corpus=wiki-18 or corpus=/path/to/passages.jsonl"
        )
    if path.is_file() and (file is not None or folder):
        return path
    raise _missing(f"corpus {name}", [str(path)] if file is not None or folder else [], command)


@lru_cache(maxsize=8)
def _open_corpus(path: Path, size: int, changed_ns: int) -> FileCorpus:
    """Open a corpus file and check its sha256, cached until its size or time changes."""
    corpus = FileCorpus(path)
    _check_recorded(path, corpus.digest)
    return corpus


def load_corpus(name: str = "auto") -> FileCorpus:
    """Open a corpus, cached until its file changes; DataMissing if it is not there, UsageError if its sha256 changed."""
    path = find_corpus(name)
    if not path.is_file():
        raise DataMissing(f"no corpus at {path}")
    state = path.stat()
    return _open_corpus(path, state.st_size, state.st_mtime_ns)
