"""BabaIsAI is a puzzle on a small map whose rules are text that can be pushed.

Modules, in reading order:
    env: the environment, its arguments, actions and observation in words; read it first.
    rules: the world: rules in force, moves and pushes, win and loss.
    levels: the forty kinds of task, maps from seeds, splits.
    picture: rendering as SVG and as words.
    solver: the oracle policy: the shortest plan by A*.
    bound, ground: the lower bound on steps of that search, and the distances that it adds up.
    hint: the next action as scripted feedback.
    prompt.md: the prompt.
"""

from agent_envs.core.registry import register_companions

register_companions(
    "agent_envs.envs.text_games.baba_is_ai.env:BabaIsAI",
    solver="agent_envs.envs.text_games.baba_is_ai.solver:next_action",
    heuristic="agent_envs.envs.text_games.heuristic:baba_is_ai",
    labels="agent_envs.envs.text_games.baba_is_ai.env:labels_of",
    metrics="agent_envs.envs.text_games.scoring:metrics_of",
    feedback="agent_envs.envs.text_games.feedback:give_feedback",
)
