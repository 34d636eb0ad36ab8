r"""Units behind an answer are found, to be dropped.

A unit is a word in `\text{...}`, a word that is known as a unit, a word of four letters or more that stands apart, %, a degree
sign; with a power, and joined by / or *. Units are taken away and not compared: 5 cm is 5 and is 5 m, 50% is 50 and not 1/2.
Words that change a number (million, am, mod, or) are no units.
"""

from agent_envs.grading.math.scanning import Token
from agent_envs.grading.math.vocabulary import KEPT_WORDS, MULTIPLES, TRIGONOMETRY, UNITS

_SIGNS = frozenset(("%", "¢"))


def unit_begin(tokens: list[Token]) -> int:
    """Return where the units begin; the number of tokens if there are none.

    Units stand behind a number or a command; behind letters alone only known ones count, so that "n odd" is not n. Degrees
    behind a function of an angle are a part of it.
    """
    cut = len(tokens)
    while cut and (shorter := _without_unit(tokens, cut)) < cut:
        cut = shorter
    rest = tokens[:cut]
    if any(token.text in TRIGONOMETRY for token in rest):
        return len(tokens)
    known = all(token.text.lower() in UNITS for token in tokens[cut:] if token.kind == "word")
    carried = any(t.kind in ("number", "command") or (t.kind == "letter" and known and not t.prose) for t in rest)
    return cut if carried else len(tokens)


def _without_unit(tokens: list[Token], cut: int) -> int:
    """Return where the last unit begins; `cut` if there is none."""
    texts = [token.text for token in tokens[max(0, cut - 5) : cut]]
    last = tokens[cut - 1]
    if last.text in _SIGNS and last.kind == "sign":
        return cut - 1
    if texts[-1] in ("C", "F") and (degree := _degree(texts[:-1])):
        return cut - 1 - degree
    if degree := _degree(texts):
        return cut - degree
    power = _power(texts)
    if power < cut and _is_unit(tokens, cut - power - 1):
        return cut - power - 1
    joined = texts[-1] in ("/", "*") and cut < len(tokens)
    return cut - 1 if joined else cut


def _degree(texts: list[str]) -> int:
    """Return how many tokens a degree sign at the end has."""
    if texts[-2:] == ["^", "circ"]:
        return 2
    return 4 if texts[-4:] == ["^", "{", "circ", "}"] else 0


def _power(texts: list[str]) -> int:
    """Return how many tokens the power of a unit at the end has."""
    if len(texts) > 2 and texts[-2] == "^" and texts[-1] in ("2", "3"):
        return 2
    if len(texts) > 4 and texts[-4:-2] == ["^", "{"] and texts[-1] == "}" and texts[-2] in ("2", "3"):
        return 4
    return 0


def _is_unit(tokens: list[Token], place: int) -> bool:
    token = tokens[place]
    lower = token.text.lower()
    if token.kind == "letter":
        behind_unit = place > 1 and tokens[place - 1].text == "/" and _is_unit(tokens, place - 2)
        return token.prose or behind_unit
    if token.kind not in ("word", "command") or lower in KEPT_WORDS or lower in MULTIPLES:
        return False
    known = token.prose or token.text in UNITS or lower in UNITS
    # Nothing is before the first word that it could stand apart from, whatever layout is there, such as a dollar sign.
    return known or (token.kind == "word" and place > 0 and token.spaced and len(token.text) >= 4)
