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
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame
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
    """Where a task plays: the goal's name, the world's seed, and the digest of the world and of crafter's rules."""

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

    def __init__(self, goal: str) -> None:
        """Take the name of a goal."""
        self._name = goal
        self._phrase, achievement, self.most_turns = GOALS[goal]
        every = rules().achievements
        self.wanted, self._full = (achievement,) if achievement else every, not achievement
        self._worlds: Replayed[CrafterLive, CrafterStep] = Replayed(
            name="Crafter", start=new_game, act=CrafterLive.act, copy=CrafterLive.copy, mark=_mark
        )

    def begin(self, task: Task, limit: int) -> CrafterState:
        """Return the start of a task's world, which must be the one that the task was made from."""
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
        """Return what comes of an action, by crafter's rules and with its reward."""
        before, taken = state.sight, character(action)
        step = self._worlds.step(state.seed, state.actions, taken, mark_of(before))
        after = step.sight
        won = all(name in after.unlocked for name in self.wanted)
        return Moved(
            replace(state, actions=state.actions + taken, sight=after),
            reward=step.reward,
            progress=len(after.unlocked) / len(rules().achievements),
            terminated=won or not after.items[0],
            success=won,
            notes=tuple(_notes(before, action, step)),
        )

    def describe(self, state: CrafterState) -> str:
        """Return what the player sees, in words."""
        return describe(state.sight, self._full)

    def picture(self, state: CrafterState) -> str:
        """Return what the player sees as an SVG."""
        return crafter_picture.picture(state.sight)

    def drawing(self, state: CrafterState) -> str:
        """Return what the player sees as lines of text."""
        return crafter_picture.drawing(state.sight)

    def twin(self, state: CrafterState) -> CrafterLive:
        """Return a live copy of the world at a state, for planners: it knows all, and playing it changes nothing else."""
        with self._worlds.at(state.seed, state.actions, mark_of(state.sight)) as live:
            return live.copy()


def crafter_source(goal: str) -> GameSource:
    """Return the tasks of a goal. All goals play in the same worlds, in each of which the planner wins."""

    def make(seed: str) -> Content:
        number = random.Random(seed).randrange(2**31 - 1)
        text = world_text(new_game(number))
        digest = world_digest(text)
        return Content(GOALS[goal][0], digest, data=CrafterWorld(goal, number, digest), hidden=text)

    def sound(content: Content) -> bool:
        return wins(new_game(content.data.seed), ("make_wood_pickaxe",), GOALS["collect_wood"][2])

    return GameSource("crafter", make, sound=sound)


_source = lru_cache(maxsize=len(GOALS))(crafter_source)  # environments of one process share their tasks


def labels_of(task: Task) -> dict[str, str]:
    """Return what reports tell apart."""
    return {"goal": task.data.goal.replace("_", " ")}


