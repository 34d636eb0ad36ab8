"""Tokens, Host and Origin, sizes and malformed messages; gold and tracebacks are in no answer."""

import base64
import json
import random

import gymnasium as gym
import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from agent_envs import UsageError
from agent_envs.serving.server import EnvServer
from agent_envs.serving.wire import MAX_MESSAGE
from tests.serving.running import TOKENS, TOY, Socket, get, post, serving
from tests.toy import ID

ONE, TWO = TOKENS.values()
HINT = "<compare>50</compare>"


@pytest.fixture(scope="module")
def server():
    with serving(tokens=TOKENS, exporters=frozenset({"two"})) as running:
        yield running


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.1", "example.com"])
def test_beyond_this_machine_it_does_not_start_without_a_token(host):
    with pytest.raises(UsageError, match="give a token"):
        EnvServer(TOY, host=host, port=0)


@pytest.mark.parametrize("wrong", [
    {"tokens": {"a": "short"}}, {"tokens": {"a": ""}}, {"tokens": {"a": "é" * 40}}, {"tokens": {"a": ONE, "b": "x"}},
    {"tokens": {"a": ONE, "b": ONE}}, {"exporters": frozenset({"a"})}, {"tokens": {"a": ONE}, "exporters": frozenset({"b"})},
])  # fmt: skip
def test_tokens_that_are_none(wrong):
    with pytest.raises(UsageError, match="token"):
        EnvServer(TOY, port=0, **wrong)
    with pytest.raises(UsageError, match="name no environment"):
        EnvServer({}, port=0)


@pytest.mark.parametrize("other", ["toy/guess-v0", "other/Guess-v0"])
def test_two_environments_of_one_name_do_not_start(other):
    """Neither would be told from the other by its address."""
    gym.register(other, entry_point="tests.toy:Guess")
    try:
        with pytest.raises(UsageError, match="both be at /"):
            EnvServer({TOY: {}, f"tests.toy:{other}": {}}, port=0)
    finally:
        del gym.registry[other]


def test_nothing_is_answered_without_a_token(server):
    basic = base64.b64encode(b"x:" + b"3" * 32).decode()
    wrong = (
        ONE,
        f"Bearer {ONE[:-1]}",
        f"Bearer {ONE}1",
        "Bearer ",
        f"Basic {ONE}",
        f"Basic {basic}",
        "Basic \xe9",
        "\xe9 x",
    )
    for head in ({}, *({"Authorization": value} for value in wrong)):
        for route, method in (
            ("health", "GET"),
            ("schema", "GET"),
            ("reset", "POST"),
            ("export", "POST"),
            ("none", "GET"),
        ):
            status, answer = post(server, route, headers=head, method=method)
            assert status == 401 and answer == {"message": "a token is needed: Authorization: Bearer TOKEN"}
        with pytest.raises(InvalidStatus, match="401"):
            Socket(server, headers=head)
    assert get(server, "health", token=ONE)[0] == get(server, "health", token=TWO)[0] == 200
    url_token = base64.b64encode(b"anyone:" + ONE.encode()).decode()  # as clients send http://anyone:TOKEN@HOST
    assert get(server, "health", headers={"Authorization": f"Basic {url_token}"})[0] == 200
    with Socket(server, headers={"Authorization": f"Basic {url_token}"}) as socket:
        assert socket.ask("reset")[0] == "observation"


def test_sessions_and_snapshots_are_their_tokens(server):
    session = post(server, "reset", ONE, seed=0)[1]["metadata"]["session"]
    handle = post(server, "snapshot", ONE, session=session)[1]["snapshot"]
    begun = post(server, "begin", ONE, seed=0)[1]["snapshot"]
    for route, data in (
        ("step", {"session": session, "action": HINT}), ("reset", {"session": session}), ("state", {"session": session}),
        ("fork", {"session": session}), ("snapshot", {"session": session}), ("close", {"session": session}),
        ("restore", {"snapshot": handle}), ("act", {"snapshot": begun, "action": HINT}), ("export", {"snapshot": handle}),
    ):  # fmt: skip
        status, answer = post(server, route, TWO, **data)
        assert status == 404 and answer["code"] == "SESSION_ERROR", route
        unknown = {name: "x" if name in ("session", "snapshot") else value for name, value in data.items()}
        assert post(server, route, TWO, **unknown) == (status, answer)  # another's is as one that there never was
    assert "SESSION_ERROR" in str(post(server, "step_many", TWO, steps=[{"session": session, "action": HINT}]))
    with Socket(server, token=TWO) as socket:
        assert socket.ask("step", session=session, action=HINT)[1]["code"] == "SESSION_ERROR"
    assert post(server, "step", ONE, session=session, index=0, action=HINT)[0] == 200


