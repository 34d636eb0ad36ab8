"""The `bwrap` backend runs CPython, numpy and sympy in Linux namespaces, without writable files, network or new processes.

One bubblewrap holds a fork server (`harness`) and, as its children, the sessions. Each session has a socket and a pipe to this
process, which the kernel tells its number; so limits are held, and ends are judged, from here. Between cells a session is
stopped, so that code which pretends to have ended gains no time. Python's clocks stand still. State is in the process alone,
for nothing can be written anywhere; and a session is brought back by running its cells in a fresh child.
"""

import atexit
import contextlib
import os
import secrets
import select
import signal
import socket
import struct
import threading
from typing import Any

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.protocol import sound_json
from agent_envs.tools.sandbox.fork_server import ANSWER_SECONDS, Child, ForkServer, Starter
from agent_envs.tools.sandbox.harness import LENGTH, framed
from agent_envs.tools.sandbox.port import ExecResult, Limits, SandboxSpec
from agent_envs.tools.sandbox.processes import KILL, Process, Watch, out_of_memory_kills

LEAST_MEMORY_MB = 512
MOST_SESSIONS = 64
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
LONGEST_ESCAPE, OTHER_CHARACTERS = 6, 16_384  # of a character in JSON; the error and the frame around it
_READ = 1 << 16


class BwrapBackend:
    """Fork servers, made at first use and made again where one is lost."""

    most = MOST_SESSIONS

    def __init__(self) -> None:
        self._lock, self._starter = threading.Lock(), Starter()
        self._fork_servers: dict[tuple[bool, tuple[str, ...]], ForkServer] = {}

    def open(self, spec: SandboxSpec, saved: bytes | None) -> "BwrapInterpreter":
        """Open a fresh interpreter (see `Backend`), a second try after a lost server; UsageError for too little memory."""
        memory = spec.limits.memory_mb
        if memory is None or memory < LEAST_MEMORY_MB:
            raise UsageError(
                f"sandbox bwrap: memory_mb={memory} is address space, and CPython with numpy and sympy takes most of "
                f"{LEAST_MEMORY_MB} before a cell runs; give at least that"
            )
        try:
            return self._open_interpreter(spec)
        except EnvFault:  # the server may have been lost while it was idle; a new one that fails as well is a fault
            return self._open_interpreter(spec)

    def _open_interpreter(self, spec: SandboxSpec) -> "BwrapInterpreter":
        """Open an interpreter in a child of the fork server with the spec's preloads and packages."""
        fork_server = self._fork_server(spec.preload, spec.packages)
        return BwrapInterpreter(fork_server, fork_server.take(), spec)

    def _fork_server(self, preload: bool, packages: tuple[str, ...]) -> ForkServer:
        """Return the fork server for these packages; a dead one is replaced."""
        with self._lock:
            fork_server = self._fork_servers.get((preload, packages))
            if fork_server is not None and not fork_server.alive():
                fork_server.close()
                fork_server = None
            if fork_server is None:
                self._fork_servers[preload, packages] = fork_server = ForkServer(self._starter, preload, packages)
                atexit.register(self.close)
            return fork_server

    def close(self) -> None:
        """Close all fork servers, and with them all sandboxes."""
        with self._lock:
            fork_servers, self._fork_servers = list(self._fork_servers.values()), {}
        atexit.unregister(self.close)
        for fork_server in fork_servers:
            fork_server.close()

    def renew(self) -> None:
        """Begin again in a forked child, without the parent's processes."""
        for fork_server in self._fork_servers.values():
            fork_server.forget()
        atexit.unregister(self.close)
        self.__init__()  # type: ignore[misc]


class BwrapInterpreter:
    """One session's process."""

    def __init__(self, fork_server: ForkServer, child: Child, spec: SandboxSpec) -> None:
        """Start the session's process with its settings, and stop it until there is a cell; EnvFault if it does not start."""
        self._fork_server, self._child, self._reaped = fork_server, child, False
        settings = {"seed": spec.seed, "memory_mb": spec.limits.memory_mb, "recursion": spec.limits.recursion}
        try:
            self.process = Process(_introduce(child.cells, settings))
        except (OSError, EnvFault) as error:
            child.close()
            raise EnvFault(f"sandbox bwrap: a session did not start ({error})") from error
        for file in (child.cells, child.printed):
            os.set_blocking(file, False)
        self.process.send(signal.SIGSTOP)
        self._short_of_memory = 0

    def alive(self) -> bool:
        """Return whether the process still is there, and the one that it cannot live without."""
        return self._fork_server.alive() and self.process.alive()

    def run(self, code: str, limits: Limits) -> ExecResult:
        """Run a cell (see `Interpreter`); without an answer the result says how it ended, EnvFault if killed from outside."""
        self._short_of_memory = out_of_memory_kills()
        watch = Watch(self.process, limits)
        exchange = _CellExchange(self._child, code, limits)
        self.process.send(signal.SIGCONT)
        answer = exchange.answer(watch)
        # A cell may answer in the harness's name and then end or go on. It has ended when the harness takes another, empty one.
        if answer is not None and _CellExchange(self._child, "", limits).answer(watch) is None:
            answer = None
        self.process.send(signal.SIGSTOP)
        cpu_ms = watch.cpu_seconds_used() * 1_000
        if answer is None:
            status, error = self._end_status(watch)
            return ExecResult(status, exchange.stdout(), "", error, exchange.full, cpu_ms)
        return ExecResult(
            answer["status"], exchange.stdout(), answer["value"], answer["error"], exchange.full, cpu_ms
        )  # fmt: skip

    def _end_status(self, watch: Watch) -> tuple[str, str]:
        """Return (status, error) of a cell without an answer: a limit, memory or killed; EnvFault if killed from outside.

        Raises:
            EnvFault: the process was killed from outside; code in it has no way to send that signal, not even to itself. It can
                have the system send it by taking more memory than the machine has: that is `memory`.
        """
        if watch.verdict:
            return watch.explain()
        alone = self.process.ended(1.0)  # on a busy machine it may close its files well before it is gone
        self.process.send(KILL)
        self.process.ended(ANSWER_SECONDS)
        code = self._reap()
        if not alone:
            return "killed", "Killed: the interpreter's connection was closed or misused"
        if code == -signal.SIGKILL and out_of_memory_kills() > self._short_of_memory:
            return "memory", ""
        if code == -signal.SIGKILL:
            raise EnvFault("sandbox bwrap: the session was killed from outside")
        if code == -signal.SIGXCPU:
            watch.verdict = "cpu"
            return watch.explain()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return "killed", f"Killed: the interpreter ended ({how})"

    def _reap(self) -> int:
        """Return the ended process's exit code, once: its number may be another's afterwards."""
        self._reaped = True
        return self._fork_server.reap(self._child.pid)

    def save(self) -> bytes | None:
        """Return None: a process's memory is not saved."""
        return None

    def close(self) -> None:
        """Kill the process, reap it and close its files."""
        self.process.send(KILL)
        if self.process.ended(ANSWER_SECONDS) and not self._reaped:
            with contextlib.suppress(EnvFault):
                self._reap()
        self._child.close()
        self.process.close()

    def forget(self) -> None:
        """Close our ends in a forked child."""
        self._child.close()
        self.process.forget()


