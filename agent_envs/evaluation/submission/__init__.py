"""A submission is a run packed into a directory that anyone can replay; its format, packing and replay are here.

Modules, in reading order:
    pack: `agent-envs pack`: from the folder of a run to a submission.
    models: submission.json and manifest.json: agent, models, submitter, training, prices, list of files.
    episode_rows: rows of episodes, attempts and services' answers, the gzip files (shards) that hold them; digests of
        observations, and the chain over turns.
    replaying: one row's actions are stepped again, for packing and for verification alike.
    replay_pool: many rows, in processes that are bounded; what a killed packing or verification had checked.
    provenance: `--about`: what a run, the installation and a person say of agent, models and machine.
    secrets_scan: the search for API keys, tokens, home directories and e-mail addresses.
"""
