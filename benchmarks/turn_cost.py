"""The cost of one turn of an `EpisodeWalk` is measured after few turns and after many: it should not grow with the episode.

    python -m benchmarks.turn_cost

Prints CPU-microseconds a turn (request, step and record), the least of several stretches of twenty turns at each length, and
the largest over the smallest.
"""

import time
from typing import Any

import gymnasium as gym

from agent_envs import EpisodeWalk, Reply
from agent_envs.core.env import core_of

LENGTHS = (10, 100, 1_000, 3_000)
STRETCH, REPEATS = 20, 15


def endless() -> gym.Env[Any, Any]:
    """Return an environment that no limit ends."""
    env = gym.make("agent_envs:agent_envs/Sort-v0")
    core_of(env).max_turns = 10**9
    return env


def cost(length: int, repeats: int = REPEATS) -> float:
    """Return CPU-microseconds of a turn that follows so many."""
    best = float("inf")
    for _ in range(repeats):
        walk = EpisodeWalk(endless(), seed=0, task=0)
        for _ in range(length - STRETCH // 2):
            walk.take(Reply("hm"))
        start = time.process_time_ns()
        for _ in range(STRETCH):
            walk.request()
            walk.take(Reply("hm"))
        best = min(best, (time.process_time_ns() - start) / STRETCH / 1e3)
    return best


def main() -> None:
    """Measure all lengths."""
    costs = {length: cost(length) for length in LENGTHS}
    for length, microseconds in costs.items():
        print(f"{length:>6} turns: {microseconds:.1f} us")
    print(f"largest over smallest: {max(costs.values()) / min(costs.values()):.2f}")


if __name__ == "__main__":
    main()
