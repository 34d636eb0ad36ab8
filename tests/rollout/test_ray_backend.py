"""Episodes that actors of Ray step are those that threads play, whatever is lost on the way, and nothing is paid twice."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from agent_envs import Snapshot, UsageError, fork, restore, snapshot, spec_json
from agent_envs.base.errors import EnvFault, MissingExtra
from agent_envs.base.jsonl_log import FileInUse, Journal, read_journal
from agent_envs.core.env import core_of
from agent_envs.rollout import ray_backend
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.lockstep import Lockstep
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.rollout.ray_backend import Actors
from agent_envs.rollout.run_many import RunLog, read_rows, run_many
from agent_envs.services.chat.spending import Budget, RunBudgets
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from tests.needs import needs
from tests.rollout import ray_toys
from tests.toy import ID

pytestmark = [needs("[ray]"), pytest.mark.heavy]
TIMES = ("seconds", "agent_seconds")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A cluster of two CPUs for all tests, and the folder of the toys' marks, which its workers know."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = os.environ["RAY_worker_niceness"] = "0"  # beside other tests 15 is minutes
    os.environ[ray_toys.FOLDER] = str(tmp_path_factory.mktemp("toys"))
    os.environ["RAY_TOYS_DRIVER"] = str(os.getpid())
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield Path(os.environ[ray_toys.FOLDER])
    ray.shutdown()


def plan_of(env_id, count, **arguments):
    spec = spec_json(gym.make(env_id, **arguments))
    split = "test"
    return [Planned(f"k{number}", spec, number % 10, split, number) for number in range(count)]


def rows(path):
    """A journal's rows by key, times left out."""
    head, *episodes = read_rows(path)
    plain = [{name: value for name, value in row.items() if name not in TIMES} for row in episodes]
    return [head, *sorted(plain, key=lambda row: row["key"])]


def journals(tmp_path, plan, agent, other=None, **options):
    """The journal of threads, that of actors that play with the agent, and that of actors that step what is repeated here."""
    play = partial(run_many, plan, concurrency=4, pause_seconds=0.01)
    results = [result for _, result in play(agent(), journal=tmp_path / "threads.jsonl")]
    with Actors(2, agent=agent) as actors:
        list(play(agent(), journal=tmp_path / "played.jsonl", services=actors.services(Services())))
    again = other or ray_toys.Again(agent().name, results)
    with Actors(2, **options) as actors:
        list(play(again, journal=tmp_path / "stepped.jsonl", services=actors.services(Services())))
    threads, played, (_, *stepped) = (rows(tmp_path / f"{name}.jsonl") for name in ("threads", "played", "stepped"))
    return threads, played, [threads[0], *stepped]  # the head says whether an agent reads the gold


@pytest.mark.parametrize("agent", ["random", "solver"])
@pytest.mark.parametrize("name", ["SearchQA", "Tau2Retail", "SortExpA"])
def test_the_journal_is_that_of_threads(folder, tmp_path, name, agent):
    plan = plan_of(f"agent_envs/{name}-v0", 8)
    threads, played, stepped = journals(tmp_path, plan, partial(CompanionPolicy, agent), saved_turns=2)
    assert threads == played == stepped and len(threads) == 9


def test_a_fault_stays_one_with_its_cause(folder, tmp_path):
    threads, played, stepped = journals(tmp_path, plan_of("toy/Away-v0", 4), ray_toys.Talker, ray_toys.Talker())
    assert threads == played == stepped
    assert {(row["status"], row["fault"]) for row in played[1:]} == {("fault", "the service is away")}


