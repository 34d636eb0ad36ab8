"""The sorting tasks ask to sort items by hidden numbers, or to order items whose relations the prompt states.

Modules, in reading order:
    env: prompt and arrangement of a task, `Sort`, `SortExpA`, `Order`, `OrderExpA`; page.md completes their docstrings.
    environments: the external environments compare and swap.
    tasks: the task sources: sizes, directions, splits, clusters, labels.
    scoring: success and the rewards by name, and their formulas: `fixed`, `released`.
    knowledge: the optimal next comparison, what follows from comparisons, and the fewest swaps.
    algorithms: reference sorting algorithms (insertion, merge, bubble, EARL*, ...) as generators of moves.
    solver: the oracle policy.
"""
