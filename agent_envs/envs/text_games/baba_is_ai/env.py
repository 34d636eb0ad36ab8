"""The BabaIsAI environment is a puzzle game whose rules lie on the map as text."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from agent_envs.base.arguments import choice, display_value
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import state_type
from agent_envs.core.trajectory import Task
from agent_envs.envs.text_games.baba_is_ai import picture as baba_picture
from agent_envs.envs.text_games.baba_is_ai.levels import GOAL, KINDS, MIXED, BabaSource, BabaTask
from agent_envs.envs.text_games.baba_is_ai.rules import EMPTY, IDLE, NOUNS, WORDS, BabaWorld, moved, outcome, rules_in
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame, in_steps, of_part, paged

MOST_TURNS = 100  # of baba-is-ai
ACTIONS: tuple[Action, ...] = (
    Action("idle", "stay where you are", ("wait", "stay", "noop", "do nothing", "none")),
    Action("up", "go one cell up", ("move up", "go up", "push up", "north")),
    Action("right", "go one cell to the right", ("move right", "go right", "push right", "east")),
    Action("down", "go one cell down", ("move down", "go down", "push down", "south")),
    Action("left", "go one cell to the left", ("move left", "go left", "push left", "west")),
)
_NOTES = {
    "won": ("You win: one of yours stands on what is WIN.",),
    "lost": ("Nothing is YOU any more: you have lost.",),
}


@state_type
@dataclass(frozen=True, slots=True)
class BabaPlay:
    """A map in an episode: the actions taken, and how many there may be."""

    world: BabaWorld
    steps: int
    limit: int


_source = lru_cache(maxsize=64)(BabaSource)  # environments of one process share their tasks


class BabaGame(Game):
    """The rules of `baba_is_ai.rules` as a game of turns."""

    actions = ACTIONS
    default = IDLE
    prompt = files(__package__).joinpath("prompt.md").read_text(encoding="utf-8")
    most_turns = MOST_TURNS
    native = (-1.0, 1.0)
    native_episode = (-1.0, 1.0)
    describe = of_part("world", lambda world: describe(world))
    picture = of_part("world", baba_picture.picture)
    drawing = of_part("world", baba_picture.drawing)

    def begin(self, task: Task, limit: int) -> BabaPlay:
        """Return the task's map, with `limit` turns if it is not 0; UsageError for a task of another source."""
        if not isinstance(task.data, BabaTask):
            raise UsageError(f"BabaIsAI: task {display_value(task.id)} holds no BabaTask; take tasks of BabaSource")
        return BabaPlay(task.data.world, 0, limit or MOST_TURNS)

    def goal(self, state: BabaPlay) -> str:
        """Return the same for all tasks: what is YOU and what is WIN stands on the map."""
        return GOAL

    def move(self, state: BabaPlay, action: int) -> Moved:
        """Apply an action; a win pays 1 - 0.9 * steps / limit, a loss -1, any other step 0; both end the episode."""
        world, steps = moved(state.world, action), state.steps + 1
        result = outcome(world)
        won = result == "won"
        return Moved(
            BabaPlay(world, steps, state.limit),
            reward=1 - 0.9 * (steps / state.limit) if won else -1.0 if result else 0.0,
            progress=float(won),
            terminated=bool(result),
            success=won,
            notes=_NOTES.get(result, ()),
        )


def labels_of(task: Task) -> Mapping[str, str]:
    """Return the labels by which reports group a task: its kind."""
    return {"kind": task.data.kind}


@paged
class BabaIsAI(TextGame):
    """Win a puzzle whose rules lie on the map as text that can be pushed about."""

    def __init__(
        self,
        *,
        kind: str = MIXED,
        max_turns: int | None = None,
        reward: str = "binary",
        on_invalid: str = "default",
        prompt_role: str = "system",
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments."""
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
        choice("BabaIsAI", "kind", kind, (MIXED, *KINDS))
        game, source = BabaGame(), _source(kind)
        self.play_game(game, source, max_turns=max_turns, reward=reward, on_invalid=on_invalid, prompt_role=prompt_role)


def describe(world: BabaWorld) -> str:
    """Return the rules and the whole map in words, places as steps from YOU (the first of several), as cells without YOU."""
    rules = rules_in(world)
    mine: list[tuple[int, str]] = []
    things: list[tuple[int, str]] = []
    for place, kind in sorted(zip(world.places, world.objects, strict=True)):
        (mine if kind in rules.you else things).append((place, NOUNS[kind]))
    blocks = [(place, f'"{WORDS[letter]}"') for place, letter in enumerate(world.texts) if letter != EMPTY]
    origin = mine[0][0] if mine else None
    lines = ["Rules in force:", *(f"- {line}" for line in rules.lines)]
    lines += [_yourself(world, mine)]
    lines += [f"You are also {name}: {_relative_place(world, origin, place)}." for place, name in mine[1:]]
    for title, rows in (("Things on the map:", things), ("Text blocks:", blocks)):
        lines += [title, *(f"- {name}: {_relative_place(world, origin, place)}" for place, name in rows)]
    return "\n".join(lines)


def _yourself(world: BabaWorld, mine: list[tuple[int, str]]) -> str:
    """Return the sentences on the map's size and on where the first YOU is, or that nothing is YOU any more."""
    size = f"The map has {world.width} columns and {world.height} rows"
    if not mine:
        return f"{size}. Nothing on it is YOU any more."
    return f"{size}. You are {mine[0][1]}, in {_cell(world, mine[0][0])}."


def _relative_place(world: BabaWorld, origin: int | None, place: int) -> str:
    """Return a place as steps from an origin, "on your own cell" for the origin itself, or as its cell without one."""
    if origin is None:
        return f"in {_cell(world, place)}"
    right = place % world.width - origin % world.width
    down = place // world.width - origin // world.width
    return in_steps((right, "to the right", "to the left"), (down, "down", "up")) or "on your own cell"


def _cell(world: BabaWorld, place: int) -> str:
    """Return a cell; columns count from the left, rows from the top, both from 1."""
    return f"column {place % world.width + 1}, row {place // world.width + 1}"
