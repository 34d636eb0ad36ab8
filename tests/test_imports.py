"""The import is light, and what it must not bring stays out."""

import json

from tests.fresh_process import printed

HEAVY = (
    "torch",
    "transformers",
    "vllm",
    "pydantic",
    "typer",
    "rich",
    "jinja2",
    "httpx",
    "bm25s",
    "pettingzoo",
    "anthropic",
)


def run(code):
    return json.loads(printed(code).splitlines()[-1])


def test_import_registers_every_id_and_brings_nothing_heavy():
    code = f"""
import json, sys, agent_envs, gymnasium
print(json.dumps([[m for m in {HEAVY} if m in sys.modules], [i in gymnasium.registry for i in agent_envs.env_ids()]]))
"""
    heavy, registered = run(code)
    assert heavy == []
    assert registered and all(registered)


def test_an_environment_needs_no_torch():
    code = """
import json, sys, gymnasium
env = gymnasium.make("agent_envs:agent_envs/SearchQA-v0")
env.reset(seed=0); env.step("<search>a</search>")
print(json.dumps([m for m in ("torch", "transformers", "vllm") if m in sys.modules]))
"""
    assert run(code) == []
