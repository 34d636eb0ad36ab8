"""The files of a new environment are filled-in templates; all names and places are checked before the first is written."""

import builtins
import keyword
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import choice
from agent_envs.base.errors import UsageError
from agent_envs.core.env import core_of, spec_json
from agent_envs.core.registry import NAMESPACE, TABLE, full_id, row_of

# Templates of a package or a family, and of a package with expanded actions; each is the file of its name but for these two.
PARTS = ("init", "env", "tasks", "scoring", "solver", "heuristic", "prompt")
EXPANDED = tuple(f"expanded/{part}" for part in ("init", "machine", "env", "tasks", "solver", "prompt"))
HUBS = ("verifiers", "openenv")
FILE_NAMES = {"init": "__init__.py", "prompt": "prompt.md"}
OWN = """
import gymnasium as gym

from agent_envs import register_companions

gym.register(id="{id}", entry_point="{entry}")"""
INSIDE = "\nfrom agent_envs.core.registry import register_companions\n"
SUMMARY = "Find a hidden whole number by comparing, then answer."
# Where a new id and a new family are entered: what opens the list, and what closes it.
TABLE_OF_IDS = ("TABLE: tuple[Row, ...] = (", "\n)\n")
LIST_OF_FAMILIES = ("Modules, in reading order:", '\n"""\n')


def write_environment(
    name: str, out: Path | None = None, family: Path | None = None, expanded: bool = False
) -> list[str]:
    """Write an environment with its tests; return what was written and what remains; UsageError for a name or place taken.

    Args:
        name: of the class, in CamelCase: NumberGuess.
        out: of a package of one's own, a folder that is new or empty; by default NAME-env, here.
        family: in a checkout of this project, agent_envs/envs/FAMILY, which is not there yet: the registry gets a row.
        expanded: a package whose environment has expanded actions, with its twin in text.

    Raises:
        UsageError: a name that cannot be taken, another place, or a file that is there already; nothing was written.
    """
    if family is None:
        return _write_package(name, out, "expanded/" if expanded else "")
    if out is not None or expanded:
        raise UsageError(f"new {name}: --out and --expanded are for a package of your own; leave them out, or --family")
    return _write_family(name, family)


def write_for_hub(hub: str, env_id: str, out: Path, arguments: Mapping[str, Any]) -> list[str]:
    """Write the package that a hub installs and return what was written; UsageError for a name or file that is taken.

    Args:
        hub: `verifiers`, whose package the Environments Hub takes, or `openenv`.
        env_id: an id of ours, or anyone's as `module:namespace/Name-v0`.
        out: the folder; nothing in it is overwritten.
        arguments: of the environment; UsageError where they cannot travel.
    """
    name = full_id(env_id)
    env = gym.make(name, **arguments)
    core_of(env)  # refuses what no adapter could play
    spec_json(env)
    ours = name.startswith(f"{NAMESPACE}/")
    package = re.sub(r"\W", "_", re.sub(r"-v\d+$", "", name).lower())
    hides = package in {*sys.stdlib_module_names, *HUBS} or (not ours and getattr(find_spec(package), "origin", None))
    if hides or keyword.iskeyword(package) or not re.fullmatch("[a-z]([a-z0-9_]*[a-z0-9])?", package):
        raise UsageError(f"export {env_id}: the package would be called {package!r}, which cannot be imported, or hides a "
                         "module that is here; register the environment under another name")  # fmt: skip
    extras = [choice("export", "hub", hub, HUBS), row_of(name).extra if ours else ""]
    words = {
        "id": name, "env_id": repr(name if ours else env_id), "arguments": repr(dict(arguments)), "package": package,
        "dashed": package.replace("_", "-"), "extras": ",".join(filter(None, extras)), "version": version("agent-envs"),
    }  # fmt: skip
    text = files(__package__).joinpath("hubs", f"{hub}.txt").read_text(encoding="utf-8")
    parts = re.split(r"^=== (.+)\n", Template(text).substitute(words), flags=re.M)[1:]
    texts = {out / path: body for path, body in zip(parts[::2], parts[1::2], strict=True)}
    _write(f"export {env_id}", texts)
    return [*(f"wrote {path}" for path in texts), f"read {out / 'README.md'}"]


def _write_package(name: str, out: Path | None, kind: str) -> list[str]:
    """Write a new package with an environment, and return what to run next; UsageError before anything is overwritten."""
    snake = _snake(name)
    if snake in sys.stdlib_module_names or find_spec(snake) is not None:
        raise UsageError(f"new {name}: a module {snake!r} is there already, here or installed; take another name")
    # A folder of the module's name would hide the installed module from who stands beside it: Python takes it for a package.
    folder = Path(f"{snake.replace('_', '-')}-env") if out is None else out
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"new {name}: {folder} is there already and not empty; name another with --out")
    env_id = f"{snake}/{name}-v0"
    register = OWN.format(id=env_id, entry=f"{snake}.env:{name}")
    words = {"name": name, "snake": snake, "package": snake, "id": env_id, "prefix": f"{snake}:", "register": register}
    texts = _parts(folder / snake, words, EXPANDED if kind else PARTS) | {
        folder / "pyproject.toml": _fill("pyproject", words | {"dashed": snake.replace("_", "-")}),
        folder / "README.md": _fill(f"{kind}readme", words),
        folder / "tests" / f"test_{snake}.py": _fill(f"{kind}test", words),
    }
    _write(f"new {name}", texts)
    install = 'pip install -e ".[dev]"'  # which brings pytest
    return [
        *(f"wrote {path}" for path in texts),
        f"now: cd {folder} && {install} && agent-envs check {snake}:{env_id} && python -m pytest",
        f"read {folder / 'README.md'}, then change the game",
    ]


