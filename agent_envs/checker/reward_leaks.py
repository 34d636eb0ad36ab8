"""The leak checks require that the solver succeeds, that silence and planted text do not win, and that gold stays hidden."""

import contextlib
import dataclasses
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agent_envs.base.protocol import Call
from agent_envs.base.serialization import encode_state
from agent_envs.checker.env_under_test import CheckFailed, CheckSkipped, EnvUnderTest
from agent_envs.core.env import TurnEnv, core_of
from agent_envs.core.episode import Episode, Outcome
from agent_envs.core.registry import companion
from agent_envs.core.snapshot import fork
from agent_envs.rollout.episode_runner import run_episode, solve
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy, Policy, Reply, Request

CANARY = "canary-7f3a9c"
NUMBER = 730_519_917_443
_NUMBER, _TAG = re.compile(r"[0-9][0-9.,]*"), re.compile(r"</?(?:think|thinking|answer)>")
# All of up to three digits, as numbers and in one string.
EVERY_NUMBER = f"{' '.join(map(str, range(1000)))}, {''.join(f'{number:03}' for number in range(1000))}"
# From an environment, the one that goes on and what its step returned.
GoOn = Callable[[gym.Env[Any, Any]], tuple[Any, ...]]


def check_solver(subject: EnvUnderTest) -> str:
    """Return a note if the solver succeeds always, and earns no less than other agents, more than silence; else CheckFailed."""
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


def _mean_return(subject: EnvUnderTest, env: gym.Env[Any, Any], policy: Policy, must_succeed: bool = False) -> float:
    """Play every task and return the mean return, 0 without tasks; with `must_succeed`, CheckFailed at a failed one."""
    total = 0.0
    for task in range(subject.tasks):
        result = run_episode(env, policy, seed=task, task=task, split=subject.split)
        if must_succeed and not result.success:
            raise CheckFailed(f"the solver fails task {result.trajectory.header.task_id}")
        total += result.trajectory.total_reward
    return total / max(subject.tasks, 1)


def check_planting(subject: EnvUnderTest) -> str:
    """Return a note if gold (else the solver's first action) behind all shown moves no random return; else CheckFailed."""
    env = subject.make()
    core = core_of(env)
    bait_count = 0
    for task in range(subject.tasks):
        subject.reset(env, task)
        going, rng = env, random.Random(f"planting:{task}")
        actions, total = [], 0.0
        for _ in range(core.max_turns):
            going, action, (_, reward, terminated, truncated, _) = subject.lasting_step(going, rng)
            actions.append(action)
            total += float(reward)
            if terminated or truncated:
                break
        subject.reset(env, task)
        bait = "".join(f"<answer>{gold}</answer>" for gold in core.episode.task.gold)
        if not bait and companion(env, "solver") is not None:
            bait = str(solve(env)[0])
        with planting(core, bait):
            planted = sum(float(env.step(action)[1]) for action in actions)
        bait_count += sum(bait in message.content for turn in core.episode.turns for message in turn.observation)
        if planted != total:
            raise CheckFailed(f"task {task}: planting moved the return from {total:g} to {planted:g}")
    if not bait_count:
        raise CheckSkipped("nothing was shown that a bait could be planted in")
    return f"{bait_count} texts baited in {subject.tasks} episodes that never answer"


@contextlib.contextmanager
def planting(core: TurnEnv, bait: str) -> Iterator[None]:
    """Plant a bait behind every text that the policy did not write, before rewards see the turn."""
    advance = core._advance

    def advance_with_bait(episode: Episode, action: Any) -> Outcome:
        """Advance the episode, and append the bait to observation and results alone."""
        outcome = advance(episode, action)
        messages = tuple(
            dataclasses.replace(message, content=message.content + bait) for message in outcome.observation
        )
        results = tuple(dataclasses.replace(result, content=result.content + bait) for result in outcome.results)
        return dataclasses.replace(outcome, observation=messages, results=results)

    core._advance = advance_with_bait  # type: ignore[method-assign]
    try:
        yield
    finally:
        del core._advance


def check_telling(subject: EnvUnderTest) -> str:
    """Return a note if telling all shown and every number earns no more than one wrong number (or 0); else CheckFailed."""
    env = subject.make()
    core = core_of(env)
    marks = (("", ""), core.answer_tags, (str(getattr(core.written, "mark", "")), ""), ("\\boxed{", "}"))
    most = 0.0
    for before, behind in dict.fromkeys(marks):
        telling, wrong = (
            _mean_return(subject, env, TellingPolicy(before, behind, all_of_it)) for all_of_it in (True, False)
        )
        if telling > max(wrong, 0.0) + 1e-9:
            raise CheckFailed(
                f"who tells everything as {before}...{behind} earns {telling:g}, a wrong number {wrong:g}"
            )
        most = max(most, telling)
    deeds = 0
    for task in range(subject.tasks if companion(env, "solver") is not None else 0):
        subject.reset(env, task)
        path = solve(env)
        deeds += len(path)
        subject.reset(env, task)
        wrong = sum(_paid_by_turn(fork(env), path, str(NUMBER)))
        telling = sum(_paid_by_turn(env, path, EVERY_NUMBER))
        if telling > wrong:
            raise CheckFailed(
                f"task {task}: the solver's deeds earn {telling:g} with every number told, {wrong:g} with a wrong one"
            )
    return f"mean return at most {most:.3g}; every number told beside {deeds} turns of the solver"


