"""agent_envs is the package that people install: Gymnasium environments for multi-turn LLM agents, forkable and replayable.

Importing it registers every id and loads no environment. docs/architecture.md says who may import whom.

Modules, in reading order:
    core/: the turn contract, which is read first, and the table of ids.
    envs/: the families of environments.
    rollout/: playing episodes with a policy, once or many times.
    wrappers/: turn limits, memory, verbal feedback around any environment.
    checker/: the contract test of an environment.
    evaluation/: suites, runs, statistics, reports, pages, submissions.
    integrations/: tools and rows of tasks for the trainers of others.
    serving/: a server of environments, and the client that is one.
    authoring/: an environment of one's own, or a hub's package of one that is there, written from templates.
    cli/: the verbs of `agent-envs`.
    tools/: retrieval, the web, Python sandboxes.
    services/: outside services, recorded and replayed: chat models, judges, HTTP.
    datasets/: data sets, their readers and generators.
    grading/: whether two answers are equal.
    base/: messages, spaces, the protocol, errors, serialization.
    expa, sandbox, tau2: short paths to public names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_envs.base.errors import (
    AgentEnvsError,
    BudgetSpent,
    DataMissing,
    EnvFault,
    MissingExtra,
    ReplayMismatch,
    Unsolvable,
    UsageError,
)
from agent_envs.base.messages import Message, ToolCall, ToolResult, Utterance
from agent_envs.base.version import VERSION
from agent_envs.core.env import Episode, Outcome, Task, TurnEnv, TurnWrapper, spec_json
from agent_envs.core.episode import Reward, RewardSpec, Share, Term
from agent_envs.core.registry import env_ids, make_vec, register_all, register_companions
from agent_envs.core.snapshot import Snapshot, fork, register_snapshot, restore, snapshot
from agent_envs.core.trajectory import Trajectory, TrajectoryTree, Turn
from agent_envs.rollout.episode_pool import EpisodePool, PoolTurn
from agent_envs.rollout.episode_runner import (
    EpisodeResult,
    EpisodeWalk,
    Planned,
    record_turn,
    replay,
    run_episode,
    solve,
)
from agent_envs.rollout.policy import Policy, Reply, Request
from agent_envs.rollout.run_many import RunLog, run_many

if TYPE_CHECKING:
    from agent_envs.checker import check_turn_env
    from agent_envs.integrations import task_rows, tool_view

__all__ = [
    "AgentEnvsError",
    "BudgetSpent",
    "DataMissing",
    "EnvFault",
    "Episode",
    "EpisodePool",
    "EpisodeResult",
    "EpisodeWalk",
    "Message",
    "MissingExtra",
    "Outcome",
    "Planned",
    "Policy",
    "PoolTurn",
    "ReplayMismatch",
    "Reply",
    "Request",
    "Reward",
    "RewardSpec",
    "RunLog",
    "Share",
    "Snapshot",
    "Task",
    "Term",
    "ToolCall",
    "ToolResult",
    "Trajectory",
    "TrajectoryTree",
    "Turn",
    "TurnEnv",
    "TurnWrapper",
    "Unsolvable",
    "UsageError",
    "Utterance",
    "check_turn_env",
    "env_ids",
    "fork",
    "make_vec",
    "record_turn",
    "register_companions",
    "register_snapshot",
    "replay",
    "restore",
    "run_episode",
    "run_many",
    "snapshot",
    "solve",
    "spec_json",
    "task_rows",
    "tool_view",
]
__version__ = VERSION

register_all()


_LATER = {"check_turn_env": "checker", "task_rows": "integrations", "tool_view": "integrations"}


def __getattr__(name: str) -> Any:
    """Import at its first use what needs more of the package than an environment does."""
    if name in _LATER:
        return getattr(import_module(f"agent_envs.{_LATER[name]}"), name)
    raise AttributeError(f"module 'agent_envs' has no attribute {name!r}")
