"""Lockstep: one call of the policy a round, every reply to its own lane, forks, faults, and batches that no clock decides."""

import os
import signal
import threading
import time
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import BudgetSpent, EnvFault, Planned, Reply, UsageError, run_many, spec_json
from agent_envs.base.jsonl_log import read_journal
from agent_envs.rollout.lockstep import Lockstep
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.services.run_services import Services
from tests.rollout.test_run_many import Lines, planned, results
from tests.toy import Guess


class Batched(Lines):
    """The same replies as Lines, and what the batches were."""

    def __init__(self, batch, seconds=0.0):
        self.batch, self.seconds = batch, seconds
        self.batches, self.threads, self.calls = [], set(), 0

    @property
    def sizes(self):
        return [len(batch) for batch in self.batches]

    def act(self, requests):
        self.calls += 1
        assert self.calls == 1, "two calls at once"
        self.batches.append([(request.episode_key, request.turn) for request in requests])
        self.threads.add(threading.get_ident())
        time.sleep(self.seconds)
        self.calls -= 1
        return super().act(requests)


class Luck(Batched):
    """Four turns an episode, the last of which answers."""

    def act(self, requests):
        super().act(requests)
        return [Reply("<luck>x</luck>" if request.turn < 4 else "<answer>1</answer>") for request in requests]


@pytest.mark.parametrize("concurrency", [1, 3, 64])
@pytest.mark.parametrize("batch", [2, 16])
def test_results_are_those_of_a_policy_asked_alone(batch, concurrency):
    plan = planned(24)
    policy = Batched(batch)
    assert results(run_many(plan, policy, concurrency=concurrency)) == results(run_many(plan, Lines()))
    assert max(policy.sizes) <= min(batch, concurrency)
    assert threading.get_ident() not in policy.threads


def test_every_lane_is_asked_in_every_round_and_an_episode_that_ends_makes_room_for_the_next():
    policy = Luck(8)
    list(run_many(planned(24), policy, concurrency=8))
    assert policy.sizes == [8] * 12 and len(policy.threads) == 1


def test_batches_do_not_depend_on_the_load():
    runs = []
    for seconds in (0.0, 0.003):
        policy = Batched(8, seconds)
        assert results(run_many(planned(20), policy, concurrency=8)) == results(run_many(planned(20), Lines()))
        runs.append(policy.batches)
    assert runs[0] == runs[1] and len(runs[0][0]) == 8


def test_one_set_of_lanes_steps_while_another_is_with_the_engine(monkeypatch):
    """The first set's environments wait in their step for the engine to be called once more, which another set does."""
    again = threading.Event()

    class Engine(Luck):
        def act(self, requests):
            if len(self.batches) == 1:
                again.set()
            return super().act(requests)

    step = Guess.step
    monkeypatch.setattr(Guess, "step", lambda env, action: again.wait(20) and step(env, action))
    policy = Engine(4)
    assert len(list(run_many(planned(32), policy, concurrency=8))) == 32
    assert policy.sizes == [4] * 32 and len(policy.threads) == 2


def test_a_fault_reaches_every_lane_of_the_batch_which_plays_again_and_its_tokens_count_once():
    class Once(Batched):
        failed = False

        def act(self, requests):
            if not self.failed:
                self.failed = True
                fault = EnvFault("the engine restarts")
                fault.usage = {"lost": 5}
                raise fault
            return super().act(requests)

    plan = planned(6)
    played = results(run_many(plan, Once(3), concurrency=3, pause_seconds=0.01))
    alone = results(run_many(plan, Lines()))
    assert {key: result.trajectory for key, result in played.items()} == {key: r.trajectory for key, r in alone.items()}
    assert sorted(result.attempts for result in played.values()) == [()] * 3 + [("the engine restarts",)] * 3
    assert sum(result.usage.get("lost", 0) for result in played.values()) == 5


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


@pytest.mark.parametrize("leave_after", [0, 1, 5])
def test_a_reader_who_leaves_early_leaves_no_thread_behind(leave_after):
    before = threading.active_count()
    run = run_many(planned(40), Batched(4), concurrency=8)
    for _ in range(leave_after):
        next(run)
    run.close()
    assert threading.active_count() == before


