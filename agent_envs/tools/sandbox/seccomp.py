"""The system calls that code in `bwrap` may make are listed as a program for the kernel's filter (seccomp, classic BPF).

What is not listed fails with EPERM, so Python sees a PermissionError and goes on. There is no call here that makes a process or
a thread, runs a program, opens a socket, sends a signal, changes a limit, or looks into another process.
"""

import platform
import struct

EPERM, ENOSYS = 1, 38
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; arguments are 8 bytes each, low half first
_X32 = 0x40000000  # another calling convention of x86-64, with numbers from here on

# name: (x86-64, aarch64); None where the machine has no such call. Numbers: the kernel's unistd tables.
CALLS: dict[str, tuple[int | None, int | None]] = {
    # reading, writing and looking at files, all of which are read-only
    "read": (0, 63), "write": (1, 64), "open": (2, None), "openat": (257, 56), "close": (3, 57), "lseek": (8, 62),
    "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66), "stat": (4, None), "lstat": (6, None), "fstat": (5, 80),
    "newfstatat": (262, 79), "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49),
    "fadvise64": (221, 223), "statfs": (137, 43), "fstatfs": (138, 44), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214), "mincore": (27, 232),
    # its own threads of control: one thread, its signals, its locks
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "sigaltstack": (131, 132), "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "exit": (60, 93), "exit_group": (231, 94),
    "restart_syscall": (219, 128),
    # time
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165), "alarm": (37, None),
    "setitimer": (38, 103), "getitimer": (36, 102), "pause": (34, None),
    # who and where
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174), "geteuid": (107, 175),
    "getgid": (104, 176), "getegid": (108, 177), "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278),
    "getrlimit": (97, 163),
}  # fmt: skip
# Allowed only where the low half of one argument is one of these.
SOME: dict[str, tuple[tuple[int | None, int | None], int, tuple[int, ...]]] = {
    "ioctl": ((16, 29), 1, (0x5401, 0x5413, 0x5451)),  # TCGETS, TIOCGWINSZ (is it a terminal? no), FIOCLEX
    "fcntl": ((72, 25), 1, (0, 1, 2, 3, 4, 1030)),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC
    "prlimit64": ((302, 261), 2, (0,)),  # reading limits only: no new ones (see `_some`: both halves must be 0)
}
# glibc asks for these first and takes an older call where the kernel says that it does not know them.
UNKNOWN: dict[str, tuple[int | None, int | None]] = {"clone3": (435, 435)}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def knows_machine(machine: str | None = None) -> bool:
    """Return whether there is a list for this machine (by its own name, if none is given)."""
    return (machine or platform.machine()) in MACHINES


def filter_program(machine: str | None = None) -> bytes:
    """Return a machine's filter as `struct sock_filter`s, 8 bytes an instruction; KeyError for one without a list.

    Raises KeyError: there is no list for this machine.
    """
    column, arch = MACHINES[machine or platform.machine()]
    program = [
        _step(_LOAD, _ARCH), _step(_JUMP_EQUAL, arch, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER),
    ]  # fmt: skip
    if column == 0:
        program += [_step(_JUMP_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERRNO | EPERM)]
    for numbers in CALLS.values():
        program += _if_call(numbers[column], [_step(_RETURN, _ALLOW)])
    for numbers in UNKNOWN.values():
        program += _if_call(numbers[column], [_step(_RETURN, _ERRNO | ENOSYS)])
    for name, (numbers, argument, values) in SOME.items():
        program += _if_call(numbers[column], _some(argument, values, whole=name == "prlimit64"))
    program.append(_step(_RETURN, _ERRNO | EPERM))
    return b"".join(program)


def _some(argument: int, values: tuple[int, ...], whole: bool) -> list[bytes]:
    """Return steps that allow a call where an argument's low half (or all of it) is one of the values, and refuse it else."""
    low = _ARGUMENTS + 8 * argument
    steps = []
    if whole:
        steps += [_step(_LOAD, low + 4), _step(_JUMP_EQUAL, 0, 1, 0), _step(_RETURN, _ERRNO | EPERM)]
    steps.append(_step(_LOAD, low))
    for value in values:
        steps += [_step(_JUMP_EQUAL, value, 0, 1), _step(_RETURN, _ALLOW)]
    return [*steps, _step(_RETURN, _ERRNO | EPERM)]


def _if_call(number: int | None, steps: list[bytes]) -> list[bytes]:
    """Return steps that run these where the call has this number; the accumulator holds the number before and after."""
    return [] if number is None else [_step(_JUMP_EQUAL, number, 0, len(steps)), *steps]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction of the filter in the kernel's binary form."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
