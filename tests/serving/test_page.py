"""The page on serving: each command starts a server, each block plays against one."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from tests import ROOT
from tests.serving.running import post, serving

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```console\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
TOKENS = {"TOKEN": "t" * 32, "ADMIN": "a" * 32}


def test_what_there_is_to_run():
    assert len(COMMANDS) == 4 and len(BLOCKS) == 3 and set(re.findall(r"```(\w+)", PAGE)) == {"console", "python"}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_start_a_server(command):
    words = shlex.split(command)
    assert words[:2] == ["agent-envs", "serve"]
    process = subprocess.Popen(
        [sys.executable, "-m", "agent_envs", *words[1:], "--port", "0", "--json"], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT), **TOKENS}, cwd=ROOT,
    )  # fmt: skip
    announced = json.loads(process.stdout.readline())
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0 and err == "stopped\n"
    assert announced["environments"] == [word for word in words[2:4] if not word.startswith("-")]


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_blocks_play(block, tmp_path):
    with serving("SearchQA") as server:
        (tmp_path / "block.py").write_text(block.replace("http://127.0.0.1:8000", server.url), encoding="utf-8")
        run = subprocess.run(
            [sys.executable, "-W", "error", "block.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr


def test_the_table_names_every_message():
    with serving() as server:
        kinds = set(server.sessions.kinds) | {"health", "schema", "metadata", "list_environments", "splits"}
        assert not [kind for kind in kinds if kind not in PAGE]
        assert post(server, "none")[0] == 404
