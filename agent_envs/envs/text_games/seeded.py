"""Tasks that are made from seeds, with random access and splits that share no content."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zlib import crc32

from agent_envs.base.serialization import sha256_text
from agent_envs.base.errors import UsageError
from agent_envs.core.trajectory import Task

SPLITS = ("train", "dev", "test")
SIZES = {"train": 100_000, "dev": 500, "test": 500}
MAX_TRIES = 1_000
_MOST_DIGITS = 18  # of an index in an id


@dataclass(frozen=True, slots=True)
class Content:
    """What a seed makes.

    Attributes:
        question: the goal.
        text: the content as one text, for keeping splits apart; equal worlds have equal texts.
        data: what the game plays: the world, immutable. The policy sees what `describe` tells of it.
        hidden: a scenario that no rule reads while playing (the checker puts a canary there); the world lies in `data`.
        cluster: what is not independent of what: equal worlds by default, because "" stands for the text's checksum.
    """

    question: str
    text: str
    data: Any = ()
    hidden: Any = ()
    cluster: str = ""


class SeededSource:
    """A source of generated tasks with random access. Any index >= 0 is a task; an id is `NAME-SPLIT-INDEX`.

    A content belongs to one of three buckets by its checksum, one for each split; a task tries seed after seed until its
    content falls into its split's bucket.
    """

    splits = SPLITS
    digest = ""

    def __init__(
        self,
        name: str,
        make: Callable[[str], Content | None],
        sizes: Mapping[str, int] | None = None,
        *,
        sound: Callable[[Content], bool] = lambda content: True,
    ) -> None:
        """Take the source's name and how a content comes about.

        Args:
            name: of the source.
            make: makes the content of a seed text; None: this seed has none, try the next.
            sizes: tasks of each split.
            sound: whether a content of the right split makes a task: what is dear to ask, such as a proof that it can be won.
        """
        self.name, self._make, self._sound, self._sizes = name, make, sound, dict(sizes or SIZES)
        self._built = lru_cache(maxsize=256)(self._build)

    def size(self, split: str) -> int:
        """Return how many tasks a reset without `task` draws from; larger indices are tasks too."""
        return self._sizes[split]

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index >= 0 or by id.

        Raises:
            KeyError: an unknown split, a negative index, or an id that is not of this source and split.
        """
        if split not in self._sizes:
            raise KeyError(split)
        if not isinstance(key, str):
            if isinstance(key, bool) or not 0 <= key < 10**_MOST_DIGITS:
                raise KeyError("an index that is no task")
            return self._built(split, int(key))
        digits = key.removeprefix(f"{self.name}-{split}-")
        sound = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
        if not sound or key != f"{self.name}-{split}-{int(digits)}":
            raise KeyError(key)
        return self._built(split, int(digits))

    def _build(self, split: str, index: int) -> Task:
        for attempt in range(MAX_TRIES):
            content = self._make(f"{self.name}/{split}/{index}/{attempt}")
            fits = content is not None and crc32(content.text.encode()) % len(SPLITS) == SPLITS.index(split)
            if content is not None and fits and self._sound(content):
                task_id = f"{self.name}-{split}-{index}"
                cluster = content.cluster or sha256_text(content.text)[:16]
                return Task(task_id, split, content.question, (), cluster, content.data, content.hidden)
        raise UsageError(f"{self.name}: {MAX_TRIES} seeds gave no content for task {index} of {split}")
