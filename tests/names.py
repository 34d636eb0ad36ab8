"""Names and first lines that a stranger reads without a key: what `tests/test_names.py` counts.

    python -m tests.names FOLDER ...

prints, for each folder of Python, how often participles stand for things in a thousand lines, so that other projects can be
counted by the same rule.
"""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PARTICIPLES = frozenset(
    "found told asked shown said known given taken owned owed judged weighed played drawn seen kept made held meant named "
    "begun spent wanted written heard chosen gone".split()
)
PREFIXES = ("made_", "told_")
# The first words of a docstring after which a sentence stands for the field's term.
ROUNDABOUT = tuple(
    f"{verb} {word} " for verb in ("Return", "Do", "Say") for word in ("what", "how", "where", "who", "which", "whom")
) + ("Say ",)


def is_participle(name: str) -> bool:
    """Return whether a name, or a class's, is a participle for a thing."""
    bare = name.lstrip("_").lower()
    return bare in PARTICIPLES or bare.startswith(PREFIXES)


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each name that the code gives, with its line: functions, classes, parameters, variables, fields, attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno


def first_lines(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the first line of each docstring, with the line of what it belongs to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text.partition("\n")[0], getattr(node, "lineno", 1)


def participles(folder: Path) -> list[str]:
    """Return the places where a folder's code names a thing by a participle, as `file:line name`."""
    return [
        f"{file}:{line} {name}" for file, tree in trees(folder) for name, line in names(tree) if is_participle(name)
    ]


def roundabout(folder: Path) -> list[str]:
    """Return the places where a docstring of a folder begins with a sentence in place of a term."""
    return [
        f"{file}:{line} {text}"
        for file, tree in trees(folder)
        for text, line in first_lines(tree)
        if text.startswith(ROUNDABOUT)
    ]


@cache
def trees(folder: Path) -> list[tuple[Path, ast.AST]]:
    """Return the files of a folder, parsed."""
    return [
        (file.relative_to(folder), ast.parse(file.read_text(encoding="utf-8", errors="replace")))
        for file in sorted(folder.rglob("*.py"))
    ]


if __name__ == "__main__":
    for place in map(Path, sys.argv[1:]):
        count = sum(
            len(file.read_text(encoding="utf-8", errors="replace").splitlines()) for file in place.rglob("*.py")
        )
        share, lines = (1000 * len(search(place)) / max(count, 1) for search in (participles, roundabout))
        print(
            f"{place}: {count} lines; a thousand have {share:.1f} participles as names, {lines:.1f} roundabout first lines"
        )