def test_a_reader_who_does_not_read_bounds_what_is_played():
    policy = Luck(4)
    run = run_many(planned(60), policy, concurrency=4)
    next(run)
    time.sleep(0.3)
    begun = {key for batch in policy.batches for key, _ in batch}
    assert 4 < len(begun) <= 4 + 2 * 4
    assert len(list(run)) == 59


def test_needs_env_and_batch_exclude_each_other():
    policy = CompanionPolicy("solver")
    policy.batch = 4
    with pytest.raises(UsageError, match="needs_env"):
        list(run_many(planned(2), policy))


def test_what_the_budget_cuts_short_is_told_and_nothing_further_begins(tmp_path):
    class Spent(Luck):
        def act(self, requests):
            if len(self.batches) == 6:
                raise BudgetSpent("enough")
            return [Reply(reply.action, usage={"input": 1}) for reply in super().act(requests)]

    policy = Spent(4)
    played = results(run_many(planned(40), policy, concurrency=4, journal=tmp_path / "j"))
    assert [result.status for result in played.values()] == ["terminated"] * 4 + ["budget"] * 4
    assert len(policy.batches) == 6 and len(list(read_journal(tmp_path / "j"))) == 1 + 8


def test_an_interrupt_lets_the_lanes_that_are_playing_finish(tmp_path):
    """It comes while the engine works, in another thread than the reader's, as Ctrl-C does."""

    class Interrupted(Luck):
        def act(self, requests):
            if len(self.batches) == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
            return super().act(requests)

    policy, plan = Interrupted(4), planned(12)
    with pytest.raises(KeyboardInterrupt):
        list(run_many(plan, policy, concurrency=4, journal=tmp_path / "j"))
    assert [row["key"] for row in read_journal(tmp_path / "j") if "key" in row] == [item.key for item in plan[:4]]
    assert policy.sizes == [4] * 4


def test_a_bug_in_one_environment_loses_no_other_lane(tmp_path, monkeypatch):
    step = Guess.step

    def buggy(env, action):
        if env.episode.header.episode_key == "key-2" and len(env.episode.turns) == 1:
            raise ZeroDivisionError("a bug")
        return step(env, action)

    monkeypatch.setattr(Guess, "step", buggy)
    with pytest.raises(ZeroDivisionError):
        list(run_many(planned(12), Luck(4), concurrency=4, journal=tmp_path / "j"))
    assert [row["key"] for row in read_journal(tmp_path / "j") if "key" in row] == ["key-0", "key-1", "key-3"]


def test_an_environment_that_cannot_be_made_loses_no_lane_that_is_playing(tmp_path):
    plan = planned(6)
    plan[4] = replace(plan[4], spec=plan[4].spec.replace(":Guess", ":Gone"))
    with pytest.raises(AttributeError, match="Gone"):
        list(run_many(plan, Luck(4), concurrency=4, journal=tmp_path / "j"))
    assert [row["key"] for row in read_journal(tmp_path / "j") if "key" in row] == [item.key for item in plan[:4]]


# What algorithms do between the turns.


class Keeping(Luck):
    """Keeps conversations, by what the lanes tell it."""

    def __init__(self):
        super().__init__(16)
        self.heard = []

    def fork(self, origin, new):
        self.heard.append(("fork", origin, new))

    def drop(self, origin):
        self.heard.append(("drop", origin))


def toy_plan(count):
    return [
        Planned(f"k{number}", spec_json(gym.make("toy/Guess-v0")), number, "train", number) for number in range(count)
    ]


def test_lanes_fork_and_begin_anew_and_the_policy_hears_of_it():
    policy, plan = Keeping(), toy_plan(3)
    with Lockstep(policy) as lockstep:
        one, two = lockstep.begin(plan[:2])
        lockstep.step([two, one])
        fork = lockstep.fork(one, "b1")
        while not (one.over and two.over):
            lockstep.step([one, two])
        assert len(fork.walk.turns) == 1 and not fork.over
        with pytest.raises(UsageError, match="k0 is over: there is nothing to fork"):
            lockstep.fork(one, "b2")
        assert two.result().trajectory.header.episode_key == "k1"
        lockstep.drop([two])
        lockstep.release(two)
        (three,) = lockstep.begin(plan[2:])
        assert three.env is two.env and three.origin == "k2"
        while not (fork.over and three.over):
            lockstep.step([fork, three])
    assert policy.heard == [("fork", "k0", "k0/b1"), ("drop", "k1")]
    assert policy.batches[0] == [("k0", 1), ("k1", 1)]  # in the order of their names, whoever asks
    assert fork.result().trajectory.turns[0] == one.result().trajectory.turns[0]


