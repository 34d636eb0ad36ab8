"""Built-in agents act alike in every process, whatever its hash seed, where ties had to be broken; see test_contract."""

import json

import pytest

from agent_envs.checker.env_under_test import EnvUnderTest
from agent_envs.checker.processes import agents_play, run_child
from tests.examples import part

# Tasks in which options of one length had to be told apart.
TIES = {"agent_envs/Tau2Retail-v0": [("test", 17), ("train", 17), ("train", 206)]}


@pytest.mark.parametrize("env_id", TIES)
def test_heuristics_do_not_depend_on_the_hash_order(env_id):
    subject = EnvUnderTest.of(env_id, {}, tasks=4, hostile=0, split=None)
    job = [("heuristic", *place) for place in TIES[env_id]]
    here = dict(zip(map(json.dumps, job), agents_play(subject.make(), job), strict=True))
    for hash_seed in part(("0", "1", "2", "4242"), ("1", "4242")):
        assert dict(zip(here, run_child(subject, {"agents": job}, hash_seed)["agents"], strict=True)) == here
