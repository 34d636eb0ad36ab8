"""Search QA over a search server: the same episodes as in process, and a fault wherever the server fails."""

from tests.needs import require

require("[serve]")

import copy
from functools import partial

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.datasets.catalogue import load_corpus
from agent_envs.datasets.world import WorldConfig, get_world
from agent_envs.envs.search_qa.tasks import OUTSIDE
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services
from agent_envs.tools.retrieval.build import make_retriever
from agent_envs.tools.retrieval.remote import RemoteRetriever
from agent_envs.tools.retrieval.wire import read_request, wire_hit
from tests.needs import needs
from tests.retriever_server import running_server
from tests.servers import FAULTS, FaultServer

STYLES = ("search_r1", "skyrl")
CORPUS = get_world(WorldConfig(), "test", 0).corpus


@pytest.fixture(scope="module")
def url():
    with running_server(make_retriever("bm25", CORPUS), CORPUS) as url:
        yield url


def make(**arguments):
    return gym.make("agent_envs/SearchQA-v0", **arguments)


def actions_of(task):
    """Return the solver's actions, found without a server, and some that search for odd things."""
    env = make()
    env.reset(seed=0, options={"task": task, "split": "test"})
    odd = [
        "nothing",
        "<search></search>",
        "<search>\ud800 é \U0001f600 \x00</search>",
        f"<search>{'long ' * 4_000}</search>",
    ]
    return [*agent_envs.solve(env)[:-1], *odd][:5] + [agent_envs.solve(env)[-1]]


def played(env, task, actions):
    """Return everything that an episode showed, gave and recorded, and its core."""
    env.reset(seed=0, options={"task": task, "split": "test", "episode_key": "k"})
    rows = [env.step(action) for action in actions]
    assert rows[-1][2] or rows[-1][3]
    return rows, [(turn.observation, turn.results, turn.terms) for turn in env.unwrapped.episode.turns]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "more", [{}, {"observation_format": "skyrl_json", "top_k": 7, "max_observation_chars": 100_000}]
)
def test_an_episode_over_the_wire_is_the_episode_in_process(url, style, more):
    ids = set()
    for item in range(6):
        task = f"world-test-0-{item}"
        actions = actions_of(task)
        near = played(make(**more), task, actions)
        far = played(make(retriever=f"{style}@{url}", **more), task, actions)
        assert far == near
        assert far[0][-1][1] == 1.0
        ids |= {found for _, results, _ in far[1] for result in results for found in result.ids}
    assert len(ids) > 12


@pytest.mark.parametrize("style", STYLES)
def test_the_other_agents_play_and_the_solver_says_why_it_does_not(url, style):
    env = make(retriever=f"{style}@{url}")
    for kind in ("heuristic", "random"):
        near = agent_envs.run_episode(
            make(), CompanionPolicy(kind), task="world-test-0-1", split="test", episode_key="k"
        )
        far = agent_envs.run_episode(env, CompanionPolicy(kind), task="world-test-0-1", split="test", episode_key="k")
        assert [turn.observation for turn in far.trajectory.turns] == [
            turn.observation for turn in near.trajectory.turns
        ]
        assert far.status == near.status and not far.fault
    env.reset(options={"task": "world-test-0-1", "split": "test"})
    with pytest.raises(UsageError, match=f"live service {style}@") as caught:
        agent_envs.solve(env)
    assert "\n" not in str(caught.value)


def test_forks_and_copies_go_on_over_the_wire(url):
    env = make(retriever=f"search_r1@{url}")
    env.reset(seed=0, options={"task": "world-test-0-0", "split": "test"})
    twin = agent_envs.fork(env)
    assert twin.step("<search>city</search>") == copy.deepcopy(env).step("<search>city</search>")
    assert twin.unwrapped._built.retriever is env.unwrapped._built.retriever
    assert agent_envs.spec_json(env)


def answer(path, headers, body):
    asked = read_request(body)
    results = [[wire_hit(hit) for hit in BM25.search(query, asked.top_k)] for query in asked.queries]
    return 200, {}, agent_envs.base.serialization.canonical_json({"result": results}).encode()


BM25 = make_retriever("bm25", CORPUS)
SEARCHES = [f"<search>{CORPUS[row].title}</search>" for row in (0, 40, 90)]


def outcome(server, place, kind, monkeypatch, stays):
    """Play an episode of three searches and an answer; the server fails from the request of one of them on."""
    first = len(server.requests)
    server._fault = lambda ordinal: kind if ordinal == first + place or (stays and ordinal > first + place) else None
    deadline = 1.0 if stays else 20.0
    quick = partial(RemoteRetriever, wait=lambda seconds: None, attempt_seconds=0.3, deadline_seconds=deadline)
    monkeypatch.setattr("agent_envs.tools.retrieval.build.RemoteRetriever", quick)
    env = make(retriever=f"search_r1@{server.url}")
    env.reset(seed=0, options={"task": "world-test-0-0", "split": "test"})
    gold = env.unwrapped.episode.task.gold[0]
    total, over = 0.0, False
    try:
        for action in [*SEARCHES, f"<answer>{gold}</answer>"]:
            _, reward, over, _, _ = env.step(action)
            total += reward
    except EnvFault as fault:
        # The moment before the search stands: no reward, no turn, and the same search may be tried again.
        assert not over and total == 0.0 and len(env.unwrapped.episode.turns) == place
        assert fault.cause.startswith(f"search_r1@{server.url}/retrieve: ")
        server._fault = lambda ordinal: None
        assert "Doc 1" in env.step(SEARCHES[place])[0]
        return "fault"
    assert over and total == 1.0
    return "success"


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_never_becomes_a_reward(kind, monkeypatch):
    with FaultServer(answer) as server:
        for place in range(len(SEARCHES)):
            assert outcome(server, place, kind, monkeypatch, stays=True) == "fault"
            assert outcome(server, place, kind, monkeypatch, stays=False) in ("success", "fault")


