"""Reference algorithms as agents: on both faces they make the calls that their exact figures count."""

from collections import Counter

import gymnasium as gym
import pytest

from agent_envs import UsageError, run_episode
from agent_envs.envs.expa.sorting.algorithms import ALGORITHMS, able_sizes
from agent_envs.evaluation.runs.evaluate import make_agent
from baselines.sorting import SortingAgent
from benchmarks.sorting_plays import run


@pytest.mark.parametrize("face", ["Sort", "SortExpA"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_agent_plays_what_its_algorithm_does(name, face):
    for size in {4, able_sizes(name)[-1]}:
        limit = {"max_actions" if face == "SortExpA" else "max_generations": 400}
        env = gym.make(f"agent_envs/{face}-v0", size=size, **limit)
        agent = make_agent("baselines.sorting:SortingAgent", algorithm=name)
        for task in range(6):
            trajectory = run_episode(env, agent, seed=task, task=task, split="test").trajectory
            wanted = run(ALGORITHMS[name], trajectory.task.hidden, trajectory.task.data.descending)
            found = Counter(result.name for turn in trajectory.turns for result in turn.results)
            assert (found["compare"], found["swap"]) == (wanted.compares, wanted.swaps)
            assert trajectory.success == wanted.sorted is True


def test_it_says_what_it_cannot_play():
    with pytest.raises(UsageError, match="algorithm 'quick' is unknown; the algorithms are optimal"):
        SortingAgent("quick")
    with pytest.raises(UsageError, match="sorting-network-4 sorts 4 items, not 5; make the id with size="):
        run_episode(gym.make("agent_envs/Sort-v0", size=5), SortingAgent("network-4"), seed=0)
    for other in ("Order", "Count"):
        with pytest.raises(UsageError, match=f"{other}-v0: sorting-merge plays sorting tasks only"):
            run_episode(gym.make(f"agent_envs/{other}-v0"), SortingAgent("merge"), seed=0, split="test")


def test_it_goes_on_only_from_calls_of_its_own():
    env = gym.make("agent_envs/Sort-v0", size=4)
    env.reset(seed=0)
    agent = SortingAgent("merge").begin(env)
    env.step("<swap>A, D</swap>")
    with pytest.raises(UsageError, match=r"sorting-merge: the episode holds swap .* not its own"):
        agent.act([None])
