"""Untrusted text is evaluated as exact arithmetic: + - * / and brackets over decimals, as fractions. Nothing is executed.

One pass over the tokens, no recursion. Operators have their usual precedence and associate to the left; unary + and - may be
repeated ("2--3" is 5). Numbers are ASCII digits with at most one point ("12", "007", "0.5", ".5" and "5." all read). Every
other character, Unicode digits and signs included, is an explained error, and so are "**" and "//" (syntax), "^", "%",
thousands commas, "1e5", "0x10" and "1_000" (bad_token). White space may stand between tokens and nowhere else.
"""

import re
from fractions import Fraction
from typing import Literal

MAX_CHARACTERS = 512
MAX_DEPTH = 64
MAX_DIGITS = 40  # before the point, and again after it
# 4 bits a character bound every value on the way, so that no step needs a check: a digit has 3.33, an operation adds one.

ErrorKind = Literal["syntax", "bad_token", "too_long", "too_deep", "too_big", "division_by_zero"]
_TOKEN = re.compile(r"[0-9.]+|[-+*/()]|[^\s0-9.+\-*/()]+", re.ASCII)
_NUMBER = frozenset("0123456789.")
_SYMBOLS = frozenset("+-*/()")
_SHOWN_CHARACTERS = 20
_HINTS = {
    ",": "write numbers without commas",
    "_": "write numbers without underscores",
    "^": "there are no powers",
    "%": "there is no remainder",
    "=": "write the expression alone",
    "×": "multiply with *",
    "·": "multiply with *",
    "÷": "divide with /",
    "−": "subtract with -",
}


class ExpressionError(ValueError):
    """A text that has no value. Its message is short and fit to be shown to a policy.

    Attributes:
        kind: `syntax`, `bad_token`, `too_long`, `too_deep`, `too_big` (a number with too many digits) or `division_by_zero`.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Sum:
    """The value of one bracket so far: `total / below`, and a product that the next operand joins."""

    __slots__ = ("below", "divides", "term", "term_below", "total")

    def __init__(self) -> None:
        self.total, self.below = 0, 1
        self.term, self.term_below = 1, 1
        self.divides = False

    def take(self, above: int, below: int) -> None:
        """Multiply the open product by above/below, or divide it where a `/` came before; ExpressionError if by zero."""
        if not self.divides:
            self.term *= above
            self.term_below *= below
        elif above:
            self.term *= below
            self.term_below *= above
            self.divides = False
        else:
            raise ExpressionError("division_by_zero", "division by zero")

    def add(self, sign: int = 1) -> None:
        """Add the finished product to the total and begin the next one, with the given sign."""
        if self.below == self.term_below:
            self.total += self.term
        else:
            self.total = self.total * self.term_below + self.term * self.below
            self.below *= self.term_below
        self.term, self.term_below = sign, 1


def evaluate(text: str) -> Fraction:
    """Return an expression's exact value; ExpressionError where it has none, with the first reason from the left."""
    tokens = _tokens(text)
    outer: list[_Sum] = []
    here = _Sum()
    operand_next = True
    for place, token in enumerate(tokens):
        if not operand_next:
            here, operand_next = _after_operand(here, outer, tokens, place)
        elif token[0] in _NUMBER:
            here.take(*_number(token))
            operand_next = False
        elif token == "(":
            if len(outer) == MAX_DEPTH:
                raise ExpressionError("too_deep", f"brackets are nested more than {MAX_DEPTH} deep")
            outer.append(here)
            here = _Sum()
        elif token == "-":
            here.term = -here.term
        elif token != "+":
            raise _misplaced_error(tokens, place)
    if operand_next:
        raise ExpressionError("syntax", "the expression ends too early" if tokens else "there is no expression")
    if outer:
        raise ExpressionError("syntax", "a ( is not closed")
    here.add()
    return Fraction(here.total, here.below)


