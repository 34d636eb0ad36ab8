"""The texts of the agents' prompts are read from the files beside this one: sections with slots, in our own words."""

from functools import cache
from pathlib import Path
from string import Template
from typing import Any

FOLDER = Path(__file__).parent


@cache
def sections(name: str) -> dict[str, Template]:
    """Return the sections of `NAME.md` by their headings, read once."""
    parts = (FOLDER / f"{name}.md").read_text(encoding="utf-8").split("\n## ")[1:]
    return {head.strip(): Template(body.strip()) for head, _, body in (part.partition("\n") for part in parts)}


def prompt(name: str, section: str, **slots: Any) -> str:
    """Return a section with its slots filled."""
    return sections(name)[section].substitute(slots)


def user(text: str) -> dict[str, Any]:
    """Return a message of the user."""
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    """Return a message of the system, whose prefix a service may keep in its cache: it is the same in every request."""
    return {"role": "system", "content": text, "cached": True}
