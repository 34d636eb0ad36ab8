"""BabyAI gives a policy missions in the rooms of a grid world, by minigrid's rules and in words.

Modules, in reading order:
    env: the environment, its arguments and actions; read it first.
    grid: the world: movement, doors, keys, boxes, and the field of view.
    mission, instructions: the mission and its text, and the judgement of success or failure after each step.
    levels: minigrid's level generators, and the five kinds of our own.
    tasks: tasks from seeds, and their splits.
    describe, numbers: the observation in words, and in numbers, for classic reinforcement learning.
    picture: rendering as SVG and as letters.
    planner: plans that win a mission, and cheapest walks through a level.
    solver: the oracle policy and the random policy.
    hint: the next action as scripted feedback (hint), and the memory of what was observed.
    prompt.md: the prompt.
"""

from agent_envs.core.registry import register_companions

register_companions(
    "agent_envs.envs.text_games.babyai.env:BabyAI",
    solver="agent_envs.envs.text_games.babyai.solver:next_action",
    heuristic="agent_envs.envs.text_games.heuristic:babyai",
    labels="agent_envs.envs.text_games.babyai.tasks:labels_of",
    metrics="agent_envs.envs.text_games.scoring:metrics_of",
    feedback="agent_envs.envs.text_games.feedback:give_feedback",
)