def _write_family(name: str, family: Path) -> list[str]:
    """Write a new family into a checkout and enter it in the registry; return what is done and remains; else UsageError."""
    snake, place = _snake(name), family.absolute()
    root, package = place.parents[2] if len(place.parents) > 2 else place, place.name
    registry, listed = (root / "agent_envs" / part for part in ("core/registry.py", "envs/__init__.py"))
    if place.parent != root / "agent_envs" / "envs" or not (registry.is_file() and listed.is_file()):
        raise UsageError(f"new {name}: --family {family}: name agent_envs/envs/FAMILY of a checkout of agent-envs")
    if not re.fullmatch("[a-z][a-z0-9_]*", package) or keyword.iskeyword(package):
        raise UsageError(f"new {name}: --family {family}: a family's name is of a-z, 0-9 and _, as search_qa")
    table = registry.read_text(encoding="utf-8")
    if f'"{name}"' in table or name.casefold() in {row.name.casefold() for row in TABLE}:
        raise UsageError(f"new {name}: the registry has that id already; take another name")
    dotted = f"agent_envs.envs.{package}"
    env_id = f"{NAMESPACE}/{name}-v0"
    words = {"name": name, "snake": snake, "package": dotted, "id": env_id, "prefix": "", "register": INSIDE}
    tests = root / "tests" / "envs" / package
    texts = _parts(place, words, PARTS) | {tests / "__init__.py": "", tests / "test_env.py": _fill("test", words)}
    row = _fill("row", words | {"summary": SUMMARY}).rstrip("\n")
    entered = {
        registry: _insert_line(registry, table, TABLE_OF_IDS, f"\n{row}"),
        listed: _insert_line(
            listed, listed.read_text("utf-8"), LIST_OF_FAMILIES, f"\n    {package}/: {name}, a number to find."
        ),
    }
    _write(f"new {name}", texts)
    for path, text in entered.items():
        path.write_text(text, encoding="utf-8")
    remains = (
        f"make golden ID={name}", "make docs", f"python -m pytest tests/envs/{package}", "make lint",
        "a line under Unreleased in CHANGELOG.md",
    )  # fmt: skip
    return [*(f"wrote {path}" for path in texts), *(f"entered it in {path}" for path in entered),
            *(f"now: {command}" for command in remains)]  # fmt: skip


def _snake(name: str) -> str:
    """Return NumberGuess as number_guess; UsageError for a name that no class of the templates can have."""
    if not re.fullmatch("[A-Z][A-Za-z0-9]{1,39}", name) or keyword.iskeyword(name) or hasattr(builtins, name):
        raise UsageError(f"new {name!r}: a name is of 2 to 40 letters and digits in CamelCase, as NumberGuess")
    for part, text in _templates().items():
        if re.search(rf"^(from .+ |)import .*\b{name}\b|^{name} = ", text, flags=re.MULTILINE):
            raise UsageError(f"new {name}: the template of {part} has that name for something else; take another one")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@cache
def _templates() -> dict[str, str]:
    """Return the text of each template by name, read once."""
    folder = files(__package__) / "templates"
    paths = {path.name: path for path in folder.iterdir()}
    paths |= {f"expanded/{path.name}": path for path in paths.pop("expanded").iterdir()}
    return {name.removesuffix(".txt"): paths[name].read_text(encoding="utf-8") for name in sorted(paths)}


def _fill(template: str, words: Mapping[str, str]) -> str:
    """Fill a template's slots with the words."""
    return Template(_templates()[template]).substitute(words)


def _parts(folder: Path, words: Mapping[str, str], templates: Sequence[str]) -> dict[Path, str]:
    """Return the text of each file of a package, by path, from the templates."""
    parts = {template.rpartition("/")[2]: _fill(template, words) for template in templates}
    return {folder / FILE_NAMES.get(part, f"{part}.py"): text for part, text in parts.items()}


def _insert_line(path: Path, text: str, ends: tuple[str, str], line: str) -> str:
    """Return a source text with a line inserted at the end of its list; UsageError where the list is not found."""
    place = text.find(ends[1], text.find(ends[0])) if ends[0] in text else -1
    if place < 0:
        raise UsageError(f"{path}: no place for the new entry was found, the end of {ends[0]!r}")
    return f"{text[:place]}{line}{text[place:]}"


def _write(verb: str, texts: Mapping[Path, str]) -> None:
    """Write files; UsageError, and none is written, where one of them is there already."""
    places = [*texts, *(folder for path in texts for folder in path.parents if not os.path.isdir(folder))]
    there = dict.fromkeys(str(place) for place in places if os.path.lexists(place))
    if there:
        raise UsageError(f"{verb}: {', '.join(there)} is there already, and nothing is overwritten")
    for path, text in texts.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except (OSError, ValueError) as error:
            raise UsageError(f"{verb}: {str(path)!r} cannot be written: {error}") from error
