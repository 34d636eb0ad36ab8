"""Pages of environments that have much in common are written in one file, whose parts complete the classes' docstrings."""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from string import Template
from textwrap import indent
from typing import TypeVar

from agent_envs.core.env import TurnEnv

_Env = TypeVar("_Env", bound=TurnEnv)
_SLOT = re.compile(r"(^ +)?\$([a-z]+)\b", re.M)


@cache
def sections(package: str, name: str) -> dict[str, Template]:
    """Return the parts of a package's file as {heading: Template}, cached, less what stands before the first heading."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    return {head.strip(): Template(body.strip()) for head, body in zip(parts[::2], parts[1::2], strict=True)}


def paged(package: str, file: str, template: str) -> Callable[[type[_Env]], type[_Env]]:
    """Return a decorator that completes a class's docstring, a summary, by a part of a package's file.

    In the part `$slot` stands for the part `NAME.slot`, for a class NAME or NAMEExpA, or else for the part `slot`, and
    `$name` for NAME.
    """

    def complete(cls: type[_Env]) -> type[_Env]:
        """Fill the package's page into a class's docstring, with the class's own parts where there are any."""
        name = cls.__name__.removesuffix("ExpA")
        parts = {**sections(package, file), "name": Template(name)}

        def put(slot: re.Match[str]) -> str:
            """Return the text for one slot of a template, indented as the slot is; a part of the page's own name goes first."""
            own = f"{name}.{slot[2]}"
            return indent(fill(own if own in parts else slot[2]), slot[1] or "")

        def fill(part: str) -> str:
            """Return a part's template with its slots filled, and theirs in turn."""
            return _SLOT.sub(put, parts[part].template)

        cls.__doc__ = f"{cls.__doc__ or ''}\n\n{indent(fill(template), '    ')}\n"
        return cls

    return complete
