"""The retriever server: both formats, who may ask, and how it lives and ends."""

import asyncio
import http.client
import importlib
import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from agent_envs.base.documents import Hit, Passage
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.tools.retrieval.server import RetrieverServer
from tests.retriever_server import running_server
from tests.tools.retrieval.remote.conftest import CORPUS, ask, raw

TOKEN = "0123456789abcdef0123456789abcdef"


def test_both_formats_give_the_retrievers_hits(url, bm25):
    expected = [
        {
            "document": {"id": hit.passage.id, "contents": f'"{hit.passage.title}"\n{hit.passage.text}'},
            "score": hit.score,
        }
        for hit in bm25.search("engineer bridge", 2)
    ]
    assert len(expected) == 2
    several = {"queries": ["engineer bridge", "zzz"], "topk": 2, "return_scores": True}
    assert ask(url, several)[:2] == (200, {"result": [expected, []]})
    one = {"query": "engineer bridge", "topk": 2, "return_scores": True}
    assert ask(url, one)[:2] == (200, {"result": [expected]})
    bare = {"query": "engineer bridge", "topk": 1}
    assert ask(url, bare)[:2] == (200, {"result": [[expected[0]["document"]]]})


def test_a_title_of_two_lines_travels_beside_the_contents(url):
    document = ask(url, {"query": "flag"})[1]["result"][0][0]
    assert document == {
        "id": "p2",
        "contents": '"Two\nlines"\nA flag of Mor.',
        "title": "Two\nlines",
        "text": "A flag of Mor.",
    }


def test_health_names_what_is_served(url, bm25):
    expected = {"status": "ok", "retriever": bm25.name, "passages": 3, "corpus": CORPUS.digest}
    assert ask(url, None, "/health", "GET")[:2] == (200, expected)


def test_a_connection_is_kept(url):
    client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    client.connect()
    kept = client.sock
    for _ in range(3):
        client.request("POST", "/retrieve", b'{"query": "bridge"}')
        assert json.loads(client.getresponse().read())["result"][0][0]["id"] == "p0"
        client.request("POST", "/retrieve", b"{")
        answer = client.getresponse()
        assert answer.status == 400 and answer.read() and client.sock is kept
    client.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io", "", "[::2]"]
)
def test_a_page_that_was_rebound_to_this_machine_is_refused(url, host):
    assert ask(url, {"query": "bridge"}, Host=host)[0] == 403


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1", "127.0.0.1:8000", "[::1]:8000"])
def test_names_of_this_machine_are_served(url, host):
    assert ask(url, {"query": "bridge"}, Host=host)[0] == 200


def test_a_page_of_another_site_may_not_ask(url):
    for origin, status in (("http://localhost:3000", 200), ("https://evil.example", 403), ("null", 403), ("", 403)):
        assert ask(url, {"query": "bridge"}, Origin=origin, Content_Type="text/plain")[0] == status


def test_a_token_is_asked_for_everywhere(bm25):
    with running_server(bm25, CORPUS, host="0.0.0.0", token=TOKEN) as url:
        url = url.replace("0.0.0.0", "127.0.0.1")
        good = f"Bearer {TOKEN}"
        for wrong in (
            None,
            TOKEN,
            f"Bearer {TOKEN[:-1]}",
            f"Bearer {TOKEN}0",
            "Bearer ",
            f"Basic {TOKEN}",
            f"Bearer  {TOKEN}",
            "Bearer é",
        ):
            headers = {} if wrong is None else {"Authorization": wrong}
            status, answer, sent = ask(url, {"query": "bridge"}, **headers)
            assert (status, sent["WWW-Authenticate"]) == (401, "Bearer") and TOKEN not in str(answer)
            assert ask(url, None, "/health", "GET", **headers)[0] == 401
        assert ask(url, {"query": "bridge"}, Authorization=good)[0] == 200
        assert ask(url, {"query": "bridge"}, Authorization=f"bearer {TOKEN}")[0] == 200  # RFC 9110, section 11.1
        assert ask(url, {"query": "bridge"}, Authorization=good, Host="search.example")[0] == 200


def test_what_is_not_served(bm25):
    for host in ("0.0.0.0", "", "::", "192.0.2.1", "example.com"):
        with pytest.raises(UsageError, match="give a token"):
            RetrieverServer(bm25, host=host, port=0)
    for token in ("", "short", TOKEN[:-1], "é" * 40, "a\n" * 40):
        with pytest.raises(UsageError, match="at least 32"):
            RetrieverServer(bm25, token=token, port=0)
    with running_server(bm25) as url, pytest.raises(UsageError, match="cannot serve at 127.0.0.1, port"):
        RetrieverServer(bm25, port=urlsplit(url).port)
    with pytest.raises(UsageError, match="cannot serve"):
        RetrieverServer(bm25, port=70_000)


class Broken:
    """A retriever that fails as it is told by the query."""

    name = "broken"

    def search(self, query, top_k, *, support=(), seed=""):
        if query == "fault":
            raise EnvFault("the index is away")
        if query == "odd":
            return (Hit(Passage("a", "b", "\ud800"), float("nan")),)
        raise {"key": KeyError, "gone": ConnectionResetError, "slow": TimeoutError}[query](f"secret of {query}")


