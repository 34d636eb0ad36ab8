"""Word problems with large numbers are generated as a walk through one everyday setting, a sentence a step.

Every quantity is whole and positive, every division is exact, and no step needs a number that the question does not
state. The same generator state gives the same problem on every machine.

Settings hold what there is to count, and the sentences that change it; they are data, in `word_problem_wordings.json`. A text
holds `{n}` and `{m}` for its numbers (`{n}` first), `{who}` and `{other}` for the two people and `{then}` for a connecting
word. No text writes a number or hides one ("half", "a dozen"): `test_word_problems.py` holds them to that.
"""

import json
import random
from collections import defaultdict
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Form:
    """One sentence and what it does to the running quantity `q`.

    Attributes:
        source: the quantity before the sentence; empty for an opening sentence.
        target: the quantity after it.
        op: a key of `word_problems.STEPS_OF`.
    """

    source: str
    target: str
    op: str
    text: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A small world: opening sentences, sentences between its quantities, and a question for each quantity."""

    name: str
    openings: tuple[Form, ...]
    forms: tuple[Form, ...]
    questions: dict[str, str]


def _setting(name: str, row: dict[str, Any], cash_box: dict[str, Any]) -> Setting:
    """Build a setting from its row; one with a form about cash gets the cash box's forms and questions, too."""
    forms, questions = [Form(*form) for form in row["forms"]], row["questions"]
    if any(form.target == "cash" for form in forms):
        forms += [Form(*form) for form in cash_box["forms"]]
        questions = questions | cash_box["questions"]
    openings = tuple(form for form in forms if not form.source)
    return Setting(name, openings, tuple(form for form in forms if form.source), questions)


def _settings() -> tuple[Setting, ...]:
    """Read the settings of word problems from the package's table."""
    table = json.loads(files(__package__).joinpath("word_problem_wordings.json").read_text("utf-8"))
    return tuple(_setting(name, row, table["cash box"]) for name, row in table["settings"].items())


SETTINGS = _settings()


RESULT_LIMIT = 10**15
"""No result reaches this, so that each is exact as a 64-bit float too."""
STEPS_OF = {"=": 0, "+": 1, "-": 1, "*": 1, "/": 1, "n-": 1, "+*": 2, "-*": 2, "+q*": 2}
"""How many calculations a sentence's operation takes; `q` is the running quantity, the others are stated numbers."""

_NAMES = (
    "Amara Bruno Chiara Dmitri Esther Farid Greta Hiro Ines Jonas Keiko Luca "
    "Mira Nadia Omar Petra Quentin Rosa Samir Tilda Umberto Vera Wanda Yusuf"
).split()
_CONNECTORS = ("Then", "Later", "After that", "Next", "Some time later")
_MOST_TRIES = 1000


@dataclass(frozen=True, slots=True)
class WordProblem:
    """A question in words, and how it is calculated.

    Attributes:
        numbers: every number in the question, as digits, in order of appearance.
        steps: calculations over given numbers and earlier results; the last gives the answer.
        answer: a whole number.
        kind: where it comes from: the setting's name, or the data set.
    """

    question: str
    numbers: tuple[str, ...]
    steps: tuple[str, ...]
    answer: str
    kind: str


class _NoNumbers(Exception):
    """The drawn sentences and numbers do not fit each other; draw again."""


def word_problem(rng: random.Random, digits: int = 6, steps: tuple[int, int] = (2, 6)) -> WordProblem:
    """Return a new word problem, drawn until its numbers fit; ValueError for digits beyond 2-12 or steps beyond 1-8.

    Args:
        rng: the source of all randomness.
        digits: the most digits of a given number, 2 to 12.
        steps: the fewest and the most calculations, at least 1 and at most 8.

    Raises:
        ValueError: arguments outside these ranges.
    """
    fewest, most = steps
    if not 2 <= digits <= 12 or not 1 <= fewest <= most <= 8:
        raise ValueError(f"digits must be 2 to 12 and steps a pair within 1 to 8, not {digits} and {steps}")
    count = rng.randint(fewest, most)
    for _ in range(_MOST_TRIES):
        setting = rng.choice(SETTINGS)
        try:
            return _build(rng, setting, _walk(rng, setting, count), digits)
        except _NoNumbers:
            continue
    raise AssertionError(f"no numbers found for {count} steps of {digits} digits in {_MOST_TRIES} tries")


def _ways(setting: Setting) -> dict[str, tuple[Form, ...]]:
    """Return, by quantity, the sentences that may follow it; a quantity that none follows is left out."""
    ways: dict[str, list[Form]] = defaultdict(list)
    for form in setting.forms:
        ways[form.source].append(form)
    return {source: tuple(forms) for source, forms in ways.items()}


_WAYS = {setting.name: _ways(setting) for setting in SETTINGS}


def _walk(rng: random.Random, setting: Setting, count: int) -> list[Form]:
    """Return an opening and sentences, none twice, that take `count` calculations together; `_NoNumbers` in a dead end."""
    ways = _WAYS[setting.name]
    path = [rng.choice(setting.openings)]
    left = count - STEPS_OF[path[0].op]
    while left:
        following = [
            form
            for form in ways.get(path[-1].target, ())
            if form not in path and (STEPS_OF[form.op] == left or (STEPS_OF[form.op] < left and form.target in ways))
        ]
        if not following:
            raise _NoNumbers
        path.append(rng.choice(following))
        left -= STEPS_OF[path[-1].op]
    return path


