"""EARL's own parts are expanded actions, counterfactuals and figures of sorting policies; no shared code imports them.

Modules, in reading order:
    expa_head: the expanded action head: output rows and logits of expanded actions beside the language head.
    expanded/: episodes with expanded actions: player, token sequences, demonstrations.
    counterfactual/: counterfactual policy optimisation (CPO): positions, interventions, advantages.
    sorting_result: a sorting policy's figures and decision trees, at the end of a run.
"""
