"""`differences` lists what differs between two states of the databases: record, member, old and new value."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agent_envs.envs.tau2.database import Changes, Database, View, identical, thawed
from agent_envs.envs.tau2.toolkit import Domain, DomainState

ABSENT = object()  # what stands where a record or a member is not there
LONGEST_VALUE = 400

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One member of one record.

    Attributes:
        side: whose database: "agent" or "user".
        table: of the database.
        key: of the record; "" in a table that is one record.
        path: to the member; () for a record that was added or removed as a whole.
        old: its value before, or `ABSENT`.
        new: its value after, or `ABSENT`.
    """

    side: str
    table: str
    key: str
    path: Path
    old: Any
    new: Any

    @property
    def record(self) -> str:
        """The record's table and key, "customer's" before them on the user's side."""
        whose = "customer's " if self.side == "user" else ""
        return f"{whose}{self.table} {self.key}".rstrip()

    @property
    def text(self) -> str:
        """The member with its old and new value, or as added or removed with its value."""
        place = _place(self.path)
        if self.old is ABSENT:
            return f"{place} added: {_value(self.new)}".lstrip()
        if self.new is ABSENT:
            return f"{place} removed: {_value(self.old)}".lstrip()
        return f"{place}: {_value(self.old)} \u2192 {_value(self.new)}"

    def stands_in(self, domain: Domain, world: DomainState) -> bool:
        """Return whether the member has the new value in a world."""
        view = _views(domain, world)[self.side]
        return _are_equal(_value_at(view.get(self.table, self.key), self.path), self.new)


def differences(domain: Domain, before: DomainState, after: DomainState) -> tuple[Difference, ...]:
    """List the differences by record and member; what one side lacks is named whole. () for the same state."""
    if before is after:
        return ()
    old, new = _views(domain, before), _views(domain, after)
    # A record may be back to what it is in the pristine database, so that only the first world knows of it.
    records = dict.fromkeys(record for world in (before, after) for record in _touched_records(world))
    return tuple(
        Difference(side, table, key, *parts)
        for side, table, key in records
        for parts in _compare(_record(old[side], table, key), _record(new[side], table, key), ())
    )


def _views(domain: Domain, state: DomainState) -> dict[str, View]:
    """Return a view of each side's database, "agent" and "user"; a side without a database is left out."""
    sides: tuple[tuple[str, Database | None, Changes], ...] = (
        ("agent", domain.agent_database, state.agent), ("user", domain.user_database, state.user)
    )  # fmt: skip
    return {side: View(database, changes) for side, database, changes in sides if database is not None}


def _touched_records(state: DomainState) -> Iterator[tuple[str, str, str]]:
    """Yield (side, table, key) of each record that a state changed or added."""
    for side, changes in (("agent", state.agent), ("user", state.user)):
        for table, records in changes.tables.items():
            yield from ((side, table, key) for key in records)


def _record(view: View, table: str, key: str) -> Any:
    """Return a record of a table; ABSENT where there is none."""
    record = view.get(table, key)
    return ABSENT if record is None else record


def _compare(old: Any, new: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """Yield (path, old, new) of values that differ, down through objects and tuples that both sides have."""
    names: list[str | int] = []
    if isinstance(old, dict) and isinstance(new, dict):
        names = list(dict.fromkeys((*old, *new)))
    elif isinstance(old, tuple) and isinstance(new, tuple):
        names = list(range(max(len(old), len(new))))
    elif not _are_equal(old, new):
        yield path, old, new
    for name in names:
        yield from _compare(_member(old, name), _member(new, name), (*path, name))


def _member(value: Any, name: str | int) -> Any:
    """Return a member of an object or an item of a tuple; ABSENT where there is none."""
    if isinstance(value, dict):
        return value.get(name, ABSENT)
    return value[name] if isinstance(value, tuple) and isinstance(name, int) and name < len(value) else ABSENT


def _value_at(record: Any, path: Path) -> Any:
    """Return the value at a path of a record; ABSENT where there is none, or the record is None."""
    value = ABSENT if record is None else record
    for name in path:
        value = _member(value, name)
    return value


def _are_equal(one: Any, other: Any) -> bool:
    """Return whether two values are identical as JSON, or both absent."""
    return one is other or (one is not ABSENT and other is not ABSENT and identical(one, other))


def _place(path: Path) -> str:
    """Return a path as text: dots between names, brackets around numbers; "" for none."""
    text = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path)
    return text.removeprefix(".")


def _value(value: Any) -> str:
    """Return a value as text: a trimmed text itself, others as JSON; long ones are cut, with their length."""
    plain = isinstance(value, str) and value.strip() == value != ""
    text = value if plain else json.dumps(thawed(value), ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}... ({len(text):,} characters)"
