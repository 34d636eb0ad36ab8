r"""The scanner turns LaTeX, plain text and the usual Unicode signs into tokens of one alphabet, in one pass.

Layout (`\left`, `\,`, `$`, `\boxed`, `\text`) is gone afterwards; what stood in `\text{...}` is marked as prose. A run of
letters is one word if it has four letters or more, a capital and small letters, or is known as one; other runs are products of
variables. Currency signs are dropped.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from agent_envs.grading.math import vocabulary
from agent_envs.grading.math.limits import MAX_DIGITS

Kind = Literal["number", "letter", "word", "command", "sign", "begin", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    r"""One token.

    Attributes:
        kind: "begin" and "end" are of a LaTeX environment.
        text: as written, aliases replaced, commands without their backslash.
        value: of a number.
        spaced: whether space stands before it.
        prose: whether it stood in `\text{...}`.
    """

    kind: Kind
    text: str
    value: Fraction | None = None
    spaced: bool = False
    prose: bool = False


_LOOSE = r"\{,\}|,\\! ?|\\[,!]|[\u2009\u202f\u00a0]"
_LOOSE_GROUPS = rf"[1-9]\d{{0,2}}(?:(?:{_LOOSE})\d{{3}})+(?!\d)"
_COMMA_GROUPS = rf"[1-9]\d{{0,2}}(?:(?:,|{_LOOSE})\d{{3}})+(?!\d|,\d)"
_REPEATED = r"\\(?:overline|bar|dot)\s*\{"
_PART = rf"(?:\.(?=\d|{_REPEATED}\d)(?P<part>\d*)(?:{_REPEATED}(?P<cycle>\d+)\}})?)?"
# "2e-3" is twice e, less three; "2e-03", "2E-3" and "2e3" are scientific.
_POWER = r"(?:(?:e(?=\d|[+-]\d\d)|E)(?P<power>[+-]?\d{1,4})(?![\w.^]))?"
_IN_BRACKETS, _OUTSIDE = (
    re.compile(rf"(?=\.?\d)(?P<whole>{groups}|\d*){_PART}{_POWER}", re.ASCII)
    for groups in (_LOOSE_GROUPS, f"{_LOOSE_GROUPS}|{_COMMA_GROUPS}")
)
_REST = re.compile(
    r"""(?P<gap>\s+|\\?\$|\\(?:left|right)\s*\.|\\[hv]space\*?\s*\{[^{}]*\})
    |\\(?P<side>begin|end)\s*\{(?P<environment>[A-Za-z]+)\*?\}
    |\\(?!not\s*=)(?P<command>[A-Za-z]+|.)
    |(?P<letters>[A-Za-z]+)
    |(?P<sign>\\not\s*=|\*\*|<=|>=|==|=<|=>|<>|(?<![0-9)])!=|\+/-|.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_LONG_SIGNS = {"**": "^", "==": "=", "=<": "<=", "=>": ">=", "<>": "!="}
_RAISED = re.compile(f"[{vocabulary.RAISED_SIGNS}]+")
_LOWERED = re.compile(f"[{vocabulary.LOWERED_SIGNS}]+")
_FUNCTION_OF_LETTER = re.compile(r"(arcsin|arccos|arctan|sqrt|sin|cos|tan|sec|csc|cot|log|ln)([xyz])")
_OPENING = frozenset(("(", "[", "\\{"))
_CLOSING = frozenset((")", "]", "\\}"))
_MAX_POWER = MAX_DIGITS


def scan(text: str) -> list[Token]:
    """Return the tokens of a text; its length is not checked here. Raised and lowered characters become ^{...} and _{...}."""
    plain = _RAISED.sub(lambda run: f"^{{{run.group().translate(vocabulary.RAISED)}}}", text)
    plain = _LOWERED.sub(lambda run: f"_{{{run.group().translate(vocabulary.LOWERED)}}}", plain).translate(
        vocabulary.SIGNS
    )
    scanner = _Scanner()
    place = 0
    while place < len(plain):
        place = scanner.take(plain, place)
    return scanner.tokens