def literals(text: str) -> tuple[Fraction, ...]:
    """Return the numbers written in a text of numbers, operators and brackets, in order, unsigned; or raise ExpressionError.

    The order of the tokens need not be sound ("12+" has one number).

    Raises:
        ExpressionError: bad_token, too_long or too_big, as `evaluate` would say.
    """
    numbers = []
    tokens = _tokens(text)
    for place, token in enumerate(tokens):
        if token[0] in _NUMBER:
            numbers.append(Fraction(*_number(token)))
        elif token not in _SYMBOLS:
            raise _misplaced_error(tokens, place)
    return tuple(numbers)


def number_text(value: Fraction) -> str:
    """Return an integer without a point, any other value with three decimals, rounded half to even; zero without a sign.

    What rounds to zero is "0.000", never "-0.000"; what rounds to an integer keeps its decimals ("3.000"), so that a text
    without a point is always exact.
    """
    above, below = value.numerator, value.denominator
    if below == 1:
        return str(above)
    thousandths, rest = divmod(abs(above) * 1000, below)
    if 2 * rest > below or (2 * rest == below and thousandths % 2):
        thousandths += 1
    whole, part = divmod(thousandths, 1000)
    return f"{'-' if above < 0 and thousandths else ''}{whole}.{part:03d}"


def _tokens(text: str) -> list[str]:
    """Return an expression's tokens, whatever their order; ExpressionError where the text is too long."""
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError("too_long", f"the expression is longer than {MAX_CHARACTERS} characters")
    return _TOKEN.findall(text)


def _number(token: str) -> tuple[int, int]:
    """Return a number as numerator and denominator; ExpressionError if it is none or has too many digits."""
    whole, point, part = token.partition(".")
    if "." in part or token == ".":
        raise ExpressionError("bad_token", f"{_quote(token)} is not a number")
    if len(whole) > MAX_DIGITS or len(part) > MAX_DIGITS:
        raise ExpressionError("too_big", f"a number has more than {MAX_DIGITS} digits")
    return (int(whole + part), 10 ** len(part)) if point else (int(token), 1)


def _after_operand(here: _Sum, outer: list[_Sum], tokens: list[str], place: int) -> tuple[_Sum, bool]:
    """Take the token after an operand: return the sum that goes on, and whether an operand must follow; or ExpressionError."""
    token = tokens[place]
    if token == "+":
        here.add()
    elif token == "-":
        here.add(-1)
    elif token == "*":
        pass
    elif token == "/":
        here.divides = True
    elif token == ")":
        if not outer:
            raise ExpressionError("syntax", "a ) has no (")
        here.add()
        outer[-1].take(here.total, here.below)
        return outer.pop(), False
    else:
        raise _misplaced_error(tokens, place)
    return here, True


def _misplaced_error(tokens: list[str], place: int) -> ExpressionError:
    """Return the ExpressionError of a token that cannot stand at its place: `syntax` for a known token, else `bad_token`."""
    token = tokens[place]
    if token[0] in _NUMBER or token == "(":
        return ExpressionError("syntax", f"an operator is missing before {_quote(token)}")
    if token in _SYMBOLS:
        if place and token == tokens[place - 1] and token in "*/":
            return ExpressionError("syntax", f"there is no operator {token}{token}")
        return ExpressionError("syntax", f"a number is missing before {token}")
    if token[0] in _HINTS:
        return ExpressionError("bad_token", f"'{token[0]}' is not understood: {_HINTS[token[0]]}")
    can = "only digits, one decimal point, + - * / and ( ) can be used"
    return ExpressionError("bad_token", f"{_quote(token)} is not understood: {can}")


def _quote(token: str) -> str:
    """Return a token in quotes, escaped as ASCII, and cut where it is long; not `repr`, which differs between Pythons."""
    escaped = ascii(token)[1:-1]
    return f"'{escaped if len(escaped) <= _SHOWN_CHARACTERS else escaped[:_SHOWN_CHARACTERS] + '...'}'"
