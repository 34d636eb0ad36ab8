"""The oracle policy (solver) takes a shortest way to a win of BabaIsAI."""

from typing import Any

import gymnasium as gym

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.baba_is_ai.rules import BabaWorld, moved
from agent_envs.envs.text_games.baba_is_ai.search import plan
from agent_envs.envs.text_games.game import core_in_play
from agent_envs.wrappers.turns import allowance

MOST_KEPT = 4_096  # maps whose plan is remembered
_PLANS: dict[BabaWorld, tuple[int, ...]] = {}


def next_action(env: gym.Env[Any, Any]) -> str:
    """Return the next turn of a shortest way to a win from the map as it stands.

    Raises Unsolvable: the episode is over, no win can be found any more, or the turns that are left do not suffice.
    """
    core = core_in_play(env, "BabaIsAI")
    steps, left = remaining(core.episode.state.world), allowance(env)[0]
    if len(steps) > left:
        raise Unsolvable(f"{core.env_id}: a win takes {len(steps)} turns, and {left} are left")
    count = "one more step" if len(steps) == 1 else f"{len(steps)} more steps"
    return core.say(steps[0], f"The shortest way to a win takes {count}. Next I go {core.game.actions[steps[0]].name}.")


def remaining(world: BabaWorld) -> tuple[int, ...]:
    """Return the plan of a map. What is left of a plan is the plan of the maps on its way, so it is kept for all of them.

    Raises Unsolvable: the search finds none.
    """
    steps = _PLANS.get(world)
    if steps is None:
        steps = plan(world)
        if len(_PLANS) > MOST_KEPT:
            _PLANS.clear()
        after = world
        for index, action in enumerate(steps):
            _PLANS[after] = steps[index:]
            after = moved(after, action)
    return steps
