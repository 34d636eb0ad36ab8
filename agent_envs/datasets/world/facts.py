"""The entities of a fictional world and the dated relations between them are drawn, consistent and one value each."""

import random
from dataclasses import dataclass, field

from agent_envs.datasets.world.names import (
    COMPANY_SUFFIXES,
    MUSEUM_SUFFIXES,
    REGION_SUFFIXES,
    UNIVERSITY_SUFFIXES,
    Namer,
)
from agent_envs.datasets.world.relations import WORKS, kinds

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

    def __init__(self, rng: random.Random, namer: Namer, passages: int, short: bool) -> None:
        self.rng = rng
        self._namer = namer
        self.entities: dict[str, list[Entity]] = {}
        left = passages
        for kind, (share, least) in _SHARES.items():
            parts = kinds()[kind].parts if short else 1
            count = max(least, int(share * passages / parts))
            left -= parts * count
            self.entities[kind] = [self._entity(kind, row) for row in range(count)]
        self.entities["museum"] = [self._entity("museum", row) for row in range(left)]
        self._people()
        self._places()
        self._organisations()
        self._works()

    def _entity(self, kind: str, row: int) -> Entity:
        namer, rng = self._namer, self.rng
        if kind == "person":
            return Entity(kind, namer.person(), TRADES[row % len(TRADES)])
        if kind == "city":
            return Entity(kind, namer.city(), kind)
        if kind in WORKS:
            return Entity(kind, namer.title(kind), kind)
        if kind == "company":
            trade = tuple(COMPANY_SUFFIXES)[row % len(COMPANY_SUFFIXES)]
            return Entity(kind, namer.organisation(rng.choice(COMPANY_SUFFIXES[trade])), trade)
        if kind == "region":
            return Entity(kind, namer.organisation(rng.choice(REGION_SUFFIXES), namesake=False), kind)
        suffixes = UNIVERSITY_SUFFIXES if kind == "university" else MUSEUM_SUFFIXES
        return Entity(kind, namer.organisation(rng.choice(suffixes)), kind)

    def _any(self, kind: str, noun: str = "") -> Entity:
        """Return an entity of a kind, of the wanted noun where there is one."""
        pool = self.entities[kind]
        if noun:
            pool = [entity for entity in pool if entity.noun == noun] or pool
        return self.rng.choice(pool)

    def _people(self) -> None:
        rng, people = self.rng, self.entities["person"]
        years = sorted(rng.randint(FIRST_YEAR, LAST_YEAR - 60) for _ in people)
        order = rng.sample(people, len(people))
        for row, (person, year) in enumerate(zip(order, years, strict=True)):
            person.facts["born"] = year
            person.facts["born_in"] = self._any("city")
            person.facts["studied"] = self._any("university")
            person.facts["worked"] = self._any("company")
            if row:
                person.facts["teacher"] = order[rng.randrange(max(0, row - 25), row)]
        for row in range(0, len(order) - 3, 4):
            for one, other in ((row, row + 2), (row + 1, row + 3)):
                order[one].facts["spouse"] = order[other]
                order[other].facts["spouse"] = order[one]

    def _places(self) -> None:
        rng, regions, cities = self.rng, self.entities["region"], self.entities["city"]
        for row, city in enumerate(cities):
            city.facts["region"] = regions[row] if row < len(regions) else rng.choice(regions)
            city.facts["founded"] = rng.randint(FIRST_YEAR, LAST_YEAR - 80)
            city.facts["mayor"] = self._any("person", _LEADERS["city"])
        for row, region in enumerate(regions):
            region.facts["capital"] = cities[row]
            region.facts["governor"] = self._any("person", _LEADERS["region"])

    def _seat(self, name: str) -> Entity:
        """Return a city that an organisation's name does not give away."""
        while True:
            city = self._any("city")
            if not name.startswith(city.name):
                return city

    def _organisations(self) -> None:
        rng = self.rng
        for kind in ("company", "university", "museum"):
            for entity in self.entities[kind]:
                entity.facts["seat"] = self._seat(entity.name)
                entity.facts["founded"] = rng.randint(FIRST_YEAR, LAST_YEAR - 30)
        for company in self.entities["company"]:
            founder = self._any("person", _LEADERS["company"])
            company.facts["maker"] = founder
            company.facts["founded"] = _year(founder) + rng.randint(20, 55)
            company.facts["chief"] = self._any("person", _LEADERS["company"])
        for university in self.entities["university"]:
            university.facts["rector"] = self._any("person", _LEADERS["university"])

    def _works(self) -> None:
        for kind in WORKS:
            for work in self.entities[kind]:
                maker = self._any("person", _MAKERS[kind])
                work.facts["maker"] = maker
                work.facts["appeared"] = _year(maker) + self.rng.randint(21, 60)
        for kind, house in (("novel", "publishing house"), ("song", "record label")):
            for work in self.entities[kind]:
                work.facts["house"] = self._any("company", house)
        for painting in self.entities["painting"]:
            painting.facts["house"] = self._any("museum")
        novels = self.rng.sample(self.entities["novel"], len(self.entities["novel"]))
        for row, film in enumerate(self.entities["film"]):
            film.facts["source"] = novels[row % len(novels)]

    def hide(self) -> None:
        """Give one fact of a third of the entities a value that nothing else mentions; passages do not state it."""
        pool = [entity for rows in self.entities.values() for entity in rows]
        for entity in self.rng.sample(pool, min(_MOST_HIDDEN, len(pool) // 3)):
            chained = [row for row in kinds()[entity.kind].chained if row.name in entity.facts and row.name != "spouse"]
            relation = self.rng.choice(chained)
            entity.facts[relation.name] = self._entity(relation.value, self.rng.randrange(len(TRADES)))
            entity.hidden = relation.name


def _year(person: Entity) -> int:
    year = person.facts["born"]
    assert isinstance(year, int)
    return year
