"""tau2 with its scripted user is timed in steps per CPU-second: generated test tasks, played once each by the heuristic.

    python -m benchmarks.tau2_steps [--base FOLDER] [--rounds 3] [--out FILE]

Only the time inside `env.step` and `env.reset` counts, not the agent's. With `--base`, another checkout of this project is
measured in turn with this one; the hash over all observations, rewards and infos says whether both played the same.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DOMAINS = ("retail", "airline", "telecom")
EPISODES = 100


def measure(domain: str) -> dict[str, Any]:
    """Return one round of a domain in the package that is imported."""
    import gymnasium as gym

    import agent_envs  # noqa: F401 - registers the ids
    from agent_envs.envs.tau2.heuristics import act
    from agent_envs.rollout.policy import Request

    env: Any = gym.make(f"agent_envs/Tau2{domain.title()}-v0")
    steps, stepping, resetting, played = 0, 0.0, 0.0, hashlib.sha256()
    for task in range(EPISODES):
        started = time.process_time()
        seen, info = env.reset(seed=task, options={"task": task, "split": "test", "episode_key": f"steps-{task}"})
        resetting += time.process_time() - started
        played.update(seen.encode())
        messages, over = info["messages"], False
        while not over:
            action = act(Request("steps", 0, messages, env.unwrapped.tools))
            started = time.process_time()
            seen, reward, terminated, truncated, info = env.step(action)
            stepping += time.process_time() - started
            played.update(repr((seen, reward, terminated, truncated, info)).encode())
            messages = [*messages, {"role": "assistant", "content": action}, *info["messages"]]
            steps, over = steps + 1, terminated or truncated
    return {
        "steps": steps,
        "steps_per_cpu_second": round(steps / stepping),
        "reset_ms": round(1_000 * resetting / EPISODES, 2),
        "played": played.hexdigest()[:16],
    }


def measured(domain: str, folder: Path) -> dict[str, Any]:
    """Return one round of a domain in a process of its own, on the package in a folder."""
    command = [sys.executable, str(Path(__file__).resolve()), "--domain", domain]
    place = os.environ | {"PYTHONPATH": str(folder)}
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder, env=place).stdout
    return json.loads(out.splitlines()[-1])  # type: ignore[no-any-return]


def rows(folders: dict[str, Path], rounds: int) -> dict[str, dict[str, Any]]:
    """Return each domain's figures by checkout; the rounds take the checkouts in turn."""
    found: dict[str, dict[str, Any]] = {}
    for domain in DOMAINS:
        taken = [{name: measured(domain, folder) for name, folder in folders.items()} for _ in range(rounds)]
        found[domain] = {}
        for name in folders:
            rates = [one[name]["steps_per_cpu_second"] for one in taken]
            found[domain][name] = taken[0][name] | {"steps_per_cpu_second": statistics.median(rates), "rounds": rates}
            print(f"{domain:<8} {name:<5} {statistics.median(rates):>7,} steps per CPU-second, rounds {rates}")
        if len(folders) > 1:
            ratios = [one["now"]["steps_per_cpu_second"] / one["base"]["steps_per_cpu_second"] for one in taken]
            found[domain]["now/base"] = [round(ratio, 2) for ratio in ratios]
            same = len({one["played"] for each in taken for one in each.values()}) == 1
            found[domain]["played_the_same"] = same
            print(f"{domain:<8} now/base {found[domain]['now/base']}; played the same: {same}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--domain", choices=DOMAINS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.domain:
        print(json.dumps(measure(chosen.domain)))
        return
    base = {"base": chosen.base.resolve()} if chosen.base else {}
    figures = rows(base | {"now": Path(__file__).resolve().parents[1]}, chosen.rounds)
    if chosen.out:
        record = {"command": "python -m benchmarks.tau2_steps", "python": platform.python_version(), "domains": figures}
        if base:
            command = ["git", "-C", str(base["base"]), "rev-parse", "--short", "HEAD"]
            record["base"] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
