"""`agent-envs check` on the real packages: a sound environment of each, and broken ones that fail in their own parts.

    python -m tests.integrations.checked verifiers|openenv

Writes the environments into the working directory, serves those of OpenEnv, and plays them by the command line; it prints how
many. test-integrations runs it.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

# The broken parts of both: name, how its numbers are drawn, how a reply is paid, which parts fail.
SOUND = "random.Random(seed)"
RIGHT = "float(reply == str(one + two))"
KINDS = {
    "sound": (SOUND, RIGHT, set()),
    "unseeded": ("random.Random()", RIGHT, {"seeds"}),
    "lottery": (SOUND, "random.random() / 10", {"determinism"}),
    "crash": (SOUND, "float(reply[0] == '7' and len(reply) == 3)", {"no exception"}),
    "copies": (SOUND, "float(f'Add {one} and {two}' in reply)", {"copied observations"}),
    "blind": (SOUND, "float(len(reply) % 2 == one % 2)", {"blind replay"}),
}
TASKSET = """import random
import verifiers.v1 as vf

__all__ = ["Sums"]

class Data(vf.TaskData):
    one: int
    two: int

class Sum(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        reply, one, two = trace.assistant_messages[-1].content, self.data.one, self.data.two
        return {pay}

class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        for seed in range(20):
            one, two = {draw}.sample(range(100, 1000), 2)
            yield Sum(Data(prompt=f"Add {{one}} and {{two}}.", one=one, two=two), self.config.task)
"""
SERVER = """import random
import sys
import uvicorn
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

class Reply(Action):
    message: str
    strength: int

class Question(Observation):
    text: str

class Sums(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    numbers = None

    def reset(self, seed=None, episode_id=None, **others):
        self.numbers = {draw}.sample(range(100, 1000), 2)
        return Question(text="Add {{}} and {{}}.".format(*self.numbers))

    def step(self, action, timeout_s=None, **others):
        (one, two), reply = self.numbers, action.message
        return Question(text="Thanks.", reward={pay}, done=True)

    @property
    def state(self):
        return State()

uvicorn.run(create_app(Sums, Reply, Question, env_name="sums"), port=int(sys.argv[1]), log_level="critical")
"""


def check(*arguments) -> tuple[int, dict]:
    """Return exit code and report of `agent-envs check`."""
    options = ("--json", "-n", "4", "--hostile", "40", "--solved", "1")
    command = [sys.executable, "-m", "agent_envs", "check", *arguments, *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ran.stdout, ran.stderr[-2000:]
    (report,) = json.loads(ran.stdout)["reports"]
    return ran.returncode, report


def check_taskset(name, draw, pay) -> tuple[int, dict]:
    """Check a taskset of verifiers', a module of the working directory."""
    Path(f"sums_{name}.py").write_text(TASKSET.format(draw=draw, pay=pay), encoding="utf-8")
    return check(f"verifiers:sums_{name}")


def check_server(name, draw, pay) -> tuple[int, dict]:
    """Check a server of OpenEnv's, which is up while it is checked."""
    Path(f"sums_{name}.py").write_text(SERVER.format(draw=draw, pay=pay), encoding="utf-8")
    port = 18_480 + list(KINDS).index(name)
    with subprocess.Popen([sys.executable, f"sums_{name}.py", str(port)]) as server:
        try:
            import httpx

            for _ in range(300):
                try:
                    httpx.get(f"http://127.0.0.1:{port}/schema")
                    break
                except httpx.HTTPError:
                    time.sleep(0.2)
            return check(f"openenv:http://127.0.0.1:{port}", "--arg", "strength=3")
        finally:
            server.terminate()


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join([".", os.environ.get("PYTHONPATH", "")])
    play, unasked = {"verifiers": (check_taskset, {"step before reset"}), "openenv": (check_server, set())}[sys.argv[1]]
    for kind, (draw, pay, parts) in KINDS.items():
        code, report = play(kind, draw, pay)
        failed = {row["name"] for row in report["checks"] if row["status"] == "failed"}
        skipped = {row["name"] for row in report["checks"] if row["status"] == "cannot be asked"}
        assert (failed, code) == (parts, int(bool(parts))), (kind, report)
        assert kind != "sound" or skipped == unasked, report
    print(f"check: sound passes, {len(KINDS) - 1} broken ones fail in their own parts")
