"""The decision tree of a policy that sorts is read from its episodes and drawn.

Modules, in reading order:
    decision_tree: the tree itself, from episodes on all permutations: accuracy, comparisons, swaps, pruning.
    drawing: the tree as text, JSON and an SVG picture.
"""
