"""ExpA: calculator and sorting tasks with an expanded action space, and the same tasks as plain text (arXiv 2510.07581)."""

from agent_envs.core import register_companions
from agent_envs.expa.actions import (
    ExpandedAction,
    ExternalEnvironment,
    Latent,
    Refusal,
    VocabularyRow,
    expanded_vocabulary,
)
from agent_envs.expa.discrete import DiscreteActions
from agent_envs.expa.machine import ExpandedActionEnv

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
        f"agent_envs.expa.{_class}",
        solver="agent_envs.expa.solver:next_action",
        sampler="agent_envs.expa.solver:random_action",
        labels="agent_envs.expa.labels:labels_of",
        metrics="agent_envs.expa.labels:metrics_of",
        feedback="agent_envs.expa.feedback:give_feedback",
    )
