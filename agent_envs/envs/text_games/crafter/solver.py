"""The oracle policy (solver) of Crafter plans on the whole map: `Planner` finds the next action towards an achievement."""

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import gymnasium as gym

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.crafter.sight import DIRECTIONS, MATERIALS, SIDE, THINGS, Chart, character
from agent_envs.envs.text_games.crafter.world import CrafterLive, CrafterRules, rules
from agent_envs.envs.text_games.game import core_in_play
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
# The order in which a whole game is played. Which of them can be had now is for the planner to find out.
ORDER = (
    "collect_wood", "place_table", "make_wood_pickaxe", "make_wood_sword", "collect_sapling", "place_plant", "collect_stone",
    "place_stone", "make_stone_pickaxe", "make_stone_sword", "wake_up", "collect_drink", "eat_cow", "collect_coal",
    "place_furnace", "collect_iron", "make_iron_pickaxe", "make_iron_sword", "collect_diamond", "defeat_zombie",
    "defeat_skeleton", "eat_plant",
)  # fmt: skip
_ASIDE = ("collect_sapling", "place_plant", "collect_drink", "eat_cow", "wake_up")  # they need no wood, and pay too
_HARMFUL = frozenset((THINGS["zombie"], THINGS["skeleton"]))
_FRAIL, _CLOSE = 4, 6  # health, and steps to what hurts, from which on plans are tried first
_AHEAD, _AHEAD_OF_MANY = 60, 20  # turns that are tried, for one achievement and in a whole game
_LEADS = tuple(
    (name,) * times for times in (1, 2, 3) for name in ("do", "noop", *(f"move_{side}" for side in DIRECTIONS))
)


class NextAction(NamedTuple):
    """The next action, and what it is for."""

    action: str
    thought: str


