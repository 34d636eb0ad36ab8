"""Figures of finished runs are drawn and counted here: learning curves, and the decision trees of sorting policies.

Modules, in reading order:
    learning_curves: a picture of a run's metrics, or of several seeds.
    decision_tree: the decision tree of a sorting policy, from its greedy episodes; its files, text and JSON.
"""
