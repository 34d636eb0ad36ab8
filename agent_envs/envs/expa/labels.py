"""Reports group tasks by these labels, and give these metrics of an episode beside success."""

from agent_envs.base.protocol import Malformed
from agent_envs.core.trajectory import Task, Trajectory, Turn
from agent_envs.envs.expa.calculator.metrics import calculator_metrics
from agent_envs.envs.expa.generated import CalcData
from agent_envs.envs.expa.sorting.scoring import calls
from agent_envs.envs.expa.sorting.tasks import SortData
from agent_envs.envs.expa.sorting.tasks import labels as sorting_labels

_SAID_OF = {
    "arithmetic": "wording",
    "countdown": "target",
    "count": "wording",
}  # what `CalcData.wording` tells, by kind


def labels_of(task: Task) -> dict[str, str]:
    """Return a task's strata: kind and what its difficulty hangs on; for sorting also size, direction and least swaps."""
    if isinstance(task.data, SortData):
        return sorting_labels(task)
    data: CalcData = task.data
    if data.kind in _SAID_OF:
        return {"task": data.kind, f"{data.kind}: {_SAID_OF[data.kind]}": data.wording}
    return {"task": data.kind, "word problems: steps": str(data.size)}


def metrics_of(trajectory: Trajectory) -> dict[str, float]:
    """Return an episode's counts, alike on both faces: comparisons and swaps or calls, refused actions, characters written.

    - refused actions: turns without a legal or readable action, and calls that came back with an error.
    - response characters: what the policy wrote, tags included, and what its expanded actions appended, results left out.
    """
    assert trajectory.task is not None
    if isinstance(trajectory.task.data, SortData):
        counts = {"comparisons": float(calls(trajectory, "compare")), "swaps": float(calls(trajectory, "swap"))}
    else:
        counts = calculator_metrics(trajectory)
    return counts | {
        "refused actions": float(sum(map(_is_refused, trajectory.turns))),
        "response characters": float(sum(map(_characters, trajectory.turns))),
    }


def _is_refused(turn: Turn) -> bool:
    """Return whether a turn was malformed or one of its calls came to an error."""
    return isinstance(turn.parsed, Malformed) or any(result.error for result in turn.results)


def _characters(turn: Turn) -> int:
    """Count the characters of a turn: the policy's text, even if malformed, or what its action appended but for results."""
    if isinstance(turn.action, str):
        return len(turn.action)
    if isinstance(turn.parsed, Malformed):
        return 0
    appended = sum(len(message.content) for message in turn.observation)
    return appended - sum(len(result.content) for result in turn.results)
