"""Quotients of sums are calculated exactly: constants lose the square roots and i below the line, single terms move up."""

from fractions import Fraction

from agent_envs.grading.math.limits import StepBudget, Unreadable
from agent_envs.grading.math.polynomials import IMAGINARY, ONE, Atom, Sum, multiply, name, number, product, rational
from agent_envs.grading.math.polynomials import add as add_sums
from agent_envs.grading.math.values import Quotient

_HALF = Fraction(1, 2)


def whole(value: Fraction | int) -> Quotient:
    """Return a rational number."""
    return Quotient(number(value))


def atom_value(atom: Atom, power: Fraction | int = 1) -> Quotient:
    """Return a power of an atom that needs no settling."""
    return Quotient(Sum(((((atom, Fraction(power)),), Fraction(1)),)))


def symbol_value(text: str) -> Quotient:
    """Return a name's value; "i" is the imaginary unit."""
    return atom_value(IMAGINARY if text == "i" else name(text))


def rational_value(value: Quotient) -> Fraction | None:
    """Return the value if it is a rational number; None for any other."""
    return rational(value.above) if value.below == ONE else None


def plus(left: Quotient, right: Quotient, budget: StepBudget, factor: int = 1) -> Quotient:
    """Return `left + factor * right` in the plainest form."""
    if left.below == right.below:
        return quotient(add_sums(left.above, right.above, budget, factor), left.below, budget)
    one = multiply(left.above, right.below, budget)
    two = multiply(right.above, left.below, budget)
    return quotient(add_sums(one, two, budget, factor), multiply(left.below, right.below, budget), budget)


def times(left: Quotient, right: Quotient, budget: StepBudget) -> Quotient:
    """Return the product in the plainest form."""
    above = multiply(left.above, right.above, budget)
    if left.below == right.below == ONE:
        return Quotient(above)
    return quotient(above, multiply(left.below, right.below, budget), budget)


def divided(left: Quotient, right: Quotient, budget: StepBudget) -> Quotient:
    """Return the quotient; raises Unreadable where the divisor is zero."""
    return times(left, inverse(right, budget), budget)


def inverse(value: Quotient, budget: StepBudget) -> Quotient:
    """Return one over the value; raises Unreadable where it is zero."""
    return quotient(value.below, value.above, budget)


def negative(value: Quotient) -> Quotient:
    """Return the value with the other sign."""
    return Quotient(Sum(tuple((monomial, -factor) for monomial, factor in value.above.terms)), value.below)


def quotient(above: Sum, below: Sum, budget: StepBudget) -> Quotient:
    """Return `above / below` in the plainest form: a sum, a number if proportional, else a quotient; Unreadable for 0 below."""
    if not below.terms:
        raise Unreadable
    if not above.terms or below == ONE:
        return Quotient(above)
    above, below = _conjugate(above, below, budget)
    monomial, value = below.terms[0]
    # Roots of sums stay below: their inverses are no single terms.
    lead = [(atom, -power) for atom, power in monomial if atom.kind != "base"]
    over = product(lead, 1 / value, budget)
    above, below = multiply(above, over, budget), multiply(below, over, budget)
    ratio = _ratio(above, below)
    return whole(ratio) if ratio is not None else Quotient(above, below)


def _conjugate(above: Sum, below: Sum, budget: StepBudget) -> tuple[Sum, Sum]:
    """Free a constant sum below the line of square roots and i, by (a + b r)(a - b r); return other quotients unchanged."""
    if len(below.terms) == 1 or any(atom.kind not in ("prime", "unit") for atom in below.atoms()):
        return above, below
    for atom in below.atoms():
        powers = {power for monomial, _ in below.terms for other, power in monomial if other == atom}
        if powers == {_HALF if atom.kind == "prime" else Fraction(1)} and len(below.terms) > 1:
            mirror = Sum(tuple((m, -value if any(a == atom for a, _ in m) else value) for m, value in below.terms))
            above, below = multiply(above, mirror, budget), multiply(below, mirror, budget)
    return above, below


def _ratio(above: Sum, below: Sum) -> Fraction | None:
    """Return the rational number that `above` is times `below`, term by term; None if it is none."""
    if len(above.terms) != len(below.terms):
        return None
    ratio = above.terms[0][1] / below.terms[0][1]
    alike = all(
        one[0] == two[0] and one[1] == ratio * two[1] for one, two in zip(above.terms, below.terms, strict=True)
    )
    return ratio if alike else None
