"""Generated tasks share their data, the steps of their solver, and the sizes of their splits.

Calculator tasks are disjoint between splits by content: a task draws until its content fits its split. Within a split a
content may come twice, and does where a source is set so narrow that there are few.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agent_envs.base.serialization import state_type

# Table 3 of arXiv 2510.07581; it has no dev split: a tenth of test.
TABLE_3: Mapping[str, Mapping[str, int]] = {
    "train": {"arithmetic": 1000, "countdown": 20000, "gsm8k_scaled": 5317, "count": 1000},
    "dev": {"arithmetic": 200, "countdown": 200, "gsm8k_scaled": 58, "count": 200},
    "test": {"arithmetic": 2000, "countdown": 2000, "gsm8k_scaled": 579, "count": 2000},
}


@state_type
@dataclass(frozen=True, slots=True)
class CalcData:
    """The public content of a calculator task.

    Attributes:
        kind: arithmetic, countdown, count or gsm8k_scaled.
        given: the numbers that the question gives, as digits, in its order; also those that it writes in words.
        target: countdown: the number to reach, as text.
        wording: how the question is put, for strata: `symbols`, `number words`, `operator words`, `words`, ...
        size: operators, steps or digits, for strata.
    """

    kind: str
    given: tuple[str, ...]
    target: str = ""
    wording: str = ""
    size: int = 0


@state_type
@dataclass(frozen=True, slots=True)
class Derivation:
    """The solution of a calculator task, for its solver.

    Attributes:
        steps: expressions to give to the calculator, in order.
        answer: what to write behind `####`.
    """

    steps: tuple[str, ...]
    answer: str


def split_sizes(kind: str) -> dict[str, int]:
    """Return the number of tasks in each split of a kind."""
    return {split: sizes[kind] for split, sizes in TABLE_3.items()}
