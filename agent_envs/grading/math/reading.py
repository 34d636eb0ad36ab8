r"""An answer is read from its text into its value: lists, plus-minus, relations, unions, brackets, and expressions in them.

Units are taken away and not compared: 5 cm is 5 and is 5 m, 50% is 50 and not 1/2. A unit is a word in `\text{...}`, a word
that is known as a unit, a word of four letters or more that stands apart, %, a degree sign; with a power, and joined by / or *.
Words that change a number (million, squared, tenths, am, mod, or) are no units.
"""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from itertools import product
from typing import TypeVar

from agent_envs.grading.math import limits
from agent_envs.grading.math.parsing import INFINITY, read_expression
from agent_envs.grading.math.quotients import negative, times
from agent_envs.grading.math.relations import RISING, SIGNS, line_of, overlap, related
from agent_envs.grading.math.scanning import Token, scan
from agent_envs.grading.math.values import Assignment, Grid, Many, MathRow, MathValue, MathWords, distinct, lone
from agent_envs.grading.math.vocabulary import CHANGING, KEPT_WORDS, MATRICES, MULTIPLES, TRIGONOMETRY, UNITS

_SIGNS = frozenset(("%", "¢"))
# A half-open interval may close its bracket with the other sign.
_CLOSERS = {
    "(": (")", "]"),
    "[": (")", "]"),
    "{": ("}",),
    "\\{": ("\\}",),
    "langle": ("rangle",),
    "lfloor": ("rfloor",),
    "lceil": ("rceil",),
}
_CLOSED = frozenset(sign for signs in _CLOSERS.values() for sign in signs)
_AROUND = frozenset((".", ",", ";", "\\", '"'))
# Escaped braces are signs of their own, as in LaTeX: `\boxed{\{1,2\}}` is balanced.
_MARK = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)
T = TypeVar("T")
_BRACKETS = frozenset(("(", "[", "{", "\\{", "langle"))
_ALL_REAL = MathRow("(", (negative(INFINITY), INFINITY), ")")
_WHOLE = {("emptyset",): Many(()), ("mathbb", "R"): _ALL_REAL, ("mathbb", "{", "R", "}"): _ALL_REAL}


def unit_begin(tokens: list[Token]) -> int:
    """Return the index at which the units begin; the number of tokens if there are none.

    Units stand behind a number or a command; behind letters alone only known ones count, so that "n odd" is not n. Degrees
    behind a function of an angle are a part of it.
    """
    cut = len(tokens)
    while cut and (shorter := _without_unit(tokens, cut)) < cut:
        cut = shorter
    rest = tokens[:cut]
    if any(token.text in TRIGONOMETRY for token in rest):
        return len(tokens)
    all_units = all(token.text.lower() in UNITS for token in tokens[cut:] if token.kind == "word")
    carried = any(t.kind in ("number", "command") or (t.kind == "letter" and all_units and not t.prose) for t in rest)
    return cut if carried else len(tokens)


def _without_unit(tokens: list[Token], cut: int) -> int:
    """Return the index at which the last unit, degree, money or per cent sign before `cut` begins; `cut` if there is none."""
    texts = [token.text for token in tokens[max(0, cut - 5) : cut]]
    last = tokens[cut - 1]
    if last.text in _SIGNS:
        return cut - 1
    if texts[-1] in ("C", "F") and (degree := _degree(texts[:-1])):
        return cut - 1 - degree
    if degree := _degree(texts):
        return cut - degree
    power = _power(texts)
    if _is_unit(tokens, cut - power - 1):
        return cut - power - 1
    joined = texts[-1] in ("/", "*") and cut < len(tokens)
    return cut - 1 if joined else cut


def _degree(texts: list[str]) -> int:
    r"""Return the number of tokens of a `^\circ` at the end, in braces or without: 4, 2 or 0."""
    if texts[-2:] == ["^", "circ"]:
        return 2
    return 4 if texts[-4:] == ["^", "{", "circ", "}"] else 0


def _power(texts: list[str]) -> int:
    """Return the number of tokens of a unit's power (square or cube) at the end, 2 or 4 in braces; 0 without one."""
    if len(texts) > 2 and texts[-2] == "^" and texts[-1] in ("2", "3"):
        return 2
    if len(texts) > 4 and texts[-4:-2] == ["^", "{"] and texts[-1] == "}" and texts[-2] in ("2", "3"):
        return 4
    return 0


