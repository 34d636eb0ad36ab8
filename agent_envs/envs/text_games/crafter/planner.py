"""`Planner` finds the next action towards an achievement of Crafter on one chart of the map."""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from agent_envs.envs.text_games.crafter.sight import DIRECTIONS, MATERIALS, SIDE, THINGS, Chart
from agent_envs.envs.text_games.crafter.world import Rules
from agent_envs.envs.text_games.search import cheapest_way

_OPEN = frozenset(MATERIALS[name] for name in ("grass", "path", "sand"))
_FIGHTS = {THINGS["cow"]: 4, THINGS["zombie"]: 9, THINGS["skeleton"]: 6} | {
    THINGS[f"arrow-{side}"]: 1 for side in DIRECTIONS
}
_MINED = {MATERIALS[name]: tool for name, tool in (
    ("stone", "wood_pickaxe"), ("coal", "wood_pickaxe"), ("iron", "stone_pickaxe"), ("diamond", "iron_pickaxe"),
)}  # fmt: skip
_FAR = 25  # steps beyond which a new table is cheaper than the way to the old one
_SCARCE = 3


class Choice(NamedTuple):
    """What is to be done next, and what for."""

    action: str
    thought: str


class Planner:
    """Plans on one chart. Each method returns an action, or None where there is no way."""

    def __init__(self, chart: Chart, tables: Rules) -> None:
        self.chart, self.tables, self.items = chart, tables, chart.items

    def urgent(self) -> Iterator[str]:
        """Yield what cannot wait: a zombie at arm's length, then what the body asks for."""
        zombies = self._standing(THINGS["zombie"])
        if any(self._ahead(self.chart.place, step) in zombies for step in DIRECTIONS.values()):
            yield "defeat_zombie"
        for sign, name in (("drink", "collect_drink"), ("food", "eat_cow"), ("energy", "wake_up")):
            if self.items[sign] < _SCARCE:
                yield name

    def toward(self, name: str) -> Choice | None:
        """Return the next action towards an achievement."""
        verb, _, thing = name.partition("_")
        if verb == "collect":
            return self._collect(thing)
        if verb == "place":
            lacking = self._lacking(self.tables.place[thing]["uses"])
            return self.toward(f"collect_{lacking}") if lacking else self._place(thing)
        if verb == "make":
            return self._make(thing)
        if name == "eat_plant":
            return self._eat_plant()
        if name == "wake_up":
            return Choice("sleep", "I sleep until I am rested.") if self.items["energy"] < 9 else None
        kind = {"eat_cow": "cow", "defeat_zombie": "zombie", "defeat_skeleton": "skeleton"}[name]
        return self._use(self._standing(THINGS[kind]), f"the {kind}")

    def _eat_plant(self) -> Choice | None:
        ripe, young = self._standing(THINGS["plant-ripe"]), self._standing(THINGS["plant"])
        if ripe:
            return self._use(ripe, "the ripe plant")
        if not young:
            return self.toward("place_plant")
        choice = self._use(young, "the plant, to wait until it is ripe")
        ready = choice is not None and choice.action == "do"
        return Choice("noop", "I wait until the plant is ripe.") if ready else choice

    def least(self, name: str) -> int:
        """Return a number of turns below which an achievement cannot be had, however things go."""
        verb, _, thing = name.partition("_")
        bill = self._bill(thing) if verb == "make" else self.tables.place[thing]["uses"] if verb == "place" else {}
        built = len(self._unbuilt(self.tables.make[thing]["nearby"])) if verb == "make" else 0
        return 1 + built + sum(max(number - self.items[item], 0) for item, number in bill.items())

    def _collect(self, item: str) -> Choice | None:
        for material, rule in self.tables.collect.items():
            if item in rule["receive"]:
                lacking = [tool for tool in rule["require"] if self.items[tool] < rule["require"][tool]]
                if lacking:
                    return self.toward(f"make_{lacking[0]}")
                return self._use(self._lying(MATERIALS[material]), f"the {material}, for {item}")
        return None

    def _lacking(self, bill: dict[str, int]) -> str:
        """Return what of a bill is to be collected next, "" for nothing."""
        lacking = [item for item, number in bill.items() if self.items[item] < number]
        # What needs the best tool comes first: on the way to it the rest is used up.
        return lacking[-1] if lacking else ""

    def _bill(self, tool: str) -> dict[str, int]:
        """Return what a tool costs, with the table and the furnace that must be built for it."""
        rule = self.tables.make[tool]
        bill = dict(rule["uses"])
        for place in self._unbuilt(rule["nearby"]):
            for item, number in self.tables.place[place]["uses"].items():
                bill[item] = bill.get(item, 0) + number
        return bill

    def _unbuilt(self, places: list[str]) -> list[str]:
        """Return what of a table and a furnace must be built, so that they stand together and not too far away."""
        if self._beside(places) is not None:
            return []
        return [place for place in places if self._beside([place]) is None] or places[-1:]

    def _make(self, tool: str) -> Choice | None:
        lacking = self._lacking(self._bill(tool))
        if lacking:
            return self.toward(f"collect_{lacking}")
        places = self.tables.make[tool]["nearby"]
        unbuilt = self._unbuilt(places)
        standing = [place for place in places if place not in unbuilt]
        way = self._beside(standing) if standing else None
        if way is not None and len(way) > 1:
            return self._walk(way, f"I go to the {standing[0]} to make {_a(tool)}.")
        return self._place(unbuilt[0]) if unbuilt else Choice(f"make_{tool}", f"I make {_a(tool)} here.")

    def _beside(self, places: list[str]) -> list[int] | None:
        """Return the way to a cell where a table or furnace, or both, are near; None if it is too long."""
        near: set[int] | None = None
        for place in places:
            around = {
                cell + dx + dy * SIDE
                for cell in self._lying(MATERIALS[place])
                for dx in (-1, 0, 1)
                for dy in (-1, 0, 1)
                if 0 <= cell % SIDE + dx < SIDE
            }
            near = around if near is None else near & around
        if not near:
            return None
        # Crafter finds nothing near a player in the first row or column: its slice would begin before the map.
        ready = {cell for cell in near if cell % SIDE > 0 and cell >= SIDE}
        way = self._route(lambda cell: cell in ready)
        return way if way is not None and len(way) <= _FAR else None

    def _place(self, thing: str) -> Choice | None:
        where = {MATERIALS[name] for name in self.tables.place[thing]["where"]}
        if self._free_for(self._ahead(self.chart.place, self.chart.facing), where):
            return Choice(f"place_{thing}", f"There is room before me for a {thing}.")
        for name, direction in DIRECTIONS.items():
            step = self._ahead(self.chart.place, direction)
            if self._free_for(step, _OPEN) and self._free_for(self._ahead(step, direction), where):
                return Choice(f"move_{name}", f"I look for room for a {thing}.")
        way = self._route(lambda cell: cell != self.chart.place)
        return self._walk(way, f"I look for room for a {thing}.") if way else None

    def _use(self, targets: Collection[int], what: str) -> Choice | None:
        """Return the next action of going to one of the cells, turning to it and acting on it."""
        goals = set(targets)
        if self._ahead(self.chart.place, self.chart.facing) in goals:
            return Choice("do", f"I am in front of {what}.")
        way = self._route(lambda cell: any(self._ahead(cell, step) in goals for step in DIRECTIONS.values()))
        if way is None:
            return None
        if len(way) > 1:
            return self._walk(way, f"I go to {what}.")
        turn = next(name for name, step in DIRECTIONS.items() if self._ahead(way[0], step) in goals)
        return Choice(f"move_{turn}", f"I turn to {what}.")

    def _walk(self, way: list[int] | None, thought: str) -> Choice | None:
        if way is None:
            return None
        step = way[1] - way[0]
        name, direction = next((n, d) for n, d in DIRECTIONS.items() if d[0] + d[1] * SIDE == step)
        if not self._free_for(way[1], _OPEN) and direction == self.chart.facing:
            return Choice("do", thought + " Something stands in the way.")
        return Choice(f"move_{name}", thought)

    def _route(self, ready: Callable[[int], bool]) -> list[int] | None:
        """Return the cheapest way from the player to a cell that is ready, both ends included."""

        def steps(cell: int) -> list[tuple[int, int]]:
            targets = (self._ahead(cell, step) for step in DIRECTIONS.values())
            return [(price, target) for target in targets if target >= 0 and (price := self._price(target))]

        return cheapest_way(self.chart.place, steps, lambda cell: 0 if ready(cell) else None)

    def _price(self, cell: int) -> int:
        """Return how many turns it takes to enter a cell, 0 if it cannot be entered."""
        ground, thing = self.chart.ground[cell], self.chart.things.get(cell)
        if thing is not None:
            return _FIGHTS.get(thing, 0)
        if ground in _OPEN:
            return 1
        if ground == MATERIALS["tree"]:
            return 3
        return 3 if ground in _MINED and self.items[_MINED[ground]] else 0

    def _ahead(self, cell: int, step: tuple[int, int]) -> int:
        """Return the next cell in a direction, -1 beyond the edge."""
        x, y = cell % SIDE + step[0], cell // SIDE + step[1]
        return y * SIDE + x if 0 <= x < SIDE and 0 <= y < SIDE else -1

    def _free_for(self, cell: int, grounds: Collection[str]) -> bool:
        return (
            cell >= 0
            and cell != self.chart.place
            and cell not in self.chart.things
            and self.chart.ground[cell] in grounds
        )

    def _lying(self, mark: str) -> list[int]:
        cells, cell = [], self.chart.ground.find(mark)
        while cell >= 0:
            if cell not in self.chart.things:
                cells.append(cell)
            cell = self.chart.ground.find(mark, cell + 1)
        return cells

    def _standing(self, mark: str) -> list[int]:
        return [cell for cell, thing in self.chart.things.items() if thing == mark]


def _a(thing: str) -> str:
    return f"{'an' if thing[0] in 'aeiou' else 'a'} {thing.replace('_', ' ')}"
