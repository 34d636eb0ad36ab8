"""A small corpus behind a server, and two ways to ask it: as a client, and by bare bytes."""

import contextlib
import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.tools.retrieval.build import make_retriever
from tests.retriever_server import running_server

CORPUS = MemoryCorpus([
    Passage("p0", "Mor", "Mor is a harbour town. Its bridge was built by Ana Vilks."),
    Passage("p1", 'Ana "A" Vilks', "Ana Vilks, an engineer, was born in Žagarė.\nShe drew cranes."),
    Passage("p2", "Two\nlines", "A flag of Mor."),
])  # fmt: skip


@pytest.fixture(scope="module")
def bm25():
    return make_retriever("bm25", CORPUS)


@pytest.fixture(scope="module")
def url(bm25):
    with running_server(bm25, CORPUS, max_body=40_000) as url:
        yield url


def ask(url, body, path="/retrieve", method="POST", **headers):
    """Return the status, the JSON answer and the headers of one request on a connection of its own."""
    client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    client.request(method, path, data, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = client.getresponse()
    text = answer.read()
    client.close()
    return answer.status, json.loads(text) if text else None, answer.headers


def raw(url, data, wait=True):
    """Return all that the server sends for some bytes until it closes the connection."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection_:
        connection_.sendall(data)
        if wait:
            with contextlib.suppress(OSError):
                connection_.shutdown(socket.SHUT_WR)
        received = b""
        # Where a head is refused before all of it is read, the connection is reset behind the answer.
        with contextlib.suppress(ConnectionResetError):
            while part := connection_.recv(65_536):
                received += part
    return received
