"""Reports show what runs came to: tables, charts, turn limits, and paired comparisons of agents.

Modules, in reading order:
    report: the tables of `agent-envs report`: success, trials, behaviour, outcomes, cost of feedback, labels, metrics.
    compare: `agent-envs compare`: two agents, or the entries of a sweep, by paired tests with Holm's correction.
    turn_limits: accuracy, abstention, wrong answers and turns against the turn limit (`--turn-limits`).
    charts: SVG drawings of a rate with its interval, of shares, of curves with bands, histograms and forest plots; tables.
"""
