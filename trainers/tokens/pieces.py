"""A conversation is rendered in pieces: its opening, and what follows a turn of the assistant, whatever the turn was."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import sha256_text
from trainers.tokens.rendering import ChatTemplate, Rows, TemplateShape

_ASKED = {"role": "user", "content": "?"}


class Pieces:
    """Renders pieces with a template. What follows a turn is cut from behind a mark that stands for the turn."""

    def __init__(self, template: ChatTemplate, shape: TemplateShape) -> None:
        """Take a template and what is known of it."""
        self._template = template
        self._shape = shape
        self._header = self._missing_header()

    def opening(self, messages: Rows, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return messages and the beginning of the assistant's turn; if the last is the assistant's, it is gone on with.

        Raises:
            UsageError: there are no messages, or the template refuses them.
        """
        rows = self._shape.shape(_joined(messages), opening=True)
        shown = tools if self._shape.takes_tools else ()
        if not rows:
            raise UsageError("a conversation needs a message to open with")
        if rows[-1]["role"] != "assistant" or rows[-1].get("tool_calls"):
            return self._template.render(rows, shown, generate=True) + self._header
        mark = _mark(rows)
        text = self._template.render([*rows[:-1], {"role": "assistant", "content": mark}], shown)
        return _around(text, mark)[0] + str(rows[-1]["content"])

    def after(self, messages: Rows) -> str:
        """Return what follows the assistant's words: the end of its turn, messages, and the beginning of its next turn.

        Raises:
            UsageError: the template refuses the messages.
        """
        mark = _mark(messages)
        rows = self._shape.shape(messages, opening=False)
        text = self._template.render([_ASKED, {"role": "assistant", "content": mark}, *rows], generate=True)
        return _around(text, mark)[1] + self._header

    def closing(self) -> str:
        """Return what follows the assistant's last words where nothing follows them."""
        mark = _mark([])
        return _around(self._template.render([_ASKED, {"role": "assistant", "content": mark}]), mark)[1]

    def _missing_header(self) -> str:
        """Return what a template that knows no generation prompt writes before the assistant's words."""
        asked = self._template.render([_ASKED], generate=True)
        if asked != self._template.render([_ASKED]):
            return ""
        mark = _mark([])
        before = _around(self._template.render([_ASKED, {"role": "assistant", "content": mark}]), mark)[0]
        return before.removeprefix(asked).rstrip(" ") if before.startswith(asked) else ""


def _mark(messages: Rows) -> str:
    """Return a text that the messages cannot hold: they would have to hold their own digest."""
    return f"turn{sha256_text(json.dumps(messages))}turn"


def _around(text: str, mark: str) -> tuple[str, str]:
    before, found, after = text.rpartition(mark)
    if not found:
        raise UsageError("the chat template leaves out what the assistant said last")
    return before, after


def _joined(messages: Rows) -> Rows:
    """Return messages with those of the assistant in a row made one text, and without empty ones of it."""
    rows: Rows = []
    for row in messages:
        spoken = row["role"] == "assistant" and not row.get("tool_calls")
        if spoken and not row["content"]:
            continue
        if spoken and rows and rows[-1]["role"] == "assistant" and not rows[-1].get("tool_calls"):
            rows[-1] = {**rows[-1], "content": rows[-1]["content"] + row["content"]}
        else:
            rows.append(row)
    return rows
