"""Every wrapper of policies hands every trait through, those that come later included."""

import ast
import re
from dataclasses import fields

import pytest

from agent_envs import Reply
from agent_envs.evaluation.runs.evaluate import BudgetedPolicy
from agent_envs.rollout.batching import Batcher
from agent_envs.rollout.policy import PolicyTraits, traits_of
from agent_envs.rollout.run_many import _Metered
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


def batched(policy):
    with Batcher(policy, 1, 0) as wrapper:
        return wrapper


def metered_budget(policy):
    return _Metered(budgeted(policy))


def batched_budget(policy):
    return batched(budgeted(policy))


BATCHED = [batched, batched_budget]
WRAPPERS = [budgeted, begun, _Metered, metered_budget, *BATCHED]


@pytest.mark.parametrize("wrap", WRAPPERS)
@pytest.mark.parametrize("name", TRAITS)
def test_a_wrapper_hands_a_trait_through(name, wrap):
    default = getattr(PolicyTraits(), name)
    changed = Plain(**{name: not default})
    assert traits_of(changed) == PolicyTraits(**{name: not default}) != PolicyTraits()
    if name == "needs_env" and wrap in BATCHED:
        with pytest.raises(ValueError, match="needs_env"):
            wrap(changed)
    else:
        assert traits_of(wrap(changed)) == traits_of(changed)
        assert traits_of(wrap(Plain())) == PolicyTraits()


def test_a_batch_policy_under_a_budget_stays_patient():
    with Batcher(budgeted(Plain(patient=True)), 1, 0) as batcher:
        assert batcher._patient


def test_traits_are_read_in_one_place():
    """A wrapper that copies attributes by hand forgets the next one: only `traits_of` may ask for them by name."""
    reading = re.compile(rf'getattr\([^)]*"({"|".join(TRAITS)})"')
    taking = set()
    for package in ("agent_envs", "trainers", "baselines", "leaderboard", "benchmarks"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not reading.search(text), path
            for made in ast.walk(ast.parse(text)):
                if isinstance(made, ast.ClassDef) and any(map(_is_a_policy, ast.walk(made))):
                    taking.add(made.name)
    assert taking == {"BudgetedPolicy", "_Metered", "Batcher"}, "a new wrapper of policies belongs in WRAPPERS"


def _is_a_policy(node):
    return isinstance(node, ast.arg) and node.annotation is not None and ast.unparse(node.annotation) == "Policy"
