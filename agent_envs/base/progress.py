"""Long work reports its progress: a bar on a terminal, a plain line now and then elsewhere, always on standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

LINE_SECONDS = 10.0


@contextlib.contextmanager
def progress_bar(title: str, quiet: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a callback for (finished, planned, successes so far, what else there is to say), or None when quiet."""
    if quiet:
        yield None
        return

    def words(finished: int, planned: int, wins: float, more: str = "") -> str:
        return (
            f"{title}: {finished}/{planned}, of these {100 * wins / max(finished, 1):.1f} % solved{more and '; '}{more}"
        )

    if not sys.stderr.isatty():
        yield _lines(words)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words_column = TextColumn("{task.description}", markup=False)  # causes of faults are strangers' text
    with Progress(
        words_column, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)
    ) as bar:
        task = bar.add_task(title, total=None)

        def update(finished: int, planned: int, wins: float, more: str = "") -> None:
            text = f"{title}: {100 * wins / max(finished, 1):.0f} % of {finished} solved{more and '; '}{more}"
            bar.update(task, completed=finished, total=planned, description=text)

        yield update


@contextlib.contextmanager
def byte_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback for (bytes so far, bytes in all or -1)."""
    if not sys.stderr.isatty():
        report = _lines(lambda so_far, total, _: f"{title}: {so_far:,} bytes" + (f" of {total:,}" if total > 0 else ""))
        yield lambda so_far, total: report(so_far, total, 0)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda so_far, total: bar.update(task, completed=so_far, total=total if total > 0 else None)


def stage_lines(title: str) -> Callable[[str, float], None]:
    """Return a callback for (stage, fraction of it): a line that is rewritten on a terminal, plain lines elsewhere."""
    report = _lines(lambda percent, _, stage: f"{title}: {stage} {percent} %", seconds=2.0)

    def tell(stage: str, fraction: float) -> None:
        if sys.stderr.isatty():
            print(
                f"\r{title}: {stage} {100 * fraction:.0f} %\x1b[K", end="\n" if fraction >= 1 else "", file=sys.stderr
            )
        else:
            report(int(100 * fraction), -1, stage)

    return tell


def _lines(words: Callable[..., str], seconds: float = LINE_SECONDS) -> Callable[..., None]:
    last = time.monotonic()

    def report(finished: int, planned: int, *more: Any) -> None:
        nonlocal last
        if finished == planned or time.monotonic() - last >= seconds:
            last = time.monotonic()
            print(words(finished, planned, *more), file=sys.stderr, flush=True)

    return report