def _paid_by_turn(env: gym.Env[Any, Any], path: list[Any], words: str) -> Iterator[float]:
    """Yield the rewards of a solver's path; turns that call no tool get `words` for their numbers; ends with the episode."""
    for action in path:
        if isinstance(action, str):
            twin = fork(env)
            twin.step(action)
            if not isinstance(core_of(twin).episode.turns[-1].parsed, Call):
                action = f"{_NUMBER.sub('', action)} {words}"
        _, reward, terminated, truncated, _ = env.step(action)
        yield float(reward)
        if terminated or truncated:
            return


class TellingPolicy:
    """A policy that says all that was shown to it, and every number, between two texts; or one wrong number alone."""

    name, batch = "telling", 1

    def __init__(self, opening: str, closing: str, all_of_it: bool = True) -> None:
        """Take what stands before the words and behind them, and whether it tells everything."""
        self.opening, self.closing, self.all_of_it = opening, closing, all_of_it

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return everything, and what is tried as an answer, in one turn."""
        return [Reply(f"{self.opening}{self._words(request)}{self.closing}") for request in requests]

    def _words(self, request: Request) -> str:
        texts = (str(row["content"])[-10_000:] for row in request.messages)
        return f"{_TAG.sub('', ' '.join(texts))[-50_000:]} {EVERY_NUMBER}" if self.all_of_it else str(NUMBER)


def check_hidden_gold(subject: EnvUnderTest) -> str:
    """Return a note if gold and scenario, as canaries, show in no step but the last; CheckFailed, or CheckSkipped for none."""
    env = subject.make()
    steps = 0
    for task in range(subject.tasks):
        subject.reset(env, task)
        real = core_of(env).episode.task
        solution = solve(env) if companion(env, "solver") is not None else []
        for canary in (CANARY, NUMBER):
            bait = dataclasses.replace(
                real, gold=tuple(CANARY for _ in real.gold), hidden=_replace_values(real.hidden, type(canary))
            )
            if str(canary) not in json.dumps(encode_state(bait)):
                continue
            rng = random.Random(f"canary:{task}")
            steps += _play_through(subject, env, bait, lambda going: subject.lasting_step(going, rng)[::2])  # noqa: B023 - called at once
            path = iter(solution)
            steps += _play_through(subject, env, bait, lambda going: (going, going.step(next(path, ""))))  # noqa: B023 - called at once
    if not steps:
        raise CheckSkipped("tasks hold neither gold nor a scenario that could be replaced, or end at the first turn")
    return f"{steps} steps with a canary in the place of gold and scenario"


def _play_through(subject: EnvUnderTest, env: gym.Env[Any, Any], bait: Any, go_on: GoOn) -> int:
    """Play to the end; return how many results (reset and steps, not the last) were searched; CheckFailed for the canary."""
    _check_hidden(subject.reset(env, bait), "reset")
    steps = 1
    while True:
        env, (observation, _, terminated, truncated, info) = go_on(env)
        if terminated or truncated:
            return steps
        _check_hidden((observation, info), f"turn {info['turn']}")
        steps += 1


def _check_hidden(result: tuple[Any, ...], where: str) -> None:
    """Raise CheckFailed if the canary text or number of the hidden parts is in a result."""
    text = json.dumps(result, default=lambda value: value.tolist() if isinstance(value, np.ndarray) else str(value))
    if CANARY in text or str(NUMBER) in text:
        raise CheckFailed(f"the hidden gold or scenario shows at {where}")


def _replace_values(value: Any, kind: type) -> Any:
    """Return a scenario with all texts (kind str) or whole numbers (int) as the canary; keys and other values stay."""
    if isinstance(value, kind) and not isinstance(value, bool):
        return CANARY if kind is str else NUMBER
    if isinstance(value, tuple):
        return tuple(_replace_values(item, kind) for item in value)
    if isinstance(value, dict):
        return {key: _replace_values(item, kind) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {item.name: _replace_values(getattr(value, item.name), kind) for item in dataclasses.fields(value)}
        return dataclasses.replace(value, **fields)
    return value


HONESTY_CHECKS: dict[str, Callable[[EnvUnderTest], str]] = {
    "solver": check_solver,
    "planted answers": check_planting,
    "everything told": check_telling,
    "hidden gold": check_hidden_gold,
}
