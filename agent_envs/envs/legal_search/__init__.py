"""Legal search: questions of law answered by searching and reading a hierarchy of sections, with citations."""

from agent_envs.core.env import register_companions

register_companions(
    "agent_envs.envs.legal_search.env:LegalSearch",
    solver="agent_envs.envs.legal_search.solver:next_action",
    sampler="agent_envs.envs.legal_search.solver:random_action",
    heuristic="agent_envs.envs.legal_search.heuristic:search_and_read",
    labels="agent_envs.envs.legal_search.scoring:labels",
    metrics="agent_envs.envs.legal_search.scoring:metrics",
    first_look="agent_envs.envs.legal_search.heuristic:first_look",
    feedback="agent_envs.envs.legal_search.feedback:give_feedback",
)
