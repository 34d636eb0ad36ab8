"""Sessions and snapshots: clients see what an environment shows, a turn is taken once, and a full server lets them wait."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest

from agent_envs import EnvFault, fork
from tests.integrations import toys
from tests.serving.running import TOKENS, TOY, Socket, get, post, serving
from tests.toy import ID

HINT, OTHER = "<compare>50</compare>", "<compare>20</compare>"
ROW = {"task": 3, "split": "test", "seed": 5}


@pytest.fixture(scope="module")
def server():
    with serving({TOY: {}, "SortExpA": {}}) as running:
        yield running


def local(actions, **row):
    """What an environment of one's own shows: texts and rewards."""
    env = gym.make(ID)
    row = ROW | row
    text, _ = env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})
    return [(text, None), *((text, reward) for text, reward, *_ in map(env.step, actions))]


def seen(data):
    return "\n\n".join(message["content"] for message in data["observation"]["messages"]), data["reward"]


def test_a_socket_plays_an_episode_as_openenvs_clients_do(server):
    with Socket(server) as socket:
        kind, data = socket.ask("step", text=HINT)
        assert kind == "error" and data["code"] == "SESSION_ERROR" and "send reset first" in data["message"]
        answers = [
            socket.ask("reset", **ROW, episode_id="mine"),
            *(socket.ask("step", text=text) for text in (HINT, OTHER)),
        ]
        assert {kind for kind, _ in answers} == {"observation"}
        assert [seen(data) for _, data in answers] == local([HINT, OTHER])
        assert socket.ask("state")[1] | {"session": ""} == {"episode_id": "mine", "step_count": 2, "session": ""}
        _, data = socket.ask("step", text="<answer>0</answer>")
        assert data["done"] and data["observation"]["end"] == "terminated" and not data["observation"]["success"]
        assert "the episode is over" in socket.ask("step", text=HINT)[1]["message"]
        assert not socket.ask("reset", seed=1)[1]["done"] and get(server, "health")[1]["sessions"] == 1
        socket.socket.send(json.dumps({"type": "close"}))
        with pytest.raises(Exception, match="1000"):
            socket.socket.recv(10)
    wait_for(lambda: get(server, "health")[1]["sessions"] == 0)


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def test_a_path_or_a_message_names_the_environment(server):
    assert get(server, "list_environments")[1] == ["Guess", "SortExpA"]
    assert get(server, "sortexpa/schema")[1]["action"]["properties"]["text"]["anyOf"][1]["type"] == "integer"
    with Socket(server, "/SortExpA") as socket:
        _, data = socket.ask("reset", seed=0)
        assert 0 in data["observation"]["info"]["legal"]
        _, data = socket.ask("step", text=data["observation"]["info"]["legal"][1])
        assert data["observation"]["info"]["turn"] == 1 and not data["observation"]["info"]["events"]
        assert (
            "higher"
            in seen(socket.ask("reset", env="Guess", **ROW) and socket.ask("step", text="<compare>1</compare>")[1])[0]
        )
        assert "give one of" in socket.ask("reset", env="Chess")[1]["message"]
    assert get(server, "chess/schema") == (404, {"message": "no environment 'chess'; there are Guess, SortExpA"})
    assert get(server, "Guess/splits")[1][1] == {"name": "dev", "type": "validation"}
    assert post(server, "Guess/num_tasks", split="test") == (200, {"num_tasks": 10})
    assert post(server, "Guess/task", split="test", index=3)[1] == {
        "task": {"id": "test-3", "split": "test", "index": 3}
    }
    assert post(server, "Guess/task", split="test", index=99)[0] == 422
    assert get(server, "metadata")[1]["name"] == "Guess"


