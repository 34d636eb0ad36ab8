"""The mounts show `bwrap` CPython as it runs us, numpy, sympy and mpmath, and the shared libraries that they load.

Everything is read-only and stands at neutral places (`/python/...`), so that no path of this machine shows: the standard
library, the three packages and those that a spec adds, and each library file by itself. Of the project `harness.py` alone is
there, and nothing of `/etc`.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.tools.sandbox.port import MORE_PACKAGES
from agent_envs.tools.sandbox.seccomp import knows_machine

ROOT = "/python"
PACKAGES, HARNESS = f"{ROOT}/packages", f"{ROOT}/harness.py"
NAMES = ("numpy", "sympy", "mpmath")
UID = 65_534
_HERE = Path(__file__).with_name("harness.py")
_PLACES_OF_PACKAGES = ("site-packages", "dist-packages")
_ENVIRONMENT = {
    "PYTHONHOME": ROOT, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1",
    "LD_LIBRARY_PATH": f"{ROOT}/libraries", "TZ": "UTC", "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
}  # fmt: skip


@lru_cache(maxsize=8)
def bwrap_version(packages: tuple[str, ...] = ()) -> str:
    """Return the versions of the backend's parts and further packages, cached; UsageError or MissingExtra if it lacks one.

    Raises:
        UsageError: not Linux, a machine without a list of system calls, or no bubblewrap.
        MissingExtra: a package is missing.
    """
    if sys.platform != "linux" or not knows_machine():
        raise UsageError("the sandbox bwrap needs Linux on x86-64 or aarch64; the sandbox monty runs anywhere")
    if shutil.which("bwrap") is None:
        raise UsageError("the sandbox bwrap needs bubblewrap, which is not installed: apt-get install bubblewrap")
    words = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=False).stdout.split()
    python = ".".join(map(str, sys.version_info[:3]))
    distributions = [(name, "sandbox") for name in NAMES]
    distributions += [(name, package) for package in packages for name in MORE_PACKAGES[package].values()]
    versions = [f"{name} {_distribution(name, extra).version}" for name, extra in distributions]
    return ", ".join([f"bubblewrap {words[-1] if words else '?'}", f"CPython {python}", *versions])


def _distribution(name: str, extra: str) -> Distribution:
    """Return an installed package's metadata; MissingExtra if it is not installed."""
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise MissingExtra(name, extra, "the sandbox bwrap") from error