@pytest.mark.parametrize(("agent", "count"), [(None, 400), (partial(ray_toys.Talker, 0.02, "talks"), 100)])
def test_twenty_actors_are_lost_and_no_episode(folder, tmp_path, monkeypatch, agent, count):
    import ray

    monkeypatch.setattr(ray_backend, "ReplyLog", ray_toys.NotedReplies)
    policy, over = ray_toys.Talker(0.02), threading.Event()
    plan, kills = plan_of(ID, count, turns=30), []
    list(run_many(plan, ray_toys.Talker(), concurrency=16, journal=tmp_path / "threads.jsonl"))
    with Actors(2, agent=agent, saved_turns=4) as actors:

        def kill():
            while len(kills) < 20 and not over.is_set():
                place = actors._places[len(kills) % 2]  # in turn, so that each has answered since it was lost
                turns = actors._turns
                while actors._turns < turns + 120 and not over.is_set():
                    time.sleep(0.01)
                if place.handle is not None:
                    ray.kill(place.handle, no_restart=False)
                    kills.append(place)

        killer = threading.Thread(target=kill)
        killer.start()
        services = actors.services(Services())
        list(run_many(plan, policy, concurrency=16, journal=tmp_path / "ray.jsonl", services=services))
        over.set()
        killer.join()
        assert actors.line().startswith("2 actors, 0 episodes open, ")
        lost = ray_toys.losses(actors)
    assert len(kills) == 20 and lost >= 15
    assert rows(tmp_path / "ray.jsonl") == rows(tmp_path / "threads.jsonl")
    if agent is None:
        assert len(policy.calls) == len(set(policy.calls)) == count * 30
    else:  # a call under way in an actor that is lost is made again; no reply that is in the log is asked for again
        there = set()
        for line in (folder / "talks").read_text().splitlines():
            kept, call = line.startswith("kept "), line.removeprefix("kept ")
            assert kept or call not in there
            there |= {call} if kept else set()
        assert len(there) == count * 30
    assert not (tmp_path / "ray-replies.jsonl").exists()


@pytest.mark.parametrize("agent", [None, partial(ray_toys.Talker, 0.0, "replies")])
def test_answers_of_services_outlive_the_actor_that_asked(folder, tmp_path, agent):
    (folder / "calls").unlink(missing_ok=True)
    for file in folder.glob("*.end"):
        file.unlink()
    plan = plan_of("toy/Paid-v0", 3, turns=4)
    with Actors(2, agent=agent) as actors, actors.recording(tmp_path / "externals.jsonl") as recording:
        log = RunLog(tmp_path / "ray.jsonl", recording=recording)
        ends = list(run_many(plan, ray_toys.Talker(), journal=log, services=actors.services(Services())))
        assert ray_toys.losses(actors) >= 2
    assert {result.status for _, result in ends} == {"truncated"}
    for calls in [(folder / name).read_text().split() for name in ["calls", *(["replies"] if agent else [])]]:
        assert sorted(calls) == sorted(set(calls)) and len(calls) == 12
    assert {result.usage["calls"] for _, result in ends} == {4}
    assert len(list(read_journal(tmp_path / "externals.jsonl"))) == 12


def test_ray_ends_a_worker_that_takes_the_memory(tmp_path):
    """In a cluster of its own, which may use half of what is free, 8 GB at most: other programs take some, too."""
    code, (total, free) = "from tests.rollout.ray_toys import greedy_run; greedy_run()", ray_toys.memory()
    share = str(1 - (free - min(free / 2, 8e9)) / total)
    limits = {"RAY_memory_usage_threshold": share, "RAY_memory_monitor_refresh_ms": "50", "RAY_worker_niceness": "0"}
    settings = {**os.environ, **limits, ray_toys.FOLDER: str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["truncated", "1"]), done.stderr
    assert (tmp_path / "greedy").exists()


