"""Brackets are checked, tokens are split outside them, and the punctuation around an answer is trimmed."""

from collections.abc import Callable

from agent_envs.grading.math.limits import MAX_BRACKETS, Exhausted, Unreadable
from agent_envs.grading.math.scanning import Token

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


def check_brackets(tokens: list[Token]) -> None:
    """Raise Unreadable unless every bracket has its partner, and Exhausted if they are nested too deep."""
    opened: list[Token] = []
    for token in tokens:
        step = _step(token)
        if step > 0:
            opened.append(token)
            if len(opened) > MAX_BRACKETS:
                raise Exhausted
        elif step < 0:
            partner = opened.pop() if opened else token
            expected = (partner.text,) if partner.kind == "begin" else _CLOSERS.get(partner.text, ())
            if token.text not in expected or (token.kind == "end") != (partner.kind == "begin"):
                raise Unreadable
    if opened:
        raise Unreadable


def split(tokens: list[Token], separates: Callable[[Token], bool]) -> tuple[list[list[Token]], list[str]]:
    """Return the parts between separators outside brackets, and the separators."""
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
    """Return whether the tokens are one bracket: what opens first closes last."""
    level = 0
    for place, token in enumerate(tokens):
        level += _step(token)
        if level <= 0:
            return place > 0 and place == len(tokens) - 1
    return False


def trimmed(tokens: list[Token]) -> list[Token]:
    """Return the tokens without stops, commas and quotation marks around them."""
    first, last = 0, len(tokens)
    while first < last and tokens[first].text in _AROUND:
        first += 1
    while last > first and tokens[last - 1].text in _AROUND:
        last -= 1
    return tokens[first:last]


def _step(token: Token) -> int:
    """Return 1 for a token that opens, -1 for one that closes, and 0."""
    if token.kind in ("begin", "end"):
        return 1 if token.kind == "begin" else -1
    if token.kind not in ("sign", "command"):
        return 0
    return (token.text in _CLOSERS) - (token.text in _CLOSED)
