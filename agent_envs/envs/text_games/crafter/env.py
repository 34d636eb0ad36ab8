"""The Crafter environment plays Crafter as text, with its goals, actions and generated tasks."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import state_type
from agent_envs.core.trajectory import Task
from agent_envs.envs.text_games.adapter.replay_copies import Replayed
from agent_envs.envs.text_games.crafter import picture as crafter_picture
from agent_envs.envs.text_games.crafter.describe import FULL, VITALS, describe, listed, unmet
from agent_envs.envs.text_games.crafter.sight import MOST_STEPS, CrafterSight, CrafterStep, character, mark_of
from agent_envs.envs.text_games.crafter.solver import wins
from agent_envs.envs.text_games.crafter.world import CrafterLive, new_game, rules, world_digest, world_text
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame, of_part, paged
from agent_envs.envs.text_games.seeded import Content, GameSource

ACTIONS: tuple[Action, ...] = (
    Action("noop", "do nothing", ("no op", "nothing", "do nothing", "wait", "stay")),
    Action("move left", "turn left, and go there if the cell is free", ("left", "go left", "move west", "west")),
    Action("move right", "turn right, and go there if the cell is free", ("right", "go right", "move east", "east")),
    Action("move up", "turn up, and go there if the cell is free", ("up", "go up", "move north", "north")),
    Action("move down", "turn down, and go there if the cell is free", ("down", "go down", "move south", "south")),
    Action("do", "collect, drink, eat or strike what is in front of you", ("interact", "collect", "attack", "use")),
    Action("sleep", "fall asleep, if you are not fully rested", ("go to sleep",)),
    Action("place stone", "put 1 stone in front of you", ("put stone",)),
    Action("place table", "build a table in front of you from 2 wood", ("put table", "build table")),
    Action("place furnace", "build a furnace in front of you from 4 stone", ("put furnace", "build furnace")),
    Action("place plant", "plant a sapling in the grass in front of you", ("plant sapling", "place sapling", "plant")),
    Action("make wood pickaxe", "from 1 wood, next to a table", ("craft wood pickaxe", "make wooden pickaxe")),
    Action("make stone pickaxe", "from 1 wood and 1 stone, next to a table", ("craft stone pickaxe",)),
    Action("make iron pickaxe", "from 1 wood, 1 coal and 1 iron, next to a table and a furnace", ("craft iron pickaxe",)),
    Action("make wood sword", "from 1 wood, next to a table", ("craft wood sword", "make wooden sword")),
    Action("make stone sword", "from 1 wood and 1 stone, next to a table", ("craft stone sword",)),
    Action("make iron sword", "from 1 wood, 1 coal and 1 iron, next to a table and a furnace", ("craft iron sword",)),
)  # fmt: skip
NOOP, SLEEP = 0, 6
# What is to be reached, the achievement that it is ("" for all of them), and how many turns there are.
GOALS = {
    "collect_wood": ("collect wood", "collect_wood", 100),
    "place_table": ("collect wood and place a table", "place_table", 200),
    "make_pickaxe": ("collect wood, place a table and make a wood pickaxe next to it", "make_wood_pickaxe", 300),
    "full": ("survive and unlock all 22 achievements", "", 2_000),
}


@state_type
@dataclass(frozen=True, slots=True)
class CrafterState:
    """A moment of an episode: the seed and the actions rebuild it, the sight is what was seen there.

    Attributes:
        seed: of the world and of all chance in it.
        limit: how many turns the episode may have.
        actions: taken so far, one character each.
        sight: what the player knows now.
    """

    seed: int
    limit: int
    actions: str
    sight: CrafterSight


@state_type
@dataclass(frozen=True, slots=True)
class CrafterWorld:
    """The world of a task: the goal's name, the world's seed, and the digest of the world and of crafter's rules."""

    goal: str
    seed: int
    digest: str


