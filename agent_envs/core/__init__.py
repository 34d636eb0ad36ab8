"""The core holds the contract of a turn-based environment: episodes, rewards, trajectories, snapshots and the registry of ids.

Modules, in reading order:
    env: `TurnEnv`, an environment whose step is one turn; info keys; the base and the stack of wrappers. Read it first.
    turn_form, worked_turns: how turns are shown, read and taught; worked turns of an id's solver before the task.
    episode: an episode as one immutable value, the outcome of an action; rewards by name, of bounded terms over typed turns.
    trajectory: tasks and their sources and splits, turns, trajectories, trees of branches, transcripts.
    snapshot: snapshot, restore and fork of a whole wrapper stack, and snapshots as bytes.
    authors_code: one line for what an author's environment or agent raises: id, method, exception, file and line.
    conversation_view: all sides of a conversation, for the pages of finished runs.
    pages: docstrings of classes that have a page in common.
    registry: the table of environment ids; the companions of a class: oracle policy (solver), random policy, heuristic, labels.
"""
