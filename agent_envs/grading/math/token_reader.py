"""The token reader keeps its place in the tokens of one expression and bounds what reading on may cost."""

from agent_envs.grading.math.limits import MAX_DEPTH, Budget, Exhausted, Unreadable
from agent_envs.grading.math.scanning import Token
from agent_envs.grading.math.vocabulary import ACCENTS, FUNCTIONS, MULTIPLES, SYMBOLS

_OPERAND_COMMANDS = FUNCTIONS | SYMBOLS | ACCENTS | {"frac", "binom", "lfloor", "lceil"}
_END = Token("sign", "")


class TokenReader:
    """Reads tokens from left to right; it owns its list and may take a token apart."""

    def __init__(self, tokens: list[Token], budget: Budget) -> None:
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
        """Step over a sign or command if it stands here."""
        found = self.at(text)
        self.place += found
        return found

    def expect(self, text: str) -> None:
        """Step over a sign or command; raises Unreadable where it does not stand here."""
        if not self.take(text):
            raise Unreadable

    def signs(self) -> int:
        """Read any number of + and -; return 1 or -1, and 0 if there is none."""
        sign = 0
        while self.at("+", "-"):
            sign = (sign or 1) * (-1 if self.here().text == "-" else 1)
            self.place += 1
        return sign

    def deeper(self) -> None:
        """Go one level down; raises Exhausted where the levels are too many."""
        self.depth += 1
        self.budget.spend()
        if self.depth > MAX_DEPTH:
            raise Exhausted

    def joins(self) -> bool:
        """Return whether an operand stands here that multiplies what was read before it.

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
