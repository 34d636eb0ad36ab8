"""An almanac adds sheets of numbers about the fact world's entities to its passages, and links the two.

The passages are those of `agent_envs.datasets.world`, unchanged. The world itself states years and no other number, so a sheet
of figures is added for each place, organisation and work: how many people live in a city, how long a film lasts.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import Any

from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.datasets.world import ToldWorld, WorldConfig, WorldStep, tell_world
from agent_envs.datasets.world.facts import Entity
from agent_envs.datasets.world.questions import Lookup
from agent_envs.datasets.world.relations import WORKS, Relation, kinds, leading_to

NUMBERS = ("number", "year")
_SHEET = "f-"  # how the ids of sheets of figures start; those of the fact world's passages start with w-
Path = tuple[tuple[Entity, Relation], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A mention of another document: the title under which it stands, and its id."""

    title: str
    doc_id: str


@dataclass(frozen=True, slots=True)
class LookupChain:
    """A fact that is reached by one look-up or several, one after the other.

    Attributes:
        path: the entities and relations on the way.
        steps: for each of them the query, the passage and what it says.
        value: the fact: a year or number, or an entity.
    """

    path: Path
    steps: tuple[WorldStep, ...]
    value: Entity | int


@cache
def wordings() -> dict[str, Any]:
    """Return the table of `figures.json`, read once."""
    table: dict[str, Any] = json.loads(files(__package__).joinpath("figures.json").read_text("utf-8"))
    return table


@cache
def _figures() -> dict[str, tuple[tuple[Relation, int, int], ...]]:
    """Return for each kind of entity its figures, each with the smallest and largest value; cached."""
    figures = {}
    for kind, rows in wordings()["figures"].items():
        figures[kind] = tuple((_relation(row), row["low"], row["high"]) for row in rows)
    return figures


def _relation(row: dict[str, Any]) -> Relation:
    """Read a row of the table as a relation whose value is a number."""
    texts = {name: tuple(row[name]) for name in ("says", "nouns", "asks", "first", "last")}
    return Relation(name=row["name"], value="number", query=row["query"], part=0, **texts)


@cache
def relations() -> tuple[tuple[str, Relation], ...]:
    """Return every relation that can be asked for, figures included, with its subject's kind; years have nouns. Cached."""
    years = wordings()["years"]
    rows = []
    for kind in kinds().values():
        for relation in kind.relations:
            nouns = years[kind.name][relation.name] if relation.value == "year" else relation.nouns
            rows.append((kind.name, replace(relation, nouns=tuple(nouns))))
        rows += [(kind.name, relation) for relation, _, _ in _figures().get(kind.name, ())]
    return tuple(rows)


class NumberWorld(Uncopied):
    """A told world and its almanac: one corpus, links between its documents, and chains of facts through it."""

    def __init__(self, world: ToldWorld) -> None:
        """Take a told world, draw a sheet of figures for each entity, and link each page to what it mentions."""
        rng = random.Random(f"figures:v0:{world.seed}")
        self._entities = world.facts.entities
        titles = {passage.id: passage.title for passage in world.corpus.passages}
        self._links: dict[str, list[Link]] = {}
        sheets: list[Passage] = []
        for kind, entities in self._entities.items():
            for entity in entities:
                page = next(iter(entity.passages.values()))
                for name, value in entity.facts.items():
                    if isinstance(value, Entity) and name in entity.passages:  # some facts are never told
                        other = next(iter(value.passages.values()))
                        self._links.setdefault(page, []).append(Link(titles[other], other))
                if kind in _figures():
                    sheets.append(_sheet(rng, entity, f"{_SHEET}{len(sheets):04d}", titles[page]))
                    self._links.setdefault(page, []).append(Link(sheets[-1].title, sheets[-1].id))
                    self._links[sheets[-1].id] = [Link(titles[page], page)]
        self.corpus = MemoryCorpus((*world.corpus.passages, *sheets))
        self._texts = {passage.id: passage.text for passage in self.corpus.passages}

    @cached_property
    def _lookup(self) -> Lookup:
        """The search over the corpus that checks whether a query finds its passage, built at first use."""
        return Lookup(self.corpus.passages)

    def links(self, doc_id: str) -> tuple[Link, ...]:
        """Return a document's links, each once: by their place in its text, figure sheets last; KeyError for no such document.

        Raises KeyError: no such document.
        """
        text = self._texts[doc_id]
        links = dict.fromkeys(self._links.get(doc_id, ()))
        # Titles may bear a kind in brackets; sheets, which no page mentions, go last.
        places = {link: (link.doc_id.startswith(_SHEET), text.find(link.title.partition(" (")[0])) for link in links}
        return tuple(sorted(links, key=places.__getitem__))

    def chain(self, rng: random.Random, hops: int, accepts: Callable[[str, Relation], bool]) -> LookupChain | None:
        """Return a chain of look-ups whose last relation is `accept`ed; None where the draw leads nowhere or is not found.

        None where the draw leads nowhere, or where a query would not find its passage.
        """
        kind, relation = rng.choice([row for row in relations() if accepts(*row)])
        links: list[Relation] = []
        for _ in range(hops - 1):
            into = leading_to(kind)
            if not into:
                return None
            kind, link = rng.choice(into)
            links.insert(0, link)
        entity = rng.choice(self._entities[kind])
        path = []
        for link in links:
            path.append((entity, link))
            value = entity.facts.get(link.name)
            if not isinstance(value, Entity):
                return None
            entity = value
        return self._check_chain((*path, (entity, relation)))

    def _check_chain(self, path: Path) -> LookupChain | None:
        """Return a path as a chain; None where it repeats itself, has no fact at its end, or a query misses its passage."""
        entity, relation = path[-1]
        if relation.name not in entity.facts or _repeats(path):
            return None
        steps = tuple(_step(entity, relation) for entity, relation in path)
        if not all(self._lookup.finds(step.query, step.passage_id) for step in steps):
            return None
        return LookupChain(path, steps, entity.facts[relation.name])

    def is_given_away(self, chain: LookupChain) -> bool:
        """Return whether an earlier passage of a chain already holds its answer."""
        answer = chain.steps[-1].answer
        early = {step.passage_id for step in chain.steps[:-1]}
        return any(answer in self._texts[passage] for passage in early)


