"""A run plays the episodes of a suite with one agent and keeps them in a folder, from which a stopped run goes on.

`--max-cost` counts the tokens of the agent's and the feedback models' calls at their prices, and what earlier parts of the
run spent, as far as its journal and its recording tell. What simulated users and judges take is not counted.

Modules, in reading order:
    evaluate: `evaluate` and `resume`; agents by name (`make_agent`); the cost limit (`--max-cost`) on an agent's replies.
    pilot: calls, tokens and dollars of a run with a model, estimated from its first episodes.
    run_folder: the files of a run: config.json (settings, identity), suite.json, journal.jsonl, externals.jsonl, results.json.
    suite_feedback: `--feedback`, prices and cost of feedback models, and the cost limit on them.
    episode_numbers: one episode as numbers, and how it ended: solved, wrong answer, out of turns, fault, budget.
    measures: labels of tasks and metrics of episodes, as the environment's family gives them; numbers of large runs are kept.
    by_label: success rates by label; means, intervals and quantiles of metrics.
    summary: success, pass^k, returns, outcomes, tokens and cost by entry, and the suite's score.
"""
