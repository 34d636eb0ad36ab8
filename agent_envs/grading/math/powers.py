"""Powers and roots are computed; what is not exact or not small stays a power, in one form.

Conventions: an odd root of a negative number is the negative real one; the square root of -n is i sqrt(n); a root of a product
is taken apart only where all factors but one are known to be positive, so that sqrt(x^2) is not x. A symbolic exponent goes to
each factor, (2 x)^n = 2^n x^n, as for whole n.
"""

from fractions import Fraction
from math import gcd, isqrt

from agent_envs.grading.math import polynomials as poly
from agent_envs.grading.math.limits import MAX_BITS, StepBudget, Unreadable
from agent_envs.grading.math.quotients import inverse, quotient, rational_value, times, whole
from agent_envs.grading.math.values import Quotient

_FACTOR_LIMIT = (
    10_000  # primes below it are found, so that every number below its cube is factored as far as roots need
)
_HALF = Fraction(1, 2)
_Powers = list[tuple[poly.Atom, Fraction]]


def power(base: Quotient, exponent: Quotient, budget: StepBudget) -> Quotient:
    """Return `base ** exponent`, opaque where it cannot be split; Unreadable for zero to a rational power <= 0."""
    value = rational_value(exponent)
    if value is not None:
        return rational_power(base, value, budget)
    if exponent.below != poly.ONE or not base.above.terms:
        return opaque("power", (base, exponent), budget)
    result = whole(1)
    for monomial, factor in exponent.above.terms:
        if monomial:
            above = _symbolic_power(base.above, monomial, factor, budget)
            step = times(above, _symbolic_power(base.below, monomial, -factor, budget), budget)
        else:
            step = rational_power(base, factor, budget)
        result = times(result, step, budget)
    return result


def rational_power(base: Quotient, exponent: Fraction, budget: StepBudget) -> Quotient:
    """Return a value to a rational power, opaque for roots of most quotients; Unreadable for zero to a power <= 0."""
    if exponent < 0:
        return rational_power(inverse(base, budget), -exponent, budget)
    if not base.above.terms:
        if not exponent:
            raise Unreadable
        return base
    if exponent.denominator == 1:
        above = _whole_power(base.above, exponent.numerator, budget)
        return quotient(above, _whole_power(base.below, exponent.numerator, budget), budget)
    if base.below != poly.ONE and not positive_term(base.above):
        return opaque("power", (base, whole(exponent)), budget)
    if base.below != poly.ONE:
        return quotient(_root(base.above, exponent, budget), _root(base.below, exponent, budget), budget)
    return Quotient(_root(base.above, exponent, budget))


