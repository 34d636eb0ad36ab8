"""Small domains of our own come with tasks and recorded dialogues, so that every check holds without outside data.

`DOMAIN.json` holds the databases, `DOMAIN.md` the policy (`DOMAIN_solo.md` that of solo mode), `DOMAIN_tasks.json` the tasks
by split. A task is a row of the published form with one more member: `recording`, what both sides say (see `dialogue`).
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from agent_envs.envs.tau2 import airline, retail, telecom, telecom_tables
from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.toolkit import Domain

SPLITS = ("train", "dev", "test")


@cache
def builtin_domain(name: str, compat: str = "tau2-1.0.1") -> Domain:
    """Return the small domain of a name: "retail", "airline" or "telecom"; databases are read once per process."""
    switches, policy = Compat.named(compat), _text(f"{name}.md")
    if name == "telecom":
        agent, user = _telecom_databases()
        return telecom.telecom(agent, user, switches, policy, _text("telecom_solo.md"))
    make = retail.retail if name == "retail" else airline.airline
    return make(_database(name), switches, policy)


@cache
def builtin_rows(name: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return a domain's tasks by split, to read only."""
    rows = json.loads(_text(f"{name}_tasks.json"))
    return {split: tuple(rows[split]) for split in SPLITS}


@cache
def _database(name: str) -> Database:
    data = json.loads(_text(f"{name}.json"))
    shapes = retail.SHAPES if name == "retail" else airline.SHAPES
    return Database(name, {
        table: {key: shaped(row, shape, f"{name} {table} {key}") for key, row in data[table].items()}
        for table, shape in shapes.items()
    })  # fmt: skip


@cache
def _telecom_databases() -> tuple[Database, Database]:
    data = json.loads(_text("telecom.json"))
    return telecom_tables.agent_records(data["company"]), telecom_tables.user_records(data["phone"])


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
