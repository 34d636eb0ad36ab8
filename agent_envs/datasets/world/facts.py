"""The entities of a fictional world and the dated relations between them are drawn, one value each, and told in passages."""

import random
from collections import Counter
from dataclasses import dataclass, field

from agent_envs.base.documents import Passage
from agent_envs.datasets.world import names
from agent_envs.datasets.world.relations import WORKS, Kind, Relation, kinds

FIRST_YEAR, LAST_YEAR = 1850, 1999
TRADES = ("writer", "film director", "singer", "painter", "merchant", "politician", "professor")
_MAKERS = dict(zip(WORKS, TRADES, strict=False))
_LEADERS = {"region": "politician", "city": "politician", "company": "merchant", "university": "professor"}
# Share of a world's passages, and the fewest entities, of each kind; museums take what is left over.
_SHARES = {
    "person": (0.30, 4),
    "city": (0.12, 2),
    "region": (0.04, 2),
    "novel": (0.11, 2),
    "film": (0.11, 2),
    "song": (0.09, 1),
    "painting": (0.07, 1),
    "company": (0.09, 3),
    "university": (0.04, 1),
}
# A closed world has 144 names of cities; at 500 passages 60 are in use.
_MOST_HIDDEN = 80


@dataclass(eq=False, slots=True)
class Entity:
    """Something with a name, a noun that says what it is, and facts.

    Attributes:
        kind: a key of `relations.kinds()`.
        name: unique among the entities of its kind; only works of different kinds can share one.
        noun: what passages call it.
        facts: by name of relation.
        hidden: the name of the one relation that no passage states; "" for none.
        passages: by name of relation, the id of the passage that states it (or would).
    """

    kind: str
    name: str
    noun: str
    facts: dict[str, "Entity | int"] = field(default_factory=dict)
    hidden: str = ""
    passages: dict[str, str] = field(default_factory=dict)


