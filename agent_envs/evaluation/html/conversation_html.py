"""`Talk` arranges a conversation for a page: what one side did at a stretch stands together, calls with their results."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from agent_envs.core.conversation_view import Check, ConversationView, ViewEntry

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
    """What one side did without another between; `column` says where it stands: left, right, or across both."""

    name: str
    column: str
    items: tuple[Item, ...]


class Talk:
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
        """Return how many characters the entries of turns have, of each text at most `most`."""
        shown = (entry for turn in turns for entry in self._turns.get(turn, [])[:MOST_ENTRIES])
        return sum(min(len(entry.text), most) for entry in shown)

    def spoken(self, turn: int) -> tuple[tuple[Voice, ...], int]:
        """Return a turn's voices, and how many entries are left out behind them."""
        found = self._turns.get(turn, [])
        together = groupby(found[:MOST_ENTRIES], key=lambda entry: entry.participant)
        voices = (Voice(name, self._columns.get(name, "across"), tuple(_items(list(part)))) for name, part in together)
        return tuple(voices), max(len(found) - MOST_ENTRIES, 0)

    def closing(self) -> tuple[tuple[tuple[str, tuple[Check, ...]], ...], int]:
        """Return what the end was held against, by group, and how many checks are left out."""
        together = groupby(self.checks[:MOST_CHECKS], key=lambda check: check.group)
        return tuple((name, tuple(part)) for name, part in together), max(len(self.checks) - MOST_CHECKS, 0)


def _items(entries: list[ViewEntry]) -> Iterator[Item]:
    place = 0
    while place < len(entries):
        entry = entries[place]
        after = entries[place + 1] if place + 1 < len(entries) else None
        result = after if entry.kind == "call" and after is not None and after.kind == "result" else None
        place += 1 + (result is not None)
        yield Item(entry, result, _head(entry.text) if entry.kind == "call" else "")


def _head(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST_HEAD].split())
    return line if len(line) <= LONGEST_HEAD and len(text) <= 4 * LONGEST_HEAD else f"{line[:LONGEST_HEAD]}\u2026"
