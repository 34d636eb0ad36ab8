"""What a message shows on a page: a bounded text, folded where it is long, with the policy's action tags told apart."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent_envs.printing import MAX_CHARACTERS
from agent_envs.trajectory import Turn

FOLD = 1_200
FOLD_SLACK = 200
FOLD_LINES = 24
TAGS = {"think": "think", "search": "call", "tool_call": "call", "answer": "answer"}

_NAMES = "|".join(TAGS)
# A tag ends at its closing tag, or where the next one opens: an unclosed <think> does not swallow the <answer>.
_TAGGED = re.compile(rf"<({_NAMES})>.*?(?:</\1>|(?=<(?:{_NAMES})>)|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text in pieces of (kind, text): those shown, those folded away, and what was cut off.

    `folded_size` counts the characters folded, `size` those of the whole text where some were cut off (else 0).
    """

    shown: tuple[tuple[str, str], ...]
    folded: tuple[tuple[str, str], ...]
    folded_size: int
    size: int


def passage(value: str | int, highlight: bool = False, most: int = MAX_CHARACTERS) -> Passage:
    """Return a message's text in pieces: at most `most` characters, and action tags apart with `highlight`."""
    whole = str(value).strip("\n")
    text = whole[:most]
    cut = _fold(text)
    pieces = list(_tagged(text)) if highlight else [("", text)]
    shown, folded, at = [], [], 0
    for kind, piece in pieces:
        head, tail = piece[: max(cut - at, 0)], piece[max(cut - at, 0) :]
        shown += [(kind, head)] if head else []
        folded += [(kind, tail)] if tail else []
        at += len(piece)
    return Passage(tuple(shown), tuple(folded), len(text) - cut, len(whole) if len(whole) > len(text) else 0)


def appended(turn: Turn) -> list[tuple[str, str]]:
    """Return what a turn adds to one growing text, in pieces of (kind, text): what was written, appended, and found."""
    text = "".join(message.content for message in turn.observation)
    if isinstance(turn.action, str):
        pieces = [("", turn.action)]
    else:
        pieces = [] if text else [("call", f"[action {turn.action}]")]
    kind = "event" if turn.events and not turn.results else "call"
    for result in turn.results:
        before, found, after = text.rpartition(result.content)
        pieces += [(kind, before), ("answer", found)]
        text = after
    return [(kind, piece) for kind, piece in (*pieces, ("" if turn.results else kind, text)) if piece]


def _fold(text: str) -> int:
    """Return where a text is folded: its length where it is not, else the end of a word or of the last line to be shown."""
    cut = len(text)
    if cut > FOLD + FOLD_SLACK:
        space = max(text.rfind(mark, FOLD - FOLD_SLACK, FOLD) for mark in " \n")
        cut = space + 1 if space >= 0 else FOLD
    if text.count("\n", 0, cut) >= FOLD_LINES + FOLD_LINES // 4:
        cut = -1
        for _ in range(FOLD_LINES):
            cut = text.index("\n", cut + 1)
        cut += 1
    return cut


def _tagged(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for found in _TAGGED.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        yield TAGS[found.group(1)], found.group()
        at = found.end()
    if at < len(text):
        yield "", text[at:]
