"""Turn limits cut an episode before the environment's own limit, or force an answer after some free turns.

A policy that has no free turn cannot look anything up. What it is shown instead is for the environment to say, by a
companion of its class, `register_companions(cls, first_look="module:function")`:

    first_look(env) -> tuple[Message, ...]

`env` is the TurnEnv, whose episode has just begun (`env.episode.task` is its task). For an environment that searches, the
messages are the top-k for the question in the very form that a search would have shown, author "tool": naive retrieval.
They become a part of the episode's prompt, and are nothing that the policy did: no turn, no search, no typed result.
It may raise an EnvFault, as a search may, and is called once an episode.
"""

import math
from dataclasses import replace
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message, text_of
from agent_envs.core.env import TurnEnv, TurnWrapper
from agent_envs.core.episode import MAX_ACTION_CHARACTERS
from agent_envs.core.registry import companion


def allowance(env: gym.Env[Any, Any]) -> tuple[int, str]:
    """Return a stack's least turns left by all limits, and the answer tag as prefill if the forced answer is next, or ""."""
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
        left = env.max_turns - len(env.episode.turns)
        left = min(left, env._extras(env.episode).get("turns_left", left))  # of a limit of the environment's own
        left = int(min(left, bound))
    for limit in reversed(limits):
        left = min(left, limit.turns - limit.state[0])
        if isinstance(limit, ForcedAnswer) and left == 1:
            prefill = limit.turn_env().answer_tags[0]
    return left, prefill


class TurnLimit(TurnWrapper):
    """Truncate the episode after `turns` turns.

    `state` is (turns taken, over).
    """

    state: tuple[int, bool] = (0, True)

    def __init__(self, env: gym.Env[Any, Any], turns: int) -> None:
        """Wrap an environment with a limit on turns, which must be at least 1."""
        super().__init__(env, turns=turns)
        self._allow(self._check_count("turns", turns, 1))

    def _check_count(self, name: str, value: int, least: int) -> int:
        """Return a whole number of at least `least`; UsageError with the wrapper's name otherwise."""
        return whole_number(type(self).__name__, name, value, least)

    def _allow(self, turns: int) -> None:
        """Set the limit, tell it to our wrappers inside, and require a reset; UsageError without a TurnEnv at the core."""
        self.turn_env()
        self.turns = turns
        self.state = (0, True)
        inner = self.env
        while isinstance(inner, gym.Wrapper):
            if isinstance(inner, TurnWrapper):
                inner.on_turn_limit(turns)
            inner = inner.env

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.state[1]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset, count turns from 0 and set info's `turns_left`; a reset that fails leaves the episode over."""
        self.state = (0, True)  # until all of the reset has worked
        observation, info = self.env.reset(seed=seed, options=options)
        observation, info = self._first_observation(observation, info)
        self.state = (0, False)
        return observation, self._mark(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a turn; the last one allowed truncates, without success, unless it ends by itself. UsageError after the end."""
        count, over = self.state
        if over:
            raise UsageError(f"{self.turn_env().env_id}: the episode is over; call reset() before the next step")
        observation, reward, terminated, truncated, info = self.env.step(self._prepare(action))
        count += 1
        if count >= self.turns and not terminated and not truncated:
            truncated = True
            info["success"] = False
        self.state = (count, terminated or truncated)
        return observation, reward, terminated, truncated, self._mark(info)

    def _first_observation(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the first observation and info unchanged; ForcedAnswer overrides it."""
        return observation, info

    def _prepare(self, action: Any) -> Any:
        """Return the action unchanged; ForcedAnswer overrides it."""
        return action

    def _mark(self, info: dict[str, Any]) -> dict[str, Any]:
        """Set `turns_left` in the info to what this limit leaves, never more than the environment's own; 0 at the end."""
        count, over = self.state
        info["turns_left"] = 0 if over else min(info["turns_left"], self.turns - count)
        return info


class ForcedAnswer(TurnLimit):
    """Let the policy act freely for `free_turns` turns; the next turn is an answer, whatever it says.

    In that turn `info["prefill"]` is the environment's opening answer tag and no tool is offered. The text gets the tag in
    front where it is absent and the closing tag behind, so that nothing else in it counts as an action; where the tag stands
    later, what precedes it is dropped, as a prefill would have kept it from being said. Where the environment allows fewer
    turns, the last of those is the answer.

    With `free_turns=0` the first turn is the answer, and what the environment's `first_look` gives stands behind the
    question: one generation over the top-k passages, naive RAG. So does turn-restricted evaluation in the legal search paper
    (arXiv 2510.24126). An environment without a `first_look` shows the question alone.
    """

    def __init__(self, env: gym.Env[Any, Any], free_turns: int) -> None:
        """Wrap an environment with answer tags; UsageError where it has none to force."""
        TurnWrapper.__init__(self, env, free_turns=free_turns)
        self._allow(self._check_count("free_turns", free_turns, 0) + 1)
        if not self.turn_env().answer_tags[0]:
            raise UsageError(f"ForcedAnswer: {self.turn_env().env_id} has no answer tag to force; use TurnLimit")

    def _first_observation(self, observation: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Add the first look's messages to prompt, info and observation if the first turn must answer; else no change."""
        look = companion(self, "first_look")
        if look is None or min(info["turns_left"], self.turns) > 1:
            return observation, info
        core = self.turn_env()
        passages: tuple[Message, ...] = tuple(look(core))
        core._episode = replace(core.episode, prompt=(*core.episode.prompt, *passages))
        info["messages"] = [*info["messages"], *(message.as_dict() for message in passages)]
        return "\n\n".join(filter(None, (observation, text_of(passages)))), info

    def _prepare(self, action: Any) -> Any:
        """Return the last turn's text in answer tags, less what precedes the opening one; earlier turns and ids unchanged."""
        opening, closing = self.turn_env().answer_tags
        if allowance(self)[0] > 1 or not isinstance(action, str):
            return action
        text = opening + action.partition(opening)[2] if opening in action else opening + action
        text = text[: MAX_ACTION_CHARACTERS - len(closing)]  # so that the cap cannot cut the closing tag
        return text if closing in text else text + closing

    def _mark(self, info: dict[str, Any]) -> dict[str, Any]:
        """Set info's turns left; on the last turn the answer tag becomes its prefill and `tools`, if there, is []."""
        info = super()._mark(info)
        if info["turns_left"] == 1:
            info["prefill"] = self.turn_env().answer_tags[0]
            if "tools" in info:
                info["tools"] = []
        return info
