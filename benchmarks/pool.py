"""Open episodes of an `EpisodePool` in one process: memory, CPU a turn, and the bytes that a save takes as an episode grows.

    python -m benchmarks.pool [--out FILE]

Each row runs in a process of its own. The peer of a turn is `restore` and `step` alone, on the same moments in the same run,
in alternation; that of a save is the whole snapshot's bytes. The row `SearchQA own` asks other words in each episode and turn,
taken from its question; in the others all episodes act alike, so that those of one task are shown the same.
"""

import argparse
import gc
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import EpisodePool, Snapshot, restore
from benchmarks.open_episodes import resident_mb

ROWS = {
    "SearchQA": 100_000,
    "SearchQA own": 100_000,
    "Tau2Retail": 10_000,
    "BabyAI": 10_000,
}  # id: episodes open at once
ACTIONS = {
    "SearchQA": "<search>who built the old bridge</search>",
    "Tau2Retail": "Could you tell me your order number, please?",
    "BabyAI": "turn left",
}
TURNS, BATCH, SAVED = 3, 256, (5, 10, 25, 50)


def action_of(moment: Snapshot, name: str, own: bool) -> str:
    """Return the next action of an episode: the id's one, or a search for three words of its question by chance."""
    episode = moment.episode
    if not own or episode is None:
        return ACTIONS[name]
    order = random.Random(f"{episode.key} {len(episode.turns)}")
    return f"<search>{' '.join(order.sample(episode.task.question.split(), 3))}</search>"


def measure(row: str, episodes: int) -> dict[str, Any]:
    """Return the figures of one row: all episodes are begun and take three turns."""
    name, _, own = row.partition(" ")
    pool = EpisodePool(name)
    keys: list[str] = []
    gc.collect()
    before = resident_mb()
    for start in range(0, episodes, BATCH):
        rows = [
            {"seed": number, "task": number % 4096, "split": "train"}
            for number in range(start, min(start + BATCH, episodes))
        ]
        keys += [turn.key for turn in pool.begin_many(rows)]
    gc.collect()
    at_start = resident_mb()
    env = gym.make(f"agent_envs/{name}-v0", disable_env_checker=True)
    times, turns = {"pool": 0.0, "alone": 0.0}, 0
    for _ in range(TURNS):
        for start in range(0, episodes, BATCH):
            moments = {key: pool.moment(key) for key in keys[start : start + BATCH]}
            moments = {key: moment for key, moment in moments.items() if not moment.episode.over}
            actions = {key: action_of(moment, name, bool(own)) for key, moment in moments.items()}
            begin = time.process_time()
            for key, moment in moments.items():
                restore(env, moment)
                env.step(actions[key])
            middle = time.process_time()
            pool.act_many(list(actions.items()))
            times["alone"] += middle - begin
            times["pool"] += time.process_time() - middle
            turns += len(moments)
    gc.collect()
    return {
        "row": row, "episodes": len(pool), "turns": turns, "gb_begun": round((at_start - before) / 1024, 3),
        "gb": round((resident_mb() - before) / 1024, 3),
        "ms_a_turn": round(1000 * times["pool"] / turns, 3), "ms_restore_and_step": round(1000 * times["alone"] / turns, 3),
        "ratio": round(times["pool"] / times["alone"], 3),
    }  # fmt: skip


def measure_saves(name: str) -> list[dict[str, Any]]:
    """Return bytes and CPU of a save every five turns, by how long the episode is: what is new, and the whole."""
    arguments = {"max_generations": 60, "max_searches": 60} if name == "SearchQA" else {}
    pool = EpisodePool(name, **arguments)
    (turn,) = pool.begin_many([{"seed": 0, "task": 0, "split": "train"}])
    rows = []
    for number in range(1, max(SAVED) + 1):
        (turn,) = pool.act_many([(turn.key, ACTIONS[name])])
        if number % 5 == 0:
            begin = time.process_time()
            part = pool.take(turn.key, since=number - 5)
            seconds, whole = time.process_time() - begin, pool.take(turn.key)
            if number in SAVED:
                rows.append(
                    {"turns": number, "new_bytes": len(part), "bytes": len(whole), "new_ms": round(1000 * seconds, 3)}
                )
        if turn.terminated or turn.truncated:
            break
    return rows


def main() -> None:
    """Measure each id in a process of its own, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--only", choices=ROWS, help="one id, in this process")
    parser.add_argument("--episodes", type=int, help="open at once, in place of the row's number")
    args = parser.parse_args()
    if args.only:
        row = measure(args.only, args.episodes or ROWS[args.only])
        print(json.dumps({**row, "saves": measure_saves(args.only.split()[0])}), flush=True)
        return
    command = [sys.executable, "-m", "benchmarks.pool", *(["--episodes", str(args.episodes)] if args.episodes else [])]
    rows = []
    for name in ROWS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows.append(
            json.loads(subprocess.run([*command, "--only", name], check=True, capture_output=True, text=True).stdout)
        )
        print(json.dumps(rows[-1]), flush=True)
    if args.out:
        args.out.write_text(
            json.dumps({"command": "python -m benchmarks.pool", "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
