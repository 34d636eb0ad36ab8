"""A leaderboard is a board of verified submissions: every score is computed again by `agent_envs.evaluation.verification`.

Modules, in reading order:
    registering: nonces of agents and salts of rounds, which draw generated tasks that nobody can have seen before.
    standings: verified submissions of one suite beside each other: paired comparisons, Holm, ties as ranges of places.
    blind_replay: a reference that never looks, and the entries where it comes far.
    rounds: a row's fixed score beside its round's, and what its best attempts make of the round, played back.
    decisions: decisions.jsonl: accepted, rejected, withdrawn, disputed, reproduced; appended, never rewritten.
    board: the folder of a board: adding, withdrawing, and verifying all that a build shows.
    transcripts: some episodes of a row, stepped again to be read.
    figures: what a board draws: success against tokens, by turns, and by family.
    strata: success by the labels of tasks.
    pair_page: two rows beside each other, entry by entry, and the tasks on which they differ.
    pages: a page a board, a row and a pair, their index, and boards.json.
    result_cache: what stays in the cache folder, and for how long.
    exports: a verified submission as the hub's evaluation results and as Parquet.
    inspect_logs: a verified submission as a log of inspect_ai.
    write_suites: `make suites`, which writes core, its small part demo, and papers' evaluations.
    command_line: `python -m leaderboard register | round | add | compare | export | build`, and decisions.
"""
