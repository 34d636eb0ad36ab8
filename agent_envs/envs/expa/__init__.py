"""ExpA: calculator and sorting tasks with an expanded action space, and the same tasks as plain text (arXiv 2510.07581)."""

from agent_envs.core.env import register_companions
from agent_envs.envs.expa.actions import (
    ExpandedAction,
    ExternalEnvironment,
    Latent,
    Refusal,
    VocabularyRow,
    expanded_vocabulary,
)
from agent_envs.envs.expa.discrete import DiscreteActions
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv

__all__ = [
    "DiscreteActions",
    "ExpandedAction",
    "ExpandedActionEnv",
    "ExternalEnvironment",
    "Latent",
    "Refusal",
    "VocabularyRow",
    "expanded_vocabulary",
]

for _class in ("tag_face:TagEnv", "machine:ExpandedActionEnv"):
    register_companions(
        f"agent_envs.envs.expa.{_class}",
        solver="agent_envs.envs.expa.solver:next_action",
        sampler="agent_envs.envs.expa.solver:random_action",
        labels="agent_envs.envs.expa.labels:labels_of",
        metrics="agent_envs.envs.expa.labels:metrics_of",
        feedback="agent_envs.envs.expa.feedback:give_feedback",
    )
