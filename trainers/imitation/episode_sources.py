"""The episodes that are imitated come from a solver, gold answers, a model's own successes, or a file."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import Reply, Request
from trainers.environments import tasks_of_step
from trainers.expanded_actions import expanded_parts
from trainers.imitation.demonstrations import SEARCH_FLAWS, TOOL_FLAWS, Flaws, demonstrations
from trainers.imitation.tool_texts import holds_tool_texts, tool_episodes
from trainers.run import TrainingRun
from trainers.sampling import plan_groups, play_groups

NAMED_FLAWS = {"none": Flaws(), "search": SEARCH_FLAWS, "tools": TOOL_FLAWS}


def solved(env: gym.Env, count: int, flaws: str, split: str, seed: int, *, first: int = 0) -> Iterator[Trajectory]:
    """Return episodes of an environment's solver from its `first` task on, led astray as a setting says."""
    if (further := expanded_parts(env)) is not None:
        return further.demonstrations(env, count, flaws, split=split, seed=seed, first=first)
    return demonstrations(env, count, flaws_of(flaws), split=split, seed=seed, first=first)


def check_named(text: str, env: str) -> None:
    """Check a setting of flaws for the id of an environment, whose actions may be expanded.

    Raises:
        UsageError: no such name, or no such chance.
    """
    further = expanded_parts(env)
    (flaws_of if further is None else further.check_flaws)(text)


def flaws_of(text: str) -> Flaws:
    """Return the flaws that a setting names.

    Raises:
        UsageError: no such name, or no such chance.
    """
    if text in NAMED_FLAWS:
        return NAMED_FLAWS[text]
    try:
        return Flaws(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise UsageError(f"flaws={text!r}: {', '.join(NAMED_FLAWS)}, or a JSON object of chances: {error}") from None


class _GoldAnswer:
    """Answers at once with the first accepted answer: what Search-R1's SFT baseline is shown."""

    name = "gold"
    batch = 1
    needs_env = True
    privileged = True

    def __init__(self, env: gym.Env | None = None) -> None:
        self._env = env

    def begin(self, env: gym.Env) -> "_GoldAnswer":
        return _GoldAnswer(env)

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        core = core_of(self._env)
        before, after = core.answer_tags
        return [Reply(f"{before}{core.episode.task.gold[0]}{after}") for _ in requests]


def direct_answers(env: gym.Env, split: str, count: int) -> Iterator[Trajectory]:
    """Yield episodes that answer at once, and rightly.

    Raises:
        UsageError: the environment's answers have no tags, so there is no direct one.
    """
    core = core_of(env)
    if not core.answer_tags[0]:
        raise UsageError(f"{core.env_id}: an answer has no tags here; data=solver shows how it is played")
    for task in range(min(count, core.source.size(split))):
        episode = run_episode(env, _GoldAnswer(), seed=task, split=split, task=task)
        if episode.success:
            yield episode.trajectory


def accepted(run: TrainingRun, episodes: int, samples_per_task: int, seed: int) -> Iterator[Trajectory]:
    """Yield the model's own episodes that solved their task, from the weights of step 0, kept in OUT/accepted.jsonl.

    A run that was killed while it collected goes on with the next tasks; later the file is what is imitated.

    Raises:
        UsageError: there are several processes, or the file of a run that has begun to learn is not whole.
    """
    if run.parts.accelerator.num_processes > 1:
        raise UsageError(
            "rejection sampling plays in one process; then train in many on its file: --data .../accepted.jsonl"
        )
    path, tasks = run.parts.out / "accepted.jsonl", min(episodes, run.parts.train_size)
    order = tasks_of_step(0, tasks, run.parts.train_size, seed)
    chunk = max(1, run.parts.policy.batch // samples_per_task)
    seen = max((row["tasks"] for row in read_journal(path)), default=0) if path.exists() else 0
    if run.step and seen < tasks:
        raise UsageError(f"{path} holds {seen} of {tasks} tasks, and the weights that sampled them changed: start anew")
    with contextlib.closing(Journal(path)) as journal:
        for start in range(seen, tasks, chunk):
            some, key = order[start : start + chunk], f"{seed}/rejection/{start}"
            groups = play_groups(
                plan_groups(run.parts.spec, run.parts.train_split, some, samples_per_task, key), run.parts.policy
            )
            solved = [result.trajectory.to_json() for group in groups for result in group.results if result.success]
            journal.append({"tasks": start + len(some), "solved": solved})
    yield from (Trajectory.from_json(body) for row in read_journal(path) for body in row["solved"])


def recorded(path: Path, env: gym.Env, split: str) -> Iterator[Trajectory]:
    """Yield the solved episodes of a file: rows of `Trajectory.to_json`, a run's journal, or published answers with tools."""
    if holds_tool_texts(path):
        yield from tool_episodes(path, env, split)
        return
    for row in read_journal(path):
        bodies = row.get("solved", [row.get("trajectory", row)]) if isinstance(row, dict) else []
        for body in bodies:
            if not isinstance(body, dict) or "turns" not in body:
                continue  # the head of a journal
            episode = Trajectory.from_json(body)
            if episode.success:
                # As text: the tokens may be another model's.
                bare = {"token_ids": (), "logprobs": (), "entropies": (), "sampled": ()}
                yield replace(episode, turns=tuple(replace(turn, **bare) for turn in episode.turns))
