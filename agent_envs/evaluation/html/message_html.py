"""A message is shown on a page as bounded text, folded where it is long, with the policy's action tags set apart.

`ConversationPage` arranges a conversation: what one side did at a stretch stands together, calls with their results.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from agent_envs.base.protocol import Malformed
from agent_envs.base.terminal import MAX_CHARACTERS
from agent_envs.core.conversation_view import ConversationView, ViewCheck, ViewEntry
from agent_envs.core.trajectory import Trajectory, Turn, stretches

FOLD = 1_200
FOLD_SLACK = 200
FOLD_LINES = 24
TAGS = {"think": "think", "search": "call", "tool_call": "call", "answer": "answer"}

_NAMES = "|".join(TAGS)
# A tag ends at its closing tag, or where the next one opens: an unclosed <think> does not swallow the <answer>.
_TAGGED = re.compile(rf"<({_NAMES})>.*?(?:</\1>|(?=<(?:{_NAMES})>)|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextPassage:
    """A text in pieces of (kind, text): those shown, those folded away, and what was cut off.

    `folded_size` counts the characters folded, `size` those of the whole text where some were cut off (else 0).
    """

    visible: tuple[tuple[str, str], ...]
    folded: tuple[tuple[str, str], ...]
    folded_size: int
    size: int


@dataclass(frozen=True, slots=True)
class StretchStep:
    """The pieces, (kind, text), that one action added to a growing text; `fresh` is False where a fold cut it in two."""

    number: int
    action: str | int
    pieces: tuple[tuple[str, str], ...]
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive turns as one text: the steps shown, those folded away, and the number of characters folded.

    `notes` are (kind, text): what finished calls and events there were, each once, with how often.
    """

    visible: tuple[StretchStep, ...]
    folded: tuple[StretchStep, ...]
    folded_size: int
    notes: tuple[tuple[str, str], ...]


def passage(value: str | int, highlight: bool = False, most: int = MAX_CHARACTERS) -> TextPassage:
    """Return a message's text in pieces: at most `most` characters, and action tags apart with `highlight`."""
    whole = str(value).strip("\n")
    text = whole[:most]
    cut = _fold(text)
    visible, folded = _split(_split_tags(text) if highlight else [("", text)], cut)
    return TextPassage(visible, folded, len(text) - cut, len(whole) if len(whole) > len(text) else 0)


def stretch(turns: Sequence[tuple[int, Turn]], most: int = MAX_CHARACTERS, names: Sequence[str] = ()) -> Stretch:
    """Return numbered turns of an episode with expanded actions as one text; at most `most` characters of each turn."""
    steps = [StretchStep(number, turn.action, _turn_pieces(turn, most, names)) for number, turn in turns]
    text = "".join(piece for step in steps for _, piece in step.pieces)
    cut = _fold(text)
    visible, folded = list[StretchStep](), list[StretchStep]()
    left = cut
    for step in steps:
        head, tail = _split(step.pieces, max(left, 0))
        if head or not (tail or folded):
            visible.append(replace(step, pieces=head))
        if tail or not visible or visible[-1].number != step.number:
            folded.append(replace(step, pieces=tail, fresh=not head))
        left -= sum(len(piece) for _, piece in step.pieces)
    return Stretch(tuple(visible), tuple(folded), len(text) - cut, tuple(_notes([turn for _, turn in turns])))


def group_turns(play: Trajectory, cut: int, left_out: int) -> list[list[tuple[int, Turn]]]:
    """Return numbered turns as they are shown together; behind turn `cut`, `left_out` turns are missing."""
    groups: list[list[tuple[int, Turn]]] = []
    numbers = iter(range(1, len(play.turns) + 1))
    for together in stretches(play.turns):
        rows = [(next(numbers), turn) for turn in together]
        first = [row for row in rows if row[0] <= cut] if left_out else rows
        last = [row for row in rows if row[0] > cut + left_out] if left_out else []
        groups += [part for part in (first, last) if part]
    return groups


