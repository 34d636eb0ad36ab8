"""sb3-contrib's MaskablePPO learns Sort-3 through `DiscreteActions`, evaluated greedily on every task that there is.

    python -m benchmarks.discrete_ppo --out benchmarks/results/discrete_ppo.json

One size, three ways to train, the same number of steps each: with ordering tasks (relations told, swaps only: the first stage
of the paper's curriculum) in a quarter of the environments, sorting alone, and with ordering tasks and the end of the action
budget left to sb3 as a truncation. That end is part of these tasks: the arrangement is judged there and the observation shows
what is left. sb3 adds the value of the last observation to the reward of a truncated step, so that never ending seems to pay
more and more; `BudgetEnds` reports an end. The reported seeds are fresh: none was used to choose the settings.
The training runs on one torch thread in `.venv-peers/sb3`, which is made where it is missing.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from math import factorial
from pathlib import Path
from typing import Any

import gymnasium as gym

from benchmarks.learning_chart import chart_svg
from benchmarks.steps import peer_python

ROLLOUT, ENVIRONMENTS = 2048, 8  # steps between two updates, in so many environments
WAYS = {  # how many of the environments play ordering tasks, whether the end of the budget is an end, and the seeds
    "with ordering tasks": (2, True, (20, 21, 22)),
    "sorting alone": (0, True, (20, 21)),
    "budget as truncation": (2, False, (20,)),
}
CASES: dict[int, dict[str, Any]] = {
    3: {"directions": "both", "max_actions": 40, "rollouts": 160, "every": 8, "ways": tuple(WAYS)},
    4: {"directions": "ascending", "max_actions": 60, "rollouts": 480, "every": 16, "ways": ("with ordering tasks",)},
}
SETTINGS = {"gamma": 1.0, "gae_lambda": 0.95, "batch_size": 256, "n_epochs": 6}
ENTROPY, RATE, WIDTH = 0.02, 1e-3, 128
FIGURES = ("success", "comparisons", "swaps", "reward")


class BudgetEnds(gym.Wrapper[Any, Any, Any, Any]):
    """Report the end of the action budget as an end of the episode, which it is: the outcome is judged there."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and turn a truncation into a termination."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        return seen, reward, terminated or truncated, False, info

    def action_masks(self) -> Any:
        """Return the mask of the wrapped view."""
        return self.env.get_wrapper_attr("action_masks")()


def make_view(name: str, size: int, budget_ends: bool) -> gym.Env[Any, Any]:
    """Return an id as MaskablePPO sees it."""
    from agent_envs.envs.expa import DiscreteActions

    case = CASES[size]
    env = gym.make(
        f"agent_envs/{name}ExpA-v0", size=size, directions=case["directions"], max_actions=case["max_actions"]
    )
    view = DiscreteActions(env)
    return BudgetEnds(view) if budget_ends else view


def every_task(env: gym.Env[Any, Any], size: int) -> list[int]:
    """Return the index of one test task for each permutation and direction."""
    wanted = factorial(size) * (2 if CASES[size]["directions"] == "both" else 1)
    found: dict[Any, int] = {}
    index = 0
    while len(found) < wanted:
        env.reset(options={"task": index, "split": "test"})
        task = env.unwrapped.episode.task  # type: ignore[attr-defined]
        found.setdefault((task.data.descending, task.hidden), index)
        index += 1
    return list(found.values())


def play_all(choose: Callable[[Any], Any], env: gym.Env[Any, Any], tasks: list[int]) -> dict[str, float]:
    """Return the mean figures of greedy play over the tasks."""
    totals = dict.fromkeys(FIGURES, 0.0)
    for task in tasks:
        seen, _ = env.reset(options={"task": task, "split": "test"})
        done = False
        while not done:
            seen, reward, terminated, truncated, info = env.step(choose(seen))
            done = terminated or truncated
        turns = env.unwrapped.trajectory.turns  # type: ignore[attr-defined]
        calls = [result.name for turn in turns for result in turn.results if not result.error]
        row = (info["success"], calls.count("compare"), calls.count("swap"), reward)
        for figure, value in zip(FIGURES, row, strict=True):
            totals[figure] += float(value)
    return {figure: round(total / len(tasks), 4) for figure, total in totals.items()}


def optimum(size: int) -> dict[str, float]:
    """Return the figures of the solver's optimal play over the same tasks."""
    from agent_envs.envs.expa.solver import next_action

    env = make_view("Sort", size, True)
    return play_all(lambda seen: next_action(env), env, every_task(env, size))


