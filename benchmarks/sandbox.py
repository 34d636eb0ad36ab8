"""Code sandboxes are measured: their latency, the abuse probes that they hold, and calls after their workers are killed.

    python -m benchmarks.sandbox                       # all three; or any of:
    python -m benchmarks.sandbox --latency             # cold, warm, fresh session, fork, snapshot and restore: p50, p99
    python -m benchmarks.sandbox --abuse               # 34 probes on each backend, and whether the next call answers
    python -m benchmarks.sandbox --kills 50            # SIGKILLs of workers, idle and at work

The peer is a plain CPython subprocess, which holds nothing. With `--out` the tables go into a file, each with its command, and
tables that were not asked for stay there as they are. Exit code 1 if a probe got through or a call after a kill was wrong.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.terminal import print_table
from agent_envs.tools.sandbox import (
    BACKENDS,
    SandboxSpec,
    close_sandboxes,
    open_sandbox,
    restore_session,
    sandbox_version,
)
from agent_envs.tools.sandbox.sessions import Session
from benchmarks.sandbox_probes import PROBES, attack, spec, surroundings

CELL, VALUE = "sum(i * i for i in range(100))", "328350"
STATE = "table = {i: str(i) for i in range(1000)}; row = list(range(1000))"
SYMPY = "import sympy as sp\nx = sp.symbols('x')\nsp.integrate(x * sp.exp(x), x)"
KINDS = {
    "monty": SandboxSpec(),
    "bwrap, numpy and sympy loaded": SandboxSpec(backend="bwrap"),
    "bwrap, bare": SandboxSpec(backend="bwrap", preload=False),
}


def time_runs(count: int, work: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> dict[str, float]:
    """Return p50, p99 and the least of so many runs, in milliseconds of the clock on the wall."""
    milliseconds = []
    for _ in range(count):
        before()
        start = time.perf_counter()
        work()
        milliseconds.append((time.perf_counter() - start) * 1_000)
    milliseconds.sort()
    return {
        "runs": count,
        "p50": round(statistics.median(milliseconds), 3),
        "p99": round(milliseconds[min(len(milliseconds) - 1, int(0.99 * len(milliseconds)))], 3),
        "least": round(milliseconds[0], 3),
    }


def check_answer(session: Any, code: str = CELL, value: str = VALUE) -> None:
    """Run a cell whose value is known."""
    result = session.run(code)
    assert result.value == value, result


def first(sandbox: SandboxSpec) -> None:
    """Open a session, run one cell, close it."""
    with open_sandbox(sandbox) as session:
        check_answer(session)


def latency_of(sandbox: SandboxSpec) -> dict[str, dict[str, float]]:
    """Return the timings of one kind of sandbox."""
    slow = sandbox.backend == "bwrap"
    rows = {
        "cold: no process yet, to the first result": time_runs(
            8 if slow else 50, lambda: first(sandbox), close_sandboxes
        )
    }
    rows["fresh session and its first cell"] = time_runs(100 if slow else 300, lambda: first(sandbox))
    with open_sandbox(sandbox) as session:
        rows["a cell"] = time_runs(1_000, lambda: check_answer(session))
    with open_sandbox(sandbox) as session:
        session.run(STATE)

        def fork_and_run() -> None:
            """Fork the session and run a cell in the fork."""
            with session.fork() as fork:
                check_answer(fork, "len(table)", "1000")

        def restore_and_run() -> None:
            """Restore the snapshot and run a cell in the session."""
            with restore_session(snapshot) as other:
                check_answer(other, "len(table)", "1000")

        def replay_and_run() -> None:
            """Run the snapshot's cells in a new session, and then a cell more."""
            with Session(session._pool, session.spec, cells=snapshot.cells) as other:
                check_answer(other, "len(table)", "1000")

        snapshot = session.snapshot()
        rows["fork and a cell in it"] = time_runs(60 if slow else 200, fork_and_run)
        rows["snapshot"] = time_runs(200, lambda: session.snapshot(), lambda: session.run("row[0] += 1"))
        rows["restore and a cell, same process"] = time_runs(60 if slow else 200, restore_and_run)
        rows["restore and a cell, from the record"] = time_runs(60 if slow else 200, replay_and_run)
    if slow:
        with open_sandbox(sandbox) as session:
            check_answer(session, SYMPY, "(x - 1)*exp(x)")
            rows["an integral by sympy, again"] = time_runs(50, lambda: check_answer(session, SYMPY, "(x - 1)*exp(x)"))
    return rows


def plain(flags: list[str], code: str) -> None:
    """Run code as papers' tools do: a subprocess with no bounds."""
    subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, check=True)


