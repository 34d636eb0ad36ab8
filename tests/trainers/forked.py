"""Processes of a trainer or a script that begin with torch and the trainers imported: a server that has run nothing forks them.

To import them costs more than most of the runs here; `python -m trainers.earl` itself, and what torch's launcher makes of
two of it, the heavy tests of test_earl_runs hold.
"""

import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.guard.unasked import GUARD

CONTEXT = get_context("forkserver")
# What a run imports at its first use, too.
AT_USE = ["tyro", "trainers.tiny", "trainers.engines.hf", "trainers.imitation.imitating", "trainers.trained_agent"]
CONTEXT.set_forkserver_preload(
    ["pytest", "trainers.grpo", "trainers.earl", "trainers.arpo", *AT_USE, "tests.trainers.weight_names"]
)


def started(module: str, *words: object, out: str = os.devnull, err: str = os.devnull, **variables: str) -> BaseProcess:
    """Return a process that does what `python -m MODULE WORDS` does, with its outputs in files."""
    variables = {GUARD: os.environ.get(GUARD, "|")} | variables  # the server has what it asked for itself
    process = CONTEXT.Process(target=_run, args=(module, [*map(str, words)], (str(out), str(err)), variables))
    process.start()
    return process


def returned(work: Callable[[], object]) -> object:
    """Return what a function of a module returns in such a process: other hashes, unless PYTHONHASHSEED fixes them."""
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_sent, args=(work, there))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        ended(process)


def ended(process: BaseProcess, timeout: float = 240.0) -> int:
    """Return the exit code of a process; one that takes too long is killed."""
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode


def killed_and_resumed(module: str, words: list[object], place: Path, *checkpoints: str) -> None:
    """Kill a run where each of these checkpoints appears, at the next start with --resume and nothing else; then let it end."""
    words = [*words, "--out", place]
    for name in checkpoints:
        process = started(module, *words)
        limit = time.monotonic() + 240
        while not (place / "checkpoints" / name).exists():
            assert process.is_alive() and time.monotonic() < limit
            time.sleep(0.01)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL and not (place / "result.json").exists()
        words = ["--resume", place]
    assert ended(started(module, *words)) == 0


def run_module(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
    """Do what `subprocess.run` does of [python, "-m", MODULE, WORDS...], with its outputs as text."""
    _, _, module, *words = command
    with tempfile.TemporaryDirectory() as folder:
        out, err = (Path(folder) / name for name in ("out", "err"))
        code = ended(started(module, *words, out=str(out), err=str(err)))
        return subprocess.CompletedProcess(command, code, out.read_text("utf-8"), err.read_text("utf-8"))


def two_ranks(module: str, *words: object, **variables: str) -> list[int]:
    """Run a module in two processes of one group, as `torch.distributed.run` starts them, and return their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [started(module, *words, err="/dev/stderr", RANK=rank, LOCAL_RANK=rank, **variables) for rank in ("0", "1")]
    return [ended(process) for process in ranks]


def _sent(work: Callable[[], object], there: Connection) -> None:
    there.send(work())


def _run(module: str, words: list[str], outputs: tuple[str, str], variables: dict[str, str]) -> None:
    import torch

    for number, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.environ.update(variables)
    torch.set_num_threads(1)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
