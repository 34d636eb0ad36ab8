"""tau2: dual-control customer service in three domains, equal to the original benchmark on recorded behaviour."""

from typing import TYPE_CHECKING, Any

from agent_envs.core.env import register_companions

if TYPE_CHECKING:
    from agent_envs.envs.tau2.aec import DualControl

register_companions(
    "agent_envs.envs.tau2.env:Tau2Env",
    solver="agent_envs.envs.tau2.solver:next_action",
    sampler="agent_envs.envs.tau2.solver:random_action",
    heuristic="agent_envs.envs.tau2.heuristics:act",
    labels="agent_envs.envs.tau2.metrics:labels",
    metrics="agent_envs.envs.tau2.metrics:metrics",
    lanes="agent_envs.envs.tau2.conversation_view:lanes",
    feedback="agent_envs.envs.tau2.feedback:give_feedback",
)


def dual_control(domain: str, **arguments: Any) -> "DualControl":
    """Return the PettingZoo environment of a domain, in which both sides are played.

    Args:
        domain: "retail", "airline" or "telecom".
        arguments: see `agent_envs.envs.tau2.aec.DualControl`.
    """
    from agent_envs.envs.tau2.aec import DualControl

    return DualControl(domain, **arguments)
