"""Kept candidates as rows of a benchmark, with answers in their exact forms."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.qa_candidates import Candidate

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_ALONE = re.compile(r"(?<![\w/:.§-])(\d[\d,]*(?:\.\d+)?)(?![\w/:-])")
_PHRASE_WORDS = 3  # an answer of more words is compared by token F1


def benchmark_rows(
    library: Library, splits: Mapping[str, str], kept: Sequence[Candidate], removed: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row a question, in the order in which they were made.

    Args:
        library: what they were made from.
        splits: by section, its split.
        kept: the questions.
        removed: ids that are taken out of the library.
    """
    gone = {section.id for top in removed for section in library.below(top)}
    rows = []
    for candidate in kept:
        answerable = not gone & set(candidate.sections)
        answers, metric = _compared(candidate.answer) if answerable else ((), "abstain")
        first = library.read(candidate.sections[0])
        rows.append(
            {
                "id": f"qa-{candidate.place}",
                "split": splits[first.id],
                "kind": f"made-{len(candidate.sections)}",
                "question": candidate.question,
                "answers": list(answers),
                "metric": metric,
                "sections": [place for place in candidate.sections if place not in gone],
                "cluster": first.parent or first.id,
            }
        )
    return rows


def _compared(answer: str) -> tuple[tuple[str, ...], str]:
    """Return the accepted forms of an answer, a bare number first, and how it is compared."""
    alone = _ALONE.findall(answer)
    if len(alone) == 1 == len(_NUMBER.findall(answer)) and len(answer.split()) <= _PHRASE_WORDS:
        return tuple(dict.fromkeys((alone[0].replace(",", ""), answer))), "numeric"
    return (answer,), "f1" if len(answer.split()) > _PHRASE_WORDS else "em"
