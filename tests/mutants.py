"""Mutants: small faults put into a module of the product, one at a time, tell what the tests catch.

    python -m tests.mutants RESULT                       # the verdicts, a line each; goes on where it was stopped
    python -m tests.mutants RESULT --of OTHER_RESULT     # on the mutants of another run, from before the tests changed

A seed draws from each group of targets in turn. A mutant is put into a copy of the tree, and tests are played until one fails:
those that mirror its module, those that import it by its name, the rest of that folder, some files at most.
"""

import argparse
import ast
import copy
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import ROOT

TARGETS = {
    "core": "agent_envs/core/env.py agent_envs/core/episode.py agent_envs/core/trajectory.py agent_envs/core/conv*.py",
    "rewards": "agent_envs/core/episode.py agent_envs/envs/*/scoring.py agent_envs/envs/expa/*/scoring.py",
    "protocol": "agent_envs/base/protocol.py",
    "grading": "agent_envs/grading/*.py agent_envs/grading/math/*.py",
    "losses": "trainers/losses.py",
    "advantages": "trainers/advantages.py",
    "journal": "agent_envs/base/jsonl_log.py agent_envs/rollout/run_many.py",
    "snapshots": "agent_envs/core/snapshot.py",
    "submission": "agent_envs/evaluation/submission/*.py",
}
FILES, SECONDS = 3, 100  # of a mutant: files of tests at most, and CPU-seconds
FLIPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
    ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def targets(root):
    """Return the modules of each group."""
    return {group: sorted(p for glob in globs.split() for p in root.glob(glob)) for group, globs in TARGETS.items()}


def places(tree):
    """Yield (line of its statement, node) for the nodes inside functions."""
    for function in ast.walk(tree):
        for statement in function.body if isinstance(function, ast.FunctionDef) else ():
            rest = [(statement.lineno, statement)]
            while rest:
                line, node = rest.pop()
                yield line, node
                within = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.FunctionDef)]
                rest += [(child.lineno if isinstance(child, ast.stmt) else line, child) for child in within]


def mutated(node):
    """Return a node with one small fault; None where none of these is possible."""
    other = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in FLIPS:
            other.ops = [FLIPS[type(operator)]()]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) if type(operator) in FLIPS:
            other.op = FLIPS[type(operator)]()
        case ast.Constant(value=bool() | int() | float() as value):
            other.value = not value if isinstance(value, bool) else value + 1
        case ast.UnaryOp(op=ast.Not()):
            other = other.operand
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            other.value = ast.Constant(None)
        case ast.AugAssign() | ast.Expr(value=ast.Call()) | ast.Raise():
            other = ast.Pass()
        case _:
            return None
    return other


def draw(count, seed):
    """Yield mutants, from each group in turn."""
    source, pools = random.Random(seed), {}
    for group, paths in targets(ROOT).items():
        pool = pools[group] = []
        for module, tree in ((str(path.relative_to(ROOT)), ast.parse(path.read_bytes())) for path in paths):
            pool += [(module, *place) for place in places(tree) if mutated(place[1]) is not None]
        source.shuffle(pool)
    for number in range(count):
        group = list(pools)[number % len(pools)]
        module, line, node = pools[group].pop()
        after = ast.unparse(mutated(node))
        place = [node.lineno - 1, node.col_offset, node.end_lineno - 1, node.end_col_offset]
        yield {"group": group, "module": module, "line": line, "place": place, "before": ast.unparse(node),
               "after": after if isinstance(node, ast.stmt) else f"({after})"}  # fmt: skip


def with_fault(text, mutant):
    """Return a module's text with a mutant in it."""
    first, start, last, end = mutant["place"]
    rows = text.split(b"\n")
    head, tail = rows[first][:start], rows[last][end:]
    inner = b"\n".join(rows[first : last + 1])[start : -len(tail) or None].decode()
    if ast.unparse(ast.parse(f"({inner})\n" if mutant["after"][0] == "(" else inner)) not in (
        mutant["before"],
        f"({mutant['before']})",
    ):
        raise SystemExit(
            f"{mutant['module']}:{first + 1} is not what it was when the mutant was drawn: {mutant['before']}"
        )
    return b"\n".join([*rows[:first], head + mutant["after"].encode() + tail, *rows[last + 1 :]])


def tests_of(module):
    """Return the files of tests of a module: those of its name in its mirror, importers' tests, the mirror's rest."""
    path = Path(module)
    folder = ROOT / "tests" / str(path.parent).removeprefix("agent_envs").lstrip("/")
    near = sorted(folder.glob(f"test_{path.stem}*.py"))
    name = re.compile(rf"\b{re.escape('.'.join(path.with_suffix('').parts))}\b")
    others = [file for file in (ROOT / "tests").rglob("test_*.py") if name.search(file.read_text(encoding="utf-8"))]
    others.sort(key=lambda file: (file.parent != folder, file.stat().st_size))
    beside = sorted(folder.glob("test_*.py"), key=lambda file: file.stat().st_size)
    return [str(file.relative_to(ROOT)) for file in dict.fromkeys(near + others + beside)][:FILES]


def verdict(tree, mutant, tests):
    """Return what the tests make of a mutant: the first that fails, that they take too long, or `survived`."""
    module = tree / mutant["module"]
    text, status = module.read_bytes(), module.stat()
    module.write_bytes(with_fault(text, mutant))
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not heavy and not data"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests], cwd=tree, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS)),
    )  # fmt: skip
    module.write_bytes(text)
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    failed = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if ran.returncode in (0, 5):  # 5: there is none
        return "survived"
    return f"killed by {failed[0]}" if failed else "killed: too long, or pytest itself fell"


def copy_tree(folder):
    """Fill a folder with what git tracks."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in files:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("--of", type=Path)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=52)
    arguments = parser.parse_args()
    result, of = arguments.result, arguments.of
    rows = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
    drawn = [json.loads(line) for line in of.read_text().splitlines()] if of else draw(arguments.count, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        for mutant in list(drawn)[len(rows) :]:
            rows.append({**mutant, "verdict": verdict(Path(folder), mutant, tests_of(mutant["module"]))})
            with result.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print("{module}:{line}  {before} -> {after}  {verdict}".format(**rows[-1]), flush=True)
    for group in (*TARGETS, ""):
        verdicts = [row["verdict"] for row in rows if group in ("", row["group"])]
        print(f"{group or 'all'}: {verdicts.count('survived')} of {len(verdicts)} survived")


if __name__ == "__main__":
    main()
