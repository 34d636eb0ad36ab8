"""Snapshot, restore and fork: same future for the same actions, and nobody else is touched."""

import random
from collections.abc import Callable

from agent_envs.checker.processes import run_child
from agent_envs.checker.subject import CheckFailed, Script, Subject, play, step_digest
from agent_envs.snapshot import Snapshot, fork, restore, snapshot

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
    """A snapshot restores here, and from bytes in another process."""
    env, other = subject.make(), subject.make()
    jobs, wanted = [], []
    for script in subject.scripts():
        digests = play(env, script)
        turn = random.Random(f"restore:{script.task}").randrange(len(script.actions))
        subject.reset(env, script.task, script.seed)
        for action in script.actions[:turn]:
            env.step(action)
        moment = snapshot(env)
        data = moment.to_bytes()
        if Snapshot.from_bytes(data).to_bytes() != data:
            raise CheckFailed(f"task {script.task}: a snapshot changes when it is read back")
        rest = Script(script.seed, script.task, script.split, script.actions)
        for target in (env, other):
            restore(target, moment)
            if play(target, rest, start=turn or -len(script.actions)) != digests[turn + 1 :]:
                raise CheckFailed(f"task {script.task}: restored at turn {turn}, the future is another")
        jobs.append(
            {"script": rest, "start": turn or -len(script.actions), "snapshot": data.decode("utf-8", "surrogatepass")}
        )
        wanted.append(digests[turn + 1 :])
    if run_child(subject, {"restore": jobs}, "7")["restore"] != wanted:
        raise CheckFailed("restored from bytes in another process, the future is another")
    return f"{len(jobs)} snapshots, here and from bytes in a fresh process"


def _turns(length: int) -> set[int]:
    if length <= MOST_TURNS:
        return set(range(length))
    return set(random.Random(f"turns:{length}").sample(range(length), MOST_TURNS))


FORK_CHECKS: dict[str, Callable[[Subject], str]] = {"forks": check_forks, "restore": check_restore}
