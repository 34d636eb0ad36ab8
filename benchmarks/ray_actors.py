"""Actors of Ray beside threads: what a call costs by batch, whole episodes by one actor and two, and a model beside both.

    python -m benchmarks.ray_actors --out benchmarks/results/ray_actors.json

Search QA, one query in every turn. In `batches` a batch of turns is one call to an actor, as where the policy stays in the
driver; its peer is the same call of an `EpisodePool` here. In `runs` whole episodes are played, by threads here and by actors
with an agent of their own. The clock starts after as many as run at a time; turns that open episodes had before count after it.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import EpisodePool, Planned, Policy, Reply, Request, run_many, spec_json
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.rollout.ray_backend import Actors
from agent_envs.rollout.ray_hosts import PoolHost, StepTurn
from agent_envs.services.run_services import Services

RESULTS = Path(__file__).parent / "results"
ACTION = "<search>who built the old bridge</search>"
BATCHES, TURNS, SECONDS, REPEATS = (1, 16, 256), 1024, 0.05, 8
RUN_TURNS, TASKS = 8, 4
MACHINES, CORES, EPISODE_TURNS = (1, 10), 16, 20


class Slow:
    """An agent whose replies take 50 ms, or none, and cost a call each where they are `paid`."""

    name, batch = "slow", 1

    def __init__(self, seconds: float, paid: bool = False) -> None:
        """Wait for so long before each reply."""
        self._seconds, self._usage = seconds, {"calls": 1} if paid else {}

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the query."""
        time.sleep(self._seconds)
        return [Reply(ACTION, usage=dict(self._usage)) for _ in requests]


def spec_of(turns: int) -> str:
    """Return the JSON of Search QA with a limit of turns."""
    return spec_json(gym.make("agent_envs/SearchQA-v0", max_generations=turns, max_searches=turns))


def cpu_of(actor: Any) -> float:
    """Return the seconds of CPU that an actor has taken."""
    import ray

    seconds: float = ray.get(actor.__ray_call__.remote(lambda host: time.process_time()))
    return seconds


