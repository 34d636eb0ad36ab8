"""The oracle policy (solver) takes a shortest way to a win of BabaIsAI, found by best-first search with a lower bound (A*)."""

from heapq import heappop, heappush
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.baba_is_ai.bound import Bound
from agent_envs.envs.text_games.baba_is_ai.ground import AWAY, WAYS
from agent_envs.envs.text_games.baba_is_ai.rules import BabaWorld, moved, outcome
from agent_envs.envs.text_games.game import core_in_play
from agent_envs.wrappers.turns import allowance

MOST_WORLDS = 8_000  # that one search looks at
MOST_STEPS = 1_000  # of a plan
MOST_KEPT = 4_096  # maps whose plan is remembered
_PLANS: dict[BabaWorld, tuple[int, ...]] = {}


def next_action(env: gym.Env[Any, Any]) -> str:
    """Return the next turn of a shortest way to a win; Unsolvable if over, without one, or too long for the turns left.

    Raises Unsolvable: the episode is over, no win can be found any more, or the turns that are left do not suffice.
    """
    core = core_in_play(env, "BabaIsAI")
    steps, left = remaining(core.episode.state.world), allowance(env)[0]
    if len(steps) > left:
        raise Unsolvable(f"{core.env_id}: a win takes {len(steps)} turns, and {left} are left")
    count = "one more step" if len(steps) == 1 else f"{len(steps)} more steps"
    return core.say(steps[0], f"The shortest way to a win takes {count}. Next I go {core.game.actions[steps[0]].name}.")


def remaining(world: BabaWorld) -> tuple[int, ...]:
    """Return a map's shortest plan, cached, and that of each map on its way as the remainder; Unsolvable where there is none.

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


def plan(world: BabaWorld, most_worlds: int = MOST_WORLDS, most_steps: int = MOST_STEPS) -> tuple[int, ...]:
    """Return the first, in action order, of the shortest ways to a win; () if won; Unsolvable if none is found within limits.

    So what is left of a plan after some of its actions is the plan of the map that they lead to.

    Raises:
        Unsolvable: there is no way, none within `most_steps`, or none was found among `most_worlds` maps.
    """
    bound = Bound(world)
    paths = {world: b""}
    result = outcome(world)
    heap = [(0 if result else bound(world), b"", world)] if result != "lost" else []
    looked = 0
    while heap and heap[0][0] <= most_steps:
        # Of equal bounds the smaller path goes first, and a path is smaller than all that go on from it.
        _, path, world = heappop(heap)
        if outcome(world) == "won":
            return tuple(path)
        if paths[world] != path:
            continue
        looked += 1
        if looked > most_worlds:
            raise Unsolvable(f"no way to a win was found among {most_worlds} maps")
        for way in WAYS:
            after, further = moved(world, way), path + bytes((way,))
            shortest = paths.get(after)
            if shortest is not None and (len(shortest), shortest) <= (len(further), further):
                continue
            paths[after] = further
            result = outcome(after)
            left = AWAY if result == "lost" else 0 if result else bound(after)
            if left < AWAY:
                heappush(heap, (len(further) + left, further, after))
    raise Unsolvable(f"there is no way to a win within {most_steps} steps")
