"""The modules, lines and parts of `trainers/` that a reader of each algorithm meets are counted from the sources.

    python -m benchmarks.reading_load

Importing a trainer loads the first; the second adds what functions import where settings ask for it (an engine, a tiny model, a
warm start, pictures), and modules that code names in a string. Lines are those of files, docstrings and blank lines included.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "trainers"
ALGORITHMS = ("grpo", "earl", "veg", "sft", "arpo", "verlog", "pretrain")  # those that are there
HUNDRED = 100


def path_of(module: str) -> Path | None:
    """Return the file of a module of `trainers`; None where there is none of this name."""
    place = ROOT.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def lines(modules: set[str]) -> int:
    """Return how many lines the files of modules have."""
    paths = filter(None, map(path_of, modules))
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def reached(module: str, *, at_use: bool = False) -> set[str]:
    """Return the modules of `trainers` that importing one loads; `at_use`: and those that its functions may load."""
    seen, open_ends = set[str](), [module]
    while open_ends:
        name = open_ends.pop()
        parents = [name.rpartition(".")[0]] if "." in name else []
        if name not in seen and path_of(name) is not None:
            seen.add(name)
            open_ends += [*parents, *_imported(name, at_use)]
    return seen


@cache
def _imported(module: str, at_use: bool) -> tuple[str, ...]:
    path = path_of(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(name for node in _nodes(tree, at_use) for name in _names(node) if name.startswith("trainers"))


def _nodes(tree: ast.AST, at_use: bool) -> Iterator[ast.AST]:
    """Yield the nodes that run at import; with `at_use` all, those of functions and of what is imported by name later."""
    for node in ast.iter_child_nodes(tree):
        if not at_use and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if at_use or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _nodes(node, at_use)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named(module: str) -> set[str]:
    """Return the parts of an algorithm that shared code may load for it by their names in a string."""
    paths = {name: path_of(name) for name in reached(module, at_use=True)}
    texts = [path.read_text(encoding="utf-8") for path in paths.values() if path is not None]
    words = {node.value for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    return {word for word in words if isinstance(word, str) and word.startswith("trainers.") and path_of(word)}


def parts(modules: set[str]) -> Counter[str]:
    """Return the lines of modules by their package of `trainers`, most first; modules beside the packages together."""
    found: Counter[str] = Counter()
    for name in sorted(modules):  # parts of equal size have one order
        top = name.split(".")[1] if "." in name else ""
        found[f"{top}/" if (FOLDER / top / "__init__.py").is_file() and top else "modules"] += lines({name})
    return found


def table(*, rounded: bool = False) -> str:
    """Return the Markdown table: a row a trainer; `rounded`: lines to the nearest hundred, for a page that is to stay."""

    def told(count: int) -> str:
        return f"{round(count / HUNDRED) * HUNDRED:,}" if rounded else f"{count:,}"

    rows = [
        "| trainer | modules at import | lines | of which | may load besides: modules | lines |",
        "|---|---|---|---|---|---|",
    ]
    for name in ALGORITHMS:
        module = f"trainers.{name}"
        if path_of(module) is None:
            continue
        first = reached(module)
        besides = reached(module, at_use=True) | {
            other for word in named(module) for other in reached(word, at_use=True)
        }
        besides -= first
        shares = ", ".join(f"{part} {told(count)}" for part, count in parts(first).most_common())
        rows.append(
            f"| `{name}` | {len(first)} | {told(lines(first))} | {shares} | {len(besides)} | {told(lines(besides))} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
