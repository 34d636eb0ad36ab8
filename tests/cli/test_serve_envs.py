"""The environment server as a process: how it starts, what it says, and how it ends."""

from tests.needs import require

require("[serve]")

import json
import os
import signal
import subprocess
import sys
import time

import gymnasium as gym
import pytest
from websockets.sync.client import connect

from tests.cli.conftest import ROOT

TOKEN = "0123456789abcdef0123456789abcdef"


def start(*arguments, **variables):
    return subprocess.Popen(
        [sys.executable, "-m", "agent_envs", "serve", *arguments, "--port", "0", "--json"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_cleanly_beside_open_clients(how):
    process = start("tests.toy:toy/Guess-v0", "--arg", "turns=3", "--sessions", "2")
    first = json.loads(process.stdout.readline())
    assert first["environments"] == ["Guess"]
    env = gym.make("agent_envs:agent_envs/Remote-v0", url=first["url"])
    assert env.unwrapped.max_turns == 3
    env.reset(seed=0)
    with connect(first["url"].replace("http", "ws") + "/ws", proxy=None) as socket:
        socket.send('{"type": "reset"}')
        socket.recv(20)
        begin = time.monotonic()
        process.send_signal(how)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0 and err.strip() == "stopped" and time.monotonic() - begin < 10


def test_what_it_refuses(run):
    for more, words in (
        (["Chess"], "Chess"), (["SearchQA", "Sort", "--arg", "x=1"], "--arg goes with one id"),
        (["Sort", "--host", "0.0.0.0"], "give a token"), (["Sort", "--token-env", "NO_SUCH"], "is not set"),
        (["Sort", "--token-env", "HOME:all"], "the right 'all'"),         (["Sort", "--arg", "nothing=1"], "nothing"),
    ):  # fmt: skip
        code, out, err = run("serve", *more)
        assert code == 2 and out == "" and words in err, (more, err)


def test_tokens_come_from_the_environment():
    process = start("Sort", "--host", "0.0.0.0", "--token-env", "A_TOKEN:export", A_TOKEN=TOKEN)
    try:
        url = json.loads(process.stdout.readline())["url"].replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(Exception, match="401"):
            gym.make("agent_envs:agent_envs/Remote-v0", url=url)
        env = gym.make("agent_envs:agent_envs/Remote-v0", url=url, token=TOKEN)
        env.reset(seed=0)
        core = env.unwrapped
        assert core._ask("export", lambda answer: answer["bytes"], snapshot=core.episode.state.handle)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_a_minute_is_told(monkeypatch):
    from tests.serving.running import post, serving

    monkeypatch.setattr("agent_envs.serving.server.LOG_SECONDS", 1)
    lines = []
    with serving(tell=lines.append) as server:
        session = post(server, "reset", seed=0)[1]["metadata"]["session"]
        post(server, "step", session=session, action="x")
        end = time.monotonic() + 10
        while not lines and time.monotonic() < end:
            time.sleep(0.1)
    assert lines[0].startswith("sessions 1, max_sessions 1024, queue 0, under_way 0, turns 1, faults 0")