def test_a_policy_that_keeps_nothing_forks_too():
    with Lockstep(Luck(2)) as lockstep:
        (lane,) = lockstep.begin(toy_plan(1))
        fork = lockstep.fork(lane, "b1")
        lockstep.drop([fork])
        lockstep.step([lane, fork])
        assert [each.walk.header.branch for each in (lane, fork)] == ["", "b1"]


def test_a_fork_that_fails_is_not_played_from_the_start(monkeypatch):
    with Lockstep(Luck(2), attempts=3, pause_seconds=0.0) as lockstep:
        (lane,) = lockstep.begin(toy_plan(1))
        lockstep.step([lane])
        fork, calls, step = lockstep.fork(lane, "b1"), [], Guess.step

        def failing(env, action):
            calls.append(env.episode.header.branch)
            if len(calls) <= 2:
                raise EnvFault("down")
            return step(env, action)

        monkeypatch.setattr(Guess, "step", failing)
        lockstep.step([lane, fork])
        assert fork.fault == "down" and fork.over and fork.result().status == "fault"
        assert not lane.over and lane.attempts == ["down"] and lane.walk is None
        lockstep.step([lane])
        assert len(lane.walk.turns) == 1


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now, self.naps = 100.0, []
        self.perf_counter = self.monotonic = lambda: self.now

    def sleep(self, seconds):
        self.naps.append(seconds)
        self.now += seconds


def test_a_lane_waits_for_its_next_attempt_alone_and_nobody_sleeps_while_another_can_step(monkeypatch):
    clock, step = Clock(), Guess.step
    monkeypatch.setattr("agent_envs.rollout.lockstep.time", clock)
    failing = {"k0"}

    def failing_step(env, action):
        if env.episode.header.episode_key in failing:
            raise EnvFault("down")
        return step(env, action)

    monkeypatch.setattr(Guess, "step", failing_step)
    policy = Luck(2)
    with Lockstep(policy, attempts=3, pause_seconds=10.0) as lockstep:
        lanes = one, two = lockstep.begin(toy_plan(2))
        for _ in range(2):
            lockstep.step(lanes)
        assert len(two.walk.turns) == 2 and not one.over and one.attempts == ["down"] and not clock.naps
        failing.clear()
        clock.now += 15.0  # the longest pause before a second attempt: it begins, and the other has not stood still
        lockstep.step(lanes)
        assert (len(one.walk.turns), len(two.walk.turns)) == (1, 3) and not clock.naps
        failing.add("k0")
        lockstep.step(lanes)
        assert two.over and not one.over and one.attempts == ["down"] * 2 and not clock.naps
        failing.clear()
        lockstep.step(lanes)  # nobody else is left to play: now it is waited for
        assert len(clock.naps) == 1 and 10.0 <= clock.naps[0] <= 30.0 and len(one.walk.turns) == 1
    assert policy.sizes == [2, 1, 2, 2, 1]


def test_a_policy_that_needs_the_environment_steps_one_lane_at_a_time():
    with Lockstep(CompanionPolicy("random")) as lockstep:
        lanes = one, _ = lockstep.begin(toy_plan(2))
        with pytest.raises(UsageError, match="agent random needs_env: its lanes step one at a time, not 2"):
            lockstep.step(lanes)
        lockstep.step([one])
        assert len(one.walk.turns) == 1


def test_the_first_error_of_a_round_is_raised_once_all_lanes_have_stepped(monkeypatch):
    step = Guess.step

    def spent(env, action):
        if env.episode.header.episode_key != "k1":
            raise BudgetSpent(env.episode.header.episode_key)
        return step(env, action)

    with Lockstep(Luck(4)) as lockstep:
        lanes = lockstep.begin(toy_plan(3))
        monkeypatch.setattr(Guess, "step", spent)
        with pytest.raises(BudgetSpent, match="k0"):
            lockstep.step(lanes)
    assert [lane.over for lane in lanes] == [True, False, True] and len(lanes[1].walk.turns) == 1


def test_an_agent_that_needs_the_state_does_not_play_where_that_is_elsewhere():
    with pytest.raises(UsageError, match="agent solver needs_env: the state is elsewhere"):
        Lockstep(CompanionPolicy("solver"), services=Services(elsewhere=lambda env, spec: env))
