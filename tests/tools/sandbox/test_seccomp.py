"""The filter program, run by a small interpreter of its own language: what it allows is the list and nothing else."""

import struct

import pytest

from agent_envs.tools.sandbox.seccomp import CALLS, MACHINES, SOME, UNKNOWN, filter_program, knows_machine

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
FORBIDDEN = {  # some of what must never be allowed: (x86-64, aarch64)
    "clone": (56, 220), "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "pidfd_send_signal": (424, 424), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "socket": (41, 198), "socketpair": (53, 199),
    "connect": (42, 203), "sendmsg": (46, 211), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40),
    "setrlimit": (160, 164), "prctl": (157, 167), "seccomp": (317, 277), "bpf": (321, 280), "keyctl": (250, 219),
    "unlink": (87, None), "unlinkat": (263, 35), "mkdir": (83, None), "rename": (82, None), "truncate": (76, 45),
    "memfd_create": (319, 279), "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "personality": (135, 92),
    "setuid": (105, 146), "chroot": (161, 51), "rt_sigqueueinfo": (129, 138),
    "timer_create": (222, 107), "pidfd_open": (434, 434),
}  # fmt: skip


def run(program, arch, number, arguments=(0,) * 6):
    data = struct.pack("=iIQ6Q", number, arch, 0, *arguments)
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x15:
            at += if_true if accumulator == value else if_false
        elif code == 0x35:
            at += if_true if accumulator >= value else if_false
        else:
            assert code == 0x06
            return value


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_the_listed_calls_are_allowed(machine):
    column, arch = MACHINES[machine]
    program = filter_program(machine)
    allowed = {numbers[column] for numbers in CALLS.values()} - {None}
    some = {numbers[column] for numbers, _, _ in SOME.values()}
    unknown = {numbers[column] for numbers in UNKNOWN.values()}
    for number in range(600):
        found = run(program, arch, number, (2**33 - 1,) * 6)
        assert found == (ALLOW if number in allowed else ENOSYS if number in unknown else EPERM), number
    assert not some & allowed
    for numbers in FORBIDDEN.values():
        if numbers[column] is not None:
            assert run(program, arch, numbers[column]) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_some_calls_are_allowed_with_some_arguments(machine):
    column, arch = MACHINES[machine]
    program = filter_program(machine)
    prlimit, ioctl, fcntl = (SOME[name][0][column] for name in ("prlimit64", "ioctl", "fcntl"))
    assert run(program, arch, prlimit, (0, 9, 0, 1 << 40, 0, 0)) == ALLOW
    assert run(program, arch, prlimit, (0, 9, 1, 0, 0, 0)) == EPERM
    assert run(program, arch, prlimit, (0, 9, 1 << 32, 0, 0, 0)) == EPERM
    assert run(program, arch, ioctl, (0, 0x5401, 0, 0, 0, 0)) == ALLOW
    assert run(program, arch, ioctl, (0, 0x5412, 0, 0, 0, 0)) == EPERM  # TIOCSTI puts words into a terminal
    assert run(program, arch, fcntl, (0, 3, 0, 0, 0, 0)) == ALLOW
    assert run(program, arch, fcntl, (0, 8, 0, 0, 0, 0)) == EPERM  # F_SETOWN sends signals


def test_other_calling_conventions_are_no_way_round():
    program = filter_program("x86_64")
    assert run(program, 0x40000003, 1) == KILL  # 32-bit calls have numbers of their own
    assert run(program, 0xC000003E, 0x40000000 | 1) == EPERM
    assert run(filter_program("aarch64"), 0xC000003E, 64) == KILL


def test_numbers_are_given_once():
    for column in (0, 1):
        numbers = [entry[column] for entry in CALLS.values() if entry[column] is not None]
        assert len(numbers) == len(set(numbers))
    assert knows_machine("x86_64") and not knows_machine("riscv64")
