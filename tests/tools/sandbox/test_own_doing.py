"""No cell can turn an episode into an infrastructure error: what code does to its interpreter is a result, never a fault."""

import itertools
import time
from types import SimpleNamespace

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import EnvFault
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from agent_envs.tools.sandbox import (
    STATUSES,
    ExecResult,
    Limits,
    SandboxCell,
    SandboxSpec,
    SessionSnapshot,
    begin_record,
    close_sandboxes,
    open_sandbox,
    record_of,
    recorded_cell,
    restore_session,
    run_cell,
)
from agent_envs.tools.sandbox import bwrap as bwrap_module
from agent_envs.tools.sandbox import monty as monty_module
from agent_envs.tools.sandbox.port import SESSION_LOST
from agent_envs.tools.sandbox.processes import out_of_memory_kills
from agent_envs.tools.sandbox.sessions import Session
from tests.examples import sample
from tests.needs import needs

SHORT = Limits(cpu_seconds=0.2, wall_seconds=2.0)
SPEC = SandboxSpec(backend="bwrap", preload=False, limits=SHORT)
LOST = ExecResult("killed", error=SESSION_LOST)
# Reads its cell's nonce out of the harness's frames and can answer in the harness's name.
FORGE = """
import json, os, select, struct, sys
def answer(nonce, value="forged"):
    body = json.dumps({"nonce": nonce, "status": "ok", "value": value, "error": ""}).encode()
    os.write(3, struct.pack("!I", len(body)) + body)
frame = sys._getframe()
while "nonce" not in frame.f_locals:
    frame = frame.f_back
mine = frame.f_locals["nonce"]
"""
# The true clock, which no filter of system calls can stop: the cell ends its interpreter only when it runs again.
ENDS_LATER = "import ctypes, os\nif ctypes.CDLL(None).time(None) > {now} + 1: os._exit(0)\nkept = 1"
ATTACKS = {
    "ends": "import os\nos._exit(0)",
    "ends as if it had failed": "import os\nos._exit(70)",
    "forges an answer and ends": f"{FORGE}\nanswer(mine)\nos._exit(0)",
    "forges an answer and goes on": f"{FORGE}\nanswer(mine)\nwhile True: pass",
    "forges an answer and waits": f"{FORGE}\nanswer(mine)\nselect.select([], [], [], 60)",
    "forges an answer twice": f"{FORGE}\nanswer(mine)\nanswer(mine)",
    "forges an answer and closes": f"{FORGE}\nanswer(mine)\nos.close(3)",
    "forges a record": "print('{\"status\": \"ok\", \"value\": \"42\", \"nonce\": \"\"}')\nimport os\nos._exit(0)",
    "closes its connection": "import os\nos.close(3)",
    "closes everything": "import os\nos.closerange(0, 200)",
    "puts another file in its place": "import os\nos.dup2(os.open('/dev/null', os.O_RDWR), 3)",
    "does not wait": "import fcntl, os\nfor n in (1, 2, 3): fcntl.fcntl(n, fcntl.F_SETFL, os.O_NONBLOCK)",
    "writes half a frame": "import os\nos.write(3, b'\\x00\\x00')",
    "writes a whole frame": "import os\nos.write(3, b'\\x00\\x00\\x00\\x02{}')",
    "forks": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "starts threads": "import threading\nfor _ in range(50):\n    try: threading.Thread(target=print).start()\n"
    "    except RuntimeError: pass",
    "kills its parent": "import ctypes\nlibc = ctypes.CDLL(None)\n[libc.kill(n, 9) for n in (libc.getppid(), 1, 2, 0, -1)]",
    "kills itself": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.kill(libc.getpid(), 9), libc.abort()",
    "breaks down": "import ctypes\nctypes.string_at(0)",
    "is rung out of bed": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.05)",
    "is rung at once": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.000001)",
    "raises when rung": "import signal\nsignal.signal(14, lambda *_: 1 / 0)\nsignal.setitimer(signal.ITIMER_REAL, 0.05, 0.01)",
    "will not be stopped": "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n"
    "    except (OSError, ValueError): pass\nwhile True: pass",
    "breaks the harness's json": "import json\njson.dumps = json.loads = None",
    "breaks the harness's files": "import os\nos.read = os.write = None",
    "breaks the harness's compiler": "import ast, builtins\nast.parse = builtins.compile = builtins.exec = None",
    "fills its memory": "kept = []\nwhile True: kept.append(bytearray(2 ** 24))",
    "keeps much memory": "kept = bytearray(600 * 2 ** 20)",
    "nests deep": "kept = []\nfor _ in range(200_000): kept = [kept]",
    "prints without end": "import os\nwhile True: os.write(2, b'x' * 65_536)",
    "traces": "import sys\nsys.settrace(lambda *_: 1 / 0)\nsys.setprofile(lambda *_: 1 / 0)",
    "answers with a status of its own": "import sys\nnames = sys._getframe(2).f_globals\nreal = names['framed']\n"
    "names['framed'] = lambda answer: real({**answer, 'status': 'timeout', 'error': 'x'})",
    "answers with deep JSON": "import sys\n"
    "sys._getframe(2).f_globals['framed'] = lambda answer: (10**5).to_bytes(4, 'big') + b'[' * 50_000 + b']' * 50_000",
    "is no text": "class Odd(str):\n    def __getitem__(self, key): return 5\n"
    "class Shown:\n    def __repr__(self): return Odd('a')\nShown()",
    "listens to the audit": "import sys\ndef heard(event, given): raise BaseException\nsys.addaudithook(heard)",
    "asks the true clock for a parity": "import ctypes, os\n"
    "if ctypes.CDLL(None).time(None) % 2: os._exit(0)\nkept = 1",
    "counts its lives": "import ctypes, os\nif ctypes.CDLL(None).getpid() % 2: os._exit(0)",
}  # fmt: skip


