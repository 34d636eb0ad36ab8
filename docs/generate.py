"""The generator writes a page an environment from its docstring and its solver, tables in README and pages, and JSON Schemas.

`python -m docs.generate` writes; `--check` exits 1 if anything is stale.
"""

import argparse
import inspect
import json
import sys
from importlib import import_module
from pathlib import Path

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.core.registry import TABLE, Row
from benchmarks.reading_load import table as reading_load
from docs.examples import example
from docs.schemas import schemas
from docs.sections import pages, with_part
from docs.tree import tree

ROOT = Path(__file__).parent.parent


def page(row: Row) -> str:
    """Return the page of an id."""
    module, _, name = row.entry.partition(":")
    cls = getattr(import_module(module), name)
    lines = [f"# {row.id}", "", "_Generated from the docstring of the class; change it there and run `make docs`._", ""]
    for line in (inspect.getdoc(cls) or "").splitlines():
        if line.endswith(":") and not line.startswith(" ") and len(line.split()) <= 3:
            lines += [f"## {line[:-1]}", ""]
        else:
            lines.append(line.removeprefix("    "))
    core = gym.make(row.id).unwrapped
    declared = json.dumps(core.reward_spec.describe(), indent=2)
    lines += ["", "## Reward as declared", "", "```json", declared, "```", "", "## Named values", ""]
    for title, values in (("embedded", row.variants), ("with data", row.outside)):
        for argument, named in values.items():
            lines.append(f"- `{argument}` ({title}): " + ", ".join(f"`{value}`" for value in named))
    return _listed("\n".join(lines)) + "\n"


def _listed(text: str) -> str:
    """Turn the lines `name: what` of the Arguments section into a list."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("## "):
            inside = line in ("## Arguments", "## Version history")
        name, colon, rest = line.partition(": ")
        if inside and colon and name.isidentifier():
            line = f"- `{name}`: {rest}"
        lines.append(line)
    return "\n".join(lines)


def table() -> str:
    """Return the README's table of environments."""
    rows = ["| id | family | what |", "|---|---|---|"]
    for row in TABLE:
        rows.append(f"| [`{row.id}`](docs/environments/{row.name}.md) | {row.family} | {row.summary} |")
    return "\n".join(rows)


def generated() -> dict[Path, str]:
    """Return path -> text of everything that is generated."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files = {ROOT / "README.md": with_part(with_part(readme, "environments", table()), "tree", tree())}
    floors = ROOT / "docs" / "architecture.md"
    files[floors] = with_part(floors.read_text(encoding="utf-8"), "reading load", reading_load(rounded=True))
    for row in TABLE:
        lines, pictures = example(row)
        files[ROOT / "docs" / "environments" / f"{row.name}.md"] = page(row) + "\n" + "\n".join(lines) + "\n"
        files |= pictures
    return files | pages() | schemas()


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    check = parser.parse_args().check
    texts = generated()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'stale' if check else 'wrote'}: {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path], encoding="utf-8")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
