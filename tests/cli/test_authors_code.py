"""An exception of a stranger's environment or agent is one line; the traceback comes on demand."""

import re
import signal
import sys
from unittest.mock import Mock

import pytest

from agent_envs.core.authors_code import author_line
from tests.cli.conftest import shell

MODULE = """
import gymnasium as gym
from agent_envs import Reply, RewardSpec, Term, register_companions
from agent_envs.core.env import Outcome
from tests.toy import Guess, sampler, solver

def empty(trajectory):
    return {}["reward"]  # raises: reward

class Sound(Guess):
    def close(self):
        return None

class Step(Guess):
    def _advance(self, episode, action):
        return {}["step"]  # raises: step

class Reset(Guess):
    def reset(self, **options):
        return {}["reset"]  # raises: reset

class Begin(Guess):
    def _begin(self, task, key):
        return {}["begin"]  # raises: begin

class Init(Guess):
    def __init__(self, render_mode=None):
        {}["init"]  # raises: init

class Spaces(Guess):
    observation_space = property(lambda self: {}["spaces"], lambda self, space: None)  # raises: spaces

class NoSpace(Guess):  # raises: no space
    def __init__(self, render_mode=None):
        super().__init__()
        self.action_space = "text"

class Reward(Guess):
    def __init__(self, render_mode=None):
        super().__init__()
        self.reward_spec = RewardSpec("broken", (Term("a", 0.0, 1.0, "none", empty),), episode=(0.0, 1.0))

class NoOutcome(Guess):  # raises: no outcome
    def _advance(self, episode, action):
        return None

class FourValues(Guess):  # raises: four values
    def step(self, action):
        return super().step(action)[:4]

class Interrupted(Guess):
    def _advance(self, episode, action):
        raise KeyboardInterrupt  # raises: interrupted

class Exits(Guess):
    def _begin(self, task, key):
        raise SystemExit(0)  # raises: exits

def broken_sampler(env, rng):
    return {}["sampler"]  # raises: sampler

class Sampler(Guess):
    pass

for cls in (Sound, Step, Reset, Begin, Init, Spaces, NoSpace, Reward, NoOutcome, FourValues, Interrupted, Exits, Sampler):
    gym.register(f"strange/{cls.__name__}-v0", f"strange:{cls.__name__}")
    register_companions(cls, sampler=broken_sampler if cls is Sampler else sampler, solver=solver)

class Agent:
    name, batch = "agent", 1
    def act(self, requests):
        return [Reply("<answer>1</answer>") for _ in requests]

class Acts(Agent):
    def act(self, requests):
        return {}["act"]  # raises: acts

class Made(Agent):
    def __init__(self):
        {}["made"]  # raises: made

class Refuses(Agent):
    def __init__(self):
        raise ValueError("no model")  # raises: refuses

class AgentInterrupts(Agent):
    def act(self, requests):
        raise KeyboardInterrupt  # raises: agent interrupts
"""
ENVIRONMENTS = {  # class: the method, how it goes on, and the line
    "Step": ("step()", "raised KeyError: 'step'", "step"),
    "Reset": ("reset()", "raised KeyError: 'reset'", "reset"),
    "Begin": ("reset()", "raised KeyError: 'begin'", "begin"),
    "Init": ("__init__()", "raised KeyError: 'init'", "init"),
    "Spaces": ("", "raised KeyError: 'spaces'", "spaces"),
    "NoSpace": ("", "does not keep the contract: ", "no space"),
    "Reward": ("step()", "raised KeyError: 'reward'", "reward"),
    "NoOutcome": ("step()", "does not keep the contract: ", "no outcome"),
    "FourValues": ("step()", "does not keep the contract: ", "four values"),
    "Interrupted": ("step()", "raised KeyboardInterrupt", "interrupted"),
    "Exits": ("reset()", "raised SystemExit: 0", "exits"),
    "Sampler": ("broken_sampler()", "raised KeyError: 'sampler'", "sampler"),
}
HINT = "set AGENT_ENVS_TRACEBACK=1 to see the traceback"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A working directory with a module of environments and agents, and where a marked line of it is."""
    path = tmp_path / "strange.py"
    path.write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "strange", raising=False)
    monkeypatch.delenv("AGENT_ENVS_TRACEBACK", raising=False)
    lines = MODULE.splitlines()
    return lambda mark: f"({path}:{next(i for i, line in enumerate(lines, 1) if line.endswith(f'# raises: {mark}'))})"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environments_exception_in_eval(run, module, name):
    method, words, mark = ENVIRONMENTS[name]
    code, out, err = run("eval", f"strange:strange/{name}-v0", "-n", "2", "--out", "run")
    assert code == 2 and not out
    (line,) = [line for line in err.splitlines() if line.startswith("agent-envs: ")]
    assert line.startswith(f"agent-envs: strange/{name}-v0: {method}") and f" {words}" in line
    assert module(mark) in line and line.endswith(HINT)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environments_exception_in_check(run, module, name):
    method, words, mark = ENVIRONMENTS[name]
    code, out, err = run("check", f"strange:strange/{name}-v0", "-n", "1", "--hostile", "5")
    lines = [line for line in (out + err).splitlines() if f" {words}" in line]
    assert code in (1, 2) and lines and module(mark) in lines[0] and method in lines[0]
    assert f"strange/{name}-v0" in out + err and HINT in lines[0]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Acts", "agent strange:Acts: act() raised KeyError: 'act' {}; "),
        ("Made", "agent strange:Made: __init__() raised KeyError: 'made' {}; "),
        (
            "Refuses",
            "agent 'strange:Refuses' cannot be made: agent strange:Refuses: __init__() raised ValueError: no model {}",
        ),
        ("AgentInterrupts", "agent strange:AgentInterrupts: act() raised KeyboardInterrupt {}; "),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 2])
def test_an_agents_exception(run, module, name, line, concurrency):
    command = ["eval", "strange:strange/Sound-v0", "--agent", f"strange:{name}", "-n", "2"]
    code, out, err = run(*command, "--concurrency", concurrency, "--out", "run")
    marks = re.findall("[A-Z][a-z]+", name)
    assert code == 2 and not out
    assert f"agent-envs: {line.format(module(' '.join(marks).lower()))}" in err


def test_a_module_that_does_not_load(run, module, tmp_path):
    (tmp_path / "torn.py").write_text("x = 1\nimport no_such_module_of_mine\n", encoding="utf-8")
    (tmp_path / "typo.py").write_text("x = 1\ndef f(:\n", encoding="utf-8")
    for words in (["--agent", "torn:Agent", "SearchQA"], ["torn:torn/A-v0"]):
        code, _, err = run("eval", *words, "-n", "1")
        assert code == 2 and "No module named 'no_such_module_of_mine'" in err and f"({tmp_path / 'torn.py'}:2)" in err
    code, _, err = run("eval", "typo:typo/A-v0", "-n", "1")
    assert code == 2 and f"agent-envs: SyntaxError: invalid syntax (typo.py, line 2) ({tmp_path / 'typo.py'}:2)" in err


def test_the_traceback_is_shown_where_it_is_asked_for(module):
    done = shell("eval", "strange:strange/Step-v0", "-n", "1", cwd=".", env={"AGENT_ENVS_TRACEBACK": "1"})
    assert done.returncode == 2 and "Traceback (most recent call last)" in done.stderr and "in _advance" in done.stderr
    assert (
        done.stderr.splitlines()[-1] == f"agent-envs: strange/Step-v0: step() raised KeyError: 'step' {module('step')}"
    )


def test_ctrl_c_under_the_default_handler_is_a_persons(module, monkeypatch):
    from agent_envs import check_turn_env

    monkeypatch.syspath_prepend(".")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a script or a notebook
    try:
        with pytest.raises(KeyboardInterrupt):
            check_turn_env("strange:strange/Interrupted-v0", episodes=1, hostile=1)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_of_ours_in_a_strangers_environment_says_where_it_came_up(run, module, monkeypatch):
    monkeypatch.setattr("agent_envs.core.env.Header", Mock(side_effect=KeyError("a bug of ours")))
    code, _, err = run("eval", "strange:strange/Sound-v0", "-n", "1", "--out", "run")
    assert code == 2 and "does not keep the contract: KeyError: 'a bug of ours'" in err
    assert re.search(r"as \S*mock\.py:\d+ found; if the contract is kept, that line errs", err)
    monkeypatch.setattr("agent_envs.core.env.Header", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        run("eval", "strange:strange/Sound-v0", "-n", "1", "--out", "other")


def lines_of(body, tmp_path):
    """Return the line of what a function of a module outside of any package raises."""
    path = tmp_path / "outside.py"
    path.write_text(body, encoding="utf-8")
    scope = {"__name__": "outside"}
    exec(compile(body, str(path), "exec"), scope)  # of a text of this test
    with pytest.raises(Exception) as caught:
        scope["f"]()
    return author_line(caught.value.with_traceback(caught.value.__traceback__.tb_next))


def test_an_exception_with_a_cause_is_named_itself(tmp_path):
    body = "def f():\n    try:\n        next(iter(()))\n"
    body += "    except StopIteration as end:\n        raise ValueError('full') from end\n"
    assert lines_of(body, tmp_path) == f"f() raised ValueError: full ({tmp_path}/outside.py:5)"


def test_properties_that_raise_hide_nothing(tmp_path):
    body = """import gymnasium as gym
class Broken(gym.Env):
    spec = property(lambda self: {}["spec"])
    unwrapped = property(lambda self: {}["unwrapped"])
    def step(self, action):
        raise KeyError("own")
f = lambda: Broken().step("x")
"""
    assert lines_of(body, tmp_path) == f"outside:Broken: step() raised KeyError: 'own' ({tmp_path}/outside.py:6)"


def test_an_installed_package_is_no_authors(tmp_path, monkeypatch):
    (tmp_path / "thing-1.0.dist-info").mkdir()  # as pip's --target leaves it
    monkeypatch.syspath_prepend(str(tmp_path))
    assert lines_of("def f():\n    return {}['a']\n", tmp_path) == ""


def test_what_is_ours_keeps_its_traceback(module, monkeypatch):
    for error, raised in ((KeyError("ours"), KeyError), (KeyboardInterrupt(), KeyboardInterrupt)):
        with pytest.raises(raised) as caught:
            raise error
        frames = caught.value.__traceback__
        monkeypatch.setitem(globals(), "__name__", "agent_envs.core.env")
        assert author_line(caught.value.with_traceback(frames)) == ""
        monkeypatch.undo()
