"""Questions over libraries from files are checked row by row, and a source serves the rows as tasks."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property

from agent_envs.base.caches import Uncopied
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Task
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.tasks import ABSTAIN, METRICS, LegalScenario, LegalStep

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class LegalRow:
    """A question of a file.

    Attributes:
        id: unique in its split.
        kind: what its file calls it.
        answers: accepted answers; () for a question that the library does not answer.
        metric: "em", "numeric", "f1" or "abstain".
        sections: the ids that must all be read; of an unanswerable question those that are still there.
        cluster: rows of one cluster are not independent.
    """

    id: str
    split: str
    kind: str
    question: str
    answers: tuple[str, ...]
    metric: str
    sections: tuple[str, ...]
    cluster: str


class RowsSource(Uncopied):
    """Questions of files over one library. The gold sections prove the answer."""

    def __init__(self, name: str, library: Library, rows: Iterable[LegalRow], where: str) -> None:
        """Take the rows, in the order in which they are indexed.

        Raises UsageError: a row is not sound; the message names the file, the row and the field.
        """
        self.name = name
        self._library = library
        self._rows: dict[str, dict[str, LegalRow]] = {}
        for row in rows:
            _check(row, library, where)
            if row.id in self._rows.setdefault(row.split, {}):
                raise UsageError(f"{where}: the id {row.id!r} stands on two rows")
            self._rows[row.split][row.id] = row
        self.splits = tuple(split for split in SPLITS if split in self._rows)
        if not self.splits:
            raise UsageError(f"{where}: there is no question in it")
        self._order = {split: tuple(self._rows[split]) for split in self.splits}

    @cached_property
    def digest(self) -> str:
        """sha256 over the library and all rows: the tasks' identity; cached."""
        rows = [asdict(row) for split in self.splits for row in self._rows[split].values()]
        return digest([self._library.digest, rows])

    def size(self, split: str) -> int:
        """Return the number of questions of a split."""
        return len(self._order[split])

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index or id; KeyError where there is none (a question without answers has ABSTAIN as its gold)."""
        if isinstance(key, int) and not 0 <= key < len(self._order[split]):
            raise KeyError(key)
        row = self._rows[split][key if isinstance(key, str) else self._order[split][key]]
        return Task(
            id=row.id,
            split=split,
            question=row.question,
            gold=row.answers or (ABSTAIN,),
            cluster=row.cluster,
            data=(row.kind, self._library.digest),
            hidden=LegalScenario(
                gold_sections=row.sections,
                answer_sections=row.sections if row.answers else (),
                steps=tuple(
                    LegalStep(self._query(section, "" if place else row.question), section)
                    for place, section in enumerate(row.sections)
                ),
                answerable=row.metric != "abstain",
                metric=row.metric,
            ),
        )

    def library(self, task: Task) -> Library:
        """Return the one library."""
        return self._library

    def _query(self, section_id: str, question: str) -> str:
        """Return a section's number and heading (or its parent's) with the question; its first 12 words where all are empty."""
        section = self._library.read(section_id)
        heading = section.heading or (self._library.read(section.parent).heading if section.parent else "")
        return " ".join(part for part in (section.number, heading, question) if part) or " ".join(
            section.text.split()[:12]
        )


def _check(row: LegalRow, library: Library, where: str) -> None:
    """Raise UsageError for a question without text, of an unknown split, metric or section, or with answers unfit for it."""
    place = f"{where}: question {row.id!r}"
    if row.split not in SPLITS or row.metric not in METRICS:
        raise UsageError(f"{place}: split={row.split!r}, metric={row.metric!r}; there are {SPLITS} and {METRICS}")
    if not row.question:
        raise UsageError(f"{place} has no text")
    lost = [section for section in row.sections if section not in library.sections]
    if lost:
        raise UsageError(f"{place}: section {lost[0]!r} is not in the library {library.name}")
    if (row.metric == "abstain") != (not row.answers) or (row.answers and not row.sections):
        raise UsageError(f"{place}: answers and sections belong to every metric but 'abstain', which has no answers")
