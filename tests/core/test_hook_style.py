"""Hooks have one style: the first parameter is all that the hook may know, and what else it is given follows."""

import inspect

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.core.registry import KINDS, companion
from tests import ROOT

STYLE = {
    "solver": ("env",),
    "sampler": ("env", "rng"),
    "heuristic": ("request",),  # not the environment: whoever holds that can read the gold
    "labels": ("task",),
    "metrics": ("trajectory",),
    "first_look": ("env",),
    "conversation_view": ("env",),
    "feedback": ("messages", "mode", "quality", "rng"),
    "out_of_reach": ("env", "split"),
    "shows_gold": ("env",),
}
PAGE = (ROOT / "docs/adding_an_environment.md").read_text(encoding="utf-8")


def test_the_page_and_the_docstring_name_every_hook_as_it_is_called():
    told = inspect.getdoc(agent_envs.register_companions)
    assert set(STYLE) == set(KINDS)
    for kind, parameters in STYLE.items():
        assert f"`{kind}({', '.join(parameters)})`" in PAGE and f"`{kind}({', '.join(parameters)}) ->" in told


@pytest.mark.parametrize("env_id", agent_envs.env_ids())
def test_every_hook_of_the_registry_has_these_parameters(env_id):
    env = gym.make(env_id)
    found = {kind: hook for kind in KINDS if (hook := companion(env, kind)) is not None}
    assert {"solver", "sampler"} <= set(found)
    for kind, hook in found.items():
        assert tuple(inspect.signature(hook).parameters) == STYLE[kind], f"{env_id}: {kind}"
