"""Text games let a policy play BabyAI, Baba Is AI, Crafter or an adapted Gymnasium environment in words (arXiv 2411.13543).

Modules, in reading order:
    game: the rules (`Game`) and the environment around them: prompt, parser, invalid actions, turn limit; read it first.
    babyai/: BabyAI, missions in rooms of a grid world, with minigrid's levels.
    baba_is_ai/: BabaIsAI, a puzzle whose rules are text that can be pushed.
    crafter/: Crafter, survival and achievements in an open world.
    adapter/: TextAdapter, which makes a text environment of any discrete Gymnasium environment.
    scoring: rewards (binary, native, format penalties) and metrics.
    seeded: `GameSource`, tasks generated from seeds, in splits that share no content.
    heuristic, feedback: baselines without a model; scripted feedback (hints), whose words are in feedback.json.
    search: the cheapest way through states.
    svg: pictures as SVG.
    muted_stdout: what third-party code prints is dropped.
"""

from agent_envs.core.registry import register_companions

register_companions("agent_envs.envs.text_games.game:TextGame", sampler="agent_envs.envs.text_games.game:random_action")
