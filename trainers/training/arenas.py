"""The C library is limited to few memory arenas, because episodes play in many short-lived threads."""

import contextlib
import ctypes

M_ARENA_MAX = -8  # of glibc's malloc.h


def use_few_arenas() -> None:
    """Let glibc share memory between threads: each of them would keep some."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