class _Scanner:
    def __init__(self) -> None:
        """Set up the scanner outside all brackets and prose."""
        self.tokens: list[Token] = []
        self.spaced = False
        self.depth = 0
        self.groups: list[tuple[bool, bool]] = []  # for each open {: whether it is prose, whether it is left out
        self.prose_next = False

    def take(self, text: str, place: int) -> int:
        """Scan the token that begins at `place` (or the gap there) and return the place behind it."""
        number = (_IN_BRACKETS if self.depth else _OUTSIDE).match(text, place)
        if number:
            self._add("number", number.group(), _value(number))
            return number.end()
        match = _REST.match(text, place)
        assert match is not None  # any character is a sign
        if match["gap"]:
            self.spaced = True
        elif match["side"]:
            self._add("begin" if match["side"] == "begin" else "end", match["environment"])
        elif match["command"]:
            self._scan_command(match["command"])
        elif match["letters"]:
            for kind, run in _runs(match["letters"], self._in_prose()):
                self._add(kind, run)
        elif match["sign"] == "+/-":
            self._add("command", "pm")
        else:
            self._scan_sign("!=" if match["sign"][0] == "\\" else _LONG_SIGNS.get(match["sign"], match["sign"]))
        return match.end()

    def _in_prose(self) -> bool:
        """Return whether the innermost open group holds prose; False outside of groups."""
        return bool(self.groups) and self.groups[-1][0]

    def _scan_command(self, title: str) -> None:
        """Scan a command: layout becomes a space, an alias its sign, and text commands make the next group prose."""
        alias = vocabulary.ALIASES.get(title, title)
        if title in vocabulary.PROSE:
            self.prose_next = True
        elif not alias:
            self.spaced = True
        elif alias.isalpha() or title == "\\":
            self._add("command", alias)
        else:
            self._scan_sign(alias)

    def _scan_sign(self, sign: str) -> None:
        """Scan a sign and count its brackets; the braces of a group of prose count as its bounds and are left out."""
        if sign == "{":
            self.groups.append((self.prose_next or self._in_prose(), self.prose_next))
            if self.prose_next:
                self.prose_next = False
                return
        elif sign == "}" and self.groups and self.groups.pop()[1]:
            return
        elif sign in _OPENING:
            self.depth += 1
        elif sign in _CLOSING:
            self.depth = max(0, self.depth - 1)
        self._add("sign", sign)

    def _add(self, kind: Kind, text: str, value: Fraction | None = None) -> None:
        """Append a token, and forget the space before it and that prose was to come next."""
        self.tokens.append(Token(kind, text, value, self.spaced, self._in_prose()))
        self.spaced = self.prose_next = False


def _runs(run: str, prose: bool) -> list[tuple[Kind, str]]:
    """Take a run of letters apart: a command, a function of a letter, a whole word, else letters, pi as one outside prose."""
    if run in vocabulary.PLAIN_COMMANDS:
        return [("command", vocabulary.ALIASES.get(run, run))]
    applied = None if prose else _FUNCTION_OF_LETTER.fullmatch(run)
    if applied:
        return [("command", applied[1]), ("letter", applied[2])]
    title_case = run[0].isupper() and run[1:].islower()
    stays_whole = prose and run.lower() in vocabulary.KEPT_WORDS
    if len(run) >= 4 or title_case or stays_whole or run.lower() in vocabulary.SHORT_WORDS or run in vocabulary.UNITS:
        return [("word", run)]
    before, pi, after = run.partition("pi")
    if pi and not prose:
        return [
            *(("letter", letter) for letter in before),
            ("command", "pi"),
            *(("letter", letter) for letter in after),
        ]
    return [("letter", letter) for letter in run]


def _value(number: re.Match[str]) -> Fraction | None:
    """Return the exact value of a written number, with cycle and power of ten; None if it is too long."""
    whole = "".join(sign for sign in number["whole"] if sign.isdigit())
    part, cycle, power = number["part"] or "", number["cycle"] or "", int(number["power"] or 0)
    if max(len(whole), len(part), len(cycle)) > MAX_DIGITS or abs(power) > _MAX_POWER:
        return None
    value = Fraction(int(whole + part), 10 ** len(part))
    if cycle:
        value += Fraction(int(cycle), (10 ** len(cycle) - 1) * 10 ** len(part))
    return value * Fraction(10) ** power
