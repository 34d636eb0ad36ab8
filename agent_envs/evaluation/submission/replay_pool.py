"""Rows are replayed in bounded processes, and what was checked is kept, so that a killed packing or verification goes on.

A row that takes longer than its time, or whose process dies, is not verified; the others are.
"""

import contextlib
import os
import platform
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agent_envs.base.caches import cache_dir
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import digest
from agent_envs.base.version import VERSION
from agent_envs.evaluation.submission.replaying import Checked, RowReplayer
from agent_envs.evaluation.suites.suite import Suite, read_suite, suite_text
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from agent_envs.tools.bounded_processes import BoundedProcesses, Lost

SCHEMA = "agent-envs/checked@2"
SECONDS = 120.0
Progress = Callable[[int, int], None]
Line = tuple[str, bytes]  # label of the entry, and the line without its end


@dataclass(frozen=True)
class Replaying:
    """The settings of a replay."""

    suite: Suite  # that they are rows of
    externals: Path | None = None  # recorded answers of outside services, a journal; None where there are none
    jobs: int = 0  # processes; 0 for this one, which nothing bounds: for rows of one's own
    seconds: float = SECONDS  # that a row may take
    flags: bool = False  # whether actions are compared with the built-in solver's
    keep: str = ""  # what was checked stays cached for this digest of the code that checks; "": until all is checked


def check_lines(lines: Iterable[Line], how: Replaying) -> Iterator[tuple[int, Checked]]:
    """Replay lines, in `how.jobs` processes or here; yield (number from 0, result) as they are checked, lost ones unknown."""
    if how.jobs:
        work = (suite_text(how.suite), how.externals, how.flags)
        with contextlib.closing(BoundedProcesses(how.jobs, how.seconds, _checker, *work)) as processes:
            for number, checked in processes.run(lines):
                if isinstance(checked, Lost):
                    checked = Checked(unknown=f"its replay is not known: {checked.why}")
                yield number, checked
        return
    with _replayer(how) as replayer:
        for number, (label, line) in enumerate(lines):
            with contextlib.redirect_stdout(sys.stderr):
                checked = replayer.check(label, line)
            yield number, checked


class Checks:
    """Results of earlier replays, by the sha256 of the line; good for one suite and one set of recorded answers."""

    def __init__(self) -> None:
        self._checks: dict[str, Checked] = {}

    def check(self, lines: Iterable[Line], how: Replaying) -> Iterator[tuple[int, Checked]]:
        """Yield (number, result) of each line, known results last and not replayed again; new ones are kept unless unknown."""
        pending: list[tuple[int, str]] = []
        hits: deque[tuple[int, Checked]] = deque()

        def unknown() -> Iterator[Line]:
            """Yield the lines without a kept check, and note for each line whether it is a hit or pending."""
            for number, (label, line) in enumerate(lines):
                name = sha256(label.encode() + b"\0" + line).hexdigest()
                if name in self._checks:
                    hits.append((number, self._checks[name]))
                else:
                    pending.append((number, name))
                    yield label, line

        for place, checked in check_lines(unknown(), how):
            number, name = pending[place]
            if not checked.unknown:  # it may be known another time
                self._keep(name, checked)
            yield number, checked
        yield from hits

    def _keep(self, name: str, checked: Checked) -> None:
        """Store the result of a replay in memory."""
        self._checks[name] = checked


class Ledger(Checks):
    """Results of replays in an append-only file, which a killed process leaves behind.

    It lies in the cache folder, where no submission can lay one, under a name that says what was checked and with what.
    """

    def __init__(self, what: str, how: Replaying) -> None:
        """Open the file of one packing or verification; `what` is a digest of what is checked, outside answers included.

        Raises:
            UsageError: it cannot be written, or another process is writing it.
        """
        super().__init__()
        head = {"schema": SCHEMA, "what": what, "suite": how.suite.digest(), "flags": how.flags, "package": VERSION + how.keep,
                "python": platform.python_version(), "numpy": version("numpy")}  # fmt: skip
        self.path = cache_dir() / "checked" / f"{digest(head)[:32]}.jsonl"
        self._journal = Journal(self.path)
        rows = read_journal(self.path)
        if next(rows, None) is None:
            self._journal.append(head)
        self._checks = {row["line"]: _checked(row["checked"]) for row in rows}

    def close(self, *, finished: bool = False) -> None:
        """Release the file, and remove it where all is `finished`, as nothing is left to go on with."""
        self._journal.close()
        if finished:
            self.path.unlink(missing_ok=True)

    def _keep(self, name: str, checked: Checked) -> None:
        """Store the result of a replay in memory, and append it to the journal."""
        super()._keep(name, checked)
        self._journal.append({"line": name, "checked": asdict(checked)})


def _checked(row: dict[str, Any]) -> Checked:
    """Return a check as it was before it was JSON, which has lists for tuples."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return Checked(**fields)


@contextlib.contextmanager
def _checker(text: str, externals: Path | None, flags: bool) -> Iterator[Callable[[Line], Checked]]:
    """Yield the function with which one process checks lines; what environments print is discarded."""
    how = Replaying(read_suite(text, "the suite"), externals, flags=flags)
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        _replayer(how) as replayer,
    ):
        yield lambda line: replayer.check(*line)


@contextlib.contextmanager
def _replayer(how: Replaying) -> Iterator[RowReplayer]:
    """Open a replayer of a suite over its recorded answers; an empty recording where there are none."""
    with contextlib.ExitStack() as stack:
        path = how.externals
        if path is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "externals.jsonl"
            path.touch()
        recording = stack.enter_context(Recording(path, "replay"))
        yield RowReplayer(how.suite, Services(recording), how.flags)


def check_all(
    lines: Iterable[Line], how: Replaying, what: str, memory: Checks | None = None, progress: Progress | None = None
) -> list[Checked]:
    """Replay every line and return the results in their order; `progress` is told (checked, successes) on the way.

    In processes, a killed check goes on: `what` is a digest of what is checked, outside answers included; else from `memory`.
    """
    ledger = Ledger(what, how) if how.jobs else None
    checks: dict[int, Checked] = {}
    wins, finished = 0, False
    try:
        for number, checked in (ledger or memory or Checks()).check(lines, how):
            checks[number] = checked
            wins += checked.success
            if progress is not None:
                progress(len(checks), wins)
        finished = True
    finally:
        if ledger is not None:
            ledger.close(finished=finished and not how.keep)
    return [checks[number] for number in range(len(checks))]
