"""Gather and batch: full batches where they can be had, every reply to its own request, no hang."""

import threading
import time
from dataclasses import replace

import pytest

from agent_envs import BudgetSpent, EnvFault, Reply, UsageError, run_many
from agent_envs.rollout.batching import Batcher
from agent_envs.rollout.policy import CompanionPolicy, Request
from tests.rollout.test_run_many import Lines, planned, results


class Batched(Lines):
    """The same replies as Lines, and what the batches were."""

    def __init__(self, batch, seconds=0.0):
        self.batch, self.seconds = batch, seconds
        self.sizes, self.threads = [], set()

    def act(self, requests):
        self.sizes.append(len(requests))
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        return super().act(requests)


@pytest.mark.parametrize("concurrency", [1, 3, 64])
@pytest.mark.parametrize("batch", [2, 16])
def test_results_are_those_of_a_policy_asked_alone(batch, concurrency):
    plan = planned(24)
    policy = Batched(batch)
    assert results(run_many(plan, policy, concurrency=concurrency)) == results(run_many(plan, Lines()))
    assert max(policy.sizes) <= min(batch, concurrency) and len(policy.threads) == 1
    assert threading.get_ident() not in policy.threads


def test_batches_fill():
    policy = Batched(8, seconds=0.02)
    list(run_many(planned(24), policy, concurrency=8))
    assert policy.sizes.count(8) >= 3  # 24 episodes in waves of 8: the first turns at least come together


def test_an_engine_steps_while_environments_do():
    """Half of the episodes are with the engine while the other half steps."""
    policy = Batched(4, seconds=0.02)
    list(run_many(planned(32), policy, concurrency=8))
    assert sum(policy.sizes) / len(policy.sizes) > 2.5


def test_a_fault_reaches_every_episode_of_the_batch_and_is_retried():
    class Once(Batched):
        failed = False

        def act(self, requests):
            if not self.failed:
                self.failed = True
                raise EnvFault("the engine restarts")
            return super().act(requests)

    plan = planned(6)
    found = list(run_many(plan, Once(3), concurrency=3, pause_seconds=0.01))
    assert results(found) == results(run_many(plan, Lines()))
    assert 1 <= sum(result.attempts == ("the engine restarts",) for _, result in found) <= 3


@pytest.mark.parametrize("wrong", ["bug", "few", "many"])
def test_a_wrong_engine_ends_the_run(wrong):
    class Wrong(Batched):
        def act(self, requests):
            replies = list(super().act(requests))
            if wrong == "bug":
                raise ZeroDivisionError("a bug")
            return replies[1:] if wrong == "few" else [*replies, Reply("x")]

    error = ZeroDivisionError if wrong == "bug" else UsageError
    with pytest.raises(error, match=r"a bug|one Reply\(action\) a request"):
        list(run_many(planned(6), Wrong(4), concurrency=4))


def test_a_reader_who_leaves_early_leaves_no_thread_behind():
    before = threading.active_count()
    run = run_many(planned(12), Batched(4), concurrency=4)
    next(run)
    run.close()
    assert threading.active_count() == before


def test_needs_env_and_batch_exclude_each_other():
    policy = CompanionPolicy("solver")
    policy.batch = 4
    with pytest.raises(UsageError, match="needs_env"):
        list(run_many(planned(2), policy))


def test_requests_that_come_late_are_not_waited_for_long():
    policy = Batched(64)
    with Batcher(policy, 64, 3) as gatherer:
        request = Request("k", 1, ())
        replies = gatherer.act(
            [request, replace(request, seed=1)]
        )  # two of three ask: the batch goes out without the third
        assert len(replies) == 2 and policy.sizes == [2]


class Patient(Batched):
    """Waits for every episode that is being played."""

    patient = True


def test_the_batches_of_a_patient_policy_do_not_depend_on_the_load():
    runs = []
    for pause in (0.0, 0.003):
        batches = []

        class Slow(Patient):
            def act(self, requests, pause=pause, batches=batches):
                batches.append(sorted((request.episode_key, request.turn) for request in requests))
                return super().act(requests)

        policy = Slow(8, seconds=pause)
        assert results(run_many(planned(20), policy, concurrency=8)) == results(run_many(planned(20), Lines()))
        runs.append(batches)
    assert runs[0] == runs[1] and len(runs[0][0]) == 8


@pytest.mark.parametrize("leave_after", [0, 1, 5])
def test_a_patient_policy_does_not_wait_for_episodes_that_are_cancelled(leave_after):
    run = run_many(planned(40), Patient(4), concurrency=4)
    for _ in range(leave_after):
        next(run)
    run.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("gather", "episode"))]


def test_a_patient_policy_does_not_wait_for_episodes_after_the_budget():
    class Spent(Patient):
        def act(self, requests):
            if len(self.sizes) > 2:
                raise BudgetSpent("enough")
            return super().act(requests)

    found = list(run_many(planned(40), Spent(4), concurrency=4))
    assert len(found) < 40


def test_a_patient_policy_ends_with_a_bug():
    class Wrong(Patient):
        def act(self, requests):
            if len(self.sizes) > 1:
                raise ZeroDivisionError("a bug")
            return super().act(requests)

    with pytest.raises(ZeroDivisionError):
        list(run_many(planned(40), Wrong(4), concurrency=4))
