"""`Ground` gives lower bounds on walking and on pushing text between the cells of a BabaIsAI map.

Cells are solid where a text block can never move again, or where a STOP stands that holds for ever. Other text and other
objects are taken for air, so that nothing here is ever more than the truth.
"""

from functools import lru_cache
from heapq import heappop, heappush

from agent_envs.envs.text_games.baba_is_ai.rules import DOWN, EMPTY, LEFT, OFF, RIGHT, UP, neighbours

AWAY = 10**6  # a distance that cannot be covered
WAYS = (UP, RIGHT, DOWN, LEFT)
BACK = (OFF, DOWN, LEFT, UP, RIGHT)  # by action: the opposite one
_TURN = 2  # steps from behind a block to its side; 4 lead to the other side


@lru_cache(maxsize=1024)
def stuck(width: int, height: int, texts: str, manned: frozenset[int] = frozenset()) -> frozenset[int]:
    """Return the cells of the text blocks that can never move: edges and other such blocks hold them in both directions.

    From a cell where something stands that is YOU or may become so, a block can be pushed although there is text as well.
    """
    following = neighbours(width, height)
    blocks = {cell for cell, letter in enumerate(texts) if letter != EMPTY}
    found: set[int] = set()
    while True:
        held = found - manned | {OFF}
        more = {
            cell
            for cell in blocks - found
            if all(following[way][cell] in held or following[BACK[way]][cell] in held for way in (UP, RIGHT))
        }
        if not more:
            return frozenset(found)
        found |= more


class Ground:
    """Distances on a map with solid cells. What was worked out once is kept."""

    def __init__(self, width: int, height: int, solid: frozenset[int]) -> None:
        """Take the size and the cells that nothing can enter."""
        self.size, self.following = width * height, neighbours(width, height)
        self._free = [cell not in solid for cell in range(self.size)]
        self.rooms = [OFF] * self.size  # which cells hang together, by a number; OFF for solid ones
        self._walks: dict[int, list[int]] = {}
        self._reach: dict[int, dict[int, int]] = {}
        self._turns: dict[int, list[tuple[int, ...]]] = {}
        self._besides: dict[tuple[int, int], int] = {}
        for cell in range(self.size):
            if self._free[cell] and self.rooms[cell] == OFF:
                for other, steps in enumerate(self.walk(cell)):
                    if steps < AWAY and self._free[other]:
                        self.rooms[other] = cell

    def walk(self, goal: int) -> list[int]:
        """Return the least number of steps from each cell to a goal. Start and goal may be solid, what lies between not."""
        found = self._walks.get(goal)
        if found is None:
            found = [AWAY] * self.size
            found[goal] = 0
            queue = [goal]
            for cell in queue:
                for way in WAYS:
                    other = self.following[way][cell]
                    if other != OFF and found[other] == AWAY:
                        found[other] = found[cell] + 1
                        if self._free[other]:
                            queue.append(other)
            self._walks[goal] = found  # whole, because other threads read it
        return found

    def reach(self, start: int) -> dict[int, int]:
        """Return the least number of pushes from a block's cell to each cell that it can come to."""
        found = self._reach.get(start)
        if found is None:
            found = {start: 0}
            queue = [start] if self._free[start] else []
            for cell in queue:
                for way in WAYS:
                    ahead = self._pushed(cell, way)
                    if ahead != OFF and ahead not in found:
                        found[ahead] = found[cell] + 1
                        queue.append(ahead)
            self._reach[start] = found
        return found

    def beside(self, start: int, goal: int) -> int:
        """Return the least number of pushes that bring a block next to a cell."""
        found = self._besides.get((start, goal))
        if found is None:
            reach = self.reach(start)
            near = [self.following[way][goal] for way in WAYS]
            found = self._besides[start, goal] = min(reach.get(cell, AWAY) for cell in near)
        return found

    def turns(self, goal: int) -> list[tuple[int, ...]]:
        """Return what it takes a single pusher to bring a block from each cell to a goal, by the way of the first push.

        Counted are pushes, and the steps around the block for each change of direction; AWAY where it cannot be done.
        """
        found = self._turns.get(goal)
        if found is None:
            costs = self._backwards(goal)
            found = self._turns[goal] = list(zip(*(costs[way] for way in WAYS), strict=True))
        return found

    def _backwards(self, goal: int) -> dict[int, list[int]]:
        """Return, by the way of the next push and the cell of the block, what is left to do; Dijkstra from the goal."""
        costs = {way: [AWAY] * self.size for way in WAYS}
        heap = [(1, way, self.following[BACK[way]][goal]) for way in WAYS]
        while heap:
            cost, way, cell = heappop(heap)
            if cell == OFF or self._pushed(cell, way) == OFF or costs[way][cell] <= cost:
                continue
            costs[way][cell] = cost
            for other in WAYS:
                extra = 0 if other == way else 2 * _TURN if other == BACK[way] else _TURN
                heappush(heap, (cost + 1 + extra, other, self.following[BACK[other]][cell]))
        return costs

    def _pushed(self, cell: int, way: int) -> int:
        """Return where a push moves a block, OFF if it cannot be pushed that way."""
        behind, ahead = self.following[BACK[way]][cell], self.following[way][cell]
        return ahead if behind != OFF and ahead != OFF and self._free[behind] and self._free[ahead] else OFF


ground_of = lru_cache(maxsize=48)(Ground)
