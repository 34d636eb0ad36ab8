"""GSM8K is loaded without the problems whose annotated calculation cannot be traced to the numbers of the question.

A row is traceable where every calculation reads and is right, every operand is a number of the question or an earlier
result, in one way only, the answer stands on every number of the question, and no word of the question hides a number
that could have been meant instead ("half", "a week", "three"). Left out besides: rows with numbers that mean more than
an amount (percentages, decimals, clock times, years, ordinals, ranges, units glued to a number), rows whose way to the
answer depends on the numbers ("at most", "the maximum"), and rows that say a thing twice, so that new numbers would
contradict each other.
"""

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files
from itertools import combinations, product
from math import prod
from pathlib import Path

from agent_envs.datasets.calculation_trees import Chain, Tree, leaves, parse, rescale, substitute, values
from agent_envs.datasets.catalogue import find_problems
from agent_envs.datasets.safe_rows import json_lines
from agent_envs.grading.text_answers import without_thousands

__all__ = ["Chain", "load_gsm8k", "rescale", "traceable"]

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\d+")
_ANNOTATION = re.compile(r"<<([^<>]{1,200})>>")
_UNSAFE = re.compile(
    r"%|percent|[.:]\d|\d:|\d\s*[-–~]\s*\d|[A-Za-z#]\d|\d[A-Za-z°]|\d\s+\d+/\d|-\d|"
    r"maximum|minimum|at most|at least|whichever|exceed|limit|up to|overtime|as many as possible|"
    r"\b[ap]\.?m\b|o'clock|degree|probability|chance|(?<![$\d,])\b(?:1[89]|20)\d\d\b(?!,)",
    re.IGNORECASE,
)


def _implied_numbers() -> dict[str, frozenset[int]]:
    """Return, for each word, the numbers for which it may stand: a question with the word must not calculate with them."""
    numbers = json.loads(files(__package__).joinpath("gsm8k_implied_numbers.json").read_text("utf-8"))
    table: dict[str, set[int]] = {}
    for value, words in numbers.items():
        for word in words.split():
            table.setdefault(word, set()).add(int(value))
    return {word: frozenset(numbers_of) for word, numbers_of in table.items()}


_IMPLIED_VALUES = _implied_numbers()
_WORD = re.compile(r"[a-z]+")
_FRACTION = re.compile(r"(\d+)/(\d+)")
_MOST_READINGS = 256
_REUSED_UP_TO = 4
# Among small numbers one is often the sum of two others without meaning anything.
_BY_CHANCE_UP_TO = 10
_PROBES = (7_919, 104_729)


def traceable(row: Mapping[str, object], id: str = "gsm8k") -> Chain | None:
    """Return the chain of a row's `question` and `answer`; None where a number could be traced in two ways or none.

    Args:
        row: one row of the published file.
        id: given to the chain; what stands before its first hyphen is the data set.
    """
    question, solution = row.get("question"), row.get("answer")
    if not isinstance(question, str) or not isinstance(solution, str) or _UNSAFE.search(question):
        return None
    matches = list(_NUMBER.finditer(question))
    numbers = tuple(int(match[0].replace(",", "")) for match in matches)
    calculations = _calculations(solution)
    if not numbers or len(set(numbers)) < len(numbers) or not calculations:
        return None
    operands = [value for _, values_of, _ in calculations for value in values_of]
    if _hides_a_number(question, numbers, operands) or _says_twice(numbers, [result for *_, result in calculations]):
        return None
    trees = _reading(numbers, calculations)
    places = tuple(match.span() for match in matches)
    return Chain(id, question, numbers, places, trees, calculations[-1][2]) if trees else None


_Calculation = tuple[Tree, list[Fraction], int]


def _calculations(solution: str) -> list[_Calculation]:
    """Return each annotation's tree, operands and result; [] where one is no true calculation, or the answer is another."""
    calculations: list[_Calculation] = []
    for text in _ANNOTATION.findall(solution):
        left, _, right = text.rpartition("=")
        try:
            tree, operands = parse(left)
            value = values(tree, operands, [])
        except (ValueError, ZeroDivisionError):
            return []
        right = right.strip()
        if isinstance(tree, int) or not right.isascii() or not right.isdigit() or value != int(right) or value <= 0:
            return []
        calculations.append((tree, operands, int(right)))
    final = without_thousands(solution.rpartition("####")[2].strip())
    return calculations if calculations and final == str(calculations[-1][2]) else []


