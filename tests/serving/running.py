"""A server that runs in a thread of the tests' process, and clients that send it what they are told to."""

import contextlib
import json
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from websockets.sync.client import connect

from agent_envs.serving.server import EnvServer
from agent_envs.serving.sessions import ServerLimits
from tests.toy import ID

TOY = f"tests.toy:{ID}"
TOKENS = {"one": "1" * 32, "two": "2" * 32}


@contextlib.contextmanager
def serving(specs=TOY, limits=None, **arguments):
    """Yield a running server; `limits` are those of ServerLimits by name."""
    with EnvServer(specs, port=0, limits=ServerLimits(**(limits or {})), **arguments) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(20)
            assert not thread.is_alive()


def post(server, route, token="", headers=(), method="POST", raw=None, **data):
    """Return status and JSON of a request; without data it is the body `raw`."""
    body = raw if raw is not None else json.dumps(data).encode()
    head = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(
        f"{server.url}/{route}", body if method == "POST" else None, {**head, **dict(headers)}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def get(server, route, **arguments):
    return post(server, route, method="GET", **arguments)


class Socket:
    """A client over a WebSocket."""

    def __init__(self, server, path="", token="", **options) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        address = f"ws://{urlsplit(server.url).netloc}{path}/ws"
        self._stack = contextlib.ExitStack()
        self.socket = self._stack.enter_context(
            connect(address, additional_headers=headers | options.pop("headers", {}), proxy=None, **options)
        )

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()

    def ask(self, kind, **data):
        """Return the type and the data of an answer."""
        return self.send(json.dumps({"type": kind, "data": data}))

    def send(self, text):
        self.socket.send(text)
        answer = json.loads(self.socket.recv(30))
        return answer["type"], answer["data"]
