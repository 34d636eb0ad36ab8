"""`verify` makes of a stranger's submission a verdict: every action is stepped again, and no submitted number is believed.

Modules, in reading order:
    verify: from a directory to a verdict: findings, what cannot be told here, scores, badges.
    directory: the files of a hostile directory: kinds, sizes, paths, hashes, spelling, before any is believed.
    shards: the gzip files of rows, read under limits.
    small_files: attempts.jsonl, held against the episodes, and recorded answers.
    suites_known: the suite of a submission, as this installation or the board's registry has it; registrations are read here.
    badges: what a verdict proves, and what it does not; names that look like others.
"""
