"""The tree of packages in docs/architecture.md is made from the first lines of their docstrings, in reading order."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOPS = ("agent_envs", "trainers", "baselines", "leaderboard", "tests", "docs", "examples", "benchmarks")
DEEP = ("agent_envs", "trainers", "baselines")  # whose sub-packages stand below them
BLOCK = "Modules, in reading order:"
WIDTH = 30


def docstring(package: Path) -> str:
    """Return the docstring of a package."""
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""


def entries(text: str) -> dict[str, str]:
    """Return name -> words of the modules and sub-packages (`name/`) that a package's docstring lists, in its order."""
    listed: dict[str, str] = {}
    for line in text.partition(BLOCK)[2].splitlines():
        names, colon, words = line.strip().partition(": ")
        if colon and line.startswith("    ") and re.fullmatch(r"[\w./]+(, [\w./]+)*", names):
            listed |= dict.fromkeys(names.split(", "), words)
    return listed


def tree() -> str:
    """Return the tree: a line a package, with the first line of its docstring."""
    return "\n".join(["```", *(line for top in TOPS for line in _lines(ROOT / top, 0, top in DEEP)), "```"])


def _lines(package: Path, depth: int, deep: bool) -> Iterator[str]:
    text = docstring(package)
    yield f"{'  ' * depth + package.name + '/':<{WIDTH}}{text.splitlines()[0]}"
    for name in entries(text) if deep else ():
        if name.endswith("/") and (package / name / "__init__.py").exists():
            yield from _lines(package / name, depth + 1, deep)
