"""An episode walked turn by turn, and its forks."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest

import agent_envs.rollout.policy as context
from agent_envs import EpisodeWalk, Reply, Request, TrajectoryTree, UsageError, run_episode
from agent_envs.rollout.episode_runner import turn_seed
from agent_envs.wrappers import Memory
from tests.needs import needs
from tests.toy import ID, solver

LINES = ["<compare>50</compare>", "<luck>x</luck>", "<answer>3</answer>"]


class Scripted:
    """Speaks from a list."""

    name, batch = "scripted", 1

    def act(self, requests):
        return [Reply(LINES[request.turn - 1], (7,), (-0.5,), (0.25,), {"output": 1}) for request in requests]


def walked(walk, policy):
    while not walk.over:
        walk.take(policy.act([walk.request()])[0])
    return walk.result()


@pytest.mark.parametrize("env_id", [ID, "agent_envs/SearchQA-v0", "agent_envs/SortExpA-v0", "agent_envs/Tau2Retail-v0"])
def test_a_walk_and_run_episode_make_the_same_record(env_id):
    asked, told = [], []
    policy = Recorder(asked)
    record = run_episode(gym.make(env_id), policy, seed=3, task=1, episode_key="k")
    policy = Recorder(told)
    assert walked(EpisodeWalk(gym.make(env_id), seed=3, task=1, episode_key="k"), policy) == record
    assert asked == told and len(asked) == len(record.trajectory.turns) >= 2


class Recorder:
    """Takes what the random companion takes, and keeps the requests."""

    name, batch = "recorder", 1

    def __init__(self, kept):
        self.kept = kept

    def act(self, requests):
        self.kept += [replace(request) for request in requests]
        return [Reply(f"<search>{request.seed % 100}</search>" if request.turn < 4 else "<answer>a</answer>")
                for request in requests]  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda env: env, lambda env: Memory(env, turns=1)])
def test_the_state_behind_the_end_can_be_looked_at_and_not_be_acted_in(wrap):
    walk = EpisodeWalk(wrap(gym.make(ID)), seed=0, episode_key="k")
    assert walk.state_request() == walk.request()
    while not walk.over:
        walk.take(Reply(LINES[len(walk.turns)]))
    state = walk.state_request()
    said, news = state.messages[-2:]
    assert state.turn == len(walk.turns) + 1 and said["content"] == LINES[len(walk.turns) - 1]
    assert news["content"] == walk.turns[-1].observation[-1].content
    with pytest.raises(UsageError, match="after the end"):
        walk.request()


def test_asking_twice_is_asking_the_same():
    walk = EpisodeWalk(gym.make(ID), seed=0)
    assert walk.request() == walk.request() and walk.request().turn == 1 and walk.turns == []


def test_a_fork_has_seeds_of_its_own_and_the_same_name_the_same_seeds():
    trunk = EpisodeWalk(gym.make(ID), seed=0, episode_key="k")
    trunk.take(Reply(LINES[0]))
    forks = [trunk.fork(branch) for branch in ("a", "b", "a")]
    seeds = [walk.request().seed for walk in forks]
    assert trunk.request().seed == turn_seed("k", 2)
    assert seeds[0] == seeds[2] == turn_seed("k/a", 2) and len({*seeds, trunk.request().seed}) == 3
    nested = forks[0].fork("b").request()
    assert nested.branch == "a.b" and nested.seed not in seeds


def test_outside_samples_differ_by_branch_and_not_within_one():
    trunk = EpisodeWalk(gym.make(ID), seed=0, episode_key="k")
    trunk.take(Reply(LINES[0]))
    lucks = [walk.take(Reply(LINES[1])).observation[0].content for walk in map(trunk.fork, ("a", "b", "a"))]
    assert lucks[0] == lucks[2] != lucks[1] and trunk.take(Reply(LINES[1])).observation[0].content not in lucks


def test_trunk_and_fork_do_not_touch_one_another():
    trunk = EpisodeWalk(gym.make(ID), seed=0, episode_key="k")
    trunk.take(Reply(LINES[0], (7,), (-0.5,), (0.25,), {"output": 1}))
    twin = trunk.fork("b")
    assert twin.request().messages == trunk.request().messages
    branch, main = walked(twin, Scripted()), walked(trunk, Scripted())
    assert branch.usage == main.usage == {"output": 3}
    assert main == run_episode(gym.make(ID), Scripted(), seed=0, episode_key="k")
    tree = TrajectoryTree(main.trajectory.header, main.trajectory.prompt)
    tree.add(main.trajectory)
    tree.add(branch.trajectory)
    assert len(tree.nodes) == 1 + 2 * 2 and branch.trajectory.turns[0] == main.trajectory.turns[0]


@pytest.mark.parametrize("joined", [False, True])
def test_requests_read_for_ever_what_they_read(joined):
    """A request that is read late tells what one that was read at once told, while the walk and its fork went on."""
    env_id = "agent_envs/SortExpA-v0" if joined else ID
    walk = EpisodeWalk(gym.make(env_id), seed=0)
    early, late, kept = [], [], []
    while not walk.over:
        kept.append(walk.request())
        early.append([dict(row) for row in walk.request().messages])
        late.append(walk.fork("x").request() if len(late) == 1 else walk.request())
        walk.take(Reply("a word " if joined else f"<luck>{len(late)}</luck>"))
    assert [request.messages for request in kept] == early == [request.messages for request in late]
    assert [request.messages_since(1) for request in kept] == [rows[1:] for rows in early]
    assert kept[0].messages_since(99) == [] and len(early[-1]) > 1


def test_requests_are_still_plain_values():
    rows = [{"role": "user", "content": "hello"}]
    request = Request("k", 1, rows)
    assert request.messages is rows and request == Request("k", 1, list(rows)) and "hello" in repr(request)
    assert request.messages_since(0) == rows and request.messages_since(0)[0] is not rows[0]
    assert replace(request, turn=2).messages == rows
    with pytest.raises(TypeError, match="messages"):
        Request("k", 1)


def test_a_turn_reads_the_same_number_of_messages_however_many_came_before(monkeypatch):
    copied = []
    since = context.ContextView.since
    monkeypatch.setattr(context.ContextView, "since", lambda *a: copied.append(len(rows := since(*a))) or rows)
    walk, seen = EpisodeWalk(gym.make(ID, turns=300), seed=0), 0
    while not walk.over:
        seen += len(walk.request().messages_since(seen))
        walk.take(Reply("<luck>x</luck>"))
    assert copied == [2] * 300


def test_memory_replaces_the_context_of_a_walk():
    walk = EpisodeWalk(Memory(gym.make(ID), turns=1), seed=0)
    for line in ("<luck>1</luck>", "<luck>2</luck>", "<luck>3</luck>"):
        walk.take(Reply(line))
    assert walk.request().context == "replace" and len(walk.request().messages) < 6


@pytest.mark.parametrize("env_id", [ID, "agent_envs/SortExpA-v0", "agent_envs/Tau2Retail-v0"])
@needs("[envs]")
def test_a_walk_goes_on_from_its_json_as_if_nothing_had_been(env_id):
    def made():
        return Memory(gym.make(env_id), turns=1) if env_id == ID else gym.make(env_id)

    walk = EpisodeWalk(made(), seed=1, episode_key="k", can_prefill=False)
    walk.take(Reply("first", (1,), (-0.5,), (0.5,), {"output": 1}))
    walk = walk.fork("b")
    again = EpisodeWalk.from_json(made(), json.loads(json.dumps(walk.to_json())))
    assert again.request() == walk.request() and again.turns == walk.turns and not again.over
    for line in ("second", "third"):
        assert again.take(Reply(line)) == walk.take(Reply(line))
    while not walk.over:
        assert again.take(Reply("on")) == walk.take(Reply("on"))
    assert replace(again.result().trajectory, task=None) == replace(walk.result().trajectory, task=None)
    assert again.result().usage == walk.result().usage == {"output": 1, **again.result().usage}
    with pytest.raises(UsageError, match="snapshot is of another environment"):
        EpisodeWalk.from_json(gym.make("agent_envs/BabyAI-v0"), walk.to_json())


def test_misuse_is_told_at_once():
    walk = EpisodeWalk(gym.make(ID), seed=0)
    with pytest.raises(UsageError, match=r"toy/Guess-v0: result\(\) before the end"):
        walk.result()
    with pytest.raises(UsageError, match="give Reply"):
        walk.take("<answer>3</answer>")
    with pytest.raises(UsageError, match="name the branch"):
        walk.fork("")
    with pytest.raises(UsageError, match="a branch is named with letters"):
        walk.fork("a/b")
    walk.take(Reply(solver(walk.env)))
    for call in (walk.request, lambda: walk.take(Reply("x")), lambda: walk.fork("b")):
        with pytest.raises(UsageError, match="after the end"):
            call()
    assert walk.result().success
