"""The official data of tau2-bench is found and verified here, and domains and tasks are made of it.

Every file is held once against its git blob id at the pinned commit. Databases are read once per process; tasks are kept as
texts, which take less room, and parsed when they are asked for.
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_envs.base.caches import cache_dir
from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.envs.tau2.builtin import databases_of, domain_over, known_domain
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.toolkit import Domain

REPOSITORY = "sierra-research/tau2-bench"
COMMIT = "a2c024725189473d2d7cea3a5cfdbcc67478e41f"
BLOBS: Mapping[str, str] = MappingProxyType(
    json.loads(files(__package__).joinpath("official_blobs.json").read_text(encoding="utf-8"))
)


def official_folder() -> Path:
    """Return the published files' folder, in AGENT_ENVS_DATA or the cache; DataMissing where neither has it.

    Raises DataMissing: neither has it.
    """
    root = os.environ.get("AGENT_ENVS_DATA")
    places = [Path(root).expanduser() / "tau2" / "official"] if root else []
    places.append(cache_dir() / "tau2" / COMMIT)
    for place in places:
        if (place / "data" / "tau2").is_dir():
            return place / "data" / "tau2"
    raise DataMissing(
        f"the official tau2 data is not on this machine (looked in {', '.join(map(str, places))}): put the folder data/ of "
        f"{REPOSITORY} at commit {COMMIT} there, or set AGENT_ENVS_DATA to a folder with tau2/official/data"
    )


def official_bytes(path: str) -> bytes:
    """Return a published file's content, checked, by its path ("domains/retail/policy.md"); UsageError, or DataMissing.

    Raises:
        DataMissing: the file is not there.
        UsageError: it is not the published file, or no file of that name is known.
    """
    if path not in BLOBS:
        raise UsageError(f"tau2 has no official file {path!r} here")
    return _read(official_folder() / path, BLOBS[path])


def _read(file: Path, blob: str) -> bytes:
    """Return a published file's content; DataMissing without it, UsageError where its checksum is another."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataMissing(f"the official tau2 file {file} is missing; get it from {REPOSITORY} at {COMMIT}") from None
    status = file.stat()
    if not _matches_checksum(file, status.st_size, status.st_mtime_ns, blob):
        raise UsageError(f"{file} is not the file published in {REPOSITORY} at {COMMIT}: get it again")
    return content


@lru_cache(maxsize=256)
def _matches_checksum(file: Path, size: int, changed: int, blob: str) -> bool:
    """Return whether a file has git's checksum of its published form; size and time are the cache's key."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    digest.update(file.read_bytes())
    return digest.hexdigest() == blob


def load_domain(name: str, compat: str = "tau2-1.0.1", *, workflow: bool = False) -> Domain:
    """Return a domain over the official data, cached; `workflow` is telecom's other policy, UsageError for other domains.

    Raises:
        UsageError: an unknown name.
        DataMissing: the data is not there.
    """
    if workflow and known_domain(name) != "telecom":
        raise UsageError(f"tau2 {name} has no support workflow; only telecom has")
    return _load(known_domain(name), compat, workflow, official_folder())


@cache
def _load(name: str, compat: str, workflow: bool, folder: Path) -> Domain:
    """Return a domain over the official data of a folder, cached; telecom has a policy for solo mode, too."""
    databases = _databases(name, folder)
    policies = [_text(f"domains/{name}/policy.md")] if name != "telecom" else [
        _telecom_policy("", "workflow" if workflow else "manual"),
        _telecom_policy("_solo", "workflow_solo" if workflow else "manual"),
    ]  # fmt: skip
    return domain_over(name, databases, compat, *policies)


@cache
def _databases(name: str, folder: Path) -> tuple[Database, ...]:
    """Return a domain's official databases, cached; telecom has the company's and the phone's."""
    if name != "telecom":
        return databases_of(name, json.loads(official_bytes(f"domains/{name}/db.json")))
    files_of = {"company": "db.toml", "phone": "user_db.toml"}
    return databases_of(
        name, {part: tomllib.loads(_text(f"domains/telecom/{file}")) for part, file in files_of.items()}
    )


def _text(path: str) -> str:
    """Read a file of the official data as text."""
    return official_bytes(path).decode()


def user_guidelines(scenario: str, with_tools: bool) -> str:
    """Return the original's guidelines for a model as customer (`with_tools` or not), the scenario behind them; DataMissing.

    Raises DataMissing: the data is not there.
    """
    rules = _text(f"user_simulator/simulation_guidelines{'_tools' if with_tools else ''}.md")
    return f"{rules.strip()}\n\n<scenario>\n{scenario}\n</scenario>"


def _telecom_policy(mode: str, support: str) -> str:
    """Return telecom's policy in the original's tags: the main part of a mode, and a form of the technical part."""
    main = _text(f"domains/telecom/main_policy{mode}.md")
    technical = _text(f"domains/telecom/tech_support_{support}.md")
    return (
        f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{technical}\n</tech_support_policy>"
    )  # fmt: skip


class Deck:
    """The official tasks of one domain, kept as texts, 14 MB of telecom's, and parsed when they are asked for."""

    def __init__(self, content: bytes, splits: Mapping[str, list[str]]) -> None:
        """Take a file of tasks, and the ids of each split."""
        self._texts = {row["id"]: json.dumps(row) for row in json.loads(content)}
        self._parsed: dict[str, dict[str, Any]] = {}
        self.ids = tuple(self._texts)
        id_sets = {name: frozenset(ids) for name, ids in splits.items()}
        self.splits: dict[str, tuple[str, ...]] = {
            name: tuple(task_id for task_id in self.ids if task_id in ids) for name, ids in id_sets.items()
        }

    def split(self, name: str | None) -> tuple[str, ...]:
        """Return the ids of a split in file order, all for None; UsageError for an unknown split."""
        if name is None:
            return self.ids
        if name not in self.splits:
            raise UsageError(f"tau2 has no split {name!r} here; the splits are {', '.join(self.splits)}")
        return self.splits[name]

    def task(self, task_id: str) -> dict[str, Any]:
        """Return a task's record, to read only, cached; UsageError for an unknown id."""
        if task_id not in self._texts:
            raise UsageError(f"tau2 has no task {task_id!r} in this domain")
        if task_id not in self._parsed:
            self._parsed[task_id] = json.loads(self._texts[task_id])
        return self._parsed[task_id]


def deck(domain: str) -> Deck:
    """Return the official tasks of a domain, indexed once per process.

    Raises:
        UsageError: an unknown name.
        DataMissing: the data is not there.
    """
    return _deck(known_domain(domain), official_folder())


@cache
def _deck(domain: str, folder: Path) -> Deck:
    """Read a domain's official tasks and splits, cached by folder."""
    splits = json.loads(official_bytes(f"domains/{domain}/split_tasks.json"))
    return Deck(official_bytes(f"domains/{domain}/tasks.json"), splits)
