"""Questions come from generated worlds of facts, or from published data sets over a corpus."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import Corpus
from agent_envs.base.serialization import digest, state_type
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.datasets.catalogue import load_corpus, load_questions, present_splits
from agent_envs.datasets.corpora import FileCorpus
from agent_envs.datasets.listing import data_paths
from agent_envs.datasets.readers import Question
from agent_envs.datasets.seeded import SPLITS, SeededWorlds
from agent_envs.datasets.world import World, WorldConfig, get_world

WORLDS, KEPT_TASKS = 32, 4_096
OUTSIDE = "outside"  # in place of a corpus's digest, where a server searches a corpus of its own


@state_type
@dataclass(frozen=True, slots=True)
class Scenario:
    """The hidden part of a task: the supporting passages, and a query for each hop."""

    support: tuple[str, ...]
    queries: tuple[str, ...]


class QuestionSource(TaskSource, Protocol):
    """A task source that also knows which corpus a task is searched in."""

    answerable: bool

    def corpus(self, task: Task) -> Corpus | None:
        """Return the corpus of a task; None where it is outside."""
        ...


class WorldSource(SeededWorlds[Task]):
    """Questions over generated worlds: unlimited, and disjoint between splits."""

    def __init__(self, config: WorldConfig, outside: bool = False) -> None:
        """Take the knobs of the worlds, and whether their passages are searched outside."""
        super().__init__("world", dict.fromkeys(SPLITS, WORLDS), config.questions_per_world)
        self.config, self._outside = config, outside
        self.answerable = not config.unanswerable

    def tasks(self, split: str, world: int) -> tuple[Task, ...]:
        """Return the tasks of a world, which are kept."""
        return _world_tasks(self.config, split, world, self._outside)

    def corpus(self, task: Task) -> Corpus | None:
        """Return the passages of the task's world; None where they are outside."""
        if self._outside:
            return None
        _, split, world, _ = task.data
        return get_world(self.config, split, world).corpus


@lru_cache(maxsize=64)
def _world_tasks(config: WorldConfig, split: str, index: int, outside: bool) -> tuple[Task, ...]:
    """Return the tasks of a generated world, cached; their data name the world's passages, or OUTSIDE if `outside`."""
    world: World = get_world(config, split, index)
    searched = OUTSIDE if outside else world.corpus.digest
    cluster = f"world-{split}-{index}"
    return tuple(
        Task(
            id=f"{cluster}-{item}",
            split=split,
            question=question.text,
            gold=question.answers,
            cluster=cluster,
            data=(f"{question.kind}-{question.hops}", split, index, searched),
            hidden=Scenario(question.support, tuple(step.query for step in question.steps)),
        )
        for item, question in enumerate(world.questions)
    )


class PublishedSource(Uncopied):
    """A published data set, or a file of one, over a corpus of passages or over one that is outside (None)."""

    answerable = True

    def __init__(self, name: str, corpus: FileCorpus | None) -> None:
        """Find the data set's splits on this machine; questions are loaded at the first use of their split.

        Raises DataMissing: it is not on this machine; the message names the places and the command that gets it.
        """
        self.name = name
        self.splits = present_splits(name)
        self._corpus = corpus
        self._searched = OUTSIDE if corpus is None else corpus.digest
        self._rows: dict[str, tuple[tuple[Question, ...], dict[str, int]]] = {}
        self._task = lru_cache(KEPT_TASKS)(self._build)  # with its digest

    @cached_property
    def digest(self) -> str:
        """sha256 over the corpus and all questions: the tasks' identity; cached."""
        rows = [[row.id, row.text, list(row.answers)] for split in self.splits for row in self._split(split)[0]]
        return digest([self._searched, rows])

    def size(self, split: str) -> int:
        """Return the number of questions of a split."""
        return len(self._split(split)[0])

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index or id; KeyError where there is none."""
        rows, index = self._split(split)
        return self._task(split, index[key] if isinstance(key, str) else _check_index(key, len(rows)))

    def _build(self, split: str, place: int) -> Task:
        """Return a row of a data set as a task, "?" added where it has none; the question is the solver's only query."""
        row = self._split(split)[0][place]
        labels = tuple((name, value) for name, value in row.labels)
        question = row.text if row.text.endswith("?") else f"{row.text}?"
        return Task(
            id=row.id,
            split=split,
            question=question,
            gold=row.answers,
            cluster=row.id,
            data=(row.dataset, self._searched, labels),
            hidden=Scenario(row.support, (question,)),
        )

    def corpus(self, task: Task) -> Corpus | None:
        """Return the one corpus; None where it is outside."""
        return self._corpus

    def _split(self, split: str) -> tuple[tuple[Question, ...], dict[str, int]]:
        """Return a split's questions, and each one's place by id, loaded at its first use and kept."""
        if split not in self._rows:
            rows = load_questions(self.name, split)
            self._rows[split] = (rows, {row.id: place for place, row in enumerate(rows)})
        return self._rows[split]


def _check_index(key: int, size: int) -> int:
    """Return an index within the size; KeyError for any other."""
    if not 0 <= key < size:
        raise KeyError(key)
    return key


def published(name: str, corpus: str | None) -> PublishedSource:
    """Return the source of a name, cached while its files stay unchanged; DataMissing where they, or the corpus, are absent.

    A corpus of None is outside: no passage is read here.

    Raises:
        DataMissing: the questions or the corpus are not on this machine.
        UsageError: an unknown name.
    """
    states = [(str(path.absolute()), path.stat()) for path in data_paths(name, "")]
    key = tuple((place, state.st_size, state.st_mtime_ns) for place, state in states)
    return _make_published(name, None if corpus is None else load_corpus(corpus), key)


@lru_cache(maxsize=16)
def _make_published(name: str, corpus: FileCorpus | None, files: tuple[tuple[str, int, int], ...]) -> PublishedSource:
    """Make a source once for each state of its files, which are an argument only to be part of the key."""
    return PublishedSource(name, corpus)
