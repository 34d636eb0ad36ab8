"""BabyAI's tasks are worlds made from seeds, in splits that share none."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from agent_envs.base.serialization import canonical_json, encode_state, state_type
from agent_envs.core.trajectory import Task
from agent_envs.envs.text_games.babyai.grid import BabyWorld
from agent_envs.envs.text_games.babyai.levels import KINDS, Level, local_level, named_level
from agent_envs.envs.text_games.babyai.mission import surface
from agent_envs.envs.text_games.babyai.planner import plan_or_none
from agent_envs.envs.text_games.seeded import Content, GameSource

MIXED = "mixed"
SEED_BITS = 32


@state_type
@dataclass(frozen=True, slots=True)
class BabyTask:
    """The data of a task: the name of its kind or level, and the world at the start."""

    level: str
    world: BabyWorld


class BabySource(GameSource):
    """Worlds of one or more levels: task number i is of level i modulo their number."""

    def __init__(self, name: str, levels: tuple[Level, ...]) -> None:
        """Take the levels; a mission that has no plan is drawn again."""
        # A few of minigrid's missions have no plan, such as those with a locked-in key.
        super().__init__(name, self._content, sound=lambda content: bool(plan_or_none(content.data.world)))
        self._levels = levels
        self.most_turns = max(level.most_turns() for level in levels)

    def _content(self, text: str) -> Content:
        """Return the world of a seed text, whose last part but one is the task's index, which picks the level."""
        level = self._levels[int(text.split("/")[-2]) % len(self._levels)]
        world = level.world(random.Random(text).getrandbits(SEED_BITS))
        pinned = canonical_json(encode_state(world))
        return Content(surface(world.instructions), pinned, data=BabyTask(level.name, world))


def baby_source(kind: str, level: str = "", distractors: int = 0) -> BabySource:
    """Return the tasks of a minigrid level if named, else of a kind (`mixed`: five by turns); UsageError or MissingExtra.

    Raises:
        MissingExtra: minigrid is not installed.
        UsageError: minigrid has no such level.
    """
    if level:
        official = named_level(level)
        return BabySource(f"babyai-{official.name}", (official,))
    kinds = KINDS if kind == MIXED else (kind,)
    name = f"babyai-{kind}-{distractors}" if distractors else f"babyai-{kind}"
    return BabySource(name, tuple(local_level(each, distractors) for each in kinds))


def labels_of(task: Task) -> Mapping[str, str]:
    """Return {"kind": ...} for one of the five kinds, {"level": ...} for a named level."""
    name = task.data.level
    return {"kind" if name in KINDS else "level": name}
