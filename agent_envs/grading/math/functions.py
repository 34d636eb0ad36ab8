"""Functions are evaluated where they have an exact plain value, and otherwise kept by their name and their arguments."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, comb, factorial, floor

from agent_envs.grading.math.limits import MAX_BITS, StepBudget, Unreadable
from agent_envs.grading.math.polynomials import ONE
from agent_envs.grading.math.powers import opaque, positive_term, prime_powers, rational_power
from agent_envs.grading.math.quotients import divided, negative, plus, rational_value, times, whole
from agent_envs.grading.math.values import Quotient

_MAX_FACTORIAL = 500  # 500! has 3,768 bits
_MAX_CHOICE = MAX_BITS  # C(n, k) has at most n bits


def natural_log(value: Quotient, budget: StepBudget) -> Quotient:
    """Return ln: of powers of primes and e a sum over the primes, of any other an opaque value; raises Unreadable for zero."""
    if not value.above.terms:
        raise Unreadable
    monomial, factor = value.above.terms[0]
    plain = value.below == ONE and len(value.above.terms) == 1 and factor > 0
    if not plain or any(atom.kind != "prime" and atom.key != "e" for atom, _ in monomial):
        return opaque("ln", (value,), budget)
    total = whole(0)
    for atom, power in monomial:
        one = whole(1) if atom.key == "e" else _log_of_prime(atom.number, budget)
        total = plus(total, times(whole(power), one, budget), budget)
    for base, count in prime_powers(factor.numerator, budget):
        total = plus(total, times(whole(count), _log_of_prime(base, budget), budget), budget)
    for base, count in prime_powers(factor.denominator, budget):
        total = plus(total, times(whole(-count), _log_of_prime(base, budget), budget), budget)
    return total


def logarithm(value: Quotient, base: Quotient, budget: StepBudget) -> Quotient:
    """Return the logarithm to a base; raises Unreadable where the value is zero, or the base zero or one."""
    return divided(natural_log(value, budget), natural_log(base, budget), budget)


def absolute(value: Quotient, budget: StepBudget) -> Quotient:
    """Return |value|: zero or a positive term without its sign, anything else opaque, alike for a value and its negative."""
    if not value.above.terms:
        return value
    signless = negative(value) if value.above.terms[0][1] < 0 else value
    return signless if value.below == ONE and positive_term(signless.above) else opaque("abs", (signless,), budget)


def rounded(title: str, value: Quotient, budget: StepBudget) -> Quotient:
    """Return the floor or ceiling of a rational value; of any other, an opaque one."""
    exact = rational_value(value)
    if exact is None:
        return opaque(title, (value,), budget)
    return whole(floor(exact) if title == "floor" else ceil(exact))


def factorial_of(value: Quotient, budget: StepBudget) -> Quotient:
    """Return n! of a whole number up to a limit; of any other value, an opaque factorial."""
    exact = rational_value(value)
    if exact is None or exact.denominator != 1 or not 0 <= exact <= _MAX_FACTORIAL:
        return opaque("factorial", (value,), budget)
    budget.spend(int(exact))
    return whole(factorial(int(exact)))


def choose(above: Quotient, below: Quotient, budget: StepBudget) -> Quotient:
    """Return the binomial coefficient of whole numbers >= 0 up to a limit; of any others, an opaque one."""
    size, count = rational_value(above), rational_value(below)
    for exact in (size, count):
        if exact is None or exact.denominator != 1 or not 0 <= exact <= _MAX_CHOICE:
            return opaque("binom", (above, below), budget)
    assert size is not None and count is not None
    budget.spend(int(min(count, abs(size - count))))
    return whole(comb(int(size), int(count)))


def call(title: str, values: tuple[Quotient, ...], budget: StepBudget) -> Quotient:
    """Return a one-argument function's value, else an opaque one; Unreadable if a one-argument one has another number of them.

    Raises:
        Unreadable: that many arguments do not fit the function.
    """
    if title in _ONE_ARGUMENT:
        if len(values) != 1:
            raise Unreadable
        return _ONE_ARGUMENT[title](values[0], budget)
    return opaque(title, values, budget)


def _log_of_prime(value: int, budget: StepBudget) -> Quotient:
    """Return the logarithm of a prime as an opaque value, known by its name and argument alone."""
    return opaque("ln", (whole(value),), budget)


_ONE_ARGUMENT: dict[str, Callable[[Quotient, StepBudget], Quotient]] = {
    "ln": natural_log,
    "log": lambda value, budget: logarithm(value, whole(10), budget),
    "lg": lambda value, budget: logarithm(value, whole(10), budget),
    "abs": absolute,
    "sqrt": lambda value, budget: rational_power(value, Fraction(1, 2), budget),
    "cbrt": lambda value, budget: rational_power(value, Fraction(1, 3), budget),
    "floor": lambda value, budget: rounded("floor", value, budget),
    "ceil": lambda value, budget: rounded("ceil", value, budget),
}
