"""Episodes with expanded actions, token by token.

`player` plays them in lock-step, `sequences` makes tokens of their records, `demonstrations` are for warm starts. The output
rows of expanded actions are in `trainers/expa_head.py`.
"""
