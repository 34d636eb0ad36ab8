"""Bounded processes: who takes too long or dies loses one item, the others get their results, and nobody gets out."""

import contextlib
import os
import time

from agent_envs.tools.bounded_processes import BoundedProcesses, Lost
from tests.fresh_process import printed


@contextlib.contextmanager
def shouting(sign):
    """Give the work of these tests: it has bad days."""

    def work(item):
        kind, data = item
        if kind == "die":
            os._exit(1)
        if kind == "sleep":
            time.sleep(600)
        return data.decode() + sign

    yield work


def test_what_dies_or_sleeps_is_lost_and_nothing_else():
    kinds = ["", "die", "", "sleep", "", ""]
    with contextlib.closing(BoundedProcesses(2, 1.5, shouting, "!")) as processes:
        found = dict(processes.run((kind, str(number).encode()) for number, kind in enumerate(kinds)))
    assert found == {
        0: "0!", 1: Lost("its process died (memory?)"), 2: "2!", 3: Lost("it took more than 1.5 s"), 4: "4!", 5: "5!"
    }  # fmt: skip


def test_a_bounded_process_reaches_no_network_and_has_a_bounded_memory():
    code = (
        "import resource, socket\nfrom agent_envs.tools.bounded_processes import bound, MOST_MEMORY\nbound()\n"
        "for call in (lambda: socket.create_connection(('127.0.0.1', 9)), lambda: socket.getaddrinfo('example.org', 80),\n"
        "             lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))):\n"
        "    try:\n        call()\n    except PermissionError as error:\n        print(error)\n"
        "try:\n    bytearray(MOST_MEMORY + 1)\nexcept MemoryError:\n    print('no memory')\n"
    )
    told = printed(code)
    assert told.count("nothing outside is asked here") == 3 and "no memory" in told
