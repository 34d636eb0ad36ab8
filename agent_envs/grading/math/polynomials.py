"""Sums are exact: rational multiples of products of powers, each sum in one form.

An atom is something whose powers are multiplied by adding exponents:

- `prime`: a prime number with an exponent in (0, 1): sqrt(12) is 2 * 3^(1/2). A cofactor beyond the factored range, and a power
  too large to write out, stand as such an atom too.
- `unit`: i, with an exponent in (0, 2).
- `name`: a variable, pi, e, a numeral in another base.
- `base`: a sum of several terms under a root, (x + 1)^(1/2), or under a power too large to expand.
- `power`, `call`: 2^n, sin(x): what is equal only if it is written alike.

Each rule keeps the value, so that equal forms are equal values. The other way holds for sums of variables and roots of factored
numbers, i included: products of distinct roots of primes are independent over the rationals (Besicovitch 1940).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, floor
from typing import Literal

from agent_envs.grading.math.limits import MAX_BITS, MAX_TERMS, Exhausted, StepBudget

Kind = Literal["prime", "unit", "name", "base", "power", "call"]
CONSTANT_NAMES = frozenset(("e", "pi", "infinity"))


@dataclass(frozen=True, slots=True)
class Atom:
    """One factor; two atoms are the same if their keys are."""

    key: str
    kind: Kind = field(compare=False)
    number: int = field(default=0, compare=False)  # of a prime
    base: "Sum | None" = field(default=None, compare=False)
    free: bool = field(default=False, compare=False)  # whether a variable occurs in it

    @property
    def positive(self) -> bool:
        """Whether it is known to be a positive real number: a prime, or one of the named constants."""
        return self.kind == "prime" or self.key in CONSTANT_NAMES


Monomial = tuple[tuple[Atom, Fraction], ...]
Term = tuple[Monomial, Fraction]


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms in the order of their keys, none with the coefficient 0."""

    terms: tuple[Term, ...]

    @property
    def key(self) -> str:
        """The text by which sums are compared and sorted: equal for equal sums alone; "0" without terms."""
        if not self.terms:
            return "0"
        return "+".join(
            "*".join([str(value), *(f"{atom.key}^{power}" for atom, power in m)]) for m, value in self.terms
        )

    @property
    def free(self) -> bool:
        """Whether a variable occurs in it."""
        return any(atom.free for monomial, _ in self.terms for atom, _ in monomial)

    def atoms(self) -> list[Atom]:
        """Return the atoms, each once, in the order in which they occur."""
        return list(dict.fromkeys(atom for monomial, _ in self.terms for atom, _ in monomial))


ZERO = Sum(())
ONE = Sum((((), Fraction(1)),))
IMAGINARY = Atom("#i", "unit")


def number(value: Fraction | int) -> Sum:
    """Return a rational number as a sum; ZERO, without terms, for 0."""
    return Sum((((), Fraction(value)),)) if value else ZERO


def prime(value: int) -> Atom:
    """Return the atom of a prime number, or of a number that is not factored further."""
    return Atom(f"#{value}", "prime", value)


def name(text: str) -> Atom:
    """Return the atom of a name."""
    return Atom(text, "name", free=text not in CONSTANT_NAMES)


