"""The oracle policy (solver) of Crafter plans on the whole map."""

from collections.abc import Collection
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import Unsolvable
from agent_envs.envs.text_games.crafter.planner import Choice, Planner
from agent_envs.envs.text_games.crafter.sight import DIRECTIONS, SIDE, THINGS, Chart, character
from agent_envs.envs.text_games.crafter.world import CrafterLive, rules
from agent_envs.envs.text_games.game import core_in_play

# The order in which a whole game is played. Which of them can be had now is for the planner to find out.
ORDER = (
    "collect_wood", "place_table", "make_wood_pickaxe", "make_wood_sword", "collect_sapling", "place_plant", "collect_stone",
    "place_stone", "make_stone_pickaxe", "make_stone_sword", "wake_up", "collect_drink", "eat_cow", "collect_coal",
    "place_furnace", "collect_iron", "make_iron_pickaxe", "make_iron_sword", "collect_diamond", "defeat_zombie",
    "defeat_skeleton", "eat_plant",
)  # fmt: skip
_ASIDE = ("collect_sapling", "place_plant", "collect_drink", "eat_cow", "wake_up")  # they need no wood, and pay too
_HARMFUL = frozenset((THINGS["zombie"], THINGS["skeleton"]))
_FRAIL, _CLOSE = 4, 6  # health, and steps to what hurts, from which on plans are tried first
_AHEAD, _AHEAD_OF_MANY = 60, 20  # turns that are tried, for one achievement and in a whole game
_LEADS = tuple(
    (name,) * times for times in (1, 2, 3) for name in ("do", "noop", *(f"move_{side}" for side in DIRECTIONS))
)


def next_action(env: gym.Env[Any, Any]) -> str:
    """Return the turn that brings the goal nearer. The planner sees the whole map, and tries its plan on copies when in danger.

    Raises Unsolvable: the episode is over, or the goal is out of reach.
    """
    core = core_in_play(env, "Crafter")
    game: Any = core.game
    state = core.episode.state
    left = min(game.limit(state), core.max_turns) - len(core.episode.turns)
    live = game.twin(state)
    choice = _aside(live, game.wanted, left) if core.reward_spec.name == "native" else None
    choice = choice or chosen(live, game.wanted, left)
    if choice is None:
        raise Unsolvable(f"{core.env_id}: what the goal asks for is out of reach")
    return core.say(rules().actions.index(choice.action), choice.thought)


def wins(live: CrafterLive, wanted: Collection[str], turns: int) -> bool:
    """Play a game on with the planner, and return whether it gets what is wanted within so many turns."""
    return _played(live, (), wanted, turns, turns)[0]


def chosen(live: CrafterLive, wanted: Collection[str], left: int) -> Choice | None:
    """Return the next action in a game: that of the plan, unless the plan leads to death and something else does not."""
    chart = live.chart()
    choice = planned(chart, wanted, left)
    if choice is None or chart.sleeping or not _threatened(chart):
        return choice
    best, lasted = choice, (False, 0)
    for lead in ((choice.action,), *_LEADS):
        result = _played(live.copy(), lead, wanted, left, _AHEAD if len(wanted) == 1 else _AHEAD_OF_MANY)
        if result > lasted:
            thought = choice.thought if lead[0] == choice.action else "I keep away from danger."
            best, lasted = Choice(lead[0], thought), result
        if result[0]:
            break
    return best


def planned(chart: Chart, wanted: Collection[str], left: int) -> Choice | None:
    """Return the next action towards the achievements wanted, None if none of them can be had in the turns that are left."""
    if chart.sleeping:
        return Choice("noop", "I sleep, and can only wait.")
    planner = Planner(chart, rules())
    if len(wanted) == 1:
        (name,) = wanted
        return planner.toward(name) if planner.least(name) <= left else None
    for name in (*planner.urgent(), *(name for name in ORDER if name not in chart.unlocked)):
        choice = planner.toward(name)
        if choice is not None:
            return choice
    return Choice("noop", "I wait for what may come.")


def _aside(live: CrafterLive, wanted: Collection[str], left: int) -> Choice | None:
    """Return an action towards another achievement, if the goal can be reached after it: crafter pays for all alike."""
    chart = live.chart()
    if len(wanted) > 1 or chart.sleeping or _threatened(chart):
        return None
    planner = Planner(chart, rules())
    for name in _ASIDE:
        choice = planner.toward(name) if name not in chart.unlocked else None
        if choice is not None and _played(live.copy(), (choice.action,), wanted, left, left)[0]:
            return choice
    return None


def _played(
    live: CrafterLive, lead: tuple[str, ...], wanted: Collection[str], left: int, most: int
) -> tuple[bool, int]:
    """Play on with some actions, then by plan; return whether it goes well in so many turns, and how many it lasts."""
    actions = rules().actions
    for turn in range(min(left, most)):
        choice = Choice(lead[turn], "") if turn < len(lead) else planned(live.chart(), wanted, left - turn)
        if choice is None:
            return False, turn
        sight = live.act(character(actions.index(choice.action))).sight
        if live.unlocked.issuperset(wanted):
            return True, turn + 1
        if not sight.items[0]:
            return False, turn
    return most < left, min(left, most)


def _threatened(chart: Chart) -> bool:
    """Return whether something that hurts is near, or health is low."""
    x, y = chart.place % SIDE, chart.place // SIDE
    near = (abs(cell % SIDE - x) + abs(cell // SIDE - y) for cell, mark in chart.things.items() if mark in _HARMFUL)
    return chart.items["health"] <= _FRAIL or min(near, default=SIDE) <= _CLOSE
