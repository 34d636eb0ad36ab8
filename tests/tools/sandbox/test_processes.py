"""Processes behind sessions: how many, whose, and when they end."""

import gc
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_envs.base.errors import EnvFault
from agent_envs.tools.sandbox import Limits, SandboxSpec, close_sandboxes, open_sandbox
from agent_envs.tools.sandbox.monty import MontyBackend
from agent_envs.tools.sandbox.pool import Cleaner, Saves
from agent_envs.tools.sandbox.processes import Process, Watch
from agent_envs.tools.sandbox.sessions import BackendPool, Session


def crowded(most):
    backend = MontyBackend()
    backend.most = most
    return backend, BackendPool(backend, Saves(), Cleaner())


def test_more_sessions_than_interpreters():
    backend, pool = crowded(2)
    spec = open_sandbox(SandboxSpec()).spec
    sessions = [Session(pool, spec) for _ in range(7)]
    for turn in range(3):
        for number, session in enumerate(sessions):
            assert session.run(f"x = {number}" if turn == 0 else f"x += {turn}; x").status == "ok"
            assert sum(other._live.interpreter is not None for other in sessions) <= 2
    assert [session.run("x").value for session in sessions] == [str(number + 3) for number in range(7)]
    with ThreadPoolExecutor(7) as threads:  # more cells at once than interpreters: the others wait
        assert [r.value for r in threads.map(lambda s: s.run("sum(range(10**5)) * 0 + x"), sessions)] == list("3456789")
    for session in sessions:
        session.close()
    backend.close()


def test_a_session_that_is_forgotten_gives_its_interpreter_back():
    backend, pool = crowded(1)
    spec = open_sandbox(SandboxSpec()).spec
    session = Session(pool, spec)
    session.run("x = 1")
    process = session._live.interpreter.process
    del session
    gc.collect()
    ended = time.monotonic() + 10
    while process._fd >= 0 and time.monotonic() < ended:
        time.sleep(0.01)
    assert process._fd < 0, "the cleaner let go of it"
    backend.close()


def test_seats_are_counted_however_sessions_end():
    """Objects' numbers are used again: what ends late must not take the seat of a session that came after it."""
    backend, pool = crowded(2)
    spec = open_sandbox(SandboxSpec()).spec

    def episode(number):
        for turn in range(6):
            session = Session(pool, spec)
            assert session.run(f"{number} * {turn}").value == str(number * turn)
            assert len(pool.interpreters._interpreters) <= 2
            if turn % 3 == 0:
                session.close()
            elif turn % 3 == 1:
                session.run("while True: pass", Limits(cpu_seconds=0.01))
        return number

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(episode, range(40))) == list(range(40))
    gc.collect()
    ended = time.monotonic() + 10
    while pool.interpreters._interpreters and time.monotonic() < ended:
        time.sleep(0.01)
    assert not pool.interpreters._interpreters
    backend.close()


def test_closing_all_sandboxes_ends_no_session(backend):
    with open_sandbox(SandboxSpec(backend=backend)) as session:
        session.run("x = 1")
        close_sandboxes()
        assert session.run("x").value == "1"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("sandbox") and not thread.daemon]


FORKING = """
import os, sys
from agent_envs.tools.sandbox import SandboxSpec, open_sandbox
spec = SandboxSpec(backend=sys.argv[1])
session = open_sandbox(spec)
session.run("x = 1")
live = session._live.interpreter
def child(depth):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        fresh = open_sandbox(spec)
        print(session.run("x += 1; x").value, session.fork().run("x").value, fresh.run("6 * 7").value)
        if depth:
            child(depth - 1)
        sys.exit(0)  # by the front door: modules are taken down, and what they hold is destroyed
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
for _ in range(2):
    child(1)
    print(session.run("x").value, session._live.interpreter is live)
"""


def test_a_forked_child_makes_interpreters_of_its_own_and_leaves_the_parents_alone(backend):
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, backend],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("2 2 42\n3 3 42\n1 True\n" * 2, "", 0)


@pytest.mark.parametrize(
    "end", ["", "os.kill(os.getpid(), 9)", "threading.Timer(0.5, os.kill, (os.getpid(), 9)).start(); loop()"]
)
def test_nothing_runs_on_after_the_process_ends(backend, end):
    code = f"""
import os, threading
from agent_envs.tools.sandbox import Limits, SandboxSpec, open_sandbox
session = open_sandbox(SandboxSpec(backend="{backend}", preload=False, limits=Limits(cpu_seconds=1.5)))
session.run("x = 1")
print(session._live.interpreter.process.pid, flush=True)
loop = lambda: session.run("while True: pass")
{end}
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert (ran.stderr, ran.returncode) == ("", -9 if end else 0)
    ended = time.monotonic() + 60
    while os.path.exists(f"/proc/{int(ran.stdout)}") and time.monotonic() < ended:
        time.sleep(0.01)
    assert not os.path.exists(f"/proc/{int(ran.stdout)}")


class Told(Process):
    """This process, with times as the test tells them."""

    cpu = waited = 0.0
    signals = 0

    def cpu_seconds(self):
        return self.cpu

    def waited_seconds(self):
        return self.waited

    def limit_cpu(self, seconds):
        pass

    def send(self, number):
        self.signals += 1


def test_a_watch_goes_by_processor_time_first():
    process = Told(os.getpid())
    watch = Watch(process, Limits(cpu_seconds=1.0, wall_seconds=1_000.0))
    assert watch.pause() == pytest.approx(1.0)
    process.cpu = 0.75
    watch.check()
    assert (watch.verdict, process.signals) == ("", 0)
    assert watch.pause() == pytest.approx(0.25)
    process.cpu = 1.0
    watch.check()
    assert (watch.verdict, process.signals, watch.pause()) == ("cpu", 1, 0.0)
    assert watch.explain() == ("timeout", "Timeout: more than 1 s of processor time")
    process.close()


def test_time_in_the_queue_for_a_processor_is_not_counted():
    process = Told(os.getpid())
    watch = Watch(process, Limits(cpu_seconds=0.25, wall_seconds=300))
    watch._wall -= 250  # so many seconds ago it began
    watch.check()
    process.waited = 1_000.0
    watch._wall -= 100
    watch.check()
    assert (watch.verdict, process.signals) == ("", 0)
    process.waited = 0.0
    watch.check()
    assert (watch.verdict, process.signals) == ("wall", 1)
    assert watch.explain() == ("timeout", "Timeout: more than 300 s went by")
    process.close()


def test_a_process_that_is_gone_is_told():
    ran = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    process = Process(ran.pid)
    assert process.alive()
    ended = time.monotonic() + 30
    while process.cpu_seconds() == 0.0 and time.monotonic() < ended:
        time.sleep(0.001)
    assert process.cpu_seconds() > 0.0
    process.send(9)
    assert process.ended(5.0) and not process.alive()
    last = process.cpu_seconds()
    ran.communicate()
    assert process.cpu_seconds() == last
    process.send(9)
    process.close()
    process.close()
    assert not process.alive()
    with pytest.raises(EnvFault, match="its process is gone"):
        Process(ran.pid)


def test_saved_memories_go_when_they_are_too_many():
    saves = Saves(most=10)
    for name in ("a", "b", "c"):
        saves.keep(name, b"1234")
        saves.keep(name, b"other")
    assert [saves.find(name) for name in ("a", "b", "c")] == [None, b"1234", b"1234"]
    saves.keep("d", b"x" * 11)
    assert [saves.find(name) for name in ("b", "c", "d")] == [None, None, None]
