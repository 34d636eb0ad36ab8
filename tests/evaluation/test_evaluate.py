"""From a configuration to a plan, from a plan to numbers: derived keys, splits, and rates that can be checked by hand."""

import json
import math
import subprocess
import sys

import pytest

from agent_envs.errors import EnvFault, UsageError
from agent_envs.evaluation.evaluate import RunConfig, choose_split, evaluate, make_plan, summarise
from agent_envs.policies import CompanionPolicy, NullPolicy, Reply
from agent_envs.rollout import EpisodeResult
from agent_envs.runner import Planned
from agent_envs.trajectory import Header, Trajectory, Turn

SMALL = {"world": {"passages": 60, "questions_per_world": 2}}


class Counting(NullPolicy):
    """Says nothing, counts its turns, and fails for the keys it is told."""

    def __init__(self, faulty=()):
        self.turns = 0
        self.faulty = frozenset(faulty)

    def act(self, requests):
        self.turns += len(requests)
        if requests[0].episode_key in self.faulty:
            raise EnvFault("no model")
        return [Reply("", usage={"tokens": 3}) for _ in requests]


def test_keys_and_seeds_are_derived():
    config = RunConfig("SearchQA", SMALL, "null", limit=6, trials=2)
    plan, clusters = make_plan(config)
    again, _ = make_plan(config)
    assert plan == again
    assert len(plan) == 12 and len({item.key for item in plan}) == 12
    assert [item.trial for item in plan] == [0, 1] * 6
    assert all(
        len(item.key) == 16 and 0 <= item.seed < 2**31 and item.seed == int(item.key[:8], 16) >> 1 for item in plan
    )
    assert [item.task for item in plan[::2]] == [f"world-test-{world}-0" for world in range(6)]
    assert clusters == {item.key: item.task.rsplit("-", 1)[0] for item in plan}


