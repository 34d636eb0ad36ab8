"""The calculator tasks ask for arithmetic, Countdown, counting and word problems, and Calc-Bench is the mixture of them.

Modules, in reading order:
    env: prompt and reward of a task, the registered environments on both faces; page.md completes their docstrings.
    calculator: the external environment: buttons, legal order, "=".
    arithmetic, countdown, count: task sources; countdown also checks answers.
    word_problems: the sources that read GSM8K, and Calc-Bench, the four sources in the sizes of the paper's Table 3.
    random_expressions: random expressions and their exact values.
    scoring: rewards `em`, `numeric`, `em_format`, `released`, and when an answer is right.
    metrics: calls, hallucinated operands, and planning phrases (listed in planning_phrases.txt).
    solver: the oracle policy and the texts of the random policy.
    derivations: the calculation that scripted feedback reads from a question's words.
"""
