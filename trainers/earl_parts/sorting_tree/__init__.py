"""The decision tree of a policy that sorts is read from its episodes and written.

Modules, in reading order:
    decision_tree: the tree itself, from episodes on all permutations: accuracy, comparisons, swaps, pruning.
    extraction: the trees of a run as text and JSON files.
"""
