"""The calculation that a calculator task asks for is worked out from the words of its question alone.

Generated questions are read by the wordings that they are made of. Of others only the numbers are known.
"""

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations
from typing import NamedTuple

from agent_envs.datasets.number_words import parse_number_words
from agent_envs.datasets.word_problems import SETTINGS
from agent_envs.grading.arithmetic import ExpressionError, evaluate

Term = tuple[Fraction, str]  # a value, and how it is written

_MOST_QUESTION = 4_000  # characters
_MOST_NUMBERS = 4  # of a countdown that is searched through
_COUNTDOWN = re.compile(r"has the value (-?[\d.]+) and is made of the numbers ([\d, and]+), each")
_DIGIT = re.compile(r"How many times does the digit (\d) occur in the number (.+?) when it is written in digits\?")
_SHAPE = re.compile(r"How many times does the (?:word|symbol) (\S+) occur in this sequence: (.+?)\?")
_OUTER = {
    r"the sum of the value of (.+) and the value of (.+)": "({})+({})",
    r"the value of (.+), reduced by the value of (.+)": "({})-({})",
    r"the product of the value of (.+) and the value of (.+)": "({})*({})",
    r"the value of (.+), divided by the value of (.+)": "({})/({})",
}
_INNER = {" plus ": "+", " minus ": "-", " times ": "*", " divided by ": "/"}
_WORDS = re.compile(r"[a-z]+(?:[ -][a-z]+)*")
_SLOTS = {
    "{then}": r"[A-Z][\w ]{1,20}", "{who}": r"\w{1,20}", "{other}": r"\w{1,20}", "{n}": r"(?P<n>\d{1,15})",
    "{m}": r"(?P<m>\d{1,15})",
}  # fmt: skip


class Calculation(NamedTuple):
    """The calculation, count or expression that answers a question.

    Attributes:
        kind: `value` (of the last step), `expression` (the last step itself), `count`, or "" where it is not known.
        steps: expressions to calculate, in order.
        item: what is to be counted.
        sequence: where, one after another.
    """

    kind: str
    steps: tuple[str, ...] = ()
    item: str = ""
    sequence: tuple[str, ...] = ()


@lru_cache(maxsize=256)
def derivation(question: str) -> Calculation:
    """Parse a question into the calculation, count or expression that it asks for, cached; `Calculation("")` for none."""
    text = question.strip()[:_MOST_QUESTION]
    match = _COUNTDOWN.search(text)
    if match:
        numbers = re.findall(r"\d+", match[2])
        reached = _reach(tuple((Fraction(number), number) for number in numbers), Fraction(match[1]))
        return Calculation("expression", (reached,) if reached else ())
    counted = _DIGIT.match(text)
    if counted:
        number = counted[2] if counted[2].isdigit() else str(parse_number_words(counted[2]))
        return Calculation("count", (), counted[1], tuple(number))
    counted = _SHAPE.match(text)
    if counted:
        return Calculation("count", (), counted[1], tuple(re.split(r",? ", counted[2])))
    if text.startswith("What is ") and text.endswith("?"):
        expression = _expression(text[len("What is ") : -1])
        return Calculation("value", (expression,) if expression else ())
    steps = _calculations(text)
    return Calculation("value", steps) if steps else Calculation("")


def _expression(text: str) -> str:
    """Return an expression in words or symbols as the calculator takes it, "" where it is none."""
    for pattern, form in _OUTER.items():
        parts = re.fullmatch(pattern, text)
        if parts:
            text = form.format(parts[1], parts[2])
            break
    for words, sign in _INNER.items():
        text = text.replace(words, sign)
    try:
        keyed = _WORDS.sub(lambda number: str(parse_number_words(number[0])), text).replace(" ", "")
        evaluate(keyed)
    except (ExpressionError, ValueError):
        return ""
    return keyed


def _reach(terms: tuple[Term, ...], target: Fraction) -> str:
    """Return an expression of all the terms that has the target's value; "" where there is none, or too many terms."""
    if len(terms) == 1:
        return terms[0][1].removeprefix("(").removesuffix(")") if terms[0][0] == target else ""
    if len(terms) > _MOST_NUMBERS:
        return ""
    for one, other in combinations(terms, 2):
        rest = tuple(term for term in terms if term is not one and term is not other)
        for joined in _combine(one, other):
            expression = _reach((joined, *rest), target)
            if expression:
                return expression
    return ""


def _combine(one: Term, other: Term) -> Iterator[Term]:
    """Yield every way to make one term of two: sum, both differences, product, and quotients but by zero."""
    (a, left), (b, right) = one, other
    yield a + b, f"({left}+{right})"
    yield a - b, f"({left}-{right})"
    yield b - a, f"({right}-{left})"
    yield a * b, f"({left}*{right})"
    if b:
        yield a / b, f"({left}/{right})"
    if a:
        yield b / a, f"({right}/{left})"


def _calculations(text: str) -> tuple[str, ...]:
    """Return the calculations of a generated word problem; () where any sentence but the last is not known."""
    steps: list[str] = []
    quantity = 0
    for sentence in re.split(r"(?<=\.) ", text)[:-1]:
        match = next(((op, hit) for op, pattern in _forms() if (hit := pattern.fullmatch(sentence))), None)
        if match is None:
            return ()
        n, m = (int(match[1].groupdict().get(name) or 0) for name in "nm")
        for step in _steps(match[0], quantity, n, m):
            steps.append(step)
            quantity = int(evaluate(step))
        quantity = quantity or n
    return tuple(steps)


def _steps(op: str, q: int, n: int, m: int) -> list[str]:
    """Return the calculations of one sentence, [] where it only states a number; see `word_problems.Form.op`."""
    if op == "=":
        return []
    if not q:  # an opening, which states both numbers
        return [f"{n}{op}{m}"]
    if op in ("+*", "-*"):
        return [f"{n}*{m}", f"{q}{op[0]}{n * m}"]
    if op == "+q*":
        return [f"{q}*{n}", f"{q}+{q * n}"]
    return [f"{n}-{q}"] if op == "n-" else [f"{q}{op}{n}"]


@cache
def _forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the operation of every known sentence and the pattern that finds it, cached."""
    forms = []
    for setting in SETTINGS:
        for form in (*setting.openings, *setting.forms):
            pattern = re.escape(form.text)
            for slot, words in _SLOTS.items():
                pattern = pattern.replace(re.escape(slot), words)
            forms.append((form.op, re.compile(pattern)))
    return tuple(forms)
