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
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame

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

    def begin(self, task: Task, limit: int) -> BabaPlay:
        """Return the task's map, with `limit` turns if it is not 0."""
        if not isinstance(task.data, BabaTask):
            raise UsageError(f"BabaIsAI: task {display_value(task.id)} holds no BabaTask; take tasks of BabaSource")
        return BabaPlay(task.data.world, 0, limit or MOST_TURNS)

    def goal(self, state: BabaPlay) -> str:
        """Return the same for all tasks: what is YOU and what is WIN stands on the map."""
        return GOAL

    def move(self, state: BabaPlay, action: int) -> Moved:
        """Return what comes of an action; a win pays 1 - 0.9 * steps / limit, a loss -1."""
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

    def describe(self, state: BabaPlay) -> str:
        """Return the map in words."""
        return describe(state.world)

    def picture(self, state: BabaPlay) -> str:
        """Return the map as an SVG."""
        return baba_picture.picture(state.world)

    def drawing(self, state: BabaPlay) -> str:
        """Return the map as lines of words."""
        return baba_picture.drawing(state.world)


def labels_of(task: Task) -> Mapping[str, str]:
    """Return what reports group a task by: its kind."""
    return {"kind": task.data.kind}


class BabaIsAI(TextGame):
    """Win a puzzle whose rules lie on the map as text that can be pushed about.

    Description:
        A world of rules after the game Baba Is You, in the form of the benchmark Baba Is AI (arXiv 2407.13729), as BALROG
        (arXiv 2411.13543) scores agents on it and Verlog trains on it. The benchmark's package cannot be installed beside
        Gymnasium, so this is a small world of our own with the same task families. It asks for reading the rules, telling
        what matters from distractions, and changing the rules: breaking `wall is stop`, making `key is win`, becoming
        something else. What differs: objects have no colors; `A is B` of two nouns does nothing (there it turns A into B);
        a win and a loss are judged after the rules are read anew, there before, so that a WIN made under your feet counts.

    Task sources:
        Generated from seeds; train, dev and test share no map. `kind` is one of the forty tasks of BALROG by its name (its
        `env/` left out), or `mixed` (default), all of them by turns. A name is made of parts: `two_room` has a wall of things
        between two rooms; `goto_win` has the win rule in force, in `make_win` its noun lies apart; `break_stop` needs the
        wall's rule broken, `maybe_break_stop` perhaps; `make_you` needs something else made YOU; `make_wall_win` has no other
        way than the wall. `distr_obj` adds a second thing, `distr_rule` a loose noun (the second thing's, where there is
        one), `irrelevant_rule` a loose noun of nothing there, `distr_win_rule` a win rule of nothing there. Sizes (6 x 6,
        11 x 7) are the benchmark's; places of the rules vary, and half of the maps have rows and columns exchanged. Each map
        is proved solvable by search, in 3 to 60 steps, and what is meant to be out of reach is proved so. Draws whose proof
        would look at more than 1,000 maps are left out: the hardest are not here.

    Action:
        Text; what follows the last `ACTION:` names one of `idle`, `up`, `right`, `down`, `left`. Case, punctuation around the
        name and underscores do not count; `move up`, `go left`, `wait`, `north` and a few more are understood too. Anything
        else counts as `idle`, as in BALROG, and the next observation says so (or the episode ends, see `on_invalid`).

    Observation:
        The rules in force, sorted; the size of the map and the cell of YOU; then every thing and every text block with its
        steps right or left and up or down of YOU, row by row. Where several are YOU the steps count from the first. The
        edge of the map is not listed. BALROG describes no cell of YOU and hides what lies under something else.

    Tools:
        None.

    Reward:
        `binary` (default, as Verlog trains): 1 for a win. `native`: the benchmark's 1 - 0.9 * t / T for a win in turn t of at
        most T, and -1 for a loss, which here is to have nothing that is YOU. `format_penalty`: `binary`, and -0.1 for each
        turn without a valid action. `format_penalty_released`: Verlog's release, where the penalty takes the place of the
        turn's reward.

    Episode end:
        Terminated by a win, or by a loss: nothing is YOU any more. In BALROG that loss starts the map's kind anew within
        the episode, behind a note in brackets, with another map; here one episode is one map. Truncated after T = 100 turns,
        the benchmark's limit.

    Info:
        The common keys; no others. Reports also tell the share of valid turns, progression (1 for a win) and the native
        return, and group tasks by kind.

    Arguments:
        kind: `mixed` (default), or one of the forty kinds, such as `goto_win`, `make_win-distr_obj_rule`,
            `two_room-break_stop-make_win` or `two_room-make_you`; all are in
            `agent_envs.envs.text_games.baba_is_ai.levels.KINDS`.
        max_turns: T, >= 1; None (default) for 100.
        reward: `binary`, `native`, `format_penalty` or `format_penalty_released`.
        on_invalid: `default` (default) takes `idle` for an invalid turn, `end` ends the episode without success.
        prompt_role: who says the instructions: `system` (default, Verlog) or `user` (BALROG).

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        kind: str = MIXED,
        max_turns: int | None = None,
        reward: str = "binary",
        on_invalid: str = "default",
        prompt_role: str = "system",
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments.

        Raises:
            UsageError: an argument is out of its range; the message names it.
        """
        self.render_mode = render_mode
        choice("BabaIsAI", "kind", kind, (MIXED, *KINDS))
        game, source = BabaGame(), _source(kind)
        self.play_game(game, source, max_turns=max_turns, reward=reward, on_invalid=on_invalid, prompt_role=prompt_role)


def describe(world: BabaWorld) -> str:
    """Return the whole map in words. Places are steps from YOU, from the first one where several are YOU."""
    rules = rules_in(world)
    mine: list[tuple[int, str]] = []
    things: list[tuple[int, str]] = []
    for place, kind in sorted(zip(world.places, world.objects, strict=True)):
        (mine if kind in rules.you else things).append((place, NOUNS[kind]))
    blocks = [(place, f'"{WORDS[letter]}"') for place, letter in enumerate(world.texts) if letter != EMPTY]
    origin = mine[0][0] if mine else None
    lines = ["Rules in force:", *(f"- {line}" for line in rules.lines)]
    lines += [_yourself(world, mine)]
    lines += [f"You are also {name}: {_seen(world, origin, place)}." for place, name in mine[1:]]
    for title, found in (("Things on the map:", things), ("Text blocks:", blocks)):
        lines += [title, *(f"- {name}: {_seen(world, origin, place)}" for place, name in found)]
    return "\n".join(lines)


def _yourself(world: BabaWorld, mine: list[tuple[int, str]]) -> str:
    size = f"The map has {world.width} columns and {world.height} rows"
    if not mine:
        return f"{size}. Nothing on it is YOU any more."
    return f"{size}. You are {mine[0][1]}, in {_cell(world, mine[0][0])}."


def _seen(world: BabaWorld, origin: int | None, place: int) -> str:
    """Return a place as steps from an origin, or as its cell where there is none."""
    if origin is None:
        return f"in {_cell(world, place)}"
    right = place % world.width - origin % world.width
    down = place // world.width - origin // world.width
    ways = ((right, "to the right", "to the left"), (down, "down", "up"))
    parts = [f"{_steps(abs(count))} {forth if count > 0 else back}" for count, forth, back in ways if count]
    return " and ".join(parts) or "on your own cell"


def _cell(world: BabaWorld, place: int) -> str:
    """Return a cell; columns count from the left, rows from the top, both from 1."""
    return f"column {place % world.width + 1}, row {place // world.width + 1}"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
