"""Trajectories, trees of them, segments, and their stored form."""

import json
from dataclasses import replace

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import (
    Message,
    Reply,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    TrajectoryTree,
    Turn,
    UsageError,
    fork,
    run_episode,
)
from agent_envs.base.protocol import Answer, Call, Malformed, Say
from agent_envs.base.serialization import canonical_json
from agent_envs.core.trajectory import SCHEMA, Header, segments, transcript
from agent_envs.wrappers import Memory
from tests.examples import examples
from tests.toy import ID

TEXTS = st.text(st.characters(), max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
CALLS = st.builds(ToolCall, TEXTS, TEXTS, TEXTS)
PARSED = st.none() | st.builds(Say, TEXTS) | st.builds(Answer, TEXTS) | st.builds(Malformed, TEXTS) | st.builds(
    Call, st.lists(CALLS, max_size=2).map(tuple)
)  # fmt: skip
MESSAGES = st.lists(
    st.builds(Message, st.sampled_from(["system", "user", "tool"]), TEXTS, st.sampled_from(["tool", "environment"]),
              st.lists(CALLS, max_size=1).map(tuple), TEXTS), max_size=2,
).map(tuple)  # fmt: skip
TURNS = st.builds(
    Turn, st.integers(1, 9), TEXTS, TEXTS | st.integers(0, 2**70), PARSED, MESSAGES,
    st.lists(st.builds(ToolResult, TEXTS, TEXTS, TEXTS, st.booleans(), st.lists(TEXTS, max_size=2).map(tuple)),
             max_size=2).map(tuple),
    NUMBERS, st.lists(st.tuples(TEXTS, NUMBERS), max_size=2).map(tuple), st.booleans(), st.booleans(),
    st.lists(TEXTS, max_size=1).map(tuple), st.sampled_from(["append", "replace"]),
    st.lists(st.integers(0, 200_000), max_size=3).map(tuple), st.lists(NUMBERS, max_size=3).map(tuple),
    st.lists(NUMBERS, max_size=3).map(tuple), st.lists(st.booleans(), max_size=3).map(tuple),
)  # fmt: skip
HEADERS = st.builds(Header, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, st.integers(-1, 2**64), TEXTS, TEXTS)


@examples(60)
@given(HEADERS, MESSAGES, st.lists(TURNS, max_size=3).map(tuple), st.booleans())
def test_a_stored_trajectory_is_the_same_trajectory(header, prompt, turns, success):
    trajectory = Trajectory(header, prompt, turns, success=success)
    data = canonical_json(trajectory.to_json()).encode("utf-8", "surrogatepass")
    row = json.loads(data.decode("utf-8", "surrogatepass"))
    again = Trajectory.from_json(row)
    assert again == trajectory and again.to_json() == row and row["schema"] == SCHEMA


def reset(key="k0", env=None, task=0):
    env = gym.make(ID) if env is None else env
    env.reset(seed=0, options={"task": task, "episode_key": key})
    return env


def played(env, *actions):
    for action in actions:
        env.step(action)
    return replace(env.unwrapped.trajectory, task=None)


def tree_of(*trajectories):
    tree = TrajectoryTree(trajectories[0].header, trajectories[0].prompt)
    for trajectory in trajectories:
        tree.add(trajectory)
    return tree


def test_the_task_is_not_in_the_file_and_its_digest_is():
    env = reset()
    env.step("<compare>5</compare>")
    trajectory = env.unwrapped.trajectory
    assert trajectory.task is not None
    row = trajectory.to_json()
    assert row["task"] is None and Trajectory.from_json(row) == replace(trajectory, task=None)
    assert trajectory.header.task_digest == trajectory.task.digest


@pytest.mark.parametrize("schema", [None, "agent-envs/trajectory@0", "agent-envs/trajectory@3", 1])
def test_another_schema_is_refused(schema):
    row = {**played(reset()).to_json(), "schema": schema}
    with pytest.raises(UsageError, match="schema"):
        Trajectory.from_json(row)


def test_a_row_of_something_else_is_refused():
    with pytest.raises(UsageError, match="dict"):
        Trajectory.from_json({"schema": SCHEMA, "rows": 1})
    with pytest.raises(UsageError, match="Answer"):
        Trajectory.from_json({"schema": SCHEMA, "$type": "Answer", "text": "x"})
    with pytest.raises(ValueError):
        Trajectory.from_json({"schema": SCHEMA, "$type": "Trajectory"})


def test_a_digest_is_of_the_whole_task():
    task = Task("t", "dev", "q", ("a",), "c", (1,), (2,))
    others = [replace(task, **{name: value}) for name, value in (
        ("id", "u"), ("split", "test"), ("question", "r"), ("gold", ("b",)), ("cluster", "d"), ("data", (3,)),
        ("hidden", (4,)),
    )]  # fmt: skip
    assert len({item.digest for item in (task, *others)}) == 8
    assert Task("t", "dev", "q", ("a",), "c", (1,), (2,)).digest == task.digest


def test_a_group_is_the_children_of_one_root():
    group = [played(reset(f"k{i}"), "<luck>x</luck>", "<answer>1</answer>") for i in range(4)]
    tree = tree_of(*group)
    assert tree.children() == [f"k{i}/:1" for i in range(4)]
    assert len(tree.nodes) == 8 and list(tree.paths()) == group


def test_equal_texts_of_two_episodes_stay_two_nodes():
    tree = tree_of(played(reset("k0"), "same"), played(reset("k1"), "same"))
    assert len(tree.nodes) == 2


def test_forks_share_the_turns_before_the_fork_and_nothing_else():
    env = reset()
    played(env, "<compare>50</compare>", "<luck>x</luck>")
    one, two = fork(env, branch="b1"), fork(env, branch="b2")
    paths = [
        played(env, "<luck>y</luck>"),
        played(one, "<luck>y</luck>", "<answer>3</answer>"),
        played(two, "<luck>y</luck>"),
        played(fork(two, branch="c"), "deeper"),
    ]
    tree = tree_of(*paths)
    assert tree.children() == ["k0/:1"] and tree.children("k0/:1") == ["k0/:2"]
    assert tree.children("k0/:2") == ["k0/:3", "k0/b1:3", "k0/b2:3"]
    assert tree.children("k0/b2:3") == ["k0/b2.c:4"] and tree.children("k0/b2.c:4") == []
    assert [path.turns for path in tree.paths()] == [path.turns for path in paths]
    assert len(tree.nodes) == 2 + 3 + 1 + 1


def test_paths_give_back_what_was_added():
    env = reset()
    short = played(env, "a")
    long = played(env, "b", "<answer>3</answer>")
    tree = tree_of(short, long, long, played(reset("k9"), "<answer>1</answer>"))
    assert list(tree.paths())[:2] == [short, long] and len(list(tree.paths())) == 3


def test_a_node_id_with_another_turn_is_refused_and_the_tree_is_kept():
    env = reset()
    played(env, "first")
    unnamed = fork(env)
    tree = tree_of(played(env, "one"))
    before = dict(tree.nodes)
    with pytest.raises(UsageError, match=r"k0/:2 already holds a turn with another action.*episode_key.*branch"):
        tree.add(played(unnamed, "two", "three"))
    assert tree.nodes == before and len(list(tree.paths())) == 1


def test_another_turn_before_shared_ones_is_refused_too():
    env = reset()
    path = played(env, "one", "two", "three")
    first, *rest = path.turns
    tree = tree_of(path)
    tree.add(Trajectory.from_json(path.to_json()))  # equal turns are the same nodes, whoever made them
    tree.add(path)
    with pytest.raises(UsageError, match=r"k0/:1 already holds a turn with another action"):
        tree.add(replace(path, turns=(replace(first, action="other"), *rest)))
    with pytest.raises(UsageError, match=r"k0/:3 already holds a turn with another parent"):
        tree.add(replace(path, turns=(first, rest[1])))
    assert len(tree.nodes) == 3 and len(list(tree.paths())) == 1


def test_a_trajectory_of_another_root_is_refused():
    tree = tree_of(played(reset()))
    for other in (played(reset(task=1)), played(reset(env=gym.make(ID, turns=3))), replace(played(reset()), prompt=())):
        with pytest.raises(UsageError, match="root"):
            tree.add(other)
    with pytest.raises(UsageError, match="root"):
        tree.add(replace(played(reset()), header=replace(tree.root, seed=5)))


def test_a_conversation_that_grows_is_one_segment():
    trajectory = played(reset(), "a", "b", "c")
    assert list(segments(trajectory)) == [(trajectory.prompt, trajectory.turns)]
    assert list(segments(played(reset()))) == []


class Talker:
    """Draws twice, answers, and remembers what it was shown."""

    name, batch = "talker", 1

    def __init__(self):
        self.seen = []

    def act(self, requests):
        self.seen.append(requests[0].messages)
        return [Reply("<answer>1</answer>" if requests[0].turn == 3 else "<luck>x</luck>")]


def test_a_replaced_context_starts_a_segment():
    policy = Talker()
    trajectory = run_episode(Memory(gym.make(ID), turns=0), policy, seed=0).trajectory
    parts = list(segments(trajectory))
    assert [[turn.index for turn in turns] for _, turns in parts] == [[1], [2], [3]]
    assert [[message.as_dict() for message in start] for start, _ in parts] == policy.seen


def test_totals_and_transcripts():
    trajectory = played(reset(), "<compare>1</compare>", "x", "<answer>0</answer>")
    assert trajectory.total_reward == -0.0625 and trajectory.last.index == 3
    text = transcript(trajectory.prompt, trajectory.turns)
    assert "[tool] 1: " in text and "[policy, turn 2] x" in text and "(reward -0.0625)" in text
