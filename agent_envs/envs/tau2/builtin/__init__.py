"""Small domains of our own come with the package: databases, and the policies of agents.

`DOMAIN.json` holds the databases, `DOMAIN.md` the policy (`DOMAIN_solo.md` that of solo mode).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2 import airline, retail, telecom, telecom_tables
from agent_envs.envs.tau2.compat import Compat
from agent_envs.envs.tau2.database import Database
from agent_envs.envs.tau2.record_schema import shaped
from agent_envs.envs.tau2.toolkit import Domain

DOMAINS = ("retail", "airline", "telecom")


def known_domain(name: str) -> str:
    """Return a domain's name unchanged; UsageError for an unknown one."""
    if not isinstance(name, str) or name not in DOMAINS:
        raise UsageError(f"tau2 has no domain {name!r}; the domains are {', '.join(DOMAINS)}")
    return name


@cache
def builtin_domain(name: str, compat: str = "tau2-1.0.1") -> Domain:
    """Return the small domain of a name: "retail", "airline" or "telecom"; databases are read once per process."""
    policies = [_text(f"{name}.md"), *([_text("telecom_solo.md")] if name == "telecom" else [])]
    return domain_over(name, _databases(name), compat, *policies)


def domain_over(name: str, databases: Sequence[Database], compat: str, *policies: str) -> Domain:
    """Return a domain of databases and policy texts ("" if left out); UsageError for a bad compat, KeyError for a name."""
    makers: dict[str, Callable[..., Domain]] = {
        "retail": retail.retail, "airline": airline.airline, "telecom": telecom.telecom
    }  # fmt: skip
    return makers[name](*databases, Compat.from_name(compat), *policies)


def databases_of(name: str, data: Mapping[str, Any]) -> tuple[Database, ...]:
    """Return a domain's databases, the agent's first (in telecom the phone's second), of its data; SchemaError if unfit.

    In telecom the data are lists of records under `company`, and the user's records under `phone`.

    Raises:
        SchemaError: a record does not fit.
    """
    if name == "telecom":
        return telecom_tables.agent_records(data["company"]), telecom_tables.user_records(data["phone"])
    shapes = retail.SHAPES if name == "retail" else airline.SHAPES
    tables = {
        table: {key: shaped(row, shape, f"{name} {table} {key}") for key, row in data[table].items()}
        for table, shape in shapes.items()
    }
    return (Database(name, tables),)


@cache
def _databases(name: str) -> tuple[Database, ...]:
    """Read a domain's built-in databases, cached."""
    return databases_of(name, json.loads(_text(f"{name}.json")))


def _text(name: str) -> str:
    """Read a file of the package as text."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
