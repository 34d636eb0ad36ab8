"""Answers are immutable values, equal if they are the same mathematically."""

from dataclasses import dataclass

from agent_envs.grading.math.limits import COMPARE_STEPS, Exhausted, StepBudget, Unreadable
from agent_envs.grading.math.polynomials import ONE, Sum, multiply


class MathValue:
    """Base of all values. `==` is exact and bounded: what cannot be compared within the bound is not equal."""

    __slots__ = ()

    @property
    def key(self) -> str:
        """A text that describes the value (equal values may have different ones); each kind of value overrides it."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Compare two answers within a bound of steps; beyond the bound they are not equal."""
        if not isinstance(other, MathValue):
            return NotImplemented
        first, second = sorted((self, other), key=_key)  # a bound that is met must not depend on the order
        try:
            return same(first, second, StepBudget(COMPARE_STEPS))
        except Exhausted:
            return False

    def __hash__(self) -> int:
        return hash(type(self).__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Quotient(MathValue):
    """`above / below`; a lone number or expression."""

    above: Sum
    below: Sum = ONE

    @property
    def key(self) -> str:
        """Its text: the sum above the line, with the sum below behind a slash unless that is one."""
        return self.above.key if self.below == ONE else f"({self.above.key})/({self.below.key})"

    @property
    def free(self) -> bool:
        """Whether a variable occurs in it."""
        return self.above.free or self.below.free


@dataclass(frozen=True, slots=True, eq=False)
class MathRow(MathValue):
    """Items in order with their brackets: a point, a tuple, a vector, an interval; a ratio has ":" for both."""

    opened: str
    items: tuple[MathValue, ...]
    closed: str

    @property
    def key(self) -> str:
        """Its text."""
        return f"{self.opened}{_keys(self.items)}{self.closed}"


@dataclass(frozen=True, slots=True, eq=False)
class Many(MathValue):
    """Items in any order: a list, a set, a union. A list may hold equal items, the others were cleared of them."""

    items: tuple[MathValue, ...]

    @property
    def key(self) -> str:
        """Its text."""
        return f"{{{','.join(sorted(map(_key, self.items)))}}}"


@dataclass(frozen=True, slots=True, eq=False)
class Grid(MathValue):
    """The rows of a matrix."""

    rows: tuple[tuple[MathValue, ...], ...]

    @property
    def key(self) -> str:
        """Its text."""
        return f"[{';'.join(map(_keys, self.rows))}]"


@dataclass(frozen=True, slots=True, eq=False)
class MathRelation(MathValue):
    """`total` compared with zero: "=", "!=", "<" or "<="; made monic, by a positive number if the sign is an inequality's."""

    sign: str
    total: Quotient

    @property
    def key(self) -> str:
        """Its text."""
        return f"0 {self.sign} {self.total.key}"


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(MathValue):
    """One of several assignments to different names: "x = 1, y = 2"."""

    name: str
    value: MathValue

    @property
    def key(self) -> str:
        """Its text."""
        return f"{self.name}:={self.value.key}"


@dataclass(frozen=True, slots=True, eq=False)
class MathWords(MathValue):
    """Text that is no mathematics, token by token, words in lower case."""

    tokens: tuple[str, ...]

    @property
    def key(self) -> str:
        """Its text."""
        return " ".join(self.tokens)


def lone(value: MathValue) -> Quotient:
    """Return a value that is a lone number or expression; raises Unreadable where it is another."""
    if not isinstance(value, Quotient):
        raise Unreadable
    return value


def same(left: MathValue, right: MathValue, budget: StepBudget) -> bool:
    """Return whether two values are equal; raises Exhausted where that would take too many steps."""
    budget.spend()
    match left, right:
        case Quotient(), Quotient():
            return _same_quotients(left, right, budget)
        case MathRow(), MathRow():
            ends = (left.opened, left.closed) == (right.opened, right.closed)
            return ends and _same_rows(left.items, right.items, budget)
        case Many(), Many():
            return _same_bags(left.items, right.items, budget)
        case Grid(), Grid():
            rows = zip(left.rows, right.rows, strict=False)
            return len(left.rows) == len(right.rows) and all(_same_rows(one, two, budget) for one, two in rows)
        case MathRelation(), MathRelation():
            return left.sign == right.sign and _same_quotients(left.total, right.total, budget)
        case Assignment(), Assignment():
            return left.name == right.name and same(left.value, right.value, budget)
        case MathWords(), MathWords():
            return left.tokens == right.tokens
    return False


def distinct(items: list[MathValue], budget: StepBudget) -> tuple[MathValue, ...]:
    """Return the items without those that equal an earlier one, in their order."""
    representatives: list[MathValue] = []
    for item in items:
        if not any(same(item, other, budget) for other in representatives):
            representatives.append(item)
    return tuple(representatives)


def _same_quotients(left: Quotient, right: Quotient, budget: StepBudget) -> bool:
    """Return whether quotients are equal, by cross-multiplication: the forms of sums are unique, those of quotients are not."""
    if left.above == right.above and left.below == right.below:
        return True
    if left.below == right.below:
        return False
    return multiply(left.above, right.below, budget) == multiply(right.above, left.below, budget)


def _same_rows(left: tuple[MathValue, ...], right: tuple[MathValue, ...], budget: StepBudget) -> bool:
    """Return whether two rows have the same length and the same values in order; Exhausted if that takes too many steps."""
    return len(left) == len(right) and all(same(one, two, budget) for one, two in zip(left, right, strict=True))


def _same_bags(left: tuple[MathValue, ...], right: tuple[MathValue, ...], budget: StepBudget) -> bool:
    """Return whether two bags are equal in any order, pairing each value with any equal one, as equality is transitive."""
    if len(left) != len(right):
        return False
    rest = list(right)
    for item in left:
        place = next((place for place, other in enumerate(rest) if same(item, other, budget)), None)
        if place is None:
            return False
        del rest[place]
    return True


def _key(value: MathValue) -> str:
    """Return the key that a value is sorted and compared by."""
    return value.key


def _keys(items: tuple[MathValue, ...]) -> str:
    """Return the keys of values in their order, joined by commas."""
    return ",".join(map(_key, items))