def test_http_has_the_same_messages(server):
    status, data = post(server, "reset", **ROW)
    session = data["metadata"]["session"]
    assert status == 200 and seen(data) == local([])[0] and data["metadata"]["index"] == 0
    assert post(server, "step", action={"text": HINT}) == (
        404, {"message": "no episode yet; send reset first", "code": "SESSION_ERROR", "retryable": False},
    )  # fmt: skip
    status, data = post(server, "step", action={"text": HINT}, session=session, timeout_s=3, request_id="r")
    assert status == 200 and seen(data) == local([HINT])[1]
    assert get(server, f"state?session={session}")[1]["step_count"] == 1
    assert post(server, "close", session=session) == (200, {"session": session})
    assert post(server, "step", action={"text": HINT}, session=session)[0] == 404


def test_what_a_model_wrote_as_json_is_its_text(server):
    with Socket(server) as socket:
        socket.ask("reset", **ROW)
        for value, text in ((5, "5"), (True, "true"), ([1], "[1]"), ("", "")):
            _, data = socket.ask("step", text=value)
            assert "Say <compare>" in seen(data)[0], text
        assert "Say <compare>" in seen(socket.ask("step", name="compare", arguments={"number": 3})[1])[0]
        for data in ({}, {"text": None}):
            assert socket.ask("step", **data)[1]["code"] == "VALIDATION_ERROR"
        assert socket.ask("state")[1]["step_count"] == 5


def test_a_turn_is_taken_once(server):
    session = post(server, "reset", **ROW)[1]["metadata"]["session"]
    first = post(server, "step", session=session, index=0, action=HINT)
    again = post(server, "step", session=session, index=0, action=HINT)
    assert first == again and first[1]["metadata"]["index"] == 1
    assert post(server, "state", session=session)[1]["step_count"] == 1
    for index, action in ((0, OTHER), (2, HINT), (7, HINT)):
        status, data = post(server, "step", session=session, index=index, action=action)
        assert status == 409 and data["code"] == "CONFLICT" and not data["retryable"], index
    for index in (-1, "0", 1.5, True, 2**40):
        assert post(server, "step", session=session, index=index, action=HINT)[0] == 422
    assert post(server, "step", session=session, index=1, action=OTHER)[0] == 200
    assert post(server, "step", session=session, index=0, action=HINT)[0] == 409  # only the last turn is kept
    with Socket(server) as socket:  # as metadata, where the message is the action
        socket.ask("reset", **ROW)
        one, two = (socket.ask("step", text=HINT, metadata={"index": 0}) for _ in range(2))
        assert one == two and socket.ask("state")[1]["step_count"] == 1


def test_one_message_steps_many_and_each_has_its_own_answer(server):
    _, data = post(server, "reset_many", rows=[ROW, {"task": 99, "split": "test"}, ROW | {"task": 4}, {"seed": -1}])
    good, wrong, other, negative = data["turns"]
    assert (
        wrong["error"]["code"] == negative["error"]["code"] == "VALIDATION_ERROR"
        and "no task 99" in wrong["error"]["message"]
    )
    names = [turn["metadata"]["session"] for turn in (good, other)]
    steps = [{"session": names[0], "action": HINT}, {"session": "none", "action": HINT}, {"session": names[1], "action": HINT},
             {"session": names[0], "action": HINT}, {"session": names[1]}]  # fmt: skip
    _, data = post(server, "step_many", steps=steps)
    one, missing, two, twice, empty = data["turns"]
    assert seen(one) == local([HINT])[1] and seen(two) == local([HINT], task=4)[1]
    assert [row["error"]["code"] for row in (missing, twice)] == ["SESSION_ERROR", "BUSY"]
    for rows in ([], [5], "x", [{}] * 5000, None):
        assert post(server, "step_many", steps=rows)[0] == 422
    for name in names:
        post(server, "close", session=name)


