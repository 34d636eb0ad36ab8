"""`muted_stdout` keeps what third parties print off standard output, which a program may read; other threads print on."""

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_muted = Counter[int]()  # thread -> how many `muted_stdout` blocks it is in


class _Sieve:
    """Standard output as it was, but for what muted threads write."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> Any:
        """Write a text, unless this thread is muted; return its length as written."""
        return len(text) if _muted[threading.get_ident()] else self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return the inner stream's attribute."""
        return getattr(self.stream, name)


@contextmanager
def muted_stdout() -> Iterator[None]:
    """Drop what this thread prints to `sys.stdout` inside; other threads', standard error's and native output goes on."""
    thread = threading.get_ident()
    with _lock:
        if not isinstance(sys.stdout, _Sieve):
            sys.stdout = _Sieve(sys.stdout)
        _muted[thread] += 1
    try:
        yield
    finally:
        with _lock:
            _muted[thread] -= 1
            if not _muted[thread]:
                del _muted[thread]
            if not _muted and isinstance(sys.stdout, _Sieve):
                sys.stdout = sys.stdout.stream
