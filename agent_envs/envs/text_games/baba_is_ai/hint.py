"""`next_step` gives the next action towards a win in BabaIsAI, on the map as its last description has it."""

import re
from collections.abc import Sequence
from functools import lru_cache

from agent_envs.base.errors import Unsolvable
from agent_envs.base.messages import Message
from agent_envs.envs.text_games.baba_is_ai.env import ACTIONS
from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, WORDS, BabaWorld, rules_in
from agent_envs.envs.text_games.baba_is_ai.solver import plan
from agent_envs.wrappers.scripted_feedback import Hint

_SIZE = re.compile(
    r"The map has (\d{1,2}) columns and (\d{1,2}) rows\. You are (\w{3,4}), in column (\d{1,2}), row (\d{1,2})\."
)
_ALSO = re.compile(r"^You are also (\w{3,4}): (.{1,60})\.$", re.MULTILINE)
_LISTED = re.compile(r'^- ("?)(\w{2,4})"?: (.{1,60})$', re.MULTILINE)
_STEPS = re.compile(r"(\d{1,2}) steps? (to the right|to the left|up|down)")
_LETTERS = {word: letter for letter, word in WORDS.items()}
_LONGEST = 20_000  # characters of a description
_MOST_CELLS = 200
_MOST_WORLDS = 1_000  # that a search for a way looks at


def next_step(messages: Sequence[Message]) -> Hint:
    """Return the next action and what it leads to, or "stuck" without a plan; ValueError where the last message has no map."""
    world = read_map(messages[-1].content)
    rules = rules_in(world)
    thing = next((f"the {WORDS[kind]}" for kind in rules.win if kind in world.objects), "a win")
    try:
        return "towards", {"action": ACTIONS[_first(world)].name, "thing": thing}
    except Unsolvable:
        return "stuck", {"action": "", "thing": thing}


@lru_cache(maxsize=512)
def _first(world: BabaWorld) -> int:
    """Return the first action of the shortest plan, cached; Unsolvable where too many maps are in the way."""
    return plan(world, _MOST_WORLDS)[0]


def read_map(text: str) -> BabaWorld:
    """Return the map that a description tells of; ValueError where it is none, too large, or does not fit.

    Raises ValueError: it is no description, or what it tells does not fit on the map.
    """
    text = text[:_LONGEST]
    head = _SIZE.search(text)
    if head is None:
        raise ValueError("no map")
    width, height = int(head[1]), int(head[2])
    rows = [*(("", name, place) for name, place in _ALSO.findall(text)), *_LISTED.findall(text)]
    if width * height > _MOST_CELLS or len(rows) > _MOST_CELLS:
        raise ValueError("the map is too large to search")
    origin = (int(head[5]) - 1) * width + int(head[4]) - 1
    texts, things = [EMPTY] * (width * height), [(origin, _LETTERS[head[3]])]
    for quote, name, place in rows:
        cell = _cell(origin, width, height, place)
        if quote:
            texts[cell] = _LETTERS[name]
        else:
            things.append((cell, _LETTERS[name]))
    return BabaWorld(
        width, height, "".join(texts), "".join(kind for _, kind in things), tuple(cell for cell, _ in things)
    )


def _cell(origin: int, width: int, height: int, place: str) -> int:
    """Return the cell that a description places by steps from the origin; raises ValueError beyond the map."""
    ways = {way: int(steps) for steps, way in _STEPS.findall(place)}
    x = origin % width + ways.get("to the right", 0) - ways.get("to the left", 0)
    y = origin // width + ways.get("down", 0) - ways.get("up", 0)
    if not (0 <= x < width and 0 <= y < height):
        raise ValueError(f"{place} lies beyond the map")
    return y * width + x