@pytest.mark.parametrize("agent", [None, ray_toys.Talker])
def test_a_worker_that_the_system_kills(folder, tmp_path, agent):
    (folder / "dead").unlink(missing_ok=True)
    with Actors(1, agent=agent) as actors:
        services = actors.services(Services())
        ends = list(run_many(plan_of("toy/Dying-v0", 2), ray_toys.Talker(), concurrency=2, services=services))
        assert {result.status for _, result in ends} == {"truncated"} and ray_toys.losses(actors) == 1
        plan = plan_of("toy/Dying-v0", 1, once=False)
        ((_, result),) = run_many(plan, ray_toys.Talker(), services=services, pause_seconds=0.0)
    assert result.status == "fault" and "an actor was lost again and again" in result.fault and "\n" not in result.fault
    assert result.usage == {"calls": 1}


@pytest.mark.parametrize("agent", [None, partial(ray_toys.Talker, 0.05)])
def test_an_episode_that_ends_its_process_takes_no_other_one_with_it(folder, tmp_path, monkeypatch, agent):
    """Nor the actor, which may be lost twelve times; and once it is a fault, the others do not wait for one another."""
    import ray

    plan = plan_of("toy/Dying-v0", 16, key="k2")
    others = [item for item in plan if item.key != "k2"]
    list(run_many(others, ray_toys.Talker(), concurrency=16, journal=tmp_path / "threads.jsonl"))
    kills, alone, kill, is_alone = [], [], ray.kill, threading.Event()
    monkeypatch.setattr(ray, "kill", lambda host, **how: kills.append(host) or kill(host, **how))
    with Actors(1, agent=agent) as actors:
        answer = actors._answer

        def noted(place, name, call):
            alone.extend([] if place.alone else [name])
            if name == "k2" and place.alone is None:
                is_alone.set()
            try:
                return answer(place, name, call)
            except ray_backend._Lost:
                assert agent is None or name == "k2" or is_alone.wait(60)  # it is to be the first of those who wait
                raise

        monkeypatch.setattr(actors, "_answer", noted)
        services = actors.services(Services())
        list(run_many(plan, ray_toys.Talker(), concurrency=16, journal=tmp_path / "ray.jsonl", services=services))
        assert 5 <= ray_toys.losses(actors) < 9 and len(kills) < 5
    ends = rows(tmp_path / "ray.jsonl")[1:]
    assert [row for row in ends if row["key"] != "k2"] == rows(tmp_path / "threads.jsonl")[1:]
    (fault,) = [row["fault"] for row in ends if row["key"] == "k2"]
    assert fault.startswith("an actor was lost again and again with episode k2: ")
    assert agent is None or (alone[0] == "k2" and len(alone) < 8)


def test_calls_that_end_at_one_loss_kill_the_actor_once_and_say_that_it_was_lost(folder, monkeypatch):
    """Also where another one has been begun meanwhile."""
    import ray

    kills, together = [], threading.Barrier(8)
    monkeypatch.setattr(ray, "kill", lambda host, **how: kills.append(host))
    with Actors(1) as actors:
        (place,) = actors._places
        place.handle = place.started = host = object()

        def lost(host):
            together.wait(60)
            place.started = object()
            raise ray.exceptions.ActorUnavailableError("lost", None)

        def ask(name):
            with pytest.raises(ray_backend._Lost, match=f"again and again with episode {name}: "):
                actors._answer(place, name, lost)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(ask, "abcdefgh"))
        assert kills == [host]


def test_what_has_ended_is_told_once_where_two_turns_begin_together(folder, monkeypatch):
    class Slow(deque):
        def __len__(self):
            time.sleep(0.1 * (size := super().__len__()))
            return size

    ended, turn = [], SimpleNamespace(key="k#1")
    host = SimpleNamespace(play=SimpleNamespace(remote=lambda turns, keys, recording: ended.extend(keys) or [(1,)]))
    with Actors(1) as actors, ThreadPoolExecutor(2) as threads:
        (place,) = actors._places
        place.ended = Slow("ab")
        monkeypatch.setattr(actors, "_answer", lambda place, name, call: call(host))
        answers = [threads.submit(actors._moments, place, [(turn, False)]) for _ in range(2)]
        assert [answer.result() for answer in answers] == [[(1,)], [(1,)]]
    assert sorted(ended) == ["a", "b"]


