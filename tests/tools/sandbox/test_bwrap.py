import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import agent_envs
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.tools.sandbox import ExecResult, Limits, SandboxSpec, open_sandbox
from agent_envs.tools.sandbox.bwrap import BwrapBackend
from agent_envs.tools.sandbox.fork_server import ForkServer, Starter
from agent_envs.tools.sandbox.mounts import bwrap_command, bwrap_version
from tests.needs import needs
from tests.tools.sandbox.backends import BWRAP, killer_in_use

SPEC = SandboxSpec(backend="bwrap", preload=False, limits=Limits(cpu_seconds=0.5, wall_seconds=2.0))
# Reads the cell's nonce out of the harness's frames, answers in its name, and goes on.
PRETENDER = """
import json, os, struct, sys
frame = sys._getframe()
while "nonce" not in frame.f_locals:
    frame = frame.f_back
body = json.dumps({"nonce": frame.f_locals["nonce"], "status": "ok", "value": "forged", "error": ""}).encode()
os.write(3, struct.pack("!I", len(body)) + body)
n = 0
while True:
    n += 1
"""


@pytest.fixture(params=[BWRAP])
def session():
    with open_sandbox(SPEC) as opened:
        yield opened


def process_of(session):
    return session._live.interpreter.process


@needs("bwrap", "[sandbox]")
def test_numpy_and_sympy_work():
    with open_sandbox(SandboxSpec(backend="bwrap")) as session:
        assert (
            session.run("import sympy as sp\nx = sp.symbols('x')\nsp.integrate(x * sp.exp(x), x)").value
            == "(x - 1)*exp(x)"
        )
        assert session.run(
            "import numpy as np\nnp.linalg.solve([[2.0, 1.0], [1.0, 3.0]], [3.0, 5.0]).round(6).tolist()"
        ) == (ExecResult("ok", value="[0.8, 1.4]"))
        assert session.run("np.random.rand(2).tolist() == np.random.RandomState(0).rand(2).tolist()").value == "True"
        assert (
            session.run("from fractions import Fraction\nsum(Fraction(1, n) for n in range(1, 5))").value
            == "Fraction(25, 12)"
        )
        assert session.run("class E(Exception): pass\nraise E('mine')").error == "E: mine"
        assert session.run("sp.nope").error == "AttributeError: module 'sympy' has no attribute 'nope'"


@needs("bwrap", "[sandbox]")
def test_the_version_names_all_parts():
    names = [part.split()[0] for part in bwrap_version().split(", ")]
    assert names == ["bubblewrap", "CPython", "numpy", "sympy", "mpmath"]
    assert open_sandbox(SPEC).spec.version == bwrap_version()


def test_nothing_of_this_machine_is_there(session):
    ours = [agent_envs.__file__, os.getcwd(), os.path.expanduser("~"), sys.prefix, os.__file__]
    assert session.run(f"import os\n[path for path in {ours!r} if os.path.exists(path)]").value == "[]"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    places = [f"/python/lib/{name}" for name in (version.replace(".", "") + ".zip", version, f"{version}/lib-dynload")]
    assert session.run("import sys\nsys.path").value == repr([*places, "/python/packages"])
    seen = session.run("sys.executable, sys.prefix, dict(os.environ), os.getpid(), os.getcwd(), os.uname().nodename")
    assert seen.value == "('/python/bin/python3', '/python', {}, 1, '/tmp', 'sandbox')"
    assert session.run("tuple(os.times()), os.getloadavg()").value == "((0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0))"


def test_other_packages_cannot_be_imported(session):
    for name in ("agent_envs", "gymnasium", "pytest", "pip"):
        assert session.run(f"import {name}").error == f"ModuleNotFoundError: No module named '{name}'"


def test_a_wait_without_computing_ends_at_the_wall_limit(session):
    session.run("x = 1")
    result = session.run("import select\nprint('so far', flush=True)\nselect.select([], [], [], 60)")
    assert result == ExecResult("timeout", "so far\n", error="Timeout: more than 2 s went by")
    assert session.run("x").value == "1"


def test_output_written_past_python_is_output_too(session):
    assert session.run("import os\nprint('a')\nos.write(1, b'b\\n')\nprint('c')").stdout in ("b\na\nc\n", "a\nb\nc\n")
    assert session.run("import sys\nprint('e', file=sys.stderr)\nprint('o')").stdout == "e\no\n"
    assert session.run("import sys\nsys.stdout.close()").status == "ok"
    assert session.run("print('again')").stdout == "again\n"
    assert session.run("import sys\nsys.stdout = None").status == "ok"
    assert session.run("print('again')").stdout == "again\n"


