"""Clients that are slow, half open, many, or gone: none of them keeps the others from being served."""

import asyncio
import json
import os
import resource
import signal
import socket as sockets
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from agent_envs.serving import server as served
from agent_envs.tools import listening
from tests import ROOT
from tests.serving.running import Socket, get, post, serving
from tests.serving.test_sessions import HINT, wait_for

UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def opened(server, text=UPGRADE):
    """A bare connection that has sent a text, and the first line of the answer, if one is due."""
    place = urlsplit(server.url)
    bare = sockets.create_connection((place.hostname, place.port), timeout=20)
    bare.sendall(text.encode())
    return bare


def closes(bare, seconds=10):
    bare.settimeout(seconds)
    try:
        while bare.recv(65536):
            pass
    except ConnectionError:
        pass
    bare.close()
    return True


def frame(text):
    data = text.encode()
    size = bytes([len(data) | 0x80]) if len(data) < 126 else bytes([126 | 0x80]) + len(data).to_bytes(2, "big")
    return b"\x81" + size + b"\0\0\0\0" + data


def test_slow_requests_and_handshakes_end(monkeypatch):
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(listening, "LINGER_SECONDS", 0.2)
    with serving() as server:
        half = "POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        for text in ("", "GET /health HTTP/1.1\r\nHo", UPGRADE[:-2], half):
            assert closes(opened(server, text)), text
        assert get(server, "health")[0] == 200


def test_a_socket_outlives_the_clock_of_its_handshake(monkeypatch):
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(listening, "LINGER_SECONDS", 0.1)
    with serving() as server, Socket(server) as socket:
        time.sleep(0.8)
        assert socket.ask("reset", seed=0)[0] == "observation"


def test_half_open_clients_lose_their_session(monkeypatch):
    """Neither who answers no ping, nor who stops in the middle of a frame, nor who reads no answer keeps a place."""
    monkeypatch.setattr(served, "PING_SECONDS", 0.5)
    with serving(limits={"sessions": 3}) as server:
        bares = []
        for tail in (b"", b"\x81\xfe\x00", frame('{"type":"state"}') * 20_000):
            bare = opened(server)
            assert b"101" in bare.recv(4096)
            bare.sendall(frame('{"type":"reset"}'))
            wait_for(lambda: get(server, "health")[1]["sessions"] == len(bares) + 1)  # noqa: B023 - called at once
            bare.settimeout(0.2)
            try:
                bare.sendall(tail)
            except TimeoutError:
                pass  # the server reads no further
            bares.append(bare)
        wait_for(lambda: get(server, "health")[1]["sessions"] == 0)
        for bare in bares:
            bare.close()


def test_a_client_that_is_killed_gives_its_place_back():
    with serving(limits={"sessions": 1}) as server:
        place = urlsplit(server.url).netloc
        script = (
            "import json, sys, time\nfrom websockets.sync.client import connect\n"
            f"with connect('ws://{place}/ws', proxy=None) as socket:\n"
            "    socket.send(json.dumps({'type': 'reset'})); socket.recv(); print('open', flush=True); time.sleep(60)"
        )
        client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        with client:
            assert client.stdout.readline() == "open\n"
            os.kill(client.pid, signal.SIGKILL)
            client.wait(10)
        wait_for(lambda: get(server, "health")[1]["sessions"] == 0)
        assert post(server, "reset")[0] == 200


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_connects(many_files):
    async def play(address, gate):
        async with gate, connect(address, proxy=None, open_timeout=60, ping_interval=None) as socket:
            await socket.send('{"type":"reset","data":{"seed":0}}')
            first = json.loads(await asyncio.wait_for(socket.recv(), 60))
            await socket.send(json.dumps({"type": "step", "data": {"text": HINT}}))
            second = json.loads(await asyncio.wait_for(socket.recv(), 60))
            return first["type"], second["data"]["metadata"]["index"]

    async def all_of_them(address):
        gate = asyncio.Semaphore(250)  # at once; each leaves after its turn
        return await asyncio.gather(*(play(address, gate) for _ in range(1000)))

    with serving(limits={"sessions": 200}) as server:
        played = asyncio.run(all_of_them(f"ws://{urlsplit(server.url).netloc}/ws"))
        assert set(played) == {("observation", 1)} and len(played) == 1000
        wait_for(lambda: get(server, "health")[1]["sessions"] == 0)
        assert not len(server.served["Guess"].pool) and get(server, "health")[1]["turns"] == 1000


def test_a_thousand_open_connections_beside_one_that_plays(many_files):
    with serving() as server:
        bares = [opened(server) for _ in range(1000)]
        with Socket(server) as socket:
            assert socket.ask("reset", seed=0)[0] == "observation" and socket.ask("step", text=HINT)[0] == "observation"
        for bare in bares:
            bare.close()
        wait_for(lambda: len(server._server.server_state.connections) <= 1)


def test_many_threads_step_one_session():
    """However many ask at once with an index, the turn is taken once."""
    with serving() as server:
        session = post(server, "reset", seed=0)[1]["metadata"]["session"]
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(post(server, "step", session=session, index=0, action=HINT)))
            for _ in range(24)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({json.dumps(answer) for answer in answers}) == 1 and answers[0][0] == 200
        assert post(server, "state", session=session)[1]["step_count"] == 1


def test_a_burst_of_connections_keeps_to_their_bound(monkeypatch):
    """Those that came last stay, and one that asked is not among those that make room."""
    monkeypatch.setattr(served._EnvConnection, "most", 50)
    with serving() as server:
        session = post(server, "reset", seed=0)[1]["metadata"]["session"]
        bares = [opened(server, "") for _ in range(400)]
        wait_for(lambda: len(server._server.server_state.connections) <= 50)
        assert post(server, "step", session=session, action=HINT)[0] == 200
        for bare in bares[:300]:
            assert closes(bare)
        with Socket(server) as socket:
            assert socket.ask("reset", seed=0)[0] == "observation"
            for _ in range(100):
                bares.append(opened(server, ""))
            assert socket.ask("step", text=HINT)[0] == "observation"
        for bare in bares[300:]:
            bare.close()
        wait_for(lambda: not server._server.server_state.waiting)


def test_connections_beyond_the_bound_cost_no_look_at_the_others(monkeypatch):
    """However many there are, one more makes the server look at one of them."""
    looks = []
    at_work = listening.Connection._at_work
    monkeypatch.setattr(listening.Connection, "_at_work", property(lambda one: (looks.append(1), at_work.fget(one))[1]))
    monkeypatch.setattr(served._EnvConnection, "most", 200)
    with serving() as server:
        bares = [opened(server, "") for _ in range(600)]
        assert get(server, "health")[0] == 200
        for bare in bares:
            bare.close()
    assert len(looks) < 5_000
