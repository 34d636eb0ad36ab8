"""The BabyAI environment plays BabyAI as text, by rules over an immutable world."""

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from agent_envs.base.arguments import choice, display_value, whole_number
from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task
from agent_envs.envs.text_games.babyai.describe import describe
from agent_envs.envs.text_games.babyai.grid import GO_FORWARD, BabyWorld
from agent_envs.envs.text_games.babyai.instructions import CONTINUE, SUCCESS, played
from agent_envs.envs.text_games.babyai.levels import KINDS, MOST_DISTRACTORS
from agent_envs.envs.text_games.babyai.mission import surface
from agent_envs.envs.text_games.babyai.picture import drawing, picture
from agent_envs.envs.text_games.babyai.tasks import MIXED, BabyTask, baby_source
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame

ACTIONS: tuple[Action, ...] = (
    Action("turn left", "turn to your left where you stand", ("left", "rotate left")),
    Action("turn right", "turn to your right where you stand", ("right", "rotate right")),
    Action(
        "go forward", "take one step forward, if nothing is in the way", ("forward", "move forward", "step forward")
    ),
    Action("pick up", "take the thing one step in front of you, if you carry nothing", ("pickup", "pick")),
    Action("drop", "put what you carry one step in front of you, if nothing is there", ("put down",)),
    Action(
        "toggle",
        "open or close the door one step in front of you, a locked one with its key in your hand; or open a box",
        ("open", "use"),
    ),
)


_source = lru_cache(maxsize=32)(baby_source)  # environments of one process share their tasks


@dataclass(frozen=True)
class BabyGame(Game):
    """BabyAI's rules over `BabyWorld`."""

    most_turns: int

    actions = ACTIONS
    default = GO_FORWARD
    prompt = files(__package__).joinpath("prompt.md").read_text(encoding="utf-8")
    native = (0.0, 1.0)
    native_episode = (0.0, 1.0)
    describe = staticmethod(describe)
    picture = staticmethod(picture)
    drawing = staticmethod(drawing)

    def begin(self, task: Task, limit: int) -> BabyWorld:
        """Return the task's world; `limit` replaces the level's own if it is not 0."""
        data = task.data
        if not isinstance(data, BabyTask):
            raise UsageError(
                f"BabyAI: task {display_value(task.id)} holds no BabyTask; take tasks of "
                "agent_envs.envs.text_games.babyai.tasks"
            )
        return replace(data.world, limit=limit) if limit else data.world

    def goal(self, state: BabyWorld) -> str:
        """Return the mission."""
        return surface(state.instructions)

    def move(self, state: BabyWorld, action: int) -> Moved:
        """Return what comes of an action, by minigrid's rules; success pays 1 - 0.9 * steps / limit."""
        world, status = played(state, action)
        won = status == SUCCESS
        return Moved(
            world,
            reward=1 - 0.9 * (world.steps / world.limit) if won else 0.0,
            progress=float(won),
            terminated=status != CONTINUE,
            success=won,
            truncated=world.steps >= world.limit,
        )


