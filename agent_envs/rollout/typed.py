"""A person's typed lines become actions of any id: names or numbers of moves and tools, expanded actions, or plain text."""

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import gymnasium as gym

from agent_envs.core.env import core_of
from agent_envs.tools.forms import filled

Read = Callable[[str], str]  # a prompt -> the next line; EOFError where there is none
TEXT = (
    "A name or its number is enough; /NAME WORDS gives a tool of one argument its words; /compare A B is expanded actions. Any "
    "other text is a model's turn: end it with an empty line, while a tag that begins a line is open, a program's, with three."
)
TEXT_PROMPT = "(a turn of text goes on to an empty line)\n... "
_TAG = re.compile(r"^<(\w+)>", re.MULTILINE)


class TypedActions:
    """The lines that a person can type in one environment, and their actions.

    Attributes:
        expanded: the ids of expanded actions by name, typed as /name or /id, many in a line.
        names: of the moves of a game or of tools; typed as they are, by their number from 1 or, with an argument, as /name.
        about: a line on each of both, for a help text.
    """

    def __init__(self, env: gym.Env[Any, Any], tools: Callable[[gym.Env[Any, Any]], Sequence[Any]]) -> None:
        """Take an environment, of which no reset is needed, and what tells its tools (`agent_envs.tool_view`)."""
        core: Any = core_of(env)
        self._core = core
        self._game = hasattr(core, "action_of")  # one action a turn, by its name
        actions = getattr(core, "expanded_actions", ())
        self.expanded = {action.name: action.id for action in actions}
        self._views = () if actions or self._game else tools(env)
        moves = core.game.actions if self._game else ()
        self.names = [*(move.name for move in moves), *(view.name for view in self._views)]
        self.about = [f"{move.name}: {move.doc}" for move in moves] + [_about(view) for view in self._views]
        self.about += [f"/{action.name}: {action.kind}, in {', '.join(action.environments)}" for action in actions]

    def actions(self, line: str, read: Read) -> list[str | int]:
        """Return the actions of a typed line, `read` asked for more lines or arguments; [] if it is empty or names none."""
        words = line.strip()
        if not words:
            return []
        if self.expanded:
            return _parse_expanded(_turn(line, read, _names_actions), self.expanded)
        number = int(words) - 1 if words.isascii() and words.isdigit() and len(words) < 4 else None
        if self.names and number is not None and not 0 <= number < len(self.names):
            return []
        if self._game:
            text = words.removeprefix("/") if number is None else self.names[number]
            if (move := self._move(text)) or words.startswith("/"):
                return [move] if move else []
            text = _turn(line, read, self._move)
            return [self._move(text) or text]
        head, _, rest = words.partition(" ") if words.startswith("/") else (words, "", "")
        views = {view.name: view for view in self._views}
        view = self._views[number] if number is not None and self._views else views.get(head.removeprefix("/"))
        if view is None:
            return [] if words.startswith("/") else [_turn(line, read)]
        return self._read_call(view, rest.strip(), read)

    def _move(self, text: str) -> str | None:
        """Return a turn of a game whose last line is the name of an action, with its label or without; None if it is not."""
        head, _, line = text.rstrip().rpartition("\n")
        number = self._core.action_of(f"ACTION: {line}")[0]
        return None if number is None else str(self._core.say(number, head.removeprefix("THINK:").strip()))

    def _read_call(self, view: Any, rest: str, read: Read) -> list[str | int]:
        """Return the call of a tool in a list, its missing arguments asked for; [] where they are not given."""
        parameters = view.schema["function"]["parameters"]
        if rest and (len(parameters["properties"]) == 1 or rest.startswith("{")):
            return [view.render(rest if rest.startswith("{") else dict.fromkeys(parameters["properties"], rest))]
        tag = view.around[0][1:-1] if view.around else ""
        if tag in getattr(self._core.written, "verbatim", ()):
            first = read(f"{_about(view)}\n</{tag}> or three empty lines end it\n... ")
            return [_turn(f"<{tag}>\n{first}", read, lambda line: f"</{tag}>" in line, "... ")]
        intro = f"{_about(view)}\n"

        def ask(name: str, hint: str) -> str:
            """Read one argument from the person; the introduction stands before the first prompt only."""
            nonlocal intro
            before, intro = intro, ""
            return read(f"{before}{name}{hint and f' ({hint})'}: ")

        arguments = filled(parameters, ask)
        return [] if arguments is None else [view.render(arguments)]


def _about(view: Any) -> str:
    """Return a tool's name, its arguments and its description in one line."""
    function = view.schema["function"]
    names = ", ".join(function["parameters"]["properties"])
    return f"{view.name}({names}): {' '.join(str(function['description']).split())}"


def _turn(line: str, read: Read, ends: Callable[[str], Any] = lambda line: False, prompt: str = TEXT_PROMPT) -> str:
    """Return the turn that a line begins, read up to an empty line, one that `ends` it, or EOFError (raised if it has args).

    While a tag that begins a line is open, a program's, an empty line is a line of it; three in a row end the turn.
    """
    lines = [line]
    while not ends(line):
        try:
            line, prompt = read(prompt), "... "
        except EOFError as end:
            if end.args:  # somebody leaves
                raise
            break
        lines.append(line)
        if not line and (not _is_open(lines) or lines[-3:] == ["", "", ""]):
            break
    return "\n".join(lines).rstrip("\n")


def _is_open(lines: Sequence[str]) -> bool:
    """Return whether the last tag that begins one of these lines is not closed yet."""
    text = "\n".join(lines)
    tags = _TAG.findall(text)
    return bool(tags) and f"</{tags[-1]}>" not in text[text.rindex(f"<{tags[-1]}>") :]


def _parse_expanded(text: str, ids: dict[str, int]) -> list[str | int]:
    """Return typed lines as actions: expanded ones of lines with /names, a text of others in a row; [] for an unknown name.

    A name goes before an id (`/7` may be a button), and a word may spell names, as `12+3=`. Other lines in a row are one text.
    """
    actions: list[str | int] = []
    for is_command, lines in groupby(text.split("\n"), key=_names_actions):
        if not is_command:
            actions.append("\n".join(lines))
            continue
        names = [word.removeprefix("/").strip(",") for line in lines for word in line.split()]
        for name in (name for name in names if name not in ("", "and")):
            number = int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1
            if name in ids or number in ids.values():
                actions.append(ids.get(name, number))
            elif not all(letter in ids for letter in name):
                return []
            else:
                actions += [ids[letter] for letter in name]
    return actions


def _names_actions(line: str) -> bool:
    """Return whether a line typed begins with the name of an action, `/name`; a bare `/` does not."""
    word = line.split(maxsplit=1)[:1]
    return word != ["/"] and "".join(word).startswith("/")
