"""Generated tasks share their data, the steps of their solver, and the sizes of their splits.

Calculator tasks are disjoint between splits by content: a task draws until its content fits its split. Within a split a
content may come twice, and does where a source is set so narrow that there are few.
"""

from dataclasses import dataclass

from agent_envs.base.arguments import whole_number
from agent_envs.base.serialization import state_type


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
    """What the solver of a calculator task may know.

    Attributes:
        steps: expressions to give to the calculator, in order.
        answer: what to write behind `####`.
    """

    steps: tuple[str, ...]
    answer: str


def split_sizes(source: str, train_size: int, test_size: int) -> dict[str, int]:
    """Return the sizes of the splits, dev a tenth of test."""
    train = whole_number(source, "train_size", train_size, 1, 10**9)
    test = whole_number(source, "test_size", test_size, 1, 10**9)
    return {"train": train, "dev": max(1, round(test / 10)), "test": test}