def _build(rng: random.Random, setting: Setting, path: list[Form], digits: int) -> WordProblem:
    """Write a problem along a path of forms, a sentence with numbers for each, then the question; _NoNumbers if none fit."""
    numbers = _Numbers(rng, digits)
    pairs = numbers.choose([form.op for form in path])
    who, other = rng.sample(_NAMES, 2)
    last = ""
    sentences = []
    for form, pair in zip(path, pairs, strict=True):
        text = form.text
        if "{then}" in text:
            last = rng.choice([word for word in _CONNECTORS if word != last])
        n, m = (*pair, 0, 0)[:2]
        sentences.append(text.format(then=last, who=who, other=other, n=n, m=m))
    sentences.append(setting.questions[path[-1].target].format(who=who))
    numerals = tuple(str(number) for pair in pairs for number in pair)
    return WordProblem(" ".join(sentences), numerals, tuple(numbers.steps), str(numbers.quantity), setting.name)


class _Numbers:
    """Chooses the numbers of a walk and writes down its calculations."""

    def __init__(self, rng: random.Random, digits: int) -> None:
        """Set up an empty walk, whose numbers have at most so many digits."""
        self.rng = rng
        self.digits = digits
        self.top = 10**digits - 1
        self.quantity = 0
        self.steps: list[str] = []

    def choose(self, ops: list[str]) -> list[tuple[int, ...]]:
        """Return each sentence's stated numbers, and note the calculations in `steps`; _NoNumbers where none fit."""
        divisors, needs = self._divisors(ops)
        pairs = [self._draw_opening(ops[0], needs[0])]
        for op, divisor, need in zip(ops[1:], divisors[1:], needs[1:], strict=True):
            pairs.append((divisor,) if op == "/" else self._draw_pair(op, need))
            self._calculate(op, pairs[-1])
        return pairs

    def _divisors(self, ops: list[str]) -> tuple[list[int], list[int]]:
        """Return each division's divisor (else 0) and what must divide each sentence's quantity; _NoNumbers if too large."""
        divisors, needs = [0] * len(ops), [1] * len(ops)
        for place in range(len(ops) - 1, 0, -1):
            need = needs[place]
            if ops[place] == "/":
                divisors[place] = self._draw(max(1, self.digits // 2))
                needs[place - 1] = need * divisors[place]
            elif ops[place] in ("*", "+*", "-*", "+q*"):
                needs[place - 1] = need
        if max(needs) * 10 > self.top:
            raise _NoNumbers
        return divisors, needs

    def _draw(self, digits: int, fewest: int = 1) -> int:
        """Return a number of at least 2, its count of digits uniform."""
        size = self.rng.randint(fewest, digits)
        return self.rng.randrange(max(2, 10 ** (size - 1)), 10**size)

    def _multiple(self, of: int, top: int, fewest: int = 1, rest: int = 0) -> int:
        """Return a drawn number of 2 to `top` that leaves `rest` when divided by `of`; _NoNumbers if it finds none."""
        wish = min(self._draw(self.digits, fewest), top)
        value = wish - (wish - rest) % of
        if value < 2:
            value += of * -((value - 2) // of)
        if not 2 <= value <= top:
            raise _NoNumbers
        return value

    def _draw_opening(self, op: str, need: int) -> tuple[int, ...]:
        """Draw the first sentence's numbers so that `need` divides the quantity, and calculate it; _NoNumbers if none fit."""
        large = (self.digits + 1) // 2
        if op == "=":
            self.quantity = self._multiple(need, self.top, large)
            return (self.quantity,)
        if op == "*":
            pair = self._multiple(need, self.top), self._draw(self.digits)
            pair = pair if self.rng.random() < 0.5 else (pair[1], pair[0])
        else:
            n = self._draw(self.digits, large)
            pair = n, self._multiple(need, self.top if op == "+" else n - 1, rest=n if op == "-" else -n)
        self._calculate(op, pair, pair[0])
        return pair

    def _draw_pair(self, op: str, need: int) -> tuple[int, ...]:
        """Draw the next sentence's numbers so that `need` divides the new quantity; _NoNumbers if there are none."""
        q = self.quantity
        if op == "+":
            return (self._multiple(need, self.top, rest=-q),)
        if op == "-":
            return (self._multiple(need, min(self.top, q - 1), rest=q),)
        if op == "n-":
            room = self.top - q
            return (q + self._multiple(need, room),)
        if op in ("*", "+q*"):
            return (self._draw(self.digits),)
        n = self._multiple(need, self.top)
        m = self._draw(self.digits) if op == "+*" else min(self._draw(self.digits), (q - 1) // n)
        if m < 2:
            raise _NoNumbers
        return (n, m) if self.rng.random() < 0.5 else (m, n)

    def _calculate(self, op: str, pair: tuple[int, ...], start: int | None = None) -> None:
        """Write down a sentence's calculations and the new quantity; an opening begins at `start`. _NoNumbers at a limit."""
        q = self.quantity if start is None else start
        n, m = pair[0], pair[-1]
        if op in ("+*", "-*"):
            self._write(f"{n}*{m}", n * m)
            op, m = op[0], n * m
        elif op == "+q*":
            self._write(f"{q}*{n}", q * n)
            op, m = "+", q * n
        if op == "n-":
            self._write(f"{n}-{q}", n - q, n)
        elif op == "*":
            self._write(f"{q}*{m}", q * m)
        elif op == "/":
            self._write(f"{q}/{m}", q // m)
        else:
            self._write(f"{q}{op}{m}", q + m if op == "+" else q - m, q if op == "-" else 0)

    def _write(self, step: str, result: int, taken_from: int = 0) -> None:
        """Write down a step, its result the new quantity; _NoNumbers if out of range or below a tenth of `taken_from`."""
        if not 1 < result < RESULT_LIMIT or 10 * result < taken_from:
            raise _NoNumbers
        self.steps.append(step)
        self.quantity = result
