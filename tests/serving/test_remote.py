"""`Remote` is an environment: it shows what the served one shows, passes the checks, pickles, and goes on from its handle."""

import contextlib
import http.server
import json
import pickle
import socket as sockets
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import EnvFault, Snapshot, UsageError, check_turn_env, fork, restore, run_episode, snapshot, spec_json
from agent_envs.rollout.policy import CompanionPolicy
from tests import ROOT
from tests.examples import sample
from tests.integrations import toys
from tests.serving.running import TOKENS, TOY, get, post, serving
from tests.serving.test_sessions import HINT, OTHER
from tests.toy import ID

REMOTE = "agent_envs:agent_envs/Remote-v0"
ONE = TOKENS["one"]


@pytest.fixture(scope="module")
def server():
    with serving({TOY: {}, "SearchQA": {}, "SortExpA": {}, "Tau2Retail": {}}) as running:
        yield running


def remote(server, name="Guess", **arguments):
    return gym.make(REMOTE, url=f"{server.url}/{name}", **arguments)


def played(env, actions, **options):
    text, info = env.reset(seed=7, options={"task": 2, "split": "test", **options})
    rows = [(text, info)]
    for action in actions:
        rows.append(env.step(action))
        if rows[-1][2] or rows[-1][3]:
            break
    return json.dumps(rows, default=lambda value: value.tolist())


def test_it_is_registered_and_no_id_of_the_table():
    assert "agent_envs/Remote-v0" in gym.registry and "agent_envs/Remote-v0" not in agent_envs.env_ids()


@pytest.mark.parametrize("name", ["SearchQA", "SortExpA", "Tau2Retail"])
def test_it_shows_what_the_environment_itself_shows(server, name):
    own, there = gym.make(f"agent_envs/{name}-v0"), remote(server, name)
    for policy in ("solver", "random"):
        result = run_episode(own, CompanionPolicy(policy), seed=7, task=2, split="test", episode_key="k")
        actions = [turn.action for turn in result.trajectory.turns]
        assert played(there, actions, episode_key="k") == played(own, actions, episode_key="k")
    assert own.reset(seed=5)[0] == there.reset(seed=5)[0]  # without a key or a task, too
    assert own.unwrapped.episode.header.origin == there.unwrapped.episode.header.origin
    for env in (own, there):
        env.step("x")
    assert there.unwrapped.episode.turns[-1].parsed == own.unwrapped.episode.turns[-1].parsed


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample(["SearchQA", "SortExpA"], 1))
def test_it_passes_the_checks(server, name):
    report = check_turn_env(REMOTE, url=f"{server.url}/{name}", episodes=2, hostile=40)
    assert report.ok, report.text()
    assert {check.name for check in report.checks if check.status == "skipped"} == {"solver", "hidden gold"}


def test_a_pickle_a_snapshot_and_a_spec_go_on(server):
    env = remote(server)
    env.reset(seed=0, options={"task": 3, "split": "test"})
    env.step(HINT)
    copy, data = pickle.loads(pickle.dumps(env)), snapshot(env).to_bytes()
    again = gym.make(gym.envs.registration.EnvSpec.from_json(spec_json(env)))
    restore(again, Snapshot.from_bytes(data))
    shown = [one.step(OTHER)[:4] for one in (env, copy, again, fork(copy))]
    assert shown[0] == shown[1] == shown[2] and shown[3][0] == shown[0][0]
    twins = [fork(env, branch=name).step("<luck>x</luck>")[0] for name in ("a", "b")]
    assert twins[0] != twins[1] and fork(env).step("<luck>x</luck>") == fork(env).step("<luck>x</luck>")
    envs = agent_envs.make_vec(REMOTE, 2, url=f"{server.url}/Guess")
    envs.reset(seed=[1, 1])
    assert envs.step((HINT, HINT))[0][0] == envs.step((HINT, HINT))[0][1]
    envs.close()


def test_mistakes_are_told_at_once(server, monkeypatch):
    for url in ("ftp://x", "localhost:8000", "http://user:word@localhost", "http://localhost?x=1", "nothing"):
        with pytest.raises(UsageError, match="Remote"):
            gym.make(REMOTE, url=url)
    with pytest.raises(EnvFault, match="cannot connect"):
        gym.make(REMOTE, url="http://127.0.0.1:9")
    with pytest.raises(UsageError, match="no environment 'Chess'"):
        remote(server, "Chess")
    for seconds in (0, -1, "x"):
        with pytest.raises(UsageError, match="seconds="):
            remote(server, seconds=seconds)
    env = remote(server)
    with pytest.raises(UsageError, match="no task 99"):
        env.reset(options={"task": 99})
    own = gym.make(ID)
    own.reset(seed=0)
    env.reset(seed=0)
    env.unwrapped._episode = own.unwrapped.episode
    with pytest.raises(UsageError, match="of the environment itself"):
        env.step(HINT)
    with serving(tokens=TOKENS) as guarded:
        for token in (None, "x" * 32, "env:NO_SUCH_TOKEN"):
            with pytest.raises(UsageError, match="401|is not set"):
                remote(guarded, token=token)
        monkeypatch.setenv("THE_TOKEN", ONE)
        env = remote(guarded, token="env:THE_TOKEN")
        env.reset(seed=0)
        assert ONE not in spec_json(env) and ONE not in str(pickle.dumps(env))
        with pytest.raises(EnvFault, match="no such snapshot"):  # a snapshot is its token's
            other = remote(guarded, token=TOKENS["two"])
            other.reset(seed=0)
            restore(other, snapshot(env))
            other.step(HINT)


