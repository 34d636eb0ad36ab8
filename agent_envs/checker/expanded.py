"""Expanded actions: the mask tells the truth, and what it forbids is explained and changes nothing."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, OneOf

from agent_envs.checker.subject import CheckFailed, Subject
from agent_envs.core import TurnEnv
from agent_envs.policies import core_of
from agent_envs.protocol import Malformed
from agent_envs.snapshot import fork

MOST_STEPS = 24
UNKNOWN_IDS = (-1, 10**6, 2**70, -(2**70))


def takes_ids(core: TurnEnv) -> int:
    """Return how many expanded actions an environment has, 0 if it takes text alone."""
    space = core.action_space
    if not isinstance(space, OneOf):
        return 0
    return next((int(part.n) for part in space.spaces if isinstance(part, Discrete)), 0)


def check_expanded_actions(subject: Subject) -> str:
    """Illegal ids never raise and never change the state; legal ones are never refused; 0 is `end`, then come routes."""
    env = subject.make()
    core = core_of(env)
    count = takes_ids(core)
    if not count:
        return "none: it takes text alone"
    kinds = [action.kind for action in getattr(core, "expanded_actions", ())]
    if len(kinds) != count or kinds[0] != "end" or kinds != sorted(kinds, key=("end", "route", "act").index):
        raise CheckFailed(
            f"expanded_actions are of the kinds {kinds}: one `end`, then routes, then acts, {count} in all"
        )
    refused = 0
    for task in range(subject.tasks):
        _, info = subject.reset(env, task)
        rng = random.Random(f"expanded:{task}")
        for _ in range(MOST_STEPS):
            mask = _mask(info, count)
            refused += _refusals(env, [*UNKNOWN_IDS, *map(int, np.flatnonzero(~mask))])
            legal = [int(number) for number in np.flatnonzero(mask)]
            action = rng.choice(legal[1:] or legal if legal[0] == 0 else legal)
            _, _, terminated, truncated, info = env.step(action)
            if isinstance(core.episode.turns[-1].parsed, Malformed):
                raise CheckFailed(
                    f"task {task}: action {action} is legal by the mask, and was refused: {info['events']}"
                )
            if terminated or truncated:
                break
    return f"{count} actions; {refused} illegal ids explained"


def _mask(info: dict[str, Any], count: int) -> Any:
    mask = info.get("action_mask")
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,) or not mask.any():
        raise CheckFailed(f"info['action_mask'] is {mask!r}: a bool array of {count}, with something legal, was due")
    if not isinstance(info.get("active"), str):
        raise CheckFailed("info lacks 'active', the name of the active environment")
    return mask


def _refusals(env: Any, numbers: list[int]) -> int:
    for number in numbers:
        twin = fork(env)
        before = core_of(twin).episode.state
        observation, _, terminated, _, info = twin.step(number)
        if core_of(twin).episode.state != before or terminated:
            raise CheckFailed(f"illegal action {number} changed the state")
        if not observation or not info["events"]:
            raise CheckFailed(f"illegal action {number} was not explained, or not counted among the events")
    return len(numbers)


EXPANDED_CHECKS: dict[str, Callable[[Subject], str]] = {"expanded actions": check_expanded_actions}
