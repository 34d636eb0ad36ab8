"""The harness runs inside `bwrap`: a fork server imports numpy and sympy once, and each of its children runs one session.

This file needs the standard library only; `bwrap` starts it as a script. The server talks to the host over a packet socket (its
standard input) and runs no code of strangers. A child takes its settings, gives up every system call that it does not need, and
runs cells. It sends each result with the cell's own nonce, so that what a cell writes by accident is no result; a cell that
means to can find the nonce, and forges no more than its own output: time, memory and ends are judged outside.
"""

import ast
import base64
import builtins
import contextlib
import ctypes
import fcntl
import gc
import io
import json
import os
import random
import resource
import socket
import struct
import sys
import time
import types
from typing import Any

CONTROL, CELLS = 0, 3
LENGTH = struct.Struct("!I")
MORNING = 1_767_225_600  # 2026-01-01 00:00:00 UTC, where time stands still
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
OPEN_FILES = 64
PIECE = 1 << 14  # characters of printed text that are encoded at a time
# What they import at first use, by integrate, solve, simplify and random numbers: 0.5 s that each session would pay for.
LATE = (
    "numpy.random", "numpy.fft", "numpy.polynomial", "numpy.ma", "sympy.combinatorics.free_groups", "sympy.codegen.ast",
    "sympy.assumptions.wrapper", "sympy.physics.units", "sympy.integrals.risch", "sympy.integrals.heurisch",
    "sympy.integrals.manualintegrate", "sympy.sets.setexpr", "sympy.sets.handlers.functions", "sympy.sets.handlers.issubset",
)  # fmt: skip


def main() -> None:
    """Stop clocks, import preloads, say ready; then fork or reap as the host orders, and exit when it closes the socket."""
    control = socket.socket(fileno=CONTROL)
    settings = json.loads(control.recv(1 << 16))
    sys.path[:] = [path for path in sys.path if "harness" not in path] + [settings["packages"]]
    sys.argv = [""]
    _stop_clocks()
    for name in settings["preload"]:
        __import__(name)
    if settings["preload"]:
        for name in LATE:
            with contextlib.suppress(ImportError):  # another version may lack one
                __import__(name)
    gc.collect()
    gc.freeze()
    libc = ctypes.CDLL(None, use_errno=True)
    program = base64.b64decode(settings["filter"])
    control.send(json.dumps({"ready": True}).encode())
    while True:
        message = control.recv(1 << 12)
        if not message:
            os._exit(0)
        order = json.loads(message)
        if order["do"] == "fork":
            _fork(control, libc, program)
        else:
            control.send(json.dumps({"status": _reap(order["pid"])}).encode())


def _fork(control: socket.socket, libc: Any, program: bytes) -> None:
    """Make a session, and hand the host its socket and the end of its output."""
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # the host learns from the kernel who sends
    output, printed = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _arrange(ours.fileno(), printed)
            CellSession(libc, program).serve()
        finally:
            os._exit(70)
    socket.send_fds(control, [json.dumps({"pid": pid}).encode()], [theirs.fileno(), output])
    for number in (theirs.detach(), ours.detach(), output, printed):
        os.close(number)


def _arrange(cells: int, printed: int) -> None:
    """Set the child's four files: an empty input, the pipe for output and errors, and the host's socket."""
    cells, printed = os.dup(cells), os.dup(printed)  # above the numbers that are given away below
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(cells, 64)
    for number in (1, 2):
        os.dup2(printed, number)
    os.dup2(64, CELLS)
    os.closerange(CELLS + 1, 256)


def _reap(pid: int) -> int:
    """Wait for a child and return its exit code; 0 if it is no child of ours any more."""
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0