def test_a_fault_without_a_cause_ends_an_episode(folder, monkeypatch):
    def away(*arguments):
        raise EnvFault("")

    (item,) = plan_of(ID, 1)
    with Actors(1, agent=ray_toys.Talker) as actors:
        actors.players(None, (), {}, "talker", Services())
        monkeypatch.setattr(actors, "_answer", away)
        lane = actors.play(item)
    assert lane.over and lane.result().fault == "a fault without a cause"


@pytest.mark.parametrize("agent", [None, ray_toys.Talker])
def test_what_a_worker_lacks_is_one_line(folder, agent):
    with Actors(1, agent=agent) as actors:
        plan = plan_of("toy/Lacking-v0", 2)
        with pytest.raises(MissingExtra, match=r'^BabyAI needs minigrid: pip install "agent-envs\[babyai\]"$'):
            list(run_many(plan, ray_toys.Talker(), services=actors.services(Services())))


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (ray_toys.Keyless, "^set TOY_KEY$"),
        (partial(ray_toys.Talker, name="other"), "^Actors.* makes agent other of batch 1, and talker of batch 1 is to"),
        (
            ray_toys.Odd,
            r"^agent .*ray_toys:Odd: act\(\) raised OddError: 3 1 \(.*ray_toys\.py:\d+\)$",
        ),  # it does not unpickle
    ],
)
def test_an_agent_that_an_actor_cannot_make_or_ask_ends_the_run(folder, agent, words):
    with Actors(1, agent=agent) as actors:
        with pytest.raises(Exception, match=words):
            list(run_many(plan_of(ID, 2), ray_toys.Talker(), services=actors.services(Services())))
        assert ray_toys.losses(actors) == 0


@pytest.mark.parametrize("agent", [None, ray_toys.Talker])
def test_an_environment_that_ends_the_program_ends_the_run_in_one_line(folder, agent):
    for interrupt, words in ((False, "SystemExit: 0"), (True, "KeyboardInterrupt")):
        plan = plan_of("toy/Exiting-v0", 1, interrupt=interrupt)
        with Actors(1, agent=agent) as actors:
            with pytest.raises(UsageError, match=rf"^toy/Exiting-v0: step\(\) raised {words} \(.*ray_toys\.py:\d+\)$"):
                list(run_many(plan, ray_toys.Talker(), services=actors.services(Services())))
            assert ray_toys.losses(actors) == 0


def test_an_actor_whose_process_does_not_start_is_a_fault(folder, monkeypatch):
    import ray

    monkeypatch.setattr("agent_envs.rollout.ray_hosts.PoolHost", ray_toys.Stillborn)
    with Actors(1) as actors:
        services = actors.services(Services())
        ((_, result),) = run_many(plan_of(ID, 1), ray_toys.Talker(), services=services, pause_seconds=0.0)
        assert result.status == "fault" and "its process does not start" in result.fault
        end, states = time.monotonic() + 60, []
        while set(states) != {"DEAD"}:  # and not begun for ever
            assert time.monotonic() < end, states
            rows = ray._private.state.actors().values()
            states = [row["State"] for row in rows if row["ActorClassName"] == "Stillborn"]


def test_an_actor_keeps_no_episode_that_no_stack_holds(folder):
    with Actors(1) as actors:
        stack = actors.environment(gym.make(ID), spec_json(gym.make(ID)))
        for seed in range(3):
            stack.reset(seed=seed, options={"episode_key": str(seed)})
        start = snapshot(stack)
        for _ in range(3):
            restore(stack, start)
            stack.step("<luck>1 1</luck>")
        others = [fork(stack, branch=str(number)) for number in range(3)]
        for other in others:
            other.step("<luck>1 1</luck>")
        assert len(actors._keys) == 4
        del other, others
        stack.step("<luck>1 1</luck>")
        assert len(actors._keys) == 1
        (place,) = actors._places
        open_there = actors._ray.get(place.handle.__ray_call__.remote(lambda host: [*map(len, host._pools.values())]))
    assert open_there == [1]


