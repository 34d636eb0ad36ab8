"""The public names: pinned, so that a change of them is a decision."""

import types
from importlib import import_module

import pytest

import agent_envs
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


def test_every_public_name_is_there_and_documented():
    for name in PINNED:
        assert getattr(agent_envs, name).__doc__, name


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
