"""Relations define what a fictional world can say and ask: each kind of entity with its relations and their wordings.

The wordings are data, in `wordings.json`. In each list the first is the plain one, which a world without
paraphrases uses alone. Of the descriptions (`nouns`), questions (`asks`) and comparisons the plain one repeats the
passages' words and the others avoid them. Placeholders: `{n}` name and `{k}` noun of an entity in a lead, `{s}` subject
and `{v}` value in a passage, `{x}` subject of a question, `{a}` and `{b}` the two sides of a comparison.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

WORKS = ("novel", "film", "song", "painting")
WORDINGS = ("says", "nouns", "asks", "first", "last", "gap", "same")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation that has one value for each subject.

    Attributes:
        name: its key among the facts of a subject.
        value: the kind of the value: "year" or a kind of entity.
        query: the words that a solver adds to the subject's name in order to look it up.
        part: which of the subject's short passages states it.
        says: sentences of passages; the first two begin with the subject.
        nouns: descriptions of the value, for chains; none where it is a year.
        asks: questions for the value.
        first, last, gap: comparisons of two years.
        same: comparisons of two values by equality.
    """

    name: str
    value: str
    query: str
    part: int
    says: tuple[str, ...]
    nouns: tuple[str, ...]
    asks: tuple[str, ...]
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    gap: tuple[str, ...] = ()
    same: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entity: the relations it is the subject of, and how its passages begin and end."""

    name: str
    leads: tuple[str, ...]
    fillers: tuple[str, ...]
    relations: tuple[Relation, ...]
    chained: tuple[Relation, ...]
    compared: tuple[Relation, ...]
    parts: int


@cache
def kinds() -> dict[str, Kind]:
    """Return every kind of entity by name, read from the package's table once, cached."""
    table = json.loads(files(__package__).joinpath("wordings.json").read_text("utf-8"))
    by_name = {}
    for name, row in table.items():
        fields: list[dict[str, Any]] = [
            {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}
            for item in row["relations"]
        ]
        relations = tuple(Relation(**values) for values in fields)
        chained = tuple(relation for relation in relations if relation.value != "year")
        compared = tuple(relation for relation in relations if relation.first or relation.same)
        parts = 1 + max(relation.part for relation in relations)
        by_name[name] = Kind(name, tuple(row["leads"]), tuple(row["fillers"]), relations, chained, compared, parts)
    return by_name


@cache
def leading_to(kind: str) -> tuple[tuple[str, Relation], ...]:
    """Return every (kind of subject, relation) whose values are of a kind, cached."""
    rows = kinds().values()
    return tuple((row.name, relation) for row in rows for relation in row.chained if relation.value == kind)


def template_words(more: Iterable[str]) -> list[str]:
    """Return every word and mark of every wording and of `more`, repeats kept, placeholders left out."""
    texts = list(more)
    for kind in kinds().values():
        texts += [*kind.leads, *kind.fillers]
        for relation in kind.relations:
            texts += [text for field in WORDINGS for text in getattr(relation, field)]
    return re.findall(r"\w+|[^\w\s]", re.sub(r"\{\w\}", " ", " ".join(texts)))