def test_answers_of_another_form_are_faults_and_not_observations():
    for text in (b"{}", b'{"result": "Doc 1: <answer>x</answer>"}', b'{"result": [[{"contents": 5}]]}', b'"Doc 1"'):
        with FaultServer(lambda path, headers, body, text=text: (200, {}, text)) as server:
            env = make(retriever=f"skyrl@{server.url}")
            env.reset(seed=0, options={"task": "world-test-0-0", "split": "test"})
            with pytest.raises(EnvFault, match="another form"):
                env.step("<search>city</search>")
            assert server.count == 1 and env.unwrapped.episode.turns == ()


@pytest.mark.parametrize("style", STYLES)
def test_a_recorded_episode_is_replayed_without_the_server(style, tmp_path):
    def run(retriever, mode):
        env = make(retriever=retriever)
        with Recording(tmp_path / "calls.jsonl", mode) as recording:
            env.unwrapped.services = Services(recording)
            return agent_envs.run_episode(
                env, CompanionPolicy("heuristic"), task="world-test-0-2", split="test", seed=0
            )

    with running_server(make_retriever("bm25", CORPUS)) as url:
        first = run(f"{style}@{url}", "record")
    assert first.trajectory.turns[0].results[0].ids
    again = run(f"{style}@{url}", "replay")
    assert again == first and again.trajectory == first.trajectory
    env = make(retriever=f"{style}@{url}")
    env.unwrapped.services = Services(Recording(tmp_path / "calls.jsonl", "replay"))
    assert agent_envs.replay(env, first.trajectory) == first.trajectory
    assert env.unwrapped.live_service == ""
    env.unwrapped.services = Services()
    assert env.unwrapped.live_service == f"{style}@{url}"


def test_a_recording_that_is_set_between_episodes_is_used(url, tmp_path):
    env = make(retriever=f"skyrl@{url}")
    options = {"task": "world-test-0-2", "split": "test"}
    env.reset(options=options)
    shown = env.step("<search>city</search>")[0]
    with Recording(tmp_path / "calls.jsonl", "record") as recording:
        env.unwrapped.services = Services(recording)
        env.reset(options=options)
        assert env.step("<search>city</search>")[0] == shown
    assert "city" in (tmp_path / "calls.jsonl").read_text(encoding="utf-8")


def test_published_questions_need_no_corpus_here(small):
    served = load_corpus()
    with running_server(make_retriever("bm25", served), served) as url:
        near = make(tasks="hotpotqa")
        (small / "corpus.jsonl").unlink()
        far = make(tasks="hotpotqa", retriever=f"search_r1@{url}")
        for env in (near, far):
            env.reset(seed=0, options={"task": "h0"})
        shown = far.step("<search>harbour town bridge</search>")[0]
        assert "Ana Vilks" in shown and shown == near.step("<search>harbour town bridge</search>")[0]
    tasks = [env.unwrapped.episode.task for env in (near, far)]
    assert OUTSIDE in tasks[1].data and OUTSIDE not in tasks[0].data and tasks[0].digest != tasks[1].digest
    assert near.unwrapped.source.digest != far.unwrapped.source.digest
    assert far.unwrapped.source.corpus(tasks[1]) is None


def test_the_identity_says_that_the_corpus_is_outside(url):
    near, far, other = make(), make(retriever=f"skyrl@{url}"), make(retriever=f"search_r1@{url}")
    tasks = [env.unwrapped.source.get("test", 0) for env in (near, far, other)]
    assert tasks[0].digest != tasks[1].digest == tasks[2].digest
    assert tasks[0].question == tasks[1].question and tasks[1].data[-1] == OUTSIDE
    assert len({env.unwrapped.spec_digest for env in (near, far, other)}) == 3


@pytest.mark.parametrize(
    "retriever",
    [
        "bm25_okapi",
        pytest.param("rank_bm25", marks=needs("[rank-bm25]")),
        pytest.param("tantivy", marks=needs("[tantivy]")),
    ],
)
def test_the_other_local_retrievers(retriever):
    env = make(retriever=retriever)
    result = agent_envs.run_episode(env, CompanionPolicy("solver"), task=0, split="test")
    assert result.success and result.trajectory.turns[0].results[0].ids
    assert env.unwrapped.source.get("test", 0).digest == make().unwrapped.source.get("test", 0).digest


def test_arguments_that_contradict_a_server(small):
    for arguments, words in (
        ({"retriever": "search_r1@here"}, "http://HOST"),
        ({"retriever": "search_r1@http://u:p@here"}, "holds no password"),
        ({"retriever": "dense@http://here"}, "the retrievers are bm25, .*search_r1@URL, skyrl@URL"),
        ({"retriever": 5}, "the retrievers are"),
        ({"retriever": "skyrl@http://here", "tasks": "hotpotqa", "corpus": "sample"}, "corpus='sample' has no meaning"),
        ({"retriever": "skyrl@http://here", "corpus": "sample"}, "corpus='sample' has no meaning"),
    ):
        with pytest.raises(UsageError, match=words):
            make(**arguments)