def no_fault(session):
    """Make the interpreter go and come back, and run plain cells in it; return the last ones' values."""
    session._live.drop()
    results = [session.run("while True: pass")] + [session.run("6 * 7") for _ in range(4)]
    assert all(result.status in STATUSES for result in results)
    return [result.value for result in results[-2:]]


@pytest.mark.parametrize("name", sample(list(ATTACKS), 12))
@needs("bwrap", "[sandbox]")
def test_a_cell_of_bwrap_cannot_make_a_fault(name):
    with open_sandbox(SPEC) as session, open_sandbox(SPEC) as other:
        assert session.run(ATTACKS[name]).status in STATUSES
        values = no_fault(session)
        assert set(values) <= {"42", ""}
        assert other.run("6 * 7").value == "42"


@pytest.mark.parametrize(
    ("attack", "status"),
    [
        ("forges an answer and ends", "killed"),
        ("forges an answer and closes", "killed"),
        ("forges an answer twice", "killed"),
        ("forges an answer and goes on", "timeout"),
        ("forges an answer and waits", "timeout"),
        ("puts another file in its place", "killed"),
    ],
)
@needs("bwrap", "[sandbox]")
def test_a_forged_end_is_none(attack, status):
    """The cell counts as what it did, and leaves the session as it was."""
    with open_sandbox(SPEC) as session:
        session.run("x = 7")
        result = session.run(ATTACKS[attack])
        assert (result.status, result.value) == (status, "")
        assert session.run("6 * x").value == "42"
        assert len(session.snapshot().cells) == 2


@needs("bwrap", "[sandbox]")
def test_a_forger_that_serves_a_while_harms_itself_alone():
    serve = (
        f"{FORGE}\nanswer(mine)\nfor _ in range(2):\n    size = struct.unpack('!I', os.read(3, 4))[0]\n"
        "    answer(json.loads(os.read(3, size))['nonce'])\nos._exit(0)"
    )
    with open_sandbox(SPEC) as session:
        assert session.run(serve).value == "forged"
        for _ in range(4):
            session._live.drop()
            assert session.run("6 * 7").status in ("ok", "killed")


@needs("bwrap", "[sandbox]")
def test_connections_that_do_not_wait_are_made_to():
    with open_sandbox(SPEC) as session:
        session.run(ATTACKS["does not wait"])
        interpreter = session._live.interpreter
        assert [session.run("6 * 7").value for _ in range(20)] == ["42"] * 20
        assert session._live.interpreter is interpreter


