r"""The parser turns tokens into the value of one expression.

Products and quotients, written out or not, bind alike and associate to the left: 1/2x is x/2. A power binds more than the sign
before it, -2^2 is -4, and associates to the right.

`\frac12` is 1/2, as in TeX, but `\sqrt12`, `x^12` and `x_12` take the whole number, as plain text means it. A number before a
proper fraction of numbers is a mixed number: `3\frac{1}{2}` and "3 1/2" are 7/2. A numeral with a subscript is a name: 101_2 is
neither 101 nor 5. The argument of a function without brackets is the product that follows, up to the next function.
"""

from dataclasses import replace
from fractions import Fraction

from agent_envs.grading.math.functions import absolute, call, choose, factorial_of, logarithm, rounded
from agent_envs.grading.math.limits import MAX_DEPTH, Exhausted, StepBudget, Unreadable
from agent_envs.grading.math.powers import power
from agent_envs.grading.math.quotients import (
    divided,
    inverse,
    negative,
    plus,
    rational_value,
    symbol_value,
    times,
    whole,
)
from agent_envs.grading.math.scanning import Token
from agent_envs.grading.math.values import Quotient
from agent_envs.grading.math.vocabulary import ACCENTS, FUNCTIONS, KEPT_WORDS, MULTIPLES, SYMBOLS, TRIGONOMETRY

_OPERAND_COMMANDS = FUNCTIONS | SYMBOLS | ACCENTS | {"frac", "binom", "lfloor", "lceil"}
_END = Token("sign", "")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
# The fraction of a mixed number; N is a run of digits, and without braces \\frac12 is a half.
_PROPER = (("frac", "{", "N", "}", "{", "N", "}"), ("frac", "N", "{", "N", "}"), ("frac", "N"), ("N", "/", "N"))
_ROUNDED = {"lfloor": ("floor", "rfloor"), "lceil": ("ceil", "rceil")}


class TokenReader:
    """Reads tokens from left to right; it owns its list and may take a token apart."""

    def __init__(self, tokens: list[Token], budget: StepBudget) -> None:
        self.tokens, self.budget = tokens, budget
        self.place = 0
        self.depth = 0  # of brackets, exponents and functions
        self.bars = 0  # of |...|

    def here(self) -> Token:
        """Return the next token; an empty sign behind the last one."""
        return self.tokens[self.place] if self.place < len(self.tokens) else _END

    def at(self, *texts: str) -> bool:
        """Return whether one of these signs or commands stands here."""
        return self.here().text in texts and self.here().kind in ("sign", "command")

    def take(self, text: str) -> bool:
        """Step over a sign or command and return True; False, and no step, where it does not stand here."""
        is_here = self.at(text)
        self.place += is_here
        return is_here

    def expect(self, text: str) -> None:
        """Step over a sign or command; raises Unreadable where it does not stand here."""
        if not self.take(text):
            raise Unreadable

    def signs(self) -> int:
        """Read any number of + and -; return 1, or -1 for an odd count of -, and 0 if there is none."""
        sign = 0
        while self.at("+", "-"):
            sign = (sign or 1) * (-1 if self.here().text == "-" else 1)
            self.place += 1
        return sign

    def deeper(self) -> None:
        """Enter a nested level, spending a step; raises Exhausted where the levels, or the steps, are too many."""
        self.depth += 1
        self.budget.spend()
        if self.depth > MAX_DEPTH:
            raise Exhausted

    def joins(self) -> bool:
        """Return whether an operand to multiply stands here; Unreadable for number after number or a word apart.

        Raises:
            Unreadable: it is a number after a number, or a word that stands apart.
        """
        token, before = self.here(), self.tokens[self.place - 1]
        if token.kind == "command":
            return token.text in _OPERAND_COMMANDS
        if token.kind == "sign":
            return token.text in ("(", "[", "{") or (token.text == "|" and not self.bars)
        apart = token.kind == "word" and token.spaced and token.text.lower() not in MULTIPLES
        if apart or token.kind == before.kind == "number" or token.kind in ("begin", "end"):
            raise Unreadable
        return True


