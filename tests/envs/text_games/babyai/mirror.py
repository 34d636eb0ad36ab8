"""Minigrid and our world side by side: what both must agree on, and a player that touches many things."""

import contextlib
import io

import gymnasium as gym
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX

from agent_envs.envs.text_games.babyai.grid import (
    DROP,
    EMPTY,
    GO_FORWARD,
    PICK_UP,
    TOGGLE,
    TURN_LEFT,
    TURN_RIGHT,
    UNSEEN,
    VIEW,
    WALL,
    identity,
    in_front,
    mark,
    visible,
)  # fmt: skip
from agent_envs.envs.text_games.babyai.instructions import play_action
from agent_envs.envs.text_games.babyai.levels import world_of
from agent_envs.envs.text_games.babyai.mission import surface

TURNS = (TURN_LEFT, TURN_RIGHT)


def reset(level, seed):
    """Reset a level of minigrid, which prints, and return it."""
    with contextlib.redirect_stdout(io.StringIO()):
        level.reset(seed=seed)
    return level


def original(name, seed):
    """A registered level of minigrid itself, after its reset."""
    return reset(gym.make(name).unwrapped, seed)


def code(world, character):
    """A character of the grid or of a view as minigrid encodes a cell."""
    if character in (UNSEEN, EMPTY, WALL):
        kind = {UNSEEN: "unseen", EMPTY: "empty", WALL: "wall"}[character]
        return OBJECT_TO_IDX[kind], COLOR_TO_IDX["grey"] if character == WALL else 0, 0
    thing = world.things[identity(character)]
    return OBJECT_TO_IDX[thing.kind], COLOR_TO_IDX[thing.color], STATE_TO_IDX.get(thing.state, 0)


def assert_same(world, level, image):
    """Our world equals the moment of minigrid's level, whose last observation is given."""
    assert (world.width, world.height) == (level.grid.width, level.grid.height)
    assert divmod(world.place, world.width) == (level.agent_pos[1], level.agent_pos[0])
    assert (world.facing, world.steps, world.limit) == (level.agent_dir, level.step_count, level.max_steps)
    held = None if level.carrying is None else level.carrying.encode()
    assert (None if world.carrying < 0 else code(world, mark(world.carrying))) == held
    for character, thing in zip(world.cells, level.grid.grid, strict=True):
        assert code(world, character) == ((1, 0, 0) if thing is None else thing.encode())
    for number, thing in enumerate(world.things):
        assert thing.place < 0 or world.cells[thing.place] == mark(number)
    view = [code(world, character) for character in visible(world)]
    assert view == [tuple(image[at % VIEW, at // VIEW]) for at in range(VIEW * VIEW)]


def begun(level):
    """Our world of a level that was just reset, compared."""
    world = world_of(level)
    assert surface(world.instructions) == level.mission
    assert_same(world, level, level.gen_obs()["image"])
    return world


def step(world, level, action):
    """Take a step on both sides, compare, and return our world and the mission's status."""
    world, status = play_action(world, action)
    observation, reward, terminated, truncated, _ = level.step(action)
    assert terminated == (status != "continue")
    assert reward == (1 - 0.9 * (world.steps / world.limit) if status == "success" else 0)
    assert truncated == (world.steps >= world.limit)
    assert_same(world, level, observation["image"])
    return world, status


def restless(world, rng):
    """An action of a player that touches what is before it more often than chance would."""
    content = world.cells[in_front(world)]
    if content == EMPTY:
        drops = (DROP,) * (2 if world.carrying >= 0 else 1)
        return rng.choice((GO_FORWARD,) * 4 + (*TURNS, TOGGLE, PICK_UP, *drops))
    if content == WALL:
        return rng.choice(TURNS * 4 + (GO_FORWARD, DROP, TOGGLE, PICK_UP))
    return rng.choice((PICK_UP, PICK_UP, TOGGLE, TOGGLE, GO_FORWARD, GO_FORWARD, DROP, *TURNS))


def run(level, rng, steps):
    """Play both sides restlessly, over the mission's end too; return our last world and all statuses."""
    world, statuses = begun(level), []
    for _ in range(steps):
        world, status = step(world, level, restless(world, rng))
        statuses.append(status)
    return world, statuses
