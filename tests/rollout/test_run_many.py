"""Many episodes: equal at any concurrency, resumed after a kill, honest about faults."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import EnvFault, Planned, Reply, UsageError, run_many, spec_json
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.rollout.run_many import FAULT_ATTEMPTS, read_rows
from tests import ROOT
from tests.toy import ID


def planned(count, **arguments):
    spec = spec_json(gym.make(ID, **arguments))
    return [
        Planned(f"key-{i}", spec, i % 10, ("train", "dev", "test")[i % 3], seed=i, trial=i // 10) for i in range(count)
    ]


class Lines:
    """Says what the turn's seed tells it."""

    name, batch = "lines", 1

    def act(self, requests):
        lines = ("<compare>50</compare>", "<luck>x</luck>", "hm", "<answer>7</answer>")
        return [Reply(lines[request.seed % 4], usage={"input": request.seed % 7}) for request in requests]


def results(pairs):
    return {item.key: result for item, result in pairs}


@pytest.mark.parametrize(
    "policy", [Lines(), CompanionPolicy("heuristic"), CompanionPolicy("random")], ids=lambda p: p.name
)
def test_results_do_not_depend_on_concurrency(policy):
    plan = planned(24)
    alone = results(run_many(plan, policy, concurrency=1))
    assert results(run_many(plan, policy, concurrency=8)) == alone
    assert results(run_many(list(reversed(plan)), policy, concurrency=3)) == alone
    assert list(alone) == [item.key for item in plan]
    for item in plan:
        header = alone[item.key].trajectory.header
        assert (header.episode_key, header.seed, header.split) == (item.key, item.seed, item.split)
        assert header.task_id == f"{item.split}-{item.task}"


def test_episodes_run_at_the_same_time():
    gate = threading.Barrier(4, timeout=20)

    class Together(Lines):
        def act(self, requests):
            if requests[0].turn == 1:
                gate.wait()
            return [Reply("<answer>1</answer>")]

    assert len(results(run_many(planned(8), Together(), concurrency=4))) == 8


@pytest.mark.parametrize("batch", [1, 4])
def test_no_more_environments_are_made_than_are_played_at_a_time(monkeypatch, batch):
    stacks, make = [], gym.make

    def seen(*args, **kwargs):
        stacks.append(env := make(*args, **kwargs))
        return env

    monkeypatch.setattr(gym, "make", seen)
    plan = planned(12)
    stacks.clear()
    policy = Lines()
    policy.batch = batch
    assert len(list(run_many(plan, policy, concurrency=4))) == 12
    assert 1 <= len(stacks) <= 4


def test_a_journal_holds_every_result_and_a_second_run_plays_nothing(tmp_path):
    class Silent(Lines):
        def act(self, requests):
            raise AssertionError("a finished episode was played again")

    plan = planned(6)
    first = results(run_many(plan, Lines(), journal=tmp_path / "j"))
    assert results(run_many(plan, Silent(), journal=tmp_path / "j")) == first
    rows = list(read_journal(tmp_path / "j"))
    assert [row["key"] for row in rows[1:]] == [item.key for item in plan] and rows[0]["policy"] == "lines"
    assert [row["trial"] for row in rows[1:]] == [item.trial for item in plan]


def test_an_episode_is_in_the_journal_before_it_is_yielded(tmp_path):
    run = run_many(planned(5), Lines(), journal=tmp_path / "j")
    for count, (item, _) in enumerate(run, start=1):
        rows = list(read_journal(tmp_path / "j"))
        assert len(rows) > count and item.key in [row["key"] for row in rows[1:]]


def test_a_reader_who_stops_early_can_go_on(tmp_path):
    plan = planned(8)
    run = run_many(plan, Lines(), concurrency=2, journal=tmp_path / "j")
    next(run), next(run)
    run.close()
    again = list(run_many(plan, Lines(), journal=tmp_path / "j"))
    assert results(again) == results(run_many(plan, Lines())) and len(again) == 8
    keys = [row["key"] for row in read_journal(tmp_path / "j") if "key" in row]
    assert sorted(keys) == sorted(item.key for item in plan)