def test_the_plan_is_the_same_in_other_processes():
    code = (
        "import json, sys; from agent_envs.evaluation.evaluate import *; "
        "plan, _ = make_plan(RunConfig('SearchQA', json.loads(sys.argv[1]), 'x', limit=3)); "
        "print(json.dumps([vars(item) for item in plan]))"
    )
    plan, _ = make_plan(RunConfig("SearchQA", SMALL, "null", limit=3))
    ran = subprocess.run([sys.executable, "-c", code, json.dumps(SMALL)], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [vars(item) for item in plan]


def test_keys_depend_on_what_is_played_and_not_on_who_plays():
    def keys(**changes):
        return [
            item.key
            for item in make_plan(RunConfig(**{"env_id": "SearchQA", "arguments": SMALL, "agent": "a", **changes}))[0]
        ]

    whole = keys()
    assert len(whole) == 64 and keys(limit=5) == whole[:5] and keys(limit=1000) == whole
    assert keys(agent="b") == whole and keys(env_id="agent_envs/SearchQA-v0") == whole
    assert keys(trials=2)[::2] == whole
    for changes in ({"split": "dev"}, {"arguments": {**SMALL, "top_k": 1}}, {"arguments": {}}):
        assert not set(keys(limit=9, **changes)) & set(whole)
    assert keys(limit=9, arguments={**SMALL, "top_k": 3}) == whole[:9]  # the default, said aloud


def test_the_split():
    config = RunConfig("SearchQA", {}, "null")
    assert choose_split(config, ("train", "dev", "test")) == "test"
    assert choose_split(config, ("train", "dev")) == "dev"
    assert choose_split(config, ("a", "b")) == "b"
    assert choose_split(RunConfig("SearchQA", {}, "null", "train"), ("train", "dev")) == "train"
    with pytest.raises(UsageError, match="SearchQA: no split 'test'; the splits are train, dev"):
        choose_split(RunConfig("SearchQA", {}, "null", "test"), ("train", "dev"))


@pytest.mark.parametrize(
    "changes", [{"limit": 0}, {"limit": -1}, {"trials": 0}, {"env_id": "nope"}, {"arguments": {"tusk": 1}}], ids=str
)
def test_plans_that_cannot_be(changes):
    with pytest.raises(UsageError):
        make_plan(RunConfig(**{"env_id": "SearchQA", "arguments": {}, "agent": "null", **changes}))


def test_a_world_with_fewer_questions_is_played_once():
    config = RunConfig(
        "SearchQA", {"world": {"passages": 40, "questions_per_world": 30, "unanswerable": 1.0, "hops": [1]}}, "x"
    )
    plan, _ = make_plan(config)
    assert 32 < len(plan) < 32 * 30
    assert len({item.task for item in plan}) == len({item.key for item in plan}) == len(plan)


def row(task, trial, cluster, rewards, success, status="terminated", events=()):
    key = f"{task}.{trial}"
    turns = tuple(Turn(i, "o", "", None, (), (), value, (), events=events) for i, value in enumerate(rewards, 1))
    header = Header("e", "", task, "dev", "", 0, key)
    result = EpisodeResult(Trajectory(header, (), turns, None, success), status, "out" if status == "fault" else "")
    return Planned(key, "", task, "dev", 0, trial), result, cluster


def summary_of(*rows, limit=None):
    config = RunConfig("SearchQA", {}, "someone", limit=limit)
    return summarise(config, [(item, result) for item, result, _ in rows], {item.key: name for item, _, name in rows})


def test_numbers_by_hand():
    found = summary_of(
        row("a", 0, "w1", [0.0, 1.0], True),
        row("a", 1, "w1", [0.0, 0.0, 0.5], False, events=("malformed",)),
        row("b", 0, "w2", [0.25], False),
        row("b", 1, "w2", [1.0], True),
        row("c", 0, "w3", [0.0], False),
        row("c", 1, "w3", [0.0, 0.0], False, "truncated"),
    )
    assert (found.env_id, found.agent, found.split) == ("agent_envs/SearchQA-v0", "someone", "dev")
    assert (found.episodes, found.faults, found.smoke) == (6, 0, False)
    assert found.success.value == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert (found.success.tasks, found.success.trials, found.success.clusters) == (3, 6, 3)
    assert 0 <= found.success.low < found.success.value < found.success.high <= 1
    assert found.mean_return == pytest.approx((1.0 + 0.5 + 0.25 + 1.0 + 0 + 0) / 6)
    low, high = found.return_interval
    assert low < found.mean_return < high
    assert found.mean_turns == pytest.approx((2 + 3 + 1 + 1 + 1 + 2) / 6)
    assert found.malformed_share == pytest.approx(3 / 10)
    assert summary_of(row("a", 0, "w", [1.0], True), limit=1).smoke is True


def test_a_fault_is_no_success_and_has_no_return():
    found = summary_of(
        row("a", 0, "w1", [1.0], True), row("b", 0, "w2", [], False, "fault"), row("c", 0, "w3", [0.5, 0.0], False)
    )
    assert (found.episodes, found.faults) == (3, 1)
    assert found.success.value == pytest.approx(1 / 3) and found.success.trials == 3
    assert found.mean_return == pytest.approx(0.75)
    assert found.mean_turns == pytest.approx(1.5)
    nothing = summary_of(row("a", 0, "w1", [], False, "fault"), row("b", 0, "w2", [], False, "fault"))
    assert (nothing.success.value, nothing.faults, nothing.mean_return, nothing.mean_turns) == (0.0, 2, 0.0, 0.0)


def test_clusters_widen_the_interval():
    apart = summary_of(*(row(f"t{i}", 0, f"w{i}", [float(i % 2)], i % 4 < 2) for i in range(40)))
    together = summary_of(*(row(f"t{i}", 0, f"w{i % 4}", [float(i % 2)], i % 4 < 2) for i in range(40)))
    assert apart.success.value == together.success.value == 0.5
    assert together.success.high - together.success.low > apart.success.high - apart.success.low


def test_json_is_plain_and_strict():
    found = summary_of(row("a", 0, "w", [1.0], True))
    plain = found.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["success"] == 1.0 and plain["interval"] == [found.success.low, found.success.high]
    assert plain["return_interval"] == [None, None] and not any(map(math.isfinite, found.return_interval))
    assert plain["tasks"] == 1


def test_evaluate_counts_faults_and_plays_them_again(tmp_path):
    config = RunConfig("SearchQA", SMALL, "null", limit=8)
    plan, _ = make_plan(config)
    out = Counting(faulty=[plan[2].key, plan[5].key])
    first = evaluate(config, out, folder=tmp_path / "r")
    assert (first.faults, first.episodes, first.success.trials) == (2, 8, 8)
    assert out.turns == 6 * 6 + 2 * 3  # a fault is tried three times
    well = Counting()
    second = evaluate(config, well, folder=tmp_path / "r")
    assert (second.faults, second.episodes) == (0, 8) and well.turns == 2 * 6
    third = Counting()
    assert evaluate(config, third, folder=tmp_path / "r") == second and third.turns == 0
    assert evaluate(config, Counting()) == second


def test_progress_and_keep_see_every_episode_once(tmp_path):
    config = RunConfig("SearchQA", SMALL, "solver", limit=5, trials=2)
    ticks, kept = [], []
    found = evaluate(
        config, CompanionPolicy("solver"), concurrency=2, progress=lambda *tick: ticks.append(tick), keep=kept.append
    )
    assert [tick[0] for tick in ticks] == list(range(1, 11)) and {tick[1] for tick in ticks} == {10}
    assert ticks[-1] == (10, 10, 10)
    assert {result.trajectory.header.episode_key for result in kept} == {item.key for item in make_plan(config)[0]}
    assert all(result.trajectory.prompt for result in kept)
    assert found.success.value == 1.0 and found.success.tasks == 5


def test_concurrency_changes_nothing(tmp_path):
    config = RunConfig("SearchQA", SMALL, "random", limit=20)
    assert evaluate(config, CompanionPolicy("random")) == evaluate(config, CompanionPolicy("random"), concurrency=4)


def test_a_folder_holds_one_configuration(tmp_path):
    folder = tmp_path / "r"
    evaluate(RunConfig("SearchQA", SMALL, "null", limit=2), NullPolicy(), folder=folder)
    with pytest.raises(UsageError, match=r"limit \(2 -> 3\).*choose another --out"):
        evaluate(RunConfig("SearchQA", SMALL, "null", limit=3), NullPolicy(), folder=folder)
    with pytest.raises(UsageError, match="another policy"):
        evaluate(RunConfig("SearchQA", SMALL, "null", limit=2), CompanionPolicy("random"), folder=folder)
    assert json.loads((folder / "config.json").read_text())["limit"] == 2
