"""tau2's solver and heuristic play with simulated users, beside empty conversations and a crowd of open episodes.

    AGENT_ENVS_DATA=... python -m benchmarks.tau2_users [--out FILE] [--tasks N] [--crowd N]

Rates are over generated test tasks, with 95 % intervals; empty conversations are scored on these and on the official tasks.
The crowd is N telecom episodes that stand open at once and are stepped in turn by the heuristic, in one process and one thread,
the scripted user included; time is CPU time. The original keeps a thread for each episode, and its telecom step takes 0.66 to
1.20 s without any model (recorded once; it is not installed here).
"""

import argparse
import json
import platform
import resource
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.metrics import idle_score
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.task_generator.source import GeneratedSource, generated_domain
from agent_envs.envs.tau2.tasks import OfficialSource, tau2_task
from agent_envs.evaluation.statistics.rates import pass_hat_rate, success_rate
from agent_envs.rollout.policy import CompanionPolicy, Request
from benchmarks.tau2_null_policy import null_policy_score

DOMAINS = ("retail", "airline", "telecom")
TRIALS = 4
STEP_SECONDS_OF_THE_ORIGINAL = 0.66


def rates(domain: str, kind: str, tasks: int, trials: int) -> dict[str, Any]:
    """Play a built-in agent on the first test tasks; return success by difficulty, and pass^k."""
    env = gym.make(f"agent_envs/Tau2{domain.title()}-v0")
    source = env.unwrapped.source
    values: list[float] = []
    names: list[str] = []
    kinds: list[str] = []
    faults = turns = 0
    started = time.process_time()
    for place in range(tasks):
        task = source.get("test", place)
        for trial in range(trials):
            key = f"tau2-users-{place}-{trial}"
            result = agent_envs.run_episode(
                env, CompanionPolicy(kind), seed=trial, task=place, split="test", episode_key=key
            )
            values.append(float(bool(result.success)))
            names.append(task.id)
            kinds.append(task.data["difficulty"])
            turns += len(result.trajectory.turns)
            faults += any(part.startswith("user_faults=") for part in result.trajectory.last.results[-1].ids)
    seconds = time.process_time() - started
    found: dict[str, Any] = {"episodes": len(values), "cpu_seconds": round(seconds, 1), "turns": turns}
    found |= {"success": success_rate(values, names).text(), "user_faults": faults}
    for level in ("easy", "medium", "hard"):
        chosen = [place for place, one in enumerate(kinds) if one == level]
        found[level] = success_rate([values[p] for p in chosen], [names[p] for p in chosen]).text()
    if trials > 1:
        found |= {f"pass^{k}": pass_hat_rate(values, names, k).text() for k in range(1, trials + 1)}
    return found


def nobody(domain: str, tasks: int) -> dict[str, Any]:
    """Score an empty conversation on the same tasks, and on the official ones."""
    source, made = GeneratedSource(domain), generated_domain(domain)
    passed = sum(
        idle_score(made, tau2_task(source.get("test", place), domain)).reward_without_nl for place in range(tasks)
    )
    floor = null_policy_score(load_domain(domain), OfficialSource(domain), "base")
    return {
        "generated": f"{passed:g} of {tasks}", "official base": f"{floor.passed} of {floor.tasks}",
        "official rate": round(floor.rate, 3), "of these unjudged": floor.unjudged,
    }  # fmt: skip


def crowd(size: int) -> dict[str, Any]:
    """Play episodes side by side, one turn of each in turn, and tell what a step costs and what all of them hold."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    envs = [gym.make("agent_envs/Tau2Telecom-v0") for _ in range(size)]
    states = []
    for place, env in enumerate(envs):
        _, info = env.reset(
            seed=place, options={"task": place % 1_000, "split": "test", "episode_key": f"crowd-{place}"}
        )
        states.append(info["messages"])
    opened = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    going, steps, acting, stepping, solved = list(range(size)), 0, 0.0, 0.0, 0
    while going:
        still = []
        for place in going:
            env = envs[place]
            started = time.process_time()
            action = act(Request(f"crowd-{place}", 0, states[place], env.unwrapped.tools))
            acted = time.process_time()
            _, _, terminated, truncated, info = env.step(action)
            stepping += time.process_time() - acted
            acting += acted - started
            steps += 1
            states[place] = [*states[place], {"role": "assistant", "content": action}, *info["messages"]]
            if terminated or truncated:
                solved += info["success"]
            else:
                still.append(place)
        going = still
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "episodes": size, "steps": steps, "solved": solved, "steps_per_cpu_second": round(steps / stepping),
        "agent_cpu_seconds": round(acting, 1), "environment_cpu_seconds": round(stepping, 1),
        "mb_at_the_start": round(opened / 1e6, 1), "peak_rss_mb": round(peak / unit), "rss_before_mb": round(before / unit),
        "times_the_original": round(STEP_SECONDS_OF_THE_ORIGINAL * steps / stepping),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tasks", type=int, default=500, help="test tasks of the solver and of nobody (default 500)")
    parser.add_argument("--trials-tasks", type=int, default=128, help="test tasks of the heuristic, 4 trials each")
    parser.add_argument("--crowd", type=int, default=1_000, help="telecom episodes at once (default 1,000)")
    chosen = parser.parse_args()
    found: dict[str, Any] = {"crowd": crowd(chosen.crowd)}
    print(json.dumps(found, indent=1))
    for domain in DOMAINS:
        found[domain] = {"nobody": nobody(domain, chosen.tasks)}
        for kind, tasks, trials in (("solver", chosen.tasks, 1), ("heuristic", chosen.trials_tasks, TRIALS)):
            found[domain][kind] = rates(domain, kind, tasks, trials)
            print(domain, kind, json.dumps(found[domain][kind]), flush=True)
        print(domain, "nobody", json.dumps(found[domain]["nobody"]), flush=True)
    if chosen.out:
        record = {
            "command": f"python -m benchmarks.tau2_users --tasks {chosen.tasks} --trials-tasks {chosen.trials_tasks} "
            f"--crowd {chosen.crowd}",
            "versions": {"python": platform.python_version(), "agent_envs": agent_envs.__version__},
            **found,
        }
        chosen.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
