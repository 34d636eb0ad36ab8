"""Every wrapper of policies hands every trait through, those that come later included."""

import ast
import re
from dataclasses import fields

import pytest

from agent_envs import Reply
from agent_envs.evaluation.runs.evaluate import BudgetedPolicy
from agent_envs.evaluation.runs.live import CountedPolicy
from agent_envs.rollout.policy import PolicyTraits, traits_of
from agent_envs.rollout.reply_log import RememberingPolicy, ReplyLog
from agent_envs.services.chat.spending import Budget
from tests import ROOT

TRAITS = [trait.name for trait in fields(PolicyTraits)]


class Plain:
    name, batch = "plain", 2

    def __init__(self, **traits):
        vars(self).update(traits)

    def begin(self, env):
        return self

    def act(self, requests):
        return [Reply("a") for _ in requests]


def budgeted(policy):
    return BudgetedPolicy(policy, Budget())


def begun(policy):
    return budgeted(policy).begin(None)


def counted(policy):
    return CountedPolicy(policy, lambda **counts: None)


def remembering(policy):
    return RememberingPolicy(policy, ReplyLog(None))


WRAPPERS = [budgeted, begun, counted, remembering]


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("name", TRAITS)
def test_a_wrapper_hands_a_trait_through(name, wrap):
    default = getattr(PolicyTraits(), name)
    changed = Plain(**{name: not default})
    assert traits_of(changed) == PolicyTraits(**{name: not default}) != PolicyTraits()
    assert traits_of(wrap(changed)) == traits_of(changed)
    assert traits_of(wrap(Plain())) == PolicyTraits()


def test_traits_are_read_in_one_place():
    """A wrapper that copies attributes by hand forgets the next one: only `traits_of` may ask for them by name."""
    reading = re.compile(rf'getattr\([^)]*"({"|".join(TRAITS)})"')
    taking = set()
    for package in ("agent_envs", "trainers", "baselines", "leaderboard", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not reading.search(text), path
            for made in ast.walk(ast.parse(text)):
                acts = isinstance(made, ast.ClassDef) and any(map(_is_act, made.body))
                if acts and any(map(_is_a_policy, ast.walk(made))):
                    taking.add(made.name)
    assert taking == {"BudgetedPolicy", "CountedPolicy", "RememberingPolicy"}, (
        "a new wrapper of policies belongs in WRAPPERS"
    )


def _is_act(node):
    return isinstance(node, ast.FunctionDef) and node.name == "act"


def _is_a_policy(node):
    return isinstance(node, ast.arg) and node.annotation is not None and ast.unparse(node.annotation) == "Policy"
