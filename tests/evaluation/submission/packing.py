"""Runs to pack: small SearchQA runs that are really played, and a synthetic episode."""

import gzip
import io

from agent_envs.base.errors import EnvFault
from agent_envs.base.messages import Message, ToolCall
from agent_envs.base.protocol import Answer, Malformed
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.evaluation.runs.costs import prices_of
from agent_envs.evaluation.runs.evaluate import make_agent
from agent_envs.evaluation.runs.run_folder import RunEpisode, Settings, claim
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, plan_of
from agent_envs.evaluation.suites.suite import Entry, seed_of
from agent_envs.evaluation.verification.shards import read_episode_rows
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.policy import NullPolicy, Reply
from agent_envs.rollout.run_many import run_many

SMALL = {"world": {"passages": 60, "questions_per_world": 2}}


class Saying(NullPolicy):
    """Says one text for ever; keys in `faulty` fail."""

    name = "saying"

    def __init__(self, text="<answer>x</answer>", faulty=(), privileged=False, cause="no model"):
        self.text, self.faulty, self.privileged, self.cause = text, frozenset(faulty), privileged, cause

    def act(self, requests):
        if requests[0].episode_key in self.faulty:
            raise EnvFault(self.cause)
        return [Reply(self.text, usage={"input": 5, "output": 2})]


def small_suite(tasks=3, trials=2, **choice):
    return adhoc_suite(Choice("SearchQA", SMALL, limit=tasks, trials=trials, **choice))


def play(folder, suite=None, agent="heuristic", *, policy=None, stop_after=None, **settings):
    """Play a run into a folder as `eval` does, or the first episodes of it only."""
    suite = suite or small_suite()
    chosen = Settings(agent, **settings)
    run = claim(folder, suite, chosen, prices_of(suite, chosen))
    episodes = run_many(plan_of(suite), policy or make_agent(agent), journal=run.log(), pause_seconds=0)
    for number, _ in enumerate(episodes, start=1):
        if number == stop_after:
            episodes.close()
            break
    return run


def synthetic(turns=2, *, action="<answer>x</answer>", key="00112233445566ff", usage=None):
    """Return an episode that nobody played."""
    entry = Entry(
        label="Toy", env_id="toy/Toy-v0", arguments={}, spec_digest="ab" * 32, split="test",
        tasks=(("one", "cd" * 32, "world-1"),),
    )  # fmt: skip
    calls = (ToolCall("call_0", "search", '{"query":"tea"}'),)
    said = Message("assistant", "I look", "policy", calls)
    rows = [
        Turn(
            number,
            f"{key}/",
            f"{action}{number}" if number < turns else action,
            Answer("x") if number == turns else Malformed("no"),
            (Message("tool", "tea is a leaf", "tool", (), "call_0"), said),
            reward=0.1 * number,
            terms=(("em", 0.1 * number),),
            terminated=number == turns,
            events=() if number == turns else ("no action found",),
        )  # fmt: skip
        for number in range(1, turns + 1)
    ]
    header = Header("toy/Toy-v0", "ab" * 32, "one", "test", "cd" * 32, seed_of(key), key)
    prompt = (Message("system", "You search.", "environment"), Message("user", "What is tea?", "environment"))
    result = EpisodeResult(
        Trajectory(header, prompt, tuple(rows), None, True), "terminated", usage=usage or {"input": 7}
    )
    return RunEpisode(key, entry, "world-1", 0, result)


def gzipped(data, level=6):
    """Return data as a shard's file has it: one member, whose header has no time and no name."""
    file = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=file, mtime=0) as packed:
        packed.write(data)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + file.getvalue()[10:]


def rows_of(packed):
    return [row for path in sorted(packed.glob("episodes/*/*.gz")) for row in read_episode_rows(path)]


def files_of(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_nothing_left(target, *others):
    assert not target.exists()
    assert {path.name for path in target.parent.iterdir()} == {path.name for path in others}