def test_a_failing_retriever_is_told_without_its_insides():
    lines = []
    with RetrieverServer(Broken(), port=0, tell=lines.append) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            status, answer, _ = ask(server.url, {"query": "fault"})
            assert status == 503 and answer == {"error": "the retriever failed: the index is away"}
            for query in ("key", "gone", "slow"):
                assert ask(server.url, {"query": query})[:2] == (500, {"error": "the server failed; its log says why"})
            assert ask(server.url, {"query": "odd", "return_scores": True})[1]["result"][0][0]["score"] == 0.0
        finally:
            server.shutdown()
            thread.join()
    assert lines[0] == "failed: EnvFault: the index is away"
    assert sorted(line.split(":")[1] for line in lines[1:]) == [" ConnectionResetError", " KeyError", " TimeoutError"]


def test_the_log_is_a_line_a_minute(bm25):
    lines = []
    server = RetrieverServer(bm25, port=0, tell=lines.append)
    with server:
        server.note(200, 3, 0.0)
        server.note(400, 0, 0.0)
        asyncio.run(server.log_counts())
        asyncio.run(server.log_counts())
        assert lines == ["last minute: 2 requests, 3 queries, 1 refused or failed"]
    with RetrieverServer(bm25, port=0, tell=lines.append, verbose=True) as loud:
        loud.note(200, 3, 0.5)
    assert lines[1:] == ["200, 3 queries, 500.0 ms"]


def test_connections_are_bounded_and_those_that_wait_make_room(bm25, monkeypatch):
    monkeypatch.setattr("agent_envs.tools.listening.Connection.most", 2)
    with running_server(bm25) as url:
        place = urlsplit(url)
        idle = socket.create_connection((place.hostname, place.port), timeout=20)
        held = [http.client.HTTPConnection(place.netloc, timeout=20) for _ in range(2)]
        for client in (*held, held[0]):  # a third takes the place of the one that waits longest
            client.request("GET", "/health")
            assert client.getresponse().read()
        assert idle.recv(1) == b""
        for client in (idle, *held):
            client.close()


class Slow:
    """A retriever that searches once it is let."""

    name = "slow"

    def __init__(self, search):
        self._search, self.begun, self.go_on = search, threading.Event(), threading.Event()

    def search(self, query, top_k):
        self.begun.set()
        assert self.go_on.wait(20)
        return self._search(query, top_k)


def test_a_hundred_idle_connections_lock_nobody_out_and_work_is_never_interrupted(bm25, monkeypatch):
    monkeypatch.setattr("agent_envs.tools.listening.Connection.most", 4)
    slow = Slow(bm25.search)
    with running_server(slow) as url:
        place, answers = urlsplit(url), []
        worker = threading.Thread(target=lambda: answers.append(ask(url, {"query": "bridge"})))
        worker.start()
        assert slow.begun.wait(20)
        idle = [socket.create_connection((place.hostname, place.port), timeout=20) for _ in range(100)]
        client = http.client.HTTPConnection(place.netloc, timeout=20)
        client.request("GET", "/health")
        assert client.getresponse().status == 200
        slow.go_on.set()
        worker.join()
        assert answers[0][0] == 200
        for one in (client, *idle):
            one.close()


def test_work_alone_fills_the_server(bm25, monkeypatch):
    monkeypatch.setattr("agent_envs.tools.listening.Connection.most", 1)
    slow = Slow(lambda query, top_k: ())
    with running_server(slow) as url, ThreadPoolExecutor(1) as pool:
        place, answer = urlsplit(url), pool.submit(ask, url, {"query": "bridge"})
        assert slow.begun.wait(20)
        with socket.create_connection((place.hostname, place.port), timeout=20) as second:
            assert second.recv(1) == b""
        slow.go_on.set()
        assert answer.result()[:2] == (200, {"result": [[]]})
        assert ask(url, None, "/health", "GET")[0] == 200


def test_a_client_that_has_nothing_more_to_say_gets_its_answer(bm25):
    class Slow:
        name = "slow"

        def search(self, query, top_k):
            time.sleep(0.3)
            return bm25.search(query, top_k)

    body = b'{"query": "bridge"}'
    head = f"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with running_server(Slow()) as url:
        assert raw(url, head + body).startswith(b"HTTP/1.1 200 ")


def test_without_the_packages_one_line_says_what_brings_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "agent_envs.tools.retrieval.server")
    with pytest.raises(MissingExtra, match=r'a retriever server needs .*: pip install "agent-envs\[serve\]"$'):
        importlib.import_module("agent_envs.tools.retrieval.server")


def test_closing_the_server_ends_its_connections(bm25):
    with running_server(bm25) as url:
        client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        client.request("GET", "/health")
        assert client.getresponse().read()
    assert client.sock.recv(1) == b""
    client.close()


def test_64_clients_at_once_get_their_own_answers(url, bm25):
    words = ["bridge", "engineer", "flag", "cranes", "harbour", "zzz"]
    expected = {word: [hit.passage.id for hit in bm25.search(word, 3)] for word in words}

    def client(number):
        held = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        found = []
        for place in range(8):
            word = words[(number + place) % len(words)]
            held.request("POST", "/retrieve", json.dumps({"query": word}).encode())
            rows = json.loads(held.getresponse().read())["result"][0]
            found.append([row["id"] for row in rows] == expected[word])
        held.close()
        return all(found) and len(found) == 8

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(client, range(64))) == [True] * 64
