"""The modules, lines and parts of `trainers/` that a reader of each algorithm meets are counted; and the files of two trips.

    python -m benchmarks.reading_load

A trip is what one opens who follows a call to its end: the files whose functions run, with all their lines. One is a step of
GRPO, from the plan of its episodes to the weights' update; the other `agent-envs eval SearchQA --agent heuristic -n 4 --json`.
Each is its second run in a process, so that imports are no part of it. The table is counted from the sources:
Importing a trainer loads the first; the second adds what functions import where settings ask for it (an engine, a tiny model, a
warm start, pictures), and modules that code names in a string. Lines are those of files, docstrings and blank lines included.
"""

import ast
import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "trainers"
ALGORITHMS = ("grpo", "earl", "veg", "sft", "arpo", "verlog", "pretrain")  # those that are there
HUNDRED = 100
STEP = [
    "--preset", "tiny-minute", "--steps", "2", "--model.tokenizer-plays", "64", "--warm-start.demonstrations", "0",
    "--evaluation.every", "0", "--evaluation.test-tasks", "0", "--log.no-curves", "--log.checkpoint-every", "0",
]  # fmt: skip
EVAL = ["agent-envs", "eval", "SearchQA", "--agent", "heuristic", "-n", "4", "--json"]


def path_of(module: str) -> Path | None:
    """Return the file of a module of `trainers`; None where there is none of this name."""
    place = ROOT.joinpath(*module.split("."))
    return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)


def lines(modules: set[str]) -> int:
    """Count the lines of the files of modules."""
    paths = filter(None, map(path_of, modules))
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def find_modules(module: str, *, at_use: bool = False) -> set[str]:
    """Return the modules of `trainers` that importing one loads; `at_use`: and those that its functions may load."""
    modules, open_ends = set[str](), [module]
    while open_ends:
        name = open_ends.pop()
        parents = [name.rpartition(".")[0]] if "." in name else []
        if name not in modules and path_of(name) is not None:
            modules.add(name)
            open_ends += [*parents, *_imports(name, at_use)]
    return modules


@cache
def _imports(module: str, at_use: bool) -> tuple[str, ...]:
    """Return the modules of trainers that a module imports, at use too if asked for; cached."""
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
    """Yield the modules and names that an import brings in."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_string_references(module: str) -> set[str]:
    """Return the modules that shared code may load for an algorithm by their names in strings."""
    paths = {name: path_of(name) for name in find_modules(module, at_use=True)}
    texts = [path.read_text(encoding="utf-8") for path in paths.values() if path is not None]
    words = {node.value for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    return {word for word in words if isinstance(word, str) and word.startswith("trainers.") and path_of(word)}


def parts(modules: set[str]) -> Counter[str]:
    """Return the lines of modules by their package of `trainers`, most first; modules beside the packages together."""
    sizes: Counter[str] = Counter()
    for name in sorted(modules):  # parts of equal size have one order
        top = name.split(".")[1] if "." in name else ""
        sizes[f"{top}/" if (FOLDER / top / "__init__.py").is_file() and top else "modules"] += lines({name})
    return sizes


def table(*, rounded: bool = False) -> str:
    """Return the Markdown table: a row a trainer; `rounded`: lines to the nearest hundred, for a page that is to stay."""

    def digits(count: int) -> str:
        """Return a count in digits, rounded to hundreds where the table is."""
        return f"{round(count / HUNDRED) * HUNDRED:,}" if rounded else f"{count:,}"

    rows = [
        "| trainer | modules at import | lines | of which | may load besides: modules | lines |",
        "|---|---|---|---|---|---|",
    ]
    for name in ALGORITHMS:
        module = f"trainers.{name}"
        if path_of(module) is None:
            continue
        first = find_modules(module)
        besides = find_modules(module, at_use=True) | {
            other for word in find_string_references(module) for other in find_modules(word, at_use=True)
        }
        besides -= first
        shares = ", ".join(f"{part} {digits(count)}" for part, count in parts(first).most_common())
        rows.append(
            f"| `{name}` | {len(first)} | {digits(lines(first))} | {shares} | {len(besides)} | {digits(lines(besides))} |"
        )
    return "\n".join(rows)


@dataclass
class ReadingTrip:
    """The files of `agent_envs` and `trainers` whose functions ran, in all threads, while it recorded."""

    files: set[Path] = field(default_factory=set)
    codes: set[CodeType] = field(default_factory=set)

    def start(self) -> None:
        """Record from here on, in this thread and in those that begin."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        """Stop recording."""
        sys.setprofile(None)
        threading.setprofile(None)

    def of(self, package: str) -> tuple[int, int]:
        """Count the files of a package that ran, and their lines."""
        paths = [path for path in self.files if path.is_relative_to(ROOT / package)]
        return len(paths), sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a function's first call, and its file if that is of agent_envs or trainers."""
        if event == "call" and frame.f_code not in self.codes:
            self.codes.add(frame.f_code)
            name = frame.f_code.co_filename
            if frame.f_code.co_name != "<module>" and name.startswith((f"{ROOT}/agent_envs/", f"{ROOT}/trainers/")):
                self.files.add(Path(name))


@contextlib.contextmanager
def _silence_output() -> Iterator[Path]:
    """Silence the output for a while, and yield a temporary folder for files."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        with contextlib.redirect_stderr(io.StringIO()):
            yield Path(folder)


def step_trip() -> ReadingTrip:
    """Train for two steps of GRPO and return the trip of the second, up to the update of the weights."""
    from trainers.command_line import parse
    from trainers.grpo import GRPOSettings, train
    from trainers.run import open_run

    trip = ReadingTrip()
    with _silence_output() as folder:
        settings, out = parse(GRPOSettings, [*STEP, "--out", str(folder / "run")], program="grpo")
        with open_run(settings, out) as run:
            end_step: Callable[..., None] = run.end_step

            def between(*values: Any, **named_values: Any) -> None:
                """Stop recording and end the step; behind the first step, record again."""
                trip.stop()
                end_step(*values, **named_values)
                if run.step == 1:
                    trip.start()

            run.end_step = between  # type: ignore[method-assign]
            train(settings, run)
    return trip


def eval_trip() -> ReadingTrip:
    """Evaluate twice and return the trip of the second time.

    Raises:
        SystemExit: the command failed.
    """
    from agent_envs.cli import app

    trip, words = ReadingTrip(), sys.argv
    for again in (False, True):
        with _silence_output() as folder:
            sys.argv = [*EVAL, "--out", str(folder / "run")]
            if again:
                trip.start()
            try:
                app.main()
            except SystemExit as end:
                if end.code:
                    raise
            finally:
                trip.stop()
                sys.argv = words
    return trip


def trips() -> str:
    """Return both trips as a Markdown table."""
    rows = ["| trip | files of trainers/ | lines | files of agent_envs/ | lines |", "|---|---|---|---|---|"]
    for name, trip in (("a step of GRPO", step_trip()), ("`agent-envs eval`", eval_trip())):
        counts = [f"{count:,}" for package in ("trainers", "agent_envs") for count in trip.of(package)]
        rows.append(f"| {name} | {' | '.join(counts)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(), trips(), sep="\n\n")