def _is_unit(tokens: list[Token], place: int) -> bool:
    """Return whether the token is a unit; never a number, sign, multiple or kept word, nor a word that changes the value."""
    token = tokens[place]
    lower = token.text.lower()
    stem, after = lower.removesuffix("s"), tokens[place + 1].text.lower() if place + 1 < len(tokens) else ""
    if token.kind == "letter":
        behind_unit = place > 1 and tokens[place - 1].text == "/" and _is_unit(tokens, place - 2)
        return token.prose or behind_unit
    if token.kind not in ("word", "command") or lower in KEPT_WORDS or stem in MULTIPLES:
        return False
    before = tokens[place - 1] if place else token
    # A unit's power: feet squared, squared feet.
    power = before.kind == "word" or (before.kind == "letter" and before.prose) or after in UNITS
    if stem in CHANGING and not power:
        return False
    is_unit = token.prose or token.text in UNITS or lower in UNITS
    # Nothing is before the first word that it could stand apart from, whatever layout is there, such as a dollar sign.
    return is_unit or (token.kind == "word" and place > 0 and token.spaced and len(token.text) >= 4)


def check_brackets(tokens: list[Token]) -> None:
    """Raise Unreadable unless every bracket has its partner, and Exhausted if they are nested too deep."""
    opened: list[Token] = []
    for token in tokens:
        step = _step(token)
        if step > 0:
            opened.append(token)
            if len(opened) > limits.MAX_BRACKETS:
                raise limits.Exhausted
        elif step < 0:
            partner = opened.pop() if opened else token
            expected = (partner.text,) if partner.kind == "begin" else _CLOSERS.get(partner.text, ())
            if token.text not in expected or (token.kind == "end") != (partner.kind == "begin"):
                raise limits.Unreadable
    if opened:
        raise limits.Unreadable


def split(tokens: list[Token], separates: Callable[[Token], bool]) -> tuple[list[list[Token]], list[str]]:
    """Return the parts between separators outside brackets, empty ones too, and the separators' texts."""
    parts: list[list[Token]] = [[]]
    signs: list[str] = []
    level = 0
    for token in tokens:
        level += _step(token)
        if level == 0 and separates(token):
            signs.append(token.text)
            parts.append([])
        else:
            parts[-1].append(token)
    return parts, signs


def is_bracket(tokens: list[Token]) -> bool:
    """Return whether the tokens are one bracket: what opens first closes last; False for no tokens."""
    level = 0
    for place, token in enumerate(tokens):
        level += _step(token)
        if level <= 0:
            return place > 0 and place == len(tokens) - 1
    return False


def trimmed(tokens: list[Token]) -> list[Token]:
    """Return the tokens without stops, commas and quotation marks before the first and after the last; inner ones stay."""
    first, last = 0, len(tokens)
    while first < last and tokens[first].text in _AROUND:
        first += 1
    while last > first and tokens[last - 1].text in _AROUND:
        last -= 1
    return tokens[first:last]


def _step(token: Token) -> int:
    """Return 1 for a token that opens a bracket or environment, -1 for one that closes it, else 0."""
    if token.kind in ("begin", "end"):
        return 1 if token.kind == "begin" else -1
    if token.kind not in ("sign", "command"):
        return 0
    return (token.text in _CLOSERS) - (token.text in _CLOSED)


def read_math(text: str) -> MathValue | None:
    """Return the value of an answer, its words where it is no mathematics; None where it is empty or too long.

    What is no mathematics, or too much of it, is compared as words: token by token, without layout. None is for a text that is
    empty or longer than `MAX_CHARACTERS`.
    """
    if len(text) > limits.MAX_CHARACTERS:
        return None
    tokens = trimmed(scan(text))
    if not tokens:
        return None
    try:
        check_brackets(tokens)
        return _Reader(limits.StepBudget(limits.READ_STEPS)).answer(tokens)
    except limits.Unreadable:
        return _words(tokens)


def math_equal(prediction: str, gold: str) -> bool:
    """Return whether two answers are the same, as mathematics or as words; False where one is empty or too long; never raises.

    An equivalence of texts that have a value, as long as comparing them stays within its bound: what does not is unequal. But
    for lines: `y = x + 1` is `x + 1` and is `x - y + 1 = 0`, which is not `x + 1`.
    """
    one, two = read_math(prediction), read_math(gold)
    if one is None or two is None:
        return False
    return one == two or ("=" in prediction and "=" in gold and _same_lines(prediction, gold))


