"""Is the score honest: solvable, not won by silence, not won by planted text, and the gold stays hidden."""

import dataclasses
import json
import random
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from agent_envs.canonical import encode_state
from agent_envs.checker.subject import CheckFailed, CheckSkipped, Subject
from agent_envs.core import companion
from agent_envs.policies import CompanionPolicy, NullPolicy, Policy, core_of
from agent_envs.rollout import run_episode

CANARY = "canary-7f3a9c"


def check_solver(subject: Subject) -> str:
    """The solver succeeds on every task; its mean return is at least every built-in policy's and above silence."""
    env = subject.make()
    if companion(env, "solver") is None:
        raise CheckSkipped("no solver: register_companions(cls, solver=...) gives one")
    means = {"solver": _mean_return(subject, env, CompanionPolicy("solver"), must_succeed=True)}
    for kind in ("random", "heuristic"):
        if companion(env, "sampler" if kind == "random" else kind) is not None:
            means[kind] = _mean_return(subject, env, CompanionPolicy(kind))
    means["null"] = _mean_return(subject, env, NullPolicy())
    for name, mean in means.items():
        if mean > means["solver"] + 1e-9:
            raise CheckFailed(f"{name} earns {mean:g}, more than the solver's {means['solver']:g}")
    if means["null"] >= means["solver"]:
        raise CheckFailed(f"silence earns {means['null']:g}, as much as the solver")
    return "mean return " + ", ".join(f"{name} {mean:.3g}" for name, mean in means.items())


def _mean_return(subject: Subject, env: gym.Env[Any, Any], policy: Policy, must_succeed: bool = False) -> float:
    total = 0.0
    for task in range(subject.tasks):
        result = run_episode(env, policy, seed=task, task=task, split=subject.split)
        if must_succeed and not result.success:
            raise CheckFailed(f"the solver fails task {result.trajectory.header.task_id}")
        total += result.trajectory.total_reward
    return total / max(subject.tasks, 1)


def check_planting(subject: Subject) -> str:
    """`<answer>gold</answer>` planted in every tool result changes no return of a policy that never answers."""
    env = subject.make()
    core = core_of(env)
    for task in range(subject.tasks):
        subject.reset(env, task)
        rng = random.Random(f"planting:{task}")
        actions, total = [], 0.0
        for _ in range(core.max_turns):
            actions.append(subject.lasting_action(env, rng))
            _, reward, terminated, truncated, _ = env.step(actions[-1])
            total += float(reward)
            if terminated or truncated:
                break
        core.planted_text = "".join(f"<answer>{gold}</answer>" for gold in core.episode.task.gold)
        subject.reset(env, task)
        planted = sum(float(env.step(action)[1]) for action in actions)
        core.planted_text = ""
        if planted != total:
            raise CheckFailed(f"task {task}: planting moved the return from {total:g} to {planted:g}")
    return f"{subject.tasks} episodes that never answer"


def check_hidden_gold(subject: Subject) -> str:
    """The gold and the scenario, replaced by a canary, never show before the end."""
    env = subject.make()
    steps = 0
    for task in range(subject.tasks):
        subject.reset(env, task)
        real = core_of(env).episode.task
        scenario = _replaced(real.hidden)
        bait = dataclasses.replace(real, gold=tuple(CANARY for _ in real.gold), hidden=scenario)
        if CANARY not in json.dumps(encode_state(bait)):
            raise CheckSkipped("tasks hold neither gold nor a scenario in text")
        rng = random.Random(f"canary:{task}")
        _shows(subject.reset(env, bait), "reset")
        while True:
            action = subject.lasting_action(env, rng)
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
            _shows((observation, info), f"turn {info['turn']}")
            steps += 1
    return f"{steps} steps with a canary in the place of the gold"


def _shows(result: tuple[Any, ...], where: str) -> None:
    if CANARY in json.dumps(result, default=str):
        raise CheckFailed(f"the hidden gold or scenario shows at {where}")


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return CANARY
    if isinstance(value, tuple):
        return tuple(_replaced(item) for item in value)
    if isinstance(value, dict):
        return {key: _replaced(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {item.name: _replaced(getattr(value, item.name)) for item in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


HONESTY_CHECKS: dict[str, Callable[[Subject], str]] = {
    "solver": check_solver,
    "planted answers": check_planting,
    "hidden gold": check_hidden_gold,
}
