"""`GameSource` makes the tasks of games from seeds, in splits that share no content."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import sha256_text
from agent_envs.core.trajectory import Task
from agent_envs.datasets.seeded import SeededSource, in_split

SIZES = {"train": 100_000, "dev": 500, "test": 500}
MAX_TRIES = 1_000


@dataclass(frozen=True, slots=True)
class Content:
    """The content that a seed makes.

    Attributes:
        text: the content as one text, for keeping splits apart; equal worlds have equal texts.
        data: what the game plays: the world, immutable. The policy sees what `describe` tells of it.
        hidden: a scenario that no rule reads while playing (the checker puts a canary there); the world lies in `data`.
    """

    question: str
    text: str
    data: Any = ()
    hidden: Any = ()


class GameSource(SeededSource[Task]):
    """Tasks with a content each: a task tries seed after seed until its content belongs to its split and is sound."""

    def __init__(
        self,
        name: str,
        make: Callable[[str], Content | None],
        *,
        sound: Callable[[Content], bool] = lambda content: True,
    ) -> None:
        """Take the source's name and how a content comes about.

        Args:
            name: of the source.
            make: makes the content of a seed text; None: this seed has none, try the next.
            sound: whether a content of the right split makes a task: what is dear to ask, such as a proof that it can be won.
        """
        super().__init__(name, SIZES, cache_size=256)
        self._make, self._sound = make, sound

    def build(self, split: str, index: int) -> Task:
        """Return the task of the first seed of an index with a sound content of the split; UsageError after MAX_TRIES."""
        for attempt in range(MAX_TRIES):
            content = self._make(f"{self.name}/{split}/{index}/{attempt}")
            if content is not None and in_split(split, content.text) and self._sound(content):
                task_id, cluster = (
                    self.task_id(split, index),
                    sha256_text(content.text)[:16],
                )  # equal worlds are one cluster
                return Task(task_id, split, content.question, (), cluster, content.data, content.hidden)
        raise UsageError(f"{self.name}: {MAX_TRIES} seeds gave no content for task {index} of {split}")
