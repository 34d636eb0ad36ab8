"""The first words of a live model: one request for all episodes of a task and seed, and all of it free behind them."""

import threading
from itertools import count

import gymnasium as gym
import pytest

from agent_envs import EnvFault, UsageError, run_episode
from agent_envs.base.messages import ToolCall
from agent_envs.core.trajectory import TrajectoryTree
from agent_envs.rollout.policy import NullPolicy
from agent_envs.services.chat import ChatReply, ScriptedChat
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import OpenAIWire, Said

KEYS = ("a", "b", "c", "d")


def fickle():
    """A model that says something else every time."""
    number = count()
    return lambda request: f"Hello, this is my {next(number)}. order."


def served(**faults):
    script = fickle()
    return FaultyServer(OpenAIWire(lambda body: Said(script(body))), **faults)


def env_of(user, name="Retail", **arguments):
    return gym.make(f"agent_envs/Tau2{name}-v0", user=user, **arguments)


def by_name(server, name="Retail", **arguments):
    return env_of(f"openai:m@{server.url}", name, **arguments)


def started(env, key="a", seed=0, task=0):
    return env.reset(seed=seed, options={"task": task, "split": "test", "episode_key": key})[0]


def test_the_members_of_a_group_share_their_first_words_and_one_request():
    with served() as server:
        env = by_name(server)
        first = {started(env, key) for key in KEYS}
        assert len(first) == server.count == 1
        started(by_name(server), "e")  # another environment of the same arguments
        assert server.count == 1
        other = {started(env, key, **place) for place in ({"seed": 1}, {"task": 1}) for key in KEYS}
        manners = {started(by_name(server, persona="terse"), key) for key in KEYS}
        assert server.count == 4 and len(first | other | manners) == 4


def test_a_group_is_one_tree():
    with served() as server:
        env = by_name(server, max_agent_turns=3)
        played = [run_episode(env, NullPolicy(), seed=0, task=0, split="test", episode_key=key) for key in KEYS]
        tree = TrajectoryTree(played[0].trajectory.header, played[0].trajectory.prompt)
        for result in played:
            tree.add(result.trajectory)
        assert len(tree.nodes) == sum(len(result.trajectory.turns) for result in played)
        with pytest.raises(UsageError, match="does not start at this tree's root"):
            tree.add(run_episode(env, NullPolicy(), seed=1, task=0, split="test").trajectory)


def test_what_follows_is_asked_for_every_time():
    with served() as server:
        env = by_name(server)
        answers = []
        for key in (*KEYS, "a"):
            started(env, key)
            answers.append(env.step("Who are you, please?")[0])
        assert len(set(answers)) == 5 and server.count == 6


def test_what_a_user_does_before_its_first_words_is_shared_too():
    script = fickle()

    def model(request):
        looked = any(message["role"] == "tool" for message in request.messages)
        return script(request) if looked else ChatReply("", (ToolCall("x", "check_status_bar", "{}"),))

    asked = []
    env = env_of(ScriptedChat(lambda request: asked.append(request) or model(request)), "Telecom")
    assert len({started(env, key) for key in KEYS}) == 1 and len(asked) == 2


def test_threads_wait_for_one_request():
    met, first = threading.Barrier(len(KEYS)), []

    def play(key):
        env = by_name(server)
        met.wait(10)
        first.append(started(env, key))

    with served() as server:
        threads = [threading.Thread(target=play, args=(key,)) for key in KEYS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(first) == len(KEYS) and len(set(first)) == server.count == 1


def test_a_failed_call_is_not_remembered():
    with served(faults=lambda number: "bad_request" if number == 0 else None) as server:
        env = by_name(server)
        with pytest.raises(EnvFault, match="no such field"):
            started(env)
        assert len({started(env, key) for key in KEYS}) == 1 and server.count == 2


def test_an_opening_that_ends_the_conversation_is_a_fault_and_not_remembered():
    script, asked = fickle(), []
    model = ScriptedChat(lambda request: asked.append(1) or ("###STOP###" if len(asked) == 1 else script(request)))
    env = env_of(model)
    with pytest.raises(EnvFault, match="over before the first turn") as caught:
        started(env)
    assert caught.value.retryable and "0. order" in started(env) == started(env, "b") and len(asked) == 2


def test_a_model_that_is_an_object_shares_its_own_words_alone():
    one, other = ScriptedChat(fickle()), ScriptedChat(lambda request: "I am somebody else.")
    assert "0. order" in started(env_of(one)) == started(env_of(one), "b")
    assert "somebody else" in started(env_of(other))

    class Unhashable(ScriptedChat):
        __hash__ = None

    env = env_of(Unhashable(fickle()))
    assert "0. order" in started(env) == started(env, "b")


def test_recordings_hold_the_first_words_whatever_was_said_live(tmp_path):
    path = tmp_path / "r.jsonl"
    with served() as server:
        env = by_name(server)
        live = started(env)
        with Recording(path, "record") as recording:
            env.unwrapped.services = Services(recording)
            recorded = {started(env, key) for key in KEYS}
            answers = [env.step("Who are you, please?")[0]]
        assert len(recorded) == 1 and live not in recorded and server.count == 3
        env.unwrapped.services = Services(Recording(path, "replay"))
        assert {started(env, key) for key in KEYS} == recorded
        assert [env.step("Who are you, please?")[0]] == answers
        env.unwrapped.services = Services()
        assert started(env) == live and server.count == 3
