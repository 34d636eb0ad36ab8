"""What `agent-envs data list` and `data path` say."""

from pathlib import Path

from agent_envs.errors import DataMissing
from agent_envs.sources.catalogue import (
    CORPORA,
    DATASETS,
    MIXTURES,
    available_splits,
    find_corpus,
    find_questions,
    load_questions,
    present_splits,
)


def data_rows() -> list[dict[str, str]]:
    """Return a row a data set, mixture and corpus; nothing is fetched."""
    rows = []
    for name, row in DATASETS.items():
        published = ", ".join(f"{file.split} {file.rows:,}" if file.rows else file.split for file in row.files)
        rows.append(_row(name, row.title, row.domain, published, _here(name), row.licence))
    for name, mixture in MIXTURES.items():
        rows.append(_row(name, mixture.title, "in", " + ".join(mixture.members), _here(name), "of its members"))
    for name, corpus in CORPORA.items():
        try:
            here = str(find_corpus(name))
        except DataMissing:
            here = "no"
        rows.append(_row(name, corpus.title, "corpus", f"{corpus.passages:,} passages", here, corpus.licence))
    return rows


def data_paths(name: str, split: str) -> list[Path]:
    """Return the files of a data set's split, a mixture's split, or a corpus.

    Raises:
        DataMissing: not on this machine.
    """
    if name in CORPORA or name == "auto":
        return [find_corpus(name)]
    members = MIXTURES[name].members if name in MIXTURES else (name,)
    splits = (split,) if split else present_splits(name)
    return [find_questions(member, part) for member in members for part in splits]


def _here(name: str) -> str:
    return ", ".join(f"{split} {len(load_questions(name, split)):,}" for split in available_splits(name)) or "no"


def _row(name: str, title: str, domain: str, published: str, here: str, licence: str) -> dict[str, str]:
    return {"name": name, "title": title, "domain": domain, "published": published, "here": here, "licence": licence}