def test_texts_beyond_a_message_are_cut_and_noted(server):
    env = remote(server)
    for text in ("\x00" * 900_000, "\U0001f600" * 1_000_000, "<answer>" + '"' * 999_990, "\ud800" * 10):
        env.reset(seed=0)
        *_, info = env.step(text)
        assert any("cut to" in event or "surrogates" in event for event in info["events"])


@contextlib.contextmanager
def telling(answers):
    """A server that says of each message what `answers` has for its kind; its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(answers[self.path.rpartition("/")[2]]).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()


@pytest.mark.parametrize("kind", ["about", "task", "begin", "act"])
def test_answers_of_another_form_are_a_fault(server, kind):
    """Whatever is left out of an answer, or is of another type, no other error comes of it."""
    path = "SortExpA"
    sound = {"about": post(server, f"{path}/about")[1], "task": post(server, f"{path}/task", split="test", index=0)[1]}
    sound["begin"] = post(server, f"{path}/begin", split="test", task=0)[1]
    sound["act"] = post(server, f"{path}/act", snapshot=sound["begin"]["snapshot"], action=1)[1]
    wrong = [{}, {"status": "ok"}]
    for name, value in sound[kind].items():
        wrong += [{**sound[kind], name: other} for other in (5, None, {"x": 5}) if type(other) is not type(value)]
    for name in sound[kind].get("observation", ()):
        wrong += [
            {**sound[kind], "observation": {**sound[kind]["observation"], name: other}} for other in (5, [5], {"x": 5})
        ]
    faults = 0
    for answer in wrong:
        with telling({**sound, kind: answer}) as url:
            try:
                env = gym.make(REMOTE, url=url)
                env.reset(seed=0, options={"task": 0, "split": "test"})
                env.step(1)
            except (EnvFault, UsageError) as error:
                faults += "as no agent-envs server" in str(error)
    assert faults >= 2


class Relay:
    """A way to a server that can be cut while an answer is due."""

    def __init__(self, server) -> None:
        self.target, self.open, self.cut = urlsplit(server.url).port, [], threading.Event()
        self.listener = sockets.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/Guess"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = sockets.create_connection(("127.0.0.1", self.target))
            self.open += [near, far]
            for one, other, answers in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pump, args=(one, other, answers), daemon=True).start()

    def _pump(self, one, other, answers):
        while True:
            try:
                data = one.recv(65536)
                if answers and self.cut.is_set():
                    for end in (one, other):  # a close alone waits for who reads
                        end.shutdown(sockets.SHUT_RDWR)
                    return
                if not data:
                    return
                other.sendall(data)
            except OSError:
                return

    def close(self):
        for one in (self.listener, *self.open):
            one.close()


def test_a_connection_that_is_lost_in_mid_step_is_a_fault_and_the_episode_goes_on(server):
    relay = Relay(server)
    env = gym.make(REMOTE, url=relay.url)
    env.reset(seed=7, options={"task": 2, "split": "test"})
    env.step(HINT)
    relay.cut.set()
    before = get(server, "health")[1]["turns"]
    with pytest.raises(EnvFault) as fault:
        env.step(OTHER)
    assert fault.value.retryable and get(server, "health")[1]["turns"] > before  # it was taken there
    relay.cut.clear()
    own = gym.make(ID)
    own.reset(seed=7, options={"task": 2, "split": "test"})
    own.step(HINT)
    step, alone = env.step(OTHER), own.step(OTHER)
    assert json.dumps(step) == json.dumps(alone) and step[4]["turn"] == 2
    relay.close()


def test_a_server_that_is_gone_is_a_fault_and_a_client_that_is_gone_leaves_its_handle(server):
    script = (
        "import sys, gymnasium as gym, agent_envs\n"
        f"env = gym.make({REMOTE!r}, url={server.url + '/Guess'!r})\n"
        "env.reset(seed=7, options={'task': 2, 'split': 'test'}); env.step(sys.argv[1])\n"
        "sys.stdout.write(agent_envs.snapshot(env).to_bytes().decode()); sys.stdout.flush(); import os; os.kill(os.getpid(), 9)"
    )
    client = subprocess.run([sys.executable, "-c", script, HINT], capture_output=True, text=True, cwd=ROOT, check=False)
    assert client.returncode == -9
    env = remote(server)
    restore(env, Snapshot.from_bytes(client.stdout.encode()))
    assert env.step(OTHER)[4]["turn"] == 2
    with serving() as short:
        lonely = remote(short)
        lonely.reset(seed=0)
    with pytest.raises(EnvFault) as fault:
        lonely.step(HINT)
    assert fault.value.retryable and lonely.unwrapped.episode.turns == ()


def test_a_fault_of_the_served_environment_is_one_here(server, monkeypatch):
    before = toys.Guess._advance

    def advance(env, episode, action):
        if action == "fail":
            raise EnvFault("the judge is away")
        if action == "slow":
            time.sleep(1.5)
        return before(env, episode, action)

    monkeypatch.setattr(toys.Guess, "_advance", advance)
    env = remote(server, seconds=0.5)
    env.reset(seed=0)
    with pytest.raises(EnvFault, match="the judge is away") as fault:
        env.step("fail")
    assert fault.value.retryable
    with pytest.raises(EnvFault, match="no whole answer within"):
        env.step("slow")
    assert env.unwrapped.episode.turns == ()
