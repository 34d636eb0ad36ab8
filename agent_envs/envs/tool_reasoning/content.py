"""A task of tool reasoning holds public labels, and a hidden scenario that solves it, for the solver and oracle search."""

from dataclasses import dataclass

from agent_envs.base.serialization import state_type
from agent_envs.core.trajectory import Task

NEEDS = ("python", "search", "both")


@state_type
@dataclass(frozen=True, slots=True)
class ToolReasoningData:
    """The public content of a task.

    Attributes:
        source: the name of the task's source: math_world, gsm8k, ...
        subject: algebra, number theory, ..., facts; of a published set what its file says, or "".
        level: "1" to "5" in math_world; of a published set what its file says, or "".
        needs: python, search or both; "" where it is not known.
        kind: which generator of math_world drew the task; of a published set the type that its file says, or "".
        steps: math_world's measure of difficulty: facts to look up, and steps of the calculation done by hand.
        world: the index of the world whose passages are searched, within the task's split; -1 for none.
        searched: the digest of the corpus, `outside` where what is searched lies elsewhere.
        start: WebWalkerQA: the address of the page where the way to the answer starts; "" elsewhere.
    """

    source: str
    subject: str = ""
    level: str = ""
    needs: str = ""
    kind: str = ""
    steps: int = 0
    world: int = -1
    searched: str = ""
    start: str = ""


@state_type
@dataclass(frozen=True, slots=True)
class ToolReasoningScenario:
    """An honest solution of a task: the searches in order, then the code, then the answer.

    Of a published set only the answer is known, the ids of supporting passages where its file names them, and the question
    as the one query where there is a corpus to search.

    Attributes:
        queries: what to search for, in order.
        support: ids of the passages that hold the facts; in math_world one for each query.
        found: math_world: for each query what its passage says.
        code: a program that prints the answer; "" where nothing is to be calculated.
        answer: the answer as text.
    """

    queries: tuple[str, ...] = ()
    support: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    code: str = ""
    answer: str = ""


def labels_of(task: Task) -> dict[str, str]:
    """Return a task's strata (source, subject, level, needs), empty ones left out; {} for another family's task."""
    data = task.data
    if not isinstance(data, ToolReasoningData):
        return {}
    rows = {"tasks": data.source, "subject": data.subject, "level": data.level, "needs": data.needs}
    return {name: value for name, value in rows.items() if value}