def test_a_forged_answer_gains_no_time(session):
    """A cell can answer in the harness's name; it has not ended before the harness itself answers, and its time runs on."""
    session.run("x = 7")
    assert session.run(PRETENDER) == ExecResult("timeout", error="Timeout: more than 0.5 s of processor time")
    assert session.run("6 * x").value == "42"
    with open_sandbox(SPEC) as other:
        assert other.run("6 * 7").value == "42"


def test_between_cells_a_session_is_stopped(session):
    """A cell that serves the harness's next order, too, is believed; it then pays for going on out of the next cell's time."""
    serves = """
order = os.read(3, struct.unpack("!I", os.read(3, 4))[0])
body = json.dumps({"nonce": json.loads(order)["nonce"], "status": "ok", "value": "", "error": ""}).encode()
os.write(3, struct.pack("!I", len(body)) + body)
n = 0"""
    before, n, after = PRETENDER.rpartition("\nn = 0")
    assert session.run(before + serves + after).value == "forged"
    process = process_of(session)
    spent = process.cpu_seconds()
    time.sleep(0.2)
    assert process.cpu_seconds() - spent < 0.05
    assert [session.run("'the next'").status for _ in range(2)] == ["timeout", "timeout"], "the forger runs again, too"


@pytest.mark.parametrize(
    "body",
    [
        '{"status": "ok"}', "[]", "7", "null", "{", '"' + "a" * 25_000, "[" * 25_000,
        '{"nonce": 1, "status": "ok", "value": "", "error": ""}',
        '{"nonce": "NONCE", "status": "fine", "value": "", "error": ""}',
        '{"nonce": "NONCE", "status": "ok", "value": ["LEAK"], "error": ""}',
        '{"nonce": "NONCE", "status": "ok", "value": "", "error": "", "more": 1}',
    ],
)  # fmt: skip
def test_what_is_no_answer_ends_the_session_not_us(session, body):
    code = (
        PRETENDER.split("body = ")[0]
        + f"""
body = {body!r}.replace("NONCE", frame.f_locals["nonce"]).encode()
os.write(3, struct.pack("!I", len(body)) + body)
while True: pass
"""
    )
    assert session.run(code) == ExecResult("killed", error="Killed: the interpreter's connection was closed or misused")
    assert session.run("6 * 7").value == "42"


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x7f\xff\xff"])
def test_lengths_that_lie_are_not_waited_for(session, length):
    result = session.run(f"import os\nos.write(3, {length!r} + b'xx')\nwhile True: pass")
    assert result.status == "killed"
    assert session.run("6 * 7").value == "42"


def test_random_bytes_on_every_file_are_no_answer(session):
    rng = random.Random("bytes")
    for _ in range(12):
        junk = rng.randbytes(rng.randrange(1, 300))
        result = session.run(
            f"import os\nfor n in range(3, 70):\n    try: os.write(n, {junk!r})\n    except OSError: pass"
        )
        assert result.status in ("killed", "timeout")
        assert result.value == ""
    assert session.run("6 * 7").value == "42"


def test_what_the_kernel_refuses_is_an_error_in_python(session):
    calls = {
        "os.fork()": "PermissionError", "os.execv('/python/bin/python3', ['x'])": "PermissionError",
        "os.kill(1, 9)": "PermissionError", "os.pipe()": "PermissionError", "os.mkdir('/tmp/x')": "PermissionError",
        "os.setuid(0)": "PermissionError", "os.chmod('/tmp', 0o777)": "PermissionError",
        "os.memfd_create('x')": "PermissionError", "os.symlink('a', 'b')": "PermissionError",
    }  # fmt: skip
    for call, error in calls.items():
        assert session.run(f"import os\n{call}").error.startswith(error), call
    libc = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    for call in (
        "unshare(0x10000000)",
        "prctl(4, 1, 0, 0, 0)",
        "ptrace(0, 0, 0, 0)",
        "mount(0, 0, 0, 0, 0)",
        "personality(0)",
    ):
        assert session.run(f"{libc}(libc.{call}, ctypes.get_errno())").value == "(-1, 1)", call


