"""The package pydantic-monty is imported here and nowhere else, and in a forked child a second time.

Its native library keeps threads and locks for the whole process, and a fork copies the locks but not the threads: a forked
child of a process that has used it would wait forever (gymnasium's asynchronous vector environments fork). So such a child
loads a copy of the library, which has a state of its own, and leaves the parent's objects untouched for as long as it lives.
"""

import ctypes
import importlib
import importlib.util
import shutil
import sys
import tempfile
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError

PACKAGE, VERSION = "pydantic-monty", "1.4.0"  # its subset and its divergences are part of an environment's version
MODULE, NATIVE = "pydantic_monty", "pydantic_monty._monty"
_lock = threading.Lock()
_inherited = False
_library = ""


def monty_package() -> Any:
    """Return the package.

    Raises:
        MissingExtra: it is not installed.
        EnvFault: its library cannot be copied in a forked child.
    """
    global _inherited, _library
    with _lock:
        try:
            package = importlib.import_module(MODULE)
        except ImportError as error:
            raise MissingExtra(PACKAGE, "sandbox", "the sandbox monty") from error
        _library = _library or str(sys.modules[NATIVE].__file__)
        if _inherited:
            package, _inherited = _second(), False
        return package


def monty_version() -> str:
    """Return name and version of the backend.

    Raises:
        MissingExtra: pydantic-monty is not installed.
        UsageError: another version is.
    """
    found = monty_package().__version__
    if found != VERSION:
        raise UsageError(
            f"the sandbox monty is made for {PACKAGE} {VERSION}, and {found} is installed, which may give other results: "
            f'pip install "{PACKAGE}=={VERSION}"'
        )
    return f"{PACKAGE} {found}"


def used_by_parent() -> None:
    """Say in a forked child that the parent has used the package: it is loaded anew at next use."""
    global _inherited, _lock
    _inherited, _lock = True, threading.Lock()


def leave_to_parent(thing: Any) -> None:
    """Never destroy an object of the parent's package in a forked child.

    Its destruction would speak to the parent's workers, through the pipes that parent and child share.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _second() -> Any:
    """Return the package made anew over a copy of its library: the loader takes the same file for the same library."""
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        leave_to_parent(sys.modules.pop(name))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, Path(_library).name)
        try:
            shutil.copyfile(_library, copy)
        except OSError as error:
            raise EnvFault(f"sandbox monty: its library cannot be copied for a forked process: {error}") from error
        sys.meta_path.insert(0, _Copied(copy))
        try:
            return importlib.import_module(MODULE)
        finally:
            del sys.meta_path[0]


class _Copied:
    """Finds the native module in another file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return where the module is, for the import system."""
        return importlib.util.spec_from_file_location(name, self._path) if name == NATIVE else None
