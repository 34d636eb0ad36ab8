"""Episodes with expanded actions (ExpA) are played, recorded and demonstrated here, token by token.

The output rows of expanded actions are in `trainers/earl_parts/expa_head.py`.

Modules, in reading order:
    player: ExpandedPlayer, which plays a plan of episodes in lock-step.
    rollout: the sampling of tokens and expanded actions for many rows over one KV cache.
    episodes: one episode: decisions in, environment steps and tokens out.
    sequences: episodes as token sequences, with targets and legal actions.
    demonstrations, flaws: demonstrations for warm starts, and what they do wrong on purpose.
    for_runs: the functions by which runs reach all this: head, player, demonstrations.
"""