@needs("bwrap", "[sandbox]")
def test_sessions_see_nothing_of_each_other():
    with open_sandbox(SPEC) as one, open_sandbox(SPEC) as other:
        one.run("import builtins, math\nbuiltins.shared = math.shared = 1")
        assert (
            other.run("import builtins, math\nhasattr(builtins, 'shared'), hasattr(math, 'shared')").value
            == "(False, False)"
        )
        assert other.run("import os\nsorted(os.listdir('/')), os.listdir('/tmp')").value == (
            f"({sorted(set(os.listdir('/')) & {'lib64'} | {'dev', 'python', 'tmp'})}, [])"
        )


@needs("bwrap", "[sandbox]")
def test_too_little_memory_is_told():
    with pytest.raises(UsageError, match="memory_mb=256 is address space"):
        open_sandbox(SandboxSpec(backend="bwrap", limits=Limits(memory_mb=256)))


def test_without_bubblewrap_the_package_of_the_system_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="needs bubblewrap, which is not installed: apt-get install bubblewrap"):
        bwrap_version.__wrapped__()


def test_other_systems_are_told(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="needs Linux on x86-64 or aarch64"):
        bwrap_version.__wrapped__()


@pytest.mark.parametrize(
    ("said", "told", "error"),
    [
        (
            "bwrap: No permissions to create new namespace",
            r"it needs user namespaces, which this system or its",
            UsageError,
        ),
        ("Traceback: something else", r"the harness did not start: Traceback: something else", EnvFault),
    ],
)
@needs("bwrap", "[sandbox]")
def test_a_system_that_refuses_is_told(tmp_path, monkeypatch, said, told, error):
    bwrap_command()
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(error, match=told):
        ForkServer(Starter(), preload=False)


@needs("bwrap", "[sandbox]")
def test_a_sandbox_outlives_the_thread_that_asked_for_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(open_sandbox(SPEC)))
    thread.start()
    thread.join()
    [session] = made
    session.run("x = 1")
    live = session._live.interpreter
    time.sleep(0.3)
    assert session.run("x").value == "1"
    assert session._live.interpreter is live
    session.close()


@needs("bwrap", "[sandbox]")
def test_fifty_kills_while_idle_and_while_running():
    """The session, and now and then the fork server: a call is right or ends as a fault, and the next one is right."""
    with open_sandbox(SPEC) as session:
        session.run("x = 0")
        for number in range(50):
            target = session._live.interpreter._fork_server.process if number % 10 > 7 else process_of(session)
            if number % 2:
                killer = killer_in_use(process_of(session), target)
                killer.start()
                with pytest.raises(EnvFault, match="killed from outside|lost"):
                    session.run("x += 100\nwhile True: pass")
                killer.join()
            else:
                target.send(signal.SIGKILL)
                assert target.ended(5.0)
            assert session.run("x += 1; x").value == str(number + 1)
        assert session.drift == 0


@needs("bwrap", "[sandbox]")
def test_nothing_is_left_after_close():
    backend = BwrapBackend()
    spec = open_sandbox(SPEC).spec
    backend.open(spec, None).close()
    fork_server = backend._fork_servers[False, ()]
    backend._starter.do(fork_server.refill)
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        interpreter = backend.open(spec, None)
        pid = interpreter.process.pid
        assert interpreter.run("1", spec.limits).value == "1"
        interpreter.close()
        assert not os.path.exists(f"/proc/{pid}"), "it was waited for"
    backend._starter.do(fork_server.refill)
    assert len(os.listdir("/proc/self/fd")) <= files
    children = (
        Path(f"/proc/{fork_server.process.pid}/task/{fork_server.process.pid}/children")
        .read_text(encoding="ascii")
        .split()
    )
    backend.close()
    ended = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}") for pid in children) and time.monotonic() < ended:
        time.sleep(0.01)
    assert children and not any(os.path.exists(f"/proc/{pid}") for pid in children)
    assert not os.path.exists(f"/proc/{fork_server._bwrap.pid}")


@needs("bwrap", "[sandbox]")
def test_a_long_text_ends_its_cell_before_it_is_copied_whole():
    """300 MB may be held once within 512 MB, not twice: what is printed is encoded piece by piece."""
    with open_sandbox(SandboxSpec(backend="bwrap", preload=False, limits=Limits(memory_mb=512))) as session:
        assert session.run("print('x' * (3 * 10**8))").status == "output_limit"
        assert session.run("import sys\nsys.stdout.write('ab' * 20_000)").value == "40000"
        assert session.run("print('é' * 20_000)").stdout == "é" * 20_000 + "\n"
        assert session.run("sys.stdout.write(5)").error.startswith("TypeError: write() argument must be str")