def _turn_pieces(turn: Turn, most: int, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the pieces that a turn adds, cut after `most` characters: policy's text, appended text, results, refusals."""
    text = "".join(message.content for message in turn.observation)
    kind = "event" if isinstance(turn.parsed, Malformed) else "call"
    pieces: list[tuple[str, str]] = []
    for result in reversed(turn.results):
        before, answer, after = text.rpartition(result.content) if result.content else (text, "", "")
        pieces = [("error" if result.error else "answer", answer), (kind if after.strip() else "", after), *pieces]
        text = before
    pieces.insert(0, (kind, text))
    if isinstance(turn.action, str):
        pieces.insert(0, ("", turn.action))
    elif not turn.observation:
        has_name = 0 <= turn.action < len(names)
        pieces.insert(0, ("call", f"[{names[turn.action] if has_name else f'action {turn.action}'}]"))
    size = sum(len(piece) for _, piece in pieces)
    head = _split(pieces, most)[0]
    return head if size <= most else (*head, ("event", f" [cut here: {size:,} characters in all] "))


def _notes(turns: Sequence[Turn]) -> Iterator[tuple[str, str]]:
    """Yield a class and a text for the tool calls of the turns, by name and failure, and for their events."""
    calls = Counter((result.name, result.error) for turn in turns for result in turn.results if result.call_id)
    for (name, error), count in calls.items():
        yield "error" if error else "", f"{name}: {count} call{'s' if count > 1 else ''}{' failed' if error else ''}"
    for event, count in Counter(event for turn in turns for event in turn.events).items():
        yield "event", f"{event} \u00d7{count}" if count > 1 else event


def _split(
    pieces: Iterable[tuple[str, str]], cut: int
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return pieces up to a place in their text, and the rest; without empty ones."""
    visible, folded, at = [], [], 0
    for kind, piece in pieces:
        head, tail = piece[: max(cut - at, 0)], piece[max(cut - at, 0) :]
        visible += [(kind, head)] if head else []
        folded += [(kind, tail)] if tail else []
        at += len(piece)
    return tuple(visible), tuple(folded)


def _fold(text: str) -> int:
    """Return the length at which a text is folded: all of it, else up to the end of a word or of the last visible line."""
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


def _split_tags(text: str) -> Iterator[tuple[str, str]]:
    """Split a text into (class, piece) pairs: each action tag by itself, and the text between with the class ""."""
    at = 0
    for tag in _TAGGED.finditer(text):
        if tag.start() > at:
            yield "", text[at : tag.start()]
        yield TAGS[tag.group(1)], tag.group()
        at = tag.end()
    if at < len(text):
        yield "", text[at:]


MOST_ENTRIES = 300  # of a turn
MOST_CHECKS = 400
LONGEST_HEAD = 120  # characters of a call that stand beside its name while it is folded
COLUMNS = ("left", "right")


@dataclass(frozen=True, slots=True)
class Item:
    """An entry, with the result where it is a call that was answered, and the call's arguments as far as they fit a line."""

    entry: ViewEntry
    result: ViewEntry | None = None
    head: str = ""


@dataclass(frozen=True, slots=True)
class Voice:
    """Consecutive entries of one side; `column` is its place: left, right, or across both."""

    name: str
    column: str
    items: tuple[Item, ...]


class ConversationPage:
    """A conversation, ready to be set turn by turn."""

    def __init__(self, view: ConversationView) -> None:
        """Put the entries of a turn together."""
        self.participants, self.facts, self.checks = view.participants, view.facts, view.checks
        self._columns = {
            participant.name: column for participant, column in zip(view.participants, COLUMNS, strict=False)
        }
        self._turns: dict[int, list[ViewEntry]] = {}
        for entry in view.entries:
            self._turns.setdefault(entry.turn, []).append(entry)

    def size(self, turns: Iterable[int], most: int) -> int:
        """Return the number of characters in the entries of turns, of each text at most `most`."""
        entries = (entry for turn in turns for entry in self._turns.get(turn, [])[:MOST_ENTRIES])
        return sum(min(len(entry.text), most) for entry in entries)

    def voices(self, turn: int) -> tuple[tuple[Voice, ...], int]:
        """Return a turn's voices, and the number of entries left out behind them."""
        entries = self._turns.get(turn, [])
        together = groupby(entries[:MOST_ENTRIES], key=lambda entry: entry.participant)
        voices = (Voice(name, self._columns.get(name, "across"), tuple(_items(list(part)))) for name, part in together)
        return tuple(voices), max(len(entries) - MOST_ENTRIES, 0)

    def check_groups(self) -> tuple[tuple[tuple[str, tuple[ViewCheck, ...]], ...], int]:
        """Return the checks of the end by group, and the number left out."""
        together = groupby(self.checks[:MOST_CHECKS], key=lambda check: check.group)
        return tuple((name, tuple(part)) for name, part in together), max(len(self.checks) - MOST_CHECKS, 0)


def _items(entries: list[ViewEntry]) -> Iterator[Item]:
    """Yield the entries as items, each call together with the result right behind it."""
    place = 0
    while place < len(entries):
        entry = entries[place]
        after = entries[place + 1] if place + 1 < len(entries) else None
        result = after if entry.kind == "call" and after is not None and after.kind == "result" else None
        place += 1 + (result is not None)
        yield Item(entry, result, _one_line_head(entry.text) if entry.kind == "call" else "")


def _one_line_head(text: str) -> str:
    """Return the head of a message as one line, cut with an ellipsis where the text is longer."""
    line = " ".join(text[: 4 * LONGEST_HEAD].split())
    return line if len(line) <= LONGEST_HEAD and len(text) <= 4 * LONGEST_HEAD else f"{line[:LONGEST_HEAD]}\u2026"
