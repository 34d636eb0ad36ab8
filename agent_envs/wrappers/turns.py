"""Fewer turns than the environment's own limit: cut the episode there, or force an answer in the last one."""

import math
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from agent_envs.core import TurnEnv, TurnWrapper
from agent_envs.episode import MAX_ACTION_CHARACTERS
from agent_envs.errors import UsageError


def allowance(env: gym.Env[Any, Any]) -> tuple[int, str]:
    """Return how many turns a stack still allows and the prefill of the coming one: what info says, for a solver."""
    left, prefill = 0, ""
    limits = []
    bound = math.inf
    while isinstance(env, gym.Wrapper):
        if isinstance(env, TurnLimit):
            limits.append(env)
        if isinstance(env, TimeLimit):
            bound = min(bound, env._max_episode_steps - (env._elapsed_steps or 0))
        env = env.env
    if isinstance(env, TurnEnv):
        left = int(min(env.max_turns - len(env.episode.turns), bound))
    for limit in reversed(limits):
        left = min(left, limit.turns - limit.state[0])
        if isinstance(limit, ForcedAnswer) and left == 1:
            prefill = limit.turn_env().answer_tags[0]
    return left, prefill


class TurnLimit(TurnWrapper):
    """Truncate the episode after `turns` turns.

    `state` is (turns taken, over).
    """

    def __init__(self, env: gym.Env[Any, Any], turns: int) -> None:
        """Limit `env` to `turns` >= 1."""
        super().__init__(env, turns=turns)
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise UsageError(f"{type(self).__name__}: turns={turns!r}; give a whole number >= 1")
        self.turn_env()
        self.turns = turns
        self.state: tuple[int, bool] = (0, True)

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.state[1]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset and count from 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.state = (0, False)
        return observation, self._mark(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a turn; the last one allowed truncates."""
        taken, over = self.state
        if over:
            raise UsageError(f"{self.turn_env().env_id}: the episode is over; call reset() before the next step")
        observation, reward, terminated, truncated, info = self.env.step(self._prepare(action))
        taken += 1
        if taken >= self.turns and not terminated and not truncated:
            truncated = True
            info["success"] = False
        self.state = (taken, terminated or truncated)
        return observation, reward, terminated, truncated, self._mark(info)

    def _prepare(self, action: Any) -> Any:
        return action

    def _mark(self, info: dict[str, Any]) -> dict[str, Any]:
        taken, over = self.state
        info["turns_left"] = 0 if over else min(info["turns_left"], self.turns - taken)
        return info


class ForcedAnswer(TurnLimit):
    """Let the policy act for `turns` - 1 turns; the last turn is an answer, whatever it says.

    In that turn `info["prefill"]` is the environment's opening answer tag and no tool is offered. The text gets the tag in
    front where it is absent and the closing tag behind, so that nothing else in it counts as an action; where the tag stands
    later, what precedes it is dropped, as a prefill would have kept it from being said. Turn-restricted evaluation, as in the
    legal search paper (arXiv 2510.24126), for turns >= 1.
    """

    def __init__(self, env: gym.Env[Any, Any], turns: int) -> None:
        """Force the answer in turn `turns` >= 1."""
        super().__init__(env, turns=turns)
        if not self.turn_env().answer_tags[0]:
            raise UsageError(f"ForcedAnswer: {self.turn_env().env_id} has no answer tag to force; use TurnLimit")

    def _prepare(self, action: Any) -> Any:
        opening, closing = self.turn_env().answer_tags
        if allowance(self)[0] > 1 or not isinstance(action, str):
            return action
        text = opening + action.partition(opening)[2] if opening in action else opening + action
        text = text[: MAX_ACTION_CHARACTERS - len(closing)]  # so that the cap cannot cut the closing tag
        return text if closing in text else text + closing

    def _mark(self, info: dict[str, Any]) -> dict[str, Any]:
        info = super()._mark(info)
        if info["turns_left"] == 1:
            info["prefill"] = self.turn_env().answer_tags[0]
            if "tools" in info:
                info["tools"] = []
        return info