def subject(rng: random.Random, path: Path) -> str:
    """Return the noun phrase for what a path's last relation is about, the start's name where it is the only one."""
    start = path[0][0]
    phrase = f"the {start.kind} {start.name}" if start.kind in WORKS else start.name
    for _, relation in path[:-1]:
        phrase = rng.choice(relation.nouns).format(x=phrase)
    return phrase


def described(rng: random.Random, path: Path) -> str:
    """Return the noun phrase for the value of a path's last relation."""
    return rng.choice(path[-1][1].nouns).format(x=subject(rng, path))


def _sheet(rng: random.Random, entity: Entity, sheet_id: str, title: str) -> Passage:
    """Draw an entity's figures, enter them among its facts with this passage, and return the passage, its order random."""
    table = wordings()
    sentences = [rng.choice(table["leads"]).format(n=entity.name, k=entity.noun)]
    figures = list(_figures()[entity.kind])
    rng.shuffle(figures)
    for relation, low, high in figures:
        # Even on the scale of orders of magnitude, so that small places are as many as large ones.
        value = round(low * (high / low) ** rng.random())
        entity.facts[relation.name] = value
        entity.passages[relation.name] = sheet_id
        text = rng.choice(relation.says).format(s=entity.name, v=value)
        sentences.append(text[0].upper() + text[1:])
    sentences.append(rng.choice(table["closings"]).format(n=entity.name))
    return Passage(sheet_id, f"{title}: figures", " ".join(sentences))


def _step(entity: Entity, relation: Relation) -> WorldStep:
    """Return the look-up of a fact: its query, the passage that tells it, and the value as text."""
    name = entity.name if entity.kind in ("person", "company") else f"{entity.name} {entity.kind}"
    value = entity.facts[relation.name]
    query = f"{name} {relation.query}{' figures' if relation.value == 'number' else ''}"
    return WorldStep(query, entity.passages[relation.name], value.name if isinstance(value, Entity) else str(value))


def _repeats(path: Path) -> bool:
    """Return whether a path meets an entity or relation twice, or an entity's name contains its value's name."""
    entities = [entity for entity, _ in path]
    if len({id(entity) for entity in entities}) < len(path) or len({row.name for _, row in path}) < len(path):
        return True
    values = [entity.facts[relation.name] for entity, relation in path]
    return any(
        isinstance(value, Entity) and value.name in entity.name for entity, value in zip(entities, values, strict=True)
    )


@lru_cache(maxsize=64)
def number_world(split: str, index: int, config: WorldConfig | None = None) -> NumberWorld:
    """Return the world of a split, index and configuration with its almanac, keeping the last 64.

    Raises UsageError: the split is unknown or the index is not an int >= 0.
    """
    return NumberWorld(tell_world(config or WorldConfig(), split, index))
