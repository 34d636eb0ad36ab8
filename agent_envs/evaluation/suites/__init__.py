"""A suite fixes the environments, tasks, trials, limits and weights of an evaluation before anyone plays.

Modules, in reading order:
    suite: the format of suites and their digests, episode keys and seeds, the predicate of success, loading by name.
    draw: other tasks of the same entries, drawn by a nonce or a round's salt.
    plan: from `--split`, `-n`, `--trials`, `--sweep`, `--turn-limits` and `--feedback` to a suite, and to its episodes.
"""
