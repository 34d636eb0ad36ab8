"""Judges: is this answer right? `ExactJudge` needs nothing outside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_envs.answers import exact_match
from agent_envs.canonical import state_type
from agent_envs.external import CallSite


@state_type
@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's word, and the version of the judge that gave it."""

    correct: bool
    judge: str


class Judge(Protocol):
    """Decides whether an answer to a question matches the gold answers."""

    name: str

    def __call__(self, question: str, answer: str, golds: Sequence[str], site: CallSite) -> Verdict:
        """Return the verdict.

        Raises:
            EnvFault: an outside judge failed.
        """
        ...


class ExactJudge:
    """Exact match after normalisation."""

    name = "exact@1"

    def __call__(self, question: str, answer: str, golds: Sequence[str], site: CallSite) -> Verdict:
        """Return whether the answer equals a gold answer."""
        return Verdict(exact_match(answer, golds), self.name)
