"""Honest baselines without a model walk straight at what the goal names, by the newest observation alone, or by chance."""

import random
import re

from agent_envs.envs.text_games.babyai.hint import CARRIED, LINE, Thing, clauses, fits
from agent_envs.rollout.policy import Request

_ASTRAY = 0.15  # how often a step is taken by chance
_PLACE = re.compile(r"(\d{1,4}) steps? (?:to the )?(left|right|up|down)")
_THING = re.compile(r"^- (\w+): (.+)$", re.M)
_TREE = re.compile(r"^- a tree (.+?)(?: \(|$)", re.M)
_WOOD = re.compile(r"(\d) wood\b")


def babyai(request: Request) -> str:
    """Return a step in BabyAI: to what the mission is about, or onwards and round corners until in sight; some by chance."""
    prompt, text, chance = _read(request)
    carried, todo = CARRIED.search(text), clauses(prompt) or [("go to", Thing("", ""), Thing("", ""))]
    verb, thing, beside = todo[0]
    if carried and fits(Thing(carried[2], carried[1]), thing):
        verb, thing = ("put", beside) if verb == "put" else todo[-1][:2]
    elif verb == "put":
        verb = "pick up"
    things = [(kind, color, state, int(aside or 0) * (-1 if side == "left" else 1), int(ahead or 0))
            for state, color, kind, aside, side, ahead in LINE.findall(text)]  # fmt: skip
    front = [(kind, state) for kind, _, state, aside, ahead in things if (aside, ahead) == (0, 1) and state != "open"]
    aims = [(aside, ahead) for kind, color, _, aside, ahead in things if fits(Thing(kind, color), thing)]
    if chance.random() < _ASTRAY:
        return _act(chance.choice(("turn left", "turn right", "go forward")))
    if (0, 1) in aims:
        return _act({"open": "toggle", "pick up": "pick up"}.get(verb, "turn left"))
    if (0, 2) in aims and verb == "put" and not front:
        return _act("drop")
    if aims and aims[0][1] <= (verb == "put"):
        return _act("turn right" if aims[0][0] > 0 else "turn left")
    if front:
        return _act("toggle" if front[0][0] == "door" else chance.choice(("turn left", "turn right")))
    return _act("go forward")


def baba_is_ai(request: Request) -> str:
    """Return a step in BabaIsAI: to the nearest thing that is WIN; where there is none, or on none, by chance."""
    _, text, chance = _read(request)
    return _act(_towards([place for name, place in _THING.findall(text) if f"- {name} is win" in text], chance))


def crafter(request: Request) -> str:
    """Return a step in Crafter: to a tree, or any way without one; with 3 wood a table, unless the goal is to collect wood."""
    prompt, text, chance = _read(request)
    wood = _WOOD.search(text)
    if wood and int(wood[1]) > 2 and "Your goal is to collect wood." not in prompt:
        return _act("place table")
    if re.search(r"look \w+, at a tree", text):
        return _act("do")
    return _act("move " + _towards(_TREE.findall(text), chance))


def _towards(places: list[str], chance: random.Random) -> str:
    """Return a direction towards the nearest of some places; now and then, and without a place, any of the four."""
    steps: list[list[tuple[str, str]]] = [_PLACE.findall(place) for place in places]
    near = min((step for step in steps if step), key=lambda step: sum(int(n) for n, _ in step), default=[])
    ways = [way for _, way in near]
    return chance.choice(ways if ways and chance.random() > _ASTRAY else ["left", "right", "up", "down"])


def _read(request: Request) -> tuple[str, str, random.Random]:
    """Return prompt, newest observation ("" for both without messages), and a generator seeded by the request's seed."""
    texts = [str(row["content"])[:20_000] for row in request.messages] or [""]
    return texts[0], texts[-1], random.Random(f"heuristic:{request.seed}")


def _act(action: str) -> str:
    """Return an action in the form of the environment, behind a thought."""
    return f"THINK: This is the straight way, as far as I see.\nACTION: {action}"
