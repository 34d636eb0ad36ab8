"""The solver plays the environment, and its answer hangs on the recorded episode alone."""

import random
from collections import Counter

import pytest

from agent_envs.base.errors import Unsolvable, UsageError
from agent_envs.envs.text_games.babyai.grid import DROP, GO_FORWARD, PICK_UP, TOGGLE, TURN_LEFT, TURN_RIGHT
from agent_envs.envs.text_games.babyai.instructions import play_action
from agent_envs.envs.text_games.babyai.planner import plan
from agent_envs.envs.text_games.babyai.solver import next_action, remaining, to_do
from agent_envs.envs.text_games.game import random_action
from tests.envs.text_games.babyai.rooms import both, clause, drawn
from tests.needs import needs

LEFT, RIGHT, GO = TURN_LEFT, TURN_RIGHT, GO_FORWARD


def test_the_answer_hangs_on_the_actions_taken_alone():
    rows = ["##########", "#b   >   #", "#  d   a #", "##########"]
    mission = both("before", clause("pickup", "blue key"), clause("putnext", "grey box", "red ball"))
    world = drawn(rows, {"a": "red ball", "b": "blue key", "d": "grey box"}, mission)
    rng = random.Random(7)
    taken = tuple(rng.choice((LEFT, RIGHT, GO, GO, TOGGLE, DROP)) for _ in range(25))
    cold = []
    for count in range(len(taken) + 1):
        plan.cache_clear()
        try:
            cold.append(remaining(world, taken[:count]))
        except Unsolvable:
            cold.append(())
    warm = [remaining(world, taken[:count]) if cold[count] else () for count in range(len(taken) + 1)]
    assert warm == cold
    first = plan(world)
    assert [remaining(world, first[:count]) for count in range(len(first))] == [first[n:] for n in range(len(first))]


def test_the_thought_tells_what_is_left_to_do():
    mission = both("after", clause("goto", "red ball"), both("and", clause("pickup", "key"), clause("goto", "box")))
    rows = ["########", "#>a b c#", "########"]
    world = drawn(rows, {"a": "blue key", "b": "red ball", "c": "grey box"}, mission)
    text = "go to the red ball after you pick up the key and go to the box"
    assert to_do(world.instructions) == text
    world, _ = play_action(world, PICK_UP)
    assert to_do(world.instructions) == "go to the red ball after you go to the box"


@needs("[babyai]")
def test_it_plays_the_environment():
    from agent_envs.envs.text_games.babyai.env import BabyAI

    env, rng = BabyAI(), random.Random(1)
    for task in range(10):
        env.reset(options={"task": task})
        for _ in range(5 * (task % 2)):
            if not env.episode.over:
                env.step(random_action(env, rng))
        while not env.episode.over:
            text = next_action(env)
            assert text == next_action(env) and text.startswith("THINK: I still have to ")
            _, _, _, _, info = env.step(text)
        assert info["success"] and info["events"] == []
        with pytest.raises(Unsolvable, match="over"):
            next_action(env)


@needs("[babyai]")
def test_too_few_turns_are_unsolvable():
    from agent_envs.envs.text_games.babyai.env import BabyAI
    from agent_envs.wrappers import TurnLimit

    env = TurnLimit(BabyAI(kind="open"), turns=2)
    env.reset(options={"task": 0})
    with pytest.raises(Unsolvable, match="BabyAI: the plan needs .* 2 are left"):
        next_action(env)


@needs("[babyai]")
def test_the_random_player_draws_all_actions_alike():
    from agent_envs.envs.text_games.babyai.env import ACTIONS, BabyAI

    env, rng = BabyAI(), random.Random(0)
    env.reset(options={"task": 0})
    drawn_actions = Counter(env.action_of(random_action(env, rng))[0] for _ in range(3_000))
    assert sorted(drawn_actions) == list(range(len(ACTIONS)))
    assert all(400 < count < 600 for count in drawn_actions.values())


def test_it_plays_nothing_else():
    from tests.toy import Guess

    env = Guess()
    env.reset(seed=0)
    with pytest.raises(UsageError, match="^BabyAI's solver plays BabyAI, not <tests.toy.Guess"):
        next_action(env)
