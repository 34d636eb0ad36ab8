"""Rewards are searched: plans of action templates, drawn and then climbed, for returns above those of the built-in agents.

A plan is a list of templates that the environment's prompt suggests (`action_templates`), one a turn, the last one repeated
until the episode ends. Of an id's episodes four in ten go to plans drawn at random, the rest to hill climbing from the best
five: a mutation is kept where its mean return over the same training tasks is no lower. The best plan is then played on test
tasks that the search never saw, beside the heuristic, random play and the solver. Nothing reads a task's answer.

A row is `above` where the plan's mean return is above the heuristic's (of an id without one: random play's) by more than the
95 % interval of the paired difference. `unsolved` is the best return of an episode of the search that did not solve its task.
"""

import argparse
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.progress import progress_bar
from agent_envs.core.builtin_agents import companion
from agent_envs.core.registry import TABLE
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from benchmarks.action_templates import Gene, Screen, Templates

RANDOM_SHARE, CLIMBERS = 0.4, 5
TASKS, TEST_TASKS, SLOW_TEST_TASKS = 10, 100, 40
EPISODES, VARIANT_EPISODES = 10_000, 2_000
# Ids whose episodes take longer than about 10 ms: fewer of them.
SLOW = {
    "LegalSearch": 1_000, "Tau2Retail": 2_000, "Tau2Airline": 2_000, "Tau2Telecom": 2_000, "Crafter": 1_000,
    "BabaIsAI": 2_000, "ToolReasoning": 3_000,
}  # fmt: skip
ARGUMENTS: dict[str, dict[str, Any]] = {"ExpA": {"max_actions": 64}}
Plan = tuple[Gene, ...]


@dataclass(frozen=True)
class Subject:
    """An id with arguments, and how many episodes it is searched for."""

    id: str
    arguments: dict[str, Any]
    episodes: int
    test_tasks: int

    @property
    def searched(self) -> tuple[str, dict[str, Any]]:
        """What a row tells of it: the id and its arguments."""
        return self.id, self.arguments

    @property
    def label(self) -> str:
        """Its name in tables."""
        given = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.id.rpartition('/')[2]} {given}".strip()