def _stop_clocks() -> None:
    """Stop the clocks, make sleep instant and hide differences of machines, so that cells give the same again.

    What asks the system from C still tells the true time (`numpy.datetime64("now")` does): such a cell does not repeat.
    """
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime"):
        instant = 0.0 if name in ("process_time", "thread_time") else float(MORNING)  # as Monty has it
        setattr(time, name, lambda *clock, instant=instant: instant)
        setattr(time, f"{name}_ns", lambda *clock, instant=instant: int(instant) * 10**9)
    for name in ("gmtime", "localtime", "ctime"):
        real = getattr(time, name)
        setattr(time, name, lambda seconds=None, real=real: real(MORNING if seconds is None else seconds))
    asctime, strftime = time.asctime, time.strftime
    time.asctime = lambda moment=None: asctime(time.gmtime(MORNING) if moment is None else moment)
    time.strftime = lambda form, moment=None: strftime(form, time.gmtime(MORNING) if moment is None else moment)
    time.sleep = _sleep  # type: ignore[assignment]
    os.getpid = os.getppid = os.cpu_count = lambda: 1
    os.times, os.getloadavg = (lambda: os.times_result((0.0,) * 5)), (lambda: (0.0, 0.0, 0.0))
    _stop_calendar()


def _sleep(seconds: float, /) -> None:
    """Return at once in place of sleeping; a negative time raises ValueError as Python's does."""
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")


def _stop_calendar() -> None:
    """Replace `datetime` and `date` by classes with a fixed clock that are else the same."""
    import datetime

    day, moment = datetime.date, datetime.datetime

    def now(tz: Any = None) -> Any:
        """Return the fixed moment, in a time zone if one is named."""
        return moment.fromtimestamp(MORNING, datetime.UTC).astimezone(tz) if tz else moment(2026, 1, 1)

    methods = {"now": staticmethod(now), "utcnow": staticmethod(now), "today": staticmethod(now)}
    datetime.datetime = _class_in_front(moment, methods)  # type: ignore[misc]
    datetime.date = _class_in_front(day, {"today": staticmethod(lambda: day(2026, 1, 1))})  # type: ignore[misc]


def _class_in_front(real: Any, methods: dict[str, Any]) -> Any:
    """Subclass a datetime class with other methods; instances stay of the real class, and `isinstance` still holds."""

    def new(cls: Any, *values: Any, **keywords: Any) -> Any:
        """Make an instance of the real class for the class in front; subclasses of that make their own."""
        return real(*values, **keywords) if cls is front else real.__new__(cls, *values, **keywords)

    checks = {
        "__instancecheck__": lambda cls, value: isinstance(value, real) if cls is front else type.__instancecheck__(cls, value),
        "__subclasscheck__": lambda cls, kind: issubclass(kind, real) if cls is front else type.__subclasscheck__(cls, kind),
    }  # fmt: skip
    front: Any = type("front", (type,), checks)(
        real.__name__, (real,), {"__new__": new, "__module__": "datetime", **methods}
    )
    return front


def _seed_entropy(seed: int) -> None:
    """Make the system's entropy a sequence of the seed wherever Python asks for it, and seed `random` and loaded numpy."""
    stream = random.Random(f"entropy:{seed}")
    os.urandom = stream.randbytes
    random._urandom = stream.randbytes  # type: ignore[attr-defined]
    plain = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        """Seed a generator of random numbers; without a seed, from the session's stream in place of the system's entropy."""
        plain(self, int.from_bytes(stream.randbytes(16), "big") if a is None else a, version)

    random.Random.seed = seeded  # type: ignore[method-assign]
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


