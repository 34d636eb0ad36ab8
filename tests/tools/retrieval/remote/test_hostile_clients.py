"""The retriever server rejects malformed, oversized and slow requests, and goes on answering valid ones."""

import json
import socket
import threading
from urllib.parse import urlsplit

import pytest

from agent_envs.tools import listening
from agent_envs.tools.retrieval.wire import read_request
from tests.retriever_server import running_server
from tests.tools.retrieval.remote.conftest import CORPUS, ask, raw

DEEP = b"[" * 1_900 + b"]" * 1_900
HOSTILE = {
    "no JSON": (b"\xff\xfe{", 400, "JSON"),
    "empty": (b"", 400, "JSON"),
    "deep": (b'{"query": ' + DEEP + b"}", 400, ""),
    "NaN": (b'{"query": "a", "topk": NaN}', 400, "NaN"),
    "infinity": (b'{"query": "a", "topk": 1e999}', 400, "topk"),
    "long number": (b'{"query": "a", "topk": ' + b"9" * 3_000 + b"}", 400, "topk"),
    "list": (b"[]", 400, "object"),
    "both": (b'{"query": "a", "queries": ["a"]}', 400, "either"),
    "neither": (b'{"topk": 3}', 400, "either"),
    "query number": (b'{"query": 5}', 400, "text"),
    "queries text": (b'{"queries": "a"}', 400, "list"),
    "queries null": (b'{"queries": [null]}', 400, "list"),
    "topk zero": (b'{"query": "a", "topk": 0}', 400, "1 to 100"),
    "topk many": (b'{"query": "a", "topk": 101}', 400, "1 to 100"),
    "topk true": (b'{"query": "a", "topk": true}', 400, "1 to 100"),
    "topk half": (b'{"query": "a", "topk": 1.5}', 400, "1 to 100"),
    "scores": (b'{"query": "a", "return_scores": "yes"}', 400, "return_scores"),
    "many": (json.dumps({"queries": [""] * 4_097}).encode(), 400, "at most 4096"),
    "large": (b" " * 40_001, 413, "40000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused_in_words(url, name):
    body, status, words = HOSTILE[name]
    found = ask(url, body)
    assert found[0] == status and words in found[1]["error"]
    assert "Traceback" not in found[1]["error"] and len(found[1]["error"]) < 300
    assert ask(url, {"query": "bridge"})[0] == 200


def test_a_long_query_is_refused_and_odd_text_is_not(bm25):
    with running_server(bm25, CORPUS) as url:
        assert ask(url, {"query": "a" * 16_385})[0] == 400
        assert ask(url, {"query": "a" * 16_384})[0] == 200
        assert ask(url, {"queries": []})[:2] == (200, {"result": []})
        for query in ("", "\ud800 bridge", "\x00", "\U0001f600", "' OR 1=1 --", "bridge\n\r\n\r\nGET /"):
            assert ask(url, {"query": query, "topk": None, "return_scores": None})[0] == 200
        assert ask(url, {"queries": ["bridge"] * 256})[1]["result"][255][0]["id"] == "p0"


def test_a_body_over_the_cap_is_answered_before_it_is_sent(url):
    head = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n"
    assert raw(url, head, wait=False).startswith(b"HTTP/1.1 413 ")
    expecting = head.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    assert raw(url, expecting, wait=False).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_waits_for_a_word_gets_it(url):
    body = b'{"query": "bridge"}'
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as client:
        head = (
            f"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        client.sendall(head.encode())
        assert client.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert client.recv(1_000).startswith(b"HTTP/1.1 200 OK")


HEADS = {
    "no length": (b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
    "chunked": (b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    "two lengths": (b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
    "negative": (b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"400"),
    "hex": (b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x2\r\n\r\n{}", b"400"),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", b"400"),
    "two hosts": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", b"400"),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
    "old": (b"GET /health\r\n\r\n", b"400"),
    "long line": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"400"),
    "path": (b"GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    "method": (b"DELETE /retrieve HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
    "get": (b"GET /retrieve HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
    "head": (b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405"),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_hostile_heads_are_refused(url, name):
    data, status = HEADS[name]
    received = raw(url, data)
    assert received.startswith(b"HTTP/1.1 " + status + b" ") and b"Traceback" not in received
    assert received.count(b"HTTP/1.1 ") == 1
    assert ask(url, {"query": "bridge"})[0] == 200


def test_a_head_without_end_is_refused_and_costs_no_more_than_a_read(url):
    received = raw(url, b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200_000 + b"\r\n")
    assert received.startswith(b"HTTP/1.1 400 ") or not received  # it is closed while most of the head is on its way
    assert ask(url, {"query": "bridge"})[0] == 200


def test_an_unread_body_is_never_a_request(url):
    inner = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for head in (b"DELETE /retrieve", b"POST /nothing", b"GET /health"):
        outer = head + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + str(len(inner)).encode() + b"\r\n\r\n"
        assert raw(url, outer + inner).count(b"HTTP/1.1 ") == 1


def test_slow_clients_are_let_go(bm25, monkeypatch):
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(listening, "LINGER_SECONDS", 0.2)
    with running_server(bm25) as url:
        assert raw(url, b"", wait=False) == b""
        assert raw(url, b"POST /retr", wait=False) == b""
        head = b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"
        assert raw(url, head, wait=False).startswith(b"HTTP/1.1 408 ")
        # A byte now and then does not keep the thread: the clock is over the whole request.
        place = urlsplit(url)
        with socket.create_connection((place.hostname, place.port), timeout=20) as client:
            client.sendall(b"POST /retrieve HTTP/1.1\r\n")
            with pytest.raises(ConnectionError):
                for _ in range(2_000):
                    client.sendall(b"a")
                    threading.Event().wait(0.01)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-le"])
def test_a_body_in_any_encoding_of_unicode_is_read(encoding):
    assert read_request('{"query": "é"}'.encode(encoding)).queries == ("é",)
