"""A stranger finds every file by reading: names resolve, docstrings are sentences, packages name their modules."""

import ast
import importlib
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from docs.tree import docstring, entries, tree
from tests import ROOT
from tests.needs import needs
from tests.rows import each_row

TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
TEXTS = (".py", ".md", ".toml", ".html", ".sh", ".ini", ".json", ".txt", "")
EXEMPT = (
    "CHANGELOG.md",
    "docs/log.md",
    "tests/golden/",
    "tests/stored/",
    "benchmarks/results/",
    "LICENSE",
    "tests/test_structure.py",
)
READ = [
    name for name in TRACKED if Path(name).suffix in TEXTS and not name.startswith(EXEMPT) and (ROOT / name).is_file()
]
MODULES = [name for name in TRACKED if name.endswith(".py") and (ROOT / name).is_file()]
TOPS = ("agent_envs/", "trainers/", "baselines/", "leaderboard/", "benchmarks/")
PACKAGES = [name for name in MODULES if name.endswith("/__init__.py") and name.startswith(TOPS)]
PAGES = [name for name in READ if name.endswith(".md") and name.startswith(("docs/", "README"))]
DOTTED = re.compile(
    r"(?<![\w./-])((?:agent_envs|trainers|baselines|leaderboard|benchmarks|tests|docs)(?:\.[A-Za-z_]\w*)+)(?::([A-Za-z_]\w*)(?![\w/]))?"
)
PATHS = re.compile(
    r"(?<![\w./-])((?:agent_envs|trainers|baselines|leaderboard|benchmarks|tests|docs)/[\w./-]+\.(?:py|md|json|jsonl|toml|txt|html|png|svg))\b"
)
# A benchmark that went is cited; tests/test_benchmark_citations.py holds that the commit has it.
CITATION = re.compile(r"[Mm]easured at ([0-9a-f]{8,40}) by `(benchmarks(?:\.\w+)+)[^`]*`")
QUESTION = re.compile(r"(What|Who|Whose|Where|How|Whether|Which|Why|When)\b")
SHORT = re.compile(r"`((?:[a-z_]\w*/)+[a-z_]\w*\.(?:py|md|json|html))`|`([a-z_]\w*(?:\.[a-z_]\w*)*)\.([A-Z]\w+)`")
# Places in examples, settings of trainers whose section is `tests`, and names that tests make up because they do not exist.
PLACEHOLDERS = {
    "agent_envs.nothing_like_it", "tests.toy.nothing", "tests.items", "tests.with_feedback", "tests.without_feedback",
    "trainers.BpeTrainer", "trainers.PROGRAM", "trainers.mine", "trainers/mine.py", "trainers/presets/PROGRAM/NAME.toml",
    "trainers/presets/TRAINER/NAME.toml", "benchmarks/results/gpu_step.json",
}  # fmt: skip


