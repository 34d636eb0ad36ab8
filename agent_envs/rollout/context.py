"""A context is what a policy has been shown and has said in an episode. It grows in place, and requests read it where it is."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ContextView:
    """A context as it stood at one turn, of `length` messages; the context may have grown since."""

    rows: list[Row]
    last: Row
    length: int

    def since(self, start: int = 0) -> list[Row]:
        """Return the messages from index `start` on, as fresh dicts."""
        if start >= self.length:
            return []
        return [*map(dict, self.rows[start : self.length - 1]), dict(self.last)]


class Context:
    """The chat messages of an episode so far.

    Messages are added at the end and never changed, but for the last one where messages of the assistant are `joined`: a view
    keeps its own last message, so that it reads the same for ever.
    """

    def __init__(self, messages: Iterable[Row], *, joined: bool = False) -> None:
        """Take the first messages.

        Args:
            messages: fresh dicts with `role` and `content`; the context keeps them.
            joined: whether messages of the assistant that follow one another become one, and empty ones of it are left out.
        """
        self._rows: list[Row] = []
        self._joined = joined
        self.extend(messages)

    def extend(self, messages: Iterable[Row]) -> None:
        """Add messages at the end."""
        for row in messages:
            if not self._joined or row["role"] != "assistant":
                self._rows.append(row)
            elif self._rows and self._rows[-1]["role"] == "assistant":
                self._rows[-1] = {**self._rows[-1], "content": self._rows[-1]["content"] + row["content"]}
            elif row["content"]:
                self._rows.append(row)

    def view(self, note: str = "") -> ContextView:
        """Return the context as it stands, with a note at the end of its last message."""
        last = self._rows[-1]
        return ContextView(self._rows, {**last, "content": last["content"] + note} if note else last, len(self._rows))

    def copy(self) -> "Context":
        """Return a context that grows apart from this one."""
        twin = Context((), joined=self._joined)
        twin._rows = list(self._rows)
        return twin


class LazyMessages:
    """An attribute of a dataclass that may be given a `ContextView`, whose messages are made when they are first read."""

    def __get__(self, owner: Any, kind: type | None = None) -> list[Row]:
        if owner is None:
            raise AttributeError("messages")  # which tells dataclasses that there is no default
        given = owner.__dict__["messages"]
        if isinstance(given, ContextView):
            given = owner.__dict__["messages"] = given.since()
        return given  # type: ignore[no-any-return]

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__["messages"] = value