class _CellExchange:
    """One cell sent, its answer and its output received, each within a cap."""

    def __init__(self, child: Child, code: str, limits: Limits) -> None:
        """Frame the cell with a nonce that its answer must repeat."""
        self._cells, self._printed = child.cells, child.printed
        self._most = limits.output_bytes
        self._nonce = secrets.token_hex(16)
        self._unsent = memoryview(framed({"code": code, "nonce": self._nonce, "most": self._most + 1}))
        self._answer, self._output = bytearray(), bytearray()
        self.full = False

    def answer(self, watch: Watch) -> dict[str, Any] | None:
        """Return the harness's answer, or None where the process ended, was ended, or broke the rules."""
        poll = select.poll()
        poll.register(self._printed, select.POLLIN)
        poll.register(self._cells, select.POLLIN | select.POLLOUT)
        while True:
            for number, _ in poll.poll(watch.pause() * 1_000 + 1):
                if number == self._printed:
                    if not self._receive_output(watch):
                        poll.unregister(self._printed)
                    continue
                if self._unsent and self._send():
                    poll.modify(self._cells, select.POLLIN)
                reply = self._receive_answer()
                if reply is not None:
                    self._receive_output(watch)
                    return reply if reply and not watch.verdict else None
            watch.check()
            if watch.verdict:
                self._receive_output(watch)
                return None

    def _send(self) -> bool:
        """Send what the socket takes; return whether that was the rest."""
        with contextlib.suppress(OSError):  # the other end is closed: reading will tell
            self._unsent = self._unsent[os.write(self._cells, self._unsent) :]
        return not self._unsent

    def _receive_answer(self) -> dict[str, Any] | None:
        """Read what there is of the answer; return it when whole, None before, {} where none that counts will come."""
        try:
            piece = os.read(self._cells, _READ)
        except BlockingIOError:
            return None
        except OSError:
            return {}
        self._answer += piece
        size = LENGTH.unpack_from(self._answer)[0] if len(self._answer) >= LENGTH.size else 0
        if not piece or size > LONGEST_ESCAPE * (self._most + OTHER_CHARACTERS):
            return {}
        if len(self._answer) < LENGTH.size + max(size, 1):
            return None
        return _check_answer(bytes(self._answer[LENGTH.size :]), size, self._nonce)

    def _receive_output(self, watch: Watch) -> bool:
        """Read what there is of the output; return whether more can come. Beyond the limit the cell is ended."""
        while True:
            try:
                piece = os.read(self._printed, _READ)
            except BlockingIOError:
                return True
            if not piece:
                return False
            self._output += piece[: self._most - len(self._output) + 1]
            if len(self._output) > self._most:
                self.full = True
                watch.end("output")
                return False

    def stdout(self) -> str:
        """Return the printed text, within the limit."""
        return bytes(self._output[: self._most]).decode("utf-8", "ignore")


def _check_answer(body: bytes, size: int, nonce: str) -> dict[str, Any]:
    """Return an answer that a harness gave to this very cell; empty if it is anything else."""
    try:
        reply = sound_json(body.decode()) if len(body) == size else None
    except ValueError:
        return {}
    if not isinstance(reply, dict) or set(reply) != {"nonce", "status", "value", "error"}:
        return {}
    sound = all(isinstance(text, str) for text in reply.values()) and reply["status"] in ("ok", "error", "memory")
    return reply if sound and reply["nonce"] == nonce else {}


def _introduce(file: int, settings: dict[str, Any]) -> int:
    """Send a child its settings; return its number in our namespace, as the kernel knows the one who says it is ready.

    Raises:
        EnvFault: nobody says so, or the kernel does not know.
        OSError: the child is gone.
    """
    cells = socket.socket(fileno=file)
    try:
        cells.settimeout(ANSWER_SECONDS)
        cells.sendall(framed(settings))
        text, extra, _, _ = cells.recvmsg(256, socket.CMSG_SPACE(CREDENTIALS.size))
        cells.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    finally:
        cells.detach()
    for level, kind, data in extra:
        if text and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid = CREDENTIALS.unpack(data[: CREDENTIALS.size])[0]
            if pid > 0:
                return int(pid)
    raise EnvFault("its process cannot be told")
