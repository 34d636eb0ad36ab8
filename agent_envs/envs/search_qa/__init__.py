"""Search QA: multi-hop questions answered by searching a corpus."""

from agent_envs.core.env import register_companions

register_companions(
    "agent_envs.envs.search_qa.env:SearchQA",
    solver="agent_envs.envs.search_qa.solver:next_action",
    sampler="agent_envs.envs.search_qa.solver:random_action",
    heuristic="agent_envs.envs.search_qa.heuristic:search_once_and_guess",
    metrics="agent_envs.envs.search_qa.scoring:metrics",
    first_look="agent_envs.envs.search_qa.env:first_look",
    feedback="agent_envs.envs.search_qa.feedback:give_feedback",
)