class Planner:
    """Plans on one chart. Each method returns an action, or None where there is no way."""

    def __init__(self, chart: Chart, tables: CrafterRules) -> None:
        self.chart, self.tables, self.items = chart, tables, chart.items

    def urgent(self) -> Iterator[str]:
        """Yield the urgent achievements: a zombie beside the player, then drink, food and sleep where each is low."""
        zombies = self._cells_of(THINGS["zombie"])
        if any(self._next_cell(self.chart.place, step) in zombies for step in DIRECTIONS.values()):
            yield "defeat_zombie"
        for sign, name in (("drink", "collect_drink"), ("food", "eat_cow"), ("energy", "wake_up")):
            if self.items[sign] < _SCARCE:
                yield name

    def toward(self, name: str) -> NextAction | None:
        """Return the next action towards an achievement; None without a way, or (wake_up) where the player is rested."""
        verb, _, thing = name.partition("_")
        if verb == "collect":
            return self._collect(thing)
        if verb == "place":
            lacking = self._missing(self.tables.place[thing]["uses"])
            return self.toward(f"collect_{lacking}") if lacking else self._place(thing)
        if verb == "make":
            return self._make(thing)
        if name == "eat_plant":
            return self._eat_plant()
        if name == "wake_up":
            return NextAction("sleep", "I sleep until I am rested.") if self.items["energy"] < 9 else None
        kind = {"eat_cow": "cow", "defeat_zombie": "zombie", "defeat_skeleton": "skeleton"}[name]
        return self._use(self._cells_of(THINGS[kind]), f"the {kind}")

    def _eat_plant(self) -> NextAction | None:
        """Return the next action towards a ripe plant: eat it, wait by a young one, or plant one; None without a way."""
        ripe, young = self._cells_of(THINGS["plant-ripe"]), self._cells_of(THINGS["plant"])
        if ripe:
            return self._use(ripe, "the ripe plant")
        if not young:
            return self.toward("place_plant")
        choice = self._use(young, "the plant, to wait until it is ripe")
        ready = choice is not None and choice.action == "do"
        return NextAction("noop", "I wait until the plant is ripe.") if ready else choice

    def least(self, name: str) -> int:
        """Return a lower bound on the turns that an achievement takes: what it must collect, build, and itself."""
        verb, _, thing = name.partition("_")
        bill = self._bill(thing) if verb == "make" else self.tables.place[thing]["uses"] if verb == "place" else {}
        built = len(self._unbuilt(self.tables.make[thing]["nearby"])) if verb == "make" else 0
        return 1 + built + sum(max(number - self.items[item], 0) for item, number in bill.items())

    def _collect(self, item: str) -> NextAction | None:
        """Return the next action towards an item: make the missing tool, or go to the material; None without a way."""
        for material, rule in self.tables.collect.items():
            if item in rule["receive"]:
                lacking = [tool for tool in rule["require"] if self.items[tool] < rule["require"][tool]]
                if lacking:
                    return self.toward(f"make_{lacking[0]}")
                return self._use(self._free_cells(MATERIALS[material]), f"the {material}, for {item}")
        return None

    def _missing(self, bill: dict[str, int]) -> str:
        """Return the next material of a bill that is missing, what needs the best tool first; "" for none."""
        lacking = [item for item, number in bill.items() if self.items[item] < number]
        # What needs the best tool comes first: on the way to it the rest is used up.
        return lacking[-1] if lacking else ""

    def _bill(self, tool: str) -> dict[str, int]:
        """Return a tool's materials, with those of the table and furnace that must still be built for it."""
        rule = self.tables.make[tool]
        bill = dict(rule["uses"])
        for place in self._unbuilt(rule["nearby"]):
            for item, number in self.tables.place[place]["uses"].items():
                bill[item] = bill.get(item, 0) + number
        return bill

    def _unbuilt(self, places: list[str]) -> list[str]:
        """Return those of a table and a furnace that must be built so that they stand together nearby; [] if they do."""
        if self._beside(places) is not None:
            return []
        return [place for place in places if self._beside([place]) is None] or places[-1:]

    def _make(self, tool: str) -> NextAction | None:
        """Return the next action towards a tool: collect, go to or place table and furnace, make; None without a way."""
        lacking = self._missing(self._bill(tool))
        if lacking:
            return self.toward(f"collect_{lacking}")
        places = self.tables.make[tool]["nearby"]
        unbuilt = self._unbuilt(places)
        standing = [place for place in places if place not in unbuilt]
        way = self._beside(standing) if standing else None
        if way is not None and len(way) > 1:
            return self._walk(way, f"I go to the {standing[0]} to make {_a(tool)}.")
        return self._place(unbuilt[0]) if unbuilt else NextAction(f"make_{tool}", f"I make {_a(tool)} here.")

    def _beside(self, places: list[str]) -> list[int] | None:
        """Return the way to a cell near all of the places (table, furnace); None if there is none, or it is too long."""
        near: set[int] | None = None
        for place in places:
            around = {
                cell + dx + dy * SIDE
                for cell in self._free_cells(MATERIALS[place])
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

    def _place(self, thing: str) -> NextAction | None:
        """Return the action that places a thing in front, or the next step to where there is room; None without any."""
        where = {MATERIALS[name] for name in self.tables.place[thing]["where"]}
        if self._free_for(self._next_cell(self.chart.place, self.chart.facing), where):
            return NextAction(f"place_{thing}", f"There is room before me for a {thing}.")
        for name, direction in DIRECTIONS.items():
            step = self._next_cell(self.chart.place, direction)
            if self._free_for(step, _OPEN) and self._free_for(self._next_cell(step, direction), where):
                return NextAction(f"move_{name}", f"I look for room for a {thing}.")
        way = self._route(lambda cell: cell != self.chart.place)
        return self._walk(way, f"I look for room for a {thing}.") if way else None

    def _use(self, targets: Collection[int], what: str) -> NextAction | None:
        """Return the next step to one of the cells, a turn to it, or "do" in front of it; None where no way leads there."""
        goals = set(targets)
        if self._next_cell(self.chart.place, self.chart.facing) in goals:
            return NextAction("do", f"I am in front of {what}.")
        way = self._route(lambda cell: any(self._next_cell(cell, step) in goals for step in DIRECTIONS.values()))
        if way is None:
            return None
        if len(way) > 1:
            return self._walk(way, f"I go to {what}.")
        turn = next(name for name, step in DIRECTIONS.items() if self._next_cell(way[0], step) in goals)
        return NextAction(f"move_{turn}", f"I turn to {what}.")

    def _walk(self, way: list[int] | None, thought: str) -> NextAction | None:
        """Return a way's first action, a move, or "do" where the player faces something in the way; None for no way."""
        if way is None:
            return None
        step = way[1] - way[0]
        name, direction = next((n, d) for n, d in DIRECTIONS.items() if d[0] + d[1] * SIDE == step)
        if not self._free_for(way[1], _OPEN) and direction == self.chart.facing:
            return NextAction("do", thought + " Something stands in the way.")
        return NextAction(f"move_{name}", thought)

    def _route(self, ready: Callable[[int], bool]) -> list[int] | None:
        """Return the cheapest way from the player to a cell that is ready, both ends included; None without one."""

        def steps(cell: int) -> list[tuple[int, int]]:
            """Return the cells beside a cell that may be entered, with their prices."""
            targets = (self._next_cell(cell, step) for step in DIRECTIONS.values())
            return [(price, target) for target in targets if target >= 0 and (price := self._price(target))]

        return cheapest_way(self.chart.place, steps, lambda cell: 0 if ready(cell) else None)

    def _price(self, cell: int) -> int:
        """Return the turns that entering a cell takes, fights and mining included; 0 if it cannot be entered."""
        ground, thing = self.chart.ground[cell], self.chart.things.get(cell)
        if thing is not None:
            return _FIGHTS.get(thing, 0)
        if ground in _OPEN:
            return 1
        if ground == MATERIALS["tree"]:
            return 3
        return 3 if ground in _MINED and self.items[_MINED[ground]] else 0

    def _next_cell(self, cell: int, step: tuple[int, int]) -> int:
        """Return the next cell in a direction, -1 beyond the edge."""
        x, y = cell % SIDE + step[0], cell // SIDE + step[1]
        return y * SIDE + x if 0 <= x < SIDE and 0 <= y < SIDE else -1

    def _free_for(self, cell: int, grounds: Collection[str]) -> bool:
        """Return whether a cell is of one of these grounds and free of the player and of things; False beyond the edge."""
        return (
            cell >= 0
            and cell != self.chart.place
            and cell not in self.chart.things
            and self.chart.ground[cell] in grounds
        )

    def _free_cells(self, mark: str) -> list[int]:
        """Return the cells of a kind of ground on which nothing stands."""
        cells, cell = [], self.chart.ground.find(mark)
        while cell >= 0:
            if cell not in self.chart.things:
                cells.append(cell)
            cell = self.chart.ground.find(mark, cell + 1)
        return cells

    def _cells_of(self, mark: str) -> list[int]:
        """Return the cells of the chart where a kind of thing is."""
        return [cell for cell, thing in self.chart.things.items() if thing == mark]


def _a(thing: str) -> str:
    """Return a thing's name with its article."""
    return f"{'an' if thing[0] in 'aeiou' else 'a'} {thing.replace('_', ' ')}"


def next_action(env: gym.Env[Any, Any]) -> str:
    """Return the turn that brings the goal nearer, by the whole map, tried on copies when in danger; Unsolvable if none.

    Raises Unsolvable: the episode is over, or the goal is out of reach.
    """
    core = core_in_play(env, "Crafter")
    game: Any = core.game
    state = core.episode.state
    left = min(game.limit(state), core.max_turns) - len(core.episode.turns)
    live = game.twin(state)
    choice = _detour(live, game.achievements, left) if core.reward_spec.name == "native" else None
    choice = choice or choose_safely(live, game.achievements, left)
    if choice is None:
        raise Unsolvable(f"{core.env_id}: what the goal asks for is out of reach")
    return core.say(rules().actions.index(choice.action), choice.thought)


def wins(live: CrafterLive, achievements: Collection[str], turns: int) -> bool:
    """Play a game on with the planner, and return whether it gets what is wanted within so many turns."""
    return _play_on(live, (), achievements, turns, turns)[0]


def choose_safely(live: CrafterLive, achievements: Collection[str], left: int) -> NextAction | None:
    """Return the plan's next action; in danger the one that on copies wins or lives longest; None without a plan."""
    chart = live.chart()
    choice = choose_by_plan(chart, achievements, left)
    if choice is None or chart.sleeping or not _is_threatened(chart):
        return choice
    best, lasted = choice, (False, 0)
    for lead in ((choice.action,), *_LEADS):
        result = _play_on(live.copy(), lead, achievements, left, _AHEAD if len(achievements) == 1 else _AHEAD_OF_MANY)
        if result > lasted:
            thought = choice.thought if lead[0] == choice.action else "I keep away from danger."
            best, lasted = NextAction(lead[0], thought), result
        if result[0]:
            break
    return best


def choose_by_plan(chart: Chart, achievements: Collection[str], left: int) -> NextAction | None:
    """Return the next action towards the achievements wanted; for one, None without a way or turns; for many, never None."""
    if chart.sleeping:
        return NextAction("noop", "I sleep, and can only wait.")
    planner = Planner(chart, rules())
    if len(achievements) == 1:
        (name,) = achievements
        return planner.toward(name) if planner.least(name) <= left else None
    for name in (*planner.urgent(), *(name for name in ORDER if name not in chart.unlocked)):
        choice = planner.toward(name)
        if choice is not None:
            return choice
    return NextAction("noop", "I wait for what may come.")


def _detour(live: CrafterLive, achievements: Collection[str], left: int) -> NextAction | None:
    """Return an action towards another achievement after which the goal is still reached in play on a copy; else None."""
    chart = live.chart()
    if len(achievements) > 1 or chart.sleeping or _is_threatened(chart):
        return None
    planner = Planner(chart, rules())
    for name in _ASIDE:
        choice = planner.toward(name) if name not in chart.unlocked else None
        if choice is not None and _play_on(live.copy(), (choice.action,), achievements, left, left)[0]:
            return choice
    return None


def _play_on(
    live: CrafterLive, lead: tuple[str, ...], achievements: Collection[str], left: int, most: int
) -> tuple[bool, int]:
    """Play a game on, by `lead`, then by plan; return whether it wins, or outlasts `most` < `left`, and the turns lasted."""
    actions = rules().actions
    for turn in range(min(left, most)):
        choice = (
            NextAction(lead[turn], "") if turn < len(lead) else choose_by_plan(live.chart(), achievements, left - turn)
        )
        if choice is None:
            return False, turn
        sight = live.act(character(actions.index(choice.action))).sight
        if live.unlocked.issuperset(achievements):
            return True, turn + 1
        if not sight.items[0]:
            return False, turn
    return most < left, min(left, most)


def _is_threatened(chart: Chart) -> bool:
    """Return whether a harmful thing is near, or health is low."""
    x, y = chart.place % SIDE, chart.place // SIDE
    near = (abs(cell % SIDE - x) + abs(cell // SIDE - y) for cell, mark in chart.things.items() if mark in _HARMFUL)
    return chart.items["health"] <= _FRAIL or min(near, default=SIDE) <= _CLOSE
