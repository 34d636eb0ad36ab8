"""Tool reasoning: questions answered by searching, browsing and calculating in a sandbox."""

from agent_envs.core.env import register_companions

register_companions(
    "agent_envs.envs.tool_reasoning.env:ToolReasoning",
    solver="agent_envs.envs.tool_reasoning.solver:next_action",
    sampler="agent_envs.envs.tool_reasoning.solver:random_action",
    labels="agent_envs.envs.tool_reasoning.scoring:labels",
    metrics="agent_envs.envs.tool_reasoning.scoring:metrics",
    first_look="agent_envs.envs.tool_reasoning.env:first_look",
    feedback="agent_envs.envs.tool_reasoning.feedback:give_feedback",
)