LATER = "import ctypes, os, select, signal\nif ctypes.CDLL(None).time(None) > {now} + 1:\n    "
# What comes at the second run alone, when a lost session is made again; the cell had ended well before.
REPLAYED = {
    "breaks down": "ctypes.string_at(0)",
    "takes all memory": "kept = []\n    while True: kept.append(bytearray(2 ** 24))",
    "closes and goes on": "os.close(3)\n    while True: pass",
    "waits": "select.select([], [], [], 60)",
    "prints without end": "while True: os.write(1, b'x' * 9_999)",
    "writes noise": "os.write(3, b'\\xff' * 9_999)",
    "puts another file in its place": "os.dup2(os.open('/dev/null', os.O_RDWR), 3)",
    "ends in the next cell": "signal.signal(14, lambda *_: os._exit(0))\n    signal.setitimer(signal.ITIMER_REAL, 0.001)",
    "ends when it is shown": "class Shown:\n        def __repr__(self): os._exit(4)\nelse: Shown = int\nShown()",
    "forges its end": f"exec({FORGE!r})\n    answer(mine)\n    os._exit(0)",
}  # fmt: skip


@pytest.mark.parametrize("name", sample(list(REPLAYED), 4))
@needs("bwrap", "[sandbox]")
def test_what_comes_at_the_second_run_alone_makes_no_fault(name):
    with open_sandbox(SPEC) as session:
        assert session.run(LATER.format(now=int(time.time())) + REPLAYED[name]).status == "ok"
        assert session.run("7").value == "7"
        time.sleep(2.1)
        assert set(no_fault(session)) <= {"42", ""}


@needs("bwrap", "[sandbox]")
def test_an_end_is_told_alike_however_busy_the_machine_is(monkeypatch):
    """A process that closes its connection by ending may take a while to be gone: it ended, and misused nothing."""
    ended = bwrap_module.Process.ended
    with open_sandbox(SPEC) as session:
        session.start()
        monkeypatch.setattr(
            bwrap_module.Process, "ended", lambda self, s: ended(self, s) if s == 0.0 or s > 0.5 else False
        )
        assert session.run("import os\nos._exit(3)").error == "Killed: the interpreter ended (exit code 3)"


def recorded(backend, code, result):
    with open_sandbox(SandboxSpec(backend=backend, limits=SHORT)) as session:
        return restore_session(SessionSnapshot.of(session.spec, (SandboxCell(code, None, result.digest),)))


def test_a_cell_that_comes_to_no_end_when_it_runs_again_loses_the_session(backend):
    with recorded(backend, "x = 1\nwhile True: pass", ExecResult("ok")) as session:
        assert session.run("y = 2") == LOST and LOST.session_lost
        assert session.snapshot().cells == () and session.drift == 1
        assert session.run("x").error.startswith("NameError")
        assert session.run("y").error.startswith("NameError"), "it was not run"
        assert session.run("6 * 7").value == "42"


def test_the_record_goes_on_empty_with_and_without_a_sandbox(backend):
    spec = begin_record(SandboxSpec(backend=backend, limits=SHORT)).spec
    lie = SessionSnapshot.of(spec, (SandboxCell("while True: pass", None, "0" * 64),))
    result, after = run_cell(lie, "1")
    assert result == LOST and after == record_of(spec) == recorded_cell(lie, "1", result)
    assert run_cell(after, "6 * 7")[0].value == "42"
    assert recorded_cell(lie, "1", ExecResult("killed", error="Killed: exit code 0")) == lie


def test_no_other_result_is_taken_for_a_lost_session():
    assert not ExecResult("error", error=SESSION_LOST).session_lost
    assert not ExecResult("killed", error=f"{SESSION_LOST} too").session_lost
    assert not ExecResult("timeout", error=SESSION_LOST).session_lost


@pytest.mark.parametrize("limits", [Limits(0.2, 2.0, output_bytes=1), Limits(0.2, 2.0, output_bytes=100)])
def test_a_narrow_output_limit_does_not_hide_that_a_session_is_lost(limits):
    spec = begin_record(SandboxSpec(limits=limits)).spec
    lie = SessionSnapshot.of(spec, (SandboxCell("while True: pass", None, "0" * 64),))
    assert run_cell(lie, "1") == (LOST, record_of(spec))


