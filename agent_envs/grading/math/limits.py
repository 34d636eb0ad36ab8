"""The cost of one answer is bounded by caps and a budget of steps, and reading gives up with an exception.

Work is counted in steps, so that the verdict on a text is the same on every machine. A step is about one product of two terms.
"""

MAX_CHARACTERS = 4_000  # of a whole answer; a longer text is none
MAX_BRACKETS = 32  # within one another
MAX_DEPTH = 64  # of brackets, fractions, exponents and functions within one another, several levels each
MAX_DIGITS = 1_000  # of one written number
MAX_BITS = 4_096  # of a numerator or denominator
MAX_TERMS = 100  # of a power of a sum that is multiplied out
MAX_ITEMS = 100  # of one list, set, tuple or row of a matrix
MAX_SIGNS = 3  # of "±" in one item, which stand for two values each
READ_STEPS = 20_000
COMPARE_STEPS = 20_000


class Unreadable(Exception):
    """A text without a mathematical value that is understood here."""


class Exhausted(Unreadable):
    """The value would cost too much."""


class StepBudget:
    """The steps that are left."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps away; raises Exhausted where fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise Exhausted