class BabyAI(TextGame):
    """Follow an instruction in a grid world of rooms, doors and things, seen in words.

    Description:
        BabyAI (arXiv 1810.08272) with its observations as text (BabyAI-Text, arXiv 2302.02662), as BALROG (arXiv 2411.13543)
        scores agents on it and Verlog trains on it. The agent sees 7 x 7 cells before it, not through walls and closed doors.
        The level that BALROG and Verlog play, `MixedTrainLocal` without distractors, is not in PyPI's minigrid: it is built
        again here on minigrid's level generator, in five kinds. Rooms, things, missions, limits and the excluded combinations
        are theirs; worlds come from other seeds. World and mission follow minigrid's rules step by step, on an immutable state
        of our own (a test plays both side by side).

    Task sources:
        Generated from seeds by minigrid (extra `babyai`); train, dev and test share no world. Kinds: `goto`, `pickup`,
        `putnext` and `pick_up_seq_go_to` play in a room of 8 x 8 cells with the one or two things that the mission names;
        `open` in two such rooms with a locked door between them and its key on the agent's side. No mission names a yellow
        box, a red key, a green ball, a red or a grey door: BabyAI-Text keeps these for tests of generalisation. `mixed`
        (default) goes through the five kinds by turns. `level` names any BabyAI level of minigrid instead (`GoToObj`,
        `BossLevel`, ...), with minigrid's own limit. Missions for which the solver finds no plan are drawn again: minigrid
        locks in some keys, and two of its levels (`OpenDoorsOrderN2Debug` and `N4Debug`) fail most sequences at the step that
        opens the first door.

    Action:
        Text; what follows the last `ACTION:` names one of `turn left`, `turn right`, `go forward`, `pick up`, `drop`, `toggle`.
        Case, punctuation around the name and underscores do not count; `left`, `right`, `forward`, `pickup`, `put down`,
        `open` and a few more are understood too. Anything else counts as `go forward`, as in BALROG, and the next observation
        says so (or the episode ends, see `on_invalid`). BALROG says that `pick up` takes what is below the agent, which is not
        so; as in Verlog, the prompt says one step in front.

    Observation:
        One line for what is carried, one for each wall ahead, left or right with nothing between, and one for each thing in
        sight with its steps forward, left or right; doors with their state.

    Tools:
        None.

    Reward:
        `binary` (default, as Verlog trains): 1 for success. `native`: minigrid's 1 - 0.9 * t / T at success in turn t of at
        most T, else 0. `format_penalty`: `binary`, and -0.1 for each turn without a valid action.
        `format_penalty_released`: Verlog's release, where the penalty takes the place of the turn's reward, so that a success
        by an invalid turn pays -0.1. With the default action a policy that says nothing walks straight on: in `goto` this
        alone solves 3.6 % of the test tasks (random play: 30 %), so look at `valid_actions` beside success.

    Episode end:
        Terminated by success, or by failure where a level's mission is strict (minigrid's `Debug` levels). Truncated after T
        turns. T is minigrid's: the ways that a mission needs (1 for going to, picking up or opening something, 2 for putting
        one thing next to another, the sum of both parts of a sequence) times room size squared times the number of rooms. So
        `goto` and `pickup` have 1 * 64 * 1 = 64 turns, `putnext` and `pick_up_seq_go_to` 2 * 64 * 1 = 128, `open`
        1 * 64 * 2 = 128.

    Info:
        The common keys; no others. Reports also tell the share of valid turns, progression (1 once the mission is done) and
        the native return, and group tasks by kind or level.

    Arguments:
        kind: `mixed` (default), `goto`, `pickup`, `open`, `putnext` or `pick_up_seq_go_to`.
        level: "" (default) for the kinds, or a BabyAI level of minigrid by its name; `kind` and `distractors` stay at their
            defaults then.
        distractors: how many things a world of the kinds holds beside those that the mission needs, 0 (default, as in
            BALROG) to 12.
        max_turns: T for every task, >= 1; None (default) for the limits above.
        reward: `binary`, `native`, `format_penalty` or `format_penalty_released`.
        on_invalid: `default` (default) takes `go forward` for an invalid turn, `end` ends the episode without success.
        prompt_role: who says the instructions: `system` (default, Verlog) or `user` (BALROG).

    Version history:
        v0: first version.
    """

    def __init__(
        self,
        *,
        kind: str = MIXED,
        level: str = "",
        distractors: int = 0,
        max_turns: int | None = None,
        reward: str = "binary",
        on_invalid: str = "default",
        prompt_role: str = "system",
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; see the class for the arguments.

        Raises:
            MissingExtra: minigrid is not installed.
            UsageError: an argument is out of its range; the message names it.
        """
        self.render_mode = render_mode
        choice("BabyAI", "kind", kind, (MIXED, *KINDS))
        whole_number("BabyAI", "distractors", distractors, 0, MOST_DISTRACTORS)
        if not isinstance(level, str):
            raise UsageError(f'BabyAI: level={display_value(level)} is no name; give a text, "" for the five kinds')
        if level and (kind != MIXED or distractors):
            raise UsageError(
                f"BabyAI: level={display_value(level)} with kind={kind!r}, distractors={distractors}; leave these out"
            )
        source = _source(kind, level, distractors)
        game = BabyGame(source.most_turns)
        self.play_game(game, source, max_turns=max_turns, reward=reward, on_invalid=on_invalid, prompt_role=prompt_role)
