"""Running the command line: in this process for most tests, in one of its own for some."""

import json
import os
import subprocess
import sys

import pytest

from agent_envs.cli import app as cli
from tests import ROOT

AGENT = '''
import json, os, time
from agent_envs.base.errors import EnvFault
from agent_envs.rollout.policy import Reply

class Slow:
    """Answers the question's last word, slowly where SLOW is set."""
    name, batch = "slow", 1
    def act(self, requests):
        time.sleep(float(os.environ.get("SLOW", "0")))
        question = requests[0].messages[0]["content"].rsplit("Question: ", 1)[-1]
        return [Reply(f"<answer>{question.rstrip('?').split()[-1]}</answer>" if requests[0].turn > 1 else "<search>a</search>")]

class Faulty(Slow):
    """Its service fails on some tasks."""
    name = "faulty"
    def act(self, requests):
        if "2" in requests[0].episode_key[:2]:
            raise EnvFault("the model is out")
        return super().act(requests)

class NeedsWords:
    name, batch = "needs", 1
    def __init__(self, words): ...

class NoPolicy:
    pass
'''


UNTIMED = {"run": "", "seconds": 0.0, "agent_seconds": 0.0}


def strict(text):
    """Parse JSON as other languages do: without NaN and Infinity."""

    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def run(monkeypatch, capsys):
    """A function that runs the command line in this process and returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["agent-envs", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return code, captured.out, captured.err

    return command


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """A working directory with a module of agents."""
    (tmp_path / "cli_agents.py").write_text(AGENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "cli_agents", raising=False)
    return tmp_path


def shell(*arguments, cwd=ROOT, **options):
    command = [sys.executable, "-m", "agent_envs", *map(str, arguments)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, **options.pop("env", {})}
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False, env=environment, **options
    )