def _same_lines(*texts: str) -> bool:
    """Return whether texts are equations of lines and the same with no name dropped, as `y = x` and `x - y = 0`."""
    lines = []
    for tokens in map(trimmed, map(scan, texts)):
        parts, signs = split(tokens, lambda token: token.text in SIGNS)
        try:
            check_brackets(tokens)
            if signs != ["="]:
                return False
            budget = limits.StepBudget(limits.READ_STEPS)
            lines.append(line_of(parts, partial(read_expression, budget=budget), budget))
        except limits.Unreadable:
            return False
    return lines[0] == lines[1]


class _Reader:
    def __init__(self, budget: limits.StepBudget) -> None:
        self.budget = budget

    def answer(self, tokens: list[Token]) -> MathValue:
        """Read one item, or a list at commas, semicolons, and/or, its unreadable items as words; or Unreadable."""
        parts, joints = split(tokens, lambda token: _is_comma(token) or token.text.lower() in ("and", "or"))
        parts = [part for part in parts if part]
        if len(parts) == 1:
            value = self.item(parts[0])[1]
            return value.items[0] if isinstance(value, Many) and len(value.items) == 1 else value
        if not parts:
            raise limits.Unreadable
        parsed = [self._item_or_words(part) for part in _limit_parts(parts)]
        names = {name for name, _ in parsed if name}
        bounds = all(any(token.text in RISING for token in part) for part in parts)
        if bounds and [name for name, _ in parsed] == 2 * [*names] and "and" in map(str.lower, joints):
            return overlap(parsed[0][1], parsed[1][1])
        if len(names) > 1:
            return Many(tuple(Assignment(name, value) if name else value for name, value in parsed))
        return Many(tuple(_flat(value for _, value in parsed)))

    def item(self, tokens: list[Token]) -> tuple[str, MathValue]:
        """Read an item as (name that it gives or "", value); units are dropped where the text before them is readable."""
        self.budget.spend(len(tokens))
        tokens = trimmed(tokens)
        begin = unit_begin(tokens)
        if begin < len(tokens):
            try:
                reading = self._read_signs(tokens[:begin])
                if not isinstance(reading[1], MathWords):
                    return reading
            except limits.Exhausted:
                raise
            except limits.Unreadable:
                pass
        return self._read_signs(tokens)

    def _item_or_words(self, tokens: list[Token]) -> tuple[str, MathValue]:
        """Read an item, or ("", its words) where it is unreadable; Exhausted is raised."""
        try:
            return self.item(tokens)
        except limits.Exhausted:
            raise
        except limits.Unreadable:
            return "", _words(tokens)

    def _read_signs(self, tokens: list[Token]) -> tuple[str, MathValue]:
        """Read an item for each choice of its ± signs, with several a set; those with a ∓ are tied. Unreadable if too many."""
        places = [place for place, token in enumerate(tokens) if token.text in ("pm", "mp") and token.kind == "command"]
        tied = any(tokens[place].text == "mp" for place in places)
        if not places or (tokens[0].text == "\\{" and is_bracket(tokens)):
            return self._read_relation(tokens)
        if len(places) > limits.MAX_SIGNS and not tied:
            raise limits.Unreadable
        readings = []
        for choice in [(1,) * len(places), (-1,) * len(places)] if tied else product((1, -1), repeat=len(places)):
            variant = list(tokens)
            for place, sign in zip(places, choice, strict=True):
                positive = (sign > 0) == (tokens[place].text == "pm")
                variant[place] = Token("sign", "+" if positive else "-", spaced=tokens[place].spaced)
            readings.append(self._read_relation(variant))
        return readings[0][0], Many(distinct(_flat(value for _, value in readings), self.budget))

    def _read_relation(self, tokens: list[Token]) -> tuple[str, MathValue]:
        """Read tokens as a chain of relations at their signs, or as one value with an empty relation where there is no sign."""
        parts, signs = split(tokens, lambda token: token.kind in ("sign", "command") and token.text in SIGNS)
        return related(parts, signs, self._union, self.budget) if signs else ("", self._union(tokens))

    def _union(self, tokens: list[Token]) -> MathValue:
        """Read a union as one set without repetitions; tokens without a union sign as one value."""
        self.budget.spend(len(tokens))
        parts, signs = split(tokens, lambda token: token.text == "cup")
        if not signs:
            return self._read_one(tokens)
        return Many(distinct(_flat(map(self._read_one, _limit_parts(parts))), self.budget))

    def _read_one(self, tokens: list[Token]) -> MathValue:
        """Read what is no list, relation or union: words, a ratio a:b, a matrix, a bracket, else an expression."""
        texts = tuple(token.text for token in tokens)
        if texts in _WHOLE:
            return _WHOLE[texts]
        words = tokens[:-1] if texts[-1:] == ("!",) else tokens
        if any(token.kind == "word" for token in words) and all(token.kind in ("word", "letter") for token in words):
            return _words(words)
        parts, signs = split(tokens, lambda token: token.text == ":")
        if signs:
            return MathRow(":", tuple(read_expression(part, self.budget) for part in _limit_parts(parts)), ":")
        if tokens and tokens[-1].kind == "end":
            return self._matrix(tokens)
        if tokens and tokens[0].text in _BRACKETS and is_bracket(tokens):
            return self._bracket(tokens)
        return read_expression(tokens, self.budget)

    def _bracket(self, tokens: list[Token]) -> MathValue:
        """Read a bracket's content: a set in braces, a row where there are commas, else the value inside, or its words."""
        opened, closed, inner = tokens[0].text, tokens[-1].text, tokens[1:-1]
        parts, commas = split(inner, _is_comma)
        braces = opened == "\\{" or (opened == "{" and bool(commas))
        if braces and not inner:
            return Many(())
        values = [self.item(part)[1] for part in _limit_parts(parts)]
        if braces:
            return Many(distinct(_flat(values), self.budget))
        return MathRow(opened, tuple(values), closed) if commas else values[0]

    def _matrix(self, tokens: list[Token]) -> MathValue:
        """Read a matrix, and a factor before it; Unreadable where rows differ in length or more follows."""
        begin = next(place for place, token in enumerate(tokens) if token.kind == "begin")
        if tokens[begin].text not in MATRICES or not is_bracket(tokens[begin:]):
            raise limits.Unreadable
        inner = tokens[begin + 1 : -1]
        if tokens[begin].text == "array" and inner and inner[0].text == "{":
            inner = inner[[token.text for token in inner].index("}") + 1 :]
        lines = [line for line in split(inner, lambda token: token.text == "\\")[0] if line]
        rows = [_limit_parts(split(line, lambda token: token.text == "&")[0]) for line in _limit_parts(lines)]
        if not rows or len({len(row) for row in rows}) > 1:
            raise limits.Unreadable
        grid = Grid(tuple(tuple(self.item(cell)[1] for cell in row) for row in rows))
        return self._scale(grid, tokens[:begin]) if begin else grid

    def _scale(self, grid: Grid, factor: list[Token]) -> Grid:
        """Return a matrix, each cell times the value of the tokens before it; Unreadable where a cell is no number."""
        one = [Token("sign", "("), Token("number", "1", Fraction(1)), Token("sign", ")")]
        value = read_expression([*factor, *one], self.budget)
        rows = [[times(value, lone(cell), self.budget) for cell in row] for row in grid.rows]
        return Grid(tuple(map(tuple, rows)))


