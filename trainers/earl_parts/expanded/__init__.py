"""Episodes with expanded actions (ExpA) are played, recorded and demonstrated here, token by token.

The output rows of expanded actions are in `trainers/earl_parts/expa_head.py`.

Modules, in reading order:
    player: ExpandedPlayer, which plays a plan of episodes in lock-step: tokens and actions of many rows over one KV cache.
    sequences: episodes as token sequences, with targets and legal actions; one episode: decisions in, steps and tokens out.
    demonstrations: demonstrations for warm starts, and what they do wrong on purpose.
"""