@dataclass
class Search:
    """A search that is under way: its environment, and the best return of an episode that solved nothing."""

    env: gym.Env[Any, Any]
    seed: str
    tick: Callable[[], None] = lambda: None
    unsolved: dict[str, Any] = field(default_factory=lambda: {"return": None, "plan": [], "task": -1})

    def __post_init__(self) -> None:
        """Read the templates off the first training task."""
        prompt, info = self.env.reset(seed=0, options={"task": 0, "split": "train"})
        self.templates = Templates(prompt, info)
        self.rng = random.Random(self.seed)

    def play(self, plan: Plan, task: int, split: str) -> tuple[float, bool]:
        """Play a plan on a task; return its return and whether it solved the task."""
        prompt, info = self.env.reset(seed=task, options={"task": task, "split": split})
        question, observation = self.env.unwrapped.episode.task.question, prompt  # type: ignore[attr-defined]
        total, turn, over = 0.0, 0, False
        while not over:
            gene = plan[min(turn, len(plan) - 1)]
            action = self.templates.action(gene, Screen(prompt, question, observation), info.get("action_mask"))
            observation, reward, terminated, truncated, info = self.env.step(action)
            total, turn, over = total + float(reward), turn + 1, terminated or truncated
        return total, bool(info["success"])

    def mean(self, plan: Plan) -> float:
        """Return a plan's mean return over the training tasks."""
        total = 0.0
        for task in range(TASKS):
            earned, solved = self.play(plan, task, "train")
            total += earned
            if not solved and (self.unsolved["return"] is None or earned > self.unsolved["return"]):
                self.unsolved = {"return": earned, "plan": [gene.as_list() for gene in plan], "task": task}
            self.tick()
        return total / TASKS

    def best(self, episodes: int) -> tuple[Plan, float]:
        """Return the plan with the highest mean, and that mean."""
        candidates = max(episodes // TASKS, 2 * CLIMBERS)
        drawn = [self.templates.plan(self.rng) for _ in range(int(candidates * RANDOM_SHARE))]
        scored = sorted(((self.mean(plan), -place) for place, plan in enumerate(drawn)), reverse=True)
        climbers = [(score, drawn[-place]) for score, place in scored[:CLIMBERS]]
        for number in range(candidates - len(drawn)):
            at = number % len(climbers)
            score, plan = climbers[at]
            other = self.templates.mutated(plan, self.rng)
            found = self.mean(other)
            if found >= score:
                climbers[at] = (found, other)
        score, plan = max(climbers, key=lambda climber: climber[0])
        return plan, score


def agent_returns(env: gym.Env[Any, Any], kind: str, tasks: int) -> list[float] | None:
    """Return what a built-in agent earns on each test task; None where the id has no such agent."""
    if companion(env, "sampler" if kind == "random" else kind) is None:
        return None
    policy = CompanionPolicy(kind)
    played = (run_episode(env, policy, seed=task, task=task, split="test") for task in range(tasks))
    return [result.trajectory.total_reward for result in played]


def interval(differences: list[float]) -> tuple[float, float]:
    """Return the 95 % normal interval of a mean."""
    mean = statistics.fmean(differences)
    half = 1.96 * statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    return round(mean - half, 4), round(mean + half, 4)


def searched(subject: Subject, seed: int) -> dict[str, Any]:
    """Search one subject; return its row."""
    began = time.process_time()
    env = gym.make(subject.id, **subject.arguments)
    with progress_bar(subject.label) as report:
        played = 0

        def tick() -> None:
            nonlocal played
            played += 1
            if report is not None:
                report(played, subject.episodes, 0)

        search = Search(env, f"reward search {seed} {subject.label}", tick)
        plan, train_mean = search.best(subject.episodes)
    tasks = min(subject.test_tasks, env.unwrapped.source.size("test"))  # type: ignore[attr-defined]
    tested = [search.play(plan, task, "test") for task in range(tasks)]
    returns = [earned for earned, _ in tested]
    unsolved = [earned for earned, solved in tested if not solved]
    agents = {kind: agent_returns(env, kind, tasks) for kind in ("heuristic", "random", "solver")}
    bar = agents["heuristic"] or agents["random"] or [0.0] * tasks
    low, high = interval([mine - theirs for mine, theirs in zip(returns, bar, strict=True)])
    return {
        "id": subject.id, "arguments": subject.arguments, "seed": seed, "episodes": subject.episodes, "train_tasks": TASKS,
        "test_tasks": tasks, "plan": [gene.as_list() for gene in plan], "train_mean": round(train_mean, 4),
        "mean": round(statistics.fmean(returns), 4), "success": round(1 - len(unsolved) / tasks, 4),
        "mean_unsolved": round(statistics.fmean(unsolved), 4) if unsolved else None,
        **{kind: None if found is None else round(statistics.fmean(found), 4) for kind, found in agents.items()},
        "bar": "heuristic" if agents["heuristic"] else "random", "difference": [low, high], "above": low > 0,
        "unsolved": search.unsolved, "cpu_seconds": round(time.process_time() - began, 1),
    }  # fmt: skip


def subjects(names: list[str], episodes: int | None, other_rewards: bool = True) -> list[Subject]:
    """Return every id with its default reward, then, where asked for, every text id with each of its other rewards."""
    defaults, variants = [], []
    for row in TABLE:
        if names and row.name not in names:
            continue
        given = ARGUMENTS["ExpA"] if row.twin else {}
        slow = SLOW.get(row.name)
        tests = SLOW_TEST_TASKS if slow else TEST_TASKS
        defaults.append(Subject(row.id, given, episodes or slow or EPISODES, tests))
        for reward in () if row.twin or not other_rewards else row.variants.get("reward", ())[1:]:
            fewer = episodes or min(slow or EPISODES, VARIANT_EPISODES)
            variants.append(Subject(row.id, {"reward": reward, **given}, fewer, tests))
    return defaults + variants


def main() -> None:
    """Search what is not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="ids by their short names (default: all)")
    parser.add_argument("--episodes", type=int, help="a subject (default: 10,000; slow ids and other rewards fewer)")
    parser.add_argument("--defaults", action="store_true", help="leave out rewards that are not an id's default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write rows here as they are done; a killed search goes on")
    options = parser.parse_args()
    rows = json.loads(options.out.read_text("utf-8"))["rows"] if options.out and options.out.is_file() else []
    for subject in subjects(options.only, options.episodes, not options.defaults):
        known = [row for row in rows if (row["id"], row["arguments"], row["seed"]) == (*subject.searched, options.seed)]
        if any(row["episodes"] >= subject.episodes for row in known):
            continue
        try:
            found = searched(subject, options.seed)
        except AgentEnvsError as error:
            print(f"{subject.label}: left out: {error}", file=sys.stderr)
            continue
        rows = [*(row for row in rows if row not in known), found]  # a longer search stands for shorter ones
        print(line(found), flush=True)
        if options.out:
            write(options.out, rows)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows in place of the file."""
    about = {
        "command": "python -m benchmarks.reward_search --out benchmarks/results/reward_search.json",
        "python": platform.python_version(),
        "note": "rows hold the episodes that were played; the command goes on with what is missing, and a longer search stands"
        " for a shorter one",
    }
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def line(row: dict[str, Any]) -> str:
    """Return a row as a line of the table."""
    subject = Subject(row["id"], row["arguments"], row["episodes"], row["test_tasks"])
    agents = " ".join(f"{kind} {row[kind]}" for kind in ("heuristic", "random", "solver"))
    unsolved = f"unsolved {row['mean_unsolved']}, at most {row['unsolved']['return']}"
    verdict = f"{'ABOVE' if row['above'] else 'not above'} {row['difference']}"
    return f"{subject.label}: {row['mean']} ({row['success']:.0%} solved; {unsolved}); {agents}; {verdict}"


if __name__ == "__main__":
    main()
