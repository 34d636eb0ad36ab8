"""A wrapper stack is taken apart here: the TurnEnv at its core, our wrappers, and what they showed and used in an episode."""

from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.core.env import TurnEnv, TurnWrapper


def core_of(env: gym.Env[Any, Any]) -> TurnEnv:
    """Return the TurnEnv at the core of a wrapper stack."""
    if not isinstance(env.unwrapped, TurnEnv):
        raise UsageError(f"this needs a TurnEnv at the core, not {env.unwrapped!r}")
    return env.unwrapped


def turn_wrappers(env: gym.Env[Any, Any]) -> list[TurnWrapper]:
    """Return our wrappers of a stack, from the outermost in."""
    wrappers: list[TurnWrapper] = []
    while isinstance(env, gym.Wrapper):
        wrappers += [env] if isinstance(env, TurnWrapper) else []
        env = env.env
    return wrappers


def shown_messages(env: gym.Env[Any, Any], info: dict[str, Any]) -> tuple[Message, ...]:
    """Return the messages of `info`, with authors where the environment or a wrapper wrote them as they stand."""
    episode = core_of(env).episode
    turns = episode.turns if info["context"] == "replace" else episode.turns[-1:]
    written = () if turns and info["context"] == "append" else episode.prompt
    known = {(m.role, m.content): m for m in (*written, *(m for turn in turns for m in turn.observation))}
    known |= {(m.role, m.content): m for m in wrapper_messages(env)}
    rows = []
    for row in info["messages"]:
        plain = Message(row["role"], row["content"], "policy" if row["role"] == "assistant" else "environment")
        rows.append(known.get((row["role"], row["content"]), plain))
    return tuple(rows)


def wrapper_messages(env: gym.Env[Any, Any]) -> list[Message]:
    """Return what the wrappers of a stack showed in the episode, beside the environment."""
    return [message for wrapper in turn_wrappers(env) for message in wrapper.said]


def wrapper_usage(env: gym.Env[Any, Any]) -> dict[str, int]:
    """Return what the wrappers of a stack used in the episode, by name."""
    return {name: count for wrapper in turn_wrappers(env) for name, count in wrapper.usage.items()}
