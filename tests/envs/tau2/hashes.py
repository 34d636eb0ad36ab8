"""The original's hashes of whole databases are made here: tests hold against them what the package finds out without hashes."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agent_envs.envs.tau2.database import NO_CHANGES, Changes, Database, Record
from agent_envs.envs.tau2.telecom_tables import DATETIMES
from agent_envs.envs.tau2.toolkit import Domain, DomainState


@dataclass(frozen=True)
class _Spelling:
    """How a whole database is written before it is hashed."""

    comma: str
    colon: str
    lenient: bool

    def text(self, record: Any, datetimes: Collection[str]) -> str:
        """Return one record's text."""
        value = _leniently(record, datetimes) if self.lenient else record
        return json.dumps(value, sort_keys=True, separators=(self.comma, self.colon))


_EXACT = _Spelling(", ", ": ", False)
_LENIENT = _Spelling(",", ":", True)


class _Texts:
    """The texts of a pristine database in one spelling, made once and joined anew where records changed."""

    def __init__(self, database: Database, spelling: _Spelling, datetimes: Mapping[str, Collection[str]]) -> None:
        self.database, self.spelling, self.datetimes = database, spelling, datetimes
        self.pieces = {table: self._pieces(table) for table in database.tables}
        self.joined = {table: self._joined(table, pieces) for table, pieces in self.pieces.items()}
        self.pristine = self.hash(NO_CHANGES)

    def hash(self, changes: Changes) -> str:
        """Return the sha256 of the whole database's text."""
        digest, mark = sha256(), "{"
        for table in sorted(self.database.tables):
            digest.update(f"{mark}{json.dumps(table)}{self.spelling.colon}".encode())
            digest.update(
                self._changed(table, changes.tables[table]) if table in changes.tables else self.joined[table]
            )
            mark = self.spelling.comma
        digest.update(b"}")
        return digest.hexdigest()

    def _pieces(self, table: str) -> dict[str, str]:
        rows = self.database.tables[table]
        keys = rows if table in self.database.listed else sorted(rows)
        return {key: self._piece(table, key, rows[key]) for key in keys}

    def _piece(self, table: str, key: str, record: Record) -> str:
        text = self.spelling.text(record, self.datetimes.get(table, ()))
        if table in self.database.listed or table in self.database.single:
            return text
        return f"{json.dumps(key)}{self.spelling.colon}{text}"

    def _changed(self, table: str, changed: dict[str, Record]) -> bytes:
        pieces = dict(self.pieces[table])
        added = False
        for key, record in changed.items():
            added = added or key not in pieces
            pieces[key] = self._piece(table, key, record)
        if added and table not in self.database.listed:
            pieces = {key: pieces[key] for key in sorted(pieces)}
        return self._joined(table, pieces)

    def _joined(self, table: str, pieces: dict[str, str]) -> bytes:
        text = self.spelling.comma.join(pieces.values())
        if table not in self.database.single:
            text = f"[{text}]" if table in self.database.listed else f"{{{text}}}"
        return text.encode("ascii")


_KNOWN: dict[tuple[Database, _Spelling], _Texts] = {}


def _texts(database: Database, spelling: _Spelling, datetimes: Mapping[str, Collection[str]]) -> _Texts:
    if (database, spelling) not in _KNOWN:
        _KNOWN[database, spelling] = _Texts(database, spelling, datetimes)
    return _KNOWN[database, spelling]


def original_hash(database: Database, changes: Changes) -> str:
    """Return the original's hash of the whole database: 1 and 1.0 differ, nulls count."""
    texts = _texts(database, _EXACT, {})
    return texts.hash(changes) if changes.tables else texts.pristine


def lenient_hash(database: Database, changes: Changes, datetimes: Mapping[str, Collection[str]] = DATETIMES) -> str:
    """Return the language-neutral hash: numbers in hundredths, nulls dropped, datetimes with a T."""
    texts = _texts(database, _LENIENT, datetimes)
    return texts.hash(changes) if changes.tables else texts.pristine


def same_hashes(domain: Domain, one: DomainState, other: DomainState) -> bool:
    """Return whether both databases have equal original hashes, by making them: what `same_world` is held against."""
    if original_hash(domain.agent_database, one.agent) != original_hash(domain.agent_database, other.agent):
        return False
    user = domain.user_database
    return user is None or original_hash(user, one.user) == original_hash(user, other.user)


def _leniently(value: Any, datetimes: Collection[str] = ()) -> Any:
    if isinstance(value, dict):
        members = {key: _leniently(item) for key, item in value.items() if item is not None}
        return {key: item.replace(" ", "T") if key in datetimes else item for key, item in members.items()}
    if isinstance(value, list | tuple):
        return [_leniently(item) for item in value]
    return value if isinstance(value, bool | str) or value is None else round(value * 100)
