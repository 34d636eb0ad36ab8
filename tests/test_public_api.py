"""The public names: pinned, so that a change of them is a decision."""

import ast
import inspect
import re
import textwrap
import types
from importlib import import_module

import pytest

import agent_envs
from agent_envs.base.errors import UsageError
from tests import ROOT

PINNED = [
    "AgentEnvsError", "BudgetSpent", "DataMissing", "EnvFault", "Episode", "EpisodePool", "EpisodeResult",
    "EpisodeWalk", "Message", "MissingExtra", "Outcome", "Planned", "Policy", "PoolTurn", "ReplayMismatch", "Reply",
    "Request", "Reward", "RewardSpec", "RunLog", "Share", "Snapshot", "Task", "Term", "ToolCall", "ToolResult",
    "Trajectory", "TrajectoryTree", "Turn", "TurnEnv", "TurnWrapper", "Unsolvable", "UsageError", "Utterance",
    "check_turn_env", "env_ids", "fork", "make_vec", "record_turn", "register_companions", "register_snapshot",
    "replay", "restore", "run_episode", "run_many", "snapshot", "solve", "spec_json", "task_rows", "tool_view",
]  # fmt: skip


def test_the_public_names_are_pinned():
    assert agent_envs.__all__ == PINNED == sorted(PINNED)


DOCUMENTED = ("agent_envs", "agent_envs.expa", "agent_envs.sandbox", "agent_envs.tau2", "agent_envs.wrappers")


def public_functions():
    """Yield each public class and function, and each public method of those classes; what overrides a method is its base's."""
    for module in map(import_module, DOCUMENTED):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isroutine(thing):
                yield pytest.param(thing, id=name)
            for method, value in vars(thing).items() if inspect.isclass(thing) else ():
                function = getattr(value, "fget", None) or getattr(value, "__func__", value)
                inherited = any(hasattr(base, method) for base in thing.__mro__[1:])
                if inspect.isfunction(function) and not method.startswith("_") and not inherited:
                    yield pytest.param(function, id=f"{name}.{method}")


def missing_words(function):
    """Return what a docstring leaves out: all of it, parameters where there are two or more, errors that the body raises."""
    words = inspect.getdoc(function)
    if not words:
        return ["a docstring"]
    if inspect.isclass(function):
        return []
    names = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    caught = {
        id(node)
        for tried in ast.walk(tree)
        if isinstance(tried, ast.Try)
        for part in tried.body
        for node in ast.walk(part)
    }
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and id(node) not in caught]
    errors = {call.func.id for call in raised if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    unnamed = [name for name in names if not re.search(rf"`{name}\b|^ *{name}:", words, re.MULTILINE)]
    return unnamed * (len(names) > 1) + sorted(error for error in errors if error not in words)


@pytest.mark.parametrize("function", list(public_functions()))
def test_every_public_name_is_documented_with_its_arguments_and_errors(function):
    assert missing_words(function) == []


def test_what_a_docstring_leaves_out_is_named():
    def undocumented():
        pass

    def half(first, second):
        """Return nothing of `first`."""
        raise UsageError("no")

    assert missing_words(undocumented) == ["a docstring"] and missing_words(half) == ["second", "UsageError"]


def test_nothing_else_of_the_package_is_public():
    internal = {"TYPE_CHECKING", "VERSION", "Any", "import_module", "register_all"}
    later = {"check_turn_env", "task_rows", "tool_view"}  # imported at use
    names = {
        name
        for name, value in vars(agent_envs).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert names - internal - later == set(PINNED) - later


def test_snapshot_is_the_function_whatever_was_imported():
    import agent_envs.core.snapshot

    assert agent_envs.snapshot is agent_envs.core.snapshot.snapshot


def test_short_paths_give_the_public_names_of_their_packages():
    for short, long in (("expa", "envs.expa"), ("sandbox", "tools.sandbox")):
        module, package = import_module(f"agent_envs.{short}"), import_module(f"agent_envs.{long}")
        assert module.__all__ == package.__all__ and len(package.__all__) >= 8
        assert all(getattr(module, name) is getattr(package, name) for name in module.__all__)
    assert import_module("agent_envs.tau2").dual_control is import_module("agent_envs.envs.tau2").dual_control


def test_the_top_of_the_package_is_rooms_and_short_paths():
    entries = {
        path.stem for path in (ROOT / "agent_envs").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rooms = entries - {"__init__", "__main__"} - {"expa", "sandbox", "tau2"}
    assert len(entries) <= 17 + len({"authoring", "integrations", "serving"} & rooms)
    for short in ("expa", "sandbox", "tau2"):
        assert len((ROOT / "agent_envs" / f"{short}.py").read_text(encoding="utf-8").splitlines()) <= 20


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_it"):
        agent_envs.nothing_like_it  # noqa: B018


def test_errors_are_one_tree_and_also_what_python_calls_them():
    for error in (
        agent_envs.DataMissing, agent_envs.EnvFault, agent_envs.MissingExtra, agent_envs.ReplayMismatch,
        agent_envs.Unsolvable, agent_envs.UsageError,
    ):  # fmt: skip
        assert issubclass(error, agent_envs.AgentEnvsError)
    assert issubclass(agent_envs.UsageError, ValueError) and issubclass(agent_envs.MissingExtra, ImportError)
    assert issubclass(agent_envs.DataMissing, FileNotFoundError)
    assert not issubclass(agent_envs.EnvFault, ValueError)
    assert 'pip install "agent-envs[legal]"' in str(agent_envs.MissingExtra("faiss", "legal", "semantic search"))