class CrafterGame(Game):
    """Crafter's rules over `CrafterState`. Live copies of the world are kept along lines of actions, see `Replayed`."""

    actions = ACTIONS
    default = NOOP
    prompt = files(__package__).joinpath("prompt.md").read_text(encoding="utf-8")
    native = (-0.9, 1.1)
    native_episode = (-0.9, 22.0)
    picture = of_part("sight", crafter_picture.picture)
    drawing = of_part("sight", crafter_picture.drawing)

    def __init__(self, goal: str) -> None:
        """Take a goal by name: its achievement, or all of them where it names none."""
        self._name = goal
        self._phrase, achievement, self.most_turns = GOALS[goal]
        every = rules().achievements
        self.achievements, self._full = (achievement,) if achievement else every, not achievement
        self._worlds: Replayed[CrafterLive, CrafterStep] = Replayed(
            name="Crafter", start=new_game, act=CrafterLive.act, copy=CrafterLive.copy, mark=CrafterLive.mark
        )

    def begin(self, task: Task, limit: int) -> CrafterState:
        """Return the start of a task's world; UsageError for another source, another goal, or another version of crafter."""
        data = task.data
        if not isinstance(data, CrafterWorld):
            raise UsageError(f"Crafter: task {task.id!r} names no world of Crafter; take tasks of this environment")
        if data.goal != self._name:
            raise UsageError(f"Crafter: task {task.id!r} is made for goal={data.goal!r}; make the environment with it")
        live = new_game(data.seed)
        if world_digest(world_text(live)) != data.digest:
            raise UsageError(
                f"Crafter: the installed crafter makes another world or plays by other rules than task {task.id!r} was "
                "made for; install crafter 1.8.3"
            )
        return CrafterState(data.seed, limit or self.most_turns, "", live.sight())

    def goal(self, state: CrafterState) -> str:
        """Return the goal in words."""
        return self._phrase

    def move(self, state: CrafterState, action: int) -> Moved:
        """Apply an action by crafter's rules, with its reward; the goal reached or death ends the episode."""
        before, letter = state.sight, character(action)
        step = self._worlds.step(state.seed, state.actions, letter, mark_of(before))
        after = step.sight
        won = all(name in after.unlocked for name in self.achievements)
        return Moved(
            replace(state, actions=state.actions + letter, sight=after),
            reward=step.reward,
            progress=len(after.unlocked) / len(rules().achievements),
            terminated=won or not after.items[0],
            success=won,
            notes=tuple(_notes(before, action, step)),
        )

    def describe(self, state: CrafterState) -> str:
        """Describe the player's sight in words."""
        return describe(state.sight, self._full)

    def twin(self, state: CrafterState) -> CrafterLive:
        """Return a live copy of the world at a state, for planners: it knows all, and playing it changes nothing else."""
        with self._worlds.at(state.seed, state.actions, mark_of(state.sight)) as live:
            return live.copy()


def crafter_source(goal: str) -> GameSource:
    """Return the tasks of a goal. All goals play in the same worlds, in each of which the planner gets a wood pickaxe."""

    def make(seed: str) -> Content:
        """Make the content of a task from its seed: the goal, the world's number and its digest."""
        number = random.Random(seed).randrange(2**31 - 1)
        text = world_text(new_game(number))
        digest = world_digest(text)
        return Content(GOALS[goal][0], digest, data=CrafterWorld(goal, number, digest), hidden=text)

    def sound(content: Content) -> bool:
        """Return whether a planner wins the wood pickaxe in a world within the turns for collecting wood."""
        return wins(new_game(content.data.seed), ("make_wood_pickaxe",), GOALS["collect_wood"][2])

    return GameSource("crafter", make, sound=sound)


_source = lru_cache(maxsize=len(GOALS))(crafter_source)  # environments of one process share their tasks


def labels_of(task: Task) -> dict[str, str]:
    """Return the labels by which reports group a task."""
    return {"goal": task.data.goal.replace("_", " ")}


@paged
class Crafter(TextGame):
    """Gather, build and survive in an open world with its own days, creatures and chance, seen in words."""

    game: CrafterGame

    def __init__(
        self,
        *,
        goal: str = "collect_wood",
        max_turns: int | None = None,
        reward: str = "binary",
        on_invalid: str = "default",
        prompt_role: str = "system",
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the goal and its tasks; see the class for the arguments."""
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        choice("Crafter", "goal", goal, GOALS)
        if max_turns is not None:
            whole_number("Crafter", "max_turns", max_turns, high=MOST_STEPS)
        game, source = CrafterGame(goal), _source(goal)
        self.play_game(game, source, max_turns=max_turns, reward=reward, on_invalid=on_invalid, prompt_role=prompt_role)


def _notes(before: CrafterSight, action: int, step: CrafterStep) -> Iterator[str]:
    """Yield what is told beside the sight: an action ignored or without effect and why, sleep, new achievements, death."""
    after, performed = step.sight, rules().actions[action]
    ignored = before.sleeping and before.items[VITALS.index("energy")] < FULL
    if ignored and action not in (NOOP, SLEEP):
        yield "You are asleep: what you chose was not done."
    elif not ignored and not any(name.startswith(performed) for name in step.counted):
        reason = unmet(performed, before)
        if reason:
            yield reason
    if before.sleeping != after.sleeping:
        yield "You fall asleep." if after.sleeping else "You wake up."
    new = [name.replace("_", " ") for name in after.unlocked if name not in before.unlocked]
    if new:
        yield f"New achievement: {listed(new)}."
    if not after.items[0]:
        yield "You are dead."
