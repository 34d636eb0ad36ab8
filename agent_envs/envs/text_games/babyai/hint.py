"""`next_step` gives the next action towards a BabyAI mission, by what a player who remembers can know."""

import re
from collections.abc import Callable, Sequence

from agent_envs.base.messages import Message
from agent_envs.envs.text_games.babyai.belief import Belief, State, Thing
from agent_envs.envs.text_games.babyai.env import ACTIONS
from agent_envs.envs.text_games.babyai.grid import GO_FORWARD
from agent_envs.envs.text_games.hint_turns import played
from agent_envs.wrappers.scripted_feedback import Hint

_MISSION = re.compile(r"Your goal is to (.{3,600}?)\.\n")
_NAMED = (
    r"(?:the|a)(?: (red|green|blue|purple|yellow|grey))? (key|ball|box|door|object)"
    r"(?: in front of you| behind you| on your \w+)?"
)
_CLAUSE = re.compile(rf"(go to|pick up|open|put) {_NAMED}(?: next to {_NAMED})?")
Clause = tuple[str, Thing, Thing]


def next_step(messages: Sequence[Message]) -> Hint:
    """Return the next action, what it is for, and whether that was seen yet.

    Raises:
        ValueError: there is no mission.
    """
    belief = Belief.of(played(messages, ACTIONS, GO_FORWARD))
    todo = _open(_clauses(messages[0].content), belief)
    action, thing, known = _Way(belief).take(todo)
    name = " ".join(filter(None, ("the", thing.color, thing.kind)))
    return ("towards" if known else "look"), {"action": action, "thing": name}


def _clauses(prompt: str) -> list[Clause]:
    """Return what is to be done, in the order in which it is to be done."""
    mission = _MISSION.search(prompt)
    if mission is None:
        raise ValueError("no mission")
    found = []
    for part in reversed(mission[1].split(" after you ")):
        for verb, color, kind, beside_color, beside_kind in _CLAUSE.findall(part):
            found.append((verb, Thing(kind, color), Thing(beside_kind, beside_color)))
    return found


def _open(clauses: Sequence[Clause], belief: Belief) -> Clause:
    """Return the first clause that is not known to be done, the last one where all seem to be."""
    for verb, thing, beside in clauses[:-1]:
        done = {
            "go to": any(_is(seen, thing) for seen in belief.faced),
            "pick up": any(_is(held, thing) for held in belief.held),
            "open": any(_is(seen, thing) and seen.state == "open" for seen in belief.faced),
        }
        if not done.get(verb, False):
            return verb, thing, beside
    return clauses[-1]


def _is(seen: Thing, wanted: Thing) -> bool:
    fits = wanted.kind == seen.kind or (wanted.kind == "object" and seen.kind != "door")
    return fits and wanted.color in ("", seen.color)


class _Way:
    """How to go about a clause: each method returns an action, what it is for, and whether that is known to be there."""

    def __init__(self, belief: Belief) -> None:
        self.belief = belief

    def take(self, clause: Clause) -> tuple[str, Thing, bool]:
        verb, thing, beside = clause
        if verb == "put":
            return self._put(thing, beside)
        if verb == "go to":
            return self._reach(thing, "drop")
        return self._open(thing) if verb == "open" else self._fetch(thing)

    def _reach(self, thing: Thing, then: str) -> tuple[str, Thing, bool]:
        """Go to a thing and do something there; look for it where it was not seen."""
        cells = {cell for cell, seen in self.belief.things.items() if _is(seen, thing)}
        if self.belief.front in cells:
            return then, thing, True
        step = self._step(lambda state: state[0] + state[1] in cells) if cells else ""
        return (step, thing, True) if step else self._look(thing)

    def _fetch(self, thing: Thing) -> tuple[str, Thing, bool]:
        if self.belief.carried is not None and any(_is(seen, thing) for seen in self.belief.things.values()):
            return self._free(thing)
        return self._reach(thing, "pick up")

    def _free(self, thing: Thing) -> tuple[str, Thing, bool]:
        """Put down what is carried."""
        free = not self.belief.blocked(self.belief.front) and self.belief.front not in self.belief.things
        return ("drop" if free else "turn left"), thing, True

    def _open(self, thing: Thing) -> tuple[str, Thing, bool]:
        doors = [seen for seen in self.belief.things.values() if _is(seen, thing)]
        carried = self.belief.carried
        if doors and doors[0].state == "locked" and (carried is None or carried.color != doors[0].color):
            return self._fetch(Thing("key", doors[0].color))
        return self._reach(thing, "toggle")

    def _put(self, thing: Thing, beside: Thing) -> tuple[str, Thing, bool]:
        belief = self.belief
        if belief.carried is None or not _is(belief.carried, thing):
            return self._fetch(thing)
        near = {
            cell + way for cell, seen in belief.things.items() if _is(seen, beside) for way in (1, -1, 1j, -1j)
            if not belief.blocked(cell + way) and cell + way not in belief.things
        }  # fmt: skip
        if belief.front in near:
            return "drop", beside, True
        step = self._step(lambda state: state[0] + state[1] in near) if near else ""
        return (step, beside, True) if step else self._look(beside)

    def _look(self, thing: Thing) -> tuple[str, Thing, bool]:
        """Look where nothing was seen yet; behind a closed door where all else was."""
        step = self._step(self.belief.unseen)
        locks = [seen for seen in self.belief.things.values() if seen.state == "locked"]
        if not step and locks and self.belief.carried is None and thing.kind != "key":
            return self._reach(Thing("key", locks[0].color), "pick up")
        return (step or "turn left"), thing, False

    def _step(self, goal: Callable[[State], bool]) -> str:
        """Return the first action on the way to a state, "" where there is no way or nothing to do."""
        belief = self.belief
        way = belief.route(goal, belief.carried)
        if way is None and goal != belief.unseen:
            belief.walls = belief.met  # the others may have gaps
            way = belief.route(goal, belief.carried)
        if way is None or len(way) < 2:
            return ""
        (cell, facing), (after, turned) = way[:2]
        if cell == after:
            return "turn right" if turned == facing * 1j else "turn left"
        door = belief.things.get(after)
        return "toggle" if door is not None and door.state in ("closed", "locked") else "go forward"
