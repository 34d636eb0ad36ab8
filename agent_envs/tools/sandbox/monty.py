"""The `monty` backend runs pydantic-monty, an interpreter in Rust of a subset of Python, in worker processes of its own.

A worker gets no file, no network, no process and no clock: time stands still, `random` is
seeded, sleeping takes no time. Its allocator holds the memory limit; both time limits and the output limit are held from
outside, by the watchdog, which kills the worker. A limit that kills is never left to the code to catch.

The package pydantic-monty is imported here and nowhere else, and in a forked child a second time. Its native library keeps
threads and locks for the whole process, and a fork copies the locks but not the threads: a forked child of a process that has
used it would wait forever (gymnasium's asynchronous vector environments fork). So such a child loads a copy of the library,
which has a state of its own, and leaves the parent's objects untouched for as long as it lives.
"""

import atexit
import contextlib
import ctypes
import hashlib
import importlib
import importlib.util
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import datetime
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.tools.sandbox.last_expression import split_last
from agent_envs.tools.sandbox.port import ExecResult, Limits, SandboxSpec
from agent_envs.tools.sandbox.processes import Process, Watch, Watchdog, out_of_memory_kills

PACKAGE, VERSION = "pydantic-monty", "1.4.0"  # its subset and its divergences are part of an environment's version
MODULE, NATIVE = "pydantic_monty", "pydantic_monty._monty"
_lock = threading.Lock()
_inherited = False
_library = ""


def monty_package() -> Any:
    """Return the package, in a forked child a new copy; MissingExtra if not installed, EnvFault if it cannot be copied.

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
            package, _inherited = _load_copy(), False
        return package


def monty_version() -> str:
    """Return name and version of the backend; MissingExtra if it is not installed, UsageError for another version.

    Raises:
        MissingExtra: pydantic-monty is not installed.
        UsageError: another version is.
    """
    installed = monty_package().__version__
    if installed != VERSION:
        raise UsageError(
            f"the sandbox monty is made for {PACKAGE} {VERSION}, and {installed} is installed, which may give other results: "
            f'pip install "{PACKAGE}=={VERSION}"'
        )
    return f"{PACKAGE} {installed}"


def used_by_parent() -> None:
    """Mark the package as used by the parent of a forked child: it is loaded anew at next use."""
    global _inherited, _lock
    _inherited, _lock = True, threading.Lock()


def leave_to_parent(thing: Any) -> None:
    """Keep objects of the parent's package alive in a forked child.

    Its destruction would speak to the parent's workers, through the pipes that parent and child share.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _load_copy() -> Any:
    """Import the package anew over a copy of its library, as the loader takes one file for one library; EnvFault if not."""
    for name in [name for name in sys.modules if name.partition(".")[0] == MODULE]:
        leave_to_parent(sys.modules.pop(name))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, Path(_library).name)
        try:
            shutil.copyfile(_library, copy)
        except OSError as error:
            raise EnvFault(f"sandbox monty: its library cannot be copied for a forked process: {error}") from error
        sys.meta_path.insert(0, _CopyFinder(copy))
        try:
            return importlib.import_module(MODULE)
        finally:
            del sys.meta_path[0]


class _CopyFinder:
    """Finds the native module in another file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the native module's spec for the import system; None for other modules."""
        return importlib.util.spec_from_file_location(name, self._path) if name == NATIVE else None


MOST_WORKERS, WAIT_SECONDS = 32, 60.0  # the pool sees to it that nobody waits
MOST_SUSPENSIONS = 1_000_000  # calls that leave the worker: names that are not there, files that it may not have
MORNING = datetime(2026, 1, 1)
SHA_BYTES = 32
# The text of a value is made and cut inside; `f"{x!r}"` stays what it is even where code has redefined `repr`.
_ECHO = '{before}(lambda value: None if value is None else f"{{value!r}}"[:{most}])((\n{last}\n))'
_BARE = "{code}\n\nNone"  # whatever the last statement is, no object leaves the worker


class MontyBackend:
    """Workers for sessions, in one pool that is made at first use."""

    most = MOST_WORKERS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Any = None
        self._used = False
        self._watchdog = Watchdog()

    def open(self, spec: SandboxSpec, saved: bytes | None) -> "MontyInterpreter":
        """Return a fresh interpreter, or one with the memory that was saved (see `Backend`); EnvFault for a damaged memory."""
        # A dump's own checks let half of all flipped bits pass (measured), so it is held against our digest first.
        if saved is not None and hashlib.sha256(saved[SHA_BYTES:]).digest() != saved[:SHA_BYTES]:
            raise EnvFault("sandbox monty: a saved memory does not match its sha256", retryable=False)
        package = monty_package()
        assert spec.limits.memory_mb is not None
        session = self._workers(package).checkout(
            limits={
                "max_memory": spec.limits.memory_mb * 2**20,
                "max_recursion_depth": spec.limits.recursion,
                "max_suspensions": MOST_SUSPENSIONS,
            },
            os_policy={"datetime": MORNING, "sleep": "zero", "random_start": {"seed": spec.seed}},
            assert_message_annotations=False,
        )
        try:
            session.__enter__()
            if saved is not None:
                session.load_session(saved[SHA_BYTES:])
            return MontyInterpreter(package, session, self._watchdog)
        except (package.MontyError, RuntimeError, OSError) as error:
            _leave_quietly(package, session)
            raise EnvFault(f"sandbox monty: no worker: {error}") from error

    def _workers(self, package: Any) -> Any:
        """Return the pool of workers, opened at first use; EnvFault if they do not start."""
        with self._lock:
            if self._pool is None:
                try:
                    pool = package.Monty(min_processes=1, max_processes=MOST_WORKERS, checkout_timeout=WAIT_SECONDS)
                    pool.__enter__()
                except (package.MontyError, RuntimeError, OSError) as error:
                    raise EnvFault(f"sandbox monty: its workers do not start: {error}") from error
                self._pool, self._used = pool, True
                atexit.register(self.close)
            return self._pool

    def close(self) -> None:
        """End all workers; the next session begins with new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            atexit.unregister(self.close)
            pool.__exit__(None, None, None)

    def renew(self) -> None:
        """Begin again in a forked child, without the parent's pool."""
        if self._used:
            used_by_parent()
            leave_to_parent(self._pool)
        atexit.unregister(self.close)
        self.__init__()  # type: ignore[misc]