KILLED = """
import os, signal, sys, pathlib
from agent_envs import run_many
from tests.rollout.test_run_many import Lines, planned

for count, _ in enumerate(run_many(planned(200), Lines(), concurrency=4, journal=pathlib.Path(sys.argv[1])), start=1):
    if count == 5:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_resumes_with_the_same_results(tmp_path):
    journal = tmp_path / "j"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(journal)], cwd=ROOT, env={"PYTHONPATH": str(ROOT)})
    assert killed.returncode == -9
    complete = list(read_journal(journal))[1:]
    assert 5 <= len(complete) < 200
    with journal.open("ab") as file:
        file.write(b'{"row":{"key":"key-11","sta')
    plan = planned(200)
    resumed = list(run_many(plan, Lines(), concurrency=2, journal=journal))
    assert results(resumed) == results(run_many(plan, Lines())) and len(resumed) == 200
    keys = [row["key"] for row in read_journal(journal) if "key" in row]
    assert sorted(keys) == sorted(item.key for item in plan)


def test_another_plan_or_policy_is_refused_and_nothing_is_written(tmp_path):
    plan = planned(3)
    list(run_many(plan, Lines(), journal=tmp_path / "j"))
    data = (tmp_path / "j").read_bytes()

    class Others(Lines):
        name = "others"

    changed = [
        (plan[:2], Lines(), "plan"), (list(reversed(plan)), Lines(), "plan"), (plan, Others(), "policy"),
        ([replace(plan[0], seed=9), *plan[1:]], Lines(), "plan"), (planned(3, turns=4), Lines(), "plan"),
        (plan, CompanionPolicy("solver"), "policy"),
    ]  # fmt: skip
    for other, policy, name in changed:
        with pytest.raises(UsageError, match=rf"another .*{name}"):
            list(run_many(other, policy, journal=tmp_path / "j"))
    assert (tmp_path / "j").read_bytes() == data


def test_a_journal_of_something_else_is_refused(tmp_path):
    for row in ({"key": "x"}, [1], "text", None):
        path = tmp_path / f"{type(row).__name__}"
        with Journal(path) as journal:
            journal.append(row)
        with pytest.raises(UsageError, match="another"):
            list(run_many(planned(1), Lines(), journal=path))


def test_repeated_keys_are_refused():
    with pytest.raises(UsageError, match="keys repeat"):
        list(run_many(planned(2) + planned(1), Lines()))


class Faulty(Lines):
    """The service is down for one episode, a number of times."""

    def __init__(self, times, retryable=True):
        self.left, self.retryable, self.asked = times, retryable, 0

    def act(self, requests):
        if requests[0].episode_key == "key-1" and requests[0].turn == 2:
            self.asked += 1
            if self.left > 0:
                self.left -= 1
                raise EnvFault("service down", self.retryable)
        return [Reply("<luck>x</luck>" if requests[0].turn < 3 else "<answer>1</answer>")]


@pytest.mark.parametrize("times", range(FAULT_ATTEMPTS))
def test_a_fault_is_tried_again_and_leaves_no_trace(times):
    assert results(run_many(planned(4), Faulty(times))) == results(run_many(planned(4), Faulty(0)))


def test_a_fault_that_stays_is_a_status_and_the_run_goes_on(tmp_path):
    policy = Faulty(99)
    found = results(run_many(planned(4), policy, journal=tmp_path / "j"))
    assert policy.asked == FAULT_ATTEMPTS
    bad = found["key-1"]
    assert (bad.status, bad.fault, bad.trajectory.turns, bad.success) == ("fault", "service down", (), False)
    assert bad.trajectory.header.episode_key == "key-1" and bad.trajectory.header.seed == 1
    assert [found[key].status for key in ("key-0", "key-2", "key-3")] == ["terminated"] * 3
    healed = results(run_many(planned(4), Faulty(0), journal=tmp_path / "j"))
    assert healed == results(run_many(planned(4), Faulty(0)))
    assert results(run_many(planned(4), Faulty(99), journal=tmp_path / "j")) == healed


def test_a_fault_that_no_retry_heals_is_not_retried():
    policy = Faulty(99, retryable=False)
    assert results(run_many(planned(3), policy))["key-1"].status == "fault" and policy.asked == 1


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_bug_of_the_policy_propagates_and_the_journal_stays_readable(tmp_path, concurrency):
    class Buggy(Lines):
        broken = True

        def act(self, requests):
            if self.broken and requests[0].episode_key == "key-5":
                raise ZeroDivisionError("a bug")
            return super().act(requests)

    plan, policy = planned(10), Buggy()
    with pytest.raises(ZeroDivisionError):
        list(run_many(plan, policy, concurrency=concurrency, journal=tmp_path / "j"))
    rows = list(read_journal(tmp_path / "j"))
    assert rows[0]["policy"] == "lines" and all(row["status"] != "fault" for row in rows[1:])
    policy.broken = False
    found = results(run_many(plan, policy, journal=tmp_path / "j"))
    assert found == results(run_many(plan, Lines()))


def test_a_journal_in_use_is_refused(tmp_path):
    run = run_many(planned(3), Lines(), journal=tmp_path / "j")
    next(run)
    with pytest.raises(UsageError, match="another process"):
        list(run_many(planned(3), Lines(), journal=tmp_path / "j"))
    assert len(list(run)) == 2


def test_a_privileged_agent_is_marked_in_the_journal(tmp_path):
    list(run_many(planned(1), CompanionPolicy("solver"), journal=tmp_path / "s"))
    list(run_many(planned(1), CompanionPolicy("heuristic"), journal=tmp_path / "h"))
    marks = [json.loads((tmp_path / name).read_text().splitlines()[0])["row"]["privileged"] for name in "sh"]
    assert marks == [True, False]


def test_a_strangers_kind_of_a_built_in_agent_is_marked_too(tmp_path):
    class Reading(CompanionPolicy):
        """It is handed the environment, and may read what it likes there."""

    list(run_many(planned(1), Reading("heuristic"), journal=tmp_path / "r"))
    assert json.loads((tmp_path / "r").read_text().splitlines()[0])["row"]["privileged"] is True


def test_a_second_process_cannot_play_the_same_journal(tmp_path):
    path = tmp_path / "journal.jsonl"
    running = run_many(planned(3), Lines(), journal=path)
    next(running)
    with pytest.raises(UsageError, match="another process"):
        next(run_many(planned(3), Lines(), journal=path))
    assert len(list(running)) == 2


@pytest.mark.parametrize("batch", [0, -1, None, True, "4"])
def test_a_batch_that_cannot_be_is_refused(batch):
    policy = Lines()
    policy.batch = batch
    with pytest.raises(UsageError, match="batch="):
        list(run_many(planned(2), policy))


class Answering(Lines):
    """Answers at once, and counts the episodes that it ended."""

    def __init__(self):
        self.ended = []

    def act(self, requests):
        time.sleep(0.01)
        self.ended += [request.episode_key for request in requests]
        return [Reply("<answer>1</answer>") for _ in requests]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_reader_who_fails_loses_no_episode_that_was_played(tmp_path, error):
    policy, plan = Answering(), planned(60)

    def read():
        for count, _ in enumerate(run_many(plan, policy, concurrency=8, journal=tmp_path / "j")):
            if count == 5:
                raise error

    with pytest.raises(error):
        read()
    kept = [row["key"] for row in read_journal(tmp_path / "j") if "key" in row]
    assert sorted(kept) == sorted(policy.ended) and 6 <= len(kept) < 60


def test_a_bug_in_one_episode_loses_no_other(tmp_path):
    class Buggy(Answering):
        def act(self, requests):
            if requests[0].episode_key == "key-3":
                raise ZeroDivisionError("a bug")
            return super().act(requests)

    policy = Buggy()
    with pytest.raises(ZeroDivisionError):
        list(run_many(planned(40), policy, concurrency=8, journal=tmp_path / "j"))
    kept = [row["key"] for row in read_journal(tmp_path / "j") if "key" in row]
    assert sorted(kept) == sorted(policy.ended)


WRONG = {
    "nothing": None,
    "a text": "x",
    "no reply": ["x"],
    "two": [Reply("x"), Reply("y")],
    "no usage": [Reply("x", usage=None)],
    "a negative count": [Reply("x", usage={"input": -1})],
    "a fraction": [Reply("x", usage={"input": 0.5})],
    "a huge count": [Reply("x", usage={"input": 10**400})],
    "minus infinity": [Reply("x", logprobs=(float("-inf"),))],
    "nan": [Reply("x", entropies=(float("nan"),))],
}


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("name", WRONG)
def test_what_an_agent_gives_back_wrongly_is_named(name, batch):
    class Wrong(Lines):
        def act(self, requests):
            return WRONG[name]

    policy = Wrong()
    policy.batch = batch
    with pytest.raises(UsageError, match="agent lines: "):
        list(run_many(planned(1), policy, concurrency=2))


def test_rows_that_were_swapped_are_refused(tmp_path):
    path = tmp_path / "j"
    list(run_many(planned(2), Lines(), journal=path))
    head, one, two = read_rows(path)
    path.unlink()
    with Journal(path) as journal:
        for row in (head, {**one, "trajectory": two["trajectory"]}, two):
            journal.append(row)
    with pytest.raises(UsageError, match="holds another episode"):
        list(run_many(planned(2), Lines(), journal=path))
