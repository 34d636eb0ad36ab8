"""A tiny policy for an environment: what the tests of sampling and of the algorithms play with."""

import json
from functools import cache

import pytest

from agent_envs.core.registry import TABLE
from trainers.contracts import Sampling
from trainers.engine_policy import EnginePolicy
from trainers.engines.hf import HFEngine
from trainers.environments import environment_spec
from trainers.tiny.fitting import environment_tokenizer
from trainers.tiny.models import tiny_model
from trainers.tokens import ChatTokenizer

WORLD = {
    "vocabulary": "closed",
    "short": True,
    "paraphrase": False,
    "hops": [1, 2],
    "kinds": ["bridge"],
    "passages": 60,
}
# One of each family, and of each game: what every trainer takes a step on in `make test`; on the others in `make test-heavy`.
ONE_A_FAMILY = "SearchQA LegalSearch Tau2Telecom Sort BabyAI BabaIsAI Crafter ToolReasoning".split()
TEXT_NAMES = [
    row.name if row.name in ONE_A_FAMILY else pytest.param(row.name, marks=pytest.mark.heavy)
    for row in TABLE
    if not row.name.endswith("ExpA")
]
SEARCH = {"top_k": 1, "max_generations": 3, "world": WORLD}


@cache
def chat_for(name, arguments="{}"):
    """Return the tokens of an environment's conversations."""
    return ChatTokenizer(
        environment_tokenizer(name, plays=3, numerals="digits", **json.loads(arguments)).tokenizer, "chatml"
    )


def player(name, arguments=None, *, temperature=1.0, seed=0, **limits):
    """Return a policy of random weights, its model, its tokenizer, and the spec of the environment."""
    arguments = arguments or {}
    chat = chat_for(name, json.dumps(arguments, sort_keys=True))
    model = tiny_model(chat.tokenizer, "tiny", seed=seed)
    engine = HFEngine(model, chat.tokenizer, eos_ids=chat.end_ids)
    limits = {"max_new_tokens": 12, "max_context": 768, "batch": 16} | limits
    policy = EnginePolicy(engine, chat, Sampling(temperature), **limits)
    return policy, model, chat, environment_spec(name, arguments)
