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
from docs import claims
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


# What the README shows in a row: ids that are one game to a reader, and what it is.
FAMILIES = {
    "SearchQA": "Multi-hop questions, answered by searching a corpus (Search-R1, VEG)",
    "LegalSearch": "Questions of law, answered by searching and reading sections, with citations",
    "Tau2Retail, Tau2Airline, Tau2Telecom": "Customer service with a simulated user who acts, too (tau2-bench)",
    "ToolReasoning": "Questions that need search, browsing and a Python sandbox (ARPO)",
    "Arithmetic, Countdown, Count, GSM8KScaled": "Calculation with a calculator (EARL)",
    "CalcBench": "The mixture of those four",
    "Sort, Order": "Sorting items by hidden numbers with compare and swap (EARL)",
    "BabyAI": "Missions in a grid world, in words (BALROG, Verlog)",
    "BabaIsAI": "A puzzle whose rules are words that can be pushed",
    "Crafter": "Survival and crafting in an open world, in words",
}


def families() -> str:
    """Return the README's table; a twin with expanded actions stands beside its id, and an id that is not above alone."""
    names = {row.name: row.summary for row in TABLE}
    rows = ["| ids | what |", "|---|---|"]
    known = {part for line in FAMILIES for name in line.split(", ") for part in (name, f"{name}ExpA")}
    for line, what in {**FAMILIES, **{name: words for name, words in names.items() if name not in known}}.items():
        cells = []
        for name in line.split(", "):
            twin = f" ([`ExpA`](docs/environments/{name}ExpA.md))" if f"{name}ExpA" in names else ""
            cells.append(f"[`{name}`](docs/environments/{name}.md){twin}")
        rows.append(f"| {', '.join(cells)} | {what} |")
    return "\n".join(rows)


def abilities() -> str:
    """Return README's table of what agent-envs and its peers can do, from the trials of `benchmarks.peers.abilities`."""
    result = json.loads((ROOT / "benchmarks" / "results" / "peers_abilities.json").read_text(encoding="utf-8"))
    peers = result["peers"]
    rows = [[""] + [name if name == "agent-envs" else f"{name} {row['version']}" for name, row in peers.items()]]
    rows += [["---"] * len(rows[0])]
    for ability, words in result["abilities"].items():
        cells = [row[ability] for row in peers.values()]
        rows.append(
            [words, *(f"[{cell['cell']}]({cell['address']})" if "address" in cell else cell["cell"] for cell in cells)]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def table() -> str:
    """Return the page of all ids."""
    head = "# Environments\n\n_Generated from the table of ids; run `make docs`._\n"
    rows = [head, "| id | family | what | extra |", "|---|---|---|---|"]
    for row in TABLE:
        link, extra = f"[`{row.id}`](environments/{row.name}.md)", f"`{row.extra}`" if row.extra else ""
        rows.append(f"| {link} | {row.family} | {row.summary} | {extra} |")
    return "\n".join(rows) + "\n"


def generated() -> dict[Path, str]:
    """Return path -> text of everything that is generated."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tables = claims.parts()
    for name, part in {"families": families(), "abilities": abilities(), "claims": tables.pop("counts")}.items():
        readme = with_part(readme, name, part)
    files = {ROOT / "README.md": readme, ROOT / "docs" / "environments.md": table()}
    text = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    for name, part in tables.items():
        text = with_part(text, name, part)
    files[ROOT / "docs" / "claims.md"] = text
    architecture = ROOT / "docs" / "architecture.md"
    text = with_part(architecture.read_text(encoding="utf-8"), "tree", tree())
    files[architecture] = with_part(text, "reading load", reading_load(rounded=True))
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
