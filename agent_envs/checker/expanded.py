"""The check of expanded actions requires a true mask, and illegal ids that are explained and change nothing."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, OneOf

from agent_envs.base.protocol import Malformed
from agent_envs.checker.env_under_test import CheckFailed, EnvUnderTest
from agent_envs.core.env import TurnEnv, core_of
from agent_envs.core.snapshot import fork

MOST_STEPS = 24
UNKNOWN_IDS = (-1, -7, 10**6, 2**70, -(2**70), np.int64(-1), np.int64(10**6))


def takes_ids(core: TurnEnv) -> int:
    """Return the number of expanded actions of an environment, 0 if it takes text alone."""
    space = core.action_space
    if not isinstance(space, OneOf):
        return 0
    return next((int(part.n) for part in space.spaces if isinstance(part, Discrete)), 0)


def hostile_id(count: int, rng: random.Random) -> Any:
    """Return an integer that is no expanded action of `count`, or one in a numpy type, which may or may not be legal."""
    return rng.choice((*UNKNOWN_IDS, count, np.int64(count), np.uint8(0), np.int32(rng.randrange(count))))


def check_expanded_actions(subject: EnvUnderTest) -> str:
    """Return a note if illegal ids change nothing and are explained, legal ones taken, texts move nothing; else CheckFailed."""
    env = subject.make()
    core = core_of(env)
    count = takes_ids(core)
    _check_table(core, count)
    if not count:
        return "none: it takes text alone"
    refused = 0
    for task in range(subject.tasks):
        _, info = subject.reset(env, task)
        rng = random.Random(f"expanded:{task}")
        for _ in range(MOST_STEPS):
            mask = _mask(info, count)
            refused += _refusals(env, [*UNKNOWN_IDS, count, *map(int, np.flatnonzero(~mask))])
            legal = [int(number) for number in np.flatnonzero(mask)]
            for number in legal:
                twin = fork(env)
                events = twin.step(number)[4]["events"]
                if isinstance(core_of(twin).episode.turns[-1].parsed, Malformed):
                    raise CheckFailed(f"task {task}: action {number} is legal by the mask, and was refused: {events}")
            _check_text(env, info["active"])
            *_, terminated, truncated, info = env.step(rng.choice([number for number in legal if number] or legal))
            if terminated or truncated:
                break
    return f"{count} actions; {refused} illegal ids explained"


def _check_table(core: TurnEnv, count: int) -> None:
    """Raise CheckFailed unless expanded actions are numbered from 0, ordered `end`, `route`, `act`, with unique names."""
    table = getattr(core, "expanded_actions", ())
    if [action.id for action in table] != list(range(count)):
        raise CheckFailed(
            f"expanded_actions have the ids {[action.id for action in table]}; the space has {count}, from 0"
        )
    kinds = [action.kind for action in table]
    places = [("end", "route", "act").index(kind) if kind in ("end", "route", "act") else -1 for kind in kinds]
    if count and (kinds.count("end") != 1 or kinds[0] != "end" or places != sorted(places)):
        raise CheckFailed(f"expanded_actions are of the kinds {kinds}: first one `end`, then `route`, then `act`")
    if len({action.name for action in table}) != count:
        raise CheckFailed("two expanded actions have one name")


def _mask(info: dict[str, Any], count: int) -> Any:
    """Return info's action mask; CheckFailed unless it is `count` bools, one legal at least, and `active` is a text."""
    mask = info.get("action_mask")
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (count,) or not mask.any():
        raise CheckFailed(f"info['action_mask'] is {mask!r}: a bool array of {count}, with something legal, was due")
    if not isinstance(info.get("active"), str):
        raise CheckFailed("info lacks 'active', the name of the active environment")
    return mask


def _moment(env: Any) -> Any:
    """Return the state that an illegal action must leave alone: (active, latent) where it has both, else all of it."""
    state = core_of(env).episode.state
    return (state.active, state.latent) if hasattr(state, "active") and hasattr(state, "latent") else state


def _refusals(env: Any, numbers: list[Any]) -> int:
    """Return the count of ids; CheckFailed if one, in a fork, changes the state, ends it, or gives no words or event."""
    for number in numbers:
        twin = fork(env)
        observation, _, terminated, _, info = twin.step(number)
        if _moment(twin) != _moment(env) or terminated:
            raise CheckFailed(f"illegal action {number} changed the state")
        if not observation or not info["events"]:
            raise CheckFailed(f"illegal action {number} was not explained, or not counted among the events")
    return len(numbers)


def _check_text(env: Any, active: str) -> None:
    """Raise CheckFailed if a text, written in a fork, changes the state or terminates the episode."""
    twin = fork(env)
    if twin.step(" a text")[2] or _moment(twin) != _moment(env):
        raise CheckFailed(f"text written in {active} changed the state, or ended the episode")


EXPANDED_CHECKS: dict[str, Callable[[EnvUnderTest], str]] = {"expanded actions": check_expanded_actions}
