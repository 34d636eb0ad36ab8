"""Snapshots, restores and forks, through whole wrapper stacks."""

import gymnasium as gym
import pytest
from gymnasium.wrappers import OrderEnforcing, RecordEpisodeStatistics, TransformObservation
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import Snapshot, UsageError, fork, register_snapshot, restore, snapshot
from agent_envs.wrappers import ForcedAnswer, Memory, TurnLimit
from tests.examples import examples
from tests.toy import ID

ACTIONS = st.sampled_from(
    [
        "<compare>50</compare>",
        "<compare>7</compare>",
        "<luck>x</luck>",
        "nothing",
        "<compare>\ud800</compare>",
        "é" * 40,
    ]
)


def stack(**arguments):
    """A full stack of Gymnasium's wrappers and ours."""
    env = gym.make(ID, max_episode_steps=7, **arguments)
    return RecordEpisodeStatistics(Memory(TurnLimit(env, turns=6), turns=1))


def play(env, actions):
    """What an observer sees; the time of an episode is the machine's, not the environment's."""
    seen = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        if "episode" in info:
            info = {**info, "episode": {**info["episode"], "t": 0}}
        seen.append((observation, reward, terminated, truncated, info))
        if terminated or truncated:
            break
    return seen


def over(env):
    return env.unwrapped.episode.over


@examples(40)
@given(st.lists(ACTIONS, max_size=5), st.lists(ACTIONS, min_size=1, max_size=5), st.integers(0, 2**63))
def test_a_fork_has_the_same_future_and_leaves_the_original_alone(before, after, seed):
    env = stack()
    env.reset(seed=seed)
    play(env, before)
    moment = snapshot(env)
    data = moment.to_bytes()
    twin, witness = fork(env), fork(env)
    seen = play(twin, after)
    assert snapshot(env) == moment and snapshot(env).to_bytes() == data
    assert play(env, after) == seen
    restore(witness, Snapshot.from_bytes(data))
    assert play(witness, after) == seen
    assert [env.reset()[1]["task_id"] for _ in range(3)] == [twin.reset()[1]["task_id"] for _ in range(3)]


def test_a_fork_at_every_turn_of_an_episode():
    actions = ["<compare>50</compare>", "<luck>a</luck>", "oops", "<luck>b</luck>", "<answer>3</answer>"]
    whole = stack()
    whole.reset(seed=2)
    wanted = play(whole, actions)
    for turn in range(len(actions)):
        env = stack()
        env.reset(seed=2)
        play(env, actions[:turn])
        twin = fork(env)
        assert play(twin, actions[turn:]) == wanted[turn:]
        assert not over(env) and over(twin)
        assert play(env, actions[turn:]) == wanted[turn:]


def test_restore_goes_back_in_the_same_environment():
    env = stack()
    env.reset(seed=1)
    play(env, ["<luck>a</luck>"])
    moment = snapshot(env)
    seen = play(env, ["<luck>b</luck>", "<answer>1</answer>"])
    restore(env, moment)
    assert play(env, ["<luck>b</luck>", "<answer>1</answer>"]) == seen


def test_gymnasiums_wrappers_are_in_the_snapshot():
    env = RecordEpisodeStatistics(gym.make(ID, max_episode_steps=2))
    env.reset(seed=0)
    env.step("a")
    twin = fork(env)
    fresh = RecordEpisodeStatistics(gym.make(ID, max_episode_steps=2))
    restore(fresh, Snapshot.from_bytes(snapshot(env).to_bytes()))
    for copy in (env, twin, fresh):
        _, _, terminated, truncated, info = copy.step("<compare>1</compare>")
        assert (terminated, truncated) == (False, True)
        assert (info["episode"]["l"], info["episode"]["r"]) == (2, -0.0625)
        assert list(copy.return_queue) == [-0.0625]
    twin.return_queue.append(9.0)
    assert list(env.return_queue) == [-0.0625]


def test_restored_queues_keep_their_length():
    env = RecordEpisodeStatistics(gym.make(ID, max_episode_steps=1), buffer_length=2)
    fresh = RecordEpisodeStatistics(gym.make(ID, max_episode_steps=1), buffer_length=2)
    env.reset(seed=0)
    restore(fresh, Snapshot.from_bytes(snapshot(env).to_bytes()))
    back = snapshot(env)
    restore(env, back)
    for copy in (env, fork(env), fresh):
        for _ in range(4):
            copy.reset(seed=0)
            copy.step("<compare>1</compare>")
        assert [queue.maxlen for queue in (copy.time_queue, copy.return_queue, copy.length_queue)] == [2, 2, 2]
        assert list(copy.return_queue) == [-0.0625] * 2 and list(copy.length_queue) == [1, 1]


def test_a_snapshot_before_the_first_reset_restores_to_no_episode():
    env = gym.make(ID)
    moment = Snapshot.from_bytes(snapshot(env).to_bytes())
    twin = fork(env)
    env.reset(seed=0)
    restore(env, moment)
    for copy in (env, twin):
        with pytest.raises(gym.error.ResetNeeded):
            copy.step("a")


def test_an_ended_episode_stays_ended():
    env = stack()
    env.reset(seed=0)
    env.step("<answer>1</answer>")
    fresh = stack()
    restore(fresh, Snapshot.from_bytes(snapshot(env).to_bytes()))
    for copy in (fresh, fork(env)):
        with pytest.raises(UsageError, match="over"):
            copy.step("a")


