"""A legal question carries a hidden scenario, and comes from a source that knows the library it is searched in."""

from dataclasses import dataclass
from typing import Protocol

from agent_envs.base.serialization import state_type
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.envs.legal_search.library import Library

ABSTAIN = "I don't know"
METRICS = ("em", "numeric", "f1", "abstain")


@state_type
@dataclass(frozen=True, slots=True)
class LegalStep:
    """One read of the solver.

    Attributes:
        query: keywords that find the section; "" where a section that was read before cites it by its id.
        section: the id to read; where the section is missing, the one above it, which shows that it is.
    """

    query: str
    section: str


@state_type
@dataclass(frozen=True, slots=True)
class LegalScenario:
    """The hidden part of a task, for the scorer, the solver and the oracle retriever alone.

    Attributes:
        gold_sections: the ids that must all be read, down to the paragraph; reading a section above shows them too. Of an
            unanswerable question those that are still there.
        answer_sections: the ids that prove the answer, all together; () for an unanswerable question.
        steps: the solver's reads in order.
        answerable: whether the library holds the answer.
        metric: how an answer is compared: "em", "numeric", "f1" or "abstain".
    """

    gold_sections: tuple[str, ...]
    answer_sections: tuple[str, ...]
    steps: tuple[LegalStep, ...]
    answerable: bool
    metric: str


class LegalSource(TaskSource, Protocol):
    """A task source that also knows which library a task is searched in.

    A task's data begins with its kind and ends with the digest of its library; its gold answers are exact forms of one
    answer, of which a numeric one begins with the bare number. An unanswerable one has `ABSTAIN` as its gold.
    """

    def library(self, task: Task) -> Library:
        """Return the library of a task."""
        ...