@lru_cache(maxsize=8)
def bwrap_command(packages: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command that starts the harness in a sandbox, its control socket as standard input; cached.

    Args:
        packages: of the spec.

    Raises:
        MissingExtra: a package is missing.
        UsageError: this Python cannot be found again.
    """
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable or "")
    if not os.path.isfile(python):
        raise UsageError("the sandbox bwrap cannot tell which Python runs it: sys.executable is empty")
    mounts = {f"{ROOT}/bin/python3": python, **_standard_library(), **_packages(packages), HARNESS: str(_HERE)}
    mounts |= _libraries(python, list(mounts.values()))
    flags = [
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        "--uid", str(UID), "--gid", str(UID), "--hostname", "sandbox", "--new-session", "--die-with-parent",
        "--cap-drop", "ALL", "--clearenv",
    ]  # fmt: skip
    for name, value in _ENVIRONMENT.items():
        flags += ["--setenv", name, value]
    for place, source in mounts.items():
        flags += ["--ro-bind", source, place]
    for place in _emptied_places(mounts):
        flags += ["--tmpfs", place, "--remount-ro", place]
    flags += ["--dev-bind", "/dev/null", "/dev/null", "--tmpfs", "/tmp", "--remount-ro", "/tmp", "--remount-ro", "/"]
    flags += ["--chdir", "/tmp"]
    return ("bwrap", *flags, "--", f"{ROOT}/bin/python3", "-S", "-s", "-P", "-W", "ignore", HARNESS)


def _standard_library() -> dict[str, str]:
    """Return {place inside: folder} of the standard library, and of its compiled modules where they lie elsewhere."""
    source = sysconfig.get_path("stdlib")
    place = f"{ROOT}/{sys.platlibdir}/{os.path.basename(source)}"
    folders = {place: source}
    # Some systems keep compiled modules elsewhere; most have them in the folder that is there already.
    compiled = sysconfig.get_config_var("DESTSHARED") or ""
    if not os.path.isdir(f"{source}/lib-dynload") and os.path.isdir(compiled):
        folders[f"{place}/lib-dynload"] = compiled
    return folders


def _emptied_places(mounts: dict[str, str]) -> list[str]:
    """Return the places where other packages would show through the standard library's folder."""
    return [
        f"{place}/{name}"
        for place, source in mounts.items()
        for name in _PLACES_OF_PACKAGES
        if os.path.isdir(f"{source}/{name}")
    ]


def _packages(more: tuple[str, ...]) -> dict[str, str]:
    """Return {place inside: folder or file} of the packages and their libraries, and of further packages' metadata.

    Further packages may ask for the versions of each other, so that their metadata is there, too.
    """
    folders: dict[str, str] = {}
    for name in NAMES:
        folders |= _folders(name, "sandbox")
    for package in more:
        for name, distributed in MORE_PACKAGES[package].items():
            folders |= _folders(name, package)
            metadata = [file for file in _distribution(distributed, package).files or () if file.name == "METADATA"]
            folders |= {f"{PACKAGES}/{'/'.join(file.parts[-2:])}": str(file.locate()) for file in metadata}
    return folders


def _folders(name: str, extra: str) -> dict[str, str]:
    """Return {place inside: folder} of a package, and of its `.libs` if there; MissingExtra if it is not installed."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(name, extra, "the sandbox bwrap")
    source = os.path.abspath(spec.submodule_search_locations[0])
    place = f"{PACKAGES}/{name}"
    return {place: source} | ({f"{place}.libs": f"{source}.libs"} if os.path.isdir(f"{source}.libs") else {})


def _libraries(python: str, sources: list[str]) -> dict[str, str]:
    """Return {place inside: file} of the shared libraries that this Python and its compiled modules load.

    The system's loader is asked: it lists what a program would load, without running it, where LD_TRACE_LOADED_OBJECTS is set.
    Lines are `name => path (address)`; the loader itself has a path only, and must stand where programs look for it.
    """
    with tempfile.TemporaryDirectory() as links:
        places = [_without_separators(source, f"{links}/{number}") for number, source in enumerate(sources)]
        modules = [
            str(path) for place in places for path in _modules(Path(place)) if not path.name.startswith("_tkinter")
        ]
        trace = _trace(python, modules)
    inside = (*(f"{source}/" for source in sources), *modules)
    libraries: dict[str, str] = {}
    for line in trace.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        path = (rest if arrow else name).rpartition(" (0x")[0]
        if os.path.isfile(path) and not os.path.normpath(path).startswith(inside):
            libraries[f"{ROOT}/libraries/{name}" if arrow else path] = os.path.realpath(path)
    return libraries


def _without_separators(source: str, link: str) -> str:
    """Return a path of a source without spaces and colons, which separate names in LD_PRELOAD: behind a link, if need be."""
    if not set(source) & set(" :"):
        return source
    os.symlink(os.path.dirname(source), link)  # its folder, as libraries may lie beside it
    return f"{link}/{os.path.basename(source)}"


def _modules(folder: Path) -> Iterator[Path]:
    """Return the compiled modules of a package's folder, or of the standard library's (but of no package inside it)."""
    inside = folder / "lib-dynload"
    return inside.glob("*.so") if inside.is_dir() else folder.rglob("*.so")


def _trace(program: str, preload: list[str]) -> str:
    """Return the dynamic linker's trace of a program's libraries, or "" if it cannot be run."""
    environment = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_PRELOAD": " ".join(preload)}
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            [program], env=environment, capture_output=True, text=True, check=False, timeout=60
        ).stdout
    return ""