class Loud(gym.Wrapper):
    """A stranger's wrapper with a count."""

    def __init__(self, env):
        super().__init__(env)
        self.calls = 0

    def step(self, action):
        self.calls += 1
        return self.env.step(action)


def test_a_strange_wrapper_is_refused_by_name_until_it_is_registered():
    env = Loud(gym.make(ID))
    env.reset(seed=0)
    env.step("a")
    other = TransformObservation(gym.make(ID), str.upper, None)
    for call in (lambda: fork(env), lambda: snapshot(env), lambda: restore(env, snapshot(env))):
        with pytest.raises(TypeError, match=r"tests\.core\.test_snapshot\.Loud.*register_snapshot"):
            call()
    with pytest.raises(TypeError, match="TransformObservation"):
        fork(other)
    register_snapshot(Loud, lambda wrapper: wrapper.calls, lambda wrapper, calls: setattr(wrapper, "calls", calls))
    twin = fork(env)
    twin.step("b")
    assert (env.calls, twin.calls) == (1, 2)
    restore(twin, Snapshot.from_bytes(snapshot(env).to_bytes()))
    assert twin.calls == 1


def test_a_subclass_of_a_known_wrapper_is_not_taken_for_it():
    class Odd(OrderEnforcing):
        pass

    with pytest.raises(TypeError, match="Odd"):
        fork(Odd(gym.make(ID)))


def test_a_snapshot_of_something_else_is_refused():
    env = gym.make(ID)
    env.reset(seed=0)
    moment = snapshot(env)
    for other in (gym.make(ID, turns=3), TurnLimit(gym.make(ID), turns=3), env.unwrapped):
        other.reset(seed=1)
        before = snapshot(other)
        with pytest.raises(UsageError, match="exactly as it was made"):
            restore(other, moment)
        assert snapshot(other) == before


def test_an_environment_of_another_kind_is_refused():
    for call in (fork, snapshot):
        with pytest.raises(UsageError, match="TurnEnv"):
            call(gym.make("CartPole-v1"))


def test_random_generators_of_spaces_are_separate():
    env = gym.make(ID)
    env.action_space.seed(3), env.observation_space.seed(4)
    twin = fork(env)
    wanted = [twin.action_space.sample() for _ in range(5)]
    assert [twin.observation_space.sample() for _ in range(3)]
    assert [env.action_space.sample() for _ in range(5)] == wanted
    late = fork(env)
    late.action_space.seed(1)
    assert [env.action_space.sample() for _ in range(5)] == [twin.action_space.sample() for _ in range(5)]


def test_a_reset_of_the_twin_leaves_the_originals_generator_alone():
    env = gym.make(ID)
    env.reset(seed=0)
    state = env.unwrapped.np_random.bit_generator.state
    twin = fork(env)
    twin.reset(), twin.reset(seed=8)
    assert env.unwrapped.np_random.bit_generator.state == state


def test_branches_have_their_names_in_origins_and_draw_new_samples():
    env = stack()
    env.reset(seed=0, options={"episode_key": "k"})
    env.step("nothing")
    branches = [fork(env), fork(env, branch="b1"), fork(fork(env, branch="b1"), branch="c"), fork(env, branch="b2")]
    draws = [twin.step("<luck>x</luck>")[0] for twin in branches]
    assert env.step("<luck>x</luck>")[0] == draws[0]
    assert len(set(draws)) == 4
    nodes = [[turn.node for turn in twin.unwrapped.episode.turns] for twin in branches]
    assert nodes == [["k/:1", "k/:2"], ["k/:1", "k/b1:2"], ["k/:1", "k/b1.c:2"], ["k/:1", "k/b2:2"]]
    assert branches[2].unwrapped.trajectory.header.branch == "b1.c"
    assert branches[3].reset()[1]["turn"] == 0 and branches[3].unwrapped.trajectory.header.branch == ""


def test_a_branch_survives_bytes():
    env = gym.make(ID)
    env.reset(seed=0)
    twin = fork(env, branch="b")
    restore(env, Snapshot.from_bytes(snapshot(twin).to_bytes()))
    assert env.step("<luck>x</luck>")[0] == twin.step("<luck>x</luck>")[0]


def test_forced_answers_fork_too():
    env = ForcedAnswer(gym.make(ID), free_turns=1)
    env.reset(seed=0)
    env.step("nothing")
    twin = fork(env)
    assert twin.step("12")[2] and env.step("12")[2]
    with pytest.raises(UsageError, match="over"):
        twin.step("12")


def test_rendering_after_a_fork():
    env = gym.make(ID, render_mode="ansi")
    env.reset(seed=0)
    text = env.render()
    twin = fork(env)
    twin.step("<compare>5</compare>")
    assert env.render() == text and twin.render().startswith(text) and twin.render() != text


def test_closing_a_fork_leaves_the_original_open(recwarn):
    env = gym.make(ID)
    env.reset(seed=0)
    fork(env).close()
    assert env.step("a")[4]["turn"] == 1
    env.close()
    assert not recwarn


@pytest.mark.parametrize("name", ["a.b", "a/b", "a:1", " ", "é"])
def test_a_branch_name_that_could_collide_is_refused(name):
    env = gym.make(ID)
    env.reset(seed=0)
    with pytest.raises(UsageError, match="branch="):
        fork(env, branch=name)


def test_a_snapshot_of_another_wrapper_argument_is_refused():
    three, five = TurnLimit(gym.make(ID), turns=3), TurnLimit(gym.make(ID), turns=5)
    three.reset(seed=0)
    five.reset(seed=0)
    with pytest.raises(UsageError, match="other wrappers"):
        restore(five, snapshot(three))
