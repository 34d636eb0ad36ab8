"""Scripts that run inside a peer's own virtual environment measure it; they import nothing of this project.

Modules, in reading order:
    gem_search, skyrl_search, records: steps per CPU-second of GEM and of SkyRL-gym, with records of turns and without.
    inspect_run, lm_eval_run: the cost of an evaluation with inspect_ai and with lm-eval.
    reasoning_gym_items: items per CPU-second of reasoning-gym.
    abilities: what agent-envs and five peers can do, tried in a venv each; README's table.
    trl_step: CPU-seconds, tokens and memory of TRL's GRPO steps.
"""
