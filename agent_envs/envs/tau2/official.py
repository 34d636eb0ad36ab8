"""The official data of tau2-bench is found and verified here, and domains and tasks are made of it.

Every file is held once against its git blob id at the pinned commit. Databases are read once per process; of the 14 MB of
telecom tasks only those are parsed that are asked for.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent_envs.base.cache_dir import cache_dir
from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.envs.tau2 import airline, retail, telecom, telecom_tables
from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.toolkit import Domain

REPOSITORY = "sierra-research/tau2-bench"
COMMIT = "a2c024725189473d2d7cea3a5cfdbcc67478e41f"
_OTHER_LAYOUT = "the file of tau2 tasks is not laid out as the published one: get it again"
DOMAINS = ("retail", "airline", "telecom")
BLOBS: Mapping[str, str] = MappingProxyType(
    json.loads(files(__package__).joinpath("official_blobs.json").read_text(encoding="utf-8"))
)


def official_folder() -> Path:
    """Return the folder of the published files: in the one that AGENT_ENVS_DATA names, else in the cache.

    Raises:
        DataMissing: neither has it.
    """
    named = os.environ.get("AGENT_ENVS_DATA")
    places = [Path(named).expanduser() / "tau2" / "official"] if named else []
    places.append(cache_dir() / "tau2" / COMMIT)
    for place in places:
        if (place / "data" / "tau2").is_dir():
            return place / "data" / "tau2"
    raise DataMissing(
        f"the official tau2 data is not on this machine (looked in {', '.join(map(str, places))}): put the folder data/ of "
        f"{REPOSITORY} at commit {COMMIT} there, or set AGENT_ENVS_DATA to a folder with tau2/official/data"
    )


def official_bytes(path: str) -> bytes:
    """Return a published file's content, checked.

    Args:
        path: such as "domains/retail/policy.md".

    Raises:
        DataMissing: the file is not there.
        UsageError: it is not the published file, or no file of that name is known.
    """
    if path not in BLOBS:
        raise UsageError(f"tau2 has no official file {path!r} here")
    return _read(official_folder() / path, BLOBS[path])


def _read(file: Path, blob: str) -> bytes:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataMissing(f"the official tau2 file {file} is missing; get it from {REPOSITORY} at {COMMIT}") from None
    status = file.stat()
    if not _checked(file, status.st_size, status.st_mtime_ns, blob):
        raise UsageError(f"{file} is not the file published in {REPOSITORY} at {COMMIT}: get it again")
    return content


@lru_cache(maxsize=256)
def _checked(file: Path, size: int, changed: int, blob: str) -> bool:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    digest.update(file.read_bytes())
    return digest.hexdigest() == blob


def load_domain(name: str, compat: str = "tau2-1.0.1", *, workflow: bool = False) -> Domain:
    """Return a domain over the official data; databases are read once per process and shared.

    Args:
        name: "retail", "airline" or "telecom".
        compat: "tau2-1.0.1" or "fixed".
        workflow: telecom alone: give the agent the support workflow in place of the manual.

    Raises:
        UsageError: an unknown name.
        DataMissing: the data is not there.
    """
    if name not in DOMAINS:
        raise UsageError(f"tau2 has no domain {name!r}; the domains are {', '.join(DOMAINS)}")
    if workflow and name != "telecom":
        raise UsageError(f"tau2 {name} has no support workflow; only telecom has")
    return _load(name, compat, workflow, official_folder())


@cache
def _load(name: str, compat: str, workflow: bool, folder: Path) -> Domain:
    switches = Compat.named(compat)
    if name == "telecom":
        agent, user = _telecom_databases(folder)
        policy = _telecom_policy("", "workflow" if workflow else "manual")
        solo_policy = _telecom_policy("_solo", "workflow_solo" if workflow else "manual")
        return telecom.telecom(agent, user, switches, policy, solo_policy)
    make = retail.retail if name == "retail" else airline.airline
    return make(_json_database(name, folder), switches, _text(f"domains/{name}/policy.md"))


@cache
def _json_database(name: str, folder: Path) -> Database:
    shapes = retail.SHAPES if name == "retail" else airline.SHAPES
    data = json.loads(official_bytes(f"domains/{name}/db.json"))
    tables = {
        table: {key: shaped(row, shape, f"{name} {table} {key}") for key, row in data[table].items()}
        for table, shape in shapes.items()
    }
    return Database(name, tables)


@cache
def _telecom_databases(folder: Path) -> tuple[Database, Database]:
    agent = telecom_tables.agent_records(tomllib.loads(_text("domains/telecom/db.toml")))
    return agent, telecom_tables.user_records(tomllib.loads(_text("domains/telecom/user_db.toml")))


def _text(path: str) -> str:
    return official_bytes(path).decode()


def user_guidelines(scenario: str, with_tools: bool) -> str:
    """Return what the original tells a model that plays a customer: its guidelines, and a scenario behind them.

    Raises:
        DataMissing: the data is not there.
    """
    rules = _text(f"user_simulator/simulation_guidelines{'_tools' if with_tools else ''}.md")
    return f"{rules.strip()}\n\n<scenario>\n{scenario}\n</scenario>"


def _telecom_policy(mode: str, support: str) -> str:
    main = _text(f"domains/telecom/main_policy{mode}.md")
    technical = _text(f"domains/telecom/tech_support_{support}.md")
    return (
        f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{technical}\n</tech_support_policy>"
    )  # fmt: skip


class Deck:
    """The official tasks of one domain: found by an index, parsed when they are asked for."""

    def __init__(self, content: bytes, splits: Mapping[str, list[str]]) -> None:
        """Index a file of tasks that is indented JSON, as the published ones are."""
        self._content = content
        first = re.search(rb"^ +\{$", content, re.MULTILINE)
        if first is None:
            raise UsageError(_OTHER_LAYOUT)
        starts = [
            found.start() for found in re.finditer(rb"^" + re.escape(first.group()) + rb"$", content, re.MULTILINE)
        ]
        ends = [*starts[1:], content.rindex(b"]")]
        self._places = {self._id(start): (start, end) for start, end in zip(starts, ends, strict=True)}
        self._parsed: dict[str, dict[str, Any]] = {}
        chosen = {name: frozenset(ids) for name, ids in splits.items()}
        self.splits: dict[str, tuple[str, ...]] = {
            name: tuple(task_id for task_id in self._places if task_id in ids) for name, ids in chosen.items()
        }
        self.ids = tuple(self._places)

    def _id(self, start: int) -> str:
        found = re.compile(rb'\{\s*"id": ("(?:[^"\\]|\\.)*")').search(self._content, start)
        if found is None:
            raise UsageError(_OTHER_LAYOUT)
        return str(json.loads(found.group(1)))

    def split(self, name: str | None) -> tuple[str, ...]:
        """Return the ids of a split in file order; None means all.

        Raises:
            UsageError: there is no such split.
        """
        if name is None:
            return self.ids
        if name not in self.splits:
            raise UsageError(f"tau2 has no split {name!r} here; the splits are {', '.join(self.splits)}")
        return self.splits[name]

    def task(self, task_id: str) -> dict[str, Any]:
        """Return a task's record, to read only; it is parsed once.

        Raises:
            UsageError: there is no such task.
        """
        if task_id not in self._places:
            raise UsageError(f"tau2 has no task {task_id!r} in this domain")
        if task_id not in self._parsed:
            start, end = self._places[task_id]
            self._parsed[task_id] = json.loads(self._content[start:end].rstrip().rstrip(b","))
        return self._parsed[task_id]


def deck(domain: str) -> Deck:
    """Return the official tasks of a domain, indexed once per process.

    Raises:
        UsageError: an unknown name.
        DataMissing: the data is not there.
    """
    if domain not in DOMAINS:
        raise UsageError(f"tau2 has no domain {domain!r}; the domains are {', '.join(DOMAINS)}")
    return _deck(domain, official_folder())


@cache
def _deck(domain: str, folder: Path) -> Deck:
    splits = json.loads(official_bytes(f"domains/{domain}/split_tasks.json"))
    return Deck(official_bytes(f"domains/{domain}/tasks.json"), splits)
