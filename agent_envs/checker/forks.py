"""Snapshot, restore and fork: same future for the same actions, and nobody else is touched."""

import random
from collections.abc import Callable

from agent_envs.checker.env_under_test import CheckFailed, Subject, play, step_digest
from agent_envs.core.snapshot import Snapshot, fork, restore, snapshot

MOST_TURNS = 32


def check_forks(subject: Subject) -> str:
    """At every turn (at most 32 a task), a fork repeats the original's future, and its run leaves the original alone."""
    env = subject.make()
    count = 0
    for script in subject.scripts():
        digests = play(env, script)
        subject.reset(env, script.task, script.seed)
        chosen = _turns(len(script.actions))
        for turn, action in enumerate(script.actions):
            if turn in chosen:
                before = snapshot(env).to_bytes()
                twin = fork(env)
                if play(twin, script, start=turn or -len(script.actions)) != digests[turn + 1 :]:
                    raise CheckFailed(f"task {script.task}: a fork at turn {turn} has another future")
                if snapshot(env).to_bytes() != before:
                    raise CheckFailed(f"task {script.task}: the run of a fork at turn {turn} changed the original")
                count += 1
            if step_digest(env.step(action)) != digests[turn + 1]:
                raise CheckFailed(f"task {script.task}: the original goes another way after a fork at turn {turn}")
    return f"{count} forks"


def check_restore(subject: Subject) -> str:
    """A snapshot restores in its own environment and in another one, and is the same when it is read back from bytes."""
    env, other = subject.make(), subject.make()
    for moment in subject.moments():
        data = moment.snapshot.to_bytes()
        if Snapshot.from_bytes(data).to_bytes() != data:
            raise CheckFailed(f"task {moment.script.task}: a snapshot changes when it is read back")
        for target in (env, other):
            restore(target, moment.snapshot)
            if play(target, moment.script, start=moment.start) != moment.future:
                raise CheckFailed(f"task {moment.script.task}: restored at turn {moment.turn}, the future is another")
    return f"{len(subject.moments())} snapshots"


def _turns(length: int) -> set[int]:
    if length <= MOST_TURNS:
        return set(range(length))
    return set(random.Random(f"turns:{length}").sample(range(length), MOST_TURNS))


FORK_CHECKS: dict[str, Callable[[Subject], str]] = {"forks": check_forks, "restore": check_restore}