def train(size: int, way: str, seed: int) -> dict[str, Any]:
    """Train once, in this process, and return the learning curve: figures of greedy play against training steps."""
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.set_num_threads(1)
    (ordering, ends, _), case = WAYS[way], CASES[size]
    rollouts, view = case["rollouts"], make_view("Sort", size, True)
    tasks, curve = every_task(view, size), []
    started = time.process_time()

    def choose(seen: Any) -> Any:
        return model.predict(seen, action_masks=view.get_wrapper_attr("action_masks")(), deterministic=True)[0]

    names = ["Order"] * ordering + ["Sort"] * (ENVIRONMENTS - ordering)
    train_on = DummyVecEnv([partial(make_view, name, size, ends) for name in names])
    model = MaskablePPO(
        "MlpPolicy", train_on, seed=seed, n_steps=ROLLOUT // ENVIRONMENTS, device="cpu", **SETTINGS,
        policy_kwargs={"net_arch": [WIDTH, WIDTH], "activation_fn": torch.nn.ReLU},
    )  # fmt: skip
    for done in range(rollouts + 1):
        if done % case["every"] == 0:
            curve.append({"steps": done * ROLLOUT, **play_all(choose, view, tasks)})
        if done == rollouts:
            break
        left = 1 - done / rollouts
        model.ent_coef, rate = ENTROPY * left, RATE * max(left, 0.05)
        model.lr_schedule = lambda _, rate=rate: rate
        model.learn(ROLLOUT, reset_num_timesteps=done == 0)
    versions = {name: version(name) for name in ("torch", "sb3-contrib", "stable-baselines3", "gymnasium", "numpy")}
    return {"seed": seed, "cpu_seconds": round(time.process_time() - started), "curve": curve, "versions": versions}


def train_apart(size: int, way: str, seed: int) -> dict[str, Any]:
    """Train in a process of its own, in sb3's virtual environment."""
    command = [peer_python("sb3"), "-m", "benchmarks.discrete_ppo", "--worker", str(size), way, str(seed)]
    row: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    last = row["curve"][-1]
    print(f"Sort-{size}, {way}, seed {seed}: {last}, {row['cpu_seconds']} CPU-seconds", file=sys.stderr)
    return row


def main() -> None:
    """Train every way with every seed, print the table, write the figures and the chart."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", choices=sorted(CASES), default=[3])
    parser.add_argument("--jobs", type=int, default=1, help="how many trainings at a time, each on one thread")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, and the chart of Sort-3 as SVG beside it")
    parser.add_argument("--worker", nargs=3, metavar=("SIZE", "WAY", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        size, way, seed = options.worker
        print(json.dumps(train(int(size), way, int(seed))))
        return
    results: dict[str, Any] = {}
    for size in options.sizes:
        wanted = [(size, way, seed) for way in CASES[size]["ways"] for seed in WAYS[way][2]]
        with ThreadPoolExecutor(options.jobs) as pool:
            rows = list(pool.map(train_apart, *zip(*wanted, strict=True)))
        runs = {way: [row for row, (_, its, _) in zip(rows, wanted, strict=True) if its == way] for way in WAYS}
        versions = [row.pop("versions") for row in rows][0]
        taught = {way: found for way, found in runs.items() if found}
        results[f"Sort-{size}"] = {"case": CASES[size], "optimum": optimum(size), "runs": taught}
    for name, result in results.items():
        print(table(name, result))
    if options.out:
        record = {
            "command": "python -m benchmarks.discrete_ppo --sizes " + " ".join(map(str, options.sizes)),
            "versions": {"python": platform.python_version(), **versions},
            "machine": f"{platform.system()} {platform.machine()}, one torch thread",
            "settings": SETTINGS | {"rollout": ROLLOUT, "entropy": ENTROPY, "learning_rate": RATE, "width": WIDTH},
            "results": results,
        }
        options.out.write_text(json.dumps(record) + "\n", "utf-8")
        if "Sort-3" in results:
            options.out.with_suffix(".svg").write_text(chart_svg(results["Sort-3"]), "utf-8")


def table(name: str, result: dict[str, Any]) -> str:
    """Return where every way ends, in the mean over its seeds and each for itself."""
    lines = [f"{name}, greedy, mean over the seeds (each)" + "".join(f"{figure:>30}" for figure in FIGURES)]
    for way, rows in result["runs"].items():
        cells = []
        for figure in FIGURES:
            values = [row["curve"][-1][figure] for row in rows]
            cells.append(f"{statistics.mean(values):.3f} ({', '.join(f'{value:.3f}' for value in values)})")
        lines.append(f"{way:<40}" + "".join(f"{cell:>30}" for cell in cells))
    best = result["optimum"]
    return "\n".join([*lines, f"{'optimal play':<40}" + "".join(f"{best[figure]:>30.4f}" for figure in FIGURES)])


if __name__ == "__main__":
    main()