def compound(base: Sum, budget: StepBudget) -> Atom:
    """Return the atom of a sum that stands under a root or a power."""
    key = f"({base.key})"
    budget.spend(1 + len(key) // 16)
    return Atom(key, "base", base=base, free=base.free)


def rational(total: Sum) -> Fraction | None:
    """Return the value of a sum that is a rational number (0 without terms); None for any other."""
    if not total.terms:
        return Fraction(0)
    monomial, value = total.terms[0]
    return value if len(total.terms) == 1 and not monomial else None


def bits(value: Fraction) -> int:
    """Return the size of a fraction."""
    return value.numerator.bit_length() + value.denominator.bit_length()


def add(left: Sum, right: Sum, budget: StepBudget, factor: int = 1) -> Sum:
    """Return `left + factor * right`, without terms that cancel; Exhausted if a number grows too large."""
    coefficients = dict(left.terms)
    budget.spend(len(left.terms) + len(right.terms))
    for monomial, value in right.terms:
        coefficients[monomial] = coefficients.get(monomial, Fraction(0)) + factor * value
    return _gather(coefficients)


def multiply(left: Sum, right: Sum, budget: StepBudget) -> Sum:
    """Return the product, multiplied out, powers of atoms settled; Exhausted if a number grows too large."""
    if left == ONE or right == ONE:
        return left if right == ONE else right
    coefficients: dict[Monomial, Fraction] = {}
    for monomial, value in left.terms:
        for other, factor in right.terms:
            budget.spend(1 + (bits(value) + bits(factor)) // 128)
            scaled = value * factor
            alone = not monomial or not other
            terms = (((monomial or other), scaled),) if alone else product((*monomial, *other), scaled, budget).terms
            for settled, result in terms:
                coefficients[settled] = coefficients[settled] + result if settled in coefficients else result
    return _gather(coefficients)


def product(powers: Iterable[tuple[Atom, Fraction]], value: Fraction, budget: StepBudget) -> Sum:
    """Return a coefficient times powers of atoms, one atom's powers added up, settled and, where small, multiplied out."""
    exponents: dict[Atom, Fraction] = {}
    for atom, power in powers:
        exponents[atom] = exponents.get(atom, Fraction(0)) + power
    left: list[tuple[Atom, Fraction]] = []
    expanded: list[tuple[Sum, int]] = []
    budget.spend(len(exponents))
    for atom, power in exponents.items():
        factor, rest, whole = _settle_power(atom, power)
        value *= factor
        if rest:
            left.append((atom, rest))
        if whole and atom.base is not None:
            expanded.append((atom.base, whole))
    total = Sum(((tuple(sorted(left, key=lambda factor: factor[0].key)), value),)) if value else ZERO
    for base, whole in expanded:
        total = multiply(total, raised(base, whole, budget), budget)
    return total


def raised(total: Sum, power: int, budget: StepBudget) -> Sum:
    """Return a sum to a power >= 0, multiplied out; meant for powers for which `expands` holds, which is not checked."""
    result = ONE
    while power:
        if power % 2:
            result = multiply(result, total, budget)
        power //= 2
        if power:
            total = multiply(total, total, budget)
    return result


def expands(total: Sum, power: int) -> bool:
    """Return whether a power of a sum is small enough to be multiplied out; False for a negative power."""
    width = max((bits(value) for _, value in total.terms), default=0) + len(total.terms).bit_length()
    if not 0 <= power * width <= MAX_BITS:
        return False
    return comb(power + len(total.terms) - 1, power) <= MAX_TERMS


def _settle_power(atom: Atom, power: Fraction) -> tuple[Fraction, Fraction, int]:
    """Settle an atom's power: return its part in the coefficient, the exponent left, and how often the base multiplies out."""
    whole = floor(power)
    if atom.kind == "prime" and whole and abs(whole) * atom.number.bit_length() <= MAX_BITS:
        return Fraction(atom.number) ** whole, power - whole, 0
    if atom.kind == "unit":
        turn = power % 4
        return (Fraction(-1), turn - 2, 0) if turn >= 2 else (Fraction(1), turn, 0)
    if atom.base is not None and whole > 0 and expands(atom.base, whole):
        return Fraction(1), power - whole, whole
    return Fraction(1), power, 0


def _gather(coefficients: dict[Monomial, Fraction]) -> Sum:
    """Build a sum from coefficients in sorted order without zeros; Exhausted if a number is too large."""
    for monomial, value in coefficients.items():
        if bits(value) > 2 * MAX_BITS or any(bits(power) > MAX_BITS for _, power in monomial):
            raise Exhausted
    terms = [(monomial, value) for monomial, value in coefficients.items() if value]
    return Sum(tuple(sorted(terms, key=lambda term: [(atom.key, power) for atom, power in term[0]])))
