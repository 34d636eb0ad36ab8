"""`Bound` is a lower bound on the steps to a win of BabaIsAI, with which a search for the shortest plan looks at few maps.

A win needs a rule `X is win`, somebody who is YOU, and a walk. Where the rule is missing, text has to be pushed into a line;
where STOP is in the way, its rule has to be broken first; and something else may become YOU. Each is counted at its least:
the bound of a map is the cheapest of its starts, which are cells where YOU has to come to first and the steps that follow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from agent_envs.envs.text_games.baba_is_ai.ground import AWAY, BACK, WAYS, ground_of, stuck
from agent_envs.envs.text_games.baba_is_ai.rules import (
    DOWN,
    EMPTY,
    IS,
    OFF,
    RIGHT,
    STOP,
    WIN,
    YOU,
    BabaWorld,
    TextRules,
    rules_in,
)

Line = tuple[int, int, int]  # cells of a noun, an `is` and a property, in the order of reading
K = TypeVar("K")
Starts = dict[int, int]
Pushes = dict[tuple[int, int], int]  # block that is pushed first, and which way -> the steps from that push on


@dataclass(frozen=True, slots=True)
class _Moment:
    """The facts that a bound depends on, but for the place of YOU.

    Attributes:
        rest: places of the objects that are not YOU, OFF for those that are.
        rules: in force.
        room: a cell of the room of the only YOU, OFF where several are YOU.
        blocks: cells of the text blocks by their letter.
        loose: the blocks that may still move, each with the pushes to where it can come.
    """

    texts: str
    rest: tuple[int, ...]
    rules: TextRules
    room: int
    blocks: Mapping[str, list[int]]
    loose: Mapping[int, Mapping[int, int]]


class Bound:
    """The bound for one map and all that can come of it."""

    def __init__(self, world: BabaWorld) -> None:
        """Take a map, and work out which kinds may become YOU and which cells stay solid for ever."""
        self._size = (world.width, world.height)
        self._objects, self._kinds = world.objects, "".join(sorted(set(world.objects)))
        self._starts_by_situation: dict[tuple[str, tuple[int, ...], int], list[tuple[list[int], int]]] = {}
        self._lines: dict[Line, list[Line]] = {}
        blocks = _blocks(world.texts)
        self._settle(world, {kind for kind in self._kinds if kind in blocks}, ())
        you = {kind for kind in self._kinds if kind in rules_in(world).you or self._may_form(blocks, kind, YOU)}
        self._settle(world, you, self._stops(world, you))

    def _settle(self, world: BabaWorld, you: Iterable[str], stops: Iterable[str]) -> None:
        """Work out the solid cells, given the kinds that may be YOU and those STOP for ever; forget the lines kept."""
        places = [(kind, place) for kind, place in zip(world.objects, world.places, strict=True)]
        manned = frozenset(place for kind, place in places if kind in you)
        self._stuck = stuck(*self._size, world.texts, manned)
        self._solid = self._stuck.union(place for kind, place in places if kind in stops) - manned
        self._ground = ground_of(*self._size, self._solid)
        self._lines.clear()

    def __call__(self, world: BabaWorld) -> int:
        """Return a number of steps that no way to a win goes below; AWAY where there is no way."""
        you = rules_in(world).you
        mine, rest = [], []
        for kind, place in zip(world.objects, world.places, strict=True):
            if kind in you:
                mine.append(place)
                place = OFF
            rest.append(place)
        room = self._ground.rooms[mine[0]] if len(mine) == 1 else OFF
        key = (world.texts, tuple(rest), room)
        starts = self._starts_by_situation.get(key)
        if starts is None:
            starts = self._starts_by_situation[key] = self._starts(self._moment(world, key[1], mine))
        return min([walk[place] + cost for walk, cost in starts for place in mine], default=AWAY)

    def makeable(self, texts: str, noun: str, what: str) -> bool:
        """Return whether a rule is there, or can perhaps be made; never False where it can."""
        return self._may_form(_blocks(texts), noun, what)

    def _may_form(self, blocks: Mapping[str, list[int]], noun: str, what: str) -> bool:
        """Return whether some blocks of a rule can still come to lie in a line."""
        return any(self._targets(line) for line in _candidates(blocks, noun, what))

    def _stops(self, world: BabaWorld, you: set[str]) -> set[str]:
        """Return the kinds that are STOP and stay so: nobody can move the text of the rule, nor make them YOU."""
        fixed = {noun for noun, what, cells in rules_in(world).blocks if what == STOP and self._stuck.issuperset(cells)}
        return fixed - you

    def _moment(self, world: BabaWorld, rest: tuple[int, ...], mine: list[int]) -> _Moment:
        """Return a map's facts that the bound depends on (`mine` counts if it is one cell), with each loose block's reach."""
        blocks = _blocks(world.texts)
        cells = [cell for block_cells in blocks.values() for cell in block_cells if cell not in self._stuck]
        loose = {cell: self._ground.reach(cell) for cell in cells}
        return _Moment(world.texts, rest, rules_in(world), mine[0] if len(mine) == 1 else OFF, blocks, loose)

    def _places(self, moment: _Moment, kinds: Iterable[str]) -> set[int]:
        """Return the cells of the objects of some kinds that are not YOU."""
        return {place for kind, place in zip(self._objects, moment.rest, strict=True) if kind in kinds} - {OFF}

    def _targets(self, line: Line) -> list[Line]:
        """Return the lines in which three blocks can come to lie, as far as pushes reach; kept by where they lie now."""
        targets = self._lines.get(line)
        if targets is None:
            nouns, verbs, whats = reach = [self._ground.reach(cell) for cell in line]
            least = min(range(3), key=lambda index: len(reach[index]))
            lines = [self._line_over(cell, least, way) for cell in reach[least] for way in (RIGHT, DOWN)]
            targets = [line for line in lines if line[0] in nouns and line[1] in verbs and line[2] in whats]
            self._lines[line] = targets
        return targets

    def _line_over(self, cell: int, index: int, way: int) -> Line:
        """Return the line of three cells right or down whose cell at an index is `cell`; OFF for those beyond the map."""
        forth, back = (
            (*self._ground.following[direction], OFF) for direction in (way, BACK[way])
        )  # OFF is the last index
        for _ in range(index):
            cell = back[cell]
        return cell, forth[cell], forth[forth[cell]]

    def _starts(self, moment: _Moment) -> list[tuple[list[int], int]]:
        """Return a moment's starts, each as YOU's walk to its cell and the steps after it; with those that break a STOP."""
        starts = self._wins(moment)
        for cell, cost in self._others(moment).items():
            starts[cell] = min(cost, starts.get(cell, AWAY))
        stops = self._places(moment, moment.rules.stop)
        if stops <= self._solid:
            return [(self._ground.walk(cell), cost) for cell, cost in starts.items()]
        closed = ground_of(*self._size, self._solid | stops)
        both = (*starts.items(), *self._breaks(moment, starts).items())
        return [(closed.walk(cell), cost) for cell, cost in both]

    def _wins(self, moment: _Moment) -> Starts:
        """Return the starts, cell to least later steps, when nothing else becomes YOU: goals, and pushes that form a WIN."""
        starts: Starts = {}
        pushes: Pushes = {}
        for kind in self._kinds:
            goals = self._places(moment, kind)
            lines = [cells for noun, what, cells in moment.rules.blocks if (noun, what) == (kind, WIN)]
            # Where text lies the only YOU cannot stand, and pushed away it makes no rule.
            open_ = {goal for goal in goals if any(moment.room == OFF or goal not in cells for cells in lines)}
            starts |= dict.fromkeys(open_, 0)
            for line in _candidates(moment.blocks, kind, WIN) if not open_ else ():
                self._form(pushes, moment, line, goals, AWAY if goals else 0)
        self._spread(starts, moment, pushes)
        return starts

    def _others(self, moment: _Moment) -> Starts:
        """Return the starts, cell to least later steps, when another kind is made YOU by pushes."""
        pushes: Pushes = {}
        for kind in self._kinds:
            if kind not in moment.rules.you and self._may_form(moment.blocks, kind, YOU):
                goals, later = self._later(moment, kind)
                for line in _candidates(moment.blocks, kind, YOU) if later < AWAY else ():
                    self._form(pushes, moment, line, goals, later)
        starts: Starts = {}
        self._spread(starts, moment, pushes)
        return starts

    def _later(self, moment: _Moment, kind: str) -> tuple[set[int], int]:
        """Return the goals for who is YOU now once a kind is YOU, too, and the least steps for the new one (AWAY: none)."""
        winners = [own for own in self._kinds if self._may_form(moment.blocks, own, WIN)]
        goals = self._places(moment, winners)
        if moment.room == OFF or kind in winners or any(own in moment.rules.you for own in winners):
            return goals, 0
        starts = self._wins(replace(moment, room=OFF))
        if any(self._ground.walk(cell)[moment.room] < AWAY for cell in starts):
            starts = dict.fromkeys(goals, 0)  # who is YOU now may do the rest of the pushing
        walks = [(self._ground.walk(cell), cost) for cell, cost in starts.items()]
        return goals, min(
            [walk[new] + cost for walk, cost in walks for new in self._places(moment, kind)], default=AWAY
        )

    def _breaks(self, moment: _Moment, starts: Starts) -> Starts:
        """Return the starts that break a STOP in force before they go on to one of those given."""
        breaks: Starts = {}
        pushes: Pushes = {}
        walks = [(self._ground.walk(goal), cost) for goal, cost in starts.items()]
        rules = moment.rules
        blocks = {cell for noun, what, line in rules.blocks if what == STOP and noun in rules.stop for cell in line}
        for block, way in product(sorted(blocks - self._stuck), WAYS):
            cells, gap = self._stands(moment.texts, block, way)
            for cell in cells:
                onward = self._ground.following[way][cell]
                _lower(breaks, cell, 1 + min([walk[onward] + cost for walk, cost in walks], default=AWAY))
            onward = max(0, min([walk[block] + cost for walk, cost in walks], default=AWAY) - len(moment.loose))
            for helper in moment.loose.keys() - blocks:
                for other in WAYS:
                    _lower(pushes, (helper, other), 1 + onward + moment.loose[helper].get(gap, AWAY))
        self._spread(breaks, moment, pushes)
        return breaks

    def _form(self, pushes: Pushes, moment: _Moment, line: Line, goals: set[int], later: int) -> None:
        """Add to `pushes` the first pushes that bring three blocks into a line; `later` caps what follows, 0 if unknown."""
        for cells in self._targets(line):
            moves = [(start, goal) for start, goal in zip(line, cells, strict=True) if start != goal]
            ends = goals.difference(cells) if later == AWAY else goals
            if not moves or moment.room != OFF and later == AWAY and not ends:
                continue
            if moment.room == OFF:
                costs = [(start, (self._ground.reach(start)[goal],) * len(WAYS)) for start, goal in moves]
            else:
                costs = [(start, self._ground.turns(goal)[start]) for start, goal in moves]
            least = [min(ways) for _, ways in costs]
            after = 0 if moment.room == OFF else min(later, self._last_walk(moment, line, cells, ends, max(least)))
            for index, (start, ways) in enumerate(costs):
                others = max(least[:index] + least[index + 1 :], default=0)
                for way, cost in zip(WAYS, ways, strict=True):
                    _lower(pushes, (start, way), max(cost, others) + after)

    def _last_walk(self, moment: _Moment, line: Line, cells: Line, goals: set[int], pushes: int) -> int:
        """Return the least walk after a line's last push, less helpers that may do it; AWAY if no goal can be walked to."""
        least = AWAY
        for start, end in zip(line, cells, strict=True):
            if start not in self._stuck:
                walk = min([self._ground.walk(goal)[end] for goal in goals], default=AWAY)
                others = sorted([self._ground.beside(cell, end) for cell in moment.loose if cell not in line])
                helpers = 0
                while helpers < len(others) and others[helpers] <= pushes + helpers:
                    helpers += 1
                least = min(least, max(0, walk - 1 - helpers))
        return least

    def _spread(self, starts: Starts, moment: _Moment, pushes: Pushes) -> None:
        """Turn pushes into starts, in place; what YOU pushes first may be a helper, a block that pushes the first one later."""
        helpers: dict[int, int] = {}
        for (block, way), cost in pushes.items():
            self._begin(starts, helpers, moment, block, way, cost)
        done: set[int] = set()
        while helpers:
            block = min(helpers, key=helpers.__getitem__)
            cost = helpers.pop(block)
            if block not in done:
                done.add(block)
                for way in WAYS:
                    self._begin(starts, helpers, moment, block, way, cost)

    def _begin(self, starts: Starts, helpers: dict[int, int], moment: _Moment, block: int, way: int, cost: int) -> None:
        """Add the starts of one push, and helpers that could take part once they lie behind the block, in place, if cheaper."""
        cells, gap = self._stands(moment.texts, block, way)
        for cell in cells:
            if cost < starts.get(cell, AWAY):
                starts[cell] = cost
        for helper, reach in moment.loose.items() if gap != OFF else ():
            more = cost + reach.get(gap, AWAY)
            if helper != block and more < helpers.get(helper, AWAY):
                helpers[helper] = more

    def _stands(self, texts: str, block: int, way: int) -> tuple[list[int], int]:
        """Return the cells from which a block can be pushed, and the free one where a helper would come to lie, or OFF."""
        back = self._ground.following[BACK[way]]
        cells = []
        cell = back[block]
        while cell != OFF and cell not in self._solid:
            cells.append(cell)
            if texts[cell] == EMPTY:
                return cells, cell
            cell = back[cell]
        return cells, OFF


def _lower(table: dict[K, int], key: K, cost: int) -> None:
    """Set a key's cost if it is lower than the one there; AWAY is never set."""
    if cost < table.get(key, AWAY):
        table[key] = cost


def _blocks(texts: str) -> dict[str, list[int]]:
    """Return the cells of each letter of the text, in their order; empty cells are left out."""
    cells: dict[str, list[int]] = {}
    for cell, letter in enumerate(texts):
        if letter != EMPTY:
            cells.setdefault(letter, []).append(cell)
    return cells


def _candidates(blocks: Mapping[str, list[int]], noun: str, what: str) -> Iterable[Line]:
    """Return the triples of blocks that could make a rule."""
    return product(blocks.get(noun, ()), blocks.get(IS, ()), blocks.get(what, ()))
