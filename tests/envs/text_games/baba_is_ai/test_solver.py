import random

import gymnasium as gym
import pytest

from agent_envs.base.errors import Unsolvable, UsageError
from agent_envs.core.snapshot import fork
from agent_envs.envs.text_games.baba_is_ai import solver as baba_solver
from agent_envs.envs.text_games.baba_is_ai.env import BabaIsAI
from agent_envs.envs.text_games.baba_is_ai.levels import KINDS
from agent_envs.envs.text_games.baba_is_ai.solver import MOST_KEPT, next_action, plan, remaining
from agent_envs.envs.text_games.game import random_action
from tests.envs.text_games.baba_is_ai.boards import board
from tests.needs import needs


def playing(kind="mixed", task=0, **arguments):
    env = BabaIsAI(kind=kind, **arguments)
    env.reset(options={"task": task, "split": "test"})
    return env


def finished(env):
    for _ in range(env.max_turns):
        _, reward, terminated, truncated, info = env.step(next_action(env))
        if terminated or truncated:
            return reward, info["success"]
    return None


@pytest.mark.parametrize("index", range(0, len(KINDS), 3))
def test_it_wins_in_as_few_turns_as_can_be(index):
    env = playing(task=index)
    steps = len(plan(env.episode.state.world))
    assert finished(env) == (1.0, True) and len(env.episode.turns) == steps


def test_it_wins_from_where_others_left_it():
    rng = random.Random("left")
    won = lost = 0
    for task in range(16):
        env = playing("make_win-distr_obj", task)
        for _ in range(8):
            if not env.episode.over:
                env.step(random_action(env, rng))
        if env.episode.over:
            continue
        try:
            assert finished(env) == (1.0, True)
            won += 1
        except Unsolvable:
            lost += 1
    assert won >= 8 and lost <= 6


def test_what_it_says_hangs_on_the_map_alone():
    env = playing("two_room-break_stop-goto_win", 1)
    said = []
    while not env.episode.over:
        twin = fork(env)
        said.append(next_action(env))
        baba_solver._PLANS.clear()
        assert next_action(twin) == said[-1]
        env.step(said[-1])
    assert said[0].startswith("THINK: The shortest way to a win takes") and said[-1].startswith(
        "THINK: The shortest way to a win takes one more step. Next I go "
    )


def test_it_gives_up_when_nothing_can_be_won():
    env = playing("goto_win")
    finished(env)
    with pytest.raises(Unsolvable, match="over"):
        next_action(env)
    with pytest.raises(Unsolvable, match="BabaIsAI.*: a win takes .* turns, and 2 are left"):
        next_action(playing("make_win", max_turns=2))
    with pytest.raises(Unsolvable, match="no way"):
        remaining(board("BABA IS YOU", "baba . key"))


def test_memory_is_bounded():
    baba_solver._PLANS.clear()
    for index in range(MOST_KEPT + 2):
        baba_solver._PLANS[index] = ()
    world = playing("goto_win", 3).episode.state.world
    steps = remaining(world)
    assert len(baba_solver._PLANS) == len(steps) and remaining(world) is steps


def test_the_random_player_takes_every_action():
    env, rng = playing(), random.Random(5)
    drawn = [random_action(env, rng) for _ in range(500)]
    assert {text: drawn.count(text) > 60 for text in sorted(set(drawn))} == {
        f"ACTION: {name}": True for name in ("down", "idle", "left", "right", "up")
    }


@needs("[envs]")
def test_it_plays_no_other_environment():
    for other in ("CartPole-v1", "agent_envs/BabyAI-v0"):
        with pytest.raises(UsageError, match=f"^BabaIsAI's solver plays BabaIsAI, not '{other}'$"):
            next_action(gym.make(other))
