"""`Compare` and `Swap` are external environments over hidden numbers (arXiv 2510.07581, Figure 3; the released sorting tool).

Every symbol A, B, C... has a hidden number. Comparing tells which of two is less, wherever they stand; swapping exchanges
their places in the arrangement, which is shown whole. Both take two symbols as operands; the second one returns to language.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from agent_envs.base.serialization import state_type
from agent_envs.envs.expa.actions import ExternalEnvironment, Latent

SYMBOLS = "ABCDEFGH"


@state_type
@dataclass(frozen=True, slots=True)
class Arrangement:
    """The latent state: the symbols in their present places, each symbol's number, and the environments of this task."""

    order: tuple[str, ...]
    values: tuple[int, ...]
    tools: tuple[str, ...] = ("compare", "swap")

    def value(self, symbol: str) -> int:
        """Return a symbol's hidden number."""
        return self.values[SYMBOLS.index(symbol)]

    def swapped(self, one: str, other: str) -> "Arrangement":
        """Return the arrangement with two symbols in each other's places."""
        places = {one: other, other: one}
        return replace(self, order=tuple(places.get(symbol, symbol) for symbol in self.order))


class PairEnvironment(ExternalEnvironment):
    """An environment whose call takes two symbols."""

    def __init__(self, items: int) -> None:
        """Take how many symbols have an action; a task with fewer masks the rest."""
        self.actions = {symbol: f" {symbol}" for symbol in SYMBOLS[:items]}

    def available(self, state: Latent) -> bool:
        """Return whether this task has the environment."""
        world: Arrangement = state.world
        return self.name in world.tools

    def legal(self, state: Latent) -> Collection[str]:
        """Return the task's symbols."""
        world: Arrangement = state.world
        return sorted(world.order)


class Compare(PairEnvironment):
    """Tells which of two symbols has the smaller number; a symbol may be compared with itself."""

    name = "compare"
    desc = " compare"
    example = "A, B"
    usage = "Tell which of two items has the smaller number; write both, such as A, B."

    def step(self, state: Latent, action: str) -> tuple[str, Latent, bool]:
        """Take an operand: the first shows " and" (False: goes on); the second shows ": A < B", and control returns (True)."""
        if not state.keyed:
            return " and", state.press(action), False
        world: Arrangement = state.world
        (first,) = state.keyed
        one, other = world.value(first), world.value(action)
        sign = "<" if one < other else ">" if one > other else "="
        return f": {first} {sign} {action}\n", Latent(world), True


class Swap(PairEnvironment):
    """Exchanges the places of two different symbols and shows the whole arrangement."""

    name = "swap"
    desc = " swap"
    example = "A, B"
    usage = "Let two items change places, and show the new order; write both, such as A, B."

    def legal(self, state: Latent) -> Collection[str]:
        """Return the task's symbols, without the first operand."""
        return [symbol for symbol in super().legal(state) if symbol not in state.keyed]

    def step(self, state: Latent, action: str) -> tuple[str, Latent, bool]:
        """Take an operand: the first goes on (False); the second swaps the two in a new world and returns control (True)."""
        if not state.keyed:
            return " and", state.press(action), False
        world: Arrangement = state.world
        moved = world.swapped(state.keyed[0], action)
        return f" => {', '.join(moved.order)}\n", Latent(moved), True
