"""The catalogue is listed for `agent-envs data list` and `data path`, with what is on this machine."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from agent_envs.base.errors import DataMissing, MissingExtra
from agent_envs.datasets.catalogue import (
    available_splits,
    find_corpus,
    find_problems,
    find_questions,
    load_questions,
    present_splits,
    problem_splits,
)
from agent_envs.datasets.manual_sources import MANUAL_SOURCES, find_manual_source
from agent_envs.datasets.published import CORPORA, DATASETS, MIXTURES, PROBLEMS, ProblemSet, Published
from agent_envs.datasets.readers import file_rows


def data_rows() -> list[dict[str, str]]:
    """Return a row for each data set, mixture, problem set, corpus and manual source; counts those here, fetches nothing."""
    rows = []
    for name, row in DATASETS.items():
        rows.append(
            _row(name, row.title, row.domain, _split_sizes(row.files), _here(name), row.licence, _from(row.files))
        )
    for name, mixture in MIXTURES.items():
        rows.append(
            _row(name, mixture.title, "in", " + ".join(mixture.members), _here(name), "of its members", "its members")
        )
    for name, problems in PROBLEMS.items():
        here = ", ".join(f"{split} {_row_count(name, split)}" for split in problem_splits(name)) or "no"
        published = _split_sizes(problems.files) or "from its authors only"
        rows.append(_row(name, problems.title, problems.domain, published, here, problems.licence, origin_of(problems)))
    for name, corpus in CORPORA.items():
        here = _local_path(find_corpus, name)
        origin = _from((corpus.file,)) if corpus.file else "the data folder"
        rows.append(_row(name, corpus.title, "corpus", f"{corpus.passages:,} passages", here, corpus.licence, origin))
    for name, other in MANUAL_SOURCES.items():
        here = _local_path(find_manual_source, name)
        rows.append(_row(name, other.title, other.domain, other.published, here, other.licence, other.origin))
    return rows


def data_paths(name: str, split: str) -> list[Path]:
    """Return a name's files: of the split, or, without one, of all splits here; DataMissing where it is not on this machine.

    Raises:
        DataMissing: not on this machine.
    """
    if name in CORPORA or name == "auto":
        return [find_corpus(name)]
    if name in MANUAL_SOURCES:
        return [find_manual_source(name)]
    if name in PROBLEMS:
        parts = (split,) if split else problem_splits(name) or ("test",)
        return [find_problems(name, part) for part in parts]
    members = MIXTURES[name].members if name in MIXTURES else (name,)
    splits = (split,) if split else present_splits(name)
    return [find_questions(member, part) for member in members for part in splits]


def origin_of(problems: ProblemSet) -> str:
    """Return a problem set's origin, as it is given or else as its files' repositories."""
    return problems.origin or _from(problems.files)


def _split_sizes(files: tuple[Published, ...]) -> str:
    """Return the published splits with their numbers of rows, where these are known."""
    return ", ".join(f"{file.split} {file.rows:,}" if file.rows else file.split for file in files)


def _row_count(name: str, split: str) -> str:
    """Return the number of rows of a split's file, or "(not counted without pyarrow)"."""
    try:
        return f"{sum(1 for _ in file_rows(find_problems(name, split))):,}"
    except MissingExtra:
        return "(not counted without pyarrow)"


def _here(name: str) -> str:
    """Return the splits on this machine with their numbers of questions, or "no"."""
    return ", ".join(f"{split} {len(load_questions(name, split)):,}" for split in available_splits(name)) or "no"


def _local_path(find: Callable[[str], Path], name: str) -> str:
    """Return the path that `find` gives for a name, as text; "no" where it raises DataMissing."""
    try:
        return str(find(name))
    except DataMissing:
        return "no"


def _from(files: tuple[Published, ...]) -> str:
    """Return the origin of files: repositories of the hub (huggingface.co/datasets), or of GitHub."""
    places = [f"hub {file.repo}" if file.repo else _repository(file.url) for file in files]
    return ", ".join(dict.fromkeys(places))


def _repository(url: str) -> str:
    """Return github.com/OWNER/NAME for a raw file of GitHub; of another address, its host."""
    parts = urlsplit(url)
    raw = parts.netloc.endswith(".githubusercontent.com")
    owner, name = parts.path.removeprefix("/media").strip("/").split("/")[:2] if raw else ("", "")
    return f"github.com/{owner}/{name}" if raw else parts.netloc


def _row(*values: str) -> dict[str, str]:
    """Return a row of the listing from its values in the order of the columns."""
    return dict(zip(("name", "title", "domain", "published", "here", "licence", "from"), values, strict=True))
