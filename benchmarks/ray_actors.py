"""Actors of Ray beside one process: turns a second by batch, CPU a turn, one actor and two by the clock, a slow model's rate.

    python -m benchmarks.ray_actors --out benchmarks/results/ray_actors.json

Search QA, one query in every turn. A batch is one call to an actor; its peer is the same call of an `EpisodePool` here. Where
a run is played, replies take 50 ms, the ideal rate is that of replies alone, and the CPU a turn is that of the driver.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import EpisodePool, Planned, Reply, Request, run_many, spec_json
from agent_envs.rollout.ray_backend import Actors, PoolHost, _Turn
from agent_envs.services.run_services import Services

ACTION = "<search>who built the old bridge</search>"
BATCHES, TURNS, SECONDS = (1, 16, 256), 1024, 0.05
RUN_TURNS, CONCURRENCIES = 8, (64, 256)


class Slow:
    """An agent whose replies take 50 ms, or none."""

    name, batch = "slow", 1

    def __init__(self, seconds: float) -> None:
        """Wait for so long before each reply."""
        self._seconds = seconds

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the query."""
        time.sleep(self._seconds)
        return [Reply(ACTION) for _ in requests]


def spec_of(turns: int) -> str:
    """Return the JSON of the environment with a limit of turns."""
    return spec_json(gym.make("agent_envs/SearchQA-v0", max_generations=turns, max_searches=turns))


def by_batch(actors: Actors) -> list[dict[str, Any]]:
    """Return turns a second and CPU a turn of each batch, in an actor and in a pool here."""
    import ray

    rows, spec = [], spec_of(TURNS)
    for size in BATCHES:
        host, pool = ray.remote(PoolHost).remote(None, False), EpisodePool(spec)
        starts = [{"task": number, "split": "train", "seed": number, "key": str(number)} for number in range(size)]
        pool.begin_many(starts)
        ray.get(host.play.remote([_Turn(row["key"], spec, row) for row in starts], []))
        actions, rounds = [(row["key"], ACTION) for row in starts], max(4, TURNS // size // 4)
        turns = [_Turn(key, spec, None, (), [(action, False)]) for key, action in actions]
        pool.act_many(actions)
        ray.get(host.play.remote(turns, []))
        cpu = host.__ray_call__.remote(lambda host: time.process_time())
        begin, there, here = time.perf_counter(), ray.get(cpu), time.process_time()
        for _ in range(rounds):
            ray.get(host.play.remote(turns, []))
        clock = time.perf_counter() - begin
        driver, cpu = time.process_time() - here, host.__ray_call__.remote(lambda host: time.process_time())
        there = ray.get(cpu) - there
        here = time.process_time()
        for _ in range(rounds):
            pool.act_many(actions)
        alone, count = time.process_time() - here, rounds * size
        ray.kill(host)
        rows.append({
            "batch": size, "turns": count, "turns_a_second": round(count / clock),
            "actor_ms": round(1000 * there / count, 3), "pool_ms": round(1000 * alone / count, 3),
            "driver_ms": round(1000 * driver / count, 3), "actor_to_pool": round(there / alone, 2),
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    return rows


def run(concurrency: int, seconds: float, actors: Actors | None) -> dict[str, Any]:
    """Return the rate of a run, its share of the ideal one, and CPU a turn of this process."""
    spec, policy = spec_of(RUN_TURNS), Slow(seconds)
    services = Services(elsewhere=actors.environment if actors else None)
    plan = [Planned(f"run{number}", spec, number, "train", number) for number in range(2 * concurrency)]
    for _ in range(2):  # the first builds the worlds of its tasks, wherever they are
        begin, cpu = time.perf_counter(), time.process_time()
        turns = sum(
            len(result.trajectory.turns)
            for _, result in run_many(plan, policy, concurrency=concurrency, services=services)
        )
    clock, cpu = time.perf_counter() - begin, time.process_time() - cpu
    row = {"turns": turns, "turns_a_second": round(turns / clock), "driver_ms": round(1000 * cpu / turns, 3)}
    return {**row, "share_of_ideal": round(turns / clock * seconds / concurrency, 3)} if seconds else row


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    out = parser.parse_args().out
    with Actors(1) as actors:
        batches = by_batch(actors)
    rows = list[dict[str, Any]]()
    for count, seconds, concurrency in [(1, 0.0, 64), (2, 0.0, 64), *((2, SECONDS, size) for size in CONCURRENCIES)]:
        row = {"concurrency": concurrency, "reply_seconds": seconds}
        with Actors(count) as actors:
            rows.append({**row, "actors": count, **run(concurrency, seconds, actors)})
        if count == 2:
            rows.append({**row, "actors": 0, **run(concurrency, seconds, None)})
        print(json.dumps(rows[-2:]), flush=True)
    figures = {"command": "python -m benchmarks.ray_actors", "load": os.getloadavg()[0], "cores": os.cpu_count()}
    if out:
        out.write_text(json.dumps({**figures, "batches": batches, "runs": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
