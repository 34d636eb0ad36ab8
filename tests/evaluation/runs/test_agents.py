"""Agents by name."""

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.evaluation.runs.evaluate import evaluate, make_agent
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy
from agent_envs.services.recording import Recording
from tests.needs import needs

OWN = """
from agent_envs.rollout.policy import Reply

class Echo:
    name, batch = "echo", 1

    def __init__(self, word="x"):
        if not isinstance(word, str):
            raise ValueError("word is a text")
        self.word = word

    def act(self, requests):
        return [self.word for _ in requests]


class Batched:
    name, batch, sizes = "batched", 4, []

    def act(self, requests):
        self.sizes.append(len(requests))
        return [Reply("x") for _ in requests]


class NoPolicy:
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_agents.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def key(monkeypatch):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(variable, "k")


@pytest.fixture
def no_key(monkeypatch):
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def test_built_in_agents():
    assert isinstance(make_agent("null"), NullPolicy)
    for name in ("random", "heuristic", "solver"):
        policy = make_agent(name)
        assert isinstance(policy, CompanionPolicy) and policy.name == name


@pytest.mark.parametrize("name", ["random", "null", "solver"])
def test_built_in_agents_take_no_options(name):
    with pytest.raises(UsageError, match=f"agent {name}: unknown option temperature; it takes none"):
        make_agent(name, temperature=1)


@pytest.mark.parametrize("name", ["openai:gpt-x", "anthropic:claude-x@20250514", "openai:a/b:7@http://localhost:8000"])
@needs("[anthropic]")
def test_chat_agents(key, name):
    policy = make_agent(name, temperature=0.5, max_tokens=9)
    assert isinstance(policy, ChatPolicy)
    assert (policy.name, policy.batch, policy.can_prefill) == (name, 1, False)


class Named:
    """A class whose constructor has an argument called `name`, as that of `make_agent` is."""

    batch = 1

    def __init__(self, name="x"):
        self.name = name

    def act(self, requests):
        return []


def test_an_option_may_be_called_name():
    assert make_agent(f"{__name__}:Named", name="y").name == "y"


def test_chat_agents_name_the_options(key):
    with pytest.raises(UsageError, match="unknown option heat; the options are temperature, max_tokens"):
        make_agent("openai:m", heat=1)


def test_a_missing_key_is_named_before_anything_is_played(no_key, tmp_path):
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        make_agent("openai:m")
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
        make_agent("anthropic:m")
    make_agent("openai:m@http://localhost:8000")
    Recording(tmp_path / "r.jsonl", "record").close()
    make_agent("anthropic:m", recording=Recording(tmp_path / "r.jsonl", "replay"))


def test_own_agents_get_the_options(own):
    assert make_agent("own_agents:Echo", word="hi").act([1]) == ["hi"]
    assert make_agent("own_agents:Echo").act([1]) == ["x"]


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("own_agents:Echo", {"volume": 3}, "volume"),
        ("own_agents:Echo", {"word": 3}, "word is a text"),
        ("own_agents:NoPolicy", {}, "is no Policy"),
        ("own_agents:Missing", {}, "Missing"),
        ("no_such_module:Agent", {}, "no_such_module"),
    ],
)
def test_own_agents_that_cannot_be_made(own, name, options, text):
    with pytest.raises(UsageError, match=text):
        make_agent(name, **options)


@pytest.mark.parametrize("name", ["gpt-x", "solvers", ""])
def test_unknown_agents_show_what_there_is(name):
    with pytest.raises(UsageError, match="random, heuristic, solver, null, openai:MODEL, .*, or module:Class"):
        make_agent(name)


def test_providers_come_before_modules_of_their_name(tmp_path, monkeypatch, no_key):
    (tmp_path / "openai.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        make_agent("openai:Echo")


def test_a_local_engine_plays_its_whole_batch_unasked(own):
    from own_agents import Batched

    Batched.sizes.clear()
    suite = adhoc_suite(Choice("Order", {"size": 2, "max_generations": 2}, "test", limit=8))
    assert evaluate(suite, Settings("own_agents:Batched", smoke=True)).complete
    assert set(Batched.sizes) == {4}
