"""Code that means harm, for the tests and for `python -m benchmarks.sandbox --abuse`: 34 probes, each small and bounded.

Every probe runs against its own sandbox only. It prints LEAK where it got through. After each one the same session must still
answer, which is the 35th probe.
"""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agent_envs.tools.sandbox import ExecResult, Limits, SandboxSpec, Session

SECRET_NAME, SECRET = "AGENT_ENVS_PROBE", "swordfish-4711"
LIMITS = {
    "monty": Limits(cpu_seconds=0.5, wall_seconds=4.0, memory_mb=128),
    "bwrap": Limits(cpu_seconds=0.5, wall_seconds=4.0, memory_mb=640),
}
FORGED = """
import json, os, struct
body = json.dumps({"nonce": "0" * 32, "status": "ok", "value": "LEAK", "error": ""}).encode()
for number in range(3, 64):
    try:
        os.write(number, struct.pack("!I", len(body)) + body)
    except OSError:
        pass
while True:
    pass
"""
FORKS = """
import os
made = 0
for _ in range(64):
    try:
        child = os.fork()
    except OSError:
        break
    if child == 0:
        os._exit(0)
    made += 1
    os.waitpid(child, 0)
print("LEAK" if made else "none", made)
"""
THREADS = """
import threading
made = 0
for _ in range(64):
    try:
        threading.Thread(target=threading.Event().wait, args=(5,), daemon=True).start()
        made += 1
    except RuntimeError:
        break
print("LEAK" if made else "none", made)
"""
ENVIRONMENT = """
import os
seen = []
for name in ("self", "1", "2", "thread-self", "{pid}"):
    try:
        seen.append(open(f"/proc/{{name}}/environ", "rb").read())
    except OSError as error:
        pass
print("LEAK" if b"{secret}" in b"".join(seen) else "none", len(seen))
"""
WRITE = """
import os
for path in ("/tmp/probe", "probe", "/probe", "/dev/shm/probe", "/var/tmp/probe", "/python/probe", "{folder}/probe"):
    try:
        with open(path, "w") as file:
            file.write("x" * 1000)
        print("LEAK", path)
    except OSError as error:
        print(type(error).__name__)
"""
SIGNAL = """
import os
for number in (1, 2, {pid}):
    try:
        os.kill(number, 0)
        print("LEAK", number)
    except OSError as error:
        print(type(error).__name__)
"""
WALK = """
found = []
def walk(kind, depth=0):
    for sub in type.__subclasses__(kind):
        found.append(sub)
        if depth < 6 and sub is not type:
            walk(sub, depth + 1)
walk(object)
for kind in found:
    names = getattr(getattr(kind, "__init__", None), "__globals__", {})
    if "system" in names:
        try:
            print("LEAK" if names["system"]("true") == 0 else "refused")
        except OSError as error:
            print(type(error).__name__)
        break
else:
    import os
    print("LEAK" if os.system("true") == 0 else "refused")
"""
PROGRAMS = """
import subprocess, sys
for command in (["/bin/echo", "x"], ["/usr/bin/id"], ["/python/bin/python3", "-c", "1"]):
    try:
        print("LEAK", subprocess.run(command, capture_output=True, timeout=2).returncode)
    except OSError as error:
        print(type(error).__name__)
"""
C_CALLS = """
import ctypes
libc = ctypes.CDLL(None)
print("LEAK" if libc.system(b"true") == 0 else "refused")
child = libc.fork()
if child == 0:
    libc._exit(0)
print("LEAK" if child > 0 else "refused")
print("LEAK" if libc.ptrace(16, 1, 0, 0) == 0 else "refused")
"""
MORE_MEMORY = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
for limit in ((hard * 4, hard * 4), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
    try:
        resource.setrlimit(resource.RLIMIT_AS, limit)
        print("LEAK")
    except (OSError, ValueError) as error:
        print(type(error).__name__)
"""
CONNECT = """
import socket
for family, place in {places}:
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(1)
        connection.connect(place)
        print("LEAK", place)
    except OSError as error:
        print(type(error).__name__)
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: its code (with places for facts of this machine), and the statuses that show it was held, by backend.

    `error` for monty often means that it has no such module at all; `cut` is `ok` with a text that was cut. Where `timeout` is
    none of them, the probe has processor time to spare: on a slow machine it would else be held by that limit, not by its own.
    """

    name: str
    code: str
    monty: str
    bwrap: str


PROBES = (
    Probe("endless loop", "while True:\n    pass", "timeout", "timeout"),
    Probe("loop that catches everything", "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
          "timeout", "timeout"),
    Probe("loop that ignores signals", "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
          "    except (OSError, ValueError): pass\nwhile True: pass", "error", "timeout"),
    Probe("sleep for a minute", "import time\ntime.sleep(60)", "ok", "ok"),
    Probe("memory, piece by piece", "held = []\nwhile len(held) < 512:\n    held.append('x' * 2**20)",
          "memory", "memory timeout"),
    Probe("memory, at once", "'a' * 10**10", "memory", "memory"),
    Probe("a number with millions of digits", "9 ** (9 ** 7)", "error timeout", "error timeout"),
    Probe("64 forks", FORKS, "error", "ok"),
    Probe("read /etc/passwd", "print('LEAK', open('/etc/passwd').read())", "error", "error"),
    Probe("list /", "import os\nnames = os.listdir('/')\nprint('LEAK' if {'etc', 'usr', 'home'} & set(names) else names)",
          "error", "ok"),
    Probe("the parent's environment", ENVIRONMENT, "error ok", "ok"),
    Probe("its own environment", "import os\nprint('LEAK' if '{secret}' in str(dict(os.environ)) else 'none')", "error", "ok"),
    Probe("a connection to this machine", CONNECT.replace("{places}", "[(socket.AF_INET, ('127.0.0.1', {port}))]"),
          "error", "ok"),
    Probe("a unix socket", CONNECT.replace("{places}", "[(socket.AF_UNIX, '{unix}'), (socket.AF_UNIX, '\\0probe')]"),
          "error", "ok"),
    Probe("write a file", WRITE, "ok", "ok"),
    Probe("signal another process", SIGNAL, "error", "ok"),
    Probe("run a program", PROGRAMS, "error", "ok"),
    Probe("os.system", "import os\nprint('LEAK' if os.system('true') == 0 else 'refused')", "error", "ok error"),
    Probe("classes to os", WALK, "error", "ok error"),
    Probe("calls into C", C_CALLS, "error", "ok"),
    Probe("break the interpreter", "import ctypes\nctypes.string_at(0)", "error", "killed"),
    Probe("100 MB of output", "print('x' * 10**8)", "output_limit memory", "output_limit"),
    Probe("endless output, errors caught", "while True:\n    try: print('x' * 100)\n    except BaseException: pass",
          "output_limit", "output_limit"),
    Probe("deep recursion", "def f(n): return f(n + 1)\nf(0)", "error", "error"),
    Probe("a million calls deep", "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return f(n + 1)\nf(0)",
          "error", "error killed memory timeout"),
    Probe("500 brackets", "(" * 500 + "1" + ")" * 500, "ok error", "error"),
    Probe("sys.exit", "import sys\nsys.exit(0)", "error", "error"),
    Probe("os._exit(0)", "import os\nos._exit(0)", "error", "killed"),
    Probe("64 threads", THREADS, "error", "ok"),
    Probe("a regular expression that explodes", "import re\nre.match('(a+)+$', 'a' * 40 + 'b')", "ok", "timeout"),
    Probe("raise its own limits", MORE_MEMORY, "error", "ok"),
    Probe("a forged answer", FORGED, "error", "killed timeout"),
    Probe("a value without end", "a = [0] * 1000\nb = [a] * 1000\nc = [b] * 1000\nc",
          "cut memory timeout", "memory timeout"),
    Probe("close every file", "import os\nos.closerange(0, 256)\nwhile True: pass", "error", "killed"),
)  # fmt: skip


@contextmanager
def surroundings() -> Iterator[dict[str, str]]:
    """Create the targets of the probes, a secret, a port, a socket and a folder, and yield their names."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as port, socket.socket(socket.AF_UNIX) as unix:
        port.bind(("127.0.0.1", 0))
        port.listen()
        path = str(Path(folder, "socket"))
        unix.bind(path)
        unix.listen()
        os.environ[SECRET_NAME] = SECRET
        try:
            yield {
                "pid": str(os.getpid()), "secret": SECRET, "port": str(port.getsockname()[1]), "unix": path, "folder": folder
            }  # fmt: skip
        finally:
            del os.environ[SECRET_NAME]


def fit_code(probe: Probe, facts: dict[str, str]) -> str:
    """Return a probe's code with facts of this machine in their places."""
    code = probe.code
    for name, value in facts.items():
        code = code.replace(f"{{{name}}}", value)
    return code.replace("{{", "{").replace("}}", "}")


def spec(backend: str) -> SandboxSpec:
    """Return the sandbox that probes run in."""
    return SandboxSpec(backend=backend, limits=LIMITS[backend])


def attack(session: Session, probe: Probe, facts: dict[str, str]) -> tuple[ExecResult, str]:
    """Run one probe; return its result and what went wrong, nothing if it was contained and the next call answers."""
    limits, right = session.spec.limits, getattr(probe, session.spec.backend).split()
    if "timeout" not in right:
        limits = replace(limits, cpu_seconds=10 * limits.cpu_seconds, wall_seconds=10 * limits.wall_seconds)
    result = session.run(fit_code(probe, facts), limits)
    wrong = []
    status = "cut" if result.status == "ok" and result.truncated else result.status
    if status not in right:
        wrong.append(f"status {status} ({result.error[:80]})")
    if "LEAK" in result.stdout + result.value or SECRET in result.stdout + result.value + result.error:
        wrong.append("it got through")
    if Path(facts["folder"], "probe").exists():
        wrong.append("it wrote a file")
    if session.run("6 * 7").value != "42":
        wrong.append("the next call does not answer")
    return result, "; ".join(wrong)