def test_forks_and_snapshots_go_on_from_where_a_session_stands(server):
    with Socket(server) as socket:
        socket.ask("reset", **ROW, episode_key="k")
        socket.ask("step", text=HINT)
        handle = socket.ask("snapshot")[1]["snapshot"]
        twins = socket.ask("fork", n=2)[1]["sessions"]
        branches = socket.ask("fork", n=2, branch="b")[1]["sessions"]
        luck = [
            seen(socket.ask("step", session=name, action="<luck>x</luck>")[1])[0] for name in ("", *twins, *branches)
        ]
        assert luck[0] == luck[1] == luck[2] and len(set(luck)) == 3
        env = gym.make(ID)
        env.reset(seed=5, options={"task": 3, "split": "test", "episode_key": "k"})
        env.step(HINT)
        assert luck[3] == fork(env, branch="b0").step("<luck>x</luck>")[0]
        assert socket.ask("restore", snapshot=handle, session=twins[0])[1] == {"session": twins[0], "index": 1}
        assert seen(socket.ask("step", session=twins[0], action="<luck>x</luck>", index=1)[1])[0] == luck[0]
        opened = socket.ask("restore", snapshot=handle)[1]["session"]
        assert (
            socket.ask("step", session=opened, index=0, action=HINT)[1]["metadata"]["index"] == 1
        )  # what was taken before
        assert socket.ask("restore", snapshot="none")[1]["code"] == "SESSION_ERROR"
        assert socket.ask("fork", n=0)[1]["code"] == socket.ask("fork", branch="a b")[1]["code"] == "VALIDATION_ERROR"
        assert post(server, "SortExpA/restore", snapshot=handle, session=post(
            server, "SortExpA/reset")[1]["metadata"]["session"])[0] == 422  # fmt: skip
    assert post(server, "step", session=opened, action=OTHER)[0] == 200  # a socket's own session alone ends with it
    for name in (opened, *twins, *branches):
        assert post(server, "close", session=name)[0] == 200


def test_a_full_server_lets_clients_wait_and_says_so():
    with serving(limits={"sessions": 2, "queue_seconds": 5.0}) as server, ThreadPoolExecutor(4) as threads:
        first, second = (post(server, "reset", seed=0)[1]["metadata"]["session"] for _ in range(2))
        late = [threads.submit(post, server, "reset", seed=1) for _ in range(2)]
        wait_for(lambda: get(server, "health")[1]["queue"] == 2)
        post(server, "close", session=first)
        wait_for(lambda: get(server, "health")[1]["queue"] == 1)
        post(server, "close", session=second)
        assert [future.result()[0] for future in late] == [200, 200]
        assert post(server, "fork", session=late[0].result()[1]["metadata"]["session"], n=3)[0] == 422
    with serving(limits={"sessions": 1, "queue_seconds": 0.2}) as server:
        post(server, "reset", seed=0)
        status, data = post(server, "reset", seed=1)
        assert status == 503 and data["code"] == "CAPACITY_REACHED" and data["retryable"]
        assert "1 of 1 sessions are open" in data["message"] and "waited 0.2 s" in data["message"]
        with Socket(server) as socket:
            assert socket.ask("reset")[1]["code"] == "CAPACITY_REACHED"


def test_a_reset_that_fails_leaves_no_session(server):
    before = get(server, "health")[1]["sessions"]
    with Socket(server) as socket:
        for wrong in (
            {"split": "none"},
            {"task": 99},
            {"seed": "x"},
            {"episode_key": 5},
            {"task": [1]},
            {"index": 2**80},
        ):
            assert socket.ask("reset", **wrong)[1]["code"] == "VALIDATION_ERROR", wrong
            assert get(server, "health")[1]["sessions"] == before
        assert socket.ask("reset", **ROW)[0] == "observation"


def test_what_nobody_names_ends():
    lines = []
    with serving(limits={"idle_seconds": 0.4}, tell=lines.append) as server, Socket(server) as socket:
        socket.ask("reset", seed=0)
        session = post(server, "reset", seed=0)[1]["metadata"]["session"]
        handle = post(server, "snapshot", session=session)[1]["snapshot"]
        with pytest.raises(Exception, match="idle for too long"):
            socket.socket.recv(10)
        wait_for(lambda: get(server, "health")[1]["sessions"] == get(server, "health")[1]["snapshots"] == 0)
        assert (
            post(server, "step", session=session, action=HINT)[0] == post(server, "restore", snapshot=handle)[0] == 404
        )
        assert get(server, "health")[1]["idle"] >= 2 and not len(server.served["Guess"].pool)


