"""Rates, means and differences get confidence intervals from standard errors that are clustered over tasks.

Modules, in reading order:
    rates: success rates (Wilson's interval), suites' scores (MOVER), mean returns (t interval), pass^k and pass@k.
    paired: two agents on the same tasks: paired t test, sign flips, p value, Holm's correction, detectable difference.
    student: quantiles and tails of Student's t distribution.
"""
