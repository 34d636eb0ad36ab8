"""Fresh processes play scripts, built-in agents and snapshots where nothing of this process exists.

`python -m agent_envs.checker.processes` reads jobs from standard input, one a line, and writes a line for each. On Linux every
job is done by a fork of that process, which itself imports, and makes the tasks of our own environments, and does nothing else:
that costs more than most jobs, and the next job asks for the same. Elsewhere each job has a process of its own.
"""

import atexit
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from threading import Lock
from typing import IO, Any

import gymnasium as gym

from agent_envs.base.serialization import digest
from agent_envs.checker.env_under_test import CheckFailed, CheckSkipped, EnvUnderTest, Script, make_again, play
from agent_envs.core.authors_code import author_line
from agent_envs.core.env import core_of
from agent_envs.core.snapshot import Snapshot, restore
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy

COMMAND = [sys.executable, "-m", "agent_envs.checker.processes"]
SECONDS = 600


def run_child(subject: EnvUnderTest, job: dict[str, Any], hash_seed: str) -> dict[str, Any]:
    """Return a job's results from a fresh process (Linux: a fork); CheckFailed if it fails, CheckSkipped for __main__."""
    if not subject.importable:
        raise CheckSkipped("the class is defined in __main__, which a fresh process cannot import")
    around = {"path": sys.path, "folder": os.getcwd(), "variables": dict(os.environ)}
    text = json.dumps({"recipe": subject.recipe, **around, **job}, default=asdict)
    if sys.platform == "linux":
        if hash_seed not in _servers or not _servers[hash_seed].lives():
            _servers[hash_seed] = _ForkServer(hash_seed)
        line = _servers[hash_seed].ask(text)
    else:
        line = run_fresh(text, hash_seed)
    result: dict[str, Any] = json.loads(line or '{"error": "it died"}')
    if "error" in result:
        raise CheckFailed(f"a fresh process fails: {result['error']}")
    return result


def run_fresh(text: str, hash_seed: str) -> str:
    """Run a job in a new process for at most 600 s and return the line that it writes, "" where it died."""
    child = subprocess.run(
        COMMAND, input=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=_variables_with(hash_seed),
        timeout=SECONDS, check=False,
    )  # fmt: skip
    return child.stdout


class _ForkServer:
    """A process that forks one for each job."""

    def __init__(self, hash_seed: str) -> None:
        """Start the process with a hash seed, to be ended when this process ends."""
        self.owner, self._lock = os.getpid(), Lock()
        self._process = subprocess.Popen(
            [*COMMAND, "fork"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=_variables_with(hash_seed),
        )  # fmt: skip
        atexit.register(self.close)

    def ask(self, text: str) -> str:
        """Return the line that a fork of the server writes for a job; "" if the server died."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with self._lock:
            try:
                stdin.write(text + "\n")
                stdin.flush()
                return stdout.readline()
            except OSError:
                return ""

    def close(self) -> None:
        """End it, unless it belongs to the process that this one was forked from."""
        if self.owner == os.getpid():
            self._process.communicate()

    def lives(self) -> bool:
        """Return whether this process may ask it."""
        return self.owner == os.getpid() and self._process.poll() is None


_servers: dict[str, _ForkServer] = {}


def _variables_with(hash_seed: str) -> dict[str, str]:
    """Return this process's environment variables with another hash seed."""
    return {**os.environ, "PYTHONHASHSEED": hash_seed}


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job on a new environment: return digests of `play`, of `agents`, and of `restore`: by snapshot, then pickle."""
    env = make_again(job["recipe"])
    digests = [play(env, _script_of_row(row)) for row in job.get("play", [])]
    restored = []
    for row in job.get("restore", []):
        restore(env, Snapshot.from_bytes(row["snapshot"].encode("utf-8", "surrogatepass")))
        both = env, pickle.loads(bytes.fromhex(row["pickle"]))
        restored += [play(one, _script_of_row(row["script"]), start=row["start"]) for one in both]
    return {"play": digests, "agents": agents_play(env, job.get("agents", [])), "restore": restored}


def agents_play(env: gym.Env[Any, Any], places: Sequence[Sequence[Any]]) -> list[str]:
    """Play each (agent, split, task) with the built-in agent; return a digest of each one's actions and rewards."""
    digests = []
    for kind, split, task in places:
        result = run_episode(env, CompanionPolicy(kind), seed=task, task=task, split=split, episode_key=f"check:{task}")
        digests.append(digest([[turn.action, turn.reward] for turn in result.trajectory.turns]))
    return digests


def _script_of_row(row: dict[str, Any]) -> Script:
    """Return a row of JSON as a script."""
    return Script(row["seed"], row["task"], row["split"], tuple(row["actions"]))


def _answer_line(text: str, answers: IO[str]) -> None:
    """Run a job and write its JSON line: the result, or {"error": ...} for any exception."""
    try:
        job = json.loads(text)
        _adopt_caller_settings(job)
        result = answer(job)
    except BaseException as error:  # noqa: BLE001 - whatever a stranger's environment raises is what is to be told
        result = {"error": author_line(error) or f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(result) + "\n")
    answers.flush()


def _adopt_caller_settings(job: dict[str, Any]) -> None:
    """Set the working folder, the import path and the variables to those of the process that sent the job."""
    hash_seed = os.environ["PYTHONHASHSEED"]
    os.environ.clear()
    os.environ.update(job["variables"], PYTHONHASHSEED=hash_seed)
    os.chdir(job["folder"])
    sys.path[:] = job["path"]


def _make_tasks(job: dict[str, Any]) -> None:
    """Make the tasks of a job's scripts in the server, for this and later forks; errors are dropped, at most 600 s.

    So a task of ours that came out differently from process to process is seen once a server, of which each hash seed has one.
    """
    signal.alarm(SECONDS)
    with contextlib.suppress(Exception, SystemExit):
        _adopt_caller_settings(job)
        env = make_again(job["recipe"])
        source = core_of(env).source
        for script in job.get("play", []):
            source.get(script["split"], script["task"])
        env.close()
    signal.alarm(0)


def _answer_in_fork(text: str, answers: IO[str]) -> None:
    """Run one job in a fork, which writes its line; where it exits with another code than 0, write an error line."""
    job = json.loads(text)
    module = job["recipe"]["module"]
    if module.startswith("agent_envs."):
        import_module(module)
        _make_tasks(job)
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        _answer_line(text, answers)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        answers.write(json.dumps({"error": f"exit code {status}"}) + "\n")
        answers.flush()


def _serve() -> None:
    """Answer the jobs on standard input, a line each, in forks where argv says `fork`; environments' prints are discarded."""
    answers = os.fdopen(os.dup(1), "w")
    jobs = os.fdopen(os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # what an environment reads and prints is no job and no answer
        os.dup2(nothing, stream)
    for text in jobs:
        (_answer_in_fork if sys.argv[1:] == ["fork"] else _answer_line)(text, answers)


if __name__ == "__main__":
    _serve()
