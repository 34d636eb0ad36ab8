"""The oracle policy (solver) follows a plan that wins the BabyAI mission.

A plan is made where the episode starts; after an action that is not its next one, a new plan is made. So the answer hangs on
the recorded episode alone, not on what was asked before, and a plan that wins is never given up half way.
"""

from typing import Any

import gymnasium as gym

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.babyai.grid import DROP, BabyWorld
from agent_envs.envs.text_games.babyai.instructions import play_action
from agent_envs.envs.text_games.babyai.mission import JOINTS, BabyClause, Instructions, surface
from agent_envs.envs.text_games.babyai.planner import plan, plan_or_none
from agent_envs.envs.text_games.game import core_in_play
from agent_envs.envs.text_games.scoring import facts_of
from agent_envs.wrappers.turns import allowance


def next_action(env: gym.Env[Any, Any]) -> str:
    """Return the next turn of a plan that wins; Unsolvable if the episode is over or no plan wins in the turns left.

    Raises Unsolvable: the episode is over, or no plan was found that wins in the turns that are left.
    """
    core = core_in_play(env, "BabyAI")
    world: BabyWorld = core.episode.state
    names = [action.name for action in core.game.actions]
    actions = tuple(names.index(facts_of(turn).action) for turn in core.episode.turns)
    left = allowance(env)[0]
    rest = remaining(core.game.begin(core.episode.task, world.limit), actions)
    if len(rest) > left:
        raise Unsolvable(f"{core.env_id}: the plan needs {len(rest)} turns, and {left} are left")
    return core.say(rest[0], f"I still have to {to_do(world.instructions)}. Next I {names[rest[0]]}.")


def remaining(start: BabyWorld, actions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the actions to come of the plan that a player of `actions` from `start` holds; Unsolvable without one.

    Raises Unsolvable: there is no plan from where they led.
    """
    rest = plan_or_none(start)
    if len(rest) > len(actions) and rest[: len(actions)] == actions:
        return rest[len(actions) :]
    worlds = [start]
    for action in actions:
        worlds.append(play_action(worlds[-1], action)[0])
    # No plan holds an action that changes nothing (but for the drop that ends a `go to`), so behind one there is a new plan.
    idle = [turn for turn, action in enumerate(actions, 1) if action != DROP and _same(worlds[turn - 1], worlds[turn])]
    since = idle[-1] if idle else 0
    rest = plan_or_none(worlds[since])
    for turn, action in enumerate(actions[since:], since + 1):
        rest = rest[1:] if rest[:1] == (action,) else plan_or_none(worlds[turn])
    return rest or plan(worlds[-1])


def to_do(instructions: Instructions) -> str:
    """Return the mission in words, without the parts that are done; a lone clause stays."""
    if isinstance(instructions, BabyClause):
        return surface(instructions)
    parts = [(instructions.first, instructions.first_done), (instructions.second, instructions.second_done)]
    return JOINTS[instructions.order].join(to_do(part) for part, done in parts if not done)


def _same(before: BabyWorld, after: BabyWorld) -> bool:
    """Return whether two worlds have the agent, its load and all things in the same state, whatever became of the mission."""
    same_place = (before.place, before.facing, before.carrying) == (after.place, after.facing, after.carrying)
    return same_place and before.things == after.things
