"""Agents by name: the built-in ones, chat models, and anyone's class by `module:Class`."""

import sys
from importlib import import_module
from typing import Any

from agent_envs.services.chat.named import FORMS, is_chat_name, make_chat_model
from agent_envs.base.errors import UsageError
from agent_envs.services.recording import Recording
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy, Policy

BUILT_IN = ("random", "heuristic", "solver", "null")


def make_agent(name: str, /, *, recording: Recording | None = None, **options: Any) -> Policy:
    """Return the policy of a name.

    Args:
        name: `random`, `heuristic`, `solver` or `null`; a chat model as `openai:MODEL`, `openai:MODEL@URL` (any server of that
            format) or `anthropic:MODEL[@URL]`; or `module:Class` (the working directory is on the path).
        recording: where a chat model's replies are recorded, or replayed from. Others have no use for it.
        options: a chat model's `temperature`, `max_tokens`, `top_p`, `reasoning_effort`, `extra`, `api_key_env`; a class gets
            all as keyword arguments; built-in agents take none.

    Raises:
        UsageError: there is no such agent, an option is unknown, or a service's key is missing.
    """
    if name in BUILT_IN:
        if options:
            raise UsageError(f"agent {name}: unknown option {', '.join(sorted(options))}; it takes none")
        return NullPolicy() if name == "null" else CompanionPolicy(name)
    if is_chat_name(name):
        return ChatPolicy(make_chat_model(name, **options), name=name, recording=recording)
    return _own_agent(name, options)


def _own_agent(name: str, options: dict[str, Any]) -> Policy:
    module, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier():
        raise UsageError(f"agent {name!r} is unknown; the agents are {', '.join((*BUILT_IN, *FORMS))}, or module:Class")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        policy: Policy = getattr(import_module(module), attribute)(**options)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"agent {name!r} cannot be made: {error}") from error
    if not callable(getattr(policy, "act", None)) or not isinstance(getattr(policy, "name", None), str):
        raise UsageError(f"agent {name!r} is no Policy: it needs name, batch and act(requests)")
    return policy