class Facts:
    """Draws all entities, then every relation, then hides some facts."""

    def __init__(self, rng: random.Random, namer: names.Namer, passages: int, short: bool) -> None:
        """Draw the entities by their shares of passages, museums for the rest, and then all relations."""
        self.rng = rng
        self._namer = namer
        self.entities: dict[str, list[Entity]] = {}
        left = passages
        for kind, (share, least) in _SHARES.items():
            parts = kinds()[kind].parts if short else 1
            count = max(least, int(share * passages / parts))
            left -= parts * count
            self.entities[kind] = [self._make_entity(kind, row) for row in range(count)]
        self.entities["museum"] = [self._make_entity("museum", row) for row in range(left)]
        self._draw_people()
        self._draw_places()
        self._draw_organisations()
        self._draw_works()

    def _make_entity(self, kind: str, row: int) -> Entity:
        """Make an entity of a kind with a new name; people's and companies' trades go by `row`, other kinds have one noun."""
        namer, rng = self._namer, self.rng
        if kind == "person":
            return Entity(kind, namer.person(), TRADES[row % len(TRADES)])
        if kind == "city":
            return Entity(kind, namer.city(), kind)
        if kind in WORKS:
            return Entity(kind, namer.title(kind), kind)
        if kind == "company":
            trade = tuple(names.COMPANY_SUFFIXES)[row % len(names.COMPANY_SUFFIXES)]
            return Entity(kind, namer.organisation(rng.choice(names.COMPANY_SUFFIXES[trade])), trade)
        if kind == "region":
            return Entity(kind, namer.organisation(rng.choice(names.REGION_SUFFIXES), namesake=False), kind)
        suffixes = names.UNIVERSITY_SUFFIXES if kind == "university" else names.MUSEUM_SUFFIXES
        return Entity(kind, namer.organisation(rng.choice(suffixes)), kind)

    def _draw_any(self, kind: str, noun: str = "") -> Entity:
        """Return a random entity of a kind, of the wanted noun where the kind has one, else of any."""
        pool = self.entities[kind]
        if noun:
            pool = [entity for entity in pool if entity.noun == noun] or pool
        return self.rng.choice(pool)

    def _draw_people(self) -> None:
        """Draw, in place, each person's dates, places and spouse (of some); a teacher is always older, so that chains end."""
        rng, people = self.rng, self.entities["person"]
        years = sorted(rng.randint(FIRST_YEAR, LAST_YEAR - 60) for _ in people)
        order = rng.sample(people, len(people))
        for row, (person, year) in enumerate(zip(order, years, strict=True)):
            person.facts["born"] = year
            person.facts["born_in"] = self._draw_any("city")
            person.facts["studied"] = self._draw_any("university")
            person.facts["worked"] = self._draw_any("company")
            if row:
                person.facts["teacher"] = order[rng.randrange(max(0, row - 25), row)]
        for row in range(0, len(order) - 3, 4):
            for one, other in ((row, row + 2), (row + 1, row + 3)):
                order[one].facts["spouse"] = order[other]
                order[other].facts["spouse"] = order[one]

    def _draw_places(self) -> None:
        """Draw, in place, each city's region, year and mayor; the first cities are regions' capitals, regions get governors."""
        rng, regions, cities = self.rng, self.entities["region"], self.entities["city"]
        for row, city in enumerate(cities):
            city.facts["region"] = regions[row] if row < len(regions) else rng.choice(regions)
            city.facts["founded"] = rng.randint(FIRST_YEAR, LAST_YEAR - 80)
            city.facts["mayor"] = self._draw_any("person", _LEADERS["city"])
        for row, region in enumerate(regions):
            region.facts["capital"] = cities[row]
            region.facts["governor"] = self._draw_any("person", _LEADERS["region"])

    def _seat(self, name: str) -> Entity:
        """Draw a city with whose name the organisation's does not begin."""
        while True:
            city = self._draw_any("city")
            if not name.startswith(city.name):
                return city

    def _draw_organisations(self) -> None:
        """Draw, in place, each organisation's seat, year and heads; a company's year follows from its founder's birth."""
        rng = self.rng
        for kind in ("company", "university", "museum"):
            for entity in self.entities[kind]:
                entity.facts["seat"] = self._seat(entity.name)
                entity.facts["founded"] = rng.randint(FIRST_YEAR, LAST_YEAR - 30)
        for company in self.entities["company"]:
            founder = self._draw_any("person", _LEADERS["company"])
            company.facts["maker"] = founder
            company.facts["founded"] = _birth_year(founder) + rng.randint(20, 55)
            company.facts["chief"] = self._draw_any("person", _LEADERS["company"])
        for university in self.entities["university"]:
            university.facts["rector"] = self._draw_any("person", _LEADERS["university"])

    def _draw_works(self) -> None:
        """Draw each work's maker, year (by the maker's birth) and house, and the novel behind each film; in place."""
        for kind in WORKS:
            for work in self.entities[kind]:
                maker = self._draw_any("person", _MAKERS[kind])
                work.facts["maker"] = maker
                work.facts["appeared"] = _birth_year(maker) + self.rng.randint(21, 60)
        for kind, house in (("novel", "publishing house"), ("song", "record label")):
            for work in self.entities[kind]:
                work.facts["house"] = self._draw_any("company", house)
        for painting in self.entities["painting"]:
            painting.facts["house"] = self._draw_any("museum")
        novels = self.rng.sample(self.entities["novel"], len(self.entities["novel"]))
        for row, film in enumerate(self.entities["film"]):
            film.facts["source"] = novels[row % len(novels)]

    def hide(self) -> None:
        """Hide a relation of each of a third of the entities, 80 at most: a new entity, mentioned nowhere, is its value."""
        pool = [entity for rows in self.entities.values() for entity in rows]
        for entity in self.rng.sample(pool, min(_MOST_HIDDEN, len(pool) // 3)):
            chained = [row for row in kinds()[entity.kind].chained if row.name in entity.facts and row.name != "spouse"]
            relation = self.rng.choice(chained)
            entity.facts[relation.name] = self._make_entity(relation.value, self.rng.randrange(len(TRADES)))
            entity.hidden = relation.name


def _birth_year(person: Entity) -> int:
    """Return the year of a person's birth."""
    year = person.facts["born"]
    assert isinstance(year, int)
    return year


CLOSINGS = ("Little else concerns {n}.", "Much about {n} is forgotten.", "Few other books mention {n}.")


class Teller:
    """Writes passages: one for each entity, or several short ones of one or two facts each."""

    def __init__(self, rng: random.Random, short: bool, paraphrase: bool) -> None:
        self._rng = rng
        self._short = short
        self._paraphrase = paraphrase

    def tell(self, facts: Facts) -> tuple[Passage, ...]:
        """Return all passages in random order, and note in each entity its relations' passages, the hidden one's, too."""
        entities = [entity for rows in facts.entities.values() for entity in rows]
        titles = Counter(entity.name for entity in entities if entity.kind in WORKS)
        drafts: list[tuple[Entity, str, tuple[Relation, ...]]] = []
        for entity in entities:
            kind = kinds()[entity.kind]
            if not self._short:
                drafts.append((entity, self._long_text(entity, kind), kind.relations))
                continue
            for part in range(kind.parts):
                relations = tuple(relation for relation in kind.relations if relation.part == part)
                drafts.append((entity, self._short_text(entity, kind, relations), relations))
        self._rng.shuffle(drafts)
        passages = []
        for row, (entity, text, relations) in enumerate(drafts):
            title = f"{entity.name} ({entity.kind})" if titles[entity.name] > 1 else entity.name
            passages.append(Passage(f"w-{row:04d}", title, text))
            entity.passages.update((relation.name, passages[-1].id) for relation in relations)
        return tuple(passages)

    def _pick(self, wordings: tuple[str, ...]) -> str:
        """Return a wording: a drawn one with paraphrase, else the first, without a draw."""
        return wordings[int(self._rng.random() * len(wordings))] if self._paraphrase else wordings[0]

    def _stated_relations(self, entity: Entity, relations: tuple[Relation, ...]) -> list[Relation]:
        """Return the relations that a text states: those the entity has, but for the hidden one; shuffled with paraphrase."""
        stated = [row for row in relations if row.name in entity.facts and row.name != entity.hidden]
        if self._paraphrase:
            self._rng.shuffle(stated)
        return stated

    def _long_text(self, entity: Entity, kind: Kind) -> str:
        """Write an entity's passage: a lead, a sentence for each stated relation; fillers and a closing where these are few."""
        stated = self._stated_relations(entity, kind.relations)
        subjects = (_short_name(entity), f"the {entity.noun}")
        sentences = [self._pick(kind.leads).format(n=entity.name, k=entity.noun)]
        for row, relation in enumerate(stated):
            value = _value_name(entity.facts[relation.name])
            sentences.append(_capitalised(self._pick(relation.says).format(s=subjects[row % 2], v=value)))
        fillers = 2 if len(stated) < 3 else int(len(stated) < 6)
        sentences += self._rng.sample(kind.fillers, fillers) if self._paraphrase else kind.fillers[:fillers]
        if len(stated) < 3:
            sentences.append(self._close(entity))
        return " ".join(sentences)

    def _close(self, entity: Entity) -> str:
        """Return a sentence that names a subject of few facts once more, so that its name finds the passage."""
        return self._pick(CLOSINGS).format(n=entity.name)

    def _short_text(self, entity: Entity, kind: Kind, relations: tuple[Relation, ...]) -> str:
        """Write a short passage on an entity's one or two relations, in first wordings; where none is stated, on its kind."""
        stated = self._stated_relations(entity, relations)
        if not stated:
            return f"{entity.name} is a {entity.noun}. {self._close(entity)}"
        subject = f"{entity.name}, a {entity.noun},"
        if len(stated) == 1:
            value = _value_name(entity.facts[stated[0].name])
            return f"{stated[0].says[0].format(s=subject, v=value)} {self._close(entity)}"
        subjects = (subject, _short_name(entity) if entity.kind in ("person", "city") else "it")
        sentences = []
        for name, relation in zip(subjects, stated, strict=True):
            sentences.append(_capitalised(relation.says[0].format(s=name, v=_value_name(entity.facts[relation.name]))))
        return " ".join(sentences)


def _short_name(entity: Entity) -> str:
    """Return a person's last name; of other entities, the whole name."""
    return entity.name.split()[-1] if entity.kind == "person" else entity.name


def _value_name(value: Entity | int) -> str:
    """Return a value as text: the name of an entity, or the number."""
    return value.name if isinstance(value, Entity) else str(value)


def _capitalised(text: str) -> str:
    """Return a text with its first letter as a capital."""
    return text[0].upper() + text[1:]
