"""Rows are replayed in processes of their own, bounded in time and memory and without a network, and what is checked is kept.

A row that takes longer than its time, or whose process dies, is not verified; the others are. A journal keeps what was checked
under the sha256 of the line, so that a killed packing or verification goes on.
"""

import contextlib
import os
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from agent_envs.base.cache_dir import cache_dir
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import digest
from agent_envs.base.version import VERSION
from agent_envs.evaluation.submission.replaying import Checked, RowReplayer
from agent_envs.evaluation.suites.suite import Suite, read_suite, suite_text
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

SCHEMA = "agent-envs/checked@1"
SECONDS = 120.0
MOST_MEMORY = 2_000_000_000
_ROWS, _BYTES = 16, 1_000_000  # of a batch
Line = tuple[str, bytes]  # label of the entry, and the line without its end


@dataclass(frozen=True)
class Replaying:
    """How rows are replayed.

    Attributes:
        suite: that they are rows of.
        externals: recorded answers of outside services, a journal; None where there are none.
        jobs: processes; 0 for this one, which nothing bounds: for rows of one's own.
        seconds: that a row may take.
        flags: whether actions are compared with the built-in solver's.
    """

    suite: Suite
    externals: Path | None = None
    jobs: int = 0
    seconds: float = SECONDS
    flags: bool = False


def check_lines(lines: Iterable[Line], how: Replaying) -> Iterator[tuple[int, Checked]]:
    """Yield (number from 0, what a replay makes of the line), in the order in which they are checked."""
    if how.jobs:
        with contextlib.closing(_Pool(how)) as pool:
            yield from pool.run(lines)
        return
    with _replayer(how) as replayer:
        for number, (label, line) in enumerate(lines):
            with contextlib.redirect_stdout(sys.stderr):
                checked = replayer.check(label, line)
            yield number, checked


