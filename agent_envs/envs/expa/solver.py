"""The oracle policies act through ordinary actions, and the random policy draws legal ones."""

import random
from typing import Any

import gymnasium as gym

from agent_envs.core.env import core_of
from agent_envs.envs.expa.actions import END, LANGUAGE
from agent_envs.envs.expa.calculator import solver as calculator
from agent_envs.envs.expa.expanded_env import ExpandedActionEnv
from agent_envs.envs.expa.sorting import solver as sorting
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.envs.expa.text_env import TagEnv
from agent_envs.wrappers.turns import allowance

_WORDS = ("so", "then", "next", "the number", "I think", "this is", "larger", "smaller")


def next_action(env: gym.Env[Any, Any]) -> str | int:
    """Return the solver's next action for sorting or calculating; text is put into a text environment's form."""
    core = core_of(env)
    left, prefill = allowance(env)
    if isinstance(core.episode.task.data, SortData):
        action = sorting.next_action(core, left)
    else:
        action = calculator.next_action(core, left, prefill)
    return core.spoken(action, prefill) if isinstance(core, TagEnv) and isinstance(action, str) else action


def random_action(env: gym.Env[Any, Any], rng: random.Random) -> str | int:
    """Return a random legal action: text, a call or an answer; with expanded actions also an action's id."""
    core = core_of(env)
    data = core.episode.task.data
    text_of = sorting.random_text if isinstance(data, SortData) else calculator.random_text
    thought = f"{rng.choice(_WORDS)} {rng.choice(_WORDS)}"
    if not isinstance(core, ExpandedActionEnv):
        return core.spoken(f"{thought}. {text_of(data, rng, expanded=False)}")  # type: ignore[no-any-return, attr-defined]
    if core.episode.state.active == LANGUAGE:
        draw = rng.random()
        if draw < 0.15:
            return END
        if draw < 0.4:
            return rng.choice((f" {thought}", text_of(data, rng, expanded=True)))
    return rng.choice(core.legal_actions())
