"""The static site is built from the pages as they stand: `make docs`, offline, into build/site/html/.

Links that lead out of docs/ become links to the repository, README is the first page, the API reference comes from docstrings.
It runs in the venv of the dependency group `tools`, whose installation alone needs a network (`make site` builds the site
without writing the generated pages before).
"""

import json
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "build" / "site"
PAGES = {  # section: pages, in reading order; docs/*.md alone, without their ending
    "Use": ("quickstart", "guide", "faq", "text_games", "tau2", "legal", "retrieval", "web", "sandbox", "data"),
    "Evaluate": ("evaluation", "baselines", "submission", "leaderboard"),
    "Train": ("own_gpu", "training", "grpo", "veg", "arpo", "earl", "verlog", "formulas"),
    "Extend": ("adding_an_environment", "integrations", "serving", "architecture", "scale"),
    "What was measured": ("claims", "papers", "log"),
}
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", ".github/CONTRIBUTING.md": "contributing.md"}
PICTURES, DRAWN = ("docs/images", "benchmarks/results"), (".png", ".svg")  # folders, and how their names end
LINK = re.compile(r"(\]\()(?!https?://|mailto:|#)([^)\s#]+)(#[^)\s]*)?(\))")
# The packages whose names are public, and the short path that pages promise for them.
PUBLIC = {
    "": "",
    "datasets": "datasets",
    "wrappers": "wrappers",
    "envs/expa": "expa",
    "tau2": "tau2",
    "tools/sandbox": "sandbox",
}
# Names in a table are not broken within a word on a phone: the table scrolls.
STYLE = ".md-typeset td code, .md-typeset th code { overflow-wrap: normal; word-break: normal }\n"
API = """# Python API

Everything that `import agent_envs` gives and promises to keep, then the packages below it. Import names from the paths in the
headings and not from the modules that hold them.
"""


def main() -> int:
    """Write the site's sources and build it; return the exit code."""
    write_sources()
    command = (Path(sys.executable).parent / "zensical", "build", "--clean", "-f", SOURCE / "zensical.toml")
    build = subprocess.run(list(map(str, command)), cwd=SOURCE, capture_output=True, text=True, check=False)
    # `rows[0]["prompt"]` in a block of code is taken for a reference, so that its strict mode refuses what is right.
    warnings = [line for line in build.stdout.splitlines() if "Warning" in line and "unresolved autoref" not in line]
    if build.returncode or warnings:
        print(f"the site was not built\n{build.stdout}\n{build.stderr}", file=sys.stderr)
        return 1
    # From a file the search loads a script of unpkg.com; from a server it needs nothing.
    print(f"the site: {SOURCE / 'html' / 'index.html'}; with its search: python -m http.server -d {SOURCE / 'html'}")
    return 0


def write_sources() -> None:
    """Write the pages, with their links as the site needs them, and the settings."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"]
    places = {path.relative_to(ROOT).as_posix(): place for path, place in pages_of_the_site().items()}
    for name, place in places.items():
        target = SOURCE / "pages" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text(encoding="utf-8")
        target.write_text(
            LINK.sub(lambda link, at=name: site_link(link, at, places, repository), text), encoding="utf-8"
        )
    for folder in PICTURES:
        shutil.copytree(ROOT / folder, SOURCE / "pages" / "images", ignore=_all_but_pictures, dirs_exist_ok=True)
    (SOURCE / "pages" / "extra.css").write_text(STYLE, encoding="utf-8")
    (SOURCE / "pages" / "api.md").write_text(reference(), encoding="utf-8")
    (SOURCE / "zensical.toml").write_text(settings(repository), encoding="utf-8")


def pages_of_the_site() -> dict[Path, str]:
    """Return file -> its place in the site, for every page."""
    folder = ROOT / "docs"
    inside = {path: path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.md"))}
    return inside | {ROOT / name: place for name, place in OUTSIDE.items()}


def site_link(link: re.Match[str], name: str, places: Mapping[str, str], repository: str) -> str:
    """Return a link of the file `name` as the site has it: to a page's new place, to a picture, or to the repository."""
    before, path, anchor, after = link.groups(default="")
    target = posixpath.normpath(PurePosixPath(name).parent / path)
    here = PurePosixPath(places[name]).parent
    folder, _, picture = target.rpartition("/")
    if target in places or folder in PICTURES and target.endswith(DRAWN):
        up = "../" * len(here.parts)
        return f"{before}{up}{places.get(target, f'images/{picture}')}{anchor}{after}"
    return f"{before}{repository}/blob/main/{target}{anchor}{after}"


def _all_but_pictures(folder: str, names: list[str]) -> list[str]:
    """Return the names of a folder that the site does not show."""
    return [name for name in names if not name.endswith(DRAWN)]


def reference() -> str:
    """Return the page of the Python API: a section for each public package, whose names are read from docstrings."""
    parts = [API]
    for package, short in PUBLIC.items():
        home = ".".join(filter(None, ("agent_envs", *package.split("/"))))
        parts.append(f"## `{'.'.join(filter(None, ('agent_envs', short)))}`")
        parts += [f"::: {home}.{name}" for name in public_names(package)]
    return "\n\n".join(parts) + "\n"


def public_names(package: str = "") -> list[str]:
    """Return the names that the `__all__` of a package of `agent_envs` lists, read without importing it."""
    place = ROOT / "agent_envs" / package
    text = (place / "__init__.py" if place.is_dir() else place.with_suffix(".py")).read_text(encoding="utf-8")
    return re.findall(r'"(\w+)"', text.partition("__all__ = [")[2].partition("]")[0])


def settings(repository: str) -> str:
    """Return the site's settings."""
    environments = sorted((ROOT / "docs" / "environments").glob("*.md"))
    sections = {name: [f"{page}.md" for page in pages] for name, pages in PAGES.items()}
    nav: list[dict[str, object]] = [{"Home": "index.md"}, *({name: pages} for name, pages in sections.items())]
    nav.insert(2, {"Environments": ["environments.md", *(f"environments/{path.name}" for path in environments)]})
    nav.append(
        {"Reference": [{"Python API": "api.md"}, {"Changelog": "changelog.md"}, {"Contributing": "contributing.md"}]}
    )
    rows = ", ".join(_toml(item) for item in nav)
    return f'''[project]
site_name = "agent-envs"
site_description = "Gymnasium environments for multi-turn LLM agents"
repo_url = "{repository}"
docs_dir = "pages"
site_dir = "html"
use_directory_urls = false
nav = [{rows}]
extra_css = ["extra.css"]

[project.theme]
features = ["navigation.tabs", "navigation.top", "content.code.copy", "toc.follow"]
font = false

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "material/weather-night"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "material/weather-sunny"
toggle.name = "Light"

[project.plugins.search]

[project.plugins.offline]

[project.plugins.mkdocstrings.handlers.python]
paths = ["../.."]

[project.plugins.mkdocstrings.handlers.python.options]
docstring_style = "google"
heading_level = 3
merge_init_into_class = true
show_root_heading = true
show_root_full_path = false
show_source = false
show_signature_annotations = true
separate_signature = true

[project.markdown_extensions.tables]

[project.markdown_extensions.toc]
permalink = true

[project.markdown_extensions.pymdownx.highlight]

[project.markdown_extensions.pymdownx.superfences]
'''


def _toml(value: object) -> str:
    """Return a value of strings, lists and tables as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}" = {_toml(item)}' for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


if __name__ == "__main__":
    sys.exit(main())