def opaque(title: str, values: tuple[Quotient, ...], budget: StepBudget) -> Quotient:
    """Return a value known only by its name and its arguments, sin(x); equal for equal names and arguments alone."""
    key = f"{title}({', '.join(value.key for value in values)})"
    budget.spend(1 + len(key) // 16)
    return Quotient(
        poly.product([(poly.Atom(key, "call", free=any(v.free for v in values)), Fraction(1))], Fraction(1), budget)
    )


def prime_powers(value: int, budget: StepBudget) -> list[tuple[int, int]]:
    """Return the prime powers of a number > 0; a cofactor without a small prime stands whole, or as the root of a square."""
    powers: list[tuple[int, int]] = []
    tried = 0
    for candidate in _PRIMES:
        if candidate * candidate > value:
            break
        tried += 1
        count = 0
        while value % candidate == 0:
            value //= candidate
            count += 1
        if count:
            powers.append((candidate, count))
    budget.spend(1 + tried // 16)
    count = 1
    while value > 1 and isqrt(value) ** 2 == value:
        value, count = isqrt(value), 2 * count
    return [*powers, (value, count)] if value > 1 else powers


def _whole_power(total: poly.Sum, exponent: int, budget: StepBudget) -> poly.Sum:
    """Raise a sum to a whole power >= 0; it stays a power of primes or of the sum where the result would be too large."""
    if exponent == 0 or total == poly.ONE:
        return poly.ONE
    if len(total.terms) == 1:
        monomial, value = total.terms[0]
        scaled = [(atom, power * exponent) for atom, power in monomial]
        if poly.bits(value) * exponent <= MAX_BITS:
            return poly.product(scaled, value**exponent, budget)
        return poly.product([*_signed_power(value, Fraction(exponent), budget), *scaled], Fraction(1), budget)
    if poly.expands(total, exponent):
        return poly.raised(total, exponent, budget)
    return _of_base(total, Fraction(exponent), budget)


def _root(total: poly.Sum, exponent: Fraction, budget: StepBudget) -> poly.Sum:
    """Return a sum, not zero, to a power that is no whole number; square roots of two terms are denested where possible."""
    if len(total.terms) > 1:
        plain = _denest(total, budget) if exponent == _HALF else None
        return plain or _of_base(total, exponent, budget)
    monomial, value = total.terms[0]
    outside: _Powers = _positive_power(abs(value), exponent, budget)
    inside: _Powers = []
    for atom, power in monomial:
        if atom.positive:
            outside.append((atom, power * exponent))
        else:
            inside.append((atom, power))
    if value < 0 and not inside:
        odd = exponent.denominator % 2
        outside.append((poly.IMAGINARY, Fraction(2 * (exponent.numerator % 2)) if odd else 2 * exponent))
    elif inside:
        plain_one = value > 0 and len(inside) == 1 and -1 <= inside[0][1] <= 1
        if plain_one:
            outside.append((inside[0][0], inside[0][1] * exponent))
        else:
            sign = Fraction(1 if value > 0 else -1)
            outside.append((poly.compound(poly.Sum(((tuple(inside), sign),)), budget), exponent))
    return poly.product(outside, Fraction(1), budget)


def positive_term(total: poly.Sum) -> bool:
    """Return whether a sum, not zero, is one term with a positive coefficient and atoms known to be positive."""
    (monomial, value), *more = total.terms
    return not more and value > 0 and all(atom.positive for atom, _ in monomial)


def _symbolic_power(total: poly.Sum, monomial: poly.Monomial, factor: Fraction, budget: StepBudget) -> Quotient:
    """Return a sum, not zero, to the power `factor * monomial`, power by power; e to the i pi is i squared."""
    if len(total.terms) > 1:
        content, rest = _primitive(total)
        powers = [*_positive_power(content, Fraction(1), budget), (poly.compound(rest, budget), Fraction(1))]
    else:
        powers = [*_signed_power(total.terms[0][1], Fraction(1), budget), *total.terms[0][0]]
    factors: _Powers = []
    above = poly.Sum(((monomial, Fraction(1)),)).key
    free = any(atom.free for atom, _ in monomial)
    for atom, power in powers:
        if atom.key == "e" and dict(monomial) == _I_PI:
            factors.append((poly.IMAGINARY, 2 * power * factor))
        else:
            key = f"[{atom.key}]^[{above}]"
            budget.spend(1 + len(key) // 16)
            factors.append((poly.Atom(key, "power", free=free or atom.free), power * factor))
    return Quotient(poly.product(factors, Fraction(1), budget))


def _of_base(total: poly.Sum, exponent: Fraction, budget: StepBudget) -> poly.Sum:
    """Return a sum of several terms to a power that is not multiplied out, its rational content taken out of the base."""
    content, rest = _primitive(total)
    powers = _positive_power(content, exponent, budget)
    if exponent.denominator == 1 and rest.terms[0][1] < 0:
        rest = poly.multiply(rest, poly.number(-1), budget)
        powers.append((poly.IMAGINARY, Fraction(2 * (exponent.numerator % 2))))
    return poly.product([*powers, (poly.compound(rest, budget), exponent)], Fraction(1), budget)


def _primitive(total: poly.Sum) -> tuple[Fraction, poly.Sum]:
    """Split a sum into the greatest positive rational number that divides its terms, and the rest."""
    above, below = 0, 1
    for _, value in total.terms:
        above = gcd(above, value.numerator)
        below = below * value.denominator // gcd(below, value.denominator)
    content = Fraction(above, below)
    return content, poly.Sum(tuple((monomial, value / content) for monomial, value in total.terms))


def _positive_power(value: Fraction, exponent: Fraction, budget: StepBudget) -> _Powers:
    """Return a positive number to a power, as powers of primes; denominators' exponents are negative."""
    above = [(poly.prime(base), times_found * exponent) for base, times_found in prime_powers(value.numerator, budget)]
    below = [
        (poly.prime(base), -times_found * exponent) for base, times_found in prime_powers(value.denominator, budget)
    ]
    return above + below


def _signed_power(value: Fraction, exponent: Fraction, budget: StepBudget) -> _Powers:
    """Return a number to a whole or symbolic power, as powers of primes and of -1, which is i squared."""
    sign = [(poly.IMAGINARY, 2 * exponent)] if value < 0 else []
    return sign + _positive_power(abs(value), exponent, budget)


def _denest(total: poly.Sum, budget: StepBudget) -> poly.Sum | None:
    """Return sqrt(a + b) as sqrt(s) + sqrt(t) with rational s and t, where a and b^2 are rational; None if there are none."""
    if len(total.terms) != 2 or total.terms[0][0]:
        return None
    lead, other = total.terms[0][1], poly.Sum(total.terms[1:])
    squared = poly.rational(poly.multiply(other, other, budget))
    if squared is None or squared < 0 or lead < 0 or lead * lead < squared:
        return None
    inner = lead * lead - squared
    above, below = isqrt(inner.numerator), isqrt(inner.denominator)
    if above * above != inner.numerator or below * below != inner.denominator:
        return None
    distance = Fraction(above, below)
    sign = 1 if other.terms[0][1] > 0 else -1
    one = poly.product(_positive_power((lead + distance) / 2, _HALF, budget), Fraction(1), budget)
    two = poly.product(_positive_power((lead - distance) / 2, _HALF, budget), Fraction(sign), budget)
    return poly.add(one, two, budget)


def _primes(limit: int) -> tuple[int, ...]:
    """Return the primes below a limit, which is at least 1, in rising order."""
    marks = bytearray([1]) * limit
    for value in range(2, isqrt(limit) + 1):
        marks[value * value :: value] = bytes(len(range(value * value, limit, value)))
    return tuple(value for value in range(2, limit) if marks[value])


_PRIMES = _primes(_FACTOR_LIMIT)
_I_PI = {poly.IMAGINARY: Fraction(1), poly.name("pi"): Fraction(1)}
