"""Agents by name: the built-in ones, and anyone's class by `module:Class`."""

import sys
from importlib import import_module

from agent_envs.errors import UsageError
from agent_envs.policies import CompanionPolicy, NullPolicy, Policy

BUILT_IN = ("random", "heuristic", "solver", "null")


def make_agent(name: str) -> Policy:
    """Return the policy of a name.

    Args:
        name: `random`, `heuristic`, `solver`, `null`, or `module:Class` (made without arguments; the working directory
            is on the path).

    Raises:
        UsageError: there is no such agent.
    """
    if name == "null":
        return NullPolicy()
    if name in BUILT_IN:
        return CompanionPolicy(name)
    module, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier():
        raise UsageError(f"agent {name!r} is unknown; the agents are {', '.join(BUILT_IN)}, or module:Class")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        policy: Policy = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"agent {name!r} cannot be made: {error}") from error
    if not callable(getattr(policy, "act", None)) or not isinstance(getattr(policy, "name", None), str):
        raise UsageError(f"agent {name!r} is no Policy: it needs name, batch and act(requests)")
    return policy