@cache
def resolves(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if not f"{'.'.join(parts[:end])}.".startswith(f"{error.name}."):
                raise
            continue
        return _has(value, parts[end:])
    return False


def _has(value: object, names: list[str]) -> bool:
    for name in names:
        if name in getattr(value, "__annotations__", {}):  # a field
            return True
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def named_in_vain(name: str | Path) -> set[str]:
    """Return the names of modules and the paths in a file that lead nowhere, but for citations."""
    text = CITATION.sub("", (ROOT / name).read_text(encoding="utf-8"))
    dotted = {".".join(filter(None, match.groups())) for match in DOTTED.finditer(text)}
    files = {found for found in dotted if found.rpartition(".")[2] in ("py", "md", "json", "toml", "txt")}
    wrong = {found for found in dotted - files - PLACEHOLDERS if not resolves(found)}
    return wrong | {path for path in PATHS.findall(text) if path not in PLACEHOLDERS and not (ROOT / path).exists()}


@needs("[envs]", "[train]", "[serve]", "[anthropic]")
def test_names_of_modules_in_strings_and_prose_resolve(monkeypatch):
    """One test for all files: what they name is imported once. Classes of adapters are built on the stubs of their packages."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "integrations" / "upstream")
    assert READ
    wrong = {name: sorted(vain) for name in READ if (vain := named_in_vain(name))}
    assert not wrong, f"files name what is not there: {wrong}"


def test_a_name_that_is_not_there_is_found():
    assert resolves("agent_envs.core.env.TurnEnv") and resolves("agent_envs.envs.tau2.env.Tau2Env.rules") is False
    assert not resolves("agent_envs.runner") and not resolves("agent_envs.core.env.NoSuchThing")
    assert [match.group(1) for match in DOTTED.finditer("see `agent_envs.runner.run_many`, x/agent_envs.core")] == [
        "agent_envs.runner.run_many"
    ]


@needs("[envs]", "[train]", "[serve]", "[anthropic]")
@each_row("name", PAGES)
def test_short_names_in_pages_are_of_something_that_is_there(name):
    """`core/env.py` is the end of a path, and `episode.Episode` a name in a module whose path ends so."""
    wrong = []
    for path, module, attribute in SHORT.findall((ROOT / name).read_text(encoding="utf-8")):
        if path not in ("", *PLACEHOLDERS) and not any(f"/{tracked}".endswith(f"/{path}") for tracked in TRACKED):
            wrong.append(path)
        homes = [place for place in map(_dotted, MODULES) if f".{place}".endswith(f".{module}")] if module else []
        if homes and not any(resolves(f"{place}.{attribute}") for place in homes):
            wrong.append(f"{module}.{attribute}")
    assert not wrong, f"{name} names what is not there: {wrong}"


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def first_line(name: str) -> str:
    """Return the first line of a module's docstring, "" if it has none."""
    text = ast.get_docstring(ast.parse((ROOT / name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def test_a_module_says_in_a_sentence_what_it_holds():
    assert MODULES
    firsts = {name: first_line(name) for name in MODULES}
    lacking = {name for name, first in firsts.items() if not first and not name.startswith("tests/")}
    assert not lacking, f"only a test file may go without a docstring: {sorted(lacking)}"
    wrong = {name: first for name, first in firsts.items() if first and not first.endswith((".", ":"))}
    wrong |= {name: first for name, first in firsts.items() if QUESTION.match(first)}
    assert not wrong, f"no sentences: {wrong}"


# Small modules with one importer that stay: the parts that every family has by the same names, an agent that is named by a
# string, one of several of a kind (sources of problems, pages).
ANATOMY = ("tasks.py", "scoring.py", "solver.py", "heuristic.py")
SMALL = {
    "agent_envs/envs/tau2/users/customer.py", "agent_envs/evaluation/html/report_page.py",
}  # fmt: skip


def importers(name: str) -> set[str]:
    """Return the modules of `agent_envs` that import a module of it."""
    package, _, module = _dotted(name).rpartition(".")
    imported = re.compile(
        rf"^\s*(from {package}\.{module} |from {package} import .*\b{module}\b|import {package}\.{module}\b)", re.M
    )
    return {path for path in MODULES if path.startswith("agent_envs/") and imported.search(SOURCES[path])} - {name}


SOURCES = {name: (ROOT / name).read_text(encoding="utf-8") for name in MODULES if name.startswith("agent_envs/")}


def test_nothing_is_split_to_obey_a_number():
    """A module of fewer than 60 lines that one other imports belongs in that one."""
    small = {name for name, text in SOURCES.items() if text.count("\n") < 60 and not name.endswith("/__init__.py")}
    small -= {name for name in small if name.startswith("agent_envs/envs/") and name.rpartition("/")[2] in ANATOMY}
    assert {name for name in small if len(importers(name)) == 1} == SMALL


@each_row("name", PACKAGES)
def test_a_package_names_all_its_modules(name):
    folder = (ROOT / name).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    modules |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    named = {entry for entry in entries(docstring(folder)) if "." not in entry}
    modules |= {f"{path.name}/" for path in folder.iterdir() if f"{path.name}/" in named and path.is_dir()}  # of data
    lacking, unknown = sorted(modules - named), sorted(named - modules)
    assert not lacking and not unknown, f"{name}: lacks {lacking}, and lists {unknown}, which are not there"


# A question; the way from the tree through docstrings of packages, each with a word that its line has; a part of the file.
QUESTIONS = [
    ("Where is Sort's reward?", "envs/ > expa/ > sorting/:sort > scoring:reward", "released"),
    ("Who retries a failed judge?", "services/:retried > recording:retr", "attempt"),
    ("What does --max-cost count?", "evaluation/ > runs/:max-cost > evaluate:max-cost", "class BudgetedPolicy"),
    ("How is a tool call read from the policy's text?", "base/ > protocol:tool call", "class ToolCallProtocol"),
    (
        "How is the interval of a success rate computed?",
        "evaluation/:interval > statistics/:interval > rates:rate",
        "def success_rate",
    ),
    ("What keeps a policy's program from system calls?", "tools/:code > sandbox/:code > seccomp:system call", "filter"),
    ("Where does a snapshot become bytes?", "core/:snapshot > snapshot:byte", "def to_bytes"),
    (
        "What does tau2's simulated customer say?",
        "envs/ > tau2/:user > users/:user > scripted:script",
        "class ScriptedUser",
    ),
]


@pytest.mark.parametrize(("question", "way", "line"), QUESTIONS, ids=lambda value: value[:40])
def test_a_question_is_answered_by_following_the_tree(question, way, line):
    assert tree() in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    place, text = ROOT / "agent_envs", tree()
    for step in way.split(" > "):
        name, _, word = step.partition(":")
        rows = [row for row in text.splitlines() if re.search(rf"(^|[\s,]){re.escape(name)}([\s,:]|$)", row)]
        assert rows, f"{question} {place} does not name {name}"
        assert any(word in row.lower() for row in rows), f"{question} {name}: {rows} has no word of {word!r}"
        place = place / name
        text = docstring(place) if name.endswith("/") else place.with_suffix(".py").read_text(encoding="utf-8")
    assert line in text, question
