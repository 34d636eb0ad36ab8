"""The fork server of `bwrap` is started from here, asked for a child for each session, and asked how a child ended."""

import array
import base64
import contextlib
import json
import os
import queue
import shutil
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.tools.sandbox.mounts import NAMES, PACKAGES, bwrap_command
from agent_envs.tools.sandbox.port import MORE_PACKAGES
from agent_envs.tools.sandbox.processes import KILL, Process
from agent_envs.tools.sandbox.seccomp import filter_program

SPARES = 2
START_SECONDS, ANSWER_SECONDS = 120.0, 30.0
_MESSAGE = 1 << 12


@dataclass(frozen=True, slots=True)
class Child:
    """A session's process that has no settings yet: its number inside, and the files of its socket and of what it prints."""

    pid: int
    cells: int
    printed: int

    def close(self) -> None:
        """Close socket and output; the process, cut off from the host, ends by itself."""
        os.close(self.cells)
        os.close(self.printed)


class Starter:
    """One thread that starts all sandboxes: `--die-with-parent` means the thread that started one, not the process."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any] | None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], Any], wait: bool = True) -> Any:
        """Run work in the thread; return its result or raise its error, or with `wait` False return None at once."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="sandbox-starter", daemon=True)
                self._thread.start()
        answer: queue.SimpleQueue[Any] | None = queue.SimpleQueue() if wait else None
        self._orders.put((work, answer))
        if answer is None:
            return None
        result, error = answer.get()
        if error is not None:
            raise error
        return result

    def _serve(self) -> None:
        """Run the orders of other threads, one after the other, and hand back results and errors."""
        while True:
            work, answer = self._orders.get()
            result = error = None
            try:
                result = work()
            except Exception as raised:  # noqa: BLE001 - it is raised again by the one who waits
                error = raised
            if answer is not None:
                answer.put((result, error))


class ForkServer:
    """A running sandbox. Threads may share it."""

    def __init__(self, starter: Starter, preload: bool, packages: tuple[str, ...] = ()) -> None:
        """Start it and wait until it is ready.

        Raises:
            UsageError: the system refuses the namespaces.
            EnvFault: it did not start.
        """
        self._starter, self._lock = starter, threading.Lock()
        self._spares: deque[Child] = deque()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = bwrap_command(packages)
        program = shutil.which(command[0]) or command[0]
        with theirs:
            self._bwrap: subprocess.Popen[bytes] = starter.do(
                lambda: subprocess.Popen(
                    [program, *command[1:]],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={},
                    start_new_session=True,
                )
            )
        self.process = Process(self._bwrap.pid)
        try:
            names = [*NAMES, *(name for package in packages for name in MORE_PACKAGES[package])]
            self._greet(names if preload else [])
        except BaseException:
            self.close()
            raise
        self._drop_errors()

    def _greet(self, preload: list[str]) -> None:
        """Send settings to the fork server and wait until it is ready; UsageError without user namespaces, else EnvFault."""
        settings = {
            "filter": base64.b64encode(filter_program()).decode(), "packages": PACKAGES, "preload": preload,
        }  # fmt: skip
        self._control.settimeout(START_SECONDS)
        with contextlib.suppress(OSError, ValueError):
            self._control.send(json.dumps(settings).encode())
            if json.loads(self._control.recv(_MESSAGE)) == {"ready": True}:
                self._control.settimeout(ANSWER_SECONDS)
                return
        self.process.send(KILL)
        errors = self._errors()
        if errors.startswith("bwrap:"):
            raise UsageError(
                f"the sandbox bwrap cannot start here ({errors.splitlines()[0]}): it needs user namespaces, which this system "
                "or its container refuses; allow them, or use the sandbox monty"
            )
        raise EnvFault(f"sandbox bwrap: the harness did not start: {errors[-500:] or 'it said nothing'}")

    def _errors(self) -> str:
        """Return bwrap's error output, after a wait of at most five seconds for its end."""
        assert self._bwrap.stderr is not None
        self.process.ended(5.0)
        os.set_blocking(self._bwrap.stderr.fileno(), False)
        return (self._bwrap.stderr.read() or b"").decode("utf-8", "replace").strip()

    def _drop_errors(self) -> None:
        """Close the pipe of bwrap's error output."""
        if self._bwrap.stderr is not None:
            self._bwrap.stderr.close()

    def alive(self) -> bool:
        """Return whether it still runs."""
        return self.process.alive()

    def take(self) -> Child:
        """Return a child: a spare one if there is one, while another is made; raises EnvFault where it is lost."""
        with self._lock:
            child = self._spares.popleft() if self._spares else self._fork()
        self._starter.do(self.refill, wait=False)
        return child

    def refill(self) -> None:
        """Make children until there are enough spare ones, one at a time, so that no caller waits; a lost server makes none."""
        with contextlib.suppress(EnvFault):
            while True:
                with self._lock:
                    if len(self._spares) >= SPARES or not self.alive():
                        return
                    self._spares.append(self._fork())

    def reap(self, pid: int) -> int:
        """Return the exit code of a child that has ended, by Python's rule: -9 is a death by signal 9.

        Raises EnvFault: it is lost.
        """
        with self._lock:
            return int(self._ask({"do": "reap", "pid": pid}, 0)[0]["status"])

    def _fork(self) -> Child:
        """Ask the fork server for a new child, and return it with its files."""
        answer, files = self._ask({"do": "fork"}, 2)
        return Child(int(answer["pid"]), *files)

    def _ask(self, order: dict[str, Any], files: int) -> tuple[Any, list[int]]:
        """Send an order, and return the answer and the file descriptors that came with it; EnvFault if the server is lost."""
        try:
            self._control.send(json.dumps(order).encode())
            room = socket.CMSG_SPACE(files * array.array("i").itemsize)
            text, extra, _, _ = self._control.recvmsg(_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
            numbers = array.array("i")
            for level, kind, data in extra:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
            if len(numbers) != files:
                raise ValueError("it is gone")
            return json.loads(text), list(numbers)
        except (OSError, ValueError) as error:
            self.process.send(KILL)
            raise EnvFault(f"sandbox bwrap: the fork server is lost ({error})") from error

    def close(self) -> None:
        """Kill it with all its sessions, and close its files."""
        self.process.send(KILL)
        with self._lock:
            self._drop_files()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._bwrap.wait(10.0)
        self.process.close()

    def forget(self) -> None:
        """Drop the server in a forked child, where it belongs to the parent."""
        self._drop_files()
        self._bwrap.returncode = 0  # it is not ours to wait for, and no warning is due
        self.process.forget()

    def _drop_files(self) -> None:
        """Close the control socket, the error output and the spare children."""
        self._control.close()
        self._drop_errors()
        while self._spares:
            self._spares.pop().close()
