"""Clients that give up, steps that are slow and messages that fail: nobody else waits for them, and nothing is left behind."""

import json
import socket as sockets
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from tests.integrations import toys
from tests.serving.running import TOKENS, TOY, Socket, get, post, serving
from tests.serving.test_sessions import HINT, OTHER, ROW, wait_for


@pytest.fixture
def slow(monkeypatch):
    """The toy sleeps as long as an action or an episode key says: "sleep 0.5"."""
    begin, advance = toys.Guess._begin, toys.Guess._advance

    def sleep(words):
        if isinstance(words, str) and words.startswith("sleep "):
            time.sleep(float(words.split()[1]))

    monkeypatch.setattr(toys.Guess, "_begin", lambda env, task, key: (sleep(key), begin(env, task, key))[1])
    monkeypatch.setattr(
        toys.Guess, "_advance", lambda env, episode, action: (sleep(action), advance(env, episode, action))[1]
    )


def opened(server, **data):
    return post(server, "reset", **ROW, **data)[1]["metadata"]["session"]


def asks(server, route, **data):
    """A client over HTTP that has asked and reads no answer."""
    place, body = urlsplit(server.url), json.dumps(data)
    bare = sockets.create_connection((place.hostname, place.port), timeout=20)
    bare.sendall(f"POST /{route} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return bare


def drops(socket):
    """Drop a WebSocket without a word."""
    socket.socket.socket.shutdown(sockets.SHUT_RDWR)
    socket.socket.socket.close()


def test_a_client_that_has_nothing_more_to_say_gets_the_answer_to_a_step(slow):
    with serving() as server:
        bare = asks(server, "step", session=opened(server), action="sleep 0.3")
        bare.shutdown(sockets.SHUT_WR)
        assert bare.recv(4096).startswith(b"HTTP/1.1 200")
        bare.close()


@pytest.mark.parametrize("kind", ["reset", "reset_many", "fork", "restore"])
def test_a_client_that_gives_up_leaves_the_queue(kind):
    with serving(limits={"sessions": 2, "queue_seconds": 20.0}) as server, ThreadPoolExecutor(1) as threads:
        one, two = opened(server), opened(server)
        handle = post(server, "snapshot", session=one)[1]["snapshot"]
        data = {"reset_many": {"rows": [{}, {}]}, "fork": {"session": one}, "restore": {"snapshot": handle}}.get(
            kind, {}
        )
        asks_, talks = asks(server, kind, **data), Socket(server)
        talks.socket.send(json.dumps({"type": kind, "data": data}))
        wait_for(lambda: get(server, "health")[1]["queue"] == 2)
        live = threads.submit(post, server, "reset")
        wait_for(lambda: get(server, "health")[1]["queue"] == 3)
        asks_.close()
        drops(talks)
        wait_for(lambda: get(server, "health")[1]["queue"] == 1)
        post(server, "close", session=two)
        assert live.result(10)[0] == 200 and get(server, "health")[1]["sessions"] == 2


def test_a_session_whose_opening_nobody_was_told_ends(slow):
    with serving() as server:
        late = {"split": "test", "episode_key": "sleep 0.5"}
        bares, talks = [asks(server, "reset", **late), asks(server, "reset_many", rows=[late, {}])], Socket(server)
        talks.socket.send(json.dumps({"type": "reset_many", "data": {"rows": [late, {}]}}))
        wait_for(lambda: get(server, "health")[1]["sessions"] == 5)
        for bare in bares:
            bare.close()
        drops(talks)
        wait_for(lambda: get(server, "health")[1]["sessions"] == 0)
        wait_for(lambda: not len(server.served["Guess"].pool))
        with Socket(server) as told:
            names = [row["metadata"]["session"] for row in told.ask("reset_many", rows=[ROW, ROW])[1]["turns"]]
        assert [post(server, "step", session=name, action=HINT)[0] for name in names] == [200, 200]


def test_no_answer_waits_for_a_slow_step_of_another(slow):
    with serving() as server, ThreadPoolExecutor(3) as threads:
        sessions = [opened(server) for _ in range(3)]

        def timed(session, action):
            begin = time.monotonic()
            assert post(server, "step", session=session, action=action)[0] == 200
            return time.monotonic() - begin

        steps = []
        for session, action in zip(sessions, ("sleep 0.5", HINT, "sleep 4"), strict=True):
            steps.append(threads.submit(timed, session, action))
            time.sleep(0.1)
        assert steps[0].result() < 3 and steps[1].result() < 3 and steps[2].result() >= 4


def test_late_steps_of_a_message_share_one_deadline_and_keep_no_thread(slow):
    with serving(limits={"step_seconds": 0.5}) as server:
        sessions = [opened(server) for _ in range(7)]
        begin = time.monotonic()
        steps = [{"session": session, "index": 0, "action": "sleep 3"} for session in sessions[1:]]
        turns = post(server, "step_many", steps=steps)[1]["turns"]
        assert {turn["error"]["code"] for turn in turns} == {"DEADLINE"} and time.monotonic() - begin < 1.5
        assert post(server, "step", session=sessions[0], action=HINT)[0] == 200
        wait_for(lambda: get(server, "health")[1]["under_way"] == 0)
        again = post(server, "step_many", steps=steps)[1]["turns"]
        assert [turn["metadata"]["index"] for turn in again] == [1] * 6


def test_a_turn_from_a_snapshot_that_is_late_is_there_for_who_asks_again(slow):
    with serving(limits={"step_seconds": 0.3}) as server:
        handle = post(server, "begin", **ROW)[1]["snapshot"]
        act = {"snapshot": handle, "action": "sleep 1"}
        status, data = post(server, "act", **act)
        assert status == 504 and "ask" in data["message"] and "again" in data["message"]
        wait_for(lambda: post(server, "act", **act)[0] == 200)
        assert post(server, "act", **act | {"branch": "b"})[0] == 504
        for route in ("begin", "reset"):
            status, data = post(server, route, split="test", episode_key="sleep 1")
            assert status == 504 and "thrown away" in data["message"]
        wait_for(lambda: not len(server.served["Guess"].pool))
        assert get(server, "health")[1]["sessions"] == 0


def test_a_reset_that_fails_leaves_the_session_where_it_stood():
    with serving({TOY: {}, "SortExpA": {}}) as server, Socket(server) as socket:
        session = opened(server, episode_id="first")
        first = post(server, "step", session=session, index=0, action=HINT)
        for wrong in ({"task": "none"}, {"split": "none"}, {"seed": -1}, {"env": "SortExpA"}):
            assert post(server, "reset", session=session, episode_id="second", **wrong)[0] == 422, wrong
        assert post(server, "step", session=session, index=0, action=HINT) == first
        assert post(server, "state", session=session)[1]["episode_id"] == "first"
        assert post(server, "step", session=session, index=1, action=OTHER)[0] == 200
        assert post(server, "reset", session=session, seed=1)[1]["metadata"] == {"session": session, "index": 0}
        socket.ask("reset", **ROW)
        socket.ask("step", text=HINT)
        assert socket.ask("reset", task="none")[0] == "error" and socket.ask("state")[1]["step_count"] == 1
        assert len(server.served["Guess"].pool) == 2


def test_a_session_that_is_closed_while_it_begins_is_none(slow):
    with serving() as server, ThreadPoolExecutor(1) as threads:
        session = opened(server)
        reset = threads.submit(post, server, "reset", session=session, split="test", episode_key="sleep 1")
        wait_for(lambda: get(server, "health")[1]["under_way"] == 1)
        assert post(server, "close", session=session)[0] == 200
        assert reset.result()[0] == 404 and not len(server.served["Guess"].pool)


def test_rows_are_each_as_reset_takes_it():
    with serving({TOY: {}, "SortExpA": {}}) as server:
        rows = [{**ROW, "episode_id": "mine"}, {"env": "SortExpA", "seed": 0}]
        turns = post(server, "reset_many", rows=rows)[1]["turns"]
        session, other = (turn["metadata"]["session"] for turn in turns)
        assert post(server, "state", session=session)[1]["episode_id"] == "mine"
        assert "legal" in turns[1]["observation"]["info"] and "legal" not in turns[0]["observation"]["info"]
        assert post(server, "step", session=other, action=0)[1]["metadata"]["index"] == 1
        assert "legal" in post(server, "reset_many", env="SortExpA", rows=[{}])[1]["turns"][0]["observation"]["info"]
        assert post(server, "reset_many", rows=[{"session": session}])[0] == 422


def test_a_restore_that_is_refused_leaves_the_last_turn():
    with serving({TOY: {}, "SortExpA": {}}, tokens=TOKENS, exporters=frozenset(TOKENS)) as server:
        one = TOKENS["one"]
        session = post(server, "reset", one, **ROW)[1]["metadata"]["session"]
        last = post(server, "step", one, session=session, index=0, action=HINT)
        handle = post(server, "begin", one, env="SortExpA")[1]["snapshot"]
        wrong = post(server, "export", one, snapshot=handle)[1]["bytes"]
        for name in (session, None):
            assert post(server, "restore", one, bytes=wrong, env="Guess", session=name)[0] == 422
        assert post(server, "step", one, session=session, index=0, action=HINT) == last
        assert get(server, "health", token=one)[1]["sessions"] == len(server.served["Guess"].pool) == 1


def test_who_repeats_a_turn_while_its_session_is_restored_is_asked_to_wait(slow):
    with serving() as server, ThreadPoolExecutor(2) as threads:
        session, other = opened(server), opened(server)
        post(server, "step", session=session, index=0, action=HINT)
        handle = post(server, "snapshot", session=session)[1]["snapshot"]
        hold = threads.submit(post, server, "step", session=other, action="sleep 1.5")
        wait_for(lambda: get(server, "health")[1]["under_way"] == 1)
        back = threads.submit(post, server, "restore", snapshot=handle, session=session)
        wait_for(lambda: get(server, "health")[1]["under_way"] == 2)
        assert post(server, "step", session=session, index=0, action=HINT)[1]["code"] == "BUSY"
        assert back.result()[1]["index"] == 1 and hold.result()[0] == 200
        assert post(server, "step", session=session, index=0, action=HINT)[0] == 200


def test_a_fork_that_waits_for_room_goes_on_from_the_moment_at_which_it_was_asked_for():
    with serving(limits={"sessions": 2, "queue_seconds": 10.0}) as server, ThreadPoolExecutor(1) as threads:
        session, other = opened(server), opened(server)
        fork = threads.submit(post, server, "fork", session=session, n=1)
        wait_for(lambda: get(server, "health")[1]["queue"] == 1)
        post(server, "step", session=session, action=HINT)
        post(server, "close", session=session)
        status, data = fork.result()
        assert status == 200 and post(server, "state", session=data["sessions"][0])[1]["step_count"] == 0
        assert post(server, "close", session=other)[0] == 200


def test_the_idle_time_of_a_session_begins_with_its_answer(slow):
    with serving(limits={"idle_seconds": 1.0}) as server:
        session = opened(server)
        assert post(server, "step", session=session, index=0, action="sleep 2")[0] == 200
        time.sleep(0.4)
        assert post(server, "step", session=session, index=1, action=HINT)[0] == 200


def test_snapshots_are_bounded_by_their_texts():
    with serving(limits={"snapshot_bytes": 2**20}) as server:
        small = [post(server, "begin", **ROW)[1]["snapshot"] for _ in range(20)]
        assert get(server, "health")[1]["snapshots"] == 20
        large = [post(server, "act", snapshot=small[-1], action="x" * 200_000)[1]["snapshot"] for _ in range(9)]
        assert get(server, "health")[1]["snapshots"] <= 3
        assert (
            post(server, "restore", snapshot=large[0])[0] == 404
            and post(server, "restore", snapshot=large[-1])[0] == 200
        )
        chain = [large[-1]]
        for _ in range(3):  # each holds the texts of those before it
            chain.append(post(server, "act", snapshot=chain[-1], action="x" * 100_000)[1]["snapshot"])
        assert get(server, "health")[1]["snapshots"] == 1


def test_what_json_has_not_costs_no_turn(monkeypatch):
    import numpy as np

    odd = {"nan": float("nan"), "single": np.float32(1.5), "set": {1}, "array": np.zeros(2), "object": object()}
    before = toys.Guess._extras
    monkeypatch.setattr(
        toys.Guess,
        "_extras",
        lambda env, episode: {
            **before(env, episode),
            "extra": odd.get(episode.turns[-1].action if episode.turns else ""),
        },
    )
    with serving() as server, Socket(server) as socket:
        sessions = [opened(server) for _ in range(6)]
        steps = [
            {"session": session, "index": 0, "action": action}
            for session, action in zip(sessions, (HINT, *odd), strict=True)
        ]
        status, data = post(server, "step_many", steps=steps)
        extras = [turn["observation"]["info"]["extra"] for turn in data["turns"]]
        assert status == 200 and extras == [None, None, 1.5, [1], [0.0, 0.0], "<object>"]
        socket.ask("reset", **ROW)
        assert socket.ask("step", text="set")[1]["observation"]["info"]["extra"] == [1]


def test_what_escapes_is_json_and_in_the_log(monkeypatch):
    lines = []
    with serving(tell=lines.append) as server, Socket(server) as socket:
        monkeypatch.setattr(server, "_view", lambda caller, name: 1 / 0)
        refusal = {"message": "the server failed; its log says why", "code": "INTERNAL", "retryable": False}
        assert get(server, "schema") == (500, refusal) and socket.ask("schema") == ("error", refusal)
        assert lines == ["failed: ZeroDivisionError: division by zero"] * 2
