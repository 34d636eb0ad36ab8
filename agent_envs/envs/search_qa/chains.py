"""A question of the fictional worlds is parsed into chains of facts, which are followed through the shown documents.

Both are read from the text alone, by the wordings that all worlds are told in; questions of other sets have no such chain.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from agent_envs.datasets.world.relations import WORKS, Relation, kinds

Readings = tuple[tuple[str, Relation], ...]  # the kinds of subject and their relations that one wording may mean
_COMPARISONS = ("first", "last", "gap", "same")
_MOST_TEXT = 3_000  # characters of a document, and of a question
_MOST_SENTENCE = 300
_HEAD = re.compile(r"Doc \d{1,4}(?=\(Title: \"|: )")


@dataclass(frozen=True, slots=True)
class SearchDocument:
    """A document as a search shows it."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class FactChain:
    """A description: the name it starts from, the kind of a work ("" of other names), and the facts to follow."""

    name: str
    kind: str
    facts: tuple[Readings, ...]


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A question: one chain, or the two sides of a comparison (`first`, `last`, `gap` or `same`)."""

    sides: tuple[FactChain, ...]
    comparison: str = ""


@dataclass(frozen=True, slots=True)
class ChainProgress:
    """The progress of documents along a chain.

    Attributes:
        name: the subject of the first fact that is not told, or where all are, of the last one.
        question: that fact as a question of its own.
        value: what is told last, "" before anything is.
        complete: whether all facts are told.
    """

    name: str
    question: str
    value: str
    complete: bool


def documents(text: str) -> list[SearchDocument]:
    """Return the documents that a message shows, in either format; [] without any, or for broken JSON."""
    body = text.partition("<information>")[2].partition("</information>")[0].strip()
    if body.startswith("{"):
        try:
            body = str(json.loads(body)["result"])
        except (KeyError, TypeError, ValueError, RecursionError):
            return []
    hits = []
    for piece in _HEAD.split(body)[1:]:
        closing = '") ' if piece.startswith("(") else '"\n'
        title, _, body_text = piece[:_MOST_TEXT].partition('"')[2].partition(closing)
        hits.append(SearchDocument(title, " ".join(body_text.split())))
    return hits


class Wordings:
    """Every wording of some relations, by field; the world's own relations are `world_wordings()`."""

    def __init__(self, relations: Iterable[tuple[str, Relation]]) -> None:
        """Take relations, each with the kind of its subject."""
        by_field: dict[str, dict[str, Readings]] = {field: {} for field in ("asks", "nouns", *_COMPARISONS)}
        for kind, relation in relations:
            for field, readings in by_field.items():
                for template in getattr(relation, field):
                    readings[template] = (*readings.get(template, ()), (kind, relation))
        self._longest_first = {
            field: sorted(readings.items(), key=lambda row: -len(row[0])) for field, readings in by_field.items()
        }

    def of(self, field: str) -> list[tuple[str, Readings]]:
        """Return every wording of a field with the relations that it may mean, the longest first."""
        return self._longest_first[field]


@cache
def world_wordings() -> Wordings:
    """Return the wordings of all that a fictional world tells, cached."""
    return Wordings((kind.name, relation) for kind in kinds().values() for relation in kind.relations)


def parse_question(question: str, wordings: Wordings | None = None) -> ParsedQuestion | None:
    """Parse a question into chains; None where no wording fits (the world's unless given), or it is too long."""
    text, wordings = question.strip(), wordings or world_wordings()
    if len(text) > _MOST_TEXT:
        return None
    for template, readings in wordings.of("asks"):
        inner = _subject_in(template, text)
        if inner:
            chain = _chain(inner, wordings)
            return ParsedQuestion((FactChain(chain.name, chain.kind, (*chain.facts, readings)),))
    for comparison in _COMPARISONS:
        for template, readings in wordings.of(comparison):
            sides = _sides_in(template, text)
            if sides:
                chains = (_chain(side, wordings) for side in sides)
                return ParsedQuestion(
                    tuple(FactChain(c.name, c.kind, (*c.facts, readings)) for c in chains), comparison
                )
    return None


def follow(chain: FactChain, documents_read: Sequence[SearchDocument]) -> ChainProgress:
    """Follow a chain while documents state its facts; return the last name, question and value, and if it is complete."""
    name, kind, value, question = chain.name, chain.kind, "", ""
    for place, fact in enumerate(chain.facts):
        fitting = (
            [row for row in fact if row[0] == kind] or [row for row in fact if kind or row[0] not in WORKS] or fact
        )
        match = next((hit for row in fitting if (hit := _value(name, *row, documents_read))), None)
        kind, relation = match[1:] if match else fitting[0]
        question = relation.asks[0].format(x=f"the {kind} {name}" if kind in WORKS else name)
        if match is None:
            return ChainProgress(name, question, value, complete=False)
        value, kind = match[0], relation.value
        if place + 1 < len(chain.facts):
            name = value
    return ChainProgress(name, question, value, complete=True)


def _chain(text: str, wordings: Wordings) -> FactChain:
    """Parse a description into a chain of facts, the innermost first; a mere name has no facts."""
    facts: list[Readings] = []
    while True:
        matches = (
            (inner, readings) for template, readings in wordings.of("nouns") if (inner := _subject_in(template, text))
        )
        text, readings = next(matches, (text, ()))
        if not readings:
            break
        facts.insert(0, readings)
    kind = next((work for work in WORKS if text.startswith(f"the {work} ")), "")
    return FactChain(text.removeprefix(f"the {kind} "), kind, tuple(facts))


def _subject_in(template: str, text: str) -> str:
    """Return the subject that a wording holds, "" where it does not fit."""
    before, _, after = template.partition("{x}")
    fits = text.startswith(before) and text.endswith(after) and len(text) > len(before) + len(after)
    return text[len(before) : len(text) - len(after)] if fits else ""


def _sides_in(template: str, text: str) -> tuple[str, str] | None:
    """Return the two sides of a comparison; None where the wording does not fit or a side is empty."""
    before, _, rest = template.partition("{a}")
    between, _, after = rest.partition("{b}")
    if not (text.startswith(before) and text.endswith(after)):
        return None
    one, joint, other = text[len(before) : len(text) - len(after)].partition(between)
    return (one, other) if joint and one and other else None


def _value(
    name: str, kind: str, relation: Relation, documents_read: Sequence[SearchDocument]
) -> tuple[str, str, Relation] | None:
    """Return the first value that documents titled by the subject state, with kind and relation; None without any."""
    for document in documents_read:
        if document.title in (name, f"{name} ({kind})"):
            for sentence in re.split(r"(?<=\.) ", document.text):
                for pattern in _patterns(relation):
                    match = pattern.fullmatch(sentence[:_MOST_SENTENCE])
                    if match:
                        return match["v"], kind, relation
    return None


@cache
def _patterns(relation: Relation) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for each sentence that states a relation, with the value as its group `v`; cached."""
    value = {"year": r"(?P<v>\d{3,4})", "number": r"(?P<v>\d{1,9})"}.get(relation.value, r"(?P<v>[A-Z][^.,]*)")
    texts = (re.escape(says).replace(r"\{s\}", "[^.]+?").replace(r"\{v\}", value) for says in relation.says)
    return tuple(re.compile(text) for text in texts)