def test_bytes_leave_with_the_right_alone_and_go_on_elsewhere(server):
    handles = {}
    for token in (ONE, TWO):
        session = post(server, "reset", token, seed=0)[1]["metadata"]["session"]
        post(server, "step", token, session=session, action=HINT)
        handles[token] = post(server, "snapshot", token, session=session)[1]["snapshot"]
    status, answer = post(server, "export", ONE, snapshot=handles[ONE])
    assert status == 403 and answer["code"] == "FORBIDDEN"
    status, answer = post(server, "export", TWO, snapshot=handles[TWO])
    assert status == 200 and b"gold" in base64.b64decode(answer["bytes"])
    assert post(server, "restore", ONE, **answer)[0] == 403
    assert post(server, "restore", TWO, **answer)[1]["index"] == 1
    for wrong in ("x", "é", base64.b64encode(b"{}").decode(), 5, ["a"]):
        assert post(server, "restore", TWO, bytes=wrong)[0] == 422
    with serving() as without:  # no token has no right
        session = post(without, "reset", seed=0)[1]["metadata"]["session"]
        handle = post(without, "snapshot", session=session)[1]["snapshot"]
        assert post(without, "export", snapshot=handle)[0] == 403


def test_pages_of_other_sites_and_rebound_names_are_refused(server):
    with serving() as plain:
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]"):
            assert get(plain, "health", headers={"Host": host})[0] == 403
            with pytest.raises(InvalidStatus, match="400"):  # it is a second Host there
                Socket(plain, headers={"Host": host})
        for origin, status in (("http://localhost:3000", 200), ("https://evil.example", 403), ("null", 403), ("", 403)):
            assert get(plain, "health", headers={"Origin": origin})[0] == status
        with pytest.raises(InvalidStatus, match="403"):
            Socket(plain, origin="https://evil.example")
        with Socket(plain, origin="http://127.0.0.1:9"):
            pass
        with pytest.raises(InvalidStatus, match="404"):
            Socket(plain, "/chess")
    with serving(tokens=TOKENS, host="0.0.0.0") as open_to_all:
        for origin, status in (("https://evil.example", 403), ("http://envs.example", 200)):
            headers = {"Host": "envs.example", "Origin": origin}
            assert get(open_to_all, "health", token=ONE, headers=headers)[0] == status


def test_a_message_has_at_most_a_mebibyte(server):
    assert post(server, "reset", ONE, raw=b" " * (MAX_MESSAGE + 1))[0] == 413
    assert post(server, "reset", ONE, raw=b" " * (MAX_MESSAGE - 2) + b"{}")[0] == 200
    with Socket(server, token=ONE) as socket:
        socket.ask("reset", seed=0)
        socket.ask("step", text="x" * (MAX_MESSAGE - 100))
        with pytest.raises(ConnectionClosedError, match="1009"):
            socket.send(json.dumps({"type": "step", "data": {"text": "x" * MAX_MESSAGE}}))
    with Socket(server, token=ONE) as socket:  # in many parts
        with pytest.raises(ConnectionClosedError, match="1009"):
            socket.send(["x" * 2**17] * 9)
    assert get(server, "health", token=ONE)[0] == 200