class MontyInterpreter:
    """One session of one worker."""

    def __init__(self, package: Any, session: Any, watchdog: Watchdog) -> None:
        """Take over a session of a worker; EnvFault if the worker has no process."""
        self._package, self._session, self._watchdog = package, session, watchdog
        pid = session.worker_pid
        if pid is None:
            raise EnvFault("sandbox monty: the worker has no process")
        self.process = Process(pid)
        self._short_of_memory = 0

    def alive(self) -> bool:
        """Return whether the worker still runs."""
        return self.process.alive()

    def run(self, code: str, limits: Limits) -> ExecResult:
        """Run a cell (see `Interpreter`); its own errors and passed limits are results, a broken worker is an EnvFault."""
        self._short_of_memory = out_of_memory_kills()
        package = self._package
        with self._watchdog.over(self.process, limits) as watch:
            printed = _OutputBuffer(limits.output_bytes, lambda: watch.end("output"))
            value = status = error = ""
            try:
                value, status = self._feed(code, limits, printed), "ok"
            except package.MontyCrashedError as crash:
                status, error = _crash_status(watch, str(crash), self._short_of_memory)
            except (package.MontySyntaxError, package.MontyRuntimeError) as raised:
                status = "memory" if isinstance(raised.exception(), MemoryError) else "error"
                error = raised.display(format="type-msg")
            except (package.MontyError, RuntimeError, OSError) as broken:
                raise EnvFault(f"sandbox monty: {type(broken).__name__}: {broken}") from broken
            # A limit that was passed in the last moment counts, though the worker answered before it was killed.
            if watch.verdict and status in ("ok", "error"):
                (status, error), value = watch.explain(), ""
            cpu_ms = watch.cpu_seconds_used() * 1_000
        return ExecResult(status, printed.text(), value, error, printed.full, cpu_ms)

    def _feed(self, code: str, limits: Limits, printed: "_OutputBuffer") -> str:
        """Run a cell and return its last expression's value as text; "" for None, or where it only parses as a whole."""
        split = split_last(code)
        if split is not None:
            before, last = split
            echo = _ECHO.format(before=before, last=last, most=limits.output_bytes + 1)
            # Nothing runs before all of it parses. What does not parse so may do as it stands.
            with contextlib.suppress(self._package.MontySyntaxError):
                return str(self._session.feed_run(echo, print_callback=printed.take) or "")
        self._session.feed_run(_BARE.format(code=code), print_callback=printed.take)
        return ""

    def save(self) -> bytes:
        """Return the worker's memory behind its sha256 (see `Interpreter`); EnvFault where it cannot be dumped."""
        try:
            dump: bytes = self._session.dump()
        except (self._package.MontyError, RuntimeError, OSError) as error:
            raise EnvFault(f"sandbox monty: no dump: {error}") from error
        return hashlib.sha256(dump).digest() + dump

    def close(self) -> None:
        """Return the worker to the pool."""
        _leave_quietly(self._package, self._session)
        self.process.close()

    def forget(self) -> None:
        """Leave the session to the parent in a forked child."""
        leave_to_parent(self._session)
        self.process.forget()


class _OutputBuffer:
    """The printed output of a cell, up to the limit; beyond it the worker is ended."""

    def __init__(self, most: int, end: Callable[[], None]) -> None:
        self._most, self._end = most, end
        self._parts: list[bytes] = []
        self._size, self.full = 0, False

    def take(self, stream: str, text: str) -> None:
        """Take a piece of output up to the limit; the piece that passes it ends the worker, and later ones are dropped."""
        if self.full:
            return
        piece = text.encode("utf-8", "replace")
        self._parts.append(piece[: self._most - self._size])
        self._size += len(piece)
        if self._size > self._most:
            self.full = True
            self._end()

    def text(self) -> str:
        """Return all of it."""
        return b"".join(self._parts).decode("utf-8", "ignore")


def _crash_status(watch: Watch, why: str, short_of_memory: int) -> tuple[str, str]:
    """Return (status, error) of a cell whose worker died: a limit, memory or killed; EnvFault if killed from outside.

    Args:
        watch: over the cell.
        why: in the package's words.
        short_of_memory: how many processes the system had ended for want of memory when the cell began.

    Raises:
        EnvFault: it was killed from outside; code in a worker has no way to send a signal.
    """
    if watch.verdict:
        return watch.explain()
    if "SIGXCPU" in why:
        watch.verdict = "cpu"
        return watch.explain()
    if "SIGKILL" in why and out_of_memory_kills() > short_of_memory:
        return "memory", ""
    if "SIGKILL" in why or "SIGTERM" in why or "while sending" in why:
        raise EnvFault(f"sandbox monty: {why}")
    return "killed", "Killed: the interpreter broke down on this code"


def _leave_quietly(package: Any, session: Any) -> None:
    """Leave a session; errors of the package and the system are suppressed."""
    with contextlib.suppress(package.MontyError, RuntimeError, OSError):
        session.__exit__(None, None, None)
