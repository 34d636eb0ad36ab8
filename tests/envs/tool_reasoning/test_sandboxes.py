"""Programs in both sandboxes, end to end: branches, threads, fresh processes, lost workers, and replays without a sandbox."""

from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.services.recording import Recording, read_answers
from agent_envs.services.run_services import Services
from agent_envs.tools import sandbox
from agent_envs.tools.sandbox import close_sandboxes, sandbox_version
from tests.fresh_process import printed
from tests.needs import needs
from tests.tools.sandbox.backends import BWRAP, MONTY

ID = "agent_envs/ToolReasoning-v0"
MATH_VERIFY = needs("bwrap", "[sandbox]", "[math-verify]")
BLOCKED = """
import sys
from pathlib import Path
for name in ("pydantic_monty", "math_verify", "sympy"):
    sys.modules[name] = None
import agent_envs.tools.sandbox
def forbidden(*arguments, **named):
    raise AssertionError("a replay opened a sandbox")
agent_envs.tools.sandbox._pool = forbidden
import gymnasium as gym
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
env = gym.make("agent_envs/ToolReasoning-v0", sandbox=sys.argv[2], equality=sys.argv[3], cpu_seconds=0.3)
with Recording(Path(sys.argv[1]), "replay") as recording:
    env.unwrapped.services = Services(recording)
    env.reset(seed=0, options={"task": 1, "split": "test"})
    for action in Path(sys.argv[4]).read_text(encoding="utf-8").split("\\n---\\n"):
        print(env.step(action)[:4])
"""
RESTORED = """
import sys
from pathlib import Path
import agent_envs
import gymnasium as gym
env = gym.make("agent_envs/ToolReasoning-v0", sandbox=sys.argv[2], max_programs=100, max_generations=100)
env.reset(seed=0, options={"task": 1, "split": "test"})
agent_envs.restore(env, agent_envs.Snapshot.from_bytes(Path(sys.argv[1]).read_bytes()))
print(env.step("<python>rows, twice(21), random.random()</python>")[0])
"""


@pytest.fixture(params=[MONTY, BWRAP])
def backend(request):
    return request.param


def begun(backend, recording=None, **arguments):
    env = gym.make(ID, sandbox=backend, max_programs=100, max_generations=100, **arguments)
    env.unwrapped.services = Services(recording)
    env.reset(seed=0, options={"task": 1, "split": "test"})
    return env


def run(code):
    return f"<think>x</think><python>{code}</python>"


BEGIN = "import random\nrows = [random.random()]\ndef twice(x):\n    return 2 * x"


@needs("bwrap", "[sandbox]")
def test_the_whole_of_python_and_its_prompt():
    env = begun("bwrap")
    text = env.unwrapped.episode.prompt[0].content
    assert "The interpreter is Python 3 with its standard library, numpy and sympy." in text and "subset" not in text
    env.step(run("from sympy import symbols, integrate\nx = symbols('x')\nclass Half(float):\n    pass"))
    assert env.step(run("integrate(x**2, (x, 0, 3)), Half(0.5)"))[0] == "\n<result>\n(9, 0.5)\n</result>\n"
    assert "os._exit" not in env.step(run("import os\nos._exit(0)"))[0]
    assert "names are as they were before it" in env.unwrapped.episode.turns[-1].results[0].content
    assert env.step(run("Half(1)"))[0] == "\n<result>\n1.0\n</result>\n"
    assert env.unwrapped.episode.turns[-1].results[0].ids == ("ok", sandbox_version("bwrap"))


def test_a_tree_of_branches_keeps_the_names_of_each(backend):
    env = begun(backend)
    env.step(run(BEGIN))
    branches = [agent_envs.fork(env, f"b{number}") for number in range(4)]
    for number, branch in enumerate(branches):
        branch.step(run(f"rows.append(twice({number}))"))
    leaves = [agent_envs.fork(branch, "leaf") for branch in branches for _ in range(2)]
    shown = [leaf.step(run("rows[1:]"))[0] for leaf in leaves]
    assert shown == [f"\n<result>\n[{2 * (place // 2)}]\n</result>\n" for place in range(8)]
    assert [branch.step(run("len(rows)"))[0] for branch in (env, *branches)] == [
        f"\n<result>\n{length}\n</result>\n" for length in (1, 2, 2, 2, 2)
    ]
    assert leaves[5].unwrapped.episode.header.branch == "b2.leaf"


