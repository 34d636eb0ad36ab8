"""The BabyAI environment plays BabyAI as text, by rules over an immutable world."""

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from agent_envs.base.arguments import choice, display_value, whole_number
from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task
from agent_envs.envs.text_games.babyai.describe import describe
from agent_envs.envs.text_games.babyai.grid import GO_FORWARD, BabyWorld
from agent_envs.envs.text_games.babyai.instructions import CONTINUE, SUCCESS, play_action
from agent_envs.envs.text_games.babyai.levels import KINDS, MOST_DISTRACTORS
from agent_envs.envs.text_games.babyai.mission import surface
from agent_envs.envs.text_games.babyai.picture import drawing, picture
from agent_envs.envs.text_games.babyai.tasks import MIXED, BabyTask, baby_source
from agent_envs.envs.text_games.game import Action, Game, Moved, TextGame, paged

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
        """Return the task's world; `limit` replaces the level's own if it is not 0. UsageError for a task of another source."""
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
        """Apply an action by minigrid's rules; success pays 1 - 0.9 * steps / limit, other steps 0, at the limit, too."""
        world, status = play_action(state, action)
        won = status == SUCCESS
        return Moved(
            world,
            reward=1 - 0.9 * (world.steps / world.limit) if won else 0.0,
            progress=float(won),
            terminated=status != CONTINUE,
            success=won,
            truncated=world.steps >= world.limit,
        )


@paged
class BabyAI(TextGame):
    """Follow an instruction in a grid world of rooms, doors and things, seen in words."""

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
        examples: int = 0,
        thoughts: str = "skip",
        strict: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Set up the tasks and the reward; UsageError where arguments exclude each other. The class describes them."""
        self.render_mode = render_mode
        self.take_form(examples, thoughts, strict)
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