class Crafter(TextGame):
    """Gather, build and survive in an open world with its own days, creatures and chance, seen in words.

    Description:
        Crafter (D. Hafner, arXiv 2109.06780) with its observations as text, as BALROG (arXiv 2411.13543) scores agents on it
        and Verlog trains on it: a land of 64 x 64 cells with woods, water, caves and creatures, 17 actions, and 22
        achievements that build on each other. World, rules and chance are those of PyPI's `crafter` 1.8.3, draw for draw,
        without its pictures. In this release felling a tree removes it, a table costs 2 wood and a furnace 4 stone; the
        paper's costs are lower. One thing differs: crafter keeps creatures in sets, so that which of them disappears depends
        on memory addresses; here they go by the order in which they came.

    Task sources:
        Generated from seeds by crafter's own generator (extra `crafter`); train, dev and test share no world. The four goals
        play in the same worlds, in each of which a wood pickaxe can be made within 100 turns. A task holds the seed and a
        digest of the world and of crafter's tables; an installation that makes another world refuses it.

    Action:
        Text; what follows the last `ACTION:` names one of the 17 actions, in the words of the prompt: `noop`, `move left`,
        `move right`, `move up`, `move down`, `do`, `sleep`, `place stone` (`table`, `furnace`, `plant`), `make wood pickaxe`
        (`stone`, `iron`; `pickaxe`, `sword`). Case, punctuation around the name and underscores do not count; `left`,
        `move west`, `interact` and a few more are understood too. Anything else counts as `noop`, and the next observation
        says so (or the episode ends, see `on_invalid`).

    Observation:
        Health, food, drink and energy; what is carried; whether the player sleeps and whether it is dark; what the player
        stands on and looks at; and the nearest of each kind among 9 x 7 cells with its steps left or right and up or down.
        Above it stand new achievements, waking and falling asleep, and what a `do`, `place` or `make` that could not be done
        would have needed. Darkness hides nothing here; in crafter's pictures it adds noise. While the player sleeps crafter
        takes no action but sleep: the action that is named is ignored and a note says so (BALROG plays random ones then).

    Tools:
        None.

    Reward:
        `binary` (default): 1 when the goal is reached. `native`: crafter's own, 1 for a step that unlocks achievements and 0.1
        for each unit of health gained or lost. `format_penalty`: `binary`, and -0.1 for each turn without a valid action.
        `format_penalty_released`: Verlog's release, where the penalty takes the place of the turn's reward.

    Episode end:
        Terminated by the goal, or by death. Truncated after 100 turns for `collect_wood`, 200 for `place_table`, 300 for
        `make_pickaxe` (a day has 300), and 2,000 for `full`, as BALROG has it (crafter's own limit is 10,000). The limits of
        the first three are ours. On the 500 test tasks the planner always wins, in 5, 10 and 15 turns on average and at most
        14, 25 and 44; random play wins 11 %, 2 % and 0.2 %, and hardly ever lives through the first night.

    Info:
        The common keys; no others. Reports also tell the share of valid turns, progression (achievements / 22, for every
        goal, as in BALROG) and the native return, and group tasks by goal.

    Arguments:
        goal: `collect_wood` (default), `place_table`, `make_pickaxe` (of wood), or `full` (all 22 achievements, which the
            built-in planner does not promise to reach).
        max_turns: turns in an episode, 1 to 10,000; None (default) for the limits above.
        reward: `binary`, `native`, `format_penalty` or `format_penalty_released`.
        on_invalid: `default` (default) takes `noop` for an invalid turn, `end` ends the episode without success.
        prompt_role: who says the instructions: `system` (default, Verlog) or `user` (BALROG).

    Version history:
        v0: first version.
    """

    game: CrafterGame

    def __init__(
        self,
        *,
        goal: str = "collect_wood",
        max_turns: int | None = None,
        reward: str = "binary",
        on_invalid: str = "default",
        prompt_role: str = "system",
        render_mode: str | None = None,
    ) -> None:
        """Set up the goal and its tasks; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range; the message names it.
            MissingExtra: `crafter` is not installed.
        """
        self.render_mode = render_mode
        choice("Crafter", "goal", goal, GOALS)
        if max_turns is not None:
            whole_number("Crafter", "max_turns", max_turns, high=MOST_STEPS)
        game, source = CrafterGame(goal), _source(goal)
        self.play_game(game, source, max_turns=max_turns, reward=reward, on_invalid=on_invalid, prompt_role=prompt_role)


def _mark(live: CrafterLive) -> str:
    return mark_of(live.sight())


def _notes(before: CrafterSight, action: int, step: CrafterStep) -> Iterator[str]:
    """Yield what is told of a step beside what is seen after it."""
    after, taken = step.sight, rules().actions[action]
    ignored = before.sleeping and before.items[VITALS.index("energy")] < FULL
    if ignored and action not in (NOOP, SLEEP):
        yield "You are asleep: what you chose was not done."
    elif not ignored and not any(name.startswith(taken) for name in step.counted):
        reason = unmet(taken, before)
        if reason:
            yield reason
    if before.sleeping != after.sleeping:
        yield "You fall asleep." if after.sleeping else "You wake up."
    new = [name.replace("_", " ") for name in after.unlocked if name not in before.unlocked]
    if new:
        yield f"New achievement: {listed(new)}."
    if not after.items[0]:
        yield "You are dead."
