"""The parser turns tokens into the value of one expression.

Products and quotients, written out or not, bind alike and associate to the left: 1/2x is x/2. A power binds more than the sign
before it, -2^2 is -4, and associates to the right.
"""

from agent_envs.grading.math.functions import factorial_of
from agent_envs.grading.math.limits import Budget, Unreadable
from agent_envs.grading.math.operands import Operands
from agent_envs.grading.math.powers import power
from agent_envs.grading.math.quotients import divided, named, negative, plus, times, whole
from agent_envs.grading.math.scanning import Token
from agent_envs.grading.math.values import Quotient

INFINITY = named("infinity")


def read_expression(tokens: list[Token], budget: Budget) -> Quotient:
    """Return the value of an expression; infinity only where it stands alone.

    Raises:
        Unreadable: the tokens are no expression; Exhausted where it would cost too much.
    """
    budget.spend(len(tokens))
    parser = _Parser(list(tokens), budget)
    sign = parser.signs()
    if parser.take("infty"):
        value = negative(INFINITY) if sign < 0 else INFINITY
    else:
        parser.place = 0
        value = parser.expression()
    if parser.place != len(parser.tokens):
        raise Unreadable
    return value


class _Parser(Operands):
    def expression(self) -> Quotient:
        self.deeper()
        total = whole(0)
        sign = self.signs() or 1
        while sign:
            total = plus(total, self._term(), self.budget, sign)
            sign = self.signs()
        self.depth -= 1
        return total

    def _term(self) -> Quotient:
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
        value = self.operand(mixed=True)
        while True:
            if self.take("!"):
                if self.at("!"):  # a double factorial is not (n!)!
                    raise Unreadable
                value = factorial_of(value, self.budget)
            elif self._takes_degree():
                value = times(value, named("degree"), self.budget)
            elif self.at("^"):
                value = power(value, self.exponent(), self.budget)
            else:
                return value

    def exponent(self) -> Quotient:
        self.expect("^")
        self.deeper()
        sign = self.signs()
        value = self.operand()
        if self.at("^"):
            value = power(value, self.exponent(), self.budget)
        self.depth -= 1
        return negative(value) if sign < 0 else value

    def _takes_degree(self) -> bool:
        r"""Step over `^\circ`, in braces or not."""
        for shape in (["^", "circ"], ["^", "{", "circ", "}"]):
            if [token.text for token in self.tokens[self.place : self.place + len(shape)]] == shape:
                self.place += len(shape)
                return True
        return False