class CellSession:
    """One session: settings, then cells, until the host closes the socket."""

    def __init__(self, libc: Any, program: bytes) -> None:
        self.main = types.ModuleType("__main__")
        self._libc, self._program = libc, program
        self._open_output()

    def _open_output(self) -> None:
        """Open standard output anew, for text written in pieces."""
        raw = io.FileIO(1, "w", closefd=False)
        self._output = _OutputStream(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")

    def serve(self) -> None:
        """Take settings and give up rights, then run cells for ever."""
        begin = _receive()
        limits = {
            resource.RLIMIT_AS: begin["memory_mb"] * 2**20, resource.RLIMIT_NOFILE: OPEN_FILES, resource.RLIMIT_CORE: 0,
            resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NPROC: 0, resource.RLIMIT_MEMLOCK: 0,
        }  # fmt: skip
        for kind, most in limits.items():
            resource.setrlimit(kind, (most, most))
        sys.setrecursionlimit(begin["recursion"])
        _seed_entropy(begin["seed"])
        sys.modules["__main__"] = self.main
        for name in ("exit", "quit"):
            setattr(builtins, name, sys.exit)
        os.environ.clear()
        self._install_filter()
        _write(framed({"ready": True}))
        while True:
            cell = _receive()
            self._answer(cell["code"], cell["nonce"], cell["most"])

    def _install_filter(self) -> None:
        """Install the filter of system calls, for good; the process ends if the kernel refuses it."""
        steps = ctypes.create_string_buffer(self._program)

        class Program(ctypes.Structure):
            _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

        program = Program(len(self._program) // 8, ctypes.addressof(steps))
        if self._libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or self._libc.prctl(
            PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
        ):
            os._exit(71)

    def _answer(self, code: str, nonce: str, most: int) -> None:
        """Run a cell and send its framed answer; one that is out of memory gets an answer made beforehand."""
        # Made before the cell runs: there may be no memory for it afterwards.
        out_of_memory = framed({"nonce": nonce, "status": "memory", "value": "", "error": "MemoryError"})
        sys.stdout = sys.stderr = self._output
        try:
            answer = {"nonce": nonce, **self._run(code, most)}
            self._flush()
            frame = framed(answer)
        except MemoryError:
            frame = out_of_memory
        fcntl.fcntl(CELLS, fcntl.F_SETFL, 0)
        _write(frame)

    def _run(self, code: str, most: int) -> dict[str, str]:
        """Execute a cell; return status (ok, error, memory), the last expression's cut repr ("" for None), and error line."""
        value = ""
        try:
            tree = ast.parse(code, "<cell>")
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<cell>", "exec"), self.main.__dict__)
            if isinstance(last, ast.Expr):
                result = eval(compile(ast.Expression(last.value), "<cell>", "eval"), self.main.__dict__)  # noqa: S307 - jailed
                value = "" if result is None else repr(result)[:most]
        except BaseException as error:  # noqa: BLE001 - whatever a cell raises is its result
            return {
                "status": "memory" if isinstance(error, MemoryError) else "error",
                "value": "",
                "error": _error_line(error),
            }
        return {"status": "ok", "value": value, "error": ""}

    def _flush(self) -> None:
        """Flush the printed text; open the output anew where the cell closed it."""
        try:
            self._output.flush()
        except (ValueError, OSError):  # the cell closed it
            self._open_output()


class _OutputStream(io.TextIOWrapper):
    """Printed text, handed on in pieces: the host ends a cell that prints too much before all of it is copied."""

    def write(self, text: str, /) -> int:
        """Write a text, a long one piece by piece."""
        if not isinstance(text, str) or len(text) <= PIECE:
            return super().write(text)
        return sum(
            super(_OutputStream, self).write(text[place : place + PIECE]) for place in range(0, len(text), PIECE)
        )


def _error_line(error: BaseException) -> str:
    """Return an error's type and message in a line, cut at 8,192 characters, as a traceback's last line has them."""
    kind = type(error)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )
    try:
        message = f"{error.msg} (line {error.lineno})" if isinstance(error, SyntaxError) else str(error)
    except BaseException:  # noqa: BLE001 - a cell's own class
        message = "<exception str() failed>"
    return f"{name}: {message}"[:8_192] if message else name


def _receive() -> Any:
    """Read the next frame from the host as JSON, once the socket is set to blocking."""
    fcntl.fcntl(
        CELLS, fcntl.F_SETFL, 0
    )  # blocking again: a cell may have changed that, and reading would end us by chance
    return json.loads(_read(LENGTH.unpack(_read(LENGTH.size))[0]))


def _read(size: int) -> bytes:
    """Read exactly `size` bytes from the host; the process exits where the host has closed the socket."""
    parts = []
    while size:
        part = os.read(CELLS, min(size, 1 << 16))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def framed(value: dict[str, Any]) -> bytes:
    """Return a value as it is sent, behind the length of its text; the host sends in this form, too."""
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return LENGTH.pack(len(body)) + body


def _write(frame: bytes) -> None:
    """Write a whole frame to the host, in as many pieces as the socket takes."""
    view = memoryview(frame)
    while view:
        view = view[os.write(CELLS, view) :]


if __name__ == "__main__":
    main()
