"""`Ground` gives lower bounds on walking and on pushing text between the cells of a BabaIsAI map.

Cells are solid where a text block can never move again, or where a STOP stands that holds for ever. Other text and other
objects are taken for air, so that nothing here is ever more than the truth.
"""

from functools import cache, lru_cache
from heapq import heappop, heappush

from agent_envs.envs.text_games.baba_is_ai.rules import DOWN, EMPTY, LEFT, OFF, RIGHT, UP, neighbours

AWAY = 10**6  # a distance that cannot be covered
WAYS = (UP, RIGHT, DOWN, LEFT)
BACK = (OFF, DOWN, LEFT, UP, RIGHT)  # by action: the opposite one
_TURN = 2  # steps from behind a block to its side; 4 lead to the other side


@lru_cache(maxsize=1024)
def stuck(width: int, height: int, texts: str, manned: frozenset[int] = frozenset()) -> frozenset[int]:
    """Return the cells of text blocks that can never move, cached: edges and such blocks hold them in both directions.

    From a cell where something stands that is YOU or may become so, a block can be pushed although there is text as well.
    """
    following = neighbours(width, height)
    blocks = {cell for cell, letter in enumerate(texts) if letter != EMPTY}
    fast: set[int] = set()
    while True:
        supports = fast - manned | {OFF}
        more = {
            cell
            for cell in blocks - fast
            if all(following[way][cell] in supports or following[BACK[way]][cell] in supports for way in (UP, RIGHT))
        }
        if not more:
            return frozenset(fast)
        fast |= more


class Ground:
    """Distances on a map with solid cells: `walk`, `reach`, `beside` and `turns`. What was worked out once is kept."""

    def __init__(self, width: int, height: int, solid: frozenset[int]) -> None:
        """Take the map's size and its solid cells, and number the rooms that walls part."""
        self.size, self.following = width * height, neighbours(width, height)
        self._free = [cell not in solid for cell in range(self.size)]
        self.rooms = [OFF] * self.size  # which cells hang together, by a number; OFF for solid ones
        self.walk, self.reach = cache(self._walk), cache(self._reach)
        self.beside, self.turns = cache(self._beside), cache(self._turns)
        for cell in range(self.size):
            if self._free[cell] and self.rooms[cell] == OFF:
                for other, steps in enumerate(self.walk(cell)):
                    if steps < AWAY and self._free[other]:
                        self.rooms[other] = cell

    def _walk(self, goal: int) -> list[int]:
        """Return each cell's least steps to a goal, AWAY if none; start and goal may be solid, what lies between not."""
        steps = [AWAY] * self.size
        steps[goal] = 0
        queue = [goal]
        for cell in queue:
            for way in WAYS:
                other = self.following[way][cell]
                if other != OFF and steps[other] == AWAY:
                    steps[other] = steps[cell] + 1
                    if self._free[other]:
                        queue.append(other)
        return steps

    def _reach(self, start: int) -> dict[int, int]:
        """Return the least number of pushes from a block's cell to each cell that it can come to, its own (0) included."""
        pushes = {start: 0}
        queue = [start] if self._free[start] else []
        for cell in queue:
            for way in WAYS:
                ahead = self._push(cell, way)
                if ahead != OFF and ahead not in pushes:
                    pushes[ahead] = pushes[cell] + 1
                    queue.append(ahead)
        return pushes

    def _beside(self, start: int, goal: int) -> int:
        """Return the least number of pushes that bring a block next to a cell."""
        reach = self.reach(start)
        return min(reach.get(self.following[way][goal], AWAY) for way in WAYS)

    def _turns(self, goal: int) -> list[tuple[int, ...]]:
        """Return the cost for a single pusher to bring a block from each cell to a goal, by the way of the first push.

        Counted are pushes, and the steps around the block for each change of direction; AWAY where it cannot be done.
        """
        costs = self._backwards(goal)
        return list(zip(*(costs[way] for way in WAYS), strict=True))

    def _backwards(self, goal: int) -> dict[int, list[int]]:
        """Return the costs to a goal (AWAY: none) by the way of the next push and the block's cell; Dijkstra from the goal."""
        costs = {way: [AWAY] * self.size for way in WAYS}
        heap = [(1, way, self.following[BACK[way]][goal]) for way in WAYS]
        while heap:
            cost, way, cell = heappop(heap)
            if cell == OFF or self._push(cell, way) == OFF or costs[way][cell] <= cost:
                continue
            costs[way][cell] = cost
            for other in WAYS:
                extra = 0 if other == way else 2 * _TURN if other == BACK[way] else _TURN
                heappush(heap, (cost + 1 + extra, other, self.following[BACK[other]][cell]))
        return costs

    def _push(self, cell: int, way: int) -> int:
        """Return the cell to which a push moves a block, OFF if it cannot be pushed that way."""
        behind, ahead = self.following[BACK[way]][cell], self.following[way][cell]
        return ahead if behind != OFF and ahead != OFF and self._free[behind] and self._free[ahead] else OFF


ground_of = lru_cache(maxsize=48)(Ground)
