"""Evaluation plays a suite with an agent, computes success with confidence intervals, and shows it in tables and pages.

Modules, in reading order:
    suites/: what is played: suite files, tasks, splits, trials, weights, seeds; the shipped suite `core`.
    runs/: playing and resuming a run, the files in its folder, agents by name, what `--max-cost` counts, and the numbers.
    statistics/: how confidence intervals are computed (clustered errors, Wilson), pass^k, paired tests, p values, power.
    report/: the tables of `agent-envs report`, the comparison of two agents, turn limits, charts.
    html/: how pages are made: static HTML, transcripts, templates (`agent-envs view`, `report --page`).
    submission/: `agent-envs pack`: the format of a submission, the secret scan, provenance, replay.
    verification/: `agent-envs verify`: from a stranger's submission to a verdict.
"""
