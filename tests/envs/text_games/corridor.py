"""A tiny game: a corridor with a treasure at its end and a pit before its beginning."""

import random
from dataclasses import dataclass, replace

from agent_envs.base.serialization import state_type
from agent_envs.core.registry import register_companions
from agent_envs.envs.text_games.game import Action, Moved, TextGame
from agent_envs.envs.text_games.seeded import Content, GameSource

PROMPT = "You are in a corridor. Your goal is to {goal}.\n{actions}\n{format}\n"


@state_type
@dataclass(frozen=True, slots=True)
class CorridorState:
    goal: str
    place: int
    end: int
    limit: int


class Corridor:
    actions = (
        Action("step back", "go one field back", ("back", "left")),
        Action("wait", "stay where you are"),
        Action("step forward", "go one field on", ("forward", "right")),
    )
    default = 1
    prompt = PROMPT
    most_turns = 10
    native, native_episode = (-1.0, 1.0), (-1.0, 1.0)

    def begin(self, task, limit):
        return CorridorState(task.question, 1, task.hidden, limit or 2 * task.hidden)

    def limit(self, state):
        return state.limit

    def goal(self, state):
        return state.goal

    def move(self, state, action):
        after = replace(state, place=state.place + action - 1)
        won, lost = after.place == after.end, after.place == 0
        reward = 1 - 0.1 * after.place if won else -1.0 if lost else 0.0
        notes = ("The floor creaks.",) if action == 2 else ()
        return Moved(after, reward, max(after.place - 1, 0) / (after.end - 1), won or lost, won, notes=notes)

    def describe(self, state):
        return f"field {state.place}"

    def legal(self, state):
        return (1, 2) if state.place == 1 else (0, 1, 2)

    def picture(self, state):
        return f'<svg xmlns="http://www.w3.org/2000/svg"><text>{state.place}</text></svg>'

    def drawing(self, state):
        return "." * state.place + "@"


def make(seed):
    end = random.Random(seed).randint(3, 5)
    return Content("find the treasure", f"{seed} {end}", hidden=end)


class CorridorGame(TextGame):
    """The corridor."""

    def __init__(
        self, *, max_turns=None, reward="binary", on_invalid="default", prompt_role="system", goal="", render_mode=None
    ):
        self.render_mode = render_mode
        source = GameSource("corridor", (lambda seed: replace(make(seed), question=goal)) if goal else make)
        more = {"reward": reward, "on_invalid": on_invalid, "prompt_role": prompt_role}
        self.play_game(Corridor(), source, max_turns=max_turns, **more)


def forward(env):
    return env.unwrapped.say(2, "on")


def anything(env, rng):
    game = env.unwrapped.game
    return env.unwrapped.say(rng.choice(game.legal(env.unwrapped.episode.state)))


register_companions(CorridorGame, solver=forward, sampler=anything)