@pytest.mark.parametrize("agent", [None, ray_toys.Talker])
def test_services_that_actors_would_leave_out_are_refused(folder, tmp_path, agent):
    with Actors(1, agent=agent) as actors, Recording(tmp_path / "externals.jsonl", "record") as recording:
        services = actors.services(Services(recording=recording))
        with pytest.raises(UsageError, match=r"make the recording by Actors\.recording"):
            list(run_many(plan_of(ID, 1), ray_toys.Talker(), services=services))
        for charged in (None, RunBudgets({"model": Budget()})):
            with pytest.raises(UsageError, match="no budget of this process"):
                actors.services(Services(charged=charged))


def test_a_file_is_waited_for_only_while_another_process_writes_it(folder, tmp_path, monkeypatch):
    pauses, path = [], tmp_path / "externals.jsonl"
    monkeypatch.setattr(ray_backend, "time", SimpleNamespace(sleep=pauses.append))
    path.write_text('{"bad\n{"episode": "k"}\n{"episode": "k"}\n')
    with Actors(1) as actors:
        with pytest.raises(UsageError, match="line 1 is damaged"):
            actors.recording(path)
        assert pauses == []
        path.unlink()
        with Journal(path), pytest.raises(FileInUse):
            actors.recording(path)
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]


def test_the_clock_of_turns_begins_with_the_first_episode(folder, monkeypatch):
    ticks = iter([10.0, 14.0])
    monkeypatch.setattr(ray_backend, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    with Actors(1) as actors:
        actors.begin("k")
        actors._count(20)
        assert actors.line() == "1 actors, 1 episodes open, 5 turns/s"


@needs("[train]")
def test_what_an_engine_samples_is_the_same_to_the_bit(folder):
    from tests.trainers.players import SEARCH, player
    from trainers.sampling import plan_groups

    arguments, outcomes = {**SEARCH, "max_generations": 4}, []
    with Actors(2) as actors:
        for elsewhere in (None, actors.environment):
            policy, _, _, spec = player("SearchQA", arguments)
            policy.services = Services(elsewhere=elsewhere)
            results = policy.play(plan_groups(spec, "train", [0, 1, 2], 4, "k"))
            outcomes.append({key: (result, policy.sequences(key)) for key, result in results.items()})
    assert outcomes[0] == outcomes[1] and len(outcomes[0]) == 12


@pytest.mark.parametrize("saved_turns", [1, 5])
def test_a_fork_and_a_snapshot_go_on_as_they_do_here(folder, saved_turns):
    """Also where the actor is lost between, in another stack, from bytes, and with a branch's own samples of a service."""
    import ray

    def step(env, *actions):
        return [env.step(f"<luck>{action}</luck>")[:4] for action in actions]

    (item,) = plan_of(ID, 1, turns=6)
    options, here, outcomes = {"task": 0, "split": "test", "episode_key": "k"}, lambda env, spec: env, []
    with Actors(1, saved_turns=saved_turns) as actors:
        for place in (here, actors.environment):
            env = place(gym.make(EnvSpec.from_json(item.spec)), item.spec)
            env.reset(seed=0, options=options)
            told = [step(env, "a", "b")]
            twin, moment = fork(env, "b1"), snapshot(env)
            told += [step(env, "c"), step(twin, "c", "d")]
            if place is not here:
                ray.kill(actors._places[0].handle, no_restart=False)
            again = fork(twin, "b2")
            other = place(gym.make(EnvSpec.from_json(item.spec)), item.spec)
            restore(other, Snapshot.from_bytes(moment.to_bytes()))
            told += [step(again, "e", "f"), step(twin, "x", "y"), step(other, "c", "d"), step(env, "d")]
            told += [core_of(one).trajectory for one in (env, twin, again, other)]
            restore(env, snapshot(twin))  # of an episode that is over
            with pytest.raises(UsageError, match="after the end|is over"):
                env.step("<luck>x</luck>")
            outcomes.append(told)
        with pytest.raises(UsageError, match="an action is a str"):
            other.step(None)
    assert outcomes[0] == outcomes[1]
    assert [one.header.branch for one in outcomes[1][-4:]] == ["", "b1", "b1.b2", ""]


def test_a_snapshot_after_actions_of_numpy_goes_on_and_so_does_one_of_before_actions_were_in_it(folder):
    stacks = [gym.make("agent_envs/SortExpA-v0") for _ in range(2)]
    with Actors(1) as actors:
        stacks[1] = actors.environment(stacks[1], spec_json(stacks[1]))
        for env in stacks:
            env.reset(seed=0, options={"task": 0, "split": "test", "episode_key": "k"})
        for action in (np.int64(1), (np.int64(1), np.int64(2)), (np.int64(0), "a"), np.array(3), 1, 2):
            if action == 1:
                restore(stacks[1], Snapshot.from_bytes(snapshot(stacks[1]).to_bytes()))
            if action == 2:
                stacks[1].state = stacks[1].state[:2]
            here, there = (env.step(action)[:4] for env in stacks)
            assert here == there
        assert core_of(stacks[0]).trajectory == core_of(stacks[1]).trajectory


def test_a_fork_asks_a_service_for_nothing_again(folder):
    (folder / "calls").unlink(missing_ok=True)
    (folder / "fork-1.end").touch()  # its process does not end
    with Actors(1) as actors:
        (item,) = plan_of("toy/Paid-v0", 1)
        env = actors.environment(gym.make(EnvSpec.from_json(item.spec)), item.spec)
        env.reset(seed=0, options={"task": 0, "split": "test", "episode_key": "fork"})
        for _ in range(2):
            env.step("<luck>a</luck>")
        fork(env, "b1").step("<luck>a</luck>")
    assert (folder / "calls").read_text().split() == ["fork-0", "fork-1", "fork-2"]


def test_a_fork_asks_no_actor_and_a_fault_stays_in_its_lanes(folder, monkeypatch):
    """As in this process, where nothing outside is asked by a fork: ARPO's step goes on without those lanes."""

    def lost(*arguments):
        raise EnvFault("lost", retryable=False)

    with Actors(1) as actors, Lockstep(ray_toys.Talker(), services=Services(elsewhere=actors.environment)) as lockstep:
        lane, other = lockstep.begin(plan_of(ID, 2))
        lockstep.step([lane, other])
        monkeypatch.setattr(actors, "ask", lost)
        fork = lockstep.fork(lane, "b1")
        lockstep.step([lane, fork])
        monkeypatch.undo()
        lockstep.step([other])
    assert (lane.fault, fork.fault, other.fault, len(other.walk.turns)) == ("lost", "lost", "", 2)


def test_a_killed_driver_goes_on(tmp_path):
    command = [sys.executable, "-m", "agent_envs", "eval"]
    begin = [*command, "SearchQA", "--agent", "heuristic", "-n", "60", "--concurrency", "4"]
    subprocess.run([*begin, "--out", tmp_path / "threads"], check=True, capture_output=True)
    with subprocess.Popen([*begin, "--out", tmp_path / "ray", "--backend", "ray"], stderr=subprocess.PIPE) as driver:
        journal, end = tmp_path / "ray" / "journal.jsonl", time.monotonic() + 240
        while not (journal.exists() and journal.read_bytes().count(b"\n") > 10):
            assert driver.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
    resumed = [*command, "--resume", tmp_path / "ray", "--backend", "ray", "--actors", "1", "--json"]
    done = subprocess.run(resumed, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["complete"]
    assert rows(journal) == rows(tmp_path / "threads" / "journal.jsonl")