def test_a_step_that_takes_too_long_goes_on_and_is_told_later(monkeypatch):
    before, hold = toys.Guess._advance, threading.Event()

    def advance(env, episode, action):
        if action == "wait":
            hold.wait(20)
        return before(env, episode, HINT if action == "wait" else action)

    monkeypatch.setattr(toys.Guess, "_advance", advance)
    with serving(limits={"step_seconds": 0.3}) as server:
        session, other = (post(server, "reset", **ROW)[1]["metadata"]["session"] for _ in range(2))
        status, data = post(server, "step", session=session, index=0, action="wait")
        assert status == 504 and data["code"] == "DEADLINE" and data["retryable"]
        assert post(server, "step", session=session, action=HINT)[1]["code"] == "BUSY"
        assert post(server, "step", session=other, action=HINT)[0] == 200  # another thread takes the place
        assert post(server, "snapshot", session=session)[1]["code"] == "BUSY"
        hold.set()
        wait_for(lambda: post(server, "step", session=session, index=0, action="wait")[0] == 200)
        status, data = post(server, "step", session=session, index=0, action="wait")
        assert seen(data) == local([HINT])[1] and data["metadata"]["index"] == 1
        hold.clear()
        with Socket(server) as socket:  # who gives up on an episode gets another
            socket.ask("reset", **ROW)
            assert socket.ask("step", text="wait")[1]["code"] == "DEADLINE"
            assert socket.ask("reset", **ROW)[0] == "observation" and socket.ask("step", text=HINT)[0] == "observation"
        hold.set()
        wait_for(lambda: len(server.served["Guess"].pool) == 2)


def test_a_fault_is_told_and_no_turn_is_taken(monkeypatch):
    before, lines, away = toys.Guess._advance, [], [True]

    def advance(env, episode, action):
        if action == "fail" and away:
            raise EnvFault("the judge is away")
        if action == "break":
            raise KeyError("secret of the house")
        if action == "exit":
            raise SystemExit(3)
        return before(env, episode, HINT)

    monkeypatch.setattr(toys.Guess, "_advance", advance)
    with serving(tell=lines.append) as server, Socket(server) as socket:
        socket.ask("reset", **ROW)
        _, data = socket.ask("step", text="fail")
        assert data["code"] == "EXECUTION_ERROR" and data["retryable"] and "the judge is away" in data["message"]
        assert socket.ask("state")[1]["step_count"] == 0
        away.clear()
        assert seen(socket.ask("step", text="fail")[1]) == local([HINT])[1]
        _, data = socket.ask("step", text="break")
        assert data == {"message": "the server failed; its log says why", "code": "INTERNAL", "retryable": False}
        for _ in range(2):  # nor does it take the thread of the others with it
            assert socket.ask("step", text="exit")[1]["code"] == "INTERNAL"
        assert lines.pop() == lines.pop() == "failed: RuntimeError: the environment raised SystemExit"
        assert (
            lines == ["failed: KeyError: 'secret of the house'"] and socket.ask("step", text=HINT)[0] == "observation"
        )


def test_a_snapshot_is_forgotten_for_a_newer_one_of_the_same_token():
    with serving(limits={"snapshots": 2}, tokens=TOKENS) as server:
        one, two = TOKENS.values()
        session = post(server, "reset", one, **ROW)[1]["metadata"]["session"]
        other = post(server, "reset", two, **ROW)[1]["metadata"]["session"]
        handles = [post(server, "snapshot", one, session=session)[1]["snapshot"] for _ in range(2)]
        kept = post(server, "snapshot", two, session=other)[1]["snapshot"]
        assert post(server, "restore", one, snapshot=handles[0])[0] == 200  # named last now
        handles.append(post(server, "snapshot", one, session=session)[1]["snapshot"])
        assert [post(server, "restore", one, snapshot=handle)[0] for handle in handles] == [200, 404, 200]
        assert post(server, "restore", two, snapshot=kept)[0] == 200
