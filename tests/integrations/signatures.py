"""The stubs of upstream/ say what the adapters touch; each name and parameter of theirs is in the real package.

`python -m tests.integrations.signatures MODULE...` prints, of the packages as this process finds them, what the stubs name.
"""

import ast
import importlib
import inspect
import json
import sys
from pathlib import Path

UPSTREAM = Path(__file__).parent / "upstream"


def named(package: str) -> list[list[str]]:
    """Return [module, dotted name, parameters or fields] of what a stub defines; names with an underscore are its own."""
    rows = []
    for file in sorted((UPSTREAM / package).rglob("*.py")):
        module = ".".join(file.relative_to(UPSTREAM).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            rows += _of(module, node, "")
    return rows


def _of(module, node, owner):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name.startswith("_") and node.name not in ("__init__", "_generate_single_turn"):
            return []
        given = node.args
        names = [part.arg for part in (*given.posonlyargs, *given.args, *given.kwonlyargs) if part.arg != "self"]
        kind = "async" if isinstance(node, ast.AsyncFunctionDef) else "def"
        return [[module, f"{owner}{node.name}", kind, names]]
    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        inside = [row for part in node.body for row in _of(module, part, f"{node.name}.")]
        fields = [part.target.id for part in node.body if isinstance(part, ast.AnnAssign)]
        return [[module, node.name, "class", fields], *inside]
    return []


def missing(rows) -> list[str]:
    """Return what the packages here lack or have otherwise; the order of parameters that are passed by place counts."""
    problems = []
    for module, name, kind, names in rows:
        try:
            there = importlib.import_module(module)
            for part in name.split("."):
                there = inspect.getattr_static(there, part) if inspect.isclass(there) else getattr(there, part)
        except (ImportError, AttributeError) as error:
            problems.append(f"{module}: {name}: {error}")
            continue
        problems += [f"{module}: {name}: {problem}" for problem in _differences(there, kind, names)]
    return problems


def _differences(there, kind, names):
    if isinstance(there, property | staticmethod | classmethod):
        there = there.fget if isinstance(there, property) else there.__func__
    if kind == "class":
        fields = {*getattr(there, "model_fields", {}), *getattr(there, "__dataclass_fields__", {})}
        return [f"no field {name}" for name in names if name not in fields]
    found = [name for name in inspect.signature(there).parameters if name != "self"]
    lacking = [f"no parameter {name} in {found}" for name in names if name not in found]
    order = [name for name in found if name in names]
    if not lacking and order != names:
        lacking.append(f"parameters in the order {order}")
    if (kind == "async") != inspect.iscoroutinefunction(there):
        lacking.append(f"is no {kind} function")
    return lacking


if __name__ == "__main__":
    told = [problem for package in sys.argv[1:] for problem in missing(named(package))]
    print(json.dumps({"names": sum(len(named(package)) for package in sys.argv[1:]), "problems": told}, indent=1))
    sys.exit(bool(told))
