"""State, episodes and a run that were stored before the packages were regrouped (commit 09c3c72), and must stay readable.

`snapshots.jsonl.gz` has a row for every id, with wrappers around some: the snapshot's bytes in the middle of the solver's play,
the actions that followed and what they brought. `run` is the folder of `agent-envs eval ToolReasoning --agent solver -n 3`,
and `submission` a packed run of SearchQA's heuristic.
`snapshot-2.json` is the first row's snapshot in the second layout of snapshots, the present one.
The rows of LegalSearch and of Tau2* are younger: their scores moved since (CHANGELOG).
"""
