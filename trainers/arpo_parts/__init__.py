"""ARPO's own parts are rules that say where a rollout branches, trees of rollouts, and the credit of their leaves.

Modules, in reading order:
    branching: rules, by entropy or as controls of it; no torch.
    growing: trees of rollouts that fork by a rule, and the log of its decisions.
    tree_credit: advantages of a tree's leaves: soft, hard, weighted.
"""