WRONG = [
    "", "{", "[]", "5", "null", '"reset"', "{}", '{"type": 5}', '{"type": "reset", "data": 5}',
    '{"type": "reset", "data": null}',
    '{"type": "mcp", "data": {}}', '{"type": "__init__"}', '{"type": "step", "data": {"text": NaN}}', "[" * 100_000,
    '{"type":"reset","data":{"seed":1e999}}', '{"type":"reset","data":{"seed":' + "9" * 5000 + "}}", "\x00", "\ufeff{}",
    '{"a":' * 50_000, '{"type": "step", "data": {"session": {"a": 1}}}', '{"type": "reset", "data": {"env": ["x"]}}',
    '{"type": "reset", "data": {"split": "' + "x" * 1000 + '"}}', '{"type": "task", "data": {"split": "test", "index": []}}',
]  # fmt: skip


def test_what_is_malformed_is_told_and_the_socket_goes_on(server):
    with Socket(server, token=ONE) as socket:
        for text in WRONG:
            kind, data = socket.send(text)
            assert kind == "error" and data.keys() == {"message", "code", "retryable"}, text[:80]
            assert data["code"] in ("INVALID_JSON", "VALIDATION_ERROR", "UNKNOWN_TYPE", "SESSION_ERROR"), (
                text[:80],
                data,
            )
            assert len(data["message"]) <= 2000 and "Traceback" not in data["message"] and ".py" not in data["message"]
        socket.socket.send(b"\xff\xfe")
        assert json.loads(socket.socket.recv(10))["data"]["code"] == "INVALID_JSON"
        assert socket.ask("reset", seed=0)[0] == "observation"
    for text in WRONG:
        status, answer = post(server, "reset", ONE, raw=text.encode() or b" ")
        assert status in (200, 400, 422), text[:80]  # some are what a reset may say
    assert post(server, "_reset", ONE)[0] == get(server, "../health", token=ONE)[0] == 404


def test_ten_thousand_malformed_frames(server):
    rng = random.Random("frames")
    letters = '{}[]":,\\ntypestepdatareset0123456789.eE-\x00é\u2028 '
    with Socket(server, token=ONE) as socket:
        for _ in range(10_000):
            text = rng.choice(WRONG[:12]) if rng.random() < 0.3 else "".join(rng.choices(letters, k=rng.randrange(40)))
            assert socket.send(text)[0] == "error", text
        assert socket.ask("reset", seed=0)[0] == "observation"
    health = get(server, "health", token=TWO)[1]
    assert health["refusals"] >= 5_000 and health["status"] == "healthy"


def test_no_answer_holds_gold_before_the_end():
    """Whatever is asked, the secret number of every task stays unsaid; 8125371 is in no other text."""
    secret = "8125371"

    class Secret(gym.make(ID).unwrapped.source.__class__):
        def get(self, split, key):
            from dataclasses import replace

            return replace(super().get(split, key), gold=(secret,), hidden=int(secret), question="Which?")

    with serving() as server:
        for env in (server.served["Guess"].core, *(env.unwrapped for env in server.served["Guess"].pool._free)):
            env.source = Secret()
        texts = []
        with Socket(server) as socket:
            for kind, data in (
                ("reset", {"seed": 0}), ("step", {"text": HINT}), ("state", {}), ("about", {}), ("schema", {}), ("health", {}),
                ("snapshot", {}), ("fork", {}), ("task", {"split": "test", "index": 0}), ("num_tasks", {"split": "test"}),
                ("begin", {"seed": 0}), ("reset_many", {"rows": [{}]}), ("metadata", {}), ("splits", {}),
                ("step", {"text": "x", "metadata": {"index": 1}}), ("step", {"text": "x", "metadata": {"index": 0}}),
            ):  # fmt: skip
                texts.append(json.dumps(socket.ask(kind, **data)))
            handle = socket.ask("begin", seed=0)[1]["snapshot"]
            texts.append(json.dumps(socket.ask("act", snapshot=handle, action=HINT)))
            texts.append(json.dumps(socket.ask("export", snapshot=handle)))
            assert not [text for text in texts if secret in text]
            assert secret in json.dumps(
                socket.ask("step", text="<answer>1</answer>")
            )  # the toy itself tells it at the end
