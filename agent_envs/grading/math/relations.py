r"""Equations and inequalities are read: names are dropped, and simple inequalities become intervals.

- `x = 5`, `f(x) = 5`, `AB = 5`, `(x, y) = 5`, `5 = x` and `x \in 5` are 5. A chain whose other parts are equal is one of them.
  The sign for "about" counts as =.
- `x > 2`, `2 < x` and `-x < -2` are `(2, \infty)`; `1 < x \le 3`, and `x > 1` and `x \le 3` joined by "and", are `(1, 3]`.
- Other equations are equal up to a rational factor, other inequalities up to a positive one, chains of them link by link.
- Two lines, equations between two letters, are also equal as equations: `y = 2 - x/2` is `x + 2y - 4 = 0`.
  `2x = 4` is not `x = 2`: what repeats a question is no answer to it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from agent_envs.grading.math.limits import StepBudget, Unreadable
from agent_envs.grading.math.parsing import INFINITY
from agent_envs.grading.math.polynomials import ONE, multiply, number
from agent_envs.grading.math.quotients import negative, plus, rational_value
from agent_envs.grading.math.scanning import Token
from agent_envs.grading.math.values import MathRelation, MathRow, MathValue, Quotient, lone, same
from agent_envs.grading.math.vocabulary import KEPT_WORDS, SYMBOLS

Read = Callable[[list[Token]], MathValue]
_EQUAL = frozenset(("=", "approx", "in"))
RISING = {"<": "<", "<=": "<=", ">": "<", ">=": "<="}
SIGNS = _EQUAL | {"!=", *RISING}
_ENDS = {INFINITY.key, negative(INFINITY).key}
_NO_LINE = frozenset(("^", "_", "'"))
_OPENERS = frozenset(("(", "[", "{", "\\{", "|"))
_FIGURES = frozenset(("angle", "triangle"))
_DRESSING = frozenset(("overline", "vec", "hat", "bar", "widehat", "overrightarrow", "{", "}", "'", *_FIGURES))


def related(parts: list[list[Token]], signs: list[str], read: Read, budget: StepBudget) -> tuple[str, MathValue]:
    """Read relations by their signs: (the name that gets a value, "" if none; the value); Unreadable where they have none.

    Raises:
        Unreadable: it is no relation that has a value here.
    """
    if _EQUAL.issuperset(signs):
        return _equation(parts, "in" in signs, read, budget)
    if RISING.keys() >= set(signs):
        return _inequality(parts, signs, read, budget)
    if signs != ["!="]:
        raise Unreadable
    return "", _compare_sides("!=", [read(part) for part in parts], budget)


def name_of(tokens: list[Token]) -> str:
    r"""Return a name's text or "": `x`, `x_1`, `f'(x)`, `f^{-1}(x)`, `AB`, `|AB|`, `\angle A`, `(x, y)`, `x:y`, words."""
    if len(tokens) > 3 and tokens[0].text == tokens[-1].text == "|":  # the length of a segment; |x| is no name
        segment = [token.text for token in tokens if token.kind == "letter"]
        return name_of(tokens[1:-1]) if len(segment) > 1 and "".join(segment).isupper() else ""
    texts = [token.text for token in tokens]
    head = "".join(token.text for token in _without_subscripts(tokens[:-3])).removesuffix("^{-1}").rstrip("'")
    call = [*texts[-3:-2], *texts[-1:]] == ["(", ")"] and head == texts[0]
    bare = [token for token in _without_subscripts(tokens[:1] if call else tokens) if token.text not in _DRESSING]
    joined = [token for token in bare if token.text not in ("(", ")", ",", ":")]
    letters = [token for token in joined if token.kind == "letter" or token.text in SYMBOLS]
    words = [token for token in joined if token.kind == "word" and token.text.lower() not in KEPT_WORDS]
    if not joined or len(letters) + len(words) < len(joined):
        return ""
    several = len(joined) < len(bare) or bool(words) or not _FIGURES.isdisjoint(texts)
    capitals = all(token.text.isupper() for token in letters)
    return " ".join(texts) if several or capitals or len(letters) == 1 else ""


def _without_subscripts(tokens: list[Token]) -> list[Token]:
    """Return the tokens without subscripts: each `_` and the token or braces behind it."""
    rest: list[Token] = []
    level, skips = 0, False
    for token in tokens:
        if level or skips:
            level += {"{": 1, "}": -1}.get(token.text, 0)
            skips = False
        elif token.text == "_":
            skips = True
        else:
            rest.append(token)
    return rest


def _equation(parts: list[list[Token]], member: bool, read: Read, budget: StepBudget) -> tuple[str, MathValue]:
    """Read an equation (`member`: x in ...) as a name's value, equal sides' value or a comparison; else Unreadable."""
    if not parts[0]:  # "= 5"
        parts = parts[1:]
    name, last = name_of(parts[0]) if len(parts) > 1 else "", name_of(parts[-1])
    if member and not (name and len(parts) == 2):
        raise Unreadable
    values = [read(part) for part in (parts[1:] if name else parts)]
    if not name and last and len(values) == 2 and isinstance(values[0], Quotient) and not values[0].free:
        return last, values[0]
    if all(same(values[0], value, budget) for value in values[1:]):
        return name, values[0]
    if name or len(values) != 2:
        raise Unreadable
    return "", _compare_sides("=", values, budget)


def line_of(parts: list[list[Token]], read: Read, budget: StepBudget) -> MathValue:
    """Return the sides of a line's equation compared, no name dropped.

    Raises:
        Unreadable: it is no line: not two unknowns, each a bare letter, in terms of degree 1. `f(2)` is no product here.
    """
    for token, after in pairwise(token for part in parts for token in [*part, Token("sign", "=")]):
        name = token.kind == "letter" or token.text in SYMBOLS
        if token.text in _NO_LINE or (name and after.text in _OPENERS):
            raise Unreadable
    value = _compare_sides("=", [read(part) for part in parts], budget)
    if not isinstance(value, MathRelation) or value.total.below != ONE:
        raise Unreadable
    unknowns = [[(atom, power) for atom, power in row if atom.free] for row, _ in value.total.above.terms]
    names = {pair for row in unknowns for pair in row}
    letters = {atom for atom, power in names if atom.kind == "name" and power == 1}
    if any(len(row) > 1 for row in unknowns) or not len(names) == len(letters) == 2:
        raise Unreadable
    return value


def overlap(one: MathValue, other: MathValue) -> MathValue:
    """Return the interval that lies in two half-lines of opposite directions; Unreadable for others, or without any overlap.

    Raises:
        Unreadable: they are not that, or no number lies in both.
    """
    for low, high in ((one, other), (other, one)):
        if isinstance(low, MathRow) and isinstance(high, MathRow) and {low.items[1].key, high.items[0].key} == _ENDS:
            ends = [rational_value(end) for end in map(lone, (low.items[0], high.items[1]))]
            if None in ends or ends[0] < ends[1] or (ends[0] == ends[1] and low.opened + high.closed == "[]"):  # type: ignore[operator]
                return MathRow(low.opened, (low.items[0], high.items[1]), high.closed)
    raise Unreadable


def _inequality(parts: list[list[Token]], signs: list[str], read: Read, budget: StepBudget) -> tuple[str, MathValue]:
    """Read an inequality: one unknown's interval, else a row of comparisons; Unreadable where directions mix."""
    falling = [sign.startswith(">") for sign in signs]
    if all(falling):
        parts, signs = parts[::-1], signs[::-1]
    elif any(falling):
        raise Unreadable
    signs = [RISING[sign] for sign in signs]
    values = [lone(read(part)) for part in parts]
    if any(part[0].text == "-" and name_of(part[1:]) for part in parts if part):  # -x > -1 is x < 1
        parts = [part[1:] if part and part[0].text == "-" else part for part in parts[::-1]]
        signs, values = signs[::-1], [negative(value) for value in values[::-1]]
    unknown = [place for place, part in enumerate(parts) if name_of(part) and values[place].free]
    if len(unknown) != 1 or sum(value.free for value in values) != 1:
        links = [_compare_sides(sign, pair, budget) for sign, pair in zip(signs, pairwise(values), strict=True)]
        return "", MathRow("<", tuple(links), "<") if len(links) > 1 else links[0]
    if len(parts) == 3 and unknown == [1]:
        low, high = values[0], values[2]
    elif len(parts) == 2:
        low, high = (values[0], INFINITY) if unknown == [1] else (negative(INFINITY), values[1])
        signs = ["<", signs[0]] if unknown == [0] else [signs[0], "<"]
    else:
        raise Unreadable
    interval = MathRow("[" if signs[0] == "<=" else "(", (low, high), "]" if signs[-1] == "<=" else ")")
    return name_of(parts[unknown[0]]), interval


def _compare_sides(sign: str, sides: Sequence[MathValue], budget: StepBudget) -> MathValue:
    """Return `left sign right` with all on one side, its lead scaled; Unreadable without an unknown, or for a quotient."""
    left, right = map(lone, sides)
    total = plus(right, left, budget, -1)
    ordered = sign in RISING
    if not total.free or (ordered and total.below != ONE):
        raise Unreadable
    lead = total.above.terms[0][1]
    factor = 1 / (abs(lead) if ordered else lead)
    return MathRelation(sign, Quotient(multiply(total.above, number(factor), budget)))
