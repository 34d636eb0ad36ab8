"""Gold replay on the official tasks: whoever does what is expected earns 1.0, with the original's bugs and without."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from agent_envs.base.messages import ToolCall
from agent_envs.core.trajectory import Header, Task, Trajectory, Turn
from agent_envs.envs.tau2.evaluation import evaluate
from agent_envs.envs.tau2.metrics import labels, metrics, null_policy
from agent_envs.envs.tau2.official import load_domain
from agent_envs.envs.tau2.task_states import expected_world, initial_world, same_world
from agent_envs.envs.tau2.tasks import OfficialSource, tau2_task
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke
from benchmarks.tau2_null_policy import NullPolicyScore, null_policy_score
from tests.envs.tau2.gold import gold_conversation
from tests.envs.tau2.hashes import same_hashes
from tests.envs.tau2.vectors import original_domain, vectors_in

pytestmark = pytest.mark.data
SIZES = [("retail", "base", 114), ("airline", "base", 50), ("telecom", "base", 114), ("telecom", "full", 2285)]


def official_tasks(domain, split):
    source = OfficialSource(domain)
    return [tau2_task(source.get(split, place), domain) for place in range(source.size(split))]


CASES = [
    pytest.param(name, split, size, compat, marks=[pytest.mark.heavy] if (split, compat) == ("full", "fixed") else [])
    for name, split, size in SIZES
    for compat in ("tau2-1.0.1", "fixed")
]


@pytest.mark.parametrize(("name", "split", "size", "compat"), CASES)
def test_gold_earns_all(name, split, size, compat):
    domain, seen = load_domain(name, compat), Counter()
    for task in official_tasks(name, split):
        talk = gold_conversation(domain, task)
        score = evaluate(domain, task, talk.lines, "user_stop")
        assert score.reward_without_nl == 1.0, (task.id, score)
        assert score.components["ACTION"] == score.components["COMMUNICATE"] == 1.0, task.id
        # Without a judge the official reward is 1 exactly where no judge is needed.
        assert score.reward == float(not task.criteria.needs_judge) and bool(score.undecided) is not bool(score.reward)
        assert score.components["DB"] == 1.0 or (name, compat) == ("telecom", "tau2-1.0.1"), task.id
        seen[score.reward, score.components["DB"]] += 1
    assert sum(seen.values()) == size
    if name == "retail":
        assert seen == {(1.0, 1.0): 74, (0.0, 1.0): 40}
    if (split, compat) == ("full", "tau2-1.0.1"):
        assert seen == {(1.0, 1.0): 597, (1.0, 0.0): 1688}  # gold without synchronisation: no DB in telecom's basis


@pytest.mark.parametrize("name", ["retail", "airline", "telecom"])
def test_gold_without_its_calls_earns_only_the_floor(name):
    floors = {
        "retail": NullPolicyScore(11, 114, 5),
        "airline": NullPolicyScore(23, 50, 0),
        "telecom": NullPolicyScore(0, 114, 0),
    }
    assert null_policy_score(load_domain(name), OfficialSource(name), "base") == floors[name]


@pytest.mark.parametrize("name", ["retail", "airline", "telecom"])
def test_gold_through_the_machine_earns_all(name):
    rules = Rules(load_domain(name))
    for task in official_tasks(name, "base"):
        talk = opened(rules, initial_world(rules.domain, task))
        for action in task.criteria.actions:
            asked = (ToolCall("call_0", action.name, action.arguments),)
            talk = spoke(rules, talk.replace(turn=action.requestor), "", asked)
        talk = spoke(rules, talk.replace(turn="assistant"), "Done. " + " ".join(task.criteria.communicate_info))
        talk = spoke(rules, talk, "###STOP###")
        assert talk.ended == "user_stop"
        assert evaluate(rules.domain, task, talk.lines, talk.ended).reward_without_nl == 1.0, task.id


def test_reports_tell_what_doing_nothing_earns():
    for name, passed in (("retail", 11), ("airline", 23), ("telecom", 0)):
        source = OfficialSource(name)
        tasks = [source.get("base", place) for place in range(source.size("base"))]
        assert sum(map(null_policy, tasks)) == passed
        assert Counter(labels(task)["null policy"] for task in tasks)["passes"] == passed
    issues = Counter(labels(task)["issue"] for task in tasks)
    assert issues == {"mms_issue": 49, "mobile_data_issue": 36, "service_issue": 29}
    assert {labels(task)["reward basis"] for task in tasks} == {"ENV_ASSERTION", "ENV_ASSERTION ACTION"}
    header = Header("agent_envs/Tau2Telecom-v0", "", tasks[0].id, "base", tasks[0].digest, 0, "key")
    trajectory = Trajectory(header, (), (Turn(1, "key/", "Bye", None, (), (), 0.0, ()),), tasks[0])
    assert metrics(trajectory) == {"null_policy": 0.0}
    assert (
        metrics(replace(trajectory, task=None)) == metrics(replace(trajectory, task=Task("a", "b", "c", data={}))) == {}
    )


def test_a_solo_agent_that_does_what_is_expected_of_both_earns_all():
    domain = load_domain("telecom")
    for task in official_tasks("telecom", "base"):
        talk = gold_conversation(domain, task, solo=True)
        assert evaluate(domain, task, talk.lines, "agent_stop", solo=True).reward == 1.0, task.id


@pytest.mark.parametrize("name", ["retail", "airline", "telecom"])
def test_the_fast_comparison_is_the_comparison_of_hashes(name):
    domain, seen = original_domain(name), Counter()
    tasks = {task.id: task for task in official_tasks(name, "full" if name == "telecom" else "base")}
    for vector in list(vectors_in(Path(os.environ["AGENT_ENVS_DATA"]) / "tau2" / "vectors" / f"gold-{name}.jsonl"))[
        ::2
    ]:
        task = tasks[vector["task_id"]]
        start, expected = initial_world(domain, task), expected_world(domain, task)
        played = gold_conversation(domain, task).world
        for one in (start, played):
            equal = same_hashes(domain, one, expected)
            assert same_world(domain, one, expected) is equal, task.id
            seen[equal] += 1
    assert min(seen[True], seen[False]) > 5