def _hides_a_number(question: str, numbers: tuple[int, ...], operands: list[Fraction]) -> bool:
    """Return whether an operand may mean something else than the number: a number word, a fraction, or used more than once."""
    used = set(operands)
    for word in _WORD.findall(question.lower()):
        if used & (_IMPLIED_VALUES.get(word, frozenset()) | _IMPLIED_VALUES.get(word.removesuffix("s"), frozenset())):
            return True
    # The rest of a fraction: "1/3 of them" may bring a 2 into the calculation.
    if any(int(b) - int(a) in used - {1} for a, b in _FRACTION.findall(question)):
        return True
    return any(operands.count(Fraction(number)) > 1 for number in numbers if 1 < number <= _REUSED_UP_TO)


def _says_twice(numbers: tuple[int, ...], results: list[int]) -> bool:
    """Return whether a number of the question is a sum or product of two others or a result; small numbers are let pass."""
    simple_results = set(results)
    for a, b in combinations(numbers, 2):
        simple_results |= {a + b} if 1 in (a, b) else {a + b, a * b}
    return any(number in simple_results for number in numbers if number > _BY_CHANCE_UP_TO)


def _reading(numbers: tuple[int, ...], calculations: list[_Calculation]) -> tuple[Tree, ...]:
    """Return the trees with every operand traced to a number or result; () unless just one calculation fits and uses all.

    In a reading the last result stands on every number and on every other result.
    """
    candidates: list[list[int]] = []
    values_so_far: list[int] = list(numbers)
    for _, operands, result in calculations:
        candidates += [[place for place, value in enumerate(values_so_far) if value == operand] for operand in operands]
        values_so_far.append(result)
    if prod(len(places) for places in candidates) not in range(1, _MOST_READINGS + 1):
        return ()
    everything = set(range(len(values_so_far)))
    readings: dict[tuple[Fraction, ...], tuple[Tree, ...]] = {}
    for places in product(*candidates):
        left = iter(places)
        trees = tuple(substitute(tree, [next(left) for _ in operands]) for tree, operands, _ in calculations)
        if _contributing_numbers(trees, len(numbers)) == everything:
            readings.setdefault(_fingerprint(trees, len(numbers)), trees)
    return next(iter(readings.values())) if len(readings) == 1 else ()


def _contributing_numbers(trees: tuple[Tree, ...], count: int) -> set[int]:
    """Return the numbers and results on which the last result stands, itself among them."""
    reached = {count + len(trees) - 1}
    for step in reversed(range(len(trees))):
        if count + step in reached:
            reached |= set(leaves(trees[step]))
    return reached


def _fingerprint(trees: tuple[Tree, ...], count: int) -> tuple[Fraction, ...]:
    """Return the last result for each of some fixed sets of other numbers: equal for readings that calculate alike."""
    results = []
    for probe in _PROBES:
        operands = [Fraction(probe + place * place * 31, 7 + place) for place in range(count)]
        for tree in trees:
            operands.append(values(tree, operands, []))
        results.append(operands[-1])
    return tuple(results)


def load_gsm8k(split: str) -> tuple[Chain, ...]:
    """Return the traceable problems of GSM8K's train or test split, in the file's order; read once per process.

    Raises:
        DataMissing: the file is not on this machine; the message has the command that gets it.
        UsageError: an unknown split, or a file that is not the published one.
    """
    path = find_problems("gsm8k", split)
    return _load(path, split, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _load(path: Path, split: str, changed_ns: int) -> tuple[Chain, ...]:
    """Load the problems of a file whose solutions can be traced; others are dropped. Cached until the file changes."""
    chains = (traceable(row.fields, f"gsm8k-{split}-{number}") for number, row in enumerate(json_lines(path)))
    return tuple(chain for chain in chains if chain is not None)
