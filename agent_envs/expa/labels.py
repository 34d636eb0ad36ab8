"""What reports tell beside success: strata of tasks, and counts of an episode."""

from agent_envs.expa.generated import CalcData
from agent_envs.expa.metrics import calculator_metrics
from agent_envs.expa.sort_scoring import calls
from agent_envs.expa.sorting_tasks import SortData
from agent_envs.expa.sorting_tasks import labels as sorting_labels
from agent_envs.trajectory import Task, Trajectory

_SAID_OF = {
    "arithmetic": "wording",
    "countdown": "target",
    "count": "wording",
}  # what `CalcData.wording` tells, by kind


def labels_of(task: Task) -> dict[str, str]:
    """Return the strata of a task: its kind, and what its difficulty hangs on; for sorting also direction and least swaps."""
    if isinstance(task.data, SortData):
        return sorting_labels(task)
    data: CalcData = task.data
    if data.kind in _SAID_OF:
        return {"task": data.kind, f"{data.kind}: {_SAID_OF[data.kind]}": data.wording}
    return {"task": data.kind, "word problems: steps": str(data.size)}


def metrics_of(trajectory: Trajectory) -> dict[str, float]:
    """Return the counts of an episode, the same on both faces."""
    assert trajectory.task is not None
    if not isinstance(trajectory.task.data, SortData):
        return calculator_metrics(trajectory)
    illegal = sum(any(event.startswith("illegal action") for event in turn.events) for turn in trajectory.turns)
    characters = sum(len(turn.action) if isinstance(turn.action, str) else 1 for turn in trajectory.turns)
    return {
        "comparisons": float(calls(trajectory, "compare")),
        "swaps": float(calls(trajectory, "swap")),
        "illegal actions": float(illegal),
        "response characters": float(characters),
    }
