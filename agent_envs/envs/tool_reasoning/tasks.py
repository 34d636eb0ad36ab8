"""The tasks of tool reasoning come from math_world, or from a published set by name or in a user's own file."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from agent_envs.base.arguments import choice
from agent_envs.base.caches import Uncopied
from agent_envs.base.documents import Corpus
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.datasets.catalogue import (
    find_problems,
    find_questions,
    load_corpus,
    load_questions,
    present_splits,
    problem_splits,
)
from agent_envs.datasets.corpora import FileCorpus
from agent_envs.datasets.published import DATASETS, MIXTURES
from agent_envs.datasets.readers import Question, read_questions
from agent_envs.datasets.reasoning_sets import REASONING_SETS, read_reasoning
from agent_envs.datasets.seeded import SPLITS
from agent_envs.datasets.world import WorldConfig
from agent_envs.envs.tool_reasoning.arguments import levels_of
from agent_envs.envs.tool_reasoning.content import ToolReasoningData, ToolReasoningScenario
from agent_envs.envs.tool_reasoning.math_world import Link, MathWorldSource

OUTSIDE = "outside"  # in place of a corpus's digest, where what is searched is not here
WORLD_KNOBS = ("passages", "distractors", "paraphrase", "vocabulary", "short")
TASKS = ("math_world", *REASONING_SETS, *DATASETS, *MIXTURES)


class ReasoningSource(TaskSource, Protocol):
    """A task source that also knows what its tasks are searched in."""

    answerable: bool

    def corpus(self, task: Task) -> Corpus | None:
        """Return the documents that a task is searched in; None where they are outside."""
        ...

    def links(self, task: Task, doc_id: str) -> tuple[Link, ...]:
        """Return the documents that a document leads to; raises KeyError where there is no such document."""
        ...


class FileSource(Uncopied):
    """A published set, or a user's file of one, over a corpus of passages or over what is outside (None)."""

    answerable = True

    def __init__(self, name: str, rows: dict[str, tuple[Question, ...]], corpus: FileCorpus | None) -> None:
        """Take the rows of each split, and the corpus, None where the documents are outside."""
        self.name, self.splits = name, tuple(rows)
        self._rows, self._corpus = rows, corpus
        self._places = {
            split: {row.id: place for place, row in enumerate(questions)} for split, questions in rows.items()
        }
        self._searched = OUTSIDE if corpus is None else corpus.digest
        content = [[row.id, row.text, list(row.answers)] for questions in rows.values() for row in questions]
        self.digest = digest([self._searched, content])

    def size(self, split: str) -> int:
        """Return the number of questions of a split."""
        return len(self._rows[split])

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index or id; KeyError where there is none. "?" is added but in sets of reasoning."""
        rows = self._rows[split]
        if isinstance(key, str):
            key = self._places[split][key]
        if isinstance(key, bool) or not 0 <= key < len(rows):
            raise KeyError(key)
        row = rows[key]
        labels = dict(row.labels)
        outside = self._corpus is None
        # As in Search QA: the question sets' own files end some questions without a mark.
        question = row.text if self.name in REASONING_SETS or row.text.endswith("?") else f"{row.text}?"
        return Task(
            id=row.id,
            split=split,
            question=question,
            gold=row.answers,
            cluster=row.id,
            data=ToolReasoningData(
                source=row.dataset,
                subject=labels.get("subject", ""),
                level=labels.get("level", ""),
                kind=labels.get("type", ""),
                searched=self._searched,
                start=labels.get("start", ""),
            ),
            hidden=ToolReasoningScenario(() if outside else (question,), row.support, answer=row.answers[0]),
        )

    def corpus(self, task: Task) -> Corpus | None:
        """Return the one corpus; None where it is outside."""
        return self._corpus

    def links(self, task: Task, doc_id: str) -> tuple[Link, ...]:
        """Return (), as passages of files have no links; KeyError for an unknown passage, or without a corpus."""
        if self._corpus is None:
            raise KeyError(doc_id)
        self._corpus.row(doc_id)
        return ()


def make_source(
    tasks: str = "math_world",
    *,
    needs: Sequence[str] = (),
    levels: Sequence[int | str] = (),
    corpus: str | None = "auto",
    path: str = "",
    world: Mapping[str, Any] | None = None,
) -> ReasoningSource:
    """Return the source of math_world or a published set; UsageError for arguments without meaning, DataMissing.

    Args:
        tasks: one of `TASKS`.
        needs: math_world: keep what needs python, search or both; none keeps all.
        levels: keep these levels: 1 to 5 in math_world and MATH, 1 to 3 in GAIA, easy, medium and hard elsewhere.
        corpus: what published sets are searched in: a name or path of the catalogue, or None for what is outside. `auto` is
            the catalogue's sample for the question sets of Search QA, and outside for all others.
        path: a file of the set, in place of the catalogue's; the only way for gaia, hle and xbench. It is one test split.
        world: math_world: what its worlds are like.

    Raises:
        DataMissing: the set or the corpus is not on this machine; the message says how to get it.
        UsageError: an unknown name, an argument that means nothing here, or a choice that leaves no task.
    """
    choice("ToolReasoning", "tasks", tasks, TASKS)
    levels = levels_of(levels)
    if tasks == "math_world":
        if path or corpus != "auto":
            raise UsageError("ToolReasoning: math_world has its own documents; leave corpus and path out")
        if world is not None and not (isinstance(world, Mapping) and set(world) <= set(WORLD_KNOBS)):
            raise UsageError(f"ToolReasoning: world={world!r}: give a mapping of some of {', '.join(WORLD_KNOBS)}")
        return MathWorldSource(needs=needs, levels=levels, world=WorldConfig(**(world or {})))
    if needs or world:
        name, value = ("needs", needs) if needs else ("world", world)
        raise UsageError(f"ToolReasoning: {name}={value!r} has no meaning with tasks={tasks!r}; leave it out")
    searched = None if corpus is None or (corpus == "auto" and tasks in REASONING_SETS) else load_corpus(corpus)
    return _file_source(tasks, searched, tuple(map(str, levels)), path, _files(tasks, path))


_State = tuple[tuple[str, str, int, int], ...]


def _files(tasks: str, path: str) -> _State:
    """Return (split, path, size, time of change) of a source's files, -1 for one that is gone; DataMissing for none.

    Raises DataMissing: there is none.
    """
    if path:
        places = [("test", Path(path).expanduser())]
    elif tasks in REASONING_SETS:
        # Where nothing is here, the search for the test split says what to do.
        places = [(split, find_problems(tasks, split)) for split in problem_splits(tasks) or ("test",)]
    else:
        members = MIXTURES[tasks].members if tasks in MIXTURES else (tasks,)
        places = [(split, find_questions(member, split)) for split in present_splits(tasks) for member in members]
    rows = []
    for split, file in places:
        state = file.stat() if file.is_file() else None
        rows.append((split, str(file.absolute()), state.st_size if state else -1, state.st_mtime_ns if state else -1))
    return tuple(rows)


@lru_cache(maxsize=16)
def _file_source(name: str, corpus: FileCorpus | None, levels: tuple[str, ...], path: str, files: _State) -> FileSource:
    """Make a source, cached by its files' state, with the rows of these levels (all if none); UsageError if none remain."""
    rows: dict[str, tuple[Question, ...]] = {}
    for split in dict.fromkeys(split for split, *_ in files):
        file = next(Path(place) for part, place, *_ in files if part == split)
        if name in REASONING_SETS:
            questions = read_reasoning(file, name, split).questions
        elif path:
            questions = read_questions(file, dataset=name, split=split)
        else:
            questions = load_questions(name, split)
        selection = tuple(row for row in questions if not levels or dict(row.labels).get("level", "") in levels)
        if selection:
            rows[split] = selection
    if not rows:
        raise UsageError(f"ToolReasoning: no task of {name} has a level of {', '.join(levels)}")
    return FileSource(name, {split: rows[split] for split in SPLITS if split in rows}, corpus)