def _is_comma(token: Token) -> bool:
    """Return whether a token parts items of a list: a comma or a semicolon."""
    return token.text in (",", ";")


def _flat(values: Iterable[MathValue]) -> list[MathValue]:
    """Return the values, a list's or set's items in its place (one level deep); Exhausted if there are too many."""
    return _limit_parts([item for value in values for item in (value.items if isinstance(value, Many) else (value,))])


def _limit_parts(items: list[T]) -> list[T]:
    """Return the items unchanged; too many of them raise Exhausted."""
    if len(items) > limits.MAX_ITEMS:
        raise limits.Exhausted
    return items


def _words(tokens: list[Token]) -> MathWords:
    """Return tokens as the words of an answer in prose, in lower case; other signs stay as they are."""
    return MathWords(tuple(token.text.lower() if token.kind == "word" else token.text for token in tokens))


def boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` whose braces balance, as written; None if there is none.

    "Last" is the box that begins last: of two nested ones it is the inner. One pass over the text.
    """
    opened: list[int] = []  # where the content of each open group begins, -1 for a group that is no box
    begin, end = -1, -1
    for mark in _MARK.finditer(text):
        sign = mark.group()
        if sign == "{":
            opened.append(-1)
        elif sign.startswith("\\boxed"):
            opened.append(mark.end())
        elif sign == "}" and opened:
            start = opened.pop()
            if start > begin:
                begin, end = start, mark.start()
    return text[begin:end] if begin >= 0 else None