class Memory:
    """What was checked before, by the sha256 of the line; good for one suite and one set of recorded answers."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._known: dict[str, Checked] = {}

    def check(self, lines: Iterable[Line], how: Replaying) -> Iterator[tuple[int, Checked]]:
        """Yield as `check_lines` does, without replaying again what is known."""
        given: list[tuple[int, str]] = []
        known: deque[tuple[int, Checked]] = deque()

        def unknown() -> Iterator[Line]:
            for number, (label, line) in enumerate(lines):
                name = sha256(label.encode() + b"\0" + line).hexdigest()
                if name in self._known:
                    known.append((number, self._known[name]))
                else:
                    given.append((number, name))
                    yield label, line

        for place, checked in check_lines(unknown(), how):
            number, name = given[place]
            if not checked.unknown:  # it may be known another time
                self._keep(name, checked)
            yield number, checked
        yield from known

    def _keep(self, name: str, checked: Checked) -> None:
        self._known[name] = checked


class Ledger(Memory):
    """A memory in an append-only file, which a killed process leaves behind.

    It lies in the cache folder, where no submission can lay one, under a name that says what was checked and with what.
    """

    def __init__(self, what: str, how: Replaying) -> None:
        """Open the file of one packing or verification.

        Args:
            what: a digest of what is checked, outside answers included.
            how: the suite, and what is asked of rows.

        Raises:
            UsageError: it cannot be written, or another process is writing it.
        """
        super().__init__()
        head = {"schema": SCHEMA, "what": what, "suite": how.suite.digest(), "flags": how.flags, "package": VERSION,
                "python": platform.python_version(), "numpy": version("numpy")}  # fmt: skip
        self.path = cache_dir() / "checked" / f"{digest(head)[:32]}.jsonl"
        self._journal = Journal(self.path)
        rows = read_journal(self.path)
        if next(rows, None) is None:
            self._journal.append(head)
        self._known = {row["line"]: _checked(row["checked"]) for row in rows}

    def close(self, *, finished: bool = False) -> None:
        """Release the file, and remove it when nothing is left to go on with."""
        self._journal.close()
        if finished:
            self.path.unlink(missing_ok=True)

    def _keep(self, name: str, checked: Checked) -> None:
        super()._keep(name, checked)
        self._journal.append({"line": name, "checked": asdict(checked)})


def _checked(row: dict[str, Any]) -> Checked:
    return Checked(**{**row, "findings": tuple(row["findings"])})


@contextlib.contextmanager
def _replayer(how: Replaying) -> Iterator[RowReplayer]:
    with contextlib.ExitStack() as stack:
        path = how.externals
        if path is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "externals.jsonl"
            path.touch()
        recording = stack.enter_context(Recording(path, "replay"))
        yield RowReplayer(how.suite, Services(recording), how.flags)


@dataclass
class _Batch:
    lines: list[tuple[int, str, bytes]]
    size: int = 0


@dataclass
class _Worker:
    process: Any
    connection: Connection
    batch: _Batch | None = None
    started: float = 0.0
    left: deque[int] = field(default_factory=deque)


class _Pool:
    """Processes that each hold one batch at a time; one that dies or takes too long is replaced, its rows tried one by one."""

    def __init__(self, how: Replaying) -> None:
        self._how = how
        self._text = suite_text(how.suite)
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []

    def run(self, lines: Iterable[Line]) -> Iterator[tuple[int, Checked]]:
        waiting, again = _batches(lines), deque[_Batch]()
        while True:
            for worker in [item for item in self._workers if item.batch is None]:
                self._give(worker, again, waiting)
            while len(self._workers) < self._how.jobs:
                batch = again.popleft() if again else next(waiting, None)
                if batch is None:
                    break
                self._workers.append(self._begun(batch))
            busy = [worker for worker in self._workers if worker.batch is not None]
            if not busy:
                return
            wait([worker.connection for worker in busy], timeout=1.0)
            for worker in busy:
                yield from self._heard(worker, again)

    def close(self) -> None:
        for worker in self._workers:
            worker.connection.close()  # an idle one ends by itself
        for worker in self._workers:
            worker.process.join(0.0 if worker.left else 2.0)
            self._end(worker)
        self._workers.clear()

    def _begun(self, batch: _Batch) -> _Worker:
        ours, theirs = self._context.Pipe()
        how = self._how
        work = (theirs, self._text, how.externals, how.flags)
        process = self._context.Process(target=_work, args=work, daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._send(worker, batch)
        return worker

    def _give(self, worker: _Worker, again: deque[_Batch], waiting: Iterator[_Batch]) -> None:
        batch = again.popleft() if again else next(waiting, None)
        if batch is not None:
            self._send(worker, batch)

    def _send(self, worker: _Worker, batch: _Batch) -> None:
        worker.batch, worker.started = batch, time.monotonic()
        worker.left = deque(number for number, _, _ in batch.lines)
        with contextlib.suppress(OSError):  # a dead one is found when it is heard
            worker.connection.send(batch.lines)

    def _heard(self, worker: _Worker, again: deque[_Batch]) -> Iterator[tuple[int, Checked]]:
        alive = True
        try:
            while worker.left and worker.connection.poll():
                checked = worker.connection.recv()
                worker.started = time.monotonic()
                yield worker.left.popleft(), checked
        except (EOFError, OSError):
            alive = False
        if not worker.left:
            worker.batch = None
        elif not alive or time.monotonic() - worker.started > self._how.seconds:
            why = f"its replay took more than {self._how.seconds:g} s" if alive else "its process died (memory?)"
            yield from self._lost(worker, why, again)

    def _lost(self, worker: _Worker, why: str, again: deque[_Batch]) -> Iterator[tuple[int, Checked]]:
        """Give up the row that was being replayed, and lay the rest of its batch aside for another process."""
        assert worker.batch is not None
        number = worker.left.popleft()
        rest = [line for line in worker.batch.lines if line[0] in worker.left]
        if rest:
            again.append(_Batch(rest))
        self._end(worker)
        self._workers.remove(worker)
        yield number, Checked(unknown=why)

    def _end(self, worker: _Worker) -> None:
        worker.connection.close()
        worker.process.kill()
        worker.process.join()


def _batches(lines: Iterable[Line]) -> Iterator[_Batch]:
    batch = _Batch([])
    for number, (label, line) in enumerate(lines):
        if batch.lines and (len(batch.lines) >= _ROWS or batch.size + len(line) > _BYTES):
            yield batch
            batch = _Batch([])
        batch.lines.append((number, label, line))
        batch.size += len(line)
    if batch.lines:
        yield batch


def _work(connection: Connection, text: str, externals: Path | None, flags: bool) -> None:
    """Replay what comes until nothing comes any more; environments' prints go nowhere."""
    _bound()
    replaying = Replaying(read_suite(text, "the suite"), externals, flags=flags)
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        with _replayer(replaying) as replayer, contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
            while True:
                for _, label, line in connection.recv():
                    connection.send(replayer.check(label, line))


def _bound() -> None:
    """Bound this process's memory, and refuse every call to the network for as long as it lives."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limits
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        outward = event in ("socket.getaddrinfo", "socket.gethostbyname")
        if event in ("socket.connect", "socket.sendto"):
            outward = isinstance(arguments[1], tuple)  # addresses of this machine's own sockets are texts
        if outward:
            raise PermissionError("a replay asks nothing outside")

    sys.addaudithook(look)