class _ExpressionParser(TokenReader):
    """Reads an expression: terms, their factors, and the operands of these."""

    def expression(self) -> Quotient:
        """Read at least one term, then more with + and - between them, and return their sum."""
        self.deeper()
        total = whole(0)
        sign = self.signs() or 1
        while sign:
            total = plus(total, self._term(), self.budget, sign)
            sign = self.signs()
        self.depth -= 1
        return total

    def _term(self) -> Quotient:
        """Parse factors from left to right, multiplied where they stand side by side or at *, divided at /."""
        value = self.factor()
        while True:
            if self.at("*", "/"):
                joined = times if self.here().text == "*" else divided
                self.place += 1
                sign = self.signs() or 1
                value = joined(value, times(whole(sign), self.factor(), self.budget), self.budget)
            elif self.joins():
                value = times(value, self.factor(), self.budget)
            else:
                return value

    def factor(self) -> Quotient:
        """Read an operand with its factorials, degrees and powers behind it, in order; a double factorial is Unreadable."""
        value = self.operand(mixed=True)
        while True:
            if self.take("!"):
                if self.at("!"):  # a double factorial is not (n!)!
                    raise Unreadable
                value = factorial_of(value, self.budget)
            elif self._takes_degree():
                value = times(value, symbol_value("degree"), self.budget)
            elif self.at("^"):
                value = power(value, self.exponent(), self.budget)
            else:
                return value

    def exponent(self) -> Quotient:
        """Read ^ and the signed exponent behind it, towers from the right; Unreadable where no ^ stands here."""
        self.expect("^")
        self.deeper()
        sign = self.signs()
        value = self.operand()
        if self.at("^"):
            value = power(value, self.exponent(), self.budget)
        self.depth -= 1
        return negative(value) if sign < 0 else value

    def _takes_degree(self) -> bool:
        r"""Step over a degree sign, ^ and \circ, in braces or not, and return True; False, and no step, where there is none."""
        for shape in (["^", "circ"], ["^", "{", "circ", "}"]):
            if [token.text for token in self.tokens[self.place : self.place + len(shape)]] == shape:
                self.place += len(shape)
                return True
        return False

    def operand(self, mixed: bool = False) -> Quotient:
        """Read one operand; `mixed` where a number may go on with a fraction; raises Unreadable where there is none."""
        self.deeper()
        token = self.here()
        if token.kind == "number":
            value = self._number(mixed)
        elif token.kind == "letter":
            value = self._name(token.text)
        elif token.kind == "word":
            value = self._word(token)
        elif token.kind == "command":
            value = self._command(token.text)
        elif self.take("|"):
            self.bars += 1
            value = absolute(self.expression(), self.budget)
            self.bars -= 1
            self.expect("|")
        else:
            value = self._bracket()
        self.depth -= 1
        return value

    def _number(self, mixed: bool) -> Quotient:
        """Parse a number: with a subscript it is a symbol, with a fraction behind it a mixed number; Exhausted if too large."""
        token = self.here()
        if token.value is None:
            raise Exhausted
        self.place += 1
        if self.at("_"):
            return symbol_value(f"{token.value}{self._subscript()}")
        value = whole(token.value)
        if mixed and token.text.isdigit():
            value = plus(value, self._proper_fraction(), self.budget)
        return value

    def _proper_fraction(self) -> Quotient:
        """Read the proper fraction behind a mixed number's whole part; zero, and nothing read, where none stands here."""
        ahead = self.tokens[self.place : self.place + 7]
        shape = tuple("N" if token.kind == "number" and token.text.isdigit() else token.text for token in ahead)
        length = next((len(proper) for proper in _PROPER if shape[: len(proper)] == proper), 0)
        digits = [token.text for token in ahead[:length] if token.kind == "number"]
        if length == 2:
            digits = list(digits[0])
        if len(digits) != 2 or (length == 3 and not ahead[0].spaced) or not 0 < int(digits[0]) < int(digits[1]):
            return whole(0)
        self.place += length
        return whole(Fraction(int(digits[0]), int(digits[1])))

    def _word(self, token: Token) -> Quotient:
        """Read a number word, or a word in a formula as the product of its letters; words of prose are Unreadable."""
        lower = token.text.lower()
        if lower in MULTIPLES:
            self.place += 1
            return whole(MULTIPLES[lower])
        after = [t for t in self.tokens[self.place + 1 : self.place + 2] if t.kind in ("number", "letter", "word")]
        if token.prose or lower in KEPT_WORDS or any(t.spaced for t in after):
            raise Unreadable
        self.tokens[self.place : self.place + 1] = [Token("letter", letter) for letter in token.text]
        return self._name(token.text[0])

    def _name(self, text: str) -> Quotient:
        """Read a name with its subscripts and primes, to a symbol; a number right behind a letter is a subscript."""
        letter = self.here().kind == "letter"
        self.place += 1
        here = self.here()
        if letter and here.kind == "number" and here.text.isdigit() and not here.spaced:
            self.place += 1
            text += f"_{{{here.text}}}"
        while self.at("_", "'"):
            text += "'" if self.take("'") else self._subscript()
        return symbol_value(text)

    def _subscript(self) -> str:
        """Read a subscript in one spelling, with or without braces; Unreadable if they do not close."""
        self.expect("_")
        start, level = self.place, 0
        while self.place < len(self.tokens):
            level += {"{": 1, "}": -1}.get(self.here().text, 0)
            self.place += 1
            if level <= 0:
                break
        inner = self.tokens[start : self.place]
        if level or not inner:
            raise Unreadable
        return f"_{{{' '.join(token.text for token in inner if token.text not in ('{', '}'))}}}"

    def _bracket(self) -> Quotient:
        """Parse an expression in brackets of one kind; bars inside count anew. Unreadable where no bracket opens."""
        opened = self.here().text
        if opened not in _BRACKETS:
            raise Unreadable
        self.place += 1
        bars, self.bars = self.bars, 0
        value = self.expression()
        self.bars = bars
        self.expect(_BRACKETS[opened])
        return value

    def _command(self, text: str) -> Quotient:
        """Parse a LaTeX command with its operands; an accented operand becomes a symbol. Unreadable for any other command."""
        if text in SYMBOLS:
            return self._name(text)
        self.place += 1
        if text in ("frac", "binom"):
            above, below = self._argument(), self._argument()
            return (divided if text == "frac" else choose)(above, below, self.budget)
        if text == "sqrt":
            return self._root()
        if text in _ROUNDED:
            title, closed = _ROUNDED[text]
            value = rounded(title, self.expression(), self.budget)
            self.expect(closed)
            return value
        if text in ACCENTS:
            start = self.place
            self.operand()
            return symbol_value(f"{text}[{' '.join(token.text for token in self.tokens[start : self.place])}]")
        if text in FUNCTIONS:
            return self._function(text)
        raise Unreadable

    def _argument(self) -> Quotient:
        """Read the argument of a TeX command: a group, the first digit of a number (its rest stays), or one operand."""
        token = self.here()
        if token.kind == "number" and token.text.isdigit() and len(token.text) > 1:
            rest = token.text[1:]
            digits = [replace(token, text=text, value=Fraction(int(text))) for text in (token.text[0], rest)]
            self.tokens[self.place : self.place + 1] = digits
        return self.operand()

    def _root(self) -> Quotient:
        """Parse a root with an optional index in square brackets; a square root without one."""
        index = whole(2)
        if self.take("["):
            index = self.expression()
            self.expect("]")
        return power(self.operand(), inverse(index, self.budget), self.budget)

    def _function(self, text: str) -> Quotient:
        """Parse a function with its powers, base (of a log, else Unreadable) and arguments; sin^{-1} is the arcsine."""
        base = exponent = None
        while self.at("^", "_"):
            if self.take("_"):
                base = self.operand()
            else:
                exponent = self.exponent()
        if text in TRIGONOMETRY and exponent is not None and rational_value(exponent) == -1:
            text, exponent = f"arc{text}", None
        arguments = self._arguments()
        if base is not None:
            if text != "log" or len(arguments) != 1:
                raise Unreadable
            value = logarithm(arguments[0], base, self.budget)
        elif text == "exp" and len(arguments) == 1:
            value = power(symbol_value("e"), arguments[0], self.budget)
        else:
            value = call(text, arguments, self.budget)
        return value if exponent is None else power(value, exponent, self.budget)

    def _arguments(self) -> tuple[Quotient, ...]:
        """Parse a function's arguments in brackets, or the product that follows it up to the next function."""
        opened = self.here().text
        if self.here().kind != "sign" or opened not in _BRACKETS:
            value = self.factor()
            while self.joins() and self.here().text not in FUNCTIONS:
                value = times(value, self.factor(), self.budget)
            return (value,)
        self.place += 1
        values = [self.expression()]
        while self.take(","):
            values.append(self.expression())
        self.expect(_BRACKETS[opened])
        return tuple(values)


INFINITY = symbol_value("infinity")


def read_expression(tokens: list[Token], budget: StepBudget) -> Quotient:
    """Return the value of an expression; infinity only alone, with a sign or not. Unreadable if more follows, or Exhausted.

    Raises:
        Unreadable: the tokens are no expression; Exhausted where it would cost too much.
    """
    budget.spend(len(tokens))
    parser = _ExpressionParser(list(tokens), budget)
    sign = parser.signs()
    if parser.take("infty"):
        value = negative(INFINITY) if sign < 0 else INFINITY
    else:
        parser.place = 0
        value = parser.expression()
    if parser.place != len(parser.tokens):
        raise Unreadable
    return value
