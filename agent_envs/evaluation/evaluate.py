"""From an id and an agent to numbers with intervals: the plan of a run, the run, and its summary."""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.canonical import canonical_json, digest
from agent_envs.errors import UsageError
from agent_envs.evaluation.statistics import Rate, mean_interval, success_rate
from agent_envs.policies import Policy, core_of
from agent_envs.registry import full_id, spec_json
from agent_envs.rollout import EpisodeResult
from agent_envs.runner import Planned, run_many
from agent_envs.sources.corpora import write_atomically

Progress = Callable[[int, int, float], None]


@dataclass(frozen=True)
class RunConfig:
    """What is evaluated. `arguments` are the environment's; `limit` (None: the whole split) makes a smoke run."""

    env_id: str
    arguments: dict[str, Any]
    agent: str
    split: str = ""
    limit: int | None = None
    trials: int = 1


@dataclass(frozen=True)
class Summary:
    """The numbers of a run. Rates are over the planned episodes: one that ended in a fault counts as no success."""

    env_id: str
    agent: str
    split: str
    success: Rate
    mean_return: float
    return_interval: tuple[float, float]
    episodes: int
    faults: int
    mean_turns: float
    malformed_share: float
    smoke: bool
    fault_causes: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Return plain data; `success` is a number and `interval` its bounds. Bounds that are not known are None."""
        row = asdict(self)
        rate = row.pop("success")
        low, high = self.return_interval
        known = math.isfinite(low) and low < high  # equal returns say nothing about the spread of others
        row["return_interval"] = [low, high] if known else [None, None]
        return {**row, "success": rate["value"], "interval": [rate["low"], rate["high"]], "tasks": rate["tasks"]}


def make_plan(config: RunConfig) -> tuple[list[Planned], dict[str, str]]:
    """Return the planned episodes, and the cluster of each episode key. Keys and seeds are derived, never drawn."""
    env = gym.make(full_id(config.env_id), **config.arguments)
    core = core_of(env)
    split = choose_split(config, core.source.splits)
    size = core.source.size(split)
    if (config.limit is not None and config.limit < 1) or config.trials < 1:
        raise UsageError(f"limit={config.limit} and trials={config.trials}: give numbers >= 1")
    spec = spec_json(env)
    plan, clusters = [], dict[str, str]()
    for index in range(size if config.limit is None else min(config.limit, size)):
        task = core.source.get(split, index)
        for trial in range(config.trials):
            key = digest([core.spec_digest, split, task.id, trial])[:16]
            if key in clusters:  # a generated world with fewer questions than asked for repeats them
                continue
            plan.append(Planned(key, spec, task.id, split, int(key[:8], 16) >> 1, trial))
            clusters[key] = task.cluster or task.id
    return plan, clusters


def choose_split(config: RunConfig, splits: tuple[str, ...]) -> str:
    """Return the split of a run: the one asked for, else test, else dev, else the last there is."""
    if config.split and config.split not in splits:
        raise UsageError(f"{config.env_id}: no split {config.split!r}; the splits are {', '.join(splits)}")
    return config.split or next((name for name in ("test", "dev") if name in splits), splits[-1])


def evaluate(
    config: RunConfig,
    policy: Policy,
    *,
    concurrency: int = 1,
    folder: Path | None = None,
    progress: Progress | None = None,
    keep: Callable[[EpisodeResult], None] | None = None,
) -> Summary:
    """Play a plan and summarise it.

    Args:
        config: what is evaluated.
        policy: who plays.
        concurrency: worker threads.
        folder: where `config.json`, `journal.jsonl` and `results.json` go; a killed run goes on from there when it is
            started again with the same settings.
        progress: called with (finished, planned, successes so far).
        keep: called with each finished episode, in the order of finishing.

    Raises:
        UsageError: the folder holds a run of another configuration.
    """
    plan, clusters = make_plan(config)
    if folder is not None:
        _claim(folder, config)
    values: dict[str, tuple[Planned, EpisodeResult]] = {}
    wins = 0
    journal = folder / "journal.jsonl" if folder else None
    for item, result in run_many(plan, policy, concurrency=concurrency, journal=journal):
        values[item.key] = (item, _light(result))
        wins += result.success
        if keep is not None:
            keep(result)
        if progress is not None:
            progress(len(values), len(plan), wins)
    summary = summarise(config, [values[item.key] for item in plan], clusters)
    if folder is not None:
        text = json.dumps(summary.to_json(), indent=2) + "\n"
        write_atomically(folder / "results.json", lambda file: file.write(text.encode()))
    return summary


def summarise(config: RunConfig, rows: list[tuple[Planned, EpisodeResult]], clusters: dict[str, str]) -> Summary:
    """Return the numbers of finished episodes."""
    names = [clusters[item.key] for item, _ in rows]
    rate = success_rate([float(result.success) for _, result in rows], [str(item.task) for item, _ in rows], names)
    sound = [(name, result) for name, (_, result) in zip(names, rows, strict=True) if result.status != "fault"]
    returns = [result.trajectory.total_reward for _, result in sound] or [0.0]
    turns = [turn for _, result in sound for turn in result.trajectory.turns]
    return Summary(
        env_id=full_id(config.env_id),
        agent=config.agent,
        split=rows[0][0].split,
        success=rate,
        mean_return=sum(returns) / len(returns),
        return_interval=mean_interval(returns, [name for name, _ in sound] or ["none"]),
        episodes=len(rows),
        faults=len(rows) - len(sound),
        mean_turns=len(turns) / max(len(sound), 1),
        malformed_share=sum(turn.events != () for turn in turns) / max(len(turns), 1),
        smoke=config.limit is not None,
        fault_causes=dict(Counter(result.fault for _, result in rows if result.status == "fault").most_common(5)),
    )


def _light(result: EpisodeResult) -> EpisodeResult:
    """Return a result without its texts, so that a run holds numbers and not transcripts."""
    trajectory = result.trajectory
    turns = tuple(
        type(turn)(turn.index, "", "", None, (), (), turn.reward, (), turn.terminated, turn.truncated, turn.events)
        for turn in trajectory.turns
    )
    return EpisodeResult(
        type(trajectory)(trajectory.header, (), turns, None, trajectory.success), result.status, result.fault
    )


def _claim(folder: Path, config: RunConfig) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be the folder of a run: {error}") from error
    path = folder / "config.json"
    text = canonical_json(asdict(config))
    if not path.exists():
        write_atomically(path, lambda file: file.write(f"{text}\n".encode()))
    elif (old := path.read_text(encoding="utf-8").strip()) != text:
        before, now = json.loads(old), json.loads(text)
        changed = ", ".join(
            f"{name} ({before.get(name)!r} -> {now[name]!r})" for name in now if before.get(name) != now[name]
        )
        raise UsageError(f"{folder} holds a run with another {changed}: choose another --out")