@needs("bwrap", "[sandbox]")
def test_an_end_that_comes_with_the_true_clock_is_no_fault_of_the_episode(tmp_path):
    """The attack on a reward of -1: an episode in a fault is dropped from training and from comparisons."""
    close_sandboxes()
    arguments = {"sandbox": "bwrap", "cpu_seconds": 0.3, "max_programs": 20, "max_generations": 20}
    told = []
    for mode in ("record", "replay"):
        with Recording(tmp_path / "externals.jsonl", mode) as recording:
            env = gym.make("agent_envs/ToolReasoning-v0", **arguments)
            env.unwrapped.services = Services(recording)
            env.reset(seed=0, options={"task": 1, "split": "test"})
            shown = []
            for code in programs(shown, mode):
                shown.append(env.step(f"<think>x</think><python>{code}</python>")[0])
            end = env.step("<think>x</think><answer>7</answer>")
        told.append((shown, end[1:4], env.unwrapped.episode.turns[3].results[0].content))
    shown, (reward, terminated, _), _ = told[0]
    assert told[0] == told[1], "a replay takes the same way"
    assert "Timeout" in shown[2] and SESSION_LOST in shown[3] and "names are as they were" not in shown[3]
    assert "NameError" in shown[4] and "2" in shown[5]
    assert (reward, terminated) == (-1.0, True), "the format is broken, and that is paid for"


def programs(shown, mode):
    """Yield the programs of an episode; the second goes by what the first saw."""
    yield "import ctypes\nprint(ctypes.CDLL(None).time(None))"
    yield ENDS_LATER.format(now="".join(filter(str.isdigit, shown[0])))
    yield "while True: pass"
    time.sleep(2.2 if mode == "record" else 0.0)
    yield from ("kept", "kept", "1 + 1")


def test_a_memory_that_is_not_taken_back_is_made_again_from_the_cells():
    with open_sandbox(SandboxSpec()) as session:
        session.run("x = [1]")
        session.run("x.append(2)")
        cells = session.snapshot().cells
        spoilt = Session(session._pool, session.spec, cells=cells, saved=b"no memory", saved_cells=2)
        with pytest.raises(EnvFault):
            session._pool.backend.open(session.spec, b"no memory")
        assert spoilt.run("x").value == "[1, 2]"
        spoilt.close()


@needs("bwrap", "[sandbox]")
def test_a_session_that_the_system_ends_for_want_of_memory_is_out_of_memory(monkeypatch):
    with open_sandbox(SPEC) as session:
        session.run("x = 7")
        kills = itertools.count()
        monkeypatch.setattr(bwrap_module, "out_of_memory_kills", lambda: next(kills))
        session._live.interpreter.process.send(9)
        session._live.interpreter.process.ended(5.0)
        result = session._live.interpreter.run("1", SHORT)
        assert result.status == "memory"
        assert session.run("6 * x").value == "42"


def test_a_worker_that_the_system_ends_for_want_of_memory_is_out_of_memory(monkeypatch):
    assert out_of_memory_kills() >= 0
    watch = SimpleNamespace(verdict="")
    monkeypatch.setattr(monty_module, "out_of_memory_kills", lambda: 5)
    assert monty_module._crash_status(watch, "died of SIGKILL", 4) == ("memory", "")
    with pytest.raises(EnvFault, match="SIGKILL"):
        monty_module._crash_status(watch, "died of SIGKILL", 5)
    assert monty_module._crash_status(watch, "died of SIGSEGV", 4)[0] == "killed"


@needs("bwrap", "[sandbox]")
def test_forks_of_an_episode_survive_what_one_of_them_did():
    env = gym.make("agent_envs/ToolReasoning-v0", sandbox="bwrap", cpu_seconds=0.3, max_programs=9)
    env.reset(seed=0)
    env.step("<python>x = 7</python>")
    twin = agent_envs.fork(env)
    env.step(f"<python>{ATTACKS['forges an answer and ends']}</python>")
    assert (
        env.step("<python>6 * x</python>")[0] == twin.step("<python>6 * x</python>")[0] == "\n<result>\n42\n</result>\n"
    )
