"""All episodes share a database that is never written, and each keeps only the few records that it changed.

`Database` is read once and never written. `Changes` holds what an episode changed or added: empty at reset, replaced as a
whole by `View.commit`, so that a fork is a reference. Records are JSON data with tuples in place of lists.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_envs.base.serialization import state_type

Record = dict[str, Any]
Table = dict[str, Record]


# Of these alone nothing can be changed in place, so that they are taken as they are, without a call for each.
_PLAIN = frozenset((str, int, float, bool, type(None)))


def frozen(value: Any) -> Any:
    """Return JSON data with tuples for lists; nothing of the given value is shared."""
    if isinstance(value, dict):
        return {key: item if type(item) in _PLAIN else frozen(item) for key, item in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def thawed(value: Any) -> Any:
    """Return JSON data with lists for tuples; nothing of the given value is shared."""
    if isinstance(value, dict):
        return {key: item if type(item) in _PLAIN else thawed(item) for key, item in value.items()}
    return list(map(thawed, value)) if isinstance(value, list | tuple) else value


def identical(one: Any, other: Any) -> bool:
    """Return whether two values have the same JSON text up to the order of keys; a list is a tuple, but 1 is not 1.0."""
    if one is other:
        return True
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(identical(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(identical, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


@state_type
@dataclass(frozen=True)
class Changes:
    """The records that an episode changed or added, by table and key, in the order of their first change."""

    tables: dict[str, Table] = field(default_factory=dict)


NO_CHANGES = Changes()


class Database:
    """Tables of records, shared by all episodes and never written.

    Args:
        name: what messages call it.
        tables: records by table and key, in file order; they are frozen here.
        listed: tables that the original keeps as lists, whose order therefore counts in hashes; a record of such a table
            holds its key.
        single: tables that are one record, found under the key "".
    """

    def __init__(
        self,
        name: str,
        tables: Mapping[str, Mapping[str, Any]],
        *,
        listed: Collection[str] = (),
        single: Collection[str] = (),
    ) -> None:
        """Freeze the tables."""
        self.name = name
        self.tables: dict[str, Table] = {table: frozen(rows) for table, rows in tables.items()}
        self.listed, self.single = frozenset(listed), frozenset(single)


def same(database: Database, one: Changes, other: Changes) -> bool:
    """Return whether the original would give two databases one hash; in listed tables the order of additions counts, too."""
    if one is other:
        return True
    for table in one.tables.keys() | other.tables.keys():
        ours, theirs = one.tables.get(table, {}), other.tables.get(table, {})
        pristine = database.tables[table]
        for key in ours.keys() | theirs.keys():
            if not identical(ours.get(key, pristine.get(key)), theirs.get(key, pristine.get(key))):
                return False
        if table in database.listed and _additions(ours, pristine) != _additions(theirs, pristine):
            return False
    return True


def _additions(changed: Table, pristine: Table) -> list[str]:
    """Return the keys of a changed table that the pristine one lacks."""
    return [key for key in changed if key not in pristine]


class View:
    """A call's access to the tables, to read and write. Nothing outside sees its writes before `commit`."""

    def __init__(self, database: Database, changes: Changes) -> None:
        """Look at a database through an episode's changes."""
        self.database, self._changes = database, changes
        self._drafts: dict[str, Table] = {}

    def get(self, table: str, key: str) -> Record | None:
        """Return a record to read only: this call's draft, else as changed earlier, else the database's; None without one."""
        for layer in (self._drafts, self._changes.tables):
            if table in layer and key in layer[table]:
                return layer[table][key]
        return self.database.tables[table].get(key)

    def changed(self, table: str) -> Iterator[tuple[str, Record]]:
        """Yield the records of a table that were changed or added, by this call or before it, with their keys."""
        for layer in (self._changes.tables, self._drafts):
            yield from layer.get(table, {}).items()

    def rows(self, table: str) -> Collection[Record]:
        """Return the records of a table to read only, additions last."""
        return self.records(table).values()

    def records(self, table: str) -> Table:
        """Return a table's records by key, to read only, with this call's drafts, additions last."""
        layers = [layer[table] for layer in (self._changes.tables, self._drafts) if table in layer]
        merged = self.database.tables[table]
        for layer in layers:
            merged = {**merged, **layer}
        return merged

    def edit(self, table: str, key: str) -> Record:
        """Return this call's own copy of a record, to be changed in place, the same each time; KeyError without a record.

        Raises KeyError: there is no such record.
        """
        draft = self._drafts.setdefault(table, {})
        if key not in draft:
            record = self.get(table, key)
            if record is None:
                raise KeyError(key)
            draft[key] = thawed(record)
        return draft[key]

    def add(self, table: str, key: str, record: Mapping[str, Any]) -> Record:
        """Add a record under a new key and return this call's own copy of it. Raises KeyError: the key is taken."""
        if self.get(table, key) is not None:
            raise KeyError(key)
        added: Record = thawed(dict(record))
        self._drafts.setdefault(table, {})[key] = added
        return added

    def commit(self) -> Changes:
        """Return the changes with this call's drafts; the same object if no record differs; records put back are dropped."""
        if not self._drafts:
            return self._changes
        tables = dict(self._changes.tables)
        for table, drafts in self._drafts.items():
            changed = dict(tables.get(table, {}))
            for key, draft in drafts.items():
                _put(changed, self.database.tables[table], key, frozen(draft))
            tables[table] = changed
        tables = {table: changed for table, changed in tables.items() if changed}
        return self._changes if _are_same(tables, self._changes.tables) else Changes(tables)


def _put(changed: Table, pristine: Table, key: str, record: Record) -> None:
    """Keep a record among the changes, drop it if it equals the pristine one; an equal one already kept stays."""
    if identical(record, pristine.get(key)):
        changed.pop(key, None)
    elif key not in changed or not identical(record, changed[key]):
        changed[key] = record


def _are_same(one: dict[str, Table], other: dict[str, Table]) -> bool:
    """Return whether two sets of changes hold the very same record objects, in the same order."""
    return one.keys() == other.keys() and all(
        list(one[table]) == list(other[table]) and all(one[table][key] is other[table][key] for key in one[table])
        for table in one
    )
