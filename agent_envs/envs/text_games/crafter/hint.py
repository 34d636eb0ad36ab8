"""`next_step` gives the next action towards a goal of Crafter, by what a player who remembers can know."""

import re
from collections.abc import Sequence

from agent_envs.base.messages import Message
from agent_envs.envs.text_games.crafter.belief import Land
from agent_envs.envs.text_games.crafter.env import ACTIONS, GOALS, NOOP
from agent_envs.envs.text_games.crafter.planner import Choice
from agent_envs.envs.text_games.crafter.solver import planned
from agent_envs.envs.text_games.crafter.world import rules
from agent_envs.envs.text_games.hint_turns import played
from agent_envs.wrappers.scripted_feedback import Hint

_NAMED = re.compile(r"\b(?:to|of) (the [a-z ]+)")
_MANY = 10_000  # turns that are taken to be left


def next_step(messages: Sequence[Message]) -> Hint:
    """Return the next action, what it is for, and whether that is known to be there.

    Raises:
        LookupError: there is no goal.
    """
    land = Land.of(played(messages, ACTIONS, NOOP))
    prompt = messages[0].content
    goal = next(name for name, (phrase, _, _) in GOALS.items() if f"Your goal is to {phrase}." in prompt)
    achievement = GOALS[goal][1]
    wanted = (achievement,) if achievement else rules().achievements
    choice: Choice | None = planned(land.chart(rules().items), wanted, _MANY)
    if choice is None or (choice.action == "noop" and not land.asleep):
        return "look", {"action": f"move {land.outward()}", "thing": "what the goal asks for"}
    named = _NAMED.search(choice.thought)
    return "towards", {"action": choice.action.replace("_", " "), "thing": named[1] if named else "the goal"}
