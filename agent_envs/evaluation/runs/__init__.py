"""A run plays the episodes of a suite with one agent and keeps them in a folder, from which a stopped run goes on.

`--max-cost` counts the tokens of the agent's and the feedback models' calls at their prices, and what earlier parts of the
run spent, as far as its journal and its recording tell. What simulated users and judges take is not counted.

Modules, in reading order:
    evaluate: `evaluate` and `resume`; agents by name (`make_agent`); the cost limit (`--max-cost`) on an agent's replies.
    run_folder: the files of a run: config.json (settings, identity), suite.json, journal.jsonl, externals.jsonl, results.json.
    costs: `--feedback`, prices and cost of feedback models, the limit on them; the estimate from a run's first episodes.
    live: servers are asked about models and tools before a run; signs of life and the first invalid replies while it lasts.
    measures: one episode as numbers, how it ended, and what its family tells of it; numbers of large runs are kept.
    summary: success (by label, too), pass^k, returns, metrics, outcomes, tokens and cost by entry, and the suite's score.
"""
