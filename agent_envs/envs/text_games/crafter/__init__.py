"""Crafter is an open world in which the policy gathers, builds and survives, by PyPI's `crafter` and in words.

Modules, in reading order:
    env: the environment, its goals, arguments, actions and tasks; read it first.
    world, terrain: the running world with steps and copies, and the fast generator of its map.
    sight: immutable values: what the player sees, and the map for planners.
    describe: the observation in words.
    picture: rendering as SVG and as letters.
    solver: the next action towards an achievement, and the oracle policy.
    hint: the next action as scripted feedback (hint), and the memory of what was observed.
    prompt.md: the prompt.
"""

from agent_envs.core.registry import register_companions

register_companions(
    "agent_envs.envs.text_games.crafter.env:Crafter",
    solver="agent_envs.envs.text_games.crafter.solver:next_action",
    heuristic="agent_envs.envs.text_games.heuristic:crafter",
    labels="agent_envs.envs.text_games.crafter.env:labels_of",
    metrics="agent_envs.envs.text_games.scoring:metrics_of",
    feedback="agent_envs.envs.text_games.feedback:give_feedback",
)