def by_batch(count: int, size: int) -> dict[str, Any]:
    """Return turns a second of so many actors, each called with batches by a thread of its own, and CPU a turn."""
    import ray

    spec, hosts = spec_of(TURNS), [ray.remote(PoolHost).remote() for _ in range(count)]
    starts = [{"task": number % TASKS, "split": "train", "seed": number, "key": str(number)} for number in range(size)]
    actions, rounds = [(row["key"], ACTION) for row in starts], max(3, TURNS // size // 16)

    def play(host: Any, first: int, batches: int) -> None:
        """Have an actor take batches, one after the other, in episodes that have had `first` turns."""
        for place in range(first, first + batches):
            turns = [StepTurn(key, spec, place, action=(action, False)) for key, action in actions]
            ray.get(host.play.remote(turns))

    pool = EpisodePool(spec)
    pool.begin_many(starts)
    pool.act_many(actions)
    for host in hosts:
        ray.get(host.play.remote([StepTurn(row["key"], spec, row=row) for row in starts]))
        play(host, 0, 2)
    clock = here = there = alone = 0.0
    for part in range(REPEATS):  # in turn, so that what slows the machine for a while slows both
        before, start, begin = sum(map(cpu_of, hosts)), time.process_time(), time.perf_counter()
        with ThreadPoolExecutor(count) as threads:
            list(threads.map(play, hosts, [2 + part * rounds] * count, [rounds] * count))
        clock, here = clock + time.perf_counter() - begin, here + time.process_time() - start
        there += sum(map(cpu_of, hosts)) - before
        start = time.process_time()
        for _ in range(rounds):
            pool.act_many(actions)
        alone += (time.process_time() - start) / rounds / size / REPEATS
    turns_taken = REPEATS * rounds * size * count
    for host in hosts:
        ray.kill(host)
    return {
        "actors": count, "batch": size, "turns_a_second": round(turns_taken / clock),
        "actor_ms": round(1000 * there / turns_taken, 3), "driver_ms": round(1000 * here / turns_taken, 3),
        "pool_ms": round(1000 * alone, 3),
    }  # fmt: skip


def run(
    name: str, spec: str, agent: Callable[[], Policy], concurrency: int, episodes: int, mode: str = "threads", count: int = 0
) -> dict[str, Any]:  # fmt: skip
    """Return a run's turns a second, by the clock and a second of CPU of who plays, and CPU a turn of this process."""
    plan = [Planned(f"run{number}", spec, number % TASKS, "train", number) for number in range(episodes)]
    actors = Actors(count, agent=agent if mode == "played" else None) if count else None
    services = actors.services(Services()) if actors else None
    turns, begin, start = 0, 0.0, (0.0, 0.0, 0.0)
    for place, (_, result) in enumerate(run_many(plan, agent(), concurrency=concurrency, services=services), 1):
        turns += len(result.trajectory.turns)
        if place == concurrency:  # the worlds and environments are made, wherever they are
            turns, begin, start = 0, time.perf_counter(), cpu_seconds(actors)
    clock = time.perf_counter() - begin
    driver, there, keeper = (end - first for end, first in zip(cpu_seconds(actors), start, strict=True))
    if actors:
        actors.close()
    row = {
        "run": name, "mode": mode, "actors": count, "concurrency": concurrency, "turns": turns,
        "turns_a_second": round(turns / clock), "driver_ms": round(1000 * driver / turns, 3),
        "actor_ms": round(1000 * there / turns, 3), "keeper_ms": round(1000 * keeper / turns, 3),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def cpu_seconds(actors: Actors | None) -> tuple[float, float, float]:
    """Return the seconds of CPU of this process, of all actors, and of the keeper of replies."""
    if actors is None:
        return time.process_time(), 0.0, 0.0
    hosts = [place.handle for place in actors._places if place.handle]
    keepers = [actors._replies._keeper] if actors._replies else []
    return time.process_time(), sum(map(cpu_of, hosts)), sum(map(cpu_of, keepers))


def fit(batches: list[dict[str, Any]], name: str) -> tuple[float, float]:
    """Return the CPU of a turn and of a call in ms: the line through one actor's smallest and largest batch."""
    small, large = (
        row[name] for row in batches if row.get("actors", 1) == 1 and row["batch"] in (BATCHES[0], BATCHES[-1])
    )
    call = (small - large) / (1 / BATCHES[0] - 1 / BATCHES[-1])
    return small - call / BATCHES[0], call


def model_table() -> str:
    """Return the table of what the model says of calls by batch, beside what was measured."""
    record = json.loads((RESULTS / "ray_actors.json").read_text(encoding="utf-8"))
    parts = [fit(record["batches"], name) for name in ("actor_ms", "driver_ms")]
    rows = []
    for row in record["batches"]:
        actor, driver = (turn + call / row["batch"] for turn, call in parts)
        actors = row.get("actors", 1)
        predicted = 1000 * min(actors / (actor + driver), record["cores"] / (actor + driver), 1 / driver)
        rows.append([actors, row["batch"], row["actor_ms"], row["pool_ms"], row["driver_ms"],
                     f"{predicted:,.0f}", f"{row['turns_a_second']:,}"])  # fmt: skip
    heads = ["actors", "turns in a call", "actor, ms of CPU a turn", "pool here", "driver", "model, turns/s",
             "measured"]  # fmt: skip
    return table(heads, rows)


def run_table() -> str:
    """Return the table of runs, with the share of the ideal rate where replies take a time."""
    record = json.loads((RESULTS / "ray_actors.json").read_text(encoding="utf-8"))
    rows = []
    for row in record["runs"]:
        share = f"{row['turns_a_second'] * SECONDS / row['concurrency']:.0%}" if "50 ms" in row["run"] else ""
        who = f"{row['actors']} actors, {row['mode']}" if row["actors"] else "threads"
        rows.append([row["run"], who, row["concurrency"], f"{row['turns_a_second']:,}", share, row["actor_ms"] or "",
                     row["driver_ms"], row["keeper_ms"] or ""])  # fmt: skip
    heads = ["run", "played by", "at a time", "turns/s", "of the ideal", "actor, ms of CPU a turn", "driver", "keeper"]
    return table(heads, rows)


def forecast_table() -> str:
    """Return minutes that episodes would take on machines, by what a turn costs whom; no such run was made."""
    record = json.loads((RESULTS / "ray_actors.json").read_text(encoding="utf-8"))
    cost = next(row for row in record["runs"] if row["run"].startswith("paid") and row["mode"] == "played")
    rows = []
    for episodes in (1_000, 10_000, 100_000):
        for machines in MACHINES:
            limits = {
                "actors": 1000 * machines * CORES / cost["actor_ms"], "the driver": 1000 / cost["driver_ms"],
                "the keeper of replies": 1000 / cost["keeper_ms"],
            }  # fmt: skip
            who = min(limits, key=limits.__getitem__)
            seconds = episodes * EPISODE_TURNS / limits[who]
            rows.append([f"{episodes:,}", machines, f"{limits[who]:,.0f}", who, f"{seconds / 60:,.1f}"])
    return table(["episodes", "machines", "turns/s at most", "by", "minutes at least"], rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in lines)


def growth_table() -> str:
    """Return the growth of cost: a row for each of the charts of `benchmarks.growth`."""
    record = json.loads((RESULTS / "growth.json").read_text(encoding="utf-8"))
    rows = [
        [name, row["unit"], f"{row['exponent']:g}", " · ".join(f"{int(n):,}: {value:g}" for n, value in row["points"].items())]
        for name, row in record["rows"].items()
    ]  # fmt: skip
    return table(["over", "unit", "exponent", "measured"], rows)


def parts() -> dict[str, str]:
    """Return the generated parts of docs/scale.md; those of whole episodes once they are measured."""
    record = json.loads((RESULTS / "ray_actors.json").read_text(encoding="utf-8"))
    tables = {"growth": growth_table(), "calls": model_table()}
    if any("mode" in row for row in record["runs"]):
        tables |= {"runs": run_table(), "forecast": forecast_table()}
    return tables


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    out = parser.parse_args().out
    load, batches = os.getloadavg()[0], []
    with Actors(2):
        for count in (1, 2):
            for size in BATCHES:
                batches.append(by_batch(count, size))
                print(json.dumps(batches[-1]), flush=True)
    spec, crafter = spec_of(RUN_TURNS), spec_json(gym.make("agent_envs/Crafter-v0"))
    ways: list[tuple[str, int]] = [("threads", 0), ("played", 1), ("played", 2)]
    runs = []
    for mode, count in ways:
        runs.append(run("Search QA, no wait", spec, partial(Slow, 0.0), 32, 128, mode, count))
        runs.append(run("Crafter, random", crafter, partial(CompanionPolicy, "random"), 4, 16, mode, count))
    runs.append(run("paid replies, no wait", spec, partial(Slow, 0.0, True), 32, 128, "played", 2))
    for concurrency in (64, 256):
        for mode, count in [("threads", 0), ("played", 2)]:
            agent = partial(Slow, SECONDS)
            runs.append(run("Search QA, replies of 50 ms", spec, agent, concurrency, 4 * concurrency, mode, count))
    record = {
        "command": "python -m benchmarks.ray_actors", "load": [load, os.getloadavg()[0]], "cores": os.cpu_count(),
        "batches": batches, "runs": runs,
    }  # fmt: skip
    if out:
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