def measure_latency() -> tuple[Any, bool]:
    """Measure, print and return the latency table; nothing can go wrong with it."""
    table: dict[str, Any] = {}
    for name, sandbox in KINDS.items():
        try:
            table[name] = latency_of(sandbox)
        except UsageError as error:
            table[name] = {"skipped": str(error)}
    before, _, last = SYMPY.rpartition("\n")
    table["peer: CPython subprocess (-I -S)"] = {"a cell": time_runs(30, lambda: plain(["-I", "-S"], f"print({CELL})"))}
    table["peer: CPython subprocess (-I)"] = {
        "a cell": time_runs(30, lambda: plain(["-I"], f"print({CELL})")),
        "an integral by sympy, again": time_runs(5, lambda: plain(["-I"], f"{before}\nprint({last})")),
    }
    lines = [
        [kind, row, *(f"{timings[part]:,}" for part in ("p50", "p99", "least", "runs"))]
        for kind, rows in table.items()
        for row, timings in rows.items()
        if isinstance(timings, dict)
    ]
    print_table("milliseconds", ["sandbox", "what", "p50", "p99", "least", "runs"], lines)
    return {"load": [round(part, 1) for part in os.getloadavg()], "milliseconds": table}, True


def measure_abuse() -> tuple[Any, bool]:
    """Run, print and return the abuse matrix; False if anything got through or the next call did not answer."""
    close_sandboxes()  # processes are to start with the secret in our environment
    rows: dict[str, dict[str, str]] = {probe.name: {} for probe in PROBES}
    sound = True
    for backend in BACKENDS:
        with surroundings() as facts:
            try:
                session = open_sandbox(spec(backend))
            except UsageError as error:
                print(f"{backend}: skipped, {error}")
                continue
            with session:
                for probe in PROBES:
                    result, wrong = attack(session, probe, facts)
                    sound = sound and not wrong
                    refusal = result.error.partition(":")[0] or result.status
                    rows[probe.name][backend] = f"LEAK: {wrong}" if wrong else f"held ({refusal})"
                answers = session.run("6 * 7").value == "42"
                sound = sound and answers
                rows.setdefault("the next call answers, after each", {})[backend] = "yes" if answers else "NO"
    lines = [[name, *(cells.get(backend, "") for backend in BACKENDS)] for name, cells in rows.items()]
    print_table(f"{len(rows)} probes", ["probe", *BACKENDS], lines)
    return rows, sound


def measure_kills(count: int) -> tuple[Any, bool]:
    """Kill workers, print and return what came of the calls; False if one was wrong."""
    table: dict[str, dict[str, int]] = {}
    for backend in BACKENDS:
        try:
            session = open_sandbox(SandboxSpec(backend=backend, preload=False))
        except UsageError as error:
            print(f"{backend}: skipped, {error}")
            continue
        counts = table[backend] = {"kills": 0, "right at once": 0, "faults": 0, "right afterwards": 0, "wrong": 0}
        with session:
            session.run("x = 0")
            for number in range(count):
                process = session._live.interpreter.process  # type: ignore[attr-defined]
                killer = threading.Timer(0.01, process.send, (signal.SIGKILL,))
                if number % 2:
                    killer.start()
                    try:
                        session.run("while True: pass")
                        counts["wrong"] += 1
                    except EnvFault:
                        counts["faults"] += 1
                    killer.join()
                else:
                    process.send(signal.SIGKILL)
                    process.ended(5.0)
                counts["kills"] += 1
                right = session.run("x += 1; x").value == str(number + 1)
                counts["right afterwards" if number % 2 else "right at once"] += right
                counts["wrong"] += not right
    heads = list(next(iter(table.values())))
    lines = [[backend, *(str(counts[head]) for head in heads)] for backend, counts in table.items()]
    print_table(
        "workers killed while idle (right at once) and at work (a fault, then right)", ["sandbox", *heads], lines
    )
    return table, not any(counts["wrong"] for counts in table.values())


def main() -> None:
    """Run the measurements that the options name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--latency", action="store_true", help="the latency table")
    parser.add_argument("--abuse", action="store_true", help="the abuse matrix")
    parser.add_argument("--kills", type=int, default=0, help="how many workers to kill")
    parser.add_argument("--out", help="JSON file for the tables")
    options = parser.parse_args()
    every = not (options.latency or options.abuse or options.kills)
    parts: dict[str, Callable[[], tuple[Any, bool]]] = {}
    if options.latency or every:
        parts["latency"] = measure_latency
    if options.abuse or every:
        parts["abuse"] = measure_abuse
    if options.kills or every:
        parts["kills"] = lambda: measure_kills(options.kills or 50)
    path = Path(options.out) if options.out else None
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else {}
    sound = True
    for name, measure in parts.items():
        flag = f"--{name} {options.kills or 50}" if name == "kills" else f"--{name}"
        table, good = measure()
        sound = sound and good
        report[name] = {"command": f"python -m benchmarks.sandbox {flag} --out {options.out}", "table": table}
    report["versions"] = {backend: version_of(backend) for backend in BACKENDS}
    if path is not None:
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if sound else 1)


def version_of(backend: str) -> str:
    """Return a backend's version, or why there is none."""
    try:
        return sandbox_version(backend)
    except UsageError as error:
        return f"skipped: {error}"


if __name__ == "__main__":
    main()