def life(env, number):
    return [env.step(run(f"rows.append({number})\nprint(rows, random.randint(0, 10**6))"))[0] for _ in range(4)]


def test_forks_in_threads_are_as_they_are_one_after_another(backend):
    env = begun(backend)
    env.step(run(BEGIN))
    expected = [life(agent_envs.fork(env), number) for number in range(16)]
    close_sandboxes()
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(life, [agent_envs.fork(env) for _ in range(16)], range(16))) == expected


def test_bytes_of_an_episode_go_on_in_a_fresh_process(backend, tmp_path):
    env = begun(backend)
    for code in (BEGIN, "rows.append(random.random())", "1 / 0", "rows.append('end')"):
        env.step(run(code))
    path = tmp_path / "moment"
    path.write_bytes(agent_envs.snapshot(env).to_bytes())
    told = [printed(RESTORED, path, backend, hash_seed=seed) for seed in ("1", "2")]
    assert told[0] == told[1] == env.step(run("rows, twice(21), random.random()"))[0] + "\n"


def test_an_episode_survives_its_workers(backend):
    env = begun(backend)
    env.step(run("rows = []"))
    for number in range(6):
        with sandbox._SESSION_CACHE._lock:
            idle = [session for several in sandbox._SESSION_CACHE._idle.values() for session in several]
        living = [session._live.interpreter for session in idle if session._live.interpreter is not None]
        assert living
        for interpreter in living:
            interpreter.process.send(9)
        assert env.step(run(f"rows.append({number})\nlen(rows)"))[0] == f"\n<result>\n{number + 1}\n</result>\n"
    close_sandboxes()
    assert env.step(run("rows"))[0] == "\n<result>\n[0, 1, 2, 3, 4, 5]\n</result>\n"


@pytest.mark.parametrize("equality", ["exact", pytest.param("math_verify", marks=MATH_VERIFY)])
def test_a_replay_needs_no_sandbox_and_no_package(backend, equality, tmp_path):
    actions = [run(BEGIN), run("len(rows) / 3"), run("while True: pass"), run("twice(rows)[1:] == rows")]
    actions.append("<think>x</think><answer>\\boxed{0}</answer>")
    externals = tmp_path / "externals.jsonl"
    with Recording(externals, "record") as recording:
        env = gym.make(ID, sandbox=backend, equality=equality, cpu_seconds=0.3)
        env.unwrapped.services = Services(recording)
        env.reset(seed=0, options={"task": 1, "split": "test"})
        steps = [env.step(action)[:4] for action in actions]
    ports = [row["port"] for row in read_answers(externals)]
    assert ports == [f"sandbox:{backend}"] * 4 + ["math_verify"] * (equality == "math_verify")
    assert "timeout" in env.unwrapped.episode.turns[2].results[0].ids
    script = tmp_path / "actions"
    script.write_text("\n---\n".join(actions), encoding="utf-8")
    told = printed(BLOCKED, externals, backend, equality, script, hash_seed="3")
    assert told == "".join(f"{step}\n" for step in steps)


@MATH_VERIFY
@pytest.mark.parametrize(
    ("gold", "answer", "success"), [("1/3", "0.333333", True), ("(x+1)^2", "x^2+2x+1", True), ("7", "8", False)]
)
def test_answers_may_be_compared_by_math_verify(gold, answer, success):
    env = begun("monty", equality="math_verify", reward="accuracy")
    task = env.unwrapped.episode.task
    asked = agent_envs.Task("t", "test", "How much?", (gold,), data=task.data, hidden=())
    env.reset(seed=0, options={"task": asked})
    assert env.step(f"<answer>\\boxed{{{answer}}}</answer>")[1] == float(success)
