"""Failed episodes of Search QA are told apart: the answer was never shown (a wrong plan), or shown and not written."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.rollout.episode_runner import EpisodeResult

TASKS = 256
WAYS = {"with_feedback": "scripted:good", "without_feedback": "none"}
TEMPERATURES = {"as_measured": -1.0, "greedy": 0.0}


def failures(folder: Path) -> dict[str, Any]:
    """Return the shares of a trained policy's test episodes by ending, with feedback and without; stored beside the run."""
    path = folder / "failures.json"
    if path.exists():
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record
    from benchmarks.veg_episodes import measured_plan, run_settings
    from trainers.environments import wrapper_rows
    from trainers.trained_agent import TrainedAgent

    settings = run_settings(folder)
    core = core_of(gym.make(full_id(settings.env.id), **json.loads(settings.env.arguments)))
    shares: dict[str, Any] = {}
    for way, feedback in WAYS.items():
        plan = measured_plan(settings, wrapper_rows(json.dumps(settings.stack(feedback)), way), TASKS, "failures")
        for name, temperature in TEMPERATURES.items():
            results = list(TrainedAgent(str(folder), temperature=temperature).play(plan).values())
            golds = [core.source.get(settings.env.test_split, r.trajectory.header.task_id).gold for r in results]
            shares[f"{way}, {name}"] = ends(results, golds)
    path.write_text(json.dumps(shares) + "\n", encoding="utf-8")
    return shares


def ends(results: Sequence[EpisodeResult], golds: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the share of each way to end."""
    counted = Counter(end_of(result, gold) for result, gold in zip(results, golds, strict=True))
    return {name: round(count / len(results), 4) for name, count in sorted(counted.items())}


def end_of(result: EpisodeResult, gold: Sequence[str]) -> str:
    """Classify the end of an episode: solved, shown but not answered, or never shown (feedback does not count)."""
    if result.success:
        return "solved"
    turns = result.trajectory.turns
    observations = " ".join(m.content for turn in turns for m in turn.observation if m.author != "feedback")
    return "shown, not answered" if any(answer in observations for answer in gold) else "never shown"
