"""Verbal feedback: the coin and what is drawn beside it, over turns, rollouts, forks and loops of one's own."""

import random
import statistics

import gymnasium as gym
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import fork, register_companions, spec_json
from agent_envs.core.trajectory import Header, TrajectoryTree
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.run_many import run_many
from agent_envs.wrappers import VerbalFeedback
from agent_envs.wrappers.feedback import exploration_draw
from agent_envs.wrappers.feedback_models import chance_key
from tests.examples import examples
from tests.toy import Guess
from tests.wrappers.advised import COMPARE
from tests.wrappers.test_feedback import Says, advised

FIRST = {"seed": 0, "options": {"task": 3}}


def modes(env, steps=4, **options):
    _, info = env.reset(seed=0, **options)
    found = [info["feedback"]]
    for _ in range(steps):
        found.append(env.step(COMPARE)[4]["feedback"])
    return found


def test_epsilon_0_and_1_are_exact_and_epsilon_is_a_share():
    keys = [f"key {number}" for number in range(400)]
    header = Header("e", "s", "t", "train", "d", 0, "")
    numbers = [exploration_draw(Header("e", "s", "t", "train", "d", 0, key), turn) for key in keys for turn in range(5)]
    assert all(0 <= number < 1 for number in numbers) and len(set(numbers)) == 2000
    assert abs(statistics.fmean(numbers) - 0.5) < 0.03 and exploration_draw(header, 0) == exploration_draw(header, 0)
    for key in keys[:20]:
        assert set(modes(advised(1.0), options={"episode_key": key})) == {"explore"}
        assert set(modes(advised(0.0), options={"episode_key": key})) == {"exploit"}
    tenth = [mode for key in keys[:60] for mode in modes(advised(0.1), options={"episode_key": key})]
    assert 0.05 < tenth.count("explore") / len(tenth) < 0.16


@examples(30)
@given(st.floats(0, 1), st.floats(0, 1), st.text(min_size=1, max_size=8))
def test_a_larger_epsilon_explores_wherever_a_smaller_one_does(one, other, key):
    low, high = sorted((one, other))
    options = {"episode_key": key.encode("utf-8", "replace").decode()}
    pairs = zip(modes(advised(low), options=options), modes(advised(high), options=options), strict=True)
    assert all((few, many) != ("explore", "exploit") for few, many in pairs)


def test_every_part_of_the_key_draws_anew():
    base = {
        "env_id": "e",
        "spec_digest": "s",
        "task_id": "t",
        "split": "train",
        "task_digest": "d",
        "seed": 0,
        "episode_key": "k",
    }
    first = exploration_draw(Header(**base), 0)
    for other in ({"task_digest": "x"}, {"seed": 1}, {"episode_key": "x"}, {"branch": "b"}):
        assert exploration_draw(Header(**{**base, **other}), 0) != first
    assert exploration_draw(Header(**base), 1) != first


def test_coins_are_what_they_were():
    """Recordings, journals and goldens hang on them."""
    header = Header("e", "s", "t", "train", "d", 0, "k")
    assert [round(exploration_draw(header, turn), 6) for turn in range(4)] == [0.765606, 0.241905, 0.724938, 0.750414]
    told = modes(advised(0.5), options={"episode_key": "k"})
    assert told == ["exploit", "explore", "exploit", "exploit", "explore"]


def test_rollouts_of_a_group_are_independent_and_form_one_tree():
    spec = spec_json(advised(turns=3))
    plan = [Planned(f"group/{rollout}", spec, 2, "train", 7, rollout) for rollout in range(8)]
    found = [result.trajectory for _, result in run_many(plan, Says(), concurrency=2)]
    assert len({trajectory.prompt[-1].content for trajectory in found}) == 8
    tree = TrajectoryTree(found[0].header, found[0].prompt)
    for trajectory in found:
        tree.add(trajectory)
    assert [message.author for message in tree.prompt] == ["environment", "environment"]
    assert len(tree.nodes) == 24 and [path.prompt for path in tree.paths()] == [one.prompt for one in found]
    again = [result.trajectory for _, result in run_many(plan, Says(), concurrency=4)]
    assert sorted(again, key=str) == sorted(found, key=str)


def test_a_fork_has_the_same_future_and_a_branch_another_one():
    env = advised()
    env.reset(seed=3)
    env.step(COMPARE)
    twin, *branches = fork(env), *(fork(env, branch=f"b{number}") for number in range(6))
    told = [env.step(COMPARE)[0] for env in (env, twin, *branches)]
    assert told[0] == told[1] and len(set(told)) == 7
    assert env.extra_messages == twin.extra_messages and env.extra_messages[:2] == branches[0].extra_messages[:2]
    later = [env.step(COMPARE)[0] for env in (env, twin)]
    assert later[0] == later[1]


def lived(env, key, steps=3):
    """The coins and the messages of an episode of a plain loop under a key."""
    _, info = env.reset(seed=0, options={"task": 3, "episode_key": key})
    found = [(info["feedback"], info["messages"][-1]["content"])]
    for _ in range(steps):
        info = env.step(COMPARE)[4]
        found.append((info["feedback"], info["messages"][-1]["content"]))
    return found


def number(text):
    """The number that the toy's script drew."""
    return int(text.rpartition(" ")[2].rstrip("."))


def test_plain_loops_of_a_group_are_independent_by_their_keys_and_only_by_them():
    env = advised()
    pairs = [(lived(env, f"{group}/0"), lived(env, f"{group}/1")) for group in range(150)]
    turns = [(one, other) for pair in pairs for one, other in zip(*pair, strict=True)]
    # Of 600 pairs of fair coins 300 agree, with a standard deviation of 12.
    assert 250 < sum(one[0] == other[0] for one, other in turns) < 350
    assert 250 < sum(number(one[1]) % 2 == number(other[1]) % 2 for one, other in turns) < 350
    assert not [number(one[1]) for one, other in turns if number(one[1]) == number(other[1])]
    assert lived(env, "0/0") == lived(env, "0/0") == pairs[0][0]
    bare = [env.reset(**FIRST)[1]["messages"][-1] for _ in range(2)]
    assert bare[0] == bare[1]  # without a key the same reset is the same rollout


class Heard(Guess):
    """The toy with a script that tells the state of its chance."""


HEARD = []


def overheard(messages, mode, quality, rng):
    HEARD.append((mode, rng.getstate()))
    return "Go on."


register_companions(Heard, feedback=overheard)
gym.register(id="toy/Heard-v0", entry_point="tests.wrappers.test_feedback_chance:Heard")


def test_what_is_said_does_not_hang_on_the_coin():
    """z and v of a turn come from keys of their own: no number behind the one tells that behind the other."""
    env = VerbalFeedback(gym.make("toy/Heard-v0"), epsilon=0.5)
    table, coins, draws = {}, [], []
    for key in range(300):
        HEARD.clear()
        env.reset(seed=0, options={"task": 0, "episode_key": f"k{key}"})
        env.step(COMPARE)
        header = env.unwrapped.episode.header
        for turn, (mode, state) in enumerate(HEARD):
            coin, rng = exploration_draw(header, turn), random.Random()
            assert state != random.Random(chance_key(header, turn, "epsilon")).getstate()
            rng.setstate(state)
            coins.append(coin)
            draws.append(rng.random())
            table[mode, draws[-1] < 0.5] = table.get((mode, draws[-1] < 0.5), 0) + 1
    assert all(110 < count < 190 for count in table.values()) and len(table) == 4  # 150, and a deviation of 11
    assert abs(statistics.correlation(coins, draws)) < 0.12  # three deviations of 600 independent pairs
